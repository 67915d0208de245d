//! Which series of voltage there are, and which is meant.

use betz_base::error::{Error, ErrorKind, Result};

use super::super::hdf5::File;

/// Types of series that are voltage, by `neurodata_type`.
const TYPE: &str = "ElectricalSeries";

/// Paths of the series of voltage: those in `acquisition` itself, and those in containers and in `processing` (`LFP`,
/// `FilteredEphys`), which are taken by name alone.
pub(in super::super) fn found(file: &File) -> (Vec<String>, Vec<String>) {
    let data = file
        .datasets()
        .filter_map(|path| path.strip_suffix("/data"));
    let voltage = data
        .filter(|path| path.starts_with("acquisition/") || path.starts_with("processing/"))
        .filter(|path| file.group_text(path, "neurodata_type").as_deref() == Some(TYPE));
    voltage
        .map(str::to_owned)
        .partition(|path| path.starts_with("acquisition/") && path.matches('/').count() == 1)
}

/// The path of the series that is meant.
pub(super) fn chosen(file: &File, wanted: Option<&str>) -> Result<String> {
    let (mut there, others) = found(file);
    let Some(wanted) = wanted.map(|w| w.trim_matches('/')) else {
        return match (there.len(), others.is_empty()) {
            (1, _) => Ok(there.remove(0)),
            (0, true) => Err(Error::new(
                ErrorKind::InsufficientData,
                format!("expected voltage (an {TYPE} in acquisition), got none"),
            )),
            (0, false) => Err(Error::argument(format!(
                "series: expected an {TYPE} in acquisition, got none; by name there are [{}]",
                others.join(", ")
            ))),
            _ => Err(Error::argument(format!(
                "series: expected the name of one of [{}], because there are several",
                there.join(", ")
            ))),
        };
    };
    there.extend(others);
    let named = |path: &&String| {
        let before = path.strip_suffix(wanted);
        before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let exact = there.iter().find(|path| *path == wanted);
    let mut of_name: Vec<&String> = match exact {
        Some(path) => vec![path],
        None => there.iter().filter(named).collect(),
    };
    match of_name.len() {
        1 => Ok(of_name.remove(0).clone()),
        0 => {
            let ending = format!("/{wanted}/data");
            let mut all = file.datasets();
            let other =
                all.find_map(|path| path.ends_with(&ending).then(|| &path[..path.len() - 5]));
            let path = other.unwrap_or(wanted);
            match file.group_text(path, "neurodata_type").as_deref() {
                // Behind a soft link.
                Some(TYPE) => Ok(path.to_owned()),
                Some(other) if !path.is_empty() => Err(Error::argument(format!(
                    "series: expected an {TYPE}, got '{path}', which is of type {other}"
                ))),
                _ => Err(Error::argument(format!(
                    "series: expected one of [{}], got '{wanted}'",
                    there.join(", ")
                ))),
            }
        }
        _ => Err(Error::argument(format!(
            "series: expected the path of one series, got '{wanted}', the name of {}",
            of_name
                .iter()
                .map(|p| p.as_str())
                .collect::<Vec<_>>()
                .join(" and ")
        ))),
    }
}
