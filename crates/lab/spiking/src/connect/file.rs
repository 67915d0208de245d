//! `connections.bin` of Galbraith 2010 (appendix C): for each synapse u32 source, u32 target,
//! f32 weight, f32 delay, little-endian, without a header.

use std::io::Write;
use std::path::Path;

use betz_base::{Error, ErrorKind, Result, file::write_atomically};

use crate::engine::Engine;
use crate::random::Normal;
use crate::spec::{ListedSynapse, MAX_DELAY_STEPS, Network};

/// Bytes of a synapse.
const RECORD: usize = 16;
/// Part of a step by which a delay in f32 may miss a whole step.
const ROUNDED: f64 = 1e-3;

/// Meaning of the file's fourth number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delays {
    /// A delay in seconds: whole steps of this many ms, to a thousandth of a step.
    Seconds {
        /// Length of a step.
        step_ms: f64,
    },
    /// Nothing, as in the paper, whose simulator reads it and drops it: every delay is one step.
    Ignored,
}

/// Reads the synapses among `neurons` neurons.
///
/// # Errors
/// `Io` when the file cannot be read; `InvalidRecording` with the synapse's number when the file
/// is cut short, a neuron is out of range, or a weight or delay is none.
pub fn read(path: &Path, neurons: u32, delays: Delays) -> Result<Vec<ListedSynapse>> {
    let bytes = std::fs::read(path).map_err(|e| Error::io("reading", path, &e))?;
    parse(&bytes, neurons, delays).map_err(|e| e.at(path.display()))
}

/// Reads the synapses from a file's bytes.
///
/// # Errors
/// As [`read`].
pub fn parse(bytes: &[u8], neurons: u32, delays: Delays) -> Result<Vec<ListedSynapse>> {
    let refuse = |message: String| Err(Error::new(ErrorKind::InvalidRecording, message));
    let (records, rest) = bytes.as_chunks::<RECORD>();
    if !rest.is_empty() {
        return refuse(format!(
            "connections: expected a multiple of {RECORD} bytes, got {}: cut short in synapse {}",
            bytes.len(),
            records.len()
        ));
    }
    let mut synapses = Vec::new();
    synapses
        .try_reserve_exact(records.len())
        .map_err(|_| Error::no_memory("synapses", records.len() * size_of::<ListedSynapse>()))?;
    for (i, record) in records.iter().enumerate() {
        let word = |k: usize| {
            u32::from_le_bytes([
                record[4 * k],
                record[4 * k + 1],
                record[4 * k + 2],
                record[4 * k + 3],
            ])
        };
        let (source, target) = (word(0), word(1));
        let (weight, delay) = (f32::from_bits(word(2)), f32::from_bits(word(3)));
        if source >= neurons || target >= neurons {
            return refuse(format!(
                "synapse {i}: expected neurons below {neurons}, got {source} to {target}"
            ));
        }
        if !weight.is_finite() {
            return refuse(format!(
                "synapse {i}: expected a finite weight, got {weight}"
            ));
        }
        let delay_steps = match delays {
            Delays::Ignored => 1.0,
            Delays::Seconds { step_ms } => {
                let steps = f64::from(delay) * 1e3 / step_ms;
                let whole = steps.round();
                let fits = (1.0..=f64::from(MAX_DELAY_STEPS)).contains(&whole);
                if !fits || (steps - whole).abs() > ROUNDED {
                    return refuse(format!(
                        "synapse {i}: expected a delay of 1 to {MAX_DELAY_STEPS} whole steps of {step_ms} ms, in seconds, got {delay} s = {steps} steps (the paper's files hold delays that mean nothing: read those with delays ignored)"
                    ));
                }
                whole
            }
        };
        synapses.push(ListedSynapse {
            source,
            target,
            weight,
            delay_steps: delay_steps as u32,
        });
    }
    Ok(synapses)
}

/// Writes a network's synapses, as they are simulated (weights in whole units of the fixed point),
/// by source. Nobody sees half a file.
///
/// # Errors
/// As [`Network::check`]; `Io` when the file cannot be written.
pub fn write(path: &Path, network: &Network) -> Result<()> {
    network.check()?;
    let unit = super::weight_unit(network)?;
    let wirings = (0..network.projections.len())
        .map(|i| super::Wiring::new(network, i, unit))
        .collect::<Result<Vec<_>>>()?;
    let normal = Normal::new();
    let mut row = Vec::new();
    write_atomically(path, |file| {
        for source in 0..network.neurons() as u32 {
            row.clear();
            for wiring in &wirings {
                if let Some(own) = source.checked_sub(wiring.source_first)
                    && own < wiring.sources
                {
                    wiring.row(own, &normal, &mut row);
                }
            }
            for edge in &row {
                let synapse = ListedSynapse {
                    source,
                    target: edge.target,
                    weight: (f64::from(edge.weight) * unit) as f32,
                    delay_steps: u32::from(edge.delay),
                };
                write_synapse(file, &synapse, network.step_ms)?;
            }
        }
        Ok(())
    })
}

/// Writes the synapses of a network that has run, with the weights that they have learned, by projection and source.
/// Nobody sees half a file.
///
/// # Errors
/// As [`write()`].
pub fn write_learned(path: &Path, engine: &Engine) -> Result<()> {
    let network = engine.network();
    if network.projections.iter().all(|p| p.plasticity.is_none()) {
        return write(path, network);
    }
    let firsts = network.firsts();
    let first = |name: &str| Ok::<_, Error>(firsts[network.population(name)?] as u32);
    let mut all = Vec::new();
    for (p, projection) in network.projections.iter().enumerate() {
        all.push((
            first(&projection.source)?,
            first(&projection.target)?,
            engine.weights(p)?,
        ));
    }
    write_atomically(path, |file| {
        for (source, target, synapses) in &all {
            for synapse in synapses {
                let own = ListedSynapse {
                    source: source + synapse.source,
                    target: target + synapse.target,
                    ..*synapse
                };
                write_synapse(file, &own, network.step_ms)?;
            }
        }
        Ok(())
    })
}

fn write_synapse(
    file: &mut dyn Write,
    synapse: &ListedSynapse,
    step_ms: f64,
) -> std::io::Result<()> {
    let delay = (f64::from(synapse.delay_steps) * step_ms * 1e-3) as f32;
    file.write_all(&synapse.source.to_le_bytes())?;
    file.write_all(&synapse.target.to_le_bytes())?;
    file.write_all(&synapse.weight.to_le_bytes())?;
    file.write_all(&delay.to_le_bytes())
}
