//! A decoder that is too slow: steps that wait for it are left out.

use betz_base::Result;
use betz_rigs::rig::host_ns;

use super::{Live, Output};
use crate::pipeline::Give;

/// Decides if a decoder is too slow for its source.
pub(super) struct Backlog {
    /// Most steps that may wait.
    most: u64,
    step_ns: f64,
    /// Step that was open, and time, when more began to wait.
    since: Option<(u64, i64)>,
}

impl Backlog {
    pub(super) fn new(most: u64, step_seconds: f64) -> Self {
        Self {
            most,
            step_ns: step_seconds * 1e9,
            since: None,
        }
    }

    /// True if more steps than allowed wait at the time `now`, and as many that were made since then have taken longer than they
    /// last. A decoder that catches up, as after a pause of this machine, is not too slow, and neither is one whose source sends
    /// faster than life.
    fn is_slow(&mut self, open: u64, waiting: u64, now: i64) -> bool {
        if waiting <= self.most {
            self.since = None;
            return false;
        }
        let (first, begun) = *self.since.get_or_insert((open, now));
        let made = open.saturating_sub(first);
        let passed = now.saturating_sub(begun) as f64;
        let is_slow = made >= self.most && passed > made as f64 * self.step_ns;
        if is_slow {
            self.since = None;
        }
        is_slow
    }
}

impl Live {
    /// Leaves out the steps that wait, up to the newest whole one, if the decoder is too slow.
    pub(super) fn catch_up(&mut self, each: &mut Give<'_>) -> Result<()> {
        let (Some(pipeline), Some(newest)) = (&mut self.pipeline, self.first.ear.newest()) else {
            return Ok(());
        };
        let epoch = newest.epoch.wrapping_add(self.first.first_epoch);
        let end = newest.first.saturating_add(newest.rows as u64);
        let binner = pipeline.binner();
        let (Some((open, _)), Some(waiting)) = (binner.open_step(), binner.steps_until(epoch, end))
        else {
            return Ok(());
        };
        let now = host_ns();
        if !self.backlog.is_slow(open, waiting, now) {
            return Ok(());
        }
        let to = open + waiting - 1;
        let mut out = Output {
            sinks: &mut self.sinks,
            recorder: self.recorder.as_mut(),
            learner: self.learner.as_mut(),
            latency: &mut self.latency,
            startup: &mut self.startup,
            score: &mut self.score,
            stamp: None,
        };
        if let Some(recorder) = &mut out.recorder {
            recorder.skip_behind(open, to, now);
        }
        pipeline.skip_behind(to, &mut |step| out.give(step, each))
    }
}

#[cfg(test)]
mod tests {
    use super::Backlog;

    /// Steps of 1 ms, of which 8 may wait: how `is_slow` judges steps that take `ms` each while `waiting` wait.
    fn judge(waiting: u64, ms: f64) -> Vec<bool> {
        let mut backlog = Backlog::new(8, 1e-3);
        (0..20)
            .map(|step| backlog.is_slow(step, waiting, (step as f64 * ms * 1e6) as i64))
            .collect()
    }

    #[test]
    fn a_decoder_is_slow_if_steps_wait_and_take_longer_than_they_last() {
        let slow = judge(9, 1.01);
        // Steps 8 and, after the backlog is judged anew, 17.
        let told: Vec<usize> = (0..20).filter(|i| slow[*i]).collect();
        assert_eq!(told, [8, 17]);
        assert!(!judge(8, 50.0).contains(&true));
        assert!(!judge(1000, 0.99).contains(&true));
    }

    #[test]
    fn a_pause_is_not_slowness() {
        let mut backlog = Backlog::new(8, 1e-3);
        // 30 ms pass, then the steps that waited are made fast.
        let ms = |step: u64| 30_000_000 + step as i64 * 10_000;
        assert!((0..30).all(|step| !backlog.is_slow(step, 30 - step, ms(step))));
    }
}
