//! Maps out of files, for the page: those of `betz som`, and those of a sorter.

use std::path::Path;

use betz::som::{Grid, Lattice, Map};
use betz::sort::Sorter;
use betz::{Error, Result};
use betz_monitor::{MapErrors, MapSamples, MapStage, MapUnit, MapView};

use super::file::{self, MapFile};
use super::input;
use super::live::{shape, stage};
use crate::commands::monitor::name_of;

/// A map that `betz som` wrote.
///
/// # Errors
/// For arrays that are not those of a map.
pub(crate) fn read(path: &Path) -> Result<MapView> {
    let MapFile {
        map,
        source,
        assigned,
        hits,
        errors,
    } = file::read(path)?;
    let samples: u64 = hits.iter().map(|h| u64::from(*h)).sum();
    let shown = MapView::new(&name_of(path), shape(&map))?
        .with_layers(map.grid().layers())?
        .with_samples(samples, samples, 0);
    let last = errors.epochs.last().copied().unwrap_or(0.0);
    shown
        .show(stage(&map, hits, last))
        .map_err(|e| e.at(path.display()))?;
    let epochs = errors.epochs.into_iter();
    let measured = errors.quantisation.into_iter().zip(errors.topographic);
    for (epochs, (quantisation, topographic)) in epochs.zip(measured) {
        shown.measured(MapErrors {
            epochs,
            quantisation,
            topographic,
        });
    }
    if !assigned.winners.is_empty() {
        let samples = MapSamples {
            values: values(source, assigned.winners.len(), map.dims()),
            winners: assigned.winners,
            distances: assigned.distances,
        };
        shown.assigned(samples).map_err(|e| e.at(path.display()))?;
    }
    Ok(shown)
}

/// The data of a map, if they are still where they were and have as many samples; empty otherwise.
fn values(source: Option<(String, Option<String>)>, samples: usize, dims: usize) -> Vec<f32> {
    let Some((path, array)) = source else {
        return Vec::new();
    };
    match input::read(Path::new(&path), array.as_deref()) {
        Ok(data) if data.dims == dims && data.values.len() == samples * dims => data.values,
        _ => Vec::new(),
    }
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
