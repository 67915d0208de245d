//! Events and variables as the command line names them.

use std::path::Path;

use betz::explore::{Events, Variable, VectorSource};
use betz::recording::{OutputInfo, Recording};
use betz::{Error, Result};

use crate::parse;

/// The events of `--align`.
pub(super) fn events(text: &str, recording: &Recording) -> Result<Events> {
    match text {
        "starts" => return Ok(Events::segment_starts(recording)),
        "stops" => return Ok(Events::segment_stops(recording)),
        _ => {}
    }
    let path = Path::new(text);
    let times = match path.is_file() {
        true => {
            let table = std::fs::read_to_string(path).map_err(|e| Error::io("reading", path, &e))?;
            times_in(&table).map_err(|e| Error::recording(format!("{text}: {e}")))?
        }
        false => (text.split(','))
            .map(|time| parse::seconds(time).ok().filter(|time| time.is_finite()))
            .collect::<Option<Vec<f64>>>()
            .ok_or_else(|| {
                Error::argument(format!(
                    "--align: expected starts, stops, times such as 1.5,2s, or a file with one time per line, got '{text}'"
                ))
            })?,
    };
    Events::from_seconds(recording, text, &times)
}

/// Times in the first column of a table: fields are separated by commas, semicolons or blanks; the first line may hold
/// names; `#` begins a comment.
fn times_in(table: &str) -> std::result::Result<Vec<f64>, String> {
    let mut times = Vec::new();
    let mut first = true;
    for (number, line) in table.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let field = line.split([',', ';', '\t', ' ']).next().unwrap_or("");
        match parse::seconds(field) {
            Ok(time) if time.is_finite() => times.push(time),
            _ if first => {}
            _ => {
                return Err(format!(
                    "line {}: expected a time in seconds in the first column, got {field:?}",
                    number + 1
                ));
            }
        }
        first = false;
    }
    match times.is_empty() {
        true => Err("expected one time in seconds per line, got none".into()),
        false => Ok(times),
    }
}

/// The variable of `--tune`.
pub(super) fn variable(text: &str, outputs: &[OutputInfo]) -> Result<Variable> {
    let output = |name: &str| {
        let name = name.trim();
        let named = outputs.iter().position(|output| output.name == name);
        named
            .or_else(|| name.parse().ok().filter(|number| *number < outputs.len()))
            .ok_or_else(|| {
                let names: Vec<&str> = outputs.iter().map(|o| o.name.as_str()).collect();
                Error::argument(format!(
                    "--tune: expected an output of the recording ({}), got '{name}'",
                    names.join(", ")
                ))
            })
    };
    // An output may have any name.
    if outputs.iter().any(|output| output.name == text) {
        return output(text).map(Variable::Output);
    }
    let Some((kind, names)) = text.split_once(':') else {
        return output(text).map(Variable::Output);
    };
    let (x, y) = names.split_once(',').ok_or_else(|| {
        Error::argument(format!(
            "--tune: expected two outputs such as {kind}:x,y, got '{text}'"
        ))
    })?;
    let (x, y) = (output(x)?, output(y)?);
    Ok(match kind {
        "map" => Variable::Map { x, y },
        "direction" => Variable::Direction {
            x,
            y,
            of: VectorSource::Values,
        },
        "speed" => Variable::Speed {
            x,
            y,
            of: VectorSource::Values,
        },
        "direction-of-change" => Variable::Direction {
            x,
            y,
            of: VectorSource::Derivative,
        },
        "speed-of-change" => Variable::Speed {
            x,
            y,
            of: VectorSource::Derivative,
        },
        _ => {
            return Err(Error::argument(format!(
                "--tune: expected an output, or map, direction, speed, direction-of-change or speed-of-change with two outputs, got '{text}'"
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_in_the_first_column() {
        assert_eq!(
            times_in("time,name\n0.5,cue\n1500ms,go # late\n\n2 x"),
            Ok(vec![0.5, 1.5, 2.0])
        );
        assert_eq!(times_in("3\n"), Ok(vec![3.0]));
        assert!(times_in("1\nx\n").unwrap_err().contains("line 2"));
        assert!(times_in("cue\n").unwrap_err().contains("got none"));
        assert!(times_in("1\nnan\n").is_err());
    }

    #[test]
    fn variables_are_named() {
        let outputs = ["x", "y", "map:a,b"].map(OutputInfo::from);
        let variable = |text: &str| variable(text, &outputs);
        assert_eq!(variable("y").unwrap(), Variable::Output(1));
        assert_eq!(variable("0").unwrap(), Variable::Output(0));
        assert_eq!(variable("map:a,b").unwrap(), Variable::Output(2));
        assert_eq!(variable("map:x,y").unwrap(), Variable::Map { x: 0, y: 1 });
        let of = VectorSource::Derivative;
        assert_eq!(
            variable("direction-of-change:x,y").unwrap(),
            Variable::Direction { x: 0, y: 1, of }
        );
        for bad in ["z", "3", "direction:x", "turn:x,y", "speed:x,z", ""] {
            assert!(variable(bad).is_err(), "{bad} was accepted");
        }
    }
}
