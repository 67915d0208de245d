//! Session of a file: its time, its subject and its name.

use std::time::{SystemTime, UNIX_EPOCH};

use betz_base::error::{Error, Result};

use super::hdf5::File;

const DAY: i64 = 86_400;
/// The last second of the year 9999.
const LAST: i64 = 253_402_300_799;

/// A moment of the calendar with its time zone, in ISO 8601: `2026-11-21T12:00:00+01:00`.
///
/// ```
/// use betz_formats::nwb::Moment;
///
/// let noon = Moment::parse("2026-11-21T12:00:00.25+01:00")?;
/// assert_eq!(noon.seconds(), 1_795_258_800.25);
/// assert_eq!(noon.after(-0.25).text(), "2026-11-21T11:00:00Z");
/// assert!(Moment::parse("2026-11-21T12:00:00").is_err()); // in which zone?
/// # Ok::<(), betz_base::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    text: String,
    /// Microseconds since the start of 1970, in UTC.
    microseconds: i64,
}

impl Moment {
    /// Parses a moment: date, `T`, time of day with or without a fraction, and a zone (`Z` or `±HH:MM`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        microseconds(text)
            .map(|microseconds| Self {
                text: text.to_owned(),
                microseconds,
            })
            .ok_or_else(|| {
                Error::argument(format!(
                    "expected a moment with its zone, such as 2026-11-21T12:00:00+01:00, got '{text}'"
                ))
            })
    }

    /// The current moment in UTC, to the second.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self::at(since.map_or(0, |since| since.as_secs() as i64) * 1_000_000)
    }

    /// The moment this many seconds after the start of 1970, in UTC.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) before 1970 and after the year 9999.
    pub fn of_epoch(seconds: i64) -> Result<Self> {
        if !(0..=LAST).contains(&seconds) {
            return Err(Error::argument(format!(
                "expected 0 to {LAST} seconds since 1970 began, got {seconds}"
            )));
        }
        Ok(Self::at(seconds * 1_000_000))
    }

    fn at(microseconds: i64) -> Self {
        let (seconds, rest) = (
            microseconds.div_euclid(1_000_000),
            microseconds.rem_euclid(1_000_000),
        );
        let (days, of_day) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let (year, month, day) = date(days);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let fraction = match rest {
            0 => String::new(),
            rest => format!(".{rest:06}"),
        };
        Self {
            text: format!(
                "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z"
            ),
            microseconds,
        }
    }

    /// The text that was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Seconds since the start of 1970, in UTC.
    pub fn seconds(&self) -> f64 {
        self.microseconds as f64 * 1e-6
    }

    /// Adds seconds; adding 0 keeps the moment's text as it was written.
    #[must_use]
    pub fn after(&self, seconds: f64) -> Self {
        match seconds {
            0.0 => self.clone(),
            _ => Self::at(self.microseconds + (seconds * 1e6).round() as i64),
        }
    }
}

/// Microseconds since 1970 of a text that is a moment.
fn microseconds(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T')?;
    let numbers = |text: &str, by: char| -> Option<[i64; 3]> {
        let parts: Vec<i64> = (text.split(by))
            .map(|part| {
                part.bytes()
                    .all(|b| b.is_ascii_digit())
                    .then(|| part.parse().ok())?
            })
            .collect::<Option<_>>()?;
        parts.try_into().ok()
    };
    let (time, zone) = match time.strip_suffix('Z') {
        Some(time) => (time, 0),
        None => {
            let sign = time.rfind(['+', '-'])?;
            let (time, zone) = time.split_at(sign);
            let direction = if zone.starts_with('-') { -1 } else { 1 };
            let [hours, minutes, _] = numbers(&format!("{}:0", &zone[1..]), ':')?;
            (hours < 24 && minutes < 60 && zone.len() == 6)
                .then_some((time, direction * (hours * 3600 + minutes * 60)))?
        }
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let sound = (1..=9).contains(&fraction.len()) && fraction.bytes().all(|b| b.is_ascii_digit());
    let fraction: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let sound = sound
        && date.len() == 10
        && time.len() == 8
        && (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let days = days_before(year, month) + day - 1;
    let seconds = days * DAY + hour * 3600 + minute * 60 + second - zone;
    sound.then_some(seconds * 1_000_000 + fraction)
}

fn leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970's first to the first of a month.
fn days_before(year: i64, month: i64) -> i64 {
    let past = year - 1;
    let of_years = past * 365 + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400);
    let of_months: i64 = (1..month).map(|month| days_of(year, month)).sum();
    of_years - 719_162 + of_months
}

/// Year, month and day of a day after 1970's first.
fn date(days: i64) -> (i64, i64, i64) {
    // Not after it, before 1970 or since.
    let mut year = 1970 + days.div_euclid(365).min(days.div_euclid(366));
    while days_before(year + 1, 1) <= days {
        year += 1;
    }
    let mut month = 1;
    while month < 12 && days_before(year, month + 1) <= days {
        month += 1;
    }
    (year, month, days - days_before(year, month) + 1)
}

/// Subject of a recording. NWB's own checks want an id, a sex and an age; what is unknown says so.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// The lab's name of the subject.
    pub id: String,
    /// Latin binomial, such as `Macaca mulatta`; empty when unknown.
    pub species: String,
    /// `M`, `F`, `O` (other) or `U` (unknown).
    pub sex: String,
    /// As ISO 8601 has durations: `P8Y`, or a range, `P8Y/P9Y`.
    pub age: String,
}

impl Default for Subject {
    /// `unknown`, of unknown sex, not younger than 0 days (`P0D/`).
    fn default() -> Self {
        Self {
            id: "unknown".to_owned(),
            species: String::new(),
            sex: "U".to_owned(),
            age: "P0D/".to_owned(),
        }
    }
}

/// Description of a session, as stored in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Start of the session.
    pub start: Moment,
    /// The moment of time 0; `None`: the start.
    pub zero: Option<Moment>,
    /// The file's name among all files; empty: made from what the file holds.
    pub identifier: String,
    /// Description of the session.
    pub description: String,
    /// Subject of the recording.
    pub subject: Subject,
}

impl Session {
    /// A session of which nothing is known but its start.
    pub fn begun(start: Moment) -> Self {
        Self {
            start,
            zero: None,
            identifier: String::new(),
            description: "A recording that Betz wrote as NWB".to_owned(),
            subject: Subject::default(),
        }
    }
}

/// The text at `path` in `file`; `None` if it is none.
pub(super) fn said(file: &File, path: &str) -> Option<String> {
    let text = file.strings(path).ok().flatten()?.pop()?;
    (!text.is_empty()).then_some(text)
}

/// The session of an NWB file; `None` where it has no start that can be read.
pub(super) fn of(file: &File) -> Option<Session> {
    let moment = |path| said(file, path).and_then(|text| Moment::parse(&text).ok());
    let start = moment("session_start_time")?;
    let unknown = Session::begun(start);
    let subject = |what: &str| said(file, &format!("general/subject/{what}"));
    Some(Session {
        zero: moment("timestamps_reference_time").filter(|zero| *zero != unknown.start),
        identifier: said(file, "identifier").unwrap_or_default(),
        description: said(file, "session_description").unwrap_or(unknown.description),
        subject: Subject {
            id: subject("subject_id").unwrap_or(unknown.subject.id),
            species: subject("species").unwrap_or_default(),
            sex: subject("sex").unwrap_or(unknown.subject.sex),
            age: subject("age").unwrap_or(unknown.subject.age),
        },
        start: unknown.start,
    })
}

/// The session that a recording's `meta` tells of, as the reader of NWB files writes it; `None` where it says no start.
pub fn session_of_meta(meta: &str) -> Option<Session> {
    let meta: serde_json::Value = serde_json::from_str(meta).ok()?;
    let text = |name: &str| Some(meta.get(name)?.as_str()?.to_owned());
    let moment = |name: &str| Moment::parse(&text(name)?).ok();
    let unknown = Session::begun(moment("session_start_time")?);
    Some(Session {
        zero: moment("timestamps_reference_time").filter(|zero| *zero != unknown.start),
        identifier: text("identifier").unwrap_or_default(),
        description: text("session_description")
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| unknown.description.clone()),
        ..unknown
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0.0),
            ("2000-02-29T23:59:59+00:00", 951_868_799.0),
            ("2026-11-21T12:00:00+01:00", 1_795_258_800.0),
            ("2026-11-21T05:30:00.5-05:30", 1_795_258_800.5),
            ("1925-01-01T11:17:40.123456Z", -1_420_029_739.876_544),
        ] {
            let moment = Moment::parse(text).unwrap();
            assert_eq!(moment.text(), text);
            assert!((moment.seconds() - seconds).abs() < 1e-6, "{text}");
            let again = Moment::at(moment.microseconds);
            assert_eq!(Moment::parse(again.text()).unwrap(), again, "{text}");
        }
        for text in [
            "",
            "2026-11-21",
            "2026-11-21T12:00:00",
            "2026-11-21 12:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-1-1T00:00:00Z",
            "2026-11-21T24:00:00Z",
            "2026-11-21T12:00:00.Z",
            "2026-11-21T12:00:00+1:00",
            "2026-11-21T12:00:00+25:00",
            "2026-11-21T12:00+01:00",
            "2026-11-21T+2:00:00Z",
            "T\u{e9}Z",
        ] {
            assert!(Moment::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_day_has_its_date() {
        for days in (-40_000..40_000).step_by(7) {
            let (year, month, day) = date(days);
            assert_eq!(days_before(year, month) + day - 1, days);
            assert!((1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day));
        }
    }
}
