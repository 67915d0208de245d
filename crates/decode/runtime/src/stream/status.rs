//! Flags of a step, in one word.

use core::fmt;
use core::ops::{BitOr, BitOrAssign};

/// Status of a step, which tells how far its estimates can be trusted: a word of flags, [`OK`](Self::OK) if
/// all is well.
///
/// ```
/// use betz_runtime::stream::StepStatus;
///
/// let status = StepStatus::STALE | StepStatus::HELD;
/// assert!(status.contains(StepStatus::HELD) && !status.is_ok());
/// assert_eq!(status.to_string(), "stale, held");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StepStatus(u32);

impl StepStatus {
    /// Nothing to say.
    pub const OK: Self = Self(0);
    /// The data of this tick were not there: the acquisition had not marked it, or the step was one
    /// [without data](super::Session::step_stale). Or the decoder's states still lack a part of a
    /// [pause](super::Session::skip), and the estimates come from states that are estimated.
    pub const STALE: Self = Self(1);
    /// An output was outside its bounds and clamped.
    pub const CLAMPED: Self = Self(1 << 1);
    /// An estimate was no finite f32: the last finite output stands in its place.
    pub const NON_FINITE: Self = Self(1 << 2);
    /// The latents were outside what training saw, and clipped; or an output was beyond the range of
    /// training ([`OutputRange`](crate::model::OutputRange)), and kept at its bound.
    pub const OUT_OF_RANGE: Self = Self(1 << 3);
    /// The spikes were an artefact: mean counts were decoded in their place.
    pub const BLANKED: Self = Self(1 << 4);
    /// Spikes of channels that the model does not have.
    pub const UNKNOWN: Self = Self(1 << 5);
    /// Spikes came after their tick, since the step before.
    pub const LATE: Self = Self(1 << 6);
    /// Spikes lay too far ahead and were left out, since the step before.
    pub const FUTURE: Self = Self(1 << 7);
    /// Spikes were lost, since the step before.
    pub const DROPPED: Self = Self(1 << 8);
    /// Another model gives the estimates, from this step on.
    pub const SWAPPED: Self = Self(1 << 9);
    /// Two models' estimates are being faded into each other.
    pub const FADING: Self = Self(1 << 10);
    /// The [`Hold`](super::Hold) policy gave the outputs.
    pub const HELD: Self = Self(1 << 11);
    /// The policy's outputs have come to rest.
    pub const AT_REST: Self = Self(1 << 12);
    /// Channels are dead or scream ([`ChannelWatch`](super::ChannelWatch)).
    pub const CHANNELS: Self = Self(1 << 13);
    /// And the decoder leaned on them for more than half.
    pub const UNTRUSTED: Self = Self(1 << 14);
    /// An output would have changed by more than [`slew`](super::SessionConfig::slew) allows, and went as far
    /// as it may.
    pub const SLEWED: Self = Self(1 << 15);

    /// The step was given more spikes than [`max_spikes`](super::SessionConfig::max_spikes), and left the rest out.
    pub const CAPPED: Self = Self(1 << 16);

    const NAMES: [&str; 17] = [
        "stale",
        "clamped",
        "non-finite",
        "out of range",
        "blanked",
        "unknown channels",
        "late",
        "future",
        "dropped",
        "swapped",
        "fading",
        "held",
        "at rest",
        "channels gone",
        "too many channels gone",
        "slewed",
        "capped",
    ];

    /// The word. Bits are never given a new meaning.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The status of a word; bits that have no meaning are left out.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & ((1 << Self::NAMES.len()) - 1))
    }

    /// The names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let set = move |bit: &usize| self.0 & (1 << bit) != 0;
        (0..Self::NAMES.len())
            .filter(set)
            .map(|bit| Self::NAMES[bit])
    }

    /// True if no flag is set.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// True if all of `flags` are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// True if any of `flags` is set.
    pub const fn intersects(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// `flags` where `set`, nothing elsewhere.
    pub(super) const fn when(self, set: bool) -> Self {
        if set { self } else { Self::OK }
    }
}

impl BitOr for StepStatus {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for StepStatus {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The names of the flags that are set, or `ok`.
impl fmt::Display for StepStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ok() {
            return f.write_str("ok");
        }
        let mut between = "";
        for name in self.names() {
            write!(f, "{between}{name}")?;
            between = ", ";
        }
        Ok(())
    }
}
