//! Builder of ONNX files; also for the tests of other packages.

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value.cast_unsigned())].concat()
}

fn bytes(field: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let head = [varint(field << 3 | 2), varint(content.len() as u64)].concat();
    [&head, content].concat()
}

/// A graph under construction.
#[derive(Default, Clone)]
pub(super) struct Draft(Vec<u8>);

/// The value of an attribute.
#[derive(Clone)]
pub(super) enum Attribute<'a> {
    Int(i64),
    Ints(&'a [i64]),
    Float(f32),
    Text(&'a str),
}

impl Draft {
    /// A graph whose input has so many axes.
    pub(super) fn new(rank: usize) -> Self {
        Self::default().floats_input("x", &vec![3; rank])
    }

    /// An input of float32; an axis of length 0 is one of any length.
    pub(super) fn floats_input(mut self, name: &str, shape: &[usize]) -> Self {
        let axis = |&length: &usize| match length {
            0 => bytes(1, bytes(2, "any")),
            length => bytes(1, number(1, length as i64)),
        };
        let shape: Vec<u8> = shape.iter().flat_map(axis).collect();
        let tensor = [number(1, 1), bytes(2, shape)].concat();
        let input = [bytes(1, name), bytes(2, bytes(1, tensor))].concat();
        self.0.extend(bytes(11, input));
        self
    }

    fn tensor(mut self, name: &str, shape: &[usize], kind: i64, raw: &[u8]) -> Self {
        let dims = shape.iter().flat_map(|&n| number(1, n as i64));
        let tensor = [
            dims.collect(),
            number(2, kind),
            bytes(8, name),
            bytes(9, raw),
        ];
        self.0.extend(bytes(5, tensor.concat()));
        self
    }

    pub(super) fn floats(self, name: &str, shape: &[usize], values: &[f32]) -> Self {
        let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tensor(name, shape, 1, &raw)
    }

    pub(super) fn integers(self, name: &str, shape: &[usize], values: &[i64]) -> Self {
        let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tensor(name, shape, 7, &raw)
    }

    pub(super) fn input(mut self, name: &str) -> Self {
        self.0.extend(bytes(11, bytes(1, name)));
        self
    }

    /// `inputs` and `outputs` are names, apart by spaces; `-` is one left out.
    pub(super) fn node(
        mut self,
        operator: &str,
        inputs: &str,
        outputs: &str,
        attributes: &[(&str, Attribute<'_>)],
    ) -> Self {
        let name = |name: &str| if name == "-" { "" } else { name }.to_owned();
        let mut node = Vec::new();
        for input in inputs.split_whitespace() {
            node.extend(bytes(1, name(input)));
        }
        for output in outputs.split_whitespace() {
            node.extend(bytes(2, name(output)));
        }
        node.extend(bytes(3, outputs));
        node.extend(bytes(4, operator));
        for (name, value) in attributes {
            let (kind, content) = match value {
                Attribute::Int(value) => (2, number(3, *value)),
                Attribute::Ints(values) => (7, values.iter().flat_map(|&v| number(8, v)).collect()),
                Attribute::Float(value) => {
                    (1, [varint(2 << 3 | 5), value.to_le_bytes().into()].concat())
                }
                Attribute::Text(text) => (3, bytes(4, text)),
            };
            let attribute = [bytes(1, name), content, number(20, kind)].concat();
            node.extend(bytes(5, attribute));
        }
        self.0.extend(bytes(1, node));
        self
    }

    pub(super) fn output(mut self, name: &str) -> Self {
        self.0.extend(bytes(12, bytes(1, name)));
        self
    }

    /// The file, whose last output is `output`.
    pub(super) fn file(self, output: &str) -> Vec<u8> {
        let graph = self.output(output).0;
        let operators = bytes(8, number(2, 17));
        [number(1, 8), bytes(7, graph), operators].concat()
    }
}
