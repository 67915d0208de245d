//! Mistakes of new users, and sources that differ from their plan.

use std::time::Duration;

use betz_base::Result;
use betz_live::{FrontEnd, Live, Pace, Part, bin, check};
use betz_recording::SpikeForm;
use betz_rigs::rig::{Arrival, Block, Rig, RigCounts, Samples, Signal};
use betz_runtime::stream::StepStatus;

use super::rigs::{self, ALWAYS, ListRig};

#[test]
fn what_a_session_cannot_open_is_refused_by_check_and_by_run_in_the_same_words() {
    let mut small = rigs::small(0.0);
    let front_end = FrontEnd::of_plan(&rigs::plan(&[]), true).unwrap();
    small.model = front_end.attach(small.model).unwrap();
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = format!("labels.from=udp://{}", taken.local_addr().unwrap());
    let rig = || ListRig {
        signal: small.simulation.signal(),
        blocks: Vec::new().into_iter(),
    };
    for (change, words) in [
        ("outputs.to=[\"udp://127.0.0.1:x\"]", "outputs.to: address"),
        (
            "outputs.clamp=[[1, -1], [0, 1]]",
            "outputs.clamp: clamp of output 0: ",
        ),
        ("outputs.slew=[0.1, 0]", "outputs.slew: slew of output 1: "),
        (
            "labels.from=tcp://x",
            "labels.from: \"tcp://x\": expected udp://",
        ),
        (&taken, "labels.from: listening at "),
        (
            "voltage.feature=units;voltage.sorter=none",
            "voltage.sorter: reading none",
        ),
        (
            "source.channels=23",
            "session.model: expected a model of the 23 channels of the source `rig`, got one of 24; train it",
        ),
        (
            "source.from=udp://127.0.0.1:0?channels=25",
            "session.model: expected a model of the 25 channels of the source `rig`, got one of 24; train it",
        ),
        (
            "voltage.threshold=-4",
            "voltage.threshold: expected -4.5, which the model was trained on, got -4;",
        ),
        (
            "voltage.feature=sbp",
            "voltage.feature: expected crossings at once",
        ),
        (
            "source.sends=steps",
            "source.from: expected crossings at once",
        ),
    ] {
        let changes: Vec<&str> = change.split(';').collect();
        let plan = rigs::plan(&changes);
        let checked = check(&plan, &small.model, &mut rig(), Duration::ZERO).unwrap_err();
        let opened = Live::with_rig(plan, small.model.clone(), Box::new(rig()));
        let ran = opened.err().unwrap();
        assert_eq!(checked.message(), ran.message());
        assert!(ran.message().contains(words), "{change}: {ran}");
    }
    // A file is no folder to record in.
    let file = tempfile::NamedTempFile::new().unwrap();
    let to = format!("record.to={:?}", file.path().join("here").to_str().unwrap());
    let plan = rigs::plan(&[&to]);
    let refused = check(&plan, &small.model, &mut rig(), Duration::ZERO).unwrap_err();
    assert!(refused.message().contains("record.to: "), "{refused}");
}

/// A rig that sends one block, is silent for three times as long as the loop looks away, and ends.
struct PausingRig(ListRig, u32);

impl Rig for PausingRig {
    fn signal(&self) -> Option<Signal> {
        self.0.signal()
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let arrival = self.0.take(block, patience)?;
        if arrival == Arrival::Ended && self.1 < 3 {
            self.1 += 1;
            std::thread::sleep(patience);
            return Ok(Arrival::Nothing);
        }
        Ok(arrival)
    }

    fn counts(&self) -> RigCounts {
        RigCounts::default()
    }
}

/// Features of 24 channels, a row per step.
fn features(rows: usize, value: f32) -> ListRig {
    let block = Block {
        rows,
        host_ns: betz_rigs::rig::host_ns(),
        samples: Samples::Features(vec![value; rows * 24]),
        ..Block::new()
    };
    ListRig {
        signal: Signal {
            channels: 24,
            rate: 1.0 / rigs::STEP_SECONDS,
            microvolts: None,
            clock_bits: 64,
        },
        blocks: vec![block].into_iter(),
    }
}

#[test]
fn a_source_whose_blocks_are_longer_than_stale_after_is_not_silent_between_them() {
    let small = rigs::small(0.0);
    // A block of ten minutes: the next one is due ten minutes later.
    let rig = PausingRig(features(30_000, 1.0), 0);
    let plan = rigs::plan(&["missing.stale_after=1ms"]);
    let mut live = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
    live.run(&ALWAYS, &mut |_| Ok(())).unwrap();
    let counts = live.report().input;
    assert_eq!((counts.steps, counts.stale), (30_000, 0));
}

#[test]
fn a_value_that_no_step_takes_costs_its_step_and_not_the_session() {
    let small = rigs::small(0.0);
    for value in [1e30, f32::NAN, f32::NEG_INFINITY] {
        let mut rig = features(10, 1.0);
        let mut blocks: Vec<Block> = rig.blocks.collect();
        if let Samples::Features(values) = &mut blocks[0].samples {
            values[5 * 24 + 3] = value;
        }
        rig.blocks = blocks.into_iter();
        let plan = rigs::plan(&["missing.stale_after=1h"]);
        let mut live = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
        let mut stale = Vec::new();
        live.run(&ALWAYS, &mut |step| {
            stale.push(step.status.contains(StepStatus::STALE));
            Ok(())
        })
        .unwrap();
        let counts = live.report().input;
        assert_eq!((counts.steps, counts.stale), (10, 1), "{value}");
        let expected: Vec<bool> = (0..10).map(|step| step == 5).collect();
        assert_eq!(stale, expected, "{value}");
    }
}

#[test]
fn features_of_a_bus_become_a_signal_and_counts_stay_counts() {
    let plan = rigs::plan(&[]);
    for (value, form) in [(0.5, SpikeForm::Signal), (2.0, SpikeForm::Counts)] {
        let (bins, _) = bin(&plan, &mut features(10, value), rigs::STEP_SECONDS, None).unwrap();
        let recording = bins
            .into_recording(&plan, Vec::new(), &|_, _| None)
            .unwrap();
        assert_eq!(recording.form, form);
        assert_eq!(recording.spikes.weights, vec![value; 240]);
    }
}

#[test]
fn steps_in_which_the_noise_is_measured_cross_a_limit_only_if_there_are_no_others() {
    let small = rigs::small(0.0);
    for (blocks, steps, crossed) in [(1000, 50, 1), (2000, 100, 0)] {
        let mut rig = small.simulation.rig(Part::Run, Pace::Fastest);
        let rig = ListRig {
            signal: small.simulation.signal(),
            blocks: rigs::blocks(&mut rig, blocks).into_iter(),
        };
        let plan = rigs::plan(&["missing.stale_after=1h"]);
        let mut live = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
        live.run(&ALWAYS, &mut |_| Ok(())).unwrap();
        let counts = live.report().input;
        assert_eq!(
            (counts.steps, counts.stale, counts.calibrating),
            (steps, 50, 50)
        );
        assert_eq!(live.crossed().len(), crossed, "{:?}", live.crossed());
    }
}

#[test]
fn settled_crossings_have_no_noise_to_hand_on() {
    let small = rigs::small(0.0);
    let mut rig = ListRig {
        signal: small.simulation.signal(),
        blocks: rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 100).into_iter(),
    };
    let plan = rigs::plan(&["voltage.at=settled", "voltage.noise.calibrate=0s"]);
    let (_, noise) = bin(&plan, &mut rig, rigs::STEP_SECONDS, None).unwrap();
    assert_eq!(noise, None);
}

#[test]
fn each_warning_of_a_check_is_provoked() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let to = format!("record.to={:?}", folder.path().to_str().unwrap());
    let second = Duration::from_secs(1);
    let warnings = |rig: &mut ListRig, changes: &[&str]| -> Vec<String> {
        let told = check(&rigs::plan(changes), &small.model, rig, second).unwrap();
        let warned = told.lines.into_iter().filter(|line| line.warning);
        warned
            .map(|line| format!("{}: {}", line.part, line.text))
            .collect()
    };
    let rig = |rate: f64, lost: u64, blocks: usize| {
        let mut blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), blocks);
        for block in &mut blocks {
            block.lost_before.count = lost;
            if rate > 30_000.0 {
                // No voltage is so fast.
                (block.rows, block.samples) = (1, Samples::Features(vec![0.0; 24]));
            }
        }
        let mut signal = small.simulation.signal();
        signal.rate = rate;
        ListRig {
            signal,
            blocks: blocks.into_iter(),
        }
    };
    let sends = "outputs.to=[\"udp://127.0.0.1:9\"]";
    // The model of these tests says nothing of its features.
    let features = "features: crossings";
    let told = warnings(&mut rig(30_000.0, 0, 2), &[&to, sends]);
    assert!(told.len() == 1 && told[0].starts_with(features), "{told:?}");
    for (rate, lost, blocks, changes, words) in [
        (
            30_000.0,
            0,
            2,
            vec![&*to],
            "outputs: not sent: outputs.to is absent",
        ),
        (
            30_000.0,
            0,
            2,
            vec![sends],
            "record: nothing is recorded: record.to is absent",
        ),
        (
            30_000.0,
            3,
            2,
            vec![&to, sends],
            "source: rig: simulated: 24 channels at 30000 rows per second, 60 rows in 2 blocks, 6 lost",
        ),
        (
            30_000.0,
            0,
            0,
            vec![&to, sends],
            "source: rig: simulated: nothing came in 1.0 s; the session will wait for it",
        ),
        // 960 GB per second fill any disk.
        (1e10, 0, 2, vec![&to, sends], "record: "),
    ] {
        let told = warnings(&mut rig(rate, lost, blocks), &changes);
        let others = usize::from(blocks > 0);
        assert!(
            told.iter().any(|line| line.starts_with(words)),
            "{words}: {told:?}"
        );
        assert_eq!(told.len(), 1 + others, "{words}: {told:?}");
    }
}

/// An LSL stream is read as steps unless the plan says samples: keys of voltage are refused with the way out.
#[test]
fn keys_of_voltage_of_a_source_of_steps_name_what_they_need() {
    let small = rigs::small(0.0);
    let plan = rigs::plan(&["source.from=lsl://x?microvolts=0.5"]);
    let error = betz_live::open_rigs(&plan, &small.model).err().unwrap();
    let words = "with sends = \"samples\" this address is one of voltage";
    assert!(error.message().contains(words), "{error}");
    assert!(error.message().contains("source.from"), "{error}");
}
