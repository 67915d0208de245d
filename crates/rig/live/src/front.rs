//! The front end of a session's voltage: crossings, spike-band power, or sorted units.

use betz_base::state::StateBytes;
use betz_base::{Error, Result};
use betz_rigs::rig::Signal;
use betz_sort::{BlockFrontEnd, Layout, Sorter, Sorting};

use crate::plan::{At, Feature, Plan};

/// A front end at work.
pub(crate) struct Front {
    engine: Engine,
    channels: usize,
    /// True if the noise can be set: settled crossings keep theirs.
    takes_noise: bool,
    last_row: Vec<i16>,
    bridge: Vec<i16>,
}

enum Engine {
    Crossings(Box<BlockFrontEnd>),
    Power(Box<BlockFrontEnd>),
    Units {
        sorting: Box<Sorting>,
        /// To begin again after a gap.
        sorter: Box<Sorter>,
    },
}

impl Front {
    /// The front end of a plan for the signal of a source, at rest.
    ///
    /// # Errors
    /// `InvalidArgument` with file, line and key for what does not fit.
    pub(crate) fn new(plan: &Plan, source: usize, signal: &Signal) -> Result<Self> {
        let engine = match plan.voltage.feature {
            Feature::Units => sorted(plan, signal)?,
            feature => {
                let (settings, options) = plan.front_settings(source, signal)?;
                // The noise until it is measured, and without a calibration until it is tracked.
                let layout = Layout::with_noise(signal.channels, 10.0);
                let front = BlockFrontEnd::new(&settings, &layout, &options)
                    .map_err(|e| plan.refuse("voltage", "", e.message()))?;
                match feature {
                    Feature::Sbp => Engine::Power(Box::new(front)),
                    _ => Engine::Crossings(Box::new(front)),
                }
            }
        };
        Ok(Self {
            engine,
            channels: signal.channels,
            takes_noise: plan.voltage.at == At::Once,
            last_row: vec![0; signal.channels],
            bridge: Vec::new(),
        })
    }

    /// Channels of a row of voltage.
    pub(crate) fn channels(&self) -> usize {
        self.channels
    }

    /// Channels of a step's input: electrodes, or units.
    pub(crate) fn width(&self) -> usize {
        match &self.engine {
            Engine::Units { sorter, .. } => sorter.units().len(),
            Engine::Crossings(_) | Engine::Power(_) => self.channels,
        }
    }

    /// False while the noise is being measured: nothing crosses then.
    pub(crate) fn is_ready(&self) -> bool {
        match &self.engine {
            Engine::Crossings(front) => front.is_calibrated(),
            Engine::Power(_) | Engine::Units { .. } => true,
        }
    }

    /// Noise of each channel as it is tracked; `None` before it is known, or if it cannot be set.
    pub(crate) fn noise(&self) -> Option<Vec<f32>> {
        match &self.engine {
            Engine::Crossings(front) if self.takes_noise && front.is_calibrated() => {
                Some(front.noise())
            }
            _ => None,
        }
    }

    /// Sets the noise of each channel, and ends its calibration.
    pub(crate) fn set_noise(&mut self, noise: &[f32]) -> Result<()> {
        match &mut self.engine {
            Engine::Crossings(front) => front.set_noise(noise),
            Engine::Power(_) | Engine::Units { .. } => Err(Error::mismatch(
                "noise: expected a front end that gives crossings, got one of power or units",
            )),
        }
    }

    /// Begins again with filters at rest.
    pub(crate) fn restart(&mut self) -> Result<()> {
        match &mut self.engine {
            Engine::Crossings(front) | Engine::Power(front) => front.restart(),
            Engine::Units { sorting, sorter } => **sorting = Sorting::open(sorter)?,
        }
        Ok(())
    }

    /// Writes or reads everything that the next rows' features depend on.
    ///
    /// # Errors
    /// `InvalidCheckpoint` for the bytes of another front end.
    pub(crate) fn state(&mut self, state: &mut StateBytes<'_>) -> Result<()> {
        state.numbers(&mut self.last_row)?;
        match &mut self.engine {
            Engine::Crossings(front) | Engine::Power(front) => front.state(state),
            Engine::Units { sorting, .. } => sorting.state(state),
        }
    }

    /// Takes whole rows, and adds the channels or units that fired to `spikes`.
    pub(crate) fn push(&mut self, rows: &[i16], spikes: &mut Vec<u32>) -> Result<()> {
        self.last_row
            .copy_from_slice(&rows[rows.len() - self.channels..]);
        self.filter(rows, &mut |channel| spikes.push(channel))
    }

    fn filter(&mut self, rows: &[i16], fired: &mut dyn FnMut(u32)) -> Result<()> {
        match &mut self.engine {
            Engine::Crossings(front) | Engine::Power(front) => {
                front.push(rows, &mut |crossing| fired(crossing.channel as u32))
            }
            Engine::Units { sorting, .. } => sorting.push(rows, &mut |spike| {
                if let Some(unit) = spike.unit {
                    fired(unit);
                }
            }),
        }
    }

    /// Passes `rows` interpolated rows of a gap of `gap` through the filters, from its row `done`; `after` is the row after
    /// it. Nothing that crosses there counts.
    pub(crate) fn bridge(&mut self, after: &[i16], gap: u64, done: u64, rows: u64) -> Result<()> {
        let mut bridge = std::mem::take(&mut self.bridge);
        bridge.clear();
        for row in done + 1..=done + rows {
            for (before, after) in self.last_row.iter().zip(after) {
                let (a, b) = (i64::from(*before), i64::from(*after));
                bridge.push((a + (b - a) * row as i64 / (gap as i64 + 1)) as i16);
            }
        }
        let done = self.filter(&bridge, &mut |_| ());
        self.bridge = bridge;
        done
    }

    /// Writes the spike-band power since the last call; false if the feature is another.
    pub(crate) fn take_power(&mut self, power: &mut [f32]) -> Result<bool> {
        match &mut self.engine {
            Engine::Power(front) => front.take_power(power).map(|_| true),
            Engine::Crossings(_) | Engine::Units { .. } => Ok(false),
        }
    }
}

/// The sorter of a plan, at work.
fn sorted(plan: &Plan, signal: &Signal) -> Result<Engine> {
    let refuse = |e: Error| {
        plan.refuse("voltage", "sorter", e.message())
            .of_kind(e.kind())
    };
    let sorter = plan.load_sorter()?;
    let (channels, rate) = (sorter.layout().row_channels, sorter.settings().rate_hz);
    let microvolts = sorter.settings().microvolts;
    let differs = |a: f64, b: f64| (a - b).abs() > 1e-6 * a.abs();
    if channels != signal.channels
        || differs(rate, signal.rate)
        || signal.microvolts.is_some_and(|m| differs(microvolts, m))
    {
        let gain = (signal.microvolts).map_or(String::new(), |m| format!(" and {m} µV per bit"));
        return Err(refuse(Error::mismatch(format!(
            "expected a sorter of {} channels at {} Hz{gain}, as the source sends, got one of {channels} at {rate} Hz and {microvolts} µV",
            signal.channels, signal.rate
        ))));
    }
    Ok(Engine::Units {
        sorting: Box::new(Sorting::open(&sorter).map_err(refuse)?),
        sorter: Box::new(sorter),
    })
}
