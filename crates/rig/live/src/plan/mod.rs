//! The plan of a session: a TOML file that a person can read.
//!
//! Every key has a default, except `source.name` and `source.from`. Unknown keys, wrong units and values that
//! contradict each other are refused with the file, the line and the key.

mod place;
mod priority;
mod record_only;
mod sections;
mod sources;
mod units;

use std::path::{Path, PathBuf};

use betz_base::{Error, ErrorKind, Result};
use betz_rigs::rig::Signal;
use betz_runtime::model::Decoder;
use betz_runtime::stream::{Clamp, Hold, SessionConfig};
use betz_sort::{BlockOptions, CrossingRule, Reference, Settings, Sorter};
use betz_train::unlike::LEAST_SECONDS;
use serde::{Deserialize, Serialize};

use place::Lines;
pub use priority::Priority;
pub use sections::{
    AlignPlan, At, Feature, Gives, HoldPlan, LabelRule, LabelsPlan, LearnMode, LearnPlan,
    LimitsPlan, MissingPlan, NoisePlan, OnFull, OutputsPlan, RecalibrateMode, RecalibratePlan,
    RecordPlan, ReferencePlan, Sends, SessionPlan, SourcePlan, VoltagePlan,
};
pub use units::Span;

/// Longest time in seconds for which a trial waits for its labels.
const LONGEST_WAIT: f64 = 60.0;

/// The plan of a session, with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name and model.
    pub session: SessionPlan,
    /// Sources, whose channels are laid side by side. The clock of the first makes the steps.
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
    /// Labels, marks and trials from a bus, and the time for which they may be late.
    #[serde(default)]
    pub labels: LabelsPlan,
    /// Online trainer; none unless it says so.
    #[serde(default)]
    pub learn: LearnPlan,
    /// Recalibration without labels; none unless it says so.
    #[serde(default)]
    pub recalibrate: RecalibratePlan,
    /// Recording; nothing is recorded if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordPlan>,
    /// A digital line that two sources hear; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<AlignPlan>,
    /// Limits that make a session end with exit code 3.
    #[serde(default)]
    pub limits: LimitsPlan,
    /// File, for messages.
    #[serde(skip)]
    file: PathBuf,
    #[serde(skip)]
    lines: Lines,
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
        plan.session = SessionPlan {
            model: Some(model.into()),
            step: None,
            outputs: None,
            ..plan.session
        };
        if let Some(path) = &mut plan.voltage.sorter {
            *path = sorter.into();
        }
        plan
    }

    /// The plan with changes of its front end. Another feature than units needs no sorter, and a sorter makes units.
    pub(crate) fn with_front_end(&self, changes: &[String]) -> Result<Self> {
        let names = |key: &str| {
            (changes.iter()).any(|change| change.split('=').next().map(str::trim) == Some(key))
        };
        let mut plan = self.clone();
        let makes_units = (changes.iter()).any(|change| change.ends_with("units"));
        match (names("voltage.feature"), names("voltage.sorter")) {
            (true, false) if !makes_units => plan.voltage.sorter = None,
            (false, true) => plan.voltage.feature = Feature::Units,
            _ => {}
        }
        let text = plan.resolved()?;
        Self::assemble(&text, Lines::of_table(&text), &self.file, changes)
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

    /// The error about `key` of a source, with file and line.
    pub(crate) fn refuse_source(
        &self,
        source: usize,
        key: &str,
        message: impl std::fmt::Display,
    ) -> Error {
        Error::argument((self.lines).message_at(&self.file, "source", source, key, message))
    }

    /// The error of a source whose voltage has no unit.
    pub(crate) fn lacks_microvolts(&self, source: usize) -> Error {
        let message = "expected microvolts per bit, because the source does not say so; got none";
        self.refuse_source(source, "microvolts", message)
    }

    /// The path of the model, if there is one.
    pub fn model_path(&self) -> Option<PathBuf> {
        self.session.model.as_ref().map(|path| self.beside(path))
    }

    /// The folder in which sessions are recorded.
    pub fn record_path(&self) -> Option<PathBuf> {
        self.record.as_ref().map(|r| self.beside(&r.to))
    }

    fn beside(&self, path: &Path) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    /// Loads the model; without one, a decoder whose outputs are 0.
    ///
    /// # Errors
    /// The errors of [`Decoder::load`], with file, line and key; those of the outputs' names and of the sorter.
    pub fn load_model(&self) -> Result<Decoder> {
        let Some(path) = self.model_path() else {
            return self.stand_in();
        };
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

    /// The first source, whose clock makes the steps.
    pub fn source(&self) -> &SourcePlan {
        &self.source[0]
    }

    fn check(&self) -> Result<()> {
        self.check_sources()?;
        self.check_model()?;
        self.check_recalibration()?;
        self.check_labels()?;
        self.check_voltage()?;
        self.check_record()?;
        self.check_align()?;
        for (key, share) in [
            ("lost", self.limits.lost),
            ("late_steps", self.limits.late_steps),
            ("unsent", self.limits.unsent),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return Err(self.refuse(
                    "limits",
                    key,
                    format_args!("expected a share from 0 to 1, got {share}"),
                ));
            }
        }
        let (most, cores) = (self.source.len() + 2, self.session.cores.len());
        if cores > most {
            let message = format_args!(
                "expected at most {most} processors, of the loop, each source and the recorder; got {cores}"
            );
            return Err(self.refuse("session", "cores", message));
        }
        if self.missing.backlog == 0 {
            return Err(self.refuse("missing", "backlog", "expected at least 1 step, got 0"));
        }
        Ok(())
    }

    fn check_voltage(&self) -> Result<()> {
        let refuse = |key: &str, expected: &str| Err(self.refuse("voltage", key, expected));
        let VoltagePlan {
            band: [low, high],
            threshold,
            ..
        } = self.voltage;
        if !(low > 0.0 && low < high && high.is_finite()) {
            return refuse(
                "band",
                &format!("expected [low, high] in Hz with 0 < low < high, got [{low}, {high}]"),
            );
        }
        if !(-100.0..0.0).contains(&threshold) {
            return refuse(
                "threshold",
                &format!("expected a multiple of the noise from -100 to below 0, got {threshold}"),
            );
        }
        if (self.voltage.feature == Feature::Units) != self.voltage.sorter.is_some() {
            return refuse(
                "sorter",
                "expected a sorter with feature = \"units\", and none with another feature",
            );
        }
        if self.voltage.at == At::Settled && self.voltage.noise.calibrate.seconds() > 0.0 {
            return refuse(
                "at",
                "settled crossings keep the noise that they are given: expected noise = { calibrate = \"0s\" } beside it, or at = \"once\"",
            );
        }
        Ok(())
    }

    fn check_record(&self) -> Result<()> {
        let Some(record) = &self.record else {
            return Ok(());
        };
        for (key, range, mib) in [
            ("segment_mib", 1..=1 << 20, record.segment_mib),
            ("reserve_mib", 0..=1 << 20, record.reserve_mib),
        ] {
            if !range.contains(&mib) {
                let (least, most) = range.into_inner();
                let message = format_args!("expected {least} to {most} MiB, got {mib}");
                return Err(self.refuse("record", key, message));
            }
        }
        Ok(())
    }

    fn check_labels(&self) -> Result<()> {
        let wait = self.labels.wait.seconds();
        if wait > LONGEST_WAIT {
            let message = format_args!("expected at most {LONGEST_WAIT}s, got {wait}s");
            return Err(self.refuse("labels", "wait", message));
        }
        if self.labels.from.is_none() && self.labels.by != LabelRule::Step {
            let message = "expected labels.from beside it, got none: it is about labels of a bus";
            return Err(self.refuse("labels", "by", message));
        }
        Ok(())
    }

    fn check_recalibration(&self) -> Result<()> {
        let RecalibratePlan { mode, window } = &self.recalibrate;
        if *mode == RecalibrateMode::Off {
            return Ok(());
        }
        if matches!(self.learn.mode, LearnMode::Propose | LearnMode::Apply) {
            let message =
                "expected \"off\" beside learn.mode = \"propose\" or \"apply\": labels say more";
            return Err(self.refuse("recalibrate", "mode", message));
        }
        if window.seconds() < LEAST_SECONDS {
            let message = format_args!(
                "expected at least {LEAST_SECONDS}s, because a shorter window suggests nothing, got {}s",
                window.seconds()
            );
            return Err(self.refuse("recalibrate", "window", message));
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

    /// The front end's settings for the signal of a source.
    ///
    /// # Errors
    /// `InvalidArgument` with file, line and key if the voltage of a bit is not known.
    pub(crate) fn front_settings(
        &self,
        source: usize,
        signal: &Signal,
    ) -> Result<(Settings, BlockOptions)> {
        let voltage = &self.voltage;
        let microvolts = (signal.microvolts.or(self.source[source].microvolts))
            .ok_or_else(|| self.lacks_microvolts(source))?;
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
