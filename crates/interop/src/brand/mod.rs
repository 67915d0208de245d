//! A node of BRAND (Ali et al. 2024): input from one Redis stream, output to another, as the graph says.
//!
//! A node is told its nickname and where Redis is; the newest entry of `supergraph_stream` has its parameters
//! `input_stream` and `output_stream`. It says in `NICKNAME_state` how it is: NODE_STARTED, NODE_READY, NODE_SHUTDOWN.
//! Of an entry it reads `samples` (one number a channel, raw), `ts` (8 bytes, handed on as `ts_in`) and `sync` (JSON,
//! of which `nsp_idx`); it writes `ts`, `ts_in`, `sync`, `status` and `samples` (float64). A Redis that goes away is
//! waited for.

mod resp;

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use betz_base::{Error, ErrorKind, Result};

use self::resp::{Connection, Reply};
use crate::bus::{Content, Counts, Estimate, Frame, Reception, Sink, Source, Tally};

/// Between two attempts to reach a Redis that is gone.
const RETRY: Duration = Duration::from_millis(100);
/// Entries that are asked for at once.
const AT_ONCE: &[u8] = b"64";

/// Where Redis is, and what the node is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    redis: String,
    nickname: String,
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

/// Steps of a BRAND graph, one per entry. It waits for Redis: put it [on a thread of its own](crate::bus::beside).
pub struct BrandSource {
    place: Place,
    samples: Samples,
    channels: usize,
    connection: Option<Connection>,
    was_connected: bool,
    tried: Option<Instant>,
    input: String,
    /// The last entry that was read.
    last: Vec<u8>,
    /// Entries that the stream had been given before the first of ours, and how many of ours came.
    base: Option<i64>,
    entries: i64,
    /// Entries that Redis let go before they were read, told so far.
    told: u64,
    waiting: VecDeque<Reply>,
    tally: Tally,
}

impl BrandSource {
    /// The node at `place`; connects with the first step.
    pub fn new(place: Place, samples: Samples, channels: usize) -> Self {
        Self {
            place,
            samples,
            channels,
            connection: None,
            was_connected: false,
            tried: None,
            input: String::new(),
            last: b"0-0".to_vec(),
            base: None,
            entries: 0,
            told: 0,
            waiting: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    /// Connects, or says why not; a Redis that was there before is waited for.
    fn connect(&mut self, patience: Duration) -> Result<bool> {
        if self.connection.is_some() {
            return Ok(true);
        }
        if let Some(tried) = self.tried {
            let left = RETRY.saturating_sub(tried.elapsed());
            std::thread::sleep(left.min(patience));
            if left > patience {
                return Ok(false);
            }
        }
        self.tried = Some(Instant::now());
        match self.begin() {
            Ok(connection) => {
                self.connection = Some(connection);
                self.tally.reconnects.add(u64::from(self.was_connected));
                self.was_connected = true;
                Ok(true)
            }
            Err(_) if self.was_connected => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn begin(&mut self) -> Result<Connection> {
        let mut connection = self.place.connect()?;
        let io = |e| self.place.io(&e);
        self.place
            .say(&mut connection, "0", "NODE_STARTED")
            .map_err(io)?;
        if !self.was_connected {
            self.input = self.place.parameter(&mut connection, "input_stream")?;
            let newest = ["XREVRANGE", &self.input, "+", "-", "COUNT", "1"];
            let reply = connection.ask(&newest.map(str::as_bytes)).map_err(io)?;
            if let Some(entry) = reply.list().first().and_then(|e| e.list().first()) {
                self.last = entry.bytes().to_vec();
            }
        }
        // A stream that Redis has lost begins at 0 again.
        let (added, _) = added(&mut connection, &self.input)
            .map_err(io)?
            .unwrap_or((0, Vec::new()));
        if self.base.is_none_or(|base| added < base + self.entries) {
            (self.base, self.entries) = (Some(if self.was_connected { 0 } else { added }), 0);
            self.told = 0;
        }
        self.place
            .say(&mut connection, "0", "NODE_READY")
            .map_err(io)?;
        Ok(connection)
    }

    /// Reads what is there, or waits for it.
    fn read(&mut self, patience: Duration) -> std::io::Result<()> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let wait = patience.as_millis().clamp(1, 1000).to_string();
        let reply = connection.ask(&[
            b"XREAD",
            b"COUNT",
            AT_ONCE,
            b"BLOCK",
            wait.as_bytes(),
            b"STREAMS",
            self.input.as_bytes(),
            &self.last,
        ])?;
        match reply {
            Reply::List(mut streams) => {
                if let Some(Reply::List(mut stream)) = streams.pop()
                    && let Some(Reply::List(entries)) = stream.pop()
                {
                    if let Some(id) = entries.last().and_then(|e| e.list().first()) {
                        self.last = id.bytes().to_vec();
                    }
                    self.entries += entries.len() as i64;
                    self.waiting.extend(entries);
                }
            }
            Reply::Nil => {
                // All is read: what was added and never came was let go before.
                if let Some((added, newest)) = added(connection, &self.input)?
                    && newest == self.last
                    && let Some(base) = self.base
                {
                    let lost = u64::try_from(added - base - self.entries).unwrap_or(0);
                    self.tally.lost.add(lost.saturating_sub(self.told));
                    self.told = lost.max(self.told);
                }
            }
            // Redis loads its data, or a key is of another type: not for ever.
            _ => {
                self.tally.malformed.add(1);
                std::thread::sleep(patience);
            }
        }
        Ok(())
    }
}

/// Entries that a stream was ever given and the newest one's name; none where there is no such stream, or the server
/// does not say (before Redis 7).
fn added(connection: &mut Connection, stream: &str) -> std::io::Result<Option<(i64, Vec<u8>)>> {
    let info = connection.ask(&[b"XINFO", b"STREAM", stream.as_bytes()])?;
    let added = info.get("entries-added").and_then(Reply::number);
    let newest = info.get("last-generated-id").map(|id| id.bytes().to_vec());
    Ok(added.zip(newest))
}

impl Source for BrandSource {
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception> {
        if self.waiting.is_empty() {
            if !self.connect(patience)? {
                return Ok(Reception::Nothing);
            }
            if self.read(patience).is_err() {
                self.connection = None;
            }
        }
        let Some(entry) = self.waiting.pop_front() else {
            return Ok(Reception::Nothing);
        };
        self.tally.messages.add(1);
        frame.clear();
        let nil = Reply::Nil;
        let fields = entry.list().get(1).unwrap_or(&nil);
        let samples = fields.get("samples").map_or(&[][..], Reply::bytes);
        if !self.samples.put(samples, self.channels, frame) {
            self.tally.malformed.add(1);
            return Ok(Reception::Nothing);
        }
        let ts = fields.get("ts").and_then(|ts| ts.bytes().try_into().ok());
        frame.sent = ts.map_or(0, i64::from_le_bytes);
        let sync = fields.get("sync").map_or(&[][..], Reply::bytes);
        let sync: Option<serde_json::Value> = serde_json::from_slice(sync).ok();
        let index = sync.and_then(|sync| sync["nsp_idx"].as_u64());
        frame.sequence = index.unwrap_or_else(|| self.tally.steps.get());
        self.tally.steps.add(1);
        Ok(Reception::Step)
    }

    fn counts(&self) -> Counts {
        self.tally.counts()
    }
}

impl Drop for BrandSource {
    fn drop(&mut self) {
        if let Some(connection) = &mut self.connection {
            // Whoever is gone cannot be told.
            let _ = self.place.say(connection, "0", "NODE_SHUTDOWN");
        }
    }
}

/// Outputs to a BRAND graph, one entry a step. It waits for Redis: put it [on a thread of its own](crate::bus::beside).
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
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |t| t.as_nanos() as u64);
        let sync = format!("{{\"nsp_idx\":{}}}", decoded.sequence);
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
            &decoded.sent.to_le_bytes(),
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
