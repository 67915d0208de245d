//! `betz`.

use std::process::ExitCode;

fn main() -> ExitCode {
    betz_cli::main()
}
