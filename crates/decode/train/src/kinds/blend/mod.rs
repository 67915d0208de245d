//! The blend: linear, lift, experts and recurrent side by side, each weighted by how it decodes what comes after its training.
//!
//! Bank, ridge and the configurations of lift and experts are those that cross-validation over the whole recording found;
//! everything else is fitted anew without what is held out ([`held`]). The weights follow from all estimates together
//! ([`stack`]); then the members that have a weight are trained on the whole.

mod held;
mod stack;

use super::gain::{self, Reference};
use super::latent_kinds::LatentKinds;
use super::others::record;
use super::{Comparison, Kind, KindOptions, KindScore};
use crate::device::Trained;
use crate::fit::checked;
use crate::options::TrainOptions;
use crate::recurrent::{self, has_trials};
use crate::retained;
use crate::validate::{self, BankChoice, BankSums, Study, spans};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{Phases, Progress, Quiet};
use betz_device::Device;
use betz_gram::gram::paired_steps;
use betz_recording::DatasetView;
use betz_runtime::model::{BlendMember, Decoder, DecoderParts, Head, ModelBlend, TrainingRecord};
use held::HeldOutParts;

/// Members in the order in which a blend has them. The first one's features also estimate the variance.
const ORDER: [Kind; 4] = [Kind::Lift, Kind::Experts, Kind::Linear, Kind::Recurrent];

/// Shares of the time that held-out estimates take: of networks, and of everything else.
const NETWORKS: u64 = 8;
const OTHERS: u64 = 2;

/// Data and options of a blend's training, with the linear kind's choices.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) device: &'a Device,
    pub(super) data: &'a DatasetView<'a>,
    pub(super) options: &'a TrainOptions,
    pub(super) found: &'a BankChoice,
    pub(super) kinds: &'a KindOptions,
}

/// A member with its estimates of everything that is held out.
struct Candidate {
    kind: Kind,
    /// (steps, outputs); NaN elsewhere.
    estimates: Vec<f32>,
    configuration: String,
    multiply_adds: f64,
}

/// Trains the blend of the requested kinds. `by_folds` are the scores of the linear kind, and of `latents`, over the folds that
/// their configurations were chosen on. Returns a sentence on a member that could not take part, too.
///
/// # Errors
/// Returns the errors of training the members, and of [`HeldOutParts::new`].
pub(super) fn train(
    task: Task<'_>,
    latents: Option<&LatentKinds<'_>>,
    by_folds: &[KindScore],
    [comparing, finishing]: [&dyn Progress; 2],
) -> Result<(Trained, Comparison)> {
    let Task {
        data,
        options,
        found,
        kinds,
        ..
    } = task;
    let bank = std::slice::from_ref(&found.validation.bank);
    let (_, history) = spans(bank, data.step_seconds, options.delay_steps);
    let held = HeldOutParts::new(data.segments, has_trials(data), (history, kinds.seed))?;
    let mut phases = Phases::new(comparing, "training", NETWORKS + OTHERS);
    let others = &phases.next(OTHERS);
    let mut candidates = candidates(task, &held, latents, by_folds, others)?;
    let networks = &phases.next(NETWORKS);
    let mut left_out = None;
    let recurrent = match recurrent_candidate(task, &held, networks) {
        Ok(made) => made,
        // The others need no networks.
        Err(e) if matches!(e.kind(), ErrorKind::NonFinite | ErrorKind::InsufficientData) => {
            left_out = Some(format!("recurrent is left out: {}", e.message()));
            None
        }
        Err(e) => return Err(e),
    };
    let (entrant, mut whole) = match recurrent {
        Some((entrant, whole, candidate)) => {
            candidates.push(candidate);
            (Some(entrant), whole)
        }
        None => (None, None),
    };
    let listed: Vec<Kind> = candidates.iter().map(|c| c.kind).collect();
    let prior = stack::priors(&listed);
    let weights = match (kinds.single, held_out_products(task, &held, &candidates)) {
        (false, Some(products)) => stack::weights(&products, &prior),
        (false, None) => prior,
        (true, Some(products)) => stack::best(&products, listed.len()),
        (true, None) => (listed.iter())
            .map(|kind| f64::from(u8::from(*kind == Kind::Linear)))
            .collect(),
    };
    let (mut scores, mut held_out) = scores(task, &held, &candidates, &weights)?;
    if kinds.single {
        // There is no blend to score.
        scores.pop();
        held_out.clear();
    }
    let mut comparison = Comparison {
        taken: Kind::Blend,
        kinds: scores,
        artefacts: 0,
        stopped: None,
        left_out,
        held_out,
    };
    let mut members = Vec::new();
    for kind in ORDER {
        let weight = (listed.iter().zip(&weights)).find(|(listed, _)| **listed == kind);
        let Some((_, &weight)) = weight.filter(|(_, weight)| **weight > 0.0) else {
            continue;
        };
        let decoder = match (kind, latents, &entrant) {
            (Kind::Lift | Kind::Experts, Some(latents), _) => {
                latents.decoder(kind, Vec::new(), finishing)?
            }
            (Kind::Recurrent, _, Some(entrant)) => {
                let (decoder, stopped) = match whole.take() {
                    Some(whole) => whole?,
                    None => {
                        let record = record(data, held.folds.len(), Vec::new());
                        entrant.whole(data, options, record, finishing)?
                    }
                };
                comparison.stopped = stopped;
                Some(decoder)
            }
            _ => Some(validate::finish(data, options, found, finishing)?.decoder),
        };
        members.extend(decoder.map(|decoder| (kind, BlendMember { weight, decoder })));
    }
    if let [(kind, _)] = members[..] {
        comparison.taken = kind;
    }
    let of_taken = comparison
        .kinds
        .iter()
        .find(|score| score.kind == comparison.taken);
    let record = TrainingRecord {
        folds: held.folds.len() as u32,
        scores: of_taken.map_or_else(Vec::new, |score| score.scores.clone()),
        ..TrainingRecord::default()
    };
    let members: Vec<BlendMember> = members.into_iter().map(|(_, member)| member).collect();
    check_retained(&members, options.retain)?;
    Ok((found.trained(joined(members, record)?), comparison))
}

/// Refuses sums of several members that take more than `most` bytes together.
fn check_retained(members: &[BlendMember], most: Option<usize>) -> Result<()> {
    let sums = members
        .iter()
        .filter_map(|member| member.decoder.attachment(retained::TAG));
    let bytes: usize = sums.map(<[u8]>::len).sum();
    match most {
        Some(most) if bytes > most => Err(Error::argument(format!(
            "retained sums: expected those of all members to take at most {most} bytes, got {bytes}; retain more, or use fewer filters"
        ))),
        _ => Ok(()),
    }
}

/// One decoder of `members`, with the folds and scores of `record`.
fn joined(members: Vec<BlendMember>, record: TrainingRecord) -> Result<Decoder> {
    let mut members = members.into_iter();
    let Some(first) = members.next() else {
        return Err(Error::argument("blend: expected a member, got none"));
    };
    let parts = first.decoder.into_parts();
    let others: Vec<BlendMember> = members.collect();
    let head = match others.is_empty() {
        true => parts.head,
        false => Head::ModelBlend(ModelBlend {
            own: Box::new(parts.head),
            weight: first.weight,
            members: others,
        }),
    };
    checked(DecoderParts {
        head,
        training: TrainingRecord {
            folds: record.folds,
            scores: record.scores,
            ..parts.training
        },
        ..parts
    })
}

/// The linear member, and those behind its latents.
fn candidates(
    task: Task<'_>,
    held: &HeldOutParts,
    latents: Option<&LatentKinds<'_>>,
    by_folds: &[KindScore],
    progress: &dyn Progress,
) -> Result<Vec<Candidate>> {
    let Task {
        data,
        options,
        found,
        kinds,
        ..
    } = task;
    let size = data.steps * data.outputs.len();
    let mut all: Vec<(Kind, Vec<f32>)> = (by_folds.iter())
        .filter(|score| score.kind == Kind::Linear || kinds.kinds.contains(&score.kind))
        .map(|score| (score.kind, vec![f32::NAN; size]))
        .collect();
    let mut phases = Phases::new(progress, "training", held.folds.len() as u64);
    for folds in &held.folds {
        let progress = &phases.next(1);
        let study = Study {
            placement: &found.placement,
            data: *data,
            options,
            search_ridge: true,
            progress,
        };
        let of = (&found.validation.bank, found.bank.rotation.as_ref());
        let mut sums = BankSums::new(&study, of, found.bank.own_paths(), folds, &|_| {})?;
        sums.best = found.bank.best;
        merge(
            &mut all,
            Kind::Linear,
            &sums.decode_first(&study, folds, 1)?,
        );
        if let Some(latents) = latents {
            for (kind, estimates) in latents.held_out_parts(folds, progress)? {
                merge(&mut all, kind, &estimates);
            }
        }
    }
    let candidate = |(kind, estimates): (Kind, Vec<f32>)| {
        let score = by_folds.iter().find(|score| score.kind == kind);
        Candidate {
            kind,
            estimates,
            configuration: score.map_or_else(String::new, |score| score.configuration.clone()),
            multiply_adds: score.map_or(f64::NAN, |score| score.multiply_adds),
        }
    };
    Ok(all.into_iter().map(candidate).collect())
}

/// Takes the estimates of one more fold over.
fn merge(all: &mut [(Kind, Vec<f32>)], kind: Kind, more: &[f32]) {
    for (_, estimates) in all.iter_mut().filter(|(listed, _)| *listed == kind) {
        for (to, estimate) in estimates.iter_mut().zip(more) {
            if !estimate.is_nan() {
                *to = *estimate;
            }
        }
    }
}

/// A recurrent decoder of the whole recording; a sentence if its training was stopped.
type WholeRecurrent = Result<(Decoder, Option<String>)>;

/// The recurrent member, if it is requested, with the decoder of the whole recording if it is trained already.
fn recurrent_candidate(
    task: Task<'_>,
    held: &HeldOutParts,
    progress: &dyn Progress,
) -> Result<Option<(recurrent::Entrant, Option<WholeRecurrent>, Candidate)>> {
    let Task {
        device,
        data,
        options,
        kinds,
        ..
    } = task;
    if !kinds.kinds.contains(&Kind::Recurrent) {
        return Ok(None);
    }
    let entrant = recurrent::Entrant::unscored(device, data, options, (kinds, held.folds.len()))?;
    let count = held.folds.len();
    let estimate = || entrant.held_out_each(data, options, &held.folds, progress);
    // Networks of the whole recording hardly ever have no weight. Where threads are left over, they begin with the others.
    let (estimates, whole) = match rayon::current_num_threads() > count * entrant.networks() {
        true => {
            let (estimates, whole) = rayon::join(estimate, || {
                entrant.whole(
                    data,
                    options,
                    record(data, count, Vec::new()),
                    &Quiet(progress),
                )
            });
            // An error is one only if the networks have a weight.
            (estimates?, Some(whole))
        }
        false => (estimate()?, None),
    };
    let spikes = data.events_in_segments() as f64 / data.steps_in_segments().max(1) as f64;
    let candidate = Candidate {
        kind: Kind::Recurrent,
        estimates,
        configuration: entrant.configuration(),
        multiply_adds: entrant.multiply_adds(spikes, data.outputs.len()),
    };
    Ok(Some((entrant, whole, candidate)))
}

/// Products of the members' errors on everything that is held out; `None` if no output changes there.
fn held_out_products(
    task: Task<'_>,
    held: &HeldOutParts,
    candidates: &[Candidate],
) -> Option<Vec<f64>> {
    let (data, delay) = (task.data, task.options.delay_steps);
    let m = data.outputs.len();
    let mut truth = Vec::new();
    let mut estimates = vec![Vec::new(); candidates.len()];
    for segment in held.segments() {
        let Some((first, stop)) = paired_steps(&segment, delay) else {
            continue;
        };
        for step in first..stop {
            let labels = &data.behavior[(step - delay) as usize * m..][..m];
            let of = |c: &Candidate| c.estimates[step as usize * m..][..m].to_vec();
            let rows: Vec<Vec<f32>> = candidates.iter().map(of).collect();
            if !rows.iter().flatten().chain(labels).all(|v| v.is_finite()) {
                continue;
            }
            truth.extend(labels.iter().map(|&v| f64::from(v)));
            for (all, row) in estimates.iter_mut().zip(rows) {
                all.extend(row.into_iter().map(f64::from));
            }
        }
    }
    stack::error_products(&estimates, &truth, m)
}

/// Scores of the members and of the blend on everything that is held out, and what the blend estimates there.
fn scores(
    task: Task<'_>,
    held: &HeldOutParts,
    candidates: &[Candidate],
    weights: &[f64],
) -> Result<(Vec<KindScore>, Vec<f32>)> {
    let Task { data, options, .. } = task;
    let folds = held.held();
    let linear = candidates.iter().find(|c| c.kind == Kind::Linear);
    let reference = Reference {
        data,
        options,
        folds: &folds,
        linear: linear.map_or(&[][..], |c| &c.estimates),
    };
    let mut blended = vec![0.0_f64; data.steps * data.outputs.len()];
    let mut scores = Vec::new();
    let mut parts = Vec::new();
    let mut multiply_adds = 0.0;
    for (candidate, &weight) in candidates.iter().zip(weights) {
        scores.push(KindScore {
            weight: Some(weight),
            ..gain::score(
                &reference,
                candidate.kind,
                candidate.configuration.clone(),
                &candidate.estimates,
                candidate.multiply_adds,
            )?
        });
        if weight > 0.0 {
            parts.push(format!("{weight:.2} {}", candidate.kind.name()));
            multiply_adds += candidate.multiply_adds;
            for (sum, estimate) in blended.iter_mut().zip(&candidate.estimates) {
                *sum += weight * f64::from(*estimate);
            }
        }
    }
    let blended: Vec<f32> = blended.into_iter().map(|v| v as f32).collect();
    let configuration = format!("{}; {}", parts.join(" + "), held.description);
    let of_blend = (Kind::Blend, configuration);
    scores.push(gain::score(
        &reference,
        of_blend.0,
        of_blend.1,
        &blended,
        multiply_adds,
    )?);
    Ok((scores, blended))
}

#[cfg(test)]
mod tests;
