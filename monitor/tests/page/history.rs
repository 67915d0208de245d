//! The session's history as programs and pages read it, and its file.

use crate::common::{bytes, start, until};
use betz_monitor::{ArrivalToOutput, Monitor, Options, SessionStatus};
use betz_runtime::stream::Session;
use serde_json::Value;

fn history(monitor: &Monitor) -> Value {
    serde_json::from_slice(&bytes(monitor, "/api/history").unwrap()).unwrap()
}

fn slots(monitor: &Monitor) -> Vec<Value> {
    history(monitor)["slots"].as_array().unwrap().clone()
}

/// Steps of 1 ms with a spike each.
fn run(session: &mut Session, monitor: &Monitor, steps: u64) {
    for done in 0..steps {
        session.step_spikes(&[1], &mut [0.0]).unwrap();
        // The ring holds a second or two.
        if done % 500 == 499 {
            std::thread::sleep(std::time::Duration::from_millis(40));
        }
    }
    let all = session.tick();
    until("the seconds are there", || {
        let known = slots(monitor);
        known
            .last()
            .is_some_and(|s| s["at"].as_i64().unwrap() + 1 >= all / 1_000)
    });
}

#[test]
fn seconds_are_told_with_their_verdict_and_the_time_from_arrival_to_output() {
    let (monitor, mut session) = start(Options::default());
    run(&mut session, &monitor, 2_500);
    let lately = ArrivalToOutput {
        p50_us: 180.0,
        p99_us: 240.0,
        max_us: 1_234.5,
    };
    monitor.status(&SessionStatus {
        arrival_lately: Some(lately),
        ..SessionStatus::default()
    });
    run(&mut session, &monitor, 1_000);
    let told = history(&monitor);
    let all = told["slots"].as_array().unwrap();
    assert_eq!(all.len(), 3, "{told}");
    for (second, slot) in all.iter().enumerate() {
        assert_eq!(
            (
                &slot["at"],
                &slot["seconds"],
                &slot["steps"],
                &slot["spikes"]
            ),
            (&second.into(), &1.into(), &1_000.into(), &1_000.into())
        );
    }
    assert!(all[1]["arrival"].is_null());
    assert_eq!(all[2]["arrival"]["max_us"], 1_234.5);
    // Neither rates nor a score of training, and less than a minute.
    assert_eq!(
        (&told["verdict"]["level"], &told["verdict"]["words"]),
        (&"unknown".into(), &"No verdict yet".into())
    );
    assert_eq!(told["past"], serde_json::json!([]));
}

#[test]
fn a_session_that_goes_on_has_the_history_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.json");
    let (monitor, mut session) = start(Options::default());
    monitor.keep_history(&file).unwrap();
    assert!(
        monitor
            .keep_history(&file)
            .unwrap_err()
            .message()
            .contains("got a second one")
    );
    run(&mut session, &monitor, 3_200);
    let first = slots(&monitor);
    assert_eq!(first.len(), 3);
    // Its end writes what there is.
    monitor.stop();
    let (monitor, _session) = start(Options::default());
    monitor.keep_history(&file).unwrap();
    assert_eq!(slots(&monitor), first);
    drop(monitor);
    std::fs::write(&file, "{}").unwrap();
    let (monitor, _session) = start(Options::default());
    let refused = monitor.keep_history(&file).unwrap_err();
    assert!(
        refused.message().contains("expected version 1"),
        "{refused}"
    );
}
