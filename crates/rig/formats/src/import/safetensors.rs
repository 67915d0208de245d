//! Safetensors: a JSON header of names, types, shapes and places, then the numbers. Written here are the weights of a
//! recurrent decoder under PyTorch's names.

use std::io::Write;
use std::ops::Range;
use std::path::Path;

use betz_base::file::write_atomically;
use betz_base::{Error, Result};
use betz_runtime::model::{Cell, Decoder, Head};
use serde_json::{Map, Value, json};

use super::description::{self, BLEND, DEVIATIONS, KEY};
use super::tensor::{CAPS, Tensor, Tensors};
use super::transposed;

/// Reads all tensors of a file, and how Betz described the decoder that it exported.
///
/// # Errors
/// [`InvalidModel`](betz_base::ErrorKind::InvalidModel) for a file that is damaged, or has numbers of another type than floating-point ones.
pub(super) fn read(bytes: &[u8]) -> Result<(Tensors, Option<String>)> {
    let damaged = |what: &str| {
        Error::new(
            betz_base::ErrorKind::InvalidModel,
            format!("safetensors: {what}; write the file again"),
        )
    };
    let (length, rest) = bytes
        .split_first_chunk::<8>()
        .ok_or_else(|| damaged("expected the length of a header, found the end"))?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let header = rest
        .get(..length)
        .ok_or_else(|| damaged("the header is longer than the file"))?;
    let numbers = &rest[length..];
    let header: Map<String, Value> = serde_json::from_slice(header)
        .map_err(|e| damaged(&format!("expected a header in JSON: {e}")))?;
    let (mut tensors, mut described) = (Tensors::new(), None);
    for (name, about) in header {
        if name == "__metadata__" {
            let text = about.get(KEY).and_then(Value::as_str);
            described = text.map(str::to_owned);
            continue;
        }
        let list = |key: &str| -> Option<Vec<usize>> {
            let list = about.get(key)?.as_array()?.iter();
            list.map(|v| usize::try_from(v.as_u64()?).ok()).collect()
        };
        let wrong = |what: &str| damaged(&format!("tensor {name}: {what}"));
        let shape = list("shape").ok_or_else(|| wrong("expected a shape"))?;
        let place = list("data_offsets").filter(|place| place.len() == 2);
        let place = place.ok_or_else(|| wrong("expected two data_offsets"))?;
        let raw = numbers
            .get(Range {
                start: place[0],
                end: place[1],
            })
            .ok_or_else(|| wrong("its numbers lie outside the file"))?;
        let kind = about.get("dtype").and_then(Value::as_str).unwrap_or("none");
        let values = values(kind, raw).ok_or_else(|| {
            wrong(&format!(
                "expected numbers of type F64, F32, F16 or BF16, got {kind}"
            ))
        })?;
        let expected = shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
        if expected != Some(values.len()) {
            return Err(wrong(&format!(
                "expected {shape:?} numbers, got {}",
                values.len()
            )));
        }
        tensors.insert(name, Tensor { shape, values });
    }
    Ok((tensors, described))
}

fn values(kind: &str, raw: &[u8]) -> Option<Vec<f64>> {
    let two = |read: fn([u8; 2]) -> f64| {
        let (numbers, rest) = raw.as_chunks::<2>();
        rest.is_empty()
            .then(|| numbers.iter().map(|n| read(*n)).collect())
    };
    match kind {
        "F64" => {
            let (numbers, rest) = raw.as_chunks::<8>();
            let read = |n: &[u8; 8]| f64::from_le_bytes(*n);
            rest.is_empty().then(|| numbers.iter().map(read).collect())
        }
        "F32" => {
            let (numbers, rest) = raw.as_chunks::<4>();
            let read = |n: &[u8; 4]| f64::from(f32::from_le_bytes(*n));
            rest.is_empty().then(|| numbers.iter().map(read).collect())
        }
        "F16" => two(|n| half(u16::from_le_bytes(n))),
        "BF16" => two(|n| f64::from(f32::from_bits(u32::from(u16::from_le_bytes(n)) << 16))),
        _ => None,
    }
}

/// A number of IEEE 754's 16 bits.
pub(super) fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// The weights of a recurrent decoder as safetensors, one file for all members: `member0.rnn.weight_ih_l0`, … of
/// PyTorch's `nn.GRU` or `nn.LSTM`, and `member0.readout.weight` and `.bias` of an `nn.Linear`; without `member0.` if
/// there is one. The estimates are the sum of the members' readouts. Of a [`Blend`](betz_runtime::model::Blend), `blend`
/// holds the number of usual members, w, a and k, and `blend_deviations` σ; g and m are the sums over the members before
/// that number, and from it on. Caps of counts (`count_caps`, if there are any) are
/// to be applied to the counts before. The metadata `properties` holds the rest of the decoder as JSON, for an import.
///
/// # Errors
/// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a decoder of another kind.
pub fn to_bytes(decoder: &Decoder) -> Result<Vec<u8>> {
    let Head::Recurrent(network) = decoder.head() else {
        return Err(Error::argument(format!(
            "safetensors: expected a recurrent decoder, got a {} one; export it as ONNX",
            decoder.kind()
        )));
    };
    let mut tensors: Vec<(String, Vec<usize>, Vec<f64>)> = Vec::new();
    let module = if network.cell == Cell::Lstm {
        "lstm"
    } else {
        "gru"
    };
    let first_columns = network.cell.gates() * network.units[0];
    for (m, member) in network.members.iter().enumerate() {
        let prefix = match network.members.len() {
            1 => String::new(),
            _ => format!("member{m}."),
        };
        for (l, (layer, &units)) in member.layers.iter().zip(&network.units).enumerate() {
            let columns = network.cell.gates() * units;
            let wide = |values: &[f32]| values.iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
            let (weights, bias) = match l {
                0 => {
                    let rows = decoder.weights().chunks_exact(decoder.latents());
                    let own = m * first_columns..(m + 1) * first_columns;
                    let weights = rows.flat_map(|row| row[own.clone()].iter().copied());
                    (weights.collect(), decoder.intercept()[own.clone()].to_vec())
                }
                _ => (wide(&layer.input_weights), wide(&layer.input_bias)),
            };
            let inputs = weights.len() / columns;
            let mut push = |name: &str, shape: &[usize], values: Vec<f64>| {
                tensors.push((
                    format!("{prefix}{module}.{name}_l{l}"),
                    shape.to_vec(),
                    values,
                ));
            };
            push(
                "weight_ih",
                &[columns, inputs],
                transposed(&weights, columns),
            );
            let own = wide(&layer.state_weights);
            push("weight_hh", &[columns, units], transposed(&own, columns));
            push("bias_ih", &[columns], bias);
            push("bias_hh", &[columns], wide(&layer.state_bias));
        }
        let outputs = network.bias.len();
        let readout = member.readout.iter().map(|&v| f64::from(v)).collect();
        let shape = vec![outputs, member.readout.len() / outputs.max(1)];
        tensors.push((format!("{prefix}readout.weight"), shape, readout));
        let bias = match &network.blend {
            _ if m == 0 => network.bias.clone(),
            Some(blend) if m == blend.usual => blend.bias.clone(),
            _ => vec![0.0; outputs],
        };
        tensors.push((format!("{prefix}readout.bias"), vec![outputs], bias));
    }
    if let Some(blend) = &network.blend {
        let numbers = description::blend_numbers(blend);
        tensors.push((BLEND.into(), vec![numbers.len()], numbers));
        let deviations = blend.deviations.clone();
        tensors.push((DEVIATIONS.into(), vec![deviations.len()], deviations));
    }
    let caps = &decoder.limits().count_caps;
    if !caps.is_empty() {
        let caps: Vec<f64> = caps.iter().map(|&cap| f64::from(cap)).collect();
        tensors.push((CAPS.into(), vec![caps.len()], caps));
    }
    Ok(file(
        &tensors,
        Some(&description::describe(decoder, network)),
    ))
}

pub(super) fn file(
    tensors: &[(String, Vec<usize>, Vec<f64>)],
    described: Option<&Value>,
) -> Vec<u8> {
    let (mut header, mut numbers) = (Map::new(), Vec::new());
    // First in the file, by which Betz knows its own.
    let mut metadata = json!({"producer": "betz"});
    if let Some(described) = described {
        metadata[KEY] = described.to_string().into();
    }
    header.insert("__metadata__".into(), metadata);
    for (name, shape, values) in tensors {
        let start = numbers.len();
        numbers.extend(values.iter().flat_map(|&v| (v as f32).to_le_bytes()));
        let about = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, numbers.len()]});
        header.insert(name.clone(), about);
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend(numbers);
    bytes
}

/// Writes [`to_bytes`] to `path`: whole, or not at all.
///
/// # Errors
/// The errors of [`to_bytes`]; [`Io`](betz_base::ErrorKind::Io) if the file cannot be written.
pub fn write(decoder: &Decoder, path: &Path) -> Result<()> {
    let bytes = to_bytes(decoder)?;
    write_atomically(path, |file| file.write_all(&bytes))
}
