//! Tables of intervals (`TimeIntervals`) and series of intervals (`IntervalSeries`), by name and condition.

use betz_base::error::{Error, ErrorKind, Result};

use super::hdf5::File;
use super::series::leaf;

/// Beginning and end in seconds.
pub(super) type Interval = (f64, f64);

/// The table of trials.
pub(super) const TRIALS: &str = "intervals/trials";
/// The table of what NWB wants left out of every analysis.
pub(super) const INVALID: &str = "intervals/invalid_times";
/// Most values of a column that a message lists.
const MOST_LISTED: usize = 12;

/// A table, with a condition on one of its columns: `NAME` or `NAME:COLUMN=VALUE`.
struct IntervalChoice<'a> {
    name: &'a str,
    condition: Option<(&'a str, &'a str)>,
}

impl<'a> IntervalChoice<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let Some((name, condition)) = text.split_once(':') else {
            return Ok(Self {
                name: text,
                condition: None,
            });
        };
        let condition = condition.split_once('=').ok_or_else(|| {
            Error::argument(format!(
                "expected TABLE or TABLE:COLUMN=VALUE, such as trials:direction=left, got '{text}'"
            ))
        })?;
        Ok(Self {
            name,
            condition: Some(condition),
        })
    }
}

/// The intervals that `text` names, in the order of the file, whatever they are worth.
pub(super) fn read(file: &File, text: &str) -> Result<Vec<Interval>> {
    let choice = IntervalChoice::parse(text)?;
    let path = find(file, choice.name)?;
    let Some(starts) = file.numbers(&format!("{path}/start_time"))? else {
        if let Some((column, _)) = choice.condition {
            return Err(Error::argument(format!(
                "{path}: expected a table with a column '{column}', got a series of intervals; name it alone"
            )));
        }
        return of_series(file, &path);
    };
    let stop = format!("{path}/stop_time");
    let stops = file.numbers(&stop)?;
    let stops = stops.ok_or_else(|| Error::recording(format!("{stop}: expected it, got none")))?;
    if starts.values.len() != stops.values.len() {
        return Err(Error::recording(format!(
            "{stop}: expected {} times, one per row, got {}",
            starts.values.len(),
            stops.values.len()
        )));
    }
    let all: Vec<Interval> = starts.values.into_iter().zip(stops.values).collect();
    let Some((column, value)) = choice.condition else {
        return Ok(all);
    };
    let meets = rows_with(file, &path, column, value, all.len())?;
    let kept = all.into_iter().zip(meets).filter(|(_, meets)| *meets);
    Ok(kept.map(|(interval, _)| interval).collect())
}

/// The path of the table or series called `name`, which may be its path.
fn find(file: &File, name: &str) -> Result<String> {
    let tables = file
        .datasets()
        .filter_map(|path| path.strip_suffix("/start_time"));
    let series = file.datasets().filter_map(|path| {
        let series = path.strip_suffix("/data")?;
        let kind = file.group_text(series, "neurodata_type");
        (kind.as_deref() == Some("IntervalSeries")).then_some(series)
    });
    let mut all: Vec<&str> = tables.chain(series).collect();
    all.sort_unstable();
    let name = name.trim_matches('/');
    match all.iter().find(|path| **path == name || leaf(path) == name) {
        Some(path) => Ok((*path).to_owned()),
        None => Err(Error::argument(format!(
            "intervals: expected one of [{}], got '{name}'",
            all.join(", ")
        ))),
    }
}

/// Intervals of an `IntervalSeries`: a value above 0 begins one, a value below 0 ends it.
fn of_series(file: &File, path: &str) -> Result<Vec<Interval>> {
    let missing = |what: &str| Error::recording(format!("{path}/{what}: expected it, got none"));
    let data = file.numbers(&format!("{path}/data"))?;
    let data = data.ok_or_else(|| missing("data"))?.values;
    let times = file.numbers(&format!("{path}/timestamps"))?;
    let times = times.ok_or_else(|| missing("timestamps"))?.values;
    let mut begun = None;
    let mut intervals = Vec::new();
    for (value, time) in data.into_iter().zip(times) {
        if value > 0.0 {
            begun = Some(time);
        } else if let Some(start) = begun.take() {
            intervals.push((start, time));
        }
    }
    Ok(intervals)
}

/// True for each row whose `column` is, or among others has, `value`.
fn rows_with(
    file: &File,
    table: &str,
    column: &str,
    value: &str,
    rows: usize,
) -> Result<Vec<bool>> {
    let path = format!("{table}/{column}");
    let values = texts(file, &path)?.ok_or_else(|| {
        let prefix = format!("{table}/");
        let columns = file
            .datasets()
            .filter_map(|path| path.strip_prefix(&prefix))
            .filter(|name| !name.ends_with("_index") && *name != "id");
        let columns: Vec<&str> = columns.collect();
        Error::argument(format!(
            "{table}: expected a column of [{}], got '{column}'",
            columns.join(", ")
        ))
    })?;
    let ends: Vec<usize> = match file.numbers(&format!("{path}_index"))? {
        Some(ends) => ends.values.into_iter().map(|end| end as usize).collect(),
        None => (1..=values.len()).collect(),
    };
    if ends.len() != rows {
        return Err(Error::recording(format!(
            "{path}: expected {rows} values, one per row, got {}",
            ends.len()
        )));
    }
    let number = value.parse::<f64>().ok();
    let same = |text: &String| text == value || (number.is_some() && text.parse().ok() == number);
    let mut first = 0;
    let meets: Vec<bool> = ends
        .into_iter()
        .map(|end| {
            let of_row = values.get(first..end).unwrap_or_default();
            first = end;
            of_row.iter().any(same)
        })
        .collect();
    if !meets.contains(&true) {
        let mut there: Vec<&str> = values.iter().map(String::as_str).collect();
        there.sort_unstable();
        there.dedup();
        let more = if there.len() > MOST_LISTED {
            ", …"
        } else {
            ""
        };
        there.truncate(MOST_LISTED);
        return Err(Error::argument(format!(
            "{path}: expected one of its values [{}{more}], got '{value}'",
            there.join(", ")
        )));
    }
    Ok(meets)
}

/// The values of a column as text; `None` if there is no such column.
fn texts(file: &File, path: &str) -> Result<Option<Vec<String>>> {
    if file.is_numeric(path) {
        let numbers = file.numbers(path)?;
        return Ok(numbers.map(|n| n.values.iter().map(f64::to_string).collect()));
    }
    file.strings(path)
}

/// Intervals that can be told apart, ascending. One that overlaps the one before it begins where that one ends; those
/// without a finite start before their stop, and those within another, are left out. `notes` hears of both.
pub(super) fn apart(
    mut intervals: Vec<Interval>,
    noun: &str,
    notes: &mut Vec<String>,
) -> Vec<Interval> {
    let all = intervals.len();
    intervals.retain(|(start, stop)| start.is_finite() && stop.is_finite() && start < stop);
    let lost = all - intervals.len();
    intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut last, mut cut) = (f64::NEG_INFINITY, 0_usize);
    let before = intervals.len();
    intervals.retain_mut(|(start, stop)| {
        if *stop <= last {
            return false;
        }
        if *start < last {
            cut += 1;
            *start = last;
        }
        last = *stop;
        true
    });
    let within = before - intervals.len();
    let of = |number: usize| betz_base::text::count(number as u128, noun);
    if lost > 0 {
        notes.push(format!(
            "left out: {} without a finite start before the stop",
            of(lost)
        ));
    }
    if cut > 0 {
        notes.push(format!(
            "cut: {} that overlapped the one before, now from where that one ends",
            of(cut)
        ));
    }
    if within > 0 {
        notes.push(format!("left out: {} within another one", of(within)));
    }
    intervals
}

/// The parts of `spans` that lie in `intervals`; both ascending and apart.
pub(super) fn common(spans: &[Interval], intervals: &[Interval]) -> Vec<Interval> {
    let parts = spans.iter().flat_map(|&(start, stop)| {
        (intervals.iter()).map(move |&(from, until)| (start.max(from), stop.min(until)))
    });
    parts.filter(|(start, stop)| start < stop).collect()
}

/// The gaps between `intervals`, which are ascending and apart.
fn between(intervals: &[Interval]) -> Vec<Interval> {
    let starts = intervals.iter().map(|(_, stop)| *stop);
    let starts = [f64::NEG_INFINITY].into_iter().chain(starts);
    let stops = intervals.iter().map(|(start, _)| *start);
    starts.zip(stops.chain([f64::INFINITY])).collect()
}

pub(super) fn seconds(spans: &[Interval]) -> f64 {
    spans.iter().map(|(start, stop)| stop - start).sum()
}

/// The parts of `spans` that lie within the tables `within` and outside those of `mask`; `notes` hears how much is left.
///
/// # Errors
/// [`ErrorKind::InsufficientData`] where nothing is left.
pub(super) fn select(
    file: &File,
    spans: Vec<Interval>,
    within: &[String],
    mask: &[String],
    notes: &mut Vec<String>,
) -> Result<Vec<Interval>> {
    let mut left = spans;
    let tables = |names: &[String]| -> Result<Vec<Interval>> {
        let mut all = Vec::new();
        for name in names {
            all.extend(read(file, name)?);
        }
        // Overlaps among masks are no news.
        Ok(apart(all, "interval", &mut Vec::new()))
    };
    if !within.is_empty() {
        let all = seconds(&left);
        left = common(&left, &tables(within)?);
        notes.push(format!(
            "within {}: {:.3} s of {all:.3} s",
            within.join(", "),
            seconds(&left)
        ));
    }
    let default = [INVALID.to_owned()];
    let mask = match mask {
        [none] if none == "none" => &[],
        [] if file.has(&format!("{INVALID}/start_time")) => &default[..],
        mask => mask,
    };
    if !mask.is_empty() {
        let before = seconds(&left);
        left = common(&left, &between(&tables(mask)?));
        let lost = before - seconds(&left);
        if lost > 0.0 {
            notes.push(format!(
                "masked by {}: {lost:.3} s of {before:.3} s",
                mask.join(", ")
            ));
        }
    }
    if left.is_empty() {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "expected time to be left, got none within [{}] and outside [{}]",
                within.join(", "),
                mask.join(", ")
            ),
        ));
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_intervals_are_cut_and_none_is_lost() {
        let trials: Vec<Interval> = (0..12)
            .map(|i| (4.0 * f64::from(i), 4.0 * f64::from(i) + 6.0))
            .collect();
        let mut notes = Vec::new();
        let cut = apart(trials, "trial", &mut notes);
        assert_eq!(cut.len(), 12);
        assert_eq!(
            (cut[0], cut[1], cut[11]),
            ((0.0, 6.0), (6.0, 10.0), (46.0, 50.0))
        );
        assert!(notes[0].starts_with("cut: 11 trials "), "{notes:?}");
        notes.clear();
        let odd = vec![(f64::NAN, 1.0), (0.0, 9.0), (2.0, 3.0), (5.0, 5.0)];
        assert_eq!(apart(odd, "trial", &mut notes), [(0.0, 9.0)]);
        assert!(
            notes[0].starts_with("left out: 2 trials without"),
            "{notes:?}"
        );
        assert!(
            notes[1].starts_with("left out: 1 trial within"),
            "{notes:?}"
        );
    }

    #[test]
    fn parts_in_and_out_of_intervals() {
        let spans = [(0.0, 10.0), (20.0, 30.0)];
        let intervals = [(5.0, 7.0), (9.0, 21.0)];
        assert_eq!(
            common(&spans, &intervals),
            [(5.0, 7.0), (9.0, 10.0), (20.0, 21.0)]
        );
        assert_eq!(
            common(&spans, &between(&intervals)),
            [(0.0, 5.0), (7.0, 9.0), (21.0, 30.0)]
        );
    }
}
