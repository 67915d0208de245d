//! `betz mine --surrogates`: which counts are more than chance.

use betz::device::Ran;
use betz::episode::significance::{
    ChainTest, EpisodeTest, PreparedTest, TestEvents, TestNames, Workers,
};
use betz::episode::{Frequency, MiningResult};
use betz::text::count;
use betz::{ErrorKind, Progress, Result};
use serde::Serialize;
use std::time::Instant;

use super::args::Chance;
use crate::report;

/// The options by their names on the command line.
pub(super) const NAMES: TestNames = TestNames {
    surrogates: "--surrogates",
    dither: "--dither",
    shuffle: "--shuffle",
    fdr: "--fdr",
    parts: "--parts",
};

/// Significance of a list of episodes.
pub(super) struct TestResults {
    /// One entry per episode; `None` for single symbols, which every surrogate keeps, and for those that
    /// cannot be chains because their parts are none.
    pub(super) rows: Vec<Option<ChainTest>>,
    pub(super) how: TestMethod,
}

/// The method of a test.
#[derive(Serialize, Clone)]
pub(super) struct TestMethod {
    surrogates: u32,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dither_seconds: Option<f64>,
    seed: u64,
    /// Episodes tested together.
    tested: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    fdr: Option<f64>,
    /// True if every part was tested, too.
    pub(super) parts: bool,
    /// Where surrogates were counted, wherever the episodes were.
    pub(super) device: String,
}

/// The test that is asked for; `None` without surrogates.
pub(super) fn test(args: &Chance, frequency: Frequency) -> Option<EpisodeTest> {
    Some(EpisodeTest {
        surrogates: args.surrogates?,
        dither_seconds: args.dither,
        shuffle: args.shuffle,
        seed: args.seed,
        fdr: args.fdr,
        parts: args.parts,
        frequency,
    })
}

/// Refuses impossible options before anything is read or counted.
pub(super) fn check(args: &Chance, frequency: Frequency) -> Result<()> {
    test(args, frequency).map_or(Ok(()), |test| test.check(&NAMES))
}

/// Tests the episodes against surrogates, if that is asked for, and keeps those that pass; the seconds of it.
pub(super) fn run(
    workers: Workers<'_>,
    test: Option<EpisodeTest>,
    events: TestEvents<'_>,
    mined: &mut MiningResult,
    progress: &dyn Progress,
) -> Result<(Option<TestResults>, Option<f64>)> {
    let testing = Instant::now();
    let Some(test) = test.filter(|_| mined.complete) else {
        return Ok((None, None));
    };
    let clock = events.clock();
    let prepared = test
        .prepare(clock, &mined.episodes)
        .map_err(|e| e.at("--dither"))?;
    note_needed(&test, &prepared);
    if let TestEvents::Held(held) = events {
        let left_out = prepared.left_out(held);
        if left_out > 0 {
            eprintln!(
                "left out of the test of parts: {}, too short to shift by {} s",
                count(left_out as u128, "segment"),
                clock.seconds(prepared.shifts.least)
            );
        }
    }
    let tested = match prepared.run(workers, events, &mut mined.episodes, progress) {
        Err(e) if e.kind() == ErrorKind::Interrupted => return Ok((None, None)),
        other => other?,
    };
    if let Some(message) = tested.none_passed(&test, &NAMES) {
        eprintln!("{message}");
    }
    let ran = match events {
        TestEvents::Held(_) => workers.placement.ran(""),
        TestEvents::Chunks(..) => Ran::default(),
    };
    let results = TestResults {
        rows: tested.rows,
        how: TestMethod {
            surrogates: test.surrogates,
            kind: match tested.dither_seconds {
                Some(_) => "dither",
                None => "shuffle",
            },
            dither_seconds: tested.dither_seconds,
            seed: test.seed,
            tested: tested.number,
            fdr: test.fdr,
            parts: test.parts,
            device: ran.device,
        },
    };
    Ok((Some(results), Some(testing.elapsed().as_secs_f64())))
}

/// Says, before surrogates are counted, how many episodes must reach the smallest p for any to pass.
fn note_needed(test: &EpisodeTest, prepared: &PreparedTest) {
    let (Some(fdr), Some(needed)) = (test.fdr, prepared.needed()) else {
        return;
    };
    let tested = prepared.patterns.len();
    report::note(&format!(
        "--fdr {fdr}: episodes are listed only if at least {needed} of {tested} occur more often than in all of {} surrogates; {:.0} surrogates would list a single one",
        test.surrogates,
        (tested as f64 / fdr - 1e-9).ceil() - 1.0
    ));
}

impl TestResults {
    /// The line below the table.
    pub(super) fn describe(&self) -> String {
        let TestMethod {
            surrogates,
            tested,
            seed,
            ..
        } = self.how;
        let kind = match self.how.dither_seconds {
            Some(seconds) => format!("events moved by up to {seconds} s"),
            None => "intervals between spikes shuffled".to_owned(),
        };
        let listed = match self.how.fdr {
            Some(fdr) if self.how.parts => format!("; listed: q <= {fdr}, in every part"),
            Some(fdr) => format!("; listed: q <= {fdr}"),
            None => String::new(),
        };
        let pairs = if self.how.parts {
            "; pairs: four times as many"
        } else {
            ""
        };
        format!(
            "{} against {} ({kind}, seed {seed}{pairs}){listed}",
            count(tested as u128, "episode"),
            count(surrogates, "surrogate")
        )
    }
}
