//! Real recordings, where they are.

use betz_recording::{AlignOptions, Recording, SpikeForm, multiunit};
use betz_testkit::shared;

/// Reads, writes and reads again a file of the shared data.
fn round_trip(file: &str) -> Option<Recording> {
    let r = Recording::read_npz(&shared(file)?).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join(file);
    r.write_npz(&copy).unwrap();
    assert_eq!(Recording::read_npz(&copy).unwrap(), r);
    Some(r)
}

#[test]
fn reach95_is_as_described() {
    let Some(r) = round_trip("reach95.npz") else {
        return;
    };
    assert_eq!(
        (r.ticks, r.channels(), r.segments.len()),
        (23_566, 95, 1_092)
    );
    assert_eq!(r.form, SpikeForm::Counts);
    let d = r.align(0.1).unwrap();
    d.check().unwrap();
    assert_eq!(
        (d.steps, d.segments.len(), d.outputs.len()),
        (23_566, 1_092, 4)
    );
    assert_eq!(d.behavior, r.behavior.unwrap().values);
}

#[test]
fn linear_track_is_as_described() {
    let Some(r) = round_trip("linear_track.npz") else {
        return;
    };
    assert_eq!((r.spikes.len(), r.channels()), (28_829, 31));
    // At 30 kHz; behaviour runs on to 1,982.45 s after the last spike at 1,968.14 s.
    assert!((r.seconds() - 1982.4533).abs() < 1e-3, "{} s", r.seconds());
    let options = AlignOptions {
        step_seconds: 0.02,
        max_gap_seconds: Some(0.1),
    };
    let (d, report) = r.align_with(&options).unwrap();
    d.check().unwrap();
    // Two gaps of about 0.11 s.
    assert_eq!(d.segments.len(), 3);
    assert_eq!(
        report.spikes_outside,
        r.spikes.len()
            - d.segments
                .iter()
                .map(|s| d.spikes.range(s.start, s.stop).len())
                .sum::<usize>()
    );
    let whole = r.align(0.02).unwrap();
    assert_eq!(whole.segments.len(), 1);
    assert_eq!(whole.spikes.len(), r.spikes.len());
}

#[test]
fn cultures_are_as_described() {
    for (day, spikes, units) in [(10, 31_730, 47), (28, 506_146, 58)] {
        let Some(r) = round_trip(&format!("culture_div{day}.npz")) else {
            return;
        };
        assert_eq!((r.spikes.len(), r.channels()), (spikes, units));
        assert!(r.behavior.is_none() && r.electrode_um.is_some());
        assert!(r.meta.as_ref().unwrap().contains("Charlesworth"));
        let mu = r.combine(&multiunit::random_groups(units, 3, 1)).unwrap();
        assert_eq!(
            (mu.spikes.len(), mu.channels()),
            (spikes, units.div_ceil(3))
        );
    }
}
