//! From blocks to outputs: the part of a session that is a function of its input alone.
//!
//! A [`Pipeline`] never looks at a clock. Its outputs depend on the blocks and on the decisions that it is given
//! ([`Pipeline::step_stale`]), in their order; a replay that repeats both gives the same bits.

use betz_base::Result;
use betz_rigs::rig::{Block, Signal};
use betz_runtime::model::Decoder;
use betz_runtime::stream::{Session, StepStatus};

use crate::binner::Binner;
use crate::checkpoint::Checkpoint;
use crate::event::{Content, Event, StepInput};
use crate::front_end::FrontEnd;
use crate::grid::Alignment;
use crate::plan::{Feature, Plan, Sends};
use crate::record::Facts;
use crate::source::stated_channels;

/// A step that was made.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// Number of the step, from 0.
    pub number: u64,
    /// Device time of its end: the first row that is not in it.
    pub end: u64,
    /// Arrival of the block that completed it, in nanoseconds of the host's clock; 0 without data.
    pub host_ns: i64,
    /// Quality of the outputs.
    pub status: StepStatus,
    /// One value per output.
    pub values: &'a [f32],
}

/// Receiver of steps.
pub type Give<'g> = dyn FnMut(&Step<'_>) -> Result<()> + 'g;

/// Front end and session at work.
pub struct Pipeline {
    binner: Binner,
    decoder: SessionStage,
}

/// The session and its outputs.
struct SessionStage {
    session: Session,
    values: Vec<f32>,
}

impl Pipeline {
    /// A pipeline for `signal` and `model`, at rest; of `voltage`, or of features and spikes.
    ///
    /// # Errors
    /// `InvalidArgument` with file, line and key if the model does not fit the signal; the errors of the session.
    pub fn new(plan: &Plan, model: &Decoder, signal: &Signal, voltage: bool) -> Result<Self> {
        let binner = Binner::new(plan, signal, voltage, model.step_seconds())?;
        check_fit(plan, model, binner.channels(), voltage)?;
        let session = open_session(plan, model)?;
        let mut binner = binner;
        if let Some(blanking) = &model.limits().blanking {
            binner.set_means(&blanking.mean_counts);
        }
        Ok(Self {
            binner,
            decoder: SessionStage {
                values: vec![0.0; session.outputs()],
                session,
            },
        })
    }

    /// The pipeline of a checkpoint, whose model is `model`, in a recording of `facts`.
    ///
    /// # Errors
    /// As [`Pipeline::new`]; those of a state that does not fit.
    pub(crate) fn resume(
        plan: &Plan,
        model: &Decoder,
        facts: &Facts,
        from: &Checkpoint,
    ) -> Result<Self> {
        let mut pipeline = Self::new(plan, model, &facts.signal(), facts.voltage)?;
        pipeline.decoder.session.restore(&from.session)?;
        match (pipeline.binner).restore(plan, &from.head.binner, &from.fronts)? {
            0 => {}
            steps => pipeline.decoder.session.skip(steps),
        }
        Ok(pipeline)
    }

    /// Writes the state to `to`, whose room is used again; `resumed` is the number of times that the session went on after a kill,
    /// and `newest` the newest model that it was given. Returns how many bytes more a later state may have.
    ///
    /// # Errors
    /// The errors of [`Session::checkpoint_into`].
    pub(crate) fn checkpoint(
        &mut self,
        resumed: u64,
        newest: Option<u64>,
        to: &mut Checkpoint,
    ) -> Result<usize> {
        let session = &self.decoder.session;
        let model = session.model().decoder_fingerprint();
        let spare = (self.binner).state_into(&mut to.head.binner, &mut to.fronts)?;
        to.head.model = model;
        to.head.pending = newest.filter(|newest| *newest != model);
        to.head.resumed = resumed;
        to.session.resize(session.checkpoint_len(), 0);
        session.checkpoint_into(&mut to.session)?;
        Ok(spare)
    }

    /// The session, to attach taps and to swap models.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.decoder.session
    }

    /// Grid of steps, counts and front end.
    pub fn binner(&self) -> &Binner {
        &self.binner
    }

    /// Sets the noise of each channel, as an earlier session's [`Binner::noise`]; ends the calibration.
    ///
    /// # Errors
    /// As [`Binner::set_noise`].
    pub fn set_noise(&mut self, noise: &[f32]) -> Result<()> {
        self.binner.set_noise(noise)
    }

    /// Takes a block and gives the steps that it completes. Allocates only for rows that are longer than any before.
    ///
    /// # Errors
    /// `Mismatch` for a block of another kind, or of rows that are not whole; the errors of `give`.
    pub fn take(&mut self, block: &Block, give: &mut Give<'_>) -> Result<()> {
        let decoder = &mut self.decoder;
        self.binner
            .take(block, &mut |event| decoder.hear(event, give))
    }

    /// As [`Pipeline::take`], of any source.
    ///
    /// # Errors
    /// As [`Pipeline::take`], and those of [`Binner::take_from`].
    pub fn take_from(&mut self, source: usize, block: &Block, give: &mut Give<'_>) -> Result<()> {
        let decoder = &mut self.decoder;
        self.binner
            .take_from(source, block, &mut |event| decoder.hear(event, give))
    }

    /// Makes the front end of another source than the first, which has said what it sends.
    ///
    /// # Errors
    /// As [`Binner::add_source`].
    pub fn add_source(
        &mut self,
        plan: &Plan,
        source: usize,
        signal: &Signal,
        voltage: bool,
    ) -> Result<()> {
        self.binner.add_source(plan, source, signal, voltage)
    }

    /// Places the steps in the device time of another source than the first: a decision of whoever looks at the clocks.
    ///
    /// # Errors
    /// The errors of [`Binner::align`] and of `give`.
    pub fn align(&mut self, source: usize, at: &Alignment, give: &mut Give<'_>) -> Result<()> {
        let decoder = &mut self.decoder;
        self.binner
            .align(source, at, &mut |event| decoder.hear(event, give))
    }

    /// Leaves out the steps before `step`, because the decoder is slow: a decision of whoever looks at the clock. The step after
    /// them has [`StepStatus::DROPPED`].
    ///
    /// # Errors
    /// The errors of `give`.
    pub fn skip_behind(&mut self, step: u64, give: &mut Give<'_>) -> Result<()> {
        let decoder = &mut self.decoder;
        self.binner
            .skip_behind(step, &mut |event| decoder.hear(event, give))
    }

    /// Makes the first source's open step without data: a decision of whoever looks at the clock. Its rows that come later are
    /// late.
    ///
    /// # Errors
    /// The errors of `give`.
    pub fn step_stale(&mut self, give: &mut Give<'_>) -> Result<()> {
        let decoder = &mut self.decoder;
        self.binner
            .step_stale(&mut |event| decoder.hear(event, give))
    }
}

impl SessionStage {
    fn hear(&mut self, event: Event<'_>, give: &mut Give<'_>) -> Result<()> {
        match event {
            Event::Restart => self.session.reset(),
            Event::Skip(steps) => self.session.skip(steps),
            Event::Step(input) => return self.step(&input, give),
        }
        Ok(())
    }

    fn step(&mut self, input: &StepInput<'_>, give: &mut Give<'_>) -> Result<()> {
        let (session, values) = (&mut self.session, &mut self.values);
        match input.content {
            Content::Spikes(spikes) => session.step_spikes(spikes, values)?,
            Content::Counts(counts) => session.step_counts_f32(counts, values)?,
            Content::Features(features) => session.step_values(features, values)?,
            Content::Nothing => session.step_stale(values)?,
        }
        let flag = |set: bool, flag| if set { flag } else { StepStatus::OK };
        let missing =
            flag(input.dropped, StepStatus::DROPPED) | flag(input.partial, StepStatus::STALE);
        give(&Step {
            number: input.number,
            end: input.end,
            host_ns: input.host_ns,
            status: session.status() | missing,
            values,
        })
    }
}

/// The session of a plan. Needs no source, so that a wrong configuration is refused before one is opened.
///
/// # Errors
/// `InvalidArgument` with file, line and key for outputs that the session refuses; its other errors.
pub(crate) fn open_session(plan: &Plan, model: &Decoder) -> Result<Session> {
    Session::open(model, plan.session_config(model)?).map_err(|e| {
        let key = ["clamp", "slew", "hold", "deadline"]
            .into_iter()
            .find(|key| e.message().starts_with(key));
        match key {
            Some(key) => plan.refuse("outputs", key, e.message()).of_kind(e.kind()),
            None => e,
        }
    })
}

/// Refuses a model that does not fit what the plan states about its sources, whatever they will send.
///
/// # Errors
/// The errors of [`Pipeline::new`] for such a source, in the same words.
pub(crate) fn check_stated(plan: &Plan, model: &Decoder) -> Result<()> {
    let first = plan.source();
    let samples = first.form() == Sends::Samples;
    // A model of features that were made of voltage fits no other source.
    let of_voltage =
        FrontEnd::of_model(model)?.is_some_and(|front_end| front_end != FrontEnd::Source);
    if of_voltage {
        FrontEnd::check(plan, model, samples)?;
    }
    let units = samples && plan.voltage.feature == Feature::Units;
    let stated = match units {
        true => Some(plan.load_sorter()?.units().len()),
        false if samples => stated_channels(first),
        false => first.channels,
    };
    match stated {
        Some(channels) => check_channels(plan, model, channels + plan.other_channels(), units),
        None => Ok(()),
    }
}

/// Refuses a model that was trained on other features.
fn check_fit(plan: &Plan, model: &Decoder, channels: usize, voltage: bool) -> Result<()> {
    FrontEnd::check(plan, model, voltage)?;
    let units = voltage && plan.voltage.feature == Feature::Units;
    check_channels(plan, model, channels, units)
}

/// Refuses a model of another number of channels, or of `units`.
fn check_channels(plan: &Plan, model: &Decoder, channels: usize, units: bool) -> Result<()> {
    if model.channels() == channels {
        return Ok(());
    }
    if plan.records_only() {
        let message = format!(
            "expected the {channels} channels that the source sends, got {}",
            model.channels()
        );
        return Err(plan.refuse("source", "channels", message));
    }
    let what = match units {
        true => "units of the sorter".to_owned(),
        false if plan.source.len() > 1 => "channels of all sources".to_owned(),
        false => format!("channels of the source `{}`", plan.source().name),
    };
    Err(plan.refuse(
        "session",
        "model",
        format_args!(
            "expected a model of the {channels} {what}, got one of {}; train it on a recording of this rig (`betz record bins`)",
            model.channels()
        ),
    ))
}
