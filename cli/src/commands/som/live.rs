//! A map that is watched while it is trained, and errors that are measured on the way.

use std::time::{Duration, Instant};

use betz::som::{Assignment, Lattice, Map, Samples};
use betz::{Progress, Result};
use betz_monitor::{Contents, MapErrors, MapSamples, MapShape, MapStage, MapView, Monitor};

use super::args::Som;
use crate::browser::Door;
use crate::commands::monitor::name_of;
use crate::page::{LOOK, announce, options};
use crate::report::UntilInterrupted;

/// Least time between two stages.
const EVERY: Duration = Duration::from_millis(200);
/// Of the time of training, what showing it may take: one part in so many.
const PART: u32 = 9;
/// Products of a sample and a node that a look at the errors is worth.
pub(super) const LOOK_PRODUCTS: usize = 1 << 25;

/// Errors by epoch, as the file has them.
#[derive(Default)]
pub(super) struct Errors {
    pub(super) epochs: Vec<f64>,
    pub(super) quantisation: Vec<f64>,
    pub(super) topographic: Vec<f64>,
}

/// The page of a training; without `--live` it does nothing.
pub(super) struct Live {
    page: Option<Page>,
    pub(super) errors: Errors,
}

struct Page {
    map: MapView,
    /// Samples that errors are measured on.
    some: Vec<f32>,
    online: bool,
    last: Option<Instant>,
    cost: Duration,
    _monitor: Monitor,
    _door: Option<Door>,
}

impl Live {
    pub(super) fn open(args: &Som, map: &Map, samples: Samples<'_>) -> Result<Self> {
        let mut live = Self {
            page: None,
            errors: Errors::default(),
        };
        if !args.live {
            return Ok(live);
        }
        let some = map.evenly(samples, LOOK_PRODUCTS);
        let (all, few) = (
            samples.count() as u64,
            (some.len() / samples.dims().max(1)) as u64,
        );
        let hits = if args.online { few } else { all };
        let mapped = MapView::new(&name_of(args.data()), shape(map))?
            .with_layers(map.grid().layers())?
            .with_samples(all, hits, few);
        let shown = Contents {
            maps: vec![mapped.clone()],
            ..Contents::default()
        };
        let monitor = Monitor::open(shown, options(&args.page))?;
        let door = announce(&monitor, &args.page, args.common.json)?;
        live.page = Some(Page {
            map: mapped,
            some,
            online: args.online,
            last: None,
            cost: Duration::ZERO,
            _monitor: monitor,
            _door: door,
        });
        Ok(live)
    }

    /// Tells a batch epoch's error, which is that of the weights before it, on all samples.
    pub(super) fn epoch(&mut self, epochs_before: f64, quantisation: f64) {
        self.measured(epochs_before, quantisation, f64::NAN);
    }

    /// Errors of the finished map.
    pub(super) fn end(&mut self, epochs: f64, quantisation: f64, topographic: f64) {
        self.measured(epochs, quantisation, topographic);
    }

    fn measured(&mut self, epochs: f64, quantisation: f64, topographic: f64) {
        self.errors.epochs.push(epochs);
        self.errors.quantisation.push(quantisation);
        self.errors.topographic.push(topographic);
        if let Some(page) = &self.page {
            page.map.measured(MapErrors {
                epochs,
                quantisation,
                topographic,
            });
        }
    }

    /// Shows a stage where it is time for one; `state` makes it, with the hits where they are known.
    pub(super) fn show(
        &mut self,
        epochs: f64,
        of: f64,
        state: &mut dyn FnMut() -> Result<(Map, Option<Vec<u32>>)>,
    ) -> Result<()> {
        let Some(page) = &mut self.page else {
            return Ok(());
        };
        page.map.training(epochs, of);
        let due = (page.last).is_none_or(|at| at.elapsed() >= EVERY.max(page.cost * PART));
        if !due && epochs < of {
            return Ok(());
        }
        let began = Instant::now();
        let (map, hits) = state()?;
        let some = Samples::new(&page.some, map.dims())?;
        let quality = map.quality(some)?;
        let hits = match hits {
            Some(hits) => hits,
            None => map.hits(some)?,
        };
        page.map.show(stage(&map, hits, epochs))?;
        let quantisation = if page.online {
            quality.quantisation_error
        } else {
            f64::NAN
        };
        page.last = Some(Instant::now());
        page.cost = began.elapsed();
        if epochs < of {
            self.measured(epochs, quantisation, quality.topographic_error);
        }
        Ok(())
    }

    /// Shows the samples of each node of the finished map.
    pub(super) fn assigned(&self, samples: Samples<'_>, found: &Assignment) -> Result<()> {
        match &self.page {
            None => Ok(()),
            Some(page) => page.map.assigned(MapSamples {
                winners: found.winners.clone(),
                distances: found.distances.clone(),
                values: samples.values().to_vec(),
            }),
        }
    }

    /// The page stays until Ctrl-C.
    pub(super) fn stay(self) {
        let Some(page) = self.page else { return };
        page.map.finished();
        if !UntilInterrupted.cancelled() {
            eprintln!("the map is trained; the page stays until Ctrl-C");
        }
        while !UntilInterrupted.cancelled() {
            std::thread::sleep(LOOK);
        }
    }
}

/// Layout of a map's nodes.
pub(super) fn shape(map: &Map) -> MapShape {
    let grid = map.grid();
    MapShape {
        // Layers lie one below the other.
        rows: grid.layers() * grid.rows(),
        columns: grid.columns(),
        hexagonal: grid.lattice() == Lattice::Hexagonal,
        torus: grid.is_torus(),
        dims: map.dims(),
    }
}

/// A map as the page shows it.
pub(super) fn stage(map: &Map, hits: Vec<u32>, epochs: f64) -> MapStage {
    MapStage {
        epochs,
        weights: map.weights().to_vec(),
        heights: map.heights(),
        hits,
        units: Vec::new(),
    }
}
