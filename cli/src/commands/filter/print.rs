//! The tables of `betz filter`.

use betz::Result;

use super::{BankReport, FitReport};
use crate::report::{self, Outcome, Table, count, number};

fn milliseconds(seconds: f64) -> String {
    format!("{:.1}", 1e3 * seconds)
}

impl Outcome for BankReport {
    fn print(&self) -> Result<()> {
        let header = [
            "filter",
            "peak ms",
            "delay ms",
            "length ms",
            "ahead ms",
            "gain",
            "−3 dB Hz",
        ];
        let mut table = Table::new(&header);
        for filter in &self.filters {
            table.row([
                filter.name.clone(),
                milliseconds(filter.peak_seconds),
                milliseconds(filter.delay_seconds),
                milliseconds(filter.length_seconds),
                milliseconds(filter.ahead_seconds),
                format!("{:.3}", filter.gain),
                format!("{:.2}", filter.cutoff_hz),
            ]);
        }
        table.print()
    }
}

impl Outcome for FitReport {
    fn print(&self) -> Result<()> {
        for filter in &self.filters {
            report::line(&format!(
                "{}: {} in place of {}; largest error {:.3} %, rms {:.3} % of the largest sample",
                filter.name,
                count(filter.terms.len() as u128, "recursive filter"),
                count(filter.samples as u128, "sample"),
                100.0 * filter.largest_error,
                100.0 * filter.rms_error,
            ))?;
            let mut table = Table::new(&["τ ms", "order", "weight"]);
            for term in &filter.terms {
                table.row([
                    number(1e3 * term.tau_seconds),
                    term.order.to_string(),
                    number(term.weight),
                ]);
            }
            table.print()?;
        }
        match &self.model {
            Some(model) => report::line(&format!("{model}: the model with recursive filters")),
            None => Ok(()),
        }
    }
}
