//! Damaged NWB files: an error or a recording that holds what recordings promise, an error or samples, in little memory,
//! never a panic.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::UnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use betz_base::Result;
use betz_formats::nwb::{self, ElectricalSeries};
use betz_formats::{ReadOptions, read_recording};
use betz_recording::{Behavior, Recording, Segment, SpikeForm, Spikes};
use betz_sort::Voltage;
use betz_testkit::Random;

/// Counts what is held, and the most of it.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything on to the system's allocator, and counts.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most bytes that reading a damaged file of at most 182 kB may hold. Of 20,000 such files none took more than 3.6 MB.
const BOUND: usize = 32 << 20;

/// A file that Betz wrote.
fn own(folder: &Path, form: SpikeForm) -> PathBuf {
    let path = folder.join(format!("{form:?}.nwb"));
    let mut spikes = Spikes::new((0..900).collect(), (0..900).map(|i| i % 7).collect());
    if form == SpikeForm::Signal {
        spikes.weights = (1..=900).map(|i| i as f32 * 0.37).collect();
    }
    let recording = Recording {
        tick_seconds: 0.001,
        ticks: 900,
        spikes,
        channel_names: (0..7).map(|i| format!("unit{i}")).collect(),
        behavior: Some(Behavior {
            outputs: vec!["x".into(), "y".into()],
            values: (0..600).map(|i| i as f32).collect(),
            times: Some((0..300).map(|i| f64::from(i * i) * 1e-5).collect()),
        }),
        segments: (0..9)
            .map(|k| Segment {
                start: 100 * k,
                stop: 100 * k + 90,
            })
            .collect(),
        electrode_um: Some((0..7).map(|i| [i as f32, 0.0]).collect()),
        form,
        meta: Some("{}".into()),
    };
    let start = nwb::Moment::parse("2020-10-19T13:00:00Z").unwrap();
    let options = nwb::WriteOptions::new(nwb::Session::begun(start));
    nwb::write(&recording, &path, &options).unwrap();
    path
}

/// Reads voltage as a sorter does, and where it likes: the beginning, some of the midst, the end.
fn read_voltage(path: &Path, series: Option<&str>) -> Result<()> {
    let mut voltage = ElectricalSeries::open(path, series)?;
    let mut block = vec![0; 1000 * voltage.channels()];
    let rows = voltage.rows();
    for from in [0, 1000, rows / 2, rows - 1, rows] {
        let got = voltage.read(from, &mut block)? as u64;
        assert_eq!(got, (rows - from.min(rows)).min(1000));
    }
    Ok(())
}

/// Series of `voltages.nwb`, which are damaged in turn.
const SERIES: [&str; 7] = [
    "plain",
    "one",
    "shanks",
    "timed",
    "big_endian",
    "equal",
    "LFP/ElectricalSeries",
];

/// Fails, and says so: what falls within is silenced.
fn fails(why: &str) -> ! {
    drop(std::panic::take_hook());
    panic!("{why}");
}

/// Cuts the file off, copies bytes within it, or overwrites some.
fn damage(whole: &[u8], kind: usize, mixed: &mut Random) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    match kind {
        0 => bytes.truncate(mixed.below(whole.len())),
        1 => {
            let (from, to) = (mixed.below(whole.len()), mixed.below(whole.len()));
            let length = (1 + mixed.below(64)).min(whole.len() - from.max(to));
            bytes.copy_within(from..from + length, to);
        }
        kind => {
            // Most of a file is data: damage its structure, which lies mostly in its first part.
            let reach = if kind == 2 {
                whole.len()
            } else {
                whole.len() / 3
            };
            for _ in 0..1 + mixed.below(8) {
                let at = mixed.below(reach);
                bytes[at] = [0, 0xff, 0x7f, 1 << mixed.below(8)][mixed.below(4)];
            }
        }
    }
    bytes
}

/// Reads within [`BOUND`] and without a panic: the result, whose error has a message, and the most bytes held.
fn read_safely<T>(what: &str, read: impl Fn() -> Result<T> + UnwindSafe) -> (Option<T>, usize) {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let result = match std::panic::catch_unwind(read) {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) if error.message().is_empty() => {
            fails(&format!("{what}: an error without a word"))
        }
        Ok(Err(_)) => None,
        Err(_) => fails(&format!("{what}: a panic")),
    };
    let most = MOST.load(Ordering::Relaxed).saturating_sub(before);
    if most >= BOUND {
        fails(&format!("{what}: {most} bytes were held"));
    }
    (result, most)
}

#[test]
fn damage_is_an_error_or_does_not_matter() {
    let rounds = match std::env::var_os("BETZ_EXHAUSTIVE") {
        Some(_) => 2_500,
        None => 150,
    };
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.nwb");
    // The HDF5 crate's panics are caught, and are no news here.
    std::panic::set_hook(Box::new(|_| {}));
    let (mut refused, mut read, mut heard, mut marked, mut top) = (0, 0, 0, 0, [0; 3]);
    let files = [
        "m2", "h1", "nlb", "perich", "voltage", "voltages", "tetrodes",
    ]
    .map(|name| (name, fixtures.join(format!("{name}.nwb"))))
    .into_iter()
    .chain([SpikeForm::Events, SpikeForm::Signal].map(|form| ("own", own(dir.path(), form))));
    for (name, file) in files {
        let whole = std::fs::read(file).unwrap();
        let mut mixed = Random::new(whole.len() as u64);
        for round in 0..rounds {
            std::fs::write(&path, damage(&whole, round % 5, &mut mixed)).unwrap();
            let what = format!("{name}, round {round}");
            let (recording, most) =
                read_safely(&what, || read_recording(&path, &ReadOptions::default()));
            top[0] = most.max(top[0]);
            match recording {
                Some((recording, _)) => {
                    if let Err(error) = recording.check() {
                        fails(&format!("{what}: {error}"));
                    }
                    read += 1;
                }
                None => refused += 1,
            }
            let series = (name == "voltages").then(|| SERIES[round / 5 % SERIES.len()]);
            let what = format!("{what}: voltage");
            let (samples, most) = read_safely(&what, || read_voltage(&path, series));
            top[1] = most.max(top[1]);
            heard += usize::from(samples.is_some());
            if name == "tetrodes" {
                let what = format!("{name}, round {round}: waveforms");
                let (events, most) = read_safely(&what, || {
                    nwb::read_spike_events(&path, &ReadOptions::default())
                });
                top[2] = most.max(top[2]);
                if let Some((recording, features, _)) = events {
                    if let Err(error) = recording.check() {
                        fails(&format!("{what}: {error}"));
                    }
                    if features.rows() != recording.spikes.len() {
                        fails(&format!("{what}: {} rows of features", features.rows()));
                    }
                    marked += 1;
                }
            }
        }
    }
    drop(std::panic::take_hook());
    assert_eq!(refused + read, 9 * rounds);
    assert!(
        refused > rounds / 2 && read > 0 && heard > rounds / 2 && heard < 3 * rounds,
        "{refused} refused, {read} read, voltage of {heard}"
    );
    assert!(
        marked > 0 && marked < rounds,
        "waveforms of {marked} in {rounds}"
    );
    println!(
        "{refused} refused, {read} read, voltage of {heard}, waveforms of {marked}; at most {top:?} bytes held"
    );
}
