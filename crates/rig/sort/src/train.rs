//! From a recording to a sorter.

use std::ops::Range;

use betz_base::progress::{Phase, Phases};
use betz_base::{Error, ErrorKind, Progress, Result, memory, progress};
use betz_device::Device;
use betz_linear::{Mat, eigen};

use crate::border;
use crate::cluster::{self, Separation};
use crate::collect::{Spikes, collect};
use crate::echo::{self, UnitTrain};
use crate::feature::{Axes, MOST_DIMS};
use crate::front::{Layout, MAX_CHANNELS};
use crate::groups;
use crate::learn;
use crate::members::Members;
use crate::settings::{Reference, Settings, Window};
use crate::sorter::{Group, Sorter, UNLABELLED, Unit, inputs};
use crate::survey::{NOISE_SECONDS, bad_channels, focused_noise, noise, regression, waves};
use crate::voltage::Voltage;
use betz_som::{BatchOptions, Grid, Lattice, Map, Samples};

/// Options of training a sorter.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainOptions {
    /// Settings of the front end.
    pub settings: Settings,
    /// Place of each channel of a row, (x, y) in micrometres; `None`: it is not used.
    pub places: Vec<Option<[f32; 2]>>,
    /// Rows that are used; everything where there are fewer.
    pub rows: Range<u64>,
    /// Nodes along a side of each group's map, at most 256. 0: chosen by the number of its spikes, at most 32.
    pub side: usize,
    /// Rounds of training of a map.
    pub epochs: usize,
    /// Numbers per spike, at most 16.
    pub dims: usize,
    /// Most spikes of a group that are kept in memory: later ones replace none.
    pub most_spikes: usize,
    /// Conditions under which two clusters of spikes are two units.
    pub apart: Separation,
    /// Time constant by which units follow their spikes when the sorter runs, in seconds; 0: not at all.
    pub forget_seconds: f64,
}

impl TrainOptions {
    /// The usual, for channels at `places`.
    pub fn new(settings: Settings, places: Vec<Option<[f32; 2]>>) -> Self {
        Self {
            settings,
            places,
            rows: 0..u64::MAX,
            side: 0,
            epochs: 30,
            dims: 12,
            most_spikes: 200_000,
            apart: Separation::default(),
            forget_seconds: 20.0,
        }
    }
}

/// A trained sorter, and the counts of its training.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainedSorter {
    /// The sorter.
    pub sorter: Sorter,
    /// Crossings that were used.
    pub spikes: u64,
    /// Of these, those that no unit has.
    pub unlabelled: u64,
    /// Heaps that were echoes of larger units' spikes; their nodes are not labelled.
    pub echoes: usize,
    /// Channels without noise, which are not used.
    pub silent: Vec<u32>,
    /// Channels that lie at an end of their range more than a hundredth of the time, which are not used.
    pub clipped: Vec<u32>,
    /// Artefacts in what was used.
    pub artefacts: u64,
    /// Quantisation error of each group's map, in standard deviations of the noise.
    pub quantisation_error: Vec<f64>,
}

/// Time that the phases of training take per second of voltage, as measured on 32 channels: what is measured before
/// anything is found, finding spikes in each round, maps, templates, and taking spikes away.
const SETUP: u64 = 4;
const COLLECT: [u64; ROUNDS] = [1, 18];
const MAPS: u64 = 1;
const TEMPLATES: u64 = 1;
const REFINE: u64 = 20;

/// Times that units are looked for.
const ROUNDS: usize = 2;
/// Times that their mean spikes are made anew, of what is left when others are taken away.
pub(crate) const REFINED: usize = 2;
/// Spikes that axes are found from.
const AXIS_SPIKES: usize = 20_000;

/// Trains a sorter on `voltage`.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for options that make no sense, [`ErrorKind::Mismatch`] when places and channels
/// differ, [`ErrorKind::InsufficientData`] without channels that carry anything, or without spikes;
/// [`ErrorKind::Interrupted`]; those of `voltage`.
pub fn train(
    voltage: &mut dyn Voltage,
    options: &TrainOptions,
    progress: &dyn Progress,
) -> Result<TrainedSorter> {
    let settings = &options.settings;
    let rows = check_options(voltage, options)?;
    let shares = TimeShares::new(&rows, settings);
    let mut phases = Phases::new(progress, "training", shares.all());
    phases.next(shares.setup).update("setting up", 0, 1);
    let bad = bad_channels(voltage, &rows, settings)?;
    let (layout, grouped) = lay_out(voltage, &rows, options, &bad)?;
    let (silent, clipped) = bad;
    let window = Window::from_settings(settings);
    let waves = waves(voltage, &rows, settings, &layout, window)?;
    let mut trained = TrainedSorter {
        sorter: Sorter {
            settings: settings.clone(),
            layout,
            waves,
            group_of: grouped.group_of.clone(),
            groups: Vec::new(),
            units: Vec::new(),
            edits: Vec::new(),
            forget_seconds: 0.0,
        },
        spikes: 0,
        unlabelled: 0,
        echoes: 0,
        silent,
        clipped,
        artefacts: 0,
        quantisation_error: Vec::new(),
    };
    // First what stands out, then what lies under its spikes as well.
    for this in 1..=ROUNDS {
        let found_and_mapped = [
            phases.next(shares.collect[this - 1]),
            phases.next(shares.maps),
        ];
        let fired = round(
            voltage,
            &rows,
            options,
            &grouped,
            &mut trained,
            found_and_mapped,
        )?;
        let sorter = &mut trained.sorter;
        phases.skip(shares.templates);
        learn::from_voltage(voltage, &rows, sorter, &fired)?;
        drop_false_units(sorter, options, None, false);
        for time in 1..=REFINED {
            let phase = phases.next(shares.refine);
            let found = learn::refine(voltage, &rows, sorter, &phase)?;
            let last = (this, time) == (ROUNDS, REFINED);
            drop_false_units(sorter, options, Some(&found), last);
        }
    }
    trained.sorter.set_forget_seconds(options.forget_seconds)?;
    trained.sorter.check()?;
    Ok(trained)
}

/// Shares of the time of training. What is set up takes the first seconds of the voltage, templates take the first minutes,
/// and spikes are found in all of it.
struct TimeShares {
    setup: u64,
    collect: [u64; ROUNDS],
    maps: u64,
    templates: u64,
    refine: u64,
}

impl TimeShares {
    fn new(rows: &Range<u64>, settings: &Settings) -> Self {
        let all = rows.end - rows.start;
        let learned = learn::until(rows, settings) - rows.start;
        let surveyed = all.min((NOISE_SECONDS * settings.rate_hz) as u64);
        // Rows of voltage, none of which takes no time.
        Self {
            setup: SETUP * surveyed,
            collect: COLLECT.map(|each| each * all),
            maps: MAPS * all,
            templates: TEMPLATES * learned,
            refine: REFINE * learned,
        }
    }

    fn all(&self) -> u64 {
        let each = self.maps + self.templates + REFINED as u64 * self.refine;
        self.setup + self.collect.iter().sum::<u64>() + ROUNDS as u64 * each
    }
}

/// Refuses options that make no sense for `voltage`; the rows that are used.
pub(crate) fn check_options(voltage: &dyn Voltage, options: &TrainOptions) -> Result<Range<u64>> {
    let settings = &options.settings;
    settings.check()?;
    let channels = voltage.channels();
    if options.places.len() != channels || channels > MAX_CHANNELS {
        return Err(Error::mismatch(format!(
            "probe: expected a place of each of {channels} channels (at most {MAX_CHANNELS}), got {}",
            options.places.len()
        )));
    }
    if !(1..=MOST_DIMS).contains(&options.dims) || options.epochs == 0 || options.side > 256 {
        return Err(Error::argument(format!(
            "training: expected 1 to {MOST_DIMS} numbers per spike, epochs, and a map of at most 256 nodes per side, got {}, {} and {}",
            options.dims, options.epochs, options.side
        )));
    }
    let rows = options.rows.start..options.rows.end.min(voltage.rows());
    if rows.start >= rows.end || (rows.end - rows.start) as f64 <= 0.1 * settings.rate_hz {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "recording: expected at least 0.1 s, got {} samples",
                rows.end.saturating_sub(rows.start)
            ),
        ));
    }
    Ok(rows)
}

/// The channels that are used, in groups.
pub(crate) fn lay_out(
    voltage: &mut dyn Voltage,
    rows: &Range<u64>,
    options: &TrainOptions,
    (silent, clipped): &(Vec<u32>, Vec<u32>),
) -> Result<(Layout, groups::ChannelGroups)> {
    let (settings, channels) = (&options.settings, voltage.channels());
    let good: Vec<usize> = (0..channels)
        .filter(|c| options.places[*c].is_some())
        .filter(|c| !silent.contains(&(*c as u32)) && !clipped.contains(&(*c as u32)))
        .collect();
    if good.is_empty() {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "channels: expected one with a place and a signal at least, got {channels} of which {} are silent and {} clipped",
                silent.len(),
                clipped.len()
            ),
        ));
    }
    let places: Vec<[f32; 2]> = good.iter().filter_map(|c| options.places[*c]).collect();
    let grouped = groups::group(&places, settings.exclusive_um as f32);
    let mut layout = Layout {
        row_channels: channels,
        used: grouped.order.iter().map(|i| good[*i] as u32).collect(),
        places: grouped.order.iter().map(|i| places[*i]).collect(),
        noise: vec![1.0; good.len()],
        focused: vec![1.0; good.len()],
        regression: Vec::new(),
    };
    if settings.reference == Reference::Regression {
        layout.regression = regression(voltage, rows, settings, &layout)?;
    }
    layout.noise = noise(voltage, rows, settings, &layout)?;
    layout.focused = focused_noise(voltage, rows, settings, &layout)?;
    Ok((layout, grouped))
}

/// Finds units anew, among the crossings that are left where the spikes of those that are known are taken away one by one.
fn round(
    voltage: &mut dyn Voltage,
    rows: &Range<u64>,
    options: &TrainOptions,
    grouped: &groups::ChannelGroups,
    trained: &mut TrainedSorter,
    [finding, mapping]: [Phase<'_>; 2],
) -> Result<Vec<Vec<i64>>> {
    let collected = collect(
        voltage,
        rows,
        options.most_spikes,
        &trained.sorter,
        grouped,
        &finding,
    )?;
    trained.artefacts = collected.artefacts;
    (trained.spikes, trained.unlabelled) = (0, 0);
    trained.quantisation_error.clear();
    trained.sorter.groups.clear();
    trained.sorter.units.clear();
    let seconds = (rows.end - rows.start) as f64 / options.settings.rate_hz;
    let (mut fired, mut members, mut winners) = (Vec::new(), Vec::new(), Vec::new());
    for (g, (spikes, range)) in collected.groups.iter().zip(&grouped.ranges).enumerate() {
        progress::check(&mapping, "training maps")?;
        let won = one_group(
            trained,
            &mut fired,
            &mut members,
            spikes,
            range.clone(),
            options,
            seconds,
        )?;
        winners.push(won);
        mapping.update("training maps", g as u64 + 1, grouped.ranges.len() as u64);
    }
    let echoes = echo::echoes(&fired, options.settings.rate_hz);
    trained.echoes = silence(&mut trained.sorter, &echoes);
    let mut away = echoes.iter();
    members.retain(|_| away.next() == Some(&false));
    border::join(
        &mut trained.sorter,
        &collected.groups,
        &members,
        &options.apart,
    );
    number(&mut trained.sorter);
    let sorter = &trained.sorter;
    let mut samples = vec![Vec::new(); sorter.units.len()];
    for ((group, spikes), winners) in sorter.groups.iter().zip(&collected.groups).zip(&winners) {
        for (sample, node) in spikes.samples.iter().zip(winners) {
            let label = group.labels[*node as usize];
            if label != UNLABELLED {
                samples[label as usize].push(*sample);
            }
        }
    }
    Ok(samples)
}

/// Removes units whose templates are no unit's, and numbers what stays.
fn drop_false_units(
    sorter: &mut Sorter,
    options: &TrainOptions,
    found: Option<&learn::UnitSpikes>,
    last: bool,
) {
    let mut gone = learn::find_false_units(sorter, options.apart.spikes as u64, found, last);
    if let Some(found) = found {
        let fired = |(unit, samples): (&Unit, &Vec<i64>)| {
            let used = sorter.layout.used.iter().position(|c| *c == unit.channel);
            UnitTrain {
                samples: samples.clone(),
                size: unit.template.energy().sqrt(),
                place: used.map_or([0.0; 2], |c| sorter.layout.places[c]),
            }
        };
        let fired: Vec<UnitTrain> = sorter.units.iter().zip(&found.fired).map(fired).collect();
        let echoes = echo::echoes(&fired, sorter.settings.rate_hz);
        gone.iter_mut()
            .zip(echoes)
            .for_each(|(gone, echo)| *gone |= echo);
    }
    silence(sorter, &gone);
    number(sorter);
}

/// Axes, map and units of a group.
fn one_group(
    trained: &mut TrainedSorter,
    fired: &mut Vec<UnitTrain>,
    members: &mut Vec<Vec<u32>>,
    spikes: &Spikes,
    range: Range<usize>,
    options: &TrainOptions,
    seconds: f64,
) -> Result<Vec<u32>> {
    let inputs = inputs(range.len());
    let count = spikes.channels.len();
    trained.spikes += count as u64;
    let dims = options.dims.min(inputs);
    let axes = axes(spikes, range, dims)?;
    let mut numbers = memory::room("spikes", count.max(1) * dims)?;
    let arch = pulp::Arch::new();
    for spike in spikes.faded.chunks_exact(inputs) {
        numbers.extend_from_slice(&axes.weigh(arch, spike)[..dims]);
    }
    let number = trained.sorter.groups.len() as u32;
    if count < options.apart.spikes {
        trained.unlabelled += count as u64;
        trained.quantisation_error.push(0.0);
        trained.sorter.groups.push(Group {
            weights: vec![0.0; dims],
            axes,
            rows: 1,
            columns: 1,
            labels: vec![UNLABELLED],
            hits: vec![count as u32],
        });
        return Ok(vec![0; count]);
    }
    let side = match options.side {
        0 => (5.0 * (count as f64).sqrt()).sqrt().ceil().clamp(4.0, 32.0) as usize,
        side => side,
    };
    let samples = Samples::new(&numbers, dims)?;
    let grid = Grid::new(side, side, Lattice::Rectangular, false)?;
    let mut map = Map::on_plane(grid, samples)?;
    let batch = BatchOptions {
        epochs: options.epochs,
        ..BatchOptions::default()
    };
    map.train(samples, &batch, &Device::cpu(), &())?;
    let winners = map.winners(samples)?;
    let found = cluster::units(&map, samples, &winners, &options.apart);
    let found = cluster::keep_apart(found, &spikes.known, &winners);
    let (hits, distances) = hits(&map, samples, &winners);
    let total: f64 = distances.iter().map(|d| f64::from(*d)).sum();
    trained.quantisation_error.push(total / count as f64);
    let first = trained.sorter.units.len();
    for u in 0..found.count {
        let own: Vec<usize> = (0..count)
            .filter(|s| found.samples[*s] == Some(u))
            .collect();
        let cluster = Members {
            own: &own,
            spikes,
            samples,
            distances: &distances,
        };
        let (unit, spikes_of_it) = cluster.make_unit(&trained.sorter, number, seconds);
        trained.sorter.units.push(unit);
        fired.push(spikes_of_it);
        members.push(own.iter().map(|s| *s as u32).collect());
    }
    trained.unlabelled += found.samples.iter().filter(|u| u.is_none()).count() as u64;
    let label = |unit: &Option<usize>| unit.map_or(UNLABELLED, |u| (first + u) as u32);
    trained.sorter.groups.push(Group {
        axes,
        rows: side,
        columns: side,
        weights: map.weights().to_vec(),
        labels: found.nodes.iter().map(label).collect(),
        hits,
    });
    Ok(winners)
}

/// Samples for which each node is the nearest, and the distance of each sample from its node.
fn hits(map: &Map, samples: Samples<'_>, winners: &[u32]) -> (Vec<u32>, Vec<f32>) {
    let mut hits = vec![0_u32; map.grid().nodes()];
    let mut distances = Vec::with_capacity(winners.len());
    for (x, &winner) in samples.rows().zip(winners) {
        hits[winner as usize] += 1;
        let node = map.node(winner as usize);
        let squares = x.iter().zip(node).map(|(x, w)| (x - w).powi(2));
        distances.push(squares.sum::<f32>().sqrt());
    }
    (hits, distances)
}

/// Mean and principal components of a group's projections.
pub(crate) fn axes(spikes: &Spikes, range: Range<usize>, dims: usize) -> Result<Axes> {
    let inputs = inputs(range.len());
    let count = spikes.channels.len();
    let mut mean = vec![0.0_f64; inputs];
    for spike in spikes.faded.chunks_exact(inputs) {
        for (m, x) in mean.iter_mut().zip(spike) {
            *m += f64::from(*x);
        }
    }
    mean.iter_mut().for_each(|m| *m /= count.max(1) as f64);
    let mut products = Mat::<f64>::zeros(inputs, inputs);
    let mut centred = vec![0.0; inputs];
    let every = count.div_ceil(AXIS_SPIKES).max(1);
    for spike in spikes.faded.chunks_exact(inputs).step_by(every) {
        for ((c, x), m) in centred.iter_mut().zip(spike).zip(&mean) {
            *c = f64::from(*x) - m;
        }
        // Most channels are out of reach of most spikes.
        let live: Vec<usize> = (0..inputs).filter(|i| spike[*i] != 0.0).collect();
        for &i in &live {
            for &j in live.iter().take_while(|j| **j <= i) {
                products[(i, j)] += centred[i] * centred[j];
            }
        }
    }
    let mut axes = vec![0.0; inputs * MOST_DIMS];
    if count > 0 {
        let found = eigen(products.as_ref())
            .ok_or_else(|| Error::new(ErrorKind::NonFinite, "spikes: no principal components"))?;
        for d in 0..dims {
            for i in 0..inputs {
                axes[i * MOST_DIMS + d] = found.vectors[(i, inputs - 1 - d)] as f32;
            }
        }
    } else {
        for d in 0..dims {
            axes[d * MOST_DIMS + d] = 1.0;
        }
    }
    Ok(Axes {
        from: range.start,
        until: range.end,
        dims,
        mean: mean.iter().map(|m| *m as f32).collect(),
        axes,
    })
}

/// Takes units away; their nodes stand for noise. How many it was.
fn silence(sorter: &mut Sorter, away: &[bool]) -> usize {
    let mut next = 0;
    let places: Vec<u32> = (away.iter())
        .map(|away| {
            if *away {
                return UNLABELLED;
            }
            next += 1;
            next - 1
        })
        .collect();
    for group in &mut sorter.groups {
        for label in group.labels.iter_mut().filter(|l| **l != UNLABELLED) {
            *label = places[*label as usize];
        }
    }
    let mut unit = 0;
    sorter.units.retain(|_| {
        unit += 1;
        !away[unit - 1]
    });
    away.iter().filter(|away| **away).count()
}

/// Numbers units by channel, the largest of a channel first.
fn number(sorter: &mut Sorter) {
    let mut order: Vec<usize> = (0..sorter.units.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&sorter.units[*a], &sorter.units[*b]);
        a.channel
            .cmp(&b.channel)
            .then(a.microvolts.total_cmp(&b.microvolts))
    });
    let mut place = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        place[old] = new as u32;
    }
    for group in &mut sorter.groups {
        for label in group.labels.iter_mut().filter(|l| **l != UNLABELLED) {
            *label = place[*label as usize];
        }
    }
    sorter.units = order.iter().map(|u| sorter.units[*u].clone()).collect();
    for (id, unit) in sorter.units.iter_mut().enumerate() {
        unit.id = id as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_rows_that_each_phase_reads() {
        let settings = Settings::new(1000.0, 0.2);
        let shares = |seconds: u64| TimeShares::new(&(50..50 + seconds * 1000), &settings);
        let [minute, hour] = [60, 3600].map(shares);
        assert_eq!(hour.setup, minute.setup);
        assert_eq!(hour.collect.map(|share| share / 60), minute.collect);
        // Templates are made of two minutes.
        assert_eq!(hour.refine, 2 * minute.refine);
        let phases = [
            minute.setup,
            minute.collect.iter().sum(),
            2 * (minute.maps + minute.templates + 2 * minute.refine),
        ];
        assert_eq!(minute.all(), phases.iter().sum::<u64>());
    }
}
