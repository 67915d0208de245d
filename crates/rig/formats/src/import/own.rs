//! Recurrent decoders that Betz exported itself: several members, their blend, and what else the decoder needs.

use betz_base::Result;
use betz_runtime::model::Blend;
use serde_json::Value;

use super::description::{BLEND, DEVIATIONS, INTERCEPT, KEY, WEIGHTS, damaged, properties};
use super::graph::Graph;
use super::tensor::{CAPS, Tensor, Tensors, take};
use super::{Network, Options, refuse, safetensors, torch, transposed};

/// The network of a file whose only modules are those of [`torch::network`], or several of them as members.
pub(super) fn read(bytes: &[u8], options: Options) -> Result<Network> {
    let (tensors, described) = safetensors::read(bytes)?;
    network(tensors, described.as_deref(), options)
}

/// The network of `tensors` under PyTorch's names: of one member, or of several, `member0.` and on.
fn network(mut tensors: Tensors, described: Option<&str>, options: Options) -> Result<Network> {
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
