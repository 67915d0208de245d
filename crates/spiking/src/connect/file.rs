//! `connections.bin` of Galbraith 2010 (appendix C): for each synapse u32 source, u32 target,
//! f32 weight, f32 delay, little-endian, without a header.

use std::io::Write;
use std::path::Path;

use betz_base::{Error, ErrorKind, Result, file::write_atomically};

use crate::random::Normal;
use crate::spec::{ListedSynapse, MAX_DELAY_STEPS, Network};

/// Bytes of a synapse.
const RECORD: usize = 16;

/// Meaning of the file's fourth number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delays {
    /// A delay in seconds, whole steps of this many ms.
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
            Delays::Seconds { step_ms } => (f64::from(delay) * 1e3 / step_ms).round(),
        };
        if !(1.0..=f64::from(MAX_DELAY_STEPS)).contains(&delay_steps) {
            return refuse(format!(
                "synapse {i}: expected a delay of 1 to {MAX_DELAY_STEPS} steps, got {delay} s (the paper's files hold delays that mean nothing: read those with delays ignored)"
            ));
        }
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
                let weight = (f64::from(edge.weight) * unit) as f32;
                let delay = (f64::from(edge.delay) * network.step_ms * 1e-3) as f32;
                file.write_all(&source.to_le_bytes())?;
                file.write_all(&edge.target.to_le_bytes())?;
                file.write_all(&weight.to_le_bytes())?;
                file.write_all(&delay.to_le_bytes())?;
            }
        }
        Ok(())
    })
}
