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
    /// (dims, nodes with padding).
    planes: Vec<f32>,
    /// ½‖w‖²; infinity beyond the last node.
    halves: Vec<f32>,
    labels: Vec<u32>,
    units: Vec<Tracked>,
    /// Nodes of each unit, one after the other.
    members: Vec<u32>,
    /// Place of a unit of the sorter in `units`.
    own: Vec<u32>,
    samples_per_constant: f64,
    rate_hz: f64,
}

#[derive(Debug, Clone)]
struct Tracked {
    unit: u32,
    gate: f32,
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
        for (node, weights) in group.weights.chunks_exact(dims).enumerate() {
            for (d, w) in weights.iter().enumerate() {
                planes[d * padded + node] = *w;
            }
        }
        let rate = sorter.settings.rate_hz;
        let constant = sorter.forget_seconds;
        let (mut units, mut members) = (Vec::new(), memory::room("nodes", nodes)?);
        let mut own = vec![UNLABELLED; sorter.units.len()];
        for (u, unit) in sorter.units.iter().enumerate() {
            if unit.group as usize != number {
                continue;
            }
            let from = members.len();
            members.extend((0..nodes as u32).filter(|n| group.labels[*n as usize] == u as u32));
            let mut centre = [0.0; MOST_DIMS];
            centre[..dims].copy_from_slice(&unit.centre);
            let mass = unit.rate_hz * constant;
            own[u] = units.len() as u32;
            units.push(Tracked {
                unit: u as u32,
                gate: unit.gate,
                from,
                until: members.len(),
                trained: centre,
                centre,
                mass,
                least: LEAST_MASS,
                trained_hz: unit.rate_hz,
                last: 0,
            });
        }
        let mut live = Self {
            arch: Arch::new(),
            dims,
            padded,
            planes,
            halves: vec![f32::INFINITY; padded],
            labels: group.labels.clone(),
            units,
            members,
            own,
            samples_per_constant: constant * rate,
            rate_hz: rate,
        };
        for node in 0..nodes {
            live.halve(node);
        }
        Ok(live)
    }

    fn halve(&mut self, node: usize) {
        let weights = (0..self.dims).map(|d| self.planes[d * self.padded + node]);
        self.halves[node] = 0.5 * weights.map(|w| w * w).sum::<f32>();
    }

    /// The unit of a spike, and its distance from the nearest node.
    pub(crate) fn assign(&mut self, x: &[f32; MOST_DIMS], sample: i64) -> (Option<u32>, f32) {
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
        if self.samples_per_constant > 0.0 {
            self.follow(own, x, sample);
        }
        (Some(label), distance)
    }

    /// Moves a unit's centre toward its spike by what the spike weighs against those that are not forgotten, and all
    /// of its nodes with it: at most as many as the map has.
    fn follow(&mut self, own: usize, x: &[f32; MOST_DIMS], sample: i64) {
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
        for i in from..until {
            let node = self.members[i] as usize;
            let mut half = 0.0;
            for (d, step) in step.iter().enumerate().take(self.dims) {
                let w = &mut self.planes[d * self.padded + node];
                *w += step;
                half += *w * *w;
            }
            self.halves[node] = 0.5 * half;
        }
    }

    pub(crate) fn moves(&self, now: i64) -> impl Iterator<Item = Moved> + '_ {
        let constant = self.samples_per_constant;
        self.units
            .iter()
            .filter(move |_| constant > 0.0)
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

/// The node with the largest x·w − ½‖w‖², of equals the lowest.
struct Nearest<'a> {
    planes: &'a [f32],
    halves: &'a [f32],
    padded: usize,
    x: &'a [f32],
}

impl WithSimd for Nearest<'_> {
    type Output = (usize, f32);

    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // by index over arrays of known length: these become vectors
    fn with_simd<S: Simd>(self, _: S) -> (usize, f32) {
        let mut best = [f32::NEG_INFINITY; LANES];
        let mut places = [0_u32; LANES];
        for chunk in 0..self.padded / LANES {
            let at = chunk * LANES;
            let mut scores = [0.0_f32; LANES];
            for l in 0..LANES {
                scores[l] = -self.halves[at..at + LANES][l];
            }
            for (d, &x) in self.x.iter().enumerate() {
                let weights = &self.planes[d * self.padded + at..][..LANES];
                for l in 0..LANES {
                    scores[l] += x * weights[l];
                }
            }
            for l in 0..LANES {
                let larger = scores[l] > best[l];
                best[l] = if larger { scores[l] } else { best[l] };
                places[l] = if larger { chunk as u32 } else { places[l] };
            }
        }
        let (mut place, mut score) = (0, f32::NEG_INFINITY);
        for l in 0..LANES {
            let at = places[l] as usize * LANES + l;
            if best[l] > score || (best[l] == score && at < place) {
                (place, score) = (at, best[l]);
            }
        }
        (place, score)
    }
}
