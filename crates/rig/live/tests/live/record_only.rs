//! Sessions without a model.

use std::path::Path;
use std::time::Duration;

use betz_live::record::{Reader, Record};
use betz_live::{Live, Pace, Part, Plan, Replay, Until, check};
use betz_rigs::rig::notes::NoteContent;

use super::rigs::{self, ListRig, Small};

const PLAN: &str = "[session]\nstep = \"10ms\"\noutputs = [\"x\", \"y\", \"z\"]\n\
                    [[source]]\nname = \"rig\"\nfrom = \"simulated\"\nchannels = 24\n";

fn parse(changes: &[&str]) -> betz_base::Result<Plan> {
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    Plan::parse(PLAN, Path::new("bare.toml"), &changes)
}

fn rig(small: &Small) -> ListRig {
    ListRig {
        signal: small.simulation.signal(),
        blocks: rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 300).into_iter(),
    }
}

#[test]
fn a_session_without_a_model_records_voltage_and_labels_and_is_replayed() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let set = format!("record.to={:?}", folder.path().to_str().unwrap());
    let plan = parse(&[&set, "missing.stale_after=1h", "missing.backlog=1000000"]).unwrap();
    let model = plan.load_model().unwrap();
    let report = check(&plan, &model, &mut rig(&small), Duration::from_secs(1)).unwrap();
    assert!(report.lines[0].text.contains("it only records"), "{report}");
    assert!(
        report.lines.iter().all(|line| line.part != "outputs"),
        "{report}"
    );

    let mut live = Live::with_rig(plan, model, Box::new(rig(&small))).unwrap();
    live.set_noise(small.noise.clone());
    let until = Until {
        steps: None,
        stop: &|| false,
    };
    let mut steps = 0;
    live.run(&until, &mut |step| {
        assert_eq!(step.values, [0.0; 3]);
        steps += 1;
        Ok(())
    })
    .unwrap();
    live.label(3, &[0.5, -0.5, 1.0]);
    live.label(4, &[0.5, -0.5]);
    live.stop().unwrap();
    let report = live.report();
    assert_eq!((steps, report.input.rows), (30, 9000));
    assert_eq!((report.notes.labels, report.notes.odd_labels), (1, 1));

    let (mut rows, mut labels) = (0, Vec::new());
    let mut reader = Reader::open(live.folder().unwrap()).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        match record {
            Record::Block(_, block) => rows += block.rows,
            Record::Note { step, content, .. } => labels.push((step, content)),
            _ => {}
        }
    }
    assert_eq!(rows, 9000);
    let values = NoteContent::Label(vec![0.5, -0.5, 1.0]);
    assert_eq!(labels, [(3, values)]);
    let replay = Replay::open(live.folder().unwrap()).unwrap();
    let told = replay.run(&mut |_| Ok(())).unwrap();
    assert!(told.is_equal() && told.compared == 30, "{told:?}");
}

#[test]
fn what_needs_a_model_is_refused_without_one() {
    for (changes, words) in [
        (vec![], "session.model: expected a model, or record.to"),
        (
            vec!["record.to=a", "outputs.to=[\"udp://127.0.0.1:1\"]"],
            "outputs.to: expected no address without session.model",
        ),
        (
            vec!["record.to=a", "learn.mode=watch"],
            "learn.mode: expected \"off\" without session.model",
        ),
        (
            vec!["record.to=a", "session.step=0s"],
            "session.step: expected a time above 0",
        ),
        (
            vec!["session.model=m.betz"],
            "session.step: expected none, the model has its own",
        ),
    ] {
        let refused = parse(&changes).unwrap_err();
        assert!(refused.message().contains(words), "{refused}");
    }
    let text = PLAN.replace("channels = 24\n", "[record]\nto = \"a\"\n");
    let refused = Plan::parse(&text, Path::new("bare.toml"), &[]).unwrap_err();
    assert!(
        refused
            .message()
            .contains("source.channels: expected the number"),
        "{refused}"
    );
    // Channels that the source does not have are told by their key.
    let small = rigs::small(0.0);
    let plan = parse(&["record.to=a", "source.channels=25"]).unwrap();
    let model = plan.load_model().unwrap();
    let refused = check(&plan, &model, &mut rig(&small), Duration::from_secs(1)).unwrap_err();
    assert!(
        refused
            .message()
            .contains("source.channels: expected the 24 channels"),
        "{refused}"
    );
}
