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

/// The columns of a table of episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableColumns {
    /// `size,count,symbols,low_seconds,high_seconds`. Symbols and bounds are lists separated by blanks, one bound per
    /// edge. Symbols are labels as in an episode's text ([`Alphabet::written`]).
    Counts,
    /// In addition `expected,std,p,q`: the test against surrogates, four empty fields if an episode was not tested.
    Surrogates,
    /// In addition `weakest_first,weakest_last,weakest_expected,weakest_p,weakest_q`: the weakest part, the symbols
    /// `first..last` counted from 0; five empty fields if parts were not tested.
    Parts,
}

/// Writes a header and one line per episode.
///
/// # Errors
/// The errors of `out`.
pub fn write_table<'a>(
    out: &mut dyn Write,
    columns: TableColumns,
    episodes: impl IntoIterator<Item = (&'a Episode, Option<&'a ChainTest>)>,
    alphabet: &Alphabet,
) -> io::Result<()> {
    let (tests, parts) = match columns {
        TableColumns::Counts => (false, false),
        TableColumns::Surrogates => (true, false),
        TableColumns::Parts => (true, true),
    };
    let header = |shown: bool, columns: &str| {
        if shown {
            format!(",{columns}")
        } else {
            String::new()
        }
    };
    writeln!(
        out,
        "{COLUMNS}{}{}",
        header(tests, TESTED),
        header(parts, WEAKEST)
    )?;
    for (episode, test) in episodes {
        write!(out, "{}", line(episode, alphabet))?;
        if tests {
            write!(out, ",{}", test_fields(test.map(|t| &t.surrogates)))?;
        }
        match test.and_then(|t| t.parts.as_ref()) {
            _ if !parts => {}
            Some(part) => {
                let Range { start, end } = part.weakest;
                let PartSignificance { expected, p, q, .. } = part;
                write!(out, ",{start},{end},{expected},{p},{q}")?;
            }
            None => write!(out, ",,,,,")?,
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The test against surrogates, as the fields of [`TESTED`].
fn test_fields(tested: Option<&Significance>) -> String {
    tested.map_or_else(
        || ",,,".to_owned(),
        |s| format!("{},{},{},{}", s.expected, s.std, s.p, s.q),
    )
}

const TESTED: &str = "expected,std,p,q";
const WEAKEST: &str = "weakest_first,weakest_last,weakest_expected,weakest_p,weakest_q";
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
        quote(&labels.join(" ")),
        bounds(|i| i.low),
        bounds(|i| i.high)
    )
}

/// A field in quotes when it needs them.
fn quote(field: &str) -> String {
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

/// Reads the table of [`write_table`], without the weakest parts.
///
/// # Errors
/// `Io` when the file cannot be read; `InvalidArgument` with the line for a label that `alphabet` does not
/// have, and for a file that is no such table.
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

    fn text<'a>(
        columns: TableColumns,
        rows: impl IntoIterator<Item = (&'a Episode, Option<&'a ChainTest>)>,
        alphabet: &Alphabet,
    ) -> String {
        let mut out = Vec::new();
        write_table(&mut out, columns, rows, alphabet).unwrap();
        String::from_utf8(out).unwrap()
    }

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
        let part = PartSignificance {
            weakest: 1..3,
            expected: 0.25,
            shifts: 99,
            p: 0.03,
            q: 0.04,
        };
        let test = ChainTest {
            surrogates: Significance {
                observed: 3,
                expected: 0.5,
                std: 1.25,
                p: 0.01,
                q: 0.02,
            },
            parts: Some(part),
            passed: true,
        };
        let without = ChainTest {
            parts: None,
            ..test.clone()
        };
        let written = |columns, rows: &[(usize, Option<&ChainTest>)]| {
            let rows = rows.iter().map(|&(i, test)| (&episodes[i], test));
            text(columns, rows, &alphabet)
        };
        assert_eq!(
            written(TableColumns::Counts, &[(0, None), (1, None)]),
            "size,count,symbols,low_seconds,high_seconds\n1,9,a,,\n\
             3,3,\"a b,\"\"c a\",0.004 0.004,0.006 0.006\n"
        );
        assert_eq!(
            written(TableColumns::Surrogates, &[(0, None), (1, Some(&test))]),
            "size,count,symbols,low_seconds,high_seconds,expected,std,p,q\n1,9,a,,,,,,\n\
             3,3,\"a b,\"\"c a\",0.004 0.004,0.006 0.006,0.5,1.25,0.01,0.02\n"
        );
        let rows = [(0, None), (1, Some(&test)), (1, Some(&without))];
        assert_eq!(
            written(TableColumns::Parts, &rows),
            "size,count,symbols,low_seconds,high_seconds,expected,std,p,q,\
             weakest_first,weakest_last,weakest_expected,weakest_p,weakest_q\n\
             1,9,a,,,,,,,,,,,\n\
             3,3,\"a b,\"\"c a\",0.004 0.004,0.006 0.006,0.5,1.25,0.01,0.02,1,3,0.25,0.03,0.04\n\
             3,3,\"a b,\"\"c a\",0.004 0.004,0.006 0.006,0.5,1.25,0.01,0.02,,,,,\n"
        );
        let labels = ["left 3", "#"].map(String::from).to_vec();
        let clock = Clock::from_tick_seconds(1e-3).unwrap();
        let pair = Episode {
            pattern: Pattern::uniform(vec![0, 1], edge).unwrap(),
            count: 3,
        };
        let alphabet = Alphabet::new(labels, clock).unwrap();
        let csv = text(TableColumns::Counts, [(&pair, None)], &alphabet);
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
            let test = ChainTest {
                surrogates: tested,
                parts: None,
                passed: false,
            };
            let rows = episodes.iter().zip([None, Some(&test)]);
            let out = text(TableColumns::Surrogates, rows, &alphabet);
            assert!(is_table(out.as_bytes()));
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
