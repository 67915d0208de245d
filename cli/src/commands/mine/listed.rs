//! Episodes as `betz mine` reads and prints them.

use std::path::Path;

use betz::episode::significance::ChainTest;
use betz::episode::{Alphabet, Episode, Interval, Pattern, read_patterns};
use betz::{Error, Result};
use serde::Serialize;

use super::chance::TestMethod;
use crate::report::{self, Table};

/// One episode as the contract names it.
#[derive(Serialize)]
pub(super) struct EpisodeRow {
    symbols: Vec<String>,
    /// [low, high] in seconds, one per edge.
    intervals: Vec<[f64; 2]>,
    count: u64,
    #[serde(flatten)]
    chance: Option<Chance>,
}

/// Significance of an episode; null if it was not tested.
#[derive(Serialize, Default)]
pub(super) struct Chance {
    expected: Option<f64>,
    std: Option<f64>,
    p: Option<f64>,
    q: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weakest_part: Option<Part>,
}

/// The part of an episode that is most likely there by chance.
#[derive(Serialize)]
struct Part {
    /// Its symbols are `first..last`, counted from 0.
    first: usize,
    last: usize,
    expected: f64,
    p: f64,
    q: f64,
}

impl Chance {
    pub(super) fn new(tested: Option<&ChainTest>) -> Self {
        tested.map_or_else(Self::default, |test| Self {
            expected: Some(test.surrogates.expected),
            std: Some(test.surrogates.std),
            p: Some(test.surrogates.p),
            q: Some(test.surrogates.q),
            weakest_part: test.parts.as_ref().map(|part| Part {
                first: part.weakest.start,
                last: part.weakest.end,
                expected: part.expected,
                p: part.p,
                q: part.q,
            }),
        })
    }
}

/// The episodes of a `--count-only` file.
pub(crate) fn given(
    alphabet: &Alphabet,
    intervals: &[Interval],
    path: &Path,
) -> Result<Vec<Pattern>> {
    let default = match intervals {
        [] => None,
        [one] => Some(*one),
        more => {
            return Err(Error::argument(format!(
                "--count-only: expected one --interval for the edges without their own, got {}",
                more.len()
            )));
        }
    };
    read_patterns(path, alphabet, default)
}

/// `pattern` and its count, for the list.
pub(super) fn list(
    pattern: &Pattern,
    count: u64,
    chance: Option<Chance>,
    alphabet: &Alphabet,
) -> EpisodeRow {
    let clock = alphabet.clock();
    EpisodeRow {
        symbols: pattern
            .symbols()
            .iter()
            .map(|&s| alphabet.label(s).to_string())
            .collect(),
        intervals: pattern
            .intervals()
            .iter()
            .map(|i| [clock.seconds(i.low), clock.seconds(i.high)])
            .collect(),
        count,
        chance,
    }
}

/// Prints a table of episodes, with what surrogates say of them where they were tested. Where all edges
/// have one interval it is named once, in the heading.
pub(super) fn print_table(
    rows: &[(&Episode, Option<&ChainTest>)],
    tested: Option<&TestMethod>,
    alphabet: &Alphabet,
) -> Result<()> {
    let common = common_interval(rows.iter().map(|(e, _)| &e.pattern));
    let clock = alphabet.clock();
    let heading = match common {
        Some(i) => format!(
            "episode, delays of ({},{}] s",
            clock.seconds(i.low),
            clock.seconds(i.high)
        ),
        None => "episode".to_owned(),
    };
    let text = |pattern: &Pattern| match common {
        Some(_) => {
            let labels = pattern.symbols().iter().map(|&s| alphabet.written(s));
            labels.collect::<Vec<_>>().join(" ")
        }
        None => pattern.display(alphabet).to_string(),
    };
    let mut header = vec![heading.as_str(), "count"];
    if let Some(how) = tested {
        header.extend(["expected", "p", "q"]);
        header.extend(how.parts.then_some("q of the weakest part"));
    }
    let columns = header.len();
    let mut table = Table::new(&header);
    for (e, test) in rows {
        let mut cells = vec![text(&e.pattern), e.count.to_string()];
        if let Some(ChainTest {
            surrogates, parts, ..
        }) = test
        {
            cells.push(format!("{:.1}", surrogates.expected));
            cells.extend([surrogates.p, surrogates.q].map(probability));
            cells.extend(parts.as_ref().map(|part| probability(part.q)));
        }
        cells.resize(columns, "–".to_owned());
        table.row(cells);
    }
    table.print()
}

/// The interval of every edge there is, if there is but one.
fn common_interval<'a>(patterns: impl Iterator<Item = &'a Pattern>) -> Option<Interval> {
    let mut edges = patterns.flat_map(Pattern::intervals);
    let first = *edges.next()?;
    edges.all(|&edge| edge == first).then_some(first)
}

/// Four decimals, or a power of ten for what would be lost by them.
fn probability(p: f64) -> String {
    if p == 0.0 || p >= 1e-3 {
        format!("{p:.4}")
    } else {
        format!("{p:.1e}")
    }
}

/// The line that says how many more there are.
pub(super) fn print_rest(shown: usize, all: usize) -> Result<()> {
    if shown == all {
        return Ok(());
    }
    report::line(&format!(
        "… and {} more (--top N, --csv FILE or --json lists them)",
        all - shown
    ))
}
