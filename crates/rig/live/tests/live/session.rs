use std::path::Path;
use std::time::Duration;

use betz_base::Result;
use betz_live::record::{Reader, Record};
use betz_live::{Binner, Event, Live, Pace, Part, Replay, Trial, Until, check};
use betz_rigs::rig::notes::NoteContent;
use betz_rigs::rig::{Arrival, Block, Rig, RigCounts, Signal, host_ns};

use super::rigs::{self, ALWAYS, ListRig};

/// A session over `blocks`, recorded in `to`; the outputs of each step.
fn run(small: &rigs::Small, blocks: Vec<betz_rigs::rig::Block>, to: &Path) -> (Live, rigs::Steps) {
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: blocks.into_iter(),
    };
    let set = format!("record.to={:?}", to.to_str().unwrap());
    // No step is made without data by the clock: this machine may be busy.
    let plan = rigs::plan(&[&set, "missing.stale_after=1h"]);
    let mut live = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    let steps = rigs::run(&mut live);
    live.stop().unwrap();
    (live, steps)
}

#[test]
fn the_replay_of_a_session_gives_the_same_bits() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 1000);
    let (live, steps) = run(&small, blocks, folder.path());
    let counts = live.report().input;
    assert_eq!((counts.steps, counts.rows, counts.lost), (50, 30_000, 0));
    assert!(live.crossed().is_empty(), "{:?}", live.crossed());

    let mut replayed = Vec::new();
    let replay = Replay::open(live.folder().unwrap()).unwrap();
    let told = replay
        .run(&mut |step| {
            replayed.push((
                step.number,
                step.values.iter().map(|v| v.to_bits()).collect(),
            ));
            Ok(())
        })
        .unwrap();
    assert_eq!(replayed, steps);
    assert!(told.is_equal() && told.compared == 50, "{told:?}");
    assert_eq!(told.input, counts);
}

#[test]
fn losses_are_counted_exactly_and_replayed() {
    let small = rigs::small(0.02);
    let folder = tempfile::tempdir().unwrap();
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 1000);
    let lost: u64 = blocks.iter().map(|b| b.lost_before.count).sum();
    assert!(lost > 0);
    let (live, steps) = run(&small, blocks, folder.path());
    let counts = live.report().input;
    assert_eq!(
        (counts.lost, counts.bridged, counts.rows),
        (lost, lost, 30_000)
    );
    assert_eq!(live.crossed().len(), 1);
    let told = Replay::open(live.folder().unwrap())
        .unwrap()
        .run(&mut |_| Ok(()))
        .unwrap();
    assert!(
        told.is_equal() && told.compared == steps.len() as u64,
        "{told:?}"
    );
}

#[test]
fn a_source_that_is_faster_than_the_loop_waits_and_loses_nothing() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    // Three times as many blocks as there is room for.
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 3000);
    let (live, steps) = run(&small, blocks, folder.path());
    let counts = live.report().input;
    assert_eq!(
        (counts.rows, counts.lost, counts.stale, steps.len()),
        (90_000, 0, 0, 150)
    );
    let told = Replay::open(live.folder().unwrap())
        .unwrap()
        .run(&mut |_| Ok(()))
        .unwrap();
    assert_eq!(told.different, 0);
    assert!(
        told.damage.places == 0 && told.damage.missing == 0,
        "{told:?}"
    );
}

#[test]
fn a_changed_recording_is_told_by_its_first_step() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 300);
    let (live, _) = run(&small, blocks, folder.path());
    let folder = live.folder().unwrap();
    let plan = folder.join("resolved.toml");
    let text = std::fs::read_to_string(&plan).unwrap();
    std::fs::write(&plan, text.replace("threshold = -4.5", "threshold = -3.5")).unwrap();
    let told = Replay::open(folder).unwrap().run(&mut |_| Ok(())).unwrap();
    assert!(
        told.different > 0 && told.first.is_some() && !told.is_equal(),
        "{told:?}"
    );
    // And a damaged block keeps what comes after it from being compared.
    std::fs::write(&plan, text).unwrap();
    let segment = folder.join("000000.blog");
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let told = Replay::open(folder).unwrap().run(&mut |_| Ok(())).unwrap();
    assert_eq!(told.different, 0);
    assert!(
        told.not_compared > 0 && told.compared > 0 && !told.is_equal(),
        "{told:?}"
    );
}

#[test]
fn a_model_of_other_channels_is_refused_by_check_and_by_run_in_the_same_words() {
    let small = rigs::small(0.0);
    let mut signal = small.simulation.signal();
    signal.channels = 25;
    let block = betz_rigs::rig::Block {
        rows: 30,
        samples: betz_rigs::rig::Samples::Voltage(vec![0; 750]),
        ..betz_rigs::rig::Block::new()
    };
    let listed = || ListRig {
        signal: signal.clone(),
        blocks: vec![block.clone()].into_iter(),
    };
    let plan = rigs::plan(&[]);
    let listen = std::time::Duration::from_secs(2);
    let checked = check(&plan, &small.model, &mut listed(), listen).unwrap_err();
    let mut live = Live::with_rig(plan, small.model.clone(), Box::new(listed())).unwrap();
    let ran = live.run(&ALWAYS, &mut |_| Ok(())).unwrap_err();
    assert_eq!(checked.message(), ran.message());
    assert!(
        ran.message()
            .starts_with("small.toml, line 2, session.model: expected a model of the 25 channels"),
        "{}",
        ran.message()
    );
}

#[test]
fn a_recording_becomes_the_bins_that_its_session_decoded() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 1000);
    let (live, _) = run(&small, blocks, folder.path());
    // With the session's noise no step is without data; measured again, the first ones are.
    let plan = rigs::plan(&["voltage.noise.calibrate=200ms"]);
    for (noise, first) in [(Some(&small.noise[..]), 0), (None, 10)] {
        let mut recording = betz_live::record::Recording::open(live.folder().unwrap()).unwrap();
        recording.plan = plan.clone();
        let bins = betz_live::bin_recording(&mut recording, rigs::STEP_SECONDS, noise).unwrap();
        let made = bins
            .into_recording(&plan, Vec::new(), &|_, _| None)
            .unwrap();
        assert_eq!((made.ticks, made.segments[0].start), (50, first));
        assert!(made.channel_names.len() == 24 && made.spikes.ticks.len() > 100);
    }
    // Nothing is left to be read.
    assert!(Reader::open(folder.path()).is_err());
}

/// Sends its blocks as they are taken, with the time of day, and is silent afterwards.
struct SilentRig(rigs::ListRig);

impl Rig for SilentRig {
    fn signal(&self) -> Option<Signal> {
        self.0.signal()
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        if self.0.take(block, patience)? == Arrival::Ended {
            std::thread::sleep(patience);
            return Ok(Arrival::Nothing);
        }
        block.host_ns = host_ns();
        Ok(Arrival::Block)
    }

    fn counts(&self) -> RigCounts {
        self.0.counts()
    }
}

#[test]
fn a_source_that_falls_silent_is_stepped_without_data_and_its_replay_is_equal() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 130);
    let rig = SilentRig(ListRig {
        signal: small.simulation.signal(),
        blocks: blocks.into_iter(),
    });
    let set = format!("record.to={:?}", folder.path().to_str().unwrap());
    let plan = rigs::plan(&[&set, "missing.stale_after=1ms"]);
    let mut live = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    let until = Until {
        steps: Some(12),
        ..ALWAYS
    };
    let mut steps = Vec::new();
    live.run(&until, &mut |step| {
        steps.push(step.number);
        Ok(())
    })
    .unwrap();
    live.mark("silent");
    live.trial(Trial::Reject);
    live.label(3, &[1.0, -1.0]);
    live.label(3, &[1.0]);
    live.stop().unwrap();
    let report = live.report();
    assert!(
        report.input.stale >= 6 && report.input.steps >= 12,
        "{report:?}"
    );
    assert_eq!(
        (
            report.notes.labels,
            report.notes.odd_labels,
            report.notes.marks
        ),
        (1, 1, 1)
    );
    assert!(steps.windows(2).all(|pair| pair[1] > pair[0]), "{steps:?}");

    let folder = live.folder().unwrap();
    let told = Replay::open(folder).unwrap().run(&mut |_| Ok(())).unwrap();
    assert!(
        told.is_equal() && told.compared == report.input.steps,
        "{told:?}"
    );
    let (mut reader, mut notes) = (Reader::open(folder).unwrap(), Vec::new());
    while let Some(record) = reader.next_record().unwrap() {
        if let Record::Note { content, .. } = record {
            notes.push(content);
        }
    }
    let mark = NoteContent::Mark("silent".into());
    let label = NoteContent::Label(vec![1.0, -1.0]);
    assert_eq!(notes, [mark, NoteContent::TrialReject, label]);
}

#[test]
fn units_are_those_of_the_sorter_run_alone() {
    use betz_sort::synthetic::{Synthetic, make};
    use betz_sort::{InMemory, Settings, Sorting, TrainOptions, train};

    let of = Synthetic {
        seconds: 3.0,
        ..Synthetic::tetrode(1)
    };
    let made = make(&of).unwrap();
    let places = of.places.iter().map(|place| Some(*place)).collect();
    let options = TrainOptions::new(Settings::new(of.rate_hz, of.gain), places);
    let sorter = train(&mut InMemory::new(&made.samples, 4).unwrap(), &options, &())
        .unwrap()
        .sorter;
    let mut alone = Vec::new();
    let mut sorting = Sorting::open(&sorter).unwrap();
    sorting
        .push(&made.samples, &mut |spike| alone.extend(spike.unit))
        .unwrap();
    assert!(alone.len() > 20);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sorter.betz");
    sorter.save(&path).unwrap();
    let set = format!("voltage.sorter={:?}", path.to_str().unwrap());
    let plan = rigs::plan(&["voltage.feature=units", &set]);
    let signal = Signal {
        channels: 4,
        rate: of.rate_hz,
        microvolts: Some(of.gain),
        clock_bits: 64,
    };
    let mut binner = Binner::new(&plan, &signal, true, 0.02).unwrap();
    assert_eq!(binner.channels(), sorter.units().len());
    let mut units: Vec<u32> = Vec::new();
    for (i, rows) in made.samples.chunks(4 * 30).enumerate() {
        let block = Block {
            first: 30 * i as u64,
            rows: 30,
            samples: betz_rigs::rig::Samples::Voltage(rows.to_vec()),
            ..Block::new()
        };
        binner
            .take(&block, &mut |event| {
                if let Event::Step(input) = event
                    && let betz_live::Content::Spikes(spikes) = input.content
                {
                    units.extend(spikes);
                }
                Ok(())
            })
            .unwrap();
    }
    assert_eq!(units, alone);
    let other = Signal {
        rate: 20_000.0,
        ..signal
    };
    let refused = Binner::new(&plan, &other, true, 0.02).err().unwrap();
    assert!(
        refused
            .message()
            .contains("voltage.sorter: expected a sorter of 4 channels at 20000 Hz")
    );
}

/// A block that came too late is recorded, and its rows are late and not lost.
#[test]
fn rows_that_come_late_are_recorded_and_not_lost() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let mut blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 400);
    for overtaken in [100, 200] {
        blocks.swap(overtaken, overtaken + 1);
        blocks[overtaken].lost_before.count = blocks[overtaken + 1].rows as u64;
    }
    // One more never comes.
    blocks.remove(300);
    blocks[300].lost_before.count = 30;
    let (live, steps) = run(&small, blocks, folder.path());
    let counts = live.report().input;
    assert_eq!(
        (counts.late, counts.lost, counts.rows),
        (60, 30, 12_000 - 90)
    );
    let mut reader = Reader::open(live.folder().unwrap()).unwrap();
    let mut recorded = 0;
    while let Some(record) = reader.next_record().unwrap() {
        if let Record::Block(_, block) = record {
            recorded += block.rows;
        }
    }
    assert_eq!(recorded, 12_000 - 30);
    let told = Replay::open(live.folder().unwrap())
        .unwrap()
        .run(&mut |_| Ok(()))
        .unwrap();
    assert!(
        told.is_equal() && told.compared == steps.len() as u64,
        "{told:?}"
    );
    assert_eq!(told.input, counts);
}
