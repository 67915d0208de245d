//! Memory that a session takes, counted.

#![allow(clippy::unwrap_used)] // tests stop where something fails

mod common;
#[path = "../../../../benches/support/held_bytes.rs"]
mod held_bytes;

use betz_runtime::stream::{Session, SessionConfig};
use common::{decoder, rng};

/// The only test of this file, so nothing else allocates meanwhile.
#[test]
fn a_session_of_1024_channels_and_eight_filters_takes_less_than_1_mb() {
    let bank: Vec<(f64, u32)> = (0..8).map(|f| (0.02 * f64::from(f + 1), 1)).collect();
    let decoder = decoder(&mut rng(0), 1024, 2, &bank, None);
    let before = held_bytes::held();
    let session = Session::open(&decoder, SessionConfig::default()).unwrap();
    let held = held_bytes::held() - before;
    println!("{held} bytes");
    assert!((100_000..1_000_000).contains(&held), "{held} bytes");
    drop(session);
    assert!(held_bytes::held() < before + 10_000);
}
