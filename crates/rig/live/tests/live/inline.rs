//! Sources that are read in the loop, and sources of whole steps.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use betz_base::Result;
use betz_live::{Live, Pace, Part, Plan, Replay, step_rig};
use betz_rigs::bus::{Content, Counts, Estimate, Frame, Reception, Sink, Source, Stream};
use betz_runtime::model::Decoder;
use betz_runtime::stream::{Session, SessionConfig, StepStatus};

use super::rigs::{self, ListRig};

const CHANNELS: usize = 24;

/// A bus that sends a list of frames, then ends.
struct ListSource(std::vec::IntoIter<Frame>);

impl Source for ListSource {
    fn take(&mut self, frame: &mut Frame, _: Duration) -> Result<Reception> {
        Ok(match self.0.next() {
            None => Reception::Ended,
            Some(next) => {
                *frame = next;
                Reception::Step
            }
        })
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

/// An output: number, time, flags, bits of its values.
type SinkRow = (u64, i64, u32, Vec<u32>);

/// A sink that keeps what it is given.
struct ListSink(Arc<Mutex<Vec<SinkRow>>>);

impl Sink for ListSink {
    fn give(&mut self, step: &Estimate<'_>) -> Result<()> {
        let bits = step.values.iter().map(|v| v.to_bits()).collect();
        let sent = (step.sequence, step.sent_or_arrival(), step.status, bits);
        self.0.lock().unwrap().push(sent);
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts {
            steps: self.0.lock().unwrap().len() as u64,
            ..Counts::default()
        }
    }
}

/// Number `sequence` of a sender, sent at 1,000 times its number.
fn frame(sequence: u64, content: Content) -> Frame {
    Frame {
        sequence,
        sent: 1000 * sequence as i64,
        content,
        ..Frame::new(CHANNELS)
    }
}

#[test]
fn a_source_that_is_read_in_the_loop_gives_the_same_bits_as_one_on_a_thread() {
    let small = rigs::small(0.02);
    let steps = |inline: &str| {
        let rig = ListRig {
            signal: small.simulation.signal(),
            blocks: rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 1000)
                .into_iter(),
        };
        let plan = rigs::plan(&["missing.stale_after=10000h", inline]);
        let mut live = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
        live.set_noise(small.noise.clone());
        // Only the first block tells the form of its data.
        assert!(!live.prepare().unwrap());
        rigs::run(&mut live)
    };
    let made = steps("source.inline=true");
    assert!(made.len() > 40);
    assert_eq!(made, steps("source.inline=false"));
}

/// A channel that the model does not have, a lost step, and a sender that starts anew; `row` and `halves` are a step's counts and
/// features.
fn odd_frames(row: &[u16], halves: &[f32]) -> Vec<Frame> {
    vec![
        Frame {
            spikes: vec![0, 3, 3, 99],
            ..frame(7, Content::Spikes)
        },
        Frame {
            counts: row.to_vec(),
            ..frame(8, Content::Counts)
        },
        Frame {
            skipped: 1,
            ..frame(10, Content::Spikes)
        },
        Frame {
            features: halves.to_vec(),
            ..frame(11, Content::Features)
        },
        Frame {
            restart: true,
            spikes: vec![5],
            ..frame(2, Content::Spikes)
        },
    ]
}

/// Outputs of a session for [`odd_frames`]: (number and time of the sender, status, bits of the outputs).
fn outputs_of_odd_frames(model: &Decoder, row: &[u16], halves: &[f32]) -> Vec<SinkRow> {
    let mut session = Session::open(model, SessionConfig::default()).unwrap();
    let mut values = vec![0.0; 2];
    let mut expected = Vec::new();
    let mut keep = |session: &Session, values: &[f32], sequence: u64| {
        let bits: Vec<u32> = values.iter().map(|v| v.to_bits()).collect();
        let status = session.status().bits();
        expected.push((sequence, 1000 * sequence as i64, status, bits));
    };
    session.step_spikes(&[0, 3, 3, 99], &mut values).unwrap();
    keep(&session, &values, 7);
    assert!(session.status().contains(StepStatus::UNKNOWN));
    session.step_counts(row, &mut values).unwrap();
    keep(&session, &values, 8);
    session.skip(1);
    session.step_spikes(&[], &mut values).unwrap();
    keep(&session, &values, 10);
    session.step_values(halves, &mut values).unwrap();
    keep(&session, &values, 11);
    session.reset();
    session.step_spikes(&[5], &mut values).unwrap();
    keep(&session, &values, 2);
    expected
}

#[test]
fn whole_steps_are_decoded_as_by_a_session_and_keep_the_numbers_and_times_of_their_sender() {
    let small = rigs::small(0.0);
    let row: Vec<u16> = (0..CHANNELS as u16).map(|channel| channel % 3).collect();
    let halves = vec![0.5; CHANNELS];
    let frames = odd_frames(&row, &halves);
    let expected = outputs_of_odd_frames(&small.model, &row, &halves);

    let folder = tempfile::tempdir().unwrap();
    let record = format!("record.to={:?}", folder.path().to_str().unwrap());
    for echoes in [true, false] {
        let names = ["x", "y"].map(String::from);
        let stream = Stream {
            channels: CHANNELS,
            outputs: &names,
            step_seconds: rigs::STEP_SECONDS,
        };
        let rig = step_rig(Box::new(ListSource(frames.clone().into_iter())), &stream);
        let plan = rigs::plan(&[
            "source.sends=steps",
            "source.inline=true",
            "missing.stale_after=10000h",
            &record,
        ]);
        let mut live = Live::with_rig(plan, small.model.clone(), rig).unwrap();
        let sent = Arc::new(Mutex::new(Vec::new()));
        live.add_sink(Box::new(ListSink(Arc::clone(&sent))));
        if echoes {
            live.echo();
        }
        assert!(live.pipeline_mut().is_none());
        assert!(live.prepare().unwrap() && live.pipeline_mut().is_some());
        rigs::run(&mut live);
        let sent = sent.lock().unwrap().clone();
        let outputs = |all: &[SinkRow]| -> Vec<(u32, Vec<u32>)> {
            all.iter().map(|s| (s.2, s.3.clone())).collect()
        };
        assert_eq!(outputs(&sent), outputs(&expected));
        if echoes {
            assert_eq!(sent, expected);
        } else {
            let numbers: Vec<u64> = sent.iter().map(|s| s.0).collect();
            assert_eq!(numbers, [0, 1, 3, 4, 6]);
        }
        assert_eq!(live.sent().steps, 5);
        let report = live.report();
        let input = report.input;
        assert_eq!((input.steps, input.skipped, input.restarts), (5, 1, 1));
        let stats = live.pipeline_mut().unwrap().session_mut().stats();
        assert_eq!(stats.unknown_channel_spikes, 1);
        live.stop().unwrap();
        let replayed = Replay::open(live.folder().unwrap()).unwrap();
        let told = replayed.run(&mut |_| Ok(())).unwrap();
        assert!(told.is_equal() && told.compared == 5, "{told:?}");
    }
}

#[test]
fn only_a_source_that_is_alone_is_read_in_the_loop() {
    let text = "[session]\nmodel = \"none.betz\"\n[[source]]\nname = \"a\"\nfrom = \"simulated\"\ninline = true\n\
                [[source]]\nname = \"b\"\nfrom = \"udp://127.0.0.1:0\"\nchannels = 2\n";
    let refused = Plan::parse(text, Path::new("two.toml"), &[]).unwrap_err();
    assert!(
        refused
            .message()
            .contains("source.inline: expected false with several sources"),
        "{refused}"
    );
}

/// However a session ends, its last command does not stand.
#[test]
fn a_session_that_ends_puts_its_outputs_at_rest() {
    let small = rigs::small(0.0);
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 200).into_iter(),
    };
    let plan = rigs::plan(&["missing.stale_after=10000h"]);
    let mut live = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    let sent = Arc::new(Mutex::new(Vec::new()));
    live.add_sink(Box::new(ListSink(Arc::clone(&sent))));
    // A session that has sent nothing has nothing to take back.
    live.rest_outputs(&mut |_| Ok(())).unwrap();
    let steps = rigs::run(&mut live);
    assert_eq!(sent.lock().unwrap().len(), steps.len());
    live.stop().unwrap();
    live.stop().unwrap();
    let sent = sent.lock().unwrap();
    assert_eq!(sent.len(), steps.len() + 1);
    let (number, _, flags, values) = &sent[steps.len()];
    let flags = StepStatus::from_bits(*flags);
    assert!(flags.contains(StepStatus::AT_REST | StepStatus::HELD | StepStatus::STALE));
    assert_eq!(
        (*number, values.as_slice()),
        (steps.len() as u64, &[0, 0][..])
    );
    assert_ne!(sent[steps.len() - 1].3, [0, 0]);
}
