//! Networks with attention against plain f64 loops, and files that are refused.
#![cfg(feature = "tract")]

use betz_base::progress::StopAfter;
use betz_base::{ErrorKind, Result};
use betz_graph::{Network, Options};
use betz_recording::{Dataset, Segment, Spikes};
use draft::Attribute::{Float, Int, Ints};
use draft::Draft;

#[allow(dead_code, reason = "the builder of another package's tests")]
#[path = "../../formats/src/import/tests/draft.rs"]
mod draft;
mod encoder;

use encoder::{CHANNELS, Encoder, STEPS};

type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

/// Counts of 60 steps with a gap between two segments.
fn recording() -> Result<Dataset> {
    let counts: Vec<u16> = (0..60 * CHANNELS)
        .map(|i| ((i * 2_654_435_761) >> 7) as u16 % 4)
        .collect();
    Ok(Dataset {
        step_seconds: 0.02,
        steps: 60,
        channel_names: (0..CHANNELS).map(|c| format!("unit {c}")).collect(),
        spikes: Spikes::from_counts(&counts, CHANNELS)?,
        segments: vec![
            Segment { start: 2, stop: 25 },
            Segment {
                start: 31,
                stop: 60,
            },
        ],
        outputs: Vec::new(),
        behavior: Vec::new(),
    })
}

/// The counts of the `STEPS` steps up to each step inside a segment, with zeros before it.
fn windows(data: &Dataset) -> Vec<(i64, Vec<f64>)> {
    let count = |step: i64, channel: usize| -> f64 {
        let spikes = data.spikes.range(step, step + 1);
        let own = spikes.filter(|&i| data.spikes.channels[i] as usize == channel);
        own.map(|i| f64::from(data.spikes.weight(i))).sum()
    };
    let mut windows = Vec::new();
    for segment in &data.segments {
        for step in segment.start..segment.stop {
            let mut window = Vec::new();
            for at in step + 1 - STEPS as i64..=step {
                let inside = at >= segment.start;
                window.extend((0..CHANNELS).map(|c| if inside { count(at, c) } else { 0.0 }));
            }
            windows.push((step, window));
        }
    }
    windows
}

fn read(file: &[u8], window: Option<usize>) -> Result<Network> {
    let fail = |e: std::io::Error| betz_base::Error::io("write", "net.onnx".as_ref(), &e);
    let folder = tempfile::tempdir().map_err(fail)?;
    let path = folder.path().join("net.onnx");
    std::fs::write(&path, file).map_err(fail)?;
    Network::read(&path, CHANNELS, Options { window })
}

fn refusal(file: &[u8], window: Option<usize>) -> String {
    match read(file, window) {
        Ok(network) => format!("not refused: {network:?}"),
        Err(e) => e.message().to_owned(),
    }
}

/// Largest difference between `estimates` and those of `expected` for each window, which is NaN where there is none.
fn check(data: &Dataset, estimates: &[f32], expected: impl Fn(&[f64]) -> Vec<f64>) {
    let mut inside = vec![false; data.steps];
    for (step, window) in windows(data) {
        inside[step as usize] = true;
        for (o, value) in expected(&window).into_iter().enumerate() {
            let estimate = f64::from(estimates[step as usize * 2 + o]);
            assert!(
                (estimate - value).abs() < 1e-5,
                "step {step}, output {o}: expected {value}, got {estimate}"
            );
        }
    }
    for (step, _) in inside.iter().enumerate().filter(|(_, inside)| !**inside) {
        assert!(estimates[step * 2].is_nan(), "step {step}");
    }
}

#[test]
fn an_encoder_with_attention_equals_plain_loops() -> TestResult {
    let (encoder, data) = (Encoder::new(), recording()?);
    let network = read(&encoder.draft(&[1, STEPS, CHANNELS]).file("y"), None)?;
    assert_eq!((network.window(), network.states()), (STEPS, 0));
    assert_eq!((network.channels(), network.outputs()), (CHANNELS, 2));
    let estimates = network.decode(&data, &())?;
    check(&data, &estimates, |window| encoder.last(window));
    // An axis of any length takes the window that is asked for.
    let free = encoder.draft(&[0, 0, CHANNELS]).file("y");
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(
        bits(&estimates),
        bits(&read(&free, Some(STEPS))?.decode(&data, &())?)
    );
    assert!(refusal(&free, None).contains("--window"));
    Ok(())
}

/// Attention of the newest step over the last `STEPS`, whose keys and values are states.
fn cached(encoder: &Encoder, kept: usize) -> Draft {
    let width = encoder.width();
    encoder
        .weights(Draft::default().floats_input("x", &[1, CHANNELS]))
        .floats_input("past_keys", &[kept, width])
        .floats_input("past_values", &[kept, width])
        .integers("first", &[1], &[1])
        .integers("end", &[1], &[1000])
        .integers("rows", &[1], &[0])
        .node("MatMul", "x query", "q", &[])
        .node("MatMul", "x key", "k", &[])
        .node("MatMul", "x value", "v", &[])
        .node("Concat", "past_keys k", "keys", &[("axis", Int(0))])
        .node("Concat", "past_values v", "values", &[("axis", Int(0))])
        .node("Transpose", "keys", "keys_t", &[("perm", Ints(&[1, 0]))])
        .node("MatMul", "q keys_t", "scores", &[])
        .node("Softmax", "scores", "shares", &[("axis", Int(-1))])
        .node("MatMul", "shares values", "mixed", &[])
        .node(
            "Gemm",
            "mixed head head_bias",
            "y",
            &[("alpha", Float(1.0))],
        )
        .node("Slice", "keys first end rows", "present_keys", &[])
        .node("Slice", "values first end rows", "present_values", &[])
}

#[test]
fn states_are_carried_from_step_to_step_and_begin_at_zero() -> TestResult {
    let (encoder, data) = (Encoder::new(), recording()?);
    let file = cached(&encoder, STEPS - 1)
        .output("present_keys")
        .output("y")
        .output("weights")
        .node("Identity", "shares", "weights", &[])
        .file("present_values");
    let network = read(&file, None)?;
    assert_eq!((network.window(), network.states()), (1, 2));
    assert_eq!(network.unused_outputs(), ["weights"]);
    let estimates = network.decode(&data, &())?;
    check(&data, &estimates, |window| encoder.attended(window));
    Ok(())
}

#[test]
fn networks_that_do_not_fit_are_refused_by_name() {
    let encoder = Encoder::new();
    let attention = || encoder.draft(&[1, STEPS, CHANNELS]);
    let unknown = attention().node("FancyAttention", "y", "z", &[]).file("z");
    let message = refusal(&unknown, None);
    assert!(message.contains("FancyAttention"), "{message}");

    let message = refusal(&encoder.draft(&[1, STEPS, CHANNELS + 1]).file("y"), None);
    assert!(message.contains("5 channels"), "{message}");
    assert!(message.contains("got [1, 6, 6]"), "{message}");

    let message = refusal(&attention().file("y"), Some(9));
    assert!(message.contains("window of 9 steps, got 6"), "{message}");

    let masked = attention().floats_input("mask", &[1]).file("y");
    let message = refusal(&masked, None);
    assert!(message.contains("\"mask\""), "{message}");
    assert!(message.contains("\"mask_out\""), "{message}");

    // Keys that grow by one per step.
    let growing = cached(&encoder, 3)
        .node("Identity", "keys", "new_past_keys", &[])
        .output("y")
        .output("new_past_keys")
        .file("present_values");
    let message = refusal(&growing, None);
    assert!(message.contains("state \"past_keys\""), "{message}");
    assert!(message.contains("[3, 8]"), "{message}");
    assert!(message.contains("[4, 8]"), "{message}");

    let whole = attention().file("y");
    for length in (0..whole.len()).step_by(97) {
        let message = refusal(&whole[..length], None);
        assert!(message.contains("net.onnx"), "{length}: {message}");
    }
}

#[test]
fn other_recordings_bad_estimates_and_requests_to_stop_end_the_work() -> TestResult {
    let mut data = recording()?;
    let network = read(&Encoder::new().draft(&[1, STEPS, CHANNELS]).file("y"), None)?;
    let stopped = network
        .decode(&data, &StopAfter::new(0))
        .map_err(|e| e.kind());
    assert_eq!(stopped, Err(ErrorKind::Interrupted));
    let divided = Draft::default()
        .floats_input("x", &[1, CHANNELS])
        .node("Div", "x x", "y", &[])
        .file("y");
    let message = read(&divided, None)?
        .decode(&data, &())
        .map_err(|e| e.to_string());
    assert!(message.is_err_and(|m| m.contains("finite")));
    data.channel_names.pop();
    let message = network.decode(&data, &()).map_err(|e| e.to_string());
    assert!(message.is_err_and(|m| m.contains("expected 5 channels, got 4")));
    Ok(())
}
