//! Spread of every channel's rate in a session: how far its counts vary beyond those of a Poisson process.
//!
//! A place cell follows the animal's place, so that its counts of a minute vary far more than those of a cell of the motor
//! cortex. Bounds that fit both are multiples of the channel's own spread. The spread is a Fano factor: half the mean squared
//! difference of consecutive windows (von Neumann, 1941) over their mean count, so that a slow drift adds nearly nothing.
//! Windows of three lengths are counted, because bursts and visits last for different times. The largest factor counts.

use std::collections::VecDeque;

/// Lengths of the windows, in seconds; the first divides the others.
const LENGTHS: [usize; 3] = [10, 30, 60];
/// Windows of the first length after which what they say of a channel counts. A channel that changes is so compared with
/// its spread from before the change.
const DELAY: usize = 9;
/// Weight of the other channels' median, in windows.
const SHARED_WINDOWS: f64 = 3.0;
/// Spikes in ten minutes that a channel must be expected to have for that median.
const SHARED_SPIKES: f64 = 20.0;

/// Sums over the windows of one length.
#[derive(Debug, Clone, Copy, Default)]
struct WindowSums {
    /// Half the squared differences of consecutive windows.
    squares: f64,
    /// Mean counts of their pairs.
    spikes: f64,
    pairs: u32,
}

impl WindowSums {
    fn fano(self) -> f64 {
        self.squares / self.spikes.max(1.0)
    }
}

/// Windows of one length of one channel.
#[derive(Debug, Clone, Copy, Default)]
struct Windows {
    /// Spikes of the open window, and of the one before.
    open: u64,
    before: u64,
    sums: WindowSums,
}

#[derive(Debug, Clone, Default)]
struct ChannelSpread {
    windows: [Windows; LENGTHS.len()],
    /// Sums of the last windows of the first length, the oldest first.
    past: VecDeque<[WindowSums; LENGTHS.len()]>,
    fano: f64,
    /// The longest silence that has ended, in spikes that were to be expected.
    longest_silence: f64,
}

/// Spreads of all channels of a session.
#[derive(Debug, Clone)]
pub(crate) struct RateSpread {
    channels: Vec<ChannelSpread>,
    seconds: usize,
    /// Median over the channels of their longest silences.
    shared_silence: f64,
}

impl RateSpread {
    pub(crate) fn new(channels: usize) -> Self {
        let unknown = ChannelSpread {
            fano: 1.0,
            ..ChannelSpread::default()
        };
        Self {
            channels: vec![unknown; channels],
            seconds: 0,
            shared_silence: 0.0,
        }
    }

    /// Seconds that were counted.
    pub(crate) fn seconds(&self) -> usize {
        self.seconds
    }

    /// Takes the counts of the next second. `facts` gives a channel's usual rate in spikes per second. It is true if the windows of
    /// the channel are left out, because it may have failed.
    pub(crate) fn observe(&mut self, counts: &[u32], facts: impl Fn(usize) -> (f64, bool)) {
        self.seconds += 1;
        for (channel, &n) in self.channels.iter_mut().zip(counts) {
            for windows in &mut channel.windows {
                windows.open += u64::from(n);
            }
        }
        let ends = |length: &usize| self.seconds.is_multiple_of(*length);
        if !ends(&LENGTHS[0]) {
            return;
        }
        let ended: Vec<usize> = (0..LENGTHS.len()).filter(|l| ends(&LENGTHS[*l])).collect();
        for (c, channel) in self.channels.iter_mut().enumerate() {
            let left_out = facts(c).1;
            for &l in &ended {
                let windows = &mut channel.windows[l];
                if self.seconds > LENGTHS[l] && !left_out {
                    let (own, before) = (windows.open as f64, windows.before as f64);
                    windows.sums.squares += (own - before).powi(2) / 2.0;
                    windows.sums.spikes += (own + before) / 2.0;
                    windows.sums.pairs += 1;
                }
                windows.before = std::mem::take(&mut windows.open);
            }
            channel.past.push_back(channel.windows.map(|w| w.sums));
            if channel.past.len() > DELAY + 1 {
                channel.past.pop_front();
            }
        }
        let shared: Vec<Option<f64>> = (0..LENGTHS.len())
            .map(|l| self.median(l, |c| facts(c).0 * 600.0 > SHARED_SPIKES))
            .collect();
        let silences = self.channels.iter().map(|c| c.longest_silence);
        let mut silences: Vec<f64> = silences.filter(|s| *s > 0.0).collect();
        if !silences.is_empty() {
            let middle = silences.len() / 2;
            self.shared_silence = *silences.select_nth_unstable_by(middle, f64::total_cmp).1;
        }
        for channel in &mut self.channels {
            let own = channel.past.front().filter(|_| channel.past.len() > DELAY);
            let of = |(l, shared): (usize, &Option<f64>)| {
                let (shared, own) = ((*shared)?, own.map(|own| own[l]).unwrap_or_default());
                let pairs = f64::from(own.pairs);
                Some((pairs * own.fano() + SHARED_WINDOWS * shared) / (pairs + SHARED_WINDOWS))
            };
            let all = shared.iter().enumerate().filter_map(of);
            channel.fano = all.fold(1.0, f64::max);
        }
    }

    /// A silence has ended in which `expected` spikes were to be expected.
    pub(crate) fn silence(&mut self, channel: usize, expected: f64) {
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.longest_silence = channel.longest_silence.max(expected);
        }
    }

    /// Longest silence of a channel so far, or the median of the channels' if that is longer, in expected spikes.
    pub(crate) fn longest_silence(&self, channel: usize) -> f64 {
        let own = self
            .channels
            .get(channel)
            .map_or(0.0, |c| c.longest_silence);
        own.max(self.shared_silence)
    }

    /// Median of the channels for which `counts` holds, at least 1; `None` as long as no two windows have ended.
    fn median(&self, length: usize, counts: impl Fn(usize) -> bool) -> Option<f64> {
        let known = self.channels.iter().enumerate().filter(|(c, _)| counts(*c));
        let known = known.map(|(_, channel)| channel.windows[length].sums);
        let mut all: Vec<f64> = known
            .filter(|s| s.pairs > 0)
            .map(WindowSums::fano)
            .collect();
        if all.is_empty() {
            return (self.seconds >= 2 * LENGTHS[length]).then_some(1.0);
        }
        let middle = all.len() / 2;
        Some(
            all.select_nth_unstable_by(middle, f64::total_cmp)
                .1
                .max(1.0),
        )
    }

    /// Fano factor of a channel's counts; 1 as long as nothing is known.
    pub(crate) fn fano(&self, channel: usize) -> f64 {
        self.channels.get(channel).map_or(1.0, |c| c.fano)
    }
}

#[cfg(test)]
mod tests {
    use super::{DELAY, RateSpread};

    /// The plain sum over all windows: half the mean squared difference over the mean count of the pairs.
    fn plain(counts: &[u32], length: usize) -> f64 {
        let windows: Vec<f64> = (counts.chunks_exact(length))
            .map(|w| w.iter().sum::<u32>().into())
            .collect();
        let pairs = windows.windows(2);
        let squares: f64 = pairs.clone().map(|p| (p[1] - p[0]).powi(2) / 2.0).sum();
        squares / pairs.map(|p| f64::midpoint(p[0], p[1])).sum::<f64>()
    }

    /// Visits to a place: 20 spikes per second for eight seconds of every `period`.
    fn visits(seconds: usize, period: usize) -> Vec<u32> {
        (0..seconds)
            .map(|s| if s % period < 8 { 20 } else { 0 })
            .collect()
    }

    #[test]
    fn the_spread_is_that_of_windows_before_the_delay_and_of_the_other_channels() {
        let (seconds, steady) = (600, 5);
        let visiting = visits(seconds, 53);
        let mut spread = RateSpread::new(3);
        for &n in &visiting {
            spread.observe(&[n, steady, steady], |_| (4.0, false));
        }
        let known = &visiting[..seconds - 10 * DELAY];
        let expected = [10, 30, 60].map(|length| {
            let pairs = (known.len() / length - 1) as f64;
            (pairs * plain(known, length) + 3.0) / (pairs + 3.0)
        });
        let expected = expected.into_iter().fold(1.0, f64::max);
        assert!(expected > 10.0, "{expected}");
        assert!((spread.fano(0) - expected).abs() < 1e-9);
        // Steady channels have none; three windows of the median stand beside theirs.
        assert!((spread.fano(1) - 1.0).abs() < 0.2, "{}", spread.fano(1));
    }

    #[test]
    fn the_longest_silence_is_the_channels_own_or_the_median() {
        let mut spread = RateSpread::new(3);
        for (channel, expected) in [(0, 40.0), (1, 5.0), (2, 8.0), (0, 12.0)] {
            spread.silence(channel, expected);
        }
        assert_eq!(
            [0, 1, 2].map(|c| spread.longest_silence(c)),
            [40.0, 5.0, 8.0]
        );
        for _ in 0..10 {
            spread.observe(&[1, 1, 1], |_| (1.0, false));
        }
        assert_eq!(
            [0, 1, 2].map(|c| spread.longest_silence(c)),
            [40.0, 8.0, 8.0]
        );
    }

    #[test]
    fn a_change_does_not_widen_the_bounds_that_it_is_compared_with() {
        let mut spread = RateSpread::new(3);
        let mut run = |seconds: usize, n: u32, left_out: bool| {
            for _ in 0..seconds {
                spread.observe(&[n, 5, 5], |c| (5.0, left_out && c == 0));
            }
            spread.fano(0)
        };
        assert!(run(300, 5, false) <= 1.0);
        assert!(run(80, 50, false) <= 1.0, "before the delay is over");
        assert!(run(120, 50, false) > 10.0, "from then on it is known");
        let mut spread = RateSpread::new(3);
        let mut run = |seconds: usize, n: u32, left_out: bool| {
            for _ in 0..seconds {
                spread.observe(&[n, 5, 5], |c| (5.0, left_out && c == 0));
            }
            spread.fano(0)
        };
        run(300, 5, false);
        assert!(run(300, 0, true) <= 1.0, "a channel that has failed");
    }
}
