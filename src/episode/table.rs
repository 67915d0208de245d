//! Episodes as a table for other programs.

use std::io::{self, Write};

use super::significance::Significance;
use super::{Alphabet, Episode, Interval};

/// Writes `size,count,symbols,low_seconds,high_seconds` and one line an episode; symbols and bounds
/// are lists separated by blanks, one bound an edge.
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
    writeln!(out, "{COLUMNS},expected,std,p,q")?;
    for (episode, tested) in episodes {
        let line = line(episode, alphabet);
        match tested {
            Some(s) => writeln!(out, "{line},{},{},{},{}", s.expected, s.std, s.p, s.q)?,
            None => writeln!(out, "{line},,,,")?,
        }
    }
    Ok(())
}

const COLUMNS: &str = "size,count,symbols,low_seconds,high_seconds";

fn line(Episode { pattern, count }: &Episode, alphabet: &Alphabet) -> String {
    let clock = alphabet.clock();
    let labels: Vec<&str> = (pattern.symbols().iter())
        .map(|&s| alphabet.label(s))
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
    use crate::episode::{Clock, Pattern};

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
    }
}
