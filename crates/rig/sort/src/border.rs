//! Units at the border of two groups: a spike belongs to the group of the channel that sees it largest, so a unit
//! between two groups is found in both. It is one where the channels that both see do not tell the two apart.

use crate::cluster::{Separation, two};
use crate::collect::Spikes;
use crate::feature::WAVES;
use crate::sorter::{Beyond, Sorter, UNLABELLED};
use betz_som::Samples;

/// Channels that two units are compared on, those that see most of them: as many numbers as a map has.
const CHANNELS: usize = 4;

/// Makes one unit of two in neighbouring groups where they are one. `spikes`: of each group; `members`: of each unit,
/// the places of its spikes there.
pub(crate) fn join(
    sorter: &mut Sorter,
    spikes: &[Spikes],
    members: &[Vec<u32>],
    apart: &Separation,
) {
    let mut pairs = Vec::new();
    for a in 0..sorter.units.len() {
        for b in a + 1..sorter.units.len() {
            if let Some(pair) = Pair::of(sorter, spikes, members, (a, b)) {
                pairs.push((pair.distance(), a, b, pair.one(apart)));
            }
        }
    }
    pairs.retain(|(.., one)| *one);
    // The nearest first; a unit is joined to one other.
    pairs.sort_by(|x, y| x.0.total_cmp(&y.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    let mut into: Vec<usize> = (0..sorter.units.len()).collect();
    let mut taken = vec![false; sorter.units.len()];
    for (_, a, b, _) in pairs {
        if taken[a] || taken[b] {
            continue;
        }
        (taken[a], taken[b]) = (true, true);
        let (kept, gone) = if sorter.units[b].spikes > sorter.units[a].spikes {
            (b, a)
        } else {
            (a, b)
        };
        into[gone] = kept;
        let other = sorter.units[gone].clone();
        let unit = &mut sorter.units[kept];
        unit.spikes += other.spikes;
        unit.rate_hz += other.rate_hz;
        unit.beyond.push(Beyond {
            group: other.group,
            rate_hz: other.rate_hz,
            centre: other.centre,
            gate: other.gate,
        });
    }
    let stays = |unit: usize| into[unit] == unit;
    let before = |unit: usize| (0..unit).filter(|u| stays(*u)).count() as u32;
    let places: Vec<u32> = into.iter().map(|unit| before(*unit)).collect();
    for group in &mut sorter.groups {
        for label in group.labels.iter_mut().filter(|l| **l != UNLABELLED) {
            *label = places[*label as usize];
        }
    }
    let mut unit = 0;
    sorter.units.retain(|_| {
        unit += 1;
        stays(unit - 1)
    });
}

/// Two units on the channels that both of their groups see.
struct Pair {
    /// Numbers of all spikes, those of the first unit before those of the second.
    values: Vec<f32>,
    dims: usize,
    first: usize,
    means: [Vec<f64>; 2],
}

impl Pair {
    /// `None` for units of one group, or too far apart to be one.
    fn of(
        sorter: &Sorter,
        spikes: &[Spikes],
        members: &[Vec<u32>],
        (a, b): (usize, usize),
    ) -> Option<Self> {
        let groups = [a, b].map(|unit| sorter.units[unit].group as usize);
        let ranges = groups.map(|g| {
            let axes = &sorter.groups[g].axes;
            axes.from..axes.until
        });
        let common = ranges[0].start.max(ranges[1].start)..ranges[0].end.min(ranges[1].end);
        if groups[0] == groups[1] || common.is_empty() {
            return None;
        }
        let place = |unit: usize| {
            let channel = sorter.units[unit].channel;
            let used = &sorter.layout.used;
            used.iter().position(|c| *c == channel)
        };
        let (at, to) = (place(a)?, place(b)?);
        let near = sorter.settings.exclusive_um as f32;
        if !common.contains(&at) || !common.contains(&to) || sorter.layout.distance(at, to) > near {
            return None;
        }
        let row = |side: usize, spike: u32| {
            let width = ranges[side].len();
            let faded = &spikes[groups[side]].faded[spike as usize * WAVES * width..];
            let start = ranges[side].start;
            move |wave: usize, channel: usize| faded[wave * width + channel - start]
        };
        let sides = [&members[a], &members[b]];
        let mean = |side: usize, wave: usize, channel: usize| {
            let of = sides[side].iter();
            let sum: f64 = of.map(|s| f64::from(row(side, *s)(wave, channel))).sum();
            sum / sides[side].len().max(1) as f64
        };
        let energy = |channel: usize| -> f64 {
            let all = (0..2).flat_map(|side| (0..WAVES).map(move |wave| (side, wave)));
            all.map(|(side, wave)| mean(side, wave, channel).powi(2))
                .sum()
        };
        let mut channels: Vec<(f64, usize)> = common.map(|c| (energy(c), c)).collect();
        channels.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
        channels.truncate(CHANNELS);
        let numbers: Vec<(usize, usize)> = (channels.iter())
            .flat_map(|(_, c)| (0..WAVES).map(|wave| (wave, *c)))
            .collect();
        let mut values = Vec::new();
        for (side, of) in sides.iter().enumerate() {
            for &spike in of.iter() {
                let row = row(side, spike);
                values.extend(numbers.iter().map(|(wave, c)| row(*wave, *c)));
            }
        }
        Some(Self {
            values,
            dims: numbers.len(),
            first: sides[0].len(),
            means: [0, 1].map(|side| numbers.iter().map(|(w, c)| mean(side, *w, *c)).collect()),
        })
    }

    fn distance(&self) -> f64 {
        let [a, b] = &self.means;
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
    }

    /// True if nothing tells the two apart.
    fn one(&self, apart: &Separation) -> bool {
        let Ok(samples) = Samples::new(&self.values, self.dims) else {
            return false;
        };
        let all: Vec<u32> = (0..samples.count() as u32).collect();
        let (a, b) = all.split_at(self.first);
        let [first, second] = &self.means;
        !two(samples, a, b, (first, second), apart)
    }
}
