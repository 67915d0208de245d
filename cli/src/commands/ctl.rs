//! `betz ctl`: control of a session that `betz run --ctl FILE` runs.

use std::path::PathBuf;

use betz::Result;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;

use super::run::control::{self, Order, TrialWord};
use crate::report::{self, Outcome};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  betz ctl session.ctl mark reward\n  betz ctl session.ctl trial end\n  betz ctl session.ctl label 0.3 -0.2\n  betz ctl session.ctl swap new.betz\n  betz ctl session.ctl health"
)]
pub(crate) struct Ctl {
    /// File that `betz run --ctl FILE` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(subcommand)]
    order: CtlOrder,
    /// Print one JSON object on standard output instead of lines
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum CtlOrder {
    /// Add a text at the open step
    Mark {
        /// Text, which the recording keeps
        #[arg(value_name = "TEXT")]
        text: String,
    },
    /// Begin, end or reject a trial at the open step
    Trial {
        /// Bound of the trial
        #[arg(value_enum)]
        what: TrialWord,
    },
    /// Add true outputs, one value per output
    Label {
        /// Step that they belong to [default: the open one]
        #[arg(long, value_name = "NUMBER")]
        step: Option<u64>,
        /// One value per output
        #[arg(value_name = "VALUE", required = true, allow_negative_numbers = true)]
        values: Vec<f32>,
    },
    /// Give the session the model that its trainer proposes, or a window suggests
    Accept,
    /// Return to the model before the last swap
    RollBack,
    /// Give the session another model
    Swap {
        /// Model file
        #[arg(value_name = "MODEL")]
        model: PathBuf,
    },
    /// Tell the counts of the session
    Health,
    /// End the session as Ctrl-C does
    Stop,
}

/// Answer of the session.
#[derive(Serialize)]
#[serde(transparent)]
struct Answer(Value);

impl Outcome for Answer {
    fn print(&self) -> Result<()> {
        match &self.0 {
            Value::Object(fields) if fields.len() == 1 && fields.contains_key("step") => {
                report::line(&format!("done at step {}", fields["step"]))
            }
            other => report::line(&format!("{other:#}")),
        }
    }
}

pub(crate) fn run(args: &Ctl) -> Result<()> {
    let order = match &args.order {
        CtlOrder::Mark { text } => Order::Mark { text: text.clone() },
        CtlOrder::Trial { what } => Order::Trial { what: *what },
        CtlOrder::Label { step, values } => Order::Label {
            step: *step,
            values: values.clone(),
        },
        CtlOrder::Accept => Order::Accept,
        CtlOrder::RollBack => Order::RollBack,
        CtlOrder::Swap { model } => Order::Swap {
            // The session may run in another folder.
            model: std::path::absolute(model).unwrap_or_else(|_| model.clone()),
        },
        CtlOrder::Health => Order::Health,
        CtlOrder::Stop => Order::Stop,
    };
    report::tell(&Answer(control::send(&args.file, order)?), args.json)
}
