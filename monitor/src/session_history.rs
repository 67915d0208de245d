//! History of a session in bounded memory: its last ten minutes by second, then by ten seconds, then by minute.
//!
//! Every number of a slot is the sum over its steps, so that slots add up: R² is that of all steps of a slot, a maximum is
//! exact, and percentiles are those of a histogram. Pages, snapshots and programs read the same slots.

use std::collections::VecDeque;
use std::sync::Arc;

use betz_base::error::{Error, Result};
use betz_runtime::stream::StepStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::expected::Fit;
use crate::frame::{BUCKETS, latency_bucket};
use crate::session_counts::{FlagCounts, Losses};
use crate::status::ArrivalToOutput;

/// Slots of one second, of ten seconds, and of a minute or more that are kept.
const KEPT: [usize; 3] = [600, 720, 1_440];
/// Length of the slots of each tier at the beginning, in seconds.
const LENGTHS: [i64; 3] = [1, 10, 60];
/// R² is that of the last so many seconds, or of a slot that is longer.
pub(crate) const R2_SECONDS: i64 = 30;
/// Version of the file of a history.
const FILE_VERSION: u32 = 1;
/// Outputs whose R² is kept.
const MOST_OUTPUTS: usize = 64;
/// Latest end of a slot of a file either way: some 30,000 years.
const FARTHEST: i64 = 1 << 40;
/// Channels that are listed as silent, or as noisy.
const MOST_LISTED: usize = 256;

/// Steps by the time that they took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LatencySum {
    /// Buckets with steps, ascending, and their counts.
    counts: Vec<(u8, u32)>,
    /// The longest step, exactly; 0 without steps.
    pub(crate) longest_ns: u32,
}

impl LatencySum {
    fn from_counts(counts: &[u32; BUCKETS], longest_ns: u32) -> Self {
        let used = counts.iter().enumerate().filter(|(_, n)| **n > 0);
        Self {
            counts: used.map(|(bucket, n)| (bucket as u8, *n)).collect(),
            longest_ns,
        }
    }

    fn merge(&mut self, other: &Self) {
        for &(bucket, n) in &other.counts {
            match self.counts.binary_search_by_key(&bucket, |c| c.0) {
                Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(n),
                Err(at) => self.counts.insert(at, (bucket, n)),
            }
        }
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    /// Upper end of the bucket in which this share of the steps is reached, in nanoseconds, but no more than the longest step;
    /// `None` without steps.
    fn percentile(&self, share: f64) -> Option<u32> {
        let all: u64 = self.counts.iter().map(|c| u64::from(c.1)).sum();
        let mut seen = 0;
        for &(bucket, n) in &self.counts {
            seen += u64::from(n);
            if seen as f64 >= share * all as f64 {
                let end = 64.0 * 2f64.powf((f64::from(bucket) + 1.0) / 4.0);
                return Some((end.min(f64::from(u32::MAX)) as u32).min(self.longest_ns));
            }
        }
        None
    }
}

/// State of the session at the end of a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Condition {
    /// Silent and noisy channels, ascending.
    pub(crate) silent: Vec<u32>,
    pub(crate) noisy: Vec<u32>,
    /// Number of masked channels.
    pub(crate) masked: u32,
    /// Fingerprint of the model that gives the estimates.
    pub(crate) model: u64,
}

/// Some seconds of a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Slot {
    /// Second of the session's clock at which the slot begins.
    pub(crate) at: i64,
    /// Its length in seconds.
    pub(crate) seconds: i64,
    pub(crate) steps: u64,
    pub(crate) spikes: u64,
    pub(crate) misses: u64,
    pub(crate) losses: Losses,
    #[serde(default)]
    pub(crate) flags: FlagCounts,
    pub(crate) computing: LatencySum,
    /// From arrival to output; of several seconds the greatest of each number.
    pub(crate) arrival: Option<ArrivalToOutput>,
    /// One per output.
    pub(crate) fits: Vec<Fit>,
    /// Of several seconds: the channels that were silent or noisy in any of them; mask and model of the last.
    #[serde(with = "condition")]
    pub(crate) condition: Arc<Condition>,
}

/// A condition in a file, which several slots share in memory.
mod condition {
    use super::{Arc, Condition, Deserialize, Serialize};

    pub(super) fn serialize<S: serde::Serializer>(
        of: &Arc<Condition>,
        to: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        (**of).serialize(to)
    }

    pub(super) fn deserialize<'d, D: serde::Deserializer<'d>>(
        from: D,
    ) -> Result<Arc<Condition>, D::Error> {
        Condition::deserialize(from).map(Arc::new)
    }
}

impl Slot {
    /// Adds the slot that follows.
    fn merge(&mut self, next: &Self) {
        self.seconds = next.at + next.seconds - self.at;
        self.steps = self.steps.saturating_add(next.steps);
        self.spikes = self.spikes.saturating_add(next.spikes);
        self.misses = self.misses.saturating_add(next.misses);
        self.losses.add(next.losses);
        self.flags.add(next.flags);
        self.computing.merge(&next.computing);
        self.arrival = match (self.arrival, next.arrival) {
            (Some(a), Some(b)) => Some(ArrivalToOutput {
                p50_us: a.p50_us.max(b.p50_us),
                p99_us: a.p99_us.max(b.p99_us),
                max_us: a.max_us.max(b.max_us),
            }),
            (a, b) => a.or(b),
        };
        self.fits
            .resize(self.fits.len().max(next.fits.len()), Fit::default());
        (self.fits.iter_mut().zip(&next.fits)).for_each(|(own, next)| own.merge(next));
        let (own, of) = (&self.condition, &next.condition);
        if own != of {
            let union = |a: &[u32], b: &[u32]| {
                let mut all = [a, b].concat();
                all.sort_unstable();
                all.dedup();
                all.truncate(MOST_LISTED);
                all
            };
            self.condition = Arc::new(Condition {
                silent: union(&own.silent, &of.silent),
                noisy: union(&own.noisy, &of.noisy),
                ..Condition::clone(of)
            });
        }
    }

    /// Number of the block of `length` seconds that the slot lies in.
    fn block(&self, length: i64) -> i64 {
        self.at.div_euclid(length)
    }
}

/// Slots of one length.
#[derive(Debug)]
struct Tier {
    length: i64,
    slots: VecDeque<Slot>,
}

impl Tier {
    /// Adds a slot to the block that it lies in.
    fn push(&mut self, slot: Slot) {
        let length = self.length;
        match self.slots.back_mut() {
            Some(last) if last.block(length) == slot.block(length) => last.merge(&slot),
            _ => self.slots.push_back(slot),
        }
    }
}

/// The second that is not over.
#[derive(Debug)]
struct OpenSecond {
    slot: Slot,
    latency: [u32; BUCKETS],
    longest_ns: u32,
    counts: Vec<u32>,
}

/// A second that is over, with the spikes of each channel.
pub(crate) struct ClosedSecond<'a> {
    pub(crate) at: i64,
    pub(crate) steps: u64,
    pub(crate) flags: FlagCounts,
    pub(crate) counts: &'a [u32],
}

/// A step, as the history takes it.
pub(crate) struct StepFacts<'a> {
    /// Second of the session's clock.
    pub(crate) second: i64,
    pub(crate) spikes: &'a [u32],
    /// Time that the step before took; 0 if it is not known.
    pub(crate) previous_latency_ns: u32,
    pub(crate) missed: bool,
    pub(crate) status: StepStatus,
    pub(crate) estimates: &'a [f32],
    /// Empty if it is not known.
    pub(crate) truth: &'a [f32],
    /// Totals of the session.
    pub(crate) losses: Losses,
}

/// History of a session.
#[derive(Debug)]
pub(crate) struct SessionHistory {
    outputs: usize,
    tiers: [Tier; 3],
    open: Option<OpenSecond>,
    channels: usize,
    /// Totals at the end of the second before.
    losses: Losses,
    condition: Arc<Condition>,
}

impl SessionHistory {
    pub(crate) fn new(channels: usize, outputs: usize) -> Self {
        let tier = |length| Tier {
            length,
            slots: VecDeque::new(),
        };
        Self {
            outputs: outputs.min(MOST_OUTPUTS),
            tiers: LENGTHS.map(tier),
            open: None,
            channels,
            losses: Losses::default(),
            condition: Arc::default(),
        }
    }

    /// Adds a step. The one before the first of a new second must have been followed by [`Self::close`].
    pub(crate) fn step(&mut self, step: &StepFacts<'_>) {
        let (channels, outputs) = (self.channels, self.outputs);
        let open = self.open.get_or_insert_with(|| OpenSecond {
            slot: Slot {
                at: step.second,
                seconds: 1,
                fits: vec![Fit::default(); outputs],
                ..Slot::default()
            },
            latency: [0; BUCKETS],
            longest_ns: 0,
            counts: vec![0; channels],
        });
        let slot = &mut open.slot;
        slot.steps += 1;
        slot.spikes += step.spikes.len() as u64;
        slot.misses += u64::from(step.missed);
        slot.losses = step.losses;
        slot.flags.add(FlagCounts::of(step.status));
        for &channel in step.spikes {
            if let Some(count) = open.counts.get_mut(channel as usize) {
                *count += 1;
            }
        }
        let ns = step.previous_latency_ns;
        if ns > 0 {
            open.latency[latency_bucket(ns)] += 1;
            open.longest_ns = open.longest_ns.max(ns);
        }
        add_fits(&mut slot.fits, step.truth, step.estimates);
    }

    /// The open second if `second` comes after it.
    pub(crate) fn over(&self, second: i64) -> Option<ClosedSecond<'_>> {
        let open = self.open.as_ref().filter(|open| open.slot.at < second)?;
        Some(ClosedSecond {
            at: open.slot.at,
            steps: open.slot.steps,
            flags: open.slot.flags,
            counts: &open.counts,
        })
    }

    /// Sets the condition in which the open second ends.
    pub(crate) fn condition(&mut self, [silent, noisy]: &[Vec<u32>; 2], masked: usize, model: u64) {
        let list = |all: &[u32]| all[..all.len().min(MOST_LISTED)].to_vec();
        let now = Condition {
            silent: list(silent),
            noisy: list(noisy),
            masked: u32::try_from(masked).unwrap_or(u32::MAX),
            model,
        };
        if *self.condition != now {
            self.condition = Arc::new(now);
        }
    }

    /// Stores the open second.
    pub(crate) fn close(&mut self) {
        let Some(OpenSecond {
            mut slot,
            latency,
            longest_ns,
            ..
        }) = self.open.take()
        else {
            return;
        };
        let totals = std::mem::replace(&mut self.losses, slot.losses);
        // A session that goes on from its last checkpoint makes some steps again.
        if slot.at < self.end() {
            return;
        }
        slot.losses = slot.losses.since(totals);
        slot.computing = LatencySum::from_counts(&latency, longest_ns);
        slot.condition = self.condition.clone();
        self.tiers[0].push(slot);
        self.shrink();
    }

    /// Moves what is too old for its tier into the next; slots of the last become longer.
    fn shrink(&mut self) {
        for (k, kept) in KEPT.into_iter().enumerate().take(2) {
            while self.tiers[k].slots.len() > kept {
                if let Some(old) = self.tiers[k].slots.pop_front() {
                    self.tiers[k + 1].push(old);
                }
            }
        }
        let last = &mut self.tiers[2];
        if last.slots.len() > KEPT[2] {
            last.length *= 2;
            for slot in std::mem::take(&mut last.slots) {
                last.push(slot);
            }
        }
    }

    /// Takes note of the time from arrival to output in the newest second.
    pub(crate) fn arrival(&mut self, of: ArrivalToOutput) {
        if let Some(open) = &mut self.open {
            open.slot.arrival = Some(of);
        }
    }

    /// Adds a true output that came after its step.
    pub(crate) fn label(&mut self, second: i64, truth: &[f32], estimates: &[f32]) {
        let open = self.open.as_mut().map(|open| &mut open.slot);
        let kept = self.tiers.iter_mut().flat_map(|tier| &mut tier.slots);
        let holds = |slot: &&mut Slot| slot.at <= second && second < slot.at + slot.seconds;
        if let Some(slot) = open.into_iter().chain(kept).find(holds) {
            add_fits(&mut slot.fits, truth, estimates);
        }
    }

    /// All slots that are over, the oldest first.
    pub(crate) fn slots(&self) -> impl DoubleEndedIterator<Item = &Slot> {
        self.tiers.iter().rev().flat_map(|tier| &tier.slots)
    }

    /// End of the newest second that is over, on the session's clock; 0 before the first.
    pub(crate) fn end(&self) -> i64 {
        self.slots()
            .next_back()
            .map_or(0, |slot| slot.at + slot.seconds)
    }

    /// Sums of each output over the last [`R2_SECONDS`] of `slots` (the newest first), or over the newest alone if it is longer.
    fn fits_of<'a>(&self, slots: impl Iterator<Item = &'a Slot>) -> Vec<Fit> {
        let mut fits = vec![Fit::default(); self.outputs];
        let mut end = None;
        for slot in slots {
            let end = *end.get_or_insert(slot.at + slot.seconds);
            if slot.at < end - R2_SECONDS && slot.at + slot.seconds < end {
                break;
            }
            (fits.iter_mut().zip(&slot.fits)).for_each(|(sum, own)| sum.merge(own));
        }
        fits
    }

    fn r2_of<'a>(&self, slots: impl Iterator<Item = &'a Slot>) -> Vec<Option<f64>> {
        self.fits_of(slots).iter().map(Fit::r2).collect()
    }

    /// Score of the last [`R2_SECONDS`], mean over the outputs that have one: R², or the share of training's variance that is
    /// explained if that is more. R² says nothing of a decoder while the true outputs hardly move. `variances` are
    /// training's, one per output; the others have R² alone.
    pub(crate) fn score(&self, variances: &[f64]) -> Option<f64> {
        let fits = self.fits_of(self.slots().rev());
        let scores = fits.iter().enumerate().filter_map(|(output, fit)| {
            let variance = variances.get(output).copied();
            let usual = variance.filter(|v| v.is_finite() && *v > 0.0);
            let explained = usual
                .zip(fit.rmse())
                .map(|(v, rmse)| 1.0 - rmse.powi(2) / v);
            [fit.r2(), explained].into_iter().flatten().reduce(f64::max)
        });
        let known: Vec<f64> = scores.collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }

    /// R² of each output over the last [`R2_SECONDS`].
    pub(crate) fn r2(&self) -> Vec<Option<f64>> {
        self.r2_of(self.slots().rev())
    }

    /// Number of steps with a true output in the last [`R2_SECONDS`].
    pub(crate) fn r2_steps(&self) -> u64 {
        let mut slots = self.slots().rev().peekable();
        let end = slots.peek().map_or(0, |newest| newest.at + newest.seconds);
        let rows = |slot: &Slot| slot.fits.iter().map(|fit| fit.rows).max().unwrap_or(0);
        slots
            .take_while(|slot| slot.at >= end - R2_SECONDS)
            .map(rows)
            .sum()
    }

    /// The newest second that is over, as JSON.
    pub(crate) fn newest(&self) -> Option<Value> {
        let slot = self.slots().next_back()?;
        Some(json_of(slot, &self.r2()))
    }

    /// All slots as JSON, the oldest first.
    pub(crate) fn json(&self) -> Value {
        let all: Vec<&Slot> = self.slots().collect();
        let slots =
            (0..all.len()).map(|k| json_of(all[k], &self.r2_of(all[..=k].iter().rev().copied())));
        json!({"r2_seconds": R2_SECONDS, "slots": slots.collect::<Vec<_>>()})
    }

    /// All slots for a file, with their sums.
    pub(crate) fn to_file(&self) -> Value {
        let slots: Vec<&Slot> = self.slots().collect();
        json!({"betz_session_history": FILE_VERSION, "outputs": self.outputs, "slots": slots})
    }

    /// Puts the slots of a file before those of this session, which goes on where the file ends.
    ///
    /// # Errors
    /// `Mismatch` for a file of another version, or of another number of outputs; `InvalidArgument` for one whose slots are not
    /// in order.
    pub(crate) fn restore(&mut self, file: &Value) -> Result<()> {
        let version = &file["betz_session_history"];
        if *version != FILE_VERSION || file["outputs"] != self.outputs {
            return Err(Error::mismatch(format!(
                "a session's history: expected version {FILE_VERSION} of {} outputs, got version {version} of {}",
                self.outputs, file["outputs"]
            )));
        }
        let slots: Vec<Slot> = serde_json::from_value(file["slots"].clone()).map_err(|e| {
            Error::argument(format!("a session's history: expected slots, got {e}"))
        })?;
        let ordered = |two: &[Slot]| two[0].at + two[0].seconds <= two[1].at;
        let shaped = |slot: &Slot| {
            (-FARTHEST..FARTHEST).contains(&slot.at)
                && (1..FARTHEST).contains(&slot.seconds)
                && slot.fits.len() <= self.outputs
        };
        if !slots.iter().all(shaped) || !slots.windows(2).all(ordered) {
            return Err(Error::argument(
                "a session's history: expected slots in the order of their time, got others",
            ));
        }
        let own: Vec<Slot> = self
            .tiers
            .iter_mut()
            .rev()
            .flat_map(|tier| tier.slots.drain(..))
            .collect();
        let end = own.first().map_or(i64::MAX, |slot| slot.at);
        let before = slots
            .into_iter()
            .filter(|slot| slot.at + slot.seconds <= end);
        let all: Vec<Slot> = before.chain(own).collect();
        // A slot is in no finer tier than a later one, so that tiers follow each other in time.
        let mut tiers: Vec<usize> = (all.iter())
            .map(|slot| LENGTHS.iter().rposition(|length| slot.seconds >= *length))
            .map(Option::unwrap_or_default)
            .collect();
        let mut coarsest = 0;
        for tier in tiers.iter_mut().rev() {
            coarsest = coarsest.max(*tier);
            *tier = coarsest;
        }
        for (tier, slot) in tiers.into_iter().zip(all) {
            self.tiers[tier].push(slot);
        }
        self.shrink();
        Ok(())
    }

    /// Bytes that the history takes, without the allocator's.
    pub(crate) fn bytes(&self) -> usize {
        let mut conditions: Vec<*const Condition> = Vec::new();
        let slots: usize = (self.slots())
            .map(|slot| {
                let condition = Arc::as_ptr(&slot.condition);
                let shared = conditions.last() == Some(&condition);
                conditions.push(condition);
                let lists = slot.condition.silent.capacity() + slot.condition.noisy.capacity();
                size_of::<Slot>()
                    + slot.computing.counts.capacity() * size_of::<(u8, u32)>()
                    + slot.fits.capacity() * size_of::<Fit>()
                    + if shared {
                        0
                    } else {
                        size_of::<Condition>() + lists * 4
                    }
            })
            .sum();
        size_of::<Self>() + slots + self.channels * 4
    }
}

/// Adds a step to the sums of its outputs, where both values are known.
fn add_fits(fits: &mut [Fit], truth: &[f32], estimates: &[f32]) {
    for (fit, (&truth, &estimate)) in fits.iter_mut().zip(truth.iter().zip(estimates)) {
        if truth.is_finite() && estimate.is_finite() {
            fit.add(truth, estimate);
        }
    }
}

fn json_of(slot: &Slot, r2: &[Option<f64>]) -> Value {
    let rounded = |v: &Option<f64>| v.map(|v| (v * 1e4).round() / 1e4);
    let latency = &slot.computing;
    let computing = latency.percentile(0.5).map(|p50| {
        json!({"p50_ns": p50, "p99_ns": latency.percentile(0.99), "longest_ns": latency.longest_ns})
    });
    let condition = &slot.condition;
    json!({
        "at": slot.at, "seconds": slot.seconds, "steps": slot.steps, "spikes": slot.spikes, "misses": slot.misses,
        "lost": slot.losses.dropped, "late": slot.losses.late, "unknown": slot.losses.unknown,
        "not_shown": slot.losses.not_shown, "flags": slot.flags, "computing": computing, "arrival": slot.arrival,
        "r2": r2.iter().map(rounded).collect::<Vec<_>>(),
        "silent": condition.silent, "noisy": condition.noisy, "masked": condition.masked,
        "model": format!("{:016x}", condition.model),
    })
}

#[cfg(test)]
#[path = "session_history_tests.rs"]
mod tests;
