//! Forward through a stack of GRU layers over whole sequences, and back: the gradient by backpropagation
//! through time.
//!
//! Sequences are packed by time: the rows of step t follow those of step t − 1, the longest sequence first, so
//! that nothing is padded. What does not depend on the state before (the input side of the gates, all weight
//! gradients) is one product over all rows; only the recurrence goes step by step.

use super::gates::{Advance, Retreat};
use super::product::{Left, Product};
use super::random::Random;
use super::real::Real;
use super::shape::{Layer, Shape};
use pulp::Arch;

/// Layout of sequences in rows: step t of sequence b is row `first[t] + b`, for b below `count[t]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Packing {
    pub(super) first: Vec<usize>,
    /// Sequences that have a step t; never ascending.
    pub(super) count: Vec<usize>,
    pub(super) rows: usize,
}

impl Packing {
    /// The packing of sequences of `lengths`, descending.
    pub(super) fn new(lengths: &[usize]) -> Self {
        let mut packing = Self::default();
        for step in 0..lengths.first().copied().unwrap_or(0) {
            let count = lengths.partition_point(|&length| length > step);
            packing.first.push(packing.rows);
            packing.count.push(count);
            packing.rows += count;
        }
        packing
    }
}

/// Values that a forward pass stores for the backward pass. Grows to the largest batch and stays that large.
#[derive(Debug, Default)]
pub(super) struct Work<T> {
    /// Inputs behind the projection, (row, projected).
    projected: Vec<T>,
    layers: Vec<LayerWork<T>>,
    /// Estimates, (row, padded output).
    pub(super) estimates: Vec<T>,
    /// The loss's derivative by each estimate, as the caller fills it in before the way back.
    pub(super) estimate_gradient: Vec<T>,
    state_gradient: Vec<T>,
    below_gradient: Vec<T>,
    transposed: Vec<T>,
}

#[derive(Debug, Default)]
struct LayerWork<T> {
    /// Input side of the gates, (row, gate, unit).
    of_input: Vec<T>,
    /// State side of the gates of one step, (sequence, gate, unit).
    of_state: Vec<T>,
    /// r, z, n and the state side of n, (row, 4, unit).
    gates: Vec<T>,
    /// States before each step, (row, unit).
    before: Vec<T>,
    /// States after each step, (row, unit).
    after: Vec<T>,
    /// Dropout's factors, and what they leave of `after`; empty without dropout.
    mask: Vec<T>,
    left: Vec<T>,
    input_gradient: Vec<T>,
    state_side_gradient: Vec<T>,
}

impl<T: Real> LayerWork<T> {
    /// The layer's output as the next one sees it.
    fn output(&self) -> &[T] {
        if self.left.is_empty() {
            &self.after
        } else {
            &self.left
        }
    }
}

/// Dropout on each layer's output, with the generator that draws it.
pub(super) struct Dropout<'a> {
    pub(super) probability: f32,
    pub(super) random: &'a mut Random,
}

/// A network at work on one batch.
pub(super) struct Pass<'a, T> {
    pub(super) arch: Arch,
    pub(super) shape: &'a Shape,
    pub(super) weights: &'a [T],
    pub(super) packing: &'a Packing,
    /// (row, input).
    pub(super) inputs: &'a [T],
}

impl<T: Real> Pass<'_, T> {
    /// Estimates of every row, in `work.estimates`. States begin at 0, or as `start` says: (layer, sequence, unit).
    pub(super) fn forward(
        &self,
        work: &mut Work<T>,
        mut dropout: Option<Dropout<'_>>,
        start: Option<&[Vec<T>]>,
    ) {
        let (shape, rows) = (self.shape, self.packing.rows);
        work.layers
            .resize_with(shape.layers.len(), LayerWork::default);
        self.project(&mut work.projected);
        let inputs = self.first_inputs(&work.projected);
        for (l, layer) in shape.layers.iter().enumerate() {
            let (below, rest) = work.layers.split_at_mut(l);
            let own = &mut rest[0];
            let input = below.last().map_or(inputs, LayerWork::output);
            self.forward_layer(layer, input, own, start.map(|start| &start[l][..]));
            own.mask.clear();
            own.left.clear();
            if let Some(dropout) = &mut dropout
                && dropout.probability > 0.0
            {
                let kept = T::from_f32(1.0 / (1.0 - dropout.probability));
                let length = rows * layer.units;
                own.mask.resize(length, T::default());
                let factors = [T::default(), kept];
                (dropout.random).drop_out(self.arch, &mut own.mask, dropout.probability, factors);
                let states = own.after[..length].iter().zip(&own.mask);
                own.left.extend(states.map(|(&state, &mask)| state * mask));
            }
        }
        let top = work.layers.last().map_or(self.inputs, LayerWork::output);
        let columns = shape.columns;
        work.estimates.resize(rows * columns, T::default());
        let bias = &self.weights[shape.readout_bias.clone()];
        for row in work.estimates[..rows * columns].chunks_exact_mut(columns) {
            row.copy_from_slice(bias);
        }
        Product {
            rows,
            depth: shape.top(),
            columns,
            left: Left::Plain(top, shape.top()),
            right: &self.weights[shape.readout.clone()],
            to: &mut work.estimates,
            add: true,
        }
        .compute(self.arch);
    }

    /// The inputs behind the projection, if there is one.
    fn project(&self, projected: &mut Vec<T>) {
        let Some(projection) = &self.shape.projection else {
            return;
        };
        projected.resize(self.packing.rows * projection.width, T::default());
        Product {
            rows: self.packing.rows,
            depth: self.shape.inputs,
            columns: projection.width,
            left: Left::Plain(self.inputs, self.shape.inputs),
            right: &self.weights[projection.weights.clone()],
            to: projected,
            add: false,
        }
        .compute(self.arch);
    }

    /// Inputs of the first layer.
    fn first_inputs<'b>(&'b self, projected: &'b [T]) -> &'b [T] {
        match self.shape.projection {
            Some(_) => projected,
            None => self.inputs,
        }
    }

    fn forward_layer(
        &self,
        layer: &Layer,
        input: &[T],
        own: &mut LayerWork<T>,
        start: Option<&[T]>,
    ) {
        let (packing, units, columns) = (self.packing, layer.units, layer.columns);
        let rows = packing.rows;
        own.of_input.resize(rows * columns, T::default());
        own.gates.resize(rows * 4 * units, T::default());
        own.before.resize(rows * units, T::default());
        own.after.resize(rows * units, T::default());
        let most = packing.count.first().copied().unwrap_or(0);
        own.of_state.resize(most * columns, T::default());
        let bias = &self.weights[layer.input_bias.clone()];
        for row in own.of_input.chunks_exact_mut(columns) {
            row.copy_from_slice(bias);
        }
        Product {
            rows,
            depth: layer.inputs,
            columns,
            left: Left::Plain(input, layer.inputs),
            right: &self.weights[layer.input_weights.clone()],
            to: &mut own.of_input,
            add: true,
        }
        .compute(self.arch);
        let bias = &self.weights[layer.state_bias.clone()];
        for (step, (&first, &count)) in packing.first.iter().zip(&packing.count).enumerate() {
            let before = &mut own.before[first * units..][..count * units];
            match (step, start) {
                (0, None) => before.fill(T::default()),
                (0, Some(start)) => before.copy_from_slice(&start[..count * units]),
                _ => {
                    let last = packing.first[step - 1] * units;
                    before.copy_from_slice(&own.after[last..][..count * units]);
                }
            }
            let of_state = &mut own.of_state[..count * columns];
            for row in of_state.chunks_exact_mut(columns) {
                row.copy_from_slice(bias);
            }
            Product {
                rows: count,
                depth: units,
                columns,
                left: Left::Plain(before, units),
                right: &self.weights[layer.state_weights.clone()],
                to: of_state,
                add: true,
            }
            .compute(self.arch);
            let of_input = &own.of_input[first * columns..][..count * columns];
            let gates = &mut own.gates[first * 4 * units..][..count * 4 * units];
            let after = &mut own.after[first * units..][..count * units];
            self.arch.dispatch(Advance {
                units,
                of_input,
                of_state,
                before,
                after,
                gates,
            });
        }
    }

    /// Adds the loss's derivative by every weight to `gradient`, after a forward pass and with
    /// `work.estimate_gradient` filled in.
    pub(super) fn backward(&self, work: &mut Work<T>, gradient: &mut [T]) {
        let (shape, rows) = (self.shape, self.packing.rows);
        let Work {
            projected,
            layers,
            estimate_gradient,
            state_gradient,
            below_gradient,
            transposed,
            ..
        } = work;
        let (columns, top_units) = (shape.columns, shape.top());
        let Some(top) = layers.last() else { return };
        let estimate_gradient = &estimate_gradient[..rows * columns];
        Product {
            rows: top_units,
            depth: rows,
            columns,
            left: Left::Transposed(top.output(), top_units),
            right: estimate_gradient,
            to: &mut gradient[shape.readout.clone()],
            add: true,
        }
        .compute(self.arch);
        add_columns(estimate_gradient, &mut gradient[shape.readout_bias.clone()]);
        transpose(&self.weights[shape.readout.clone()], columns, transposed);
        state_gradient.resize(rows * top_units, T::default());
        Product {
            rows,
            depth: columns,
            columns: top_units,
            left: Left::Plain(estimate_gradient, columns),
            right: transposed,
            to: state_gradient,
            add: false,
        }
        .compute(self.arch);
        for (l, layer) in shape.layers.iter().enumerate().rev() {
            let (below, rest) = layers.split_at_mut(l);
            let own = &mut rest[0];
            self.backward_layer(layer, own, state_gradient, transposed);
            let inputs = self.first_inputs(projected);
            let input = below.last().map_or(inputs, LayerWork::output);
            self.weight_gradients(layer, input, own, gradient);
            if l > 0 || shape.projection.is_some() {
                transpose(
                    &self.weights[layer.input_weights.clone()],
                    layer.columns,
                    transposed,
                );
                below_gradient.resize(rows * layer.inputs, T::default());
                Product {
                    rows,
                    depth: layer.columns,
                    columns: layer.inputs,
                    left: Left::Plain(&own.input_gradient, layer.columns),
                    right: transposed,
                    to: below_gradient,
                    add: false,
                }
                .compute(self.arch);
                std::mem::swap(state_gradient, below_gradient);
            }
        }
        if let Some(projection) = &shape.projection {
            Product {
                rows: shape.inputs,
                depth: rows,
                columns: projection.width,
                left: Left::Transposed(self.inputs, shape.inputs),
                right: &state_gradient[..rows * projection.width],
                to: &mut gradient[projection.weights.clone()],
                add: true,
            }
            .compute(self.arch);
        }
    }

    /// The derivatives by both sides of a layer's gates, from those by its output in `state_gradient`.
    fn backward_layer(
        &self,
        layer: &Layer,
        own: &mut LayerWork<T>,
        state_gradient: &mut [T],
        transposed: &mut Vec<T>,
    ) {
        let (packing, units, columns) = (self.packing, layer.units, layer.columns);
        let rows = packing.rows;
        for (gradient, mask) in state_gradient.iter_mut().zip(&own.mask) {
            *gradient = *gradient * *mask;
        }
        own.input_gradient.resize(rows * columns, T::default());
        own.state_side_gradient.resize(rows * columns, T::default());
        transpose(
            &self.weights[layer.state_weights.clone()],
            columns,
            transposed,
        );
        for (step, (&first, &count)) in packing.first.iter().zip(&packing.count).enumerate().rev() {
            let before_it = match step {
                0 => 0,
                _ => packing.first[step - 1] * units,
            };
            let (earlier, mine) = state_gradient.split_at_mut(first * units);
            let mine = &mine[..count * units];
            let before = &own.before[first * units..][..count * units];
            let gates = &own.gates[first * 4 * units..][..count * 4 * units];
            let by_input = &mut own.input_gradient[first * columns..][..count * columns];
            let by_state = &mut own.state_side_gradient[first * columns..][..count * columns];
            let last = if step == 0 {
                &mut []
            } else {
                &mut earlier[before_it..][..count * units]
            };
            self.arch.dispatch(Retreat {
                units,
                gradient: mine,
                before,
                gates,
                by_input,
                by_state,
                last,
            });
            if step > 0 {
                Product {
                    rows: count,
                    depth: columns,
                    columns: units,
                    left: Left::Plain(by_state, columns),
                    right: transposed,
                    to: last,
                    add: true,
                }
                .compute(self.arch);
            }
        }
    }

    fn weight_gradients(&self, layer: &Layer, input: &[T], own: &LayerWork<T>, gradient: &mut [T]) {
        let rows = self.packing.rows;
        let sides = [
            (
                (input, layer.inputs),
                &own.input_gradient,
                &layer.input_weights,
                &layer.input_bias,
            ),
            (
                (&own.before[..], layer.units),
                &own.state_side_gradient,
                &layer.state_weights,
                &layer.state_bias,
            ),
        ];
        for ((from, inputs), by_side, weights, bias) in sides {
            let by_side = &by_side[..rows * layer.columns];
            Product {
                rows: inputs,
                depth: rows,
                columns: layer.columns,
                left: Left::Transposed(from, inputs),
                right: by_side,
                to: &mut gradient[weights.clone()],
                add: true,
            }
            .compute(self.arch);
            add_columns(by_side, &mut gradient[bias.clone()]);
        }
    }
}

/// Adds the sum of each column of `rows` to `sums`.
fn add_columns<T: Real>(rows: &[T], sums: &mut [T]) {
    for row in rows.chunks_exact(sums.len()) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += *value;
        }
    }
}

/// `matrix`, row-major with `columns` columns, as its transpose in `to`.
fn transpose<T: Real>(matrix: &[T], columns: usize, to: &mut Vec<T>) {
    to.clear();
    to.extend((0..columns).flat_map(|column| matrix.iter().skip(column).step_by(columns)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loss of the network over a batch: Σ (estimate − target)².
    fn loss(pass: &Pass<'_, f64>, targets: &[f64], random: &Random, work: &mut Work<f64>) -> f64 {
        let mut random = random.clone();
        let dropout = Dropout {
            probability: 0.3,
            random: &mut random,
        };
        pass.forward(work, Some(dropout), None);
        let (outputs, columns) = (pass.shape.outputs, pass.shape.columns);
        work.estimate_gradient.clear();
        work.estimate_gradient
            .resize(pass.packing.rows * columns, 0.0);
        let mut loss = 0.0;
        for row in 0..pass.packing.rows {
            for o in 0..outputs {
                let off = work.estimates[row * columns + o] - targets[row * outputs + o];
                loss += off * off;
                work.estimate_gradient[row * columns + o] = 2.0 * off;
            }
        }
        loss
    }

    #[test]
    fn the_gradient_is_that_of_differences() {
        let mut random = Random::new(3, 1);
        for (units, width) in [(&[16][..], None), (&[32, 16], None), (&[16, 16], Some(16))] {
            let shape = Shape::projected(5, width, 3, units);
            let packing = Packing::new(&[7, 4, 4, 1]);
            let mut draw =
                |n: usize| -> Vec<f64> { (0..n).map(|_| f64::from(random.noise())).collect() };
            let mut weights: Vec<f64> = draw(shape.weights).iter().map(|w| 0.3 * w).collect();
            let inputs = draw(packing.rows * 5);
            let targets = draw(packing.rows * 3);
            let mut work = Work::default();
            fn pass<'a>(
                shape: &'a Shape,
                packing: &'a Packing,
                weights: &'a [f64],
                inputs: &'a [f64],
            ) -> Pass<'a, f64> {
                Pass {
                    arch: Arch::new(),
                    shape,
                    weights,
                    packing,
                    inputs,
                }
            }
            let masks = Random::new(9, 0);
            let mut gradient = vec![0.0; shape.weights];
            let whole = pass(&shape, &packing, &weights, &inputs);
            loss(&whole, &targets, &masks, &mut work);
            whole.backward(&mut work, &mut gradient);
            let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
            for i in (0..shape.weights).step_by(37) {
                let (step, kept) = (1e-5, weights[i]);
                let mut at = |weight: f64| {
                    weights[i] = weight;
                    loss(
                        &pass(&shape, &packing, &weights, &inputs),
                        &targets,
                        &masks,
                        &mut work,
                    )
                };
                let difference = (at(kept + step) - at(kept - step)) / (2.0 * step);
                weights[i] = kept;
                assert!(
                    (difference - gradient[i]).abs() < 1e-8 * norm,
                    "weight {i}: {difference} {}",
                    gradient[i]
                );
            }
        }
    }
}
