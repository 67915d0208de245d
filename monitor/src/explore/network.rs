//! Networks to look at: number of edges at every threshold, strongest edges of a window, node positions and
//! communities.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use betz_base::error::{Error, Result};
use betz_base::{Progress, memory, progress};
use betz_network::graph::Graph;
use betz_network::graph::layout::Layout;
use betz_network::graph::leiden::Leiden;
use betz_network::graph::track::{Event, Matching, Tracker};
use betz_network::{Measure, Network, NetworkSpec, Plan, Signal, Threshold, Window};
use bytes::Bytes;
use serde_json::{Value, json};

use super::job::JobSender;
use crate::explore::recorded::DecodedRecording;
use crate::frame::{Kind, Section, Writer};
use betz_base::lock::lock;

/// Number of thresholds for which edges are counted.
pub(crate) const LEVELS: usize = 256;
/// Largest number of windows in a timeline.
const MOST_WINDOWS: usize = 50_000;
/// Largest number of edges in one answer.
pub(crate) const MOST_EDGES: usize = 2_000_000;
/// Largest number of edges for which pairs' peaks are computed; that takes about 40 bytes per edge.
const MOST_PEAKS: u64 = 100_000_000;
/// Interval between frames with node positions during a layout.
const TOLD_EVERY: Duration = Duration::from_millis(100);
/// Limit on bins × channels of a recording from which a network is computed.
const MOST_COUNTS: f64 = 4e9;
/// Largest number of edges of a network that is computed for a page.
const MOST_COMPUTED: u64 = 50_000_000;

/// A network over windows, to look at.
#[derive(Debug, Clone)]
pub struct NamedNetwork {
    /// Name to show, such as a file's name.
    pub name: String,
    /// Edges of all windows.
    pub network: Network,
    /// One name per node.
    pub names: Option<Vec<String>>,
    /// (nodes, axes), row by row, and the number of axes, 2 or 3; NaN where unknown.
    pub positions: Option<(Vec<f64>, usize)>,
    /// Start of each window, in seconds; `None` if unknown.
    pub window_seconds: Option<Vec<f64>>,
    /// False if the computation was stopped before the last window.
    pub complete: bool,
}

impl NamedNetwork {
    fn check(&self) -> Result<()> {
        let (nodes, windows) = (self.network.nodes(), self.network.len());
        let fits = |len: Option<usize>, wanted: usize| len.is_none_or(|len| len == wanted);
        let placed = self.positions.as_ref();
        if !fits(self.names.as_ref().map(Vec::len), nodes)
            || !fits(
                placed.map(|(v, _)| v.len()),
                nodes * placed.map_or(0, |p| p.1),
            )
            || !fits(self.window_seconds.as_ref().map(Vec::len), windows)
        {
            return Err(Error::mismatch(format!(
                "{}: expected names and positions for {nodes} nodes and times for {windows} windows, got others",
                self.name
            )));
        }
        Ok(())
    }
}

/// A network, and results that are cached for it.
pub(crate) struct NetworkView {
    given: NamedNetwork,
    /// Thresholds, ascending in strength.
    levels: Vec<f32>,
    /// True for each edge that has its pair's strongest value over all windows; computed on first use.
    peaks: OnceLock<Option<Vec<bool>>>,
    /// Node positions of the last layout; the next layout may start from them.
    places: Mutex<Option<Vec<[f32; 2]>>>,
    counts: Mutex<HashMap<bool, Bytes>>,
}

/// Selection of edges of one window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EdgeQuery {
    pub(crate) window: usize,
    /// Keep an edge only if its pair is at its strongest in this window.
    pub(crate) peak: bool,
    /// Smallest strength of an edge; `None`: all edges.
    pub(crate) least: Option<f32>,
}

impl NetworkView {
    /// # Errors
    /// `Mismatch` if the number of names, positions or times differs from the number of nodes or windows;
    /// `InvalidArgument` for more windows than a timeline can have.
    pub(crate) fn new(given: NamedNetwork) -> Result<Self> {
        given.check()?;
        if given.network.len() > MOST_WINDOWS {
            return Err(Error::argument(format!(
                "{}: expected at most {MOST_WINDOWS} windows, got {}; compute it with a longer --step",
                given.name,
                given.network.len()
            )));
        }
        let flip = distance(&given.network);
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        for &r in given.network.r() {
            let key = strength(flip, r);
            (low, high) = (low.min(key), high.max(key));
        }
        if !(low.is_finite() && high.is_finite()) {
            (low, high) = (0.0, 1.0);
        }
        let wide = f64::from(high) - f64::from(low);
        let mut levels: Vec<f32> = (0..LEVELS)
            .map(|b| (f64::from(low) + wide * b as f64 / (LEVELS - 1) as f64) as f32)
            .collect();
        levels[LEVELS - 1] = high;
        Ok(Self {
            given,
            levels,
            peaks: OnceLock::new(),
            places: Mutex::new(None),
            counts: Mutex::default(),
        })
    }

    /// True if both have the same name and the same network.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.given.name == other.given.name && self.given.network == other.given.network
    }

    /// The network under another name.
    pub(crate) fn given(&self, name: &str) -> NamedNetwork {
        NamedNetwork {
            name: name.to_owned(),
            ..self.given.clone()
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.given.name
    }

    pub(crate) fn windows(&self) -> usize {
        self.given.network.len()
    }

    /// Description of the network, as JSON.
    pub(crate) fn json(&self, id: usize) -> Value {
        let network = &self.given.network;
        let meta = network.meta();
        let window = meta.spec.window;
        let seconds = |samples: usize| meta.sample_seconds.map(|s| s * samples as f64);
        let positions = self.given.positions.as_ref().map(|(values, axes)| {
            let known = |p: &[f64]| p.iter().all(|v| v.is_finite()).then(|| p.to_vec());
            (values.chunks_exact((*axes).max(1)).map(known)).collect::<Vec<_>>()
        });
        let (constant, nonfinite) = network.undefined();
        json!({
            "id": id, "name": self.given.name, "nodes": network.nodes(), "windows": network.len(),
            "edges": network.edges(), "measure": meta.spec.measure.name(), "sign": meta.spec.sign.name(),
            "strict": meta.spec.strict, "distance": distance(network),
            "window": window.length, "step": window.step,
            "window_seconds": seconds(window.length), "step_seconds": seconds(window.step),
            "seconds": self.seconds(), "names": self.given.names, "positions": positions,
            "levels": self.levels, "undefined": [constant, nonfinite], "complete": self.given.complete,
            "peaks": network.edges() <= MOST_PEAKS, "device": meta.device,
        })
    }

    /// Start of each window in seconds; `None` if neither times nor the sample length are known.
    fn seconds(&self) -> Option<Vec<f64>> {
        let network = &self.given.network;
        self.given.window_seconds.clone().or_else(|| {
            let sample = network.meta().sample_seconds?;
            let starts = network.window_start().iter();
            Some(starts.map(|s| *s as f64 * sample).collect())
        })
    }

    /// u32 (windows, [`LEVELS`]): number of edges of each window that reach each level.
    ///
    /// # Errors
    /// `InvalidArgument` if peaks are asked for and the network has too many edges for them.
    pub(crate) fn timeline(&self, peak: bool) -> Result<Bytes> {
        if let Some(known) = lock(&self.counts).get(&peak) {
            return Ok(known.clone());
        }
        let peaks = self.peaks_if(peak)?;
        let network = &self.given.network;
        let flip = distance(network);
        let mut counts = vec![0_u32; network.len() * LEVELS];
        for (k, row) in counts.chunks_exact_mut(LEVELS).enumerate() {
            for e in self.span(k) {
                if peaks.is_none_or(|p| p[e]) {
                    let key = strength(flip, network.r()[e]);
                    let reached = self.levels.partition_point(|l| *l <= key);
                    row[reached.saturating_sub(1)] += 1;
                }
            }
            for b in (0..LEVELS - 1).rev() {
                row[b] += row[b + 1];
            }
        }
        let windows = network.len() as u32;
        let mut w = Writer::new(
            Kind::Network,
            0,
            LEVELS as u32,
            0,
            windows,
            counts.len() * 4,
        );
        w.u32(Section::COUNT, &counts);
        let bytes = w.finish();
        lock(&self.counts).insert(peak, bytes.clone());
        Ok(bytes)
    }

    /// Nodes and values of a window's strongest edges, at most `limit`, in descending order; ties keep the order of
    /// their nodes. The frame's first tick is the window, and `ticks` is the number of edges without the limit.
    ///
    /// # Errors
    /// `InvalidArgument` for a window that does not exist; the errors of [`timeline`](Self::timeline).
    pub(crate) fn edges(&self, asked: EdgeQuery, limit: usize) -> Result<Bytes> {
        let network = &self.given.network;
        let mut found = self.found(asked)?;
        let (flip, r) = (distance(network), network.r());
        let total = found.len() as u32;
        found.sort_by(|a, b| strength(flip, r[*b]).total_cmp(&strength(flip, r[*a])));
        found.truncate(limit.min(MOST_EDGES));
        let of = |all: &[u32]| found.iter().map(|e| all[*e]).collect::<Vec<u32>>();
        let (i, j) = (of(network.i()), of(network.j()));
        let values: Vec<f32> = found.iter().map(|e| r[*e]).collect();
        let window = asked.window as i64;
        let mut w = Writer::new(
            Kind::Network,
            0,
            network.nodes() as u32,
            window,
            total,
            i.len() * 12 + 64,
        );
        w.u32(Section::NODE_I, &i)
            .u32(Section::NODE_J, &j)
            .f32(Section::VALUE, &values);
        let left_out = network
            .window(asked.window)
            .map_or(&[][..], |w| w.undefined);
        w.u32(Section::UNDEFINED, left_out);
        Ok(w.finish())
    }

    /// Computes a layout of a window and sends node positions every 100 ms and at the end, as [`Kind::Layout`]. The
    /// frame's first tick is the number of steps done, and `ticks` is the number of steps to do.
    pub(crate) fn layout(
        &self,
        asked: EdgeQuery,
        steps: u32,
        seed: u64,
        warm: bool,
        tell: &JobSender,
    ) -> Result<()> {
        let graph = self.graph(asked)?;
        let start = if warm {
            lock(&self.places).clone()
        } else {
            None
        };
        let mut layout = Layout::new(&graph, seed, start.as_deref())?;
        let send = |done: u32, places: &[[f32; 2]]| {
            let room = places.len() * 8 + 16;
            let mut w = Writer::new(
                Kind::Layout,
                0,
                places.len() as u32,
                i64::from(done),
                steps,
                room,
            );
            w.f32(Section::PLACE, places.as_flattened());
            tell.send(w.finish())
        };
        let mut told = Instant::now();
        for done in 1..=steps {
            progress::check(tell, "layout")?;
            layout.step(&graph);
            if done == steps || told.elapsed() >= TOLD_EVERY {
                told = Instant::now();
                if !send(done, layout.places()) {
                    break;
                }
            }
        }
        *lock(&self.places) = Some(layout.places().to_vec());
        Ok(())
    }

    /// Computes the communities of the windows `from..to`, each starting from those of the window before, and follows
    /// them over time. Sends one [`Kind::Job`] frame per window: the first tick is the window, and events report
    /// changes.
    pub(crate) fn communities(
        &self,
        (from, to): (usize, usize),
        least: Option<f32>,
        seed: u64,
        tell: &JobSender,
    ) -> Result<()> {
        let nodes = self.given.network.nodes();
        let to = to.min(self.given.network.len());
        let leiden = Leiden {
            seed,
            ..Leiden::default()
        };
        let mut tracker = Tracker::new(nodes, Matching::default());
        let mut before: Option<Vec<u32>> = None;
        for window in from..to {
            progress::check(tell, "communities")?;
            let asked = EdgeQuery {
                window,
                peak: false,
                least,
            };
            let found = leiden.run(&self.graph(asked)?, before.as_deref())?;
            let events = tracker.next(&found.communities)?;
            let all = to - from;
            let mut w = Writer::new(
                Kind::Job,
                0,
                nodes as u32,
                window as i64,
                all as u32,
                nodes * 4 + 256,
            );
            w.u32(Section::COMMUNITY, tracker.identities());
            let events: Vec<Value> = events.iter().map(told).collect();
            let words = json!({"quality": found.quality, "events": events}).to_string();
            w.bytes(Section::EVENT, words.as_bytes());
            if !tell.send(w.finish()) {
                break;
            }
            before = Some(found.communities);
        }
        Ok(())
    }

    fn graph(&self, asked: EdgeQuery) -> Result<Graph> {
        let network = &self.given.network;
        let flip = distance(network);
        let (i, j, r) = (network.i(), network.j(), network.r());
        // A small distance is a strong link.
        let weight = |r: f32| if flip { 1.0 / (1.0 + r) } else { r };
        let found = self.found(asked)?;
        Graph::new(
            network.nodes(),
            found.into_iter().map(|e| (i[e], j[e], weight(r[e]))),
        )
    }

    /// Indices of the selected edges, in the order of their nodes.
    fn found(&self, asked: EdgeQuery) -> Result<Vec<usize>> {
        let network = &self.given.network;
        if asked.window >= network.len() {
            return Err(Error::argument(format!(
                "window: expected one below {}, got {}",
                network.len(),
                asked.window
            )));
        }
        let peaks = self.peaks_if(asked.peak)?;
        let flip = distance(network);
        let least = asked.least.unwrap_or(f32::NEG_INFINITY);
        let meant =
            |e: &usize| strength(flip, network.r()[*e]) >= least && peaks.is_none_or(|p| p[*e]);
        Ok(self.span(asked.window).filter(meant).collect())
    }

    fn span(&self, k: usize) -> std::ops::Range<usize> {
        let indptr = self.given.network.indptr();
        match (indptr.get(k), indptr.get(k + 1)) {
            (Some(a), Some(b)) => *a as usize..*b as usize,
            _ => 0..0,
        }
    }

    fn peaks_if(&self, peak: bool) -> Result<Option<&[bool]>> {
        if !peak {
            return Ok(None);
        }
        let network = &self.given.network;
        if self.peaks.get().is_none() {
            memory::plan("edges at their peak", u128::from(network.edges()) * 40)?;
        }
        let found = self.peaks.get_or_init(|| {
            (network.edges() <= MOST_PEAKS).then(|| {
                let flip = distance(network);
                let mut best: HashMap<u64, usize> = HashMap::new();
                for e in 0..network.r().len() {
                    let pair = u64::from(network.i()[e]) << 32 | u64::from(network.j()[e]);
                    let at = best.entry(pair).or_insert(e);
                    // Ties keep the first edge.
                    if strength(flip, network.r()[e]) > strength(flip, network.r()[*at]) {
                        *at = e;
                    }
                }
                let mut peaks = vec![false; network.r().len()];
                best.into_values().for_each(|e| peaks[e] = true);
                peaks
            })
        });
        found.as_deref().map(Some).ok_or_else(|| {
            Error::argument(format!(
                "edges at their peak: expected at most {MOST_PEAKS} edges over all windows, got {}",
                network.edges()
            ))
        })
    }
}

impl std::fmt::Debug for NetworkView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (f.debug_struct("NetworkView").field("name", &self.name())).finish_non_exhaustive()
    }
}

/// Parameters of a network that a page asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NetworkRequest {
    /// Length of a window, distance between the starts of consecutive windows, and length of a bin.
    pub(crate) window_seconds: f64,
    pub(crate) step_seconds: f64,
    pub(crate) bin_seconds: f64,
    pub(crate) measure: Measure,
    pub(crate) least: f64,
}

/// Computes a network of spike counts over sliding windows of a recording.
///
/// # Errors
/// `InvalidArgument` for times that are not positive and finite, or are too short or too long; the errors of [`Plan`].
pub(crate) fn compute(
    recorded: &DecodedRecording,
    wanted: NetworkRequest,
    progress: &dyn Progress,
) -> Result<NamedNetwork> {
    let (steps, step) = (recorded.dataset.steps, recorded.dataset.step_seconds);
    let nodes = recorded.dataset.channels();
    let NetworkRequest {
        window_seconds,
        step_seconds,
        bin_seconds,
        ..
    } = wanted;
    let per_bin = (bin_seconds / step).round();
    let bins = (steps as f64 / per_bin.max(1.0)).floor();
    let whole = |s: f64| (s / (per_bin * step)).round();
    if !(per_bin >= 1.0
        && bins * nodes as f64 <= MOST_COUNTS
        && whole(window_seconds) >= 4.0
        && whole(step_seconds) >= 1.0)
        || whole(window_seconds) > bins
    {
        return Err(Error::argument(format!(
            "expected bins of at least {step} s, windows of four bins to {:.3} s, steps of at least a bin, got {bin_seconds}, {window_seconds} and {step_seconds} s",
            steps as f64 * step
        )));
    }
    let (per_bin, bins) = (per_bin as usize, bins as usize);
    let mut counts = vec![0_u16; bins * nodes];
    let spikes = &recorded.dataset.spikes;
    for (at, (&tick, &channel)) in spikes.ticks.iter().zip(&spikes.channels).enumerate() {
        let bin = usize::try_from(tick).unwrap_or(usize::MAX) / per_bin;
        if bin < bins {
            let count = &mut counts[bin * nodes + channel as usize];
            *count = count.saturating_add(spikes.weight(at).round() as u16);
        }
    }
    let bin_of = |tick: i64, up: usize| (usize::try_from(tick).unwrap_or(0) + up) / per_bin;
    // The whole bins of each trial: no window spans two trials.
    let trials = recorded.dataset.segments.iter();
    let trials = trials
        .map(|s| bin_of(s.start, per_bin - 1)..bin_of(s.stop, 0).min(bins))
        .filter(|s| s.start < s.end);
    let signal = Signal::new(&counts, nodes)?.with_sample_seconds(per_bin as f64 * step)?;
    let signal = signal.with_segments(trials.collect())?;
    let window = Window {
        length: whole(window_seconds) as usize,
        step: whole(step_seconds) as usize,
    };
    let measure = match wanted.measure {
        Measure::Coherence { segment: 0, .. } => {
            Measure::coherence(window.length / 4, None, per_bin as f64 * step, false)?
        }
        other => other,
    };
    let spec = NetworkSpec::new(measure, window)
        .threshold(Threshold::Absolute(wanted.least))
        .max_edges(MOST_COMPUTED);
    let network = Plan::new(&spec, &signal)?.run(&signal, progress)?;
    let electrodes = recorded.source.electrode_um.as_ref();
    Ok(NamedNetwork {
        name: format!(
            "{}, {} over {window_seconds} s",
            recorded.source.name,
            wanted.measure.name()
        ),
        network,
        names: Some(recorded.source.channel_names.clone()),
        positions: electrodes.map(|all| (all.iter().flatten().map(|v| f64::from(*v)).collect(), 2)),
        window_seconds: None,
        complete: true,
    })
}

/// True if a smaller value means a stronger edge.
fn distance(network: &Network) -> bool {
    network.meta().spec.measure.is_distance()
}

/// Strength of an edge, which thresholds are compared with.
fn strength(distance: bool, r: f32) -> f32 {
    if distance { -r } else { r.abs() }
}

fn told(event: &Event) -> Value {
    match event {
        Event::Birth { community } => json!({"what": "birth", "into": [community]}),
        Event::Death { community } => json!({"what": "death", "from": [community]}),
        Event::Split { from, into } => json!({"what": "split", "from": [from], "into": into}),
        Event::Merge { from, into } => json!({"what": "merge", "from": from, "into": [into]}),
        _ => Value::Null,
    }
}
