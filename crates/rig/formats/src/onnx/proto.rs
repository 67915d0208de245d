//! The part of ONNX's protobuf that a decoder needs. Field numbers are those of onnx.proto, IR 9.

/// ONNX's number of float32.
pub(super) const FLOAT: u64 = 1;
/// ONNX's number of int64.
const INT64: u64 = 7;
/// ONNX's number of float64.
pub(super) const DOUBLE: u64 = 11;
/// Version of the operators.
const OPSET: u64 = 17;
/// Version of the format.
const IR: u64 = 9;
/// An attribute that is an integer.
const ATTRIBUTE_INT: u64 = 2;

/// A message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 128 {
            self.0.push(value as u8 | 128);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn int(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn text(self, field: u64, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }
}

/// A graph: nodes in order, constants, inputs and outputs.
#[derive(Default)]
pub(super) struct Graph {
    nodes: Vec<Vec<u8>>,
    constants: Vec<Vec<u8>>,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    names: usize,
    /// Number of the member of a blend that is written. The names of all but the first end in it.
    pub(super) member: usize,
}

impl Graph {
    fn tensor(&mut self, dims: &[usize], kind: u64, raw: &[u8]) -> String {
        self.names += 1;
        let name = format!("constant_{}", self.names);
        self.named(name, dims, kind, raw)
    }

    /// `name` of the member that is written.
    fn of_member(&self, name: &str) -> String {
        match self.member {
            0 => name.to_owned(),
            member => format!("{name}_{member}"),
        }
    }

    fn named(&mut self, name: String, dims: &[usize], kind: u64, raw: &[u8]) -> String {
        let mut tensor = Message::default();
        for dim in dims {
            tensor = tensor.int(1, *dim as u64);
        }
        let tensor = tensor.int(2, kind).text(8, &name).bytes(9, raw);
        self.constants.push(tensor.0);
        name
    }

    /// A constant of float64, row-major; its name.
    pub(super) fn doubles(&mut self, dims: &[usize], values: &[f64]) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tensor(dims, DOUBLE, &raw)
    }

    /// A constant of float64 of this name, row-major.
    pub(super) fn named_doubles(&mut self, name: &str, dims: &[usize], values: &[f64]) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.named(self.of_member(name), dims, DOUBLE, &raw)
    }

    /// A constant of float32 of this name, row-major.
    pub(super) fn named_floats(&mut self, name: &str, dims: &[usize], values: &[f32]) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.named(self.of_member(name), dims, FLOAT, &raw)
    }

    /// A constant of float32, row-major; its name.
    pub(super) fn floats(&mut self, dims: &[usize], values: &[f32]) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tensor(dims, FLOAT, &raw)
    }

    /// A constant list of int64; its name.
    pub(super) fn integers(&mut self, values: &[i64]) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tensor(&[values.len()], INT64, &raw)
    }

    /// An operator without attributes; the name of its result.
    pub(super) fn node(&mut self, operator: &str, inputs: &[&str]) -> String {
        self.node_with(operator, inputs, &[])
    }

    /// An operator with attributes that are integers; the name of its result.
    pub(super) fn node_with(
        &mut self,
        operator: &str,
        inputs: &[&str],
        attributes: &[(&str, u64)],
    ) -> String {
        self.names += 1;
        let name = format!("{}_{}", operator.to_lowercase(), self.names);
        self.push(operator, inputs, &name, attributes);
        name
    }

    /// Gives `value` the name of an output.
    pub(super) fn output(&mut self, name: &str, value: &str, kind: u64, dims: &[usize]) {
        self.push("Identity", &[value], name, &[]);
        self.outputs.push(declared(name, kind, dims));
    }

    /// Declares the state `name` of float64 as an input; its name.
    pub(super) fn state(&mut self, name: &str, dims: &[usize]) -> String {
        let name = self.of_member(name);
        self.input(&name, DOUBLE, dims);
        name
    }

    /// Makes `value` the [`state`](Self::state) `name` of the next step: the output `name`_out.
    pub(super) fn next_state(&mut self, name: &str, value: &str, dims: &[usize]) {
        let name = format!("{}_out", self.of_member(name));
        self.output(&name, value, DOUBLE, dims);
    }

    /// Declares an output that comes before those declared so far.
    pub(super) fn first_output(&mut self, name: &str, value: &str, kind: u64, dims: &[usize]) {
        self.push("Identity", &[value], name, &[]);
        self.outputs.insert(0, declared(name, kind, dims));
    }

    /// Declares an input.
    pub(super) fn input(&mut self, name: &str, kind: u64, dims: &[usize]) {
        self.inputs.push(declared(name, kind, dims));
    }

    fn push(&mut self, operator: &str, inputs: &[&str], output: &str, attributes: &[(&str, u64)]) {
        let mut node = Message::default();
        for input in inputs {
            node = node.text(1, input);
        }
        node = node.text(2, output).text(3, output).text(4, operator);
        for (name, value) in attributes {
            let attribute = Message::default().text(1, name).int(3, *value);
            node = node.bytes(5, &attribute.int(20, ATTRIBUTE_INT).0);
        }
        self.nodes.push(node.0);
    }

    /// The model's file.
    pub(super) fn model(self, version: &str, properties: &[(&str, String)]) -> Vec<u8> {
        let mut graph = Message::default();
        for node in &self.nodes {
            graph = graph.bytes(1, node);
        }
        graph = graph.text(2, "betz");
        for (field, list) in [
            (5, &self.constants),
            (11, &self.inputs),
            (12, &self.outputs),
        ] {
            for item in list {
                graph = graph.bytes(field, item);
            }
        }
        let operators = Message::default().text(1, "").int(2, OPSET);
        let mut model = Message::default()
            .int(1, IR)
            .text(2, "betz")
            .text(3, version)
            .bytes(7, &graph.0)
            .bytes(8, &operators.0);
        for (key, value) in properties {
            let property = Message::default().text(1, key).text(2, value);
            model = model.bytes(14, &property.0);
        }
        model.0
    }
}

fn declared(name: &str, kind: u64, dims: &[usize]) -> Vec<u8> {
    let mut shape = Message::default();
    for dim in dims {
        shape = shape.bytes(1, &Message::default().int(1, *dim as u64).0);
    }
    let tensor = Message::default().int(1, kind).bytes(2, &shape.0);
    let kind = Message::default().bytes(1, &tensor.0);
    Message::default().text(1, name).bytes(2, &kind.0).0
}
