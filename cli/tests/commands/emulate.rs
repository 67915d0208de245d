//! `betz emulate`: sessions record every row that an emulated device sends.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use betz_live::record::{Reader, Record};
use betz_live::{BackgroundSession, Plan};
use betz_rigs::rig::Samples;

use crate::program::{fails, json, spawned};

const CHANNELS: usize = 8;
const ROWS: usize = 6000;
/// Time after which a test that has failed ends.
const LONG: Duration = Duration::from_secs(60);

/// Voltage of 0.2 s, in the file `traces.dat`.
fn traces(folder: &Path) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 16) as i32 % 4000 - 2000) as i16
    };
    let voltage: Vec<u8> = (0..ROWS * CHANNELS)
        .flat_map(|_| next().to_le_bytes())
        .collect();
    std::fs::write(folder.join("traces.dat"), &voltage).unwrap();
    voltage
}

/// The address that a device says.
fn address_in(said: &str) -> &str {
    let address = said.split('"').nth(1);
    assert!(address.is_some(), "{said}");
    address.unwrap()
}

/// Starts a device; returns it and the address at which a session hears it.
fn emulate(folder: &Path, line: &str) -> (Child, String) {
    let mut device = spawned(
        folder,
        &format!("emulate {line} --from traces.dat --channels 8 --rate 30000 --gain 0.195 --json"),
    );
    let mut said = String::new();
    let mut errors = BufReader::new(device.stderr.take().unwrap());
    errors.read_line(&mut said).unwrap();
    let address = address_in(&said).to_owned();
    // Later lines must not fill the pipe.
    std::thread::spawn(move || errors.lines().count());
    (device, address)
}

/// A session that records what it hears at an address.
fn session(folder: &Path, address: &str) -> BackgroundSession {
    let plan = format!(
        "[session]\nstep = \"20ms\"\n[[source]]\nname = \"rig\"\nfrom = {address:?}\nsends = \"samples\"\n\
         channels = 8\nrate = 30000\nmicrovolts = 0.195\n[record]\nto = \"recordings\"\n[missing]\nstale_after = \"1h\"\n"
    );
    let file = folder.join("session.toml");
    std::fs::write(&file, plan).unwrap();
    let session = BackgroundSession::open(Plan::read(&file, &[]).unwrap()).unwrap();
    session.start().unwrap();
    session
}

/// Waits for rows, and ends the session; returns its folder and the edges of its source.
fn recorded(session: &BackgroundSession, rows: u64) -> (String, u64) {
    let end = std::time::Instant::now() + LONG;
    while session.health().unwrap().report.input.rows < rows {
        assert!(std::time::Instant::now() < end, "{:?}", session.health());
        std::thread::sleep(Duration::from_millis(5));
    }
    let edges = session.health().unwrap().sources[0].edges;
    let folder = session.stop().unwrap().folder.unwrap();
    (folder.display().to_string(), edges)
}

#[test]
fn every_row_that_a_device_sends_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let voltage = traces(folder);
    for (line, lines) in [
        ("openephys --pulse 20", true),
        ("spikeglx --pulse 20", true),
        ("nidq --pulse 20", true),
        ("rhx", false),
        ("synapse", false),
        ("brand", false),
    ] {
        let (mut device, address) = emulate(folder, &format!("{line} --at 127.0.0.1:0 --wait"));
        let session = session(folder, &address);
        // A block of RHX is 128 samples, and what is less stays with the device.
        let whole = if line == "rhx" {
            ROWS / 128 * 128
        } else {
            ROWS
        };
        let (path, edges) = recorded(&session, whole as u64);
        assert!(device.wait().unwrap().success(), "{line}");
        json(
            folder,
            &format!(
                "record export {path} --to flat --out {}",
                line.replace(' ', "")
            ),
        );
        let back = std::fs::read(folder.join(line.replace(' ', "")).join("rig.dat")).unwrap();
        assert!(back == voltage[..back.len()], "{line}");
        assert_eq!(back.len(), whole * 2 * CHANNELS, "{line}");
        // Up and down every 25 ms: at rows 750, 1500, ….
        assert_eq!(edges, if lines { 7 } else { 0 }, "{line}");
    }
}

/// Asserts that the recorded rows are those of `traces.dat`, wherever they begin; returns their number.
fn check_rows(recording: &str, voltage: &[u8]) -> usize {
    let all: Vec<i16> = (voltage.chunks(2))
        .map(|v| i16::from_le_bytes([v[0], v[1]]))
        .collect();
    let (mut offset, mut rows) = (None, 0);
    let mut reader = Reader::open(Path::new(recording)).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        let Record::Block(0, block) = record else {
            continue;
        };
        let Samples::Voltage(samples) = &block.samples else {
            panic!("expected voltage, got {:?}", block.samples);
        };
        let first = block.first as usize;
        // Rows of noise: each occurs once.
        let place = || {
            all.chunks(CHANNELS)
                .position(|row| *row == samples[..CHANNELS])
        };
        let offset = *offset.get_or_insert_with(|| place().unwrap() as i64 - first as i64);
        let from = (first as i64 + offset) as usize * CHANNELS;
        assert!(*samples == all[from..from + samples.len()], "row {first}");
        rows += block.rows;
    }
    rows
}

#[test]
fn every_row_that_is_sent_in_datagrams_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let voltage = traces(folder);
    let place = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    // Nobody tells this device that it is heard.
    let session = session(folder, &format!("udp://{place}"));
    let (mut device, address) = emulate(folder, &format!("udp --to {place}"));
    assert_eq!(address, format!("udp://{place}"));
    let (path, _) = recorded(&session, ROWS as u64);
    assert!(device.wait().unwrap().success());
    assert_eq!(check_rows(&path, &voltage), ROWS);
}

#[test]
#[cfg(target_os = "linux")]
fn rows_in_shared_memory_are_recorded_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let voltage = traces(folder);
    let name = format!("betz-test-emulate-{}", std::process::id());
    // The session begins somewhere, and the device begins again and again.
    let (mut device, address) = emulate(folder, &format!("shm --name {name} --repeat"));
    assert_eq!(address, format!("shm:///{name}"));
    let session = session(folder, &address);
    let (path, _) = recorded(&session, ROWS as u64);
    device.kill().unwrap();
    device.wait().unwrap();
    assert!(check_rows(&path, &voltage) >= ROWS);
    std::fs::remove_file(format!("/dev/shm/{name}")).unwrap();
}

#[test]
fn rows_of_a_stream_of_lsl_are_recorded_as_they_were_sent() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let voltage = traces(folder);
    let name = format!("betz-test-emulate-{}", std::process::id());
    let line = format!(
        "emulate lsl --name {name} --from traces.dat --channels 8 --rate 30000 --gain 0.195"
    );
    let mut device = spawned(folder, &format!("{line} --wait --json"));
    let mut said = String::new();
    let mut errors = BufReader::new(device.stderr.take().unwrap());
    errors.read_line(&mut said).unwrap();
    if said.contains("liblsl") {
        eprintln!("skipped: {said}");
        assert!(!device.wait().unwrap().success());
        return;
    }
    let address = address_in(&said).to_owned();
    std::thread::spawn(move || errors.lines().count());
    let session = session(folder, &address);
    // The last rows may be on their way when the device ends.
    let (path, _) = recorded(&session, ROWS as u64 / 2);
    assert!(check_rows(&path, &voltage) >= ROWS / 2);
    assert!(device.wait().unwrap().success());
}

#[test]
fn a_recorded_session_is_sent_with_its_losses() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    traces(folder);
    let (mut device, address) = emulate(folder, "openephys --at 127.0.0.1:0 --wait");
    let first = session(folder, &address);
    let (path, _) = recorded(&first, ROWS as u64);
    assert!(device.wait().unwrap().success());
    json(
        folder,
        &format!("record export {path} --to flat --out first"),
    );
    let mut device = spawned(
        folder,
        &format!("emulate spikeglx --from {path} --at 127.0.0.1:0 --wait --json"),
    );
    let mut said = String::new();
    let mut errors = BufReader::new(device.stderr.take().unwrap());
    errors.read_line(&mut said).unwrap();
    let second = session(folder, address_in(&said));
    let (path, _) = recorded(&second, ROWS as u64);
    assert!(device.wait().unwrap().success());
    json(
        folder,
        &format!("record export {path} --to flat --out second"),
    );
    let read = |name: &str| std::fs::read(folder.join(name).join("rig.dat")).unwrap();
    assert!(read("first") == read("second"));
}

#[test]
fn what_a_device_does_not_have_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    traces(folder);
    for (line, words) in [
        (
            "rhx --pulse 1",
            "--pulse: expected cerebus, nidq, openephys or spikeglx",
        ),
        (
            "openephys --pulse 0",
            "--pulse: expected pulses per second above 0",
        ),
        ("openephys --at nowhere", "--at nowhere: expected HOST:PORT"),
        (
            "cerebus --from traces.dat --channels 8 --rate 25000 --gain 1",
            "got 25000 Hz",
        ),
        ("udp --from traces.dat", "--rate: expected it"),
        ("udp --from none.dat", "none.dat"),
        ("toaster", "toaster"),
    ] {
        fails(folder, &format!("emulate {line}"), words);
    }
}
