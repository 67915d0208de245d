//! Labels that come late, out of order, or with times in place of steps.

use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use betz_live::{LearnReport, Live, Note, NoteContent, Pace, Part, Trial, Until, check};

use super::learn::relearned;
use super::rigs::{self, ALWAYS, ListRig, STEP_SECONDS, Small};

/// Host time of the first row of the blocks, in nanoseconds.
const BASE: i64 = 5_000_000_000;
const MS: i64 = 1_000_000;

/// A session of 4 s of `small`, whose blocks of 1 ms arrive when they end.
fn open(small: &Small, changes: &[&str]) -> Live {
    let mut blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 4000);
    for block in &mut blocks {
        block.host_ns = BASE + (block.first + block.rows as u64) as i64 * MS / 30;
    }
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: blocks.into_iter(),
    };
    let changes = [&["missing.stale_after=10000h"], changes].concat();
    let mut live =
        Live::with_rig(rigs::plan(&changes), small.model.clone(), Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    live
}

/// The next `steps` of a session.
fn run(live: &mut Live, steps: u64) {
    let some = Until {
        steps: Some(steps),
        ..ALWAYS
    };
    live.run(&some, &mut |_| Ok(())).unwrap();
}

fn label(live: &mut Live, steps: impl Iterator<Item = u64>) {
    steps.for_each(|step| live.label(step, &[0.5, -0.5]));
}

/// Counts of the trainer, once its thread has taken so many trials; no step depends on when that is.
fn learned(live: &Live, trials: u64) -> LearnReport {
    for _ in 0..200_000 {
        let now = live.report().learn.unwrap();
        if now.trials + now.dropped >= trials {
            return now;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the trainer's thread stands still: {:?}", live.report());
}

#[test]
fn a_trial_that_has_ended_waits_for_its_labels_and_no_longer_than_the_plan_says() {
    let small = rigs::small_of(0.0, Some(64 << 20), 1.0);
    let folder = tempfile::tempdir().unwrap();
    let record = format!("record.to={:?}", folder.path().to_str().unwrap());
    let mut live = open(&small, &["learn.mode=watch", "labels.wait=200ms", &record]);
    let seconds = |steps: u64| steps as f64 * STEP_SECONDS;
    let near = |now: &LearnReport, steps: u64| {
        let seconds = seconds(steps);
        assert!(
            (now.labelled_seconds - seconds).abs() < 1e-9,
            "{now:?}, not {seconds}"
        );
    };
    // The last labels come after the end, one of them out of order, and a mark between.
    run(&mut live, 50);
    label(&mut live, 0..40);
    live.trial(Trial::End);
    live.mark("late ones follow");
    label(&mut live, (40..46).rev());
    run(&mut live, 5);
    label(&mut live, 46..50);
    let now = learned(&live, 1);
    assert_eq!((now.trials, now.late_labels), (1, 0));
    near(&now, 50);
    // The last label never comes: the wait of ten steps is over, and what comes then is late.
    run(&mut live, 45);
    label(&mut live, 50..90);
    live.trial(Trial::End);
    run(&mut live, 9);
    label(&mut live, 95..96);
    run(&mut live, 1);
    label(&mut live, 96..97);
    let now = learned(&live, 2);
    assert_eq!((now.trials, now.late_labels), (2, 1));
    near(&now, 91);
    // A label of a step after the end says that no more will come; the pause before a trial is no part of it.
    label(&mut live, 100..105);
    run(&mut live, 10);
    live.trial(Trial::Begin);
    label(&mut live, 120..122);
    run(&mut live, 20);
    label(&mut live, 130..135);
    live.trial(Trial::End);
    run(&mut live, 4);
    label(&mut live, 141..142);
    let now = learned(&live, 3);
    // The labels 120 and 121 were given before their steps; 141 is of the next trial.
    // The pause, which has labels, is no trial that is dropped.
    assert_eq!((now.trials, now.dropped, now.late_labels), (3, 0, 1));
    near(&now, 98);
    live.stop().unwrap();
    let again = relearned(&live);
    assert_eq!((again.trials, again.dropped), (now.trials, now.dropped));
}

#[test]
fn a_trial_waits_no_longer_when_the_device_starts_again() {
    let small = rigs::small_of(0.0, Some(64 << 20), 1.0);
    let mut blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 4000);
    for block in &mut blocks[1000..] {
        block.epoch = 1;
        block.first -= 1000 * 30;
    }
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: blocks.into_iter(),
    };
    let plan = rigs::plan(&["learn.mode=watch", "missing.stale_after=10000h"]);
    let mut live = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    run(&mut live, 50);
    label(&mut live, 0..40);
    live.trial(Trial::End);
    run(&mut live, 20);
    let now = learned(&live, 1);
    assert_eq!((now.trials, now.dropped), (1, 0), "{now:?}");
    label(&mut live, 40..50);
    assert_eq!(live.report().learn.unwrap().late_labels, 10);
    let first = live.open_step();
    run(&mut live, 50);
    let stop = live.open_step();
    label(&mut live, first..stop);
    live.trial(Trial::End);
    let now = learned(&live, 2);
    assert_eq!((now.trials, now.dropped), (2, 0), "{now:?}");
}

/// A mark that was sent and has arrived at these times of the blocks' clock, in ms.
fn mark(step: Option<u64>, sent: Option<i64>, arrived: i64) -> Note {
    /// The sender's clock minus the host's.
    const OFFSET: i64 = 77_000_000_000;
    Note {
        step,
        sent: sent.map_or(0, |ms| BASE + OFFSET + ms * MS),
        host_ns: BASE + arrived * MS,
        content: NoteContent::Mark(format!("{arrived}")),
    }
}

#[test]
fn notes_find_their_steps_by_number_by_the_senders_time_or_by_their_arrival() {
    let small = rigs::small(0.0);
    // The first shows how far the clocks are apart; two then take longer, and one has no time.
    let notes = [
        mark(Some(3), Some(510), 510),
        mark(Some(7), Some(1010), 1250),
        mark(None, Some(1130), 1990),
        mark(Some(9), None, 1250),
    ];
    for (by, steps) in [
        ("step", [3, 7, 100, 9]),
        ("time", [25, 50, 56, 62]),
        ("arrival", [25, 62, 99, 62]),
    ] {
        let rule = format!("labels.by={by}");
        let mut live = open(&small, &[&rule, "labels.from=udp://127.0.0.1:0"]);
        run(&mut live, 100);
        live.take_notes_to_show();
        for note in &notes {
            live.take_note(note);
        }
        let told = live.take_notes_to_show();
        let found: Vec<u64> = told.into_iter().map(|(step, _)| step).collect();
        assert_eq!(found, steps, "{by}");
    }
}

#[test]
fn notes_that_arrived_before_the_end_are_in_the_session() {
    let small = rigs::small_of(0.0, Some(64 << 20), 1.0);
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let place = free.local_addr().unwrap();
    drop(free);
    let mut live = open(&small, &[&format!("labels.from=udp://{place}")]);
    run(&mut live, 20);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Far more than the system keeps of small datagrams, unless it is asked for room.
    for number in 0..600 {
        let note = mark(Some(number), None, 0);
        sender.send_to(&note.to_bytes(), place).unwrap();
    }
    live.stop().unwrap();
    let told = live.report().notes;
    assert_eq!(told.marks + told.malformed, 600, "{told:?}");
    assert!(told.marks > 0, "{told:?}");
}

#[test]
fn rules_for_labels_that_make_no_sense_are_refused_and_arrival_is_warned_of() {
    let small = rigs::small(0.0);
    let from = "from = \"udp://127.0.0.1:0\"";
    let of = |keys: &str| {
        let text = format!(
            "[session]\nmodel = \"none.betz\"\n[[source]]\nname = \"rig\"\nfrom = \"simulated\"\n[labels]\n{keys}\n"
        );
        betz_live::Plan::parse(&text, Path::new("some.toml"), &[])
    };
    for (keys, words) in [
        (
            format!("{from}\nby = \"clock\""),
            "some.toml, line 8, labels.by: unknown variant `clock`",
        ),
        (
            format!("{from}\nwait = \"61s\""),
            "some.toml, line 8, labels.wait: expected at most 60s, got 61s",
        ),
        (
            format!("{from}\nwait = 2"),
            "some.toml, line 8, labels.wait: ",
        ),
        (
            "by = \"time\"".to_owned(),
            "some.toml, line 7, labels.by: expected labels.from beside it",
        ),
    ] {
        let refused = of(&keys).unwrap_err();
        assert!(refused.message().contains(words), "{refused}");
    }
    assert_eq!(of(from).unwrap().labels.wait.seconds(), 2.0);
    for (by, warns) in [("step", false), ("time", false), ("arrival", true)] {
        let plan = of(&format!("{from}\nby = \"{by}\"")).unwrap();
        let mut rig = ListRig {
            signal: small.simulation.signal(),
            blocks: Vec::new().into_iter(),
        };
        let told = check(&plan, &small.model, &mut rig, Duration::ZERO).unwrap();
        let line = told
            .lines
            .iter()
            .find(|line| line.part == "labels")
            .unwrap();
        assert_eq!(line.warning, warns, "{}", line.text);
        assert!(
            line.text
                .contains(&format!("by {}", by.replace("time", "the sender's time")))
        );
    }
}
