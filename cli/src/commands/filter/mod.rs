//! `betz filter`: banks of filters described and drawn, and recursive filters in place of sampled ones.

pub(crate) mod args;
mod curve;
mod picture;
mod print;

use betz::model::Decoder;
use betz::psc::FilterBank;
use betz::train::filters::{self, FittedFilter};
use betz::{Error, Result};
use serde::Serialize;

use crate::files::{Files, Kind};
use crate::report;
use args::{Bank, FilterCommand, Fit, Show};
use curve::{Curve, FilterSummary};

/// The report of `betz filter show`.
#[derive(Serialize)]
struct BankReport {
    step_seconds: f64,
    filters: Vec<FilterSummary>,
}

/// The report of `betz filter fit`.
#[derive(Serialize)]
struct FitReport {
    step_seconds: f64,
    tolerance: f64,
    filters: Vec<FilterFit>,
    /// The model that was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

/// A sampled filter, and the sum that stands for it.
#[derive(Serialize)]
struct FilterFit {
    name: String,
    samples: usize,
    terms: Vec<TermReport>,
    /// Largest and root-mean-square difference, as shares of the largest sample.
    largest_error: f64,
    rms_error: f64,
}

#[derive(Serialize)]
struct TermReport {
    tau_seconds: f64,
    order: u32,
    weight: f64,
}

pub(crate) fn run(command: &FilterCommand) -> Result<()> {
    match command {
        FilterCommand::Show(args) => show(args),
        FilterCommand::Fit(args) => fit(args),
    }
}

impl Bank {
    /// The filters, their step, and the model that has them.
    fn read(&self) -> Result<(FilterBank, f64, Option<Decoder>)> {
        let Some(path) = &self.model else {
            if self.filters.filters.is_empty() {
                return Err(Error::argument(
                    "expected a MODEL, or filters such as --filter 50ms:1 --filter boxcar:20ms, got neither",
                ));
            }
            let bank = self.filters.named("", "", self.step)?;
            return Ok((bank, self.step, None));
        };
        let model = Decoder::load(path)?;
        Ok((model.bank().clone(), model.step_seconds(), Some(model)))
    }
}

fn show(args: &Show) -> Result<()> {
    let mut files = Files::new(&args.common);
    if let Some(model) = &args.bank.model {
        files = files.reads("MODEL", model);
    }
    files.may_write("--picture", args.picture.as_deref(), Kind::Picture)?;
    let (bank, step_seconds, _) = args.bank.read()?;
    let curves = Curve::of_bank(&bank, step_seconds);
    if let Some(path) = &args.picture {
        let title = format!("{} filters, steps of {} s", curves.len(), step_seconds);
        picture::draw(&title, &curves, &[], path)?;
    }
    let filters = curves.iter().map(Curve::summary).collect();
    let told = BankReport {
        step_seconds,
        filters,
    };
    report::tell(&told, args.common.json)
}

fn fit(args: &Fit) -> Result<()> {
    // Clap does not ask for MODEL where --filter stands, which MODEL excludes.
    if let (None, Some(out)) = (&args.bank.model, &args.out) {
        return Err(Error::argument(format!(
            "--out {}: expected a MODEL whose filters are replaced, got none",
            out.display()
        )));
    }
    let mut files = Files::new(&args.common);
    if let Some(model) = &args.bank.model {
        files = files.reads("MODEL", model);
    }
    files.may_write("--out", args.out.as_deref(), Kind::Model)?;
    files.may_write("--picture", args.picture.as_deref(), Kind::Picture)?;
    let (bank, step_seconds, model) = args.bank.read()?;
    if bank.sampled().is_empty() {
        return Err(Error::argument(
            "expected a sampled filter, such as --filter file:epsc.csv, got only recursive ones, which need no sum in their place",
        ));
    }
    let fitted: Vec<FittedFilter> = match (&model, &args.out) {
        (Some(model), Some(out)) => {
            let at = |e: Error| e.at(args.bank.model.as_deref().unwrap_or(out).display());
            let (decoder, fitted) =
                filters::fit_decoder(model.clone(), args.tolerance).map_err(at)?;
            decoder.save(out)?;
            fitted
        }
        _ => (bank.sampled().iter())
            .map(|filter| filters::fit(filter, args.tolerance))
            .collect::<Result<_>>()?,
    };
    let samples = &Curve::of_bank(&bank, step_seconds)[bank.filters().len()..];
    if let Some(path) = &args.picture {
        let sums: Vec<Curve> = (samples.iter().zip(&fitted))
            .map(|(curve, fitted)| curve.fitted(fitted))
            .collect();
        picture::draw("filters, and sums of recursive ones", samples, &sums, path)?;
    }
    let filters = (bank.sampled().iter().zip(fitted)).map(|(filter, fitted)| FilterFit {
        name: filter.name().to_owned(),
        samples: filter.samples().len(),
        largest_error: fitted.largest_error,
        rms_error: fitted.rms_error,
        terms: (fitted.terms.iter())
            .map(|term| TermReport {
                tau_seconds: term.filter.tau_seconds,
                order: term.filter.order,
                weight: term.weight,
            })
            .collect(),
    });
    let told = FitReport {
        step_seconds,
        tolerance: args.tolerance,
        filters: filters.collect(),
        model: args.out.as_ref().map(|path| path.display().to_string()),
    };
    report::tell(&told, args.common.json)
}
