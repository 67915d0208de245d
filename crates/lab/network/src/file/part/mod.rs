//! Shards of a network, and the network that they make together.

mod bytes;
#[cfg(test)]
mod tests;

use betz_base::team::Shard;
use betz_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::NetworkFile;
use super::header::Header;
use crate::network::Network;
use crate::plan::Plan;

pub use bytes::PART_MAGIC;

/// A shard's windows, and what tells which they are of what.
#[derive(Clone)]
pub struct Part {
    /// Name in messages.
    pub(super) name: String,
    pub(super) shard: Shard,
    pub(super) head: Head,
    pub(super) file: NetworkFile,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) shard: usize,
    pub(super) shards: usize,
    /// Windows of all shards.
    windows: usize,
    first_window: usize,
    pub(super) own_windows: usize,
    windows_of_a_run: usize,
    pub(super) meta: Header,
    pub(super) names: Option<Vec<String>>,
    pub(super) axes: Option<usize>,
    pub(super) timed: bool,
    /// Bits of threshold, density and sample_seconds: JSON's digits may be read one off.
    pub(super) exact: [Option<u64>; 3],
}

impl Head {
    /// The facts of a file, without those of its shard.
    fn of(file: &NetworkFile) -> Self {
        let meta = file.header();
        let bits = |value: Option<f64>| value.map(f64::to_bits);
        Self {
            shard: 0,
            shards: 0,
            windows: 0,
            first_window: 0,
            own_windows: 0,
            windows_of_a_run: 0,
            exact: [meta.threshold, meta.density, meta.sample_seconds].map(bits),
            meta,
            names: file.names.clone(),
            axes: file.positions.as_ref().map(|p| p.axes),
            timed: file.window_seconds.is_some(),
        }
    }
}

impl Part {
    /// The windows of `shard`, in `file`, of `plan`.
    ///
    /// # Errors
    /// [`Mismatch`](ErrorKind::Mismatch) for a network of other windows than the shard's, and for values of all pairs,
    /// which are not kept.
    pub fn new(plan: &Plan, shard: Shard, file: NetworkFile) -> Result<Self> {
        let own = plan.windows_of(shard);
        if own.len() != file.network.len() || file.full.is_some() {
            return Err(Error::mismatch(format!(
                "shard {shard}: expected {} windows without the values of all pairs, got {}{}",
                own.len(),
                file.network.len(),
                if file.full.is_some() {
                    " with them"
                } else {
                    ""
                }
            )));
        }
        Ok(Self {
            name: format!("shard {shard}"),
            shard,
            head: Head {
                shard: shard.number(),
                shards: shard.of(),
                windows: plan.windows().len(),
                first_window: own.start,
                own_windows: own.len(),
                windows_of_a_run: plan.run_windows(),
                ..Head::of(&file)
            },
            file,
        })
    }

    /// A whole network as its only shard.
    fn of_whole(file: NetworkFile) -> Result<Self> {
        if file.full.is_some() {
            return Err(Error::mismatch(
                "expected a network without the values of all pairs, got one with them",
            ));
        }
        let shard = Shard::new(1, 1)?;
        let windows = file.network.len();
        Ok(Self {
            name: "a network".to_owned(),
            shard,
            head: Head {
                shard: shard.number(),
                shards: shard.of(),
                windows,
                first_window: 0,
                own_windows: windows,
                windows_of_a_run: windows,
                ..Head::of(&file)
            },
            file,
        })
    }

    /// Which shard it is.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Windows of the whole network.
    pub fn windows_of_all(&self) -> usize {
        self.head.windows
    }

    /// Its windows.
    pub fn network(&self) -> &Network {
        &self.file.network
    }

    /// The network of all shards, in whatever order they come. It holds them twice for a moment.
    ///
    /// # Errors
    /// [`Mismatch`](ErrorKind::Mismatch) naming the shard and what differs, for shards of another network, one that is
    /// there twice or missing; [`InvalidArgument`](ErrorKind::InvalidArgument) for more edges than all may have.
    pub fn join(parts: Vec<Self>) -> Result<NetworkFile> {
        let Some(first) = parts.first() else {
            return Err(Error::argument("expected shards of a network, got none"));
        };
        for part in &parts[1..] {
            first.same_plan(part)?;
        }
        let (shards, windows) = (first.head.shards, first.head.windows);
        let numbered = parts.into_iter().map(|p| (p.head.shard, p.name.clone(), p));
        let parts = Shard::in_order(shards, numbered)?;
        let mut whole: Option<NetworkFile> = None;
        let mut devices: Vec<String> = Vec::new();
        let mut next = 0;
        for (name, part) in parts {
            let (head, file) = (part.head, part.file);
            if head.first_window != next {
                return Err(Error::mismatch(format!(
                    "{name}: expected the windows from {next} on, got those from {} on",
                    head.first_window
                )));
            }
            next += head.own_windows;
            if head.own_windows > 0 && !devices.contains(&head.meta.device) {
                devices.push(head.meta.device);
            }
            match &mut whole {
                None => whole = Some(file),
                Some(whole) => {
                    whole.network.append(file.network);
                    if let (Some(to), Some(from)) = (&mut whole.window_seconds, file.window_seconds)
                    {
                        to.extend(from);
                    }
                }
            }
        }
        let Some(mut whole) = whole.filter(|_| next == windows) else {
            return Err(Error::mismatch(format!(
                "expected {windows} windows of all shards, got {next}"
            )));
        };
        whole.network.meta.device = devices.join(" and ");
        let most = whole.network.meta.spec.max_edges;
        if whole.network.edges() > most {
            return Err(crate::engine::too_many(most));
        }
        Ok(whole)
    }

    /// Refuses `other` where it is of another network than this, or of other shards of it.
    fn same_plan(&self, other: &Self) -> Result<()> {
        let plan = |part: &Self| {
            let mut head = part.head.clone();
            (head.shard, head.first_window, head.own_windows) = (0, 0, 0);
            let meta = &mut head.meta;
            (meta.rechecked, meta.rebuilt, meta.extreme) = (0, 0, 0);
            meta.device.clear();
            // The numbers themselves are compared.
            head.exact = [None; 3];
            serde_json::to_value(head).map_err(|e| Error::new(ErrorKind::Internal, e.to_string()))
        };
        let (expected, got) = (plan(self)?, plan(other)?);
        let difference = difference("", &expected, &got).or_else(|| {
            let bits = |p: &Self| -> Vec<u64> {
                let values = p.file.positions.iter().flat_map(|p| &p.values);
                values.map(|v| v.to_bits()).collect()
            };
            (bits(self) != bits(other)).then(|| "other places of its nodes".to_owned())
        });
        match difference {
            None => Ok(()),
            Some(difference) => Err(Error::mismatch(format!(
                "{}: expected a shard of the same network as {}, got {difference}",
                other.name, self.name
            ))),
        }
    }
}

/// The first thing in which two heads differ, in words.
fn difference(key: &str, expected: &Value, got: &Value) -> Option<String> {
    /// Longest text of a value that is shown.
    const SHOWN: usize = 60;
    if expected == got {
        return None;
    }
    if let (Value::Object(a), Value::Object(b)) = (expected, got) {
        let keys = a.keys().chain(b.keys());
        return keys
            .filter_map(|key| {
                let of = |map: &serde_json::Map<String, Value>| {
                    map.get(key).cloned().unwrap_or(Value::Null)
                };
                difference(key, &of(a), &of(b))
            })
            .next();
    }
    let text = |value: &Value| match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (expected, got) = (text(expected), text(got));
    let key = key.replace('_', " ");
    Some(if expected.len().max(got.len()) > SHOWN {
        format!("other {key}")
    } else {
        format!("{key} {got} instead of {expected}")
    })
}
