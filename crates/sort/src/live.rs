//! A group's map while the sorter runs: the nearest node, and units that follow their spikes.

use betz_base::{Result, memory};
use pulp::{Arch, Simd, WithSimd};

use crate::feature::MOST_DIMS;
use crate::front::LANES;
use crate::sorter::{Moved, Sorter, UNLABELLED};

/// Standard deviations of the noise by which a unit may move unreported.
const MAY_MOVE: f32 = 3.0;
/// Times by which its rate may change.
const MAY_CHANGE: f64 = 3.0;
/// Spikes that training counts for at least: the first spikes of a rare unit do not throw it about.
const LEAST_MASS: f64 = 50.0;

/// Nodes by planes of weights, and where units are.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    arch: Arch,
    dims: usize,
    padded: usize,
    /// (dims, nodes with padding). Nodes of a unit follow each other, so that they move together at little cost.
    planes: Vec<f32>,
    /// ½‖w‖²; infinity beyond the last node.
    halves: Vec<f32>,
    labels: Vec<u32>,
    units: Vec<Tracked>,
    /// Place of a unit of the sorter in `units`.
    own: Vec<u32>,
    samples_per_constant: f64,
    rate_hz: f64,
}

#[derive(Debug, Clone)]
struct Tracked {
    unit: u32,
    /// On the map of its own group, not beyond.
    home: bool,
    gate: f32,
    /// Its nodes, by their place in `planes`.
    from: usize,
    until: usize,
    trained: [f32; MOST_DIMS],
    centre: [f32; MOST_DIMS],
    /// Forgetting count of spikes.
    mass: f64,
    least: f64,
    trained_hz: f64,
    last: i64,
}

impl Live {
    pub(crate) fn new(sorter: &Sorter, number: usize) -> Result<Self> {
        let group = &sorter.groups[number];
        let (nodes, dims) = (group.nodes(), group.dims());
        let padded = nodes.next_multiple_of(LANES);
        let mut planes = memory::filled("nodes", 0.0, padded * dims)?;
        let mut order = memory::room("nodes", nodes)?;
        order.extend(0..nodes);
        order.sort_by_key(|node| group.labels[*node]);
        for (place, &node) in order.iter().enumerate() {
            for (d, w) in group.weights[node * dims..][..dims].iter().enumerate() {
                planes[d * padded + place] = *w;
            }
        }
        let labels: Vec<u32> = order.iter().map(|node| group.labels[*node]).collect();
        let rate = sorter.settings.rate_hz;
        let constant = sorter.forget_seconds;
        let mut units = Vec::new();
        let mut own = vec![UNLABELLED; sorter.units.len()];
        for (u, unit) in sorter.units.iter().enumerate() {
            let beyond = unit.beyond.iter().find(|b| b.group as usize == number);
            let home = unit.group as usize == number;
            let (at, gate, rate_hz) = match beyond {
                _ if home => (&unit.centre, unit.gate, unit.own_rate_hz()),
                Some(beyond) => (&beyond.centre, beyond.gate, beyond.rate_hz),
                None => continue,
            };
            let mut centre = [0.0; MOST_DIMS];
            centre[..dims].copy_from_slice(at);
            let mass = rate_hz * constant;
            own[u] = units.len() as u32;
            units.push(Tracked {
                unit: u as u32,
                home,
                gate,
                from: labels.partition_point(|label| *label < u as u32),
                until: labels.partition_point(|label| *label <= u as u32),
                trained: centre,
                centre,
                mass,
                least: LEAST_MASS,
                trained_hz: rate_hz,
                last: 0,
            });
        }
        let mut live = Self {
            arch: Arch::new(),
            dims,
            padded,
            planes,
            halves: vec![f32::INFINITY; padded],
            labels,
            units,
            own,
            samples_per_constant: constant * rate,
            rate_hz: rate,
        };
        live.shift(0, nodes, &[0.0; MOST_DIMS]);
        Ok(live)
    }

    fn shift(&mut self, from: usize, until: usize, step: &[f32; MOST_DIMS]) {
        self.arch.dispatch(Shift {
            planes: &mut self.planes,
            halves: &mut self.halves[from..until],
            padded: self.padded,
            from,
            step: &step[..self.dims],
        });
    }

    /// The unit of a spike with the share of its mean that the spike has from now on, and the distance from the nearest node.
    pub(crate) fn assign(
        &mut self,
        x: &[f32; MOST_DIMS],
        sample: i64,
    ) -> (Option<(u32, f32)>, f32) {
        let (node, score) = self.arch.dispatch(Nearest {
            planes: &self.planes,
            halves: &self.halves,
            padded: self.padded,
            x: &x[..self.dims],
        });
        let squared: f32 = x.iter().map(|x| x * x).sum();
        let distance = (squared - 2.0 * score).max(0.0).sqrt();
        let label = self.labels[node];
        if label == UNLABELLED {
            return (None, distance);
        }
        let own = self.own[label as usize] as usize;
        if distance > self.units[own].gate {
            return (None, distance);
        }
        let share = if self.samples_per_constant > 0.0 {
            self.follow(own, x, sample)
        } else {
            0.0
        };
        (Some((label, share)), distance)
    }

    /// Moves a unit's centre toward its spike by what the spike weighs against those that are not forgotten, and all
    /// of its nodes with it: at most as many as the map has.
    fn follow(&mut self, own: usize, x: &[f32; MOST_DIMS], sample: i64) -> f32 {
        let unit = &mut self.units[own];
        let since = (sample - unit.last) as f64 / self.samples_per_constant;
        unit.last = sample;
        unit.mass = unit.mass * (-since).exp() + 1.0;
        let share = (1.0 / unit.mass.max(unit.least)) as f32;
        let mut step = [0.0; MOST_DIMS];
        for d in 0..self.dims {
            step[d] = share * (x[d] - unit.centre[d]);
            unit.centre[d] += step[d];
        }
        let (from, until) = (unit.from, unit.until);
        self.shift(from, until, &step);
        share
    }

    pub(crate) fn moves(&self, now: i64) -> impl Iterator<Item = Moved> + '_ {
        let constant = self.samples_per_constant;
        self.units
            .iter()
            .filter(move |unit| unit.home && constant > 0.0)
            .map(move |unit| {
                let apart = unit
                    .centre
                    .iter()
                    .zip(&unit.trained)
                    .map(|(a, b)| (a - b).powi(2));
                let distance = apart.sum::<f32>().sqrt();
                let since = (now - unit.last) as f64 / constant;
                let rate_hz = unit.mass * (-since).exp() * self.rate_hz / constant;
                let changed = rate_hz * MAY_CHANGE < unit.trained_hz
                    || rate_hz > MAY_CHANGE * unit.trained_hz;
                Moved {
                    unit: unit.unit,
                    distance,
                    rate_hz,
                    reported: distance > MAY_MOVE || changed,
                }
            })
    }
}

/// Moves nodes that follow each other, and renews their ½‖w‖².
struct Shift<'a> {
    planes: &'a mut [f32],
    halves: &'a mut [f32],
    padded: usize,
    from: usize,
    step: &'a [f32],
}

impl WithSimd for Shift<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.halves.fill(0.0);
        for (plane, &step) in self.planes.chunks_exact_mut(self.padded).zip(self.step) {
            let weights = &mut plane[self.from..][..self.halves.len()];
            for (w, half) in weights.iter_mut().zip(self.halves.iter_mut()) {
                *w += step;
                *half += 0.5 * *w * *w;
            }
        }
    }
}

/// The node with the largest x·w − ½‖w‖², of equals the first.
struct Nearest<'a> {
    planes: &'a [f32],
    halves: &'a [f32],
    padded: usize,
    x: &'a [f32],
}

impl WithSimd for Nearest<'_> {
    type Output = (usize, f32);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> (usize, f32) {
        let mut best = simd.splat_f32s(f32::NEG_INFINITY);
        let mut places = simd.splat_u32s(0);
        let (halves, _) = S::as_simd_f32s(self.halves);
        for (at, &half) in halves.iter().enumerate() {
            let mut score = simd.neg_f32s(half);
            for (plane, &x) in self.planes.chunks_exact(self.padded).zip(self.x) {
                let (plane, _) = S::as_simd_f32s(plane);
                if let Some(&weights) = plane.get(at) {
                    score = simd.mul_add_f32s(weights, simd.splat_f32s(x), score);
                }
            }
            // Nodes ascend: only a larger score wins.
            let larger = simd.greater_than_f32s(score, best);
            best = simd.select_f32s(larger, score, best);
            places = simd.select_u32s(larger, simd.splat_u32s(at as u32), places);
        }
        let mut scores = [f32::NEG_INFINITY; LANES];
        let mut chunks = [0_u32; LANES];
        if let Some(to) = S::as_mut_simd_f32s(&mut scores).0.first_mut() {
            *to = best;
        }
        if let Some(to) = S::as_mut_simd_u32s(&mut chunks).0.first_mut() {
            *to = places;
        }
        let (mut place, mut most) = (0, f32::NEG_INFINITY);
        for (lane, (&score, &chunk)) in scores.iter().zip(&chunks).take(S::F32_LANES).enumerate() {
            let at = chunk as usize * S::F32_LANES + lane;
            if score > most || (score == most && at < place) {
                (place, most) = (at, score);
            }
        }
        (place, most)
    }
}
