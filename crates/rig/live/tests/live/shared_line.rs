//! Two devices that hear one pulse: how far a running session places them from each other.

use std::path::Path;
use std::time::Duration;

use betz_base::Result;
use betz_live::{Live, Plan, SharedLineReport};
use betz_rigs::rig::{Arrival, Block, LineEdge, Rig, RigCounts, Signal};

use super::rigs::{self, Small};
use super::sources::{Device, FIRST, RATE, SECOND, recorded_in, rigs_of, voltage};

/// Blocks of a millisecond, and seconds from one change of the line to the next.
const BLOCKS: usize = 4500;
const EVERY: f64 = 0.15;

fn parse(more: &str, changes: &[&str]) -> Result<Plan> {
    let text = format!(
        "[session]\nmodel = \"none.betz\"\n\
         [[source]]\nname = \"first\"\nfrom = \"openephys://127.0.0.1:5556?channels=16\"\n\
         [[source]]\nname = \"second\"\nfrom = \"openephys://127.0.0.1:5557?channels=8\"\nchannels = 8\n\
         [voltage]\nreference = \"none\"\nnoise = {{ calibrate = \"200ms\", track = \"30s\" }}\n\
         [missing]\nstale_after = \"10000h\"\nbacklog = 1000000\n{more}"
    );
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    Plan::parse(&text, Path::new("lines.toml"), &changes)
}

/// A device that also hears the pulse, on one of its lines.
struct PulseRig {
    rig: Box<dyn Rig>,
    device: Device,
    line: u8,
    /// End of the newest block.
    at: u64,
    changes: u32,
}

impl Rig for PulseRig {
    fn signal(&self) -> Option<Signal> {
        self.rig.signal()
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let arrival = self.rig.take(block, patience)?;
        self.at = block.first + block.rows as u64;
        Ok(arrival)
    }

    fn take_edges(&mut self, edges: &mut Vec<LineEdge>) {
        loop {
            let time = EVERY * f64::from(self.changes + 1);
            let rows = time * RATE * (1.0 + self.device.drift);
            let row = self.device.first_row + rows as u64;
            if row >= self.at {
                return;
            }
            self.changes += 1;
            edges.push(LineEdge {
                epoch: 0,
                row,
                line: self.line,
                is_up: self.changes.is_multiple_of(2),
            });
        }
    }

    fn counts(&self) -> RigCounts {
        self.rig.counts()
    }
}

/// The report of a session whose second device's blocks take `delay` seconds, and its log.
fn run(small: &Small, delay: f64) -> (SharedLineReport, String) {
    let folder = tempfile::tempdir().unwrap();
    let rows = voltage(small, BLOCKS);
    let devices = [FIRST, Device { delay, ..SECOND }];
    let parts = (devices.iter().zip([16, 8]))
        .map(|(device, channels)| (channels, device.blocks(&rows, &|_| Some(0))))
        .collect();
    let rigs = (rigs_of(parts).into_iter().zip(devices).zip([3, 7]))
        .map(|((rig, device), line)| {
            Box::new(PulseRig {
                rig,
                device,
                line,
                at: 0,
                changes: 0,
            }) as Box<dyn Rig>
        })
        .collect();
    let align = "[align]\nline = \"first:3=second:7\"\n";
    let plan = parse(align, &[&recorded_in(&folder), "record.reserve_mib=1"]).unwrap();
    let mut live = Live::with_rigs(plan, small.model.clone(), rigs).unwrap();
    rigs::run_paced(&mut live, &mut |_| ());
    live.stop().unwrap();
    let told = live.report().shared_line.unwrap();
    let log = std::fs::read_to_string(live.folder().unwrap().join("log.jsonl")).unwrap();
    (told, log)
}

#[test]
fn the_distance_of_two_devices_is_told_and_warned_of_by_a_pulse_that_both_hear() {
    let small = rigs::small(0.0);
    // By arrivals, a device is placed later by what its way is longer: 0.1 ms and 6.8 ms. Drifts are not known well after seconds.
    let (near, log) = run(&small, SECOND.delay);
    let (offset, error) = (near.offset_us.unwrap(), near.error_us.unwrap());
    assert!((offset - 100.0).abs() < 600.0, "{near:?}");
    assert!((66.0..1000.0).contains(&error), "{near:?}");
    assert!(
        !near.is_beyond && near.matched >= 20 && near.unmatched <= 2,
        "{near:?}"
    );
    assert!(!log.contains("shared-line"), "{log}");
    let (far, log) = run(&small, 7e-3);
    assert!((far.offset_us.unwrap() - 6800.0).abs() < 600.0, "{far:?}");
    assert!(far.is_beyond && far.limit_us == 2000.0, "{far:?}");
    let warning = "\"what\":\"shared-line\",\"offset_us\":";
    assert_eq!(log.matches(warning).count(), 1, "{log}");
    assert!(log.contains("\"is_beyond\":true"), "{log}");
}

#[test]
fn a_shared_line_of_other_sources_or_of_none_that_tell_lines_is_refused() {
    let align = "[align]\nline = \"first:3=second:7\"\nlimit = \"5ms\"\n";
    let plan = parse(align, &[]).unwrap();
    assert!(
        plan.resolved()
            .unwrap()
            .contains("line = \"first:3=second:7\"")
    );
    for (change, words) in [
        (
            "align.line=\"first:3=third:7\"",
            "align.line: expected sources of the plan, first, second, got third",
        ),
        ("align.line=\"first:3=first:7\"", "got one source twice"),
        ("align.line=\"first:3\"", "such as nsp:1=probe:7"),
        ("align.limit=\"0s\"", "align.limit: expected a time above 0"),
        ("align.limits=\"1ms\"", "limits"),
    ] {
        let error = parse(align, &[change]).unwrap_err().to_string();
        assert!(error.contains(words), "{change}: {error}");
    }
    let text = "[session]\nmodel = \"none.betz\"\n[[source]]\nname = \"a\"\nfrom = \"openephys://127.0.0.1:1?channels=2\"\n\
                [[source]]\nname = \"b\"\nfrom = \"udp://127.0.0.1:0\"\nchannels = 8\n[align]\nline = \"a:1=b:1\"\n";
    let error = Plan::parse(text, Path::new("p.toml"), &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("align.line") && error.contains("expected sources that tell digital lines"),
        "{error}"
    );
}
