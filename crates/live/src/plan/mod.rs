//! The plan of a session: a TOML file that a person can read.
//!
//! Every key has a default, except `session.model`, `source.name` and `source.from`. Unknown keys, wrong units and values that
//! contradict each other are refused with the file, the line and the key.

mod place;
mod units;

use std::path::{Path, PathBuf};

use betz_base::{Error, ErrorKind, Result};
use betz_interop::rig::Signal;
use betz_runtime::model::Decoder;
use betz_runtime::stream::{Clamp, Hold, SessionConfig};
use betz_sort::{BlockOptions, CrossingRule, Reference, Settings, Sorter};
use serde::{Deserialize, Serialize};

use place::Lines;
pub use units::Span;

/// The plan of a session, with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name and model.
    pub session: SessionPlan,
    /// Sources: one.
    pub source: Vec<SourcePlan>,
    /// From voltage to features; unused if the source sends features or spikes.
    #[serde(default)]
    pub voltage: VoltagePlan,
    /// Treatment of missing data.
    #[serde(default)]
    pub missing: MissingPlan,
    /// Outputs and their bounds.
    #[serde(default)]
    pub outputs: OutputsPlan,
    /// Labels, marks and trials from a bus; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelsPlan>,
    /// Recording; nothing is recorded if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordPlan>,
    /// Limits that make a session end with exit code 3.
    #[serde(default)]
    pub limits: LimitsPlan,
    /// File, for messages.
    #[serde(skip)]
    file: PathBuf,
    #[serde(skip)]
    lines: Lines,
}

/// Section `[session]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionPlan {
    /// Name of the session, in messages and on the page.
    #[serde(default = "session_name")]
    pub name: String,
    /// Model file; relative to the plan's folder.
    pub model: PathBuf,
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
    /// Channels of a row, if the source does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<usize>,
    /// Rows per second, if the source does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Microvolts per bit, if the source does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microvolts: Option<f64>,
    /// Bound of the least one-way delay from the device to this machine.
    #[serde(default = "path")]
    pub path: Span,
}

impl SourcePlan {
    /// Form of what the source sends.
    pub fn form(&self) -> Sends {
        let steps = self.sends_steps_alone();
        (self.sends).unwrap_or(if steps { Sends::Steps } else { Sends::Samples })
    }

    /// True for a bus that has no samples.
    fn sends_steps_alone(&self) -> bool {
        matches!(self.from.split(':').next(), Some("lsl" | "brand" | "zmq"))
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
    /// A step whose last sample is later than its clock says by this time is made without data.
    pub stale_after: Span,
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

/// Section `[labels]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelsPlan {
    /// Address at which they are received: `udp://HOST:PORT`. One without a step belongs to the step that is open when it arrives.
    pub from: String,
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
}

/// Section `[limits]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsPlan {
    /// Largest share of rows that may be lost.
    pub lost: f64,
    /// Largest share of steps that may be made without data or be skipped.
    pub late_steps: f64,
    /// Largest number of frames that may be missing from the recording.
    pub unrecorded: u64,
}

fn session_name() -> String {
    "session".into()
}

fn path() -> Span {
    Span::from_seconds(0.5e-3)
}

fn segment() -> u64 {
    1024
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
            stale_after: Span::from_seconds(10e-3),
        }
    }
}

impl Default for LimitsPlan {
    fn default() -> Self {
        Self {
            lost: 1e-3,
            late_steps: 1e-3,
            unrecorded: 0,
        }
    }
}

impl Plan {
    /// Reads and checks the plan in `file`, with `changes` of the form `key=value` on top, such as
    /// `voltage.threshold=-4`. Opens nothing else.
    ///
    /// # Errors
    /// `Io` if the file cannot be read; `InvalidArgument` with file, line and key for everything that it may not say.
    pub fn read(file: &Path, changes: &[String]) -> Result<Self> {
        let bytes = betz_base::file::read_all(file, None)?;
        let text = String::from_utf8(bytes).map_err(|e| {
            Error::argument(format!("{}: expected UTF-8 text, got {e}", file.display()))
        })?;
        Self::parse(&text, file, changes)
    }

    /// As [`Plan::read`], from text; `file` names it in messages, and paths are relative to its folder.
    ///
    /// # Errors
    /// As [`Plan::read`].
    pub fn parse(text: &str, file: &Path, changes: &[String]) -> Result<Self> {
        Self::assemble(text, Lines::new(text), file, changes)
    }

    /// A plan from a table that a program has made, with changes as of [`Plan::read`]; paths are relative to `folder`. Messages
    /// name keys, and no lines.
    ///
    /// # Errors
    /// As [`Plan::read`].
    pub fn from_table(table: &toml::Table, changes: &[String], folder: &Path) -> Result<Self> {
        let file = folder.join("plan");
        let text = toml::to_string(table)
            .map_err(|e| Error::argument(format!("{}: {e}", file.display())))?;
        Self::assemble(&text, Lines::of_table(&text), &file, changes)
    }

    fn assemble(text: &str, lines: Lines, file: &Path, changes: &[String]) -> Result<Self> {
        let mut plan: Self = match changes.is_empty() {
            true => toml::from_str(text).map_err(|e| lines.refuse(file, &e))?,
            false => {
                let mut table: toml::Table =
                    toml::from_str(text).map_err(|e| lines.refuse(file, &e))?;
                let whole = toml::from_str::<Self>(text);
                for change in changes {
                    place::set(&mut table, change)?;
                    // A change is named if the plan was whole without it.
                    if whole.is_ok() {
                        table.clone().try_into::<Self>().map_err(|e| {
                            Error::argument(format!(
                                "--set {change}: {}",
                                place::words(e.message())
                            ))
                        })?;
                    }
                }
                match (table.try_into(), whole) {
                    (Ok(plan), _) => plan,
                    // The file's own fault has a line.
                    (Err(_), Err(e)) => return Err(lines.refuse(file, &e)),
                    (Err(e), Ok(_)) => return Err(lines.refuse(file, &e)),
                }
            }
        };
        plan.file = file.to_owned();
        plan.lines = lines;
        plan.check()?;
        Ok(plan)
    }

    /// The plan as TOML, with every default.
    ///
    /// # Errors
    /// `Internal` if it cannot be written.
    pub fn resolved(&self) -> Result<String> {
        toml::to_string(self)
            .map_err(|e| Error::new(ErrorKind::Internal, format!("writing the plan: {e}")))
    }

    /// The plan with another model and another sorter, relative to its folder.
    pub(crate) fn with_files(&self, model: &str, sorter: &str) -> Self {
        let mut plan = self.clone();
        plan.session.model = model.into();
        if let Some(path) = &mut plan.voltage.sorter {
            *path = sorter.into();
        }
        plan
    }

    /// The error about `key` of `section`, with file and line.
    pub(crate) fn refuse(
        &self,
        section: &str,
        key: &str,
        message: impl std::fmt::Display,
    ) -> Error {
        Error::argument(self.lines.message(&self.file, section, key, message))
    }

    /// The path of the model.
    pub fn model_path(&self) -> PathBuf {
        self.beside(&self.session.model)
    }

    /// The folder in which sessions are recorded.
    pub fn record_path(&self) -> Option<PathBuf> {
        self.record.as_ref().map(|r| self.beside(&r.to))
    }

    fn beside(&self, path: &Path) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    /// Loads the model.
    ///
    /// # Errors
    /// The errors of [`Decoder::load`], with file, line and key.
    pub fn load_model(&self) -> Result<Decoder> {
        let path = self.model_path();
        Decoder::load(&path).map_err(|e| {
            let message = self
                .lines
                .message(&self.file, "session", "model", e.message());
            Error::new(e.kind(), message)
        })
    }

    /// Loads the sorter of units.
    ///
    /// # Errors
    /// The errors of [`Sorter::load`], with file, line and key.
    pub fn load_sorter(&self) -> Result<Sorter> {
        let Some(path) = &self.voltage.sorter else {
            return Err(self.refuse("voltage", "sorter", "expected a sorter for units, got none"));
        };
        Sorter::load(&self.beside(path)).map_err(|e| {
            self.refuse("voltage", "sorter", e.message())
                .of_kind(e.kind())
        })
    }

    /// The source.
    pub fn source(&self) -> &SourcePlan {
        &self.source[0]
    }

    fn check(&self) -> Result<()> {
        if self.source.len() != 1 {
            return Err(self.refuse(
                "source",
                "",
                format_args!("expected one [[source]], got {}", self.source.len()),
            ));
        }
        let source = self.source();
        for (key, value) in [
            ("channels", source.channels.map(|n| n as f64)),
            ("rate", source.rate),
            ("microvolts", source.microvolts),
        ] {
            if let Some(value) = value
                && !(value > 0.0 && value.is_finite())
            {
                let message = format_args!("expected a number above 0, got {value}");
                return Err(self.refuse("source", key, message));
            }
        }
        if source.form() == Sends::Samples && source.sends_steps_alone() {
            return Err(self.refuse(
                "source",
                "sends",
                format_args!("expected \"steps\" for {}, got \"samples\"", source.from),
            ));
        }
        let VoltagePlan {
            band: [low, high],
            threshold,
            ..
        } = self.voltage;
        if !(low > 0.0 && low < high && high.is_finite()) {
            return Err(self.refuse(
                "voltage",
                "band",
                format_args!("expected [low, high] in Hz with 0 < low < high, got [{low}, {high}]"),
            ));
        }
        if !(-100.0..0.0).contains(&threshold) {
            return Err(self.refuse(
                "voltage",
                "threshold",
                format_args!(
                    "expected a multiple of the noise from -100 to below 0, got {threshold}"
                ),
            ));
        }
        for (key, share) in [
            ("lost", self.limits.lost),
            ("late_steps", self.limits.late_steps),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return Err(self.refuse(
                    "limits",
                    key,
                    format_args!("expected a share from 0 to 1, got {share}"),
                ));
            }
        }
        if let Some(record) = &self.record
            && !(1..=1 << 20).contains(&record.segment_mib)
        {
            return Err(self.refuse(
                "record",
                "segment_mib",
                format_args!("expected 1 to 1048576 MiB, got {}", record.segment_mib),
            ));
        }
        if (self.voltage.feature == Feature::Units) != self.voltage.sorter.is_some() {
            return Err(self.refuse(
                "voltage",
                "sorter",
                "expected a sorter with feature = \"units\", and none with another feature",
            ));
        }
        if self.voltage.at == At::Settled && self.voltage.noise.calibrate.seconds() > 0.0 {
            return Err(self.refuse(
                "voltage",
                "at",
                "settled crossings keep the noise that they are given: expected noise = { calibrate = \"0s\" } beside it, or at = \"once\"",
            ));
        }
        Ok(())
    }

    /// The session's configuration for `model`.
    ///
    /// # Errors
    /// `InvalidArgument` with file, line and key for lists that do not have one entry per output.
    pub fn session_config(&self, model: &Decoder) -> Result<SessionConfig> {
        let outputs = model.outputs().len();
        let lists = [
            ("clamp", self.outputs.clamp.as_ref().map(Vec::len)),
            ("slew", self.outputs.slew.as_ref().map(Vec::len)),
        ];
        for (key, length) in lists {
            if let Some(length) = length
                && length != outputs
            {
                return Err(self.refuse(
                    "outputs",
                    key,
                    format_args!(
                        "expected {outputs} entries, one per output of the model, got {length}"
                    ),
                ));
            }
        }
        Ok(SessionConfig {
            clamp: (self.outputs.clamp.as_ref())
                .map(|all| all.iter().map(|&[low, high]| Clamp { low, high }).collect()),
            slew: self.outputs.slew.clone(),
            hold: self.outputs.hold.as_ref().map(|hold| Hold {
                hold_seconds: hold.hold.seconds(),
                decay_seconds: hold.decay.seconds(),
                patience_steps: hold.patience,
                rest: None,
            }),
            deadline: self.outputs.deadline.map(Span::duration),
            ..SessionConfig::default()
        })
    }

    /// The front end's settings for a signal.
    ///
    /// # Errors
    /// `InvalidArgument` with file, line and key if the voltage of a bit is not known.
    pub fn front_settings(&self, signal: &Signal) -> Result<(Settings, BlockOptions)> {
        let voltage = &self.voltage;
        let microvolts = signal
            .microvolts
            .or(self.source().microvolts)
            .ok_or_else(|| {
                self.refuse(
                    "source",
                    "microvolts",
                    "expected microvolts per bit, because the source does not say so; got none",
                )
            })?;
        let settings = Settings {
            low_hz: voltage.band[0],
            high_hz: voltage.band[1],
            reference: match voltage.reference {
                ReferencePlan::None => Reference::None,
                ReferencePlan::Average => Reference::Average,
                ReferencePlan::Median => Reference::Median,
            },
            threshold: -voltage.threshold,
            artefact_microvolts: voltage.artefact,
            focus_um: 0.0,
            tracking_seconds: voltage.noise.track.seconds(),
            ..Settings::new(signal.rate, microvolts)
        };
        let crossings = voltage.feature == Feature::Crossings;
        let options = BlockOptions {
            crossings: crossings.then_some(match voltage.at {
                At::Once => CrossingRule::Once,
                At::Settled => CrossingRule::Settled,
            }),
            dead_ms: voltage.dead.seconds() * 1e3,
            power: voltage.feature == Feature::Sbp,
            calibrate_seconds: match crossings {
                true => voltage.noise.calibrate.seconds(),
                false => 0.0,
            },
        };
        let refused = settings.check().err();
        match refused {
            Some(e) => Err(self.refuse("voltage", "", e.message())),
            None => Ok((settings, options)),
        }
    }
}
