//! One source's way from blocks to its part of each step: grid of steps, gaps, front end.

mod state;

use std::collections::VecDeque;

use betz_base::{Error, Result};
use betz_rigs::rig::{Block, RigSpike, Samples, Signal};

use crate::event::{BinnerCounts, Content, Event, Give, StepInput};
use crate::front::Front;
use crate::grid::{Alignment, Grid};
use crate::plan::{Gives, Plan};
pub(crate) use state::LaneState;

/// Largest magnitude of a feature that a step of the session takes.
pub(crate) const LARGEST_FEATURE: f32 = 1e15;
/// Gaps that are remembered.
const GAPS: usize = 64;

/// Front end and grid of steps at work.
///
/// It never looks at a clock: the steps depend on the blocks and on the calls of [`Lane::step_stale`], in their order.
pub(crate) struct Lane {
    front: Option<Front>,
    grid: Grid,
    started: bool,
    epoch: u32,
    /// Device time of the next row.
    next: u64,
    /// Rows from there on that came too late.
    late_in_gap: u64,
    /// Newest gaps, as the first row and the one after the last: rows of them may still come too late.
    gaps: VecDeque<(u64, u64)>,
    /// The step that is being filled.
    step: u64,
    input: Input,
    counts: BinnerCounts,
    bridge_rows: u64,
    /// True from the restoration of a state to the first block after it.
    restored: bool,
    /// Arrival of the newest block.
    heard_ns: i64,
    /// Grid of the epoch that begins with the next block.
    planned: Option<Alignment>,
    /// Value of a bit of voltage that is not decoded but is a label.
    label_scale: Option<f32>,
    /// True if the source has sent rows of features, or spikes of whole rows.
    sends_rows: bool,
    /// True if steps before the next one were left out because the decoder was slow.
    was_behind: bool,
}

/// Input of the step that is being filled.
struct Input {
    spikes: Vec<u32>,
    features: Vec<f32>,
    /// Sum of each feature over the rows of a step.
    rows: u32,
    has_features: bool,
    /// Rows of the step that never came.
    missing: u64,
    host_ns: i64,
}

impl Lane {
    /// The lane of the plan's source number `source`, which sends `signal`, into steps of `step_seconds`, at rest; of `voltage`,
    /// or of features and spikes.
    ///
    /// # Errors
    /// `InvalidArgument` with file, line and key for settings that do not fit the signal.
    pub(crate) fn new(
        plan: &Plan,
        source: usize,
        signal: &Signal,
        voltage: bool,
        step_seconds: f64,
    ) -> Result<Self> {
        let rows_per_step = signal.rate * step_seconds;
        if !(1.0 - 1e-9..=1e9).contains(&rows_per_step) {
            return Err(plan.refuse_source(
                source,
                "rate",
                format_args!(
                    "expected at least one row per step of the model ({step_seconds} s), got {rows_per_step} rows"
                ),
            ));
        }
        let labels = plan.source[source].gives == Gives::Labels;
        let front = (voltage && !labels)
            .then(|| Front::new(plan, source, signal))
            .transpose()?;
        let label_scale = match (voltage && labels, signal.microvolts) {
            (false, _) => None,
            (true, Some(microvolts)) => Some((microvolts * 1e-6) as f32),
            (true, None) => return Err(plan.lacks_microvolts(source)),
        };
        let channels = front.as_ref().map_or(signal.channels, Front::width);
        Ok(Self {
            front,
            grid: Grid {
                origin: 0,
                first: 0,
                rows_per_step,
            },
            started: false,
            epoch: 0,
            next: 0,
            late_in_gap: 0,
            gaps: VecDeque::with_capacity(GAPS),
            step: 0,
            input: Input {
                spikes: Vec::with_capacity(channels * 64),
                features: vec![0.0; channels],
                rows: 0,
                has_features: false,
                missing: 0,
                host_ns: 0,
            },
            counts: BinnerCounts::default(),
            bridge_rows: (plan.missing.bridge.seconds() * signal.rate).round() as u64,
            restored: false,
            heard_ns: 0,
            planned: None,
            label_scale,
            sends_rows: false,
            was_behind: false,
        })
    }

    /// Channels of a step's input.
    pub(crate) fn channels(&self) -> usize {
        self.input.features.len()
    }

    /// Counts so far.
    pub(crate) fn counts(&self) -> BinnerCounts {
        self.counts
    }

    /// The number of the step that is being filled, and the device time of its end; `None` before the first block.
    pub(crate) fn open_step(&self) -> Option<(u64, u64)> {
        self.started
            .then(|| (self.step, self.grid.begin(self.step + 1)))
    }

    /// Noise of each channel in microvolts, as the front end tracks it; `None` without voltage or before it is known.
    pub(crate) fn noise(&self) -> Option<Vec<f32>> {
        self.front.as_ref()?.noise()
    }

    /// Sets the noise of each channel, as an earlier session's [`Lane::noise`]; ends the calibration.
    ///
    /// # Errors
    /// The errors of [`BlockFrontEnd::set_noise`](betz_sort::BlockFrontEnd::set_noise); `Mismatch` without voltage.
    pub(crate) fn set_noise(&mut self, noise: &[f32]) -> Result<()> {
        match &mut self.front {
            Some(front) => front.set_noise(noise),
            None => Err(Error::mismatch(
                "noise: expected a source of voltage, got features or spikes",
            )),
        }
    }

    /// Takes a block and gives the steps that it completes. Allocates only for rows that are longer than any before.
    ///
    /// # Errors
    /// `Mismatch` for a block of another kind, or of rows that are not whole; the errors of `give`.
    pub(crate) fn take(&mut self, block: &Block, give: &mut Give<'_>) -> Result<()> {
        let width = self.channels();
        let rows = match (&block.samples, &self.front) {
            (Samples::Voltage(all), Some(front)) => whole_rows(all.len(), front.channels(), block)?,
            (Samples::Features(all), None) => whole_rows(all.len(), width, block)?,
            (Samples::Voltage(all), None) if self.label_scale.is_some() => {
                whole_rows(all.len(), width, block)?
            }
            (Samples::Spikes(_), None) => block.rows as u64,
            _ => {
                return Err(Error::mismatch(
                    "block: expected the kind of samples that the source began with, got another",
                ));
            }
        };
        self.input.host_ns = block.host_ns;
        self.heard_ns = block.host_ns;
        let restored = std::mem::take(&mut self.restored);
        if !self.started || block.epoch != self.epoch {
            self.begin(block, give)?;
        }
        self.counts.bounds += u64::from(block.lost_before.at_least);
        if let Samples::Spikes(spikes) = &block.samples
            && rows == 0
        {
            if restored && let Some(first) = spikes.first() {
                self.skip_to(self.grid.step_at(first.tick), give)?;
            }
            return self.take_spikes(spikes, give);
        }
        // Rows that were decoded already, or whose step is over, come too late.
        let due = self.next.max(self.grid.begin(self.step));
        let stale = due.saturating_sub(block.first).min(rows);
        self.counts.late += stale;
        self.counts.lost -= self
            .take_from_gaps(block.first, block.first + stale)
            .min(self.counts.lost);
        self.late_in_gap += (block.first + stale).saturating_sub(self.next.max(block.first));
        if stale == rows {
            return Ok(());
        }
        let first = block.first + stale;
        self.fill_gap(first, block, stale, give)?;
        let mut row = stale;
        while row < rows {
            let end = self.grid.begin(self.step + 1);
            let take = (rows - row).min(end - self.next);
            self.push(block, row, take)?;
            row += take;
            self.next += take;
            self.counts.rows += take;
            if self.next == end {
                self.finish_step(give)?;
            }
        }
        Ok(())
    }

    /// Takes the place of the session's steps in the device time of this source.
    ///
    /// # Errors
    /// The errors of `give`.
    pub(crate) fn align(&mut self, at: &Alignment, give: &mut Give<'_>) -> Result<()> {
        if at.begins || !self.started {
            self.planned = Some(*at);
            return Ok(());
        }
        self.grid = Grid::of(at);
        let step = self.grid.step_at(self.next);
        if step > self.step {
            self.finish_step(give)?;
            self.skip_to(step, give)?;
        }
        Ok(())
    }

    /// Starts a new epoch at the first row of a block, on a grid that was planned for it.
    fn begin_aligned(&mut self, first: u64, at: &Alignment, give: &mut Give<'_>) -> Result<()> {
        self.grid = Grid::of(at);
        let step = self.grid.step_at(first);
        if self.started {
            self.skip_to(step, give)?;
        }
        // A step that was made cannot be made again: its rows come too late.
        self.step = self.step.max(step);
        self.next = first;
        self.input.missing = first.saturating_sub(self.grid.begin(self.step));
        Ok(())
    }

    /// Ends the steps up to `step`, with the spikes that came: of a source that tells nothing but spikes.
    ///
    /// # Errors
    /// The errors of `give`.
    pub(crate) fn close(&mut self, step: u64, give: &mut Give<'_>) -> Result<()> {
        while self.started && self.step <= step {
            self.finish_step(give)?;
        }
        Ok(())
    }

    /// True for a source that tells nothing but spikes.
    pub(crate) fn sends_spikes(&self) -> bool {
        self.front.is_none() && !self.sends_rows && self.label_scale.is_none()
    }

    /// True while the noise is being measured.
    pub(crate) fn is_calibrating(&self) -> bool {
        !self.front.as_ref().is_none_or(Front::is_ready)
    }

    /// Epoch of the newest block; `None` before the first.
    pub(crate) fn epoch(&self) -> Option<u32> {
        self.started.then_some(self.epoch)
    }

    /// Sets the rows per step of a grid that was restored.
    pub(crate) fn set_rows_per_step(&mut self, rows: f64) {
        self.grid.rows_per_step = rows;
    }

    /// Device time at which a step begins, and rows per step.
    pub(crate) fn place(&self, step: u64) -> (u64, f64) {
        (self.grid.begin(step), self.grid.rows_per_step)
    }

    /// Starts a new epoch at a block's first row.
    fn begin(&mut self, block: &Block, give: &mut Give<'_>) -> Result<()> {
        let first = match &block.samples {
            Samples::Spikes(spikes) if block.rows == 0 => {
                spikes.first().map_or(block.first, |s| s.tick)
            }
            Samples::Voltage(_) | Samples::Spikes(_) | Samples::Features(_) => block.first,
        };
        let planned = self.planned.take();
        if self.started {
            give(Event::Restart)?;
            self.counts.restarts += 1;
            if let Some(front) = &mut self.front {
                front.restart()?;
            }
            self.discard_input()?;
            self.step += 1;
        }
        self.late_in_gap = 0;
        self.gaps.clear();
        self.epoch = block.epoch;
        if let Some(at) = &planned {
            self.begin_aligned(first, at, give)?;
            self.started = true;
            return Ok(());
        }
        self.started = true;
        self.grid.origin = first;
        self.grid.first = self.step;
        self.next = self.grid.origin;
        Ok(())
    }

    /// Takes rows that came too late out of the gaps: how many of them had counted as lost.
    fn take_from_gaps(&mut self, first: u64, end: u64) -> u64 {
        let mut found = 0;
        for gap in &mut self.gaps {
            let (from, to) = (gap.0.max(first), gap.1.min(end));
            if from < to {
                found += to - from;
                // A gap of which the middle has come keeps its longer part: the other stays lost.
                *gap = match from - gap.0 > gap.1 - to {
                    true => (gap.0, from),
                    false => (to, gap.1),
                };
            }
        }
        self.gaps.retain(|gap| gap.0 < gap.1);
        found
    }

    /// Accounts for the rows from the next one to `first`: interpolates a few of them, or skips the steps of many.
    fn fill_gap(&mut self, first: u64, block: &Block, row: u64, give: &mut Give<'_>) -> Result<()> {
        let gap = first - self.next;
        if gap == 0 {
            return Ok(());
        }
        // Rows that came after their step had been made without data are late, not lost.
        let late = std::mem::take(&mut self.late_in_gap);
        self.counts.lost += gap.saturating_sub(late);
        if self.gaps.len() == GAPS {
            self.gaps.pop_front();
        }
        if late == 0 {
            self.gaps.push_back((self.next, first));
        }
        if gap <= self.bridge_rows && self.front.is_some() {
            self.counts.bridged += gap;
            let mut left = gap;
            while left > 0 {
                let end = self.grid.begin(self.step + 1);
                // Steps that were made without data are over; their rows pass the filters alone.
                let take = left.min(end - self.next);
                if let (Some(front), Samples::Voltage(all)) = (&mut self.front, &block.samples) {
                    let after = row as usize * front.channels();
                    let after = &all[after..after + front.channels()];
                    front.bridge(after, gap, gap - left, take)?;
                }
                let from = self.next.max(self.grid.begin(self.step));
                self.next += take;
                left -= take;
                self.input.missing += self.next.saturating_sub(from);
                if self.next == end {
                    self.finish_step(give)?;
                }
            }
            return Ok(());
        }
        let step = self.grid.step_at(first);
        self.skip_to(step, give)?;
        self.input.missing += first - self.next.max(self.grid.begin(step));
        self.next = first;
        if let Some(front) = &mut self.front {
            front.restart()?;
        }
        Ok(())
    }

    /// Leaves out the steps before `step`.
    fn skip_to(&mut self, step: u64, give: &mut Give<'_>) -> Result<()> {
        if step > self.step {
            let skipped = step - self.step;
            give(Event::Skip(skipped))?;
            self.counts.skipped += skipped;
            self.step = step;
            self.discard_input()?;
        }
        Ok(())
    }

    /// Drops what came for the open step, also the power that the front end has added up.
    fn discard_input(&mut self) -> Result<()> {
        if let Some(front) = &mut self.front {
            front.take_power(&mut self.input.features)?;
        }
        self.input.clear();
        Ok(())
    }

    /// Leaves out the steps before `step`, because the decoder is slow: a decision of whoever looks at the clock. Their rows that
    /// come later are late.
    ///
    /// # Errors
    /// The errors of `give`.
    pub(crate) fn skip_behind(&mut self, step: u64, give: &mut Give<'_>) -> Result<()> {
        let before = self.counts.skipped;
        self.skip_to(step, give)?;
        let skipped = self.counts.skipped - before;
        self.counts.behind += skipped;
        self.was_behind |= skipped > 0;
        Ok(())
    }

    /// Whole steps from the open one to the row `end` of an epoch; `None` if the epoch is another one.
    pub(crate) fn steps_until(&self, epoch: u32, end: u64) -> Option<u64> {
        (self.epoch() == Some(epoch)).then(|| self.grid.step_at(end).saturating_sub(self.step))
    }

    /// Takes rows of a block into the open step.
    fn push(&mut self, block: &Block, row: u64, rows: u64) -> Result<()> {
        let (row, rows) = (row as usize, rows as usize);
        match (&block.samples, &mut self.front) {
            (Samples::Voltage(all), Some(front)) => {
                let n = front.channels();
                front.push(&all[row * n..(row + rows) * n], &mut self.input.spikes)?;
            }
            (Samples::Voltage(all), None) => {
                let (n, scale) = (self.input.features.len(), self.label_scale.unwrap_or(1.0));
                for row in all[row * n..(row + rows) * n].chunks_exact(n) {
                    for (sum, bits) in self.input.features.iter_mut().zip(row) {
                        *sum += scale * f32::from(*bits);
                    }
                }
                self.input.rows += rows as u32;
                self.input.has_features = true;
            }
            (Samples::Features(all), _) => {
                self.sends_rows = true;
                let n = self.input.features.len();
                for row in all[row * n..(row + rows) * n].chunks_exact(n) {
                    for (sum, value) in self.input.features.iter_mut().zip(row) {
                        *sum += value;
                    }
                }
                self.input.rows += rows as u32;
                self.input.has_features = true;
            }
            (Samples::Spikes(all), _) => {
                self.sends_rows = true;
                let from = block.first + row as u64;
                let ticks = from..from + rows as u64;
                let of_rows = all.iter().filter(|spike| ticks.contains(&spike.tick));
                self.input.spikes.extend(of_rows.map(|spike| spike.channel));
                self.input.rows += rows as u32;
            }
        }
        Ok(())
    }

    fn take_spikes(&mut self, spikes: &[RigSpike], give: &mut Give<'_>) -> Result<()> {
        for spike in spikes {
            if spike.tick < self.grid.begin(self.step) {
                self.counts.late += 1;
                continue;
            }
            while spike.tick >= self.grid.begin(self.step + 1) {
                self.finish_step(give)?;
            }
            self.input.spikes.push(spike.channel);
            self.next = self.next.max(spike.tick);
            self.counts.rows += 1;
        }
        Ok(())
    }

    /// Makes the open step without data: a decision of whoever looks at the clock. Its rows that come later are late.
    ///
    /// # Errors
    /// The errors of `give`.
    pub(crate) fn step_stale(&mut self, give: &mut Give<'_>) -> Result<()> {
        self.discard_input()?;
        self.input.host_ns = 0;
        self.counts.stale += 1;
        self.give(false, false, give)
    }

    /// Gives the open step.
    fn finish_step(&mut self, give: &mut Give<'_>) -> Result<()> {
        let length = self.grid.begin(self.step + 1) - self.grid.begin(self.step);
        let missing = self.input.missing.min(length);
        // Power is taken in any case: the next step begins anew.
        if let Some(front) = &mut self.front {
            self.input.has_features |= front.take_power(&mut self.input.features)?;
        }
        let (ready, whole) = (
            self.front.as_ref().is_none_or(Front::is_ready),
            2 * missing <= length,
        );
        // A source of rows whose clock differs has none in a few steps.
        let lacks = self.sends_rows && self.input.rows == 0;
        let mut usable = ready && whole && !lacks;
        if usable {
            self.input.scale(missing, length);
            usable = self.input.is_believable();
        }
        if !usable {
            self.counts.stale += 1;
            self.counts.calibrating += u64::from(whole && !ready);
        }
        self.give(usable, usable && missing > 0, give)
    }

    fn give(&mut self, usable: bool, dropped: bool, give: &mut Give<'_>) -> Result<()> {
        let number = self.step;
        self.step += 1;
        self.counts.steps += 1;
        let done = give(Event::Step(StepInput {
            number,
            end: self.grid.begin(number + 1),
            host_ns: self.input.host_ns,
            dropped: dropped | std::mem::take(&mut self.was_behind),
            partial: false,
            content: match (usable, self.input.has_features) {
                (false, _) => Content::Nothing,
                (true, true) => Content::Features(&self.input.features),
                (true, false) if dropped => Content::Counts(&self.input.features),
                (true, false) => Content::Spikes(&self.input.spikes),
            },
        }));
        self.input.clear();
        done
    }
}

impl Input {
    /// False for features that no step takes: one value of a broken device must not end the session.
    fn is_believable(&self) -> bool {
        // NaN is not below the limit either.
        !self.has_features || self.features.iter().all(|v| v.abs() <= LARGEST_FEATURE)
    }

    fn clear(&mut self) {
        self.spikes.clear();
        self.features.fill(0.0);
        (self.rows, self.has_features, self.missing) = (0, false, 0);
    }

    /// Makes means of the rows' features, and of spikes counts that are scaled up to a whole step.
    fn scale(&mut self, missing: u64, length: u64) {
        if self.has_features {
            if self.rows > 1 {
                let rows = self.rows as f32;
                self.features.iter_mut().for_each(|sum| *sum /= rows);
            }
        } else if missing > 0 {
            let scale = length as f32 / (length - missing) as f32;
            for spike in &self.spikes {
                if let Some(count) = self.features.get_mut(*spike as usize) {
                    *count += scale;
                }
            }
        }
    }
}

fn whole_rows(samples: usize, channels: usize, block: &Block) -> Result<u64> {
    if samples != block.rows * channels {
        return Err(Error::mismatch(format!(
            "block: expected {} rows of {channels} channels, got {samples} samples",
            block.rows
        )));
    }
    Ok(block.rows as u64)
}
