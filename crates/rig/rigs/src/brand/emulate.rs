//! A Redis with the graph of BRAND, whose adapter writes voltage to a stream.

use betz_base::lock::lock;
use std::collections::VecDeque;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use betz_base::{Error, ErrorKind, Result};

use super::resp::{Reply, read};
use crate::rig::emulate::{Emulator, whole_rows};

/// Name of the node that reads, and of the stream that it reads.
const NODE: &str = "betz";
const STREAM: &str = "continuousNeural";
/// Ticks per second of Cerebus' clock.
const TICKS: f64 = 30_000.0;
/// Entries that Redis keeps.
const KEPT: usize = 1 << 12;

/// Streams of the emulated Redis.
#[derive(Default)]
struct Streams {
    /// Numbers and fields of the entries of the input stream.
    entries: VecDeque<(u64, Vec<Field>)>,
    added: u64,
    /// States that nodes reported.
    states: Vec<String>,
    clients: Vec<TcpStream>,
    is_closed: bool,
}

type Field = (&'static str, Vec<u8>);

/// Streams that connections share, and a bell for new entries.
#[derive(Default)]
struct RedisState {
    streams: Mutex<Streams>,
    bell: Condvar,
}

impl RedisState {
    fn lock(&self) -> MutexGuard<'_, Streams> {
        lock(&self.streams)
    }
}

/// A Redis for one node that reads voltage.
pub struct BrandRedis {
    shared: Arc<RedisState>,
    address: SocketAddr,
    channels: usize,
    rate: f64,
    /// Rows of an entry.
    rows: usize,
    ticks_per_row: u64,
    /// Times of 64 bits in nanoseconds, in place of 32 bits in ticks.
    in_nanoseconds: bool,
    next: u64,
}

fn io(e: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("emulator of BRAND: {e}"))
}

impl BrandRedis {
    /// A stream of `channels` with `rate` rows per second, 1 ms of them in an entry, in a Redis at `at`.
    ///
    /// # Errors
    /// `InvalidArgument` for a rate that does not divide 30,000; `Io` if the system gives no port or no thread.
    pub fn open(at: SocketAddr, channels: usize, rate: f64) -> Result<Self> {
        let ticks = TICKS / rate;
        if !(ticks >= 1.0 && ticks.fract() == 0.0) {
            return Err(Error::argument(format!(
                "emulator of BRAND: expected a rate that divides 30,000 Hz, got {rate}"
            )));
        }
        let listener = TcpListener::bind(at).map_err(io)?;
        let address = listener.local_addr().map_err(io)?;
        let shared = Arc::new(RedisState::default());
        let served = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("betz-redis".into())
            .spawn(move || accept(&listener, &served))
            .map_err(io)?;
        Ok(Self {
            shared,
            address,
            channels,
            rate,
            rows: ((rate / 1000.0) as usize).max(2),
            ticks_per_row: ticks as u64,
            in_nanoseconds: false,
            next: 0,
        })
    }

    /// Sends times of 64 bits in nanoseconds, as later devices do.
    pub fn with_nanoseconds(mut self) -> Self {
        self.in_nanoseconds = true;
        self
    }

    /// Begins with row `row`.
    pub fn starting_at(mut self, row: u64) -> Self {
        self.next = row;
        self
    }

    /// Address for [`open_rig`](crate::rig::open_rig).
    pub fn address(&self) -> String {
        format!(
            "brand://{}?nickname={NODE}&channels={}&rate={}",
            self.address, self.channels, self.rate
        )
    }

    /// States that nodes reported, such as `NODE_READY`.
    pub fn states(&self) -> Vec<String> {
        self.shared.lock().states.clone()
    }

    /// Cuts all connections.
    pub fn disconnect(&mut self) {
        for client in self.shared.lock().clients.drain(..) {
            let _ = client.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Adds an entry of any fields.
    pub fn add(&mut self, samples: &[u8], timestamps: &[u8]) {
        let mut streams = self.shared.lock();
        streams.added += 1;
        let number = streams.added;
        let fields = vec![
            ("timestamps", timestamps.to_vec()),
            ("samples", samples.to_vec()),
        ];
        streams.entries.push_back((number, fields));
        if streams.entries.len() > KEPT {
            streams.entries.pop_front();
        }
        self.shared.bell.notify_all();
    }

    fn time(&self, row: u64) -> Vec<u8> {
        match self.in_nanoseconds {
            true => {
                let nanoseconds = u128::from(row) * 1_000_000_000 / self.rate as u128;
                (nanoseconds as u64).to_le_bytes().to_vec()
            }
            false => ((row * self.ticks_per_row) as u32).to_le_bytes().to_vec(),
        }
    }
}

impl Emulator for BrandRedis {
    fn send(&mut self, voltage: &[i16]) -> Result<()> {
        whole_rows(voltage, self.channels)?;
        for entry in voltage.chunks(self.rows * self.channels) {
            let rows = (entry.len() / self.channels) as u64;
            let by_channel = (0..self.channels)
                .flat_map(|channel| entry.iter().skip(channel).step_by(self.channels));
            let samples: Vec<u8> = by_channel.flat_map(|v| v.to_le_bytes()).collect();
            let times: Vec<u8> = (0..rows)
                .flat_map(|row| self.time(self.next + row))
                .collect();
            self.add(&samples, &times);
            self.next += rows;
        }
        Ok(())
    }

    fn lose(&mut self, rows: u64) -> Result<()> {
        self.next += rows;
        Ok(())
    }

    fn is_heard(&self) -> bool {
        self.shared.lock().states.iter().any(|s| s == "NODE_READY")
    }

    fn restart(&mut self) -> Result<()> {
        self.next = 0;
        Ok(())
    }

    fn next_row(&self) -> u64 {
        self.next
    }
}

impl Drop for BrandRedis {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.bell.notify_all();
        self.disconnect();
        // Wakes the thread that waits for connections.
        drop(TcpStream::connect_timeout(
            &self.address,
            Duration::from_secs(1),
        ));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<RedisState>) {
    for stream in listener.incoming().flatten() {
        if shared.lock().is_closed {
            return;
        }
        let _ = stream.set_nodelay(true);
        if let Ok(copy) = stream.try_clone() {
            shared.lock().clients.push(copy);
        }
        let shared = Arc::clone(shared);
        drop(std::thread::Builder::new().spawn(move || serve(stream, &shared)));
    }
}

/// Answers commands until the client goes away.
fn serve(stream: TcpStream, shared: &RedisState) {
    let Ok(copy) = stream.try_clone() else {
        return;
    };
    let (mut from, mut to) = (BufReader::new(copy), stream);
    while let Ok(command) = read(&mut from, 0) {
        let words: Vec<&[u8]> = command.list().iter().map(Reply::bytes).collect();
        let mut answer = Vec::new();
        put_answer(&words, shared, &mut answer);
        if to.write_all(&answer).is_err() {
            return;
        }
    }
}

fn put_answer(words: &[&[u8]], shared: &RedisState, to: &mut Vec<u8>) {
    let name = words.get(1).copied().unwrap_or_default();
    match words.first().copied().unwrap_or_default() {
        b"XADD" => {
            let state = words.last().copied().unwrap_or_default();
            let state = String::from_utf8_lossy(state).into_owned();
            shared.lock().states.push(state);
            put_text(to, b"1-0");
        }
        b"XREVRANGE" if name == b"supergraph_stream" => {
            let graph = format!(
                "{{\"nodes\": {{\"{NODE}\": {{\"nickname\": \"{NODE}\", \"parameters\": {{\"input_stream\": \"{STREAM}\"}}}}}}}}"
            );
            put_list(to, 1);
            put_entry(to, 1, &[("data", graph.into_bytes())]);
        }
        b"XREVRANGE" => {
            let streams = shared.lock();
            put_list(to, usize::from(!streams.entries.is_empty()));
            if let Some((number, fields)) = streams.entries.back() {
                put_entry(to, *number, fields);
            }
        }
        b"XINFO" => {
            let streams = shared.lock();
            put_list(to, 4);
            put_text(to, b"entries-added");
            let _ = write!(to, ":{}\r\n", streams.added);
            put_text(to, b"last-generated-id");
            put_text(to, format!("{}-0", streams.added).as_bytes());
        }
        b"XREAD" => put_read(words, shared, to),
        _ => to.extend_from_slice(b"-ERR unknown command\r\n"),
    }
}

/// `XREAD COUNT n BLOCK ms STREAMS name id`.
fn put_read(words: &[&[u8]], shared: &RedisState, to: &mut Vec<u8>) {
    let number = |at: usize| -> Option<u64> {
        let text = std::str::from_utf8(words.get(at)?).ok()?;
        text.split('-').next()?.parse().ok()
    };
    let (Some(count), Some(wait), Some(after)) = (number(2), number(4), number(7)) else {
        return to.extend_from_slice(b"-ERR expected COUNT, BLOCK and STREAMS\r\n");
    };
    let until = Instant::now() + Duration::from_millis(wait);
    let mut streams = shared.lock();
    let is_new = |entry: &&(u64, Vec<Field>)| entry.0 > after;
    while !streams.is_closed && !streams.entries.back().as_ref().is_some_and(is_new) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return to.extend_from_slice(b"*-1\r\n");
        }
        let waited = shared.bell.wait_timeout(streams, left);
        streams = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    let new: Vec<_> = streams
        .entries
        .iter()
        .filter(is_new)
        .take(count as usize)
        .collect();
    put_list(to, 1);
    put_list(to, 2);
    put_text(to, STREAM.as_bytes());
    put_list(to, new.len());
    for (number, fields) in new {
        put_entry(to, *number, fields);
    }
}

fn put_list(to: &mut Vec<u8>, length: usize) {
    let _ = write!(to, "*{length}\r\n");
}

fn put_text(to: &mut Vec<u8>, text: &[u8]) {
    let _ = write!(to, "${}\r\n", text.len());
    to.extend_from_slice(text);
    to.extend_from_slice(b"\r\n");
}

fn put_entry(to: &mut Vec<u8>, number: u64, fields: &[Field]) {
    put_list(to, 2);
    put_text(to, format!("{number}-0").as_bytes());
    put_list(to, 2 * fields.len());
    for (name, value) in fields {
        put_text(to, name.as_bytes());
        put_text(to, value);
    }
}
