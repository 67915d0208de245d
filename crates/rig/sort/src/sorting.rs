//! A sorter at work: voltage as it comes, and its spikes with their labels.

use betz_base::state::StateBytes;
use betz_base::{Error, Result};

use crate::front::{ArtefactCounts, FrontEnd};
use crate::matching::{FoundSpike, Matching};
use crate::sorter::{Sorter, UnitMove};

/// A spike with its label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spike {
    /// Sample of its minimum, from 0.
    pub sample: i64,
    /// Its unit, by its place in [`Sorter::units`]; `None`: noise, or a unit that training did not see.
    pub unit: Option<u32>,
    /// Channel of the minimum, as the recording counts.
    pub channel: u32,
    /// Voltage there.
    pub microvolts: f32,
    /// Difference in size from its unit's mean spike, in standard deviations of the noise; 0 without a unit.
    pub distance: f32,
}

/// A sorter at work: samples in, labelled spikes out. Opening allocates; pushing does not.
///
/// Units' spikes are found by their templates and taken away from the voltage, the largest first; what crosses the threshold in
/// what is left is of no unit.
pub struct Sorting {
    front: FrontEnd,
    matching: Matching,
    /// The rest after units' spikes are subtracted.
    rest: FrontEnd,
    unlabelled: u64,
}

impl Sorting {
    /// A sorter at rest, before the first sample.
    ///
    /// # Errors
    /// The errors of [`FrontEnd::new`].
    pub fn open(sorter: &Sorter) -> Result<Self> {
        sorter.check()?;
        let front = FrontEnd::new(&sorter.settings, &sorter.layout)?;
        Ok(Self {
            matching: Matching::new(sorter, &front)?,
            // Not a clone, whose room would be as small as it is empty.
            rest: FrontEnd::new(&sorter.settings, &sorter.layout)?,
            front,
            unlabelled: 0,
        })
    }

    /// Writes or reads everything that the next samples' spikes depend on. The one that reads is of the same sorter.
    ///
    /// # Errors
    /// `InvalidCheckpoint` for the bytes of another sorter.
    pub fn state(&mut self, state: &mut StateBytes<'_>) -> Result<()> {
        self.front.state(state)?;
        self.matching.state(state)?;
        self.rest.state(state)?;
        state.number(&mut self.unlabelled)
    }

    /// Samples of a row.
    pub fn channels(&self) -> usize {
        self.front.layout().row_channels
    }

    /// Takes samples, (rows, channels), and gives the spikes that are decided by them: each unit's and those of no unit in the
    /// order of their samples, these later than those. What comes out does not depend on how the samples are cut into pushes.
    /// Does not allocate (an error's message does).
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
    /// Panics if the row does not have [`Sorting::channels`] samples.
    pub fn step(&mut self, row: &[i16]) {
        self.front.step_unseen(row);
        self.matching.step(&self.front);
        let settled = self.matching.settled();
        if settled >= 0 {
            let artefact = self.front.is_artefact(settled);
            (self.rest).step_filtered(self.matching.rest(settled), artefact);
        }
    }

    /// The next spike that is decided. Does not allocate.
    pub fn take(&mut self) -> Option<Spike> {
        if let Some((taken, known)) = self.matching.take() {
            self.unlabelled += u64::from(!known);
            return Some(self.spike(taken, known));
        }
        let crossing = self.rest.take()?;
        self.unlabelled += 1;
        Some(Spike {
            sample: crossing.sample,
            unit: None,
            channel: self.front.layout().used[crossing.channel],
            microvolts: crossing.microvolts,
            distance: 0.0,
        })
    }

    fn spike(&self, taken: FoundSpike, known: bool) -> Spike {
        Spike {
            sample: taken.sample,
            unit: known.then_some(taken.unit),
            channel: self.front.layout().used
                [taken.channel.min(self.front.layout().channels() - 1)],
            microvolts: taken.microvolts,
            distance: if known { taken.distance } else { 0.0 },
        }
    }

    /// Rows taken.
    pub fn samples(&self) -> i64 {
        self.front.samples()
    }

    /// Artefacts and what they blanked.
    pub fn blanked(&self) -> ArtefactCounts {
        ArtefactCounts {
            saturated: self.front.blanked().saturated,
            ..self.rest.blanked()
        }
    }

    /// Spikes that no unit has.
    pub fn unlabelled(&self) -> u64 {
        self.unlabelled
    }

    /// Units that have moved, by their index in [`Sorter::units`]. A unit whose mean spike differs by more than a
    /// quarter of its own size (and three standard deviations of the noise), or whose rate has left a third to three
    /// times that of training, is reported; its label stays what it was.
    pub fn moves(&self) -> impl Iterator<Item = UnitMove> + '_ {
        self.matching.moves()
    }

    /// The voltage after units' spikes are subtracted, up to [`FrontEnd::samples`] of it.
    #[cfg(feature = "train")]
    pub(crate) fn rest(&mut self) -> &mut FrontEnd {
        &mut self.rest
    }

    #[cfg(feature = "train")]
    pub(crate) fn matching(&mut self) -> &mut Matching {
        &mut self.matching
    }
}
