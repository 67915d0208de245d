//! Stacks of ONNX' GRU and LSTM operators with a linear readout, as `torch.onnx.export` writes them.
//!
//! Only operators that the first output depends on are read. An operator is passed over if it computes constants or
//! shapes, or moves numbers and provably leaves each step as it is.

use std::collections::{BTreeMap, BTreeSet};

use betz_base::Result;
use betz_runtime::model::Cell;

use super::axes::{Axis, Layout};
use super::fold::{fold, makes_zeros, position};
use super::graph::{Constants, Graph, Node};
use super::{Layer, Network, operators, refuse, transposed};

/// Operators whose result depends on a value's shape alone.
const SHAPES: [&str; 2] = ["Shape", "Size"];

/// Operators that select or reorder numbers, of which the initial states may come from an input.
const SELECTIONS: [&str; 5] = ["Identity", "Slice", "Gather", "Squeeze", "Unsqueeze"];

/// A stage of a network.
enum Stage {
    Gated(Cell, Layer),
    /// W, (input, output), and b.
    Linear(Vec<f64>, Vec<f64>),
}

/// Value on the way from the counts to the estimates.
#[derive(Clone)]
struct Data {
    /// Mark of the stage that it comes from.
    after: usize,
    layout: Layout,
}

#[derive(Clone)]
enum Value {
    Data(Data),
    /// Last states of several layers, one after another along the first axis.
    LastStates(Vec<Data>),
}

/// A chain of stages as far as it has been read.
struct Chain {
    constants: Constants,
    values: BTreeMap<String, Value>,
    /// Names of values that are zeros, of whatever shape.
    zeros: BTreeSet<String>,
    /// Names of values that an input other than the counts gives; in a session they begin at 0.
    given: BTreeSet<String>,
    stages: Vec<Stage>,
    /// Mark of the last stage.
    mark: usize,
    /// Numbers of channels and of values after the last stage, once a stage tells them.
    inputs: Option<usize>,
    width: Option<usize>,
}

pub(super) fn read(bytes: &[u8]) -> Result<Network> {
    let graph = Graph::read(bytes)?;
    let Some(output) = graph.outputs.first().cloned() else {
        return refuse("expected a graph with an output, found none".into());
    };
    let nodes = needed(graph.nodes, &output);
    let mut chain = Chain {
        constants: graph.constants,
        values: BTreeMap::new(),
        zeros: BTreeSet::new(),
        given: BTreeSet::new(),
        stages: Vec::new(),
        mark: 0,
        inputs: None,
        width: None,
    };
    // Initial states may be inputs, too; the first one is the counts.
    for input in graph.inputs {
        if chain.constants.contains_key(&input.name) {
            continue;
        }
        if chain.values.is_empty() {
            let layout = Layout::input(input.rank);
            let counts = Value::Data(Data { after: 0, layout });
            chain.values.insert(input.name, counts);
        } else {
            chain.given.insert(input.name);
        }
    }
    for node in &nodes {
        chain.node(node)?;
    }
    chain.network(&output)
}

/// The nodes on which `output` depends, in order.
fn needed(nodes: Vec<Node>, output: &str) -> Vec<Node> {
    let mut names = BTreeSet::from([output.to_owned()]);
    let mut kept = Vec::new();
    for node in nodes.into_iter().rev() {
        if node.outputs.iter().any(|name| names.contains(name)) {
            names.extend(node.inputs.iter().cloned());
            kept.push(node);
        }
    }
    kept.reverse();
    kept
}

impl Chain {
    fn node(&mut self, node: &Node) -> Result<()> {
        let [Some(name), ..] = [node.outputs.first().cloned()] else {
            return Ok(());
        };
        let known: Vec<Value> = (node.inputs.iter())
            .filter_map(|name| self.values.get(name).cloned())
            .collect();
        let value = match known.as_slice() {
            _ if SHAPES.contains(&node.operator.as_str()) => None,
            [] => {
                self.beside(node, name);
                return Ok(());
            }
            [Value::Data(data)] => Some(Value::Data(self.step(node, data)?)),
            [Value::LastStates(states)] => Some(Value::Data(pick(node, &self.constants, states)?)),
            several => Some(Value::LastStates(self.stack(node, several)?)),
        };
        if let Some(value) = value {
            self.values.insert(name, value);
        }
        Ok(())
    }

    /// Takes note of a node that does not depend on the counts.
    fn beside(&mut self, node: &Node, name: String) {
        let is_zero = |input: &str| self.is_zero(input);
        if makes_zeros(node, is_zero) {
            self.zeros.insert(name.clone());
        }
        let selects = SELECTIONS.contains(&node.operator.as_str());
        if selects && node.input(0).is_some_and(|name| self.given.contains(name)) {
            self.given.insert(name.clone());
        }
        if let Some(tensor) = fold(node, &self.constants) {
            self.constants.insert(name, tensor);
        }
    }

    fn is_zero(&self, name: &str) -> bool {
        let constant = self.constants.get(name);
        constant.is_some_and(|tensor| tensor.values.iter().all(|&v| v == 0.0))
            || self.zeros.contains(name)
    }

    /// The value behind a node on the way.
    fn step(&mut self, node: &Node, data: &Data) -> Result<Data> {
        let layout = match node.operator.as_str() {
            "GRU" | "LSTM" => self.recurrent(node, data)?,
            "Gemm" | "MatMul" => {
                self.check_way(node, data, true)?;
                let (weights, bias) = operators::linear(node, &self.constants)?;
                let layout = data.layout.with_last_feature(node)?;
                let inputs = weights.len() / bias.len().max(1);
                self.push(node, inputs, bias.len(), Stage::Linear(weights, bias))?;
                layout
            }
            "Add" => {
                self.check_way(node, data, false)?;
                let layout = data.layout.with_last_feature(node)?;
                let Some(Stage::Linear(_, sums)) = self.stages.last_mut() else {
                    return refuse(format!(
                        "{node}: expected a linear layer before it, to which it adds a constant"
                    ));
                };
                let bias = operators::added(node, &self.constants, sums.len())?;
                let pairs = sums.iter_mut().zip(&bias);
                pairs.for_each(|(sum, b)| *sum += b);
                self.mark += 1;
                layout
            }
            _ => {
                let layout = data.layout.moved(node, self.width, &self.constants)?;
                if node
                    .inputs
                    .first()
                    .and_then(|name| self.values.get(name))
                    .is_none()
                {
                    return refuse(format!("{node}: expected the values in its first input"));
                }
                return Ok(Data {
                    after: data.after,
                    layout,
                });
            }
        };
        Ok(Data {
            after: self.mark,
            layout,
        })
    }

    /// Refuses a value that is not the newest, and one that is not the first input.
    fn check_way(&self, node: &Node, data: &Data, is_first: bool) -> Result<()> {
        if data.after != self.mark {
            return refuse(format!(
                "{node}: expected one value on its way from the inputs to the outputs, got several; joined paths are not supported"
            ));
        }
        if is_first
            && node
                .input(0)
                .is_none_or(|name| !self.values.contains_key(name))
        {
            return refuse(format!("{node}: expected the values in its first input"));
        }
        Ok(())
    }

    fn push(&mut self, node: &Node, inputs: usize, outputs: usize, stage: Stage) -> Result<()> {
        if let Some(width) = self.width.filter(|&width| width != inputs) {
            return refuse(format!("{node}: expected {width} inputs, got {inputs}"));
        }
        self.inputs.get_or_insert(inputs);
        self.width = Some(outputs);
        self.stages.push(stage);
        self.mark += 1;
        Ok(())
    }

    /// Adds a recurrent layer; the layout of its first output.
    fn recurrent(&mut self, node: &Node, data: &Data) -> Result<Layout> {
        use Axis::{Batch, Feature, One, Time};
        self.check_way(node, data, true)?;
        let cell = match node.operator.as_str() {
            "GRU" => Cell::Gru,
            _ => Cell::Lstm,
        };
        data.layout.bind(node, &[Time, Batch, Feature])?;
        for (i, what) in [(5, "initial_h"), (6, "initial_c")] {
            let Some(name) = node.input(i).filter(|name| !self.is_zero(name)) else {
                continue;
            };
            if !self.given.contains(name) {
                return refuse(format!(
                    "{node}: {what} {name:?}: expected initial states that are 0 or an input of the graph, got others"
                ));
            }
        }
        let layer = operators::recurrent(node, &self.constants, cell)?;
        self.push(
            node,
            layer.inputs,
            layer.units,
            Stage::Gated(cell, layer.clone()),
        )?;
        // The second output is h of the last step; the third, c, is none that a layer reads.
        if let (Some(name), 0) = (node.outputs.get(1), data.layout.behind) {
            let last = Data {
                after: self.mark,
                layout: Layout::new(&[One, Batch, Feature], 0),
            };
            self.values.insert(name.clone(), Value::Data(last));
        }
        Ok(Layout::new(
            &[Time, One, Batch, Feature],
            data.layout.behind,
        ))
    }

    /// Last states of several layers, side by side.
    fn stack(&self, node: &Node, values: &[Value]) -> Result<Vec<Data>> {
        use Axis::{Batch, Feature, One};
        let axis = node.attributes.get("axis").and_then(|a| a.int);
        let states: Option<Vec<Data>> = (values.iter())
            .map(|value| match value {
                Value::Data(data) if data.layout == Layout::new(&[One, Batch, Feature], 0) => {
                    Some(data.clone())
                }
                _ => None,
            })
            .collect();
        match states {
            Some(states)
                if node.operator == "Concat"
                    && matches!(axis, Some(0 | -3))
                    && states.len() == node.inputs.len() =>
            {
                Ok(states)
            }
            _ => refuse(format!(
                "{node}: expected one value on its way from the inputs to the outputs, got several; joined paths are not supported"
            )),
        }
    }

    /// The network, whose stages end in `output`.
    fn network(self, output: &str) -> Result<Network> {
        let is_end = match self.values.get(output) {
            Some(Value::Data(data)) => data.after == self.mark,
            _ => false,
        };
        let mut network = Network {
            cell: Cell::default(),
            layers: Vec::new(),
            readout: Vec::new(),
            bias: Vec::new(),
            caps: Vec::new(),
        };
        let is_stack = matches!(
            self.stages.as_slice(),
            [Stage::Gated(first, _), middle @ .., Stage::Linear(..)]
                if middle.iter().all(|stage| matches!(stage, Stage::Gated(cell, _) if cell == first))
        );
        if !is_end || !is_stack {
            return refuse(format!(
                "expected GRU or LSTM operators of one kind and a linear readout (Gemm, or MatMul and Add) that lead to the first output, {output:?}; found {} layers",
                self.stages.len()
            ));
        }
        for stage in self.stages {
            match stage {
                Stage::Gated(cell, layer) => {
                    network.cell = cell;
                    network.layers.push(layer);
                }
                Stage::Linear(weights, bias) => {
                    network.readout = transposed(&weights, bias.len());
                    network.bias = bias;
                }
            }
        }
        Ok(network)
    }
}

/// The last states of one layer.
fn pick(node: &Node, constants: &Constants, states: &[Data]) -> Result<Data> {
    use Axis::{Batch, Feature};
    let axis = node.attributes.get("axis").and_then(|a| a.int);
    let index = node.input(1).and_then(|name| constants.get(name));
    let index = match index.map(|index| (index.shape.len(), index.values.as_slice())) {
        Some((0, [index])) => position(*index as i64, states.len()),
        _ => None,
    };
    match (node.operator.as_str(), axis.unwrap_or(0), index) {
        ("Gather", 0, Some(index)) => Ok(Data {
            after: states[index].after,
            layout: Layout::new(&[Batch, Feature], 0),
        }),
        _ => refuse(format!(
            "{node}: expected a Gather that takes the last states of one layer"
        )),
    }
}
