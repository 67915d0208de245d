//! Priority and processors of a session's threads.

#![cfg(target_os = "linux")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use betz_base::Result;
use betz_live::{Live, Pace, Part, check};
use betz_rigs::rig::{Arrival, Block, Rig, RigCounts, Signal};

use super::rigs::{self, ALWAYS, ListRig, Small};

/// The value of a line of the calling thread's status, or of that of `task`.
fn status(task: &str, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{task}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.map(|value| value.trim().to_owned())
        .unwrap_or_default()
}

fn processors() -> String {
    status("thread-self", "Cpus_allowed_list:")
}

/// Processors of the threads of this program with this name.
fn processors_of(name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .map(|task| format!("self/task/{}", task.unwrap().file_name().to_string_lossy()))
        .filter(|task| status(task, "Name:") == name)
        .map(|task| status(&task, "Cpus_allowed_list:"))
        .collect()
}

/// Priority and policy of the calling thread: fields 40 and 41 of `stat`.
fn policy() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // The second field is the name, in brackets.
    let after = text.rsplit_once(") ").unwrap().1;
    after
        .split(' ')
        .skip(37)
        .take(2)
        .map(String::from)
        .collect()
}

/// A rig that keeps the processors and the policy of the thread that hears it.
struct PlacedRig(ListRig, Arc<Mutex<(String, Vec<String>)>>);

impl Rig for PlacedRig {
    fn signal(&self) -> Option<Signal> {
        self.0.signal()
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        *self.1.lock().unwrap() = (processors(), policy());
        self.0.take(block, patience)
    }

    fn counts(&self) -> RigCounts {
        self.0.counts()
    }
}

fn rig(small: &Small) -> ListRig {
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 200);
    ListRig {
        signal: small.simulation.signal(),
        blocks: blocks.into_iter(),
    }
}

#[test]
fn the_threads_of_a_session_run_on_the_processors_of_its_plan() {
    let small = rigs::small(0.0);
    let before = processors();
    let last = before.rsplit([',', '-']).next().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let to = format!("record.to={:?}", folder.path().to_str().unwrap());
    let cores = format!("session.cores=[{last}, {last}, {last}]");
    let plan = rigs::plan(&[&to, &cores, "missing.stale_after=10000h"]);
    let heard = Arc::new(Mutex::default());
    let placed = PlacedRig(rig(&small), Arc::clone(&heard));
    let told = check(
        &plan,
        &small.model,
        &mut rig(&small),
        Duration::from_secs(1),
    )
    .unwrap();
    let named = format!("processors: loop {last}, rig {last}, recorder {last}");
    assert!(told.to_string().contains(&named), "{told}");
    let mut live = Live::with_rig(plan, small.model.clone(), Box::new(placed)).unwrap();
    let (mut decodes, mut records) = (String::new(), false);
    live.run(&ALWAYS, &mut |_| {
        decodes = processors();
        // The thread has begun, and may not have been placed yet.
        for _ in 0..10_000 {
            records |= processors_of("betz-recorder").contains(&last);
            if records {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    })
    .unwrap();
    live.stop().unwrap();
    assert_eq!((decodes, &heard.lock().unwrap().0), (last.clone(), &last));
    assert!(records);
}

#[test]
fn a_real_time_priority_is_taken_or_refused_by_check_and_by_run_in_the_same_words() {
    let small = rigs::small(0.0);
    let plan = || rigs::plan(&["session.priority=fifo:2", "missing.stale_after=10000h"]);
    let second = Duration::from_secs(1);
    let heard = Arc::new(Mutex::default());
    let placed = PlacedRig(rig(&small), Arc::clone(&heard));
    let checked = check(&plan(), &small.model, &mut rig(&small), second);
    let opened = Live::with_rig(plan(), small.model.clone(), Box::new(placed));
    let (told, mut live) = match (checked, opened) {
        (Ok(told), Ok(live)) => (told, live),
        (checked, opened) => {
            // This machine does not permit it.
            let refused = checked.unwrap_err();
            assert_eq!(refused.message(), opened.err().unwrap().message());
            let words = "session.priority: expected the right to run at fifo:2 (CAP_SYS_NICE, or `ulimit -r 2`), got none";
            assert!(refused.message().contains(words), "{refused}");
            return;
        }
    };
    assert!(
        told.to_string().contains("fifo:2, the recorder behind"),
        "{told}"
    );
    let mut decodes = Vec::new();
    live.run(&ALWAYS, &mut |_| {
        decodes = policy();
        Ok(())
    })
    .unwrap();
    assert_eq!(decodes, ["2", "1"]);
    assert_eq!(heard.lock().unwrap().1, ["2", "1"]);
    // A thread that this one starts is an ordinary one.
    let started = std::thread::spawn(policy).join().unwrap();
    assert_eq!(started, ["0", "0"]);
}

#[test]
fn a_processor_that_this_machine_does_not_have_is_refused_by_check_and_by_run_in_the_same_words() {
    let small = rigs::small(0.0);
    let plan = || rigs::plan(&["session.cores=[100000]"]);
    let checked = check(&plan(), &small.model, &mut rig(&small), Duration::ZERO).unwrap_err();
    let opened = Live::with_rig(plan(), small.model.clone(), Box::new(rig(&small)));
    let ran = opened.err().unwrap();
    assert_eq!(checked.message(), ran.message());
    let words =
        "session.cores: expected a processor of this machine that this program may use, got 100000";
    assert!(ran.message().contains(words), "{ran}");
}

#[test]
fn a_priority_of_other_systems_is_refused_by_check_and_by_run_in_the_same_words() {
    let small = rigs::small(0.0);
    let plan = || rigs::plan(&["session.priority=realtime"]);
    let checked = check(&plan(), &small.model, &mut rig(&small), Duration::ZERO).unwrap_err();
    let opened = Live::with_rig(plan(), small.model.clone(), Box::new(rig(&small)));
    let ran = opened.err().unwrap();
    assert_eq!(checked.message(), ran.message());
    let words = "session.priority: expected \"fifo:1\" to \"fifo:99\", the real-time priorities of Linux, got \"realtime\"";
    assert!(ran.message().contains(words), "{ran}");
}
