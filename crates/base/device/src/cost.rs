//! Expected time of work: linear models with defaults, or fitted to runs on this machine.
//!
//! A domain describes each of its operations by a [`CostModel`]: a few counts of work, and the seconds
//! that one of each costs. A [`Calibration`] holds fitted seconds; it is a small text file in the
//! user's cache folder, one per host. Nothing here knows what an operation does.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::cache;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::file::write_atomically;

/// First line of a calibration file.
const HEADER: &str = "betz calibration 1";

/// Seconds of an operation = Σ coefficient × term, on one kind of device.
#[derive(Debug, Clone, Copy)]
pub struct CostModel {
    /// Name of operation and device, such as `gram.event.cpu`; no white space.
    pub name: &'static str,
    /// Meaning of each term; on the CPU, a count of the busiest thread's work.
    pub terms: &'static [&'static str],
    /// Seconds per unit of each term, without calibration.
    pub defaults: &'static [f64],
}

/// Opening a context, with what else a process's first work on a device needs.
pub const START_CUDA: CostModel = CostModel {
    name: "start.cuda",
    terms: &["1"],
    defaults: &[0.5],
};

/// Fitted coefficients of models, by their names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Calibration {
    /// Names of what was measured, for people: the CPU's, then a GPU's.
    devices: Vec<String>,
    coefficients: BTreeMap<String, Vec<f64>>,
}

impl Calibration {
    /// An empty one, to be filled by runs on `devices`.
    pub fn new(devices: Vec<String>) -> Self {
        Self {
            devices,
            coefficients: BTreeMap::new(),
        }
    }

    /// This host's, read once in a process; empty (every model then has its defaults) when there is
    /// none or it is damaged.
    pub fn current() -> Arc<Self> {
        static CURRENT: OnceLock<Arc<Calibration>> = OnceLock::new();
        Arc::clone(CURRENT.get_or_init(|| {
            // Unit tests see the defaults, whatever this host was calibrated to.
            let stored = Self::path().filter(|_| !cfg!(test));
            Arc::new(stored.and_then(|p| Self::load(&p).ok()).unwrap_or_default())
        }))
    }

    /// Path of this host's calibration; `None` without a cache folder.
    pub fn path() -> Option<PathBuf> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
            .or_else(|_| std::fs::read_to_string("/etc/hostname"))
            .ok()
            .or_else(|| std::env::var("COMPUTERNAME").ok())
            .unwrap_or_default();
        let host: String = host
            .trim()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        cache::folder().map(|folder| folder.join(format!("calibration-{host}.txt")))
    }

    /// True when nothing was fitted.
    pub fn is_empty(&self) -> bool {
        self.coefficients.is_empty()
    }

    /// Names of the devices that were measured.
    pub fn devices(&self) -> &[String] {
        &self.devices
    }

    /// With the models of `earlier` that this one has not, and the names of devices beyond those it
    /// measured: without a GPU at hand, or leave to use one, what is known of it stays.
    #[must_use]
    pub fn keeping(mut self, earlier: &Self) -> Self {
        for (name, coefficients) in &earlier.coefficients {
            self.coefficients
                .entry(name.clone())
                .or_insert_with(|| coefficients.clone());
        }
        let measured = self.devices.len();
        let unmeasured = earlier.devices.iter().skip(measured).cloned();
        self.devices.extend(unmeasured);
        self
    }

    /// The fitted coefficients of `model`; `None` when it has its defaults.
    pub fn fitted(&self, model: &CostModel) -> Option<&[f64]> {
        self.coefficients
            .get(model.name)
            .filter(|c| c.len() == model.terms.len())
            .map(Vec::as_slice)
    }

    /// Fits `model` to `runs` (its terms, and the seconds measured) and keeps the result.
    ///
    /// # Errors
    /// As [`fit`].
    pub fn fit(&mut self, model: &CostModel, runs: &[(Vec<f64>, f64)]) -> Result<()> {
        let coefficients = fit(runs).map_err(|e| e.at(model.name))?;
        self.coefficients
            .insert(model.name.to_owned(), coefficients);
        Ok(())
    }

    /// Seconds that `model` expects for `terms`.
    pub fn seconds(&self, model: &CostModel, terms: &[f64]) -> f64 {
        let coefficients = self.fitted(model).unwrap_or(model.defaults);
        coefficients.iter().zip(terms).map(|(c, t)| c * t).sum()
    }

    /// Writes the file at `path`, and the folder it is in.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn save(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| Error::io("creating", folder, &e))?;
        }
        write_atomically(path, |file| {
            writeln!(file, "{HEADER}")?;
            for device in &self.devices {
                writeln!(file, "device {device}")?;
            }
            for (name, coefficients) in &self.coefficients {
                write!(file, "model {name}")?;
                for c in coefficients {
                    write!(file, " {c:e}")?;
                }
                writeln!(file)?;
            }
            Ok(())
        })
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; [`ErrorKind::InvalidArgument`], with the line, for anything else than what
    /// [`Calibration::save`] writes.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("reading", path, &e))?;
        let wrong = |line: usize, expected: &str, got: &str| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "{}, line {}: expected {expected}, got {got:?}",
                    path.display(),
                    line + 1
                ),
            )
        };
        let mut lines = text.lines().enumerate();
        match lines.next() {
            Some((_, HEADER)) => {}
            other => return Err(wrong(0, HEADER, other.map_or("", |(_, line)| line))),
        }
        let mut found = Self::default();
        for (at, line) in lines {
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            match kind {
                "device" => found.devices.push(rest.to_owned()),
                "model" => {
                    let (name, numbers) = rest.split_once(' ').unwrap_or((rest, ""));
                    let sound = |c: &f64| c.is_finite() && *c >= 0.0;
                    let seconds = |n: &str| n.parse().ok().filter(sound);
                    let coefficients: Option<Vec<f64>> =
                        numbers.split_whitespace().map(seconds).collect();
                    let coefficients = coefficients
                        .ok_or_else(|| wrong(at, "seconds, finite and >= 0", numbers))?;
                    found.coefficients.insert(name.to_owned(), coefficients);
                }
                _ => return Err(wrong(at, "device or model", line)),
            }
        }
        Ok(found)
    }
}

/// The coefficients >= 0 that explain `runs` (terms, seconds) with the least sum of squared
/// relative errors.
///
/// Tries every set of terms that may differ from zero: exact, and quick for the few terms of a
/// [`CostModel`].
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] without runs, with runs of different lengths or more than 12
/// terms, or with a time that is not positive.
pub fn fit(runs: &[(Vec<f64>, f64)]) -> Result<Vec<f64>> {
    let terms = runs.first().map_or(0, |(terms, _)| terms.len());
    let sound = |(t, seconds): &(Vec<f64>, f64)| {
        t.len() == terms && t.iter().all(|t| t.is_finite()) && *seconds > 0.0
    };
    if terms == 0 || terms > 12 || !runs.iter().all(sound) {
        return Err(Error::argument(
            "cost model: expected runs of the same 1 to 12 finite terms and positive seconds",
        ));
    }
    let mut best = (f64::INFINITY, vec![0.0; terms]);
    for set in 1u32..1 << terms {
        let used: Vec<usize> = (0..terms).filter(|t| set >> t & 1 == 1).collect();
        // Rows divided by their seconds: every run counts alike. Columns brought to one scale.
        let scale: Vec<f64> = used
            .iter()
            .map(|&t| runs.iter().map(|(x, s)| x[t] / s).fold(0.0, f64::max))
            .collect();
        if scale.contains(&0.0) {
            continue;
        }
        let columns = used.iter().zip(&scale);
        let columns =
            columns.map(|(&t, scale)| runs.iter().map(|(x, s)| x[t] / s / scale).collect());
        let columns: Vec<Vec<f64>> = columns.collect();
        let Some(solved) = least_squares(&columns, &vec![1.0; runs.len()]) else {
            continue;
        };
        if solved.iter().any(|c| *c < 0.0) {
            continue;
        }
        let off = |r: usize| {
            let sum: f64 = columns
                .iter()
                .zip(&solved)
                .map(|(column, c)| column[r] * c)
                .sum();
            sum - 1.0
        };
        let error: f64 = (0..runs.len()).map(|r| off(r) * off(r)).sum();
        if error < best.0 {
            let mut coefficients = vec![0.0; terms];
            for ((&t, c), scale) in used.iter().zip(solved.iter()).zip(&scale) {
                coefficients[t] = c / scale;
            }
            best = (error, coefficients);
        }
    }
    Ok(best.1)
}

/// A column that is a combination of others to within this part of its length adds nothing.
const DEPENDENT: f64 = 1e-9;

/// The x that minimises |Σ x_c column_c − right|², by Gram and Schmidt's orthogonalisation, done twice for each
/// column; `None` where a column is a combination of those before it (fewer columns do as well then).
fn least_squares(columns: &[Vec<f64>], right: &[f64]) -> Option<Vec<f64>> {
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let n = columns.len();
    let mut orthogonal: Vec<Vec<f64>> = Vec::with_capacity(n);
    // (n, n), upper: column c is the sum of upper[k][c] orthogonal_k.
    let mut upper = vec![vec![0.0; n]; n];
    for (c, column) in columns.iter().enumerate() {
        let mut rest = column.clone();
        for _ in 0..2 {
            for (k, before) in orthogonal.iter().enumerate() {
                let share = dot(before, &rest);
                upper[k][c] += share;
                rest.iter_mut()
                    .zip(before)
                    .for_each(|(r, b)| *r -= share * b);
            }
        }
        let length = dot(&rest, &rest).sqrt();
        if !(length.is_finite() && length > DEPENDENT * dot(column, column).sqrt()) {
            return None;
        }
        upper[c][c] = length;
        rest.iter_mut().for_each(|r| *r /= length);
        orthogonal.push(rest);
    }
    let mut solved: Vec<f64> = orthogonal.iter().map(|q| dot(q, right)).collect();
    for c in (0..n).rev() {
        let known: f64 = (c + 1..n).map(|k| upper[c][k] * solved[k]).sum();
        solved[c] = (solved[c] - known) / upper[c][c];
    }
    Some(solved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_squares_are_least_and_combinations_are_told() {
        let columns = vec![vec![1.0; 4], vec![0.0, 1.0, 2.0, 3.0]];
        // The line through (0, 1), (1, 3), (2, 4), (3, 6): 1.1 + 1.6 x.
        let line = least_squares(&columns, &[1.0, 3.0, 4.0, 6.0]).unwrap();
        assert!((line[0] - 1.1).abs() < 1e-12 && (line[1] - 1.6).abs() < 1e-12);
        let twice = vec![
            columns[1].clone(),
            columns[1].iter().map(|v| 3.0 * v).collect(),
        ];
        assert_eq!(least_squares(&twice, &[1.0; 4]), None);
        assert_eq!(least_squares(&[vec![0.0; 4]], &[1.0; 4]), None);
    }

    const MODEL: CostModel = CostModel {
        name: "work.cpu",
        terms: &["1", "items"],
        defaults: &[1.0, 4.0],
    };

    #[test]
    fn exact_costs_are_found_again_and_none_is_negative() {
        let truth = [2e-3, 0.0, 5e-9];
        let runs: Vec<(Vec<f64>, f64)> = [(10.0, 1e6), (1e3, 2e3), (5e4, 1e8), (7.0, 3e7)]
            .map(|(a, b)| (vec![1.0, a, b], truth[0] + truth[2] * b))
            .into();
        let found = fit(&runs).unwrap();
        for (found, truth) in found.iter().zip(truth) {
            assert!((found - truth).abs() <= 1e-9 * truth.max(1e-12), "{found}");
        }
        // A cost that falls with the work is none: the constant takes it.
        let falling = [(vec![1.0, 1.0], 2.0), (vec![1.0, 2.0], 1.0)];
        let found = fit(&falling).unwrap();
        assert!(found[1] == 0.0 && found[0] > 0.0, "{found:?}");
        for bad in [
            &[][..],
            &[(vec![1.0], 0.0)],
            &[(vec![1.0], 1.0), (vec![], 1.0)],
        ] {
            assert_eq!(fit(bad).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
    }

    #[test]
    fn fitted_seconds_replace_the_defaults() {
        let mut calibration = Calibration::default();
        assert_eq!(calibration.seconds(&MODEL, &[1.0, 10.0]), 41.0);
        let runs = [(vec![1.0, 0.0], 1.0), (vec![1.0, 1.0], 3.0)];
        calibration.fit(&MODEL, &runs).unwrap();
        assert!((calibration.seconds(&MODEL, &[1.0, 10.0]) - 21.0).abs() < 1e-9);
    }

    #[test]
    fn what_was_not_measured_again_is_kept() {
        const OTHER: CostModel = CostModel {
            name: "work.cuda",
            ..MODEL
        };
        let runs = |seconds| [(vec![1.0, 0.0], seconds), (vec![1.0, 1.0], 3.0 * seconds)];
        let mut both = Calibration::new(vec!["2 threads".into(), "NVIDIA H200".into()]);
        both.fit(&MODEL, &runs(1.0)).unwrap();
        both.fit(&OTHER, &runs(1.0)).unwrap();
        let mut cpu = Calibration::new(vec!["8 threads".into()]);
        cpu.fit(&MODEL, &runs(0.5)).unwrap();
        let kept = cpu.keeping(&both);
        assert_eq!(kept.devices(), ["8 threads", "NVIDIA H200"]);
        assert_eq!(kept.fitted(&OTHER), both.fitted(&OTHER));
        assert!((kept.seconds(&MODEL, &[1.0, 0.0]) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn files_read_back_and_damaged_ones_name_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("calibration.txt");
        let mut written = Calibration::new(vec!["NVIDIA H200".into()]);
        written.fit(&MODEL, &[(vec![1.0, 3.0], 0.3)]).unwrap();
        written.save(&path).unwrap();
        assert_eq!(Calibration::load(&path).unwrap(), written);
        for (text, line) in [
            ("", "line 1"),
            (
                "betz calibration 1\ndevice a\nmodel a.cpu 1e-9 -1\n",
                "line 3",
            ),
            ("betz calibration 1\nmodel a.cpu NaN\n", "line 2"),
            ("betz calibration 1\nmodel a.cpu 1 inf\n", "line 2"),
            ("betz calibration 1\nhello\n", "line 2"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Calibration::load(&path).unwrap_err();
            assert!(error.message().contains(line), "{error}");
        }
    }
}
