//! `betz record export`: a recorded session in files that outlive Betz.

mod align;
mod flat;
mod nwb;
mod survey;

use betz::Result;
use betz::sort::{Sorter, Sorting};
use betz_live::plan::Feature;
use betz_live::record::{Damage, Recording};
use serde::Serialize;

use super::args::{Export, Format};
use super::print_damage;
use crate::report::{self, Outcome};
use align::AlignedSource;

use survey::{Epoch, Form, Survey, rows};

/// Spikes of one unit.
struct UnitSpikes {
    name: String,
    source: usize,
    /// Source and epoch of each spike's device time, and the time.
    spikes: Vec<(usize, u64)>,
}

#[derive(Serialize)]
struct EpochReport {
    name: String,
    channels: usize,
    /// Rows, lost ones included.
    rows: u64,
    /// Rows that never came, and are written as 0.
    lost: u64,
}

#[derive(Serialize)]
struct ExportReport {
    /// Bins with features; 0 if there are none.
    bins: i64,
    steps: usize,
    labels: usize,
    trials: usize,
    marks: usize,
    /// Changes of digital lines.
    lines: usize,
    events: usize,
    units: usize,
    spikes: usize,
    /// Rows of each source in each epoch of its clock.
    epochs: Vec<EpochReport>,
    /// Rows of all of them that were lost.
    lost: u64,
    /// Sources that were placed by a shared line.
    aligned: Vec<AlignedSource>,
    damage: Damage,
}

pub(super) fn run(args: &Export) -> Result<()> {
    let recorded = Recording::open(&args.folder)?;
    let survey = Survey::read(&args.folder, &recorded, &args.align)?;
    let units = units(args, &recorded, &survey)?;
    let spikes = units.iter().map(|unit| unit.spikes.len()).sum();
    let mut told = ExportReport {
        bins: 0,
        steps: survey.steps.len(),
        labels: survey.labels.len(),
        trials: survey.trials.len(),
        marks: survey.marks.len(),
        lines: survey.lines.len(),
        events: survey.events.len(),
        units: units.len(),
        spikes,
        epochs: (survey.epochs.iter())
            .filter(|epoch| epoch.form != Form::Spikes)
            .map(|epoch| EpochReport {
                name: survey.name(epoch),
                channels: epoch.facts.channels,
                rows: epoch.rows,
                lost: epoch.lost(),
            })
            .collect(),
        lost: survey.epochs.iter().map(Epoch::lost).sum(),
        aligned: survey.aligned.clone(),
        damage: survey.damage,
    };
    match args.to {
        Format::Nwb => told.bins = nwb::write(args, recorded, survey, units)?,
        Format::Flat => flat::write(args, &recorded, &survey, &units)?,
    }
    report::tell(&told, args.common.json)
}

/// The sorted units of a session, with times that its sorter finds again in the recorded voltage, and the channels of sources
/// that send spikes.
fn units(args: &Export, recorded: &Recording, survey: &Survey) -> Result<Vec<UnitSpikes>> {
    let mut units = Vec::new();
    if recorded.plan.voltage.feature == Feature::Units {
        let sorter = recorded.plan.load_sorter()?;
        let first = (0..sorter.units().len()).map(|unit| UnitSpikes {
            name: format!("unit{unit}"),
            source: 0,
            spikes: Vec::new(),
        });
        units.extend(first);
        let of_first = |epoch: &&Epoch| epoch.source == 0 && epoch.form == Form::Voltage;
        for (at, epoch) in survey
            .epochs
            .iter()
            .enumerate()
            .filter(|(_, e)| of_first(e))
        {
            sort(args, &sorter, (at, epoch), &mut units)?;
        }
    }
    let mut reader = betz_live::record::Reader::open(&args.folder)?;
    let sends_spikes = survey.epochs.iter().any(|epoch| epoch.form == Form::Spikes);
    while let Some(record) = sends_spikes
        .then(|| reader.next_record())
        .transpose()?
        .flatten()
    {
        let betz_live::record::Record::Block(source, block) = record else {
            continue;
        };
        let betz_rigs::rig::Samples::Spikes(spikes) = &block.samples else {
            continue;
        };
        let is_of = |e: &Epoch| (e.source, e.epoch) == (source, block.epoch);
        let Some(at) = survey.epochs.iter().position(is_of) else {
            continue;
        };
        for spike in spikes {
            let name = format!("{}/{}", survey.sources[source], spike.channel);
            let place = units.iter().position(|unit| unit.name == name);
            let place = place.unwrap_or_else(|| {
                units.push(UnitSpikes {
                    name,
                    source,
                    spikes: Vec::new(),
                });
                units.len() - 1
            });
            units[place].spikes.push((at, spike.tick));
        }
    }
    Ok(units)
}

/// Sorts the voltage of an epoch; the sorter begins again behind each gap.
fn sort(
    args: &Export,
    sorter: &Sorter,
    (at, epoch): (usize, &Epoch),
    units: &mut [UnitSpikes],
) -> Result<()> {
    let mut sorting = Sorting::open(sorter)?;
    let (mut begun, mut next) = (epoch.first, epoch.first);
    let mut gaps = epoch.gaps.iter().peekable();
    let channels = epoch.facts.channels;
    rows::<i16>(&args.folder, epoch, &mut |values| {
        let mut left = values;
        while !left.is_empty() {
            let until = gaps.peek().map_or(u64::MAX, |gap| match next < gap[0] {
                true => gap[0],
                false => gap[1],
            });
            let count = (until - next).min((left.len() / channels) as u64) as usize;
            let (now, rest) = left.split_at(count * channels);
            let is_lost = gaps.peek().is_some_and(|gap| next >= gap[0]);
            if !is_lost {
                sorting.push(now, &mut |spike| {
                    if let Some(unit) = spike.unit.and_then(|unit| units.get_mut(unit as usize)) {
                        let row = begun.saturating_add_signed(spike.sample);
                        unit.spikes.push((at, row));
                    }
                })?;
            }
            next += count as u64;
            if gaps.peek().is_some_and(|gap| next >= gap[1]) {
                gaps.next();
                sorting = Sorting::open(sorter)?;
                begun = next;
            }
            left = rest;
        }
        Ok(())
    })
}

impl Outcome for ExportReport {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{}, {}, {}, {}, {}",
            report::count(self.steps as u64, "step"),
            report::count(self.labels as u64, "label"),
            report::count(self.trials as u64, "trial"),
            report::count(self.marks as u64, "mark"),
            report::count(self.events as u64, "event"),
        ))?;
        for epoch in &self.epochs {
            report::line(&format!(
                "{}: {} of {}, {} of them lost and written as 0",
                epoch.name,
                report::count(epoch.rows, "row"),
                report::count(epoch.channels as u64, "channel"),
                epoch.lost
            ))?;
        }
        if self.lines > 0 {
            report::line(&format!(
                "{} of digital lines",
                report::count(self.lines as u64, "change")
            ))?;
        }
        for aligned in &self.aligned {
            report::line(&aligned.to_string())?;
        }
        if self.units > 0 {
            report::line(&format!(
                "{} of {}",
                report::count(self.spikes as u64, "spike"),
                report::count(self.units as u64, "unit")
            ))?;
        }
        print_damage(&self.damage)
    }
}
