//! A small simulated rig and a decoder trained on it, and rigs that send a list of blocks.

use std::path::Path;
use std::time::Duration;

use betz_base::Result;
use betz_live::plan::OnFull;
use betz_live::record::{Recorder, RecorderOptions};
use betz_live::{
    Live, Pace, Part, Plan, Simulation, SimulationOptions, Step, ThreadPlace, Until, bin,
};
use betz_recording::OutputInfo;
use betz_rigs::rig::{Arrival, Block, Rig, RigCounts, Signal};
use betz_runtime::model::Decoder;
use betz_runtime::psc::{Filter, FilterBank};
use betz_train::{Search, TrainOptions, train_validated};

pub(crate) const STEP_SECONDS: f64 = 0.02;

pub(crate) struct Small {
    pub(crate) simulation: Simulation,
    pub(crate) model: Decoder,
    pub(crate) noise: Vec<f32>,
}

pub(crate) fn plan(changes: &[&str]) -> Plan {
    let text = "[session]\nmodel = \"none.betz\"\n[[source]]\nname = \"rig\"\nfrom = \"simulated\"\n\
                [voltage]\nnoise = { calibrate = \"1s\", track = \"30s\" }\n\
                [missing]\nbacklog = 1000000\n";
    let mut changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    let sets = |key: &str| changes.iter().any(|change| change.starts_with(key));
    if sets("record.to=") && !sets("record.reserve_mib=") {
        changes.push("record.reserve_mib=1".into());
    }
    Plan::parse(text, Path::new("small.toml"), &changes).unwrap()
}

/// A recorder into `folder`, without a reserve for a full disk.
pub(crate) fn recorder(folder: &Path, ring: usize, segment: u64) -> Result<Recorder> {
    let options = RecorderOptions {
        ring,
        segment,
        on_full: OnFull::StopRecording,
        reserve: 0,
        place: ThreadPlace::default(),
    };
    Recorder::start(folder, &options)
}

/// A rig of 24 electrodes and 36 neurons, and a decoder trained on 20 s of it.
pub(crate) fn small(loss: f64) -> Small {
    small_of(loss, None, 1.0)
}

/// As [`small`], with sums that an online trainer goes on from, and a movement that is scaled.
pub(crate) fn small_of(loss: f64, retain: Option<usize>, scale: f32) -> Small {
    let options = SimulationOptions {
        channels: 24,
        neurons: 36,
        train_seconds: 20.0,
        run_seconds: 5.0,
        loss,
        ..SimulationOptions::default()
    };
    let simulation = Simulation::new(&options).unwrap();
    let plan = plan(&[]);
    let mut rig = simulation.rig(Part::Train, Pace::Fastest);
    let (bins, noise) = bin(&plan, &mut rig, STEP_SECONDS, None).unwrap();
    let outputs = ["x", "y"].map(OutputInfo::from).to_vec();
    let recording = bins
        .into_recording(&plan, outputs, &|_, end| {
            Some(
                simulation
                    .truth(Part::Train, end.saturating_sub(1))
                    .map(|v| scale * v)
                    .to_vec(),
            )
        })
        .unwrap();
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.06,
        order: 1,
    }])
    .unwrap();
    let data = recording.align(STEP_SECONDS).unwrap();
    let options = TrainOptions {
        retain,
        ..TrainOptions::new(bank)
    };
    let model = train_validated(&data, &options, &Search::ridge(), &()).unwrap();
    Small {
        simulation,
        model,
        noise: noise.unwrap(),
    }
}

/// Steps with the bits of their outputs.
pub(crate) type Steps = Vec<(u64, Vec<u32>)>;

/// Until the source ends.
pub(crate) const ALWAYS: Until<'static> = Until {
    steps: None,
    stop: &|| false,
};

/// Runs over all blocks; the session is not ended.
pub(crate) fn run(live: &mut Live) -> Steps {
    let mut steps = Vec::new();
    run_paced(live, &mut |step| {
        steps.push((
            step.number,
            step.values.iter().map(|v| v.to_bits()).collect(),
        ));
    });
    steps
}

/// Runs over all blocks, and waits for the recorder's writer: blocks come as fast as they are decoded, so that a writer which is
/// kept from working would lose some.
pub(crate) fn run_paced(live: &mut Live, each: &mut dyn FnMut(&Step<'_>)) {
    let some = Until {
        steps: Some(10),
        ..ALWAYS
    };
    let mut made = 10;
    while made >= 10 {
        made = 0;
        live.run(&some, &mut |step| {
            made += 1;
            each(step);
            Ok(())
        })
        .unwrap();
        wait_for_recorder(live);
    }
}

/// Waits until the recorder's writer has taken most of what waits for it.
pub(crate) fn wait_for_recorder(live: &Live) {
    while live.report().recorder.is_some_and(|r| r.fill > 0.25) {
        std::thread::yield_now();
    }
}

/// The first `count` blocks of a rig.
pub(crate) fn blocks(rig: &mut dyn Rig, count: usize) -> Vec<Block> {
    let mut block = Block::new();
    (0..count)
        .map(|_| {
            assert_eq!(
                rig.take(&mut block, Duration::ZERO).unwrap(),
                Arrival::Block
            );
            block.clone()
        })
        .collect()
}

/// A rig that sends a list of blocks, then ends.
pub(crate) struct ListRig {
    pub(crate) signal: Signal,
    pub(crate) blocks: std::vec::IntoIter<Block>,
}

impl Rig for ListRig {
    fn signal(&self) -> Option<Signal> {
        Some(self.signal.clone())
    }

    fn take(&mut self, block: &mut Block, _: Duration) -> Result<Arrival> {
        Ok(match self.blocks.next() {
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
