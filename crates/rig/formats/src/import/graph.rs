//! The part of ONNX's protobuf that an import reads. Field numbers are those of onnx.proto.

use std::collections::BTreeMap;

use betz_base::Result;

use super::refuse;
use super::tensor::Tensor;

/// An operator.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) operator: String,
    pub(super) name: String,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) attributes: BTreeMap<String, Attribute>,
}

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.operator, self.name)
    }
}

impl Node {
    /// Name of input `i`; `None` if it is left out.
    pub(super) fn input(&self, i: usize) -> Option<&str> {
        let name = self.inputs.get(i).map(String::as_str);
        name.filter(|name| !name.is_empty())
    }
}

/// An operator's attribute: what of it is there.
#[derive(Debug, Default)]
pub(super) struct Attribute {
    pub(super) int: Option<i64>,
    pub(super) ints: Vec<i64>,
    pub(super) float: Option<f32>,
    pub(super) text: Option<String>,
    pub(super) texts: Vec<String>,
    pub(super) tensor: Option<Tensor>,
}

/// An input of a graph.
#[derive(Debug, Default)]
pub(super) struct Input {
    pub(super) name: String,
    /// Number of axes, if the file tells it.
    pub(super) rank: Option<usize>,
}

/// Name → constant.
pub(super) type Constants = BTreeMap<String, Tensor>;

/// A graph: operators in order, constants, inputs, and the names of the outputs.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) constants: Constants,
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: Vec<String>,
    /// Name of the program that wrote the file.
    pub(super) producer: String,
    /// The file's metadata.
    pub(super) properties: BTreeMap<String, String>,
}

/// A field's content.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => &[],
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// A number, or several packed ones.
    fn numbers(&self) -> Vec<u64> {
        let mut bytes = match self {
            Self::Number(number) => return vec![*number],
            Self::Bytes(bytes) => *bytes,
        };
        let mut numbers = Vec::new();
        while let Some(number) = varint(&mut bytes) {
            numbers.push(number);
        }
        numbers
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 127) << shift;
        if byte & 128 == 0 {
            return Some(value);
        }
    }
    None
}

/// The fields of a message, in order.
fn fields<'a>(mut bytes: &'a [u8]) -> Result<Vec<(u64, Field<'a>)>> {
    let damaged = || refuse("ONNX: the file is damaged or cut off; export it again".into());
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let Some(key) = varint(&mut bytes) else {
            return damaged();
        };
        let length = match key & 7 {
            0 => {
                let Some(number) = varint(&mut bytes) else {
                    return damaged();
                };
                fields.push((key >> 3, Field::Number(number)));
                continue;
            }
            1 => Some(8),
            2 => varint(&mut bytes).and_then(|length| usize::try_from(length).ok()),
            5 => Some(4),
            _ => None,
        };
        let Some((content, rest)) = length.and_then(|length| bytes.split_at_checked(length)) else {
            return damaged();
        };
        bytes = rest;
        fields.push((key >> 3, Field::Bytes(content)));
    }
    Ok(fields)
}

impl Graph {
    /// The graph of a model's file.
    ///
    /// # Errors
    /// [`InvalidModel`](betz_base::ErrorKind::InvalidModel) for a file that is damaged or has no graph.
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let model = fields(bytes)?;
        let Some((_, graph)) = model.iter().find(|(field, _)| *field == 7) else {
            return refuse("expected an ONNX model with a graph, found none".into());
        };
        let mut read = Self::default();
        for (field, content) in fields(graph.bytes())? {
            match field {
                1 => read.nodes.push(node(content.bytes())?),
                5 => {
                    let (name, tensor) = tensor(content.bytes())?;
                    if let Some(tensor) = tensor {
                        read.constants.insert(name, tensor);
                    }
                }
                11 => read.inputs.push(input(content.bytes())?),
                12 => read.outputs.push(input(content.bytes())?.name),
                _ => {}
            }
        }
        for (field, content) in &model {
            match field {
                2 => read.producer = content.text(),
                14 => {
                    let (key, value) = property(content.bytes())?;
                    read.properties.insert(key, value);
                }
                _ => {}
            }
        }
        for node in &read.nodes {
            let value = node.attributes.get("value").and_then(|a| a.tensor.clone());
            if let (true, Some(value), [name]) =
                (node.operator == "Constant", value, node.outputs.as_slice())
            {
                read.constants.insert(name.clone(), value);
            }
        }
        Ok(read)
    }
}

/// An entry of the metadata: its key and value.
fn property(bytes: &[u8]) -> Result<(String, String)> {
    let mut property = (String::new(), String::new());
    for (field, content) in fields(bytes)? {
        match field {
            1 => property.0 = content.text(),
            2 => property.1 = content.text(),
            _ => {}
        }
    }
    Ok(property)
}

/// A value's name and the number of its axes.
fn input(bytes: &[u8]) -> Result<Input> {
    let mut input = Input::default();
    for (field, content) in fields(bytes)? {
        match field {
            1 => input.name = content.text(),
            // A type of a tensor, whose second field is a shape of one field per axis.
            2 => {
                for (_, tensor) in fields(content.bytes())?.iter().filter(|(f, _)| *f == 1) {
                    for (_, shape) in fields(tensor.bytes())?.iter().filter(|(f, _)| *f == 2) {
                        input.rank = Some(fields(shape.bytes())?.len());
                    }
                }
            }
            _ => {}
        }
    }
    Ok(input)
}

fn node(bytes: &[u8]) -> Result<Node> {
    let mut node = Node::default();
    for (field, content) in fields(bytes)? {
        match field {
            1 => node.inputs.push(content.text()),
            2 => node.outputs.push(content.text()),
            3 => node.name = content.text(),
            4 => node.operator = content.text(),
            5 => {
                let (name, attribute) = attribute(content.bytes())?;
                node.attributes.insert(name, attribute);
            }
            _ => {}
        }
    }
    Ok(node)
}

fn attribute(bytes: &[u8]) -> Result<(String, Attribute)> {
    let (mut name, mut attribute) = (String::new(), Attribute::default());
    for (field, content) in fields(bytes)? {
        match field {
            1 => name = content.text(),
            2 => {
                let four = content.bytes().first_chunk::<4>();
                attribute.float = four.map(|four| f32::from_le_bytes(*four));
            }
            3 => attribute.int = content.numbers().first().map(|number| number.cast_signed()),
            4 => attribute.text = Some(content.text()),
            5 => attribute.tensor = tensor(content.bytes())?.1,
            8 => {
                let numbers = content.numbers().into_iter();
                attribute.ints.extend(numbers.map(u64::cast_signed));
            }
            9 => attribute.texts.push(content.text()),
            _ => {}
        }
    }
    Ok((name, attribute))
}

/// A tensor's name, and its numbers if they are float32, float64, int64 or booleans.
fn tensor(bytes: &[u8]) -> Result<(String, Option<Tensor>)> {
    let (mut name, mut shape, mut kind) = (String::new(), Vec::new(), 0);
    let (mut raw, mut floats): (&[u8], Vec<f64>) = (&[], Vec::new());
    for (field, content) in fields(bytes)? {
        match field {
            1 => shape.extend(content.numbers().iter().map(|&dim| dim as usize)),
            2 => kind = content.numbers().first().copied().unwrap_or(0),
            // One number, or several packed ones.
            4 => floats.extend(as_floats(content.bytes())),
            // Whole numbers that are not raw: int32 and booleans, then int64.
            5 | 7 => {
                let numbers = content.numbers().into_iter();
                floats.extend(numbers.map(|n| n.cast_signed() as f64));
            }
            8 => name = content.text(),
            9 => raw = content.bytes(),
            10 => floats.extend(as_doubles(content.bytes())),
            _ => {}
        }
    }
    let values = match (kind, raw.is_empty()) {
        (1, false) => as_floats(raw).collect(),
        (7, false) => as_integers(raw).collect(),
        (9, false) => raw.iter().copied().map(f64::from).collect(),
        (11, false) => as_doubles(raw).collect(),
        (1 | 7 | 9 | 11, true) => floats,
        _ => return Ok((name, None)),
    };
    let expected = shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    if expected != Some(values.len()) {
        return refuse(format!(
            "constant {name}: expected {shape:?} numbers, got {}; numbers in a file of their own are not read",
            values.len()
        ));
    }
    Ok((name, Some(Tensor { shape, values })))
}

fn as_floats(bytes: &[u8]) -> impl Iterator<Item = f64> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers.iter().map(|n| f64::from(f32::from_le_bytes(*n)))
}

fn as_integers(bytes: &[u8]) -> impl Iterator<Item = f64> {
    let (numbers, _) = bytes.as_chunks::<8>();
    numbers.iter().map(|n| i64::from_le_bytes(*n) as f64)
}

fn as_doubles(bytes: &[u8]) -> impl Iterator<Item = f64> {
    let (numbers, _) = bytes.as_chunks::<8>();
    numbers.iter().map(|n| f64::from_le_bytes(*n))
}
