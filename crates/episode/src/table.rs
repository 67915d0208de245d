//! Episodes as a table for other programs.

use std::io::{self, Write};
use std::ops::Range;

use super::significance::{ChainTest, PartSignificance, Significance};
use super::{Alphabet, Episode, Interval};

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

/// As [`write_csv`], with `,expected,std,p,q` behind: what surrogates say of each episode, four empty
/// fields where it was not tested.
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
/// behind: the weakest part, the symbols `first..last` counted from 0; five empty fields where parts
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

/// What surrogates say, as the fields of [`TESTED`].
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Pattern};

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
}
