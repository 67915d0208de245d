//! Decoders as ONNX: one step, its state in and out.
//!
//! Inputs are `counts` (1, channels) float32, `state` (states, latents) float64 and, behind a head with a memory,
//! `head_state` float64: (1, outputs) or, of experts, recurrent decoders and classes, (1, states). The second member of a
//! blend has `state_1` and `head_state_1`, and so on. Outputs are `estimates`
//! (1, outputs) float32, `state_out` and `head_state_out`; a gated decoder also has `probabilities` (1, classes) float32.
//! With sampled filters `history` holds the weighted counts of earlier steps, (latents, filters, longest filter less one
//! step) float64, over which a Conv of float32 runs. Without states, `state` is absent, and so is `history` without steps.
//! States are 0 at rest; the states that come out of a step go into the next. Metadata
//! hold `step_seconds`, `delay_steps`, `channels` and `outputs` (names as JSON), and of recurrent decoders `properties`, by
//! which an import knows its own.
//!
//! PSC filters and low-pass are linear: with the drive d = counts · φ, one row per filter, the states s of one latent go to
//! T·[s; d], and the latent is a row of the same matrix. The matrix is found by asking the filters themselves.

mod classes;
mod proto;
mod recurrent;
mod sampled;

use std::io::Write;
use std::ops::Range;
use std::path::Path;

use betz_base::file::write_atomically;
use betz_base::{Error, ErrorKind, Result};
use betz_runtime::model::{Cosines, Decoder, Experts, FilteredReadout, Head, ModelBlend};
use betz_runtime::psc::{BINOMIAL, LowPassFilter};

use self::proto::{DOUBLE, FLOAT, Graph};
use super::import::{CAPS, description};

/// The file of `decoder` as ONNX (opset 17): a linear decoder, a lift, experts, a Kalman filter, a recurrent decoder, a blend,
/// classes or a gate on velocity, with its blanking, its channels' means, its caps of counts and the ranges of its outputs. Estimated variances, channel
/// watches, events and sums that travel with it are left out.
///
/// # Errors
/// `InvalidArgument` for a decoder of another kind; those of its low-pass.
///
/// ```
/// use betz_runtime::model::{Decoder, DecoderParts};
/// use betz_runtime::psc::{Filter, FilterBank};
///
/// let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 0 }])?;
/// let parts = DecoderParts::linear(0.01, bank, vec!["a".into()], vec!["x".into()]);
/// assert!(!betz_formats::onnx::to_bytes(&Decoder::new(parts)?)?.is_empty());
/// # Ok::<(), betz_base::Error>(())
/// ```
pub fn to_bytes(decoder: &Decoder) -> Result<Vec<u8>> {
    let mut graph = Graph::default();
    graph.input("counts", FLOAT, &[1, decoder.channels()]);
    let counts = graph.node_with("Cast", &["counts"], &[("to", DOUBLE)]);
    let estimates = match decoder.head() {
        Head::ModelBlend(blend) => blended(&mut graph, decoder, blend, &counts)?,
        head => estimates(&mut graph, (decoder, head), &counts)?,
    };
    let estimates = graph.node_with("Cast", &[&estimates], &[("to", FLOAT)]);
    graph.first_output(
        "estimates",
        &estimates,
        FLOAT,
        &[1, decoder.outputs().len()],
    );
    let names = |names: Vec<&str>| serde_json::Value::from(names).to_string();
    let channels = decoder.channel_names().iter().map(String::as_str).collect();
    let outputs = decoder.outputs().iter().map(|o| o.name.as_str()).collect();
    let mut properties = vec![
        ("step_seconds", decoder.step_seconds().to_string()),
        ("delay_steps", decoder.delay_steps().to_string()),
        ("kind", decoder.kind().to_string()),
        ("channels", names(channels)),
        ("outputs", names(outputs)),
    ];
    if let Head::Recurrent(network) = decoder.head()
        && description::is_whole(decoder)
    {
        let mut described = description::describe(decoder, network);
        // The graph holds other numbers than these.
        if let Some(blend) = &network.blend {
            described[description::BLEND] = description::blend_numbers(blend).into();
        }
        properties.push((description::KEY, described.to_string()));
    }
    Ok(graph.model(env!("CARGO_PKG_VERSION"), &properties))
}

/// Writes [`to_bytes`] to `path`: whole, or not at all.
///
/// # Errors
/// The errors of [`to_bytes`]; `Io` if the file cannot be written.
pub fn write(decoder: &Decoder, path: &Path) -> Result<()> {
    let bytes = to_bytes(decoder)?;
    write_atomically(path, |file| file.write_all(&bytes))
}

/// From counts to the estimates (1, outputs) of `decoder` with `head`; their name.
fn estimates(
    graph: &mut Graph,
    (decoder, head): (&Decoder, &Head),
    counts: &str,
) -> Result<String> {
    let latents = linear_engine(graph, decoder, counts)?;
    let estimates = self::head(graph, (decoder, head), latents)?;
    Ok(within_ranges(graph, decoder, estimates))
}

/// From counts to the weighted sum of what the members of `decoder` estimate; its name.
fn blended(
    graph: &mut Graph,
    decoder: &Decoder,
    blend: &ModelBlend,
    counts: &str,
) -> Result<String> {
    let others = (blend.members.iter()).map(|member| (&member.decoder, member.decoder.head()));
    let members = std::iter::once((decoder, &*blend.own)).chain(others);
    let mut sum: Option<String> = None;
    for (number, (member, weight)) in members.zip(blend.weights()).enumerate() {
        graph.member = number;
        let estimates = estimates(graph, member, counts)?;
        let weight = graph.doubles(&[1, 1], &[weight]);
        let part = graph.node("Mul", &[&estimates, &weight]);
        sum = Some(match sum {
            None => part,
            Some(before) => graph.node("Add", &[&before, &part]),
        });
    }
    graph.member = 0;
    sum.ok_or_else(|| Error::argument("ONNX: expected a blend of members, got none"))
}

/// From counts and states to latents (1, latents); its name.
fn linear_engine(graph: &mut Graph, decoder: &Decoder, counts: &str) -> Result<String> {
    let (channels, latents) = (decoder.channels(), decoder.latents());
    let (filters, dt) = (decoder.bank().filters(), decoder.step_seconds());
    let one = OneLatent::of(decoder)?;
    let counts = blanked(graph, decoder, counts.to_owned());
    // Samples hold their scale.
    let scales: Vec<f64> = (filters.iter().map(|f| f.scale(dt)))
        .chain(decoder.bank().sampled().iter().map(|_| 1.0))
        .collect();
    let weights: Vec<f64> = (decoder.weights().chunks_exact(latents).enumerate())
        .flat_map(|(row, weights)| weights.iter().map(move |w| (row, w)))
        .map(|(row, w)| w * scales[row % scales.len()])
        .collect();
    let shape = [channels, scales.len() * latents];
    let weights = graph.named_doubles(description::WEIGHTS, &shape, &weights);
    let drive = graph.node("MatMul", &[&counts, &weights]);
    let shape = graph.integers(&[scales.len() as i64, latents as i64]);
    let drive = graph.node("Reshape", &[&drive, &shape]);
    // The states, the drives of recursive filters, and the sum of the responses to sampled ones.
    let mut parts = Vec::new();
    let states = one.states();
    if states > 0 {
        parts.push(graph.state("state", &[states, latents]));
    }
    if !filters.is_empty() {
        parts.push(slice(graph, &drive, 0..filters.len(), 0));
    }
    if one.has_sampled {
        let drive = slice(graph, &drive, filters.len()..scales.len(), 0);
        parts.push(sampled::response(
            graph,
            decoder.bank().sampled(),
            &drive,
            latents,
        )?);
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let all = graph.node_with("Concat", &parts, &[("axis", 0)]);
    let (next, row) = one.matrices();
    let row = graph.doubles(&[1, one.width()], &row);
    if states > 0 {
        let next = graph.doubles(&[states, one.width()], &next);
        let state = graph.node("MatMul", &[&next, &all]);
        graph.next_state("state", &state, &[states, latents]);
    }
    let sums = graph.node("MatMul", &[&row, &all]);
    let intercept = graph.named_doubles(description::INTERCEPT, &[1, latents], decoder.intercept());
    Ok(graph.node("Add", &[&sums, &intercept]))
}

/// Mean counts in place of an artefact's; others no larger than their caps. Channels' means are taken off all.
fn blanked(graph: &mut Graph, decoder: &Decoder, counts: String) -> String {
    let channels = decoder.channels();
    let means = decoder.channel_means();
    let given = counts.clone();
    let counts = match means.is_empty() {
        true => counts,
        false => {
            let means = graph.doubles(&[1, channels], means);
            graph.node("Sub", &[&counts, &means])
        }
    };
    let caps: Vec<f64> = (decoder.limits().count_caps.iter())
        .map(|&cap| f64::from(cap))
        .collect();
    let capped = match caps.is_empty() {
        true => counts.clone(),
        false => {
            let caps = graph.named_doubles(CAPS, &[1, channels], &caps);
            graph.node("Min", &[&counts, &caps])
        }
    };
    let Some(blanking) = &decoder.limits().blanking else {
        return capped;
    };
    let mask: Vec<f64> = decoder
        .channel_mask()
        .iter()
        .map(|used| f64::from(u8::from(*used)))
        .collect();
    let mask = graph.doubles(&[channels, 1], &mask);
    let total = graph.node("MatMul", &[&given, &mask]);
    let least = graph.doubles(&[1, 1], &[blanking.least as f64]);
    let most = graph.doubles(&[1, 1], &[blanking.most as f64]);
    let few = graph.node("Less", &[&total, &least]);
    let many = graph.node("Greater", &[&total, &most]);
    let artefact = graph.node("Or", &[&few, &many]);
    let mut usual = blanking.mean_counts.clone();
    usual
        .iter_mut()
        .zip(means)
        .for_each(|(usual, mean)| *usual -= mean);
    let mean = graph.doubles(&[1, channels], &usual);
    graph.node("Where", &[&artefact, &mean, &capped])
}

/// From latents to outputs (1, outputs); its name.
fn head(graph: &mut Graph, (decoder, head): (&Decoder, &Head), latents: String) -> Result<String> {
    let (inputs, outputs) = (decoder.latents(), decoder.outputs().len());
    match head {
        Head::Linear => Ok(latents),
        Head::Kalman(kalman) => {
            let before = graph.state("head_state", &[1, outputs]);
            let transition: Vec<f64> = (0..outputs * outputs)
                .map(|i| kalman.transition[(i % outputs) * outputs + i / outputs])
                .collect();
            let transition = graph.doubles(&[outputs, outputs], &transition);
            let moved = graph.node("MatMul", &[&before, &transition]);
            let state = graph.node("Add", &[&latents, &moved]);
            graph.next_state("head_state", &state, &[1, outputs]);
            let mean = graph.doubles(&[1, outputs], &kalman.mean);
            Ok(graph.node("Add", &[&state, &mean]))
        }
        Head::Lift(lift) => {
            let cosines = &lift.cosines;
            let z = clipped(graph, latents, cosines.radius);
            let single = graph.node_with("Cast", &[&z], &[("to", FLOAT)]);
            let cosine = self::cosines(graph, &single, cosines, inputs);
            let cosine = graph.node_with("Cast", &[&cosine], &[("to", DOUBLE)]);
            let features = graph.node_with("Concat", &[&z, &cosine], &[("axis", 1)]);
            let state =
                (lift.readout.tau_seconds).map(|_| graph.state("head_state", &[1, outputs]));
            let dt = decoder.step_seconds();
            let (estimates, next) = readout(graph, &lift.readout, features, (dt, state));
            if let Some(next) = next {
                graph.next_state("head_state", &next, &[1, outputs]);
            }
            Ok(estimates)
        }
        Head::Experts(experts) => Ok(by_experts(
            graph,
            experts,
            latents,
            (inputs, decoder.step_seconds()),
        )),
        Head::Recurrent(network) => Ok(recurrent::outputs(graph, network, &latents)),
        Head::Classes(classes) => Ok(classes::probabilities(
            graph,
            classes,
            latents,
            decoder.step_seconds(),
        )),
        Head::VelocityGate(gate) => Ok(classes::gated(
            graph,
            gate,
            &latents,
            decoder.step_seconds(),
        )),
        _ => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "ONNX: expected a decoder of the kind linear, lift, experts, kalman, recurrent, blend, classes or gated, got {}",
                head.name()
            ),
        )),
    }
}

/// Columns of a value of one row.
fn columns(graph: &mut Graph, value: &str, range: Range<usize>) -> String {
    slice(graph, value, range, 1)
}

/// A range of a value along `axis`.
fn slice(graph: &mut Graph, value: &str, range: Range<usize>, axis: i64) -> String {
    let bounds = [range.start as i64, range.end as i64, axis];
    let [start, end, axis] = bounds.map(|bound| graph.integers(&[bound]));
    graph.node("Slice", &[value, &start, &end, &axis])
}

/// The cosines of float32 `z`, (1, units) float32.
fn cosines(graph: &mut Graph, z: &str, cosines: &Cosines, inputs: usize) -> String {
    let frequencies = graph.floats(&[inputs, cosines.units()], &cosines.frequencies);
    let phases = graph.floats(&[1, cosines.units()], &cosines.phases);
    let turns = graph.node("MatMul", &[z, &frequencies]);
    let turns = graph.node("Add", &[&turns, &phases]);
    // Within half a turn the cosine is as exact for many turns as for few.
    let whole = graph.node("Round", &[&turns]);
    let turns = graph.node("Sub", &[&turns, &whole]);
    let full = graph.floats(&[1, 1], &[std::f32::consts::TAU]);
    let angle = graph.node("Mul", &[&turns, &full]);
    graph.node("Cos", &[&angle])
}

/// z·min(1, R / |z|).
fn clipped(graph: &mut Graph, z: String, radius: f64) -> String {
    let squares = graph.node("Mul", &[&z, &z]);
    let axes = graph.integers(&[1]);
    let sum = graph.node("ReduceSum", &[&squares, &axes]);
    let length = graph.node("Sqrt", &[&sum]);
    let radius = graph.doubles(&[1, 1], &[radius]);
    // R / max(|z|, R) is min(1, R / |z|), and never divides by 0.
    let length = graph.node("Max", &[&length, &radius]);
    let factor = graph.node("Div", &[&radius, &length]);
    graph.node("Mul", &[&z, &factor])
}

/// From latents to what experts estimate; its name. `head_state` holds the readout's filter, then the filtered latents.
fn by_experts(
    graph: &mut Graph,
    experts: &Experts,
    latents: String,
    (inputs, dt): (usize, f64),
) -> String {
    let (gate, outputs) = (&experts.gate, experts.readout.intercept.len());
    let count = gate.experts();
    let z = clipped(graph, latents, gate.radius);
    let mut heard = z.clone();
    let mut state = None;
    let mut slow = None;
    if let Some(tau) = experts.readout.tau_seconds {
        let all = graph.state("head_state", &[1, outputs + inputs]);
        state = Some(columns(graph, &all, 0..outputs));
        let before = columns(graph, &all, outputs..outputs + inputs);
        let next = filtered(graph, (&before, &z), (tau, dt));
        heard = graph.node_with("Concat", &[&z, &next], &[("axis", 1)]);
        slow = Some(next);
    }
    let single = graph.node_with("Cast", &[&heard], &[("to", FLOAT)]);
    let weights = graph.floats(&[gate.weights.len() / count, count], &gate.weights);
    let bias = graph.floats(&[1, count], &gate.bias);
    let scores = graph.node("MatMul", &[&single, &weights]);
    let scores = graph.node("Add", &[&scores, &bias]);
    let shares = graph.node_with("Softmax", &[&scores], &[("axis", 1)]);
    let shares = graph.node_with("Cast", &[&shares], &[("to", DOUBLE)]);
    let shape = graph.integers(&[count as i64, 1]);
    let column = graph.node("Reshape", &[&shares, &shape]);
    let products = graph.node("MatMul", &[&column, &z]);
    let shape = graph.integers(&[1, (count * inputs) as i64]);
    let products = graph.node("Reshape", &[&products, &shape]);
    let features = graph.node_with("Concat", &[&z, &shares, &products], &[("axis", 1)]);
    let (estimates, next) = readout(graph, &experts.readout, features, (dt, state));
    if let (Some(next), Some(slow)) = (next, slow) {
        let all = graph.node_with("Concat", &[&next, &slow], &[("axis", 1)]);
        graph.next_state("head_state", &all, &[1, outputs + inputs]);
    }
    estimates
}

/// A first-order filter of `tau` seconds after a step of `dt` that adds `value` to `state`; its name.
fn filtered(graph: &mut Graph, (state, value): (&str, &str), (tau, dt): (f64, f64)) -> String {
    let [decay, gain] = [(-dt / tau).exp(), -(-dt / tau).exp_m1()];
    let [decay, gain] = [decay, gain].map(|factor| graph.doubles(&[1, 1], &[factor]));
    let old = graph.node("Mul", &[state, &decay]);
    let new = graph.node("Mul", &[value, &gain]);
    graph.node("Add", &[&old, &new])
}

/// From features to outputs, and the state of the readout's filter after the step, if it has one.
fn readout(
    graph: &mut Graph,
    readout: &FilteredReadout,
    features: String,
    (dt, state): (f64, Option<String>),
) -> (String, Option<String>) {
    let (width, outputs) = (readout.centre.len(), readout.intercept.len());
    let centre = graph.doubles(&[1, width], &readout.centre);
    let features = graph.node("Sub", &[&features, &centre]);
    let direct = graph.doubles(&[width, outputs], &readout.direct);
    let direct = graph.node("MatMul", &[&features, &direct]);
    let intercept = graph.doubles(&[1, outputs], &readout.intercept);
    let direct = graph.node("Add", &[&direct, &intercept]);
    let (Some(tau), Some(state)) = (readout.tau_seconds, state) else {
        return (direct, None);
    };
    let weights = graph.doubles(&[width, outputs], &readout.filtered);
    let heard = graph.node("MatMul", &[&features, &weights]);
    let next = filtered(graph, (&state, &heard), (tau, dt));
    (graph.node("Add", &[&direct, &next]), Some(next))
}

/// Outputs kept within the ranges that they were trained in.
fn within_ranges(graph: &mut Graph, decoder: &Decoder, estimates: String) -> String {
    let ranges = &decoder.limits().ranges;
    if ranges.is_empty() {
        return estimates;
    }
    let bounds = |bound: fn(&betz_runtime::model::OutputRange) -> f32| -> Vec<f64> {
        ranges.iter().map(|r| f64::from(bound(r))).collect()
    };
    let low = graph.doubles(&[1, ranges.len()], &bounds(|r| r.low));
    let high = graph.doubles(&[1, ranges.len()], &bounds(|r| r.high));
    let estimates = graph.node("Max", &[&estimates, &low]);
    graph.node("Min", &[&estimates, &high])
}

/// Filters and low-pass of one latent.
struct OneLatent {
    /// (decay, order) of each filter.
    filters: Vec<(f64, usize)>,
    /// Sampled filters add the sum of their responses, behind the recursive filters' drives.
    has_sampled: bool,
    low_pass: Option<LowPassFilter>,
}

impl OneLatent {
    fn of(decoder: &Decoder) -> Result<Self> {
        let dt = decoder.step_seconds();
        let filters = decoder.bank().filters().iter();
        Ok(Self {
            filters: filters.map(|f| (f.decay(dt), f.order as usize)).collect(),
            has_sampled: !decoder.bank().sampled().is_empty(),
            low_pass: (decoder.low_pass())
                .map(|low_pass| LowPassFilter::new(low_pass, dt, 1))
                .transpose()?,
        })
    }

    fn states(&self) -> usize {
        let own: usize = self.filters.iter().map(|(_, order)| order + 1).sum();
        own + self
            .low_pass
            .as_ref()
            .map_or(0, |filter| filter.state().len())
    }

    /// Numbers that a step takes: states, drives and the response to sampled filters.
    fn width(&self) -> usize {
        self.states() + self.filters.len() + usize::from(self.has_sampled)
    }

    /// One step: the states after it, and the latent.
    fn step(&self, states: &[f64], drive: &[f64]) -> (Vec<f64>, f64) {
        let (mut next, mut at, mut latent) = (Vec::new(), 0, [0.0]);
        for (&(decay, order), drive) in self.filters.iter().zip(drive) {
            let state = &states[at..=at + order];
            for (j, row) in BINOMIAL.iter().enumerate().take(order + 1) {
                let sum: f64 = row.iter().zip(state).take(j + 1).map(|(b, s)| b * s).sum();
                next.push(decay * sum + if j == 0 { *drive } else { 0.0 });
            }
            at += order + 1;
            latent[0] += next[at - 1];
        }
        if self.has_sampled {
            latent[0] += drive[self.filters.len()];
        }
        if let Some(low_pass) = &self.low_pass {
            let mut low_pass = low_pass.clone();
            low_pass.state_mut().copy_from_slice(&states[at..]);
            low_pass.step(&mut latent);
            next.extend(low_pass.state());
        }
        (next, latent[0])
    }

    /// The matrix from [states; drive] to the next states, row-major, and the row to the latent.
    fn matrices(&self) -> (Vec<f64>, Vec<f64>) {
        let (states, width) = (self.states(), self.width());
        let (mut matrix, mut row) = (vec![0.0; states * width], vec![0.0; width]);
        for column in 0..width {
            let mut unit = vec![0.0; width];
            unit[column] = 1.0;
            let (next, latent) = self.step(&unit[..states], &unit[states..]);
            for (i, value) in next.into_iter().enumerate() {
                matrix[i * width + column] = value;
            }
            row[column] = latent;
        }
        (matrix, row)
    }
}

#[cfg(test)]
mod tests {
    use betz_runtime::model::DecoderParts;
    use betz_runtime::psc::{Filter, FilterBank};

    use super::*;

    #[test]
    fn outputs_have_the_documented_order() {
        let filter = Filter {
            tau_seconds: 0.1,
            order: 0,
        };
        let bank = FilterBank::new(vec![filter]).unwrap();
        let parts = DecoderParts::linear(0.01, bank, vec!["a".into()], vec!["x".into()]);
        let bytes = to_bytes(&Decoder::new(parts).unwrap()).unwrap();
        // Declarations come behind the nodes: a name's length, and the name.
        let last = |name: &str| {
            let mut declared = vec![name.len() as u8];
            declared.extend(name.as_bytes());
            let mut windows = bytes.windows(declared.len());
            windows.rposition(|window| window == declared).unwrap()
        };
        assert!(last("estimates") < last("state_out"));
    }
}
