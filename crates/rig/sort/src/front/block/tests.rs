//! Blocks against rows in f64, against each other for every cut, and on every vector width of this processor.

use pulp::Arch;

use super::*;
use crate::BandPower;
use crate::front::filter::Biquad;
use betz_base::random::Random;

const GAIN: f64 = 0.25;

/// Noise of 8 µV, a slow wave that all channels share, and now and then a spike on one.
fn voltage(rows: usize, channels: usize, seed: u64) -> Vec<i16> {
    let mut random = Random::new(seed);
    let mut samples = Vec::with_capacity(rows * channels);
    let mut spike: Vec<usize> = (0..channels).map(|_| 40 + random.below(900)).collect();
    for row in 0..rows {
        let wave = 60.0 * (row as f64 * 0.002).sin() + 20.0 * random.normal();
        for spike in &mut spike {
            *spike = spike
                .checked_sub(1)
                .unwrap_or_else(|| 100 + random.below(300));
            let shape = match *spike {
                0..8 => -90.0 * (*spike as f64 / 8.0 * std::f64::consts::PI).sin(),
                _ => 0.0,
            };
            let microvolts = wave + shape + 8.0 * random.normal();
            samples.push((microvolts / GAIN).round() as i16);
        }
    }
    samples
}

fn settings(reference: Reference) -> Settings {
    Settings {
        reference,
        ..Settings::new(30_000.0, GAIN)
    }
}

/// A layout that uses every other channel and the last.
fn scattered(channels: usize) -> Layout {
    let all = Layout::with_noise(channels, 8.0);
    let used: Vec<u32> = (0..channels as u32)
        .filter(|c| c % 2 == 0 || *c == 1)
        .collect();
    Layout {
        places: used.iter().map(|&c| all.places[c as usize]).collect(),
        noise: vec![8.0; used.len()],
        focused: vec![1.0; used.len()],
        used,
        ..all
    }
}

fn with_weights(mut layout: Layout) -> Layout {
    let n = layout.channels();
    layout.regression = (0..n * n)
        .map(|i| {
            if i % (n + 1) == 0 {
                0.0
            } else {
                0.9 / n as f32
            }
        })
        .collect();
    layout
}

/// Crossings, and the bits of the power of every 600 rows.
fn run(mut front: BlockFrontEnd, samples: &[i16], block: usize) -> (Vec<Crossing>, Vec<u32>) {
    let channels = front.layout().row_channels;
    let (mut crossings, mut power) = (Vec::new(), Vec::new());
    let mut bin = vec![0.0; front.layout().channels()];
    for step in samples.chunks(600 * channels) {
        for block in step.chunks(block * channels) {
            front.push(block, &mut |c| crossings.push(c)).unwrap();
        }
        front.take_power(&mut bin).unwrap();
        power.extend(bin.iter().map(|p| p.to_bits()));
    }
    power.extend(front.noise().iter().map(|s| s.to_bits()));
    (crossings, power)
}

fn widths() -> Vec<(&'static str, Arch)> {
    let mut all = vec![("scalar", Arch::Scalar), ("widest", Arch::new())];
    #[cfg(target_arch = "x86_64")]
    {
        use pulp::x86::{V3, V4};
        all.extend(V3::try_new().map(|simd| ("AVX2", Arch::V3(simd))));
        all.extend(V4::try_new().map(|simd| ("AVX-512", Arch::V4(simd))));
    }
    all
}

#[test]
fn any_cut_on_any_vector_width_gives_the_same_bits() {
    let references = [
        Reference::None,
        Reference::Average,
        Reference::Median,
        Reference::Regression,
    ];
    for channels in [3, 21, 40] {
        let samples = voltage(6_000, channels, 7 + channels as u64);
        for (reference, rule) in references
            .into_iter()
            .flat_map(|r| [CrossingRule::Once, CrossingRule::Settled].map(|rule| (r, rule)))
        {
            let layout = scattered(channels);
            let layout = match reference {
                Reference::Regression => with_weights(layout),
                _ => layout,
            };
            let settings = settings(reference);
            let options = BlockOptions {
                crossings: Some(rule),
                power: true,
                calibrate_seconds: if rule == CrossingRule::Once {
                    0.05
                } else {
                    0.0
                },
                ..BlockOptions::default()
            };
            let open = || BlockFrontEnd::new(&settings, &layout, &options).unwrap();
            let expected = run(open(), &samples, 30);
            assert!(expected.0.len() > 10, "{} crossings", expected.0.len());
            for (name, arch) in widths() {
                for block in [1, 7, 30, 60, 64, 601] {
                    let found = run(open().with_arch(arch), &samples, block);
                    assert!(
                        found == expected,
                        "{channels} channels, {reference:?}, {rule:?}, {name}, blocks of {block}"
                    );
                }
            }
        }
    }
}

/// Plain loops in f64, row by row.
struct Oracle {
    /// The last row's median depends on a value that lies between two sixteenths, to a thousandth: it may round
    /// either way.
    undecided: bool,
    sections: Vec<Biquad>,
    states: Vec<Vec<[f64; 2]>>,
    reference: Reference,
}

impl Oracle {
    fn row(&mut self, samples: &[i16]) -> Vec<f64> {
        let n = samples.len();
        let mut row: Vec<f64> = samples.iter().map(|&s| f64::from(s) * GAIN).collect();
        if self.reference == Reference::Average {
            let mean = row.iter().sum::<f64>() / n as f64;
            row.iter_mut().for_each(|y| *y -= mean);
        }
        for (y, states) in row.iter_mut().zip(&mut self.states) {
            for (s, state) in self.sections.iter().zip(states) {
                let input = s.b * *y;
                *y = input + state[0];
                state[0] = state[1] - s.a1 * *y;
                state[1] = -input - s.a2 * *y;
            }
        }
        if self.reference == Reference::Median {
            let mut sorted: Vec<f64> = row.iter().map(|y| y * 16.0).collect();
            sorted.sort_by(f64::total_cmp);
            let middle = [sorted[(n - 1) / 2], sorted[n / 2]];
            self.undecided = middle.iter().any(|y| (y - y.floor() - 0.5).abs() < 1e-3);
            let [lower, upper] = middle.map(f64::round_ties_even);
            let median = (lower + upper) / 32.0;
            row.iter_mut().for_each(|y| *y -= median);
        }
        row
    }
}

#[test]
fn rows_in_f64_agree_within_1e_4_of_the_noise() {
    for (reference, channels) in [
        (Reference::None, 17),
        (Reference::Average, 32),
        (Reference::Median, 32),
        (Reference::Median, 33),
    ] {
        let samples = voltage(9_000, channels, 3);
        let settings = settings(reference);
        let layout = Layout::with_noise(channels, 8.0);
        let mut front = BlockFrontEnd::new(&settings, &layout, &BlockOptions::default()).unwrap();
        let sections = band_pass(3, 300.0, 6000.0, 30_000.0);
        let mut oracle = Oracle {
            states: vec![vec![[0.0; 2]; sections.len()]; channels],
            sections,
            reference,
            undecided: false,
        };
        let mut undecided = 0;
        let (mut error, mut power, mut count) = (0.0, 0.0, 0);
        for (r, samples) in samples.chunks_exact(channels).enumerate() {
            front.push(samples, &mut |_| count += 1).unwrap();
            // A chunk of one row leaves it, with its reference subtracted, at the start of the rows.
            let expected = oracle.row(samples);
            undecided += u32::from(oracle.undecided);
            if oracle.undecided {
                for (found, expected) in front.rows.iter().zip(&expected) {
                    assert!((f64::from(*found) - expected).abs() < 0.063);
                }
            } else if r > 400 {
                for (found, expected) in front.rows.iter().zip(&expected) {
                    error += (f64::from(*found) - expected).powi(2);
                    power += expected * expected;
                }
            }
        }
        let relative = (error / power).sqrt();
        assert!(relative < 1e-4, "{reference:?}: {relative:e}");
        assert!(undecided < 50, "{undecided} of 9000 rows");
        assert!(count > channels, "{reference:?}: {count} crossings");
    }
}

#[test]
fn a_median_is_exact_for_every_guess() {
    let mut random = Random::new(2);
    for live in [1, 2, 31, 32, 33, 200] {
        for spread in [0.1, 30.0, 3000.0, 90_000.0] {
            let mut rows = vec![0.0_f32; live];
            rows.fill_with(|| (spread * random.normal()) as f32);
            let mut words = vec![0; live.next_multiple_of(WORDS)];
            let mut medians = [0.0; ROWS];
            Arch::new().dispatch(Median {
                rows: &rows,
                stride: live,
                live,
                words: &mut words,
                medians: &mut medians,
            });
            let steps = |y: &f32| {
                (f64::from(*y) * 16.0)
                    .clamp(-16383.0, 16383.0)
                    .round_ties_even()
            };
            let mut sorted: Vec<f64> = rows.iter().map(steps).collect();
            sorted.sort_by(f64::total_cmp);
            let expected = (sorted[(live - 1) / 2] + sorted[live / 2]) / 32.0;
            assert_eq!(f64::from(medians[0]), expected, "{live} of {spread}");
        }
    }
}

#[test]
fn settled_crossings_without_a_reference_are_those_of_rows() {
    let samples = voltage(20_000, 20, 5);
    let (settings, layout) = (settings(Reference::None), Layout::with_noise(20, 12.0));
    let options = BlockOptions {
        crossings: Some(CrossingRule::Settled),
        ..BlockOptions::default()
    };
    let front = BlockFrontEnd::new(&settings, &layout, &options).unwrap();
    assert_eq!(front.delay(), 26);
    let (found, _) = run(front, &samples, 30);
    let mut rows = FrontEnd::new(&settings, &layout).unwrap();
    let mut expected = Vec::new();
    for row in samples.chunks_exact(20) {
        rows.step(row);
        expected.extend(std::iter::from_fn(|| rows.take()));
    }
    assert!(expected.len() > 50, "{} crossings", expected.len());
    assert_eq!(found, expected);
}

#[test]
fn power_is_that_of_band_power() {
    let samples = voltage(6_000, 5, 9);
    let options = BlockOptions {
        crossings: None,
        power: true,
        ..BlockOptions::default()
    };
    let layout = Layout::with_noise(5, 8.0);
    let mut front = BlockFrontEnd::new(&settings(Reference::None), &layout, &options).unwrap();
    let mut rows = BandPower::new(30_000.0, GAIN, 5, 600).unwrap();
    let mut bin = [0.0; 5];
    for samples in samples.chunks_exact(600 * 5) {
        front.push(samples, &mut |_| ()).unwrap();
        assert_eq!(front.take_power(&mut bin).unwrap(), 600);
        for row in samples.chunks_exact(5) {
            if let Some(expected) = rows.step(row) {
                for (found, expected) in bin.iter().zip(expected) {
                    assert!(
                        (found - expected).abs() < 1e-5 * expected,
                        "{found} {expected}"
                    );
                }
            }
        }
    }
    assert_eq!(front.take_power(&mut bin).unwrap(), 0);
    assert_eq!(bin, [0.0; 5]);
    assert!(front.take_power(&mut [0.0; 4]).is_err());
    assert!(front.push(&samples[..7], &mut |_| ()).is_err());
}

/// A channel whose voltage jumps down at each of `at`, for a sample.
fn jumps(rows: usize, channels: usize, at: &[(usize, usize)]) -> Vec<i16> {
    let mut samples = vec![0; rows * channels];
    for &(row, channel) in at {
        samples[row * channels + channel] = -2000;
    }
    samples
}

fn crossings(front: &mut BlockFrontEnd, samples: &[i16]) -> Vec<(i64, usize)> {
    let mut all = Vec::new();
    let sink = &mut |c: Crossing| all.push((c.sample, c.channel));
    front.push(samples, sink).unwrap();
    all
}

#[test]
fn crossings_come_at_once_with_dead_time_and_after_settling() {
    let open = |artefact| {
        let settings = Settings {
            artefact_microvolts: artefact,
            ..settings(Reference::None)
        };
        BlockFrontEnd::new(
            &settings,
            &Layout::with_noise(2, 3.0),
            &BlockOptions::default(),
        )
        .unwrap()
    };
    // Settling ends at 300. A jump rings on; within 30 samples nothing else counts, and on another channel it does.
    let at = [(100, 0), (400, 0), (410, 0), (429, 1), (431, 0), (600, 1)];
    let samples = jumps(700, 2, &at);
    let mut front = open(1e6);
    let found = crossings(&mut front, &samples);
    let firsts = |channel| {
        let mut of = Vec::new();
        for &(sample, c) in &found {
            if c == channel && of.last().is_none_or(|last| sample > last + 60) {
                of.push(sample);
            }
        }
        of
    };
    assert_eq!((firsts(0), firsts(1)), (vec![400], vec![429, 600]));
    for channel in 0..2 {
        let of = found.iter().filter(|c| c.1 == channel).map(|c| c.0);
        let of: Vec<i64> = of.collect();
        assert!(of.windows(2).all(|w| w[1] - w[0] >= 30), "{found:?}");
    }
    // The same beyond 30 µV is an artefact, which blanks what follows it for a millisecond.
    let mut front = open(30.0);
    assert!(
        crossings(&mut front, &samples)
            .iter()
            .all(|c| c.0 > 431 + 30)
    );
    assert!(front.blanked().artefacts >= 2 && front.blanked().crossings >= 3);
    // After a restart it settles again; samples count on.
    let mut front = open(1e6);
    assert!(!crossings(&mut front, &samples).is_empty());
    front.restart();
    assert_eq!(
        crossings(&mut front, &jumps(400, 2, &[(200, 0), (350, 1)])).first(),
        Some(&(1050, 1))
    );
    assert_eq!(front.samples(), 1100);
}

#[test]
fn many_channels_at_once_are_an_artefact_and_a_saturated_sample_is() {
    let settings = Settings {
        artefact_microvolts: 1e6,
        ..settings(Reference::None)
    };
    let layout = Layout::with_noise(20, 3.0);
    let options = BlockOptions::default();
    let mut front = BlockFrontEnd::new(&settings, &layout, &options).unwrap();
    let some: Vec<_> = (0..15).map(|c| (400 + c / 5, c)).collect();
    let many: Vec<_> = (0..16).map(|c| (600 + c / 8, c)).collect();
    let found = crossings(&mut front, &jumps(500, 20, &some));
    assert!((0..15).all(|c| found.iter().any(|f| f.1 == c && f.0 < 403)));
    assert_eq!(front.blanked().artefacts, 0);
    let found = crossings(
        &mut front,
        &jumps(
            200,
            20,
            &many.iter().map(|&(r, c)| (r - 500, c)).collect::<Vec<_>>(),
        ),
    );
    // Those of the first row came before it was clear.
    assert!(
        found
            .iter()
            .filter(|f| (600..631).contains(&f.0))
            .all(|f| f.0 == 600)
    );
    assert_eq!(front.blanked().artefacts, 1);
    let mut saturated = jumps(200, 20, &[(100, 3), (105, 4)]);
    saturated[100 * 20 + 3] = i16::MIN;
    let found = crossings(&mut front, &saturated);
    assert!(found.iter().all(|f| f.0 > 830), "{found:?}");
    assert_eq!(front.blanked().saturated, 1);
}

#[test]
fn calibration_measures_the_noise_and_a_silent_channel_never_crosses() {
    let mut samples = voltage(40_000, 4, 11);
    samples.iter_mut().skip(3).step_by(4).for_each(|s| *s = 17);
    let options = BlockOptions {
        calibrate_seconds: 1.0,
        ..BlockOptions::default()
    };
    let layout = Layout::with_noise(4, 1.0);
    let settings = settings(Reference::None);
    let mut front = BlockFrontEnd::new(&settings, &layout, &options).unwrap();
    assert!(!front.is_calibrated());
    let during = crossings(&mut front, &samples[..4 * 30_300]);
    assert!(during.is_empty() && !front.is_calibrated());
    let after = crossings(&mut front, &samples[4 * 30_300..]);
    assert!(front.is_calibrated());
    assert!(
        after.iter().all(|c| c.1 < 3) && after.len() > 10,
        "{}",
        after.len()
    );
    // By hand: the deviation of filtered noise of (8² + 20²)½ = 21.5 µV in a band of 5700 of 15000 Hz, with its
    // shoulders, is about 14 µV.
    let noise = front.noise();
    assert!(
        noise[..3].iter().all(|s| (12.0..16.0).contains(s)) && noise[3] == 0.0,
        "{noise:?}"
    );
    let mut again = BlockFrontEnd::new(&settings, &layout, &options).unwrap();
    again.set_noise(&noise).unwrap();
    assert!(again.is_calibrated() && again.set_noise(&[1.0]).is_err());
    assert!(again.set_noise(&[1.0, -1.0, 1.0, 1.0]).is_err());
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let (settings, layout) = (settings(Reference::None), Layout::with_noise(2, 8.0));
    let good = BlockOptions::default();
    for (options, words) in [
        (
            BlockOptions {
                crossings: None,
                ..good
            },
            "crossings, spike-band power",
        ),
        (
            BlockOptions {
                dead_ms: 0.0,
                ..good
            },
            "dead time",
        ),
        (
            BlockOptions {
                calibrate_seconds: f64::NAN,
                ..good
            },
            "calibration",
        ),
        (
            BlockOptions {
                crossings: Some(CrossingRule::Settled),
                calibrate_seconds: 1.0,
                ..good
            },
            "noise of training",
        ),
    ] {
        let error = BlockFrontEnd::new(&settings, &layout, &options).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let slow = Settings {
        low_hz: 10.0,
        high_hz: 400.0,
        ..Settings::new(1500.0, 1.0)
    };
    let power = BlockOptions {
        power: true,
        ..good
    };
    assert!(BlockFrontEnd::new(&slow, &layout, &power).is_err());
}
