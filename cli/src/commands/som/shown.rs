//! Maps out of files, for the page: those of `betz som`, and those of a sorter.

use std::path::Path;

use betz::recording::arrays::Arrays;
use betz::som::{Grid, Lattice, Map};
use betz::sort::Sorter;
use betz::{Error, Result};
use betz_monitor::{MapErrors, MapStage, MapUnit, MapView};

use super::live::{shape, stage};
use crate::commands::monitor::name_of;

/// A map that `betz som` wrote.
///
/// # Errors
/// For arrays that are not those of a map.
pub(crate) fn read(path: &Path) -> Result<MapView> {
    let bad = |words: String| Error::recording(format!("{}: {words}", path.display()));
    let mut arrays = Arrays::open(path)?;
    let mut text = arrays.strings("meta", 0)?.unwrap_or_default();
    let meta = text.pop().unwrap_or_default();
    let meta: serde_json::Value = serde_json::from_str(&meta)
        .map_err(|e| bad(format!("meta: expected what betz som wrote, got {e}")))?;
    let weights = arrays.numbers::<f32>("weights", 3)?;
    let weights = weights.ok_or_else(|| bad("expected an array `weights`, got none".into()))?;
    let (&[rows, columns, dims], values) = (&weights.shape[..], weights.values) else {
        return Err(bad("weights: expected rows, columns and numbers".into()));
    };
    let lattice = if meta["lattice"] == "hexagonal" {
        Lattice::Hexagonal
    } else {
        Lattice::Rectangular
    };
    let grid = Grid::new(rows, columns, lattice, meta["torus"] == true);
    let grid = grid.map_err(|e| e.at(path.display()))?;
    let map = Map::new(grid, dims, values).map_err(|e| e.at(path.display()))?;
    let hits = arrays.numbers::<u32>("hits", 2)?;
    let hits = hits.map_or_else(Vec::new, |h| h.values);
    let mut list = |name: &str| -> Result<Vec<f64>> {
        Ok(arrays
            .numbers::<f64>(name, 1)?
            .map_or_else(Vec::new, |n| n.values))
    };
    let (epochs, quantisation, topographic) = (
        list("epochs")?,
        list("quantisation_error")?,
        list("topographic_error")?,
    );
    if quantisation.len() != epochs.len() || topographic.len() != epochs.len() {
        return Err(bad(format!(
            "expected both errors for each of {} epochs, got {} and {}",
            epochs.len(),
            quantisation.len(),
            topographic.len()
        )));
    }
    let samples: u64 = hits.iter().map(|h| u64::from(*h)).sum();
    let shown = MapView::new(&name_of(path), shape(&map))?.with_samples(samples, samples, 0);
    shown
        .show(stage(&map, hits, epochs.last().copied().unwrap_or(0.0)))
        .map_err(|e| e.at(path.display()))?;
    for ((epochs, quantisation), topographic) in
        epochs.into_iter().zip(quantisation).zip(topographic)
    {
        shown.measured(MapErrors {
            epochs,
            quantisation,
            topographic,
        });
    }
    Ok(shown)
}

/// The maps of a sorter, one a group of channels, with the units that their nodes stand for.
///
/// # Errors
/// For a file that is no sorter.
pub(crate) fn of_sorter(path: &Path) -> Result<Vec<MapView>> {
    let sorter = Sorter::load(path)?;
    let units: Vec<MapUnit> = (sorter.units().iter())
        .map(|u| MapUnit {
            // As `betz sort run` names its channels.
            name: format!("unit{}", u.id),
            spikes: u.spikes,
            rate_hz: u.rate_hz,
            waveform: u.waveform.clone(),
        })
        .collect();
    let groups = sorter.groups().iter().enumerate();
    groups
        .filter(|(_, g)| g.nodes() > 0)
        .map(|(number, group)| {
            let grid = Grid::new(group.rows, group.columns, Lattice::Rectangular, false)?;
            let map = Map::new(grid, group.dims(), group.weights.clone())?;
            let spikes = group.hits.iter().map(|h| u64::from(*h)).sum();
            let name = format!("{}, group {number}", name_of(path));
            let names = (1..=map.dims()).map(|k| format!("component {k}"));
            let shown = MapView::new(&name, shape(&map))?
                .with_names(names.collect())?
                .with_units(units.clone())
                .with_samples(spikes, spikes, 0);
            shown.show(MapStage {
                units: group.labels.clone(),
                ..stage(&map, group.hits.clone(), 0.0)
            })?;
            Ok(shown)
        })
        .collect::<Result<_>>()
        .map_err(|e: Error| e.at(path.display()))
}
