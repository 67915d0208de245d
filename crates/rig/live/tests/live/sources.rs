//! Sessions of two devices whose clocks differ: the steps are those of the first, and the channels of both are decoded.

use std::collections::HashMap;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use betz_base::Result;
use betz_live::record::{Reader, Record};
use betz_live::{Live, Pace, Part, Plan, Replay, Step, Until, check_all};
use betz_rigs::rig::emulate::{Emulator, FrameSender};
use betz_rigs::rig::{Arrival, Block, Probe, Rig, RigCounts, Samples, Signal};
use betz_runtime::model::Decoder;
use betz_runtime::stream::StepStatus;

use super::rigs::{self, ALWAYS, Small};

/// Rows per second of both devices by their own clocks, and rows of a block.
pub(crate) const RATE: f64 = 30_000.0;
const ROWS: usize = 30;
/// Number of the second device's first row.
const FIRST_ROW: u64 = 1_234_567;

/// A device: some channels of the simulated rig, seen by a clock that drifts.
#[derive(Clone, Copy)]
pub(crate) struct Device {
    pub(crate) channels: [usize; 2],
    pub(crate) drift: f64,
    pub(crate) first_row: u64,
    pub(crate) delay: f64,
}

pub(crate) const FIRST: Device = Device {
    channels: [0, 16],
    drift: 100e-6,
    first_row: 0,
    delay: 0.2e-3,
};
pub(crate) const SECOND: Device = Device {
    channels: [16, 24],
    drift: -100e-6,
    first_row: FIRST_ROW,
    delay: 0.3e-3,
};

impl Device {
    /// Blocks of `voltage`, rows of 24 channels at `RATE` by the first device's clock. `alive` tells by the time whether a
    /// block comes, and in which epoch; an epoch after the first counts rows from 0.
    pub(crate) fn blocks(&self, voltage: &[i16], alive: &dyn Fn(f64) -> Option<u32>) -> Vec<Block> {
        let [from, to] = self.channels;
        let mut blocks = Vec::new();
        let mut begun = HashMap::from([(0, 0)]);
        for block in 0.. {
            let row = block * ROWS as u64;
            // True time of the device's row, and the rig's row then.
            let time = |row: u64| row as f64 / RATE / (1.0 + self.drift);
            let rig = |row: u64| (time(row) * RATE * (1.0 + FIRST.drift)).round() as usize;
            let end = row + ROWS as u64;
            if rig(end) * 24 > voltage.len() {
                return blocks;
            }
            let Some(epoch) = alive(time(end)) else {
                continue;
            };
            let begin = *begun.entry(epoch).or_insert(row);
            let first = if epoch == 0 { self.first_row } else { 0 };
            // Up to 0.1 ms of jitter that depends on the block alone.
            let jitter = (block.wrapping_mul(0x9E37_79B9) >> 7 & 0xFF) as f64 / 256.0 * 1e-4;
            blocks.push(Block {
                epoch,
                first: first + row - begin,
                rows: ROWS,
                host_ns: ((1000.0 + time(end) + self.delay + jitter) * 1e9) as i64,
                samples: Samples::Voltage(
                    (row..end)
                        .flat_map(|row| &voltage[rig(row) * 24 + from..rig(row) * 24 + to])
                        .copied()
                        .collect(),
                ),
                ..Block::new()
            });
        }
        blocks
    }
}

/// Lets several rigs give their blocks in the order of their arrivals.
struct Conductor {
    /// Arrival of the block that each rig gives next.
    next: Mutex<Vec<i64>>,
    changed: Condvar,
}

struct ConductedRig {
    number: usize,
    channels: usize,
    blocks: std::vec::IntoIter<Block>,
    conductor: Arc<Conductor>,
}

impl Rig for ConductedRig {
    fn signal(&self) -> Option<Signal> {
        Some(Signal {
            channels: self.channels,
            rate: RATE,
            microvolts: Some(0.25),
            clock_bits: 64,
        })
    }

    fn take(&mut self, block: &mut Block, _: Duration) -> Result<Arrival> {
        let next = self.blocks.next();
        let mut turns = self.conductor.next.lock().unwrap();
        let mine = next.as_ref().map_or(i64::MAX, |next| next.host_ns);
        turns[self.number] = mine;
        self.conductor.changed.notify_all();
        while mine < i64::MAX && turns.iter().any(|other| *other < mine) {
            turns = self.conductor.changed.wait(turns).unwrap();
        }
        Ok(match next {
            None => Arrival::Ended,
            Some(next) => {
                *block = next;
                Arrival::Block
            }
        })
    }

    fn counts(&self) -> RigCounts {
        RigCounts::default()
    }
}

impl Drop for ConductedRig {
    fn drop(&mut self) {
        self.conductor.next.lock().unwrap()[self.number] = i64::MAX;
        self.conductor.changed.notify_all();
    }
}

/// A device that answers a question with each block: 0.4 ms pass from the question to the block.
struct AskedRig(rigs::ListRig, Option<Probe>);

impl Rig for AskedRig {
    fn signal(&self) -> Option<Signal> {
        self.0.signal()
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let arrival = self.0.take(block, patience)?;
        self.1 = (arrival == Arrival::Block).then(|| Probe {
            asked_ns: block.host_ns - 400_000,
            device: block.first + block.rows as u64,
            answered_ns: block.host_ns + 100_000,
        });
        Ok(arrival)
    }

    fn probe(&mut self) -> Option<Probe> {
        self.1.take()
    }

    fn counts(&self) -> RigCounts {
        self.0.counts()
    }
}

#[test]
fn a_device_that_answers_questions_has_its_path_measured() {
    let small = rigs::small(0.0);
    let whole = Device {
        channels: [0, 24],
        ..FIRST
    };
    let voltage = voltage(&small, 1000);
    let rig = AskedRig(
        rigs::ListRig {
            signal: small.simulation.signal(),
            blocks: whole.blocks(&voltage, &|_| Some(0)).into_iter(),
        },
        None,
    );
    let plan = rigs::plan(&["missing.stale_after=10000h"]);
    let (live, _) = run(plan, &small.model, vec![Box::new(rig)]);
    let source = &live.sources()[0];
    let path = source.path_us.unwrap();
    // A question is 0.4 ms before an arrival, which is up to 0.1 ms after the envelope; the drift is not known after a second.
    assert!((150.0..450.0).contains(&path), "{source:?}");
}

pub(crate) fn rigs_of(parts: Vec<(usize, Vec<Block>)>) -> Vec<Box<dyn Rig>> {
    let conductor = Arc::new(Conductor {
        next: Mutex::new(vec![i64::MIN; parts.len()]),
        changed: Condvar::new(),
    });
    (parts.into_iter().enumerate())
        .map(|(number, (channels, blocks))| {
            Box::new(ConductedRig {
                number,
                channels,
                blocks: blocks.into_iter(),
                conductor: Arc::clone(&conductor),
            }) as Box<dyn Rig>
        })
        .collect()
}

pub(crate) fn plan(more: &str, changes: &[&str]) -> Plan {
    let text = format!(
        "[session]\nmodel = \"none.betz\"\n[[source]]\nname = \"first\"\nfrom = \"simulated\"\n\
         [[source]]\nname = \"second\"\nfrom = \"udp://127.0.0.1:0\"\nchannels = 8\n{more}\
         [voltage]\nreference = \"none\"\nnoise = {{ calibrate = \"200ms\", track = \"30s\" }}\n\
         [missing]\nstale_after = \"10000h\"\nbacklog = 1000000\n"
    );
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    Plan::parse(&text, Path::new("two.toml"), &changes).unwrap()
}

/// Rows of all 24 channels of a small rig.
pub(crate) fn voltage(small: &Small, blocks: usize) -> Vec<i16> {
    let mut rig = small.simulation.rig(Part::Run, Pace::Fastest);
    let all = rigs::blocks(&mut rig, blocks);
    (all.iter())
        .flat_map(|block| match &block.samples {
            Samples::Voltage(rows) => rows.clone(),
            _ => panic!(),
        })
        .collect()
}

struct StepCopy {
    number: u64,
    status: StepStatus,
    values: Vec<f32>,
}

impl StepCopy {
    fn of(step: &Step<'_>) -> Self {
        Self {
            number: step.number,
            status: step.status,
            values: step.values.to_vec(),
        }
    }
}

fn run(plan: Plan, model: &Decoder, rigs: Vec<Box<dyn Rig>>) -> (Live, Vec<StepCopy>) {
    let mut live = Live::with_rigs(plan, model.clone(), rigs).unwrap();
    let mut steps = Vec::new();
    rigs::run_paced(&mut live, &mut |step| steps.push(StepCopy::of(step)));
    live.stop().unwrap();
    (live, steps)
}

/// Correlation of all outputs of two lists of steps, of the same numbers.
fn correlation(a: &[StepCopy], b: &[StepCopy]) -> f64 {
    let (mut product, mut squares) = (0.0, [0.0, 0.0]);
    for a in a {
        let Some(b) = b.iter().find(|b| b.number == a.number) else {
            continue;
        };
        for (x, y) in a.values.iter().zip(&b.values) {
            product += f64::from(x * y);
            squares[0] += f64::from(x * x);
            squares[1] += f64::from(y * y);
        }
    }
    product / (squares[0] * squares[1]).sqrt()
}

pub(crate) fn recorded_in(folder: &tempfile::TempDir) -> String {
    format!("record.to={:?}", folder.path().to_str().unwrap())
}

#[test]
fn two_devices_with_drifting_clocks_decode_as_one_and_replay_bit_for_bit() {
    let small = rigs::small(0.0);
    let voltage = voltage(&small, 3000);
    let always = |_| Some(0);
    let folder = tempfile::tempdir().unwrap();
    let rigs = rigs_of(vec![
        (16, FIRST.blocks(&voltage, &always)),
        (8, SECOND.blocks(&voltage, &always)),
    ]);
    let (live, steps) = run(plan("", &[&recorded_in(&folder)]), &small.model, rigs);
    let counts = live.report().input;
    // The last steps wait for the second device when the first one ends.
    assert!((147..=150).contains(&counts.steps), "{counts:?}");
    assert_eq!((counts.lost, counts.late, counts.skipped), (0, 0, 0));
    // Only while the noise is measured.
    assert_eq!(counts.stale, counts.calibrating);
    let sources = live.sources();
    assert_eq!((sources[0].stale, &sources[0].failed), (0, &None));
    assert!(sources[1].stale <= 2, "{sources:?}");
    // After three seconds drifts are known roughly.
    assert!(
        sources[0].drift_ppm > 20.0 && sources[1].drift_ppm < -20.0,
        "{sources:?}"
    );

    // As one device with all channels.
    let one = rigs::ListRig {
        signal: small.simulation.signal(),
        blocks: Device {
            channels: [0, 24],
            ..FIRST
        }
        .blocks(&voltage, &always)
        .into_iter(),
    };
    let set = [
        "voltage.reference=none",
        "voltage.noise.calibrate=200ms",
        "missing.stale_after=10000h",
    ];
    let (_, whole) = run(rigs::plan(&set), &small.model, vec![Box::new(one)]);
    let settled = |steps: &[StepCopy]| steps.iter().position(|s| s.number >= 20).unwrap();
    let likeness = correlation(&steps[settled(&steps)..], &whole);
    assert!(likeness > 0.98, "{likeness}");

    // Every alignment is as near to the truth as the bounds of both clocks say: half of both paths, and a little.
    let mut reader = Reader::open(live.folder().unwrap()).unwrap();
    let (mut places, mut worst) = (0, 0.0_f64);
    while let Some(record) = reader.next_record().unwrap() {
        if let Record::Alignment(source, at) = record {
            let time = at.step as f64 * 0.02 / (1.0 + FIRST.drift);
            let row = FIRST_ROW as f64 + time * RATE * (1.0 + SECOND.drift);
            places += 1;
            assert_eq!((source, at.begins), (1, places == 1));
            if places > 1 {
                worst = worst.max((at.row as f64 - row).abs() / RATE);
            }
        }
    }
    assert!((2..50).contains(&places), "{places}");
    assert!(worst < 0.5e-3, "{worst}");

    let mut again = Vec::new();
    let told = Replay::open(live.folder().unwrap())
        .unwrap()
        .run(&mut |step| {
            again.push(StepCopy::of(step));
            Ok(())
        })
        .unwrap();
    assert!(told.is_equal() && told.compared == counts.steps, "{told:?}");
    assert_eq!(told.input, counts);
}

#[test]
fn a_device_that_dies_and_comes_back_is_missed_alone_and_counted() {
    let small = rigs::small(0.0);
    let voltage = voltage(&small, 3000);
    let always = |_| Some(0);
    // Silent for a second; then the device starts again.
    let alive = |time: f64| match time {
        t if t < 1.0 => Some(0),
        t if t < 2.0 => None,
        _ => Some(1),
    };
    let folder = tempfile::tempdir().unwrap();
    let rigs = rigs_of(vec![
        (16, FIRST.blocks(&voltage, &always)),
        (8, SECOND.blocks(&voltage, &alive)),
    ]);
    let (live, steps) = run(plan("", &[&recorded_in(&folder)]), &small.model, rigs);
    let (counts, sources) = (live.report().input, live.sources());
    assert!((147..=150).contains(&counts.steps), "{counts:?}");
    assert_eq!(counts.stale, counts.calibrating);
    // 50 steps, and a few at the edges.
    assert!((48..=56).contains(&sources[1].stale), "{sources:?}");
    assert!((48..=56).contains(&counts.partial), "{counts:?}");
    assert_eq!((sources[0].stale, sources[0].lost), (0, 0));
    for step in &steps {
        let stale = step.status.contains(StepStatus::STALE);
        match step.number {
            0..=12 | 48..=54 | 97..=105 => {}
            number => assert_eq!(stale, (55..97).contains(&number), "{number}"),
        }
    }
    let crossed = live.crossed();
    assert!(
        crossed.len() == 1 && crossed[0].starts_with("limits.late_steps"),
        "{crossed:?}"
    );
    let told = Replay::open(live.folder().unwrap())
        .unwrap()
        .run(&mut |_| Ok(()))
        .unwrap();
    assert!(told.is_equal() && told.compared == counts.steps, "{told:?}");

    // Steps without one of the devices are not trained on.
    let mut recording = betz_live::record::Recording::open(live.folder().unwrap()).unwrap();
    let bins = betz_live::bin_recording(&mut recording, 0.02, None).unwrap();
    let made = bins
        .into_recording(&recording.plan, Vec::new(), &|_, _| None)
        .unwrap();
    assert_eq!(made.channel_names.len(), 24);
    let apart = made.segments.windows(2);
    let gap = apart.map(|s| s[1].start - s[0].stop).max().unwrap();
    assert!((48..=56).contains(&gap), "{:?}", made.segments);
}

#[test]
fn a_session_of_two_devices_goes_on_after_a_kill() {
    let small = rigs::small(0.0);
    let voltage = voltage(&small, 3000);
    let folder = tempfile::tempdir().unwrap();
    let set = recorded_in(&folder);
    // Two processes: the second one hears both devices from 1.6 s on.
    let (mut blocks, always) = (Vec::new(), |_| Some(0));
    for device in [FIRST, SECOND] {
        blocks.push(device.blocks(&voltage, &always));
    }
    let part = |from: f64, to: f64| {
        let time = |block: &&Block| block.host_ns as f64 * 1e-9 - 1000.0;
        let some = |all: &[Block]| {
            let inside = all.iter().filter(|b| (from..to).contains(&time(b)));
            inside.cloned().collect::<Vec<_>>()
        };
        rigs_of(vec![(16, some(&blocks[0])), (8, some(&blocks[1]))])
    };
    let mut last = 0;
    for (from, to) in [(0.0, 1.5), (1.6, 3.0)] {
        let mut live =
            Live::with_rigs(plan("", &[&set]), small.model.clone(), part(from, to)).unwrap();
        live.keep().unwrap();
        live.run(&ALWAYS, &mut |step| {
            assert!(step.number >= last, "{} after {last}", step.number);
            last = step.number + 1;
            Ok(())
        })
        .unwrap();
        let report = live.report();
        assert_eq!(report.resumed, u64::from(from > 0.0));
        // Dropped as by a kill: the end is not recorded.
        if from > 0.0 {
            live.stop().unwrap();
            let folder = live.folder().unwrap();
            let told = Replay::open(folder).unwrap().run(&mut |_| Ok(())).unwrap();
            assert!(told.different == 0 && told.compared > 120, "{told:?}");
            let second = &live.sources()[1];
            assert!(second.stale < 20, "{second:?}");
        }
    }
    assert!(last > 145, "{last}");
}

#[test]
fn rows_of_a_source_of_labels_become_labels_of_their_steps() {
    let small = rigs::small_of(0.0, Some(64 << 20), 1.0);
    let voltage = voltage(&small, 1500);
    let always = |_| Some(0);
    let mut labels = SECOND.blocks(&voltage, &always);
    for block in &mut labels {
        let time = block.host_ns as f64 * 1e-9 - 1000.0;
        // x rises by 1000 bits per second, y is constant.
        let rows = (0..ROWS).flat_map(|_| [(time * 1000.0) as i16, 400]);
        block.samples = Samples::Voltage(rows.collect());
    }
    let whole = Device {
        channels: [0, 24],
        ..FIRST
    };
    let rigs = || {
        rigs_of(vec![
            (24, whole.blocks(&voltage, &always)),
            (2, labels.clone()),
        ])
    };
    let folder = tempfile::tempdir().unwrap();
    let more = "gives = \"labels\"\n";
    let of = |channels: &str, more: &str| plan(more, &[&recorded_in(&folder), channels]);
    let text_of_channels = "channels = 2\ngives = \"labels\"\n";
    let text = format!(
        "[session]\nmodel = \"none.betz\"\n[[source]]\nname = \"first\"\nfrom = \"simulated\"\n\
         [[source]]\nname = \"hand\"\nfrom = \"udp://127.0.0.1:0\"\n{text_of_channels}\
         [voltage]\nreference = \"none\"\nnoise = {{ calibrate = \"200ms\", track = \"30s\" }}\n\
         [missing]\nstale_after = \"10000h\"\nbacklog = 1000000\n[learn]\nmode = \"watch\"\n"
    );
    let plan = Plan::parse(&text, Path::new("two.toml"), &[recorded_in(&folder)]).unwrap();
    let (live, _) = run(plan, &small.model, rigs());
    let report = live.report();
    assert!((73..=75).contains(&report.notes.labels), "{report:?}");
    assert_eq!(report.learn.unwrap().late_labels, 0);
    let mut reader = Reader::open(live.folder().unwrap()).unwrap();
    let mut next = 0;
    while let Some(record) = reader.next_record().unwrap() {
        if let Record::Note { step, content } = record {
            assert_eq!(step, next);
            next += 1;
            let betz_rigs::rig::notes::NoteContent::Label(values) = content else {
                panic!()
            };
            // Microvolts in volts: the mean of the step.
            let middle = (step as f64 + 0.5) * 0.02 * 1000.0 * 0.25e-6;
            assert!(
                (f64::from(values[0]) - middle).abs() < 1.5 * 0.25e-6,
                "{step}: {values:?}"
            );
            assert!((values[1] - 1e-4).abs() < 1e-9);
        }
    }
    // One channel per output.
    let plan = of("source.rate=30000", more);
    let refused = Live::with_rigs(plan, small.model.clone(), {
        let mut eight = rigs();
        eight[1] = rigs_of(vec![(0, Vec::new()), (8, SECOND.blocks(&voltage, &always))])
            .pop()
            .unwrap();
        eight
    })
    .unwrap()
    .run(&ALWAYS, &mut |_| Ok(()))
    .unwrap_err();
    assert!(
        refused.message().starts_with(
            "two.toml, line 9, source.channels: expected one channel of labels per output"
        ),
        "{}",
        refused.message()
    );
}

#[test]
fn a_device_that_connects_late_joins_a_session_that_runs() {
    let small = rigs::small(0.0);
    let free = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap().to_string()
    };
    let to = [free(), free()];
    let text = format!(
        "[session]\nmodel = \"none.betz\"\n\
         [[source]]\nname = \"first\"\nfrom = \"udp://{}\"\nmicrovolts = 0.25\n\
         [[source]]\nname = \"second\"\nfrom = \"udp://{}\"\nmicrovolts = 0.25\nchannels = 8\n\
         [voltage]\nnoise = {{ calibrate = \"200ms\", track = \"30s\" }}\n",
        to[0], to[1]
    );
    let plan = Plan::parse(&text, Path::new("two.toml"), &[]).unwrap();
    let mut rigs = betz_live::open_rigs(&plan, &small.model).unwrap();
    let stopped = std::sync::atomic::AtomicBool::new(false);
    let until = Until {
        steps: None,
        stop: &|| stopped.load(std::sync::atomic::Ordering::Relaxed),
    };
    let second_sends = std::sync::atomic::AtomicBool::new(false);
    let send = |channels: usize, to: &str, waits: bool| {
        let mut sender = FrameSender::new(to, channels, RATE).unwrap();
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
            if !waits || second_sends.load(std::sync::atomic::Ordering::Relaxed) {
                // Nobody may listen yet.
                let _ = sender.send(&vec![1; channels * ROWS]);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| send(16, &to[0], false));
        scope.spawn(|| send(8, &to[1], true));
        // The check hears the first, and says that the session runs without the second.
        let (first, others) = rigs.split_first_mut().unwrap();
        let listen = Duration::from_millis(500);
        let told = check_all(&plan, &small.model, first.as_mut(), others, listen).unwrap();
        let text = told.to_string();
        assert!(
            text.contains("second: udp://") && text.contains("runs without it"),
            "{text}"
        );
        let mut live = Live::with_rigs(plan.clone(), small.model.clone(), rigs).unwrap();
        let some = Until {
            steps: Some(5),
            ..until
        };
        live.run(&some, &mut |_| Ok(())).unwrap();
        assert_eq!(live.sources()[1].silent_ms, None);
        second_sends.store(true, std::sync::atomic::Ordering::Relaxed);
        while live.sources()[1].silent_ms.is_none() {
            live.run(&some, &mut |_| Ok(())).unwrap();
        }
        stopped.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(live.report().input.steps >= 10);
    });
}
