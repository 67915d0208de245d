//! Spikes of a recording, from which units are learned.

use betz_base::{Error, Progress, Result, progress};

use crate::feature::Features;
use crate::front::{Crossing, FrontEnd};
use crate::groups;
use crate::settings::{MARGIN, Span, Window};
use crate::sorter::Sorter;
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
    rows: &std::ops::Range<u64>,
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
    let mut sorting = (!known.units.is_empty())
        .then(|| crate::Sorting::open(known))
        .transpose()?;
    let mut alone = std::collections::VecDeque::new();
    let (span, window) = (
        Span::from_settings(&known.settings),
        Window::from_settings(&known.settings),
    );
    let (before, after) = (
        span.before as i64,
        (window.after.max(span.after) + MARGIN) as i64,
    );
    let spikes_of: Vec<(std::ops::Range<usize>, Vec<f32>)> = (known.units.iter())
        .map(|unit| {
            let range = unit.template.from..unit.template.until;
            let noise = known.layout.noise[range.clone()].iter().cycle();
            let mean = unit.template.mean();
            let microvolts = mean.iter().zip(noise).map(|(m, s)| m * s);
            (range, microvolts.collect())
        })
        .collect();
    let (mut done, total) = (0, rows.end - rows.start);
    for_each_block(voltage, rows.clone(), &mut |block| {
        progress::check(progress, "finding spikes")?;
        for row in block.chunks_exact(known.layout.row_channels) {
            let mut kept = Ok(());
            match &mut sorting {
                Some(sorting) => {
                    sorting.step(row);
                    while let Some((taken, _)) = sorting.matching().take() {
                        alone.push_back(taken);
                    }
                    let rest = sorting.rest();
                    while let Some(crossing) = rest.take() {
                        kept = kept.and_then(|()| keep(rest, &crossing, None));
                    }
                    // Each spike of a unit as if it were alone: put back where nothing else is left.
                    while let Some(&taken) = alone.front()
                        && taken.sample + after < rest.samples()
                    {
                        alone.pop_front();
                        let (range, spike) = &spikes_of[taken.unit as usize];
                        let first = taken.sample - before;
                        rest.with_added(
                            taken.sample,
                            first,
                            range.clone(),
                            spike,
                            &mut |front, crossing| {
                                if kept.is_ok() {
                                    kept = keep(front, crossing, Some(taken.unit));
                                }
                            },
                        );
                    }
                }
                None => {
                    front.step(row);
                    while let Some(crossing) = front.take() {
                        kept = kept.and_then(|()| keep(&front, &crossing, None));
                    }
                }
            }
            kept?;
            done += 1;
        }
        progress.update("finding spikes", done, total);
        Ok(true)
    })?;
    Ok(Collection {
        artefacts: sorting.map_or(front.blanked(), |s| s.blanked()).artefacts,
        groups,
    })
}
