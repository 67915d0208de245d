//! Verdicts on made sessions: how soon they come, how often they are false, and which channels they name.

use super::*;
use crate::session_counts::FlagCounts;
use crate::status::{RecalibrationStatus, SessionStatus};

const CHANNELS: usize = 96;
const STEPS: u64 = 100;

struct Random(u64);

impl Random {
    /// A number between 0 and 1.
    fn share(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A count of a Poisson process.
    fn count(&mut self, mean: f64) -> u32 {
        if mean > 50.0 {
            // Close to a normal distribution.
            let normal = (0..12).map(|_| self.share()).sum::<f64>() - 6.0;
            return (mean + mean.sqrt() * normal).round().max(0.0) as u32;
        }
        let (limit, mut product, mut n) = ((-mean).exp(), self.share(), 0);
        while product > limit {
            product *= self.share();
            n += 1;
        }
        n
    }
}

/// Rates of training: 2 to 40 spikes per second.
fn usual(c: usize) -> f64 {
    2.0 + 38.0 * ((c * 37) % CHANNELS) as f64 / CHANNELS as f64
}

/// A made session: rates follow a movement that comes and goes in phases of its own for every channel, and R² varies around
/// its score as that of a half minute does.
struct Session {
    judge: Judge,
    random: Random,
    names: Vec<String>,
    masked: Vec<u32>,
    at: i64,
    noise: f64,
    flags: FlagCounts,
}

impl Session {
    fn new(seed: u64, r2: Option<f64>) -> Self {
        let training = Training {
            r2,
            mean_counts: (0..CHANNELS).map(|c| usual(c) / STEPS as f64).collect(),
            ..Training::default()
        };
        Self {
            judge: Judge::new(CHANNELS, 1.0 / STEPS as f64, Some(&training)),
            random: Random(seed),
            names: (0..CHANNELS).map(|c| format!("ch{c}")).collect(),
            masked: Vec::new(),
            at: 0,
            noise: 0.0,
            flags: FlagCounts::default(),
        }
    }

    /// A second in which channel `c` fires at `rate(c, its usual rate)` and the decoder is as good as `r2`.
    fn second(&mut self, r2: Option<f64>, rate: impl Fn(usize, f64) -> f64) {
        let at = self.at as f64;
        let counts: Vec<u32> = (0..CHANNELS)
            .map(|c| {
                // Movement modulates a channel by 60 %, slowly and fast.
                let phase = c as f64 * 0.7;
                let tuned = 1.0 + 0.4 * (at * 0.9 + phase).sin() + 0.2 * (at * 0.04 + phase).sin();
                self.random.count((rate(c, usual(c)) * tuned).max(0.0))
            })
            .collect();
        let step = self.random.share() - 0.5;
        self.noise = 0.95 * self.noise + 0.06 * step;
        let second = ClosedSecond {
            at: self.at,
            steps: STEPS,
            flags: self.flags,
            counts: &counts,
        };
        let r2 = (r2.map(|r2| r2 + self.noise), 3_000);
        self.judge.observe(&second, r2, &self.masked, &self.names);
        self.at += 1;
    }

    fn run(&mut self, seconds: i64, r2: f64, rate: impl Fn(usize, f64) -> f64) {
        (0..seconds).for_each(|_| self.second(Some(r2), &rate));
    }

    /// Seconds until the level is `level`.
    fn until(&mut self, level: Level, most: i64, r2: f64, rate: impl Fn(usize, f64) -> f64) -> i64 {
        for passed in 1..=most {
            self.second(Some(r2), &rate);
            if self.judge.level == level {
                return passed;
            }
        }
        panic!("no {level:?} within {most} s: {}", self.judge.words());
    }

    fn named(&self, kind: CauseKind) -> Vec<u32> {
        let cause = self.judge.causes.iter().find(|c| c.kind == kind);
        cause.map_or(Vec::new(), |c| c.channels.clone())
    }
}

const SCORE: f64 = 0.81;

#[test]
fn a_session_like_its_training_is_good_for_hours() {
    for seed in 1..=5 {
        let mut session = Session::new(seed, Some(SCORE));
        session.run(120, 0.80, |_, usual| usual);
        assert_eq!(session.judge.level, Level::Good);
        assert!(
            session.judge.words().starts_with("Decoder "),
            "{}",
            session.judge.words()
        );
        assert!(session.judge.words().ends_with("(trained: 0.81)"));
        session.run(4 * 3_600, 0.80, |_, usual| usual);
        // False verdicts: none in 5 × 4 hours.
        assert_eq!(
            (session.judge.past().len(), session.judge.level),
            (0, Level::Good),
            "seed {seed}: {:?}",
            session.judge.past()
        );
    }
}

#[test]
fn silent_and_noisy_channels_are_named_within_seconds_and_until_they_are_well() {
    let mut session = Session::new(7, Some(SCORE));
    session.run(60, 0.80, |_, usual| usual);
    let gone = [3, 10, 17, 24, 31, 38, 45];
    let broken = |c: usize, usual: f64| match c {
        20 => 40.0 * usual,
        c if gone.contains(&c) => 0.0,
        _ => usual,
    };
    let passed = session.until(Level::Bad, 30, 0.75, broken);
    assert!(passed <= 4, "{passed} s");
    // The slowest of these fires three times per second: sixty of its spikes are missing after 20 s.
    session.run(40, 0.75, broken);
    assert_eq!(session.named(CauseKind::Silent), gone.map(|c| c as u32));
    assert_eq!(session.named(CauseKind::Noisy), [20]);
    assert_eq!(session.judge.since, 60, "since the first second of it");
    let words = session.judge.words();
    assert!(
        words.starts_with("7 channels silent (ch3, ch10, ch17, …), ch20 × "),
        "{words}"
    );
    let factor: f64 = words
        .split("× ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!((30.0..50.0).contains(&factor), "{words}");
    // It stays, however long.
    session.run(600, 0.75, broken);
    assert_eq!((session.judge.level, session.judge.since), (Level::Bad, 60));
    // A mask resolves it; so does that they are well again.
    session.masked = [&gone.map(|c| c as u32)[..], &[20]].concat();
    session.masked.sort_unstable();
    session.run(1, 0.80, broken);
    assert_eq!(
        session.judge.level,
        Level::Good,
        "{}",
        session.judge.words()
    );
    session.masked.clear();
    session.run(1, 0.80, broken);
    assert_eq!(session.judge.level, Level::Bad);
    let passed = session.until(Level::Good, 120, 0.80, |_, usual| usual);
    assert!(passed >= 10, "{passed} s: too hasty");
    let past = session.judge.past();
    assert!(past.iter().any(|p| p["level"] == "bad"), "{past:?}");
}

#[test]
fn channels_that_drift_are_watched_and_swapped_ones_named() {
    let mut session = Session::new(11, Some(SCORE));
    session.run(120, 0.80, |_, usual| usual);
    // One channel loses a hundredth of its rate per second.
    let start = session.at;
    let drifting = |at: i64| {
        move |c: usize, usual: f64| {
            let faded = (1.0 - 0.01 * (at - start) as f64).max(0.15);
            if c == 50 { usual * faded } else { usual }
        }
    };
    let mut passed = 0;
    while session.judge.level == Level::Good && passed < 300 {
        let at = session.at;
        session.second(Some(0.79), drifting(at));
        passed += 1;
    }
    assert_eq!(session.judge.level, Level::Watch);
    assert_eq!(session.named(CauseKind::Drift), [50]);
    assert!(passed < 110, "{passed} s");
    // Two channels of other rates change places: both are named, and nobody else.
    let mut session = Session::new(12, Some(SCORE));
    session.run(120, 0.80, |_, usual| usual);
    let (a, b) = (13, 90);
    assert!(usual(a) / usual(b) > 4.0 || usual(b) / usual(a) > 4.0);
    let swapped = move |c: usize, own: f64| match c {
        c if c == a => usual(b),
        c if c == b => usual(a),
        _ => own,
    };
    session.until(Level::Watch, 120, 0.80, swapped);
    session.run(60, 0.80, swapped);
    let mut named = session.named(CauseKind::Drift);
    named.extend(session.named(CauseKind::Noisy));
    named.sort_unstable();
    assert_eq!(named, [a as u32, b as u32]);
}

/// Cells that fire only while the animal is in their place, for some seconds at times that nobody knows.
#[test]
fn place_cells_are_good_and_one_that_is_gone_is_named() {
    let mut session = Session::new(17, Some(SCORE));
    let mut places = Random(5);
    let mut place = 0;
    let mut walk = |session: &mut Session, seconds: i64, gone: Option<usize>| {
        for _ in 0..seconds {
            // Twenty-four places, mostly in turn, each for four seconds on average.
            if places.share() < 0.25 {
                let next = (places.share() * 24.0) as usize;
                place = if places.share() < 0.95 {
                    (place + 1) % 24
                } else {
                    next
                };
            }
            let here = place;
            session.second(Some(0.80), |c, usual| match c {
                c if Some(c) == gone => 0.0,
                c if c % 24 == here => 0.015 * 24.0 * usual,
                _ => 0.0,
            });
        }
    };
    // The busiest fires at 14 spikes per second in its place, and 0.6 on average; training knew that.
    let mean_counts = (0..CHANNELS).map(|c| 0.015 * usual(c) / STEPS as f64);
    let training = Training {
        r2: Some(SCORE),
        mean_counts: mean_counts.collect(),
        ..Training::default()
    };
    session.judge = Judge::new(CHANNELS, 1.0 / STEPS as f64, Some(&training));
    // In ten minutes their silences have been seen.
    walk(&mut session, 600, None);
    let before = session.judge.past().len();
    assert_eq!(session.judge.level, Level::Good);
    walk(&mut session, 2 * 3_600, None);
    let past = session.judge.past();
    assert_eq!(past.len(), before, "{past:?}");
    walk(&mut session, 1_200, Some(83));
    assert_eq!(session.named(CauseKind::Silent), [83]);
}

#[test]
fn a_fall_of_r2_is_bad_and_a_slow_one_is_watched() {
    let mut session = Session::new(21, Some(SCORE));
    session.run(60, 0.80, |_, usual| usual);
    let passed = session.until(Level::Bad, 60, 0.45, |_, usual| usual);
    assert!((30..=32).contains(&passed), "{passed} s");
    session.run(60, 0.80, |_, usual| usual);
    assert_eq!(session.judge.level, Level::Good);
    let passed = session.until(Level::Bad, 60, 0.25, |_, usual| usual);
    assert!(passed <= 6, "{passed} s");
    assert_eq!(session.judge.causes[0].kind, CauseKind::Accuracy);
    assert!(
        session.judge.words().ends_with("(trained: 0.81)"),
        "{}",
        session.judge.words()
    );
    session.run(60, 0.80, |_, usual| usual);
    assert_eq!(session.judge.level, Level::Good);
    // A loss that no half minute shows.
    let passed = session.until(Level::Watch, 900, 0.66, |_, usual| usual);
    assert!(passed < 600, "{passed} s");
    assert_eq!(session.judge.causes[0].kind, CauseKind::Slow);
}

#[test]
fn without_rates_or_a_score_of_training_the_verdict_says_so() {
    let mut session = Session::new(31, None);
    session.judge = Judge::new(CHANNELS, 1.0 / STEPS as f64, None);
    session.second(None, |_, usual| usual);
    assert_eq!(
        (session.judge.level, session.judge.words()),
        (Level::Unknown, "No verdict yet".into())
    );
    for _ in 0..60 {
        session.second(None, |_, usual| usual);
    }
    assert!(
        session
            .judge
            .words()
            .starts_with("Rates as in the first minute"),
        "{}",
        session.judge.words()
    );
    for _ in 0..40 {
        session.second(None, |c, usual| if c == 8 { 0.0 } else { usual });
    }
    assert_eq!(session.named(CauseKind::Silent), [8]);
}

#[test]
fn flags_of_the_decoder_are_causes_as_long_as_many_steps_have_them() {
    let mut session = Session::new(41, Some(SCORE));
    // A step in twenty is nothing.
    session.flags.clamped = 5;
    session.run(120, 0.80, |_, usual| usual);
    assert_eq!(session.judge.level, Level::Good);
    session.flags.out_of_range = 30;
    let passed = session.until(Level::Watch, 30, 0.80, |_, usual| usual);
    assert!((5..=10).contains(&passed), "{passed} s");
    let words = session.judge.words();
    assert!(words.starts_with("out of range in "), "{words}");
    assert!(!words.contains("clamped"), "{words}");
    session.flags.clamped = 80;
    session.until(Level::Bad, 30, 0.80, |_, usual| usual);
    session.run(10, 0.80, |_, usual| usual);
    assert_eq!(
        session.judge.words(),
        "clamped in 80 % of the steps, out of range in 30 % of the steps"
    );
    assert_eq!(session.judge.json()["causes"][0]["kind"], "flags");
    session.flags = FlagCounts::default();
    let passed = session.until(Level::Good, 40, 0.80, |_, usual| usual);
    assert!((15..=30).contains(&passed), "{passed} s");
}

#[test]
fn unlike_training_is_watched_and_a_recalibration_knows_better() {
    let mut session = Session::new(43, Some(SCORE));
    session.run(60, 0.80, |_, usual| usual);
    let tell = |session: &mut Session, nats, recalibration| {
        let status = SessionStatus {
            unlike_training: nats,
            recalibration,
            ..SessionStatus::default()
        };
        session.judge.decoder.take_unlike(&(&status).into());
        session.run(1, 0.80, |_, usual| usual);
        (session.judge.level, session.judge.words())
    };
    assert_eq!(tell(&mut session, Some(0.08), None).0, Level::Good);
    let unlike = (Level::Watch, "unlike training (0.25 nats)".to_owned());
    assert_eq!(tell(&mut session, Some(0.25), None), unlike);
    let at = session.judge.since;
    // Between its limits it stays, and not a number is none.
    assert_eq!(tell(&mut session, Some(0.16), None).0, Level::Watch);
    assert_eq!(session.judge.since, at);
    assert_eq!(tell(&mut session, Some(f64::NAN), None).0, Level::Good);
    // A session that is recalibrated: behaviour may explain the distance.
    let mut recalibration = RecalibrationStatus::default();
    let told = tell(&mut session, Some(0.9), Some(recalibration.clone()));
    assert_eq!(told.0, Level::Good);
    recalibration.suggested = true;
    let told = tell(&mut session, Some(0.9), Some(recalibration.clone()));
    let words = "unlike training (0.90 nats): a recalibrated model waits";
    assert_eq!(told, (Level::Watch, words.to_owned()));
    recalibration.roll_back = true;
    let told = tell(&mut session, None, Some(recalibration));
    assert_eq!(told.1, "unlike training: the model before is advised");
    assert_eq!(session.judge.causes[0].kind, CauseKind::Unlike);
}

#[test]
fn verdicts_of_a_file_come_before_those_of_the_session_that_goes_on() {
    let mut first = Session::new(47, Some(SCORE));
    first.run(60, 0.80, |_, usual| usual);
    first.until(Level::Bad, 60, 0.40, |_, usual| usual);
    let end = first.at;
    let file = Value::from(first.judge.past_and_present(end));
    let levels = |judge: &Judge| -> Vec<String> {
        let past = judge.past();
        past.iter()
            .map(|v| v["level"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut next = Session::new(48, Some(SCORE));
    next.at = end;
    next.run(60, 0.80, |_, usual| usual);
    next.until(Level::Bad, 60, 0.40, |_, usual| usual);
    assert_eq!(levels(&next.judge), ["good"]);
    next.judge.restore(&file);
    assert_eq!(levels(&next.judge), ["good", "bad", "good"]);
    assert_eq!(next.judge.past()[1]["to"], end);
    // Other values are left out.
    next.judge
        .restore(&json!([7, {"from": 3}, {"from": 9, "to": 8, "level": "bad", "words": "x"}]));
    next.judge.restore(&json!("none"));
    assert_eq!(levels(&next.judge).len(), 3);
}
