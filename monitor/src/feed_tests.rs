//! A feed and its reader on two threads, as hard as they can: nothing is torn, nothing is made up, and what was not
//! handed on is counted.

use crate::feed::{Feed, FeedStep, feed};
use betz_runtime::stream::{Input, Step, StepStatus, SwapState, Tap};

const OUTPUTS: usize = 3;
const CHANNELS: usize = 200;

/// Everything about a step follows from its number, so that a reader knows a torn one.
struct TestStep {
    tick: i64,
    spikes: Vec<u32>,
    counts: Vec<u16>,
    estimates: Vec<f32>,
    beside: Vec<f64>,
    status: StepStatus,
}

fn made(number: u64) -> TestStep {
    // Lists of none, of few, of as many as go in with the head, and of more.
    let len = [0, 1, 7, 64, 65, 399, 400, 450][(number % 8) as usize];
    let mix =
        |i: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i.wrapping_mul(0x85eb_ca6b)) >> 7;
    let with = number.is_multiple_of(5);
    TestStep {
        tick: number as i64 * 3,
        spikes: (0..len)
            .map(|i| (mix(i) % CHANNELS as u64) as u32)
            .collect(),
        counts: (0..CHANNELS as u64)
            .map(|i| (mix(i) % 17).saturating_sub(14) as u16)
            .collect(),
        estimates: (0..OUTPUTS as u64)
            .map(|i| (mix(i) % 1_000) as f32)
            .collect(),
        beside: (0..if with { OUTPUTS as u64 } else { 0 })
            .map(|i| (mix(i + 9) % 1_000) as f64)
            .collect(),
        status: StepStatus::from_bits((mix(3) % (1 << 17)) as u32),
    }
}

fn give(feed: &mut Feed, number: u64) {
    let step = made(number);
    let input = match number % 3 {
        0 => Input::Counts(&step.counts),
        _ => Input::Spikes(&step.spikes),
    };
    feed.take(&Step {
        tick: step.tick,
        input,
        estimates: &step.estimates,
        beside: &step.beside,
        classes: &[],
        status: step.status,
        previous_latency_ns: number as u32,
        swap: SwapState::Idle,
    });
}

/// Panics where a step is not the one of its number.
fn check(taken: &FeedStep) {
    let step = made(taken.number);
    let spikes = match taken.number % 3 {
        0 => (0u32..)
            .zip(&step.counts)
            .flat_map(|(c, &n)| std::iter::repeat_n(c, usize::from(n)))
            .collect(),
        _ => step.spikes,
    };
    let beside: Vec<f32> = step.beside.iter().map(|&v| v as f32).collect();
    assert_eq!(taken.tick, step.tick, "step {}", taken.number);
    assert_eq!(taken.previous_latency_ns, taken.number as u32);
    assert_eq!(taken.spikes, spikes, "step {}", taken.number);
    assert_eq!(taken.estimates, step.estimates);
    assert_eq!(taken.beside, beside);
    assert_eq!(taken.status, step.status);
}

/// Steps through a ring of `words` while another thread reads; gives those that were read and those that were not.
fn hammered(words: usize, steps: u64, slow_reader: bool) -> (u64, u64) {
    let (mut feed, mut reader) = feed(OUTPUTS, None, words).unwrap();
    let reading = std::thread::spawn(move || {
        let (mut step, mut read, mut last) = (FeedStep::default(), 0, None);
        loop {
            // Looked at before the ring: what came before the end is there.
            let ended = !reader.is_connected();
            let mut any = false;
            while reader.take(&mut step) {
                check(&step);
                assert!(
                    last.is_none_or(|l| l < step.number),
                    "steps come in their order"
                );
                last = Some(step.number);
                read += 1;
                any = true;
                if slow_reader && read % 16 == 0 {
                    std::thread::yield_now();
                }
            }
            if ended && !any {
                return (read, reader.not_shown());
            }
            std::thread::yield_now();
        }
    });
    for number in 0..steps {
        give(&mut feed, number);
        if number.is_multiple_of(256) {
            std::thread::yield_now();
        }
    }
    drop(feed);
    reading.join().unwrap()
}

#[test]
fn two_threads_tear_nothing_and_count_what_was_not_handed_on() {
    for (words, slow) in [(700, true), (1 << 12, true), (1 << 16, false)] {
        let steps = 20_000;
        let (read, not_shown) = hammered(words, steps, slow);
        assert_eq!(read + not_shown, steps, "a ring of {words} words");
        assert!(read > 0);
    }
}

#[test]
fn a_feed_that_nobody_reads_counts_and_does_not_wait() {
    let (mut feed, mut reader) = feed(OUTPUTS, None, 2_000).unwrap();
    // Were it to wait for room, this would not end.
    for number in 0..10_000 {
        give(&mut feed, number);
    }
    let (mut step, mut read) = (FeedStep::default(), 0);
    while reader.take(&mut step) {
        check(&step);
        read += 1;
    }
    assert!(read > 0);
    assert_eq!(read + reader.not_shown(), 10_000);
}
