//! `betz run --keep`: a process that starts the session's process again if that is killed.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use betz::{Error, ErrorKind, Progress, Result};
use betz_monitor::Token;

use crate::page::SessionPage;
use crate::report::{self, UntilInterrupted};

/// Restarts that are made within [`WITHIN`].
const MOST: usize = 5;
const WITHIN: Duration = Duration::from_secs(60);
/// Time between two looks at the session's process.
const LOOK: Duration = Duration::from_millis(5);
/// Exit code of a process that has panicked.
const PANICKED: i32 = 101;

/// Variables of the environment that tell the session's process where its page is.
const PORT: &str = "BETZ_KEPT_PORT";
const TOKEN: &str = "BETZ_KEPT_TOKEN";

/// Address of the page of a session that is kept: the same in each of its processes.
pub(super) struct KeptPage {
    pub(super) port: u16,
    pub(super) token: Token,
}

impl KeptPage {
    /// A page at the port that was asked for, or a free one.
    ///
    /// # Errors
    /// `Io` if no port is free.
    fn new(page: &SessionPage) -> Result<Self> {
        let free = || {
            let listener = TcpListener::bind((page.host, 0))?;
            listener.local_addr().map(|address| address.port())
        };
        let port = match page.port {
            0 => free().map_err(|e| {
                Error::new(
                    ErrorKind::Io,
                    format!("finding a free port of {}: {e}", page.host),
                )
            })?,
            port => port,
        };
        let token = Token::new()?;
        Ok(Self { port, token })
    }

    /// The page that the process which started this one has chosen, if there is one.
    ///
    /// # Errors
    /// `InvalidArgument` for other values than this program sets.
    pub(super) fn of_environment() -> Result<Option<Self>> {
        let (Ok(port), Ok(token)) = (std::env::var(PORT), std::env::var(TOKEN)) else {
            return Ok(None);
        };
        let port = port
            .parse()
            .map_err(|e| Error::argument(format!("{PORT}: expected a port, got {port:?}: {e}")))?;
        let token = Token::from_text(&token)?;
        Ok(Some(Self { port, token }))
    }
}

/// Runs the session in a process of its own until it ends as asked or reports an error.
///
/// # Errors
/// `Io` if the process cannot be started; `Internal` if it was killed too often. The errors of the session are its own: this
/// process ends with the same exit code.
pub(super) fn run(page: &SessionPage) -> Result<()> {
    let page = page.shown.then(|| KeptPage::new(page)).transpose()?;
    let started = Instant::now();
    let mut is_first = true;
    let mut restarts: VecDeque<Instant> = VecDeque::new();
    loop {
        let passed = match std::mem::take(&mut is_first) {
            true => Duration::ZERO,
            false => started.elapsed(),
        };
        let mut session = start(passed, page.as_ref())?;
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
fn start(passed: Duration, page: Option<&KeptPage>) -> Result<Child> {
    let program = std::env::current_exe()
        .map_err(|e| Error::new(ErrorKind::Io, format!("finding this program: {e}")))?;
    let mut command = Command::new(&program);
    command
        .args(std::env::args_os().skip(1))
        .arg("--kept")
        .arg(passed.as_secs_f64().to_string());
    if let Some(page) = page {
        // Other users can read arguments, and no environment.
        command.env(PORT, page.port.to_string());
        command.env(TOKEN, page.token.as_str());
    }
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

/// The end of a console of Windows reaches the session by itself.
#[cfg(not(unix))]
fn end(_: &Child) {}

/// True if the process was ended by a signal or a panic, and not by its own decision.
fn was_killed(status: ExitStatus) -> bool {
    status.code().is_none_or(|code| code == PANICKED)
}
