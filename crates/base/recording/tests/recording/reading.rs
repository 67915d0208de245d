//! Whole files, with and without their optional arrays.

use betz_recording::{Segment, SpikeForm};
use betz_testkit::npy::{Array, bytes, npz};
use zip::CompressionMethod;

use crate::archives::*;

#[test]
fn counts_file_keeps_its_counts() {
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let r = read_bytes(&npz(&counts_arrays(), method)).unwrap();
        assert_eq!(r.form, SpikeForm::Counts);
        assert_eq!((r.ticks, r.tick_seconds), (4, 0.1));
        assert_eq!(r.spikes.ticks, [0, 1, 3]);
        assert_eq!(r.spikes.channels, [1, 0, 2]);
        assert_eq!(r.spikes.weights, [1.0, 2.0, 3.0]);
        assert_eq!(r.channel_names, ["a", "bb", "é𝄞c"]);
        let b = r.behavior.as_ref().unwrap();
        assert_eq!(b.values, [0., 1., 2., 3., 4., 5., 6., 7.]);
        assert_eq!(
            (b.outputs[1].name.as_str(), b.outputs[1].unit.as_str()),
            ("vx", "mm/s")
        );
        assert_eq!(
            r.segments,
            [Segment { start: 0, stop: 2 }, Segment { start: 2, stop: 4 }]
        );
        assert_eq!(r.electrode_um.as_ref().unwrap()[2], [4., 5.]);
        assert_eq!(r.meta.as_deref(), Some("{\"a\": 1}"));
    }
}

#[test]
fn a_signal_of_floats_keeps_its_values() {
    let values = [
        0.5, -2.0, 0.0, 1.0, 1.0, 1e-6, 3.0, 0.0, 7.5, 0.25, 1.0, 2.0,
    ];
    let signal = |array: Array| {
        let mut arrays = counts_arrays();
        arrays.retain(|a| a.name != "counts" && a.name != "step_seconds");
        arrays.push(array);
        let seconds = 0.1_f64.to_le_bytes().to_vec();
        with(arrays, Array::new("sample_seconds", "<f8", "()", seconds))
    };
    let r = read_arrays(&signal(Array::new(
        "signal",
        "<f4",
        "(4, 3)",
        bytes::<f32>(&values),
    )))
    .unwrap();
    assert_eq!(
        (r.form, r.ticks, r.tick_seconds),
        (SpikeForm::Signal, 4, 0.1)
    );
    assert_eq!(r.spikes.ticks, [0, 0, 1, 1, 1, 2, 2, 3, 3, 3]);
    assert_eq!(r.spikes.channels, [0, 1, 0, 1, 2, 0, 2, 0, 1, 2]);
    let kept: Vec<f32> = values.into_iter().filter(|v| *v != 0.0).collect();
    assert_eq!(r.spikes.weights, kept);
    // Two samples per step give their mean, in one entry per channel.
    let d = r.align(0.2).unwrap();
    assert_eq!(d.spikes.ticks, [0, 0, 0, 1, 1, 1]);
    assert_eq!(d.spikes.weights, [0.75, -0.5, 5e-7, 1.625, 0.5, 4.75]);
    let data: Vec<u8> = values
        .iter()
        .flat_map(|v| f64::from(*v).to_le_bytes())
        .collect();
    let double = read_arrays(&signal(Array::new("signal", "<f8", "(4, 3)", data))).unwrap();
    assert_eq!(double, r);
    for bad in [f32::NAN, f32::INFINITY, 1e16] {
        let mut values = values;
        values[4] = bad;
        let e = read_arrays(&signal(Array::new(
            "signal",
            "<f4",
            "(4, 3)",
            bytes::<f32>(&values),
        )))
        .unwrap_err();
        assert!(e.message().contains("channel 1 at tick 1"), "{e}");
    }
}

#[test]
fn fortran_order_and_u16_counts_mean_the_same() {
    let c = read_arrays(&counts_arrays()).unwrap();
    let mut f = Array::new(
        "counts",
        "<u2",
        "(4, 3)",
        bytes::<u16>(&[0, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3]),
    );
    f.fortran = true;
    let mut b = Array::new(
        "behavior",
        "<f4",
        "(4, 2)",
        bytes::<f32>(&[0., 2., 4., 6., 1., 3., 5., 7.]),
    );
    b.fortran = true;
    let fortran = read_arrays(&with(with(counts_arrays(), f), b)).unwrap();
    assert_eq!(c, fortran);
}

#[test]
fn events_file_without_optional_arrays_gets_defaults() {
    let r = read_arrays(&events_arrays()).unwrap();
    assert_eq!(r.form, SpikeForm::Events);
    assert_eq!(r.channel_names, ["ch0", "ch1"]);
    // Behaviour goes on after the last spike: its last sample, at 14.5 ms, is in tick 14.
    assert_eq!(r.ticks, 15);
    assert_eq!(r.segments, [Segment { start: 0, stop: 15 }]);
    let b = r.behavior.unwrap();
    assert_eq!(
        (b.outputs[0].name.as_str(), b.outputs[0].unit.as_str()),
        ("output0", "")
    );

    let bare = without(without(events_arrays(), "behavior"), "behavior_times");
    assert_eq!(read_arrays(&bare).unwrap().ticks, 10);
    let longer = with(
        bare,
        Array::new("duration_ticks", "<i8", "()", bytes::<i64>(&[400])),
    );
    assert_eq!(read_arrays(&longer).unwrap().ticks, 400);
}
