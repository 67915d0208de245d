//! Addresses of rigs.

use super::*;
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
            "channels=N: expected with group=spikes",
        ),
        (
            "cerebus://127.0.0.1:0?version=5",
            "expected 3.11, 4.0 or 4.1, got 5",
        ),
        ("pipe:-", "channels=N&rate=HZ: expected both"),
        ("pipe:-?channels=4", "got no rate"),
        (
            "pipe:/nowhere/at/all?channels=4&rate=1000",
            "opening /nowhere/at/all",
        ),
        (
            "rhx://127.0.0.1:1?blocks=0",
            "blocks: expected 1 to 1000, got 0",
        ),
        (
            "rhx://127.0.0.1:1?waveforms=70000",
            "waveforms: expected a port, got 70000",
        ),
        ("rhx://127.0.0.1:1?enable=A-1", "got \"A-1\""),
        ("openephys://127.0.0.1:1", "channels=N: expected a number"),
        (
            "openephys://127.0.0.1:1?channels=4&group=spikes",
            "rate=HZ: expected a number",
        ),
        (
            "synapse://127.0.0.1:1?group=raw",
            "group: expected voltage or spikes, got raw",
        ),
        (
            "synapse://127.0.0.1:1?offset=4294967296",
            "offset: expected a smaller number",
        ),
        ("synapse://127.0.0.1:1?probe=127.0.0.1:x", "127.0.0.1:x"),
        ("lsl://volts?group=raw", "got \"group=raw\""),
        (
            "lsl://volts?rate=0",
            "rate: expected a number above 0, got 0",
        ),
        (
            "spikeglx://127.0.0.1:1?ip=-1",
            "ip: expected a whole number, got -1",
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

#[cfg(target_os = "linux")]
#[test]
fn opening_a_fifo_that_nobody_writes_to_does_not_wait() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let fifo = folder.path().join("rows");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status()?;
    assert!(made.success());
    let mut rig = open_rig(&format!("pipe:{}?channels=8&rate=1000", fifo.display()))?;
    let mut block = Block::new();
    assert_eq!(
        rig.take(&mut block, std::time::Duration::ZERO)?,
        Arrival::Nothing
    );
    std::fs::write(&fifo, [1, 0].repeat(8))?;
    while rig.take(&mut block, super::PATIENCE)? == Arrival::Nothing {}
    assert_eq!(block.samples, Samples::Voltage(vec![1; 8]));
    Ok(())
}
