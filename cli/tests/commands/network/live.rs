//! `betz network live`: devices, folders that fill and pipes give the edges of the recorded samples.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin};
use std::time::{Duration, Instant};

use betz::network::{Threshold, Window};
use serde_json::Value;

use super::*;
use crate::program::{fails, interrupt, refused, spawned};

/// Time after which a test that has failed ends.
const LONG: Duration = Duration::from_secs(120);

/// Rows of int16 of `channels` in three groups.
fn voltage(rows: usize, channels: usize) -> Vec<i16> {
    let mut state = 1_u32;
    let mut noise = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from((state >> 16) as i32 % 1000 - 500)
    };
    (0..rows)
        .flat_map(|t| (0..channels).map(move |c| (t, c)))
        .map(|(t, c)| ((t as f64 / [5.0, 11.0, 23.0][c % 3]).sin() * 900.0 + noise()) as i16)
        .collect()
}

/// Edges of `file` by the first sample of their window.
fn of_file(folder: &Path, file: &str) -> NetworkFile {
    NetworkFile::read(&folder.join(file)).unwrap()
}

/// Asserts that two networks have the same edges, values within rounding.
fn assert_same_network(live: &NetworkFile, offline: &NetworkFile) {
    assert!(offline.network.edges() > 0);
    assert_eq!(live.network.window_start(), offline.network.window_start());
    for (a, b) in live.network.windows().zip(offline.network.windows()) {
        assert_eq!(
            (a.i, a.j, a.undefined),
            (b.i, b.j, b.undefined),
            "window {}",
            a.index
        );
        assert!(a.r.iter().zip(b.r).all(|(x, y)| (x - y).abs() < 2e-5));
    }
}

/// Writes `samples` as the signal that `compute` reads.
fn write_signal(folder: &Path, name: &str, samples: Array<'_>, seconds: f64) {
    let arrays = [
        ("signal", samples),
        ("sample_seconds", Array::F64(&[], &[seconds])),
    ];
    write(&folder.join(name), &arrays).unwrap();
}

/// The report of `network live` at a device that sends `traces.dat`. A busy machine may subscribe after the first rows:
/// they are then sent again.
fn heard(folder: &Path, line: &str) -> Value {
    for _ in 0..4 {
        let mut device = spawned(
            folder,
            "emulate openephys --at 127.0.0.1:0 --wait --from traces.dat --channels 8 --rate 30000 --gain 0.195 --json",
        );
        let mut said = String::new();
        let mut errors = BufReader::new(device.stderr.take().unwrap());
        errors.read_line(&mut said).unwrap();
        let address = said.split('"').nth(1).unwrap().to_owned();
        std::thread::spawn(move || errors.lines().count());
        let mut live = spawned(folder, &format!("network live {address}?channels=8 {line}"));
        // The device ends when it has sent all rows.
        assert!(device.wait().unwrap().success());
        let end = Instant::now() + Duration::from_secs(20);
        while live.try_wait().unwrap().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        if live.try_wait().unwrap().is_none() {
            live.kill().unwrap();
            live.wait().unwrap();
            continue;
        }
        let output = live.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
        return serde_json::from_slice(&output.stdout).unwrap();
    }
    panic!("{line}: the first rows were not heard");
}

#[test]
fn a_device_gives_the_edges_of_its_recorded_rows() {
    const CHANNELS: usize = 8;
    const ROWS: usize = 6000;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rows = voltage(ROWS, CHANNELS);
    let bytes: Vec<u8> = rows.iter().flat_map(|v| v.to_le_bytes()).collect();
    fs::write(folder.join("traces.dat"), bytes).unwrap();
    write_signal(
        folder,
        "rows.npz",
        Array::I16(&[ROWS, CHANNELS], &rows),
        1.0 / 30_000.0,
    );
    // Means of ten rows, rounded as Betz rounds them.
    let means: Vec<f32> = rows
        .chunks_exact(10 * CHANNELS)
        .flat_map(|ten| {
            (0..CHANNELS).map(|c| {
                let sum: f64 = (0..10).map(|t| f64::from(ten[t * CHANNELS + c])).sum();
                (sum / 10.0) as f32
            })
        })
        .collect();
    write_signal(
        folder,
        "means.npz",
        Array::F32(&[ROWS / 10, CHANNELS], &means),
        1.0 / 3000.0,
    );
    for (input, average, edges, last) in [
        (
            "rows.npz",
            "",
            "--window 600 --step 150 --threshold 0.3",
            37,
        ),
        (
            "means.npz",
            "--average 10",
            "--window 20ms --step 5ms --density 0.2",
            37,
        ),
        (
            "rows.npz",
            "",
            "--measure spearman --window 600 --step 150 --threshold 0.3 --sign pos",
            37,
        ),
    ] {
        let line = format!(
            "{average} {edges} --windows {last} --out live.npz --behind 60min --quiet --json"
        );
        let told = heard(folder, &line);
        assert_eq!(told["windows"], last, "{told}");
        assert_eq!((&told["lost"], &told["skipped"]), (&0.into(), &0.into()));
        assert_eq!(told["nodes"], CHANNELS);
        done(
            folder,
            &format!("compute {input} {edges} --out offline.npz"),
        );
        let live = of_file(folder, "live.npz");
        assert_same_network(&live, &of_file(folder, "offline.npz"));
        let seconds = live.network.meta().sample_seconds.unwrap();
        let expected = if average.is_empty() { 30_000.0 } else { 3000.0 };
        assert!((1.0 / seconds - expected).abs() < 1e-6);
    }
}

/// A frame of 4 × 6 pixels as a PGM.
fn pgm(frame: &[u8]) -> Vec<u8> {
    [&b"P5 6 4 255\n"[..], frame].concat()
}

/// Frames of 4 × 6 pixels in three groups.
fn frames(count: usize) -> Vec<Vec<u8>> {
    let values = voltage(count, 24);
    values
        .chunks_exact(24)
        .map(|row| row.iter().map(|v| (128 + v / 16) as u8).collect())
        .collect()
}

const EDGES: &str = "--window 30 --step 10 --threshold 0.4 --quiet";

#[test]
fn a_folder_that_fills_gives_the_edges_of_its_frames() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let frames = frames(80);
    fs::create_dir(folder.join("camera")).unwrap();
    let path = |n: usize| folder.join("camera").join(format!("frame_{n}.pgm"));
    for (n, frame) in frames.iter().enumerate().take(25) {
        fs::write(path(n), pgm(frame)).unwrap();
    }
    let child = spawned(
        folder,
        &format!(
            "network live camera {EDGES} --sample-seconds 0.1 --windows 6 --out live.npz --json"
        ),
    );
    let writer = std::thread::spawn({
        let (frames, folder) = (frames.clone(), folder.to_owned());
        move || {
            for (n, frame) in frames.iter().enumerate().skip(25) {
                // Half of an image first: the reader waits until it is whole.
                let place = folder.join("camera").join(format!("frame_{n}.pgm"));
                let whole = pgm(frame);
                let mut file = fs::File::create(&place).unwrap();
                file.write_all(&whole[..20]).unwrap();
                file.flush().unwrap();
                std::thread::sleep(Duration::from_millis(1));
                file.write_all(&whole[20..]).unwrap();
            }
        }
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["windows"], &told["nodes"]), (&6.into(), &24.into()));
    assert_eq!((&told["late"], &told["unreadable"]), (&0.into(), &0.into()));
    // `compute` reads the same folder.
    let edges = EDGES.replace(" --quiet", "");
    done(
        folder,
        &format!("compute camera {edges} --sample-seconds 0.1 --out offline.npz"),
    );
    let (live, offline) = (of_file(folder, "live.npz"), of_file(folder, "offline.npz"));
    assert_same_network(&live, &offline);
    assert_eq!(live.positions, offline.positions);
}

#[test]
fn late_and_broken_images_are_left_out_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let frames = frames(80);
    fs::create_dir(folder.join("camera")).unwrap();
    let path = |n: usize| folder.join("camera").join(format!("frame_{n}.pgm"));
    for (n, frame) in frames.iter().enumerate().skip(10) {
        fs::write(path(n), pgm(frame)).unwrap();
    }
    fs::write(path(50), b"P5 6 4 255\n").unwrap();
    let mut child = spawned(
        folder,
        "network live camera --window 30 --step 10 --threshold 0.4 --settle 10ms --json",
    );
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    // The windows before the broken image.
    while !said.contains("row 40:") {
        let mut line = String::new();
        assert!(errors.read_line(&mut line).unwrap() > 0, "{said}");
        said.push_str(&line);
    }
    fs::write(path(3), pgm(&frames[3])).unwrap();
    // A further one, which is read behind the late one.
    for n in 80..100 {
        fs::write(path(n), pgm(&frames[n - 80])).unwrap();
    }
    while !said.contains("1 late") {
        let mut line = String::new();
        assert!(errors.read_line(&mut line).unwrap() > 0, "{said}");
        said.push_str(&line);
    }
    interrupt(&mut child);
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&told["late"], &told["unreadable"]),
        (&1.into(), &1.into()),
        "{told}"
    );
    assert_eq!(
        (&told["gaps"], &told["lost"]),
        (&1.into(), &1.into()),
        "{told}"
    );
    assert!(said.contains("an image is left out: "), "{said}");
}

/// Runs a command with bytes on its standard input; its report.
fn piped(folder: &Path, line: &str, bytes: &[u8]) -> Value {
    let mut child = program::command(folder, &format!("network {line} --json"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || {
        // The command may have seen enough.
        let _ = stdin.write_all(&bytes);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn pipes_of_every_form_give_the_edges_of_their_frames() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let frames = frames(80);
    let raw = frames.concat();
    fs::write(folder.join("film.raw"), &raw).unwrap();
    let images: Vec<u8> = frames.iter().flat_map(|frame| pgm(frame)).collect();
    let mut video = b"YUV4MPEG2 W6 H4 F10:1 Cmono\n".to_vec();
    for frame in &frames {
        video.extend(b"FRAME\n");
        video.extend(frame);
    }
    done(
        folder,
        "compute film.raw --frames 4,6 --sample-seconds 0.1 --window 3s --step 1s --threshold 0.4 --out offline.npz",
    );
    let offline = of_file(folder, "offline.npz");
    for (form, options, bytes) in [
        ("raw", "--frames 4,6 --sample-seconds 0.1", &raw),
        ("images", "--sample-seconds 0.1", &images),
        ("video", "", &video),
    ] {
        let told = piped(
            folder,
            &format!(
                "live - {options} --window 3s --step 1s --threshold 0.4 --quiet --out {form}.npz"
            ),
            bytes,
        );
        assert_eq!(
            (&told["windows"], &told["rows"]),
            (&6.into(), &80.into()),
            "{form}"
        );
        let live = of_file(folder, &format!("{form}.npz"));
        assert_same_network(&live, &offline);
        assert_eq!(live.positions, offline.positions, "{form}");
    }
    // A part of the signal.
    let told = piped(
        folder,
        "live - --seconds 4.5 --window 3s --step 1s --threshold 0.4 --quiet --nodes 0..12",
        &video,
    );
    assert_eq!(
        (&told["rows"], &told["windows"], &told["nodes"]),
        (&45.into(), &2.into(), &12.into())
    );
}

#[test]
fn interruption_keeps_what_was_computed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let frames = frames(80);
    let mut child = program::command(
        folder,
        "network live - --frames 4,6 --window 30 --step 10 --threshold 0.4 --out live.npz --json",
    )
    .stdin(std::process::Stdio::piped())
    .stdout(std::process::Stdio::piped())
    .stderr(std::process::Stdio::piped())
    .spawn()
    .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&frames[..65].concat()).unwrap();
    stdin.flush().unwrap();
    // The line about a window says that it was computed; one line may be about several.
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("row 30:") && !said.contains("row 60:") {
        let mut line = String::new();
        assert!(errors.read_line(&mut line).unwrap() > 0, "{said}");
        said.push_str(&line);
    }
    interrupt(&mut child);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{said}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let live = of_file(folder, "live.npz");
    assert!(!live.network.is_empty() && live.complete);
    assert_eq!(told["windows"], live.network.len());
    assert_eq!(live.network.meta().spec.window, Window::new(30, 10));
}

/// Asks the page at `address`; status and body.
fn asked(address: &str, request: &str, token: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.0\r\nHost: {address}\r\nOrigin: http://{address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

/// A command with a page, fed through a pipe.
struct PageCommand {
    child: Child,
    stdin: ChildStdin,
    out: BufReader<std::process::ChildStdout>,
    address: String,
    token: String,
}

impl PageCommand {
    fn start(folder: &Path, more: &str) -> Self {
        let line = format!(
            "network live - --frames 4,6 --sample-seconds 0.1 --window 3s --step 1s --threshold 0.4 --quiet --page --no-open \
             --json {more}"
        );
        let mut child = program::command(folder, &line)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let url = told["url"].as_str().unwrap();
        let (address, token) = url["http://".len()..].split_once("/?token=").unwrap();
        Self {
            child,
            stdin,
            out,
            address: address.to_owned(),
            token: token.to_owned(),
        }
    }

    fn feed(&mut self, frames: &[Vec<u8>]) {
        self.stdin.write_all(&frames.concat()).unwrap();
        self.stdin.flush().unwrap();
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = asked(&self.address, &format!("GET {path}"), &self.token, "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Waits until the page has so many windows.
    fn until(&self, windows: u64) -> Value {
        let end = Instant::now() + LONG;
        loop {
            let about = self.get("/api/network/0");
            if about["windows"] == windows {
                return about;
            }
            assert!(Instant::now() < end, "{windows}: {about}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn change(&self, body: &str) -> (u16, String) {
        asked(
            &self.address,
            "POST /api/network/0/change",
            &self.token,
            body,
        )
    }

    fn end(mut self) -> Value {
        drop(self.stdin);
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        assert!(self.child.wait().unwrap().success());
        serde_json::from_str(&line).unwrap()
    }
}

#[test]
fn the_page_shows_windows_and_changes_the_threshold() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let frames = frames(120);
    let mut paged = PageCommand::start(folder, "--control --out live.npz");
    assert_eq!(paged.change("{\"threshold\": 0.2}").0, 409);
    paged.feed(&frames[..52]);
    let about = paged.until(3);
    assert_eq!(
        (&about["nodes"], &about["window"]),
        (&24.into(), &30.into())
    );
    assert_eq!(about["live"]["threshold"], 0.4);
    let (status, body) = paged.change("{\"threshold\": 7}");
    assert!(
        status == 409 && body.contains("expected 0 to 1, got 7"),
        "{body}"
    );
    let (status, body) = paged.change("{\"threshold\": 0.2}");
    assert_eq!(status, 200, "{body}");
    // The same windows go on, by the other threshold.
    paged.feed(&frames[52..81]);
    let about = paged.until(3);
    assert_eq!(about["live"]["threshold"], 0.2);
    assert_eq!(about["seconds"], serde_json::json!([3.0, 4.0, 5.0]));
    // A shorter window: the newest one is there without a further frame.
    let (status, body) = paged.change("{\"window\": 20, \"step\": 20}");
    assert_eq!(status, 200, "{body}");
    paged.until(1);
    paged.feed(&frames[81..]);
    paged.until(2);
    let told = paged.end();
    assert_eq!(
        told["out"],
        serde_json::json!(["live.npz", "live-2.npz", "live-3.npz"])
    );
    assert_eq!((&told["changes"], &told["windows"]), (&2.into(), &8.into()));
    fs::write(folder.join("film.raw"), frames.concat()).unwrap();
    for (file, edges, windows) in [
        ("live.npz", "--window 30 --step 10 --threshold 0.4", 0..3),
        ("live-2.npz", "--window 30 --step 10 --threshold 0.2", 3..6),
    ] {
        done(
            folder,
            &format!("compute film.raw --frames 4,6 {edges} --out offline.npz"),
        );
        let (live, offline) = (of_file(folder, file), of_file(folder, "offline.npz"));
        assert_eq!(live.network.len(), windows.len());
        for (k, of) in windows.enumerate() {
            let (a, b) = (
                live.network.window(k).unwrap(),
                offline.network.window(of).unwrap(),
            );
            assert_eq!(
                (a.start, a.i, a.j),
                (b.start, b.i, b.j),
                "{file}, window {k}"
            );
        }
    }
    let last = of_file(folder, "live-3.npz");
    assert_eq!(last.network.window_start(), [61, 81]);
}

#[test]
fn a_change_loses_no_window_and_does_not_end_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let frames = frames(120);
    // Files that are no networks have the next names.
    fs::write(folder.join("live-2.npz"), "my notes").unwrap();
    let mut paged = PageCommand::start(folder, "--control --out live.npz");
    paged.feed(&frames[..52]);
    paged.until(3);
    let (status, body) = paged.change("{\"threshold\": 0.2}");
    assert_eq!(status, 200, "{body}");
    paged.feed(&frames[52..81]);
    paged.until(3);
    fs::create_dir(folder.join("live-3.npz")).unwrap();
    let (status, body) = paged.change("{\"threshold\": 0.1}");
    assert_eq!(status, 200, "{body}");
    paged.feed(&frames[81..112]);
    paged.until(3);
    let told = paged.end();
    assert_eq!(
        told["out"],
        serde_json::json!(["live.npz", "live-4.npz", "live-5.npz"])
    );
    assert_eq!((&told["changes"], &told["windows"]), (&2.into(), &9.into()));
    for (file, threshold) in [("live.npz", 0.4), ("live-4.npz", 0.2), ("live-5.npz", 0.1)] {
        let network = of_file(folder, file).network;
        assert_eq!(network.len(), 3, "{file}");
        let spec = &network.meta().spec;
        assert_eq!(spec.threshold, Threshold::Absolute(threshold));
        assert_eq!(spec.max_edges, 1_000_000_000);
    }
    assert_eq!(fs::read(folder.join("live-2.npz")).unwrap(), b"my notes");
}

#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_written_refuses_the_change_and_keeps_the_windows() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let frames = frames(120);
    fs::create_dir(folder.join("out")).unwrap();
    let mut paged = PageCommand::start(folder, "--control --out out/live.npz");
    paged.feed(&frames[..52]);
    paged.until(3);
    fs::rename(folder.join("out"), folder.join("gone")).unwrap();
    let (status, body) = paged.change("{\"threshold\": 0.2}");
    assert!(
        status == 409 && body.contains("live.npz"),
        "{status} {body}"
    );
    paged.feed(&frames[52..61]);
    let about = paged.until(4);
    assert_eq!(about["live"]["threshold"], 0.4);
    fs::rename(folder.join("gone"), folder.join("out")).unwrap();
    let told = paged.end();
    assert_eq!(told["out"], serde_json::json!(["out/live.npz"]));
    assert_eq!(told["changes"], 0);
    assert_eq!(of_file(folder, "out/live.npz").network.len(), 4);
}

#[test]
fn a_page_without_control_only_shows() {
    let folder = tempfile::tempdir().unwrap();
    let mut paged = PageCommand::start(folder.path(), "");
    paged.feed(&frames(35));
    let about = paged.until(1);
    assert_eq!(about["live"]["changes"], false);
    assert_eq!(paged.change("{\"threshold\": 0.2}").0, 403);
    assert_eq!(paged.end()["changes"], 0);
}

#[test]
fn a_source_that_gives_nothing_is_not_silent() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("camera")).unwrap();
    let mut child = spawned(
        folder,
        &format!("network live camera {}", EDGES.replace(" --quiet", "")),
    );
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("no rows for 5 s") {
        let mut line = String::new();
        assert!(errors.read_line(&mut line).unwrap() > 0, "{said}");
        said.push_str(&line);
    }
    interrupt(&mut child);
    child.wait().unwrap();
}

#[test]
fn what_no_source_can_do_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("file.bin"), "x").unwrap();
    fs::create_dir(folder.join("camera")).unwrap();
    let edges = "--window 30 --step 10 --threshold 0.4";
    let rig = "openephys://127.0.0.1:1?channels=4";
    for (line, words) in [
        (format!("nowhere {edges}"), "which is not there"),
        (
            format!("file.bin {edges}"),
            "`betz network compute` reads files",
        ),
        (format!("xyz://here {edges}"), "xyz"),
        (format!("openephys://127.0.0.1:1 {edges}"), "channels=N"),
        (
            format!("{rig} {edges} --frames 2,2"),
            "--frames: expected frames",
        ),
        (
            format!("{rig} {edges} --settle 1s"),
            "--settle: expected frames",
        ),
        (
            format!("{rig} {edges} --bin 1s --average 2"),
            "--average: expected a source of samples",
        ),
        (
            format!("camera {edges} --bin 50ms"),
            "--bin: expected a source of spikes",
        ),
        (
            format!("camera {edges} --frames 2,2"),
            "--frames: expected raw frames",
        ),
        (
            format!("- {edges} --settle 1s"),
            "--settle: expected a folder",
        ),
        (
            format!("- {edges} --windows 0"),
            "--windows: expected at least 1",
        ),
        (
            format!("- {edges} --measure sttc"),
            "--measure: expected a measure of samples",
        ),
        (format!("- {edges} --measure distance"), "got distance"),
        (
            format!("- {edges} --reach 5ms"),
            "--reach: expected --measure sttc",
        ),
        (
            format!("- {edges} --out net.csv"),
            "ending in .npz or .zarr",
        ),
        (
            format!("- {edges} --region camera"),
            "expected x, y, width and height",
        ),
        (format!("- {edges} --control"), "--page"),
        ("- --window 30 --step 10".to_owned(), "--threshold"),
        (
            format!("- {edges} --average 0"),
            "--average: expected at least 1 row",
        ),
        (format!("- {edges} --nodes 5..3"), "--nodes: expected"),
        (
            format!("- {edges} --segment 10"),
            "--segment: expected --measure coherence",
        ),
        (
            "- --window 30 --step 10 --threshold 7".to_owned(),
            "expected 0 to 1, got 7",
        ),
        ("- --window 0 --step 10 --threshold 0.4".to_owned(), "got 0"),
        ("- --window 30 --step 0 --threshold 0.4".to_owned(), "got 0"),
    ] {
        refused(folder, &format!("network live {line}"), 2, words);
    }
    for (options, bytes, words) in [
        (
            "--frames 2,2 --window 30 --step 10 --threshold 2".to_owned(),
            "abcd",
            "expected 0 to 1, got 2",
        ),
        (
            "--frames 2,2 --window 3s --step 10 --threshold 0.4".to_owned(),
            "abcd",
            "--sample-seconds",
        ),
        (
            format!("{edges} --frames 2,2 --nodes 7"),
            "abcd",
            "numbers below 4",
        ),
        (
            format!("{edges} --frames 2,2 --average 0"),
            "abcd",
            "--average: expected at least 1 row",
        ),
        (
            format!("{edges} --frames 2,2 --channel hue"),
            "abcd",
            "--channel: expected grey",
        ),
        (
            format!("{edges} --frames 2,2 --out x.npz"),
            "abcdefgh",
            "got 2 samples; nothing is written",
        ),
        (edges.to_owned(), "RIFF", "or raw bytes with --frames"),
        (
            format!("{edges} --frames 2,2"),
            "",
            "expected rows, got none",
        ),
    ] {
        fs::write(folder.join("bytes"), bytes).unwrap();
        let mut child = program::command(folder, &format!("network live - {options}"));
        let input = fs::File::open(folder.join("bytes")).unwrap();
        let output = child.stdin(input).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{options}");
        assert!(errors.contains(words), "{options}: {errors}");
    }
    fails(
        folder,
        &format!("network live - {edges} --out file.bin"),
        "ending in .npz or .zarr",
    );
}

#[test]
fn a_network_with_too_many_edges_ends_and_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut child = program::command(
        folder,
        "network live - --frames 4,6 --window 30 --step 10 --top 20 --max-edges 50 --out live.npz --json",
    );
    fs::write(folder.join("film.raw"), frames(80).concat()).unwrap();
    let input = fs::File::open(folder.join("film.raw")).unwrap();
    let output = child.stdin(input).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        errors.contains("--max-edges: expected at most 50 edges"),
        "{errors}"
    );
    // Two windows of 20 edges are written.
    let network = of_file(folder, "live.npz").network;
    assert_eq!(network.len(), 2);
    assert_eq!(network.meta().spec.max_edges, 50);
    // Without a file each window is counted alone.
    let line = "network live - --frames 4,6 --window 30 --step 10 --top 20 --json --max-edges";
    for (most, fits) in [(20, true), (19, false)] {
        let input = fs::File::open(folder.join("film.raw")).unwrap();
        let mut child = program::command(folder, &format!("{line} {most}"));
        let output = child.stdin(input).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let words = "--max-edges: expected at most 19 edges in a window";
        assert_eq!(output.status.success(), fits, "{errors}");
        assert_eq!(errors.contains(words), !fits, "{errors}");
    }
}
