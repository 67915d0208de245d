use super::fields::Fields;
use super::grid::Grid;
use super::*;
use crate::kinds::{Kind, KindOptions, train_kinds_on};
use crate::options::TrainOptions;
use crate::search::Search;
use betz_base::ErrorKind;
use betz_device::Device;
use betz_gram::decode::decode;
use betz_gram::score::place_error;
use betz_recording::{Behavior, Dataset, Segment, Spikes};
use betz_runtime::model::{Decoder, Head};
use betz_runtime::psc::{Filter, FilterBank, LowPass};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const CHANNELS: usize = 14;
const STEP_SECONDS: f64 = 0.1;

/// A rat that runs around a ring of radius 100 px, and cells with places along it.
fn ring(seed: u64, segments: &[(i64, i64)]) -> Dataset {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let steps = segments.last().unwrap().1 as usize;
    let (mut angle, mut speed) = (0.0_f64, 0.08);
    let (mut behavior, mut spikes) = (Vec::new(), Spikes::default());
    for step in 0..steps {
        if random.random::<f64>() < 0.02 {
            speed = -speed;
        }
        angle += speed * random.random::<f64>() * 2.0;
        let (x, y) = (100.0 * angle.cos(), 100.0 * angle.sin());
        behavior.extend([
            (x + 300.0) as f32,
            (y + 200.0) as f32,
            (10.0 * speed) as f32,
        ]);
        for channel in 0..CHANNELS {
            let place = channel as f64 / CHANNELS as f64 * std::f64::consts::TAU;
            let rate = 0.02 + 2.0 * (6.0 * ((angle - place).cos() - 1.0)).exp();
            let silent = random.random::<f64>() < (-rate).exp();
            if !silent && channel != 11 {
                spikes.ticks.push(step as i64);
                spikes.channels.push(channel as u32);
                spikes.weights.push(if random.random::<f64>() < rate / 2.0 {
                    2.0
                } else {
                    1.0
                });
            }
        }
    }
    let output = |name: &str, unit: &str| OutputInfo {
        name: name.into(),
        unit: unit.into(),
    };
    let segment = |&(start, stop): &(i64, i64)| Segment { start, stop };
    Dataset {
        step_seconds: STEP_SECONDS,
        steps,
        channel_names: (0..CHANNELS).map(|c| format!("c{c}")).collect(),
        spikes,
        segments: segments.iter().map(segment).collect(),
        outputs: vec![output("x", "px"), output("y", "px"), output("v", "rad/s")],
        behavior,
    }
}

const CONFIG: Config = Config {
    across: 12,
    smoothing: 0.8,
    pace: 1.5,
    jumps_hz: 0.1,
    trust: 0.75,
};

fn bell(d: i64, sigma: f64) -> f64 {
    if sigma < 0.5 {
        return match d.abs() {
            0 => 1.0 - sigma * sigma,
            1 => 0.5 * sigma * sigma,
            _ => 0.0,
        };
    }
    let most = (4.0 * sigma).ceil() as i64;
    let weight = |d: i64| (-(d as f64).powi(2) / (2.0 * sigma * sigma)).exp();
    if d.abs() > most {
        return 0.0;
    }
    weight(d) / (-most..=most).map(weight).sum::<f64>()
}

/// The paired steps of a recording, and a grid of places over their positions.
struct PlainGrid<'a> {
    data: &'a Dataset,
    delay: i64,
    steps: Vec<i64>,
    /// Length of a place's edge, and the lower corner of the grid, in pixels.
    edge: f64,
    first: [f64; 2],
    places: Vec<[i64; 2]>,
}

impl<'a> PlainGrid<'a> {
    fn new(data: &'a Dataset, delay: i64, across: usize) -> Self {
        let paired = |t: i64| {
            let within = |s: &Segment, t: i64| (s.start..s.stop).contains(&t);
            let mut segments = data.segments.iter();
            segments.any(|s| within(s, t) && within(s, t - delay))
        };
        let steps = data.segments.iter().flat_map(|s| s.start..s.stop);
        let mut grid = Self {
            data,
            delay,
            steps: steps.filter(|&t| paired(t)).collect(),
            edge: f64::NAN,
            first: [f64::NAN; 2],
            places: Vec::new(),
        };
        let end = |axis: usize, sign: f64| {
            let values = grid.steps.iter().map(|&t| sign * grid.outputs(t)[axis]);
            sign * values.fold(f64::NEG_INFINITY, f64::max)
        };
        let (low, high) = ([end(0, -1.0), end(1, -1.0)], [end(0, 1.0), end(1, 1.0)]);
        let edge = (high[0] - low[0]).max(high[1] - low[1]) / across as f64;
        let shape = [0, 1].map(|a| ((high[a] - low[a]) / edge).ceil() as i64 + 1);
        grid.edge = edge;
        grid.first = [0, 1].map(|a| (low[a] + high[a]) / 2.0 - shape[a] as f64 * edge / 2.0);
        grid.places = (0..shape[0])
            .flat_map(|i| (0..shape[1]).map(move |j| [i, j]))
            .collect();
        grid
    }

    /// The outputs that are paired with a step: x, y and speed.
    fn outputs(&self, t: i64) -> [f64; 3] {
        let row = &self.data.behavior[(t - self.delay) as usize * 3..][..3];
        [f64::from(row[0]), f64::from(row[1]), f64::from(row[2])]
    }

    fn count(&self, channel: usize, t: i64) -> f64 {
        let spikes = &self.data.spikes;
        let of_channel = |&i: &usize| spikes.channels[i] as usize == channel;
        let here = spikes.range(t, t + 1).filter(of_channel);
        here.map(|i| f64::from(spikes.weight(i))).sum()
    }

    fn smoothed(&self, values: &[f64], sigma: f64) -> Vec<f64> {
        let bells: Vec<f64> = (0..64).map(|d| bell(d, sigma)).collect();
        let weight = |d: i64| bells[d.unsigned_abs() as usize];
        let at = |to: &[i64; 2]| {
            let parts = (self.places.iter().zip(values))
                .map(|(from, value)| weight(from[0] - to[0]) * weight(from[1] - to[1]) * value);
            parts.sum()
        };
        self.places.iter().map(at).collect()
    }

    /// Sums over the steps spent in each place.
    fn sums(&self, value: impl Fn(i64) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.places.len()];
        for &t in &self.steps {
            let x = self.outputs(t);
            let at = [0, 1].map(|a| ((x[a] - self.first[a]) / self.edge) as i64);
            let place = self.places.iter().position(|p| *p == at).unwrap();
            sums[place] += value(t);
        }
        sums
    }

    fn fields(&self, config: &Config) -> PlainFields {
        let time = self.sums(|_| 1.0);
        let seen: Vec<f64> = time.iter().map(|t| f64::from(u8::from(*t > 0.0))).collect();
        let visited = self.smoothed(&seen, 1.0);
        let cells: Vec<usize> = (0..visited.len()).filter(|&i| visited[i] > 0.05).collect();
        let time = self.smoothed(&time, config.smoothing);
        let prior = 0.05 / STEP_SECONDS;
        let rates = (0..CHANNELS).map(|channel| {
            let all = self.steps.iter().map(|&t| self.count(channel, t));
            let mean = all.sum::<f64>() / self.steps.len() as f64;
            let counts = self.smoothed(&self.sums(|t| self.count(channel, t)), config.smoothing);
            let rate = |&i: &usize| (counts[i] + prior * mean) / (time[i] + prior);
            cells.iter().map(rate).map(|r| r.max(1e-4)).collect()
        });
        let speeds = self.smoothed(&self.sums(|t| self.outputs(t)[2]), config.smoothing);
        let value = |&i: &usize| {
            let middle = |a: usize| self.first[a] + (self.places[i][a] as f64 + 0.5) * self.edge;
            let speed = if time[i] > 0.0 {
                speeds[i] / time[i]
            } else {
                0.0
            };
            [middle(0), middle(1), speed]
        };
        let all: f64 = cells.iter().map(|&i| time[i]).sum();
        let share = |&i: &usize| time[i] + 1e-3 * all / cells.len() as f64;
        let start: Vec<f64> = cells.iter().map(share).collect();
        let all: f64 = start.iter().sum();
        PlainFields {
            rates: rates.collect(),
            values: cells.iter().map(value).collect(),
            start: start.iter().map(|s| s / all).collect(),
            cells,
        }
    }

    /// Probabilities of a walk from each cell to each.
    fn walk(&self, cells: &[usize], pace: f64) -> Vec<Vec<f64>> {
        let moved = |from: i64, to: i64, axis: usize| {
            (self.outputs(to)[axis] - self.outputs(from)[axis]) / self.edge
        };
        let pairs: Vec<f64> = (self.steps.windows(2).filter(|w| w[0] + 1 == w[1]))
            .flat_map(|w| [0, 1].map(|axis| moved(w[0], w[1], axis).powi(2)))
            .collect();
        let sigma = pace * (pairs.iter().sum::<f64>() / pairs.len() as f64).sqrt();
        let row = |&from: &usize| {
            let to = cells.iter().map(|&to| {
                let [a, b] = [self.places[from], self.places[to]];
                bell(a[0] - b[0], sigma) * bell(a[1] - b[1], sigma)
            });
            let to: Vec<f64> = to.collect();
            let sum: f64 = to.iter().sum();
            to.iter().map(|w| w / sum).collect()
        };
        cells.iter().map(row).collect()
    }
}

/// Fields over the cells, which are the places near a visited one.
struct PlainFields {
    cells: Vec<usize>,
    /// Rates of each channel in each cell.
    rates: Vec<Vec<f64>>,
    /// Outputs in each cell.
    values: Vec<[f64; 3]>,
    /// Probability of each cell at the start of a segment.
    start: Vec<f64>,
}

/// The decoder of place by the definition: sums over all pairs of places, matrices, f64. Posterior means of the
/// outputs at every step of `test`.
fn oracle(train: &Dataset, test: &Dataset, delay: i64, config: &Config) -> Vec<[f64; 3]> {
    let grid = PlainGrid::new(train, delay, config.across);
    let fields = grid.fields(config);
    let walk = grid.walk(&fields.cells, config.pace);
    let n = fields.cells.len();
    let jump = config.jumps_hz * STEP_SECONDS;
    let mut means = vec![[f64::NAN; 3]; test.steps];
    for segment in &test.segments {
        let mut p = fields.start.clone();
        for t in segment.start..segment.stop {
            if t > segment.start {
                let before = p.clone();
                let walked = |c: usize| (0..n).map(|d| before[d] * walk[d][c]).sum::<f64>();
                p = (0..n)
                    .map(|c| (1.0 - jump) * walked(c) + jump / n as f64)
                    .collect();
            }
            for (c, p) in p.iter_mut().enumerate() {
                let mut log = -fields.rates.iter().map(|r| r[c]).sum::<f64>();
                for i in test.spikes.range(t, t + 1) {
                    let rate = fields.rates[test.spikes.channels[i] as usize][c];
                    log += f64::from(test.spikes.weight(i)) * rate.ln();
                }
                *p *= (config.trust * log).exp();
            }
            let total: f64 = p.iter().sum();
            p.iter_mut().for_each(|p| *p /= total);
            let mean = |o: usize| (0..n).map(|c| p[c] * fields.values[c][o]).sum();
            means[t as usize] = [0, 1, 2].map(mean);
        }
    }
    means
}

fn decoder(data: &Dataset, delay_steps: i64) -> Decoder {
    let fields = Fields::fit(&data.view(), delay_steps, &|_| true, (12, 0.8)).unwrap();
    let (place, weights, intercept) = fields.decoder(&CONFIG);
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: STEP_SECONDS / 40.0,
        order: 0,
    }]);
    let names = (data.channel_names.clone(), data.outputs.clone());
    Decoder::new(betz_runtime::model::DecoderParts {
        delay_steps,
        weights,
        intercept,
        head: Head::Place(place),
        ..betz_runtime::model::DecoderParts::linear(STEP_SECONDS, bank.unwrap(), names.0, names.1)
    })
    .unwrap()
}

#[test]
fn fields_and_steps_are_those_of_the_oracle() {
    let train = ring(1, &[(0, 250), (260, 700)]);
    let test = ring(2, &[(3, 120), (120, 200)]);
    for delay in [0, 2, -1] {
        let decoder = decoder(&train, delay);
        let got = decode(&decoder, &test).unwrap();
        let expected = oracle(&train, &test, delay, &CONFIG);
        for (t, (got, expected)) in got.chunks_exact(3).zip(&expected).enumerate() {
            for (g, e) in got.iter().zip(expected) {
                let same = (f64::from(*g) - e).abs() < 0.02 || g.is_nan() && e.is_nan();
                assert!(
                    same,
                    "delay {delay}, step {t}: {got:?}, expected {expected:?}"
                );
            }
        }
    }
}

#[test]
fn what_it_believes_is_what_it_says() {
    let (train, test) = (ring(3, &[(0, 900)]), ring(4, &[(5, 300), (310, 500)]));
    let decoder = decoder(&train, 0);
    let said = decode(&decoder, &test).unwrap();
    let believed = beliefs(&decoder, &test).unwrap();
    for (t, (said, mean)) in said.chunks(3).zip(believed.mean.chunks(3)).enumerate() {
        assert_eq!(said[0].is_nan(), believed.spread[t].is_nan());
        for (a, b) in said.iter().zip(mean) {
            assert!((a - b).abs() < 1e-2 || a.is_nan() && b.is_nan(), "step {t}");
        }
    }
    let off = |estimates: &[f32]| place_error(&test, estimates, 0).unwrap().unwrap().median;
    assert!(off(&believed.mean) < 25.0 && off(&believed.likeliest) < 25.0);
    // Half a cell's diagonal at most from some cell's middle, and more sure than the ring is wide.
    let mut spread = believed.spread.clone();
    spread.retain(|s| s.is_finite());
    assert!(spread.iter().all(|s| (0.0..200.0).contains(s)));
    spread.sort_by(f32::total_cmp);
    assert!(spread[spread.len() / 2] < 50.0);
    let bank = decoder.bank().clone();
    let linear = crate::fit::train(&train, &TrainOptions::new(bank), &()).unwrap();
    assert_eq!(
        beliefs(&linear, &test).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

fn trained(
    data: &Dataset,
    options: impl FnOnce(&mut TrainOptions),
) -> betz_base::Result<(Decoder, crate::kinds::Comparison)> {
    let filter = |tau_seconds, order| Filter { tau_seconds, order };
    let bank = FilterBank::new(vec![filter(0.2, 0), filter(0.5, 1)]).unwrap();
    let mut chosen = TrainOptions::new(bank);
    options(&mut chosen);
    let kinds = KindOptions {
        cells: Some(16),
        ..KindOptions::among(&[Kind::Place])
    };
    let search = Search {
        folds: 3,
        ..Search::ridge()
    };
    let cpu = Device::cpu();
    let (trained, comparison) = train_kinds_on(&cpu, data, &chosen, &search, &kinds, &())?;
    Ok((trained.decoder, comparison))
}

#[test]
fn training_chooses_and_says_how_it_does() {
    // One segment, cut into folds; and several.
    for segments in [&[(0, 1200)][..], &[(0, 400), (405, 800), (810, 1200)]] {
        let (decoder, comparison) = trained(&ring(5, segments), |_| {}).unwrap();
        assert_eq!((decoder.kind(), comparison.taken), ("place", Kind::Place));
        let [linear, place] = &comparison.kinds[..] else {
            panic!("{comparison:?}");
        };
        assert_eq!((linear.kind, place.kind), (Kind::Linear, Kind::Place));
        let promised = place.median_error.unwrap();
        assert!(promised < linear.median_error.unwrap() && place.multiply_adds > 100.0);
        let unseen = ring(6, &[(0, 600)]);
        let got = decode(&decoder, &unseen).unwrap();
        let median = place_error(&unseen, &got, 0).unwrap().unwrap().median;
        assert!(
            median < 1.5 * promised,
            "{median} where {promised} was promised"
        );
        let bytes = decoder.to_bytes().unwrap();
        assert_eq!(Decoder::from_bytes(&bytes).unwrap(), decoder);
    }
}

#[test]
fn what_is_no_place_is_refused() {
    let refused = |spoil: fn(&mut Dataset), options: fn(&mut TrainOptions)| {
        let mut data = ring(7, &[(0, 400)]);
        spoil(&mut data);
        trained(&data, options).unwrap_err()
    };
    let keep = |_: &mut TrainOptions| {};
    let error = refused(|d| d.outputs[1].unit = "m".into(), keep);
    assert!(error.message().contains("x (px), y (m)"), "{error}");
    let all_velocities =
        |d: &mut Dataset| d.outputs.iter_mut().for_each(|o| o.unit = "px/s".into());
    assert_eq!(
        refused(all_velocities, keep).kind(),
        ErrorKind::InvalidArgument
    );
    let error = refused(|d| d.spikes.weights[9] = -1.0, keep);
    assert!(
        error.message().contains("counts of spikes, got -1"),
        "{error}"
    );
    let low_pass = |o: &mut TrainOptions| {
        o.low_pass = Some(LowPass {
            order: 2,
            cutoff_hz: 1.0,
        });
    };
    assert!(refused(|_| {}, low_pass).message().contains("low-pass"));
    let still = |d: &mut Dataset| {
        d.behavior
            .chunks_exact_mut(3)
            .for_each(|r| r[..2].fill(1.0))
    };
    assert_eq!(refused(still, keep).kind(), ErrorKind::InsufficientData);
}

#[test]
fn a_grid_has_no_more_cells_than_a_decoder_may() {
    let mut data = ring(8, &[(0, 100)]);
    data.outputs[2].unit = "px".into();
    let rows: Vec<usize> = (0..100).collect();
    data.behavior[2] = 300.0;
    let grid = Grid::new(&data.view(), &[0, 1, 2], &rows, 1000).unwrap();
    assert!(grid.places() <= 4096 && grid.shape.iter().all(|n| *n > 4));
    for row in data.behavior.chunks_exact(3) {
        let middle = grid.middle(grid.of(row));
        for (m, x) in middle.iter().zip(row) {
            assert!((m - f64::from(*x)).abs() <= 0.5 * grid.edge * (1.0 + 1e-9));
        }
    }
    assert_eq!(grid.of(&[-1e30, -1e30, -1e30]), 0);
    assert_eq!(grid.of(&[1e30, 1e30, 1e30]), grid.places() - 1);
}

#[test]
fn the_default_step_follows_the_behaviour() {
    let recording = |form, tick_seconds, interval: Option<f64>| Recording {
        tick_seconds,
        ticks: 1_000,
        spikes: Spikes::default(),
        channel_names: vec!["a".into()],
        behavior: interval.map(|interval| Behavior {
            outputs: vec!["x".into()],
            values: vec![0.0; 10],
            times: Some((0..10).map(|i| f64::from(i) * interval).collect()),
        }),
        segments: vec![Segment {
            start: 0,
            stop: 1_000,
        }],
        electrode_um: None,
        form,
        meta: None,
    };
    for (form, tick, interval, expected) in [
        (SpikeForm::Events, 1e-4, Some(1.0 / 64.0), 0.1),
        (SpikeForm::Events, 1e-4, Some(0.25), 0.25),
        (SpikeForm::Events, 0.5, None, 0.5),
        (SpikeForm::Counts, 0.03125, None, 0.09375),
        (SpikeForm::Counts, 0.25, None, 0.25),
    ] {
        assert_eq!(default_step(&recording(form, tick, interval)), expected);
    }
}
