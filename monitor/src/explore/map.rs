//! Self-organising maps to be looked at: trained ones, and such as are being trained.

use std::sync::{Arc, Mutex};

use betz_base::error::{Error, Result};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::frame::{Kind, Section, Writer};
use crate::hub::lock;

/// Most stages of one map that are kept.
const MOST_STAGES: usize = 64;
/// Most bytes of one map's stages, of which two are kept in any case.
const MOST_BYTES: usize = 256 << 20;
/// Most planes of one answer.
pub(crate) const MOST_PLANES: usize = 3;

/// Where a map's nodes lie, and what each holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapShape {
    /// Rows of nodes.
    pub rows: usize,
    /// Nodes of a row.
    pub columns: usize,
    /// Hexagons, every second row half a node to the right; else squares.
    pub hexagonal: bool,
    /// The first row follows the last, and the first column the last.
    pub torus: bool,
    /// Weights of a node.
    pub dims: usize,
}

/// A map as it stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MapStage {
    /// Rounds over all samples until here; 0: before training.
    pub epochs: f64,
    /// (nodes, dims), row by row.
    pub weights: Vec<f32>,
    /// The U-matrix, one a node: its mean distance from its neighbours.
    pub heights: Vec<f32>,
    /// Samples that each node won; empty where that is not known.
    pub hits: Vec<u32>,
    /// Of each node the place of its unit in [`MapView::with_units`], `u32::MAX`: none; empty where there are no units.
    pub units: Vec<u32>,
}

/// How well a map stood for its samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MapErrors {
    /// Rounds over all samples until then.
    pub epochs: f64,
    /// Mean distance of samples from their nearest node; NaN where it was not measured.
    pub quantisation: f64,
    /// Part of the samples whose two nearest nodes do not touch; NaN where it was not measured.
    pub topographic: f64,
}

/// A unit that nodes stand for, on the map of a sorter.
#[derive(Debug, Clone, PartialEq)]
pub struct MapUnit {
    /// What people call it: its number.
    pub name: String,
    /// Spikes in training.
    pub spikes: u64,
    /// Spikes a second in training.
    pub rate_hz: f64,
    /// Its mean waveform, in microvolts.
    pub waveform: Vec<f32>,
}

/// A map that is shown. Copies are the same map: whoever trains it keeps one, and [`show`](Self::show)s its stages.
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
    told: Arc<MapState>,
}

#[derive(Debug)]
struct MapState {
    now: Mutex<Now>,
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Now {
    /// By number, ascending.
    stages: Vec<(u64, Arc<MapStage>)>,
    shown: u64,
    errors: Vec<MapErrors>,
    /// Epochs done and to do, while it is trained.
    training: Option<(f64, f64)>,
}

impl MapView {
    /// A map without a stage yet.
    ///
    /// # Errors
    /// `InvalidArgument` for a map without nodes or weights, or with more of them than a page can count.
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
            told: Arc::new(MapState {
                now: Mutex::default(),
                version: watch::Sender::new(1),
            }),
        })
    }

    /// Names of the weights of a node.
    ///
    /// # Errors
    /// `Mismatch` for another number of them.
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

    /// Units that its nodes stand for.
    pub fn with_units(mut self, units: Vec<MapUnit>) -> Self {
        self.units = units;
        self
    }

    /// How many samples there are, of how many hits are counted, and on how many errors are measured.
    pub fn with_samples(mut self, all: u64, hits: u64, errors: u64) -> Self {
        self.samples = [all, hits, errors];
        self
    }

    /// Shows a stage; of many some are left out, never the first and the last.
    ///
    /// # Errors
    /// `Mismatch` for arrays that are not those of its nodes.
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
                // Every second one of those between the first and the last; of two the older.
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

    /// Tells how well it stood for its samples.
    pub fn measured(&self, errors: MapErrors) {
        self.change(|now| now.errors.push(errors));
    }

    /// Tells how far training is, in epochs.
    pub fn training(&self, done: f64, of: f64) {
        self.change(|now| now.training = Some((done, of)));
    }

    /// No other stage comes.
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

    /// Its changes, counted.
    pub(crate) fn version(&self) -> watch::Receiver<u64> {
        self.told.version.subscribe()
    }

    /// All that is told of it without its nodes.
    pub(crate) fn json(&self, id: usize) -> Value {
        let version = *self.told.version.borrow();
        let now = lock(&self.told.now);
        let stages: Vec<Value> = (now.stages.iter())
            .map(|(number, s)| json!({"number": number, "epochs": s.epochs, "hits": !s.hits.is_empty()}))
            .collect();
        let known = |v: f64| v.is_finite().then_some(v);
        let errors: Vec<Value> = (now.errors.iter())
            .map(|e| json!([e.epochs, known(e.quantisation), known(e.topographic)]))
            .collect();
        let units: Vec<Value> = (self.units.iter())
            .map(|u| json!({"name": u.name, "spikes": u.spikes, "rate_hz": u.rate_hz, "waveform": u.waveform}))
            .collect();
        json!({
            "id": id, "name": self.name, "rows": self.shape.rows, "columns": self.shape.columns,
            "hexagonal": self.shape.hexagonal, "torus": self.shape.torus, "dims": self.shape.dims,
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

    /// Heights, hits and units of a stage: kind [`Kind::Map`].
    ///
    /// # Errors
    /// `InvalidArgument` for a stage that is not kept.
    pub(crate) fn surface(&self, number: u64) -> Result<Bytes> {
        let stage = self.stage(number)?;
        let mut w = self.writer(number, 3);
        w.f32(Section::VALUE, &stage.heights);
        w.u32(Section::COUNT, &stage.hits);
        w.u32(Section::COMMUNITY, &stage.units);
        Ok(w.finish())
    }

    /// Component planes of a stage, one behind the other.
    ///
    /// # Errors
    /// `InvalidArgument` for a stage that is not kept, for a dimension there is not, or for more than three.
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

    /// The weights of a node.
    ///
    /// # Errors
    /// `InvalidArgument` for a stage that is not kept, or a node there is not.
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

    /// `channels` of the frame: nodes; its first tick: the stage.
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
