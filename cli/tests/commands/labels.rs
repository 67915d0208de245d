//! Labels, targets, marks and trials that a session receives by UDP, as its page shows them.

#![cfg(unix)]

use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use betz_rigs::rig::notes::{Note, NoteContent};
use serde_json::{Value, json};

use crate::keep::send;
use crate::monitor::{ask, body, serve};
use crate::program::any_model;

/// Number of labels.
const LABELS: usize = 40;
/// Distance of every label from its estimate, above and below in turn.
const OFF: f32 = 0.5;
/// First step with a label: by then the noise of the source is known.
const FIRST: u64 = 30;
/// Seconds per step of the model.
const STEP: f64 = 0.02;

/// Ends the sender of voltage, also if the test fails.
struct SenderGuard<'a>(&'a AtomicBool);

impl Drop for SenderGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Two addresses that are free now.
fn addresses() -> [String; 2] {
    let sockets = [0; 2].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().to_string())
}

fn write_plan(folder: &Path, rig: &str, notes: &str, sink: &UdpSocket) {
    let plan = format!(
        "[session]\nmodel = \"any.betz\"\n[[source]]\nname = \"rig\"\nmicrovolts = 0.25\n\
         from = \"udp://{rig}\"\n[voltage]\nnoise = {{ calibrate = \"0.2s\", track = \"30s\" }}\n\
         [missing]\nstale_after = \"1h\"\nbacklog = 1000000\n[outputs]\nto = [\"udp://{}\"]\n\
         [labels]\nfrom = \"udp://{notes}\"\n",
        sink.local_addr().unwrap()
    );
    std::fs::write(folder.join("labelled.toml"), plan).unwrap();
}

/// Receives the next output; its number and values.
fn output(sink: &UdpSocket) -> (u64, Vec<f32>) {
    let mut datagram = [0; 256];
    let got = sink.recv(&mut datagram).unwrap();
    let number = u64::from_le_bytes(datagram[8..16].try_into().unwrap());
    let values = datagram[32..got].chunks_exact(4);
    let values = values.map(|b| f32::from_le_bytes(b.try_into().unwrap()));
    (number, values.collect())
}

/// The steps and values of an event of labels.
fn shown_rows(event: &Value) -> Vec<(u64, Vec<f32>)> {
    let rows = event["rows"].as_array().unwrap().iter();
    rows.map(|row| {
        let values = row[1].as_array().unwrap().iter();
        let values = values.map(|v| v.as_f64().unwrap() as f32).collect();
        (row[0].as_u64().unwrap(), values)
    })
    .collect()
}

#[test]
fn labels_targets_marks_and_trials_by_udp_are_on_the_page_at_their_steps() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    any_model(folder);
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let patience = Duration::from_secs(100);
    sink.set_read_timeout(Some(patience)).unwrap();
    let [rig, notes] = addresses();
    write_plan(folder, &rig, &notes, &sink);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| send(&rig, &stop));
        let _guard = SenderGuard(&stop);
        let line = "run labelled.toml --page --no-open --json";
        let (_running, host, token) = serve(folder, line);
        let told = |path: &str| -> Value { body(&ask(&host, path, &token)) };
        let delay = told("/api/state")["model"]["delay_steps"].as_u64().unwrap();

        let note = |step: u64, content: NoteContent| {
            let note = Note {
                step: Some(step),
                sent: 0,
                host_ns: 0,
                content,
            };
            sink.send_to(&note.to_bytes(), &notes).unwrap();
        };
        // Labels are the outputs of the session itself, each with a known error.
        let mut rows = Vec::new();
        while rows.len() < LABELS {
            let (number, values) = output(&sink);
            if number < FIRST.max(delay) {
                continue;
            }
            let off = [OFF, -OFF][rows.len() % 2];
            let values: Vec<f32> = values.iter().map(|v| v + off).collect();
            note(number - delay, NoteContent::Label(values.clone()));
            rows.push((number, values));
        }
        let first = rows[0].0;
        note(first, NoteContent::TrialBegin);
        note(first, NoteContent::Mark("target 0.25 -0.75".into()));
        note(first + 3, NoteContent::Mark("reward".into()));
        note(first, NoteContent::Label(vec![1.0]));

        let counts = json!({"labels": LABELS, "marks": 2, "trials": 1, "refused": 1});
        let begin = Instant::now();
        while told("/api/state")["status"]["notes"] != counts {
            assert!(begin.elapsed() < patience, "{}", told("/api/state"));
            std::thread::sleep(Duration::from_millis(20));
        }
        let events = told("/api/events");
        let events = events.as_array().unwrap();
        let of = |kind: &str| events.iter().find(|e| e["type"] == kind);
        assert_eq!(shown_rows(of("labels").unwrap()), rows);
        let target = json!({"type": "target", "tick": first, "values": [0.25, -0.75]});
        assert_eq!(of("target"), Some(&target));
        assert_eq!(of("trial").unwrap()["tick"], first);
        let mark = events.iter().find(|e| e["text"] == "reward").unwrap();
        assert_eq!(
            (&mark["what"], &mark["tick"]),
            (&"mark".into(), &(first + 3).into())
        );
        // They are scored as the true outputs of their steps.
        let last = rows[LABELS - 1].0;
        let end = (last + 1) as f64 * STEP;
        let scored = told(&format!("/api/range?from=0&to={end}"));
        for output in scored["outputs"].as_array().unwrap() {
            assert_eq!(output["steps"], LABELS, "{scored}");
            let rmse = output["rmse"].as_f64().unwrap();
            assert!((rmse - f64::from(OFF)).abs() < 1e-4, "{scored}");
        }
    });
}

#[test]
fn a_device_that_starts_again_is_a_mark_on_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    any_model(folder);
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let patience = Duration::from_secs(100);
    sink.set_read_timeout(Some(patience)).unwrap();
    let [rig, notes] = addresses();
    write_plan(folder, &rig, &notes, &sink);
    let [stop, again] = [false; 2].map(AtomicBool::new);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| send(&rig, &stop));
        let (_guard, _other) = (SenderGuard(&stop), SenderGuard(&again));
        let line = "run labelled.toml --page --no-open --json";
        let (_running, host, token) = serve(folder, line);
        while output(&sink).0 < FIRST {}
        stop.store(true, Ordering::Relaxed);
        first.join().unwrap();
        // Its rows begin at 0 again.
        scope.spawn(|| send(&rig, &again));
        let begin = Instant::now();
        loop {
            let events: Value = body(&ask(&host, "/api/events", &token));
            let marks = events.as_array().unwrap().iter();
            let mut marks = marks.filter(|event| event["what"] == "mark");
            if let Some(mark) = marks.next() {
                assert_eq!(mark["text"], "the device has started again", "{events}");
                assert!(mark["tick"].as_u64().unwrap() >= FIRST, "{events}");
                assert!(marks.next().is_none(), "{events}");
                break;
            }
            assert!(begin.elapsed() < patience, "{events}");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}
