//! The table of `betz compare`.

use betz::Result;
use betz::train::Kind;

use super::{BlendReport, ComparisonReport, WindowScore, codes};
use crate::bank;
use crate::report::{self, Outcome, Table, count};

/// The blend and its members.
fn blend_table(blend: &BlendReport, step_seconds: f64) -> Result<()> {
    report::line(&format!(
        "on {} parts that come after the training of each decoder, or are held out of its trials:",
        blend.parts
    ))?;
    let mut table = Table::new(&["decoder", "R²", "gain", "weight", "configuration"]);
    for row in &blend.rows {
        table.row([
            row.decoder.to_owned(),
            format!("{:.4}", row.r2),
            match row.decoder == Kind::Linear.name() {
                true => String::new(),
                false => format!("{:+.4} ± {:.4}", row.gain, row.gain_error),
            },
            (row.weight).map_or_else(String::new, |weight| format!("{weight:.2}")),
            row.configuration.clone(),
        ]);
    }
    table.print()?;
    over_time_table(blend, step_seconds)?;
    report::line(&format!(
        "the blend takes {:.2} µs per step; trained in {:.2} s",
        blend.step_us, blend.seconds
    ))
}

/// Columns of R² over time.
const COLUMNS: usize = 4;

/// R² of the blend and its members in four spans of what was held out.
fn over_time_table(blend: &BlendReport, step_seconds: f64) -> Result<()> {
    let Some(first) = blend
        .rows
        .first()
        .filter(|row| row.over_time.len() >= COLUMNS)
    else {
        return Ok(());
    };
    let each = first.over_time.len().div_ceil(COLUMNS);
    let span = |windows: &[WindowScore]| {
        let ends = [
            windows.first().map(|w| w.first_step),
            windows.last().map(|w| w.stop_step),
        ];
        let [start, stop] = ends.map(|step| step.unwrap_or(0) as f64 * step_seconds);
        format!("{start:.0} to {stop:.0} s")
    };
    let mut header = vec!["R² over time".to_owned()];
    header.extend(first.over_time.chunks(each).map(span));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = Table::new(&header);
    for row in &blend.rows {
        let mean = |windows: &[WindowScore]| {
            let sum: f64 = windows.iter().map(|window| window.r2).sum();
            format!("{:.3}", sum / windows.len() as f64)
        };
        let cells = std::iter::once(row.decoder.to_owned());
        table.row(
            cells
                .chain(row.over_time.chunks(each).map(mean))
                .collect::<Vec<_>>(),
        );
    }
    table.print()
}

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
        if let Some(blend) = &self.blend {
            blend_table(blend, self.step_seconds)?;
        }
        codes::print(&self.codes, self.folds)?;
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
