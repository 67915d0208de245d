//! The clock of a source: device time on the host's clock, with a bound of the error.
//!
//! A block cannot arrive before its last row has passed. The lower envelope of (device time, arrival) is therefore the
//! device's clock, moved by the least delay of the path. The slope is that of the envelope's lower hull (the linear
//! programme of Moon, Skelly and Towsley, 1999); the offset is the least residual of the last ten seconds.
//!
//! The device's answer to a question cannot be of a time before the question: where a source can be asked, the upper envelope
//! of (device time, question) bounds its clock from the other side. The distance of the envelopes is then measured, and takes the
//! place of the bound of the path that was given.

use std::collections::VecDeque;

/// Length of a bucket, of which the earliest arrival is kept, in seconds.
const BUCKET: f64 = 0.25;
/// Time over which the slope is estimated.
const WINDOW: f64 = 60.0;
/// Time over which the offset is estimated.
const RECENT: f64 = 10.0;
/// Largest slope of the published line against the estimate, and largest drift that is believed.
const SLEW: f64 = 500e-6;
/// Error of the published line above which a new epoch begins.
const STEP: f64 = 1e-3;
/// Bound of the error while it is in doubt whether the clock has jumped.
const DOUBT: f64 = 10e-3;
/// Packets in a row that confirm a jump forward, and one of the device's time.
const CONFIRM_FORWARD: u32 = 5;
const CONFIRM_RESET: u32 = 2;
/// Disagreement of device and host between two packets that is a reset.
const RESET: f64 = 5.0;
/// Questions that are kept at most.
const QUESTIONS: usize = 1 << 10;
/// Constant part of the bound.
const FLOOR: f64 = 20e-6;

#[derive(Debug, Clone, Copy, Default)]
struct Point {
    device: f64,
    host: f64,
}

/// A straight line: host time by device time.
#[derive(Debug, Clone, Copy)]
struct Line {
    at: Point,
    slope: f64,
}

impl Line {
    fn host(&self, device: f64) -> f64 {
        self.at.host + self.slope * (device - self.at.device)
    }
}

/// State of a clock, for reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct ClockState {
    /// Number of the epoch, from 1: within one, published times are monotone.
    pub epoch: u32,
    /// Drift of the device against the host, in parts per million.
    pub drift_ppm: f64,
    /// Bound of the error now, in microseconds.
    pub bound_us: f64,
}

/// A source's clock. All times are in seconds.
#[derive(Debug, Clone)]
pub struct Clock {
    path: f64,
    buckets: VecDeque<Point>,
    hull: Vec<Point>,
    residuals: Vec<f64>,
    /// Earliest arrival of the open bucket.
    best: Option<Point>,
    begun: f64,
    envelope: Line,
    published: Line,
    started: bool,
    restarts: bool,
    /// Epoch of the estimate, and of what is published.
    epoch: u32,
    published_epoch: u32,
    spread: f64,
    drift_bound: f64,
    /// Left of the published line's way to the estimate.
    left: f64,
    last: Point,
    forward: u32,
    resets: u32,
    early_by: f64,
    late_by: f64,
    /// (host time, residual) of the last second.
    second: VecDeque<(f64, f64)>,
    /// Questions of the last ten seconds, each with the device time of its answer.
    questions: VecDeque<Point>,
    /// Distance of the envelopes; `None` without answers.
    measured: Option<f64>,
}

impl Clock {
    /// A clock whose least one-way delay is between 0 and `path` seconds.
    pub fn new(path: f64) -> Self {
        let line = Line {
            at: Point::default(),
            slope: 1.0,
        };
        let buckets = (2.0 * WINDOW / BUCKET) as usize;
        Self {
            path,
            buckets: VecDeque::with_capacity(buckets),
            hull: Vec::with_capacity(buckets),
            residuals: Vec::with_capacity(buckets),
            best: None,
            begun: 0.0,
            envelope: line,
            published: line,
            started: false,
            restarts: false,
            epoch: 0,
            published_epoch: 0,
            spread: STEP,
            drift_bound: 100e-6,
            left: 0.0,
            last: Point::default(),
            forward: 0,
            resets: 0,
            early_by: 0.0,
            late_by: 0.0,
            second: VecDeque::with_capacity(1 << 12),
            questions: VecDeque::with_capacity(QUESTIONS),
            measured: None,
        }
    }

    /// Begins a new epoch at a point of the envelope.
    fn reset(&mut self, device: f64, host: f64, keep_slope: bool) {
        self.buckets.clear();
        self.second.clear();
        self.questions.clear();
        self.measured = None;
        self.best = None;
        (self.forward, self.resets, self.early_by, self.late_by) = (0, 0, 0.0, 0.0);
        let slope = if keep_slope { self.envelope.slope } else { 1.0 };
        if !keep_slope {
            self.drift_bound = 100e-6;
        }
        self.envelope = Line {
            at: Point { device, host },
            slope,
        };
        self.published = self.envelope;
        self.spread = STEP;
        self.begun = device;
        self.started = true;
        self.epoch += 1;
    }

    /// Takes the device time of a block's last row and its arrival.
    pub fn add(&mut self, device: f64, host: f64) {
        if !self.started || self.restarts {
            self.reset(device, host, self.started);
            self.last = Point { device, host };
            self.restarts = false;
        }
        let moved = (device - self.last.device) - (host - self.last.host);
        if moved.abs() > RESET || device < self.last.device - 0.01 {
            self.last.host = host;
            self.resets += 1;
            if self.resets < CONFIRM_RESET {
                return;
            }
            self.reset(device, host, true);
        }
        self.resets = 0;
        self.last = Point { device, host };
        let residual = host - self.envelope.host(device);
        self.second.push_back((host, residual));
        while self
            .second
            .front()
            .is_some_and(|first| first.0 < host - 1.0)
        {
            self.second.pop_front();
        }
        // Earlier than possible: the device's clock has jumped forward, or a packet is wrong.
        if residual < -(5.0 * self.spread).max(1e-3) {
            self.early_by = -residual;
            self.forward += 1;
            if self.forward >= CONFIRM_FORWARD {
                self.reset(device, host, true);
            }
            return;
        }
        (self.forward, self.early_by) = (0, 0.0);
        if self.jumped_back(device, host) {
            return;
        }
        if self
            .best
            .is_none_or(|best| residual < best.host - self.envelope.host(best.device))
        {
            self.best = Some(Point { device, host });
        }
        if device - self.begun >= BUCKET {
            self.close_bucket(device);
        }
    }

    /// Takes an answer of the device: its time was `device` at some moment between the question and the answer.
    pub fn add_probe(&mut self, device: f64, asked: f64, answered: f64) {
        // An answer of another time axis tells nothing.
        let known = self.started && !self.restarts && !self.is_in_doubt();
        if !known || (device - self.last.device).abs() > RESET || answered < asked {
            return;
        }
        if self.questions.len() == QUESTIONS {
            self.questions.pop_front();
        }
        let host = asked;
        self.questions.push_back(Point { device, host });
        // The answer is one more arrival, of which an early one counts.
        let late = answered - self.envelope.host(device);
        let is_best = |best: Point| late < best.host - self.envelope.host(best.device);
        if late >= 0.0 && self.best.is_none_or(is_best) {
            let host = answered;
            self.best = Some(Point { device, host });
        }
    }

    /// Measures the distance of the envelopes.
    fn measure(&mut self, device: f64) {
        while (self.questions.front()).is_some_and(|first| first.device < device - RECENT) {
            self.questions.pop_front();
        }
        let distances = (self.questions.iter()).map(|p| self.envelope.host(p.device) - p.host);
        self.measured = distances.reduce(f64::min);
    }

    /// Distance of the true clock from the envelope at most: as it was measured, or as it was given.
    fn path(&self) -> f64 {
        self.measured.map_or(self.path, |path| path.max(0.0))
    }

    /// Distance of the envelopes in seconds, if the source answers questions.
    pub(crate) fn measured_path(&self) -> Option<f64> {
        self.measured
    }

    /// True if every packet of a whole second was late: the device's clock has jumped backward.
    fn jumped_back(&mut self, device: f64, host: f64) -> bool {
        let (Some(first), true) = (self.second.front(), self.second.len() >= 20) else {
            return false;
        };
        if host - first.0 <= 0.95 {
            return false;
        }
        let (mut least, mut recent) = (f64::INFINITY, f64::INFINITY);
        for &(at, residual) in &self.second {
            least = least.min(residual);
            if at > host - 0.25 {
                recent = recent.min(residual);
            }
        }
        if least > (10.0 * self.spread).max(2e-3) {
            let at = self.envelope.host(device) + least;
            self.reset(device, at, true);
            self.last = Point { device, host };
            return true;
        }
        self.late_by = (recent - 3.0 * self.spread).max(0.0);
        false
    }

    /// Estimates the line again from the buckets.
    fn close_bucket(&mut self, device: f64) {
        if let Some(best) = self.best.take() {
            self.buckets.push_back(best);
        }
        self.begun = device;
        while self.buckets.len() > 1 && self.buckets[0].device < device - WINDOW {
            self.buckets.pop_front();
        }
        let (Some(first), Some(last)) = (self.buckets.front(), self.buckets.back()) else {
            return;
        };
        let span = last.device - first.device;
        if self.buckets.len() >= 8 && span > 2.0 {
            self.update_slope(span);
        }
        let slope = self.envelope.slope;
        let from = device - RECENT;
        let recent = self.buckets.iter().filter(|p| p.device >= from);
        let least = recent
            .map(|p| p.host - p.device - (slope - 1.0) * (p.device - device))
            .fold(f64::INFINITY, f64::min);
        if !least.is_finite() {
            return;
        }
        self.envelope.at = Point {
            device,
            host: least + device,
        };
        let (residuals, envelope) = (&mut self.residuals, &self.envelope);
        residuals.clear();
        let recent = self.buckets.iter().filter(|p| p.device >= from);
        residuals.extend(recent.map(|p| p.host - envelope.host(p.device)));
        let middle = residuals.len() / 2;
        let (_, median, _) = residuals.select_nth_unstable_by(middle, f64::total_cmp);
        let floor = if self.buckets.len() < 8 { 200e-6 } else { 2e-6 };
        self.spread = median.max(floor);
        self.drift_bound = match span > 2.0 {
            true => 2.0 * self.spread / (span / 2.0).max(1.0) + 0.2e-6,
            false => 100e-6,
        };
        self.measure(device);
        self.publish(device);
    }

    /// The slope of the lower hull's edge above the middle of the window, blended in as the window grows.
    fn update_slope(&mut self, span: f64) {
        self.hull.clear();
        for &p in &self.buckets {
            while let [.., a, c] = self.hull[..]
                && (c.host - a.host) * (p.device - a.device)
                    >= (p.host - a.host) * (c.device - a.device)
            {
                self.hull.pop();
            }
            self.hull.push(p);
        }
        let middle = self.buckets.iter().map(|p| p.device).sum::<f64>() / self.buckets.len() as f64;
        let edge = self.hull.windows(2).find(|edge| edge[1].device >= middle);
        if let Some([a, c]) = edge {
            let slope = (c.host - a.host) / (c.device - a.device);
            if (slope - 1.0).abs() < SLEW {
                let weight = (span / 10.0).min(1.0);
                self.envelope.slope += (slope - self.envelope.slope) * weight;
            }
        }
    }

    /// Moves the published line to the estimate: slowly, or as a new epoch.
    fn publish(&mut self, device: f64) {
        let target = self.envelope.host(device) - self.path() / 2.0;
        let error = target - self.published.host(device);
        if self.published_epoch == self.epoch && error.abs() > STEP {
            self.epoch += 1;
        }
        self.published = match self.published_epoch == self.epoch {
            false => Line {
                at: Point {
                    device,
                    host: target,
                },
                slope: self.envelope.slope,
            },
            true => Line {
                at: Point {
                    device,
                    host: self.published.host(device),
                },
                slope: self.envelope.slope + error.clamp(-SLEW, SLEW),
            },
        };
        self.published_epoch = self.epoch;
        self.left = error;
    }

    /// True while it is not clear whether the clock has jumped.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.forward > 0 || self.resets > 0
    }

    /// Host time of a device time.
    pub fn host(&self, device: f64) -> f64 {
        if self.is_in_doubt() {
            return self.last.host - self.path() / 2.0;
        }
        match self.published_epoch == self.epoch {
            true => self.published.host(device),
            false => self.envelope.host(device) - self.path() / 2.0,
        }
    }

    /// Device time of a host time, the inverse of [`Clock::host`] while no jump is in doubt.
    pub fn device(&self, host: f64) -> f64 {
        let (line, path) = match self.published_epoch == self.epoch {
            true => (&self.published, 0.0),
            false => (&self.envelope, self.path() / 2.0),
        };
        line.at.device + (host + path - line.at.host) / line.slope
    }

    /// Takes note that the device has begun a new epoch: the next block is of another time axis, and drifts as before.
    pub(crate) fn restart(&mut self) {
        self.restarts = true;
    }

    /// Earliest arrival of a device time by the estimate; a jump that is in doubt does not move it.
    pub fn arrival(&self, device: f64) -> f64 {
        self.envelope.host(device)
    }

    /// Bound of the error of [`Clock::host`].
    pub fn bound(&self, device: f64) -> f64 {
        if self.is_in_doubt() {
            return DOUBT;
        }
        let age = (device - self.envelope.at.device).max(0.0);
        let unpublished = match self.published_epoch == self.epoch {
            true => 0.0,
            false => STEP,
        };
        self.path() / 2.0
            + 3.0 * self.spread
            + self.left.abs()
            + age * self.drift_bound
            + self.late_by
            + self.early_by
            + unpublished
            // Envelopes that have crossed contradict each other.
            + self.measured.map_or(0.0, |path| (-path).max(0.0))
            + FLOOR
    }

    /// Epoch, drift and bound at the newest block.
    pub fn state(&self) -> ClockState {
        ClockState {
            epoch: self.epoch,
            drift_ppm: (1.0 / self.envelope.slope - 1.0) * 1e6,
            bound_us: self.bound(self.last.device) * 1e6,
        }
    }
}
