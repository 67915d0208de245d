//! Chains of ONNX' operators, as `torch.onnx.export` writes them.
//!
//! Only operators that the first output depends on are read. An operator is passed over if it computes constants or
//! shapes, or moves numbers and provably leaves each step as it is.

use std::collections::{BTreeMap, BTreeSet};

use betz_base::{Error, Result};
use betz_runtime::model::{Activation, Cell};

use super::axes::{Axis, Layout};
use super::chain::{self, Stage};
use super::fold::{fold, makes_zeros, position};
use super::graph::{Constants, Graph, Node};
use super::{Network, operators, own, refuse};

/// Operators whose result depends on a value's shape alone.
const SHAPES: [&str; 2] = ["Shape", "Size"];

/// Operators that select or reorder numbers, of which the initial states may come from an input.
const SELECTIONS: [&str; 5] = ["Identity", "Slice", "Gather", "Squeeze", "Unsqueeze"];

/// Value on the way from the counts to the estimates.
#[derive(Clone)]
struct Data {
    /// Mark of the stage that it comes from.
    after: usize,
    layout: Layout,
}

/// Part of the formula of an activation that has no operator of its own.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// x/√2, its erf, 1 + that, x times that: GELU is a half of it.
    Root,
    Erf,
    OneAndErf,
    Product,
    /// |x| and 1 + |x|: softsign is x divided by it.
    Size,
    OneAndSize,
}

#[derive(Clone)]
enum Value {
    Data(Data),
    Part(Data, Part),
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
    if let Some(network) = own::of_graph(&graph) {
        return network;
    }
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
        chain.node(node).map_err(beyond)?;
    }
    chain.network(&output).map_err(beyond)
}

/// The refusal of a graph that is no such chain, and what decodes it.
fn beyond(refusal: Error) -> Error {
    let message = format!(
        "{}; betz decode, built with --features graph, decodes networks of any operators",
        refusal.message()
    );
    refusal.in_words(message)
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
            [Value::Data(data)] => Some(match self.begin_formula(node) {
                Some(part) => Value::Part(data.clone(), part),
                None => Value::Data(self.step(node, data)?),
            }),
            [Value::LastStates(states)] => Some(Value::Data(pick(node, &self.constants, states)?)),
            several => Some(match self.formula(node, several)? {
                Some(value) => value,
                None => Value::LastStates(self.stack(node, several)?),
            }),
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
        let operator = node.operator.as_str();
        if data.layout.padding != (0, 0) && operator != "Conv" {
            return refuse(format!("{node}: expected a Conv behind a Pad"));
        }
        let is_first = node
            .input(0)
            .is_some_and(|name| self.values.contains_key(name));
        if operator != "Add" && !is_first {
            return refuse(format!("{node}: expected the values in its first input"));
        }
        let layout = match operator {
            "GRU" | "LSTM" => self.recurrent(node, data)?,
            "Conv" => self.convolution(node, data)?,
            "Gemm" | "MatMul" => self.linear(node, data)?,
            "Add" => self.add_bias(node, data)?,
            "LayerNormalization" => self.normalize(node, data)?,
            "Pad" => {
                self.check_newest(node, data)?;
                return Ok(Data {
                    after: data.after,
                    layout: self.padded(node, data)?,
                });
            }
            _ => match operators::activation(node) {
                Some(function) => {
                    self.check_newest(node, data)?;
                    self.activate(node, function)?;
                    data.layout.clone()
                }
                None => {
                    let layout = data.layout.moved(node, self.width, &self.constants)?;
                    return Ok(Data {
                        after: data.after,
                        layout,
                    });
                }
            },
        };
        Ok(Data {
            after: self.mark,
            layout,
        })
    }

    /// Adds a linear layer; the layout of its output.
    fn linear(&mut self, node: &Node, data: &Data) -> Result<Layout> {
        self.check_newest(node, data)?;
        let (weights, bias) = operators::linear(node, &self.constants)?;
        let layout = data.layout.with_last_feature(node)?;
        let inputs = weights.len() / bias.len().max(1);
        self.push(node, inputs, Stage::Linear { weights, bias })?;
        Ok(layout)
    }

    /// Adds a constant to the bias of the linear layer before it; the layout of the sum.
    fn add_bias(&mut self, node: &Node, data: &Data) -> Result<Layout> {
        self.check_newest(node, data)?;
        let layout = data.layout.with_last_feature(node)?;
        let Some(Stage::Linear { bias: sums, .. }) = self.stages.last_mut() else {
            return refuse(format!(
                "{node}: expected a linear layer before it, to which it adds a constant"
            ));
        };
        let bias = operators::added(node, &self.constants, sums.len())?;
        let pairs = sums.iter_mut().zip(&bias);
        pairs.for_each(|(sum, b)| *sum += b);
        self.mark += 1;
        Ok(layout)
    }

    /// Adds a normalization over features; the layout of its output.
    fn normalize(&mut self, node: &Node, data: &Data) -> Result<Layout> {
        self.check_newest(node, data)?;
        let layout = data.layout.with_last_feature(node)?;
        let rank = data.layout.axes.as_ref().map(Vec::len);
        let (scale, shift, epsilon) = operators::normalization(node, &self.constants, rank)?;
        let inputs = scale.len();
        let norm = Stage::Norm {
            scale,
            shift,
            epsilon,
        };
        self.push(node, inputs, norm)?;
        Ok(layout)
    }

    /// The layout behind a Pad, which is taken before a Conv alone: that tells the axes.
    fn padded(&self, node: &Node, data: &Data) -> Result<Layout> {
        let Some(axes) = data.layout.axes.as_deref().filter(|axes| axes.len() == 3) else {
            return refuse(format!("{node}: expected a value of three axes"));
        };
        let told = convolved(&data.layout, node)?;
        Ok(Layout {
            axes: Some(axes.to_vec()),
            behind: data.layout.behind,
            padding: operators::padding(node, &self.constants, &told)?,
        })
    }

    fn activate(&mut self, node: &Node, function: Activation) -> Result<()> {
        match self.width {
            Some(width) => self.push(node, width, Stage::Activation(function)),
            None => refuse(format!("{node}: expected a layer with weights before it")),
        }
    }

    /// The part with which the formula of an activation begins, if `node` may be one.
    fn begin_formula(&self, node: &Node) -> Option<Part> {
        let factor = match node.operator.as_str() {
            "Abs" => return Some(Part::Size),
            "Div" => 1.0 / self.number(node, 1)?,
            "Mul" => self.number(node, 0).or(self.number(node, 1))?,
            _ => return None,
        };
        is_near(factor, std::f64::consts::FRAC_1_SQRT_2).then_some(Part::Root)
    }

    /// The constant number of input `i`.
    fn number(&self, node: &Node, i: usize) -> Option<f64> {
        match self.constants.get(node.input(i)?)?.values.as_slice() {
            [number] => Some(*number),
            _ => None,
        }
    }

    /// The next part of the formula of an activation, or the value behind the last one; `None` if `values` are no parts.
    fn formula(&mut self, node: &Node, values: &[Value]) -> Result<Option<Value>> {
        use Value::{Data as Way, Part as Of};
        let number = self.number(node, 0).or(self.number(node, 1));
        let is = |value: f64| number.is_some_and(|number| is_near(number, value));
        let same = |a: &Data, b: &Data| a.after == b.after && a.layout == b.layout;
        let mut end = None;
        let next = match (node.operator.as_str(), values) {
            ("Erf", [Of(data, Part::Root)]) => Of(data.clone(), Part::Erf),
            ("Add", [Of(data, Part::Erf)]) if is(1.0) => Of(data.clone(), Part::OneAndErf),
            ("Mul", [Way(x), Of(data, Part::OneAndErf)] | [Of(data, Part::OneAndErf), Way(x)])
                if same(x, data) =>
            {
                Of(data.clone(), Part::Product)
            }
            ("Add", [Of(data, Part::Size)]) if is(1.0) => Of(data.clone(), Part::OneAndSize),
            ("Mul", [Of(data, Part::Product)]) if is(0.5) => {
                end = Some(Activation::Gelu);
                Way(data.clone())
            }
            ("Div", [Way(x), Of(data, Part::OneAndSize)]) if same(x, data) => {
                end = Some(Activation::Softsign);
                Way(data.clone())
            }
            ("Mul", [Way(x), Way(gate)] | [Way(gate), Way(x)])
                if x.after + 1 == self.mark
                    && gate.after == self.mark
                    && x.layout == gate.layout
                    && self.stages.last() == Some(&Stage::Activation(Activation::Sigmoid)) =>
            {
                self.stages.pop();
                end = Some(Activation::Silu);
                Way(gate.clone())
            }
            (_, [.., Of(..)] | [Of(..), ..]) => {
                return refuse(format!(
                    "{node}: expected the formula of a GELU or softsign, got another one that begins alike"
                ));
            }
            _ => return Ok(None),
        };
        let (Some(function), Way(data)) = (end, &next) else {
            return Ok(Some(next));
        };
        self.check_newest(node, data)?;
        self.activate(node, function)?;
        Ok(Some(Way(Data {
            after: self.mark,
            layout: data.layout.clone(),
        })))
    }

    /// Refuses a value that is not the newest.
    fn check_newest(&self, node: &Node, data: &Data) -> Result<()> {
        if data.after == self.mark {
            return Ok(());
        }
        refuse(format!(
            "{node}: expected one value on its way from the inputs to the outputs, got several; joined paths are not supported"
        ))
    }

    fn push(&mut self, node: &Node, inputs: usize, stage: Stage) -> Result<()> {
        if let Some(width) = self.width.filter(|&width| width != inputs) {
            return refuse(format!("{node}: expected {width} inputs, got {inputs}"));
        }
        self.inputs.get_or_insert(inputs);
        self.width = Some(stage.width(inputs));
        self.stages.push(stage);
        self.mark += 1;
        Ok(())
    }

    /// Adds a causal convolution; the layout of its output.
    fn convolution(&mut self, node: &Node, data: &Data) -> Result<Layout> {
        self.check_newest(node, data)?;
        let axes = convolved(&data.layout, node)?;
        let own = operators::convolution(node, &self.constants, data.layout.padding)?;
        if data.layout.behind > 0 && matches!(own.window, Stage::Window { stride: 2.., .. }) {
            return refuse(format!(
                "{node}: expected no steps behind the last one before a stride, got {}",
                data.layout.behind
            ));
        }
        self.push(node, own.inputs, own.window)?;
        let width = self.width.unwrap_or_default();
        self.push(node, width, own.linear)?;
        Ok(Layout::new(&axes, data.layout.behind + own.behind))
    }

    /// Adds a recurrent layer; the layout of its first output.
    fn recurrent(&mut self, node: &Node, data: &Data) -> Result<Layout> {
        use Axis::{Batch, Feature, One, Time};
        self.check_newest(node, data)?;
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
        let inputs = layer.inputs;
        self.push(node, inputs, Stage::Gated(cell, layer, Vec::new()))?;
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
            Some(Value::Data(data)) => data.after == self.mark && data.layout.padding == (0, 0),
            _ => false,
        };
        match self.inputs {
            Some(inputs) if is_end => chain::network(inputs, self.stages),
            _ => refuse(format!(
                "expected one chain of layers from the counts to the first output, {output:?}; found {} layers that do not lead there",
                self.stages.len()
            )),
        }
    }
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

/// The axes of a value as a Conv1d takes it: (batch, feature, time), the batch possibly left out.
fn convolved(layout: &Layout, node: &Node) -> Result<Vec<Axis>> {
    let expected = [Axis::Batch, Axis::Feature, Axis::Time];
    layout.bind(node, &expected)?;
    Ok(expected.to_vec())
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
