//! `betz`: train, evaluate and stream decoders, mine episodes, simulate recordings.
//!
//! The command line as a library, for its own programs: `betz` and `betz-mpi`, which adds [`cluster`] to a team.
//!
//! Results go to standard output (`--json`: one object), progress and notes to standard error.
//! Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a session's limit crossed, 130 interrupted.

// Helpers of several floors stand in one place; a build with fewer floors does not call them all.
#![cfg_attr(
    not(all(feature = "lab", feature = "page", feature = "rig")),
    allow(dead_code, unreachable_pub)
)]

mod args;
mod bank;
#[cfg(feature = "page")]
mod browser;
mod chart;
mod chunks;
#[cfg(feature = "lab")]
pub mod cluster;
mod clusterless;
mod commands;
mod common_args;
#[cfg(windows)]
#[allow(unsafe_code)] // console.rs calls Windows directly
mod console;
mod data;
mod decoded;
mod device;
mod files;
mod front_end;
mod labels;
#[cfg(feature = "page")]
mod network_database;
#[cfg(feature = "page")]
mod page;
mod parse;
mod picture;
mod rates;
mod replay;
mod report;
#[cfg(feature = "rig")]
mod session;
mod step;
#[cfg(feature = "rig")]
mod unlike;
mod usage;

use std::process::ExitCode;

use clap::Parser;

/// The program `betz`.
pub fn main() -> ExitCode {
    begin();
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::refuse(&error),
    };
    match cli.run() {
        Ok(()) => report::exit_code(),
        Err(error) => {
            eprintln!("betz: {}: {error}", error.kind());
            if let Some(way_out) = clusterless::way_out(&error) {
                eprintln!("betz: {way_out}");
            }
            ExitCode::from(exit_code(&error))
        }
    }
}

/// The command line's description, of which manual pages and completions are made.
pub fn command() -> clap::Command {
    <args::Cli as clap::CommandFactory>::command()
}

/// Starts the clock and the threads.
fn begin() {
    report::start_clock();
    survive_file_limit();
    threads();
}

/// Makes a write beyond the limit of a file's size (`ulimit -f`) an error of that write: without a handler the system
/// ends the process, without a word and with its temporary file left behind.
#[cfg(unix)]
fn survive_file_limit() {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    let heard = Arc::new(AtomicBool::new(false));
    if let Err(e) = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, heard) {
        eprintln!("betz: a file-size limit will end this command without a message: {e}");
    }
}

#[cfg(not(unix))]
fn survive_file_limit() {}

/// 2 for wrong usage, 130 for an interrupt, 1 for every other failure.
fn exit_code(error: &betz::Error) -> u8 {
    match error.kind() {
        betz::ErrorKind::InvalidArgument => 2,
        betz::ErrorKind::Interrupted => 130,
        _ => 1,
    }
}

/// Addresses that the allocator takes for a thread, and for what else there is.
const ADDRESSES_OF_A_THREAD: u64 = 160 << 20;

/// Starts the threads that work is spread over: as many as the system gives and a limit of addresses
/// leaves room for, else the main thread alone. (The allocator reserves 64 MB of addresses for a thread, up
/// to 128 MB for a moment; where it cannot, every small allocation takes a page of its own.)
fn threads() {
    let wanted = std::env::var("RAYON_NUM_THREADS").ok();
    let wanted = wanted.and_then(|n| n.parse().ok()).filter(|&n| n > 0);
    let system = || std::thread::available_parallelism().map_or(1, usize::from);
    let wanted: usize = wanted.unwrap_or_else(system);
    let room = match betz::memory::addresses() {
        Some(left) => ((left / ADDRESSES_OF_A_THREAD) as usize).saturating_sub(1),
        None => wanted,
    };
    let all = match room {
        0 | 1 => None,
        room => (rayon::ThreadPoolBuilder::new().num_threads(room.min(wanted)))
            .build_global()
            .ok(),
    };
    if all.is_none() {
        let one = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .use_current_thread();
        if let Err(e) = one.build_global() {
            eprintln!("betz: no threads to work in: {e}");
        }
    }
}
