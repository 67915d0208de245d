//! Time series: behaviour, and what was decoded.

use std::collections::HashSet;

use betz_base::error::Result;
use betz_recording::OutputInfo;

use super::DecodedOutputs;
use super::source::{Regular, Source, Survey};
use crate::nwb::hdf5_write::{CORE, GrowingDataset, NewDataset, NewFile, Value};
use crate::nwb::own::OwnSeries;

/// Stands for an unknown unit: NWB wants one.
const NO_UNIT: &str = "n.a.";

/// Outputs beside each other that one series holds.
#[derive(Debug, PartialEq)]
pub(super) struct SeriesPlan {
    pub(super) name: String,
    /// Names of the columns, without the series' own where they begin with it.
    columns: Vec<String>,
    unit: String,
    /// The first output, and the first that is of the next series.
    first: usize,
    stop: usize,
}

/// The series that `outputs` go into: neighbours of one unit whose names begin alike (`hand_vel_x`, `hand_vel_y`) into
/// one of that name, other neighbours of one unit into one called `otherwise`.
pub(super) fn planned(outputs: &[OutputInfo], otherwise: &str) -> Vec<SeriesPlan> {
    let stem = |i: usize| {
        outputs[i]
            .name
            .rsplit_once('_')
            .filter(|(a, b)| !a.is_empty() && !b.is_empty())
    };
    let alike = |i: usize| {
        let same = |k: &usize| {
            outputs[*k].unit == outputs[i].unit && stem(*k).map(|s| s.0) == stem(i).map(|s| s.0)
        };
        match stem(i) {
            Some(_) => i + (i..outputs.len()).take_while(same).count(),
            None => i,
        }
    };
    let mut series: Vec<SeriesPlan> = Vec::new();
    let mut taken = HashSet::new();
    let mut first = 0;
    while first < outputs.len() {
        let mut stop = alike(first);
        let (name, columns) = match stem(first) {
            Some((name, _)) if stop >= first + 2 => {
                let columns = (first..stop).filter_map(|i| Some(stem(i)?.1.to_owned()));
                (name, columns.collect())
            }
            _ => {
                let of_another =
                    |i: &usize| outputs[*i].unit != outputs[first].unit || alike(*i) >= i + 2;
                stop = (first + 1..outputs.len())
                    .find(of_another)
                    .unwrap_or(outputs.len());
                let names: Vec<String> = outputs[first..stop]
                    .iter()
                    .map(|o| o.name.clone())
                    .collect();
                let name = match stop - first {
                    1 => outputs[first].name.as_str(),
                    _ => otherwise,
                };
                (name, names)
            }
        };
        series.push(SeriesPlan {
            name: free_name(name, otherwise, &mut taken),
            columns,
            unit: outputs[first].unit.clone(),
            first,
            stop,
        });
        first = stop;
    }
    series
}

/// `name` as a name in a file, which has no slash, colon or control character, and which no other series has.
fn free_name(name: &str, otherwise: &str, taken: &mut HashSet<String>) -> String {
    let plain = |c: char| match c {
        '/' | '\\' | ':' => '_',
        c if c.is_control() => '_',
        c => c,
    };
    let mut plain: String = name.chars().map(plain).collect();
    if plain.trim().is_empty() || plain.chars().all(|c| c == '.') {
        plain = otherwise.to_owned();
    }
    let mut free = plain.clone();
    let mut number = 2;
    while !taken.insert(free.clone()) {
        free = format!("{plain}_{number}");
        number += 1;
    }
    free
}

/// Times of samples.
#[derive(Clone, Copy)]
enum When {
    Regular(Regular),
    Timestamps,
}

/// Series that grow beside each other, the times of all with the first.
struct SeriesWriter<'a> {
    width: usize,
    plans: &'a [SeriesPlan],
    data: Vec<GrowingDataset<'a, f32>>,
    timestamps: Option<GrowingDataset<'a, f64>>,
}

impl<'a> SeriesWriter<'a> {
    fn new(
        file: &'a NewFile,
        module: &str,
        plans: &'a [SeriesPlan],
        about: &str,
        samples: u64,
        when: When,
    ) -> Result<Self> {
        let mut data = Vec::new();
        let mut timestamps = None;
        for (i, plan) in plans.iter().enumerate() {
            let path = format!("{module}/{}", plan.name);
            file.object(&path, CORE, "TimeSeries")?;
            file.said(&path, "description", about)?;
            let comments = format!("columns=[{}]", plan.columns.join(","));
            file.said(&path, "comments", &comments)?;
            let width = plan.stop - plan.first;
            let shape = (width > 1).then_some(width);
            data.push(file.growing::<f32>(&format!("{path}/data"), shape, samples)?);
            let times = format!("{path}/timestamps");
            match when {
                When::Regular(Regular { first, rate }) => {
                    let start = file.number(&format!("{path}/starting_time"), first)?;
                    rated(start, rate)?;
                }
                When::Timestamps if i == 0 => {
                    timestamps = Some(file.growing::<f64>(&times, None, samples)?);
                }
                When::Timestamps => {
                    let first = format!("{module}/{}/timestamps", plans[0].name);
                    file.link(&times, &first)?;
                }
            }
        }
        Ok(Self {
            width: plans.last().map_or(0, |plan| plan.stop),
            plans,
            data,
            timestamps,
        })
    }

    fn push(&mut self, values: &[f32], times: Option<&[f64]>) -> Result<()> {
        if let (Some(timestamps), Some(times)) = (&mut self.timestamps, times) {
            timestamps.push(times)?;
        }
        for (plan, data) in self.plans.iter().zip(&mut self.data) {
            match plan.stop - plan.first == self.width {
                true => data.push(values)?,
                false => {
                    let rows = values.chunks_exact(self.width);
                    let part: Vec<f32> = rows
                        .flat_map(|row| &row[plan.first..plan.stop])
                        .copied()
                        .collect();
                    data.push(&part)?;
                }
            }
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        for (plan, data) in self.plans.iter().zip(self.data) {
            let unit = if plan.unit.is_empty() {
                NO_UNIT
            } else {
                &plan.unit
            };
            measured(data.whole(), unit)?;
        }
        match self.timestamps {
            Some(timestamps) => timestamps
                .whole()
                .with("unit", Value::Text("seconds"))?
                .with("interval", Value::I32(1))
                .map(drop),
            None => Ok(()),
        }
    }
}

/// Says what the numbers of a series mean.
pub(super) fn measured(data: NewDataset<'_>, unit: &str) -> Result<()> {
    data.with("unit", Value::Text(unit))?
        .with("conversion", Value::F32(1.0))?
        .with("offset", Value::F32(0.0))?
        .with("resolution", Value::F32(-1.0))
        .map(drop)
}

/// Says at which rate samples follow a `starting_time`.
pub(super) fn rated(start: NewDataset<'_>, rate: f64) -> Result<()> {
    start
        .with("rate", Value::F64(rate))?
        .with("unit", Value::Text("seconds"))
        .map(drop)
}

/// Writes the behaviour, if there is any; what was put where.
pub(super) fn behavior(
    file: &NewFile,
    source: &mut dyn Source,
    survey: &Survey,
) -> Result<Vec<OwnSeries>> {
    let (outputs, seconds) = match &source.outline().behavior {
        Some(b) => (b.outputs.clone(), source.outline().tick_seconds),
        None => return Ok(Vec::new()),
    };
    let module = "/processing/behavior";
    file.object(module, CORE, "ProcessingModule")?;
    file.said(module, "description", "behaviour beside the spikes")?;
    let plans = planned(&outputs, "behavior");
    let when = match (survey.timed, survey.regular) {
        // Without times, a sample belongs to the end of its bin.
        (false, _) => When::Regular(Regular {
            first: seconds,
            rate: 1.0 / seconds,
        }),
        (true, Some(regular)) => When::Regular(regular),
        (true, None) => When::Timestamps,
    };
    let about = "behaviour, as it was recorded";
    let mut beside = SeriesWriter::new(file, module, &plans, about, survey.samples, when)?;
    source.behavior(&mut |values, times| beside.push(values, times))?;
    beside.end()?;
    let own = |plan: &SeriesPlan| OwnSeries {
        path: format!("processing/behavior/{}", plan.name),
        outputs: outputs[plan.first..plan.stop].to_vec(),
    };
    Ok(plans.iter().map(own).collect())
}

/// Writes what was decoded.
pub(super) fn decoded(file: &NewFile, decoded: &DecodedOutputs) -> Result<()> {
    let module = "/processing/decoding";
    file.object(module, CORE, "ProcessingModule")?;
    file.said(module, "description", &format!("decoded by {}", decoded.by))?;
    let plans = planned(&decoded.outputs, "decoded");
    let when = match super::source::regular(&decoded.times)? {
        Some(regular) => When::Regular(regular),
        None => When::Timestamps,
    };
    let about = format!("decoded by {}: estimates at the ends of steps", decoded.by);
    let samples = decoded.times.len() as u64;
    let mut beside = SeriesWriter::new(file, module, &plans, &about, samples, when)?;
    beside.push(&decoded.values, Some(&decoded.times))?;
    beside.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(list: &[(&str, &str)]) -> Vec<OutputInfo> {
        let info = |(name, unit): &(&str, &str)| OutputInfo {
            name: (*name).to_owned(),
            unit: (*unit).to_owned(),
        };
        list.iter().map(info).collect()
    }

    #[test]
    fn outputs_that_belong_together_share_a_series() {
        let list = outputs(&[
            ("hand_vel_x", "mm/s"),
            ("hand_vel_y", "mm/s"),
            ("x", "mm"),
            ("y", "mm"),
            ("grip_force", "N"),
            ("a/b:c", ""),
            ("", "V"),
            ("grip", "N"),
        ]);
        let plans = planned(&list, "behavior");
        let told: Vec<(&str, String)> = plans
            .iter()
            .map(|p| (p.name.as_str(), p.columns.join(",")))
            .collect();
        let expected = [
            ("hand_vel", "x,y"),
            ("behavior", "x,y"),
            ("grip_force", "grip_force"),
            ("a_b_c", "a/b:c"),
            ("behavior_2", ""),
            ("grip", "grip"),
        ];
        assert_eq!(
            told,
            expected.map(|(name, columns)| (name, columns.to_owned()))
        );
        let bounds: Vec<usize> = plans.iter().map(|p| p.stop).collect();
        assert_eq!(bounds, [2, 4, 5, 6, 7, 8]);
    }
}
