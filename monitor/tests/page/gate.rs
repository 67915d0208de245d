//! A model with a gate: the frames have the probabilities of its classes and the factor of its velocities.

use std::path::Path;

use crate::common::{bytes, until};
use assert_no_alloc::assert_no_alloc;
use betz_monitor::frame::{Frame, Section};
use betz_monitor::{DecodedRecording, Monitor, Options, Source};
use betz_recording::{Dataset, Segment, Spikes};
use betz_runtime::model::Decoder;
use betz_runtime::stream::{Session, SessionConfig};
use serde_json::{Value, json};

/// Two outputs, of which the second is gated by 0.02 + 1.2·p(go).
pub(crate) fn gated() -> Decoder {
    let fixtures = "../crates/decode/runtime/tests/fixtures/gated.betz";
    Decoder::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join(fixtures)).unwrap()
}

fn factor(p: f32) -> f32 {
    (0.02 + 1.2 * f64::from(p)) as f32
}

fn gate_of(monitor: &Monitor, steps: usize) -> Vec<f32> {
    let answer = bytes(monitor, &format!("/api/spikes?from=0&to={steps}")).unwrap_or_default();
    let frames = Frame::read_all(&answer).unwrap();
    (frames.iter())
        .flat_map(|f| f.f32(Section::GATE).collect::<Vec<_>>())
        .collect()
}

fn card(monitor: &Monitor) -> Value {
    let state: Value = serde_json::from_slice(&bytes(monitor, "/api/state").unwrap()).unwrap();
    state["model"].clone()
}

#[test]
fn the_gate_of_a_session_is_shown_step_by_step() {
    let model = gated();
    let mut session = Session::open(&model, SessionConfig::default()).unwrap();
    let source = Source::of("a test", &model);
    let (monitor, feed) = Monitor::start(source, Options::default()).unwrap();
    monitor.watch(session.health());
    session.attach(Box::new(feed), 0).unwrap();
    let (mut out, mut p, mut expected) = ([0.0; 2], [0.0; 2], Vec::new());
    for step in 0..300 {
        let spikes: &[u32] = if step % 70 < 10 { &[0, 1, 1] } else { &[] };
        assert_no_alloc(|| session.step_spikes(spikes, &mut out)).unwrap();
        session.classes(&mut p).unwrap();
        expected.extend([p[0], p[1], factor(p[1])]);
    }
    until("every step is kept", || gate_of(&monitor, 300).len() == 900);
    assert_eq!(gate_of(&monitor, 300), expected);
    let card = card(&monitor);
    assert_eq!(card["classes"]["names"], json!(["rest", "go"]));
    let name = &model.outputs()[1].name;
    assert_eq!(
        card["gate"],
        json!({"class": 1, "closed": 0.02, "slope": 1.2, "outputs": [name]})
    );
}

#[test]
fn the_gate_of_a_recording_is_shown_and_one_of_another_length_is_refused() {
    let model = gated();
    let steps = 40;
    let probabilities: Vec<f32> = (0..steps)
        .flat_map(|t| match t {
            0..10 => [f32::NAN; 2],
            _ => [1.0 - t as f32 / 64.0, t as f32 / 64.0],
        })
        .collect();
    let recorded = DecodedRecording {
        source: Source::of("a test", &model),
        dataset: Dataset {
            step_seconds: model.step_seconds(),
            steps,
            channel_names: model.channel_names().to_vec(),
            spikes: Spikes::new(vec![3], vec![0]),
            segments: vec![Segment {
                start: 10,
                stop: steps as i64,
            }],
            outputs: model.outputs().to_vec(),
            behavior: Vec::new(),
        },
        estimates: vec![0.5; 2 * steps],
        probabilities: probabilities.clone(),
        delay_steps: 0,
        times: None,
        left_out: Vec::new(),
    };
    let short = DecodedRecording {
        probabilities: probabilities[2..].to_vec(),
        ..recorded.clone()
    };
    let refused = Monitor::open(vec![short], Options::default()).unwrap_err();
    assert!(
        refused
            .message()
            .contains("expected 40 steps of 2 classes, got 78 probabilities"),
        "{refused}"
    );
    let monitor = Monitor::open(vec![recorded], Options::default()).unwrap();
    let shown = gate_of(&monitor, steps);
    assert_eq!(shown.len(), 3 * steps);
    for (row, p) in shown.chunks_exact(3).zip(probabilities.chunks_exact(2)) {
        let expected = [p[0], p[1], factor(p[1])];
        let same = row
            .iter()
            .zip(expected)
            .all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()));
        assert!(same, "{row:?} and {expected:?}");
    }
}
