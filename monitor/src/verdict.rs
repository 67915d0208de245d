//! Verdict on a session: whether its decoder is still as good as in training, since when not, and why.
//!
//! The judge looks at every second once: at R² of the last half minute against the model's cross-validated score, and at the
//! rates of channels against those of training, or against the session's first minute for a model that does not store them.
//! The bounds of a channel's rate are multiples of its own spread ([`RateSpread`]): rates of place cells follow the animal.
//! A cause stays until what raised it is gone for some seconds, or its channels are masked. The decoder's own flags are causes,
//! and so is the comparison of windows with training where the session makes it.

use std::collections::VecDeque;

use betz_runtime::stream::{ChannelDetector, ChannelRules, ChannelState};
use serde_json::{Value, json};

use crate::decoder_watch::DecoderWatch;
use crate::rate_spread::RateSpread;
use crate::session_history::{ClosedSecond, R2_SECONDS};
use crate::source::Training;

/// Fall of R² below training's score that is bad, and at which it is good again.
const FALL: f64 = 0.2;
const NO_FALL: f64 = 0.12;
/// Fall of the mean R² of [`SLOW_SECONDS`] that is watched, and at which it is good again.
const SLOW_FALL: f64 = 0.1;
const NO_SLOW_FALL: f64 = 0.06;
const SLOW_SECONDS: usize = 300;
/// Seconds in a row for which a fall must last, and for which it must be gone: a whole window of R² must be worse. A deep fall needs
/// fewer. The score of good place cells falls by 0.4 for a quarter of a minute.
const FALL_SECONDS: u32 = R2_SECONDS as u32;
const DEEP_FALL: f64 = 0.5;
const DEEP_SECONDS: u32 = 5;
const WELL_SECONDS: u32 = 15;
/// Steps with a true output below which R² says nothing; of long steps, this share of its window.
const FEWEST_STEPS: u64 = 200;
const FEWEST_SHARE: f64 = 0.6;
/// Seconds over which a channel's rate is compared with its usual one.
const RATE_SECONDS: usize = 60;
/// A channel is silent when it has no spike where so many were to be expected. The number grows with the channel's spread, but not
/// beyond [`SILENCES`] of its longest silences; early in a session it is [`EARLY`] times as large.
const SILENT_SPIKES: f64 = 60.0;
const SILENCES: f64 = 3.0;
const EARLY: f64 = 2.0;
/// Seconds with spikes after which it is not silent any more.
const NOT_SILENT_SECONDS: u32 = 10;
/// A channel drifts when its rate is this many times its usual one, or that part of it, …
const DRIFT: f64 = 2.0;
const NO_DRIFT: f64 = 1.7;
/// … and the difference is this many standard deviations of counts that vary this many times as much as those of a Poisson
/// process, …
const DRIFT_DEVIATIONS: f64 = 6.0;
const OVERDISPERSION: f64 = 4.0;
/// … and this many of its own spread, on a logarithmic scale, and to less spikes on a linear one as well.
const DRIFT_SPREADS: f64 = 3.5;
/// Seconds of a session after which its spread is known.
const SPREAD_SECONDS: usize = 120;
/// Seconds in a row for which a channel must drift, and for which it must not.
const DRIFT_SECONDS: u32 = 10;
const NO_DRIFT_SECONDS: u32 = 30;
/// Past verdicts that are kept.
const MOST_PAST: usize = 200;
/// Channels that a sentence names.
const MOST_NAMED: usize = 3;

/// State of a decoder, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Level {
    /// Nothing is known yet.
    #[default]
    Unknown,
    Good,
    /// It drifts.
    Watch,
    Bad,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Good => "good",
            Self::Watch => "watch",
            Self::Bad => "bad",
        }
    }
}

/// Kind of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CauseKind {
    Silent,
    Noisy,
    Accuracy,
    Slow,
    Drift,
    /// Steps are flagged.
    Flags,
    /// Half of the steps or more are flagged.
    ManyFlags,
    Unlike,
}

impl CauseKind {
    fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Noisy => "noisy",
            Self::Accuracy => "accuracy",
            Self::Slow => "slow fall",
            Self::Drift => "drift",
            Self::Flags | Self::ManyFlags => "flags",
            Self::Unlike => "unlike training",
        }
    }

    fn level(self) -> Level {
        match self {
            Self::Silent | Self::Noisy | Self::Accuracy | Self::ManyFlags => Level::Bad,
            Self::Slow | Self::Drift | Self::Flags | Self::Unlike => Level::Watch,
        }
    }
}

/// Reason for a verdict that is not good.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cause {
    pub(crate) kind: CauseKind,
    /// Second of the session's clock at which it began.
    pub(crate) since: i64,
    /// Channels concerned, ascending; empty for a fall of R².
    pub(crate) channels: Vec<u32>,
    pub(crate) words: String,
}

/// A condition that must last before it counts, and be gone for a while before it does not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Persistence {
    seconds: u32,
    well: u32,
    pub(crate) since: i64,
    pub(crate) holds: bool,
}

impl Persistence {
    /// `yes`: it holds in this second; `no`: it is surely gone.
    pub(crate) fn observe(&mut self, at: i64, (yes, no): (bool, bool), [enter, leave]: [u32; 2]) {
        if yes {
            if self.seconds == 0 && !self.holds {
                self.since = at;
            }
            self.seconds = self.seconds.saturating_add(1);
        } else {
            self.seconds = 0;
        }
        self.well = if no { self.well.saturating_add(1) } else { 0 };
        self.holds = (self.holds && self.well < leave) || self.seconds >= enter;
    }
}

/// A channel over the last minute.
#[derive(Debug, Clone, Copy, Default)]
struct ChannelTrend {
    /// Usual count per step; 0 if it is not watched.
    usual: f64,
    /// Spikes in the last [`RATE_SECONDS`].
    recent: u64,
    /// Second of the last spike.
    last_spike: i64,
    /// Spikes that were to be expected since.
    missed: f64,
    silence: Persistence,
    /// Second since which its state is what it is.
    since: i64,
    state: ChannelState,
    drift: Persistence,
}

/// Judges a session second by second.
#[derive(Debug)]
pub(crate) struct Judge {
    trained_r2: Option<f64>,
    /// Variances of training's true outputs, one per output; NaN if one is unknown.
    pub(crate) variances: Vec<f64>,
    step_seconds: f64,
    channels: Vec<ChannelTrend>,
    /// Tells noisy channels.
    detector: Option<ChannelDetector>,
    spread: RateSpread,
    /// True if usual rates are those of the session's first minute.
    own_rates: bool,
    /// Counts and steps of the last minute, by second.
    minute: VecDeque<(u64, Vec<u32>)>,
    /// Sum of its steps.
    minute_steps: u64,
    r2: Option<f64>,
    /// Trailing R² of the last [`SLOW_SECONDS`].
    r2_seconds: VecDeque<f64>,
    fall: Persistence,
    slow: Persistence,
    pub(crate) decoder: DecoderWatch,
    pub(crate) level: Level,
    /// Second since which the level holds, or its earliest cause.
    pub(crate) since: i64,
    pub(crate) causes: Vec<Cause>,
    /// The sentence with which the level began.
    began: String,
    /// Verdicts before this one: from, to, level, words.
    past: VecDeque<Value>,
}

impl Judge {
    pub(crate) fn new(channels: usize, step_seconds: f64, training: Option<&Training>) -> Self {
        let mut judge = Self {
            trained_r2: training.and_then(|t| t.r2),
            variances: training.map_or(Vec::new(), |t| t.variances.clone()),
            step_seconds,
            channels: vec![ChannelTrend::default(); channels],
            detector: None,
            spread: RateSpread::new(channels),
            own_rates: true,
            minute: VecDeque::new(),
            minute_steps: 0,
            r2: None,
            r2_seconds: VecDeque::new(),
            fall: Persistence::default(),
            slow: Persistence::default(),
            decoder: DecoderWatch::default(),
            level: Level::Unknown,
            since: 0,
            causes: Vec::new(),
            began: String::new(),
            past: VecDeque::new(),
        };
        if let Some(means) = training
            .map(|t| &t.mean_counts)
            .filter(|m| m.len() == channels)
        {
            judge.own_rates = false;
            judge.usual(means);
        }
        judge
    }

    /// Sets the usual counts per step.
    fn usual(&mut self, means: &[f64]) {
        // Silence is told here, by each channel's spread.
        let rules = ChannelRules {
            silent_spikes: f64::MAX,
            ..ChannelRules::default()
        };
        self.detector = ChannelDetector::from_mean_counts(means, self.step_seconds, rules).ok();
        (self.channels.iter_mut().zip(means)).for_each(|(channel, mean)| channel.usual = *mean);
    }

    /// Judges a second. `r2` is the mean over outputs of the last half minute and the number of steps behind it, `masked` is
    /// ascending, `names` are the channels'. Returns true if the level has changed.
    pub(crate) fn observe(
        &mut self,
        second: &ClosedSecond<'_>,
        (r2, r2_steps): (Option<f64>, u64),
        masked: &[u32],
        names: &[String],
    ) -> bool {
        let share = FEWEST_SHARE * R2_SECONDS as f64 / self.step_seconds;
        self.r2 = r2.filter(|_| r2_steps >= FEWEST_STEPS.min(share as u64));
        self.rates(second);
        self.accuracy(second.at);
        self.decoder.observe(second);
        let causes = self.found(masked, names);
        let worst = causes.iter().map(|c| c.kind.level()).max();
        let level = match worst {
            Some(worst) => worst,
            None if self.r2.is_some() || self.detector.is_some() => Level::Good,
            None => Level::Unknown,
        };
        let changed = level != self.level;
        if changed {
            if self.level != Level::Unknown {
                self.past.push_back(json!({
                    "from": self.since, "to": second.at, "level": self.level.name(), "words": self.began,
                }));
                if self.past.len() > MOST_PAST {
                    self.past.pop_front();
                }
            }
            self.level = level;
            self.since = second.at;
        }
        let worst = causes.iter().filter(|c| c.kind.level() == level);
        if let Some(first) = worst.map(|c| c.since).min() {
            self.since = first;
        }
        self.causes = causes;
        if changed {
            self.began = self.words();
        }
        changed
    }

    /// Counts the second's spikes and compares every channel with its usual rate.
    fn rates(&mut self, second: &ClosedSecond<'_>) {
        let at = second.at;
        for (c, (channel, &n)) in self.channels.iter_mut().zip(second.counts).enumerate() {
            channel.recent += u64::from(n);
            if n > 0 {
                if channel.state != ChannelState::Dead {
                    self.spread.silence(c, channel.missed);
                }
                (channel.last_spike, channel.missed) = (at, 0.0);
            } else {
                channel.missed += channel.usual * second.steps as f64;
            }
        }
        let (channels, step_seconds) = (&self.channels, self.step_seconds);
        self.spread.observe(second.counts, |c| {
            let channel = channels.get(c).copied().unwrap_or_default();
            let ill = channel.missed >= SILENT_SPIKES || channel.state == ChannelState::Screaming;
            (channel.usual / step_seconds, ill)
        });
        self.minute
            .push_back((second.steps, second.counts.to_vec()));
        self.minute_steps += second.steps;
        if self.minute.len() > RATE_SECONDS
            && let Some((steps, counts)) = self.minute.pop_front()
        {
            self.minute_steps -= steps;
            (self.channels.iter_mut().zip(counts)).for_each(|(c, n)| c.recent -= u64::from(n));
        }
        let full = self.minute.len() == RATE_SECONDS;
        if full && self.detector.is_none() && self.own_rates {
            let steps = self.minute_steps.max(1) as f64;
            let means: Vec<f64> = self
                .channels
                .iter()
                .map(|c| c.recent as f64 / steps)
                .collect();
            self.usual(&means);
            return;
        }
        let Some(detector) = &mut self.detector else {
            return;
        };
        let counts: Vec<f64> = second.counts.iter().map(|n| f64::from(*n)).collect();
        detector.observe(second.steps, &counts);
        let steps = self.minute_steps as f64;
        let counted = self.spread.seconds();
        let early = (RATE_SECONDS as f64 / counted as f64).clamp(1.0, EARLY);
        for (c, channel) in self.channels.iter_mut().enumerate() {
            let fano = self.spread.fano(c);
            let usual = (0.5 * fano * SILENT_SPIKES).min(SILENCES * self.spread.longest_silence(c));
            let limit = SILENT_SPIKES.max(usual) * early;
            let silent = (channel.missed >= limit, 2.0 * channel.missed < limit);
            channel.silence.observe(at, silent, [1, NOT_SILENT_SECONDS]);
            let state = match detector.state(c) {
                Some(ChannelState::Screaming) => ChannelState::Screaming,
                _ if channel.silence.holds => ChannelState::Dead,
                _ => ChannelState::Well,
            };
            if state != channel.state {
                channel.since = match state {
                    ChannelState::Dead => channel.last_spike + 1,
                    ChannelState::Screaming => at - 1,
                    ChannelState::Well => at,
                };
                channel.state = state;
            }
            let expected = channel.usual * steps;
            if expected <= 0.0 || !full {
                continue;
            }
            let (found, well) = (channel.recent as f64, state == ChannelState::Well);
            let factor = found.max(1.0) / expected;
            let by = |times: f64| factor > times || factor < 1.0 / times;
            let own = (DRIFT_SPREADS * (fano / expected).ln_1p().sqrt()).exp();
            let apart = (found - expected).abs();
            let no_chance = apart > DRIFT_DEVIATIONS * (expected * OVERDISPERSION).sqrt()
                && (factor > 1.0 || apart > DRIFT_SPREADS * (expected * fano).sqrt());
            let known = counted >= SPREAD_SECONDS;
            let drifts = well && known && by(DRIFT.max(own)) && no_chance;
            let seconds = [DRIFT_SECONDS, NO_DRIFT_SECONDS];
            channel.drift.observe(at, (drifts, !by(NO_DRIFT)), seconds);
        }
    }

    /// Compares R² with that of training.
    fn accuracy(&mut self, at: i64) {
        let (Some(r2), Some(trained)) = (self.r2, self.trained_r2) else {
            return;
        };
        let by = |fall: f64, limit: f64| fall > limit;
        let fall = trained - r2;
        let seconds = match by(fall, DEEP_FALL) {
            true => [DEEP_SECONDS, WELL_SECONDS],
            false => [FALL_SECONDS, WELL_SECONDS],
        };
        self.fall
            .observe(at, (by(fall, FALL), !by(fall, NO_FALL)), seconds);
        self.r2_seconds.push_back(r2);
        if self.r2_seconds.len() > SLOW_SECONDS {
            self.r2_seconds.pop_front();
            let mean = self.r2_seconds.iter().sum::<f64>() / SLOW_SECONDS as f64;
            let fall = trained - mean;
            let slow = (by(fall, SLOW_FALL), !by(fall, NO_SLOW_FALL));
            let seconds = [FALL_SECONDS, WELL_SECONDS];
            self.slow.observe(at, slow, seconds);
        }
    }

    /// Channels that are not masked and for which `of` holds, ascending.
    fn channels_that(&self, masked: &[u32], of: impl Fn(&ChannelTrend) -> bool) -> Vec<u32> {
        let all = (0..).zip(&self.channels);
        let free = all.filter(|(c, _)| masked.binary_search(c).is_err());
        free.filter(|(_, channel)| of(channel))
            .map(|(c, _)| c)
            .collect()
    }

    /// Silent and noisy channels, also masked ones.
    pub(crate) fn ill(&self) -> [Vec<u32>; 2] {
        let states = [ChannelState::Dead, ChannelState::Screaming];
        states.map(|state| self.channels_that(&[], |c| c.state == state))
    }

    /// Factor of a channel's rate over the newest seconds to its usual one.
    fn factor(&self, channel: u32, seconds: usize) -> f64 {
        let newest = self.minute.iter().rev().take(seconds);
        let of =
            |(steps, counts): &(u64, Vec<u32>)| (*steps, counts.get(channel as usize).copied());
        let (steps, spikes) = newest.map(of).fold((0, 0), |(steps, spikes), (s, n)| {
            (steps + s, spikes + u64::from(n.unwrap_or(0)))
        });
        let usual = self.channels.get(channel as usize).map_or(0.0, |c| c.usual);
        spikes as f64 / (usual * steps as f64)
    }

    fn found(&self, masked: &[u32], names: &[String]) -> Vec<Cause> {
        let mut found = Vec::new();
        let since = |channels: &[u32], of: &dyn Fn(&ChannelTrend) -> i64| {
            let all = channels
                .iter()
                .filter_map(|c| self.channels.get(*c as usize));
            all.map(of).min().unwrap_or(0)
        };
        let name = |c: &u32| names.get(*c as usize).map_or("?", String::as_str);
        let silent = self.channels_that(masked, |c| c.state == ChannelState::Dead);
        if !silent.is_empty() {
            let listed: Vec<String> = silent.iter().map(|c| name(c).to_owned()).collect();
            found.push(Cause {
                kind: CauseKind::Silent,
                since: since(&silent, &|c| c.since),
                words: format!("{} silent ({})", channels(silent.len()), short(&listed)),
                channels: silent,
            });
        }
        let noisy = self.channels_that(masked, |c| c.state == ChannelState::Screaming);
        if !noisy.is_empty() {
            let of = |c: &u32| format!("{} × {:.0} of its rate", name(c), self.factor(*c, 5));
            let listed: Vec<String> = noisy.iter().map(of).collect();
            let count = match noisy.len() {
                1..=MOST_NAMED => String::new(),
                n => format!("{} noisy: ", channels(n)),
            };
            found.push(Cause {
                kind: CauseKind::Noisy,
                since: since(&noisy, &|c| c.since),
                words: count + &short(&listed),
                channels: noisy,
            });
        }
        if let (Some(r2), Some(trained)) = (self.r2, self.trained_r2) {
            if self.fall.holds {
                found.push(Cause {
                    kind: CauseKind::Accuracy,
                    since: self.fall.since,
                    channels: Vec::new(),
                    words: format!("R² {r2:.2} (trained: {trained:.2})"),
                });
            } else if self.slow.holds {
                let mean = self.r2_seconds.iter().sum::<f64>() / self.r2_seconds.len() as f64;
                found.push(Cause {
                    kind: CauseKind::Slow,
                    since: self.slow.since,
                    channels: Vec::new(),
                    words: format!("mean R² of five minutes {mean:.2} (trained: {trained:.2})"),
                });
            }
        }
        let drift = self.channels_that(masked, |c| c.drift.holds && c.state == ChannelState::Well);
        if !drift.is_empty() {
            let of = |c: &u32| format!("{} × {}", name(c), digits(self.factor(*c, RATE_SECONDS)));
            let listed: Vec<String> = drift.iter().map(of).collect();
            let whose = if self.own_rates {
                "of the first minute"
            } else {
                "of training"
            };
            found.push(Cause {
                kind: CauseKind::Drift,
                since: since(&drift, &|c| c.drift.since),
                words: format!(
                    "{} away from the rates {whose} ({})",
                    channels(drift.len()),
                    short(&listed)
                ),
                channels: drift,
            });
        }
        found.extend(self.decoder.causes());
        found
    }

    /// The verdict in a sentence, without its time.
    pub(crate) fn words(&self) -> String {
        let trained = self.trained_r2.map(|r2| format!(" (trained: {r2:.2})"));
        let causes: Vec<&str> = self.causes.iter().map(|c| c.words.as_str()).collect();
        match (self.level, self.r2) {
            (Level::Unknown, _) => "No verdict yet".into(),
            (Level::Good, Some(r2)) => {
                let below = self
                    .trained_r2
                    .is_some_and(|trained| trained - r2 > NO_FALL);
                let word = if below { "below its training" } else { "good" };
                let trained = trained.unwrap_or(" (the model has no score of its own)".into());
                format!("Decoder {word}: {r2:.2}{trained}")
            }
            (Level::Good, None) => match self.own_rates {
                true => "Rates as in the first minute; no true outputs to compare".into(),
                false => "Rates as in training; no true outputs to compare".into(),
            },
            _ => causes.join(", "),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let causes: Vec<Value> = (self.causes.iter())
            .map(|c| {
                json!({"kind": c.kind.name(), "level": c.kind.level().name(), "since": c.since,
                    "channels": c.channels, "words": c.words})
            })
            .collect();
        json!({
            "level": self.level.name(), "since": self.since, "words": self.words(), "causes": causes,
            "r2": self.r2, "trained_r2": self.trained_r2,
        })
    }

    /// Verdicts up to `end`, this one among them, the oldest first.
    pub(crate) fn past_and_present(&self, end: i64) -> Vec<Value> {
        let mut all = self.past();
        if self.level != Level::Unknown && self.since < end {
            all.push(json!({
                "from": self.since, "to": end, "level": self.level.name(), "words": self.words(),
            }));
        }
        all
    }

    /// Puts the verdicts of a file before those of this session. Other values are left out.
    pub(crate) fn restore(&mut self, verdicts: &Value) {
        let of = |one: &&Value| {
            let [from, to] = ["from", "to"].map(|end| one[end].as_i64());
            from.zip(to).is_some_and(|(from, to)| from <= to)
                && one["level"].is_string()
                && one["words"].is_string()
        };
        let known = verdicts.as_array().into_iter().flatten().filter(of);
        let mut all: VecDeque<Value> = known.cloned().collect();
        all.append(&mut self.past);
        let old = all.len().saturating_sub(MOST_PAST);
        self.past = all.split_off(old);
    }

    /// Verdicts before this one, the oldest first.
    pub(crate) fn past(&self) -> Vec<Value> {
        self.past.iter().cloned().collect()
    }
}

fn channels(n: usize) -> String {
    format!("{n} channel{}", if n == 1 { "" } else { "s" })
}

/// The first of a list, and a word for the others.
fn short(all: &[String]) -> String {
    let more = if all.len() > MOST_NAMED { ", …" } else { "" };
    all[..all.len().min(MOST_NAMED)].join(", ") + more
}

fn digits(factor: f64) -> String {
    match factor {
        f if f >= 10.0 => format!("{f:.0}"),
        f if f >= 1.0 => format!("{f:.1}"),
        f => format!("{f:.2}"),
    }
}

#[cfg(test)]
#[path = "verdict_on_recordings.rs"]
mod on_recordings;
#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
