//! A sorter of units that another program has found: their times alone are taken, and templates are made of the
//! voltage.

use std::ops::Range;

use betz_base::{Error, ErrorKind, Progress, Result, memory, progress};

use crate::collect::Spikes;
use crate::front::FrontEnd;
use crate::learn;
use crate::score::{Train, score};
use crate::settings::Window;
use crate::sorter::{Group, Sorter, UNLABELLED, Unit};
use crate::sorting::Sorting;
use crate::survey::{bad_channels, waves};
use crate::template::Template;
use crate::train::{REFINED, TrainOptions, axes, check_options, lay_out};
use crate::voltage::{Voltage, for_each_block};

/// Largest distance in milliseconds by which a spike is moved to the minimum of the filtered voltage.
const MOVE_MS: f64 = 0.5;
/// Fewest spikes of a unit within the rows that are used.
const FEWEST: usize = 20;

/// A unit that another program has found.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownUnit {
    /// Its number there.
    pub id: u32,
    /// Samples of its spikes, ascending, from the first row of the recording.
    pub samples: Vec<i64>,
}

/// Agreement of the sorter with one unit of the other program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImportedUnit {
    /// Its number there.
    pub id: u32,
    /// Spikes within the rows that were used.
    pub spikes: u64,
    /// Hits by all spikes of either.
    pub accuracy: f64,
}

/// A sorter of imported units.
#[derive(Debug, Clone, PartialEq)]
pub struct SorterImport {
    /// The sorter. Its maps are empty: every spike is told by templates.
    pub sorter: Sorter,
    /// Units, by their numbers.
    pub units: Vec<ImportedUnit>,
    /// Numbers of units with fewer than 20 spikes within the rows that were used: they are left out.
    pub rare: Vec<u32>,
    /// Channels without noise, which are not used.
    pub silent: Vec<u32>,
    /// Channels that lie at an end of their range, which are not used.
    pub clipped: Vec<u32>,
}

/// Makes a sorter of `units`. Each spike is moved to the minimum of the filtered voltage on its unit's best channel, at
/// most 0.5 ms away; then templates are made as training makes them. Uses at most the first two minutes of the rows for
/// templates.
///
/// # Errors
/// As [`train`](crate::train()); `InsufficientData` if no unit has 20 spikes within the rows.
pub fn import(
    voltage: &mut dyn Voltage,
    options: &TrainOptions,
    units: &[KnownUnit],
    progress: &dyn Progress,
) -> Result<SorterImport> {
    let settings = &options.settings;
    let rows = check_options(voltage, options)?;
    let bad = bad_channels(voltage, &rows, settings)?;
    let (layout, grouped) = lay_out(voltage, &rows, options, &bad)?;
    let window = Window::from_settings(settings);
    let mut sorter = Sorter {
        waves: waves(voltage, &rows, settings, &layout, window)?,
        settings: settings.clone(),
        layout,
        group_of: grouped.group_of.clone(),
        groups: Vec::new(),
        units: Vec::new(),
        edits: Vec::new(),
        forget_seconds: 0.0,
    };
    for range in &grouped.ranges {
        sorter
            .groups
            .push(empty_group(range.clone(), options.dims)?);
    }
    // The front end counts from the first row that is used.
    let until = learn::until(&rows, &sorter.settings);
    let length = (until - rows.start) as i64;
    let (known, rare) = within(units, rows.start as i64, length)?;
    let best = best_channels(voltage, &rows, &sorter, &known, progress)?;
    let fired = moved(voltage, &rows, &sorter, &known, &best, progress)?;
    let seconds = length as f64 / settings.rate_hz;
    for ((id, samples), channel) in known.iter().zip(&best) {
        let group = grouped.group_of[*channel];
        sorter.units.push(Unit {
            id: *id,
            group,
            channel: sorter.layout.used[*channel],
            spikes: samples.len() as u64,
            rate_hz: samples.len() as f64 / seconds,
            microvolts: 0.0,
            centre: vec![0.0; sorter.groups[group as usize].dims()],
            gate: 1.0,
            waveform: vec![0.0; window.len()],
            template: Template::default(),
            more: Vec::new(),
            beyond: Vec::new(),
        });
    }
    learn::from_voltage(voltage, &rows, &mut sorter, &fired)?;
    for _ in 0..REFINED {
        learn::refine(voltage, &rows, &mut sorter, progress)?;
    }
    sorter.set_forget_seconds(options.forget_seconds)?;
    sorter.check()?;
    let units = agreement(voltage, &rows, &sorter, &fired, progress)?;
    Ok(SorterImport {
        sorter,
        units,
        rare,
        silent: bad.0,
        clipped: bad.1,
    })
}

/// A unit, and the rows at which it fired.
type UnitSamples = (u32, Vec<i64>);

/// Units with their samples within `length` rows from `first` on, counted from there; and the units that have too few of them.
fn within(units: &[KnownUnit], first: i64, length: i64) -> Result<(Vec<UnitSamples>, Vec<u32>)> {
    let mut rare = Vec::new();
    let mut known: Vec<UnitSamples> = Vec::new();
    for unit in units {
        let inside = unit.samples.iter().map(|s| s - first);
        let inside: Vec<i64> = inside.filter(|s| (0..length).contains(s)).collect();
        match inside.len() < FEWEST {
            true => rare.push(unit.id),
            false => known.push((unit.id, inside)),
        }
    }
    if known.is_empty() {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "units: expected one with {FEWEST} spikes at least within the rows that are used, got none of {}",
                units.len()
            ),
        ));
    }
    Ok((known, rare))
}

/// A group without a map: one node, which labels nothing.
fn empty_group(range: Range<usize>, dims: usize) -> Result<Group> {
    let dims = dims.min(crate::sorter::inputs(range.len()));
    Ok(Group {
        axes: axes(&Spikes::default(), range, dims)?,
        rows: 1,
        columns: 1,
        weights: vec![0.0; dims],
        labels: vec![UNLABELLED],
        hits: vec![0],
    })
}

/// All spikes in time order: sample and place of the unit.
fn in_order(units: impl Iterator<Item = (usize, Vec<i64>)>) -> Vec<(i64, usize)> {
    let mut spikes: Vec<(i64, usize)> = units
        .flat_map(|(unit, samples)| samples.into_iter().map(move |s| (s, unit)))
        .collect();
    spikes.sort_unstable();
    spikes
}

/// Calls `each` with every spike once all rows up to [`MOVE_MS`] behind it have come.
fn for_each_spike(
    voltage: &mut dyn Voltage,
    rows: &Range<u64>,
    sorter: &Sorter,
    spikes: &[(i64, usize)],
    progress: &dyn Progress,
    each: &mut dyn FnMut(&FrontEnd, i64, usize),
) -> Result<()> {
    let reach = sorter.settings.samples(MOVE_MS) as i64;
    let mut front = FrontEnd::new(&sorter.settings, &sorter.layout)?;
    let mut next = 0;
    for_each_block(
        voltage,
        rows.start..learn::until(rows, &sorter.settings),
        &mut |block| {
            progress::check(progress, "importing units")?;
            for row in block.chunks_exact(sorter.layout.row_channels) {
                front.step_unseen(row);
                let now = front.samples() - 1;
                while let Some(&(sample, unit)) = spikes.get(next)
                    && sample + reach <= now
                {
                    // The first rows have none before them.
                    if sample >= reach {
                        each(&front, sample, unit);
                    }
                    next += 1;
                }
            }
            Ok(true)
        },
    )
}

/// The channel of the lowest minimum of each unit's mean, by its place in the layout.
fn best_channels(
    voltage: &mut dyn Voltage,
    rows: &Range<u64>,
    sorter: &Sorter,
    known: &[UnitSamples],
    progress: &dyn Progress,
) -> Result<Vec<usize>> {
    let reach = sorter.settings.samples(MOVE_MS) as i64;
    let channels = sorter.layout.channels();
    let span = (2 * reach + 1) as usize;
    let mut sums = memory::filled("units", 0.0_f64, known.len() * span * channels)?;
    let spikes = in_order(known.iter().map(|(_, s)| s.clone()).enumerate());
    for_each_spike(
        voltage,
        rows,
        sorter,
        &spikes,
        progress,
        &mut |front, sample, unit| {
            let sums = &mut sums[unit * span * channels..(unit + 1) * span * channels];
            for (row, sums) in (sample - reach..).zip(sums.chunks_exact_mut(channels)) {
                for (sum, y) in sums.iter_mut().zip(front.row(row)) {
                    *sum += f64::from(*y);
                }
            }
        },
    )?;
    let lowest = |sums: &[f64]| {
        let relative = sums.iter().enumerate();
        let by_noise = |(at, sum): (usize, &f64)| {
            let channel = at % channels;
            (channel, sum / f64::from(sorter.layout.noise[channel]))
        };
        (relative.map(by_noise))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map_or(0, |(channel, _)| channel)
    };
    Ok(sums.chunks_exact(span * channels).map(lowest).collect())
}

/// Each unit's spikes at the minimum on its best channel.
fn moved(
    voltage: &mut dyn Voltage,
    rows: &Range<u64>,
    sorter: &Sorter,
    known: &[UnitSamples],
    best: &[usize],
    progress: &dyn Progress,
) -> Result<Vec<Vec<i64>>> {
    let reach = sorter.settings.samples(MOVE_MS) as i64;
    let spikes = in_order(known.iter().map(|(_, s)| s.clone()).enumerate());
    let mut fired = vec![Vec::new(); known.len()];
    for_each_spike(
        voltage,
        rows,
        sorter,
        &spikes,
        progress,
        &mut |front, sample, unit| {
            let channel = best[unit];
            let around = sample - reach..=sample + reach;
            let lowest =
                around.min_by(|a, b| front.row(*a)[channel].total_cmp(&front.row(*b)[channel]));
            fired[unit].push(lowest.unwrap_or(sample));
        },
    )?;
    for samples in &mut fired {
        samples.sort_unstable();
        samples.dedup();
    }
    Ok(fired)
}

/// Agreement of what the sorter finds with `fired`.
fn agreement(
    voltage: &mut dyn Voltage,
    rows: &Range<u64>,
    sorter: &Sorter,
    fired: &[Vec<i64>],
    progress: &dyn Progress,
) -> Result<Vec<ImportedUnit>> {
    let mut sorting = Sorting::open(sorter)?;
    let mut found: Vec<(i64, u32)> = Vec::new();
    for_each_block(
        voltage,
        rows.start..learn::until(rows, &sorter.settings),
        &mut |block| {
            progress::check(progress, "importing units")?;
            sorting.push(block, &mut |spike| {
                found.extend(spike.unit.map(|unit| (spike.sample, unit)));
            })?;
            Ok(true)
        },
    )?;
    found.sort_unstable();
    let truth = in_order(fired.iter().cloned().enumerate());
    let samples: Vec<i64> = truth.iter().map(|s| s.0).collect();
    let units: Vec<u32> = truth.iter().map(|s| s.1 as u32).collect();
    let (found_samples, found_units): (Vec<i64>, Vec<u32>) = found.into_iter().unzip();
    let scored = score(
        Train {
            samples: &samples,
            units: &units,
        },
        Train {
            samples: &found_samples,
            units: &found_units,
        },
        sorter.settings.samples(MOVE_MS) as i64,
    )?;
    let of = |unit: &crate::score::UnitScore| ImportedUnit {
        id: sorter.units[unit.unit as usize].id,
        spikes: unit.spikes,
        accuracy: unit.accuracy,
    };
    Ok(scored.units.iter().map(of).collect())
}
