//! The log of a recording.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use betz_base::Result;
use betz_live::record::{Reader, Record};
use betz_live::{Live, Pace, Part, Until};
use betz_rigs::rig::{Arrival, Block, Rig, RigCounts, Signal, host_ns};
use serde_json::Value;

use super::rigs::{self, ALWAYS, ListRig, Small};

/// The lines of a log, by kind.
fn read(folder: &Path) -> BTreeMap<String, Vec<Value>> {
    let text = std::fs::read_to_string(folder.join("log.jsonl")).unwrap();
    let mut lines: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["t_ns"].is_i64() && line["step"].is_u64(), "{line}");
        let kind = line["what"].as_str().unwrap().to_owned();
        lines.entry(kind).or_default().push(line);
    }
    lines
}

fn open(small: &Small, rig: Box<dyn Rig>, to: &Path, stale_after: &str) -> Live {
    let record = format!("record.to={:?}", to.to_str().unwrap());
    let stale = format!("missing.stale_after={stale_after}");
    let plan = rigs::plan(&[&record, &stale]);
    let mut live = Live::with_rig(plan, small.model.clone(), rig).unwrap();
    live.set_noise(small.noise.clone());
    live
}

#[test]
fn events_of_a_session_are_lines_with_their_step_and_time() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let mut blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 600);
    blocks.drain(210..212);
    blocks[210].lost_before.count = 60;
    for block in &mut blocks[400..] {
        block.epoch = 1;
    }
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: blocks.into_iter(),
    };
    let mut live = open(&small, Box::new(rig), folder.path(), "10000h");
    let some = Until {
        steps: Some(5),
        ..ALWAYS
    };
    live.run(&some, &mut |_| Ok(())).unwrap();
    live.mark("a \"quoted\" text");
    live.swap(&small.model).unwrap();
    live.run(&some, &mut |_| Ok(())).unwrap();
    live.label(3, &[f32::NAN, 0.0]);
    live.run(&ALWAYS, &mut |_| Ok(())).unwrap();
    live.stop().unwrap();
    let log = read(live.folder().unwrap());
    let only = |kind: &str| {
        assert_eq!(log.get(kind).map_or(0, Vec::len), 1, "{kind}: {log:?}");
        log[kind][0].clone()
    };
    only("begin");
    only("end");
    assert_eq!(only("mark")["text"], "a \"quoted\" text");
    let swap = only("swap");
    assert_eq!(
        (swap["step"].as_u64(), swap["model"].is_string()),
        (Some(5), true)
    );
    let lost = only("lost");
    assert_eq!(
        (&lost["rows"], &lost["at_least"]),
        (&60.into(), &false.into())
    );
    assert_eq!(lost["step"], 10);
    assert_eq!(only("epoch")["epoch"], 1);
}

/// Sends its blocks as they are taken, pauses, and sends one more.
struct PausingRig {
    list: ListRig,
    pause: Duration,
    since: Option<Instant>,
}

impl Rig for PausingRig {
    fn signal(&self) -> Option<Signal> {
        self.list.signal()
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let is_last = self.list.blocks.len() == 1;
        if is_last && self.since.get_or_insert_with(Instant::now).elapsed() < self.pause {
            std::thread::sleep(patience);
            return Ok(Arrival::Nothing);
        }
        let arrival = self.list.take(block, patience)?;
        block.host_ns = host_ns();
        Ok(arrival)
    }

    fn counts(&self) -> RigCounts {
        RigCounts {
            malformed: 3,
            ..RigCounts::default()
        }
    }
}

#[test]
fn a_source_that_falls_silent_for_a_second_is_logged_once_and_when_it_is_back() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let mut blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 3000);
    blocks.drain(100..2999);
    let rig = PausingRig {
        list: ListRig {
            signal: small.simulation.signal(),
            blocks: blocks.into_iter(),
        },
        pause: Duration::from_millis(1500),
        since: None,
    };
    let mut live = open(&small, Box::new(rig), folder.path(), "1ms");
    live.run(&ALWAYS, &mut |_| Ok(())).unwrap();
    live.stop().unwrap();
    let log = read(live.folder().unwrap());
    assert_eq!(log["silent"].len(), 1, "{log:?}");
    assert_eq!(log["silent"][0]["source"], "rig");
    assert_eq!(log["source"][0]["malformed"], 3);
    // Steps without data are told by at most ten lines per second, and the rest of them by a count.
    let stale = &log["stale"];
    let left_out: u64 = stale.iter().filter_map(|line| line["more"].as_u64()).sum();
    let shown = stale.iter().filter(|line| line["more"].is_null()).count() as u64;
    let (mut reader, mut decided) = (Reader::open(live.folder().unwrap()).unwrap(), 0);
    while let Some(record) = reader.next_record().unwrap() {
        decided += u64::from(matches!(record, Record::Stale(_)));
    }
    assert_eq!(shown + left_out, decided, "{log:?}");
    assert!(left_out > 0, "{log:?}");
}
