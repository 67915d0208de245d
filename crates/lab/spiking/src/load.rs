//! Files that a network's description names.

use std::path::Path;

use betz_base::{Error, ErrorKind, Result};

use crate::kinds::{Neuron, SpikeTrains};
use crate::spec::{Network, Population};

impl Network {
    /// Reads a network from JSON and the files that it names, relative to `folder`, and checks it.
    ///
    /// # Errors
    /// As [`Network::from_json`]; `Io` and `InvalidRecording` naming the file and the line.
    pub fn load(text: &str, folder: &Path) -> Result<Self> {
        let mut network: Self = serde_json::from_str(text)
            .map_err(|e| Error::argument(format!("network description: {e}")))?;
        for population in &mut network.populations {
            let neurons = population.neurons;
            read_values(population, folder)
                .map_err(|e| e.at(format!("population {:?}", population.name)))?;
            if let Neuron::Spikes(trains) = &mut population.neuron {
                read_trains(trains, neurons, folder)
                    .map_err(|e| e.at(format!("population {:?}", population.name)))?;
            }
        }
        network.check()?;
        Ok(network)
    }
}

/// Replaces files of values per neuron by what they hold.
fn read_values(population: &mut Population, folder: &Path) -> Result<()> {
    (population.start_mv.read_file(folder)).map_err(|e| e.at("start_mv"))?;
    match &mut population.neuron {
        Neuron::Model(model) => {
            for (name, value) in &mut model.parameters {
                value.read_file(folder).map_err(|e| e.at(name))?;
            }
            Ok(())
        }
        Neuron::Poisson(source) => source
            .rate_hz
            .read_file(folder)
            .map_err(|e| e.at("rate_hz")),
        _ => Ok(()),
    }
}

/// Replaces the name of a file by the spikes that it holds.
fn read_trains(trains: &mut SpikeTrains, neurons: u32, folder: &Path) -> Result<()> {
    let Some(file) = trains.file.take() else {
        return Ok(());
    };
    if !trains.trains_ms.is_empty() {
        return Err(Error::argument(
            "spikes: expected trains_ms or file, got both",
        ));
    }
    let path = folder.join(file);
    let text = std::fs::read_to_string(&path).map_err(|e| Error::io("reading", &path, &e))?;
    trains.trains_ms = vec![Vec::new(); neurons as usize];
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let spike = line.split_once(',').and_then(|(neuron, seconds)| {
            let neuron: usize = neuron.trim().parse().ok()?;
            Some((neuron, seconds.trim().parse::<f64>().ok()?))
        });
        match spike {
            Some((neuron, seconds)) if neuron < neurons as usize && seconds.is_finite() => {
                trains.trains_ms[neuron].push(seconds * 1e3);
            }
            None if line.is_empty() || number == 1 => {}
            _ => {
                return Err(Error::new(
                    ErrorKind::InvalidRecording,
                    format!(
                        "{}: line {number}: expected \"neuron,seconds\" with a neuron below {neurons}, got {line:?}",
                        path.display()
                    ),
                ));
            }
        }
    }
    Ok(())
}
