//! The page of `betz network live`: windows as they come, changes of window and threshold.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin};

use super::*;

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
