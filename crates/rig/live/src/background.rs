//! A session on a thread of its own, for programs that do something else beside it.

use betz_base::lock::lock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{JoinHandle, Thread};

use betz_base::{Error, ErrorKind, Result};
use betz_rigs::rig::Rig;
use betz_runtime::model::Decoder;
use serde::Serialize;

use crate::board::{Board, OutputReader, StepOutput};
use crate::health::{SessionReport, SourceHealth};
use crate::live::{Live, Trial, Until, unheard};
use crate::pipeline::Step;
use crate::plan::Plan;
use crate::push::{PUSH, Pusher, push_source};
use crate::simulated::{Pace, Part, Simulation, SimulationOptions};
use crate::source::open_rig;
use crate::swap::PreparedSwap;

/// Address of a simulated rig.
const SIMULATED: &str = "simulated";
/// Requests that may wait for the loop.
const ROOM: usize = 1024;

/// Phase of a session in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The source and the sinks are open, and nothing is decoded yet.
    #[default]
    Open,
    /// The loop decodes, or waits for the source.
    Running,
    /// The session is over.
    Ended,
}

/// Counts and state of a session in the background.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct BackgroundHealth {
    /// Phase of the session.
    pub phase: Phase,
    /// Counts and latencies.
    #[serde(flatten)]
    pub report: SessionReport,
    /// Losses, clock and silence of each source.
    pub sources: Vec<SourceHealth>,
    /// Folder of the recording, if there is one.
    pub folder: Option<PathBuf>,
    /// Limits of the plan that are crossed, in words.
    pub crossed: Vec<String>,
}

/// Receiver of steps on the session's own thread; it must not wait.
pub type OnStep = Box<dyn FnMut(&Step<'_>) + Send>;

/// A wish of another thread, for the loop to carry out between two steps.
enum Request {
    Label(Option<u64>, Vec<f32>),
    Mark(String),
    Trial(Trial),
    Swap(Arc<PreparedSwap>, SyncSender<Result<()>>),
    RollBack(SyncSender<Result<()>>),
    Accept(SyncSender<Result<bool>>),
    Health(SyncSender<BackgroundHealth>),
}

/// State that the session's thread and the others use.
struct ThreadState {
    stop: AtomicBool,
    /// True while a request may wait.
    asked: AtomicBool,
    /// Folder of the recording, once it has begun.
    folder: OnceLock<PathBuf>,
    board: Arc<Board>,
    state: Mutex<State>,
}

enum State {
    Open(Box<Live>, Receiver<Request>),
    /// The session's thread, to wake it.
    Running(Thread),
    Ended(Box<BackgroundHealth>, Result<()>),
}

/// A session on a thread of its own. Every call but [`BackgroundSession::stop`] returns without waiting for a step.
///
/// The source `from = "push"` takes its rows from [`BackgroundSession::pusher`]; `from = "simulated"` is a simulated
/// rig in real time.
pub struct BackgroundSession {
    shared: Arc<ThreadState>,
    requests: SyncSender<Request>,
    /// Locked while somebody waits for its end.
    thread: Mutex<Option<JoinHandle<()>>>,
    pusher: Option<Pusher>,
    on_step: Mutex<Option<OnStep>>,
    outputs: Vec<String>,
    name: String,
    step_seconds: f64,
    records: bool,
}

impl BackgroundSession {
    /// Opens the source and the sinks of a plan.
    ///
    /// # Errors
    /// As [`Live::open`].
    pub fn open(plan: Plan) -> Result<Self> {
        let model = plan.load_model()?;
        let mut pusher = None;
        let mut rigs = Vec::new();
        match plan.source().from.as_str() {
            PUSH => {
                let (end, rig) = push_source(&plan, &model)?;
                pusher = Some(end);
                rigs.push(Box::new(rig) as Box<dyn Rig>);
            }
            SIMULATED => {
                let mut options = SimulationOptions::default();
                options.channels = plan.source().channels.unwrap_or(options.channels);
                let rig = Simulation::new(&options)?.rig(Part::Run, Pace::RealTime);
                rigs.push(Box::new(rig));
            }
            _ => {}
        }
        for source in rigs.len()..plan.source.len() {
            rigs.push(open_rig(&plan, &model, source)?);
        }
        Self::with_rigs(plan, model, rigs, pusher)
    }

    /// As [`BackgroundSession::open`], with a model and the only source of the caller's.
    ///
    /// # Errors
    /// As [`Live::with_rigs`].
    pub fn with_rig(
        plan: Plan,
        model: Decoder,
        rig: Box<dyn Rig>,
        pusher: Option<Pusher>,
    ) -> Result<Self> {
        Self::with_rigs(plan, model, vec![rig], pusher)
    }

    fn with_rigs(
        plan: Plan,
        model: Decoder,
        rigs: Vec<Box<dyn Rig>>,
        pusher: Option<Pusher>,
    ) -> Result<Self> {
        let live = Live::with_rigs(plan, model, rigs)?;
        let outputs: Vec<String> = live
            .model()
            .outputs()
            .iter()
            .map(|o| o.name.clone())
            .collect();
        let (requests, taken) = sync_channel(ROOM);
        Ok(Self {
            name: live.plan().session.name.clone(),
            step_seconds: live.model().step_seconds(),
            records: live.plan().record.is_some(),
            shared: Arc::new(ThreadState {
                stop: AtomicBool::new(false),
                asked: AtomicBool::new(false),
                folder: OnceLock::new(),
                board: Arc::new(Board::new(outputs.len())),
                state: Mutex::new(State::Open(Box::new(live), taken)),
            }),
            thread: Mutex::new(None),
            requests,
            pusher,
            on_step: Mutex::new(None),
            outputs,
        })
    }

    /// Name of the session.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of the outputs.
    pub fn outputs(&self) -> &[String] {
        &self.outputs
    }

    /// Length of a step in seconds.
    pub fn step_seconds(&self) -> f64 {
        self.step_seconds
    }

    /// Calls `hear` with every step, on the session's thread after the outputs were sent. Before
    /// [`BackgroundSession::start`].
    pub fn on_step(&self, hear: OnStep) {
        *lock(&self.on_step) = Some(hear);
    }

    /// Starts the loop. Does nothing if it runs already.
    ///
    /// # Errors
    /// `InvalidArgument` after the end; `Io` if the system cannot start a thread.
    pub fn start(&self) -> Result<()> {
        let mut place = lock(&self.thread);
        let mut state = lock(&self.shared.state);
        let nobody = State::Running(std::thread::current());
        let (live, taken) = match std::mem::replace(&mut *state, nobody) {
            State::Open(live, taken) => (live, taken),
            State::Running(thread) => {
                *state = State::Running(thread);
                return Ok(());
            }
            ended @ State::Ended(..) => {
                *state = ended;
                return Err(Error::argument(
                    "start: expected a session that has not run, got one that has ended: open another",
                ));
            }
        };
        let (shared, hear) = (Arc::clone(&self.shared), lock(&self.on_step).take());
        let thread = std::thread::Builder::new()
            .name("betz-session".into())
            .spawn(move || run(*live, &shared, taken, hear))
            .map_err(|e| Error::new(ErrorKind::Io, format!("starting a thread: {e}")));
        match thread {
            Ok(thread) => {
                *state = State::Running(thread.thread().clone());
                *place = Some(thread);
                Ok(())
            }
            Err(error) => {
                *state = State::Ended(Box::default(), Err(error.clone()));
                Err(error)
            }
        }
    }

    /// The rows' way in, of a source with `from = "push"`.
    ///
    /// # Errors
    /// `InvalidArgument` for another source.
    pub fn pusher(&self) -> Result<&Pusher> {
        self.pusher.as_ref().ok_or_else(|| {
            Error::argument(
                "push: expected a plan whose source has from = \"push\", got another source",
            )
        })
    }

    /// Adds the true outputs of `step`, or of the step that is open.
    ///
    /// # Errors
    /// `Mismatch` for another number of values than outputs; `InvalidArgument` for values that are not finite, after
    /// the end, and if too many requests wait.
    pub fn label(&self, step: Option<u64>, values: &[f32]) -> Result<()> {
        if values.len() != self.outputs.len() {
            return Err(Error::mismatch(format!(
                "label: expected {} values, one per output of the model, got {}",
                self.outputs.len(),
                values.len()
            )));
        }
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            return Err(Error::argument(format!(
                "label: expected finite values, got {} for output {at}",
                values[at]
            )));
        }
        self.ask(Request::Label(step, values.to_vec()))
    }

    /// Adds a text at the open step.
    ///
    /// # Errors
    /// `InvalidArgument` after the end, and if too many requests wait.
    pub fn mark(&self, text: &str) -> Result<()> {
        self.ask(Request::Mark(text.into()))
    }

    /// Adds the begin or the end of a trial at the open step.
    ///
    /// # Errors
    /// As [`BackgroundSession::mark`].
    pub fn trial(&self, trial: Trial) -> Result<()> {
        self.ask(Request::Trial(trial))
    }

    /// Gives the session another model, of the same channels, outputs and step. Prepares and stores it on this thread,
    /// and waits for the loop to take it, no longer than a block takes.
    ///
    /// # Errors
    /// As [`Live::swap`] and [`BackgroundSession::mark`].
    pub fn swap(&self, model: &Decoder) -> Result<()> {
        self.refuse_own_thread("swap")?;
        let folder = self.shared.folder.get();
        if self.is_over() {
            return Err(ended());
        }
        if self.records && folder.is_none() {
            return Err(unheard("swap"));
        }
        // Kept until the answer, so that the loop frees no model that it refuses.
        let swap = Arc::new(PreparedSwap::new(model, folder.map(PathBuf::as_path))?);
        self.ask_for(|answer| Request::Swap(Arc::clone(&swap), answer))
    }

    /// Returns to the model before the last swap, at the next step and as if there had been none. Waits for the loop, no
    /// longer than a block takes.
    ///
    /// # Errors
    /// As [`Live::roll_back`] and [`BackgroundSession::mark`].
    pub fn roll_back(&self) -> Result<()> {
        self.refuse_own_thread("roll back")?;
        self.ask_for(Request::RollBack)
    }

    /// Gives the session the model that the online trainer proposes (`learn.mode = "propose"`), or that a window without labels
    /// suggests (`recalibrate.mode = "suggest"`); false if there is none. Waits for the loop, no longer than a block takes.
    ///
    /// # Errors
    /// As [`Live::accept`] and [`BackgroundSession::mark`].
    pub fn accept(&self) -> Result<bool> {
        self.refuse_own_thread("accept")?;
        self.ask_for(Request::Accept)
    }

    /// Sends a request to the loop, and waits for its answer.
    fn ask_for<T>(&self, request: impl FnOnce(SyncSender<Result<T>>) -> Request) -> Result<T> {
        let (answer, told) = sync_channel(1);
        self.ask(request(answer))?;
        told.recv().unwrap_or_else(|_| Err(ended()))
    }

    /// Sends a request to the loop, or carries it out if there is none yet.
    fn ask(&self, request: Request) -> Result<()> {
        let mut state = lock(&self.shared.state);
        let thread = match &mut *state {
            State::Open(live, _) => {
                carry_out(live, Phase::Open, request);
                return Ok(());
            }
            State::Ended(..) => return Err(ended()),
            State::Running(thread) => thread,
        };
        self.requests.try_send(request).map_err(|e| match e {
            TrySendError::Disconnected(_) => ended(),
            TrySendError::Full(_) => Error::argument(format!(
                "expected at most {ROOM} requests at once, got more: the session is behind, ask again"
            )),
        })?;
        self.shared.asked.store(true, Ordering::SeqCst);
        thread.unpark();
        Ok(())
    }

    /// Refuses a call of the session's own thread, which would wait for itself.
    fn refuse_own_thread(&self, call: &str) -> Result<()> {
        match &*lock(&self.shared.state) {
            State::Running(thread) if thread.id() == std::thread::current().id() => {
                Err(Error::argument(format!(
                    "{call}: expected another thread than the session's own, which hears the steps"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Counts and state so far. Waits for the loop to answer: no longer than a block takes.
    ///
    /// # Errors
    /// `InvalidArgument` if too many requests wait, and on the session's own thread.
    pub fn health(&self) -> Result<BackgroundHealth> {
        self.refuse_own_thread("health")?;
        let (answer, told) = sync_channel(1);
        match self.ask(Request::Health(answer)) {
            Ok(()) => {
                if let Ok(health) = told.recv() {
                    return Ok(health);
                }
            }
            Err(error) if !self.is_over() => return Err(error),
            Err(_) => {}
        }
        // It ended before it answered.
        self.join();
        match &*lock(&self.shared.state) {
            State::Ended(health, _) => Ok((**health).clone()),
            _ => Err(gone()),
        }
    }

    /// Waits for the end of the thread.
    fn join(&self) {
        if let Some(thread) = lock(&self.thread).take() {
            // Its panics are caught inside.
            let _ = thread.join();
        }
    }

    /// Copies the newest step to `out`; false before the first.
    pub fn newest(&self, out: &mut StepOutput) -> bool {
        self.shared.board.newest(out)
    }

    /// Reader of the outputs from now on, and of the newest ones that are kept (4096).
    pub fn reader(&self) -> OutputReader {
        OutputReader::new(Arc::clone(&self.shared.board))
    }

    /// True once the loop has ended by itself or was stopped.
    pub fn is_over(&self) -> bool {
        matches!(&*lock(&self.shared.state), State::Ended(..))
    }

    /// Ends the session: waits until its last step is made and its recording is whole. Returns the same again if it is
    /// called again.
    ///
    /// # Errors
    /// The error that ended the session before it was stopped; those of the recorder. `InvalidArgument` on the
    /// session's own thread.
    pub fn stop(&self) -> Result<BackgroundHealth> {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.refuse_own_thread("stop")?;
        {
            let mut state = lock(&self.shared.state);
            match &*state {
                State::Open(live, _) => {
                    let last = health(live, Phase::Ended);
                    *state = State::Ended(Box::new(last), Ok(()));
                    self.shared.board.end();
                }
                State::Running(thread) => thread.unpark(),
                State::Ended(..) => {}
            }
        }
        self.join();
        match &*lock(&self.shared.state) {
            State::Ended(health, Ok(())) => Ok((**health).clone()),
            State::Ended(_, Err(error)) => Err(error.clone()),
            _ => Err(gone()),
        }
    }
}

impl Drop for BackgroundSession {
    fn drop(&mut self) {
        // An error has no reader any more.
        let _ = self.stop();
    }
}

fn ended() -> Error {
    Error::argument("expected a session that runs, got one that has ended: open another")
}

fn gone() -> Error {
    Error::new(ErrorKind::Internal, "the session's thread is gone")
}

fn health(live: &Live, phase: Phase) -> BackgroundHealth {
    BackgroundHealth {
        phase,
        report: live.report(),
        sources: live.sources(),
        folder: live.folder().map(Into::into),
        crossed: live.crossed(),
    }
}

fn carry_out(live: &mut Live, phase: Phase, request: Request) {
    match request {
        Request::Label(step, values) => {
            let step = step.unwrap_or_else(|| live.open_step());
            live.label(step, &values);
        }
        Request::Mark(text) => live.mark(&text),
        Request::Trial(trial) => live.trial(trial),
        Request::Swap(swap, answer) => {
            let done = live.swap_prepared(&swap);
            // Before the answer, so that a refused model is freed by whoever asked.
            drop(swap);
            // Whoever asked may have gone.
            let _ = answer.try_send(done);
        }
        Request::RollBack(answer) => {
            // Whoever asked may have gone.
            let _ = answer.try_send(live.roll_back());
        }
        Request::Accept(answer) => {
            // Whoever asked may have gone.
            let _ = answer.try_send(live.accept());
        }
        Request::Health(answer) => {
            // Whoever asked may have gone.
            let _ = answer.try_send(health(live, phase));
        }
    }
}

/// The thread of a session: decodes until it is stopped, or until the source ends.
fn run(
    mut live: Live,
    shared: &ThreadState,
    requests: Receiver<Request>,
    mut hear: Option<OnStep>,
) {
    let panicked = |_| {
        let message = "a panic inside Betz: a bug, please report it";
        Err(Error::new(ErrorKind::Internal, message))
    };
    let decoded = AssertUnwindSafe(|| decode(&mut live, shared, &requests, &mut hear));
    let decoded = catch_unwind(decoded).unwrap_or_else(panicked);
    // A session that failed has no end in its recording.
    let ended = AssertUnwindSafe(|| {
        // However it ended, no command stands.
        let rested = live.rest_outputs(&mut |_| Ok(()));
        let result = decoded.and_then(|()| live.stop().map(drop)).and(rested);
        (health(&live, Phase::Ended), result)
    });
    let (last, result) =
        catch_unwind(ended).unwrap_or_else(|e| (BackgroundHealth::default(), panicked(e)));
    drop(live);
    *lock(&shared.state) = State::Ended(Box::new(last), result);
    // Those whose requests were not answered learn that nobody will.
    drop(requests);
    // Only now: whoever has read the last step finds the recording whole.
    shared.board.end();
}

fn decode(
    live: &mut Live,
    shared: &ThreadState,
    requests: &Receiver<Request>,
    hear: &mut Option<OnStep>,
) -> Result<()> {
    let (stop, asked) = (&shared.stop, &shared.asked);
    let until = Until {
        steps: None,
        stop: &|| stop.load(Ordering::Relaxed) || asked.load(Ordering::Relaxed),
    };
    loop {
        if live.wait(&until)?
            && let Some(folder) = live.folder()
        {
            // Before the first step is shown: whoever has seen one may swap.
            shared.folder.get_or_init(|| folder.into());
        }
        live.run(&until, &mut |step| {
            shared.board.put(step);
            if let Some(hear) = hear {
                hear(step);
            }
            Ok(())
        })?;
        let was_asked = asked.swap(false, Ordering::SeqCst);
        while let Ok(request) = requests.try_recv() {
            carry_out(live, Phase::Running, request);
        }
        if stop.load(Ordering::SeqCst) || !was_asked {
            return Ok(());
        }
    }
}
