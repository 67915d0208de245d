//! State of a session that the hub writes and the server reads.

use betz_base::error::Result;
use betz_runtime::stream::SwapState;
use serde_json::Value;

use crate::frame::Counters;
use crate::history::{History, Moments};
use crate::labels::LabelHistory;
use crate::latency::LatencyHistory;
use crate::session_history::{ClosedSecond, SessionHistory};
use crate::source::Source;
use crate::verdict::{Judge, Level};

/// Bounds of the latency histogram of `/metrics`, in nanoseconds.
pub(crate) const BOUNDS_NS: [u32; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];
/// State shared by the hub and the server; the session never touches it.
#[derive(Debug)]
pub(crate) struct HubState {
    pub(crate) history: History,
    pub(crate) moments: Moments,
    pub(crate) totals: Counters,
    /// Histograms of the time that steps take.
    pub(crate) computing: LatencyHistory,
    /// Number of steps by latency; the last bucket counts those above all [`BOUNDS_NS`].
    pub(crate) latency: [u64; 17],
    pub(crate) latency_sum_ns: u64,
    pub(crate) swap: SwapState,
    pub(crate) model: u64,
    /// Spikes per second of each channel, over the last whole second.
    pub(crate) rates: Vec<f32>,
    /// Events as JSON objects, the oldest first.
    pub(crate) events: std::collections::VecDeque<String>,
    /// True once the session's end of the feed is gone.
    pub(crate) ended: bool,
    /// Number of trials so far.
    pub(crate) trials: u64,
    /// Labels of the last minute.
    pub(crate) labels: LabelHistory,
    /// Its history by second, and the verdict on its decoder.
    pub(crate) session: SessionHistory,
    pub(crate) judge: Judge,
    /// Channels that are masked, ascending.
    pub(crate) masked: Vec<u32>,
    /// One per channel.
    channel_names: Vec<String>,
}

impl HubState {
    pub(crate) fn new(channels: usize, keep_ticks: i64, around: i64) -> Self {
        Self {
            history: History::new(keep_ticks),
            moments: Moments::new(around),
            totals: Counters::default(),
            computing: LatencyHistory::default(),
            latency: [0; 17],
            latency_sum_ns: 0,
            swap: SwapState::Idle,
            model: 0,
            rates: vec![0.0; channels],
            events: std::collections::VecDeque::new(),
            ended: false,
            trials: 0,
            labels: LabelHistory::default(),
            session: SessionHistory::new(channels, 0),
            judge: Judge::new(channels, 1.0, None),
            masked: Vec::new(),
            channel_names: Vec::new(),
        }
    }

    /// The state of a session before its first step.
    pub(crate) fn of(source: &Source, keep_ticks: i64, around: i64) -> Self {
        let channels = source.channel_names.len();
        let training = source.model.as_ref().map(|card| &card.training);
        Self {
            session: SessionHistory::new(channels, source.outputs.len()),
            judge: Judge::new(channels, source.step_seconds, training),
            channel_names: source.channel_names.clone(),
            ..Self::new(channels, keep_ticks, around)
        }
    }

    /// The history with the verdict on the decoder and those before it.
    pub(crate) fn history_json(&self) -> Value {
        let mut history = self.session.json();
        history["verdict"] = self.judge.json();
        history["past"] = self.judge.past().into();
        history
    }

    /// The history as a file keeps it.
    pub(crate) fn to_file(&self) -> Value {
        let mut file = self.session.to_file();
        file["past"] = self.judge.past_and_present(self.session.end()).into();
        file
    }

    /// Puts the seconds and the verdicts of a file before those of this session.
    pub(crate) fn restore(&mut self, file: &Value) -> Result<()> {
        self.session.restore(file)?;
        self.judge.restore(&file["past"]);
        Ok(())
    }

    /// If `second` comes after the open one: judges that, stores it, and returns it as JSON, with true if the verdict's level
    /// has changed.
    pub(crate) fn close_before(&mut self, second: i64, step_seconds: f64) -> Option<(Value, bool)> {
        let closed = self.session.over(second)?;
        let at = closed.at;
        let counts = closed.counts.to_vec();
        let (steps, flags) = (closed.steps, closed.flags);
        self.session
            .condition(&self.judge.ill(), self.masked.len(), self.model);
        self.session.close();
        let r2 = self.session.score(&self.judge.variances);
        let closed = ClosedSecond {
            at,
            steps,
            flags,
            counts: &counts,
        };
        let r2 = (r2, self.session.r2_steps());
        let changed = self
            .judge
            .observe(&closed, r2, &self.masked, &self.channel_names);
        if changed && matches!(self.judge.level, Level::Bad | Level::Watch) {
            let tick = (self.judge.since as f64 / step_seconds).round() as i64;
            self.moments.keep(tick, &self.history);
        }
        Some((self.session.newest()?, changed))
    }
}
