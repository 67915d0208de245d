//! Voltage of an emulated BRAND graph; steps, outputs and notes over a Redis of the system.

use std::time::{Duration, Instant};

#[cfg(unix)]
use betz_base::Error;
use betz_base::{ErrorKind, Result};

#[cfg(unix)]
use super::resp::{Connection, Reply};
#[cfg(unix)]
use super::{BrandSink, BrandSource, Place};
use crate::rig::emulate::{BrandRedis, Emulator, FREE_PORT};
use crate::rig::tests::*;
use crate::rig::{Arrival, Block, BrandRig, LossReport, Rig, Samples, open_rig};

fn pair(channels: usize, rate: f64) -> Result<(Box<dyn Rig>, BrandRedis)> {
    connected(BrandRedis::open(FREE_PORT, channels, rate)?)
}

/// A rig that has connected: entries from before are not its.
fn connected(redis: BrandRedis) -> Result<(Box<dyn Rig>, BrandRedis)> {
    let mut rig = open_rig(&redis.address())?;
    rig.take(&mut Block::new(), Duration::from_millis(1))?;
    Ok((rig, redis))
}

fn send(redis: &mut BrandRedis, rows: usize, channels: usize) -> Result<u64> {
    redis.send(&voltage(redis.next_row(), rows, channels))?;
    Ok(redis.next_row())
}

#[test]
fn rows_come_as_sent_and_losses_are_exact() -> Result<()> {
    for (channels, rate) in [(1, 30_000.0), (96, 30_000.0), (5, 2000.0)] {
        let (mut rig, mut redis) = pair(channels, rate)?;
        let mut lost = 0;
        for k in 0..6_u64 {
            let until = send(&mut redis, 200, channels)?;
            assert_eq!(take_rows(&mut *rig, until)?, (200, 77 * k));
            lost += 77 * k;
            redis.lose(77 * (k + 1))?;
        }
        let signal = rig.signal().map(|s| (s.channels, s.rate, s.microvolts));
        assert_eq!(signal, Some((channels, rate, None)));
        let counts = rig.counts();
        assert_eq!((counts.lost, counts.malformed), (lost, 0));
        assert_eq!(rig.loss_report(), LossReport::Exact);
        assert_eq!(redis.states(), ["NODE_STARTED", "NODE_READY"]);
        drop(rig);
        let start = Instant::now();
        while redis.states().len() < 3 && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(redis.states()[2], "NODE_SHUTDOWN");
    }
    Ok(())
}

#[test]
fn times_may_be_nanoseconds_or_overflow() -> Result<()> {
    let (mut rig, mut redis) =
        connected(BrandRedis::open(FREE_PORT, 3, 30_000.0)?.with_nanoseconds())?;
    let until = send(&mut redis, 20_000, 3)?;
    assert_eq!(take_rows(&mut *rig, until)?, (20_000, 0));
    // 30 rows before the overflow of 32 bits.
    let begin = (1 << 32) - 30;
    let redis = BrandRedis::open(FREE_PORT, 3, 30_000.0)?.starting_at(begin);
    let (mut rig, mut redis) = connected(redis)?;
    let until = send(&mut redis, 300, 3)?;
    assert_eq!(take_rows(&mut *rig, until)?, (300, 0));
    assert_eq!(rig.counts().restarts, 0);
    Ok(())
}

#[test]
fn rows_that_are_missing_within_an_entry_are_lost() -> Result<()> {
    let (mut rig, mut redis) = pair(2, 30_000.0)?;
    let samples: Vec<u8> = (1..=6_i16).flat_map(i16::to_le_bytes).collect();
    let times: Vec<u8> = [7_u32, 8, 11]
        .iter()
        .flat_map(|t| t.to_le_bytes())
        .collect();
    redis.add(&samples, &times);
    let mut block = Block::new();
    let expected = [(7, 2, 0, vec![1, 4, 2, 5]), (11, 1, 2, vec![3, 6])];
    for (first, rows, lost, voltage) in expected {
        assert_eq!(rig.take(&mut block, PATIENCE)?, Arrival::Block);
        let found = (block.first, block.rows, block.lost_before.count);
        assert_eq!(found, (first, rows, lost));
        assert_eq!(block.samples, Samples::Voltage(voltage));
    }
    Ok(())
}

#[test]
fn entries_of_one_row_and_a_gap_at_once_tell_the_unit() -> Result<()> {
    let (mut rig, mut redis) = pair(1, 30_000.0)?;
    let mut block = Block::new();
    for time in [1_u32, 1000, 1001] {
        redis.add(&[7, 0], &time.to_le_bytes());
        assert_eq!(rig.take(&mut block, PATIENCE)?, Arrival::Block);
        assert_eq!((block.first, block.rows), (u64::from(time), 1));
    }
    let (mut rig, mut redis) = pair(1, 30_000.0)?;
    let times = [5_u64, 1000, 1001, u64::MAX];
    let times: Vec<u8> = times.into_iter().flat_map(u64::to_le_bytes).collect();
    redis.add(&[1, 0, 2, 0, 3, 0, 4, 0], &times);
    assert_eq!(rig.take(&mut block, PATIENCE)?, Arrival::Block);
    assert_eq!((block.first, block.rows), (5, 1));
    assert_eq!(rig.take(&mut block, PATIENCE)?, Arrival::Block);
    assert_eq!(
        (block.first, block.rows, block.lost_before.count),
        (1000, 2, 994)
    );
    Ok(())
}

#[test]
fn entries_that_redis_let_go_are_lost_and_a_cut_connection_is_made_again() -> Result<()> {
    let (mut rig, mut redis) = pair(2, 30_000.0)?;
    let until = send(&mut redis, 90, 2)?;
    assert_eq!(take_rows(&mut *rig, until)?, (90, 0));
    redis.disconnect();
    // 4,096 entries are kept.
    let sent = 30 * 5000;
    let until = send(&mut redis, sent, 2)?;
    let (received, lost) = take_rows(&mut *rig, until)?;
    assert_eq!(received + lost, sent as u64);
    assert!(received >= 30 * 4096, "{received}");
    assert_eq!(rig.counts().reconnects, 1);
    Ok(())
}

#[test]
fn a_device_that_starts_anew_begins_another_epoch() -> Result<()> {
    let (mut rig, mut redis) = pair(4, 30_000.0)?;
    let until = send(&mut redis, 300, 4)?;
    take_rows(&mut *rig, until)?;
    redis.restart()?;
    let until = send(&mut redis, 510, 4)?;
    assert_eq!(take_rows(&mut *rig, until)?, (510, 0));
    let counts = rig.counts();
    assert_eq!((counts.restarts, counts.duplicates), (1, 0));
    Ok(())
}

#[test]
fn damaged_entries_are_counted_and_wrong_settings_refused() -> Result<()> {
    let (mut rig, mut redis) = pair(4, 30_000.0)?;
    let until = send(&mut redis, 30, 4)?;
    take_rows(&mut *rig, until)?;
    let mut random = Scramble(5);
    let mut malformed = 0;
    for _ in 0..100 * effort() {
        for _ in 0..6 {
            let lengths = [random.next(50), random.next(50)];
            let [samples, times] = lengths.map(|length| random.bytes(2 * length + 1));
            redis.add(&samples, &times);
            malformed += 1;
        }
        let until = send(&mut redis, 30, 4)?;
        take_rows(&mut *rig, until)?;
    }
    assert_eq!(rig.counts().malformed, malformed);
    for (channels, rate) in [(0, 1.0), (1, 0.0), (1, f64::NAN)] {
        let place = crate::brand::Place::new("127.0.0.1:1", Some("betz"))?;
        let refused = BrandRig::new(place, channels, Some(rate), None).err();
        assert!(refused.is_some_and(|e| e.message().contains("above 0, got")));
    }
    // Other channels than stated.
    let redis = &mut BrandRedis::open(FREE_PORT, 96, 30_000.0)?;
    let address = redis.address().replace("channels=96", "channels=64");
    let mut rig = open_rig(&address)?;
    rig.take(&mut Block::new(), Duration::from_millis(1))?;
    send(redis, 30 * 20, 96)?;
    let error = loop {
        match rig.take(&mut Block::new(), PATIENCE) {
            Ok(arrival) => assert_eq!(arrival, Arrival::Nothing),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(
        error.message().contains("change channels=N or the graph"),
        "{error}"
    );
    Ok(())
}

/// A Redis of the system, with a graph of one node.
#[cfg(unix)]
struct SystemRedis {
    process: std::process::Child,
    socket: String,
    _folder: tempfile::TempDir,
}

#[cfg(unix)]
impl SystemRedis {
    /// Starts it; `None`, with the reason printed, if it is not installed.
    fn start() -> Result<Option<(Self, Connection)>> {
        let folder =
            tempfile::tempdir().map_err(|e| Error::new(ErrorKind::Io, format!("folder: {e}")))?;
        let socket = folder.path().join("redis").to_string_lossy().into_owned();
        let started = std::process::Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket", &socket])
            .current_dir(folder.path())
            .stdout(std::process::Stdio::null())
            .spawn();
        let Ok(process) = started else {
            eprintln!("skipped: no redis-server");
            return Ok(None);
        };
        let redis = Self {
            process,
            socket,
            _folder: folder,
        };
        let start = Instant::now();
        let mut connection = loop {
            match Connection::open(&redis.socket) {
                Ok(connection) => break connection,
                Err(e) => assert!(start.elapsed() < PATIENCE, "{e}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let parameters = r#"{"input_stream":"in","output_stream":"out"}"#;
        let graph =
            format!(r#"{{"nodes":{{"a":{{"nickname":"betz","parameters":{parameters}}}}}}}"#);
        add(
            &mut connection,
            "supergraph_stream",
            &[("data", graph.as_bytes())],
        );
        Ok(Some((redis, connection)))
    }
}

#[cfg(unix)]
impl Drop for SystemRedis {
    fn drop(&mut self) {
        // One that has ended already is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(unix)]
fn add(connection: &mut Connection, stream: &str, fields: &[(&str, &[u8])]) {
    let mut parts: Vec<&[u8]> = vec![b"XADD", stream.as_bytes(), b"*"];
    for (name, value) in fields {
        parts.extend([name.as_bytes(), value]);
    }
    let reply = connection.ask(&parts);
    assert!(matches!(reply, Ok(Reply::Text(_))), "{reply:?}");
}

#[cfg(unix)]
#[test]
fn steps_outputs_and_notes_pass_through_a_redis_of_the_system() -> Result<()> {
    use crate::bus::{Estimate, Frame, Reception, Sink, Source};
    use crate::rig::notes::{NoteContent, NoteReceiver};

    let Some((redis, mut connection)) = SystemRedis::start()? else {
        return Ok(());
    };
    let place = || Place::new(&redis.socket, Some("betz"));
    let mut source = BrandSource::new(place()?, super::Samples::Int8, 2);
    let mut frame = Frame::new(2);
    let nothing = source.take(&mut frame, Duration::from_millis(1))?;
    assert_eq!(nothing, Reception::Nothing);
    let time = 5_i64.to_le_bytes();
    let step: [(&str, &[u8]); 3] = [
        ("samples", &[1, 2]),
        ("ts", &time),
        ("sync", br#"{"nsp_idx":7}"#),
    ];
    add(&mut connection, "in", &step);
    assert_eq!(source.take(&mut frame, PATIENCE)?, Reception::Step);
    assert_eq!((frame.sequence, frame.sent), (7, 5));
    assert_eq!(frame.counts, [1, 2]);
    // Two are let go before they are read, and one is of other channels.
    for _ in 0..2 {
        add(&mut connection, "in", &step);
    }
    connection
        .ask(&["XTRIM", "in", "MAXLEN", "0"].map(str::as_bytes))
        .unwrap();
    add(&mut connection, "in", &[("samples", &[1])]);
    assert_eq!(source.take(&mut frame, PATIENCE)?, Reception::Nothing);
    assert_eq!(
        source.take(&mut frame, Duration::from_millis(1))?,
        Reception::Nothing
    );
    let counts = source.counts();
    assert_eq!((counts.messages, counts.steps, counts.malformed), (2, 1, 1));
    // Servers before 7.0 do not say how many entries they were given.
    assert!([0, 2].contains(&counts.lost), "{counts:?}");

    let mut sink = BrandSink::new(place()?);
    sink.give(&Estimate {
        sequence: 7,
        device: 7,
        sent: Some(5),
        host_ns: 0,
        status: 0,
        values: &[0.5],
    })?;
    let newest = connection
        .ask(&["XREVRANGE", "out", "+", "-"].map(str::as_bytes))
        .unwrap();
    let fields = &newest.list()[0].list()[1];
    let samples = fields.get("samples").map(Reply::bytes);
    assert_eq!(samples, Some(&0.5_f64.to_le_bytes()[..]));
    assert_eq!(fields.get("ts_in").map(Reply::bytes), Some(&time[..]));

    let mut notes = NoteReceiver::open(&format!("redis://{}?stream=notes", redis.socket))?;
    assert_eq!(notes.take(Duration::from_millis(1))?, None);
    add(&mut connection, "notes", &[("mark", b"go"), ("step", b"3")]);
    let note = notes.take(PATIENCE)?.map(|note| (note.step, note.content));
    assert_eq!(note, Some((Some(3), NoteContent::Mark("go".into()))));
    // A key that is no stream is counted, and the next entry is read all the same.
    let set = ["SET", "odd", "1"].map(str::as_bytes);
    connection.ask(&set).unwrap();
    let mut odd = NoteReceiver::open(&format!("redis://{}?stream=odd", redis.socket))?;
    assert_eq!(odd.take(Duration::from_millis(1))?, None);
    assert_eq!(odd.malformed, 1);
    Ok(())
}
