//! Control requests: refused without `--control`; with it, carried out or refused with a reason.

use std::cell::RefCell;

use crate::common::{KNOWN, ask, bytes, decoder, get, start, until};
use betz_monitor::frame::{Frame, Section};
use betz_monitor::{Control, Decision, Monitor, Options, Simulation};
use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::Value;

fn post(monitor: &Monitor, what: &str, body: &str) -> String {
    post_to(monitor, &format!("/api/control/{what}"), body)
}

fn post_to(monitor: &Monitor, path: &str, body: &str) -> String {
    let length = body.len();
    ask(
        monitor,
        &format!(
            "POST {path} HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\nCookie: betz-PORT=TOKEN\r\n\r\n{body}"
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
    let [mine, other] = [0.05, 0.1].map(|tau| {
        let prepared = betz_runtime::stream::PreparedModel::new(&decoder(tau), None);
        prepared.unwrap().decoder_fingerprint()
    });
    let weights = |id: u64| bytes(&monitor, &format!("/api/weights/{id:016x}"));
    assert!(weights(other).is_none(), "it may not be swapped in yet");
    monitor
        .control(Control::new(session.swapper().unwrap(), models).unwrap())
        .unwrap();
    for id in [mine, other] {
        let answer = weights(id).unwrap();
        let frame = &Frame::read_all(&answer).unwrap()[0];
        let values: Vec<f32> = frame.f32(Section::VALUE).collect();
        let expected: Vec<f32> = second.weights().iter().map(|w| *w as f32).collect();
        assert_eq!((values, frame.channels), (expected, 4));
    }
    assert!(weights(0).is_none());
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
fn a_mark_lies_at_the_moment_of_its_key_and_is_named_afterwards() {
    let (monitor, mut session) = start(Options {
        control: true,
        ..Options::default()
    });
    let models = vec![("a".to_owned(), decoder(0.05))];
    let control = Control::new(session.swapper().unwrap(), models).unwrap();
    monitor.control(control).unwrap();
    let mut out = [0.0];
    for _ in 0..50 {
        session.step_spikes(&[1], &mut out).unwrap();
    }
    // The mark belongs to the last step that the page had when the key was pressed; the session is 40 steps further.
    until("50 steps are known", || {
        get(&monitor, "/api/state", KNOWN).contains("\"history\":[0,50]")
    });
    let set = post(&monitor, "mark", "{\"tick\":9}");
    assert!(
        set.starts_with("HTTP/1.1 202") && set.contains("\"mark\":0"),
        "{set}"
    );
    assert!(post(&monitor, "mark", "{\"tick\":4000000}").starts_with("HTTP/1.1 202"));
    assert!(post(&monitor, "mark", "{\"tick\":-5}").starts_with("HTTP/1.1 202"));
    let named = post(&monitor, "name-mark", "{\"mark\":0,\"text\":\"the cue\"}");
    assert!(named.starts_with("HTTP/1.1 202"), "{named}");
    let unknown = post(&monitor, "name-mark", "{\"mark\":3,\"text\":\"x\"}");
    assert!(
        unknown.starts_with("HTTP/1.1 409") && unknown.contains("one of 3 marks"),
        "{unknown}"
    );
    until("all is told", || {
        get(&monitor, "/api/events", KNOWN).contains("the cue")
    });
    let events = get(&monitor, "/api/events", KNOWN);
    let events: Value = serde_json::from_str(events.split_once("\r\n\r\n").unwrap().1).unwrap();
    let marks: Vec<(u64, i64)> = (events.as_array().unwrap().iter())
        .filter(|e| e["what"] == "mark")
        .map(|e| (e["mark"].as_u64().unwrap(), e["tick"].as_i64().unwrap()))
        .collect();
    // A mark at a future step goes to the newest step.
    assert_eq!(marks, [(0, 9), (1, 49), (2, 0)]);
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
        replaceable: false,
    });
    for (what, body, code) in [
        ("pause", "{", 400),
        ("pause", "{\"paused\":1}", 400),
        ("stimulus", "{\"population\":0}", 400),
        ("network", "[]x", 400),
        ("network", "{\"name\":\"cuba\",\"scale\":1,\"seed\":1}", 409),
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

/// Nested JSON with numbers of all sizes.
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

/// Bodies of control requests, some of them cut short.
fn body() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        Just("model"),
        Just("warm_up_steps"),
        Just("channels"),
        Just("text"),
        Just("tick"),
        Just("mark"),
        Just("paused"),
        Just("nothing"),
    ];
    let small = vec(0u64..6, 0..9).prop_map(Value::from);
    let asked = hash_map(field, prop_oneof![json(), small], 0..4);
    let asked = asked.prop_map(|m| m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect());
    let whole = prop_oneof![4 => asked, 1 => json()].prop_map(|v: Value| v.to_string());
    let hostile =
        (whole, any::<Option<prop::sample::Index>>()).prop_map(|(whole, cut)| match cut {
            Some(cut) if !whole.is_empty() => {
                let at = cut.index(whole.chars().count());
                whole.chars().take(at).collect()
            }
            _ => whole,
        });
    // Some that can be done: what is done must not fall, either.
    let sound = prop_oneof![
        Just("{}"),
        Just("{\"text\":\"a cue\"}"),
        Just("{\"channels\":[1]}")
    ];
    prop_oneof![3 => hostile, 1 => sound.prop_map(str::to_owned)]
}

/// Every request is carried out or refused with a reason, and neither the page nor the session fails.
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
        1 => Just("swap"),
        1 => Just("roll-back"),
        1 => Just("release"),
        1 => Just("mask"),
        // Most of what can be done at any time.
        4 => Just("mark"),
        1 => Just("name-mark"),
        1 => Just("expected"),
        1 => Just("pause"),
        1 => Just("stimulus"),
        1 => Just("network"),
        1 => Just("else"),
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

/// The cost of a mask is computed without touching the session, and only for clients that may control it.
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
    // Here the truth is the model's own estimate.
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
    // No mask was set: the same spikes give the same estimates.
    session.reset();
    for (step, before) in (0u32..).zip(&estimates) {
        session.step_spikes(&[step / 100 % 2, 2], &mut out).unwrap();
        assert_eq!(out[0], *before);
    }
    assert!(!get(&monitor, "/api/events", KNOWN).contains("mask"));
}

/// A program that carries out swaps itself hears what pages decide.
#[test]
fn decisions_go_to_the_program_that_takes_them() {
    let options = |control| Options {
        control,
        ..Options::default()
    };
    let (read_only, _session) = start(options(false));
    let heard = read_only.decisions().unwrap();
    assert!(post(&read_only, "accept", "{}").starts_with("HTTP/1.1 403"));
    assert!(heard.try_recv().is_err());

    let (monitor, _session) = start(options(true));
    assert!(post(&monitor, "accept", "{}").starts_with("HTTP/1.1 403"));
    let heard = monitor.decisions().unwrap();
    assert!(monitor.decisions().is_err());
    let state: Value = serde_json::from_slice(&bytes(&monitor, "/api/state").unwrap()).unwrap();
    assert_eq!(state["decides"], true);
    assert!(post(&monitor, "accept", "{}").starts_with("HTTP/1.1 202"));
    assert!(post(&monitor, "roll-back", "{}").starts_with("HTTP/1.1 202"));
    assert!(post(&monitor, "mask", "{}").starts_with("HTTP/1.1 403"));
    let all: Vec<Decision> = heard.try_iter().collect();
    assert_eq!(all, [Decision::Accept, Decision::RollBack]);
    drop(heard);
    assert!(post(&monitor, "accept", "{}").starts_with("HTTP/1.1 409"));
}
