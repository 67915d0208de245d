//! Self-organising maps to look at, trained or in training.

use std::sync::{Arc, Mutex};

use betz_base::error::{Error, Result};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::explore::map_samples::{MapSamples, SamplesByNode};
use crate::frame::{Kind, Section, Writer};
use betz_base::lock::lock;

/// Largest number of stages stored per map.
const MOST_STAGES: usize = 64;
/// Largest number of bytes of a map's stages; two stages are stored in any case.
const MOST_BYTES: usize = 256 << 20;
/// Largest number of planes in one answer.
pub(crate) const MOST_PLANES: usize = 3;
/// Largest number of a node's samples in one answer, and of those with their values.
const MOST_LISTED: usize = 500;
const MOST_WITH_VALUES: usize = 64;

/// Shape of a map: its grid of nodes, and the number of weights per node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapShape {
    /// Rows of nodes.
    pub rows: usize,
    /// Nodes per row.
    pub columns: usize,
    /// True: hexagons, with every second row shifted right by half a node. False: squares.
    pub hexagonal: bool,
    /// True if the last row is next to the first, and the last column next to the first.
    pub torus: bool,
    /// Weights per node.
    pub dims: usize,
}

/// State of a map at one time of its training.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MapStage {
    /// Passes over all samples so far; 0 before training.
    pub epochs: f64,
    /// (nodes, dims), row by row.
    pub weights: Vec<f32>,
    /// The U-matrix, one value per node: mean distance from the node's neighbours.
    pub heights: Vec<f32>,
    /// Number of samples that each node won; empty if unknown.
    pub hits: Vec<u32>,
    /// For each node, the index of its unit in [`MapView::with_units`], or `u32::MAX` for none; empty without units.
    pub units: Vec<u32>,
}

/// Errors of a map on its samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MapErrors {
    /// Passes over all samples at the time of measurement.
    pub epochs: f64,
    /// Mean distance of samples from their nearest node; NaN if not measured.
    pub quantisation: f64,
    /// Share of samples whose two nearest nodes are not neighbours; NaN if not measured.
    pub topographic: f64,
}

/// A sorted unit that nodes represent.
#[derive(Debug, Clone, PartialEq)]
pub struct MapUnit {
    /// Name to show: its number.
    pub name: String,
    /// Number of its spikes in training.
    pub spikes: u64,
    /// Spikes per second in training.
    pub rate_hz: f64,
    /// Mean waveform in microvolts.
    pub waveform: Vec<f32>,
}

/// A map that is shown. Clones share the same map: the training code keeps one and calls [`show`](Self::show) per
/// stage.
///
/// ```
/// use betz_monitor::{MapErrors, MapShape, MapStage, MapView};
///
/// let shape = MapShape { rows: 2, columns: 3, hexagonal: true, torus: false, dims: 1 };
/// let map = MapView::new("six nodes", shape)?;
/// map.training(0.0, 10.0);
/// let stage = MapStage { weights: vec![0.5; 6], heights: vec![0.0; 6], ..MapStage::default() };
/// map.show(stage)?;
/// map.measured(MapErrors { epochs: 1.0, quantisation: 0.3, topographic: f64::NAN });
/// map.finished();
/// # Ok::<(), betz_base::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MapView {
    name: String,
    shape: MapShape,
    names: Option<Vec<String>>,
    units: Vec<MapUnit>,
    samples: [u64; 3],
    layers: usize,
    told: Arc<MapState>,
}

#[derive(Debug)]
struct MapState {
    now: Mutex<Now>,
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Now {
    /// Number and stage, in ascending order of number.
    stages: Vec<(u64, Arc<MapStage>)>,
    shown: u64,
    errors: Vec<MapErrors>,
    samples: Option<Arc<SamplesByNode>>,
    /// Epochs done and to do, during training.
    training: Option<(f64, f64)>,
}

impl MapView {
    /// Creates a map without stages.
    ///
    /// # Errors
    /// `InvalidArgument` for a map without nodes or weights, or with more of them than a page can address.
    pub fn new(name: &str, shape: MapShape) -> Result<Self> {
        let weights =
            (shape.rows.checked_mul(shape.columns)).and_then(|n| n.checked_mul(shape.dims));
        if weights.is_none_or(|w| w == 0 || u32::try_from(w).is_err()) {
            return Err(Error::argument(format!(
                "{name}: expected a map of 1 to {} weights, got {} × {} nodes of {}",
                u32::MAX,
                shape.rows,
                shape.columns,
                shape.dims
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            shape,
            names: None,
            units: Vec::new(),
            samples: [0; 3],
            layers: 1,
            told: Arc::new(MapState {
                now: Mutex::default(),
                version: watch::Sender::new(1),
            }),
        })
    }

    /// Sets the names of a node's weights.
    ///
    /// # Errors
    /// `Mismatch` if the number of names differs from the number of weights.
    pub fn with_names(mut self, names: Vec<String>) -> Result<Self> {
        if names.len() != self.shape.dims {
            return Err(Error::mismatch(format!(
                "{}: expected {} names of weights, got {}",
                self.name,
                self.shape.dims,
                names.len()
            )));
        }
        self.names = Some(names);
        Ok(self)
    }

    /// Divides the rows into `layers` that lie one above the other: a map in three dimensions.
    ///
    /// # Errors
    /// `InvalidArgument` if the layers do not have equally many rows.
    pub fn with_layers(mut self, layers: usize) -> Result<Self> {
        if layers == 0 || !self.shape.rows.is_multiple_of(layers) {
            return Err(Error::argument(format!(
                "{}: expected layers of equally many rows, got {layers} of {}",
                self.name, self.shape.rows
            )));
        }
        self.layers = layers;
        Ok(self)
    }

    /// Sets the units that the nodes represent.
    pub fn with_units(mut self, units: Vec<MapUnit>) -> Self {
        self.units = units;
        self
    }

    /// Sets the number of samples, the number from which hits are counted, and the number on which errors are measured.
    pub fn with_samples(mut self, all: u64, hits: u64, errors: u64) -> Self {
        self.samples = [all, hits, errors];
        self
    }

    /// Shows a stage. If there are many, some are dropped, but never the first or the last.
    ///
    /// # Errors
    /// `Mismatch` if the arrays do not fit the map's nodes.
    pub fn show(&self, stage: MapStage) -> Result<()> {
        let nodes = self.nodes();
        let all_or_none = |len: usize| len == 0 || len == nodes;
        if stage.weights.len() != nodes * self.shape.dims
            || stage.heights.len() != nodes
            || !all_or_none(stage.hits.len())
            || !all_or_none(stage.units.len())
        {
            return Err(Error::mismatch(format!(
                "{}: expected {nodes} nodes of {} weights, a height each, and hits and units of all or none, got {} weights, {} heights, {} hits, {} units",
                self.name,
                self.shape.dims,
                stage.weights.len(),
                stage.heights.len(),
                stage.hits.len(),
                stage.units.len()
            )));
        }
        let bytes = 4 * (nodes * (self.shape.dims + 3)).max(1);
        let most = (MOST_BYTES / bytes).clamp(2, MOST_STAGES);
        self.change(|now| {
            now.stages.push((now.shown, Arc::new(stage)));
            now.shown += 1;
            if now.stages.len() > most {
                // Drop every second stage between the first and the last; of two, drop the older.
                let last = now.stages.len() - 1;
                let mut at = 0;
                now.stages.retain(|_| {
                    at += 1;
                    at == 1 || at - 1 == last || (most > 2 && at % 2 == 1)
                });
            }
        });
        Ok(())
    }

    /// Sets the errors of the map on its samples.
    pub fn measured(&self, errors: MapErrors) {
        self.change(|now| now.errors.push(errors));
    }

    /// Sets the samples of the last stage, so that each node can show its own.
    ///
    /// # Errors
    /// `Mismatch` unless every sample has a node of the map, a distance, and values for all weights or for none.
    pub fn assigned(&self, samples: MapSamples) -> Result<()> {
        let (count, nodes) = (samples.winners.len(), self.nodes());
        let values = samples.values.len();
        if count > u32::MAX as usize
            || samples.distances.len() != count
            || (values != 0 && values != count.saturating_mul(self.shape.dims))
        {
            return Err(Error::mismatch(format!(
                "{}: expected a distance and {} values for each of {count} samples, got {} distances, {values} values",
                self.name,
                self.shape.dims,
                samples.distances.len()
            )));
        }
        if let Some(wrong) = (samples.winners.iter()).position(|node| *node as usize >= nodes) {
            return Err(Error::mismatch(format!(
                "{}, sample {wrong}: expected a node below {nodes}, got {}",
                self.name, samples.winners[wrong]
            )));
        }
        let samples = Arc::new(SamplesByNode::new(samples, nodes));
        self.change(|now| now.samples = Some(samples));
        Ok(())
    }

    /// Sets the progress of training, in epochs.
    pub fn training(&self, done: f64, of: f64) {
        self.change(|now| now.training = Some((done, of)));
    }

    /// Declares that training has ended and no other stage follows.
    pub fn finished(&self) {
        self.change(|now| now.training = None);
    }

    fn change(&self, change: impl FnOnce(&mut Now)) {
        change(&mut lock(&self.told.now));
        self.told.version.send_modify(|v| *v += 1);
    }

    fn nodes(&self) -> usize {
        self.shape.rows * self.shape.columns
    }

    /// Number of changes so far.
    pub(crate) fn version(&self) -> watch::Receiver<u64> {
        self.told.version.subscribe()
    }

    /// Description of the map without its nodes, as JSON.
    pub(crate) fn json(&self, id: usize) -> Value {
        let version = *self.told.version.borrow();
        let now = lock(&self.told.now);
        let stages: Vec<Value> = (now.stages.iter())
            .map(|(number, s)| json!({"number": number, "epochs": s.epochs, "hits": !s.hits.is_empty()}))
            .collect();
        let known = |v: f64| v.is_finite().then_some(v);
        let samples = now.samples.as_ref().map(|s| &s.samples);
        let errors: Vec<Value> = (now.errors.iter())
            .map(|e| json!([e.epochs, known(e.quantisation), known(e.topographic)]))
            .collect();
        let units: Vec<Value> = (self.units.iter())
            .map(|u| json!({"name": u.name, "spikes": u.spikes, "rate_hz": u.rate_hz, "waveform": u.waveform}))
            .collect();
        json!({
            "id": id, "name": self.name, "rows": self.shape.rows, "columns": self.shape.columns,
            "hexagonal": self.shape.hexagonal, "torus": self.shape.torus, "dims": self.shape.dims,
            "layers": self.layers, "assigned": samples.is_some(),
            "sample_values": samples.is_some_and(|s| !s.values.is_empty()),
            "names": self.names, "units": units, "samples": self.samples[0], "hit_samples": self.samples[1],
            "error_samples": self.samples[2], "version": version,
            "training": now.training.map(|(done, of)| [done, of]), "stages": stages,
            "left_out": now.shown - now.stages.len() as u64, "errors": errors,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn stage(&self, number: u64) -> Result<Arc<MapStage>> {
        let now = lock(&self.told.now);
        let found = now.stages.iter().find(|(n, _)| *n == number);
        found.map(|(_, s)| s.clone()).ok_or_else(|| {
            Error::argument(format!(
                "stage: expected one of {} that are kept, got number {number}",
                now.stages.len()
            ))
        })
    }

    /// Heights, hits and units of a stage, as [`Kind::Map`].
    ///
    /// # Errors
    /// `InvalidArgument` for a stage that is not stored.
    pub(crate) fn surface(&self, number: u64) -> Result<Bytes> {
        let stage = self.stage(number)?;
        let mut w = self.writer(number, 3);
        w.f32(Section::VALUE, &stage.heights);
        w.u32(Section::COUNT, &stage.hits);
        w.u32(Section::COMMUNITY, &stage.units);
        Ok(w.finish())
    }

    /// Component planes of a stage, in the order of `dims`.
    ///
    /// # Errors
    /// `InvalidArgument` for a stage that is not stored, for a dimension that does not exist, or for more than three
    /// dimensions.
    pub(crate) fn planes(&self, number: u64, dims: &[usize]) -> Result<Bytes> {
        let stage = self.stage(number)?;
        let width = self.shape.dims;
        if dims.is_empty() || dims.len() > MOST_PLANES || dims.iter().any(|d| *d >= width) {
            return Err(Error::argument(format!(
                "planes: expected one to {MOST_PLANES} dimensions below {width}, got {dims:?}"
            )));
        }
        let of = |d: &usize| stage.weights.iter().skip(*d).step_by(width).copied();
        let values: Vec<f32> = dims.iter().flat_map(of).collect();
        let mut w = self.writer(number, dims.len());
        w.f32(Section::VALUE, &values);
        Ok(w.finish())
    }

    /// Weights of a node.
    ///
    /// # Errors
    /// `InvalidArgument` for a stage that is not stored, or a node that does not exist.
    pub(crate) fn node(&self, number: u64, node: usize) -> Result<Bytes> {
        let stage = self.stage(number)?;
        let width = self.shape.dims;
        let weights = stage.weights.chunks_exact(width).nth(node).ok_or_else(|| {
            Error::argument(format!(
                "node: expected one below {}, got {node}",
                self.nodes()
            ))
        })?;
        let mut w = self.writer(number, 1);
        w.f32(Section::VALUE, weights);
        Ok(w.finish())
    }

    /// Samples of a node, nearest first: their numbers, distances, and values of the nearest. The frame's first tick is the
    /// node, and its ticks are the number of all its samples.
    ///
    /// # Errors
    /// `InvalidArgument` for a node that does not exist, or a map whose samples are not known.
    pub(crate) fn samples(&self, node: usize) -> Result<Bytes> {
        let nodes = self.nodes();
        if node >= nodes {
            return Err(Error::argument(format!(
                "node: expected one below {nodes}, got {node}"
            )));
        }
        let known = lock(&self.told.now).samples.clone();
        let Some(known) = known else {
            return Err(Error::argument(format!(
                "{}: expected a map with the node of each sample, got one without",
                self.name
            )));
        };
        let all = known.of(node);
        let (listed, dims) = (&all[..all.len().min(MOST_LISTED)], self.shape.dims);
        let of = |s: &u32| known.samples.distances[*s as usize];
        let distances: Vec<f32> = listed.iter().map(of).collect();
        let mut values: Vec<f32> = Vec::new();
        if !known.samples.values.is_empty() {
            for &sample in listed.iter().take(MOST_WITH_VALUES) {
                values.extend_from_slice(&known.samples.values[sample as usize * dims..][..dims]);
            }
        }
        let bytes = 8 * listed.len() + 4 * values.len() + 64;
        let total = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let mut w = Writer::new(Kind::Map, 0, nodes as u32, node as i64, total, bytes);
        w.u32(Section::COUNT, listed);
        w.f32(Section::VALUE, &distances);
        w.f32(Section::BESIDE, &values);
        Ok(w.finish())
    }

    /// Begins a frame: `channels` is the number of nodes, and the first tick is the stage's number.
    fn writer(&self, number: u64, arrays: usize) -> Writer {
        let nodes = self.nodes();
        let stage = i64::try_from(number).unwrap_or(i64::MAX);
        Writer::new(
            Kind::Map,
            0,
            nodes as u32,
            stage,
            0,
            arrays * (4 * nodes + 16),
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::frame::Frame;

    fn map() -> MapView {
        let shape = MapShape {
            rows: 2,
            columns: 2,
            hexagonal: false,
            torus: false,
            dims: 3,
        };
        MapView::new("four nodes", shape).unwrap()
    }

    fn stage(epochs: f64) -> MapStage {
        MapStage {
            epochs,
            weights: (0..12).map(|w| w as f32).collect(),
            heights: vec![1.0, 2.0, 3.0, 4.0],
            hits: vec![9, 0, 1, 0],
            units: Vec::new(),
        }
    }

    #[test]
    fn planes_and_nodes_are_those_of_the_weights() {
        let map = map();
        map.show(stage(0.0)).unwrap();
        let values = |bytes: Bytes| -> Vec<f32> {
            Frame::read(&bytes).unwrap().0.f32(Section::VALUE).collect()
        };
        assert_eq!(values(map.surface(0).unwrap()), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(values(map.planes(0, &[1]).unwrap()), [1.0, 4.0, 7.0, 10.0]);
        let two = values(map.planes(0, &[2, 0]).unwrap());
        assert_eq!(two, [2.0, 5.0, 8.0, 11.0, 0.0, 3.0, 6.0, 9.0]);
        assert_eq!(values(map.node(0, 3).unwrap()), [9.0, 10.0, 11.0]);
        for refused in [
            map.surface(1),
            map.planes(0, &[3]),
            map.planes(0, &[]),
            map.planes(0, &[0; 4]),
            map.node(0, 4),
        ] {
            assert!(refused.unwrap_err().message().contains("expected"));
        }
    }

    #[test]
    fn samples_of_a_node_come_nearest_first() {
        let map = map();
        map.show(stage(0.0)).unwrap();
        assert!(map.samples(0).is_err());
        let samples = MapSamples {
            winners: vec![2, 0, 2, 2],
            distances: vec![0.5, 0.1, 0.2, 0.9],
            values: (0..12).map(|v| v as f32).collect(),
        };
        map.assigned(samples.clone()).unwrap();
        let answer = map.samples(2).unwrap();
        let frame = Frame::read(&answer).unwrap().0;
        assert_eq!(frame.u32(Section::COUNT).collect::<Vec<_>>(), [2, 0, 3]);
        assert_eq!(
            frame.f32(Section::VALUE).collect::<Vec<_>>(),
            [0.2, 0.5, 0.9]
        );
        let values: Vec<f32> = frame.f32(Section::BESIDE).collect();
        assert_eq!(values, [6.0, 7.0, 8.0, 0.0, 1.0, 2.0, 9.0, 10.0, 11.0]);
        let none = map.samples(3).unwrap();
        assert_eq!(Frame::read(&none).unwrap().0.u32(Section::COUNT).count(), 0);
        assert!(map.samples(4).is_err());
        assert_eq!(map.json(0)["sample_values"], true);
        let refused = |change: fn(&mut MapSamples)| {
            let mut wrong = samples.clone();
            change(&mut wrong);
            assert!(map.assigned(wrong).is_err());
        };
        refused(|s| s.winners[1] = 4);
        refused(|s| s.distances.truncate(3));
        refused(|s| s.values.truncate(11));
        assert_eq!(map.clone().with_layers(2).unwrap().json(0)["layers"], 2);
        assert!(map.clone().with_layers(3).is_err() && map.with_layers(0).is_err());
    }

    #[test]
    fn first_and_last_stage_stay_and_what_goes_is_counted() {
        let map = map();
        for k in 0..1000 {
            map.show(stage(f64::from(k))).unwrap();
            let told = map.json(0);
            let stages = told["stages"].as_array().unwrap();
            assert!(stages.len() <= MOST_STAGES);
            assert_eq!(stages[0]["epochs"], 0.0);
            assert_eq!(stages[stages.len() - 1]["epochs"], f64::from(k));
            let left_out = told["left_out"].as_u64().unwrap();
            assert_eq!(left_out as usize + stages.len(), k as usize + 1);
        }
        let kept = map.json(0)["stages"].as_array().unwrap().len();
        assert!(kept >= MOST_STAGES / 2, "{kept}");
    }

    #[test]
    fn whoever_waits_hears_of_every_change() {
        let map = map();
        let mut heard = map.version();
        let mut changed = || {
            let changed = heard.has_changed().unwrap();
            heard.mark_unchanged();
            changed
        };
        assert!(!changed());
        map.training(0.0, 2.0);
        assert!(changed());
        map.clone().show(stage(0.0)).unwrap();
        assert!(changed());
        let errors = MapErrors {
            epochs: 1.0,
            quantisation: 0.5,
            topographic: f64::NAN,
        };
        map.measured(errors);
        assert!(changed());
        let told = map.json(3);
        assert_eq!(told["errors"], json!([[1.0, 0.5, null]]));
        assert_eq!(told["training"], json!([0.0, 2.0]));
        map.finished();
        assert!(changed() && map.json(3)["training"].is_null());
    }

    #[test]
    fn what_is_no_map_is_refused() {
        let map = map();
        let refused = |change: fn(&mut MapStage)| {
            let mut wrong = stage(0.0);
            change(&mut wrong);
            assert!(map.show(wrong).is_err());
        };
        refused(|s| s.weights.truncate(11));
        refused(|s| s.heights.truncate(3));
        refused(|s| s.hits.truncate(3));
        refused(|s| s.units = vec![0]);
        assert!(map.clone().with_names(vec!["x".into()]).is_err());
        let shape = |rows, dims| MapShape {
            rows,
            columns: 2,
            hexagonal: false,
            torus: false,
            dims,
        };
        for wrong in [
            shape(0, 1),
            shape(1, 0),
            shape(usize::MAX, 3),
            shape(1 << 31, 1),
        ] {
            assert!(MapView::new("wrong", wrong).is_err());
        }
    }
}
