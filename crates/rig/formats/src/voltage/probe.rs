//! Positions of channels from a file of probeinterface.

use std::path::Path;

use betz_base::{Error, ErrorKind, Result};
use serde_json::Value;

use super::text;

/// Places of channels from a probeinterface file: contacts with `device_channel_indices`, or one per channel in order.
///
/// # Errors
/// [`ErrorKind::InvalidRecording`] for what is no such file, [`ErrorKind::Mismatch`] where contacts and channels
/// cannot be told apart, [`ErrorKind::Io`].
pub fn read_probe(path: &Path, channels: usize) -> Result<Vec<Option<[f32; 2]>>> {
    let bad = |what: String| Error::recording(format!("{}: {what}", path.display()));
    let json: Value = serde_json::from_str(&text(path)?).map_err(|e| {
        bad(format!(
            "expected a probe as probeinterface writes it, in JSON, got: {e}"
        ))
    })?;
    let probes = json["probes"]
        .as_array()
        .filter(|p| !p.is_empty())
        .ok_or_else(|| bad("expected a list `probes`, got none".to_owned()))?;
    let mut places = vec![None; channels];
    let contacts_of = |probe: &Value| probe["contact_positions"].as_array().map_or(0, Vec::len);
    let all: usize = probes.iter().map(contacts_of).sum();
    let mut next = 0;
    for (p, probe) in probes.iter().enumerate() {
        let unit = match probe["si_units"].as_str() {
            Some("mm") => 1e3,
            Some("m") => 1e6,
            _ => 1.0,
        };
        let contacts = probe["contact_positions"]
            .as_array()
            .ok_or_else(|| bad(format!("probe {p}: expected contact_positions, got none")))?;
        let wired = probe["device_channel_indices"].as_array();
        if wired.is_some_and(|w| w.len() != contacts.len()) || (wired.is_none() && all != channels)
        {
            return Err(Error::new(
                ErrorKind::Mismatch,
                format!(
                    "{}: expected a contact for each of {channels} channels, or device_channel_indices of all contacts, got {all} contacts",
                    path.display()
                ),
            ));
        }
        for (c, contact) in contacts.iter().enumerate() {
            let at = |axis: usize| {
                let value = contact[axis].as_f64().map(|v| (v * unit) as f32);
                value.filter(|v| v.is_finite())
            };
            let (Some(x), Some(y)) = (at(0), at(1)) else {
                return Err(bad(format!(
                    "probe {p}, contact {c}: expected a finite x and y, got {contact}"
                )));
            };
            let channel = match wired {
                Some(wired) => wired[c].as_i64().unwrap_or(-1),
                None => next,
            };
            next += 1;
            // A contact that is wired to nothing has −1.
            if channel < 0 {
                continue;
            }
            let place = usize::try_from(channel)
                .ok()
                .and_then(|c| places.get_mut(c));
            match place {
                Some(place @ None) => *place = Some([x, y]),
                Some(_) => {
                    return Err(bad(format!(
                        "probe {p}, contact {c}: channel {channel} has a contact already"
                    )));
                }
                None => {
                    return Err(Error::mismatch(format!(
                        "{}: probe {p}, contact {c}: expected a channel below {channels}, got {channel}",
                        path.display()
                    )));
                }
            }
        }
    }
    Ok(places)
}
