//! A network that grows while pages look at it.

use std::sync::{Arc, Mutex};

use betz_base::error::{Error, Result};
use betz_monitor::frame::{Frame, Section};
use betz_monitor::{
    KeptName, LiveNodes, LiveStatus, Monitor, NamedNetwork, NetworkChange, NetworkStore, Options,
};
use betz_network::{Measure, Network, Threshold};
use serde_json::{Value, json};

use crate::common::{ask, until};
use crate::looking::{get, json as told, network};

fn controlled() -> Options {
    Options {
        control: true,
        ..Options::default()
    }
}

/// Status and body of the answer to a change.
fn changed(monitor: &Monitor, id: usize, body: &str) -> (String, String) {
    let length = body.len();
    let answer = ask(
        monitor,
        &format!(
            "POST /api/network/{id}/change HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\nCookie: betz-PORT=TOKEN\r\n\r\n{body}"
        ),
    );
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].to_owned(), body.to_owned())
}

/// (i, j, r) of the edges of a frame.
fn edges(bytes: &[u8]) -> Vec<(u32, u32, f32)> {
    let frames = Frame::read_all(bytes).unwrap();
    let words = |section: Section| -> Vec<[u8; 4]> {
        let bytes = frames[0].section(section, 4);
        bytes
            .chunks_exact(4)
            .map(|b| b.try_into().unwrap())
            .collect()
    };
    let (i, j, r) = (
        words(Section::NODE_I),
        words(Section::NODE_J),
        words(Section::VALUE),
    );
    let mut all: Vec<_> = (0..r.len())
        .map(|e| {
            (
                u32::from_le_bytes(i[e]),
                u32::from_le_bytes(j[e]),
                f32::from_le_bytes(r[e]),
            )
        })
        .collect();
    all.sort_by_key(|edge| (edge.0, edge.1));
    all
}

/// The windows of `network`, one after the other.
fn each(network: &Network) -> impl Iterator<Item = betz_network::WindowEdges<'_>> {
    network.windows()
}

#[test]
fn windows_are_shown_as_they_come() {
    let network = network(Measure::Pearson, 0.1);
    let (monitor, live) = Monitor::open_live_network("a camera", Options::default()).unwrap();
    assert_eq!(told(&monitor, "/api/state")["networks"], 1);
    let list = told(&monitor, "/api/networks");
    assert_eq!(
        list["networks"],
        json!([{"id": 0, "name": "a camera", "kept": false, "live": true}])
    );
    // Nothing is known before the first rows.
    let about = told(&monitor, "/api/network/0");
    assert_eq!(
        (&about["windows"], &about["live"]["version"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(get(&monitor, "/api/network/0/timeline").0, 404);
    assert_eq!(told(&monitor, "/api/network/0?since=0"), Value::Null);

    let nodes = LiveNodes {
        names: None,
        positions: Some(((0..18).map(f64::from).collect(), 2)),
    };
    live.begin(network.meta().clone(), nodes);
    let mut before = 1;
    for window in each(&network) {
        live.push(&window);
        let about = told(&monitor, &format!("/api/network/0?since={before}"));
        before = about["live"]["version"].as_u64().unwrap();
        assert_eq!(about["windows"], window.index + 1);
        assert_eq!(about["name"], "a camera");
        assert_eq!(about["positions"][8], json!([16.0, 17.0]));
        assert_eq!(about["live"]["changes"], false);
        assert_eq!(about["live"]["threshold"], 0.1);
        let path = format!(
            "/api/network/0/edges?window={}&version={before}",
            window.index
        );
        let (status, bytes) = get(&monitor, &path);
        assert_eq!(status, 200);
        assert_eq!(edges(&bytes), window.edges().collect::<Vec<_>>());
        let same = told(&monitor, &format!("/api/network/0?since={before}"));
        assert_eq!(same, Value::Null);
    }
    // A version that another page is still reading.
    let (_, bytes) = get(
        &monitor,
        &format!("/api/network/0/timeline?version={}", before - 2),
    );
    let timeline = Frame::read_all(&bytes).unwrap();
    assert_eq!(timeline[0].ticks as usize, network.len() - 2);
    let status = LiveStatus {
        rows: 400,
        lost: 3,
        windows: 7,
        skipped: 2,
        ended: true,
    };
    live.status(status, network.meta().clone());
    let about = told(&monitor, &format!("/api/network/0?since={before}"));
    assert_eq!(about["live"]["rows"], 400);
    assert_eq!(about["live"]["lost"], 3);
    assert_eq!(about["live"]["skipped"], 2);
    assert_eq!(about["live"]["ended"], true);
}

#[test]
fn old_windows_go_and_the_newest_stay() {
    let network = network(Measure::Pearson, 0.1);
    let (monitor, live) = Monitor::open_live_network("long", Options::default()).unwrap();
    live.begin(network.meta().clone(), LiveNodes::default());
    let first = network.window(0).unwrap();
    for start in 0..2500 {
        live.push(&betz_network::WindowEdges { start, ..first });
    }
    let about = told(&monitor, "/api/network/0");
    assert_eq!(about["windows"], 2000);
    // Samples of 0.1 s.
    assert_eq!(about["seconds"][0], 50.0);
}

#[test]
fn pages_with_control_change_window_and_threshold() {
    let network = network(Measure::Pearson, 0.1);
    let (monitor, live) = Monitor::open_live_network("a test", controlled()).unwrap();
    live.begin(network.meta().clone(), LiveNodes::default());
    for window in each(&network) {
        live.push(&window);
    }
    let (network, mut live) = (&network, Some(live));
    std::thread::scope(|scope| {
        let program = scope.spawn({
            let live = live.take().unwrap();
            move || {
                let mut taken = Vec::new();
                until("both wishes", || {
                    if let Some(wish) = live.wish() {
                        taken.push(wish.change);
                        if taken.len() == 1 {
                            let mut meta = network.meta().clone();
                            meta.spec = meta.spec.threshold(Threshold::Density(0.5));
                            live.begin(meta, LiveNodes::default());
                            wish.answer(Ok(()));
                        } else {
                            wish.answer(Err(Error::argument("expected less, got 1e9")));
                        }
                    }
                    taken.len() == 2
                });
                (taken, live)
            }
        });
        let (status, body) = changed(&monitor, 0, "{\"density\": 0.5, \"window\": 50}");
        assert_eq!(status, "200", "{body}");
        let about: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (&about["density"], &about["changes"]),
            (&json!(0.5), &json!(true))
        );
        let (status, body) = changed(&monitor, 0, "{\"step\": 1000000000}");
        assert_eq!((&*status, &*body), ("409", "expected less, got 1e9"));
        let (taken, of_thread) = program.join().unwrap();
        live = Some(of_thread);
        let first = NetworkChange {
            window: Some(50),
            density: Some(0.5),
            ..NetworkChange::default()
        };
        assert_eq!(taken[0], first);
        assert_eq!(taken[0].kept().unwrap(), Some(Threshold::Density(0.5)));
        assert_eq!(taken[1].step, Some(1_000_000_000));
    });
    // Windows of the threshold before are gone.
    assert_eq!(told(&monitor, "/api/network/0")["windows"], 0);
    for (id, body, status, words) in [
        (0, "{\"windows\": 3}", "400", "unknown field"),
        (0, "{\"top\": -3}", "400", "expected JSON"),
        (0, "{\"top\": 3, \"density\": 0.1}", "409", "got several"),
        (7, "{\"top\": 3}", "404", "a live network, got 7"),
    ] {
        let answer = changed(&monitor, id, body);
        assert!(
            answer.0 == status && answer.1.contains(words),
            "{body}: {answer:?}"
        );
    }
    drop(live);
    let answer = changed(&monitor, 0, "{\"top\": 3}");
    assert_eq!((&*answer.0, &*answer.1), ("409", "the network has ended"));
}

#[test]
fn a_page_without_control_changes_nothing() {
    let (monitor, live) = Monitor::open_live_network("a test", Options::default()).unwrap();
    assert_eq!(changed(&monitor, 0, "{\"top\": 3}").0, "403");
    assert!(live.wish().is_none());
}

/// A store in memory.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Vec<NamedNetwork>>>);

impl NetworkStore for Shelf {
    fn list(&mut self) -> Result<Vec<KeptName>> {
        let all = self.0.lock().unwrap();
        let name = |(id, network): (usize, &NamedNetwork)| KeptName {
            id: id as i64,
            name: network.name.clone(),
        };
        Ok(all.iter().enumerate().map(name).collect())
    }

    fn load(&mut self, id: i64) -> Result<NamedNetwork> {
        Ok(self.0.lock().unwrap()[id as usize].clone())
    }

    fn keep(&mut self, network: &NamedNetwork) -> Result<i64> {
        let mut all = self.0.lock().unwrap();
        all.push(network.clone());
        Ok(all.len() as i64 - 1)
    }

    fn rename(&mut self, _: i64, _: &str) -> Result<()> {
        Ok(())
    }

    fn delete(&mut self, _: i64) -> Result<()> {
        Ok(())
    }
}

#[test]
fn what_is_kept_stays_as_it_is_while_the_network_grows() {
    let network = network(Measure::Pearson, 0.1);
    let (monitor, live) = Monitor::open_live_network("a test", controlled()).unwrap();
    let shelf = Shelf::default();
    monitor.keep_networks(Box::new(shelf.clone())).unwrap();
    let post = |what: &str, body: &str| {
        let length = body.len();
        ask(
            &monitor,
            &format!(
                "POST /api/sessions/{what} HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\nConnection: close\r\n\
                 Content-Type: application/json\r\nContent-Length: {length}\r\nCookie: betz-PORT=TOKEN\r\n\r\n{body}"
            ),
        )
    };
    let keep = || post("keep", "{\"id\": 0, \"name\": \"at noon\"}");
    let refused = keep();
    assert!(
        refused.contains("whose first one has not come yet"),
        "{refused}"
    );
    live.begin(network.meta().clone(), LiveNodes::default());
    let mut windows = each(&network);
    live.push(&windows.next().unwrap());
    live.push(&windows.next().unwrap());
    let answer = keep();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    live.push(&windows.next().unwrap());
    let list = told(&monitor, "/api/networks");
    assert_eq!(
        list["networks"],
        json!([
            {"id": 0, "name": "a test", "kept": false, "live": true},
            {"id": 1, "name": "at noon", "kept": true, "live": false},
        ])
    );
    assert_eq!(told(&monitor, "/api/network/0")["windows"], 3);
    assert_eq!(told(&monitor, "/api/network/1")["windows"], 2);
    // The one that grows stays in the list.
    let refused = post("delete", "{\"id\": 0}");
    assert!(
        refused.starts_with("HTTP/1.1 409") && refused.contains("the one that is being computed"),
        "{refused}"
    );
    assert_eq!(told(&monitor, "/api/network/0")["windows"], 3);
    let kept = &shelf.0.lock().unwrap()[0].network;
    assert_eq!(kept.window(1), network.window(1));
}
