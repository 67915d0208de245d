//! Whole files, with and without their optional arrays.

use betz_recording::{Segment, SpikeForm};
use zip::CompressionMethod;

use crate::archives::*;

#[test]
fn counts_file_is_read_as_spikes() {
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let r = read_bytes(&npz(&counts_arrays(), method)).unwrap();
        assert_eq!(r.form, SpikeForm::Counts);
        assert_eq!((r.ticks, r.tick_seconds), (4, 0.1));
        assert_eq!(r.spikes.ticks, [0, 1, 1, 3, 3, 3]);
        assert_eq!(r.spikes.channels, [1, 0, 0, 2, 2, 2]);
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
fn fortran_order_and_u16_counts_mean_the_same() {
    let c = read_arrays(&counts_arrays()).unwrap();
    let mut f = array(
        "counts",
        "<u2",
        "(4, 3)",
        u16s(&[0, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3]),
    );
    f.fortran = true;
    let mut b = array(
        "behavior",
        "<f4",
        "(4, 2)",
        f32s(&[0., 2., 4., 6., 1., 3., 5., 7.]),
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
    let longer = with(bare, array("duration_ticks", "<i8", "()", i64s(&[400])));
    assert_eq!(read_arrays(&longer).unwrap().ticks, 400);
}
