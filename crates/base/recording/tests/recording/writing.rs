//! A written recording is read back unchanged.

use betz_base::ErrorKind;
use betz_recording::{Behavior, OutputInfo, Recording, Segment, SpikeForm, Spikes};
use betz_testkit::Random;
use proptest::prelude::*;

fn recordings() -> impl Strategy<Value = Recording> {
    (
        1_i64..40,
        1_usize..6,
        any::<bool>(),
        0_usize..60,
        any::<u64>(),
    )
        .prop_map(|(ticks, channels, counts, spikes, seed)| {
            // One seed decides the rest.
            let mut random = Random::new(seed);
            let mut next = |below: u64| random.below(below as usize) as u64;
            let mut list: Vec<(i64, u32)> = (0..spikes)
                .map(|_| (next(ticks as u64) as i64, next(channels as u64) as u32))
                .collect();
            list.sort_unstable();
            // Counts come back as one entry a bin, weighed where one holds several.
            let mut weights = vec![1.0; list.len()];
            let signal = counts && next(2) == 0;
            if counts {
                list.dedup();
                weights.truncate(list.len());
                for weight in &mut weights {
                    *weight = match signal {
                        true => next(2000) as f32 / 64.0 - 15.75,
                        false => [1.0, 2.0, 300.0, 65_535.0][next(4) as usize],
                    };
                }
                for zero in weights.iter_mut().filter(|w| **w == 0.0) {
                    *zero = 0.5;
                }
            }
            if weights.iter().all(|w| *w == 1.0) {
                weights.clear();
            }
            let behavior = (next(3) > 0).then(|| behavior(ticks, &mut next));
            let cut = next(ticks as u64 + 1) as i64;
            let segments = [(0, cut), (cut, ticks)]
                .into_iter()
                .filter(|(a, b)| a < b)
                .map(|(start, stop)| Segment { start, stop })
                .collect();
            let names = (0..channels).map(|c| format!("unit {c} π\0x")).collect();
            let places = (0..channels).map(|c| [c as f32, -1.5]).collect();
            Recording {
                tick_seconds: 0.00025,
                ticks,
                spikes: Spikes {
                    ticks: list.iter().map(|s| s.0).collect(),
                    channels: list.iter().map(|s| s.1).collect(),
                    weights,
                },
                channel_names: names,
                behavior,
                segments,
                electrode_um: (next(2) == 0).then_some(places),
                form: if signal {
                    SpikeForm::Signal
                } else if counts {
                    SpikeForm::Counts
                } else {
                    SpikeForm::Events
                },
                meta: (next(2) == 0).then(|| "{\"licence\": \"none\"}".to_owned()),
            }
        })
}

/// Samples at every tick, or up to 20 at times of their own.
fn behavior(ticks: i64, next: &mut impl FnMut(u64) -> u64) -> Behavior {
    let outputs = 1 + next(3) as usize;
    let irregular = next(2) == 0;
    let samples = if irregular {
        1 + next(20)
    } else {
        ticks as u64
    } as usize;
    Behavior {
        outputs: (0..outputs)
            .map(|i| OutputInfo {
                name: format!("ö{i}"),
                unit: ["", "mm", "px"][next(3) as usize].into(),
            })
            .collect(),
        values: (0..samples * outputs)
            .map(|_| f32::from_bits(0x3f00_0000 + next(1 << 22) as u32))
            .collect(),
        times: irregular.then(|| {
            let mut t = -0.5;
            (0..samples)
                .map(|_| {
                    t += next(100) as f64 / 77.0;
                    t
                })
                .collect()
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn what_is_written_is_read_back(recording in recordings()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.npz");
        recording.write_npz(&path).unwrap();
        prop_assert_eq!(&Recording::read_npz(&path).unwrap(), &recording);
        let first = std::fs::read(&path).unwrap();
        recording.write_npz(&path).unwrap();
        prop_assert_eq!(std::fs::read(&path).unwrap(), first);
    }
}

pub(crate) fn spikes_only(ticks: i64, spikes: Spikes, form: SpikeForm) -> Recording {
    Recording {
        tick_seconds: 0.001,
        ticks,
        spikes,
        channel_names: vec!["u0".into(), "u1".into()],
        behavior: None,
        segments: vec![Segment {
            start: 0,
            stop: ticks,
        }],
        electrode_um: None,
        form,
        meta: None,
    }
}

#[test]
fn counts_widen_to_u16_and_stop_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.npz");
    let burst = |n: usize| {
        let spikes = Spikes::new(vec![1; n], vec![1; n]);
        spikes_only(3, spikes, SpikeForm::Counts)
    };
    let bin = |n: usize| {
        let mut spikes = Spikes::new(vec![1], vec![1]);
        spikes.weights = vec![n as f32];
        spikes_only(3, spikes, SpikeForm::Counts)
    };
    for n in [255, 256, 65_535] {
        for form in [burst(n), bin(n)] {
            form.write_npz(&path).unwrap();
            assert_eq!(Recording::read_npz(&path).unwrap(), bin(n));
        }
    }
    assert!(bin(65_536).write_npz(&path).is_err());
    let e = burst(65_536).write_npz(&path).unwrap_err();
    assert!(
        e.message().contains("bin 1") && e.message().contains("65536"),
        "{e}"
    );
    // The old file is still there.
    assert_eq!(Recording::read_npz(&path).unwrap(), bin(65_535));
}

#[test]
fn an_invalid_recording_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.npz");
    let back = Spikes::new(vec![2, 1], vec![0, 0]);
    let e = spikes_only(3, back, SpikeForm::Events)
        .write_npz(&path)
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidRecording);
    assert!(!path.exists());
}
