//! The front end: from rows of samples to crossings that are spikes of one electrode.
//!
//! Every number depends on the samples alone, not on how they came in blocks; memory is taken when a front end is
//! opened, not while it runs.

mod block;
mod filter;
mod focus;
mod inspect;
mod layout;
mod power;
mod state;

use betz_base::{Error, Result, memory};
use pulp::Arch;

use crate::settings::{MARGIN, Reference, Settings, Window, rows_of_templates};
pub use block::{BlockFrontEnd, BlockOptions, CrossingRule};
use filter::{BandPass, band_pass};
use focus::Focus;
use inspect::{HIGHEST, Inspect, LOWEST, Regress};
pub use layout::{Layout, MAX_CHANNELS};
pub use power::BandPower;
pub(crate) use state::{is_before, is_sample};

/// Channels that are worked on together.
pub(crate) const LANES: usize = 16;
/// Most channels for a regression of each on the others: a sample then costs as many products as it has pairs.
pub const MAX_REGRESSED: usize = 512;
/// Median of |y| for normal noise, in standard deviations.
pub(crate) const MAD: f64 = 0.674_489_750_196_081_7;
/// Least number of channels of which more than three quarters crossing at once is an artefact: a spike crosses all of a
/// tetrode's.
const MANY: usize = 16;
/// Milliseconds within which they do.
const AT_ONCE_MS: f64 = 0.2;

/// A minimum below the threshold of what the channels around one see together, the largest around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crossing {
    /// Sample of the minimum, from 0.
    pub sample: i64,
    /// Channel, by its place in [`Layout::used`].
    pub channel: usize,
    /// Voltage of the channel there, in microvolts.
    pub microvolts: f32,
    /// Where between samples the minimum lies, −0.5 to 0.5, by a parabola.
    pub shift: f32,
}

/// Counts of samples and crossings that artefacts blanked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArtefactCounts {
    /// Artefacts: stretches that were blanked.
    pub artefacts: u64,
    /// Crossings in them.
    pub crossings: u64,
    /// Samples at an end of what 16 bits hold.
    pub saturated: u64,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    sample: i64,
    channel: u32,
    /// The minimum in standard deviations of the noise, below 0: a noisy channel does not take its neighbour's spikes.
    depth: f32,
    shift: f32,
    beaten: bool,
}

/// The front end at work.
#[derive(Debug, Clone)]
pub struct FrontEnd {
    settings: Settings,
    layout: Layout,
    arch: Arch,
    /// Channels with room to whole lanes.
    padded: usize,
    filter: BandPass,
    regression: Vec<f32>,
    said: Vec<f32>,
    sorted: Vec<f32>,
    /// The last rows, in microvolts: a power of two of them.
    ring: Vec<f32>,
    rows: usize,
    focus: Focus,
    /// As `ring`, what channels see together, in standard deviations.
    focused: Vec<f32>,
    artefact_ring: Vec<bool>,
    /// Thresholds of the common signal, in standard deviations of the noise of training.
    thresholds: Vec<f32>,
    medians: Vec<f32>,
    steps: Vec<f32>,
    last_crossing: Vec<i64>,
    candidates: Vec<Candidate>,
    /// The first of them that is not decided.
    decided: usize,
    next: i64,
    /// The first sample since the filter was last at rest.
    rest_since: i64,
    last_artefact: i64,
    exclusive: i64,
    at_once: i64,
    blank: i64,
    wait: i64,
    blanked: ArtefactCounts,
}

/// The weights of a layout's regression, whose rows have room to `padded` channels.
fn padded_regression(layout: &Layout, padded: usize) -> Result<Vec<f32>> {
    let channels = layout.channels();
    let mut regression = memory::filled("regression", 0.0, channels * padded)?;
    for (from, weights) in layout.regression.chunks_exact(channels).enumerate() {
        regression[from * padded..][..channels].copy_from_slice(weights);
    }
    Ok(regression)
}

impl FrontEnd {
    /// A front end at rest.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) and
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for settings and a layout that make no sense,
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
    pub fn new(settings: &Settings, layout: &Layout) -> Result<Self> {
        settings.check()?;
        layout.check(settings.reference)?;
        let n = layout.channels();
        if settings.reference == Reference::Regression && n > MAX_REGRESSED {
            return Err(Error::argument(format!(
                "reference: expected at most {MAX_REGRESSED} channels for a regression, got {n}"
            )));
        }
        let padded = n.next_multiple_of(LANES);
        let window = Window::from_settings(settings);
        let exclusive = settings.samples(settings.exclusive_ms) as i64;
        let blank = settings.samples(settings.blank_ms) as i64;
        let wait = (window.after + MARGIN - 1) as i64;
        let wait = wait.max(exclusive).max(blank / 2);
        let rows = (window.before
            + MARGIN
            + wait as usize
            + 4
            + blank as usize
            + rows_of_templates(settings))
        .next_power_of_two();
        let regression = match settings.reference {
            Reference::Regression => padded_regression(layout, padded)?,
            _ => Vec::new(),
        };
        let each = |value: f32, beyond: f32| {
            let mut all = vec![value; n];
            all.resize(padded, beyond);
            all
        };
        let tracked = settings.tracking_seconds * settings.rate_hz;
        // The density of |y| at its median is 0.6357 / σ: a step of σ / (1.2714 T) has a time constant of T.
        let step = if tracked > 0.0 {
            1.0 / (1.2714 * tracked)
        } else {
            0.0
        };
        let threshold = settings.threshold as f32;
        let most = 2 + wait as usize / 2;
        Ok(Self {
            settings: settings.clone(),
            layout: layout.clone(),
            arch: Arch::new(),
            padded,
            filter: BandPass::new(
                &band_pass(
                    settings.order,
                    settings.low_hz,
                    settings.high_hz,
                    settings.rate_hz,
                ),
                padded,
            )?,
            regression,
            said: vec![0.0; padded],
            sorted: vec![0.0; n],
            ring: memory::filled("rows", 0.0, rows * padded)?,
            rows,
            focus: Focus::new(layout, settings.focus_um, padded)?,
            focused: memory::filled("rows", 0.0, rows * padded)?,
            artefact_ring: vec![false; rows],
            thresholds: each(-threshold, f32::NEG_INFINITY),
            medians: each(MAD as f32, 1.0),
            steps: each(step as f32, 0.0),
            last_crossing: vec![i64::MIN / 2; n],
            candidates: memory::room("crossings", 2 * most * n + 64)?,
            decided: 0,
            next: 0,
            rest_since: 0,
            last_artefact: i64::MIN / 2,
            exclusive,
            at_once: settings.samples(AT_ONCE_MS) as i64,
            blank,
            wait,
            blanked: ArtefactCounts::default(),
        })
    }

    /// The layout that it was opened with.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Samples (rows) that it has taken.
    pub fn samples(&self) -> i64 {
        self.next
    }

    /// Counts of samples and crossings that artefacts blanked.
    pub fn blanked(&self) -> ArtefactCounts {
        self.blanked
    }

    /// Noise of each used channel as it is now tracked, in microvolts.
    pub fn noise(&self) -> impl Iterator<Item = f32> + '_ {
        let live = &self.medians[..self.layout.channels()];
        (live.iter().zip(&self.layout.noise)).map(|(m, trained)| m / MAD as f32 * trained)
    }

    /// Samples between a crossing and the row with which it is given.
    pub(crate) fn delay(&self) -> usize {
        self.wait as usize
    }

    /// Begins again at rest: crossings that are not decided are dropped, and nothing crosses until the filter has
    /// settled.
    pub(crate) fn restart(&mut self) {
        self.filter.restart();
        self.rest_since = self.next;
        self.candidates.clear();
        self.decided = 0;
        self.artefact_ring.fill(false);
        self.last_crossing.fill(i64::MIN / 2);
        self.last_artefact = i64::MIN / 2;
    }

    /// Rows of a whole row of samples each, one after the other; after each, [`FrontEnd::take`] until it gives
    /// nothing. Does not allocate.
    ///
    /// # Panics
    /// Panics if the row does not have [`Layout::row_channels`] samples.
    pub fn step(&mut self, row: &[i16]) {
        let rails = self.filter(row);
        self.look_together(self.next);
        self.inspect(rails);
        self.next += 1;
    }

    /// A row of samples that is filtered and kept, in which no crossing is looked for. An artefact is found by its
    /// size alone.
    pub(crate) fn step_unseen(&mut self, row: &[i16]) {
        let rails = self.filter(row);
        self.blanked.saturated += u64::from(rails);
        let largest = (self.row(self.next).iter()).fold(0.0_f32, |most, y| most.max(y.abs()));
        let artefact = rails > 0 || f64::from(largest) > self.settings.artefact_microvolts;
        self.artefact_ring[self.next as usize & (self.rows - 1)] =
            artefact && self.next >= self.settling();
        self.next += 1;
    }

    /// Filter and reference; how many samples lie at an end of their range.
    fn filter(&mut self, row: &[i16]) -> u32 {
        assert_eq!(row.len(), self.layout.row_channels, "samples of a row");
        let n = self.layout.channels();
        let at = self.slot(self.next);
        let microvolts = self.settings.microvolts as f32;
        let mut rails = 0_u32;
        let now = &mut self.ring[at..at + self.padded];
        for (y, &channel) in now.iter_mut().zip(&self.layout.used) {
            let sample = row[channel as usize];
            rails += u32::from(sample == i16::MIN) + u32::from(sample == i16::MAX);
            *y = f32::from(sample) * microvolts;
        }
        now[n..].fill(0.0);
        self.filter.step(now);
        match self.settings.reference {
            Reference::None => {}
            Reference::Average => {
                let mean = now[..n].iter().sum::<f32>() / n as f32;
                now[..n].iter_mut().for_each(|y| *y -= mean);
            }
            Reference::Median => {
                self.sorted.copy_from_slice(&now[..n]);
                let (below, middle, _) =
                    (self.sorted).select_nth_unstable_by(n / 2, f32::total_cmp);
                let upper = *middle;
                let median = if n.is_multiple_of(2) {
                    let lower = below.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    0.5 * (lower + upper)
                } else {
                    upper
                };
                now[..n].iter_mut().for_each(|y| *y -= median);
            }
            Reference::Regression => self.arch.dispatch(Regress {
                weights: &self.regression,
                live: n,
                said: &mut self.said,
                row: now,
            }),
        }
        rails
    }

    fn look_together(&mut self, sample: i64) {
        let at = self.slot(sample);
        (self.focus).step(
            &self.ring[at..at + self.padded],
            &mut self.focused[at..at + self.padded],
        );
    }

    /// Looks at the row before the newest.
    fn inspect(&mut self, rails: u32) {
        let newest = self.slot(self.next);
        let [before, row, after] = [2, 1, 0].map(|ago| self.slot(self.next - ago));
        let rows = |at: usize| &self.focused[at..at + self.padded];
        let seen = self.arch.dispatch(Inspect {
            before: rows(before),
            row: rows(row),
            after: rows(after),
            newest: &self.ring[newest..newest + self.padded],
            thresholds: &mut self.thresholds,
            medians: &mut self.medians,
            steps: &self.steps,
            factor: (self.settings.threshold / MAD) as f32,
            track: self.settings.tracking_seconds > 0.0,
        });
        if self.next & 0x3FF == 0 && self.settings.tracking_seconds > 0.0 {
            let trained = MAD as f32;
            for median in &mut self.medians[..self.layout.channels()] {
                *median = median.clamp(LOWEST * trained, HIGHEST * trained);
            }
        }
        self.blanked.saturated += u64::from(rails);
        let at = self.next;
        let flag = at as usize & (self.rows - 1);
        // Where the filter is still settling nothing is an artefact, nor a crossing.
        let settled = at >= self.settling();
        self.artefact_ring[flag] =
            settled && (rails > 0 || f64::from(seen.largest) > self.settings.artefact_microvolts);
        if seen.crossing && settled && !self.artefact_ring[flag] {
            self.candidates_of(at - 1, flag);
        }
        if self.artefact_ring[flag] {
            if at - self.last_artefact > self.blank {
                self.blanked.artefacts += 1;
            }
            self.last_artefact = at;
        }
    }

    /// The first sample at which the filter has forgotten that it began.
    fn settling(&self) -> i64 {
        self.rest_since + (3.0 * self.settings.rate_hz / self.settings.low_hz) as i64
    }

    fn candidates_of(&mut self, sample: i64, flag: usize) {
        let n = self.layout.channels();
        let first = self.candidates.len();
        for channel in 0..n {
            let Some(candidate) = self.minimum(sample, channel) else {
                continue;
            };
            // A large spike stands out far around in what channels see together: an artefact is on the channels
            // themselves.
            let own = self.ring[self.slot(sample) + channel];
            if own < -self.settings.threshold as f32 * self.layout.noise[channel] {
                self.last_crossing[channel] = sample;
            }
            if self.candidates.len() == self.candidates.capacity() {
                // More minima than samples allow: cannot be, and must not allocate.
                self.artefact_ring[flag] = true;
                break;
            }
            self.candidates.push(candidate);
        }
        if n >= MANY {
            let since = sample - self.at_once;
            let crossing = self.last_crossing.iter().filter(|&&last| last > since);
            if crossing.count() * 4 > 3 * n {
                self.artefact_ring[flag] = true;
            }
        }
        if self.artefact_ring[flag] {
            // They would be blanked; without them an artefact costs no comparisons.
            self.blanked.crossings += (self.candidates.len() - first) as u64;
            self.candidates.truncate(first);
            return;
        }
        for new in first..self.candidates.len() {
            self.compare(new);
        }
    }

    /// The candidate at a sample whose common signal lies below the threshold and below the samples beside it.
    fn minimum(&self, sample: i64, channel: usize) -> Option<Candidate> {
        let [left, depth, right] =
            [-1, 0, 1].map(|to| self.focused[self.slot(sample + to) + channel]);
        if !(depth <= left && depth < right && depth < self.thresholds[channel]) {
            return None;
        }
        let shift = 0.5 * (left - right) / (left - 2.0 * depth + right);
        Some(Candidate {
            sample,
            channel: channel as u32,
            depth,
            shift: shift.clamp(-0.5, 0.5),
            beaten: false,
        })
    }

    /// Beats a candidate, or those before it that are not decided.
    fn compare(&mut self, new: usize) {
        let (older, newer) = self.candidates.split_at_mut(new);
        let newer = &mut newer[0];
        for old in older[self.decided.min(new)..].iter_mut().rev() {
            if newer.sample - old.sample > self.exclusive {
                break;
            }
            let apart = self
                .layout
                .distance(old.channel as usize, newer.channel as usize);
            if f64::from(apart) > self.settings.exclusive_um {
                continue;
            }
            if newer.depth < old.depth {
                old.beaten = true;
            } else {
                newer.beaten = true;
            }
        }
    }

    /// A row that was filtered before, in microvolts with padding, instead of a row of samples; `artefact`: it is one.
    pub(crate) fn step_filtered(&mut self, row: &[f32], artefact: bool) {
        let at = self.slot(self.next);
        self.ring[at..at + self.padded].copy_from_slice(row);
        self.look_together(self.next);
        self.inspect(u32::from(artefact));
        self.next += 1;
    }

    /// True if a sample itself is an artefact.
    pub(crate) fn is_artefact(&self, sample: i64) -> bool {
        self.artefact_ring[sample as usize & (self.rows - 1)]
    }

    /// True if the newest sample is blanked, by the samples so far.
    pub(crate) fn is_blanked_now(&self) -> bool {
        let now = self.next - 1;
        now < self.settling() || ((now - self.blank).max(0)..=now).any(|at| self.is_artefact(at))
    }

    /// True if an artefact blanks the sample, or the filter was settling.
    pub(crate) fn is_blanked(&self, sample: i64) -> bool {
        let (from, until) = (sample - self.blank, sample + self.blank / 2);
        sample < self.settling() || (from.max(0)..=until).any(|at| self.is_artefact(at))
    }

    /// The largest minimum of what channels `range` see together within a sample of `sample` when `spike`, (rows from
    /// `first` on, channels), is added to the last rows; `see` is shown it, and everything is as it was afterwards.
    #[cfg(feature = "train")]
    pub(crate) fn with_added(
        &mut self,
        sample: i64,
        first: i64,
        range: std::ops::Range<usize>,
        spike: &[f32],
        see: &mut dyn FnMut(&Self, &Crossing),
    ) {
        let add = |front: &mut Self, sign: f32| {
            for (i, spike) in spike.chunks_exact(range.len()).enumerate() {
                let at = front.slot(first + i as i64);
                for (y, s) in front.ring[at..][range.clone()].iter_mut().zip(spike) {
                    *y += sign * s;
                }
            }
            for near in sample - 2..=sample + 2 {
                front.look_together(near);
            }
        };
        let before: Vec<f32> = (sample - 2..=sample + 2)
            .flat_map(|near| self.focused[self.slot(near)..][..self.padded].to_vec())
            .collect();
        add(self, 1.0);
        let focused = |at: i64, channel: usize| self.focused[self.slot(at) + channel];
        let places = (sample - 1..=sample + 1).flat_map(|at| range.clone().map(move |c| (at, c)));
        let lowest = places.min_by(|a, b| focused(a.0, a.1).total_cmp(&focused(b.0, b.1)));
        if let Some((at, channel)) = lowest {
            let [left, depth, right] = [-1, 0, 1].map(|to| focused(at + to, channel));
            let bend = left - 2.0 * depth + right;
            let shift = if bend > 0.0 {
                0.5 * (left - right) / bend
            } else {
                0.0
            };
            let crossing = Crossing {
                sample: at,
                channel,
                microvolts: self.ring[self.slot(at) + channel],
                shift: shift.clamp(-0.5, 0.5),
            };
            see(self, &crossing);
        }
        add(self, -1.0);
        for (near, row) in (sample - 2..).zip(before.chunks_exact(self.padded)) {
            let at = self.slot(near);
            self.focused[at..at + self.padded].copy_from_slice(row);
        }
    }

    /// Samples within which one crossing beats another.
    pub(crate) fn exclusive(&self) -> i64 {
        self.exclusive
    }

    /// The next crossing that is decided: all that could be larger, or blank it, has been seen. Crossings come in
    /// the order of their samples.
    pub fn take(&mut self) -> Option<Crossing> {
        while let Some(&candidate) = self.candidates.get(self.decided) {
            if candidate.sample + self.wait > self.next - 1 {
                return None;
            }
            self.decided += 1;
            self.forget();
            let from = candidate.sample - self.blank;
            let until = candidate.sample + self.blank / 2;
            let flag = |at: i64| self.artefact_ring[at as usize & (self.rows - 1)];
            if (from.max(0)..=until).any(flag) {
                self.blanked.crossings += 1;
                continue;
            }
            let (channel, sample) = (candidate.channel as usize, candidate.sample);
            if candidate.beaten {
                continue;
            }
            return Some(Crossing {
                sample,
                channel,
                microvolts: self.ring[self.slot(sample) + channel],
                shift: candidate.shift,
            });
        }
        None
    }

    /// Drops what is decided and can beat nothing any more, once it fills half of the room.
    fn forget(&mut self) {
        if self.decided * 2 < self.candidates.capacity() && self.decided < self.candidates.len() {
            return;
        }
        let oldest = self.next - 1 - self.exclusive;
        let keep = self.candidates[..self.decided].partition_point(|c| c.sample < oldest);
        self.candidates.drain(..keep);
        self.decided -= keep;
    }

    /// Start of a sample's row in the ring; samples before the first are zero.
    fn slot(&self, sample: i64) -> usize {
        (sample as usize & (self.rows - 1)) * self.padded
    }

    /// The newest row, in microvolts after filter and reference.
    pub fn newest(&self) -> &[f32] {
        let at = self.slot(self.next - 1);
        &self.ring[at..at + self.layout.channels()]
    }

    /// The newest row of what channels see together, in standard deviations of the noise.
    #[cfg(feature = "train")]
    pub(crate) fn newest_focused(&self) -> &[f32] {
        let at = self.slot(self.next - 1);
        &self.focused[at..at + self.layout.channels()]
    }

    /// A row that a crossing just taken is surrounded by, of all channels with padding.
    pub(crate) fn row(&self, sample: i64) -> &[f32] {
        let at = self.slot(sample);
        &self.ring[at..at + self.padded]
    }
}
