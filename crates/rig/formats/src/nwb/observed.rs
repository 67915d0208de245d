//! Times at which units were observed: `units/obs_intervals`.
//!
//! Outside of its intervals a unit is unobserved, not silent. Segments are cut to the time in which every unit that is
//! read was observed.

use std::ops::Range;

use betz_base::error::{Error, ErrorKind, Result};

use super::hdf5::File;
use super::intervals::{self, Interval};
use super::units::{self, Table};

/// Path of the intervals.
pub(super) const PATH: &str = "units/obs_intervals";
/// Shortest time that is worth a note, in seconds.
const LEAST_SECONDS: f64 = 1e-3;

/// The parts of `spans` in which all units of `table` were observed; `notes` hears how much is left.
///
/// # Errors
/// `InsufficientData` where nothing is left, naming the units to read without.
pub(super) fn select(
    file: &File,
    table: &Table,
    spans: Vec<Interval>,
    notes: &mut Vec<String>,
) -> Result<Vec<Interval>> {
    let Some(Observations { bounds, ranges }) = read(file)? else {
        return Ok(spans);
    };
    let all = intervals::seconds(&spans);
    let mut left = spans.clone();
    let mut partly: Vec<&str> = Vec::new();
    // Most units share their intervals: each list is looked at once.
    let mut seen: Vec<(&[Interval], bool)> = Vec::new();
    for (unit, name) in table.rows.iter().zip(&table.names) {
        let of_unit = ranges.get(*unit).map_or(&[][..], |r| &bounds[r.clone()]);
        // A unit without intervals has not been said to be unobserved.
        if of_unit.is_empty() {
            continue;
        }
        let known = seen.iter().find(|(other, _)| *other == of_unit);
        let partial = match known {
            Some((_, partial)) => *partial,
            None => {
                let apart = intervals::apart(of_unit.to_vec(), "interval", &mut Vec::new());
                let alone = intervals::seconds(&intervals::common(&spans, &apart));
                left = intervals::common(&left, &apart);
                let partial = all - alone > LEAST_SECONDS;
                seen.push((of_unit, partial));
                partial
            }
        };
        if partial {
            partly.push(name);
        }
    }
    if partly.is_empty() {
        return Ok(left);
    }
    let few = 8.min(partly.len());
    let names = format!(
        "{}{}",
        partly[..few].join(", "),
        if few < partly.len() { ", …" } else { "" }
    );
    let seconds = intervals::seconds(&left);
    let said = format!(
        "{PATH}: {} of {} units were observed in part ({names})",
        partly.len(),
        table.names.len()
    );
    if left.is_empty() {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "{said}, and at no time all of them: read those that were observed together, by name (units=[…] in Python)"
            ),
        ));
    }
    notes.push(format!(
        "{said}: {seconds:.3} s of {all:.3} s are used, in which all were; outside, such a unit is unobserved, not silent"
    ));
    Ok(left)
}

/// Intervals of all units.
struct Observations {
    bounds: Vec<Interval>,
    /// Range of each unit in `bounds`.
    ranges: Vec<Range<usize>>,
}

/// The intervals of the file; `None` if it has none.
fn read(file: &File) -> Result<Option<Observations>> {
    let Some(numbers) = file.numbers(PATH)? else {
        return Ok(None);
    };
    let rows = match numbers.shape[..] {
        [rows, 2] => rows,
        [0] => return Ok(None),
        _ => {
            return Err(Error::recording(format!(
                "{PATH}: expected rows of two times, got a shape of {:?}",
                numbers.shape
            )));
        }
    };
    let bounds: Vec<Interval> = (numbers.values.chunks_exact(2))
        .map(|pair| (pair[0], pair[1]))
        .collect();
    let index = format!("{PATH}_index");
    let ends = match file.numbers(&index)? {
        Some(ends) => units::offsets(&index, &ends.values, rows)?,
        None => (1..=rows).collect(),
    };
    let begins = std::iter::once(0).chain(ends.iter().copied());
    let ranges = begins.zip(&ends).map(|(begin, end)| begin..*end).collect();
    Ok(Some(Observations { bounds, ranges }))
}
