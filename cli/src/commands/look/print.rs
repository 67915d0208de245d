//! The tables of `betz look`.

use betz::Result;
use betz::explore::{Psth, TuningCurves};

use super::LookReport;
use crate::report::{self, Outcome, Table, count};

/// Most rows of a table.
const ROWS: usize = 40;

impl Outcome for LookReport {
    fn print(&self) -> Result<()> {
        if self.response.is_none() && self.tuning.is_none() {
            self.print_units()?;
        }
        if let Some(response) = &self.response {
            self.print_response(response)?;
        }
        if let Some(tuning) = &self.tuning {
            self.print_tuning(tuning)?;
        }
        if let Some(drawn) = self.channels_drawn {
            report::line(&format!(
                "picture: {}",
                super::picture::share(drawn, self.channel_names.len())
            ))?;
        }
        Ok(())
    }
}

/// A number with `digits` behind the point; nothing if it is not defined.
fn shown(value: f64, digits: usize) -> String {
    match value.is_nan() {
        true => "–".into(),
        false => format!("{value:.digits$}"),
    }
}

impl LookReport {
    /// Prints `table`, which has the first rows, and the number of the others.
    fn finish(&self, table: &Table) -> Result<()> {
        table.print()?;
        match self.channel_names.len().saturating_sub(ROWS) {
            0 => Ok(()),
            more => report::line(&format!(
                "and {}: --channels chooses, --json has all",
                count(more as u128, "more channel")
            )),
        }
    }

    fn print_units(&self) -> Result<()> {
        let mut table = Table::new(&[
            "unit",
            "spikes",
            "Hz",
            "presence",
            "violations",
            "contamination",
            "CV",
            "LV",
            "Fano",
        ]);
        for unit in self.units.iter().take(ROWS) {
            let violations = unit.refractory_violations.map_or_else(
                || "–".into(),
                |n| format!("{n} ({:.2} %)", 100.0 * unit.violation_share),
            );
            let violations = match unit.violation_share.is_nan() {
                true => "–".into(),
                false => violations,
            };
            table.row([
                unit.name.clone(),
                format!("{:.0}", unit.spikes),
                shown(unit.rate_hz, 2),
                format!("{:.0} %", 100.0 * unit.presence),
                violations,
                shown(unit.contamination, 3),
                shown(unit.cv, 2),
                shown(unit.lv, 2),
                shown(unit.fano, 2),
            ]);
        }
        self.finish(&table)?;
        let silent = self.units.iter().filter(|unit| unit.spikes == 0.0).count();
        report::line(&format!(
            "{}: {}, {silent} silent, {:.1} s in {} of {:.1} s",
            self.recording,
            count(self.units.len() as u128, "channel"),
            self.seconds_in_segments,
            count(self.segments as u128, "segment"),
            self.seconds
        ))
    }

    fn print_response(&self, response: &Psth) -> Result<()> {
        let mut table = Table::new(&["unit", "Hz before", "Hz after", "peak Hz", "at s", "Fano"]);
        let times = response.times();
        let half = 0.5 * response.window.bin_seconds;
        for (p, name) in self.channel_names.iter().take(ROWS).enumerate() {
            let rates = response.mean_of(p);
            let mean = |after: bool| {
                let part =
                    || (rates.iter().zip(&times)).filter(|(_, t)| (**t + half >= 0.0) == after);
                part().map(|(rate, _)| rate).sum::<f64>() / part().count() as f64
            };
            let peak = (0..rates.len())
                .rev()
                .max_by(|&a, &b| rates[a].total_cmp(&rates[b]));
            let peak = peak.unwrap_or(0);
            table.row([
                name.clone(),
                shown(mean(false), 2),
                shown(mean(true), 2),
                shown(rates[peak], 2),
                shown(times[peak] + half, 3),
                shown(response.fano[p], 2),
            ]);
        }
        self.finish(&table)?;
        let window = &response.window;
        let mut text = format!(
            "{} of `{}`, {} s to {} s around each in bins of {} s",
            count(response.events as u128, "event"),
            response.name,
            report::number(window.start_seconds),
            report::number(window.stop_seconds),
            report::number(window.bin_seconds)
        );
        if response.left_out > 0 {
            text.push_str(&format!(
                "; {} left out: the window reaches beyond the recording",
                response.left_out
            ));
        }
        if response.outside_segments > 0 {
            text.push_str(&format!(
                "; the windows of {} reach into time outside the segments",
                response.outside_segments
            ));
        }
        report::line(&text)
    }

    fn print_tuning(&self, tuning: &TuningCurves) -> Result<()> {
        let direction = tuning.curves.iter().any(|curve| curve.cosine.is_some());
        let mut header = vec!["unit", "mean Hz", "peak Hz", "at", "bits per spike"];
        if direction {
            header.extend(["preferred °", "depth Hz", "R² of cosine"]);
        }
        let mut table = Table::new(&header);
        for (name, curve) in self.channel_names.iter().zip(&tuning.curves).take(ROWS) {
            let mut row = vec![
                name.clone(),
                shown(curve.mean_hz, 2),
                shown(curve.peak_hz, 2),
                curve
                    .peak_bin
                    .map_or_else(|| "–".into(), |bin| place(tuning, bin)),
                shown(curve.bits_per_spike, 3),
            ];
            if direction {
                let fit = curve.cosine.as_ref();
                row.extend([
                    shown(fit.map_or(f64::NAN, |f| f.preferred.to_degrees()), 0),
                    shown(fit.map_or(f64::NAN, |f| f.depth_hz), 2),
                    shown(fit.map_or(f64::NAN, |f| f.r2), 3),
                ]);
            }
            table.row(row);
        }
        self.finish(&table)?;
        let names: Vec<String> = tuning.axes.iter().map(|axis| axis.name.clone()).collect();
        let seconds = || tuning.occupancy_seconds.iter().copied();
        let mut text = format!(
            "tuning to {} in {} of {:.2} to {:.2} s",
            names.join(" and "),
            count(tuning.bins() as u128, "bin"),
            seconds().fold(f64::INFINITY, f64::min),
            seconds().fold(0.0, f64::max)
        );
        for (steps, why) in [
            (
                tuning.steps_without_value,
                "the lag reaches beyond their segment",
            ),
            (tuning.steps_outside, "too slow, or outside the range"),
        ] {
            if steps > 0 {
                text.push_str(&format!(
                    "; {} left out: {why}",
                    count(steps as u128, "step")
                ));
            }
        }
        report::line(&text)
    }
}

/// Centre of a bin, in the axes' units; a direction in degrees.
fn place(tuning: &TuningCurves, bin: usize) -> String {
    let mut rest = bin;
    let mut places = Vec::new();
    for axis in &tuning.axes {
        let centres = axis.centres();
        let centre = centres[rest % centres.len()];
        rest /= centres.len();
        places.push(match axis.unit.as_str() {
            "rad" => format!("{:.0}°", centre.to_degrees()),
            unit => format!("{centre:.3} {unit}").trim_end().to_owned(),
        });
    }
    places.join(", ")
}
