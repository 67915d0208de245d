//! A command server of SpikeGLX, as far as a reader of voltage needs it.

use betz_base::lock::lock;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};

use crate::rig::emulate::{Emulator, whole_rows};

/// State that the connections share.
struct Run {
    /// Number of the stream's kind: 2 a probe, 0 a NI device.
    kind: &'static str,
    channels: usize,
    /// Words of digital lines behind the channels of a row.
    words_of_row: usize,
    /// True if the device has nothing but words.
    has_words_only: bool,
    rate: f64,
    microvolts: f64,
    /// Number of the oldest row in memory, and the number of the next row.
    oldest: u64,
    next: u64,
    rows: VecDeque<i16>,
    /// State of the digital lines at each of them, and now.
    lines: VecDeque<u64>,
    line_state: u64,
    /// Rows in memory at most.
    room: usize,
    /// Bytes sent at once at most.
    piece: usize,
    /// Number of the next replies that are damaged.
    damaged: u32,
    /// True once somebody has asked how many rows there are.
    is_asked: bool,
    is_closed: bool,
}

/// Numbers of the kinds of streams.
const PROBE: &str = "2";
const NI: &str = "0";

impl Run {
    /// Channels of a row before its words. Behind the action potentials of a probe are as many field potentials, which are not sent.
    fn before_words(&self) -> usize {
        match (self.kind, self.has_words_only) {
            (_, true) => 0,
            (NI, false) => self.channels,
            (_, false) => 2 * self.channels,
        }
    }
}

/// Answers requests as [`SpikeGlxRig`](crate::rig::SpikeGlxRig) sends them, out of a memory of rows.
pub struct SpikeGlxServer {
    run: Arc<Mutex<Run>>,
    address: SocketAddr,
}

impl SpikeGlxServer {
    /// A server of one probe with `channels` and SYNC, at `at`, with a memory of `room` rows.
    ///
    /// # Errors
    /// `Io` if the system gives no port or no thread.
    pub fn open(
        at: SocketAddr,
        channels: usize,
        rate: f64,
        microvolts: f64,
        room: usize,
    ) -> Result<Self> {
        Self::open_stream(at, (PROBE, 1), channels, rate, microvolts, room)
    }

    /// A server of one NI device with analogue `channels` and `words` of 16 digital lines, at most 4; otherwise as
    /// [`open`](Self::open).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_ni(
        at: SocketAddr,
        channels: usize,
        words: usize,
        rate: f64,
        microvolts: f64,
        room: usize,
    ) -> Result<Self> {
        Self::open_stream(at, (NI, words.min(4)), channels, rate, microvolts, room)
    }

    /// A server of one stream, given by the number of its kind and its words of digital lines.
    fn open_stream(
        at: SocketAddr,
        (kind, words_of_row): (&'static str, usize),
        channels: usize,
        rate: f64,
        microvolts: f64,
        room: usize,
    ) -> Result<Self> {
        let io = |e| Error::new(ErrorKind::Io, format!("emulator of SpikeGLX at {at}: {e}"));
        let listener = TcpListener::bind(at).map_err(io)?;
        let address = listener.local_addr().map_err(io)?;
        let run = Arc::new(Mutex::new(Run {
            kind,
            channels,
            words_of_row,
            has_words_only: false,
            rate,
            microvolts,
            oldest: 1,
            next: 1,
            rows: VecDeque::new(),
            lines: VecDeque::new(),
            line_state: 0,
            room,
            piece: usize::MAX,
            damaged: 0,
            is_asked: false,
            is_closed: false,
        }));
        let shared = Arc::clone(&run);
        std::thread::Builder::new()
            .name("betz-spikeglx".into())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    if lock(&shared).is_closed {
                        return;
                    }
                    let run = Arc::clone(&shared);
                    let serving = std::thread::Builder::new().spawn(move || serve(&stream, &run));
                    drop(serving);
                }
            })
            .map_err(io)?;
        Ok(Self { run, address })
    }

    /// Address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Hides the channels: the device has nothing but words of digital lines. Rows that are sent pass all the same.
    pub fn hide_channels(&self) {
        lock(&self.run).has_words_only = true;
    }

    /// Sends at most so many bytes at once.
    pub fn set_piece(&self, bytes: usize) {
        lock(&self.run).piece = bytes.max(1);
    }

    /// Damages the next so many replies to `FETCH`.
    pub fn damage(&self, replies: u32) {
        lock(&self.run).damaged = replies;
    }
}

/// Answers one connection until it ends.
fn serve(stream: &TcpStream, run: &Mutex<Run>) {
    let _ = stream.set_nodelay(true);
    let mut writer = stream;
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else {
            return;
        };
        let reply = answer(&line, run);
        let piece = lock(run).piece;
        if reply
            .chunks(piece)
            .any(|part| writer.write_all(part).is_err())
        {
            return;
        }
    }
}

/// Reply to a request.
fn answer(line: &str, run: &Mutex<Run>) -> Vec<u8> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut state = lock(run);
    let of_stream = words.get(1..3) == Some(&[state.kind, "0"]);
    let text = match words.first().copied() {
        Some("NOOP") => String::new(),
        Some("GETVERSION") => "20251001, emulated\n".into(),
        Some("ISRUNNING") => "1\n".into(),
        Some(name) if name.starts_with("GETSTREAM") && !of_stream => {
            return format!("ERROR {name}: stream not enabled.\n").into_bytes();
        }
        Some("GETSTREAMSAMPLECOUNT") => {
            state.is_asked = true;
            format!("{}\n", state.next)
        }
        Some("GETSTREAMSAMPLERATE") => format!("{}\n", state.rate),
        Some("GETSTREAMACQCHANS") => match state.before_words() {
            // Multiplexed neural and analogue channels, analogue ones, words.
            before if state.kind == NI => format!("0 0 {before} {}\n", state.words_of_row),
            _ => format!("{} {} 1\n", state.channels, state.channels),
        },
        Some("GETSTREAMI16TOVOLTS") => format!("{:e}\n", state.microvolts * 1e-6),
        Some("FETCH") if of_stream => {
            drop(state);
            return fetch(&words, run);
        }
        _ => return format!("ERROR {line}: unknown.\n").into_bytes(),
    };
    format!("{text}OK\n").into_bytes()
}

fn fetch(words: &[&str], run: &Mutex<Run>) -> Vec<u8> {
    let number = |at: usize| words.get(at).and_then(|w| w.parse::<u64>().ok());
    let (Some(from), Some(most)) = (number(3), number(4)) else {
        return b"ERROR FETCH: Requires params {js, ip, start, count}.\n".to_vec();
    };
    if from < lock(run).oldest {
        return b"ERROR FETCH: Too late.\n".to_vec();
    }
    // The server waits for some rows, and not for long.
    for _ in 0..3 {
        if lock(run).next > from {
            break;
        }
        std::thread::sleep(Duration::from_micros(800));
    }
    let mut state = lock(run);
    let channels: Vec<usize> = match words.get(5) {
        Some(&"-1#") | None => (0..state.channels).collect(),
        Some(list) => list.split('#').filter_map(|c| c.parse().ok()).collect(),
    };
    let before = state.before_words();
    let words = before..before + state.words_of_row;
    let has = |c: &usize| words.contains(c) || (*c < state.channels && !state.has_words_only);
    if !channels.iter().all(has) || from < state.oldest {
        return b"ERROR FETCH: Channel subset out of range.\n".to_vec();
    }
    let rows = most.min(state.next.saturating_sub(from));
    let mut reply = format!("BINARY_DATA {} {rows} uint64({from})\n", channels.len()).into_bytes();
    for row in 0..rows {
        let held = (from - state.oldest + row) as usize;
        let at = held * state.channels;
        reply.extend(channels.iter().flat_map(|c| match words.contains(c) {
            true => ((state.lines[held] >> (16 * (c - before))) as u16).to_le_bytes(),
            false => state.rows[at + c].to_le_bytes(),
        }));
    }
    reply.extend(b"OK\n");
    if state.damaged > 0 && rows > 0 {
        state.damaged -= 1;
        // A reply that lacks two bytes of its rows.
        let cut = reply.len() - 5;
        reply.drain(cut..cut + 2);
        reply.extend(b"\n\n");
    }
    reply
}

impl Emulator for SpikeGlxServer {
    fn send(&mut self, voltage: &[i16]) -> Result<()> {
        let mut run = lock(&self.run);
        let rows = whole_rows(voltage, run.channels)?;
        run.rows.extend(voltage);
        let state = run.line_state;
        run.lines.extend(std::iter::repeat_n(state, rows));
        run.next += rows as u64;
        let held = run.rows.len() / run.channels;
        if held > run.room {
            let gone = held - run.room;
            let values = gone * run.channels;
            run.rows.drain(..values);
            run.lines.drain(..gone);
            run.oldest += gone as u64;
        }
        Ok(())
    }

    /// The rows leave the memory before anybody asks for them.
    fn lose(&mut self, rows: u64) -> Result<()> {
        let mut run = lock(&self.run);
        run.next += rows;
        run.oldest = run.next;
        run.rows.clear();
        run.lines.clear();
        Ok(())
    }

    fn edge(&mut self, line: u8, is_up: bool) -> Result<()> {
        let mut run = lock(&self.run);
        if !(1..=16 * run.words_of_row).contains(&usize::from(line)) {
            return Ok(());
        }
        let bit = 1 << (line - 1);
        match is_up {
            true => run.line_state |= bit,
            false => run.line_state &= !bit,
        }
        Ok(())
    }

    fn restart(&mut self) -> Result<()> {
        let mut run = lock(&self.run);
        (run.next, run.oldest) = (1, 1);
        run.rows.clear();
        run.lines.clear();
        Ok(())
    }

    fn next_row(&self) -> u64 {
        lock(&self.run).next
    }

    fn is_heard(&self) -> bool {
        lock(&self.run).is_asked
    }
}

impl Drop for SpikeGlxServer {
    fn drop(&mut self) {
        lock(&self.run).is_closed = true;
        // Wakes the thread that waits for connections.
        drop(TcpStream::connect_timeout(
            &self.address,
            Duration::from_secs(1),
        ));
    }
}
