//! A node of BRAND (Ali et al. 2024): input from one Redis stream, output to another, as the graph says.
//!
//! A node is told its nickname and where Redis is; the newest entry of `supergraph_stream` has its parameters
//! `input_stream` and `output_stream`. It says in `NICKNAME_state` how it is: NODE_STARTED, NODE_READY, NODE_SHUTDOWN.
//! Of an entry it reads `samples` (one number a channel, raw), `ts` (8 bytes, handed on as `ts_in`) and `sync` (JSON,
//! of which `nsp_idx`); it writes `ts`, `ts_in`, `sync`, `status` and `samples` (float64). A Redis that goes away is
//! waited for.

mod entries;
pub(crate) mod resp;

use std::time::{Duration, Instant};

use betz_base::{Error, ErrorKind, Result};

pub(crate) use self::entries::Entries;
use self::resp::{Connection, Reply};
use crate::bus::{Content, Counts, Estimate, Frame, Reception, Sink, Source, Tally};
use crate::clock::{age_ns, monotonic_ns};

/// Between two attempts to reach a Redis that is gone.
const RETRY: Duration = Duration::from_millis(100);

/// Where Redis is, and what the node is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    redis: String,
    nickname: String,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "brand://{}?nickname={}", self.redis, self.nickname)
    }
}

impl Place {
    /// `redis`: HOST:PORT or a socket's path.
    ///
    /// # Errors
    /// `InvalidArgument` without a nickname.
    pub fn new(redis: &str, nickname: Option<&str>) -> Result<Self> {
        let nickname = nickname.ok_or_else(|| {
            Error::argument(format!(
                "brand://{redis}: expected ?nickname=NAME, as the graph calls the node, got none"
            ))
        })?;
        Ok(Self {
            redis: redis.into(),
            nickname: nickname.into(),
        })
    }

    fn connect(&self) -> Result<Connection> {
        Connection::open(&self.redis)
            .map_err(|e| Error::new(ErrorKind::Io, format!("Redis at {}: {e}", self.redis)))
    }

    fn io(&self, error: &std::io::Error) -> Error {
        Error::new(ErrorKind::Io, format!("Redis at {}: {error}", self.redis))
    }

    fn say(&self, connection: &mut Connection, code: &str, status: &str) -> std::io::Result<()> {
        let state = format!("{}_state", self.nickname);
        let parts = ["XADD", &state, "*", "code", code, "status", status];
        connection.ask(&parts.map(str::as_bytes)).map(|_| ())
    }

    /// The parameter `name` of this node in the newest graph.
    fn parameter(&self, connection: &mut Connection, name: &str) -> Result<String> {
        let newest = ["XREVRANGE", "supergraph_stream", "+", "-", "COUNT", "1"];
        let reply = connection
            .ask(&newest.map(str::as_bytes))
            .map_err(|e| self.io(&e))?;
        let refused = |got: String| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "supergraph_stream: expected a node {} with the parameter {name}, got {got}",
                    self.nickname
                ),
            )
        };
        if let Reply::Error(error) = &reply {
            return Err(refused(error.clone()));
        }
        let entry = reply
            .list()
            .first()
            .ok_or_else(|| refused("no graph".into()))?;
        let data = entry.list().get(1).and_then(|fields| fields.get("data"));
        let data = data.ok_or_else(|| refused("an entry without data".into()))?;
        let graph: serde_json::Value =
            serde_json::from_slice(data.bytes()).map_err(|e| refused(format!("no JSON: {e}")))?;
        let nodes = graph["nodes"]
            .as_object()
            .ok_or_else(|| refused("no nodes".into()))?;
        let node = nodes
            .values()
            .find(|n| n["nickname"] == self.nickname.as_str());
        let node = node.ok_or_else(|| {
            let names: Vec<_> = nodes
                .values()
                .filter_map(|n| n["nickname"].as_str())
                .collect();
            refused(format!("nodes {}", names.join(", ")))
        })?;
        let value = node["parameters"][name].as_str();
        value
            .map(str::to_owned)
            .ok_or_else(|| refused("none of that name".into()))
    }
}

/// Type of the numbers in `samples`, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Samples {
    /// Counts, a byte each.
    Int8,
    /// Counts, two bytes each.
    Int16,
    /// Counts, two bytes each, up to 65,535.
    UInt16,
    /// Features.
    Float32,
}

impl Samples {
    /// Reads NumPy's name of a type.
    ///
    /// # Errors
    /// `InvalidArgument` for any other.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "int8" => Ok(Self::Int8),
            "int16" => Ok(Self::Int16),
            "uint16" => Ok(Self::UInt16),
            "float32" => Ok(Self::Float32),
            _ => Err(Error::argument(format!(
                "type of samples: expected int8, int16, uint16 or float32, got {name}"
            ))),
        }
    }

    /// Puts `bytes` into `frame`; whether they are `channels` of these.
    fn put(self, bytes: &[u8], channels: usize, frame: &mut Frame) -> bool {
        let size = match self {
            Self::Int8 => 1,
            Self::Int16 | Self::UInt16 => 2,
            Self::Float32 => 4,
        };
        if bytes.len() != size * channels {
            return false;
        }
        if self == Self::Float32 {
            frame.content = Content::Features;
            let values = bytes
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            frame.features.extend(values);
            return frame.features.iter().all(|v| v.is_finite());
        }
        frame.content = Content::Counts;
        for number in bytes.chunks_exact(size) {
            let count = match (self, number) {
                (Self::Int8, [a]) => u16::try_from(*a as i8).ok(),
                (Self::Int16, [a, b]) => u16::try_from(i16::from_le_bytes([*a, *b])).ok(),
                (_, [a, b]) => Some(u16::from_le_bytes([*a, *b])),
                _ => None,
            };
            let Some(count) = count else { return false };
            frame.counts.push(count);
        }
        true
    }
}

/// Steps of a BRAND graph, one per entry. It waits for Redis: put it [on a thread of its own](crate::bus::threads).
pub struct BrandSource {
    entries: Entries,
    samples: Samples,
    channels: usize,
}

impl BrandSource {
    /// The node at `place`; connects with the first step.
    pub fn new(place: Place, samples: Samples, channels: usize) -> Self {
        Self {
            entries: Entries::new(place),
            samples,
            channels,
        }
    }
}

impl Source for BrandSource {
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception> {
        let Some(fields) = self.entries.next(patience)? else {
            return Ok(Reception::Nothing);
        };
        let tally = &self.entries.tally;
        frame.clear();
        let samples = fields.get("samples").map_or(&[][..], Reply::bytes);
        if !self.samples.put(samples, self.channels, frame) {
            tally.malformed.add(1);
            return Ok(Reception::Nothing);
        }
        let ts = fields.get("ts").and_then(|ts| ts.bytes().try_into().ok());
        frame.sent = ts.map_or(0, i64::from_le_bytes);
        let sync = fields.get("sync").map_or(&[][..], Reply::bytes);
        let sync: Option<serde_json::Value> = serde_json::from_slice(sync).ok();
        let index = sync.and_then(|sync| sync["nsp_idx"].as_u64());
        frame.sequence = index.unwrap_or_else(|| tally.steps.get());
        tally.steps.add(1);
        Ok(Reception::Step)
    }

    fn counts(&self) -> Counts {
        self.entries.tally.counts()
    }
}

/// Outputs to a BRAND graph, one entry per step. It waits for Redis: put it [on a thread of its own](crate::bus::threads).
pub struct BrandSink {
    place: Place,
    connection: Option<Connection>,
    output: Option<String>,
    tried: Option<Instant>,
    samples: Vec<u8>,
    tally: Tally,
}

impl BrandSink {
    /// The node at `place`; connects with the first output.
    pub fn new(place: Place) -> Self {
        Self {
            place,
            connection: None,
            output: None,
            tried: None,
            samples: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn connect(&mut self) -> Result<()> {
        if self.connection.is_some() || self.tried.is_some_and(|t| t.elapsed() < RETRY) {
            return Ok(());
        }
        self.tried = Some(Instant::now());
        match (self.place.connect(), &self.output) {
            (Ok(connection), Some(_)) => {
                self.tally.reconnects.add(1);
                self.connection = Some(connection);
            }
            (Ok(mut connection), None) => {
                self.output = Some(self.place.parameter(&mut connection, "output_stream")?);
                self.connection = Some(connection);
            }
            (Err(_), Some(_)) => {}
            (Err(error), None) => return Err(error),
        }
        Ok(())
    }
}

impl Sink for BrandSink {
    fn give(&mut self, decoded: &Estimate<'_>) -> Result<()> {
        self.connect()?;
        let (Some(connection), Some(output)) = (&mut self.connection, &self.output) else {
            self.tally.unsent.add(1);
            return Ok(());
        };
        self.samples.clear();
        let values = decoded.values.iter().map(|v| f64::from(*v));
        self.samples.extend(values.flat_map(f64::to_le_bytes));
        // BRAND's nodes stamp with `time.monotonic_ns()`, and hand on the device's time as `nsp_idx`.
        let now = monotonic_ns();
        let arrival = || now - age_ns(decoded.host_ns);
        let ts_in = decoded.sent.unwrap_or_else(arrival);
        let sync = format!("{{\"nsp_idx\":{}}}", decoded.device);
        let reply = connection.ask(&[
            b"XADD",
            output.as_bytes(),
            b"MAXLEN",
            b"~",
            b"100000",
            b"*",
            b"ts",
            &now.to_le_bytes(),
            b"ts_in",
            &ts_in.to_le_bytes(),
            b"sync",
            sync.as_bytes(),
            b"status",
            &decoded.status.to_le_bytes(),
            b"samples",
            &self.samples,
        ]);
        match reply {
            Ok(Reply::Text(_)) => {
                self.tally.messages.add(1);
                self.tally.steps.add(1);
            }
            Ok(_) => self.tally.unsent.add(1),
            Err(_) => {
                self.connection = None;
                self.tally.unsent.add(1);
            }
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.tally.counts()
    }
}
