//! Arguments of `betz run`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use betz::Result;
use clap::Args;
use clap::ValueEnum;
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue};

use super::keep::KeptPage;
use crate::commands::emulate::Device;
use crate::page::{Page, SessionPage};
use crate::parse::seconds;

/// The rig that is simulated.
#[derive(Clone)]
pub(crate) enum RigChoice {
    /// Voltage by the protocol of a device.
    Device(Device),
    /// Spikes of a network: a file of JSON.
    #[cfg(feature = "lab")]
    Network(String),
}

/// True for a file of JSON, by its name.
pub(super) fn is_json(file: &Path) -> bool {
    (file.extension()).is_some_and(|ending| ending.eq_ignore_ascii_case("json"))
}

/// Reads a device's name or, with an ending .json, a network's file.
#[derive(Clone)]
pub(crate) struct RigParser;

impl TypedValueParser for RigParser {
    type Value = RigChoice;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> std::result::Result<RigChoice, clap::Error> {
        #[cfg(feature = "lab")]
        if let Some(file) = value.to_str().filter(|file| is_json(Path::new(file))) {
            return Ok(RigChoice::Network(file.to_owned()));
        }
        EnumValueParser::<Device>::new()
            .parse_ref(command, argument, value)
            .map(RigChoice::Device)
            .map_err(|mut error| {
                let names = self.possible_values().into_iter().flatten();
                let names = names.map(|value| value.get_name().to_owned()).collect();
                error.insert(ContextKind::ValidValue, ContextValue::Strings(names));
                error
            })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let devices = Device::value_variants().iter();
        let devices = devices.filter_map(ValueEnum::to_possible_value);
        #[cfg(feature = "lab")]
        let devices = devices
            .chain([PossibleValue::new("FILE.json").help("A spiking network (docs/live.md)")]);
        Some(Box::new(devices))
    }
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  betz run --simulate --seconds 20\n  betz run --simulate --page\n  betz run --simulate=cerebus --check\n  betz run --simulate=net.json --seconds 20\n  betz run session.toml --check\n  betz run --simulate --set record.to=recordings --seconds 20\n  betz run --replay recordings/run-20261124-131500 --relearn\n  betz run session.toml --set missing.bridge=2ms --seconds 600\n\nExit codes: 0 ended as asked, 1 failed, 2 wrong usage or plan, 3 ended as asked with a limit of [limits] crossed. See docs/live.md."
)]
pub(crate) struct Run {
    /// Plan of the session, a TOML file
    #[arg(value_name = "PLAN", required_unless_present_any = ["simulate", "replay"])]
    pub(crate) plan: Option<PathBuf>,
    /// Simulate a rig with a known movement, train a decoder on a minute of it made faster than
    /// life, and run that. A plan is not needed, but may change the defaults. If RIG is a device, the voltage comes over
    /// the loopback by its protocol, to the source that hears the real one. If RIG is a JSON file of a spiking network,
    /// its spikes are the input and its tuned populations follow the movement (docs/live.md)
    #[arg(long, value_name = "RIG", num_args = 0..=1, require_equals = true, value_parser = RigParser)]
    pub(crate) simulate: Option<Option<RigChoice>>,
    /// Populations of the network of --simulate whose spikes arrive, separated by commas [default: the tuned ones]
    #[cfg(feature = "lab")]
    #[arg(long, value_name = "LIST", requires = "simulate")]
    pub(crate) populations: Option<String>,
    /// Movement of the network of --simulate: a CSV file of lines seconds,x,y, which repeats [default: noise up to 2 Hz]
    #[cfg(feature = "lab")]
    #[arg(long, value_name = "FILE", requires = "simulate")]
    pub(crate) movement: Option<PathBuf>,
    /// Open the source, listen for two seconds, say what the session will do, and send nothing
    #[arg(long, conflicts_with = "shown")]
    pub(crate) check: bool,
    /// Run the session that was recorded in this folder again, as fast as possible, and compare every
    /// output with the recorded one, bit by bit
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["plan", "simulate", "check", "set", "seconds", "shown"])]
    pub(crate) replay: Option<PathBuf>,
    /// Run the online trainer again, too, and compare every model that the session was given with those that the trainer makes
    #[arg(long, requires = "replay", conflicts_with_all = ["plan", "simulate", "check"])]
    pub(crate) relearn: bool,
    /// Seconds after which the session ends [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// End with exit code 1 if the source has sent nothing after this time [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with_all = ["check", "replay"])]
    pub(crate) require: Option<f64>,
    /// Change a key of the plan, such as missing.bridge=2ms; repeat for several
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Start the session again if its process is killed, at most five times per minute. It goes on with its
    /// recording: see docs/live.md. Needs record.to
    #[arg(long, conflicts_with_all = ["simulate", "check", "replay"])]
    pub(crate) keep: bool,
    /// Seconds since the first start of a session that is kept; set by --keep
    #[arg(long, value_name = "SECONDS", hide = true, requires = "keep")]
    pub(crate) kept: Option<f64>,
    #[command(flatten)]
    pub(crate) page: SessionPage,
    /// Let the page accept the model that the trainer proposes or a window suggests, and return to the one before
    #[arg(long, requires = "shown", help_heading = "The page")]
    pub(crate) control: bool,
    /// Let `betz ctl FILE` control the session over a local socket. FILE gets its address and a token
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "replay"])]
    pub(crate) ctl: Option<PathBuf>,
    /// Print one JSON object at the end instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

impl Run {
    /// The options of the page's server.
    ///
    /// # Errors
    /// `InvalidArgument` for a token that is none.
    pub(crate) fn page_options(&self) -> Result<Page> {
        let mut page = self.page.options();
        page.control = self.control;
        if let Some(kept) = KeptPage::of_environment()? {
            page.port = kept.port;
            page.token = Some(kept.token);
        }
        // A browser that shows the page finds it again.
        page.no_open |= self.kept.is_some_and(|passed| passed > 0.0);
        Ok(page)
    }
}
