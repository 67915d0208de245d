//! Shards of a network as files, and the network that they make together.
//!
//! A [frame](betz_base::frame) with its checksum around, all numbers little-endian:
//!
//! ```text
//! length u32, JSON (UTF-8): shard, shards, windows of all, number of the first window, windows of a run, samples
//!                           between them; `meta` of the network's file; node names; what floats are to the last bit
//! window_seconds f64 each, positions f64 each, as the JSON says
//! windows, edges and undefined nodes, in words u64
//! ```

use std::io::Write;
use std::path::Path;

use betz_base::file::{read_all, write_atomically};
use betz_base::frame::{self, Content};
use betz_base::team::Shard;
use betz_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::header::{self, Header};
use super::{NetworkFile, Positions, read};
use crate::network::{Meta, Network};
use crate::plan::Plan;
use crate::words::{absorb, to_words};

/// The first bytes of a shard's file.
pub const PART_MAGIC: [u8; 8] = *b"BETZNETP";

const CONTENT: Content = Content {
    magic: PART_MAGIC,
    name: "a shard of a network",
    damaged: ErrorKind::InvalidRecording,
};

const VERSION: u32 = 1;

/// A shard's windows, and what tells which they are of what.
#[derive(Clone)]
pub struct Part {
    /// What messages call it.
    name: String,
    shard: Shard,
    head: Head,
    file: NetworkFile,
}

#[derive(Clone, Serialize, Deserialize)]
struct Head {
    shard: usize,
    shards: usize,
    /// Of all shards.
    windows: usize,
    first_window: usize,
    own_windows: usize,
    windows_of_a_run: usize,
    meta: Header,
    names: Option<Vec<String>>,
    axes: Option<usize>,
    timed: bool,
    /// Bits of threshold, density and sample_seconds: JSON's digits may be read one off.
    exact: [Option<u64>; 3],
}

fn damaged(what: impl std::fmt::Display) -> Error {
    Error::recording(format!("a shard of a network: {what}"))
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
        let meta = file.header();
        let bits = |value: Option<f64>| value.map(f64::to_bits);
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
                exact: [meta.threshold, meta.density, meta.sample_seconds].map(bits),
                meta,
                names: file.names.clone(),
                axes: file.positions.as_ref().map(|p| p.axes),
                timed: file.window_seconds.is_some(),
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

    /// The bytes of its file.
    ///
    /// # Errors
    /// [`Internal`](ErrorKind::Internal) when a number cannot be written as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let text = serde_json::to_vec(&self.head)
            .map_err(|e| Error::new(ErrorKind::Internal, format!("a shard of a network: {e}")))?;
        let words = to_words(&self.file.network);
        let mut bytes = vec![0; frame::HEADER];
        bytes.reserve_exact(text.len() + 8 * words.len() + frame::OVERHEAD);
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&text);
        let seconds = self.file.window_seconds.iter().flatten();
        let places = self.file.positions.iter().flat_map(|p| &p.values);
        for number in seconds.chain(places) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&[0; frame::OVERHEAD - frame::HEADER]);
        frame::seal(CONTENT, VERSION, &mut bytes);
        Ok(bytes)
    }

    /// The shard in `bytes`, checked as a network's file is.
    ///
    /// # Errors
    /// [`InvalidRecording`](ErrorKind::InvalidRecording) for bytes that are none, are damaged or cut short, or hold what
    /// no network can; [`UnsupportedVersion`](ErrorKind::UnsupportedVersion).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (version, payload) = frame::open(CONTENT, bytes)?;
        if version != VERSION {
            return Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!("a shard of a network: expected version {VERSION}, got {version}"),
            ));
        }
        let short = || damaged("expected more than it holds");
        let (length, rest) = payload.split_first_chunk::<4>().ok_or_else(short)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (text, rest) = rest.split_at_checked(length).ok_or_else(short)?;
        let mut head: Head = serde_json::from_slice(text).map_err(damaged)?;
        let number = |bits: Option<u64>| bits.map(f64::from_bits);
        [
            head.meta.threshold,
            head.meta.density,
            head.meta.sample_seconds,
        ] = head.exact.map(number);
        let shard = Shard::new(head.shard, head.shards).map_err(|e| damaged(e.message()))?;
        let meta = header::meta(&head.meta).map_err(|e| damaged(e.message()))?;
        let (words, odd) = rest.as_chunks::<8>();
        if !odd.is_empty() {
            return Err(damaged(format_args!(
                "expected words of 8 bytes, got {} more",
                odd.len()
            )));
        }
        let mut rest = words;
        let mut numbers = |count: usize| -> Result<Vec<f64>> {
            let (taken, left) = rest.split_at_checked(count).ok_or_else(short)?;
            rest = left;
            Ok(taken.iter().map(|w| f64::from_le_bytes(*w)).collect())
        };
        let window_seconds = match head.timed {
            true => Some(numbers(head.own_windows)?),
            false => None,
        };
        let positions = match head.axes {
            Some(axes) => Some(Positions {
                values: numbers(meta.nodes.saturating_mul(axes))?,
                axes,
            }),
            None => None,
        };
        let words: Vec<u64> = rest.iter().map(|w| u64::from_le_bytes(*w)).collect();
        // The words have what was counted.
        let mut network = Network::empty(Meta {
            rechecked: 0,
            rebuilt: 0,
            extreme: 0,
            ..meta
        });
        absorb(&mut network, &words).map_err(|e| damaged(e.message()))?;
        if network.len() != head.own_windows {
            return Err(damaged(format_args!(
                "expected {} windows, got {}",
                head.own_windows,
                network.len()
            )));
        }
        read::check(&network).map_err(|e| damaged(e.message()))?;
        let file = NetworkFile {
            network,
            names: head.names.clone(),
            positions,
            window_seconds,
            source: head.meta.source.clone(),
            chance: head.meta.chance.clone(),
            complete: true,
            compact: head.meta.compact,
            full: None,
        };
        (file.nodes().check(file.network.nodes())).map_err(|e| damaged(e.message()))?;
        Ok(Self {
            name: format!("shard {shard}"),
            shard,
            head,
            file,
        })
    }

    /// Writes the file `path`: complete, or not at all.
    ///
    /// # Errors
    /// As [`to_bytes`](Self::to_bytes); [`Io`](ErrorKind::Io).
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes()?;
        write_atomically(path, |file| file.write_all(&bytes))
    }

    /// Reads the file `path`.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes), and [`Io`](ErrorKind::Io); messages begin with the path.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = read_all(path, Some(&PART_MAGIC))?;
        let mut part = Self::from_bytes(&bytes).map_err(|e| e.at(path.display()))?;
        part.name = path.display().to_string();
        Ok(part)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Measure, NetworkSpec, Signal, Threshold, Window};

    const NODES: usize = 9;

    fn samples(seed: u32) -> Vec<f32> {
        (0..700_u32)
            .flat_map(|t| {
                (0..NODES as u32).map(move |n| match (n, t) {
                    (8, _) => 2.0,
                    (7, 300) => f32::NAN,
                    _ => {
                        let wave = ((t * (n % 4 + 1)) as f32 / 9.0).sin();
                        wave + (t * (n + 7 + seed) % 13) as f32 / 9.0
                    }
                })
            })
            .collect()
    }

    fn whole(plan: &Plan, signal: &Signal<'_>) -> NetworkFile {
        named(plan.run(signal, &()).unwrap())
    }

    fn named(network: Network) -> NetworkFile {
        NetworkFile {
            names: Some((0..NODES).map(|n| format!("n{n}")).collect()),
            positions: Some(Positions {
                values: (0..2 * NODES).map(|n| 0.1 * n as f64).collect(),
                axes: 2,
            }),
            window_seconds: Some(
                network
                    .window_start()
                    .iter()
                    .map(|s| *s as f64 / 3.0)
                    .collect(),
            ),
            ..NetworkFile::new(network)
        }
    }

    fn parts(plan: &Plan, signal: &Signal<'_>, of: usize) -> Vec<Part> {
        (1..=of)
            .map(|number| {
                let shard = Shard::new(number, of).unwrap();
                let network = plan.run_shard(shard, signal, &()).unwrap();
                let part = Part::new(plan, shard, named(network)).unwrap();
                Part::from_bytes(&part.to_bytes().unwrap()).unwrap()
            })
            .collect()
    }

    #[test]
    fn shards_make_the_network_to_the_last_bit() {
        let samples = samples(0);
        // Two segments, and seconds that JSON does not give back at once.
        let signal = Signal::new(&samples, NODES).unwrap();
        let signal = signal.with_segments(vec![0..290, 310..700]).unwrap();
        let signal = signal.with_sample_seconds(1.0 / 30.3).unwrap();
        let window = Window {
            length: 60,
            step: 3,
        };
        for measure in [
            Measure::Pearson,
            Measure::Spearman,
            Measure::Lagged { lags: 3 },
            Measure::Partial,
        ] {
            for threshold in [
                Threshold::Absolute(0.437_219_345_1),
                Threshold::Density(0.2),
                Threshold::TopPerNode(2),
            ] {
                let spec = NetworkSpec::new(measure, window).threshold(threshold);
                let Ok(mut plan) = Plan::new(&spec, &signal) else {
                    continue;
                };
                // Runs as short as in long recordings.
                plan.chunk_windows = plan.chunk_windows.min(17);
                let whole = whole(&plan, &signal);
                // More shards than runs, too.
                for of in [1, 2, 3, 7, 120, 300] {
                    let mut parts = parts(&plan, &signal, of);
                    parts.reverse();
                    let joined = Part::join(parts).unwrap();
                    assert_eq!(
                        joined.meta_json().unwrap(),
                        whole.meta_json().unwrap(),
                        "{of} of {measure:?}, {threshold:?}"
                    );
                    assert!(joined == whole, "{of} of {measure:?}, {threshold:?}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_belong_together_is_refused_by_name() {
        let (samples, others) = (samples(0), samples(1));
        let signal = Signal::new(&samples, NODES).unwrap();
        let window = Window {
            length: 60,
            step: 3,
        };
        let spec = NetworkSpec::pearson(window).threshold(Threshold::Absolute(0.4));
        let plan_of = |spec: &NetworkSpec| {
            let mut plan = Plan::new(spec, &signal).unwrap();
            plan.chunk_windows = 17;
            plan
        };
        let plan = plan_of(&spec);
        let all = parts(&plan, &signal, 3);
        let refused = |parts: Vec<Part>, words: &str| {
            let error = Part::join(parts).unwrap_err();
            assert!(error.message().contains(words), "{words}: {error}");
        };
        refused(Vec::new(), "got none");
        refused(
            all[..2].to_vec(),
            "expected all 3 shards, got 2: none of number 3",
        );
        refused(
            vec![all[0].clone(), all[1].clone(), all[1].clone()],
            "expected each shard once, got shard 2",
        );
        let with = |part: Part| vec![all[0].clone(), part, all[2].clone()];
        refused(
            with(parts(&plan, &signal, 4)[1].clone()),
            "got shards 4 instead of 3",
        );
        let other = plan_of(&spec.threshold(Threshold::Absolute(0.5)));
        refused(
            with(parts(&other, &signal, 3)[1].clone()),
            "threshold 0.5 instead of 0.4",
        );
        let other = plan_of(
            &NetworkSpec::pearson(Window {
                length: 60,
                step: 4,
            })
            .threshold(spec.threshold),
        );
        refused(with(parts(&other, &signal, 3)[1].clone()), "instead of");
        let mut other = plan.clone();
        other.chunk_windows = 16;
        refused(
            with(parts(&other, &signal, 3)[1].clone()),
            "windows of a run 16 instead of 17",
        );
        // Another recording of the same shape: the hash that its source has.
        let second = Signal::new(&others, NODES).unwrap();
        let sourced = |signal: &Signal<'_>, number: usize| {
            let shard = Shard::new(number, 3).unwrap();
            let mut file = named(plan.run_shard(shard, signal, &()).unwrap());
            file.source = Some(super::super::Source {
                name: "calcium.npz".to_owned(),
                hash: format!("{:016x}", signal.hash()),
            });
            Part::new(&plan, shard, file).unwrap()
        };
        refused(vec![sourced(&signal, 1), sourced(&second, 2)], "got hash ");
        let mut renamed = all[1].clone();
        renamed.head.meta.betz = "0.0.1".to_owned();
        refused(with(renamed), "betz 0.0.1 instead of");
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let samples = samples(0);
        let signal = Signal::new(&samples, NODES).unwrap();
        let spec = NetworkSpec::pearson(Window {
            length: 60,
            step: 40,
        })
        .threshold(Threshold::Absolute(0.4));
        let plan = Plan::new(&spec, &signal).unwrap();
        let shard = Shard::new(1, 1).unwrap();
        let part = Part::new(&plan, shard, named(plan.run(&signal, &()).unwrap())).unwrap();
        let bytes = part.to_bytes().unwrap();
        for at in (0..bytes.len()).step_by(7) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(Part::from_bytes(&changed).is_err(), "byte {at}");
            assert!(Part::from_bytes(&bytes[..at]).is_err(), "{at} bytes");
        }
        // Whole frames around what no shard is: a window, an edge or a node that cannot be.
        let length = u32::from_le_bytes(*bytes[frame::HEADER..].first_chunk().unwrap()) as usize;
        let words = frame::HEADER + 4 + length;
        for at in (words..bytes.len() - 4).step_by(8) {
            for value in [u64::MAX, 1 << 40] {
                let mut changed = bytes.clone();
                changed[at..at + 8].copy_from_slice(&value.to_le_bytes());
                frame::seal(CONTENT, VERSION, &mut changed);
                // No panic, and what is let pass is a network still.
                if let Ok(part) = Part::from_bytes(&changed) {
                    read::check(part.network()).unwrap();
                }
            }
        }
        let mut newer = bytes.clone();
        frame::seal(CONTENT, VERSION + 1, &mut newer);
        let error = Part::from_bytes(&newer).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    }
}
