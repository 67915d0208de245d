//! `betz` without sessions, devices, the laboratory and the page: `cargo run --release -- demo` builds this program in half the time.

use std::process::ExitCode;

fn main() -> ExitCode {
    betz_cli::main()
}
