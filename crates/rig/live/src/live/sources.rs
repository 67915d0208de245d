//! The sources of a session at work: their threads, clocks and labels.

use betz_base::{Error, ErrorKind, Result};
use betz_rigs::rig::notes::NoteContent;
use betz_rigs::rig::{Block, LineEdge, Rig, Samples, Signal, host_ns};
use betz_runtime::model::Decoder;

use super::{Live, Output};
use crate::clock::Clock;
use crate::ear::Ear;
use crate::event::{BinnerCounts, Content, Event};
use crate::grid::Alignment;
use crate::health::SourceHealth;
use crate::lane::Lane;
use crate::pace::Pace;
use crate::pipeline::{Give, Pipeline};
use crate::plan::{Gives, Plan};
use crate::record::{Facts, VERSIONS, unix_seconds};
use crate::scheduling::ThreadPlace;

/// Largest change of a step's begin in the device time of a source that is left as it is, in seconds.
const NEAR: f64 = 50e-6;
/// Share of the longest block that is left after the next one, and the longest one that is remembered, in seconds.
const FADING: f64 = 0.99;
const LONGEST_BLOCK: f64 = 0.1;
/// Longest block that is expected before the source has shown its own, in seconds: Open Ephys gathers 10 to 23 ms.
const FIRST_BLOCK: f64 = 0.025;
/// Blocks of another source that are taken at once: the first source does not wait longer.
const AT_ONCE: usize = 64;

/// A source, and what is known of its clock.
pub(super) struct LiveSource {
    pub(super) ear: Ear,
    /// The source's clock; device times count from the first row of the epoch.
    pub(super) clock: Clock,
    /// The rate at which its rows pass.
    pub(super) pace: Pace,
    origin: Option<(u32, u64)>,
    /// End of the newest row of the epoch.
    newest: u64,
    /// Arrival of the newest block.
    pub(super) heard_ns: Option<i64>,
    /// Time at which the block after the newest one is due, if the source sends as before.
    pub(super) next_ns: i64,
    /// Length of the longest block of late, in seconds: those of some applications differ.
    longest: f64,
    /// Added to the epochs of the source, which counts its own from 0 in each process.
    pub(super) first_epoch: u32,
    /// True once the session knows what it sends.
    is_added: bool,
    /// The error that ended it.
    pub(super) failed: Option<Error>,
    /// Front end of a source of labels.
    labels: Option<Lane>,
    /// A change of a digital line of an epoch that has not begun, and the number of those that were taken.
    pub(super) edge: Option<LineEdge>,
    pub(super) edges: u64,
}

impl LiveSource {
    /// Starts the source of a plan with this number: its thread, unless it is read in the loop.
    ///
    /// # Errors
    /// `Io` if the system cannot start the thread.
    pub(super) fn start(rig: Box<dyn Rig>, plan: &Plan, number: usize) -> Result<Self> {
        let source = &plan.source[number];
        Ok(Self {
            ear: match source.inline {
                true => Ear::inline(rig),
                false => Ear::start(rig, ThreadPlace::of_source(plan, number))?,
            },
            clock: Clock::new(source.path.seconds()),
            pace: Pace::default(),
            origin: None,
            newest: 0,
            heard_ns: None,
            next_ns: 0,
            longest: FIRST_BLOCK,
            first_epoch: 0,
            is_added: false,
            failed: None,
            labels: None,
            edge: None,
            edges: 0,
        })
    }

    /// Epoch of the newest block; `None` before the first.
    pub(super) fn epoch(&self) -> Option<u32> {
        self.origin.map(|(epoch, _)| epoch)
    }

    /// Takes note of a block's time and arrival.
    pub(super) fn hear(&mut self, block: &Block) {
        let is_first = self.origin.is_none_or(|(epoch, _)| epoch != block.epoch);
        if is_first {
            if self.origin.is_some() {
                self.clock.restart();
                self.pace.restart();
            }
            self.origin = Some((block.epoch, block.first));
        }
        self.heard_ns = Some(block.host_ns);
        // The last row of a block arrives with it. Rows that were overtaken say nothing of the clock.
        let last = block.first + block.rows as u64;
        if last < self.newest && !is_first {
            return;
        }
        self.newest = last;
        let length = block.rows as f64 / self.ear.rate();
        self.longest = length.max((FADING * self.longest).min(LONGEST_BLOCK));
        self.next_ns = block.host_ns.saturating_add((self.longest * 1e9) as i64);
        let device = self.device_seconds(last);
        let host = block.host_ns as f64 * 1e-9;
        self.clock.add(device, host);
        self.pace.add(device, length, host);
        while let Some(probe) = self.ear.take_probe() {
            let device = self.device_seconds(probe.device);
            let (asked, answered) = (
                probe.asked_ns as f64 * 1e-9,
                probe.answered_ns as f64 * 1e-9,
            );
            self.clock.add_probe(device, asked, answered);
        }
    }

    /// Device time in seconds since the first row of the epoch.
    pub(super) fn device_seconds(&self, row: u64) -> f64 {
        let origin = self.origin.map_or(0, |(_, first)| first);
        (row as f64 - origin as f64) / self.ear.rate()
    }

    /// Rows per second as they pass, if they are other than the source says.
    pub(super) fn measured_rate(&self) -> Option<f64> {
        Some(self.pace.wrong_ratio()? * self.ear.rate())
    }

    /// The row of a host time.
    pub(super) fn row(&self, host: f64) -> f64 {
        let origin = self.origin.map_or(0, |(_, first)| first) as f64;
        origin + self.clock.device(host) * self.ear.rate()
    }

    /// Facts about the signal, with what the plan knows and the source does not say.
    ///
    /// # Errors
    /// `Internal` if it has sent a block without any.
    pub(super) fn signal(&mut self, plan: &Plan, source: usize) -> Result<Signal> {
        let signal = self.ear.signal().ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "the source has sent a block and no facts about it",
            )
        })?;
        Ok(Signal {
            microvolts: signal.microvolts.or(plan.source[source].microvolts),
            ..signal
        })
    }
}

impl Live {
    /// Takes what the sources beside the first have sent before its next block. A source that fails is silent from then on.
    pub(super) fn take_others(&mut self, each: &mut Give<'_>) -> Result<()> {
        for at in 0..self.others.len() {
            for _ in 0..AT_ONCE {
                let other = &mut self.others[at];
                let first = self.first.ear.peek().map(|block| block.host_ns);
                let next = other.ear.peek().map(|block| block.host_ns);
                if let (Some(first), Some(next)) = (first, next)
                    && first < next
                {
                    break;
                }
                let Some(mut block) = other.ear.take() else {
                    if let Err(error) = other.ear.is_over() {
                        other.failed = Some(error);
                    }
                    break;
                };
                block.epoch = block.epoch.wrapping_add(other.first_epoch);
                let done = self.take_other(at, &block, each);
                self.others[at].ear.give_back(block);
                done?;
            }
        }
        Ok(())
    }

    /// Takes a block of the source `at + 1` of the plan.
    fn take_other(&mut self, at: usize, block: &Block, each: &mut Give<'_>) -> Result<()> {
        let (source, other) = (at + 1, &mut self.others[at]);
        if !other.is_added {
            // It is needed for its times.
            other.ear.signal();
        }
        other.hear(block);
        // The first source's clock makes the steps: before them there is nothing to do.
        if (self.pipeline.as_ref()).is_none_or(|p| p.binner().open_step().is_none()) {
            return Ok(());
        }
        if !self.others[at].is_added {
            self.add_source(at, matches!(block.samples, Samples::Voltage(_)))?;
        }
        if self.plan.source[source].gives == Gives::Lines {
            // Its rows place the changes of its lines, also in an export.
            if let Some(recorder) = &mut self.recorder {
                recorder.block(source, block);
            }
            return Ok(());
        }
        let place = self.alignment(at, block.epoch);
        if self.others[at].labels.is_some() {
            return self.take_labels(at, place.as_ref(), block);
        }
        let Some(pipeline) = &mut self.pipeline else {
            return Ok(());
        };
        // Before its first alignment it is not known which steps its rows belong to.
        if place.is_none() && pipeline.binner().epoch(source) != Some(block.epoch) {
            return Ok(());
        }
        let mut out = Output {
            sinks: &mut self.sinks,
            recorder: self.recorder.as_mut(),
            latency: &mut self.latency,
            startup: &mut self.startup,
            score: &mut self.score,
            learner: self.learner.as_mut(),
            stamp: None,
        };
        if let Some(place) = &place {
            if let Some(recorder) = &mut out.recorder {
                recorder.align(source, place, host_ns());
            }
            pipeline.align(source, place, &mut |step| out.give(step, each))?;
        }
        if let Some(recorder) = &mut out.recorder {
            recorder.block(source, block);
        }
        pipeline.take_from(source, block, &mut |step| out.give(step, each))
    }

    /// Makes the front end of a source that has sent its first block.
    fn add_source(&mut self, at: usize, voltage: bool) -> Result<()> {
        let source = at + 1;
        let signal = self.others[at].signal(&self.plan, source)?;
        if self.plan.source[source].gives == Gives::Labels {
            let lane = label_lane(&self.plan, &self.model, source, &signal, voltage)?;
            self.others[at].labels = Some(lane);
        } else if let Some(pipeline) = &mut self.pipeline {
            pipeline.add_source(&self.plan, source, &signal, voltage)?;
            if let Some(recorder) = &mut self.recorder {
                let facts = Facts {
                    version: VERSIONS[1],
                    channels: signal.channels,
                    rate: signal.rate,
                    microvolts: signal.microvolts,
                    voltage,
                    noise: None,
                    unix_seconds: unix_seconds(),
                };
                recorder.configuration(source, &facts.to_json()?, host_ns());
            }
        }
        self.others[at].is_added = true;
        Ok(())
    }

    /// The place of the steps in the device time of a source, if it is another than before; `epoch` is that of its next block.
    fn alignment(&self, at: usize, epoch: u32) -> Option<Alignment> {
        let (source, other) = (at + 1, &self.others[at]);
        let binner = self.pipeline.as_ref()?.binner();
        if self.first.clock.is_in_doubt() || other.clock.is_in_doubt() {
            return None;
        }
        let (known, place): (_, &dyn Fn(u64) -> Option<(u64, f64)>) = match &other.labels {
            Some(lane) => (lane.epoch(), &|step| Some(lane.place(step))),
            None => (binner.epoch(source), &|step| binner.place(source, step)),
        };
        let (open, _) = binner.open_step()?;
        let row_of = |step: u64| {
            let (begin, _) = binner.place(0, step)?;
            let host = self.first.clock.host(self.first.device_seconds(begin));
            Some(other.row(host))
        };
        /// Steps over which the rows per step are taken: rows are whole.
        const FAR: u64 = 1000;
        let (row, far) = (row_of(open)?, row_of(open + FAR)?);
        let rows_per_step = (far - row) / FAR as f64;
        let begins = known != Some(epoch);
        if !begins && ((place(open)?.0 as f64 - row) / other.ear.rate()).abs() <= NEAR {
            return None;
        }
        // Device times are not below 0.
        let later = (-row / rows_per_step).ceil().max(0.0);
        let at = Alignment {
            step: open + later as u64,
            row: (row + later * rows_per_step).round().max(0.0) as u64,
            rows_per_step,
            begins,
        };
        at.is_sane().then_some(at)
    }

    /// Takes rows that are labels: the mean of those in a step.
    fn take_labels(&mut self, at: usize, place: Option<&Alignment>, block: &Block) -> Result<()> {
        let Some(mut lane) = self.others[at].labels.take() else {
            return Ok(());
        };
        let mut told = |event: Event<'_>| {
            if let Event::Step(step) = event
                && let Content::Features(values) = step.content
            {
                let content = NoteContent::Label(values.to_vec());
                self.note(step.number, &content, step.host_ns);
            }
            Ok(())
        };
        let done = match place {
            None if lane.epoch() != Some(block.epoch) => Ok(()),
            None => lane.take(block, &mut told),
            Some(place) => {
                (lane.align(place, &mut told)).and_then(|()| lane.take(block, &mut told))
            }
        };
        self.others[at].labels = Some(lane);
        done
    }

    /// Health of each source, in the order of the plan.
    pub fn sources(&self) -> Vec<SourceHealth> {
        let binner = self.pipeline.as_ref().map(Pipeline::binner);
        let all = std::iter::once(&self.first).chain(&self.others);
        all.enumerate()
            .map(|(number, heard)| {
                let (source, clock) = (heard.ear.counts(), heard.clock.state());
                let input = match (&heard.labels, self.plan.source[number].gives) {
                    (Some(lane), _) => lane.counts(),
                    (None, Gives::Lines) => BinnerCounts {
                        rows: source.rows,
                        lost: source.lost,
                        bounds: source.bounds,
                        ..BinnerCounts::default()
                    },
                    (None, _) => binner.map_or_else(Default::default, |b| b.source_counts(number)),
                };
                let silent = |at: i64| host_ns().saturating_sub(at).max(0) as f64 * 1e-6;
                SourceHealth {
                    name: self.plan.source[number].name.clone(),
                    lost: input.lost,
                    at_least: input.bounds > 0,
                    lost_share: input.lost as f64 / (input.lost + input.rows).max(1) as f64,
                    stale: input.stale - input.calibrating.min(input.stale),
                    failed: heard.failed.as_ref().map(|e| e.message().to_owned()),
                    measured_rate: heard.measured_rate(),
                    drift_ppm: clock.drift_ppm,
                    bound_us: clock.bound_us,
                    path_us: heard.clock.measured_path().map(|path| path * 1e6),
                    epochs: clock.epoch,
                    silent_ms: heard.heard_ns.map(silent),
                    reconnects: source.reconnects,
                    malformed: source.malformed,
                    edges: heard.edges,
                    edges_lost: heard.ear.edges_lost(),
                    dropped_by_host: source.dropped_by_host,
                }
            })
            .collect()
    }
}

/// The lane of a source of labels.
///
/// # Errors
/// `InvalidArgument` with file, line and key for a signal that does not fit.
pub(crate) fn label_lane(
    plan: &Plan,
    model: &Decoder,
    source: usize,
    signal: &Signal,
    voltage: bool,
) -> Result<Lane> {
    let lane = Lane::new(plan, source, signal, voltage, model.step_seconds())?;
    let (outputs, sent) = (model.outputs().len(), lane.channels());
    if sent == outputs {
        return Ok(lane);
    }
    let message = format_args!(
        "expected one channel of labels per output of the model, {outputs}, got {sent}"
    );
    Err(plan.refuse_source(source, "channels", message))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use betz_rigs::rig::{Arrival, RigCounts};

    use super::*;

    /// A rig that has said what it sends, and sends nothing.
    struct SilentRig;

    impl Rig for SilentRig {
        fn signal(&self) -> Option<Signal> {
            Some(Signal {
                channels: 1,
                rate: 1000.0,
                microvolts: None,
                clock_bits: 64,
            })
        }

        fn take(&mut self, _: &mut Block, _: Duration) -> Result<Arrival> {
            Ok(Arrival::Nothing)
        }

        fn counts(&self) -> RigCounts {
            RigCounts::default()
        }
    }

    fn silent_source() -> Result<LiveSource> {
        let text = "[session]\n[[source]]\nname = \"a\"\nfrom = \"simulated\"\nchannels = 1\ninline = true\n[record]\nto = \"r\"\n";
        let plan = Plan::parse(text, Path::new("plan.toml"), &[])?;
        let mut source = LiveSource::start(Box::new(SilentRig), &plan, 0)?;
        source.ear.signal();
        Ok(source)
    }

    #[test]
    fn the_next_block_is_due_after_the_longest_of_late() -> Result<()> {
        let mut source = silent_source()?;
        let mut first = 0;
        let mut hear = |rows: usize| {
            let end = first + rows as u64;
            let host_ns = end as i64 * 1_000_000;
            source.hear(&Block {
                first,
                rows,
                host_ns,
                ..Block::new()
            });
            first = end;
            (source.next_ns - host_ns) as f64 * 1e-6
        };
        let mut due = Vec::new();
        for rows in [23, 10, 10, 500, 10] {
            due.push(hear(rows).round());
        }
        // A block of half a second is waited for once, and not remembered as long.
        assert_eq!(due, [25.0, 25.0, 24.0, 500.0, 100.0]);
        // Short blocks are expected to be short after a while.
        (0..500).for_each(|_| {
            hear(1);
        });
        assert_eq!(hear(1), 1.0);
        Ok(())
    }

    /// Blocks of 10 to 23 ms come on time: none is overdue, neither the second one nor one that follows many short ones.
    #[test]
    fn blocks_of_any_length_that_an_application_gathers_are_on_time() -> Result<()> {
        const STALE_AFTER: i64 = 10_000_000;
        let (mut first, mut source, mut due) = (0, silent_source()?, i64::MAX);
        let random = |k: u64| 10 + (k.wrapping_mul(2_654_435_761) >> 16) % 14;
        for rows in [10, 23].into_iter().chain((0..20_000).map(random)) {
            first += rows;
            let host_ns = first as i64 * 1_000_000;
            assert!(
                host_ns <= due,
                "row {first}: {} ms late",
                (host_ns - due) / 1_000_000
            );
            source.hear(&Block {
                first: first - rows,
                rows: rows as usize,
                host_ns,
                ..Block::new()
            });
            due = source.next_ns + STALE_AFTER;
        }
        Ok(())
    }
}
