//! Control of a running session over a local socket: `betz run --ctl FILE` serves it, `betz ctl FILE …` uses it.
//!
//! The file has the socket's address and a token, and only its owner can read it. A request is one line of JSON with the
//! token, and so is its answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use betz::model::Decoder;
use betz::{Error, ErrorKind, Result};
use betz_live::{Live, PreparedSwap, Trial};
use betz_monitor::Token;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Longest request in bytes.
const LONGEST: u64 = 1 << 16;
/// Requests that may wait.
const ROOM: usize = 64;
/// Time for which a connection may be silent, and an answer be waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for which the end of a session waits until it is confirmed.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// Something that a session is asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Add a text at the open step.
    Mark { text: String },
    /// Begin, end or reject a trial.
    Trial { what: TrialWord },
    /// Add the true outputs of a step, or of the open one.
    Label { step: Option<u64>, values: Vec<f32> },
    /// Give the session the model that waits.
    Accept,
    /// Return to the model before the last swap.
    RollBack,
    /// Give the session the model in a file.
    Swap { model: PathBuf },
    /// Tell the counts.
    Health,
    /// End the session as asked.
    Stop,
}

/// Bound of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TrialWord {
    /// A trial begins
    Begin,
    /// A trial ends
    End,
    /// A trial ends and is not to be learned from
    Reject,
}

/// A request on the wire.
#[derive(Serialize, Deserialize)]
struct Request {
    token: String,
    #[serde(flatten)]
    order: Order,
}

/// Address and token in the file.
#[derive(Serialize, Deserialize)]
struct Place {
    address: String,
    token: String,
}

/// An order on its way to the session, and the way of the answer.
struct QueuedOrder {
    order: Order,
    answer: SyncSender<Value>,
    /// Disconnected once the answer is written.
    written: Receiver<()>,
}

/// The session's end.
pub(super) struct Control {
    orders: Receiver<QueuedOrder>,
    file: PathBuf,
    /// True once the session is to end.
    pub(super) stops: bool,
}

impl Control {
    /// Serves the control of a session, and writes its place to `file`.
    ///
    /// # Errors
    /// `Io` if no socket can be bound or the file not be written.
    pub(super) fn serve(file: &Path) -> Result<Self> {
        let io = |e: std::io::Error| Error::new(ErrorKind::Io, format!("--ctl: {e}"));
        let listener = TcpListener::bind("127.0.0.1:0").map_err(io)?;
        let token = Token::new()?;
        let place = Place {
            address: listener.local_addr().map_err(io)?.to_string(),
            token: token.as_str().to_owned(),
        };
        let text = serde_json::to_vec(&place)
            .map_err(|e| Error::new(ErrorKind::Internal, format!("--ctl: {e}")))?;
        write_private(file, &text).map_err(|e| Error::io("writing", file, &e))?;
        let (send, orders) = sync_channel(ROOM);
        std::thread::Builder::new()
            .name("betz-control".into())
            .spawn(move || {
                // The thread ends with the process: nothing else waits for it.
                for stream in listener.incoming().flatten() {
                    let (send, token) = (send.clone(), token.clone());
                    let _ = std::thread::Builder::new()
                        .name("betz-control".into())
                        .spawn(move || answer(&stream, &token, &send));
                }
            })
            .map_err(io)?;
        Ok(Self {
            orders,
            file: file.to_owned(),
            stops: false,
        })
    }

    /// Carries out what was asked since the last call.
    pub(super) fn carry_out(&mut self, live: &mut Live) {
        while let Ok(queued) = self.orders.try_recv() {
            let stops = queued.order == Order::Stop;
            let told = match carry_out(live, &queued.order) {
                Ok(value) => json!({"ok": true, "told": value}),
                Err(error) => json!({"ok": false, "error": error.message()}),
            };
            // Whoever asked may have gone.
            let _ = queued.answer.try_send(told);
            if stops {
                self.stops = true;
                // The process ends next, and the answer's thread with it.
                let _ = queued.written.recv_timeout(LAST_ANSWER);
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = std::fs::remove_file(&self.file);
    }
}

fn write_private(file: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(text)
}

/// Reads the requests of a connection, and answers them one after another.
fn answer(stream: &TcpStream, token: &Token, send: &SyncSender<QueuedOrder>) {
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = String::new();
        match lines.by_ref().take(LONGEST).read_line(&mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let (writing, written) = sync_channel(0);
        let told = ask(&line, token, send, written);
        let mut to = stream;
        if to.write_all(format!("{told}\n").as_bytes()).is_err() {
            return;
        }
        drop(writing);
    }
}

fn ask(line: &str, token: &Token, send: &SyncSender<QueuedOrder>, written: Receiver<()>) -> Value {
    let refused = |error: String| json!({"ok": false, "error": error});
    let request: Request = match serde_json::from_str(line) {
        Ok(request) => request,
        Err(e) => {
            return refused(format!(
                "expected a request in a line of JSON, got one that is none: {e}"
            ));
        }
    };
    if !token.is(&request.token) {
        return refused("expected the token of the session's file, got another".into());
    }
    let (answer, told) = sync_channel(1);
    let queued = QueuedOrder {
        order: request.order,
        answer,
        written,
    };
    if send.try_send(queued).is_err() {
        return refused(format!(
            "expected at most {ROOM} requests at once, got more, or a session that has ended"
        ));
    }
    told.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        refused("expected an answer of the session, got none in ten seconds".into())
    })
}

fn carry_out(live: &mut Live, order: &Order) -> Result<Value> {
    match order {
        Order::Mark { text } => live.mark(text),
        Order::Trial { what } => live.trial(match what {
            TrialWord::Begin => Trial::Begin,
            TrialWord::End => Trial::End,
            TrialWord::Reject => Trial::Reject,
        }),
        Order::Label { step, values } => {
            let outputs = live.model().outputs().len();
            if values.len() != outputs {
                return Err(Error::mismatch(format!(
                    "label: expected {outputs} values, one per output, got {}",
                    values.len()
                )));
            }
            live.label(step.unwrap_or(live.open_step()), values);
        }
        Order::Accept => {
            if !live.accept()? {
                return Err(Error::argument(
                    "accept: expected a model that waits, got none",
                ));
            }
        }
        Order::RollBack => live.roll_back()?,
        Order::Swap { model } => {
            let folder = live.folder().map(Path::to_owned);
            let swap = PreparedSwap::new(&Decoder::load(model)?, folder.as_deref())?;
            live.swap_prepared(&swap)?;
        }
        Order::Health => {
            return Ok(json!({
                "step": live.open_step(),
                "report": live.report(),
                "sources": live.sources(),
                "sinks": live.sink_health(),
                "label_r2": live.label_r2(),
                "folder": live.folder(),
            }));
        }
        Order::Stop => {}
    }
    Ok(json!({"step": live.open_step()}))
}

/// Sends an order to the session whose place is in `file`; what it tells.
///
/// # Errors
/// `Io` if the session cannot be reached; `InvalidArgument` with its own words for what it refuses.
pub(crate) fn send(file: &Path, order: Order) -> Result<Value> {
    let text = std::fs::read(file).map_err(|e| Error::io("reading", file, &e))?;
    let place: Place = serde_json::from_slice(&text).map_err(|e| {
        Error::argument(format!(
            "{}: expected a file that `betz run --ctl` wrote, got another: {e}",
            file.display()
        ))
    })?;
    let gone = |e: &dyn std::fmt::Display| {
        Error::new(
            ErrorKind::Io,
            format!(
                "{}: expected a session that runs, got none at {}: {e}",
                file.display(),
                place.address
            ),
        )
    };
    let stream = TcpStream::connect(&place.address).map_err(|e| gone(&e))?;
    stream
        .set_read_timeout(Some(2 * PATIENCE))
        .map_err(|e| gone(&e))?;
    let request = Request {
        token: place.token.clone(),
        order,
    };
    let line = serde_json::to_string(&request)
        .map_err(|e| Error::new(ErrorKind::Internal, format!("ctl: {e}")))?;
    writeln!(&stream, "{line}").map_err(|e| gone(&e))?;
    let mut told = String::new();
    BufReader::new(&stream)
        .read_line(&mut told)
        .map_err(|e| gone(&e))?;
    let told: Value = serde_json::from_str(&told).map_err(|e| gone(&e))?;
    match told["ok"].as_bool() {
        Some(true) => Ok(told["told"].clone()),
        _ => Err(Error::argument(
            told["error"]
                .as_str()
                .unwrap_or("expected an answer, got none"),
        )),
    }
}
