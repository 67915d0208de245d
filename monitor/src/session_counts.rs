//! Counts of a session: what was lost, and how many steps were flagged.

use betz_runtime::stream::StepStatus;
use serde::{Deserialize, Serialize};

/// Losses of a session, as totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Losses {
    pub(crate) dropped: u64,
    pub(crate) late: u64,
    pub(crate) unknown: u64,
    pub(crate) not_shown: u64,
}

impl Losses {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            dropped: self.dropped.saturating_sub(before.dropped),
            late: self.late.saturating_sub(before.late),
            unknown: self.unknown.saturating_sub(before.unknown),
            not_shown: self.not_shown.saturating_sub(before.not_shown),
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.dropped = self.dropped.saturating_add(other.dropped);
        self.late = self.late.saturating_add(other.late);
        self.unknown = self.unknown.saturating_add(other.unknown);
        self.not_shown = self.not_shown.saturating_add(other.not_shown);
    }
}

/// Numbers of steps whose estimates were flagged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FlagCounts {
    /// An output was beyond its bounds.
    pub(crate) clamped: u32,
    /// Latents or outputs were beyond the range of training.
    pub(crate) out_of_range: u32,
    /// The input was an artefact.
    pub(crate) blanked: u32,
    /// An estimate was no finite number.
    pub(crate) non_finite: u32,
    /// The hold policy gave the outputs.
    pub(crate) held: u32,
}

impl FlagCounts {
    /// Counts of one step.
    pub(crate) fn of(status: StepStatus) -> Self {
        let count = |flag| u32::from(status.contains(flag));
        Self {
            clamped: count(StepStatus::CLAMPED),
            out_of_range: count(StepStatus::OUT_OF_RANGE),
            blanked: count(StepStatus::BLANKED),
            non_finite: count(StepStatus::NON_FINITE),
            held: count(StepStatus::HELD),
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        let pairs = self.all_mut().into_iter().zip(other.named());
        pairs.for_each(|(own, (_, other))| *own = own.saturating_add(other));
    }

    fn all_mut(&mut self) -> [&mut u32; 5] {
        [
            &mut self.clamped,
            &mut self.out_of_range,
            &mut self.blanked,
            &mut self.non_finite,
            &mut self.held,
        ]
    }

    /// Each count with its name.
    pub(crate) fn named(&self) -> [(&'static str, u32); 5] {
        [
            ("clamped", self.clamped),
            ("out of range", self.out_of_range),
            ("blanked", self.blanked),
            ("not finite", self.non_finite),
            ("held", self.held),
        ]
    }
}
