//! Episodes as a table for other programs.

use std::io::{self, Write};

use super::{Alphabet, Episode};

/// Writes `size,count,symbols,low_seconds,high_seconds` and one line an episode; symbols and bounds
/// are lists separated by blanks, one bound an edge.
///
/// # Errors
/// Those of `out`.
pub fn write_csv(out: &mut dyn Write, episodes: &[Episode], alphabet: &Alphabet) -> io::Result<()> {
    writeln!(out, "size,count,symbols,low_seconds,high_seconds")?;
    let clock = alphabet.clock();
    for Episode { pattern, count } in episodes {
        let labels: Vec<&str> = pattern
            .symbols()
            .iter()
            .map(|&s| alphabet.label(s))
            .collect();
        let bounds = |pick: fn(&super::Interval) -> i64| {
            let seconds = pattern.intervals().iter().map(pick);
            seconds
                .map(|t| clock.seconds(t).to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        writeln!(
            out,
            "{},{count},{},{},{}",
            pattern.size(),
            quoted(&labels.join(" ")),
            bounds(|i| i.low),
            bounds(|i| i.high)
        )?;
    }
    Ok(())
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
    use crate::episode::{Clock, Interval, Pattern};

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
    }
}
