//! Memory of a page's server during a long session, counted: it holds the last minute and what lay around missed
//! deadlines, up to their bounds, and nothing else that grows.

#![allow(clippy::unwrap_used)] // tests stop where something fails

#[path = "page/common.rs"]
#[allow(dead_code)]
mod common;
#[path = "../../benches/support/held_bytes.rs"]
mod held_bytes;

use std::time::Duration;

use betz_monitor::{Monitor, Options, Source};
use betz_runtime::stream::{Session, SessionConfig};
use common::{KNOWN, Socket, bytes, decoder, get, until};

const MIB: usize = 1 << 20;

/// Value of a metric of the page's server.
fn metric(monitor: &Monitor, name: &str) -> usize {
    let text = get(monitor, "/metrics", "Authorization: Bearer TOKEN\r\n");
    let line = text.lines().find_map(|l| l.strip_prefix(name)).unwrap();
    line.trim().parse().unwrap()
}

/// Steps of 1 ms until the session has taken `total`, of which every one misses its deadline; pages come and go.
fn run(monitor: &Monitor, session: &mut Session, total: usize) {
    let mut taken = metric(monitor, "betz_steps_total ");
    while taken < total {
        // One page that draws, and one that stalls.
        let (mut page, _stalled) = (Socket::open(monitor), Socket::open(monitor));
        for _ in 0..10_000 {
            session.step_spikes(&[1, 3], &mut [0.0]).unwrap();
        }
        taken += 10_000;
        until("the hub has taken the steps", || {
            metric(monitor, "betz_steps_total ") == taken
        });
        assert!(get(monitor, "/api/state", KNOWN).starts_with("HTTP/1.1 200"));
        let last = format!("/api/spikes?from={}&to={taken}", taken - 1_000);
        assert!(bytes(monitor, &last).is_some());
        let part = taken as f64 / 1_000.0;
        let part = format!("/api/range?from={}&to={part}", part - 1.0);
        assert!(get(monitor, &part, KNOWN).starts_with("HTTP/1.1 200"));
        page.message();
        page.drawn(1);
    }
    assert_eq!(metric(monitor, "betz_monitor_steps_not_shown_total "), 0);
}

/// Bytes that are held besides the frames of the last minute and those around missed deadlines. Frames that two of
/// these share are subtracted twice.
fn besides(monitor: &Monitor) -> isize {
    let history = metric(monitor, "betz_monitor_history_bytes ");
    let moments = metric(monitor, "betz_monitor_moments_bytes ");
    assert!(history < 256 * MIB && moments < 64 * MIB + MIB);
    held_bytes::held() as isize - (history + moments) as isize
}

/// The only test of this file, so nothing else allocates meanwhile.
#[test]
fn a_long_session_holds_the_last_minute_and_what_lay_around_misses_and_no_more() {
    let model = decoder(0.05);
    let mut session = Session::open(&model, SessionConfig::default()).unwrap();
    let source = Source {
        deadline: Some(Duration::from_nanos(1)),
        ..Source::of("a test", &model)
    };
    let (monitor, feed) = Monitor::start(source, Options::default()).unwrap();
    session.attach(Box::new(feed), 0).unwrap();

    // Until the bound is reached, and half as long again.
    run(&monitor, &mut session, 3_000_000);
    let (before, kept) = (
        besides(&monitor),
        metric(&monitor, "betz_monitor_moments_bytes "),
    );
    run(&monitor, &mut session, 4_500_000);
    let after = besides(&monitor);
    println!("besides {before} to {after} bytes; around misses {kept} bytes");
    assert!(
        kept > 63 * MIB,
        "the bound was not reached: {kept} bytes around misses"
    );
    assert!(
        (after - before).unsigned_abs() < MIB,
        "{before} bytes after 3,000 s, {after} after 4,500 s"
    );
}
