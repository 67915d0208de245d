//! Between the session and its viewers: turns the steps in the ring into one frame for all viewers.

use betz_base::lock::lock;
use std::sync::Mutex;

use betz_runtime::stream::{Health, HealthReader};
use bytes::Bytes;

use crate::class_events::ClassEvents;
use crate::feed::{FeedReader, FeedStep, TruthReader};
use crate::frame::{
    BUCKETS, Counters, Kind, MAX_TICKS, STEP_BEFORE, Section, Writer, latency_bucket,
};
use crate::history::{Miss, SpannedFrame};
use crate::labels;
use crate::session_counts::Losses;
use crate::session_history::StepFacts;
use serde_json::{Value, json};

pub(crate) use crate::hub_state::{BOUNDS_NS, HubState};

/// A gap this long, in ticks, ends a frame, which would otherwise be almost empty.
const LONGEST_GAP: i64 = 1_000;
/// Above this many spikes per second, frames hold counts in cells in place of single spikes.
const SPIKES_A_SECOND: u64 = 400_000;
/// Largest number of rows of such cells.
const CELL_ROWS: usize = 2_048;
/// Largest number of stored events.
const MOST_EVENTS: usize = 1_000;

/// Fixed properties of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) channels: u32,
    pub(crate) outputs: usize,
    pub(crate) ticks_a_second: f64,
    /// Steps that take longer count as misses.
    pub(crate) deadline_ns: Option<u32>,
}

/// Collects steps into a frame.
#[derive(Debug)]
pub(crate) struct FrameBuilder {
    shape: Shape,
    sequence: u32,
    first: Option<i64>,
    ticks: u32,
    /// True while every tick of the frame has a step.
    dense: bool,
    spike_tick: Vec<u16>,
    spike_channel: Vec<u32>,
    /// Fraction of its step at which each spike lies; empty if only the steps are known.
    spike_offset: Vec<f32>,
    row_tick: Vec<u16>,
    estimates: Vec<f32>,
    truth: Vec<f32>,
    has_truth: bool,
    /// Estimates of a second model; empty if none ran in this frame.
    beside: Vec<f32>,
    /// Values of a gate; empty for a model without one.
    gate: Vec<f32>,
    latency: [u32; BUCKETS],
    longest_ns: u32,
    slow: Vec<u16>,
    trials: Vec<u16>,
}

impl FrameBuilder {
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            shape,
            sequence: 0,
            first: None,
            ticks: 0,
            dense: true,
            spike_tick: Vec::new(),
            spike_channel: Vec::new(),
            spike_offset: Vec::new(),
            row_tick: Vec::new(),
            estimates: Vec::new(),
            truth: Vec::new(),
            has_truth: false,
            beside: Vec::new(),
            gate: Vec::new(),
            latency: [0; BUCKETS],
            longest_ns: 0,
            slow: Vec::new(),
            trials: Vec::new(),
        }
    }

    /// True if the step can be part of this frame.
    pub(crate) fn takes(&self, step: &FeedStep) -> bool {
        let Some(first) = self.first else {
            return true;
        };
        let offset = step.tick.saturating_sub(first);
        let next = i64::from(self.ticks);
        offset >= next && offset < i64::from(MAX_TICKS) && offset - next <= LONGEST_GAP
    }

    /// Adds the positions of the next step's spikes inside the step; a frame has these for all of its steps or for
    /// none.
    pub(crate) fn push_offsets(&mut self, offsets: &[f32]) {
        self.spike_offset.extend_from_slice(offsets);
    }

    /// Adds a step; `truth` is empty if it is unknown.
    pub(crate) fn push(&mut self, step: &FeedStep, truth: &[f32]) {
        let first = *self.first.get_or_insert(step.tick);
        let offset = step
            .tick
            .saturating_sub(first)
            .clamp(0, i64::from(MAX_TICKS) - 1) as u16;
        self.dense &= u32::from(offset) == self.ticks;
        let ns = step.previous_latency_ns;
        if ns > 0 {
            self.latency[latency_bucket(ns)] += 1;
            self.longest_ns = self.longest_ns.max(ns);
            if self.shape.deadline_ns.is_some_and(|d| ns > d) {
                let at = if self.row_tick.is_empty() {
                    STEP_BEFORE
                } else {
                    self.row_tick[self.row_tick.len() - 1]
                };
                self.slow.extend([at, 0, ns as u16, (ns >> 16) as u16]);
            }
        }
        if step.trial_begins {
            self.trials.push(offset);
        }
        for &channel in step.spikes.iter().filter(|&&c| c < self.shape.channels) {
            self.spike_tick.push(offset);
            self.spike_channel.push(channel);
        }
        self.row_tick.push(offset);
        self.gate.extend_from_slice(&step.gate);
        let rows_before = self.estimates.len();
        self.estimates.extend_from_slice(&step.estimates);
        if !step.beside.is_empty() || !self.beside.is_empty() {
            self.beside.resize(rows_before, f32::NAN);
            self.beside.extend_from_slice(&step.beside);
            self.beside.resize(self.estimates.len(), f32::NAN);
        }
        if truth.len() == self.shape.outputs {
            self.has_truth = true;
            self.truth.extend_from_slice(truth);
        } else {
            let row = self.truth.len() + self.shape.outputs;
            self.truth.resize(row, f32::NAN);
        }
        self.ticks = u32::from(offset) + 1;
    }

    /// Missed deadlines of this frame; `before` is the tick of the step before it.
    fn misses(&self, before: Option<i64>) -> impl Iterator<Item = Miss> + '_ {
        let first = self.first.unwrap_or(0);
        self.slow.chunks_exact(4).map(move |c| Miss {
            tick: if c[0] == STEP_BEFORE {
                before.unwrap_or(first)
            } else {
                first + i64::from(c[0])
            },
            nanoseconds: u32::from(c[2]) | u32::from(c[3]) << 16,
        })
    }

    /// Finishes the frame and begins a new one; `None` if there was no step.
    pub(crate) fn finish(
        &mut self,
        totals: &Counters,
        rates: Option<&[f32]>,
    ) -> Option<SpannedFrame> {
        let first = self.first.take()?;
        let room = 768
            + self.spike_tick.len() * 6
            + self.row_tick.len() * (2 + 12 * self.shape.outputs)
            + self.gate.len() * 4
            + rates.map_or(0, |r| r.len() * 4);
        let mut frame = Writer::new(
            Kind::Step,
            self.sequence,
            self.shape.channels,
            first,
            self.ticks,
            room,
        );
        let seconds = f64::from(self.ticks) / self.shape.ticks_a_second;
        if self.spike_tick.len() as f64 > SPIKES_A_SECOND as f64 * seconds.max(1.0 / 60.0) {
            let cells = self.cells();
            frame.bytes(Section::CELLS, &cells);
        } else {
            frame.u16(Section::SPIKE_TICK, &self.spike_tick);
            frame.spike_channels(self.shape.channels, &self.spike_channel);
            if !self.spike_offset.is_empty() {
                frame.f32(Section::SPIKE_OFFSET, &self.spike_offset);
            }
        }
        frame.f32(Section::ESTIMATE, &self.estimates);
        if self.has_truth {
            frame.f32(Section::TRUTH, &self.truth);
        }
        if !self.beside.is_empty() {
            frame.f32(Section::BESIDE, &self.beside);
        }
        if !self.gate.is_empty() {
            frame.f32(Section::GATE, &self.gate);
        }
        if !self.dense {
            frame.u16(Section::ROW_TICK, &self.row_tick);
        }
        frame.u32(Section::LATENCY, &self.latency);
        if self.longest_ns > 0 {
            frame.u32(Section::LONGEST, &[self.longest_ns]);
        }
        frame.u64(Section::COUNTERS, &totals.words());
        if !self.slow.is_empty() {
            frame.u16(Section::SLOW, &self.slow);
        }
        if !self.trials.is_empty() {
            frame.u16(Section::TRIALS, &self.trials);
        }
        if let Some(rates) = rates {
            frame.f32(Section::RATES, rates);
        }
        let kept = SpannedFrame {
            ticks: first..first + i64::from(self.ticks),
            bytes: frame.finish(),
        };
        self.sequence = self.sequence.wrapping_add(1);
        self.clear();
        Some(kept)
    }

    /// Counts in cells: rows of channels, columns of at least a millisecond.
    fn cells(&self) -> Vec<u8> {
        let channels = self.shape.channels as usize;
        let rows = channels.clamp(1, CELL_ROWS);
        let wide = (self.shape.ticks_a_second / 1_000.0).ceil().max(1.0) as usize;
        let columns = (self.ticks as usize).div_ceil(wide);
        let head = [rows as u16, columns as u16, wide as u16, 0];
        let mut cells: Vec<u8> = head.iter().flat_map(|v| v.to_le_bytes()).collect();
        cells.resize(8 + rows * columns, 0);
        for (&tick, &channel) in self.spike_tick.iter().zip(&self.spike_channel) {
            let row = channel as usize * rows / channels;
            let cell = &mut cells[8 + usize::from(tick) / wide * rows + row];
            *cell = cell.saturating_add(1);
        }
        cells
    }

    fn clear(&mut self) {
        self.ticks = 0;
        self.dense = true;
        self.has_truth = false;
        self.latency = [0; BUCKETS];
        self.longest_ns = 0;
        self.spike_tick.clear();
        self.spike_channel.clear();
        self.spike_offset.clear();
        self.row_tick.clear();
        self.estimates.clear();
        self.truth.clear();
        self.beside.clear();
        self.gate.clear();
        self.slow.clear();
        self.trials.clear();
    }

    /// A frame with one event, in JSON.
    pub(crate) fn event(&mut self, tick: i64, json: &str) -> Bytes {
        let mut frame = Writer::new(
            Kind::Event,
            self.sequence,
            self.shape.channels,
            tick,
            0,
            16 + json.len(),
        );
        self.sequence = self.sequence.wrapping_add(1);
        frame.bytes(Section::EVENT, json.as_bytes());
        frame.finish()
    }
}

/// The hub: each call of [`Hub::turn`] makes frames from the steps that arrived since the last call.
pub(crate) struct Hub {
    reader: FeedReader,
    truth: TruthReader,
    gathering: FrameBuilder,
    health: Option<HealthReader>,
    classes: Option<ClassEvents>,
    last: Health,
    step: FeedStep,
    row: Vec<f32>,
    totals: Counters,
    /// Spikes of each channel since the rates were last sent.
    counts: Vec<u32>,
    ticks_of_counts: f64,
    /// Tick of the last step.
    before: Option<i64>,
    /// Losses at the begin of the turn.
    losses: Losses,
    /// Seconds that ended in this turn: tick, and what [`HubState::close_before`] returned.
    ended: Vec<(i64, Value, bool)>,
}

impl Hub {
    pub(crate) fn new(reader: FeedReader, truth: TruthReader, shape: Shape) -> Self {
        Self {
            reader,
            truth,
            gathering: FrameBuilder::new(shape),
            health: None,
            classes: None,
            last: Health::default(),
            step: FeedStep::default(),
            row: Vec::new(),
            totals: Counters::default(),
            counts: vec![0; shape.channels as usize],
            ticks_of_counts: 0.0,
            before: None,
            losses: Losses::default(),
            ended: Vec::new(),
        }
    }

    /// From now on, onsets of these classes are events.
    pub(crate) fn detect(&mut self, classes: Option<ClassEvents>) {
        self.classes = classes;
    }

    /// From now on, the totals are those that the session publishes.
    pub(crate) fn watch(&mut self, health: HealthReader) {
        self.health = Some(health);
    }

    /// Reads the steps in the ring, sends their frames, and returns the number of frames.
    pub(crate) fn turn(&mut self, seen: &Mutex<HubState>, mut send: impl FnMut(Bytes)) -> usize {
        let (mut frames, mut onsets) = (0, Vec::new());
        let connected = self.reader.is_connected();
        self.losses = losses(&self.totals());
        while self.reader.take(&mut self.step) {
            if !self.gathering.takes(&self.step) {
                frames += usize::from(self.finish(seen, &mut send));
            }
            self.row.clear();
            self.truth.at(self.step.number, &mut self.row);
            self.gathering.push(&self.step, &self.row);
            self.count(seen);
            if let Some(classes) = &mut self.classes {
                classes.step(&self.step, |tick, onset| onsets.push((tick, onset)));
            }
        }
        frames += usize::from(self.finish(seen, &mut send));
        for (tick, onset) in onsets {
            self.event(seen, "class", onset, tick, &mut send);
        }
        self.seconds(seen, &mut send);
        self.swaps(seen, &mut send);
        if !connected && !lock(seen).ended {
            self.end_second(seen);
            self.seconds(seen, &mut send);
            let tick = self.before.unwrap_or(0);
            self.event(seen, "ended", json!({}), tick, &mut send);
            lock(seen).ended = true;
        }
        frames
    }

    fn count(&mut self, seen: &Mutex<HubState>) {
        self.totals.steps += 1;
        self.totals.spikes += self.step.spikes.len() as u64;
        self.ticks_of_counts += 1.0;
        for &channel in &self.step.spikes {
            match self.counts.get_mut(channel as usize) {
                Some(count) => *count += 1,
                None => self.totals.unknown += 1,
            }
        }
        let ns = self.step.previous_latency_ns;
        let shape = self.gathering.shape;
        let second = (self.step.tick as f64 / shape.ticks_a_second).floor() as i64;
        let missed = ns > 0 && shape.deadline_ns.is_some_and(|d| ns > d);
        let mut seen = lock(seen);
        if let Some((slot, changed)) = seen.close_before(second, 1.0 / shape.ticks_a_second) {
            self.ended.push((self.step.tick, slot, changed));
        }
        seen.session.step(&StepFacts {
            second,
            spikes: &self.step.spikes,
            previous_latency_ns: ns,
            missed,
            status: self.step.status,
            estimates: &self.step.estimates,
            truth: &self.row,
            losses: self.losses,
        });
        if ns > 0 {
            let bound = BOUNDS_NS.iter().position(|&b| ns <= b);
            seen.latency[bound.unwrap_or(BOUNDS_NS.len())] += 1;
            seen.latency_sum_ns += u64::from(ns);
            seen.computing.push(second, ns);
            self.totals.misses += u64::from(missed);
        }
        seen.trials += u64::from(self.step.trial_begins);
    }

    /// Ends the open second of a session that has stopped.
    fn end_second(&mut self, seen: &Mutex<HubState>) {
        let step_seconds = 1.0 / self.gathering.shape.ticks_a_second;
        if let Some((slot, changed)) = lock(seen).close_before(i64::MAX, step_seconds) {
            self.ended.push((self.before.unwrap_or(0), slot, changed));
        }
    }

    /// Tells every viewer of the seconds that have ended; a verdict that changed is an event, too.
    fn seconds(&mut self, seen: &Mutex<HubState>, send: &mut impl FnMut(Bytes)) {
        for (tick, slot, changed) in std::mem::take(&mut self.ended) {
            let verdict = lock(seen).judge.json();
            let event = json!({"type": "second", "tick": tick, "slot": slot, "verdict": verdict});
            send(self.gathering.event(tick, &event.to_string()));
            if changed {
                let more = json!({"level": verdict["level"], "words": verdict["words"]});
                let since = verdict["since"].as_f64().unwrap_or(0.0);
                let at = (since * self.gathering.shape.ticks_a_second).round() as i64;
                self.event(seen, "verdict", more, at, send);
            }
        }
    }

    fn totals(&self) -> Counters {
        let not_shown = self.reader.not_shown();
        let own = Counters {
            steps: self.totals.steps + not_shown,
            steps_not_shown: not_shown,
            ..self.totals
        };
        match &self.health {
            Some(health) => {
                let h = health.read();
                Counters {
                    steps: h.ticks,
                    spikes: h.spikes,
                    unknown: h.unknown_channel_spikes,
                    dropped: h.dropped,
                    late: h.late,
                    misses: h.deadline_misses.max(own.misses),
                    swaps: h.model_swaps,
                    steps_not_shown: not_shown,
                }
            }
            None => own,
        }
    }

    fn finish(&mut self, seen: &Mutex<HubState>, send: &mut impl FnMut(Bytes)) -> bool {
        let totals = self.totals();
        let second = self.ticks_of_counts >= self.gathering.shape.ticks_a_second;
        let rates: Option<Vec<f32>> = second.then(|| {
            let seconds = self.ticks_of_counts / self.gathering.shape.ticks_a_second;
            let rate = |&n: &u32| (f64::from(n) / seconds) as f32;
            self.counts.iter().map(rate).collect()
        });
        let misses: Vec<Miss> = self.gathering.misses(self.before).collect();
        let Some(frame) = self.gathering.finish(&totals, rates.as_deref()) else {
            return false;
        };
        self.before = Some(frame.ticks.end - 1);
        let mut seen = lock(seen);
        seen.totals = totals;
        if let Some(rates) = rates {
            self.counts.fill(0);
            self.ticks_of_counts = 0.0;
            seen.rates = rates;
        }
        let seen = &mut *seen;
        seen.history.push(frame.clone());
        seen.moments.push(&frame);
        for miss in misses {
            seen.moments.miss(miss, &seen.history);
        }
        send(frame.bytes);
        true
    }

    /// Sends an event if a model has taken over or the state of a swap has changed.
    fn swaps(&mut self, seen: &Mutex<HubState>, send: &mut impl FnMut(Bytes)) {
        let Some(health) = self.health.as_ref().map(HealthReader::read) else {
            return;
        };
        let tick = self.before.unwrap_or(0);
        let model = format!("{:016x}", health.model);
        if health.model_swaps != self.last.model_swaps {
            self.event(seen, "swap", json!({"model": model}), tick, send);
        }
        if health.swap != self.last.swap {
            let state = format!("{:?}", health.swap);
            self.event(seen, "swap state", json!({"state": state}), tick, send);
        }
        let mut seen = lock(seen);
        seen.swap = health.swap;
        seen.model = health.model;
        self.last = health;
    }

    /// Sends an event to every viewer and stores it. Its tick is the one in `more`'s `at`, else that of the newest
    /// step.
    pub(crate) fn event_now(
        &mut self,
        seen: &Mutex<HubState>,
        kind: &str,
        mut more: Value,
        send: &mut impl FnMut(Bytes),
    ) {
        if kind == "labels" {
            return self.labels(seen, more, send);
        }
        let newest = self.before.unwrap_or(0);
        let named = more.as_object_mut().and_then(|m| m.remove("at"));
        // A page cannot name a future step.
        let tick = (named.and_then(|at| at.as_i64())).map_or(newest, |at| at.clamp(0, newest));
        self.event(seen, kind, more, tick, send);
    }

    /// Sends labels to every viewer, and stores them as long as their steps.
    fn labels(&mut self, seen: &Mutex<HubState>, mut labels: Value, send: &mut impl FnMut(Bytes)) {
        let tick = self.before.unwrap_or(0);
        {
            let seen = &mut *lock(seen);
            let first = seen.history.span().map_or(i64::MIN, |span| span.start);
            let ticks_a_second = self.gathering.shape.ticks_a_second;
            for (tick, truth, estimates) in labels::new_rows(&seen.labels, &labels, &seen.history) {
                let second = (tick as f64 / ticks_a_second).floor() as i64;
                seen.session.label(second, &truth, &estimates);
            }
            seen.labels.push(&labels, first);
        }
        labels["type"] = "labels".into();
        labels["tick"] = tick.into();
        send(self.gathering.event(tick, &labels.to_string()));
    }

    /// Sends the state of the session to every viewer. It is not stored with the events, because the next one replaces it.
    pub(crate) fn status_now(&mut self, status: &Value, send: &mut impl FnMut(Bytes)) {
        let tick = self.before.unwrap_or(0);
        let event = json!({"type": "status", "tick": tick, "status": status});
        send(self.gathering.event(tick, &event.to_string()));
    }

    /// Sends an event at `tick` to every viewer and stores it.
    fn event(
        &mut self,
        seen: &Mutex<HubState>,
        kind: &str,
        more: Value,
        tick: i64,
        send: &mut impl FnMut(Bytes),
    ) {
        let mut event = json!({"type": kind, "tick": tick});
        if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
            event.extend(more);
        }
        let json = event.to_string();
        send(self.gathering.event(tick, &json));
        let mut seen = lock(seen);
        if kind == "control" && event["what"] == "mask" {
            let channels = event["channels"].as_array().into_iter().flatten();
            seen.masked = channels.filter_map(|c| Some(c.as_u64()? as u32)).collect();
            seen.masked.sort_unstable();
        }
        if seen.events.len() == MOST_EVENTS {
            seen.events.pop_front();
        }
        seen.events.push_back(json);
    }
}

/// The losses among a session's totals.
fn losses(totals: &Counters) -> Losses {
    Losses {
        dropped: totals.dropped,
        late: totals.late,
        unknown: totals.unknown,
        not_shown: totals.steps_not_shown,
    }
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
