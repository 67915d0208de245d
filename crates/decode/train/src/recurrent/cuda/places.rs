//! Places of a network's values in the work memory of a device.

use std::ops::Range;

use super::super::shape::Shape;

/// Offsets of a layer's numbers in the work array.
pub(super) struct LayerPlace {
    /// Input side of the gates; then its derivatives.
    pub(super) of_input: usize,
    pub(super) by_state: usize,
    pub(super) gates: usize,
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) by_output: usize,
}

/// Places of values in the work memory of a batch. The inputs come first.
pub(super) struct WorkPlaces {
    pub(super) layers: Vec<LayerPlace>,
    /// Of the inputs behind the projection, and the derivatives by them.
    pub(super) projected: Option<[usize; 2]>,
    /// Of the gradient by the estimates.
    pub(super) by_estimate: usize,
    /// Length of the memory.
    pub(super) end: usize,
}

pub(super) fn work_places(shape: &Shape, rows: usize) -> WorkPlaces {
    let mut end = rows * shape.inputs;
    let mut next = |numbers: usize| {
        let start = end;
        end += rows * numbers;
        start
    };
    let layers = (shape.layers.iter())
        .map(|layer| LayerPlace {
            of_input: next(layer.columns),
            by_state: next(layer.columns),
            gates: next(4 * layer.units),
            before: next(layer.units),
            after: next(layer.units),
            by_output: next(layer.units),
        })
        .collect();
    let projected = (shape.projection.as_ref()).map(|p| [next(p.width), next(p.width)]);
    let by_estimate = next(shape.columns);
    WorkPlaces {
        layers,
        projected,
        by_estimate,
        end,
    }
}

impl WorkPlaces {
    /// Place of the input of layer `l`.
    pub(super) fn input(&self, l: usize) -> usize {
        match (l, self.projected) {
            (0, Some([projected, _])) => projected,
            (0, None) => 0,
            _ => self.layers[l - 1].after,
        }
    }
}

/// Six numbers per matrix of weights: place and width of its input, place and width of the gradient by its output, its first
/// weight, and its rows, the bias among them.
pub(super) fn gradient_jobs(shape: &Shape, places: &WorkPlaces) -> Vec<[usize; 6]> {
    let mut jobs = Vec::new();
    if let (Some(projection), Some([_, by_projected])) = (&shape.projection, places.projected) {
        let (inputs, width) = (shape.inputs, projection.width);
        jobs.push([
            0,
            inputs,
            by_projected,
            width,
            projection.weights.start,
            inputs,
        ]);
    }
    let mut add = |input, width, by_output, columns, weights: &Range<usize>| {
        jobs.push([input, width, by_output, columns, weights.start, width + 1]);
    };
    for (l, (layer, place)) in shape.layers.iter().zip(&places.layers).enumerate() {
        let (inputs, units, columns) = (layer.inputs, layer.units, layer.columns);
        add(
            places.input(l),
            inputs,
            place.of_input,
            columns,
            &layer.input_weights,
        );
        add(
            place.before,
            units,
            place.by_state,
            columns,
            &layer.state_weights,
        );
    }
    let top = places.layers.last().map_or(0, |place| place.after);
    add(
        top,
        shape.top(),
        places.by_estimate,
        shape.columns,
        &shape.readout,
    );
    jobs
}
