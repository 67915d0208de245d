//! Episodes as a table for other programs.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use betz_base::error::{Error, Result};
use betz_base::file::read_all;

use crate::alphabet::Alphabet;
use crate::label::read_label;
use crate::pattern::Pattern;
use crate::pattern::{Episode, Interval};
use crate::significance::{ChainTest, PartSignificance, Significance};

/// Writes `size,count,symbols,low_seconds,high_seconds` and one line per episode; symbols and bounds
/// are lists separated by blanks, one bound per edge. Symbols are labels as in an episode's text
/// ([`Alphabet::written`]).
///
/// # Errors
/// Those of `out`.
pub fn write_csv(out: &mut dyn Write, episodes: &[Episode], alphabet: &Alphabet) -> io::Result<()> {
    writeln!(out, "{COLUMNS}")?;
    for episode in episodes {
        writeln!(out, "{}", line(episode, alphabet))?;
    }
    Ok(())
}

/// As [`write_csv`], with `,expected,std,p,q` at the end: the test of each episode against surrogates, four empty
/// fields if it was not tested.
///
/// # Errors
/// Those of `out`.
pub fn write_tested_csv<'a>(
    out: &mut dyn Write,
    episodes: impl IntoIterator<Item = (&'a Episode, Option<&'a Significance>)>,
    alphabet: &Alphabet,
) -> io::Result<()> {
    writeln!(out, "{COLUMNS},{TESTED}")?;
    for (episode, test) in episodes {
        writeln!(out, "{},{}", line(episode, alphabet), tested(test))?;
    }
    Ok(())
}

/// As [`write_tested_csv`], with `,weakest_first,weakest_last,weakest_expected,weakest_p,weakest_q`
/// behind: the weakest part, the symbols `first..last` counted from 0; five empty fields if parts
/// were not tested.
///
/// # Errors
/// Those of `out`.
pub fn write_chains_csv<'a>(
    out: &mut dyn Write,
    episodes: impl IntoIterator<Item = (&'a Episode, Option<&'a ChainTest>)>,
    alphabet: &Alphabet,
) -> io::Result<()> {
    writeln!(
        out,
        "{COLUMNS},{TESTED},weakest_first,weakest_last,weakest_expected,weakest_p,weakest_q"
    )?;
    for (episode, test) in episodes {
        let line = line(episode, alphabet);
        let tested = tested(test.map(|t| &t.surrogates));
        match test.and_then(|t| t.parts.as_ref()) {
            Some(part) => {
                let Range { start, end } = part.weakest;
                let PartSignificance { expected, p, q, .. } = part;
                writeln!(out, "{line},{tested},{start},{end},{expected},{p},{q}")?;
            }
            None => writeln!(out, "{line},{tested},,,,,")?,
        }
    }
    Ok(())
}

/// The test against surrogates, as the fields of [`TESTED`].
fn tested(tested: Option<&Significance>) -> String {
    tested.map_or_else(
        || ",,,".to_owned(),
        |s| format!("{},{},{},{}", s.expected, s.std, s.p, s.q),
    )
}

const TESTED: &str = "expected,std,p,q";
const COLUMNS: &str = "size,count,symbols,low_seconds,high_seconds";

fn line(Episode { pattern, count }: &Episode, alphabet: &Alphabet) -> String {
    let clock = alphabet.clock();
    let labels: Vec<_> = (pattern.symbols().iter())
        .map(|&s| alphabet.written(s))
        .collect();
    let bounds = |pick: fn(&Interval) -> i64| {
        let seconds = pattern.intervals().iter().map(pick);
        seconds
            .map(|t| clock.seconds(t).to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    format!(
        "{},{count},{},{},{}",
        pattern.size(),
        quoted(&labels.join(" ")),
        bounds(|i| i.low),
        bounds(|i| i.high)
    )
}

/// A field in quotes when it needs them.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// A line of a table, as it is read again.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The episode and its count.
    pub episode: Episode,
    /// The test against surrogates; `None` if it was not tested.
    pub tested: Option<Significance>,
}

/// True if the text of a file begins as a table of episodes does.
pub fn is_table(text: &[u8]) -> bool {
    text.starts_with(COLUMNS.as_bytes())
}

/// Reads what [`write_csv`], [`write_tested_csv`] or [`write_chains_csv`] wrote; the weakest parts are not
/// read.
///
/// # Errors
/// `Io` when the file cannot be read; `InvalidArgument` with the line for a label that `alphabet` does not
/// have, and for what is no such table.
pub fn read_table(path: &Path, alphabet: &Alphabet) -> Result<Vec<Row>> {
    let text = read_all(path, None)?;
    if !is_table(&text) {
        return Err(Error::argument(format!(
            "{}: expected a table of episodes, which begins with {COLUMNS}",
            path.display()
        )));
    }
    let mut rows = Vec::new();
    for (at, record) in csv::Reader::from_reader(text.as_slice())
        .records()
        .enumerate()
    {
        let place = |e: Error| e.at(format!("{}, line {}", path.display(), at + 2));
        let record = record.map_err(|e| place(Error::argument(e.to_string())))?;
        rows.push(row(&record, alphabet).map_err(place)?);
    }
    Ok(rows)
}

fn row(record: &csv::StringRecord, alphabet: &Alphabet) -> Result<Row> {
    let field = |k: usize| record.get(k).unwrap_or("");
    let wrong = |what: &str, got: &str| Error::argument(format!("expected {what}, got {got:?}"));
    let mut symbols = Vec::new();
    let mut rest = field(2).trim_start();
    while !rest.is_empty() {
        let (label, after) = read_label(rest)?;
        let symbol = alphabet.symbol(&label).ok_or_else(|| {
            Error::argument(format!(
                "no label {label:?}: {}",
                alphabet.instead_of(&label)
            ))
        })?;
        symbols.push(symbol);
        rest = after.trim_start();
    }
    let seconds = |k: usize| -> Result<Vec<f64>> {
        let parts = field(k).split_whitespace();
        let all: Vec<f64> = parts.filter_map(|part| part.parse().ok()).collect();
        // One less than symbols: what is no number is missed here.
        if all.len() + 1 != symbols.len() {
            return Err(wrong("a bound for each edge", field(k)));
        }
        Ok(all)
    };
    let (low, high) = (seconds(3)?, seconds(4)?);
    let clock = alphabet.clock();
    let intervals = low.iter().zip(&high);
    let intervals = intervals
        .map(|(low, high)| Interval::from_seconds(*low, *high, clock))
        .collect::<Result<_>>()?;
    let whole = |k: usize| {
        field(k)
            .parse::<u64>()
            .map_err(|_| wrong("a count", field(k)))
    };
    let pattern = Pattern::new(symbols, intervals)?;
    if whole(0)? != pattern.size() as u64 {
        return Err(wrong(&format!("a size of {}", pattern.size()), field(0)));
    }
    let count = whole(1)?;
    let number = |k: usize| field(k).parse::<f64>().ok().filter(|v| v.is_finite());
    let tested = match (number(5), number(6), number(7), number(8)) {
        (Some(expected), Some(std), Some(p), Some(q)) => Some(Significance {
            observed: count,
            expected,
            std,
            p,
            q,
        }),
        _ => None,
    };
    Ok(Row {
        episode: Episode { pattern, count },
        tested,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn lines_are_as_documented() {
        let labels = vec!["a".to_owned(), "b,\"c".to_owned()];
        let alphabet = Alphabet::new(labels, Clock::from_tick_seconds(1e-3).unwrap()).unwrap();
        let edge = Interval::new(4, 6).unwrap();
        let episodes = [
            Episode {
                pattern: Pattern::new(vec![0], vec![]).unwrap(),
                count: 9,
            },
            Episode {
                pattern: Pattern::uniform(vec![0, 1, 0], edge).unwrap(),
                count: 3,
            },
        ];
        let mut out = Vec::new();
        write_csv(&mut out, &episodes, &alphabet).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "size,count,symbols,low_seconds,high_seconds\n1,9,a,,\n\
             3,3,\"a b,\"\"c a\",0.004 0.004,0.006 0.006\n"
        );
        let tested = Significance {
            observed: 3,
            expected: 0.5,
            std: 1.25,
            p: 0.01,
            q: 0.02,
        };
        let mut out = Vec::new();
        let rows = episodes.iter().zip([None, Some(&tested)]);
        write_tested_csv(&mut out, rows, &alphabet).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "size,count,symbols,low_seconds,high_seconds,expected,std,p,q\n1,9,a,,,,,,\n\
             3,3,\"a b,\"\"c a\",0.004 0.004,0.006 0.006,0.5,1.25,0.01,0.02\n"
        );

        let part = PartSignificance {
            weakest: 1..3,
            expected: 0.25,
            shifts: 99,
            p: 0.03,
            q: 0.04,
        };
        let test = ChainTest {
            surrogates: tested,
            parts: Some(part),
            passed: true,
        };
        let without = ChainTest {
            parts: None,
            ..test.clone()
        };
        let mut out = Vec::new();
        let rows = [(0, None), (1, Some(&test)), (1, Some(&without))];
        let rows = rows.map(|(i, test)| (&episodes[i], test));
        write_chains_csv(&mut out, rows, &alphabet).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "size,count,symbols,low_seconds,high_seconds,expected,std,p,q,\
             weakest_first,weakest_last,weakest_expected,weakest_p,weakest_q\n\
             1,9,a,,,,,,,,,,,\n\
             3,3,\"a b,\"\"c a\",0.004 0.004,0.006 0.006,0.5,1.25,0.01,0.02,1,3,0.25,0.03,0.04\n\
             3,3,\"a b,\"\"c a\",0.004 0.004,0.006 0.006,0.5,1.25,0.01,0.02,,,,,\n"
        );
        let labels = ["left 3", "#"].map(String::from).to_vec();
        let clock = Clock::from_tick_seconds(1e-3).unwrap();
        let mut out = Vec::new();
        let pair = Episode {
            pattern: Pattern::uniform(vec![0, 1], edge).unwrap(),
            count: 3,
        };
        write_csv(&mut out, &[pair], &Alphabet::new(labels, clock).unwrap()).unwrap();
        let csv = String::from_utf8(out).unwrap();
        assert!(
            csv.ends_with("2,3,\"\"\"left 3\"\" \"\"#\"\"\",0.004,0.006\n"),
            "{csv}"
        );
    }

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("episodes.csv");
        for tick in [1e-12, 1e-9, 1.0 / 30_000.0, 1e-3, 0.005] {
            let labels = ["a", "left 3", "b,\"c", "->"].map(String::from).to_vec();
            let alphabet = Alphabet::new(labels, Clock::from_tick_seconds(tick).unwrap()).unwrap();
            let (short, long) = (
                Interval::new(4, 6).unwrap(),
                Interval::new(0, 12_345).unwrap(),
            );
            let episodes = [
                Episode {
                    pattern: Pattern::new(vec![1], vec![]).unwrap(),
                    count: 9,
                },
                Episode {
                    pattern: Pattern::new(vec![0, 1, 2, 3], vec![short, long, short]).unwrap(),
                    count: 3,
                },
            ];
            let tested = Significance {
                observed: 3,
                expected: 0.5,
                std: 1.25,
                p: 0.01,
                q: 0.02,
            };
            let mut out = Vec::new();
            write_tested_csv(
                &mut out,
                episodes.iter().zip([None, Some(&tested)]),
                &alphabet,
            )
            .unwrap();
            assert!(is_table(&out));
            std::fs::write(&path, &out).unwrap();
            let rows = read_table(&path, &alphabet).unwrap();
            let wanted = [(0, None), (1, Some(tested))].map(|(k, tested)| Row {
                episode: episodes[k].clone(),
                tested,
            });
            assert_eq!(rows, wanted, "tick {tick}");
        }
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("episodes.csv");
        let labels = ["a", "b"].map(String::from).to_vec();
        let alphabet = Alphabet::new(labels, Clock::from_tick_seconds(1e-3).unwrap()).unwrap();
        for (line, what) in [
            ("2,3,a b,0.004,0.006,", "line 2"),
            ("2,3,a c,0.004,0.006", "no label"),
            ("2,3,a b,0.004,x", "a bound for each edge"),
            ("2,3,a b,,", "a bound for each edge"),
            ("3,3,a b,0.004,0.006", "a size of 2"),
            ("2,-3,a b,0.004,0.006", "a count"),
            ("0,3,,,", "a bound for each edge"),
            ("2,3,a b,0.006,0.004", "line 2"),
        ] {
            std::fs::write(&path, format!("{COLUMNS}\n{line}\n")).unwrap();
            let error = read_table(&path, &alphabet).unwrap_err();
            assert!(error.message().contains(what), "{line}: {error}");
        }
        std::fs::write(&path, "label,seconds\na,1\n").unwrap();
        assert!(read_table(&path, &alphabet).is_err());
    }
}
