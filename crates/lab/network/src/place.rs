//! Nodes at places that change: near each other for a time.

use std::collections::HashMap;

use betz_base::{Error, Result};
use rayon::prelude::*;

use crate::oracle::{self, UndefinedReason, reaches};
use crate::scan::{self, ExactWindow, Keep};
use crate::signal::Signal;
use crate::spec::{Measure, NetworkSpec, Threshold};
use crate::window::Chunk;

/// Most nodes of which all pairs are computed, for thresholds that say how many edges there are.
pub(crate) const MOST_NODES: usize = 4096;

/// Refuses places for measures of signals, signals for the measure of places, and places that are none.
pub(crate) fn check(spec: &NetworkSpec, signal: &Signal<'_>) -> Result<()> {
    let axes = signal.axes();
    let Measure::Distance { earth, .. } = spec.measure else {
        return match axes {
            1 => Ok(()),
            _ => Err(Error::argument(format!(
                "{}: expected one value per node and sample, got places of {axes} axes; their measure is distance",
                spec.measure.name()
            ))),
        };
    };
    if axes == 1 {
        return Err(Error::argument(
            "distance: expected places, (samples, nodes, 2 or 3), got one value per node; the distance of signals is euclidean",
        ));
    }
    if !matches!(spec.threshold, Threshold::Absolute(_)) {
        scan::at_most(signal.nodes(), MOST_NODES, "nearest pairs by distance")?;
    }
    if !earth {
        return Ok(());
    }
    if axes != 2 {
        return Err(Error::argument(format!(
            "places on the earth: expected latitude and longitude, got {axes} axes"
        )));
    }
    for t in 0..signal.samples() {
        for node in 0..signal.nodes() {
            if let Some([latitude, ..]) = signal.place(t, node)
                && latitude.abs() > 90.0
            {
                return Err(Error::argument(format!(
                    "latitude: expected -90 to 90 degrees, got {latitude} for node {node} at sample {t}; latitude comes first"
                )));
            }
        }
    }
    Ok(())
}

/// The measure's options, in samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nearness {
    pub(crate) near: usize,
    pub(crate) gap: usize,
    pub(crate) earth: bool,
}

/// Rounding of places on a sphere, in metres, with room to spare.
const ROUNDING: f64 = 1e-3;

impl Nearness {
    /// All pairs of window `q` that may be kept, with their distances, and the nodes that have no place in it.
    pub(crate) fn window(
        &self,
        signal: &Signal<'_>,
        chunk: &Chunk,
        q: usize,
        keep: Keep,
    ) -> ExactWindow {
        let nodes = signal.nodes();
        let of = (chunk.start_of(q), chunk.window.length);
        let pairs = match keep {
            Keep::Reaching { threshold, .. } => self.near_pairs(signal, of, -threshold),
            _ => (0..nodes as u32)
                .flat_map(|i| (i + 1..nodes as u32).map(move |j| (i, j)))
                .collect(),
        };
        (
            self.decide(signal, of, keep, &pairs),
            self.missing(signal, of),
        )
    }

    /// Nodes without a place in the window of `w` samples from `start`.
    pub(crate) fn missing(
        &self,
        signal: &Signal<'_>,
        (start, w): (usize, usize),
    ) -> Vec<(u32, UndefinedReason)> {
        let missing = |node: usize| (start..start + w).all(|t| signal.place(t, node).is_none());
        (0..signal.nodes())
            .filter(|node| missing(*node))
            .map(|node| (node as u32, UndefinedReason::NonFinite))
            .collect()
    }

    /// Decides which of some pairs the window of `w` samples from `start` keeps, and their distances.
    pub(crate) fn decide(
        &self,
        signal: &Signal<'_>,
        (start, w): (usize, usize),
        keep: Keep,
        pairs: &[(u32, u32)],
    ) -> Vec<(u32, u32, f64)> {
        let mut distances = Vec::with_capacity(w);
        let found = pairs.iter().filter_map(|&(i, j)| {
            distances.clear();
            distances.extend((start..start + w).map(|t| self.distance(signal, t, (i, j))));
            let kept = match keep {
                Keep::Reaching { threshold, .. } => {
                    lasts(&distances, -threshold, self.near, self.gap)
                }
                _ => true,
            };
            let value = kept.then(|| least_lasting(&distances, self.near, self.gap))??;
            Some((i, j, value))
        });
        found.collect()
    }

    /// The places of the window of `w` samples from `start` as they are compared, (instant, axis, node): in space, NaN for
    /// those that are not known.
    pub(crate) fn points(&self, signal: &Signal<'_>, (start, w): (usize, usize)) -> Vec<f64> {
        let nodes = signal.nodes();
        let mut points = vec![f64::NAN; w * 3 * nodes];
        (points.par_chunks_mut((3 * nodes).max(1)).enumerate()).for_each(|(t, points)| {
            for node in 0..nodes {
                if let Some(place) = signal.place(start + t, node) {
                    let point = if self.earth {
                        oracle::on_sphere(place)
                    } else {
                        place
                    };
                    for (axis, value) in point.into_iter().enumerate() {
                        points[axis * nodes + node] = value;
                    }
                }
            }
        });
        points
    }

    /// The square of a distance between [`points`](Self::points) that those within `most` of each other do not exceed.
    pub(crate) fn most_squares(&self, most: f64) -> f64 {
        let most = if self.earth {
            oracle::chord(most) + ROUNDING
        } else {
            most
        };
        most * most * (1.0 + 1e-9) + 1e-18
    }

    /// The distance of two nodes at an instant; infinite if one of them has no place.
    fn distance(&self, signal: &Signal<'_>, t: usize, (i, j): (u32, u32)) -> f64 {
        match (signal.place(t, i as usize), signal.place(t, j as usize)) {
            (Some(a), Some(b)) => oracle::place_distance(a, b, self.earth),
            _ => f64::INFINITY,
        }
    }

    /// Pairs that are within `most` of each other at some instant of the window at which every pair is that is near for
    /// long enough; ascending.
    fn near_pairs(
        &self,
        signal: &Signal<'_>,
        (start, w): (usize, usize),
        most: f64,
    ) -> Vec<(u32, u32)> {
        // Of gap + 1 instants one after the other, at least one is near. So many lie within `near` instants anywhere if
        // they begin every near − gap.
        let stride = self.near - self.gap;
        let mut pairs = Vec::new();
        let mut grid = Grid::new(most, self.earth);
        for t in 0..w {
            if t % stride <= self.gap {
                grid.pairs(signal, start + t, &mut pairs);
            }
            if pairs.len() > 1 << 22 {
                pairs.sort_unstable();
                pairs.dedup();
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }
}

/// Cells of the threshold's size: near nodes are in the same or in neighbouring ones.
struct Grid {
    most: f64,
    earth: bool,
    points: Vec<([f64; 3], u32)>,
    cells: HashMap<[i64; 3], Vec<u32>>,
}

impl Grid {
    fn new(most: f64, earth: bool) -> Self {
        // On the sphere, places are compared by the chord between them.
        let most = if earth {
            oracle::chord(most) + ROUNDING
        } else {
            most
        };
        Self {
            most,
            earth,
            points: Vec::new(),
            cells: HashMap::new(),
        }
    }

    /// Appends the pairs i < j that are near at instant `t`.
    fn pairs(&mut self, signal: &Signal<'_>, t: usize, pairs: &mut Vec<(u32, u32)>) {
        self.points.clear();
        let mut extent = 0.0_f64;
        for node in 0..signal.nodes() {
            if let Some(place) = signal.place(t, node) {
                let point = if self.earth {
                    oracle::on_sphere(place)
                } else {
                    place
                };
                extent = point.iter().fold(extent, |most, v| most.max(v.abs()));
                self.points.push((point, node as u32));
            }
        }
        // Cells are counted in numbers that f64 holds.
        let size = self.most.max(extent * 1e-9).max(f64::MIN_POSITIVE);
        let cell = |point: &[f64; 3]| point.map(|v| (v / size).floor() as i64);
        self.cells.clear();
        for (at, (point, _)) in self.points.iter().enumerate() {
            self.cells.entry(cell(point)).or_default().push(at as u32);
        }
        for (point, i) in &self.points {
            let [x, y, z] = cell(point);
            for neighbour in 0..27 {
                let by = [neighbour % 3 - 1, neighbour / 3 % 3 - 1, neighbour / 9 - 1];
                let key = [x + by[0], y + by[1], z + by[2]];
                for at in self.cells.get(&key).into_iter().flatten() {
                    let (other, j) = &self.points[*at as usize];
                    let apart = oracle::place_distance(*point, *other, false);
                    if j > i && reaches(-apart, -self.most, false) {
                        pairs.push((*i, *j));
                    }
                }
            }
        }
    }
}

/// True if distances do not exceed `most` for `near` instants in a row, with up to `gap` between them that do.
fn lasts(distances: &[f64], most: f64, near: usize, gap: usize) -> bool {
    let mut run: Option<(usize, usize)> = None;
    for (t, distance) in distances.iter().enumerate() {
        if !reaches(-distance, -most, false) {
            continue;
        }
        let begin = match run {
            Some((begin, last)) if t - last - 1 <= gap => begin,
            _ => t,
        };
        if t + 1 - begin >= near {
            return true;
        }
        run = Some((begin, t));
    }
    false
}

/// The least distance that is not exceeded for long enough; `None` if there is none.
pub(crate) fn least_lasting(distances: &[f64], near: usize, gap: usize) -> Option<f64> {
    let mut sorted: Vec<f64> = distances
        .iter()
        .copied()
        .filter(|d| d.is_finite())
        .collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = sorted.partition_point(|most| !lasts(distances, *most, near, gap));
    sorted.get(at).copied()
}

/// The windows of a chunk, each by itself, on rayon's current pool.
pub(crate) fn windows(
    nearness: Nearness,
    signal: &Signal<'_>,
    chunk: &Chunk,
    keep: Keep,
) -> Vec<ExactWindow> {
    (0..chunk.windows)
        .into_par_iter()
        .map(|q| nearness.window(signal, chunk, q, keep))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Measure, Network, NetworkSpec, Plan, Threshold, Window};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Animals that wander about a field, at times out of sight: (samples, nodes, 2).
    fn wander(nodes: usize, samples: usize, seed: u64) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut places: Vec<f64> = (0..2 * nodes)
            .map(|_| rng.random_range(0.0..40.0))
            .collect();
        let mut out = Vec::new();
        for _ in 0..samples {
            for node in 0..nodes {
                let lost = rng.random_bool(0.05);
                for axis in 0..2 {
                    let at = &mut places[2 * node + axis];
                    *at = (*at + rng.random_range(-1.5..1.5)).clamp(0.0, 40.0);
                    out.push(if lost { f64::NAN } else { *at });
                }
            }
        }
        out
    }

    /// By the definition: for every distance in turn, whether some stretch of `near` instants has no hole above `gap`.
    fn by_definition(distances: &[f64], near: usize, gap: usize) -> Option<f64> {
        let mut best: Option<f64> = None;
        for most in distances.iter().filter(|d| d.is_finite()) {
            let below: Vec<usize> = (0..distances.len())
                .filter(|t| distances[*t] <= *most)
                .collect();
            let long = (0..below.len()).any(|a| {
                (a..below.len()).any(|b| {
                    let whole = below[a..=b]
                        .windows(2)
                        .all(|pair| pair[1] - pair[0] <= gap + 1);
                    whole && below[b] - below[a] + 1 >= near
                })
            });
            if long && best.is_none_or(|best| *most < best) {
                best = Some(*most);
            }
        }
        best
    }

    fn edges(network: &Network) -> Vec<Vec<(u32, u32, f32)>> {
        network.windows().map(|w| w.edges().collect()).collect()
    }

    #[test]
    fn edges_are_those_of_the_definition() {
        let samples = wander(30, 60, 1);
        let signal = Signal::places(&samples, 30, 2).unwrap();
        let mut found = 0;
        for (near, gap) in [(1, 0), (6, 0), (6, 2), (20, 0), (20, 19), (9, 8)] {
            let measure = Measure::Distance {
                near,
                gap,
                earth: false,
            };
            let spec = NetworkSpec::new(measure, Window::new(20, 7));
            let all: Vec<Vec<(u32, u32, f32)>> = (0..6)
                .map(|k| {
                    let pairs = (0..30_u32).flat_map(|i| (i + 1..30).map(move |j| (i, j)));
                    let value = |(i, j): (u32, u32)| {
                        let apart = |t: usize| {
                            let at = |n: u32| &samples[2 * (t * 30 + n as usize)..][..2];
                            (at(i)[0] - at(j)[0]).hypot(at(i)[1] - at(j)[1])
                        };
                        let distances: Vec<f64> = (7 * k..7 * k + 20).map(apart).collect();
                        Some((i, j, by_definition(&distances, near, gap)? as f32))
                    };
                    pairs.filter_map(value).collect()
                })
                .collect();
            for most in [0.0, 2.0, 6.0, 100.0] {
                let plan = Plan::new(&spec.threshold(Threshold::Absolute(most)), &signal).unwrap();
                let network = plan.run(&signal, &()).unwrap();
                let expected: Vec<Vec<_>> = (all.iter())
                    .map(|all| {
                        all.iter()
                            .copied()
                            .filter(|e| f64::from(e.2) <= most)
                            .collect()
                    })
                    .collect();
                assert_eq!(edges(&network), expected, "{near} {gap} {most}");
                found += network.edges();
            }
            let plan = Plan::new(&spec.threshold(Threshold::Top(5)), &signal).unwrap();
            for (window, all) in plan.run(&signal, &()).unwrap().windows().zip(&all) {
                let mut nearest = all.clone();
                nearest.sort_by(|a, b| a.2.total_cmp(&b.2).then((a.0, a.1).cmp(&(b.0, b.1))));
                nearest.truncate(5);
                nearest.sort_by_key(|e| (e.0, e.1));
                assert_eq!(window.edges().collect::<Vec<_>>(), nearest);
            }
        }
        assert!(found > 100);
    }

    #[test]
    fn places_on_the_earth_are_near_across_the_date_line_and_the_pole() {
        // Pairs: over the date line, about the north pole, a known distance (Paris to London, 343.5 km), alone.
        let places = [
            [0.0, 179.9995],
            [0.0, -179.9995],
            [89.9999, 0.0],
            [89.9999, 180.0],
            [48.8566, 2.3522],
            [51.5074, -0.1278],
            [-30.0, 60.0],
        ];
        let samples: Vec<f64> = (0..3).flat_map(|_| places.into_iter().flatten()).collect();
        let signal = Signal::places(&samples, 7, 2).unwrap();
        let measure = Measure::Distance {
            near: 3,
            gap: 0,
            earth: true,
        };
        let run = |most: f64| {
            let spec =
                NetworkSpec::new(measure, Window::new(3, 1)).threshold(Threshold::Absolute(most));
            Plan::new(&spec, &signal)
                .unwrap()
                .run(&signal, &())
                .unwrap()
        };
        let near = run(112.0);
        assert_eq!((near.i(), near.j()), (&[0, 2][..], &[1, 3][..]));
        assert!((near.r()[0] - 111.19).abs() < 0.05 && (near.r()[1] - 22.24).abs() < 0.05);
        let far = run(350_000.0);
        assert!((far.r()[2] - 343_556.0).abs() < 200.0, "{:?}", far.r());
        let bad = [91.0, 0.0, 0.0, 0.0, 91.0, 0.0, 0.0, 0.0];
        let signal = Signal::places(&bad[..], 2, 2).unwrap();
        let spec = NetworkSpec::new(
            Measure::Distance {
                near: 1,
                gap: 0,
                earth: true,
            },
            Window::new(2, 1),
        );
        let error = Plan::new(&spec, &signal).unwrap_err();
        assert!(
            error.message().contains("latitude") && error.message().contains("91"),
            "{error}"
        );
    }

    #[test]
    fn places_and_signals_are_not_taken_for_each_other() {
        let samples = wander(6, 30, 2);
        let (places, values) = (
            Signal::places(&samples, 6, 2).unwrap(),
            Signal::new(&samples, 12).unwrap(),
        );
        let near = NetworkSpec::new(
            Measure::Distance {
                near: 5,
                gap: 0,
                earth: false,
            },
            Window::new(10, 1),
        );
        for (spec, signal, expected) in [
            (near, &values, "euclidean"),
            (
                NetworkSpec::pearson(Window::new(10, 1)),
                &places,
                "distance",
            ),
        ] {
            let error = Plan::new(&spec, signal).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
        }
        for (near, gap, expected) in [(0, 0, "near"), (11, 0, "near"), (5, 5, "gap")] {
            let measure = Measure::Distance {
                near,
                gap,
                earth: false,
            };
            let spec = NetworkSpec::new(measure, Window::new(10, 1));
            let error = Plan::new(&spec, &places).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
        }
        assert!(Signal::places(&samples, 6, 4).is_err() && Signal::places(&samples, 7, 2).is_err());
    }
}
