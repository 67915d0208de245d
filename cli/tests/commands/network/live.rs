//! `betz network live`: devices, folders that fill and pipes give the edges of the recorded samples.

mod page;
mod refused;

use std::io::{BufRead, BufReader, Read, Write};
use std::time::{Duration, Instant};

use betz::network::{Threshold, Window};
use betz_testkit::Random;
use serde_json::Value;

use super::*;
use crate::program::{fails, interrupt, refused, spawned};

/// Time after which a test that has failed ends.
const LONG: Duration = Duration::from_secs(120);

/// Rows of int16 of `channels` in three groups.
fn voltage(rows: usize, channels: usize) -> Vec<i16> {
    let mut random = Random::new(1);
    (0..rows)
        .flat_map(|t| (0..channels).map(move |c| (t, c)))
        .map(|(t, c)| {
            ((t as f64 / [5.0, 11.0, 23.0][c % 3]).sin() * 900.0 + random.uniform() * 1000.0
                - 500.0) as i16
        })
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
