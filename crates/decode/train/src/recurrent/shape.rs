//! Layout of a network's weights in one list.

use std::ops::Range;

use super::product::COLUMNS;
use betz_runtime::model::WeightPrecision;

/// Layers of at least so many units have bfloat16 weights: they would not fit in the first cache otherwise.
const ROUNDED_UNITS: usize = 128;

/// Gates of a unit: r, z, n.
pub(super) const GATES: usize = 3;

/// One layer: inputs → gates of units. Weights are row-major, columns ordered (gate, unit).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) inputs: usize,
    pub(super) units: usize,
    /// Gates × units.
    pub(super) columns: usize,
    pub(super) input_weights: Range<usize>,
    pub(super) input_bias: Range<usize>,
    pub(super) state_weights: Range<usize>,
    pub(super) state_bias: Range<usize>,
}

/// A linear map of the inputs to fewer numbers, which the first layer sees in their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Projection {
    pub(super) width: usize,
    /// (input, projected).
    pub(super) weights: Range<usize>,
}

/// The sizes of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// Outputs, padded to whole vectors.
    pub(super) columns: usize,
    pub(super) projection: Option<Projection>,
    pub(super) layers: Vec<Layer>,
    /// (unit of the last layer, padded output).
    pub(super) readout: Range<usize>,
    pub(super) readout_bias: Range<usize>,
    /// Number of weights.
    pub(super) weights: usize,
}

impl Shape {
    /// `units` of each layer, multiples of 16.
    pub(super) fn new(inputs: usize, outputs: usize, units: &[usize]) -> Self {
        Self::projected(inputs, None, outputs, units)
    }

    /// The same behind a projection to `width` numbers, a multiple of 16.
    pub(super) fn projected(
        inputs: usize,
        width: Option<usize>,
        outputs: usize,
        units: &[usize],
    ) -> Self {
        let mut end = 0;
        let mut next = |length: usize| {
            let start = end;
            end += length;
            start..end
        };
        let projection = width.map(|width| Projection {
            width,
            weights: next(inputs * width),
        });
        let mut below = width.unwrap_or(inputs);
        let mut layers = Vec::new();
        for &units in units {
            let columns = GATES * units;
            layers.push(Layer {
                inputs: below,
                units,
                columns,
                input_weights: next(below * columns),
                input_bias: next(columns),
                state_weights: next(units * columns),
                state_bias: next(columns),
            });
            below = units;
        }
        let columns = outputs.next_multiple_of(COLUMNS);
        Self {
            inputs,
            outputs,
            columns,
            projection,
            layers,
            readout: next(below * columns),
            readout_bias: next(columns),
            weights: end,
        }
    }

    /// Rounds the matrices of the network of weights `all` that a decoder keeps to numbers of `precision`, or else those of
    /// wide layers to bfloat16. The first layer's input weights become the linear engine's.
    pub(super) fn round(&self, precision: Option<WeightPrecision>, all: &mut [f32]) {
        for (l, layer) in self.layers.iter().enumerate() {
            let usual = match layer.units >= ROUNDED_UNITS {
                true => WeightPrecision::Bf16,
                false => WeightPrecision::F32,
            };
            let precision = precision.unwrap_or(usual);
            if l > 0 {
                precision.round(&mut all[layer.input_weights.clone()], layer.columns);
            }
            precision.round(&mut all[layer.state_weights.clone()], layer.columns);
        }
    }

    /// Units of the last layer.
    pub(super) fn top(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.units)
    }
}
