//! A session with a page: the session's side allocates nothing, and what watches it sees what it did.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use assert_no_alloc::{AllocDisabler, assert_no_alloc};
use betz_monitor::frame::{Frame, Section};
use betz_monitor::{Control, Monitor, Options, Simulation, Source};
use betz_runtime::model::{Decoder, DecoderParts};
use betz_runtime::psc::{Filter, FilterBank};
use betz_runtime::stream::{Session, SessionConfig};
use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::Value;

#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;

fn decoder(tau_seconds: f64) -> Decoder {
    let bank = FilterBank::new(vec![Filter {
        tau_seconds,
        order: 0,
    }])
    .unwrap();
    let names = (0..4).map(|c| format!("ch{c}")).collect();
    let parts = DecoderParts {
        weights: vec![1.0, -1.0, 0.5, 0.0],
        ..DecoderParts::linear(0.001, bank, names, vec!["x".into()])
    };
    Decoder::new(parts).unwrap()
}

fn start(options: Options) -> (Monitor, Session) {
    let model = decoder(0.05);
    let mut session = Session::open(&model, SessionConfig::default()).unwrap();
    let (monitor, feed) = Monitor::start(Source::of("a test", &model), options).unwrap();
    monitor.watch(session.health());
    session.attach(Box::new(feed), 0).unwrap();
    (monitor, session)
}

#[test]
fn steps_with_a_feed_allocate_nothing_whoever_reads() {
    let (monitor, mut session) = start(Options {
        ring_words: 1 << 10,
        ..Options::default()
    });
    let mut truth = monitor.truth().unwrap();
    assert!(monitor.truth().is_none());
    let mut out = [0.0];
    let counts = [0u16, 3, 0, 1];
    assert_no_alloc(|| {
        for _ in 0..5_000 {
            truth.step(&[0.5]);
            session.step_spikes(&[1, 2, 2], &mut out).unwrap();
            session.step_counts(&counts, &mut out).unwrap();
        }
        session.reset();
        session.step_spikes(&[0], &mut out).unwrap();
    });
}

/// Asks `monitor` as a browser would; gives the whole answer.
fn ask(monitor: &Monitor, request: &str) -> String {
    let mut stream = TcpStream::connect(monitor.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let request = request.replace("HOST", &monitor.address().to_string());
    let request = request.replace("TOKEN", monitor.token().map_or("", |t| t.as_str()));
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(monitor: &Monitor, path: &str, more: &str) -> String {
    ask(
        monitor,
        &format!("GET {path} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n{more}\r\n"),
    )
}

const KNOWN: &str = "Cookie: betz=TOKEN\r\n";

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn who_has_the_token_sees_the_page_and_nobody_else_anything() {
    let (monitor, _session) = start(Options::default());
    assert!(get(&monitor, "/", "").starts_with("HTTP/1.1 401"));
    assert!(get(&monitor, "/api/state", "").starts_with("HTTP/1.1 401"));
    assert!(get(&monitor, "/?token=00", "").starts_with("HTTP/1.1 401"));
    let answer = get(&monitor, "/?token=TOKEN", "");
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    let token = monitor.token().unwrap().as_str();
    assert!(answer.contains(&format!(
        "set-cookie: betz={token}; HttpOnly; SameSite=Strict; Path=/\r\n"
    )));
    let page = get(&monitor, "/", KNOWN);
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("<title>Betz</title>"),
        "{page}"
    );
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self';",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cross-origin-opener-policy: same-origin",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(page.contains(header), "{header} is missing in {page}");
    }
    let tag = page.lines().find_map(|l| l.strip_prefix("etag: ")).unwrap();
    let again = get(&monitor, "/", &format!("{KNOWN}If-None-Match: {tag}\r\n"));
    assert!(again.starts_with("HTTP/1.1 304"), "{again}");
    assert!(get(&monitor, "/etc/passwd", KNOWN).starts_with("HTTP/1.1 404"));
    let foreign =
        "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\nCookie: betz=TOKEN\r\n\r\n";
    assert!(ask(&monitor, foreign).starts_with("HTTP/1.1 421"));
    assert!(
        get(&monitor, "/api/state", &format!("{KNOWN}Origin: null\r\n"))
            .starts_with("HTTP/1.1 403")
    );
    assert!(
        get(&monitor, "/live", KNOWN).starts_with("HTTP/1.1 403"),
        "the origin is required"
    );
}

#[test]
fn the_last_minute_the_totals_and_the_metrics_tell_of_the_steps() {
    let (monitor, mut session) = start(Options::default());
    let mut out = [0.0];
    for _ in 0..500 {
        session.step_spikes(&[1, 3], &mut out).unwrap();
    }
    until("the steps are in the history", || {
        get(&monitor, "/api/state", KNOWN).contains("\"history\":[0,500]")
    });
    let state = get(&monitor, "/api/state", KNOWN);
    assert!(
        state.contains("\"mode\":\"live\"") && state.contains("\"control\":false"),
        "{state}"
    );
    let metrics = get(&monitor, "/metrics", "Authorization: Bearer TOKEN\r\n");
    for line in [
        "betz_steps_total 500",
        "betz_spikes_total 1000",
        "betz_monitor_steps_not_shown_total 0",
    ] {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
    assert!(get(&monitor, "/api/spikes?from=5&to=5", KNOWN).starts_with("HTTP/1.1 400"));
    let spikes = "GET /api/spikes?from=0&to=500 HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nCookie: betz=TOKEN\r\n\r\n";
    let mut stream = TcpStream::connect(monitor.address()).unwrap();
    let request = spikes.replace("HOST", &monitor.address().to_string());
    let request = request.replace("TOKEN", monitor.token().unwrap().as_str());
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let body = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let frames = Frame::read_all(&answer[body..]).unwrap();
    assert!(frames.iter().all(|f| f.kind == 5));
    let spikes: usize = frames
        .iter()
        .map(|f| f.u16(Section::SPIKE_TICK).count())
        .sum();
    assert_eq!(spikes, 1_000);
}

/// A WebSocket by hand: the handshake, and messages of the server, which are not masked.
struct Socket(TcpStream);

impl Socket {
    fn open(monitor: &Monitor) -> Self {
        let mut stream = TcpStream::connect(monitor.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let host = monitor.address();
        let token = monitor.token().unwrap().as_str();
        let request = format!(
            "GET /live HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: betz={token}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: betz.v1\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(
            head.starts_with(b"HTTP/1.1 101"),
            "{}",
            String::from_utf8_lossy(&head)
        );
        Self(stream)
    }

    fn message(&mut self) -> Vec<u8> {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).unwrap();
        assert_eq!(head[0], 0x82, "binary, whole");
        let len = match head[1] {
            126 => {
                let mut len = [0; 2];
                self.0.read_exact(&mut len).unwrap();
                u64::from(u16::from_be_bytes(len))
            }
            127 => {
                let mut len = [0; 8];
                self.0.read_exact(&mut len).unwrap();
                u64::from_be_bytes(len)
            }
            short => u64::from(short),
        };
        let mut message = vec![0; usize::try_from(len).unwrap()];
        self.0.read_exact(&mut message).unwrap();
        message
    }

    fn drawn(&mut self, messages: u32) {
        let mut frame = vec![0x82, 0x84, 0, 0, 0, 0]; // a mask of zeros
        frame.extend(messages.to_le_bytes());
        self.0.write_all(&frame).unwrap();
    }
}

#[test]
fn a_viewer_sees_every_step_and_no_more_than_two_messages_ahead() {
    let (monitor, mut session) = start(Options::default());
    let mut socket = Socket::open(&monitor);
    until("the page is seen", || monitor.viewers() == 1);
    let mut out = [0.0];
    let mut took = 0;
    let mut next = 0;
    let mut sequence = None;
    for round in 0..10 {
        for _ in 0..50 {
            session.step_spikes(&[2], &mut out).unwrap();
            took += 1;
        }
        // Messages may be joined: read on until all steps of this round were seen.
        while next < took {
            for frame in Frame::read_all(&socket.message()).unwrap() {
                assert_eq!(frame.first, next, "round {round}");
                assert_eq!(frame.u16(Section::SPIKE_TICK).count(), frame.ticks as usize);
                assert_eq!(
                    frame.sequence,
                    sequence.map_or(frame.sequence, |s: u32| s + 1)
                );
                sequence = Some(frame.sequence);
                next = frame.first + i64::from(frame.ticks);
            }
            socket.drawn(1);
        }
    }
    drop(socket);
    until("the page is gone", || {
        session.step_spikes(&[], &mut out).unwrap();
        monitor.viewers() == 0
    });
}

fn post(monitor: &Monitor, what: &str, body: &str) -> String {
    post_to(monitor, &format!("/api/control/{what}"), body)
}

fn post_to(monitor: &Monitor, path: &str, body: &str) -> String {
    let length = body.len();
    ask(
        monitor,
        &format!(
            "POST {path} HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\nCookie: betz=TOKEN\r\n\r\n{body}"
        ),
    )
}

#[test]
fn only_with_control_does_a_page_swap_models() {
    let (monitor, _session) = start(Options::default());
    assert!(post(&monitor, "swap", "{\"model\":1}").starts_with("HTTP/1.1 403"));

    let (monitor, mut session) = start(Options {
        control: true,
        ..Options::default()
    });
    assert!(
        post(&monitor, "swap", "{\"model\":1}").starts_with("HTTP/1.1 403"),
        "nothing to control yet"
    );
    let models = vec![
        ("a".to_owned(), decoder(0.05)),
        ("b".to_owned(), decoder(0.1)),
    ];
    let second = decoder(0.1);
    monitor
        .control(Control::new(session.swapper().unwrap(), models).unwrap())
        .unwrap();
    let mut out = [0.0];
    session.step_spikes(&[1], &mut out).unwrap();
    assert!(post(&monitor, "swap", "{\"model\":2}").starts_with("HTTP/1.1 409"));
    assert!(post(&monitor, "swap", "{\"modle\":1}").starts_with("HTTP/1.1 400"));
    assert!(post(&monitor, "roll-back", "{}").starts_with("HTTP/1.1 409"));
    let done = post(&monitor, "swap", "{\"model\":1,\"warm_up_steps\":3}");
    assert!(
        done.starts_with("HTTP/1.1 202") && done.contains("\"model\":\"b\""),
        "{done}"
    );
    for _ in 0..10 {
        session.step_spikes(&[1], &mut out).unwrap();
    }
    assert_eq!(session.model().decoder_fingerprint(), {
        betz_runtime::stream::PreparedModel::new(&second, None)
            .unwrap()
            .decoder_fingerprint()
    });
    until("the swap is told of", || {
        get(&monitor, "/api/events", KNOWN).contains("\"type\":\"swap\"")
    });
    assert!(post(&monitor, "roll-back", "{}").starts_with("HTTP/1.1 202"));
    session.step_spikes(&[1], &mut out).unwrap();
    assert!(post(&monitor, "mask", "{\"channels\":[9]}").starts_with("HTTP/1.1 409"));
    let masked = post(&monitor, "mask", "{\"channels\":[1]}");
    assert!(masked.starts_with("HTTP/1.1 202"), "{masked}");
    assert!(post(&monitor, "mark", "{\"text\":\"<b>here</b>\"}").starts_with("HTTP/1.1 202"));
}

#[test]
fn what_a_simulation_cannot_read_is_a_bad_request_and_what_it_cannot_do_a_conflict() {
    let (monitor, _session) = start(Options {
        control: true,
        ..Options::default()
    });
    let _wishes = monitor.simulation(Simulation {
        populations: Vec::new(),
        synapses: 0,
        seed: 1,
        name: "made up".into(),
        scale: 1.0,
        every: 1,
    });
    for (what, body, code) in [
        ("pause", "{", 400),
        ("pause", "{\"paused\":1}", 400),
        ("stimulus", "{\"population\":0}", 400),
        ("network", "[]x", 400),
        (
            "stimulus",
            "{\"population\":0,\"first\":0,\"count\":1,\"current_pa\":1}",
            409,
        ),
        ("pause", "{\"paused\":true}", 202),
    ] {
        let answer = post(&monitor, what, body);
        let begin = format!("HTTP/1.1 {code}");
        assert!(answer.starts_with(&begin), "{what} {body}: {answer}");
    }
}

/// JSON of a few levels, numbers of all sizes among it.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0u64..6).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            hash_map("[a-z_]{0,6}", inner, 0..4).prop_map(|m| m.into_iter().collect()),
        ]
    })
}

/// Bodies of what a page may ask for, some of them cut short.
fn body() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        Just("model"),
        Just("warm_up_steps"),
        Just("channels"),
        Just("text"),
        Just("paused"),
        Just("nothing"),
    ];
    let small = vec(0u64..6, 0..9).prop_map(Value::from);
    let asked = hash_map(field, prop_oneof![json(), small], 0..4);
    let asked = asked.prop_map(|m| m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect());
    let whole = prop_oneof![4 => asked, 1 => json()].prop_map(|v: Value| v.to_string());
    (whole, any::<Option<prop::sample::Index>>()).prop_map(|(whole, cut)| match cut {
        Some(cut) if !whole.is_empty() => {
            let at = cut.index(whole.chars().count());
            whole.chars().take(at).collect()
        }
        _ => whole,
    })
}

/// Whatever a page asks for is done or refused with words, and neither the page nor the session falls.
#[test]
fn whatever_is_asked_of_control_is_done_or_refused() {
    let (monitor, mut session) = start(Options {
        control: true,
        ..Options::default()
    });
    let models = vec![
        ("a".to_owned(), decoder(0.05)),
        ("b".to_owned(), decoder(0.1)),
    ];
    let control = Control::new(session.swapper().unwrap(), models).unwrap();
    monitor.control(control).unwrap();
    let what = prop_oneof![
        Just("swap"),
        Just("roll-back"),
        Just("release"),
        Just("mask"),
        Just("mark"),
        Just("expected"),
        Just("pause"),
        Just("stimulus"),
        Just("network"),
        Just("else"),
    ];
    let session = RefCell::new(session);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let done = RefCell::new(0);
    runner
        .run(&(what, body()), |(what, body)| {
            let answer = match what {
                "expected" => post_to(&monitor, "/api/expected", &body),
                _ => post(&monitor, what, &body),
            };
            let code = answer.get(9..12).unwrap_or_default();
            prop_assert!(
                ["200", "202", "400", "403", "409"].contains(&code),
                "{what} {body}: {answer}"
            );
            let (_, words) = answer.split_once("\r\n\r\n").unwrap_or_default();
            prop_assert!(!words.is_empty(), "{what} {body}: {answer}");
            prop_assert!(
                words.len() < 1000 + 2 * body.len(),
                "{what} {body}: {answer}"
            );
            *done.borrow_mut() += usize::from(code == "202");
            let mut out = [0.0];
            session.borrow_mut().step_spikes(&[1], &mut out).unwrap();
            Ok(())
        })
        .unwrap();
    assert!(*done.borrow() > 10, "{} done", done.borrow());
    assert!(post(&monitor, "mark", "{\"text\":\"after all\"}").starts_with("HTTP/1.1 202"));
}

/// What a mask would cost is answered without the session's doing, to those who may control it alone.
#[test]
fn what_a_mask_would_cost_is_told_before_it_is_set() {
    let asked = "{\"channels\":[1]}";
    let (monitor, _session) = start(Options::default());
    assert!(post_to(&monitor, "/api/expected", asked).starts_with("HTTP/1.1 403"));

    let (monitor, mut session) = start(Options {
        control: true,
        ..Options::default()
    });
    assert!(
        post_to(&monitor, "/api/expected", asked).starts_with("HTTP/1.1 403"),
        "no model is known yet"
    );
    let models = vec![("a".to_owned(), decoder(0.05))];
    let control = Control::new(session.swapper().unwrap(), models).unwrap();
    monitor.control(control).unwrap();
    let too_few = post_to(&monitor, "/api/expected", asked);
    assert!(
        too_few.starts_with("HTTP/1.1 409") && too_few.contains("expected 100 steps"),
        "{too_few}"
    );
    let mut truth = monitor.truth().unwrap();
    let (mut out, mut estimates) = ([0.0], Vec::new());
    for step in 0u32..2_000 {
        let spikes = [step / 100 % 2, 2];
        session.step_spikes(&spikes, &mut out).unwrap();
        truth.step(&out);
        estimates.push(out[0]);
    }
    until("the steps are in the history", || {
        get(&monitor, "/api/state", KNOWN).contains("\"history\":[0,2000]")
    });
    let answer = post_to(&monitor, "/api/expected", asked);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let told: Value = serde_json::from_str(body).unwrap();
    assert_eq!(told["against"], "truth");
    // The truth is here what the model says itself.
    assert!(
        told["outputs"][0]["now"].as_f64().unwrap() > 1.0 - 1e-9,
        "{body}"
    );
    assert!(
        told["outputs"][0]["masked"].as_f64().unwrap() < 0.9,
        "{body}"
    );
    for (body, words) in [
        ("{\"channels\":[4]}", "0 to 3"),
        ("{\"channels\":[-1]}", "JSON"),
        ("{\"channel\":[1]}", "JSON"),
        ("{}", "JSON"),
        ("", "JSON"),
    ] {
        let answer = post_to(&monitor, "/api/expected", body);
        assert!(
            answer.starts_with("HTTP/1.1 400") && answer.contains(words),
            "{body}: {answer}"
        );
    }
    let head = |more: &str| {
        let length = asked.len();
        format!(
            "POST /api/expected HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n{more}\r\n{asked}"
        )
    };
    let origin = "Origin: http://HOST\r\n";
    assert!(ask(&monitor, &head(origin)).starts_with("HTTP/1.1 401"));
    let foreign = format!("Origin: http://evil.example\r\n{KNOWN}");
    assert!(ask(&monitor, &head(&foreign)).starts_with("HTTP/1.1 403"));
    assert!(ask(&monitor, &head(KNOWN)).starts_with("HTTP/1.1 403"));
    // Nothing was set: the same spikes say the same.
    session.reset();
    for (step, before) in (0u32..).zip(&estimates) {
        session.step_spikes(&[step / 100 % 2, 2], &mut out).unwrap();
        assert_eq!(out[0], *before);
    }
    assert!(!get(&monitor, "/api/events", KNOWN).contains("mask"));
}

#[test]
fn a_page_that_would_be_open_to_all_is_refused() {
    let model = decoder(0.05);
    let options = Options {
        no_token: true,
        address: "0.0.0.0".parse().unwrap(),
        ..Options::default()
    };
    let error = Monitor::start(Source::of("a test", &model), options).unwrap_err();
    assert!(error.message().contains("loopback"), "{error}");
}

#[test]
fn episodes_are_counted_while_the_session_runs() {
    use betz_episode::online::{MinerConfig, open};
    use betz_episode::{Interval, Pattern};
    let (monitor, mut session) = start(Options::default());
    assert!(get(&monitor, "/api/mined", KNOWN).ends_with("[]"));
    let edge = Interval::new(0, 3).unwrap();
    let pattern = Pattern::new(vec![0, 2], vec![edge]).unwrap();
    let config = |channels| MinerConfig::new(channels, vec![pattern.clone()]);
    let (_, other) = open(config(5)).unwrap();
    let refused = monitor.mine("of others", other).unwrap_err();
    assert!(refused.message().contains("4 channels"), "{refused}");
    let (feed, miner) = open(config(4)).unwrap();
    session.attach(Box::new(feed), 0).unwrap();
    monitor.mine("a list", miner).unwrap();
    let (_, second) = open(config(4)).unwrap();
    assert!(monitor.mine("another", second).is_err());

    // Ten times 0 and, two ticks later, 2; then a trial of its own that goes on with 2: no occurrence reaches over.
    let mut out = [0.0];
    for tick in 0..100 {
        let spikes: &[u32] = match tick % 10 {
            4 => &[0],
            6 => &[2],
            _ => &[],
        };
        session.step_spikes(spikes, &mut out).unwrap();
    }
    session.step_spikes(&[0], &mut out).unwrap();
    session.reset();
    session.step_spikes(&[2], &mut out).unwrap();
    let body = |path: &str| -> serde_json::Value {
        let answer = get(&monitor, path, KNOWN);
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let list = || body("/api/mined/0");
    until("both spikes are taken", || {
        list()["live"]["events"] == 22 && list()["seconds"] == 0.102
    });
    let list = list();
    assert_eq!(list["episodes"][0]["count"], 10);
    assert_eq!(
        list["episodes"][0]["labels"],
        serde_json::json!(["ch0", "ch2"])
    );
    assert!(list["live"]["dropped"] == 0 && list["live"]["running"] == true);
    let found = body("/api/mined/0/0");
    assert_eq!(found["times"][3], serde_json::json!([0.034, 0.036]));
    let none = get(&monitor, "/api/mined/0/7", KNOWN);
    assert!(none.starts_with("HTTP/1.1 404") && none.ends_with("none of number 7"));
    assert!(get(&monitor, "/api/mined/1", KNOWN).starts_with("HTTP/1.1 404"));
    assert_eq!(body("/api/state")["mined"], 1);
}
