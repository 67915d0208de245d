//! Sessions on a thread of their own, of rows that the program pushes.

use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use betz_base::ErrorKind;
use betz_live::record::{Reader, Record};
use betz_live::{
    BackgroundSession, FrontEnd, Pace, Part, Phase, Plan, Reading, Replay, Rows, Trial, push_source,
};
use betz_rigs::rig::notes::NoteContent;
use betz_rigs::rig::{Block, Samples};

use super::rigs;

const LONG: Duration = Duration::from_secs(3600);

/// A plan whose source is pushed, and that makes no step without data by the clock: this machine may be busy.
fn plan(changes: &[&str]) -> Plan {
    let mut all = vec![
        "source.from=push",
        "source.channels=24",
        "source.rate=30000",
        "source.microvolts=0.25",
        "missing.stale_after=1h",
        "voltage.noise.calibrate=100ms",
    ];
    all.extend(changes);
    rigs::plan(&all)
}

fn open(small: &rigs::Small, plan: Plan) -> BackgroundSession {
    let (pusher, rig) = push_source(&plan, &small.model).unwrap();
    BackgroundSession::with_rig(plan, small.model.clone(), Box::new(rig), Some(pusher)).unwrap()
}

fn push(session: &BackgroundSession, blocks: &[Block]) {
    for block in blocks {
        let Samples::Voltage(voltage) = &block.samples else {
            panic!("a simulated rig sends voltage");
        };
        let first = Some(block.first);
        let pusher = session.pusher().unwrap();
        assert!(pusher.push(first, Rows::Voltage(voltage), LONG).unwrap());
    }
}

fn read_all(session: &BackgroundSession) -> Vec<(u64, u32, Vec<u32>)> {
    let mut reader = session.reader();
    let mut out = reader.output();
    let mut steps = Vec::new();
    while reader.next(&mut out, LONG) == Reading::Step {
        let bits = out.values.iter().map(|v| v.to_bits()).collect();
        steps.push((out.number, out.status.bits(), bits));
    }
    assert_eq!(reader.missed(), 0);
    steps
}

#[test]
fn pushed_rows_are_decoded_recorded_and_replayed() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let session = open(&small, recording(folder.path()));
    assert_eq!(session.health().unwrap().phase, Phase::Open);
    assert_eq!(session.outputs(), ["x", "y"]);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&heard);
    session.on_step(Box::new(move |step| {
        to.lock().unwrap().push((step.number, step.values.to_vec()))
    }));
    session.start().unwrap();
    session.start().unwrap();
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 1000);
    // Ten blocks are left out on the way.
    push(&session, &blocks[..500]);
    // The loop has begun, so that the notes have a recording to go to.
    let mut reader = session.reader();
    assert_eq!(reader.next(&mut reader.output(), LONG), Reading::Step);
    session.trial(Trial::Begin).unwrap();
    session.mark("reward").unwrap();
    session.label(Some(3), &[0.5, -0.5]).unwrap();
    session.trial(Trial::End).unwrap();
    assert_eq!(session.health().unwrap().report.notes.labels, 1);
    // The replay swaps at the same step.
    session.swap(&small.model).unwrap();
    push(&session, &blocks[510..]);
    session.pusher().unwrap().end();

    let steps = read_all(&session);
    assert_eq!(heard.lock().unwrap().len(), steps.len());
    let ended = session.stop().unwrap();
    assert_eq!(session.stop().unwrap(), ended);
    assert_eq!(session.health().unwrap(), ended);
    assert_eq!(ended.phase, Phase::Ended);
    let counts = ended.report.input;
    assert_eq!((counts.rows, counts.lost), (29_700, 300));
    assert_eq!(counts.steps, steps.len() as u64);
    assert!(
        ended.crossed[0].starts_with("limits.lost"),
        "{:?}",
        ended.crossed
    );

    let mut newest = session.reader().output();
    assert!(session.newest(&mut newest));
    assert_eq!(Some(newest.number), steps.last().map(|s| s.0));
    let mut replayed = Vec::new();
    let folder = ended.folder.unwrap();
    let told = Replay::open(&folder)
        .unwrap()
        .run(&mut |step| {
            let bits = step.values.iter().map(|v| v.to_bits()).collect();
            replayed.push((step.number, step.status.bits(), bits));
            Ok(())
        })
        .unwrap();
    assert!(told.is_equal(), "{told:?}");
    assert_eq!(replayed, steps);

    let mut notes = Vec::new();
    let mut reader = Reader::open(&folder).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        if let Record::Note { content, .. } = record {
            notes.push(content);
        }
    }
    assert_eq!(
        notes,
        [
            NoteContent::TrialBegin,
            NoteContent::Mark("reward".into()),
            NoteContent::Label(vec![0.5, -0.5]),
            NoteContent::TrialEnd,
        ]
    );
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let small = rigs::small(0.0);
    let session = open(&small, plan(&[]));
    session.start().unwrap();
    let pusher = session.pusher().unwrap();
    let kind = |rows: Rows<'_>| pusher.push(None, rows, LONG).unwrap_err().kind();
    assert_eq!(kind(Rows::Features(&[0.0; 24])), ErrorKind::Mismatch);
    assert_eq!(kind(Rows::Voltage(&[0; 25])), ErrorKind::Mismatch);
    assert_eq!(kind(Rows::Voltage(&[])), ErrorKind::Mismatch);
    assert!(
        pusher
            .push(Some(100), Rows::Voltage(&[0; 48]), LONG)
            .unwrap()
    );
    let again = pusher
        .push(Some(101), Rows::Voltage(&[0; 24]), LONG)
        .unwrap_err();
    assert!(
        again.message().contains("102 or later"),
        "{}",
        again.message()
    );
    let refused = session.label(None, &[1.0]).unwrap_err();
    assert!(
        refused.message().contains("expected 2 values"),
        "{}",
        refused.message()
    );
    assert!(session.label(None, &[1.0, f32::NAN]).is_err());
    let ended = session.stop().unwrap();
    assert_eq!((ended.report.input.lost, ended.report.notes.labels), (0, 0));
    for error in [
        session.start().unwrap_err(),
        session.mark("late").unwrap_err(),
        pusher
            .push(None, Rows::Voltage(&[0; 24]), LONG)
            .unwrap_err(),
    ] {
        assert!(error.message().contains("ended"), "{}", error.message());
    }
    // A source without a way in, and a plan that lacks its channels.
    let other = rigs::plan(&["source.from=simulated"]);
    let rig = small.simulation.rig(Part::Run, Pace::Fastest);
    let other = BackgroundSession::with_rig(other, small.model.clone(), Box::new(rig), None);
    assert!(other.unwrap().pusher().is_err());
    let lacking = rigs::plan(&["source.from=push"]);
    let refused = push_source(&lacking, &small.model).err().unwrap();
    assert!(
        refused.message().contains("source.channels"),
        "{}",
        refused.message()
    );
}

/// A plan that records in `to`.
fn recording(to: &Path) -> Plan {
    plan(&[&format!("record.to={:?}", to.to_str().unwrap())])
}

#[test]
fn a_model_is_prepared_and_stored_by_whoever_swaps_it_and_not_by_the_loop() {
    let small = rigs::small(0.0);
    let other = rigs::small_of(0.0, None, -1.0).model;
    let to = tempfile::tempdir().unwrap();
    let session = open(&small, recording(to.path()));
    let refused = session.swap(&other).unwrap_err();
    assert!(refused.message().contains("heard nothing"), "{refused}");
    // The loop stands still in its first step until it is released.
    let (heard, hear) = channel();
    let (release, released) = channel::<()>();
    session.on_step(Box::new(move |step| {
        // Once released it goes on: nobody listens any more.
        let _ = heard.send(step.number);
        let _ = released.recv();
    }));
    session.start().unwrap();
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 200);
    push(&session, &blocks[..100]);
    hear.recv().unwrap();
    let run = std::fs::read_dir(to.path()).unwrap().next().unwrap();
    let models = run.unwrap().path().join("models");
    std::fs::write(&models, "no folder").unwrap();
    let refused = session.swap(&other).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Io);
    assert!(refused.message().contains("models"), "{refused}");
    // There is room again, and the session has gone on.
    std::fs::remove_file(&models).unwrap();
    drop(release);
    session.swap(&other).unwrap();
    push(&session, &blocks[100..]);
    session.pusher().unwrap().end();
    assert_eq!(read_all(&session).len(), 10);
    let ended = session.stop().unwrap();
    assert_eq!(ended.report.swapped, 1);
    assert_eq!(std::fs::read_dir(&models).unwrap().count(), 1);
    let replay = Replay::open(&ended.folder.unwrap()).unwrap();
    assert!(replay.run(&mut |_| Ok(())).unwrap().is_equal());
    assert!(
        session
            .swap(&other)
            .unwrap_err()
            .message()
            .contains("ended")
    );
}

#[test]
fn a_session_that_fails_tells_its_error_to_everybody() {
    let mut small = rigs::small(0.0);
    small.model = FrontEnd::Source.attach(small.model).unwrap();
    let session = open(&small, plan(&[]));
    session.start().unwrap();
    let pusher = session.pusher().unwrap();
    assert!(pusher.push(None, Rows::Voltage(&[0; 720]), LONG).unwrap());
    let mut reader = session.reader();
    assert_eq!(reader.next(&mut reader.output(), LONG), Reading::Over);
    let error = session.stop().unwrap_err();
    assert!(
        error
            .message()
            .contains("source.from: expected features or spikes of the source")
    );
    assert_eq!(session.stop().unwrap_err(), error);
    assert!(session.is_over() && session.mark("x").is_err());
    assert_eq!(session.health().unwrap().phase, Phase::Ended);
}

#[test]
fn the_sessions_own_thread_may_mark_and_is_refused_what_would_wait_for_itself() {
    let small = rigs::small(0.0);
    let session = Arc::new(open(&small, plan(&[])));
    let refused = Arc::new(OnceLock::new());
    let (weak, to) = (Arc::downgrade(&session), Arc::clone(&refused));
    session.on_step(Box::new(move |_| {
        if let Some(session) = weak.upgrade() {
            session.mark("heard").unwrap();
            to.get_or_init(|| session.health().unwrap_err());
        }
    }));
    session.start().unwrap();
    push(
        &session,
        &rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 100),
    );
    session.pusher().unwrap().end();
    assert_eq!(read_all(&session).len(), 5);
    let ended = session.stop().unwrap();
    assert!(refused.get().unwrap().message().contains("own"));
    assert!(
        (4..=5).contains(&ended.report.notes.marks),
        "{:?}",
        ended.report.notes
    );
}

#[test]
fn a_reader_that_is_behind_misses_the_oldest_and_counts_them() {
    let mut small = rigs::small(0.0);
    let channels = small.model.channels();
    // Its features are pushed, not made of voltage.
    small.model = FrontEnd::Source.attach(small.model).unwrap();
    let session = open(&small, plan(&["source.sends=steps"]));
    session.start().unwrap();
    for _ in 0..5000 {
        let row = vec![1.0; channels];
        let pusher = session.pusher().unwrap();
        assert!(pusher.push(None, Rows::Features(&row), LONG).unwrap());
    }
    session.pusher().unwrap().end();
    let all = session.reader();
    let mut early = session.reader();
    let mut out = all.output();
    // The end has come once a reader of everything sees it.
    let mut last = session.reader();
    while last.next(&mut out, LONG) != Reading::Over {}
    let mut read = 0;
    while early.next(&mut out, LONG) == Reading::Step {
        assert_eq!(out.number, 5000 - 4096 + read);
        read += 1;
    }
    assert_eq!((read, early.missed()), (4096, 5000 - 4096));
}

#[test]
fn a_table_is_a_plan_whose_errors_name_the_key_and_no_line() {
    let mut table: toml::Table = toml::from_str(
        "[session]\nmodel = \"m.betz\"\n[[source]]\nname = \"a\"\nfrom = \"push\"\nchannels = 3\n",
    )
    .unwrap();
    let plan = Plan::from_table(&table, &[], Path::new("lab")).unwrap();
    assert_eq!(plan.model_path().unwrap(), Path::new("lab/m.betz"));
    let voltage: toml::Table = toml::from_str("threshold = 4.5").unwrap();
    table.insert("voltage".into(), voltage.into());
    let refused = Plan::from_table(&table, &[], Path::new("")).unwrap_err();
    assert_eq!(
        refused.message(),
        "plan, voltage.threshold: expected a multiple of the noise from -100 to below 0, got 4.5"
    );
    let odd: toml::Table = toml::from_str("treshold = -4.5").unwrap();
    table.insert("voltage".into(), odd.into());
    let refused = Plan::from_table(&table, &[], Path::new("")).unwrap_err();
    assert!(
        refused
            .message()
            .starts_with("plan, voltage.treshold: unknown field")
            && refused.message().contains("did you mean `threshold`?"),
        "{}",
        refused.message()
    );
}

#[test]
fn models_are_taken_back_and_proposed_ones_accepted_from_another_thread() {
    let small = rigs::small_of(0.0, Some(64 << 20), 1.0);
    let other = rigs::small_of(0.0, None, -1.0).model;
    let plan = plan(&["learn.mode=propose", "missing.stale_after=1h"]);
    let session = open(&small, plan);
    assert!(session.roll_back().is_err(), "nothing was heard yet");
    session.start().unwrap();
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 200);
    push(&session, &blocks[..100]);
    while session.health().unwrap().report.input.steps < 4 {
        std::thread::yield_now();
    }
    let refused = session.roll_back().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    session.swap(&other).unwrap();
    session.roll_back().unwrap();
    assert!(!session.accept().unwrap(), "no trial was learned from");
    push(&session, &blocks[100..]);
    session.pusher().unwrap().end();
    assert_eq!(read_all(&session).len(), 10);
    let report = session.stop().unwrap().report;
    assert_eq!((report.swapped, report.rolled_back), (1, 1));
    assert!(session.accept().is_err() && session.roll_back().is_err());
}
