//! Signals as text: on every line a time and a value for each node.

use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;

use betz::{Error, Result};

/// A table, whole.
pub(super) struct Lines {
    /// (samples, nodes), row-major.
    pub(super) values: Vec<f64>,
    pub(super) nodes: usize,
    /// Ranges of samples without a gap.
    pub(super) segments: Vec<Range<usize>>,
    /// Beginning of each segment, if times are in seconds.
    pub(super) segment_seconds: Option<Vec<f64>>,
    pub(super) sample_seconds: Option<f64>,
    pub(super) names: Option<Vec<String>>,
}

/// Reads a table `t, v0, v1, …`: fields parted by commas, semicolons or blanks; a first line of names may stand
/// above it; lines that begin with `#` are not read; `nan` and empty fields are values that are not finite.
/// Times ascend. Where one comes later than one and a half times the middling step a gap lies, which no
/// window crosses. The step is the time of a sample unless `sample_seconds` says it.
///
/// # Errors
/// The line's content, by its number.
pub(super) fn read(path: &Path, sample_seconds: Option<f64>) -> Result<Lines> {
    let file = std::fs::File::open(path).map_err(|e| Error::io("read", path, &e))?;
    let (mut times, mut values, mut names) = (Vec::<f64>::new(), Vec::<f64>::new(), None);
    let mut fields = 0;
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|e| Error::io("read", path, &e))?;
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at =
            |e: String| Error::recording(format!("{}: line {}: {e}", path.display(), number + 1));
        let parts = split(line);
        if fields == 0 {
            fields = parts.len();
            if fields < 2 {
                return Err(at(format!("expected a time and values, got {line:?}")));
            }
            if parts[0].parse::<f64>().is_err() {
                names = Some(parts[1..].iter().map(|n| (*n).to_owned()).collect());
                continue;
            }
        }
        if parts.len() != fields {
            return Err(at(format!(
                "expected {fields} fields as above, got {}",
                parts.len()
            )));
        }
        let time = parts[0].parse().ok().filter(|t: &f64| t.is_finite());
        let time = time.ok_or_else(|| at(format!("expected a time, got {:?}", parts[0])))?;
        if let Some(before) = times.last().filter(|before| **before >= time) {
            return Err(at(format!("expected a time after {before}, got {time}")));
        }
        times.push(time);
        for (node, part) in parts[1..].iter().enumerate() {
            let value = if part.is_empty() {
                Ok(f64::NAN)
            } else {
                part.parse()
            };
            values.push(
                value
                    .map_err(|_| at(format!("expected a number for node {node}, got {part:?}")))?,
            );
        }
    }
    if times.is_empty() {
        return Err(Error::recording(format!(
            "{}: expected lines of a time and values, got none",
            path.display()
        )));
    }
    let mut steps: Vec<f64> = times.windows(2).map(|t| t[1] - t[0]).collect();
    steps.sort_by(f64::total_cmp);
    let step = steps.get(steps.len() / 2).copied();
    let gaps: Vec<usize> = (1..times.len())
        .filter(|t| step.is_some_and(|step| times[*t] - times[*t - 1] > 1.5 * step))
        .collect();
    let starts = || std::iter::once(0).chain(gaps.iter().copied());
    let ends = gaps.iter().copied().chain([times.len()]);
    let segments = starts().zip(ends).map(|(start, end)| start..end).collect();
    if !gaps.is_empty() {
        eprintln!(
            "{} in the times: no window crosses one",
            crate::report::count(gaps.len() as u128, "gap")
        );
    }
    Ok(Lines {
        values,
        nodes: fields - 1,
        segments,
        // In units of the file, which are seconds unless something else is said.
        segment_seconds: (sample_seconds.is_none()).then(|| starts().map(|t| times[t]).collect()),
        sample_seconds: sample_seconds.or(step),
        names,
    })
}

fn split(line: &str) -> Vec<&str> {
    for separator in [',', ';', '\t'] {
        if line.contains(separator) {
            return line.split(separator).map(str::trim).collect();
        }
    }
    line.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Lines> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.txt");
        std::fs::write(&path, text).unwrap();
        read(&path, None)
    }

    #[test]
    fn tables_of_any_separator() {
        for text in [
            "0, 1, 2\n0.5, 3, 4\n1.0, 5, 6\n",
            "# t a b\n0 1 2\n0.5 3 4\n\n1 5 6",
            "\u{feff}t;a;b\n0;1;2\n0.5;3;4\n1;5;6\n",
            "0\t1\t2\r\n0.5\t3\t4\r\n1\t5\t6\r\n",
        ] {
            let input = of(text).unwrap();
            assert_eq!(input.values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "{text}");
            assert_eq!((input.nodes, input.sample_seconds), (2, Some(0.5)));
            assert_eq!(input.segments, std::iter::once(0..3).collect::<Vec<_>>());
        }
        let input = of("t,left,right\n0,1,nan\n1,,2").unwrap();
        assert_eq!(input.names.unwrap(), ["left", "right"]);
    }

    #[test]
    fn gaps_part_segments() {
        let input = of("10,1\n11,2\n12,3\n20,4\n21,5\n").unwrap();
        assert_eq!(input.segments, [0..3, 3..5]);
        assert_eq!(input.segment_seconds.unwrap(), [10.0, 20.0]);
        assert_eq!(input.sample_seconds, Some(1.0));
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line() {
        for (text, says) in [
            ("", "got none"),
            ("1\n", "line 1"),
            ("0,1\n1\n", "line 2: expected 2 fields"),
            ("0,1\n1,x\n", "line 2: expected a number for node 0"),
            ("0,1\n0,2\n", "line 2: expected a time after 0"),
            ("0,1\nnan,2\n", "line 2: expected a time, got"),
        ] {
            let error = of(text).err().unwrap();
            assert!(error.message().contains(says), "{text:?}: {error}");
        }
    }
}
