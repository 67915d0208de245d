//! Sections of a plan, and their defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::priority::Priority;
use super::units::Span;
use crate::shared_line::SharedLine;

/// Section `[session]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionPlan {
    /// Name of the session, in messages and on the page.
    #[serde(default = "session_name")]
    pub name: String,
    /// Model file; relative to the plan's folder. A session without one records, and decodes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// Length of a step without a model; 20 ms if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Span>,
    /// Names of the labels' values without a model; x and y if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Vec<String>>,
    /// Priority of the threads that decode, hear the sources, and record.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    pub priority: Priority,
    /// Processors of the loop, of each source in their order, and of the recorder; those that are absent run on any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<usize>,
}

/// `sends` of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sends {
    /// Rows of voltage, spikes or features, by the device's clock.
    Samples,
    /// Whole steps of the model: counts, spikes or features that are binned already.
    Steps,
}

/// `gives` of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gives {
    /// Channels that are decoded.
    #[default]
    Input,
    /// True outputs: a label per step is the mean of the rows in it, one channel per output; of voltage in volts.
    Labels,
    /// Digital lines alone: its rows are recorded and not decoded.
    Lines,
}

impl Gives {
    /// True for channels that are decoded.
    fn is_input(&self) -> bool {
        *self == Self::Input
    }

    /// The word of a plan.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Labels => "labels",
            Self::Lines => "lines",
        }
    }
}

/// Section `[[source]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcePlan {
    /// Name in messages and in the recording.
    pub name: String,
    /// Address.
    pub from: String,
    /// Form of what it sends. Samples if absent; steps if the address begins with `lsl`, `brand` or `zmq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sends: Option<Sends>,
    /// Use of what it sends.
    #[serde(default, skip_serializing_if = "Gives::is_input")]
    pub gives: Gives,
    /// Channels of a row, if the source does not say so. Each source but the first needs them, unless it gives lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<usize>,
    /// Rows per second, if the source does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Microvolts per bit, if the source does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microvolts: Option<f64>,
    /// Digital lines by their numbers, from 1, and what they say: `trial`, which begins when the line goes up and ends when it goes
    /// down, or the text of a mark when it goes up.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<String, String>,
    /// Bound of the least one-way delay from the device to this machine.
    #[serde(default = "path")]
    pub path: Span,
    /// True if the session's loop reads the source itself, without a thread and a hand-over: the only source.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inline: bool,
}

impl SourcePlan {
    /// Form of what the source sends.
    pub fn form(&self) -> Sends {
        self.sends.unwrap_or(match self.scheme() {
            "lsl" | "brand" | "zmq" => Sends::Steps,
            _ => Sends::Samples,
        })
    }

    /// True for a bus that has no samples.
    pub(super) fn sends_steps_alone(&self) -> bool {
        self.scheme() == "zmq"
    }

    /// The key that the address needs for the source to tell its lines; `Err` for a source that has none.
    pub(super) fn key_of_lines(&self) -> Result<Option<&'static str>, &str> {
        match self.scheme() {
            "openephys" => Ok(None),
            "cerebus" => Ok(Some("digital")),
            "spikeglx" => Ok(Some("sync")),
            other => Err(other),
        }
    }

    fn scheme(&self) -> &str {
        self.from.split(':').next().unwrap_or_default()
    }
}

/// Reference of `[voltage]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReferencePlan {
    /// Nothing is subtracted.
    None,
    /// The mean of all channels.
    Average,
    /// The median of all channels.
    Median,
}

/// Feature of `[voltage]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Feature {
    /// Threshold crossings of each channel.
    Crossings,
    /// Spike-band power of each channel.
    Sbp,
    /// Units of a sorter.
    Units,
}

/// Rule of crossings of `[voltage]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum At {
    /// With the first sample below the threshold.
    Once,
    /// After it is clear that it is the largest minimum around and no artefact.
    Settled,
}

/// Section `[voltage]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VoltagePlan {
    /// Reference that is subtracted from every channel.
    pub reference: ReferencePlan,
    /// Edges of the band-pass filter, in Hz.
    pub band: [f64; 2],
    /// Feature that the model decodes.
    pub feature: Feature,
    /// File of the sorter, for units; relative to the plan's folder. It has its own filter, reference and threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sorter: Option<PathBuf>,
    /// Rule of crossings.
    pub at: At,
    /// Threshold in standard deviations of the noise; below 0.
    pub threshold: f64,
    /// Time after a crossing without another on the same channel.
    pub dead: Span,
    /// Voltage after filter and reference above which a sample is an artefact, in microvolts.
    pub artefact: f64,
    /// Measurement of the noise.
    pub noise: NoisePlan,
}

/// `noise` of `[voltage]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NoisePlan {
    /// Time at the start in which the noise of each channel is measured.
    pub calibrate: Span,
    /// Time constant of its tracking afterwards; 0s: it stays.
    pub track: Span,
}

/// Section `[missing]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MissingPlan {
    /// Longest gap that is bridged: its rows are interpolated, their crossings do not count, and counts are scaled.
    pub bridge: Span,
    /// Time for which rows of datagrams wait for those that they have overtaken. Rows that come later still are late.
    pub reorder: Span,
    /// A step whose last sample is later than its clock says by this time is made without data.
    pub stale_after: Span,
    /// Steps that may wait for the decoder. If more wait and it takes longer for them than they last, the oldest are left out.
    pub backlog: u64,
}

/// Section `[outputs]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutputsPlan {
    /// Addresses to which outputs are sent.
    pub to: Vec<String>,
    /// Lowest and highest value of each output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clamp: Option<Vec<[f32; 2]>>,
    /// Largest change of each output from one step to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slew: Option<Vec<f32>>,
    /// Outputs while data are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldPlan>,
    /// Longest time that a step should take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
}

/// `hold` of `[outputs]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldPlan {
    /// Time for which the last good outputs are held.
    pub hold: Span,
    /// Time that the way to rest takes afterwards.
    pub decay: Span,
    /// Flagged steps in a row that are still believed.
    #[serde(default)]
    pub patience: u32,
}

/// Rule by which a label, a mark or a trial of the bus finds its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelRule {
    /// The sender names the step, as the output that it saw did. Without a name it is the step that is open when it arrives.
    #[default]
    Step,
    /// The sender's time, on the host's clock by a clock of the sender's own. Without a time it is the arrival.
    Time,
    /// The time of the arrival.
    Arrival,
}

/// Section `[labels]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LabelsPlan {
    /// Address at which they are received: `udp://HOST:PORT`, `lsl://NAME` for markers, `zmq://HOST:PORT` of a publisher, or
    /// `redis://HOST:PORT/STREAM`. None if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Rule by which they find their steps.
    pub by: LabelRule,
    /// Time for which a trial that has ended waits for its labels.
    pub wait: Span,
}

/// Use of the online trainer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LearnMode {
    /// The session learns nothing.
    #[default]
    Off,
    /// Candidates are scored, and none decodes.
    Watch,
    /// A candidate that is better waits for [`Live::accept`](crate::Live::accept).
    Propose,
    /// A candidate that is better takes over, and goes again if it turns out worse.
    Apply,
}

/// Section `[learn]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LearnPlan {
    /// Use of the trainer.
    pub mode: LearnMode,
    /// Labelled time after which data count half.
    pub half_life: Span,
    /// Trials from one candidate to the next.
    pub batch: usize,
}

/// Use of recalibration without labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecalibrateMode {
    /// Windows are not looked at.
    #[default]
    Off,
    /// The model that a window suggests waits for [`Live::accept`](crate::Live::accept).
    Suggest,
    /// The model that a window suggests takes over, and goes again if a later window speaks against it.
    Apply,
}

/// Section `[recalibrate]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecalibratePlan {
    /// Use of the windows.
    pub mode: RecalibrateMode,
    /// Length of a window that is looked at.
    pub window: Span,
}

/// Treatment of a disk that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFull {
    /// The recording of voltage ends; everything else is recorded in the room that was set aside.
    #[default]
    KeepSmall,
    /// The recording ends; the session goes on.
    StopRecording,
    /// The session ends with an error; its last outputs are 0.
    Stop,
}

/// Section `[record]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordPlan {
    /// Folder in which each session makes a folder of its own.
    pub to: PathBuf,
    /// Largest size of a segment, in MiB.
    #[serde(default = "segment")]
    pub segment_mib: u64,
    /// Treatment of a full disk.
    #[serde(default)]
    pub on_full: OnFull,
    /// Room that is set aside on the disk for `keep-small`, in MiB.
    #[serde(default = "reserve")]
    pub reserve_mib: u64,
    /// Age of a recording after which a session that is kept does not go on with it.
    #[serde(default = "resume_within")]
    pub resume_within: Span,
}

/// Section `[align]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlignPlan {
    /// A digital line of one source that is also one of another, `SOURCE:LINE=SOURCE:LINE`.
    pub line: SharedLine,
    /// Largest distance between the two, with its error, that is not warned of.
    #[serde(default = "align_limit")]
    pub limit: Span,
}

/// Section `[limits]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsPlan {
    /// Largest share of rows that may be lost.
    pub lost: f64,
    /// Largest share of steps that may be made without data or be skipped.
    pub late_steps: f64,
    /// Largest share of outputs that may not be sent to any one address; 1: all, as to a bus that nobody has subscribed to.
    pub unsent: f64,
    /// Largest number of frames that may be missing from the recording.
    pub unrecorded: u64,
}

fn session_name() -> String {
    "session".into()
}

fn path() -> Span {
    Span::from_seconds(0.5e-3)
}

fn align_limit() -> Span {
    Span::from_seconds(2e-3)
}

fn resume_within() -> Span {
    Span::from_seconds(600.0)
}

fn segment() -> u64 {
    1024
}

fn reserve() -> u64 {
    256
}

impl Default for VoltagePlan {
    fn default() -> Self {
        Self {
            reference: ReferencePlan::Median,
            band: [300.0, 6000.0],
            feature: Feature::Crossings,
            sorter: None,
            at: At::Once,
            threshold: -4.5,
            dead: Span::from_seconds(1e-3),
            artefact: 500.0,
            noise: NoisePlan::default(),
        }
    }
}

impl Default for NoisePlan {
    fn default() -> Self {
        Self {
            calibrate: Span::from_seconds(10.0),
            track: Span::from_seconds(30.0),
        }
    }
}

impl Default for MissingPlan {
    fn default() -> Self {
        Self {
            bridge: Span::from_seconds(5e-3),
            reorder: Span::from_seconds(5e-3),
            stale_after: Span::from_seconds(10e-3),
            backlog: 8,
        }
    }
}

impl Default for LabelsPlan {
    fn default() -> Self {
        Self {
            from: None,
            by: LabelRule::Step,
            wait: Span::from_seconds(2.0),
        }
    }
}

impl Default for LearnPlan {
    fn default() -> Self {
        Self {
            mode: LearnMode::Off,
            half_life: Span::from_seconds(120.0),
            batch: 5,
        }
    }
}

impl Default for RecalibratePlan {
    fn default() -> Self {
        Self {
            mode: RecalibrateMode::Off,
            window: Span::from_seconds(100.0),
        }
    }
}

impl Default for LimitsPlan {
    fn default() -> Self {
        Self {
            lost: 1e-3,
            late_steps: 1e-3,
            unsent: 1.0,
            unrecorded: 0,
        }
    }
}
