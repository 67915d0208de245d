//! Networks on a page: answers agree with plain loops.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use betz_monitor::frame::{Frame, Section};
use betz_monitor::{Contents, Image, Monitor, NamedNetwork, Options};
use betz_network::{Measure, Network, NetworkSpec, Plan, Signal, Threshold, Window};

const NODES: usize = 9;

/// A network of three groups, each following a wave of its own, with noise.
pub(crate) fn network(measure: Measure, threshold: f64) -> Network {
    let samples: Vec<f32> = (0..400_u32)
        .flat_map(|t| {
            (0..NODES as u32).map(move |n| {
                let wave = (f64::from(t) / (7.0 + 6.0 * f64::from(n % 3))).sin();
                let noise = f64::from((t * 7919 + n * 104_729 + t * n * 31) % 97) / 60.0;
                (wave + noise) as f32
            })
        })
        .collect();
    let signal = Signal::new(&samples, NODES).unwrap();
    let signal = signal.with_sample_seconds(0.1).unwrap();
    let window = Window {
        length: 100,
        step: 50,
    };
    let spec = NetworkSpec::new(measure, window).threshold(Threshold::Absolute(threshold));
    Plan::new(&spec, &signal)
        .unwrap()
        .run(&signal, &())
        .unwrap()
}

pub(crate) fn networked(network: Network) -> NamedNetwork {
    NamedNetwork {
        name: "a test".into(),
        network,
        names: Some((0..NODES).map(|n| format!("n{n}")).collect()),
        positions: Some(((0..NODES * 2).map(|v| v as f64).collect(), 2)),
        window_seconds: None,
        complete: true,
    }
}

fn open(networks: Vec<NamedNetwork>) -> Monitor {
    let shown = Contents {
        networks,
        ..Contents::default()
    };
    Monitor::open(shown, Options::default()).unwrap()
}

/// Status and body of an answer.
pub(crate) fn get(monitor: &Monitor, path: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(monitor.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let (host, token) = (monitor.address(), monitor.token().unwrap().as_str());
    // HTTP 1.0, so that the body comes without chunks.
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let status = std::str::from_utf8(&answer[9..12])
        .unwrap()
        .parse()
        .unwrap();
    (status, answer[head + 4..].to_vec())
}

pub(crate) fn json(monitor: &Monitor, path: &str) -> serde_json::Value {
    let (status, body) = get(monitor, path);
    assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).unwrap()
}

/// (i, j, value) of every edge of a window that reaches a level, from a plain loop.
fn plain(network: &Network, k: usize, least: f32, peak: bool) -> Vec<(u32, u32, f32)> {
    let distance = matches!(network.meta().spec.measure, Measure::Euclidean { .. });
    let key = |r: f32| if distance { -r } else { r.abs() };
    let mut best: HashMap<(u32, u32), (f32, usize)> = HashMap::new();
    for window in network.windows() {
        for (i, j, r) in window.edges() {
            let at = best.entry((i, j)).or_insert((key(r), window.index));
            if key(r) > at.0 {
                *at = (key(r), window.index);
            }
        }
    }
    let all = network.window(k).unwrap().edges();
    let mut all: Vec<_> = all
        .filter(|(i, j, r)| key(*r) >= least && (!peak || best[&(*i, *j)].1 == k))
        .collect();
    all.sort_by(|a, b| {
        key(b.2)
            .total_cmp(&key(a.2))
            .then((a.0, a.1).cmp(&(b.0, b.1)))
    });
    all
}

#[test]
fn edges_and_counts_are_those_of_plain_loops() {
    for (measure, threshold) in [
        (Measure::Pearson, 0.1),
        (Measure::Euclidean { hold: 1 }, 30.0),
    ] {
        let network = network(measure, threshold);
        assert!(network.edges() > 20, "{}", network.edges());
        let monitor = open(vec![networked(network.clone())]);
        let told = json(&monitor, "/api/network/0");
        let levels: Vec<f32> = (told["levels"].as_array().unwrap().iter())
            .map(|l| l.as_f64().unwrap() as f32)
            .collect();
        assert_eq!(
            (levels.len(), told["windows"].as_u64()),
            (256, Some(network.len() as u64))
        );
        for rule in ["every", "peak"] {
            let (_, bytes) = get(&monitor, &format!("/api/network/0/timeline?rule={rule}"));
            let (frame, _) = Frame::read(&bytes).unwrap();
            let counts: Vec<u32> = frame.u32(Section::COUNT).collect();
            for k in 0..network.len() {
                for b in [0, 1, 17, 128, 254, 255] {
                    let found = plain(&network, k, levels[b], rule == "peak").len();
                    assert_eq!(
                        counts[k * 256 + b] as usize,
                        found,
                        "{rule}, window {k}, level {b}"
                    );
                }
                let (_, bytes) = get(
                    &monitor,
                    &format!("/api/network/0/edges?window={k}&rule={rule}"),
                );
                let (frame, _) = Frame::read(&bytes).unwrap();
                let (i, j) = (frame.u32(Section::NODE_I), frame.u32(Section::NODE_J));
                let edges: Vec<_> = (i.zip(j).zip(frame.f32(Section::VALUE)))
                    .map(|((i, j), r)| (i, j, r))
                    .collect();
                assert_eq!(edges, plain(&network, k, f32::NEG_INFINITY, rule == "peak"));
                assert_eq!(frame.ticks as usize, edges.len());
            }
        }
        let (_, bytes) = get(&monitor, "/api/network/0/edges?window=1&limit=3");
        let (frame, _) = Frame::read(&bytes).unwrap();
        assert_eq!(frame.u32(Section::NODE_I).count(), 3);
        assert_eq!(
            frame.ticks as usize,
            plain(&network, 1, f32::NEG_INFINITY, false).len()
        );
    }
}

#[test]
fn work_is_told_frame_by_frame() {
    let monitor = open(vec![networked(network(Measure::Pearson, 0.3))]);
    let (_, bytes) = get(&monitor, "/api/network/0/layout?window=0&steps=50&seed=4");
    let all = Frame::read_all(&bytes).unwrap();
    let last = all.last().unwrap();
    assert_eq!((last.first, last.ticks), (50, 50));
    let places: Vec<f32> = last.f32(Section::PLACE).collect();
    assert!(places.len() == 2 * NODES && places.iter().all(|v| v.is_finite()));
    // The same seed gives the same positions.
    let again = get(&monitor, "/api/network/0/layout?window=0&steps=50&seed=4").1;
    let again = Frame::read_all(&again).unwrap();
    assert_eq!(
        again
            .last()
            .unwrap()
            .f32(Section::PLACE)
            .collect::<Vec<_>>(),
        places
    );
    // A warm start continues from the last positions.
    let warm = get(
        &monitor,
        "/api/network/0/layout?window=1&steps=1&seed=9&warm=1",
    )
    .1;
    let warm: Vec<f32> = Frame::read_all(&warm).unwrap()[0]
        .f32(Section::PLACE)
        .collect();
    let moved = places.iter().zip(&warm).map(|(a, b)| (a - b).abs());
    let wide = places.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    assert!(moved.fold(0.0, f32::max) < wide);

    let (_, bytes) = get(&monitor, "/api/network/0/communities?threshold=0.3");
    let all = Frame::read_all(&bytes).unwrap();
    assert_eq!(
        all.iter().map(|f| f.first).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 5, 6]
    );
    for frame in &all {
        let of: Vec<u32> = frame.u32(Section::COMMUNITY).collect();
        assert_eq!(of.len(), NODES);
        // Nodes of one wave stay in one community with one identity.
        assert!((0..NODES).all(|n| of[n] == of[n % 3]), "{of:?}");
    }
}

#[test]
fn what_is_asked_wrongly_is_refused_in_words() {
    let monitor = open(vec![networked(network(Measure::Pearson, 0.3))]);
    for (path, status) in [
        ("/api/network/1", 404),
        ("/api/network/1/edges?window=0", 404),
        ("/api/network/0/edges?window=7", 400),
        ("/api/network/0/edges?window=-1", 400),
        ("/api/network/0/edges", 400),
        ("/api/network/1/layout?window=0", 404),
        ("/api/image", 404),
        ("/api/compute?window=1&step=1&bin=0.1", 404),
        ("/api/state", 404),
    ] {
        let (got, words) = get(&monitor, path);
        // Without a recording, the state describes networks alone.
        let wanted = if path == "/api/state" { 200 } else { status };
        assert_eq!(got, wanted, "{path}: {}", String::from_utf8_lossy(&words));
    }
    let (_, bytes) = get(&monitor, "/api/network/0/layout?window=99");
    let frame = Frame::read(&bytes).unwrap().0;
    let words = String::from_utf8_lossy(frame.section(Section::EVENT, 1)).into_owned();
    assert!(words.contains("expected one below 7, got 99"), "{words}");
    assert_eq!(json(&monitor, "/api/state")["mode"], "file");
    assert_eq!(
        json(&monitor, "/api/networks")["networks"][0]["name"],
        "a test"
    );
}

#[test]
fn what_does_not_fit_is_refused_before_it_is_served() {
    let good = networked(network(Measure::Pearson, 0.3));
    let mut names = good.clone();
    names.names = Some(vec!["one".into()]);
    let mut places = good.clone();
    places.positions = Some((vec![0.0; 7], 2));
    let mut times = good.clone();
    times.window_seconds = Some(vec![0.0]);
    for wrong in [names, places, times] {
        let shown = Contents {
            networks: vec![wrong],
            ..Contents::default()
        };
        let error = Monitor::open(shown, Options::default()).unwrap_err();
        assert!(
            error
                .message()
                .contains("a test: expected names and positions"),
            "{error}"
        );
    }
    let shown = Contents {
        networks: vec![good],
        image: Some(Image {
            bytes: b"<svg onload=alert(1)>".to_vec(),
            extent: None,
        }),
        ..Contents::default()
    };
    let error = Monitor::open(shown, Options::default()).unwrap_err();
    assert!(error.message().contains("PNG or a JPEG"), "{error}");
    assert!(Monitor::open(Contents::default(), Options::default()).is_err());
}
