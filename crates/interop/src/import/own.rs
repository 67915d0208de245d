//! Recurrent decoders that Betz exported itself: several members, their blend, and what else the decoder needs.

use betz_base::{Error, ErrorKind, Result};
use betz_runtime::model::{Blanking, Blend, Decoder, Head, Limits, OutputRange, Recurrent};
use serde_json::{Value, json};

use super::graph::Graph;
use super::safetensors::{CAPS, Tensor, Tensors, take};
use super::{Network, Options, refuse, torch, transposed};

/// Key of [`describe`] in the metadata of a file, behind `producer`, by which the command line knows its own files.
pub(crate) const KEY: &str = "properties";

/// Names of the engine's weights and intercept in ONNX.
pub(crate) const WEIGHTS: &str = "engine.weights";
pub(crate) const INTERCEPT: &str = "engine.intercept";

/// Names of [`blend_numbers`] and of the deviations.
pub(crate) const BLEND: &str = "blend";
pub(crate) const DEVIATIONS: &str = "blend_deviations";

/// Properties of a decoder that its weights do not tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Properties {
    delay_steps: i64,
    /// Empty if all channels take part.
    pub(super) channel_mask: Vec<bool>,
    /// Without caps of counts, which the network has.
    pub(super) limits: Limits,
    pub(super) memory_steps: u64,
    seed: u64,
}

impl Properties {
    pub(super) fn delay_steps(&self) -> i64 {
        self.delay_steps
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }
}

/// The properties of a recurrent decoder as JSON, beside its weights.
pub(crate) fn describe(decoder: &Decoder, network: &Recurrent) -> Value {
    let limits = decoder.limits();
    let ranges: Vec<[f32; 2]> = limits.ranges.iter().map(|r| [r.low, r.high]).collect();
    let blanking = limits.blanking.as_ref().map(|blanking| {
        json!({
            "least": blanking.least,
            "most": blanking.most,
            "mean_counts": blanking.mean_counts,
        })
    });
    // Infinite bounds become null.
    json!({
        "delay_steps": decoder.delay_steps(),
        "channel_mask": decoder.channel_mask(),
        "ranges": ranges,
        "blanking": blanking,
        "memory_steps": network.memory_steps,
        "seed": network.seed,
    })
}

/// The numbers of a blend, but for deviations and bias: usual members, w, a and k.
pub(crate) fn blend_numbers(blend: &Blend) -> Vec<f64> {
    vec![blend.usual as f64, blend.share, blend.apart, blend.kept]
}

/// Reads what [`describe`] wrote.
fn properties(text: &str) -> Result<Properties> {
    let value: Value = serde_json::from_str(text).map_err(|e| damaged(&e.to_string()))?;
    read_properties(&value).ok_or_else(|| damaged("a property is missing or of another type"))
}

fn damaged(reason: &str) -> Error {
    Error::new(
        ErrorKind::InvalidModel,
        format!("metadata {KEY:?}: {reason}; export the decoder again"),
    )
}

fn read_properties(value: &Value) -> Option<Properties> {
    let range = |pair: &Value| {
        let bound = |i: usize, none: f32| match pair.get(i)? {
            Value::Null => Some(none),
            bound => bound.as_f64().map(|bound| bound as f32),
        };
        Some(OutputRange {
            low: bound(0, f32::NEG_INFINITY)?,
            high: bound(1, f32::INFINITY)?,
        })
    };
    let blanking = match value.get("blanking")? {
        Value::Null => None,
        blanking => Some(Blanking {
            least: blanking.get("least")?.as_u64()?,
            most: blanking.get("most")?.as_u64()?,
            mean_counts: (blanking.get("mean_counts")?.as_array()?.iter())
                .map(Value::as_f64)
                .collect::<Option<_>>()?,
        }),
    };
    let mask = value.get("channel_mask")?.as_array()?.iter();
    Some(Properties {
        delay_steps: value.get("delay_steps")?.as_i64()?,
        channel_mask: mask.map(Value::as_bool).collect::<Option<_>>()?,
        limits: Limits {
            blanking,
            ranges: (value.get("ranges")?.as_array()?.iter())
                .map(range)
                .collect::<Option<_>>()?,
            ..Limits::default()
        },
        memory_steps: value.get("memory_steps")?.as_u64()?,
        seed: value.get("seed")?.as_u64()?,
    })
}

/// The network of `tensors` under PyTorch's names: of one member, or of several, `member0.` and on.
pub(super) fn network(
    mut tensors: Tensors,
    described: Option<&str>,
    options: Options,
) -> Result<Network> {
    let members = take_members(&mut tensors);
    let mut network = match members.is_empty() {
        true => torch::network(tensors, options)?,
        false => together(tensors, members, options)?,
    };
    network.properties = described.map(properties).transpose()?;
    Ok(network)
}

/// Takes the tensors of each member, without its prefix.
fn take_members(tensors: &mut Tensors) -> Vec<Tensors> {
    let mut members = Vec::new();
    loop {
        let prefix = format!("member{}.", members.len());
        let own: Vec<String> = (tensors.keys())
            .filter(|name| name.starts_with(&prefix))
            .cloned()
            .collect();
        if own.is_empty() {
            return members;
        }
        let member = own.into_iter().filter_map(|name| {
            let tensor = tensors.remove(&name)?;
            Some((name.strip_prefix(&prefix)?.to_owned(), tensor))
        });
        members.push(member.collect());
    }
}

/// The network of several members; `shared` are the tensors of all.
fn together(mut shared: Tensors, members: Vec<Tensors>, options: Options) -> Result<Network> {
    let mut networks = Vec::new();
    for (m, tensors) in members.into_iter().enumerate() {
        let member = torch::network(tensors, options).map_err(|e| e.at(format!("member{m}")))?;
        networks.push(member);
    }
    let mut networks = networks.into_iter();
    let Some(mut network) = networks.next() else {
        return refuse("expected a member, found none".into());
    };
    network.others = networks.collect();
    let units = |of: &Network| -> Vec<usize> { of.layers.iter().map(|l| l.units).collect() };
    let shape = |of: &Network| (of.inputs, of.outputs, of.cell, units(of));
    let own = shape(&network);
    let alike = network.others.iter().all(|other| shape(other) == own);
    if !alike || !network.chain.is_empty() {
        return refuse("expected members of recurrent layers of the same sizes, got others".into());
    }
    let caps = take(&mut shared, CAPS, &[network.inputs])?.unwrap_or_default();
    network.caps = caps.iter().map(|&cap| cap as f32).collect();
    if let Some(numbers) = take(&mut shared, BLEND, &[4])? {
        let deviations = take(&mut shared, DEVIATIONS, &[network.outputs])?;
        let usual = numbers[0] as usize;
        let Some(first) = usual.checked_sub(1).and_then(|i| network.others.get(i)) else {
            return refuse(format!(
                "tensor blend: expected 1 to {} usual members, got {}",
                network.others.len(),
                numbers[0]
            ));
        };
        network.blend = Some(Blend {
            usual,
            share: numbers[1],
            apart: numbers[2],
            kept: numbers[3],
            deviations: deviations.unwrap_or_default(),
            bias: first.bias.clone(),
        });
    }
    // Without a blend all readouts are added.
    if network.blend.is_none() {
        for other in &network.others {
            let pairs = network.bias.iter_mut().zip(&other.bias);
            pairs.for_each(|(sum, bias)| *sum += bias);
        }
    }
    match shared.keys().next() {
        Some(name) => refuse(format!(
            "tensor {name}: expected members, {CAPS} and a blend alone; this tensor is not supported"
        )),
        None => Ok(network),
    }
}

/// The network of a graph that Betz wrote; `None` for another one.
pub(super) fn of_graph(graph: &Graph) -> Option<Result<Network>> {
    let described = graph.properties.get(KEY)?;
    let weights = graph.constants.get(WEIGHTS)?;
    if graph.producer != "betz" {
        return None;
    }
    let Some(mut tensors) = tensors(graph, weights) else {
        return Some(Err(damaged("the weights do not fit it")));
    };
    let numbers = serde_json::from_str(described)
        .ok()
        .and_then(|value: Value| value.get(BLEND).cloned());
    if let Some(Value::Array(numbers)) = numbers {
        let values: Vec<f64> = numbers.iter().filter_map(Value::as_f64).collect();
        let shape = vec![values.len()];
        tensors.insert(BLEND.into(), Tensor { shape, values });
    }
    Some(network(tensors, Some(described), Options::default()))
}

/// The constants of a graph under PyTorch's names and in its order. `weights` are those of the engine, (channel, latent).
fn tensors(graph: &Graph, weights: &Tensor) -> Option<Tensors> {
    let mut tensors = Tensors::new();
    let matrix = |tensor: &Tensor| match tensor.shape.as_slice() {
        &[rows, columns] => Some(Tensor {
            shape: vec![columns, rows],
            values: transposed(&tensor.values, columns),
        }),
        _ => None,
    };
    let list = |tensor: &Tensor| Tensor {
        shape: vec![tensor.values.len()],
        values: tensor.values.clone(),
    };
    for (name, tensor) in &graph.constants {
        let own = match name.split('.').next_back() {
            _ if name == CAPS || name == DEVIATIONS => list(tensor),
            Some(last) if !name.starts_with("member") || last.is_empty() => continue,
            Some(last) if last.starts_with("weight") => matrix(tensor)?,
            _ => list(tensor),
        };
        tensors.insert(name.clone(), own);
    }
    // Rows are latents now, of one member after another.
    let all = matrix(weights)?;
    let intercept = graph.constants.get(INTERCEPT)?;
    let (latents, channels) = (all.shape[0], all.shape[1]);
    let states: Vec<(String, usize)> = (tensors.iter())
        .filter_map(|(name, tensor)| {
            let stem = name.strip_suffix("weight_hh_l0")?;
            Some((stem.to_owned(), tensor.shape[0]))
        })
        .collect();
    for (stem, own) in states {
        let m: usize = stem
            .strip_prefix("member")?
            .split('.')
            .next()?
            .parse()
            .ok()?;
        let rows = m.checked_mul(own)?..m.checked_add(1)?.checked_mul(own)?;
        if rows.end > latents || intercept.values.len() != latents {
            return None;
        }
        let of_input = Tensor {
            shape: vec![own, channels],
            values: all.values[rows.start * channels..rows.end * channels].to_vec(),
        };
        let bias = Tensor {
            shape: vec![own],
            values: intercept.values[rows].to_vec(),
        };
        tensors.insert(format!("{stem}weight_ih_l0"), of_input);
        tensors.insert(format!("{stem}bias_ih_l0"), bias);
    }
    Some(tensors)
}

/// Returns whether a file holds all that `decoder` computes with: its filters hand the counts of a step on as they are.
pub(crate) fn is_whole(decoder: &Decoder) -> bool {
    let of_step = match decoder.bank().filters() {
        [filter] => {
            filter.order == 0 && decoder.step_seconds() / filter.tau_seconds > super::PARTS - 1.0
        }
        _ => false,
    };
    of_step && decoder.low_pass().is_none() && matches!(decoder.head(), Head::Recurrent(_))
}
