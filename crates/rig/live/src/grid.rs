//! Grids of steps in the device time of a source.

/// Device times of the steps of one epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    /// Device time at which the step `first` begins.
    pub(crate) origin: u64,
    pub(crate) first: u64,
    pub(crate) rows_per_step: f64,
}

impl Grid {
    pub(crate) fn of(at: &Alignment) -> Self {
        Self {
            origin: at.row,
            first: at.step,
            rows_per_step: at.rows_per_step,
        }
    }

    /// Device time at which a step begins.
    pub(crate) fn begin(&self, step: u64) -> u64 {
        let rows = |steps: u64| (steps as f64 * self.rows_per_step).round() as u64;
        match step.checked_sub(self.first) {
            Some(steps) => self.origin.saturating_add(rows(steps)),
            None => self.origin.saturating_sub(rows(self.first - step)),
        }
    }

    /// The step that a row belongs to.
    pub(crate) fn step_at(&self, row: u64) -> u64 {
        let steps = |rows: u64| (rows as f64 / self.rows_per_step) as u64;
        let mut step = match row.checked_sub(self.origin) {
            Some(rows) => self.first.saturating_add(steps(rows)),
            None => self.first.saturating_sub(steps(self.origin - row)),
        };
        // Steps that begin at the same row are none: at the end of what an f64 and 64 bits tell apart.
        let next = |step: u64| self.begin(step.saturating_add(1));
        while self.begin(step) < next(step) && next(step) <= row {
            step += 1;
        }
        while step > 0 && self.begin(step) > row {
            step -= 1;
        }
        step
    }
}

/// Place of the session's steps in the device time of a source whose clock does not make them: a decision of whoever looks
/// at the clocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alignment {
    /// Number of a step.
    pub step: u64,
    /// Device time at which it begins.
    pub row: u64,
    /// Rows from one step to the next.
    pub rows_per_step: f64,
    /// True if it is for the epoch that the source's next block begins.
    pub begins: bool,
}

impl Alignment {
    /// False for a place that no clock gives.
    pub(crate) fn is_sane(&self) -> bool {
        (1e-9..=1e9).contains(&self.rows_per_step)
    }
}

#[cfg(test)]
mod tests {
    use super::Grid;

    /// A device time near the end of 64 bits has a step, and finding it ends.
    #[test]
    fn every_row_has_a_step() {
        for rows_per_step in [1.0, 0.5, 600.0, 1e-9, 1e9] {
            let grid = Grid {
                origin: 17,
                first: 3,
                rows_per_step,
            };
            for row in [0, 17, 18, 1 << 53, u64::MAX - 1, u64::MAX] {
                let step = grid.step_at(row);
                assert!(
                    step == 0 || grid.begin(step) <= row,
                    "{rows_per_step} {row}"
                );
            }
        }
    }
}
