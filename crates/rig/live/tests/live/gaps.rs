//! Gaps, late blocks, restarts and steps without data, through a pipeline that never looks at a clock.

use betz_live::{Binner, Content, Event, Pace, Part, Pipeline};
use betz_rigs::rig::Block;
use betz_runtime::stream::StepStatus;

use super::rigs::{self, Small};

struct StepCopy {
    number: u64,
    status: StepStatus,
    values: Vec<u32>,
}

struct Bench {
    pipeline: Pipeline,
    made: Vec<StepCopy>,
}

impl Bench {
    fn new(small: &Small, changes: &[&str]) -> Self {
        let signal = small.simulation.signal();
        let mut pipeline =
            Pipeline::new(&rigs::plan(changes), &small.model, &signal, true).unwrap();
        pipeline.set_noise(&small.noise).unwrap();
        Self {
            pipeline,
            made: Vec::new(),
        }
    }

    fn take(&mut self, blocks: &[Block]) {
        let made = &mut self.made;
        for block in blocks {
            self.pipeline
                .take(block, &mut |step| {
                    made.push(StepCopy::of(step));
                    Ok(())
                })
                .unwrap();
        }
    }

    fn stale(&mut self) {
        let made = &mut self.made;
        self.pipeline
            .step_stale(&mut |step| {
                made.push(StepCopy::of(step));
                Ok(())
            })
            .unwrap();
    }
}

impl StepCopy {
    fn of(step: &betz_live::Step<'_>) -> Self {
        Self {
            number: step.number,
            status: step.status,
            values: step.values.iter().map(|v| v.to_bits()).collect(),
        }
    }
}

fn setup(blocks: usize) -> (Small, Vec<Block>) {
    let small = rigs::small(0.0);
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), blocks);
    (small, blocks)
}

#[test]
fn the_cut_into_blocks_does_not_matter() {
    let (small, blocks) = setup(200);
    let mut whole = Bench::new(&small, &[]);
    whole.take(&blocks);
    let mut joined = Bench::new(&small, &[]);
    for pair in blocks.chunks(7) {
        let mut one = pair[0].clone();
        let betz_rigs::rig::Samples::Voltage(all) = &mut one.samples else {
            panic!()
        };
        for more in &pair[1..] {
            let betz_rigs::rig::Samples::Voltage(more) = &more.samples else {
                panic!()
            };
            all.extend_from_slice(more);
            one.rows += 30;
        }
        joined.take(&[one]);
    }
    assert_eq!(whole.made.len(), 10);
    for (a, b) in whole.made.iter().zip(&joined.made) {
        assert_eq!(
            (a.number, a.status, &a.values),
            (b.number, b.status, &b.values)
        );
    }
}

#[test]
fn a_short_gap_is_bridged_and_flags_its_step() {
    let (small, mut blocks) = setup(200);
    blocks.drain(50..54);
    let mut bench = Bench::new(&small, &[]);
    bench.take(&blocks);
    let counts = bench.pipeline.binner().counts();
    assert_eq!(
        (counts.steps, counts.lost, counts.bridged, counts.stale),
        (10, 120, 120, 0)
    );
    for made in &bench.made {
        assert_eq!(
            made.status.contains(StepStatus::DROPPED),
            made.number == 2,
            "{}",
            made.number
        );
    }
}

#[test]
fn a_long_gap_skips_its_steps_and_the_rest_decodes_on() {
    let (small, mut blocks) = setup(400);
    blocks.drain(45..170);
    let mut bench = Bench::new(&small, &[]);
    bench.take(&blocks);
    let numbers: Vec<u64> = bench.made.iter().map(|m| m.number).collect();
    // Step 2 was begun and never finished; steps 3 to 7 never came; step 8 is half there.
    assert_eq!(
        numbers,
        [0, 1, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
    );
    let counts = bench.pipeline.binner().counts();
    assert_eq!(
        (counts.skipped, counts.lost, counts.bridged),
        (6, 125 * 30, 0)
    );
    assert!(bench.made[2].status.contains(StepStatus::DROPPED));
    assert!(bench.made[3..].iter().all(|m| m.status.is_ok()));
}

#[test]
fn the_power_of_a_step_that_is_left_out_is_in_no_other_step() {
    let (small, blocks) = setup(200);
    for stale in [false, true] {
        // The second step, of blocks 20 to 39, begins or does not; then it is left out, or made without data.
        let [begun, not_begun] = [27, 20].map(|until| {
            let plan = rigs::plan(&["voltage.feature=sbp"]);
            let signal = small.simulation.signal();
            let mut binner = Binner::new(&plan, &signal, true, rigs::STEP_SECONDS).unwrap();
            let mut power: Vec<(u64, Vec<f32>)> = Vec::new();
            let mut add = |event: Event<'_>| {
                if let Event::Step(step) = event
                    && let Content::Features(values) = step.content
                {
                    power.push((step.number, values.to_vec()));
                }
                Ok(())
            };
            for block in &blocks[..until] {
                binner.take(block, &mut add).unwrap();
            }
            if stale {
                binner.step_stale(&mut add).unwrap();
            }
            for block in &blocks[40..] {
                binner.take(block, &mut add).unwrap();
            }
            power
        });
        assert_eq!((begun.len(), not_begun.len()), (9, 9));
        for ((step, power), (other, expected)) in begun.iter().zip(&not_begun) {
            // Sums of the same rows in other groups.
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs();
            assert!(
                step == other && power.iter().zip(expected).all(near),
                "{step} {power:?}, {other} {expected:?}"
            );
        }
    }
}

#[test]
fn a_step_made_without_data_leaves_its_late_rows_out() {
    let (small, blocks) = setup(200);
    let mut bench = Bench::new(&small, &[]);
    bench.take(&blocks[..45]);
    assert_eq!(bench.pipeline.binner().open_step(), Some((2, 1800)));
    bench.stale();
    assert!(bench.made[2].status.contains(StepStatus::STALE));
    bench.take(&blocks[45..]);
    let counts = bench.pipeline.binner().counts();
    assert_eq!((counts.late, counts.stale, counts.steps), (15 * 30, 1, 10));
    // 15 ms are more than what is bridged: the filters start again.
    assert_eq!((counts.lost, counts.bridged), (0, 0));
}

#[test]
fn blocks_that_come_twice_or_late_change_nothing() {
    let (small, blocks) = setup(200);
    let mut clean = Bench::new(&small, &[]);
    clean.take(&blocks);
    let mut bench = Bench::new(&small, &[]);
    for (i, block) in blocks.iter().enumerate() {
        bench.take(&[block.clone(), blocks[i / 2].clone()]);
    }
    assert_eq!(bench.pipeline.binner().counts().late, 200 * 30);
    for (a, b) in clean.made.iter().zip(&bench.made) {
        assert_eq!(
            (a.number, a.status, &a.values),
            (b.number, b.status, &b.values)
        );
    }
}

#[test]
fn a_device_that_starts_again_is_a_new_epoch() {
    let (small, blocks) = setup(100);
    let mut bench = Bench::new(&small, &[]);
    bench.take(&blocks[..50]);
    let again: Vec<Block> = (blocks.iter().cloned())
        .map(|block| Block { epoch: 1, ..block })
        .collect();
    bench.take(&again);
    let numbers: Vec<u64> = bench.made.iter().map(|m| m.number).collect();
    assert_eq!(numbers, [0, 1, 3, 4, 5, 6, 7]);
    assert_eq!(bench.pipeline.binner().counts().restarts, 1);
}

#[test]
fn the_outputs_follow_the_movement() {
    let (small, blocks) = setup(5000);
    let mut bench = Bench::new(&small, &[]);
    bench.take(&blocks);
    assert_eq!(bench.made.len(), 250);
    let delay = small.model.delay_steps() as u64;
    let (mut product, mut squares) = (0.0, [0.0, 0.0]);
    for made in bench.made.iter().filter(|m| m.number >= 5 + delay) {
        let truth = small
            .simulation
            .truth(Part::Run, (made.number - delay + 1) * 600 - 1);
        for (truth, value) in truth.iter().zip(&made.values) {
            let value = f32::from_bits(*value);
            product += truth * value;
            squares[0] += truth * truth;
            squares[1] += value * value;
        }
    }
    let correlation = product / (squares[0] * squares[1]).sqrt();
    // 5 s of a movement up to 2 Hz are about 40 independent values: chance reaches 0.16 by its standard error.
    assert!(correlation > 0.5, "{correlation}");
}
