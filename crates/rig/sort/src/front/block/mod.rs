//! The front end by blocks: from blocks of samples to crossings and spike-band power, at a fifth of the cost of
//! [`FrontEnd`] row by row.
//!
//! A block of any number of rows goes through three passes that stay in the cache: biquads, reference, crossings. Every
//! number depends on the samples alone: neither on the cut into blocks nor on the processor's vectors.

mod calibration;
mod detector;
mod once;
mod passes;
mod state;
#[cfg(test)]
mod tests;

use betz_base::{Error, Result, memory};
use pulp::Arch;

use super::filter::band_pass;
use super::{ArtefactCounts, Crossing, FrontEnd, Layout, MAX_REGRESSED, power};
use crate::settings::{Reference, Settings};
use detector::{Detector, Scene};
use passes::{Filter, Load, Median, ROWS, Regress, SECTIONS, WORDS, stride};

/// The rule by which crossings are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CrossingRule {
    /// At once: the first sample of a channel below its threshold, none for the dead time after it. No channel sees its
    /// neighbours, and an artefact blanks what follows it.
    #[default]
    Once,
    /// As [`FrontEnd`] gives them for training: the largest minimum around, after it is clear that it is one and
    /// that no artefact follows.
    Settled,
}

/// The features that a [`BlockFrontEnd`] makes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockOptions {
    /// Crossings by this rule; `None`: no crossings.
    pub crossings: Option<CrossingRule>,
    /// Time after a crossing without another on the same channel, in milliseconds; for [`CrossingRule::Once`].
    pub dead_ms: f64,
    /// Spike-band power, as [`BandPower`](crate::BandPower).
    pub power: bool,
    /// Seconds at the start that measure the noise of each channel, instead of the layout's; 0: the layout's. Nothing
    /// crosses in that time. For [`CrossingRule::Once`].
    pub calibrate_seconds: f64,
}

impl Default for BlockOptions {
    /// Crossings at once with a dead time of 1 ms, with the layout's noise.
    fn default() -> Self {
        Self {
            crossings: Some(CrossingRule::Once),
            dead_ms: 1.0,
            power: false,
            calibrate_seconds: 0.0,
        }
    }
}

/// A front end at work on blocks of any number of rows. Opening allocates; pushing does not.
///
/// Channels of one [`Layout`] share a reference. For groups of electrodes with references of their own, open one
/// front end per group, each with the same `row_channels`.
///
/// ```
/// use betz_sort::{BlockFrontEnd, BlockOptions, Layout, Settings};
///
/// let settings = Settings::new(30_000.0, 0.25);
/// let layout = Layout::with_noise(2, 8.0);
/// let options = BlockOptions { power: true, ..BlockOptions::default() };
/// let mut front = BlockFrontEnd::new(&settings, &layout, &options)?;
/// let mut crossings = 0;
/// for millisecond in [0_i16; 30 * 2 * 20].chunks(30 * 2) {
///     front.push(millisecond, &mut |_| crossings += 1)?;
/// }
/// let mut power = [0.0; 2];
/// front.take_power(&mut power)?;
/// assert_eq!((crossings, power), (0, [0.0, 0.0]));
/// # Ok::<(), betz_base::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct BlockFrontEnd {
    settings: Settings,
    layout: Layout,
    arch: Arch,
    contiguous: bool,
    stride: usize,
    padded: usize,
    sections: Vec<[f32; 3]>,
    states: Vec<f32>,
    power: Vec<[f32; 3]>,
    power_states: Vec<f32>,
    /// Sums of |y| of the rows since the last whole chunk, and those before.
    power_sums: Vec<f32>,
    power_totals: Vec<f64>,
    power_rows: u64,
    regression: Vec<f32>,
    said: Vec<f32>,
    rows: Vec<f32>,
    words: Vec<i16>,
    references: [f32; ROWS],
    rails: [u32; ROWS],
    rule: Rule,
    next: i64,
    rest_since: i64,
    settling: i64,
}

#[derive(Debug, Clone)]
enum Rule {
    None,
    Once(Box<Detector>),
    Settled(Box<FrontEnd>),
}

impl BlockFrontEnd {
    /// A front end at rest.
    ///
    /// # Errors
    /// As [`FrontEnd::new`]; also refuses options that contradict each other.
    pub fn new(settings: &Settings, layout: &Layout, options: &BlockOptions) -> Result<Self> {
        settings.check()?;
        layout.check(settings.reference)?;
        check(settings, layout, options)?;
        let n = layout.channels();
        let (padded, stride) = (n.next_multiple_of(super::LANES), stride(n));
        let sections = |wanted: bool, order, low, high| match wanted {
            true => (band_pass(order, low, high, settings.rate_hz).iter())
                .map(|s| [s.b as f32, s.a1 as f32, s.a2 as f32])
                .collect(),
            false => Vec::new(),
        };
        let spikes = sections(
            options.crossings.is_some(),
            settings.order,
            settings.low_hz,
            settings.high_hz,
        );
        let power = sections(options.power, power::ORDER, power::LOW_HZ, power::HIGH_HZ);
        let mut regression = Vec::new();
        if settings.reference == Reference::Regression {
            regression = memory::filled("regression", 0.0, n * padded)?;
            for (from, weights) in layout.regression.chunks_exact(n).enumerate() {
                regression[from * padded..][..n].copy_from_slice(weights);
            }
        }
        let rule = match options.crossings {
            None => Rule::None,
            Some(CrossingRule::Once) => {
                Rule::Once(Box::new(Detector::new(settings, layout, options)?))
            }
            Some(CrossingRule::Settled) => {
                Rule::Settled(Box::new(FrontEnd::new(settings, layout)?))
            }
        };
        Ok(Self {
            arch: Arch::new(),
            contiguous: layout.used.windows(2).all(|pair| pair[0] + 1 == pair[1]),
            stride,
            padded,
            states: memory::filled("filter", 0.0, 2 * spikes.len() * padded)?,
            power_states: memory::filled("filter", 0.0, 2 * power.len() * padded)?,
            sections: spikes,
            power,
            power_sums: vec![0.0; padded],
            power_totals: vec![0.0; n],
            power_rows: 0,
            regression,
            said: vec![0.0; padded],
            rows: memory::filled("rows", 0.0, ROWS * stride)?,
            words: vec![0; n.next_multiple_of(WORDS)],
            references: [0.0; ROWS],
            rails: [0; ROWS],
            rule,
            next: 0,
            rest_since: 0,
            settling: (3.0 * settings.rate_hz / settings.low_hz) as i64,
            settings: settings.clone(),
            layout: layout.clone(),
        })
    }

    /// The layout that it was opened with.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Rows taken.
    pub fn samples(&self) -> i64 {
        self.next
    }

    /// Samples of delay between a crossing and the row with which it is given, at most.
    pub fn delay(&self) -> usize {
        match &self.rule {
            Rule::Settled(front) => front.delay(),
            Rule::None | Rule::Once(_) => 0,
        }
    }

    /// Takes samples, (rows, [`Layout::row_channels`]), and gives the crossings that are decided by them, in the
    /// order of their samples. They do not depend on how the samples are cut into pushes. Does not allocate (an
    /// error's message does).
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) if the samples are no whole rows; none of them is
    /// taken then.
    pub fn push(&mut self, mut samples: &[i16], sink: &mut dyn FnMut(Crossing)) -> Result<()> {
        let channels = self.layout.row_channels;
        if !samples.len().is_multiple_of(channels) {
            return Err(Error::mismatch(format!(
                "samples: expected whole rows of {channels} channels, got {} samples",
                samples.len()
            )));
        }
        while !samples.is_empty() {
            let room = ROWS - self.next as usize % ROWS;
            let rows = room.min(samples.len() / channels);
            let (now, later) = samples.split_at(rows * channels);
            self.chunk(now, rows, sink);
            samples = later;
        }
        Ok(())
    }

    /// Rows up to a whole multiple of [`ROWS`].
    fn chunk(&mut self, samples: &[i16], rows: usize, sink: &mut dyn FnMut(Crossing)) {
        self.filter(samples, rows);
        let filtered = &mut self.rows[..rows * self.stride];
        match &mut self.rule {
            Rule::None => {}
            Rule::Once(detector) => {
                let cross = Scene {
                    arch: self.arch,
                    settings: &self.settings,
                    stride: self.stride,
                    references: &self.references,
                    rails: &self.rails,
                    first: self.next,
                    settled: self.rest_since + self.settling,
                };
                detector.chunk(&cross, filtered, sink);
            }
            Rule::Settled(front) => {
                let n = self.layout.channels();
                for (r, row) in filtered.chunks_exact_mut(self.stride).enumerate() {
                    row[..n].iter_mut().for_each(|y| *y -= self.references[r]);
                    front.step_filtered(&row[..self.padded], self.rails[r] > 0);
                    while let Some(crossing) = front.take() {
                        sink(crossing);
                    }
                }
            }
        }
        self.next += rows as i64;
        self.power_rows += rows as u64;
        if self.next % ROWS as i64 == 0 {
            self.add_power();
        }
    }

    /// The first two passes: filters, and the reference of each row.
    fn filter(&mut self, samples: &[i16], rows: usize) {
        let (n, stride) = (self.layout.channels(), self.stride);
        let filtered = &mut self.rows[..rows * stride];
        self.arch.dispatch(Load {
            samples,
            row_channels: self.layout.row_channels,
            used: &self.layout.used,
            contiguous: self.contiguous,
            microvolts: self.settings.microvolts as f32,
            average: self.settings.reference == Reference::Average,
            words: &mut self.words[..n],
            rows: filtered,
            stride,
            rails: &mut self.rails,
        });
        if !(self.sections.is_empty() && self.power.is_empty()) {
            self.arch.dispatch(Filter {
                sections: &self.sections,
                states: &mut self.states,
                power: &self.power,
                power_states: &mut self.power_states,
                sums: &mut self.power_sums,
                rows: filtered,
                stride,
            });
        }
        if self.sections.is_empty() {
            return;
        }
        match self.settings.reference {
            Reference::None | Reference::Average => {}
            Reference::Median => self.arch.dispatch(Median {
                rows: filtered,
                stride,
                live: n,
                words: &mut self.words,
                medians: &mut self.references,
            }),
            Reference::Regression => self.arch.dispatch(Regress {
                weights: &self.regression,
                live: n,
                said: &mut self.said,
                rows: filtered,
                stride,
            }),
        }
    }

    fn add_power(&mut self) {
        for (total, sum) in self.power_totals.iter_mut().zip(&mut self.power_sums) {
            *total += f64::from(std::mem::take(sum));
        }
    }

    /// Writes the spike-band power of each channel since the last call: the mean of |voltage| between 300 and 1000
    /// Hz, in microvolts; 0 if no row came. Returns the number of rows. To end a bin within a block, push the block
    /// in two parts.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) if `power` has not a place for each channel.
    pub fn take_power(&mut self, power: &mut [f32]) -> Result<u64> {
        let n = self.layout.channels();
        if power.len() != n {
            return Err(Error::mismatch(format!(
                "spike-band power: expected room for {n} channels, got {}",
                power.len()
            )));
        }
        self.add_power();
        let rows = std::mem::take(&mut self.power_rows);
        for (power, total) in power.iter_mut().zip(&mut self.power_totals) {
            *power = (std::mem::take(total) / rows.max(1) as f64) as f32;
        }
        Ok(rows)
    }

    /// Begins again with filters at rest, as after a gap in the samples: nothing crosses until they have settled. The
    /// noise stays.
    pub fn restart(&mut self) {
        self.states.fill(0.0);
        self.power_states.fill(0.0);
        self.rest_since = self.next;
        match &mut self.rule {
            Rule::None => {}
            Rule::Once(detector) => {
                detector.restart();
            }
            Rule::Settled(front) => front.restart(),
        }
    }

    /// True if the noise is known, from the layout or from the calibration.
    pub fn is_calibrated(&self) -> bool {
        match &self.rule {
            Rule::Once(detector) => !detector.is_calibrating(),
            Rule::None | Rule::Settled(_) => true,
        }
    }

    /// Noise of each channel as it is now tracked, in microvolts: 0 for a silent channel, which never crosses.
    pub fn noise(&self) -> Vec<f32> {
        match &self.rule {
            Rule::None => self.layout.noise.clone(),
            Rule::Settled(front) => front.noise().collect(),
            Rule::Once(detector) => detector.noise(self.layout.channels()).collect(),
        }
    }

    /// Sets the noise of each channel, as an earlier session's [`BlockFrontEnd::noise`]; ends a calibration.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for another number of channels or for a rule that
    /// keeps the noise of training, [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for noise
    /// that is negative or not finite.
    pub fn set_noise(&mut self, noise: &[f32]) -> Result<()> {
        let n = self.layout.channels();
        let Rule::Once(detector) = &mut self.rule else {
            return Err(Error::mismatch(
                "noise: expected a front end that gives crossings at once; others keep the noise of training",
            ));
        };
        if noise.len() != n {
            return Err(Error::mismatch(format!(
                "noise: expected {n} channels, got {}",
                noise.len()
            )));
        }
        if let Some(i) = noise.iter().position(|s| !(s.is_finite() && *s >= 0.0)) {
            return Err(Error::argument(format!(
                "noise of channel {}: expected microvolts, 0 or more, got {}",
                self.layout.used[i], noise[i]
            )));
        }
        detector.end_calibration();
        detector.set_noise(&self.settings, noise);
        Ok(())
    }

    /// Counts of samples and crossings that artefacts blanked.
    pub fn blanked(&self) -> ArtefactCounts {
        match &self.rule {
            Rule::None => ArtefactCounts::default(),
            Rule::Once(detector) => detector.blanked(),
            Rule::Settled(front) => front.blanked(),
        }
    }

    /// As [`BlockFrontEnd::new`], with other vectors than the processor's widest.
    #[cfg(test)]
    fn with_arch(mut self, arch: Arch) -> Self {
        self.arch = arch;
        self
    }
}

fn check(settings: &Settings, layout: &Layout, options: &BlockOptions) -> Result<()> {
    let n = layout.channels();
    if settings.reference == Reference::Regression && n > MAX_REGRESSED {
        return Err(Error::argument(format!(
            "reference: expected at most {MAX_REGRESSED} channels for a regression, got {n}"
        )));
    }
    debug_assert!(settings.order <= SECTIONS);
    if options.crossings.is_none() && !options.power {
        return Err(Error::argument(
            "features: expected crossings, spike-band power or both, got neither",
        ));
    }
    if options.power {
        power::check_rate(settings.rate_hz)?;
    }
    if !(options.dead_ms > 0.0 && options.dead_ms <= 100.0) {
        return Err(Error::argument(format!(
            "dead time: expected above 0 and at most 100 milliseconds, got {}",
            options.dead_ms
        )));
    }
    if !(0.0..=600.0).contains(&options.calibrate_seconds) {
        return Err(Error::argument(format!(
            "calibration: expected 0 to 600 seconds, got {}",
            options.calibrate_seconds
        )));
    }
    if options.calibrate_seconds > 0.0 && options.crossings == Some(CrossingRule::Settled) {
        return Err(Error::argument(
            "calibration: settled crossings need the noise of training; expected 0 seconds, or crossings at once",
        ));
    }
    Ok(())
}
