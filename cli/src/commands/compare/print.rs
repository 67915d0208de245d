//! The table of `betz compare`.

use betz::Result;
use betz::train::Kind;

use super::ComparisonReport;
use crate::bank;
use crate::report::{self, Outcome, Table, count};

impl Outcome for ComparisonReport {
    fn print(&self) -> Result<()> {
        let mut header = vec!["decoder".to_owned(), "R²".into(), "gain".into()];
        let outputs = self.kinds.first().map_or(&[][..], |row| &row.outputs);
        if outputs.len() > 1 {
            header.extend(outputs.iter().map(|score| format!("R² of {}", score.name)));
        }
        header.extend(["seconds", "multiply-adds", "step", "configuration"].map(str::to_owned));
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let mut table = Table::new(&header);
        for row in &self.kinds {
            let mut cells = vec![row.decoder.to_owned(), format!("{:.4}", row.r2)];
            cells.push(match row.decoder == Kind::Linear.name() {
                true => String::new(),
                false => format!("{:+.4} ± {:.4}", row.gain, row.gain_error),
            });
            if outputs.len() > 1 {
                cells.extend(row.outputs.iter().map(|score| format!("{:.4}", score.r2)));
            }
            cells.extend([
                format!("{:.2}", row.seconds),
                match row.multiply_adds.is_nan() {
                    true => "–".into(),
                    false => format!("{:.0}", row.multiply_adds),
                },
                format!("{:.2} µs", row.step_us),
                row.configuration.clone(),
            ]);
            table.row(cells);
        }
        table.print()?;
        for failed in &self.failed {
            report::line(&format!(
                "{}: not trained: {}",
                failed.decoder, failed.reason
            ))?;
        }
        report::line(&format!(
            "{}: {}, {} in {}, {} folds; bank (tau s:order): {}",
            self.recording,
            count(self.channels as u128, "channel"),
            count(self.steps as u128, "step"),
            count(self.segments as u128, "segment"),
            self.folds,
            bank::text(&self.filters)
        ))?;
        report::line(&format!(
            "best: {}; seconds: cross-validation and training on {}; {:.2} s in all",
            self.best, self.device, self.total_seconds
        ))
    }
}
