//! The rate at which a source's rows really pass, by this machine's clock.
//!
//! A source that is declared at another rate than it has makes steps of the wrong length. A block never arrives before its last
//! row has passed. So the least delay of a window's first half and that of its second half differ by what the declared rate is
//! wrong.

/// Length of a window in seconds.
const WINDOW: f64 = 2.0;
/// Share by which the rate may differ.
const TOLERANCE: f64 = 0.01;
/// Blocks without which a window tells nothing.
const FEWEST: u32 = 20;
/// Ratio beyond which a source does not send in real time, such as a recording that is sent as fast as possible.
const NOT_IN_TIME: f64 = 4.0;

/// Measures the rate of a source.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pace {
    /// Host time at which the window began.
    begun: Option<f64>,
    /// Least delay of each half: arrival minus device time, and the arrival.
    halves: [Option<(f64, f64)>; 2],
    blocks: u32,
    /// Longest block of the window in seconds.
    longest: f64,
    /// Windows in a row whose rate was wrong.
    wrong: u32,
    ratio: Option<f64>,
}

impl Pace {
    /// Takes the device time at which a block ends, by its declared rate, its length, and its arrival; all in seconds.
    pub(crate) fn add(&mut self, device: f64, length: f64, host: f64) {
        let begun = *self.begun.get_or_insert(host);
        if host - begun >= WINDOW {
            self.end_window();
            self.begun = Some(host);
        }
        self.blocks += 1;
        self.longest = self.longest.max(length);
        let begun = self.begun.unwrap_or(host);
        let half = &mut self.halves[usize::from(host - begun >= 0.5 * WINDOW)];
        if half.is_none_or(|(least, _)| host - device < least) {
            *half = Some((host - device, host));
        }
    }

    /// Begins again: the device's time has jumped.
    pub(crate) fn restart(&mut self) {
        *self = Self {
            ratio: self.ratio,
            wrong: self.wrong,
            ..Self::default()
        };
    }

    fn end_window(&mut self) {
        let found = self.of_window();
        self.wrong = match found {
            Some((ratio, tolerance)) if is_wrong(ratio, tolerance) => self.wrong + 1,
            Some(_) => 0,
            None => self.wrong,
        };
        let ratio = found.map(|(ratio, _)| ratio).or(self.ratio);
        *self = Self {
            wrong: self.wrong,
            ratio,
            ..Self::default()
        };
    }

    /// Measured rate over the declared one in the window so far, and the share by which it may differ.
    fn of_window(&self) -> Option<(f64, f64)> {
        let [Some((early, from)), Some((late, to))] = self.halves else {
            return None;
        };
        let apart = to - from;
        if self.blocks < FEWEST || apart < 0.25 * WINDOW {
            return None;
        }
        Some((
            1.0 - (late - early) / apart,
            TOLERANCE + self.longest / apart,
        ))
    }

    /// The measured rate over the declared one, if it is wrong in two windows in a row.
    pub(crate) fn wrong_ratio(&self) -> Option<f64> {
        self.ratio.filter(|_| self.wrong >= 2)
    }

    /// The measured rate over the declared one, if it is wrong in all that came since the begin: less than two windows.
    pub(crate) fn wrong_so_far(&self) -> Option<f64> {
        let (ratio, tolerance) = self.of_window()?;
        is_wrong(ratio, tolerance).then_some(ratio)
    }
}

fn is_wrong(ratio: f64, tolerance: f64) -> bool {
    (ratio - 1.0).abs() > tolerance && (1.0 / NOT_IN_TIME..NOT_IN_TIME).contains(&ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of `rows` of a device at `rate` that is declared at 30 kHz, late by up to 5 ms in most cases, for `seconds`.
    fn pace(rate: f64, rows: u32, seconds: f64) -> Pace {
        let mut pace = Pace::default();
        let length = f64::from(rows) / 30_000.0;
        let blocks = (seconds * rate / f64::from(rows)) as u32;
        for block in 1..=blocks {
            let passed = f64::from(block * rows) / rate;
            let late = f64::from(block * 7919 % 31) / 31.0 * 5e-3;
            pace.add(f64::from(block) * length, length, 100.0 + passed + late);
        }
        pace
    }

    #[test]
    fn a_rate_that_was_declared_wrong_is_found_and_a_drift_is_not() {
        for rows in [30, 128, 690] {
            for rate in [30_000.0, 30_015.0, 29_985.0] {
                let right = pace(rate, rows, 9.0);
                assert_eq!((right.wrong_ratio(), right.wrong_so_far()), (None, None));
            }
            for rate in [25_000.0, 20_000.0, 32_000.0] {
                let wrong = pace(rate, rows, 9.0).wrong_ratio().unwrap_or(1.0);
                assert!(
                    (wrong * 30_000.0 / rate - 1.0).abs() < 0.02,
                    "{rate} {rows}: {wrong}"
                );
                assert!(
                    pace(rate, rows, 1.9).wrong_so_far().is_some(),
                    "{rate} {rows}"
                );
            }
        }
        // Faster than life is no wrong rate.
        assert_eq!(pace(600_000.0, 30, 9.0).wrong_ratio(), None);
    }
}
