//! `betz run --keep`: a process that starts the session's process again if that is killed.

use std::collections::VecDeque;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use betz::{Error, ErrorKind, Progress, Result};

use crate::report::{self, UntilInterrupted};

/// Restarts that are made within [`WITHIN`].
const MOST: usize = 5;
const WITHIN: Duration = Duration::from_secs(60);
/// Time between two looks at the session's process.
const LOOK: Duration = Duration::from_millis(5);
/// Exit code of a process that has panicked.
const PANICKED: i32 = 101;

/// Runs the session in a process of its own until it ends as asked, or fails by an error that it tells.
///
/// # Errors
/// `Io` if the process cannot be started; `Internal` if it was killed too often. The errors of the session are its own: this
/// process ends with the same exit code.
pub(super) fn run() -> Result<()> {
    let started = Instant::now();
    let mut restarts: VecDeque<Instant> = VecDeque::new();
    loop {
        let mut session = start(started.elapsed())?;
        let status = wait(&mut session)?;
        if !was_killed(status) || UntilInterrupted.cancelled() {
            report::pass_on(status.code());
            return Ok(());
        }
        let now = Instant::now();
        restarts.retain(|at| now.duration_since(*at) < WITHIN);
        if restarts.len() == MOST {
            return Err(Error::new(
                ErrorKind::Internal,
                format!(
                    "the session ended by itself ({status}) for the {}th time in a minute; its recording is kept, and `betz run --keep` goes on with it",
                    MOST + 1
                ),
            ));
        }
        restarts.push_back(now);
        eprintln!("the session ended by itself ({status}); it is started again");
    }
}

/// Starts this command again as the session; `passed` is the time since the first start.
fn start(passed: Duration) -> Result<Child> {
    let program = std::env::current_exe()
        .map_err(|e| Error::new(ErrorKind::Io, format!("finding this program: {e}")))?;
    let mut command = Command::new(&program);
    command
        .args(std::env::args_os().skip(1))
        .arg("--kept")
        .arg(passed.as_secs_f64().to_string());
    command
        .spawn()
        .map_err(|e| Error::io("starting", &program, &e))
}

/// Waits for the end of the session; a request to end is passed on.
fn wait(session: &mut Child) -> Result<ExitStatus> {
    let mut told = false;
    loop {
        let ended = session
            .try_wait()
            .map_err(|e| Error::new(ErrorKind::Io, format!("waiting for the session: {e}")))?;
        if let Some(status) = ended {
            return Ok(status);
        }
        if !told && report::is_terminated() {
            end(session);
            told = true;
        }
        std::thread::sleep(LOOK);
    }
}

/// Asks the session to end as asked. Ctrl-C reaches it by itself.
#[cfg(unix)]
fn end(session: &Child) {
    if let Some(id) = rustix::process::Pid::from_raw(session.id().cast_signed()) {
        // One that has just ended needs no signal.
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
}

#[cfg(not(unix))]
fn end(_: &Child) {}

/// True if the process was ended by a signal or a panic, and not by its own decision.
fn was_killed(status: ExitStatus) -> bool {
    status.code().is_none_or(|code| code == PANICKED)
}
