//! Missing rows of a stream that has times and no numbers.

use super::super::Loss;
use super::super::frames::LONGEST_SECONDS;

/// Rows by which a time may be late without a loss.
const FEW_ROWS: f64 = 4.0;
/// A time that goes back by more is one of another clock.
const BACK_SECONDS: f64 = 1.0;
/// Time after a connection in which the jitter of the times is measured and no loss is counted.
const MEASURED_SECONDS: f64 = 1.0;
/// Time constant with which the expected times follow those that came, because no clock has exactly the stated rate.
const FOLLOW_SECONDS: f64 = 1.0;
/// Time constant with which a jitter is forgotten.
const FORGET_SECONDS: f64 = 60.0;

/// Place of a row behind the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It follows.
    Next,
    /// Rows are missing in between.
    After(Loss),
    /// Its time is one of another clock.
    OtherClock,
}

/// Compares the times of rows with the regular rate.
///
/// A program that stamps its rows when it sends them is late and early in turn. So a time is late against where the row
/// is expected, not against the row before, and must be late by twice the jitter: by as much as rows were early.
pub(super) struct RowTimes {
    period: f64,
    /// Time at which the next row is expected; none before the first.
    due: Option<f64>,
    /// Seconds by which times were early.
    jitter: f64,
    /// Rows until the jitter is measured.
    unmeasured: f64,
    is_reconnected: bool,
}

impl RowTimes {
    pub(super) fn new(rate: f64) -> Self {
        Self {
            period: 1.0 / rate,
            due: None,
            jitter: 0.0,
            unmeasured: MEASURED_SECONDS * rate,
            is_reconnected: false,
        }
    }

    /// Notes that the next row comes from another connection: any time that is missing is a loss.
    pub(super) fn reconnect(&mut self) {
        self.is_reconnected = self.due.is_some();
    }

    /// The place of the next row, which has this time in seconds.
    pub(super) fn judge(&mut self, time: f64) -> Place {
        let due = match self.due {
            _ if !time.is_finite() => return Place::Next,
            None => {
                self.due = Some(time + self.period);
                return Place::Next;
            }
            Some(due) => due,
        };
        let late = time - due;
        if !(-BACK_SECONDS..=LONGEST_SECONDS).contains(&late) {
            *self = Self::new(1.0 / self.period);
            self.due = Some(time + self.period);
            return Place::OtherClock;
        }
        // As few as the jitter leaves possible.
        let lost = ((late - self.jitter) / self.period).round().max(0.0) as u64;
        if std::mem::take(&mut self.is_reconnected) {
            *self = Self::new(1.0 / self.period);
            return self.after(lost, time);
        }
        let tolerance = (FEW_ROWS * self.period).max(2.0 * self.jitter);
        if self.unmeasured <= 0.0 && late > tolerance {
            return self.after(lost, time);
        }
        // Later times are no jitter once it is measured, or each loss would hide a larger one.
        let jitter = if self.unmeasured > 0.0 {
            late.abs()
        } else {
            -late
        };
        self.unmeasured -= 1.0;
        let forgotten = self.period / FORGET_SECONDS;
        self.jitter = jitter.max(self.jitter * (1.0 - forgotten));
        let follow = (self.period / FOLLOW_SECONDS).min(1.0);
        self.due = Some(due + self.period + follow * late);
        Place::Next
    }

    fn after(&mut self, count: u64, time: f64) -> Place {
        self.due = Some(time + self.period);
        Place::After(Loss {
            count,
            at_least: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 1000.0;

    fn after(count: u64) -> Place {
        Place::After(Loss {
            count,
            at_least: true,
        })
    }

    /// Judges rows whose times are given in rows; returns those that do not follow.
    fn judge(times: &mut RowTimes, rows: impl Iterator<Item = f64>) -> Vec<(usize, Place)> {
        rows.map(|row| times.judge(50.0 + row / RATE))
            .enumerate()
            .filter(|(_, place)| *place != Place::Next)
            .collect()
    }

    fn regular(rows: std::ops::Range<u32>) -> impl Iterator<Item = f64> {
        rows.map(f64::from)
    }

    #[test]
    fn regular_times_show_losses_to_the_row() {
        let mut times = RowTimes::new(RATE);
        assert_eq!(judge(&mut times, regular(0..2000)), []);
        for (k, lost) in [5_u32, 6, 40, 9000].into_iter().enumerate() {
            let first = 2000 + 10_000 * k as u32;
            let rows = regular(first..first + 10_000 - lost);
            assert_eq!(judge(&mut times, rows), [], "{lost}");
            let next = [f64::from(first + 10_000)];
            let found = judge(&mut times, next.into_iter());
            assert_eq!(found, [(0, after(u64::from(lost)))]);
            assert_eq!(
                times.judge(50.0 + f64::from(first + 10_001) / RATE),
                Place::Next
            );
            times = RowTimes::new(RATE);
            let again = first + 8000..first + 10_000;
            assert_eq!(judge(&mut times, regular(again)), []);
        }
    }

    #[test]
    fn a_clock_that_is_faster_and_times_that_jitter_are_no_losses() {
        let mut times = RowTimes::new(RATE);
        let fast = (0..100_000).map(|row| f64::from(row) * 1.0005);
        assert_eq!(judge(&mut times, fast), []);
        // Chunks of 20 rows, of which each is stamped when it is sent, 0 to 9 rows late.
        let mut times = RowTimes::new(RATE);
        let late = |chunk: u32| f64::from(chunk * 7 % 10);
        let chunks = (0..100_000).map(|row| f64::from(row) + late(row / 20));
        assert_eq!(judge(&mut times, chunks), []);
        let lost = (100_000..101_000).map(|row| f64::from(row + 300) + late(row / 20));
        let found = judge(&mut times, lost);
        let [(0, Place::After(loss))] = found[..] else {
            panic!("expected one loss before the first row, got {found:?}");
        };
        assert!(
            (290..=310).contains(&loss.count) && loss.at_least,
            "{loss:?}"
        );
        // All rows of a chunk with the same time, as in streams of irregular rate.
        let mut times = RowTimes::new(RATE);
        let chunks = (0..100_000).map(|row| f64::from(row / 20 * 20));
        assert_eq!(judge(&mut times, chunks), []);
    }

    #[test]
    fn a_connection_counts_what_is_missing_and_a_far_time_is_one_of_another_clock() {
        let mut times = RowTimes::new(RATE);
        times.reconnect();
        assert_eq!(judge(&mut times, regular(0..10)), []);
        times.reconnect();
        assert_eq!(judge(&mut times, regular(12..30)), [(0, after(2))]);
        times.reconnect();
        assert_eq!(judge(&mut times, regular(30..40)), [(0, after(0))]);
        times.reconnect();
        let other = [(0, Place::OtherClock)];
        assert_eq!(judge(&mut times, regular(10_100..10_200)), other);
        assert_eq!(judge(&mut times, regular(0..10)), other);
        assert_eq!(times.judge(f64::NAN), Place::Next);
        assert_eq!(times.judge(f64::INFINITY), Place::Next);
    }
}
