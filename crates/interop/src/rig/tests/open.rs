//! Addresses of rigs.

use crate::rig::{RigOptions, open_rig};

#[test]
fn refused_addresses_name_what_was_expected_and_found() {
    let cases = [
        ("rig", "begins with one of udp://, cerebus://"),
        ("tcp://127.0.0.1:1", "got tcp://"),
        ("udp://127.0.0.1", "expected HOST:PORT, got"),
        (
            "udp://127.0.0.1:0?channels=0",
            "channels: expected a number above 0, got 0",
        ),
        (
            "udp://127.0.0.1:0?channels=x",
            "channels: expected a whole number, got x",
        ),
        (
            "udp://127.0.0.1:0?rate=nan",
            "rate: expected a number above 0, got nan",
        ),
        ("udp://127.0.0.1:0?group=raw", "got \"group=raw\""),
        (
            "cerebus://127.0.0.1:0?group=9",
            "expected raw, spikes or 1 to 6, got 9",
        ),
        (
            "cerebus://127.0.0.1:0?group=spikes",
            "expected channels=N with group=spikes",
        ),
        (
            "cerebus://127.0.0.1:0?version=5",
            "expected 3.11, 4.0 or 4.1, got 5",
        ),
        ("pipe:-", "expected ?channels=N&rate=HZ"),
        ("pipe:-?channels=4", "got no rate"),
        (
            "pipe:/nowhere/at/all?channels=4&rate=1000",
            "opening /nowhere/at/all",
        ),
        ("shm:///a/b", "expected a name without /"),
        (
            "shm:///betz-nothing-of-that-name",
            "shared memory /betz-nothing",
        ),
    ];
    for (address, expected) in cases {
        let error = open_rig(address)
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default();
        assert!(error.contains(expected), "{address}: {error}");
    }
}

#[test]
fn facts_of_the_address_go_before_the_others() -> betz_base::Result<()> {
    let options = RigOptions {
        channels: Some(8),
        rate: Some(1000.0),
        ..RigOptions::default()
    };
    let signal = |address| Ok::<_, betz_base::Error>(options.open(address)?.signal());
    let facts = |s: Option<crate::rig::Signal>| s.map(|s| (s.channels, s.rate, s.microvolts));
    assert_eq!(facts(signal("pipe:/dev/null")?), Some((8, 1000.0, None)));
    let given = signal("pipe:/dev/null?channels=3&microvolts=0.25")?;
    assert_eq!(facts(given), Some((3, 1000.0, Some(0.25))));
    open_rig("udp://127.0.0.1:0?channels=4&buffer=65536&spin=10")?;
    open_rig("cerebus://127.0.0.1:0?group=5&version=4.2")?;
    Ok(())
}
