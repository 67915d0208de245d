//! Causes of a verdict that the decoder and its program report themselves: flags of its steps, and distance from training.

use std::collections::VecDeque;

use crate::session_counts::FlagCounts;
use crate::session_history::ClosedSecond;
use crate::status::SessionStatus;
use crate::verdict::{Cause, CauseKind, Persistence};

/// Seconds over which flagged steps are counted.
const FLAG_SECONDS: usize = 10;
/// Share of flagged steps that is watched, and that is bad; below half of it, it is no more.
const FLAGGED: [f64; 2] = [0.1, 0.5];
/// Seconds in a row for which steps must be flagged, and for which they must not.
const FLAGGED_SECONDS: [u32; 2] = [5, 15];
/// Divergence from training that is watched in a session that is not recalibrated, and at which it is no more, in nats. Simulated
/// drift gave at least the first; without drift it was half the second (docs/classes.md).
const UNLIKE: f64 = 0.19;
const NOT_UNLIKE: f64 = 0.15;

/// Comparison of the newest windows with training, as the session's program reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct UnlikeTraining {
    /// KL divergence of the newest window, if it is known.
    nats: Option<f64>,
    /// True if another model is suggested; `None` if the session is not recalibrated.
    suggested: Option<bool>,
    /// True if the recalibrated model is advised against.
    roll_back: bool,
}

impl From<&SessionStatus> for UnlikeTraining {
    fn from(status: &SessionStatus) -> Self {
        let recalibration = status.recalibration.as_ref();
        Self {
            nats: status.unlike_training.filter(|nats| nats.is_finite()),
            suggested: recalibration.map(|r| r.suggested),
            roll_back: recalibration.is_some_and(|r| r.roll_back),
        }
    }
}

impl UnlikeTraining {
    /// True if this is a cause; `is_one`: whether it was one before. A change of behaviour raises the divergence, too, so
    /// that of a recalibrated session its suggestions count, which know of behaviour.
    fn is_cause(&self, is_one: bool) -> bool {
        let limit = if is_one { NOT_UNLIKE } else { UNLIKE };
        match self.suggested {
            Some(suggested) => suggested || self.roll_back,
            None => self.nats.is_some_and(|nats| nats >= limit),
        }
    }

    fn words(&self) -> String {
        let nats = self.nats.map(|nats| format!(" ({nats:.2} nats)"));
        let advice = match (self.roll_back, self.suggested) {
            (true, _) => ": the model before is advised",
            (false, Some(true)) => ": a recalibrated model waits",
            _ => "",
        };
        format!("unlike training{}{advice}", nats.unwrap_or_default())
    }
}

/// Flags of the newest steps, and the newest comparison with training.
#[derive(Debug, Default)]
pub(crate) struct DecoderWatch {
    /// Steps and flagged ones of the last [`FLAG_SECONDS`], by second.
    flagged: VecDeque<(u64, FlagCounts)>,
    /// For each flag, whether its share is above each limit of [`FLAGGED`].
    flags: [[Persistence; 2]; 5],
    unlike: UnlikeTraining,
    /// Second since which the session is unlike training.
    unlike_since: Option<i64>,
}

impl DecoderWatch {
    /// Takes note of how far the session is from training.
    pub(crate) fn take_unlike(&mut self, now: &UnlikeTraining) {
        self.unlike = *now;
    }

    /// Share of each flag in the steps of the last [`FLAG_SECONDS`].
    fn flag_shares(&self) -> [(&'static str, f64); 5] {
        let (mut steps, mut sum) = (0, FlagCounts::default());
        for (n, flags) in &self.flagged {
            steps += n;
            sum.add(*flags);
        }
        sum.named()
            .map(|(name, n)| (name, f64::from(n) / (steps.max(1)) as f64))
    }

    /// Judges a second.
    pub(crate) fn observe(&mut self, second: &ClosedSecond<'_>) {
        self.count_flags(second);
        self.unlike_since = match self.unlike.is_cause(self.unlike_since.is_some()) {
            true => self.unlike_since.or(Some(second.at)),
            false => None,
        };
    }

    /// Compares the flags of the newest seconds with their limits.
    fn count_flags(&mut self, second: &ClosedSecond<'_>) {
        self.flagged.push_back((second.steps, second.flags));
        if self.flagged.len() > FLAG_SECONDS {
            self.flagged.pop_front();
        }
        let shares = self.flag_shares();
        for (holds, (_, share)) in self.flags.iter_mut().zip(shares) {
            for (persistence, limit) in holds.iter_mut().zip(FLAGGED) {
                let now = (share > limit, share < limit / 2.0);
                persistence.observe(second.at, now, FLAGGED_SECONDS);
            }
        }
    }

    /// Causes of the decoder's own flags, and of the comparison with training.
    pub(crate) fn causes(&self) -> Vec<Cause> {
        let mut found = Vec::new();
        for ([some, many], (name, share)) in self.flags.iter().zip(self.flag_shares()) {
            let (kind, since) = match (some.holds, many.holds) {
                (_, true) => (CauseKind::ManyFlags, many.since),
                (true, false) => (CauseKind::Flags, some.since),
                (false, false) => continue,
            };
            found.push(Cause {
                kind,
                since,
                channels: Vec::new(),
                words: format!("{name} in {:.0} % of the steps", 100.0 * share),
            });
        }
        found.extend(self.unlike_since.map(|since| Cause {
            kind: CauseKind::Unlike,
            since,
            channels: Vec::new(),
            words: self.unlike.words(),
        }));
        found
    }
}
