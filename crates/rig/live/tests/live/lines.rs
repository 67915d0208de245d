//! Digital lines of a source: recorded by the row, and trials and marks by the plan.

use std::path::Path;
use std::time::Duration;

use betz_base::Result;
use betz_live::record::{Reader, Record};
use betz_live::{Live, NoteContent, Pace, Part, Plan, Replay};
use betz_rigs::rig::{Arrival, Block, LineEdge, Rig, RigCounts, Signal};

use super::rigs::{self, ALWAYS, ListRig};
use super::sources::{Device, FIRST, RATE, SECOND, recorded_in, rigs_of, voltage};

/// A session that only records, in steps of 300 rows.
const PLAN: &str = "[session]\nstep = \"10ms\"\noutputs = [\"x\", \"y\"]\n\
                    [[source]]\nname = \"rig\"\nfrom = \"openephys://127.0.0.1:5556?channels=24\"\nchannels = 24\n\
                    lines = { 1 = \"trial\", 2 = \"reward\" }\n";

fn parse(text: &str, changes: &[&str]) -> Result<Plan> {
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    Plan::parse(text, Path::new("lines.toml"), &changes)
}

/// A rig whose lines change while it sends blocks: a change comes with the block that holds its row.
struct LineRig {
    rig: Box<dyn Rig>,
    edges: Vec<LineEdge>,
    /// Epoch of the newest block, and its end.
    at: (u32, u64),
}

impl Rig for LineRig {
    fn signal(&self) -> Option<Signal> {
        self.rig.signal()
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let arrival = self.rig.take(block, patience)?;
        self.at = (block.epoch, block.first + block.rows as u64);
        Ok(arrival)
    }

    fn take_edges(&mut self, edges: &mut Vec<LineEdge>) {
        let has_come = |edge: &LineEdge| (edge.epoch, edge.row) < self.at;
        let count = self.edges.iter().take_while(|edge| has_come(edge)).count();
        edges.extend(self.edges.drain(..count));
    }

    fn counts(&self) -> RigCounts {
        self.rig.counts()
    }
}

#[test]
fn changes_of_lines_are_recorded_and_make_trials_and_marks() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let mut blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 300);
    // The device starts again after 6,000 rows.
    for block in &mut blocks[200..] {
        block.epoch = 1;
        block.first -= 6000;
    }
    let edge = |epoch, row, line, is_up| LineEdge {
        epoch,
        row,
        line,
        is_up,
    };
    let edges = vec![
        edge(0, 450, 1, true),
        edge(0, 1650, 2, true),
        edge(0, 1680, 2, false),
        edge(0, 2999, 1, false),
        edge(0, 3000, 2, true),
        edge(0, 3001, 3, true),
        edge(1, 0, 2, false),
        edge(1, 299, 2, true),
        edge(1, 1500, 1, true),
    ];
    let rig = LineRig {
        rig: Box::new(ListRig {
            signal: small.simulation.signal(),
            blocks: blocks.into_iter(),
        }),
        edges: edges.clone(),
        at: (0, 0),
    };
    let set = format!("record.to={:?}", folder.path().to_str().unwrap());
    let more = ["missing.stale_after=1h", "missing.backlog=1000000", &set];
    let plan = parse(PLAN, &more).unwrap();
    let model = plan.load_model().unwrap();
    let mut live = Live::with_rig(plan, model, Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    live.run(&ALWAYS, &mut |_| Ok(())).unwrap();
    live.stop().unwrap();
    let counts = live.report().notes;
    assert_eq!((counts.marks, counts.trials), (3, 3));
    assert_eq!(
        (live.sources()[0].edges, live.sources()[0].edges_lost),
        (9, 0)
    );

    let (mut notes, mut recorded) = (Vec::new(), Vec::new());
    let mut reader = Reader::open(live.folder().unwrap()).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        match record {
            Record::Note { step, content } => notes.push((step, content)),
            Record::Edge(0, edge) => recorded.push(edge),
            _ => {}
        }
    }
    assert_eq!(recorded, edges);
    let reward = || NoteContent::Mark("reward".into());
    // The second epoch's steps go on behind the 20 of the first.
    let begun = notes[4].0;
    let expected = [
        (1, NoteContent::TrialBegin),
        (5, reward()),
        (9, NoteContent::TrialEnd),
        (10, reward()),
        (begun, reward()),
        (begun + 5, NoteContent::TrialBegin),
    ];
    assert_eq!(notes, expected);
    assert!((20..=22).contains(&begun), "{begun}");
    let replay = Replay::open(live.folder().unwrap()).unwrap();
    assert!(replay.run(&mut |_| Ok(())).unwrap().is_equal());
}

/// A probe that decodes, and a NI device that is there for its lines alone.
const TWO: &str = "[session]\nmodel = \"none.betz\"\n[[source]]\nname = \"probe\"\nfrom = \"simulated\"\n\
                   [[source]]\nname = \"ni\"\nfrom = \"spikeglx://127.0.0.1:4142?js=0&sync=1\"\ngives = \"lines\"\n\
                   lines = { 17 = \"trial\", 2 = \"reward\" }\n\
                   [voltage]\nreference = \"none\"\nnoise = { calibrate = \"200ms\", track = \"30s\" }\n\
                   [missing]\nstale_after = \"10000h\"\nbacklog = 1000000\n";

#[test]
fn a_source_of_lines_alone_makes_trials_and_is_recorded_and_not_decoded() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let rows = voltage(&small, 3000);
    let of = |channels, device| Device { channels, ..device };
    let [probe, ni] = [of([0, 24], FIRST), of([16, 18], SECOND)];
    let blocks = [&probe, &ni].map(|device| device.blocks(&rows, &|_| Some(0)));
    let sent = blocks[1].len();
    let parts = [24, 2].into_iter().zip(blocks).collect();
    let mut rigs = rigs_of(parts);
    // In the middle of steps of 20 ms; the device's clock drifts, and its first row is not 0.
    let edges: Vec<LineEdge> = [
        (40, 17, true),
        (60, 2, true),
        (61, 2, false),
        (100, 17, false),
    ]
    .map(|(step, line, is_up)| {
        let seconds = (f64::from(step) + 0.5) * 0.02;
        LineEdge {
            epoch: 0,
            row: ni.first_row + (seconds * RATE * (1.0 + ni.drift)) as u64,
            line,
            is_up,
        }
    })
    .to_vec();
    let rig = rigs.remove(1);
    rigs.push(Box::new(LineRig {
        rig,
        edges: edges.clone(),
        at: (0, 0),
    }));
    let plan = parse(TWO, &[&recorded_in(&folder)]).unwrap();
    let mut live = Live::with_rigs(plan, small.model.clone(), rigs).unwrap();
    let mut steps = 0;
    rigs::run_paced(&mut live, &mut |_| steps += 1);
    live.stop().unwrap();
    // The session waits for none of its rows.
    let report = live.report();
    assert!((148..=150).contains(&steps), "{report:?}");
    assert_eq!(report.input.stale, report.input.calibrating);
    let source = &live.sources()[1];
    assert_eq!(
        (source.edges, source.lost, source.epochs),
        (4, 0, 1),
        "{source:?}"
    );

    let (mut notes, mut changes, mut recorded) = (Vec::new(), Vec::new(), 0);
    let mut reader = Reader::open(live.folder().unwrap()).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        match record {
            Record::Note { step, content } => notes.push((step, content)),
            Record::Edge(1, edge) => changes.push(edge),
            Record::Block(1, _) => recorded += 1,
            _ => {}
        }
    }
    let expected = [
        (40, NoteContent::TrialBegin),
        (60, NoteContent::Mark("reward".into())),
        (100, NoteContent::TrialEnd),
    ];
    assert_eq!((notes.as_slice(), changes), (&expected[..], edges));
    // Those before the first step, and those that wait when the first source ends, are not.
    assert!(
        (sent - 70..=sent).contains(&recorded),
        "{recorded} of {sent}"
    );
    let replay = Replay::open(live.folder().unwrap()).unwrap();
    let replayed = replay.run(&mut |_| Ok(())).unwrap();
    assert!(
        replayed.is_equal() && replayed.compared == steps,
        "{replayed:?}"
    );
}

#[test]
fn a_source_of_lines_alone_needs_lines_and_another_source_before_it() {
    let record = "record.to=recordings";
    let error = |text: &str| parse(text, &[record]).unwrap_err().to_string();
    let told = error(&TWO.replace("spikeglx://127.0.0.1:4142?js=0&sync=1", "udp://127.0.0.1:0"));
    assert!(told.contains("tells no digital lines (udp)"), "{told}");
    let without = TWO.replace("lines = { 17 = \"trial\", 2 = \"reward\" }\n", "");
    assert!(parse(&without, &[record]).is_ok());
    let told = error(&without.replace("&sync=1", ""));
    assert!(told.contains("expected sync= in the address"), "{told}");
    let told = error(&PLAN.replace("channels = 24\n", "channels = 24\ngives = \"lines\"\n"));
    assert!(
        told.contains(
            "expected \"input\" of the first source, whose clock makes the steps, got \"lines\""
        ),
        "{told}"
    );
}

#[test]
fn lines_that_a_source_does_not_tell_are_refused() {
    let record = "record.to=recordings";
    for (change, words) in [
        (
            "source.from=simulated",
            "tells no digital lines (simulated)",
        ),
        (
            "source.from=cerebus://0.0.0.0:51002?group=raw",
            "expected digital= in the address",
        ),
        (
            "source.from=spikeglx://10.0.0.2:4142?js=2&ip=0",
            "expected sync= in the address",
        ),
        ("source.lines={ 0 = \"trial\" }", "1 to 64"),
        ("source.lines={ 65 = \"trial\" }", "1 to 64"),
        ("source.lines={ a = \"trial\" }", "1 to 64"),
        ("source.lines={ 1 = \"\" }", "the text of a mark for line 1"),
    ] {
        let error = parse(PLAN, &[record, change]).unwrap_err().to_string();
        assert!(
            error.contains("source.lines: ") && error.contains(words),
            "{change}: {error}"
        );
    }
    for from in [
        "cerebus://0.0.0.0:51002?group=raw&digital=279",
        "spikeglx://10.0.0.2:4142?js=2&ip=0&sync=1",
    ] {
        let change = format!("source.from={from}");
        assert!(parse(PLAN, &[record, &change]).is_ok(), "{from}");
    }
}
