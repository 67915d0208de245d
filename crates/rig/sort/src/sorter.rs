//! A trained sorter: its maps and units, and changes by hand.

use betz_base::{Error, ErrorKind, Result};

use crate::feature::{Axes, MOST_DIMS, Waves};
use crate::front::Layout;
use crate::settings::{Settings, Span, Window};
use crate::template::Template;

/// A unit that the sorter tells from others.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    /// Its number; it stays the same when others are merged or split.
    pub id: u32,
    /// Group of channels that it was found in.
    pub group: u32,
    /// Channel of its largest minimum, as the recording counts.
    pub channel: u32,
    /// Spikes in training.
    pub spikes: u64,
    /// Spikes per second in training.
    pub rate_hz: f64,
    /// Mean minimum, in microvolts.
    pub microvolts: f32,
    /// Mean numbers of its spikes, in standard deviations of the noise.
    pub centre: Vec<f32>,
    /// Distance from its nearest node beyond which a spike is not labelled.
    pub gate: f32,
    /// Mean waveform on [`Unit::channel`], in microvolts.
    pub waveform: Vec<f32>,
    /// Mean spike on all channels that its group's features are made of.
    pub(crate) template: Template,
    /// Templates of the units that were merged into it by hand.
    pub(crate) more: Vec<Template>,
    /// Nodes of neighbouring groups' maps on which its spikes may lie, too.
    pub beyond: Vec<Beyond>,
}

/// A unit at the border of two groups as the other's map sees it: the spikes whose largest minimum is on that group's
/// channels.
#[derive(Debug, Clone, PartialEq)]
pub struct Beyond {
    /// The other group.
    pub group: u32,
    /// Spikes per second in training; [`Unit::rate_hz`] has them too.
    pub rate_hz: f64,
    /// As [`Unit::centre`], in that group's numbers.
    pub centre: Vec<f32>,
    /// As [`Unit::gate`].
    pub gate: f32,
}

impl Unit {
    /// Spikes per second on the map of its own group.
    pub(crate) fn own_rate_hz(&self) -> f64 {
        self.rate_hz - self.beyond.iter().map(|b| b.rate_hz).sum::<f64>()
    }
}

/// A map over the spikes of some channels, its nodes labelled.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub(crate) axes: Axes,
    /// Rows and columns of the map.
    pub rows: usize,
    /// See [`Group::rows`].
    pub columns: usize,
    /// (nodes, dims), in standard deviations of the noise.
    pub weights: Vec<f32>,
    /// Of each node: the unit (its place in [`Sorter::units`]), or [`UNLABELLED`].
    pub labels: Vec<u32>,
    /// Spikes of each node in training.
    pub hits: Vec<u32>,
}

impl Group {
    /// Numbers of a spike.
    pub fn dims(&self) -> usize {
        self.axes.dims
    }

    /// Nodes of its map.
    pub fn nodes(&self) -> usize {
        self.rows * self.columns
    }
}

/// The label of nodes that stand for noise.
pub const UNLABELLED: u32 = u32::MAX;

/// A change by hand of what training found; kept in the file in the order it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Units that are one: all become the first.
    Merge {
        /// Numbers of the units, two or more.
        units: Vec<u32>,
    },
    /// Nodes of a unit that are another, which gets the next free number.
    Split {
        /// Number of the unit.
        unit: u32,
        /// Nodes of its group's map.
        nodes: Vec<u32>,
    },
}

/// Everything that sorting needs: trained once, kept in a file, run by [`Sorting`](crate::Sorting).
#[derive(Debug, Clone, PartialEq)]
pub struct Sorter {
    pub(crate) settings: Settings,
    pub(crate) layout: Layout,
    pub(crate) waves: Waves,
    /// Group of each used channel.
    pub(crate) group_of: Vec<u32>,
    pub(crate) groups: Vec<Group>,
    pub(crate) units: Vec<Unit>,
    pub(crate) edits: Vec<Edit>,
    /// Time constant of forgetting, in seconds; 0: units stay where training found them.
    pub(crate) forget_seconds: f64,
}

impl Unit {
    /// Takes `other` into this unit: means are weighed by spikes, and its templates are kept beside this one's.
    fn merge(&mut self, other: Self) {
        let (own, others) = (self.spikes as f32, other.spikes as f32);
        let share = |x: f32, y: f32| (x * own + y * others) / (own + others).max(1.0);
        let mix = |a: &[f32], b: &[f32]| -> Vec<f32> {
            a.iter().zip(b).map(|(a, b)| share(*a, *b)).collect()
        };
        self.centre = mix(&self.centre, &other.centre);
        self.more.push(other.template);
        self.more.extend(other.more);
        if self.channel == other.channel {
            self.waveform = mix(&self.waveform, &other.waveform);
            self.microvolts = share(self.microvolts, other.microvolts);
        } else if other.spikes > self.spikes {
            self.channel = other.channel;
            self.waveform = other.waveform;
            self.microvolts = other.microvolts;
        }
        self.gate = self.gate.max(other.gate);
        self.spikes += other.spikes;
        self.rate_hz += other.rate_hz;
        for other in other.beyond {
            let Some(own) = self.beyond.iter_mut().find(|own| own.group == other.group) else {
                self.beyond.push(other);
                continue;
            };
            let part = (other.rate_hz / (own.rate_hz + other.rate_hz).max(1e-9)) as f32;
            for (x, y) in own.centre.iter_mut().zip(&other.centre) {
                *x += part * (y - *x);
            }
            own.gate = own.gate.max(other.gate);
            own.rate_hz += other.rate_hz;
        }
    }
}

impl Sorter {
    /// Settings of the front end.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Which channels there are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Mean spike of `unit`, one of this sorter's, in microvolts: (samples, channels of the layout), 0 on channels that its
    /// template does not cover.
    #[cfg(feature = "train")]
    pub fn mean_waveform(&self, unit: &Unit) -> Vec<f32> {
        let (from, until) = (unit.template.from, unit.template.until);
        let (width, channels) = ((until - from).max(1), self.layout.channels());
        let mean = unit.template.mean();
        let mut all = vec![0.0; mean.len() / width * channels];
        for (row, values) in all.chunks_exact_mut(channels).zip(mean.chunks_exact(width)) {
            for ((to, value), noise) in row[from..until]
                .iter_mut()
                .zip(values)
                .zip(&self.layout.noise[from..until])
            {
                *to = value * noise;
            }
        }
        all
    }

    /// The units, by number.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// The maps.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Changes by hand.
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Time constant by which a unit follows its spikes, in seconds; 0: not at all.
    pub fn forget_seconds(&self) -> f64 {
        self.forget_seconds
    }

    /// Sets [`Sorter::forget_seconds`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for what is no time.
    pub fn set_forget_seconds(&mut self, seconds: f64) -> Result<()> {
        if !(seconds >= 0.0 && seconds.is_finite()) {
            return Err(Error::argument(format!(
                "forgetting: expected seconds, 0 or more, got {seconds}"
            )));
        }
        self.forget_seconds = seconds;
        Ok(())
    }

    /// Merges or splits units; the change is kept with the sorter.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a unit or node that there is not, units of different groups, and a split
    /// that leaves a side empty.
    pub fn edit(&mut self, edit: Edit) -> Result<()> {
        match &edit {
            Edit::Merge { units } => self.merge(units)?,
            Edit::Split { unit, nodes } => self.split(*unit, nodes)?,
        }
        self.edits.push(edit);
        Ok(())
    }

    fn place(&self, id: u32) -> Result<usize> {
        let place = self.units.iter().position(|unit| unit.id == id);
        place.ok_or_else(|| {
            let ids: Vec<String> = self.units.iter().map(|unit| unit.id.to_string()).collect();
            Error::argument(format!(
                "unit {id}: expected one of {}",
                if ids.is_empty() {
                    "none".to_owned()
                } else {
                    ids.join(", ")
                }
            ))
        })
    }

    fn merge(&mut self, ids: &[u32]) -> Result<()> {
        let places: Vec<usize> = ids
            .iter()
            .map(|id| self.place(*id))
            .collect::<Result<_>>()?;
        let Some((&kept, others)) = places.split_first() else {
            return Err(Error::argument(
                "merge: expected two units or more, got none",
            ));
        };
        if others.is_empty() || others.contains(&kept) {
            return Err(Error::argument(format!(
                "merge: expected two different units or more, got {ids:?}"
            )));
        }
        if let Some(&other) = others
            .iter()
            .find(|&&u| self.units[u].group != self.units[kept].group)
        {
            return Err(Error::argument(format!(
                "merge: unit {} is of group {}, unit {} of group {}: expected units of one map",
                self.units[kept].id,
                self.units[kept].group,
                self.units[other].id,
                self.units[other].group
            )));
        }
        for &other in others {
            let other = self.units[other].clone();
            self.units[kept].merge(other);
        }
        // Labels are places: first the merged, then what follows those that go.
        let mut moved: Vec<u32> = (0..self.units.len() as u32).collect();
        for &other in others {
            moved[other] = kept as u32;
        }
        let gone = |place: usize| others.contains(&place);
        let before = |place: u32| place - (0..place as usize).filter(|p| gone(*p)).count() as u32;
        for group in &mut self.groups {
            for label in group.labels.iter_mut().filter(|l| **l != UNLABELLED) {
                *label = before(moved[*label as usize]);
            }
        }
        let mut place = 0;
        self.units.retain(|_| {
            place += 1;
            !gone(place - 1)
        });
        Ok(())
    }

    fn split(&mut self, id: u32, nodes: &[u32]) -> Result<()> {
        let place = self.place(id)?;
        let group = &mut self.groups[self.units[place].group as usize];
        for &node in nodes {
            let label = group.labels.get(node as usize);
            if label != Some(&(place as u32)) {
                return Err(Error::argument(format!(
                    "split: expected nodes of unit {id}, got node {node}"
                )));
            }
        }
        let dims = group.dims();
        let side = |group: &Group, label: u32| {
            let (mut centre, mut spikes) = (vec![0.0_f64; dims], 0_u64);
            for node in (0..group.nodes()).filter(|n| group.labels[*n] == label) {
                let hits = u64::from(group.hits[node]);
                spikes += hits;
                for (c, w) in centre.iter_mut().zip(&group.weights[node * dims..][..dims]) {
                    *c += f64::from(*w) * hits as f64;
                }
            }
            let centre = centre.iter().map(|c| (c / spikes.max(1) as f64) as f32);
            (centre.collect::<Vec<f32>>(), spikes)
        };
        let new = self.units.len() as u32;
        for &node in nodes {
            group.labels[node as usize] = new;
        }
        let (kept, taken) = (side(group, place as u32), side(group, new));
        if kept.1 == 0 || taken.1 == 0 {
            for &node in nodes {
                group.labels[node as usize] = place as u32;
            }
            return Err(Error::argument(format!(
                "split: expected spikes on both sides, got {} and {}",
                kept.1, taken.1
            )));
        }
        let axes = group.axes.clone();
        let next = self.next_id();
        let mut unit = self.units[place].clone();
        let share = taken.1 as f64 / (kept.1 + taken.1) as f64;
        let (before, template) = (unit.centre.clone(), unit.template.clone());
        let moved = |to: &[f32]| {
            let by: Vec<f32> = to.iter().zip(&before).map(|(to, from)| to - from).collect();
            template.moved(&self.settings, self.waves.waves(), &axes.back(&by))
        };
        let [stays, goes] = [moved(&kept.0), moved(&taken.0)];
        unit.template = goes;
        unit.id = next;
        (unit.centre, unit.spikes) = taken;
        unit.rate_hz = share * unit.own_rate_hz();
        // The part beyond the group stays with the old unit.
        unit.beyond.clear();
        let old = &mut self.units[place];
        (old.centre, old.spikes) = kept;
        old.template = stays;
        old.rate_hz -= unit.rate_hz;
        self.units.push(unit);
        Ok(())
    }

    /// A number that no unit has or had.
    fn next_id(&self) -> u32 {
        let merged = self.edits.iter().flat_map(|edit| match edit {
            Edit::Merge { units } => units.as_slice(),
            Edit::Split { .. } => &[],
        });
        let used = self.units.iter().map(|unit| &unit.id).chain(merged);
        used.max().map_or(0, |most| most + 1)
    }

    /// Checks what a file might have wrong.
    pub(crate) fn check(&self) -> Result<()> {
        let bad = |what: String| {
            Err(Error::new(
                ErrorKind::InvalidModel,
                format!("sorter: {what}"),
            ))
        };
        self.settings
            .check()
            .map_err(|e| e.of_kind(ErrorKind::InvalidModel))?;
        (self.layout.check(self.settings.reference))
            .map_err(|e| e.of_kind(ErrorKind::InvalidModel))?;
        let n = self.layout.channels();
        if self.group_of.len() != n
            || self
                .group_of
                .iter()
                .any(|g| *g as usize >= self.groups.len())
        {
            return bad(format!("expected a group of each of {n} channels"));
        }
        let finite = |values: &[f32]| values.iter().all(|v| v.is_finite());
        for (g, group) in self.groups.iter().enumerate() {
            let axes = &group.axes;
            let nodes = group.rows.saturating_mul(group.columns);
            let fits = axes.from < axes.until
                && axes.until <= n
                && (1..=MOST_DIMS).contains(&axes.dims)
                && axes.mean.len() == axes.inputs()
                && axes.axes.len() == axes.inputs() * MOST_DIMS
                && nodes >= 1
                && group.labels.len() == nodes
                && group.hits.len() == nodes
                && nodes.checked_mul(axes.dims) == Some(group.weights.len())
                && finite(&axes.mean)
                && finite(&axes.axes)
                && finite(&group.weights);
            let labelled = |l: &u32| *l == UNLABELLED || (*l as usize) < self.units.len();
            if !fits || !group.labels.iter().all(labelled) {
                return bad(format!("group {g} does not fit together"));
            }
        }
        for unit in &self.units {
            let group = self.groups.get(unit.group as usize);
            let fits = group.is_some_and(|g| g.dims() == unit.centre.len())
                && unit.waveform.len() == Window::from_settings(&self.settings).len()
                && (std::iter::once(&unit.template).chain(&unit.more))
                    .all(|template| template.fits(Span::from_settings(&self.settings), n))
                && finite(&unit.centre)
                && finite(&unit.waveform)
                && unit.beyond.iter().all(|beyond| {
                    let group = self.groups.get(beyond.group as usize);
                    beyond.group != unit.group
                        && group.is_some_and(|g| g.dims() == beyond.centre.len())
                        && finite(&beyond.centre)
                        && beyond.gate > 0.0
                        && (0.0..=unit.rate_hz).contains(&beyond.rate_hz)
                })
                && unit.gate > 0.0
                && unit.rate_hz >= 0.0
                && unit.rate_hz.is_finite();
            if !fits {
                return bad(format!("unit {} does not fit together", unit.id));
            }
        }
        Ok(())
    }
}

/// A unit that is no longer where, or what, it was; see [`Sorting::moves`](crate::Sorting::moves).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnitMove {
    /// The unit, by its place in [`Sorter::units`].
    pub unit: u32,
    /// Distance of its mean spike, on all channels, from that of training, in standard deviations of the noise.
    pub distance: f32,
    /// Size of the mean spike of training, in the same.
    pub size: f32,
    /// Spikes per second now, by the same forgetting.
    pub rate_hz: f64,
    /// True if distance or rate has left its band.
    pub reported: bool,
}

/// Inputs of a group's projection: waves of each channel.
#[cfg(feature = "train")]
pub(crate) fn inputs(channels: usize) -> usize {
    crate::feature::WAVES * channels
}
