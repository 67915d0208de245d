//! Failures around a session that it goes on through: a full disk, a sink that goes away, labels that come too late.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use betz_base::{ErrorKind, Result};
use betz_live::record::{Disk, Reader};
use betz_live::{Live, Pace, Part, Trial, Until};
use betz_rigs::rig::{Arrival, Block, Rig, RigCounts, Signal};

use super::rigs::{self, ALWAYS, ListRig, Small};

const FOLDER: &str = "BETZ_LIVE_TEST_FULL_DISK";
fn open(small: &Small, blocks: usize, changes: &[&str]) -> Live {
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), blocks)
            .into_iter(),
    };
    let changes = [&["missing.stale_after=1h"], changes].concat();
    let mut live =
        Live::with_rig(rigs::plan(&changes), small.model.clone(), Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    live
}

/// The child: a session whose files may not grow beyond a limit.
#[test]
fn child_with_a_full_disk() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let small = rigs::small(0.0);
    let set = format!("record.to={:?}", folder.to_str().unwrap());
    let mut live = open(&small, 3000, &[&set, "record.on_full=stop-recording"]);
    live.run(&ALWAYS, &mut |_| Ok(())).unwrap();
    assert_eq!(live.report().input.steps, 150);
    live.stop().unwrap();
    let counts = live.report().recorder.unwrap();
    assert!(
        counts.unrecorded > 0 && counts.disk == Disk::Full,
        "{counts:?}"
    );
    assert!(!live.crossed().is_empty());
}

#[cfg(unix)]
#[test]
fn a_full_disk_ends_the_recording_and_not_the_session() {
    let folder = tempfile::tempdir().unwrap();
    // A limit of the files' size stands in for the disk: 4.3 MB are recorded.
    let script =
        "trap '' XFSZ; ulimit -f 2000; exec \"$0\" --exact failures::child_with_a_full_disk";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
    let run = std::fs::read_dir(folder.path()).unwrap().next().unwrap();
    let frames = whole_frames(&run.unwrap().path());
    // At least 1 MB of blocks of 1.4 kB.
    assert!(frames > 500, "{frames}");
}

/// Frames of a recording of which only the end may be torn, because the disk was full.
fn whole_frames(folder: &Path) -> u64 {
    let mut reader = Reader::open(folder).unwrap();
    while reader.next_record().unwrap().is_some() {}
    let damage = reader.damage();
    assert!(damage.places == 0 && damage.missing == 0, "{damage:?}");
    // It says itself how much is missing, and that the session ended as asked.
    assert!(damage.torn <= 1 && damage.ended, "{damage:?}");
    assert!(damage.unrecorded > 0 && !damage.is_clean(), "{damage:?}");
    damage.frames
}

#[cfg(unix)]
#[test]
fn a_reserve_that_the_disk_has_no_room_for_is_warned_of_and_the_session_runs() {
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let disk = rustix::fs::statvfs(folder.path()).unwrap();
    let largest = 1_u64 << 20;
    if disk.f_bavail * disk.f_frsize >= largest << 20 {
        return;
    }
    let set = format!("record.to={:?}", folder.path().to_str().unwrap());
    let changes = [&set, "record.reserve_mib=1048576"];
    let mut rig = small.simulation.rig(Part::Run, Pace::Fastest);
    let plan = rigs::plan(&changes);
    let checked = betz_live::check(&plan, &small.model, &mut rig, Duration::from_secs(1)).unwrap();
    let warned = checked.lines.iter().any(|line| {
        line.warning && (line.text).starts_with("expected room for record.reserve_mib = 1048576")
    });
    assert!(warned, "{checked}");
    let mut live = open(&small, 200, &changes);
    live.run(&ALWAYS, &mut |_| Ok(())).unwrap();
    live.stop().unwrap();
    assert_eq!(live.report().recorder.unwrap().unrecorded, 0);
}

#[test]
fn where_a_sink_goes_away_the_others_hear_every_step() {
    let small = rigs::small(0.0);
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
    let hears = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = format!(
        "outputs.to=[\"udp://{}\", \"udp://{}\"]",
        gone.local_addr().unwrap(),
        hears.local_addr().unwrap()
    );
    let mut live = open(&small, 1000, &[&to]);
    let some = Until {
        steps: Some(10),
        ..ALWAYS
    };
    live.run(&some, &mut |_| Ok(())).unwrap();
    drop(gone);
    live.run(&ALWAYS, &mut |_| Ok(())).unwrap();
    assert_eq!(live.report().input.steps, 50);
    let mut datagram = [0; 256];
    for number in 0..50_u64 {
        hears.recv(&mut datagram).unwrap();
        assert_eq!(datagram[8..16], number.to_le_bytes());
    }
}

/// A rig from which nothing comes for the first calls. It tells its signal from the start.
struct AwaitedRig {
    rig: ListRig,
    calls: Arc<AtomicU32>,
}

/// Calls before the first block of an [`AwaitedRig`].
const SILENT_CALLS: u32 = 30;

impl Rig for AwaitedRig {
    fn signal(&self) -> Option<Signal> {
        self.rig.signal()
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        if self.calls.fetch_add(1, Ordering::Relaxed) < SILENT_CALLS {
            return Ok(Arrival::Nothing);
        }
        self.rig.take(block, patience)
    }

    fn counts(&self) -> RigCounts {
        self.rig.counts()
    }
}

#[test]
fn outputs_are_at_rest_until_a_source_comes_and_then_as_if_it_had_come_at_once() {
    let small = rigs::small(0.0);
    let expected = rigs::run(&mut open(&small, 400, &[]));
    let hears = UdpSocket::bind("127.0.0.1:0").unwrap();
    hears.set_nonblocking(true).unwrap();
    let to = format!("outputs.to=[\"udp://{}\"]", hears.local_addr().unwrap());
    let blocks = rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 400);
    let calls = Arc::new(AtomicU32::new(0));
    let rig = AwaitedRig {
        rig: ListRig {
            signal: small.simulation.signal(),
            blocks: blocks.into_iter(),
        },
        calls: Arc::clone(&calls),
    };
    let plan = rigs::plan(&[&to, "source.inline=true", "missing.stale_after=1h"]);
    let mut live = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    let until = Until {
        steps: None,
        stop: &|| calls.load(Ordering::Relaxed) >= SILENT_CALLS,
    };
    live.run(&until, &mut |_| panic!("a step without a source"))
        .unwrap();
    assert_eq!(live.report().input.steps, 0);
    let nothing = hears.recv(&mut [0; 256]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(rigs::run(&mut live), expected);
    assert!(hears.recv(&mut [0; 256]).is_ok());
}

/// A rig whose thread dies after its blocks.
struct PanickingRig(ListRig);

impl Rig for PanickingRig {
    fn signal(&self) -> Option<Signal> {
        self.0.signal()
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        match self.0.take(block, patience)? {
            Arrival::Ended => panic!("expected in this test"),
            arrival => Ok(arrival),
        }
    }

    fn counts(&self) -> RigCounts {
        self.0.counts()
    }
}

#[test]
fn a_source_whose_thread_panics_ends_the_session_with_its_name() {
    let small = rigs::small(0.0);
    let rig = PanickingRig(ListRig {
        signal: small.simulation.signal(),
        blocks: rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 400).into_iter(),
    });
    let plan = rigs::plan(&["missing.stale_after=1h"]);
    let mut live = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    let mut steps = 0;
    let failed = live.run(&ALWAYS, &mut |_| {
        steps += 1;
        Ok(())
    });
    let error = failed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(
        error.message().contains("betz-source has panicked"),
        "{error}"
    );
    assert!(steps > 0, "the blocks from before are decoded");
}

#[test]
fn labels_that_come_too_late_are_counted_and_not_learned() {
    let small = rigs::small_of(0.0, Some(64 << 20), 1.0);
    let mut live = open(&small, 1000, &["learn.mode=watch"]);
    let some = Until {
        steps: Some(20),
        ..ALWAYS
    };
    live.run(&some, &mut |_| Ok(())).unwrap();
    for step in [5, 6, 3, 6, 7] {
        live.label(step, &[0.0, 0.0]);
    }
    live.trial(Trial::End);
    // It waits for its labels, of which the last step's is the last.
    live.label(9, &[0.0, 0.0]);
    live.label(19, &[0.0, 0.0]);
    live.label(12, &[0.0, 0.0]);
    live.trial(Trial::Begin);
    live.label(19, &[0.0, 0.0]);
    live.label(8, &[0.0, f32::NAN]);
    live.label(8, &[0.0]);
    let report = live.report();
    assert_eq!(report.learn.unwrap().late_labels, 2);
    assert_eq!((report.notes.labels, report.notes.odd_labels), (9, 2));
}
