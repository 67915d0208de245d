//! Source of the data: a recording, whole or in stretches, gone through from its beginning as often as needed.

use betz_base::error::{Error, Result};
use betz_base::hash::Fnv1a;
use betz_recording::{Recording, SpikeForm, Spikes, Stretches};

/// Hears of spikes; stretches follow each other in time, and none begins within another's last tick.
pub(super) type EachSpikes<'a> = &'a mut dyn FnMut(&Spikes) -> Result<()>;
/// Hears of samples of behaviour, row-major, and of their times where they have some.
pub(super) type EachSamples<'a> = &'a mut dyn FnMut(&[f32], Option<&[f64]>) -> Result<()>;

/// A recording that is gone through.
pub(super) trait Source {
    /// All but what is large.
    fn outline(&self) -> &Recording;
    /// Goes through the spikes.
    fn spikes(&mut self, each: EachSpikes<'_>) -> Result<()>;
    /// Goes through the behaviour.
    fn behavior(&mut self, each: EachSamples<'_>) -> Result<()>;
}

/// A recording in memory.
pub(super) struct Whole<'a>(pub(super) &'a Recording);

impl Source for Whole<'_> {
    fn outline(&self) -> &Recording {
        self.0
    }

    fn spikes(&mut self, each: EachSpikes<'_>) -> Result<()> {
        each(&self.0.spikes)
    }

    fn behavior(&mut self, each: EachSamples<'_>) -> Result<()> {
        match &self.0.behavior {
            Some(b) => each(&b.values, b.times.as_deref()),
            None => Ok(()),
        }
    }
}

/// A recording that is read in stretches.
pub(super) struct InStretches<'a> {
    stretches: &'a mut Stretches,
    cuts: Vec<i64>,
    /// Samples of behaviour at once.
    rows: u64,
}

impl<'a> InStretches<'a> {
    /// Stretches of about so many entries, and so many values of behaviour.
    pub(super) fn new(stretches: &'a mut Stretches, entries: u64) -> Result<Self> {
        let cuts = stretches.cut(entries)?;
        let outputs = stretches.outline().behavior.as_ref();
        let width = outputs.map_or(1, |b| b.outputs.len()) as u64;
        Ok(Self {
            stretches,
            cuts,
            rows: (entries / width).max(1),
        })
    }
}

impl Source for InStretches<'_> {
    fn outline(&self) -> &Recording {
        self.stretches.outline()
    }

    fn spikes(&mut self, each: EachSpikes<'_>) -> Result<()> {
        for stretch in self.cuts.windows(2) {
            each(&self.stretches.spikes(stretch[0], stretch[1])?)?;
        }
        Ok(())
    }

    fn behavior(&mut self, each: EachSamples<'_>) -> Result<()> {
        for first in (0..self.stretches.samples()).step_by(self.rows as usize) {
            if let Some(b) = self.stretches.behavior(first..first + self.rows)? {
                each(&b.values, b.times.as_deref())?;
            }
        }
        Ok(())
    }
}

/// Facts about a recording that a first pass finds.
pub(super) struct Survey {
    /// Spikes of each unit.
    pub(super) spikes: Vec<u64>,
    /// The largest count of a bin.
    pub(super) largest: f64,
    /// Samples of behaviour.
    pub(super) samples: u64,
    /// Their regular order in time, if they have one.
    pub(super) regular: Option<Regular>,
    /// True if samples have times of their own; else there is one per tick.
    pub(super) timed: bool,
    /// A hash of everything.
    pub(super) hash: u64,
}

/// Times `first + k × period`, to the last bit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Regular {
    pub(super) first: f64,
    pub(super) rate: f64,
}

/// Finds out if times are regular, while they come.
struct Rhythm {
    first: Option<f64>,
    period: Option<f64>,
    count: u64,
    last: f64,
    regular: bool,
}

/// The [`Survey`] of `times`.
pub(super) fn regular(times: &[f64]) -> Result<Option<Regular>> {
    let mut rhythm = Rhythm::new();
    times.iter().try_for_each(|time| rhythm.take(*time))?;
    Ok(rhythm.end())
}

impl Rhythm {
    fn new() -> Self {
        Self {
            first: None,
            period: None,
            count: 0,
            last: f64::NEG_INFINITY,
            regular: true,
        }
    }

    fn take(&mut self, time: f64) -> Result<()> {
        if !(time.is_finite() && time >= self.last) {
            return Err(Error::recording(format!(
                "times: [{}] = {time} s behind {} s: expected finite, ascending times",
                self.count, self.last
            )));
        }
        let first = *self.first.get_or_insert(time);
        if self.count == 1 {
            self.period = Some(super::super::series::round_period(time - first));
        }
        if let Some(period) = self.period {
            self.regular &= time == first + self.count as f64 * period;
        }
        self.count += 1;
        self.last = time;
        Ok(())
    }

    fn end(&self) -> Option<Regular> {
        let (first, period) = (self.first?, self.period?);
        let rate = 1.0 / period;
        // A reader of the file has the rate, not the period.
        let comes_back = super::super::series::period_of(rate) == period;
        (self.regular && period > 0.0 && comes_back).then_some(Regular { first, rate })
    }
}

/// Goes through a recording once.
pub(super) fn survey(source: &mut dyn Source) -> Result<Survey> {
    let mut hash = Fnv1a::new();
    let outline = source.outline();
    let (channels, form) = (outline.channels(), outline.form);
    take_outline(outline, &mut hash);
    let mut spikes = vec![0_u64; channels];
    let (mut largest, mut in_tick) = (0.0_f64, vec![0.0_f64; channels]);
    source.spikes(&mut |stretch| {
        for i in 0..stretch.len() {
            spikes[stretch.channels[i] as usize] += 1;
            hash.word(stretch.ticks[i] as u64);
            hash.word(u64::from(stretch.channels[i]));
            if form != SpikeForm::Events {
                hash.number(f64::from(stretch.weight(i)));
            }
        }
        if form == SpikeForm::Counts {
            let mut first = 0;
            for (_, here) in stretch.by_tick() {
                for (i, &channel) in (first..).zip(here) {
                    let count = &mut in_tick[channel as usize];
                    *count += f64::from(stretch.weight(i));
                    largest = largest.max(*count);
                }
                first += here.len();
                here.iter().for_each(|&c| in_tick[c as usize] = 0.0);
            }
        }
        Ok(())
    })?;
    if largest > f64::from(u16::MAX) {
        return Err(Error::recording(format!(
            "counts: expected at most 65535 spikes of a channel in a bin, got {largest}"
        )));
    }
    let width = outputs(source.outline()).max(1);
    let mut rhythm = Rhythm::new();
    let (mut samples, mut timed) = (0, false);
    source.behavior(&mut |values, times| {
        samples += (values.len() / width) as u64;
        values.iter().for_each(|v| hash.number(f64::from(*v)));
        timed |= times.is_some();
        for &time in times.unwrap_or_default() {
            hash.number(time);
            rhythm.take(time)?;
        }
        Ok(())
    })?;
    Ok(Survey {
        spikes,
        largest,
        samples,
        regular: rhythm.end(),
        timed,
        hash: hash.finish(),
    })
}

pub(super) fn outputs(outline: &Recording) -> usize {
    outline.behavior.as_ref().map_or(0, |b| b.outputs.len())
}

fn take_outline(outline: &Recording, hash: &mut Fnv1a) {
    hash.number(outline.tick_seconds);
    hash.word(outline.ticks as u64);
    let mut text = |text: &str| {
        hash.word(text.len() as u64);
        hash.bytes(text.as_bytes());
    };
    outline.channel_names.iter().for_each(|name| text(name));
    for output in outline.behavior.iter().flat_map(|b| &b.outputs) {
        text(&output.name);
        text(&output.unit);
    }
    text(outline.meta.as_deref().unwrap_or(""));
    for segment in &outline.segments {
        hash.word(segment.start as u64);
        hash.word(segment.stop as u64);
    }
    for place in outline.electrode_um.iter().flatten().flatten() {
        hash.number(f64::from(*place));
    }
}
