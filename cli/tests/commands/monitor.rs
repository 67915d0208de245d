//! `betz monitor` and `betz serve` through the built binary: they print their address, and who has the token sees.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn betz(folder: &Path, arguments: &str) -> Command {
    let mut command = crate::program::command(folder, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

pub(crate) fn ask(host: &str, path: &str, token: &str) -> String {
    try_ask(host, path, token).unwrap()
}

fn try_ask(host: &str, path: &str, token: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn post(host: &str, path: &str, token: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A simulated recording, a model trained on it, another recording.
fn files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &str| {
        let status = betz(folder.path(), arguments).status().unwrap();
        assert!(status.success(), "{arguments}");
    };
    run(
        "simulate --neurons 12 --seconds 12 --tick 0.001 --test-seconds 3 --out train.npz --test-out test.npz",
    );
    run("train train.npz --decoder linear --step 0.005 --out model.betz");
    folder
}

/// Runs a command that serves; gives its host and token.
pub(crate) fn serve(folder: &Path, arguments: &str) -> (Server, String, String) {
    let mut child = betz(folder, arguments).spawn().unwrap();
    let output = child.stdout.take().unwrap();
    let running = Server(child);
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    let said: serde_json::Value = serde_json::from_str(&line).unwrap();
    let url = said["url"]
        .as_str()
        .unwrap()
        .strip_prefix("http://")
        .unwrap();
    let (host, token) = url.split_once("/?token=").unwrap();
    (running, host.to_owned(), token.to_owned())
}

#[test]
fn a_session_on_a_recording_is_seen_by_who_has_the_token() {
    let folder = files();
    let arguments = "monitor model.betz test.npz --no-open --json --speed 20";
    let (_running, host, token) = serve(folder.path(), arguments);
    assert!(ask(&host, "/api/state", "wrong").starts_with("HTTP/1.1 401"));
    let state = ask(&host, "/api/state", &token);
    assert!(
        state.contains("\"channels\":12") && state.contains("model.betz on test.npz"),
        "{state}"
    );
    let begin = Instant::now();
    // The recording ends, and the page stays.
    while !ask(&host, "/api/events", &token).contains("\"type\":\"ended\"") {
        assert!(begin.elapsed() < Duration::from_secs(100));
        std::thread::sleep(Duration::from_millis(20));
    }
    // Three seconds in steps of 5 ms.
    let metrics = ask(&host, "/metrics", &token);
    assert!(metrics.contains("betz_steps_total 600\n"), "{metrics}");
}

#[test]
fn a_demo_has_a_network_a_map_and_episodes() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "monitor --demo --control --no-open --json";
    let (_running, host, token) = serve(folder.path(), arguments);
    let state = ask(&host, "/api/state", &token);
    for field in [
        "\"networks\":1",
        "\"maps\":1",
        "\"mined\":1",
        "\"name\":\"tuned neurons\",\"neurons\":150",
        "greatest rate",
    ] {
        assert!(state.contains(field), "{field} is missing in {state}");
    }
    let network = ask(&host, "/api/network/0", &token);
    assert!(network.contains("\"windows\":17"), "{network}");
    let map = ask(&host, "/api/map/0", &token);
    assert!(map.contains("activity in training"), "{map}");
    let begin = Instant::now();
    while !ask(&host, "/metrics", &token).contains("betz_episode_count{id=\"19\"}") {
        assert!(begin.elapsed() < Duration::from_secs(100));
        std::thread::sleep(Duration::from_millis(20));
    }
    // Trials begin while it runs.
    while !ask(&host, "/api/events", &token).contains("\"type\":\"trial\"") {
        assert!(begin.elapsed() < Duration::from_secs(100));
        std::thread::sleep(Duration::from_millis(20));
    }
    // Pages pause it, and cannot ask for another network.
    let told = |what: &str, body: &str| post(&host, &format!("/api/control/{what}"), &token, body);
    let network = r#"{"name":"cuba","scale":1,"seed":2}"#;
    assert!(told("network", network).starts_with("HTTP/1.1 409"));
    let steps = || {
        let metrics = ask(&host, "/metrics", &token);
        let line = metrics.lines().find(|l| l.starts_with("betz_steps_total "));
        line.unwrap().to_owned()
    };
    assert!(told("pause", r#"{"paused":true}"#).starts_with("HTTP/1.1 202"));
    let mut last = steps();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let now = steps();
        if now == last {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(200), "it goes on");
        last = now;
    }
    assert!(told("pause", r#"{"paused":false}"#).starts_with("HTTP/1.1 202"));
    while steps() == last {
        assert!(begin.elapsed() < Duration::from_secs(200), "it rests");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_stream_is_looked_at_while_it_listens() {
    let folder = files();
    let arguments = "stream model.betz --in udp://127.0.0.1:0 --page --no-open --json";
    let (_running, host, token) = serve(folder.path(), arguments);
    let state = ask(&host, "/api/state", &token);
    assert!(
        state.contains("\"mode\":\"live\"") && state.contains("model.betz"),
        "{state}"
    );
    for line in [
        "stream model.betz test.npz --page",
        "stream model.betz --in udp://127.0.0.1:0 --port 1",
    ] {
        let refused = betz(folder.path(), line).status().unwrap();
        assert_eq!(refused.code(), Some(2), "{line}");
    }
}

#[test]
fn recordings_are_looked_at_with_and_without_a_model() {
    let folder = files();
    for (arguments, decoded) in [
        ("serve test.npz train.npz --no-open --json", false),
        ("serve model.betz test.npz train.npz --no-open --json", true),
    ] {
        let (_running, host, token) = serve(folder.path(), arguments);
        let state = ask(&host, "/api/state", &token);
        assert!(state.contains("\"mode\":\"file\""), "{state}");
        assert_eq!(state.contains("\"model\":null"), !decoded, "{state}");
        let second = ask(&host, "/api/state?source=1", &token);
        assert!(second.contains("train.npz"), "{second}");
        assert!(ask(&host, "/api/outline", &token).contains("\"steps\":600"));
        assert!(ask(&host, "/api/outline?source=2", &token).starts_with("HTTP/1.1 404"));
    }
}

#[test]
fn a_gated_model_is_shown_with_its_gate() {
    let folder = files();
    let train = "train train.npz --velocity x,y --labels right=x>0 --gate right --filter 0.1:1 --folds 2 --lift-units 8 --out gated.betz";
    assert!(betz(folder.path(), train).status().unwrap().success());
    for arguments in [
        "serve gated.betz test.npz --no-open --json",
        "monitor gated.betz test.npz --no-open --json --speed 20",
    ] {
        let (_running, host, token) = serve(folder.path(), arguments);
        let state = ask(&host, "/api/state", &token);
        assert!(state.contains("\"gate\":{\"class\":1,"), "{state}");
    }
}

#[test]
fn networks_and_episodes_are_shown_beside_their_recording() {
    let folder = files();
    for arguments in [
        "network compute test.npz --bin 20ms --window 1s --step 500ms --threshold 0.05 --out test.net.npz",
        "mine test.npz --interval 0,0.01 --threshold 5 --max-size 2 --csv episodes.csv",
    ] {
        let status = betz(folder.path(), arguments).status().unwrap();
        assert!(status.success(), "{arguments}");
    }
    let arguments = "serve test.npz episodes.csv test.net.npz --no-open --json";
    let (_running, host, token) = serve(folder.path(), arguments);
    assert!(ask(&host, "/api/networks", &token).contains("\"name\":\"test.net.npz\""));
    let network = ask(&host, "/api/network/0", &token);
    assert!(
        network.contains("\"nodes\":12") && network.contains("\"windows\":5"),
        "{network}"
    );
    let episodes = ask(&host, "/api/mined/0", &token);
    assert!(
        episodes.contains("\"recording\":0") && episodes.contains("\"seconds\":3.0"),
        "{episodes}"
    );
    assert!(ask(&host, "/api/mined/0/0", &token).contains("\"total\":"));
    drop(_running);
    // Networks alone; episodes only beside their recording.
    let (_running, host, token) = serve(folder.path(), "serve test.net.npz --no-open --json");
    assert!(ask(&host, "/api/state", &token).contains("\"sources\":[]"));
    let alone = "serve episodes.csv test.net.npz --no-open";
    assert_eq!(betz(folder.path(), alone).status().unwrap().code(), Some(2));
}

#[test]
fn a_simulated_network_is_seen_and_steered() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "monitor --simulate cuba --scale 0.05 --trace 0,7 --control --no-open --json";
    let (_running, host, token) = serve(folder.path(), arguments);
    let state = ask(&host, "/api/state", &token);
    for part in [
        "\"steered\":true",
        "\"name\":\"E\",\"neurons\":160",
        "\"channels\":200",
        "V E7",
    ] {
        assert!(state.contains(part), "{part} in {state}");
    }
    let told = |what: &str, body: &str| post(&host, &format!("/api/control/{what}"), &token, body);
    let stimulus = r#"{"population":0,"first":10,"count":5,"current_pa":500}"#;
    assert!(told("stimulus", stimulus).starts_with("HTTP/1.1 202"));
    let beyond = r#"{"population":0,"first":158,"count":5,"current_pa":500}"#;
    assert!(told("stimulus", beyond).starts_with("HTTP/1.1 409"));
    assert!(told("pause", r#"{"paused":true}"#).starts_with("HTTP/1.1 202"));
    assert!(told("swap", r#"{"model":0}"#).starts_with("HTTP/1.1 403"));
    let begin = Instant::now();
    while !ask(&host, "/api/events", &token).contains("\"what\":\"pause\"") {
        assert!(begin.elapsed() < Duration::from_secs(100));
        std::thread::sleep(Duration::from_millis(20));
    }
    // Another network comes to the same address under the same token; what cannot be built changes nothing.
    let no_file = r#"{"name":"/etc/hostname","scale":1,"seed":2}"#;
    assert!(told("network", no_file).starts_with("HTTP/1.1 202"));
    while !ask(&host, "/api/events", &token).contains("\"refused\"") {
        assert!(begin.elapsed() < Duration::from_secs(100));
        std::thread::sleep(Duration::from_millis(20));
    }
    let ring = r#"{"name":"ring:30","scale":1,"seed":2}"#;
    assert!(told("network", ring).starts_with("HTTP/1.1 202"));
    while !try_ask(&host, "/api/state", &token).is_ok_and(|s| s.contains("\"channels\":30")) {
        assert!(begin.elapsed() < Duration::from_secs(100));
        std::thread::sleep(Duration::from_millis(20));
    }
    // A viewer without control steers nothing.
    let (_looked, host, token) =
        serve(folder.path(), "monitor --simulate ring:50 --no-open --json");
    let refused = post(&host, "/api/control/stimulus", &token, stimulus);
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
}

/// Conductances stand beside potentials, and the weights of synapses that learn move.
#[test]
fn conductances_and_learned_weights_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let spec = r#"{"step_ms": 0.1, "seed": 1, "populations": [
        {"name": "in", "neurons": 50, "neuron": {"poisson": {"rate_hz": 50}}},
        {"name": "e", "neurons": 20, "neuron": {"lif": {}}, "synapse": {"conductance": {"channels": {"ampa": {}, "gaba_a": {}}}}}],
      "projections": [{"source": "in", "target": "e", "rule": "all", "weight": 2, "delay_ms": 1, "receptor": "ampa",
        "plasticity": {"a_plus": 0.02, "a_minus": 0.02, "high": 4}}]}"#;
    std::fs::write(folder.path().join("net.json"), spec).unwrap();
    let arguments = "monitor --simulate net.json --no-open --json";
    let (_running, host, token) = serve(folder.path(), arguments);
    let begin = Instant::now();
    let mut seen = Vec::new();
    // All thousand weights are 2 at first, in the middle of 0 to 4.
    while seen.len() < 2 {
        assert!(begin.elapsed() < Duration::from_secs(100), "{seen:?}");
        let state = ask(&host, "/api/state", &token);
        for part in ["V e0", "g ampa e0", "g gaba_a e0", "\"unit\":\"nS\""] {
            assert!(state.contains(part), "{part} in {state}");
        }
        let body: serde_json::Value =
            serde_json::from_str(&state[state.find('{').unwrap()..]).unwrap();
        let weights = &body["simulation"]["weights"][0];
        if !weights.is_null() {
            assert_eq!(
                (&weights["name"], &weights["high"]),
                (&"in to e".into(), &4.0.into())
            );
            let bins = weights["bins"].as_array().unwrap();
            assert_eq!(
                bins.iter()
                    .filter_map(serde_json::Value::as_u64)
                    .sum::<u64>(),
                1000
            );
            if seen.last() != Some(bins) {
                seen.push(bins.clone());
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn wrong_usage_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, code) in [
        ("monitor", 2),
        ("monitor --simulate cuba --demo", 2),
        ("monitor --simulate cuba --deadline 500", 2),
        ("monitor --simulate ring:x --no-open", 2),
        ("monitor --simulate cuba --trace 0..20 --no-open", 2),
        ("monitor --simulate nothing.json --no-open", 1),
        ("monitor --demo --speed 0", 2),
        ("monitor --demo --deadline -1", 2),
        (
            "monitor --demo --no-token --host 0.0.0.0 --no-open --with x",
            2,
        ),
        ("serve", 2),
        ("serve a.betz b.betz c.npz --no-open", 2),
        ("serve nothing.npz --no-open", 1),
        ("monitor nothing.betz nothing.npz --no-open", 1),
    ] {
        assert_eq!(
            betz(folder.path(), arguments).status().unwrap().code(),
            Some(code),
            "{arguments}"
        );
    }
}

/// The JSON of an answer.
pub(crate) fn body(answer: &str) -> serde_json::Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn a_map_is_watched_while_it_is_trained_and_looked_at_afterwards() {
    use betz::recording::arrays::{Array, write};
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let values: Vec<f32> = (0..1200)
        .map(|i| ((i / 4) % 3 * 5) as f32 + ((i * 31) % 17) as f32 / 17.0)
        .collect();
    let array = Array::F32(&[300, 4], &values);
    write(&folder.join("data.npz"), &[("data", array)]).unwrap();
    for rule in ["--hex", "--online --torus"] {
        let arguments = format!(
            "som data.npz --map 6x5 {rule} --epochs 8 --out map.npz --live --no-open --json"
        );
        let (running, host, token) = serve(folder, &arguments);
        let begin = Instant::now();
        let told = loop {
            let told = body(&ask(&host, "/api/map/0", &token));
            if told["training"].is_null() && !told["stages"].as_array().unwrap().is_empty() {
                break told;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{told}");
        };
        // The page stays when all is done: its last stage is the whole training.
        let stages = told["stages"].as_array().unwrap();
        assert_eq!(stages[stages.len() - 1]["epochs"], 8.0, "{told}");
        assert!(stages.len() >= 2 && stages[0]["epochs"] == 0.0);
        assert_eq!(told["hexagonal"], rule == "--hex");
        let errors = told["errors"].as_array().unwrap();
        let last = &errors[errors.len() - 1];
        assert!(last[0] == 8.0 && last[1].is_number() && last[2].is_number());
        drop(running);

        let (_running, host, token) = serve(folder, "serve map.npz --no-open --json");
        let file = body(&ask(&host, "/api/map/0", &token));
        for key in ["rows", "columns", "hexagonal", "torus", "dims", "errors"] {
            assert_eq!(file[key], told[key], "{key}");
        }
        assert_eq!(file["stages"][0]["epochs"], 8.0);
        assert!(ask(&host, "/api/map/0/0", &token).starts_with("HTTP/1.1 200"));
        assert!(ask(&host, "/api/map/0/1", &token).starts_with("HTTP/1.1 404"));
        // Samples of a node with their values, as long as the data are where they were.
        assert!(file["assigned"] == true && file["sample_values"] == true);
        assert!(ask(&host, "/api/map/0/samples/29", &token).starts_with("HTTP/1.1 200"));
        assert!(ask(&host, "/api/map/0/samples/30", &token).starts_with("HTTP/1.1 404"));
    }
    std::fs::write(
        folder.join("kept.json"),
        r##"{"betz_state": 1, "address": "#v=map&mv=2"}"##,
    )
    .unwrap();
    std::fs::rename(folder.join("data.npz"), folder.join("moved.npz")).unwrap();
    let arguments = "serve map.npz --state kept.json --no-open --json";
    let (_running, host, token) = serve(folder, arguments);
    let file = body(&ask(&host, "/api/map/0", &token));
    assert!(file["assigned"] == true && file["sample_values"] == false);
    std::fs::rename(folder.join("moved.npz"), folder.join("data.npz")).unwrap();
    let state = body(&ask(&host, "/api/state", &token));
    assert!(state["kept"]["address"] == "#v=map&mv=2" && state["maps"] == 1);
    let wrong = betz(folder, "serve map.npz --state map.npz --no-open");
    assert_eq!({ wrong }.status().unwrap().code(), Some(1));
    let page_without = betz(folder, "som data.npz --out map.npz --port 0 --no-open");
    let status = { page_without }.status().unwrap();
    assert_eq!(
        status.code(),
        Some(2),
        "the page's options are nothing without --live"
    );
}
