//! Long work tells one stage that goes from its beginning to its end, and never back.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Mutex;

use betz::Progress;
use betz::episode::significance::{ChainOptions, Surrogate, chains};
use betz::episode::{Events, Interval, MineOptions, Pattern, mine};
use betz::simulate::network::{NetworkConfig, simulate};
use betz::sort::synthetic::{Synthetic, make};
use betz::sort::{InMemory, Settings, TrainOptions, train};

/// The shares of the whole that a listener hears.
pub(crate) struct Shares {
    stage: &'static str,
    told: Mutex<Vec<f64>>,
}

impl Shares {
    pub(crate) fn of(stage: &'static str) -> Self {
        Self {
            stage,
            told: Mutex::default(),
        }
    }

    /// Checks that `least` shares or more were told, from the beginning on, and none below an earlier one.
    pub(crate) fn check(self, least: usize) {
        let told = self.told.into_inner().unwrap();
        assert!(told.len() >= least && told.is_sorted(), "{told:?}");
        let (first, last) = (told[0], told[told.len() - 1]);
        assert!(
            first < 0.1 && last > 0.8 && last <= 1.0,
            "{first} to {last}"
        );
    }
}

impl Progress for Shares {
    fn update(&self, stage: &str, done: u64, total: u64) {
        assert_eq!(stage, self.stage);
        self.told.lock().unwrap().push(done as f64 / total as f64);
    }
}

#[test]
fn tests_of_chains_are_one_stage() {
    let recording = simulate(&NetworkConfig::sym26(), 1).unwrap().recording;
    let events = Events::from_recording(&recording).unwrap();
    let interval = Interval::from_seconds(0.004, 0.006, events.clock()).unwrap();
    let options = MineOptions {
        max_size: Some(4),
        ..MineOptions::new(vec![interval], 600)
    };
    let mined = mine(&events, &options, &()).unwrap();
    let patterns: Vec<Pattern> = mined.episodes.into_iter().map(|e| e.pattern).collect();
    let shares = Shares::of("tests");
    let tick = events.clock().tick_seconds();
    let ticks = |seconds: f64| (seconds / tick).round() as i64;
    let options = ChainOptions {
        surrogate: Surrogate::Dither { delta: ticks(0.02) },
        draws: 19,
        shifts: (ticks(0.1), ticks(1.0)),
        rate: 0.2,
        seed: 1,
    };
    chains(&events, &patterns, &options, &shares).unwrap();
    shares.check(10);
}

#[test]
fn training_a_sorter_is_one_stage() {
    let of = Synthetic {
        seconds: 4.0,
        ..Synthetic::tetrode(3)
    };
    let made = make(&of).unwrap();
    let places = of.places.iter().map(|place| Some(*place)).collect();
    let options = TrainOptions::new(Settings::new(of.rate_hz, of.gain), places);
    let mut voltage = InMemory::new(&made.samples, of.places.len()).unwrap();
    let shares = Shares::of("training");
    train(&mut voltage, &options, &shares).unwrap();
    shares.check(10);
}
