//! Responses to events.

use betz_explore::{Events, Window, psth, raster};

use crate::assert_close;
use crate::cases;
use crate::oracle::{counts, mean, spikes_at, variance};

/// Windows of a whole number of the recording's ticks: (start, stop, bin) in ticks.
const WINDOWS: [[i64; 3]; 3] = [[-20, 40, 5], [0, 30, 30], [5, 9, 1]];

#[test]
fn mean_rates_are_those_of_plain_loops() {
    for case in cases::all() {
        let recording = &case.recording;
        let tick = recording.tick_seconds;
        for [start, stop, bin] in WINDOWS {
            let window = Window {
                start_seconds: start as f64 * tick,
                stop_seconds: stop as f64 * tick,
                bin_seconds: bin as f64 * tick,
            };
            let mut events = Events::segment_starts(recording);
            events.ticks.extend([37, 300, 310, 700, recording.ticks]);
            let inside = |event: &&i64| **event + start >= 0 && **event + stop <= recording.ticks;
            let used: Vec<i64> = events.ticks.iter().filter(inside).copied().collect();
            let channels = [2, 0, 3, 0];
            let Ok(found) = psth(recording, &channels, &events, &window) else {
                assert!(used.is_empty(), "{}: refused", case.name);
                continue;
            };
            assert_eq!(
                (found.events, found.left_out),
                (used.len(), events.ticks.len() - used.len())
            );
            for (p, &channel) in channels.iter().enumerate() {
                let mut totals = vec![0.0; used.len()];
                for k in 0..found.bins {
                    let in_bin = |&event: &i64| -> f64 {
                        let first = event + start + k as i64 * bin;
                        (first..first + bin)
                            .map(|t| spikes_at(recording, channel, t))
                            .sum()
                    };
                    let spikes: Vec<f64> = used.iter().map(in_bin).collect();
                    totals
                        .iter_mut()
                        .zip(&spikes)
                        .for_each(|(total, n)| *total += n);
                    let n = spikes.len() as f64;
                    let error = (variance(&spikes) * n / (n - 1.0) / n).sqrt() / window.bin_seconds;
                    let at = p * found.bins + k;
                    let what = format!("{}, channel {channel}, bin {k}", case.name);
                    assert_close(
                        &[found.mean_hz[at]],
                        &[mean(&spikes) / window.bin_seconds],
                        &what,
                    );
                    let error = if n > 1.0 { error } else { f64::NAN };
                    assert!(
                        (found.error_hz[at] - error).abs() < 1e-6 * error.max(1.0) || n == 1.0,
                        "{what}"
                    );
                }
                assert_close(
                    &[found.fano[p]],
                    &[variance(&totals) / mean(&totals)],
                    case.name,
                );
            }
        }
    }
}

#[test]
fn rasters_hold_the_spikes_of_every_window() {
    for case in cases::all() {
        let recording = &case.recording;
        let tick = recording.tick_seconds;
        let window = Window {
            start_seconds: -5.0 * tick,
            stop_seconds: 20.0 * tick,
            bin_seconds: tick,
        };
        let events = Events {
            name: "cue".into(),
            ticks: vec![5, 300, 200, 2],
        };
        let Ok(found) = raster(recording, 0, &events, &window) else {
            assert_eq!(recording.ticks, 1, "{}", case.name);
            continue;
        };
        assert_eq!((found.events, found.left_out), (3, 1));
        let (mut rows, mut seconds) = (Vec::new(), Vec::new());
        for (row, event) in [5, 300, 200].into_iter().enumerate() {
            for offset in -5..20_i64 {
                if counts(recording, 0)[(event + offset) as usize] > 0.0 {
                    rows.push(row as u32);
                    seconds.push(offset as f64 * tick);
                }
            }
        }
        assert_eq!(found.rows, rows, "{}", case.name);
        assert_close(&found.seconds, &seconds, case.name);
    }
}

#[test]
fn a_spike_belongs_to_the_bin_that_holds_its_time_whatever_the_tick() {
    // Ticks of 1/30000 s and bins of 0.7 ms, which is 21 ticks; of 0.1 ms, 3 ticks; of 0.25 ms, 7.5 ticks.
    let case = &cases::all()[2];
    for (bin, bins) in [(0.0007, 4), (0.0001, 10), (0.00025, 8)] {
        let window = Window {
            start_seconds: 0.0,
            stop_seconds: bin * f64::from(bins),
            bin_seconds: bin,
        };
        let events = Events {
            name: "cue".into(),
            ticks: vec![100],
        };
        let found = psth(&case.recording, &[0], &events, &window).unwrap();
        let mut wanted = vec![0.0; bins as usize];
        for offset in 0..100 {
            let time = f64::from(offset) / 30_000.0;
            if time < window.stop_seconds - 1e-12 {
                let at = ((time + 1e-12) / bin) as usize;
                wanted[at] += spikes_at(&case.recording, 0, 100 + i64::from(offset)) / bin;
            }
        }
        assert_close(&found.mean_hz, &wanted, "fine ticks");
    }
}

#[test]
fn windows_that_leave_their_segment_are_counted() {
    let case = &cases::all()[1];
    let window = Window {
        start_seconds: 0.0,
        stop_seconds: 0.1,
        bin_seconds: 0.1,
    };
    // The first lies in a segment, the second across a border of two that touch, the third reaches into a gap.
    let events = Events::from_seconds(&case.recording, "cue", &[0.1, 0.45, 0.85]).unwrap();
    let found = psth(&case.recording, &[0], &events, &window).unwrap();
    assert_eq!(
        (found.events, found.left_out, found.outside_segments),
        (3, 0, 1)
    );
}
