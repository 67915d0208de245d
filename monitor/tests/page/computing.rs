//! Networks that the page computes of a recording: every measure, and what is refused.

use betz_monitor::frame::{Frame, Section};
use betz_monitor::{DecodedRecording, Monitor, Options, Source};
use betz_network::{Measure, NetworkSpec, Plan, Signal, Threshold, Window};
use betz_recording::{Dataset, Segment, Spikes};
use serde_json::Value;

use crate::gate::gated;
use crate::looking::{get, json};

const STEPS: usize = 400;

/// Channels that fire by rules of their own: the channel's spikes in a step.
fn fires(step: usize, channel: usize) -> bool {
    (step * (channel + 3) + step * step / 7) % 5 < 2
}

fn recorded() -> DecodedRecording {
    let model = gated();
    let channels = model.channel_names().len();
    let (mut ticks, mut of) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        for channel in (0..channels).filter(|c| fires(step, *c)) {
            ticks.push(step as i64);
            of.push(channel as u32);
        }
    }
    DecodedRecording {
        source: Source::of("a test", &model),
        dataset: Dataset {
            step_seconds: model.step_seconds(),
            steps: STEPS,
            channel_names: model.channel_names().to_vec(),
            spikes: Spikes::new(ticks, of),
            segments: vec![Segment {
                start: 0,
                stop: STEPS as i64,
            }],
            outputs: model.outputs().to_vec(),
            behavior: Vec::new(),
        },
        estimates: vec![0.5; 2 * STEPS],
        probabilities: vec![f32::NAN; 2 * STEPS],
        delay_steps: 0,
        times: None,
        left_out: Vec::new(),
    }
}

#[test]
fn every_measure_of_counts_is_computed() {
    let recorded = recorded();
    let (step, channels) = (recorded.dataset.step_seconds, recorded.dataset.channels());
    let monitor = Monitor::open(vec![recorded], Options::default()).unwrap();
    // Bins of two steps, windows of 40 bins every 20, shifts of up to 3 bins.
    let counts: Vec<u16> = (0..STEPS / 2)
        .flat_map(|bin| {
            (0..channels)
                .map(move |c| (2 * bin..2 * bin + 2).filter(|t| fires(*t, c)).count() as u16)
        })
        .collect();
    let signal = Signal::new(&counts, channels).unwrap();
    for (number, (measure, least)) in [
        (Measure::Pearson, 0.0),
        (Measure::Spearman, 0.0),
        (Measure::Kendall, 0.0),
        (Measure::Covariance, 0.0),
        (Measure::GaussianInformation, 0.0),
        (Measure::Lagged { lags: 3 }, 0.0),
        (Measure::Partial, 0.0),
        (Measure::Euclidean { hold: 1 }, 1e3),
        (
            Measure::Warping {
                band: 3,
                normalised: true,
            },
            1e3,
        ),
        // Segments of a quarter of the window.
        (
            Measure::Coherence {
                segment: 10,
                first: 1,
                last: 5,
                peak: false,
            },
            0.0,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let name = measure.name();
        let seconds = |bins: f64| bins * 2.0 * step;
        let path = format!(
            "/api/compute?window={}&step={}&bin={}&measure={name}&shift={}&min={least}",
            seconds(40.0),
            seconds(20.0),
            seconds(1.0),
            seconds(3.0)
        );
        let (status, bytes) = get(&monitor, &path);
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&bytes));
        let frames = Frame::read_all(&bytes).unwrap();
        let last: Value =
            serde_json::from_slice(frames.last().unwrap().section(Section::EVENT, 1)).unwrap();
        assert_eq!(last["network"], number, "{name}: {last}");
        let told = json(&monitor, &format!("/api/network/{number}"));
        let spec = NetworkSpec::new(measure, Window::new(40, 20));
        let spec = spec.threshold(Threshold::Absolute(least));
        let expected = Plan::new(&spec, &signal)
            .unwrap()
            .run(&signal, &())
            .unwrap();
        assert_eq!(told["measure"], name);
        assert!(expected.edges() > 0, "{name}");
        assert_eq!(told["edges"], expected.edges(), "{name}");
        assert_eq!(told["windows"], expected.len(), "{name}");
    }
}

#[test]
fn measures_and_shifts_that_do_not_fit_are_refused_in_words() {
    let monitor = Monitor::open(vec![recorded()], Options::default()).unwrap();
    for (more, words) in [
        ("measure=plv", "expected one of pearson, spearman"),
        ("measure=plv", "phases, places or spike times"),
        ("measure=psi", "got \"psi\""),
        ("measure=lagged&shift=-1", "expected 0 to 32767 bins"),
        ("measure=dtw&shift=NaN", "expected 0 to 32767 bins"),
        ("measure=dtw&shift=1e9", "expected 0 to 32767 bins"),
    ] {
        let (status, body) = get(
            &monitor,
            &format!("/api/compute?window=1&step=1&bin=0.1&{more}"),
        );
        let body = String::from_utf8_lossy(&body).into_owned();
        assert!(status == 400 && body.contains(words), "{more}: {body}");
    }
}
