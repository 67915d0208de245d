//! A session with a page: the session's side allocates nothing, and viewers see what the session did.

use crate::common::{KNOWN, Socket, ask, bytes, decoder, get, start, until};
use assert_no_alloc::assert_no_alloc;
use betz_monitor::frame::{Frame, Section};
use betz_monitor::{Label, Monitor, Options, Source};

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

#[test]
fn who_has_the_token_sees_the_page_and_nobody_else_anything() {
    let (monitor, _session) = start(Options::default());
    assert!(get(&monitor, "/", "").starts_with("HTTP/1.1 401"));
    assert!(get(&monitor, "/api/state", "").starts_with("HTTP/1.1 401"));
    assert!(get(&monitor, "/?token=00", "").starts_with("HTTP/1.1 401"));
    let answer = get(&monitor, "/?token=TOKEN", "");
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    let token = monitor.token().unwrap().as_str();
    let port = monitor.address().port();
    assert!(answer.contains(&format!(
        "set-cookie: betz-{port}={token}; HttpOnly; SameSite=Strict; Path=/\r\n"
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
    assert!(!page.contains("content-encoding"), "{page}");
    let packed = get(
        &monitor,
        "/shared.js",
        &format!("{KNOWN}Accept-Encoding: gzip, br\r\n"),
    );
    assert!(packed.contains("content-encoding: gzip\r\n"));
    assert!(packed.contains("vary: accept-encoding\r\n"));
    let tag = page.lines().find_map(|l| l.strip_prefix("etag: ")).unwrap();
    let again = get(&monitor, "/", &format!("{KNOWN}If-None-Match: {tag}\r\n"));
    assert!(again.starts_with("HTTP/1.1 304"), "{again}");
    assert!(get(&monitor, "/etc/passwd", KNOWN).starts_with("HTTP/1.1 404"));
    let foreign = "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\nCookie: betz-PORT=TOKEN\r\n\r\n";
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
    // The model that runs is the one that is described, although the session publishes another fingerprint.
    let told: serde_json::Value =
        serde_json::from_str(state.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(told["running"], told["model"]["fingerprint"]);
    let running = told["running"].as_str().unwrap();
    assert!(
        metrics.contains(&format!("betz_model_info{{checksum=\"{running}\"}} 1")),
        "{metrics}"
    );
    assert!(get(&monitor, "/api/spikes?from=5&to=5", KNOWN).starts_with("HTTP/1.1 400"));
    let answer = bytes(&monitor, "/api/spikes?from=0&to=500").unwrap();
    let frames = Frame::read_all(&answer).unwrap();
    assert!(frames.iter().all(|f| f.kind == 5));
    let spikes: usize = frames
        .iter()
        .map(|f| f.u16(Section::SPIKE_TICK).count())
        .sum();
    assert_eq!(spikes, 1_000);
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
        // Messages may be joined: read until all steps of this round have been seen.
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

    // Ten times channel 0 and, two ticks later, 2; then a new trial that starts with 2: no occurrence spans both
    // trials.
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
        list()["live"]["events"] == 22 && list()["seconds"] == 102.0 * 0.001
    });
    let list = list();
    assert_eq!(list["episodes"][0]["count"], 10);
    assert_eq!(
        list["episodes"][0]["labels"],
        serde_json::json!(["ch0", "ch2"])
    );
    assert!(list["live"]["dropped"] == 0 && list["live"]["running"] == true);
    let metrics = get(&monitor, "/metrics", KNOWN);
    assert!(
        metrics.contains("\nbetz_episode_count{id=\"0\"} 10"),
        "{metrics}"
    );
    let found = body("/api/mined/0/0");
    assert_eq!(found["times"][3], serde_json::json!([0.034, 0.036]));
    let none = get(&monitor, "/api/mined/0/7", KNOWN);
    assert!(none.starts_with("HTTP/1.1 404") && none.ends_with("got 7"));
    assert!(get(&monitor, "/api/mined/1", KNOWN).starts_with("HTTP/1.1 404"));
    assert_eq!(body("/api/state")["mined"], 1);
}

#[test]
fn labels_that_come_late_are_scored_and_told_to_pages_that_come_later() {
    let (monitor, mut session) = start(Options::default());
    let mut estimates = Vec::new();
    for step in 0..400 {
        let mut out = [0.0];
        let spikes: &[u32] = if step % 3 == 0 { &[0] } else { &[1] };
        session.step_spikes(spikes, &mut out).unwrap();
        estimates.push(out[0]);
    }
    until("the steps are in the history", || {
        get(&monitor, "/api/state", KNOWN).contains("\"history\":[0,400]")
    });
    // Every tenth step has a label, 0.5 beside its estimate.
    let labels: Vec<Label> = (0..400)
        .step_by(10)
        .map(|step| Label {
            tick: step as i64,
            values: vec![estimates[step] + if step % 20 == 0 { 0.5 } else { -0.5 }],
        })
        .collect();
    monitor.labels(&labels).unwrap();
    monitor.target(Some(120), &[0.25]).unwrap();
    for tick in [100, 300] {
        monitor.event("trial", serde_json::json!({"at": tick}));
    }
    let body = |path: &str| -> serde_json::Value {
        let answer = get(&monitor, path, KNOWN);
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    until("the trials are there", || {
        body("/api/events").as_array().unwrap().len() == 4
    });
    let events = body("/api/events");
    assert_eq!(
        events[0],
        serde_json::json!({"type": "target", "tick": 120, "values": [0.25]})
    );
    assert_eq!(
        (
            &events[3]["type"],
            events[3]["rows"].as_array().unwrap().len()
        ),
        (&"labels".into(), 40)
    );
    let found = body("/api/range?from=0&to=0.4");
    let rmse = found["outputs"][0]["rmse"].as_f64().unwrap();
    assert!((rmse - 0.5).abs() < 1e-5, "{found}");
    let trials = bytes(
        &monitor,
        "/api/trials?align=starts&from=-0.05&to=0.05&bin=0.01",
    )
    .unwrap();
    let (frame, _) = Frame::read(&trials).unwrap();
    let text = String::from_utf8(frame.section(Section::EVENT, 1).to_vec()).unwrap();
    let told: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["trials"].as_array().unwrap().len(), 2, "{told}");
    let odd = [Label {
        tick: 3,
        values: vec![1.0, 2.0],
    }];
    assert!(monitor.labels(&odd).is_err() && monitor.target(None, &[f32::NAN]).is_err());
}
