//! Missing rows of a stream that has times and no numbers.

use crate::order::{JumpRule, LONGEST_SECONDS, TimeVerdict};
use crate::rig::Loss;

/// Rows by which a time may be late without a loss.
const FEW_ROWS: f64 = 4.0;
/// A time that goes back by more is one of another clock.
const BACK_SECONDS: f64 = 1.0;
/// Time after a connection in which the jitter of the times is measured and no loss is counted.
const MEASURED_SECONDS: f64 = 1.0;
/// Time for which all rows must be late if the times jitter: a program that was held up is on time again by then.
const CONFIRMED_SECONDS: f64 = 0.5;
/// Time constant with which a jitter is forgotten.
const FORGET_SECONDS: f64 = 60.0;
/// Share by which a device may be slower than its stated rate.
const SLOWER: f64 = 1e-3;

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
/// Rows are expected where the earliest times say. If no time is later by more than a few rows, times leave a gap exactly
/// where rows are missing. Otherwise a program stamps its rows when it sends them, and a late row proves nothing: then
/// rows are missing if all are late for some time, at least as many as the least late row shows.
pub(super) struct RowTimes {
    period: f64,
    /// Time at which the next row is expected; none before the first.
    due: Option<f64>,
    /// Seconds by which times are late at most, without a loss.
    jitter: f64,
    /// Rows until the jitter is measured.
    unmeasured: f64,
    /// Consecutive rows that are late, and seconds by which the least late one is.
    late_rows: f64,
    least_late: f64,
    is_reconnected: bool,
    jumps: JumpRule<f64>,
}

impl RowTimes {
    pub(super) fn new(rate: f64) -> Self {
        Self {
            period: 1.0 / rate,
            due: None,
            jitter: 0.0,
            unmeasured: MEASURED_SECONDS * rate,
            late_rows: 0.0,
            least_late: f64::INFINITY,
            is_reconnected: false,
            jumps: JumpRule::default(),
        }
    }

    /// Notes that the next row comes from another connection: any time that is missing is a loss.
    pub(super) fn reconnect(&mut self) {
        self.is_reconnected = self.due.is_some();
    }

    /// The place of the next row, which has this time in seconds.
    pub(super) fn judge(&mut self, time: f64) -> Place {
        if !time.is_finite() {
            return Place::Next;
        }
        let Some(due) = self.due else {
            self.due = Some(time + self.period);
            return Place::Next;
        };
        let late = time - due;
        let near = |other: f64| (-BACK_SECONDS..=LONGEST_SECONDS).contains(&(time - other));
        match self.jumps.judge(time, near(due), near) {
            TimeVerdict::Near => {}
            // Another connection may be one of another clock.
            TimeVerdict::Doubtful if !self.is_reconnected => {
                self.due = Some(due + self.period);
                return Place::Next;
            }
            TimeVerdict::Doubtful | TimeVerdict::Jumped => {
                self.begin(time);
                return Place::OtherClock;
            }
        }
        if self.is_reconnected {
            let lost = self.rows_of((late - self.jitter).max(0.0));
            self.begin(time);
            return after(lost.round());
        }
        self.unmeasured -= 1.0;
        let is_measured = self.unmeasured < 0.0;
        let is_late = self.rows_of(late) > FEW_ROWS;
        if is_late && is_measured && self.rows_of(self.jitter) <= FEW_ROWS {
            self.due = Some(time + self.period);
            return after(self.rows_of(late).round());
        }
        // Nothing is earlier than the earliest time; a slow device moves it on.
        self.due = Some(due + self.period + late.min(SLOWER * self.period));
        let forgotten = self.period / FORGET_SECONDS;
        self.jitter = late.max(self.jitter * (1.0 - forgotten));
        (self.late_rows, self.least_late) = match is_late {
            true => (self.late_rows + 1.0, self.least_late.min(late)),
            false => (0.0, f64::INFINITY),
        };
        if is_measured && self.late_rows * self.period >= CONFIRMED_SECONDS {
            let lost = self.rows_of(self.least_late).floor();
            self.due = self.due.map(|due| due + lost * self.period);
            (self.late_rows, self.least_late) = (0.0, f64::INFINITY);
            return after(lost);
        }
        Place::Next
    }

    /// Begins with a row of this time.
    fn begin(&mut self, time: f64) {
        *self = Self::new(1.0 / self.period);
        self.due = Some(time + self.period);
    }

    fn rows_of(&self, seconds: f64) -> f64 {
        seconds / self.period
    }
}

/// The place behind this many missing rows.
fn after(rows: f64) -> Place {
    Place::After(Loss {
        count: rows as u64,
        at_least: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 1000.0;

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
            assert_eq!(found, [(0, after(f64::from(lost)))]);
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
        let slow = (0..100_000).map(|row| f64::from(row) * 1.0005);
        assert_eq!(judge(&mut times, slow), []);
        let mut times = RowTimes::new(RATE);
        let fast = (0..100_000).map(|row| f64::from(row) * 0.9995);
        assert_eq!(judge(&mut times, fast), []);
        // Chunks of 20 rows, of which each is stamped when it is sent, 0 to 9 rows late; once 300.
        let mut times = RowTimes::new(RATE);
        let late = |chunk: u32| match chunk {
            2500..2515 => f64::from(2515 - chunk) * 20.0,
            _ => f64::from(chunk * 7 % 10),
        };
        let chunks = (0..100_000).map(|row| f64::from(row) + late(row / 20));
        assert_eq!(judge(&mut times, chunks), []);
        let lost = (100_000..103_000).map(|row| f64::from(row + 300) + late(row / 20));
        let found = judge(&mut times, lost);
        let [(row, Place::After(loss))] = found[..] else {
            panic!("expected one loss, got {found:?}");
        };
        assert!((480..=520).contains(&row), "{found:?}");
        assert!(
            (295..=300).contains(&loss.count) && loss.at_least,
            "{found:?}"
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
        assert_eq!(judge(&mut times, regular(12..30)), [(0, after(2.0))]);
        times.reconnect();
        assert_eq!(judge(&mut times, regular(30..40)), [(0, after(0.0))]);
        times.reconnect();
        let other = [(0, Place::OtherClock)];
        assert_eq!(judge(&mut times, regular(10_100..10_200)), other);
        let other = [(1, Place::OtherClock)];
        assert_eq!(judge(&mut times, regular(0..10)), other);
        // One time that is wrong changes nothing.
        assert_eq!(times.judge(1e9), Place::Next);
        assert_eq!(judge(&mut times, regular(11..20)), []);
        assert_eq!(times.judge(f64::NAN), Place::Next);
        assert_eq!(times.judge(f64::INFINITY), Place::Next);
    }
}
