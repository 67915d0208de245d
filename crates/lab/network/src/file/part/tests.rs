//! Shards joined against the network of one run.

use super::bytes::{CONTENT, VERSION};
use super::*;
use crate::file::{Positions, Source, read};
use crate::{NetworkSpec, Run, Signal, Threshold, Window, cases};
use betz_base::frame;

const NODES: usize = cases::NINE_NODES;

fn whole(plan: &Plan, signal: &Signal<'_>) -> NetworkFile {
    named(plan.run(signal, &()).unwrap())
}

fn named(network: Network) -> NetworkFile {
    NetworkFile {
        names: Some((0..NODES).map(|n| format!("n{n}")).collect()),
        positions: Some(Positions {
            values: (0..2 * NODES).map(|n| 0.1 * n as f64).collect(),
            axes: 2,
        }),
        window_seconds: Some(
            network
                .window_start()
                .iter()
                .map(|s| *s as f64 / 3.0)
                .collect(),
        ),
        ..NetworkFile::new(network)
    }
}

fn run_shard(plan: &Plan, shard: Shard, signal: &Signal<'_>) -> Result<Network> {
    let run = Run {
        shard: Some(shard),
        ..Run::default()
    };
    Ok(plan.run_with(run, signal, &())?.expect("a network"))
}

fn parts(plan: &Plan, signal: &Signal<'_>, of: usize) -> Vec<Part> {
    (1..=of)
        .map(|number| {
            let shard = Shard::new(number, of).unwrap();
            let network = run_shard(plan, shard, signal).unwrap();
            let part = Part::new(plan, shard, named(network)).unwrap();
            Part::from_bytes(&part.to_bytes().unwrap()).unwrap()
        })
        .collect()
}

#[test]
fn a_whole_network_comes_back_from_its_bytes() {
    let samples = cases::nine_nodes(0);
    let signal = Signal::new(&samples, NODES).unwrap();
    let signal = signal.with_sample_seconds(1.0 / 30.3).unwrap();
    for plan in cases::plans(&signal, Window::new(60, 3), 0.437_219_345_1) {
        let file = NetworkFile {
            source: Some(Source {
                name: "array".into(),
                hash: "00ff".into(),
            }),
            ..whole(&plan, &signal)
        };
        let mut back = NetworkFile::from_bytes(&file.to_bytes().unwrap()).unwrap();
        // Counts of the computation are left out.
        back.network.meta.rechecked = file.network.meta.rechecked;
        back.network.meta.rebuilt = file.network.meta.rebuilt;
        back.network.meta.extreme = file.network.meta.extreme;
        assert_eq!(back, file);
        let full = NetworkFile {
            full: Some(Vec::new()),
            ..file
        };
        assert_eq!(full.to_bytes().unwrap_err().kind(), ErrorKind::Mismatch);
    }
}

#[test]
fn shards_make_the_network_to_the_last_bit() {
    let samples = cases::nine_nodes(0);
    // Two segments, and seconds that JSON does not give back at once.
    let signal = Signal::new(&samples, NODES).unwrap();
    let signal = signal.with_segments(vec![0..290, 310..700]).unwrap();
    let signal = signal.with_sample_seconds(1.0 / 30.3).unwrap();
    for mut plan in cases::plans(&signal, Window::new(60, 3), 0.437_219_345_1) {
        // Runs as short as in long recordings.
        plan.chunk_windows = plan.chunk_windows.min(17);
        let whole = whole(&plan, &signal);
        // More shards than runs, too.
        for of in [1, 2, 3, 7, 120, 300] {
            let mut parts = parts(&plan, &signal, of);
            parts.reverse();
            let joined = Part::join(parts).unwrap();
            assert_eq!(
                joined.meta_json().unwrap(),
                whole.meta_json().unwrap(),
                "{of} of {:?}",
                plan.spec
            );
            assert!(joined == whole, "{of} of {:?}", plan.spec);
        }
    }
}

#[test]
fn what_does_not_belong_together_is_refused_by_name() {
    let (samples, others) = (cases::nine_nodes(0), cases::nine_nodes(1));
    let signal = Signal::new(&samples, NODES).unwrap();
    let window = Window::new(60, 3);
    let spec = NetworkSpec::pearson(window).threshold(Threshold::Absolute(0.4));
    let plan_of = |spec: &NetworkSpec| {
        let mut plan = Plan::new(spec, &signal).unwrap();
        plan.chunk_windows = 17;
        plan
    };
    let plan = plan_of(&spec);
    let all = parts(&plan, &signal, 3);
    let refused = |parts: Vec<Part>, words: &str| {
        let error = Part::join(parts).unwrap_err();
        assert!(error.message().contains(words), "{words}: {error}");
    };
    refused(Vec::new(), "got none");
    refused(
        all[..2].to_vec(),
        "expected all 3 shards, got 2: none of number 3",
    );
    refused(
        vec![all[0].clone(), all[1].clone(), all[1].clone()],
        "expected each shard once, got shard 2",
    );
    let with = |part: Part| vec![all[0].clone(), part, all[2].clone()];
    refused(
        with(parts(&plan, &signal, 4)[1].clone()),
        "got shards 4 instead of 3",
    );
    let other = plan_of(&spec.threshold(Threshold::Absolute(0.5)));
    refused(
        with(parts(&other, &signal, 3)[1].clone()),
        "threshold 0.5 instead of 0.4",
    );
    let other = plan_of(&NetworkSpec::pearson(Window::new(60, 4)).threshold(spec.threshold));
    refused(with(parts(&other, &signal, 3)[1].clone()), "instead of");
    let mut other = plan.clone();
    other.chunk_windows = 16;
    refused(
        with(parts(&other, &signal, 3)[1].clone()),
        "windows of a run 16 instead of 17",
    );
    // Another recording of the same shape: the hash that its source has.
    let second = Signal::new(&others, NODES).unwrap();
    let sourced = |signal: &Signal<'_>, number: usize| {
        let shard = Shard::new(number, 3).unwrap();
        let mut file = named(run_shard(&plan, shard, signal).unwrap());
        file.source = Some(Source {
            name: "calcium.npz".to_owned(),
            hash: format!("{:016x}", signal.hash()),
        });
        Part::new(&plan, shard, file).unwrap()
    };
    refused(vec![sourced(&signal, 1), sourced(&second, 2)], "got hash ");
    let mut renamed = all[1].clone();
    renamed.head.meta.betz = "0.0.1".to_owned();
    refused(with(renamed), "betz 0.0.1 instead of");
}

#[test]
fn damaged_bytes_are_refused() {
    let samples = cases::nine_nodes(0);
    let signal = Signal::new(&samples, NODES).unwrap();
    let spec = NetworkSpec::pearson(Window::new(60, 40)).threshold(Threshold::Absolute(0.4));
    let plan = Plan::new(&spec, &signal).unwrap();
    let shard = Shard::new(1, 1).unwrap();
    let part = Part::new(&plan, shard, named(plan.run(&signal, &()).unwrap())).unwrap();
    let bytes = part.to_bytes().unwrap();
    for at in (0..bytes.len()).step_by(7) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        assert!(Part::from_bytes(&changed).is_err(), "byte {at}");
        assert!(Part::from_bytes(&bytes[..at]).is_err(), "{at} bytes");
    }
    // Whole frames around what no shard is: a window, an edge or a node that cannot be.
    let length = u32::from_le_bytes(*bytes[frame::HEADER..].first_chunk().unwrap()) as usize;
    let words = frame::HEADER + 4 + length;
    for at in (words..bytes.len() - 4).step_by(8) {
        for value in [u64::MAX, 1 << 40] {
            let mut changed = bytes.clone();
            changed[at..at + 8].copy_from_slice(&value.to_le_bytes());
            frame::seal(CONTENT, VERSION, &mut changed);
            // No panic, and what is let pass is a network still.
            if let Ok(part) = Part::from_bytes(&changed) {
                read::check(part.network()).unwrap();
            }
        }
    }
    let mut newer = bytes.clone();
    frame::seal(CONTENT, VERSION + 1, &mut newer);
    let error = Part::from_bytes(&newer).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
}
