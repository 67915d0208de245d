//! A second device whose blocks come late: the steps of the first wait for it for two steps.

use betz_live::Live;
use betz_rigs::rig::Block;

use super::rigs::{self, ALWAYS};
use super::sources::{FIRST, SECOND, plan, rigs_of, voltage};

/// Start and end of the part of the session in which the second device is late, in seconds after the first block.
const PART: [f64; 2] = [1.5, 2.0];

/// Counts of a session whose second device is `late` seconds late for a while.
struct Counts {
    /// Steps made without the second device.
    stale: u64,
    /// Steps made with a part of their data.
    partial: u64,
    steps: u64,
}

/// Runs a session in which blocks of the second device arrive `late` seconds later for a while.
fn run(small: &rigs::Small, voltage: &[i16], late: f64) -> Counts {
    let always = |_| Some(0);
    let mut second = SECOND.blocks(voltage, &always);
    delay(&mut second, late);
    let rigs = rigs_of(vec![(16, FIRST.blocks(voltage, &always)), (8, second)]);
    let mut live = Live::with_rigs(plan("", &[]), small.model.clone(), rigs).unwrap();
    live.run(&ALWAYS, &mut |_| Ok(())).unwrap();
    live.stop().unwrap();
    let counts = live.report().input;
    let sources = live.sources();
    assert_eq!((sources[0].lost, sources[1].lost), (0, 0));
    Counts {
        stale: sources[1].stale,
        partial: counts.partial,
        steps: counts.steps,
    }
}

/// Blocks of the part arrive `late` seconds later. Those after it wait for them, as on a connection that keeps their order.
fn delay(blocks: &mut [Block], late: f64) {
    let begin = blocks[0].host_ns;
    let mut newest = 0;
    for block in blocks {
        let seconds = (block.host_ns - begin) as f64 / 1e9;
        if (PART[0]..PART[1]).contains(&seconds) {
            block.host_ns += (late * 1e9) as i64;
        }
        newest = newest.max(block.host_ns);
        block.host_ns = newest;
    }
}

#[test]
fn steps_wait_for_a_second_device_up_to_two_steps_and_no_longer() {
    let small = rigs::small(0.0);
    let voltage = voltage(&small, 3000);
    let in_time = run(&small, &voltage, 0.0);
    // A step of 20 ms is made without the device once two more of the first one are complete: 40 ms after its end.
    let within = run(&small, &voltage, 0.036);
    assert_eq!(
        (within.steps, within.stale, within.partial),
        (in_time.steps, in_time.stale, in_time.partial)
    );
    // Of 25 steps all are late, and a few at the edges; the device is waited for again afterwards.
    let beyond = run(&small, &voltage, 0.044);
    assert_eq!(beyond.steps, in_time.steps);
    let stale = beyond.stale - in_time.stale;
    let partial = beyond.partial - in_time.partial;
    assert!((20..=30).contains(&stale), "{stale}");
    assert!((20..=30).contains(&partial), "{partial}");
}
