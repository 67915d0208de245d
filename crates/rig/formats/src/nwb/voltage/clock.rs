//! Times of samples: a rate, or timestamps that are regular enough to give one.

use betz_base::error::{Error, Result};

use super::super::hdf5::File;

/// Timestamps that are read at once.
const AT_ONCE: usize = 1 << 18;
/// Steps of which the middle one is what a step should be.
const FIRST: usize = 1001;
/// Part of a step that one may be longer or shorter: a sample that is missing makes one twice as long.
const JITTER: f64 = 0.5;

/// A regular clock.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Clock {
    pub(super) rate_hz: f64,
    pub(super) start_seconds: f64,
    /// Distance of the timestamps from it, if that is worth saying.
    pub(super) note: Option<String>,
}

/// The clock of the `rows` samples of a series.
///
/// Timestamps are regular when each comes half a step to one and a half after the one before: then no sample is missing,
/// and none is there twice. The rate is that from the first to the last.
pub(super) fn read(file: &File, series: &str, rows: u64) -> Result<Clock> {
    let times = format!("{series}/timestamps");
    if let Some(stored) = file.stored(&times)? {
        if stored.shape != [rows as usize] {
            return Err(Error::recording(format!(
                "{times}: expected {rows} times, one per sample, got a shape of {:?}",
                stored.shape
            )));
        }
        let block = |first: usize, count: usize| file.block(&times, &[first], &[count]);
        return regular(&times, rows as usize, AT_ONCE, &block);
    }
    let start = format!("{series}/starting_time");
    let first = (file.numbers(&start)?).and_then(|n| n.values.first().copied());
    let (Some(start_seconds), Some(rate_hz)) = (first, file.number(&start, "rate")) else {
        return Err(Error::recording(format!(
            "{series}: expected timestamps, or a starting_time with its rate, got neither"
        )));
    };
    if !(rate_hz.is_finite() && rate_hz > 0.0 && start_seconds.is_finite()) {
        return Err(Error::recording(format!(
            "{start}: expected a finite time and a rate above 0 Hz, got {start_seconds} s and {rate_hz} Hz"
        )));
    }
    Ok(Clock {
        rate_hz,
        start_seconds,
        note: None,
    })
}

/// The clock that `count` timestamps keep, of which `block` has so many from the first one asked for on.
fn regular(
    times: &str,
    count: usize,
    at_once: usize,
    block: &dyn Fn(usize, usize) -> Result<Vec<f64>>,
) -> Result<Clock> {
    if count < 2 {
        return Err(Error::recording(format!(
            "{times}: expected two times at least, which a rate follows from, got {count}"
        )));
    }
    let first = block(0, FIRST.min(count))?;
    let steps = first.windows(2).map(|pair| pair[1] - pair[0]);
    let mut steps: Vec<f64> = steps.filter(|step| step.is_finite()).collect();
    steps.sort_by(f64::total_cmp);
    let step = steps.get(steps.len() / 2).copied().unwrap_or(f64::NAN);
    let (start, last) = (first[0], block(count - 1, 1)?[0]);
    let mean = (last - start) / (count - 1) as f64;
    if step.is_nan() || step <= 0.0 {
        return Err(Error::recording(format!(
            "{times}: expected times that ascend, got steps of {step} s"
        )));
    }
    let (mut before, mut far) = (start, 0.0_f64);
    for from in (0..count).step_by(at_once) {
        for (i, time) in (from..).zip(block(from, at_once.min(count - from))?) {
            let off = (time - before) / step;
            if i > 0 && !(1.0 - JITTER..=1.0 + JITTER).contains(&off) {
                let what = match off {
                    _ if time.is_nan() || before.is_nan() => "that is no time",
                    _ if off <= 0.0 => "time goes back",
                    _ if off > 1.0 => "a gap",
                    _ => "samples too close to each other",
                };
                return Err(Error::recording(format!(
                    "{times}: expected {step:.3e} s from sample to sample, got {:.6} s from sample {} (at {before} s) to {i} (at {time} s): {what}; write what lies before and after as two series",
                    time - before,
                    i - 1
                ))
                .with_position(i));
            }
            far = far.max((time - start - i as f64 * mean).abs());
            before = time;
        }
    }
    let rate = 1.0 / mean;
    // A rate that was 30,000 Hz before it was divided and multiplied is so again.
    let whole = rate.round();
    // Both ends are known to a part of the last one.
    let known = 4.0 * f64::EPSILON * start.abs().max(last.abs()) / (last - start);
    let rate_hz = if (whole - rate).abs() <= known * rate {
        whole
    } else {
        rate
    };
    let note = (far > JITTER * step).then(|| {
        format!(
            "{times}: up to {:.3} ms from a regular clock of {rate_hz} Hz, which is what times are counted by",
            far * 1e3
        )
    });
    Ok(Clock {
        rate_hz,
        start_seconds: start,
        note,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(times: &[f64]) -> Result<Clock> {
        // Blocks of seven: their borders are steps as others are.
        regular("x", times.len(), 7, &|first, count| {
            Ok(times[first..first + count].to_vec())
        })
    }

    fn every(step: f64, count: usize) -> Vec<f64> {
        (0..count).map(|i| 1.6e9 + i as f64 * step).collect()
    }

    #[test]
    fn regular_times_are_a_rate() {
        let times: Vec<f64> = (0..5000).map(|i| 2.0 + f64::from(i) / 30_000.0).collect();
        let found = clock(&times).unwrap();
        assert_eq!((found.rate_hz, found.start_seconds), (30_000.0, 2.0));
        assert_eq!(found.note, None);
        // Since 1970, times are known to 0.24 µs.
        let found = clock(&every(4e-5, 3000)).unwrap();
        assert!((found.rate_hz - 25_000.0).abs() < 0.1, "{found:?}");
        // A clock that slows down by a tenth.
        let slow: Vec<f64> = (0..4000_i32)
            .map(|i| f64::from(i) * 1e-4 * (1.0 + 2.5e-5 * f64::from(i) / 2.0))
            .collect();
        let note = clock(&slow).unwrap().note.unwrap();
        assert!(note.contains("ms from a regular clock"), "{note}");
    }

    #[test]
    fn what_is_not_regular_is_named_with_its_place() {
        let broken = |at: usize, by: f64| {
            let mut times = every(1e-3, 100);
            times[at..].iter_mut().for_each(|t| *t += by);
            clock(&times).unwrap_err()
        };
        for at in [1, 6, 7, 8, 50, 99] {
            for (by, what) in [
                (1e-3, "a gap"),
                (1e4, "a gap"),
                (-2e-3, "time goes back"),
                (-0.9e-3, "too close"),
            ] {
                let error = broken(at, by);
                assert_eq!(error.position(), Some(at as u64), "{error}");
                assert!(error.message().contains(what), "{error}");
                assert!(error.message().contains(&format!("to {at} (")), "{error}");
            }
        }
        let mut times = every(1e-3, 100);
        times[60] = f64::NAN;
        let error = clock(&times).unwrap_err();
        assert_eq!(error.position(), Some(60));
        assert!(error.message().contains("no time"), "{error}");
        assert!(clock(&[1.0]).is_err() && clock(&[1.0, 1.0]).is_err());
        assert!(clock(&[f64::NAN; 9]).is_err());
    }
}
