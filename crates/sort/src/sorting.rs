//! A sorter at work: voltage as it comes, and its spikes with their labels.

use betz_base::{Error, Result};

use crate::feature::{Axes, Features, Waves};
use crate::front::{Blanked, Crossing, FrontEnd, Window};
use crate::live::Live;
use crate::sorter::{Moved, Sorter};
use crate::template::{Found, Seen, Templates};

/// A spike with its label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spike {
    /// Sample of its minimum, from 0.
    pub sample: i64,
    /// Its unit, by its place in [`Sorter::units`]; `None`: noise, an overlap, or a unit that training did not see.
    pub unit: Option<u32>,
    /// Channel of the minimum, as the recording counts.
    pub channel: u32,
    /// Its minimum, below 0.
    pub microvolts: f32,
    /// Distance from the nearest node, in standard deviations of the noise.
    pub distance: f32,
}

/// A sorter at work: samples in, labelled spikes out. Opening allocates; pushing does not.
pub struct Sorting {
    front: FrontEnd,
    features: Features,
    waves: Waves,
    group_of: Vec<u32>,
    axes: Vec<Axes>,
    live: Vec<Live>,
    templates: Templates,
    channels: Vec<u32>,
    unlabelled: u64,
}

impl Sorting {
    /// A sorter at rest, before the first sample.
    ///
    /// # Errors
    /// Those of [`FrontEnd::new`].
    pub fn open(sorter: &Sorter) -> Result<Self> {
        sorter.check()?;
        let front = FrontEnd::new(&sorter.settings, &sorter.layout)?;
        let features = Features::new(&front, Window::of(&sorter.settings));
        let live = (0..sorter.groups.len())
            .map(|g| Live::new(sorter, g))
            .collect::<Result<_>>()?;
        Ok(Self {
            features,
            waves: sorter.waves.clone(),
            group_of: sorter.group_of.clone(),
            axes: sorter.groups.iter().map(|g| g.axes.clone()).collect(),
            live,
            templates: Templates::new(sorter, &front)?,
            front,
            channels: sorter.layout.used.clone(),
            unlabelled: 0,
        })
    }

    /// Samples of a row.
    pub fn channels(&self) -> usize {
        self.front.layout().row_channels
    }

    /// Takes samples, (rows, channels), and gives the spikes that are decided by them, in the order of their
    /// samples. What comes out does not depend on how the samples are cut into pushes. Does not allocate (an error's
    /// message does).
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when the samples are no whole rows; none of them is taken then.
    pub fn push(&mut self, samples: &[i16], sink: &mut dyn FnMut(Spike)) -> Result<()> {
        let channels = self.channels();
        if !samples.len().is_multiple_of(channels) {
            return Err(Error::mismatch(format!(
                "samples: expected whole rows of {channels} channels, got {} samples",
                samples.len()
            )));
        }
        for row in samples.chunks_exact(channels) {
            self.step(row);
            while let Some(spike) = self.take() {
                sink(spike);
            }
        }
        Ok(())
    }

    /// One row of samples; after it, [`Sorting::take`] until that gives nothing. Does not allocate.
    ///
    /// # Panics
    /// When the row has not [`Sorting::channels`] samples.
    pub fn step(&mut self, row: &[i16]) {
        self.front.step(row);
    }

    /// One row; `see` is shown each crossing and what it was taken for, with the front end as it was before its spike was taken
    /// away.
    #[cfg(feature = "train")]
    pub(crate) fn step_and_see(
        &mut self,
        row: &[i16],
        see: &mut dyn FnMut(&FrontEnd, &Crossing, Seen),
    ) {
        self.front.step(row);
        while let Some(crossing) = self.front.take() {
            self.decide(&crossing, see);
        }
    }

    /// The next spike that is decided. They come in the order of their samples, but for those that lay under another: these
    /// come after it. Does not allocate.
    pub fn take(&mut self) -> Option<Spike> {
        while let Some(crossing) = self.front.take() {
            if let Some(spike) = self.decide(&crossing, &mut |_, _, _| ()) {
                return Some(spike);
            }
        }
        None
    }

    fn decide(
        &mut self,
        crossing: &Crossing,
        see: &mut dyn FnMut(&FrontEnd, &Crossing, Seen),
    ) -> Option<Spike> {
        let group = self.group_of[crossing.channel];
        let g = group as usize;
        let numbers = (self.features).of(&self.front, &self.waves, crossing, &self.axes[g]);
        let (mapped, distance) = self.live[g].assign(&numbers, crossing.sample);
        let found = self.templates.find(&self.front, group, crossing, mapped);
        let unit = match found {
            Found::Spike { unit, .. } => Some(unit),
            Found::Unknown => None,
            Found::Rest => return None,
        };
        let mapped = mapped.map(|(unit, _)| unit);
        see(&self.front, crossing, Seen { mapped, found });
        self.templates.take_away(&mut self.front, crossing, found);
        self.unlabelled += u64::from(unit.is_none());
        Some(Spike {
            sample: crossing.sample,
            unit,
            channel: self.channels[crossing.channel],
            microvolts: crossing.microvolts,
            distance,
        })
    }

    /// Rows taken.
    pub fn samples(&self) -> i64 {
        self.front.samples()
    }

    /// Artefacts and what they blanked.
    pub fn blanked(&self) -> Blanked {
        self.front.blanked()
    }

    /// Spikes that no unit has.
    pub fn unlabelled(&self) -> u64 {
        self.unlabelled
    }

    /// Where each unit is now, by its place in [`Sorter::units`]. A unit whose centre has moved by more than three
    /// standard deviations of the noise, or whose rate has left a third to three times that of training, is reported;
    /// its label stays what it was.
    pub fn moves(&self) -> impl Iterator<Item = Moved> + '_ {
        self.live
            .iter()
            .flat_map(|live| live.moves(self.front.samples()))
    }
}
