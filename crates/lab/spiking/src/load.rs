//! Files that a network's description names.

use std::path::Path;

use betz_base::{Error, ErrorKind, Result};
use serde::Deserialize;

use crate::kinds::{Neuron, SpikeTrains};
use crate::spec::{Network, Population, Projection};

impl Network {
    /// Reads a network from JSON and the files that it names, relative to `folder`, and checks it.
    ///
    /// # Errors
    /// As [`Network::from_json`]; `Io` and `InvalidRecording` naming the file and the line.
    pub fn load(text: &str, folder: &Path) -> Result<Self> {
        let mut network: Self = serde_json::from_str(text).map_err(|e| explain(text, &e))?;
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

/// The error of a text that describes no network: names the population or projection, and the field if the error does not.
fn explain(text: &str, error: &serde_json::Error) -> Error {
    let words = error.to_string();
    let place = match serde_json::from_str(text) {
        Ok(whole) => faulty_part(&whole),
        Err(_) => None,
    };
    let begins = |any: &[&str]| any.iter().any(|begin| words.starts_with(begin));
    let no_number = begins(&["expected value", "number out of"]);
    // The first of these name the field; of other faults of the text, the last key tells nothing.
    let is_clear = begins(&["unknown", "missing", "neuron"]);
    let key = match (error.is_data() || no_number) && !is_clear {
        true => last_key(text, error).map(|key| format!(" (the value of {key})")),
        false => None,
    };
    let hint = match no_number && key.is_some() {
        true => ": JSON has no NaN and no infinity",
        false => "",
    };
    let said = Error::argument(format!("{words}{}{hint}", key.unwrap_or_default()));
    match place {
        Some(place) => said.at(place),
        None => said.at("network description"),
    }
}

/// The first population or projection of a description that is none.
fn faulty_part(whole: &serde_json::Value) -> Option<String> {
    let name = |part: &serde_json::Value, key: &str| match part.get(key) {
        Some(serde_json::Value::String(name)) => name.clone(),
        _ => "?".to_owned(),
    };
    let parts = |key: &str| {
        let list = whole.get(key).and_then(|list| list.as_array());
        list.map(Vec::as_slice).unwrap_or_default()
    };
    for (i, part) in parts("populations").iter().enumerate() {
        if Population::deserialize(part).is_err() {
            return Some(match part.get("name").and_then(|name| name.as_str()) {
                Some(name) => format!("population {name:?}"),
                None => format!("population {i}"),
            });
        }
    }
    for (i, part) in parts("projections").iter().enumerate() {
        if Projection::deserialize(part).is_err() {
            let (source, target) = (name(part, "source"), name(part, "target"));
            return Some(format!("projection {i} ({source} to {target})"));
        }
    }
    None
}

/// The last key of a text before the place of an error, with its quotes.
fn last_key<'t>(text: &'t str, error: &serde_json::Error) -> Option<&'t str> {
    let line_start: usize = (text.split_inclusive('\n'))
        .take(error.line().checked_sub(1)?)
        .map(str::len)
        .sum();
    let before = text.get(..line_start + error.column().min(text.len() - line_start))?;
    let key = before[..before.rfind(':')?].trim_end();
    let begin = key.strip_suffix('"')?.rfind('"')?;
    Some(&key[begin..])
}

/// Replaces files of values per neuron by what they hold.
fn read_values(population: &mut Population, folder: &Path) -> Result<()> {
    (population.start_mv.read_file(folder)).map_err(|e| e.at("start_mv"))?;
    if let Some(tuning) = &mut population.tuning {
        tuning.read_files(folder)?;
    }
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
