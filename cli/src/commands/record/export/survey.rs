//! Everything of a recording but its rows, and where these are.

use std::collections::BTreeMap;
use std::path::Path;

use betz::{Error, Result};
use betz_formats::nwb::SessionTrial;
use betz_live::record::{Damage, Facts, Reader, Record, Recording};
use betz_rigs::rig::notes::NoteContent;
use betz_rigs::rig::{Block, LineEdge, Samples};

use betz_live::SharedLine;

use super::align::{AlignedSource, align};

/// Rows of zeros that stand for lost ones at once.
const AT_ONCE: u64 = 4096;
/// Name of the log in a recording's folder.
const LOG: &str = "log.jsonl";

/// Contents of the blocks of a source.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Voltage,
    Features,
    Spikes,
}

impl Form {
    pub(super) fn of(samples: &Samples) -> Self {
        match samples {
            Samples::Voltage(_) => Self::Voltage,
            Samples::Features(_) => Self::Features,
            Samples::Spikes(_) => Self::Spikes,
        }
    }
}

/// Rows of one source in one epoch of its clock.
pub(super) struct Epoch {
    pub(super) source: usize,
    pub(super) epoch: u32,
    pub(super) form: Form,
    pub(super) facts: Facts,
    /// Device time of the first row, and rows up to the last, lost ones included.
    pub(super) first: u64,
    pub(super) rows: u64,
    /// Rows that never came, as the first and the one after the last.
    pub(super) gaps: Vec<[u64; 2]>,
    /// Blocks that came after later ones, by their first row.
    late: BTreeMap<u64, Samples>,
    /// Host time of the first row in seconds, as the earliest arrivals show it.
    begun: f64,
    /// Time of the first row in seconds of the session.
    pub(super) start_seconds: f64,
}

impl Epoch {
    fn new(source: usize, block: &Block, facts: &Facts) -> Self {
        Self {
            source,
            epoch: block.epoch,
            form: Form::of(&block.samples),
            facts: facts.clone(),
            first: block.first,
            rows: 0,
            gaps: Vec::new(),
            late: BTreeMap::new(),
            begun: f64::INFINITY,
            start_seconds: 0.0,
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.gaps.iter().map(|gap| gap[1] - gap[0]).sum()
    }

    /// Time of a row, or a tick, in seconds of the session.
    pub(super) fn seconds(&self, row: u64) -> f64 {
        self.start_seconds + (row as f64 - self.first as f64) / self.facts.rate
    }

    fn take(&mut self, block: Block) {
        let next = self.first + self.rows;
        let mut end = block.first.saturating_add(block.rows as u64);
        if let Samples::Spikes(spikes) = &block.samples {
            // The block may tell no more than their times.
            end = (spikes.last()).map_or(end, |spike| end.max(spike.tick.saturating_add(1)));
        }
        // A block arrives when its last row has passed.
        let passed = (end as f64 - self.first as f64) / self.facts.rate;
        self.begun = self.begun.min(block.host_ns as f64 * 1e-9 - passed);
        if block.first > next && self.form != Form::Spikes {
            self.gaps.push([next, block.first]);
        }
        if end > next {
            self.rows = end - self.first;
        } else if self.form != Form::Spikes && self.fill(block.first, end) {
            self.late.insert(block.first, block.samples);
        }
    }

    /// Takes rows that came late out of the gap that has them; false if they came twice.
    fn fill(&mut self, first: u64, end: u64) -> bool {
        let has = |gap: &[u64; 2]| gap[0] <= first && end <= gap[1];
        let Some(at) = self.gaps.iter().position(has) else {
            return false;
        };
        let [from, to] = self.gaps[at];
        let parts = [[from, first], [end, to]];
        (self.gaps).splice(at..=at, parts.into_iter().filter(|part| part[0] < part[1]));
        true
    }
}

/// A number of which rows are made.
pub(super) trait Value: Copy + Default {
    /// The values of samples of this type; `None` of others.
    fn of(samples: &Samples) -> Option<&[Self]>;
}

impl Value for i16 {
    fn of(samples: &Samples) -> Option<&[Self]> {
        match samples {
            Samples::Voltage(values) => Some(values),
            Samples::Spikes(_) | Samples::Features(_) => None,
        }
    }
}

impl Value for f32 {
    fn of(samples: &Samples) -> Option<&[Self]> {
        match samples {
            Samples::Features(values) => Some(values),
            Samples::Spikes(_) | Samples::Voltage(_) => None,
        }
    }
}

/// Gives the rows of an epoch in order: those that came late in their places, those that were lost as 0.
pub(super) fn rows<T: Value>(
    folder: &Path,
    epoch: &Epoch,
    take: &mut dyn FnMut(&[T]) -> Result<()>,
) -> Result<()> {
    let channels = epoch.facts.channels;
    let zeros = vec![T::default(); AT_ONCE as usize * channels];
    let mut reader = Reader::open(folder)?;
    let mut next = epoch.first;
    while let Some(record) = reader.next_record()? {
        let Record::Block(source, block) = record else {
            continue;
        };
        if (source, block.epoch) != (epoch.source, epoch.epoch) {
            continue;
        }
        let values = T::of(&block.samples).filter(|values| values.len() == block.rows * channels);
        let Some(values) = values else {
            return Err(Error::recording(format!(
                "recording: expected {} rows of {channels} channels at row {}, got other samples",
                block.rows, block.first
            )));
        };
        while next < block.first {
            // A late block, or zeros up to it or the end of the gap.
            if let Some(late) = epoch.late.get(&next).and_then(T::of) {
                take(late)?;
                next += (late.len() / channels) as u64;
                continue;
            }
            let until = (epoch.late.range(next..).next()).map_or(block.first, |(at, _)| *at);
            let now = (until.min(block.first) - next).min(AT_ONCE);
            take(&zeros[..now as usize * channels])?;
            next += now;
        }
        let old = (next - block.first).min(block.rows as u64) as usize;
        take(&values[old * channels..])?;
        next += (block.rows - old) as u64;
    }
    Ok(())
}

/// A step that was made.
pub(super) struct MadeStep {
    pub(super) number: u64,
    pub(super) seconds: f64,
    pub(super) status: u32,
    pub(super) values: Vec<f32>,
}

/// A change of a digital line.
pub(super) struct LineChange {
    pub(super) source: usize,
    pub(super) seconds: f64,
    pub(super) edge: LineEdge,
}

/// Everything of a recording but its rows. Times are in seconds since the first row of its first source.
#[derive(Default)]
pub(super) struct Survey {
    /// Names of the sources.
    pub(super) sources: Vec<String>,
    pub(super) epochs: Vec<Epoch>,
    pub(super) steps: Vec<MadeStep>,
    /// Steps and their labels.
    pub(super) labels: Vec<(u64, Vec<f32>)>,
    pub(super) trials: Vec<SessionTrial>,
    pub(super) marks: Vec<(f64, String)>,
    /// Changes of digital lines, by time.
    pub(super) lines: Vec<LineChange>,
    /// Events of the log, as JSON.
    pub(super) events: Vec<(f64, String)>,
    pub(super) damage: Damage,
    /// Sources that were placed by a shared line.
    pub(super) aligned: Vec<AlignedSource>,
    step_seconds: f64,
}

impl Survey {
    /// Reads a recording, and places the sources of `shared` by the pulses on their lines.
    pub(super) fn read(
        folder: &Path,
        recording: &Recording,
        shared: &[SharedLine],
    ) -> Result<Self> {
        let mut survey = Self {
            sources: recording
                .plan
                .source
                .iter()
                .map(|s| s.name.clone())
                .collect(),
            step_seconds: recording.model.step_seconds(),
            ..Self::default()
        };
        let mut facts = vec![Some(recording.facts.clone())];
        facts.resize(survey.sources.len().max(1), None);
        let (mut steps, mut notes, mut edges) = (Vec::new(), Vec::new(), Vec::new());
        let mut reader = Reader::open(folder)?;
        while let Some(record) = reader.next_record()? {
            match record {
                Record::Configuration(source, json) if source < facts.len() => {
                    facts[source] = Some(Facts::from_json(&json)?);
                }
                Record::Block(source, block) => {
                    if let Some(Some(facts)) = facts.get(source) {
                        survey.take(source, block, facts);
                    }
                }
                Record::Step {
                    number,
                    end,
                    status,
                    values,
                } => steps.push((survey.newest_epoch(), end, number, status, values)),
                Record::Note { step, content } => notes.push((step, content)),
                Record::Edge(source, edge) => edges.push((source, edge)),
                _ => {}
            }
        }
        survey.damage = reader.damage();
        let origin = survey.origin();
        for epoch in &mut survey.epochs {
            epoch.start_seconds = epoch.begun - origin;
        }
        survey.aligned = (shared.iter())
            .map(|shared| align(shared, &survey.sources, &mut survey.epochs, &edges))
            .collect::<Result<Vec<_>>>()?
            .concat();
        survey.take_edges(edges);
        for (epoch, end, number, status, values) in steps {
            let seconds = survey.end_of_step(epoch, number, end);
            survey.steps.push(MadeStep {
                number,
                seconds,
                status,
                values,
            });
        }
        survey.take_notes(notes);
        survey.read_log(folder, origin);
        Ok(survey)
    }

    fn take(&mut self, source: usize, block: Block, facts: &Facts) {
        let is_of = |e: &Epoch| (e.source, e.epoch) == (source, block.epoch);
        let at = match self.epochs.iter().rposition(is_of) {
            Some(at) => at,
            None => {
                self.epochs.push(Epoch::new(source, &block, facts));
                self.epochs.len() - 1
            }
        };
        self.epochs[at].take(block);
    }

    /// The newest epoch of the first source.
    fn newest_epoch(&self) -> Option<usize> {
        self.epochs.iter().rposition(|epoch| epoch.source == 0)
    }

    /// Host time of the session's first row.
    fn origin(&self) -> f64 {
        let first = self.epochs.iter().find(|epoch| epoch.source == 0);
        first
            .or(self.epochs.first())
            .map_or(0.0, |epoch| epoch.begun)
    }

    /// Time of a step's end: by its number in the first epoch, so that times are regular to the last bit, else by the device.
    fn end_of_step(&self, epoch: Option<usize>, number: u64, end: u64) -> f64 {
        match epoch.map(|at| &self.epochs[at]) {
            Some(epoch) if epoch.start_seconds != 0.0 => epoch.seconds(end),
            _ => (number + 1) as f64 * self.step_seconds,
        }
    }

    /// Time at which a step begins.
    fn begin_of_step(&self, step: u64) -> f64 {
        let at = self.steps.partition_point(|made| made.number < step);
        match self.steps.get(at).or(self.steps.last()) {
            Some(near) => {
                let steps = step as f64 - (near.number + 1) as f64;
                (near.seconds + steps * self.step_seconds).max(0.0)
            }
            None => step as f64 * self.step_seconds,
        }
    }

    fn take_edges(&mut self, edges: Vec<(usize, LineEdge)>) {
        for (source, edge) in edges {
            let is_of = |e: &&Epoch| (e.source, e.epoch) == (source, edge.epoch);
            if let Some(epoch) = self.epochs.iter().find(is_of) {
                let seconds = epoch.seconds(edge.row);
                self.lines.push(LineChange {
                    source,
                    seconds,
                    edge,
                });
            }
        }
        self.lines.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    }

    fn take_notes(&mut self, notes: Vec<(u64, NoteContent)>) {
        let mut begun: Option<f64> = None;
        for (step, content) in notes {
            let at = self.begin_of_step(step);
            match content {
                NoteContent::Label(values) => self.labels.push((step, values)),
                NoteContent::Mark(text) => self.marks.push((at, text)),
                NoteContent::TrialBegin => begun = Some(at),
                NoteContent::TrialEnd | NoteContent::TrialReject => {
                    let learn = content == NoteContent::TrialEnd;
                    // An end without a begin is no trial.
                    self.trials.extend(begun.take().map(|start| SessionTrial {
                        start,
                        stop: at,
                        learn,
                    }));
                }
            }
        }
        self.marks.sort_by(|a, b| a.0.total_cmp(&b.0));
    }

    /// Takes the lines of the log; one that is torn is left out.
    fn read_log(&mut self, folder: &Path, origin: f64) {
        let text = std::fs::read_to_string(folder.join(LOG)).unwrap_or_default();
        let event = |line: &str| {
            let mut fields: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(line).ok()?;
            let at = fields.remove("t_ns")?.as_i64()? as f64 * 1e-9 - origin;
            Some((at, serde_json::to_string(&fields).ok()?))
        };
        self.events = text.lines().filter_map(event).collect();
        self.events.sort_by(|a, b| a.0.total_cmp(&b.0));
    }

    /// Name of an epoch's rows: the source, and the epoch if there are several of it.
    pub(super) fn name(&self, epoch: &Epoch) -> String {
        let name = self
            .sources
            .get(epoch.source)
            .map_or("source", String::as_str);
        let plain: String = (name.chars())
            .map(|c| {
                if c.is_alphanumeric() || c == '-' {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        let several = self
            .epochs
            .iter()
            .filter(|e| e.source == epoch.source)
            .count()
            > 1;
        match several {
            true => format!("{plain}_epoch{}", epoch.epoch),
            false => plain,
        }
    }

    /// Begins and ends of times in which rows of a source came, ascending and apart.
    pub(super) fn observed(&self, source: usize) -> Vec<[f64; 2]> {
        let mut observed = Vec::new();
        for epoch in self.epochs.iter().filter(|epoch| epoch.source == source) {
            let mut begin = epoch.first;
            let end = epoch.first + epoch.rows;
            for [from, to] in (epoch.gaps.iter().copied()).chain([[end, end]]) {
                if begin < from {
                    observed.push([begin, from].map(|row| epoch.seconds(row)));
                }
                begin = to;
            }
        }
        observed.sort_by(|a: &[f64; 2], b| a[0].total_cmp(&b[0]));
        observed
    }

    /// Begins and ends of times in which rows of some source were lost, ascending and apart.
    pub(super) fn lost(&self) -> Vec<[f64; 2]> {
        let mut lost: Vec<[f64; 2]> = (self.epochs.iter())
            .flat_map(|epoch| {
                epoch
                    .gaps
                    .iter()
                    .map(|gap| gap.map(|row| epoch.seconds(row)))
            })
            .collect();
        lost.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let mut apart: Vec<[f64; 2]> = Vec::new();
        for [from, to] in lost {
            match apart.last_mut() {
                Some(last) if from <= last[1] => last[1] = last[1].max(to),
                _ => apart.push([from, to]),
            }
        }
        apart
    }
}
