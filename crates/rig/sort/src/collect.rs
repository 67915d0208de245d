//! Spikes of a recording, from which units are learned.

use std::collections::VecDeque;
use std::ops::Range;

use betz_base::{Error, Progress, Result, progress};

use crate::feature::Features;
use crate::front::{Crossing, FrontEnd};
use crate::groups;
use crate::matching::FoundSpike;
use crate::settings::{MARGIN, Span, Window};
use crate::sorter::{Sorter, Unit};
use crate::sorting::Sorting;
use crate::voltage::{Voltage, for_each_block};

/// Spikes of a group before its axes are known.
#[derive(Default)]
pub(crate) struct Spikes {
    /// (spikes, inputs).
    pub(crate) faded: Vec<f32>,
    pub(crate) channels: Vec<u32>,
    pub(crate) microvolts: Vec<f32>,
    pub(crate) samples: Vec<i64>,
    /// Unit that each is known to be of.
    pub(crate) known: Vec<Option<u32>>,
    left_out: u64,
}

/// Spikes of all groups.
pub(crate) struct Collection {
    pub(crate) groups: Vec<Spikes>,
    pub(crate) artefacts: u64,
}

/// Collects the spikes of each group; of units that `known` has, each as if it were alone.
pub(crate) fn collect(
    voltage: &mut dyn Voltage,
    rows: &Range<u64>,
    most_spikes: usize,
    known: &Sorter,
    grouped: &groups::ChannelGroups,
    progress: &dyn Progress,
) -> Result<Collection> {
    let mut groups: Vec<Spikes> = grouped.ranges.iter().map(|_| Spikes::default()).collect();
    let mut front = FrontEnd::new(&known.settings, &known.layout)?;
    let mut features = Features::new(&front, Window::from_settings(&known.settings));
    let mut keep = |front: &FrontEnd, crossing: &Crossing, unit: Option<u32>| {
        let g = grouped.group_of[crossing.channel] as usize;
        let spikes = &mut groups[g];
        if spikes.channels.len() >= most_spikes {
            spikes.left_out += 1;
            return Ok(());
        }
        let range = &grouped.ranges[g];
        let faded = features.faded(front, &known.waves, crossing, range.start, range.end);
        (spikes.faded.try_reserve(faded.len()))
            .map_err(|_| Error::no_memory("spikes", spikes.faded.len().saturating_mul(8)))?;
        spikes.faded.extend_from_slice(faded);
        spikes.channels.push(known.layout.used[crossing.channel]);
        spikes.microvolts.push(crossing.microvolts);
        spikes.samples.push(crossing.sample);
        spikes.known.push(unit);
        Ok(())
    };
    // Without units there is nothing to take away.
    let mut units = match known.units.is_empty() {
        true => None,
        false => Some(KnownUnits::new(known)?),
    };
    let (mut done, total) = (0, rows.end - rows.start);
    for_each_block(voltage, rows.clone(), &mut |block| {
        progress::check(progress, "finding spikes")?;
        for row in block.chunks_exact(known.layout.row_channels) {
            if let Some(units) = &mut units {
                units.step(row, &mut keep)?;
            } else {
                front.step(row);
                while let Some(crossing) = front.take() {
                    keep(&front, &crossing, None)?;
                }
            }
            done += 1;
        }
        progress.update("finding spikes", done, total);
        Ok(true)
    })?;
    Ok(Collection {
        artefacts: units
            .map_or(front.blanked(), |units| units.sorting.blanked())
            .artefacts,
        groups,
    })
}

/// Units that are known already: their spikes are taken away, and each is looked at as if it were alone.
struct KnownUnits {
    sorting: Sorting,
    /// Channels and microvolts of the mean spike of every unit.
    mean_spikes: Vec<(Range<usize>, Vec<f32>)>,
    /// Spikes behind which not all samples have come.
    waiting: VecDeque<FoundSpike>,
    /// Samples of a spike before its place, and those that have to come after it.
    before: i64,
    after: i64,
}

impl KnownUnits {
    fn new(sorter: &Sorter) -> Result<Self> {
        let span = Span::from_settings(&sorter.settings);
        let window = Window::from_settings(&sorter.settings);
        let mean_spike = |unit: &Unit| {
            let range = unit.template.from..unit.template.until;
            let noise = sorter.layout.noise[range.clone()].iter().cycle();
            let mean = unit.template.mean();
            let microvolts = mean.iter().zip(noise).map(|(m, s)| m * s);
            (range, microvolts.collect())
        };
        Ok(Self {
            sorting: Sorting::open(sorter)?,
            mean_spikes: sorter.units.iter().map(mean_spike).collect(),
            waiting: VecDeque::new(),
            before: span.before as i64,
            after: (window.after.max(span.after) + MARGIN) as i64,
        })
    }

    /// Takes a row; hands `keep` the crossings that no unit explains, then the spikes of units.
    fn step(
        &mut self,
        row: &[i16],
        keep: &mut impl FnMut(&FrontEnd, &Crossing, Option<u32>) -> Result<()>,
    ) -> Result<()> {
        self.sorting.step(row);
        while let Some((taken, _)) = self.sorting.matching().take() {
            self.waiting.push_back(taken);
        }
        let rest = self.sorting.rest();
        while let Some(crossing) = rest.take() {
            keep(rest, &crossing, None)?;
        }
        // Put back where nothing else is left.
        while let Some(&taken) = self.waiting.front()
            && taken.sample + self.after < rest.samples()
        {
            self.waiting.pop_front();
            let (range, spike) = &self.mean_spikes[taken.unit as usize];
            let mut kept = Ok(());
            let first = taken.sample - self.before;
            let keep = &mut |front: &FrontEnd, crossing: &Crossing| {
                if kept.is_ok() {
                    kept = keep(front, crossing, Some(taken.unit));
                }
            };
            rest.with_added(taken.sample, first, range.clone(), spike, keep);
            kept?;
        }
        Ok(())
    }
}
