//! Experiments of a paper, and their results here.

use serde::Serialize;

use super::figure::Figure;

/// The papers of one subject: data, without results.
#[derive(Debug)]
pub(super) struct Study {
    /// Name on the command line.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Citations of the papers.
    pub(super) sources: &'static [&'static str],
    /// The papers' machines.
    pub(super) machines: &'static str,
    /// General remarks: data that cannot be had, parameters that the papers do not give.
    pub(super) remarks: &'static [&'static str],
    pub(super) experiments: &'static [Experiment],
}

/// A figure, a table or a passage of a paper that states numbers.
#[derive(Debug)]
pub(super) struct Experiment {
    /// Place in the paper, such as `Table II`.
    pub(super) place: &'static str,
    pub(super) title: &'static str,
    /// The paper's sizes.
    pub(super) sizes: &'static str,
    pub(super) points: &'static [Point],
}

/// A number or a statement of a paper.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) subject: &'static str,
    /// The paper's value.
    pub(super) paper: &'static str,
}

/// A point of an experiment; short, because lists of them are long.
pub(super) const fn point(subject: &'static str, paper: &'static str) -> Point {
    Point { subject, paper }
}

/// Outcome of a point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    Reproduced,
    /// The value here is another; the reason.
    Differs(String),
    /// There is no value here; the reason.
    Unavailable(String),
}

/// The value of a point here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) here: String,
    pub(super) verdict: Verdict,
}

impl Answer {
    /// The same as the paper's.
    pub(super) fn reproduced(here: impl Into<String>) -> Self {
        Self {
            here: here.into(),
            verdict: Verdict::Reproduced,
        }
    }

    /// Another value than the paper's.
    pub(super) fn differs(here: impl Into<String>, because: impl Into<String>) -> Self {
        Self {
            here: here.into(),
            verdict: Verdict::Differs(because.into()),
        }
    }

    /// No value.
    pub(super) fn unavailable(because: impl Into<String>) -> Self {
        Self {
            here: "–".to_owned(),
            verdict: Verdict::Unavailable(because.into()),
        }
    }

    /// A ratio, reproduced if it is within a quarter of the paper's.
    pub(super) fn ratio(ratio: f64, paper: f64, place: &str, because: impl Into<String>) -> Self {
        let same = (0.75..=1.25).contains(&(ratio / paper));
        Self::decided(same, format!("{} ×{place}", short(ratio)), because)
    }

    /// Reproduced if `same`; else it differs for this reason.
    pub(super) fn decided(same: bool, here: impl Into<String>, because: impl Into<String>) -> Self {
        match same {
            true => Self::reproduced(here),
            false => Self::differs(here, because),
        }
    }
}

/// Results of an experiment here.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Sizes of this run.
    pub(super) sizes: String,
    pub(super) figures: Vec<Figure>,
    pub(super) grids: Vec<Grid>,
    /// One answer per point of the experiment, in its order.
    pub(super) answers: Vec<Answer>,
}

/// A table of measured values.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Grid {
    pub(super) title: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Grid {
    pub(super) fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            columns: columns.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

/// Three significant digits, without an exponent for usual sizes.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".to_owned();
    }
    if size >= 1e6 {
        return format!("{value:.3e}");
    }
    match size {
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 1.0 => format!("{value:.2}"),
        _ if size >= 1e-3 || size == 0.0 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

/// A whole number with its thousands apart.
pub(super) fn whole(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The slope of log y over log x, by least squares: the exponent of a power law.
pub(super) fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let n = logs.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / n;
    let (mx, my) = (mean(&|p| p.0), mean(&|p| p.1));
    let covariance = mean(&|p| (p.0 - mx) * (p.1 - my));
    covariance / mean(&|p| (p.0 - mx).powi(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_whole_ones_readable() {
        assert_eq!(short(0.0), "0.0000");
        assert_eq!(short(83.353), "83.4");
        assert_eq!(short(2_500.4), "2500");
        assert_eq!(short(4e-5), "4.00e-5");
        assert_eq!(short(f64::NAN), "–");
        assert_eq!(whole(7), "7");
        assert_eq!(whole(12_840_684), "12,840,684");
        assert_eq!(whole(100), "100");
    }

    #[test]
    fn a_ratio_is_the_papers_within_a_quarter() {
        assert_eq!(
            Answer::ratio(3.0, 3.6, "", "why"),
            Answer::reproduced("3.00 ×")
        );
        assert_eq!(
            Answer::ratio(1.39, 3.6, "", "why"),
            Answer::differs("1.39 ×", "why")
        );
        let undefined = Answer::ratio(f64::NAN, 3.6, " here", "why");
        assert_eq!(undefined, Answer::differs("– × here", "why"));
    }

    #[test]
    fn the_exponent_of_a_power_law_is_found() {
        let points: Vec<(f64, f64)> = (1..6)
            .map(|i| (f64::from(i), 3.0 * f64::from(i).powi(2)))
            .collect();
        assert!((exponent(&points) - 2.0).abs() < 1e-12);
    }
}
