//! Places for nodes: linked ones near each other, all others apart. ForceAtlas2 (Jacomy, Venturini,
//! Heymann and Bastian 2014), its repulsion by the tree of Barnes and Hut (1986).
//!
//! Nodes i and j at a distance d push each other by k·mᵢ·mⱼ/d, m being a node's degree plus one; an
//! edge pulls by |w|·d; all are drawn to the middle by g·m. How far a node goes at a time falls with
//! its swinging, the change of its force.

use betz_base::{Error, Result, memory};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::Graph;

/// k: how much nodes push each other.
const REPULSION: f32 = 10.0;
/// g: how much nodes are drawn to the middle.
const GRAVITY: f32 = 1.0;
/// A cell acts as one where it is narrower than this share of its distance.
const OPENING: f32 = 1.2;
/// Nodes of a leaf at most.
const LEAF: usize = 8;
/// Bits of a coordinate in the order of nodes.
const BITS: u32 = 16;
/// Nodes that a thread takes at a time.
const CHUNK: usize = 512;

/// Nodes on their way to their places.
///
/// ```
/// use betz_network::graph::{Graph, layout::Layout};
///
/// // Two triangles with one edge between them.
/// let edges = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)];
/// let graph = Graph::new(6, edges.map(|(i, j)| (i, j, 1.0)))?;
/// let mut layout = Layout::new(&graph, 1, None)?;
/// for _ in 0..200 {
///     layout.step(&graph);
/// }
/// let apart = |i: usize, j: usize| {
///     let (a, b) = (layout.places()[i], layout.places()[j]);
///     (a[0] - b[0]).hypot(a[1] - b[1])
/// };
/// assert!(apart(0, 1) < apart(0, 4));
/// # Ok::<(), betz_network::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Layout {
    places: Vec<[f32; 2]>,
    forces: Vec<[f32; 2]>,
    mass: Vec<f32>,
    speed: f32,
    efficiency: f32,
    /// (order along the curve, node).
    order: Vec<u64>,
    /// (x, y, mass) of the nodes in that order.
    sorted: Vec<[f32; 3]>,
    cells: Vec<Cell>,
    next: Vec<[f32; 2]>,
}

/// A square of the plane with nodes in it; its own cells follow it, up to `skip`.
#[derive(Debug, Clone, Copy)]
struct Cell {
    x: f32,
    y: f32,
    mass: f32,
    width: f32,
    skip: u32,
    first: u32,
    /// 0: not a leaf.
    count: u32,
}

impl Layout {
    /// Places the nodes of `graph` at random with `seed`, or at those of `start` (the window before, for
    /// example); places that are not finite are drawn. Allocates about 80 bytes per node.
    ///
    /// # Errors
    /// [`Mismatch`](betz_base::ErrorKind::Mismatch) for a start of another number of nodes;
    /// [`OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
    pub fn new(graph: &Graph, seed: u64, start: Option<&[[f32; 2]]>) -> Result<Self> {
        let nodes = graph.nodes();
        if let Some(start) = start.filter(|s| s.len() != nodes) {
            return Err(Error::mismatch(format!(
                "start: expected a place for each of {nodes} nodes, got {}",
                start.len()
            )));
        }
        memory::plan("places of nodes", nodes as u128 * 80)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let wide = 10.0 * (nodes as f32).sqrt();
        let mut places: Vec<[f32; 2]> = (0..nodes)
            .map(|_| {
                let (angle, far): (f32, f32) = (rng.random(), rng.random());
                let (sin, cos) = (angle * std::f32::consts::TAU).sin_cos();
                [wide * far.sqrt() * cos, wide * far.sqrt() * sin]
            })
            .collect();
        for (place, given) in places.iter_mut().zip(start.unwrap_or(&[])) {
            if given.iter().all(|v| v.is_finite() && v.abs() < 1e9) {
                // Nodes at one place push each other nowhere: a little of what was drawn parts them.
                let part = |k: usize| given[k] + place[k] * 1e-4;
                *place = [part(0), part(1)];
            }
        }
        Ok(Self {
            forces: vec![[0.0; 2]; nodes],
            next: vec![[0.0; 2]; nodes],
            mass: (0..nodes)
                .map(|n| graph.neighbours(n).len() as f32 + 1.0)
                .collect(),
            speed: 1.0,
            efficiency: 1.0,
            order: Vec::with_capacity(nodes),
            sorted: Vec::with_capacity(nodes),
            cells: Vec::new(),
            places,
        })
    }

    /// (x, y) of every node.
    pub fn places(&self) -> &[[f32; 2]] {
        &self.places
    }

    /// Moves all nodes of `graph`, the one that it was made for, once. The same for any number of threads.
    /// Allocates nothing once the tree has its size.
    pub fn step(&mut self, graph: &Graph) {
        if self.places.is_empty() || graph.nodes() != self.places.len() {
            return;
        }
        self.plant();
        let (places, mass) = (&self.places, &self.mass);
        let (cells, sorted, order) = (&self.cells, &self.sorted, &self.order);
        // In the order of the tree: neighbours walk the same cells.
        (self.next.par_chunks_mut(CHUNK).zip(order.par_chunks(CHUNK))).for_each(|(next, order)| {
            for (force, key) in next.iter_mut().zip(order) {
                let node = (key & 0xffff_ffff) as usize;
                let [x, y] = places[node];
                let mut sum = repulsion(cells, sorted, x, y);
                let m = mass[node];
                sum[0] *= REPULSION * m;
                sum[1] *= REPULSION * m;
                for (&n, &w) in graph.neighbours(node).iter().zip(graph.weights(node)) {
                    let [a, b] = places[n as usize];
                    sum[0] += (a - x) * w.abs();
                    sum[1] += (b - y) * w.abs();
                }
                let far = (x * x + y * y).sqrt().max(1e-6);
                sum[0] -= GRAVITY * m * x / far;
                sum[1] -= GRAVITY * m * y / far;
                *force = sum;
            }
        });
        self.move_nodes();
    }

    /// Nodes along a curve that fills the plane, and the tree over them.
    fn plant(&mut self) {
        let (mut low, mut high) = ([f32::INFINITY; 2], [f32::NEG_INFINITY; 2]);
        for place in &self.places {
            for k in 0..2 {
                low[k] = low[k].min(place[k]);
                high[k] = high[k].max(place[k]);
            }
        }
        let width = (high[0] - low[0]).max(high[1] - low[1]).max(1e-3);
        let scale = f32::from(u16::MAX) / width;
        let along = |v: f32, from: f32| spread(((v - from) * scale) as u16);
        self.order.clear();
        (self.order).extend(
            self.places
                .iter()
                .enumerate()
                .map(|(n, p)| (along(p[0], low[0]) | along(p[1], low[1]) << 1) << 32 | n as u64),
        );
        self.order.sort_unstable();
        self.sorted.clear();
        (self.sorted).extend(self.order.iter().map(|key| {
            let node = (key & 0xffff_ffff) as usize;
            let [x, y] = self.places[node];
            [x, y, self.mass[node]]
        }));
        self.cells.clear();
        let all = (0, self.order.len());
        grow(&mut self.cells, &self.order, &self.sorted, all, width, BITS);
    }

    /// Moves the nodes along their forces.
    fn move_nodes(&mut self) {
        let (mut swinging, mut pulling) = (0.0_f64, 0.0_f64);
        for (key, new) in self.order.iter().zip(&self.next) {
            let node = (key & 0xffff_ffff) as usize;
            let old = self.forces[node];
            let m = f64::from(self.mass[node]);
            swinging += m * f64::from((new[0] - old[0]).hypot(new[1] - old[1]));
            pulling += m * f64::from((new[0] + old[0]).hypot(new[1] + old[1])) / 2.0;
        }
        let (swinging, pulling) = (swinging.max(1e-9) as f32, pulling.max(1e-9) as f32);
        let nodes = self.places.len() as f32;
        // As the authors' own program has it.
        let optimal = 0.05 * nodes.sqrt();
        let mut tolerance = (optimal * pulling / (nodes * nodes))
            .min(10.0)
            .max(optimal.sqrt());
        if swinging / pulling > 2.0 {
            if self.efficiency > 0.05 {
                self.efficiency *= 0.5;
            }
            tolerance = tolerance.max(1.0);
        }
        let target = tolerance * self.efficiency * pulling / swinging;
        if swinging > tolerance * pulling {
            if self.efficiency > 0.05 {
                self.efficiency *= 0.7;
            }
        } else if self.speed < 1000.0 {
            self.efficiency *= 1.3;
        }
        self.speed += (target - self.speed).min(0.5 * self.speed);
        for (key, new) in self.order.iter().zip(&self.next) {
            let node = (key & 0xffff_ffff) as usize;
            let old = self.forces[node];
            let swing = self.mass[node] * (new[0] - old[0]).hypot(new[1] - old[1]);
            let by = self.speed / (1.0 + (self.speed * swing).sqrt());
            let place = &mut self.places[node];
            for k in 0..2 {
                let to = place[k] + new[k] * by;
                if to.is_finite() {
                    place[k] = to.clamp(-1e9, 1e9);
                }
            }
            self.forces[node] = *new;
        }
    }
}

/// The 16 bits of `v`, one at every second place.
fn spread(v: u16) -> u64 {
    let mut v = u64::from(v);
    for (by, mask) in [
        (8, 0x00ff_00ff),
        (4, 0x0f0f_0f0f),
        (2, 0x3333_3333),
        (1, 0x5555_5555),
    ] {
        v = (v | v << by) & mask;
    }
    v
}

/// Adds the cell of the nodes `from..to` of the order, and those in it.
fn grow(
    cells: &mut Vec<Cell>,
    order: &[u64],
    sorted: &[[f32; 3]],
    (from, to): (usize, usize),
    width: f32,
    bits: u32,
) {
    let at = cells.len();
    let leaf = to - from <= LEAF || bits == 0;
    cells.push(Cell {
        x: 0.0,
        y: 0.0,
        mass: 0.0,
        width,
        skip: 0,
        first: from as u32,
        count: if leaf { (to - from) as u32 } else { 0 },
    });
    if !leaf {
        let digit = |key: &u64| (key >> 32 >> (2 * (bits - 1))) & 3;
        let mut begin = from;
        for quarter in 0..4 {
            let end = begin + order[begin..to].partition_point(|key| digit(key) <= quarter);
            if end > begin {
                grow(cells, order, sorted, (begin, end), width / 2.0, bits - 1);
            }
            begin = end;
        }
    }
    let (mut x, mut y, mut mass) = (0.0, 0.0, 0.0);
    for [a, b, m] in &sorted[from..to] {
        x += a * m;
        y += b * m;
        mass += m;
    }
    let skip = cells.len() as u32;
    let cell = &mut cells[at];
    (cell.x, cell.y, cell.mass, cell.skip) = (x / mass, y / mass, mass, skip);
}

/// Σ m·(p − q)/|p − q|² over all nodes q, those of distant cells as one.
#[inline]
fn repulsion(cells: &[Cell], sorted: &[[f32; 3]], x: f32, y: f32) -> [f32; 2] {
    let mut sum = [0.0_f32; 2];
    let mut at = 0;
    while let Some(cell) = cells.get(at) {
        let (dx, dy) = (x - cell.x, y - cell.y);
        let d2 = dx * dx + dy * dy;
        if cell.width * cell.width < OPENING * OPENING * d2 {
            let by = cell.mass / d2;
            sum[0] += dx * by;
            sum[1] += dy * by;
            at = cell.skip as usize;
        } else if cell.count > 0 {
            let first = cell.first as usize;
            for [a, b, m] in &sorted[first..first + cell.count as usize] {
                let (dx, dy) = (x - a, y - b);
                let d2 = dx * dx + dy * dy;
                // Itself, and what lies at its place, does not push it.
                let by = if d2 > 0.0 { m / d2.max(1e-6) } else { 0.0 };
                sum[0] += dx * by;
                sum[1] += dy * by;
            }
            at = cell.skip as usize;
        } else {
            at += 1;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(nodes: usize, groups: usize, edges: usize, seed: u64) -> Graph {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut all = std::collections::BTreeMap::new();
        while all.len() < edges {
            let a = rng.random_range(0..nodes);
            let b = match rng.random_range(0..20) {
                0 => rng.random_range(0..nodes),
                _ => rng.random_range(0..nodes / groups) * groups + a % groups,
            };
            if a != b {
                all.insert(
                    (a.min(b) as u32, a.max(b) as u32),
                    rng.random_range(0.3..1.0),
                );
            }
        }
        Graph::new(nodes, all.into_iter().map(|((i, j), w)| (i, j, w))).unwrap()
    }

    #[test]
    fn the_tree_pushes_as_all_nodes_do() {
        let graph = groups(600, 6, 2_000, 3);
        let mut layout = Layout::new(&graph, 5, None).unwrap();
        for _ in 0..5 {
            layout.step(&graph);
        }
        layout.plant();
        let (mut off, mut whole) = (0.0, 0.0);
        for &[x, y] in &layout.places {
            let near = repulsion(&layout.cells, &layout.sorted, x, y);
            let (mut exact, mut seen) = ([0.0_f64; 2], 0);
            for (place, m) in layout.places.iter().zip(&layout.mass) {
                let (dx, dy) = (f64::from(x - place[0]), f64::from(y - place[1]));
                let d2 = dx * dx + dy * dy;
                if d2 > 0.0 {
                    exact[0] += dx * f64::from(*m) / d2;
                    exact[1] += dy * f64::from(*m) / d2;
                    seen += 1;
                }
            }
            assert_eq!(seen, 599);
            off += (f64::from(near[0]) - exact[0]).hypot(f64::from(near[1]) - exact[1]);
            whole += exact[0].hypot(exact[1]);
        }
        assert!(off / whole < 0.05, "{}", off / whole);
        let root = layout.cells[0];
        let mass: f32 = layout.mass.iter().sum();
        assert!((root.mass - mass).abs() < 1e-3 * mass && root.skip as usize == layout.cells.len());
    }

    #[test]
    fn groups_come_together_and_the_same_for_any_threads() {
        let graph = groups(240, 4, 1_200, 9);
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| {
                let mut layout = Layout::new(&graph, 2, None).unwrap();
                for _ in 0..150 {
                    layout.step(&graph);
                }
                layout.places
            })
        };
        let places = run(1);
        assert_eq!(places, run(3));
        let (mut inside, mut between) = ((0.0, 0), (0.0, 0));
        for i in 0..240 {
            for j in 0..i {
                let d = (places[i][0] - places[j][0]).hypot(places[i][1] - places[j][1]);
                let sum = if i % 4 == j % 4 {
                    &mut inside
                } else {
                    &mut between
                };
                sum.0 += d;
                sum.1 += 1;
            }
        }
        let (inside, between) = (inside.0 / inside.1 as f32, between.0 / between.1 as f32);
        assert!(inside < 0.7 * between, "{inside} against {between}");
    }

    #[test]
    fn hostile_starts_are_places_too() {
        let graph = Graph::new(40, [(0, 1, -0.5), (2, 3, 1.0)]).unwrap();
        let start: Vec<[f32; 2]> = (0..40)
            .map(|n| match n % 4 {
                0 => [f32::NAN, 1.0],
                1 => [f32::INFINITY, 0.0],
                _ => [7.0, 7.0],
            })
            .collect();
        let mut layout = Layout::new(&graph, 1, Some(&start)).unwrap();
        for _ in 0..50 {
            layout.step(&graph);
        }
        assert!(layout.places().iter().flatten().all(|v| v.is_finite()));
        assert!(Layout::new(&graph, 1, Some(&start[1..])).is_err());
        let none = Graph::new(0, []).unwrap();
        Layout::new(&none, 1, None).unwrap().step(&none);
        let one = Graph::new(1, []).unwrap();
        let mut alone = Layout::new(&one, 1, None).unwrap();
        alone.step(&one);
        assert!(alone.places()[0].iter().all(|v| v.is_finite()));
    }
}
