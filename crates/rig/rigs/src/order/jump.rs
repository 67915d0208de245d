//! One rule for clocks that jump: one far time may be damaged, and a second one is believed.

/// Place of a time among those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeVerdict {
    /// It is near the newest one.
    Near,
    /// It is far from the newest one, and the next one has yet to confirm it.
    Doubtful,
    /// It is far from the newest one, and confirms the one before it.
    Jumped,
}

/// Tells damaged times from a clock that jumped.
#[derive(Debug, Clone)]
pub(crate) struct JumpRule<T> {
    /// The far time before, if the time before was one.
    doubtful: Option<T>,
}

impl<T> Default for JumpRule<T> {
    fn default() -> Self {
        Self { doubtful: None }
    }
}

impl<T> JumpRule<T> {
    /// Judges `time`, of which the caller says if it is near the newest believed one. `confirms` says if it is near the doubtful
    /// time before.
    pub(crate) fn judge(
        &mut self,
        time: T,
        is_near: bool,
        confirms: impl FnOnce(T) -> bool,
    ) -> TimeVerdict {
        let before = self.doubtful.take();
        if is_near {
            return TimeVerdict::Near;
        }
        if before.is_some_and(confirms) {
            return TimeVerdict::Jumped;
        }
        self.doubtful = Some(time);
        TimeVerdict::Doubtful
    }

    /// Forgets a doubtful time, because another clock begins.
    #[cfg_attr(not(any(feature = "udp", feature = "lsl")), allow(dead_code))]
    pub(crate) fn clear(&mut self) {
        self.doubtful = None;
    }
}

#[cfg(test)]
mod tests {
    use super::TimeVerdict::{Doubtful, Jumped, Near};
    use super::*;

    #[test]
    fn one_far_time_is_doubtful_and_a_second_one_beside_it_is_a_jump() {
        let (mut rule, mut newest) = (JumpRule::default(), 100_i64);
        let mut judge = |time: i64| {
            let near = |other: i64| (time - other).abs() < 10;
            let verdict = rule.judge(time, near(newest), near);
            if verdict != Doubtful {
                newest = time;
            }
            verdict
        };
        let verdicts = [105, 900, 107, 900, 20, 21, 22].map(&mut judge);
        let expected = [Near, Doubtful, Near, Doubtful, Doubtful, Jumped, Near];
        assert_eq!(verdicts, expected);
        rule.judge(500, false, |_| false);
        rule.clear();
        assert_eq!(rule.judge(501, false, |_| true), Doubtful);
    }
}
