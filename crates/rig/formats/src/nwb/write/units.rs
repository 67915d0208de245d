//! Spikes: the table of units with their times, or a series of counts, or of a signal.

use betz_base::error::Result;
use betz_base::memory;
use betz_recording::{Recording, SpikeForm};

use super::source::{Source, Survey};
use super::{Clock, SessionElectrodes, tables};
use crate::nwb::hdf5_write::{COMMON, CORE, H5Type, NewFile, Value};

/// Values of a matrix that are put together at once.
const BLOCK: usize = 1 << 20;

/// Writes the spikes of `source`; of the times of units, `at_once` are in memory. The table of electrodes has `more` behind
/// the channels.
pub(super) fn write(
    file: &NewFile,
    source: &mut dyn Source,
    survey: &Survey,
    at_once: u64,
    more: &[SessionElectrodes],
) -> Result<()> {
    let outline = source.outline();
    let (form, places) = (outline.form, outline.electrode_um.is_some());
    if places || form != SpikeForm::Events {
        tables::electrodes(file, &tables::electrodes_of(outline, more))?;
    }
    match form {
        SpikeForm::Events => times(file, source, survey, at_once),
        SpikeForm::Signal => matrix(file, source, "signal", "n.a.", |value: f32| value),
        SpikeForm::Counts if survey.largest <= f64::from(u8::MAX) => {
            matrix(file, source, "spike_counts", "count", |count| count as u8)
        }
        SpikeForm::Counts => matrix(file, source, "spike_counts", "count", |c| c as u16),
    }
}

/// The table of units.
fn times(file: &NewFile, source: &mut dyn Source, survey: &Survey, at_once: u64) -> Result<()> {
    let outline = source.outline();
    let clock = Clock::new(outline.tick_seconds);
    let units = outline.channels();
    file.object("/units", CORE, "Units")?;
    file.said(
        "/units",
        "description",
        "Units, or channels with threshold crossings",
    )?;
    let mut columns = vec!["unit_name", "obs_intervals"];
    file.numbers("/units/id", &ids(&outline.channel_names))?
        .of(COMMON, "ElementIdentifiers")?;
    file.texts("/units/unit_name", &outline.channel_names)?
        .column("the unit's name")?;
    let whole = [0.0, clock.seconds(outline.ticks)].repeat(units);
    file.rows("/units/obs_intervals", &[units, 2], &whole)?
        .column("when the unit was listened to: the whole recording")?;
    let each: Vec<u64> = (1..=units as u64).collect();
    tables::index(file, "/units/obs_intervals", &each)?;
    if outline.electrode_um.is_some() {
        let rows: Vec<i64> = (0..units as i64).collect();
        file.numbers("/units/electrodes", &rows)?
            .of(COMMON, "DynamicTableRegion")?
            .with("description", Value::Text("where the unit was recorded"))?
            .with("table", Value::Object(tables::ELECTRODES))?;
        tables::index(file, "/units/electrodes", &each)?;
        columns.push("electrodes");
    }
    columns.push("spike_times");
    spike_times(file, source, survey, &clock, at_once)?;
    let mut end = 0;
    let ends = survey.spikes.iter().map(|count| {
        end += count;
        end
    });
    let ends: Vec<u64> = ends.collect();
    tables::index(file, "/units/spike_times", &ends)?;
    file.columns("/units", &columns)
}

/// Times unit after unit, of a recording that has them tick after tick: as many as are asked for are put in their
/// places at once, and the recording is gone through again for the next.
fn spike_times(
    file: &NewFile,
    source: &mut dyn Source,
    survey: &Survey,
    clock: &Clock,
    at_once: u64,
) -> Result<()> {
    let path = "/units/spike_times";
    let total: u64 = survey.spikes.iter().sum();
    let mut column = file.growing::<f64>(path, None, total)?;
    let mut firsts = Vec::with_capacity(survey.spikes.len());
    let mut first = 0;
    for count in &survey.spikes {
        firsts.push(first);
        first += count;
    }
    let at_once = at_once.clamp(1, total.max(1));
    let mut window = memory::filled(path, 0.0, at_once as usize)?;
    let mut from = 0;
    while from < total {
        let len = at_once.min(total - from);
        let mut next = firsts.clone();
        source.spikes(&mut |stretch| {
            for (&tick, &unit) in stretch.ticks.iter().zip(&stretch.channels) {
                let place = &mut next[unit as usize];
                if (from..from + len).contains(place) {
                    window[(*place - from) as usize] = clock.seconds(tick);
                }
                *place += 1;
            }
            Ok(())
        })?;
        column.push(&window[..len as usize])?;
        from += len;
    }
    column
        .whole()
        .column("spike times of each unit in seconds")?
        .with("resolution", Value::F64(clock.tick_seconds))
        .map(drop)
}

/// The numbers in names as a reader of NWB gives them (`unit` and an id), else numbers from 0.
fn ids(names: &[String]) -> Vec<i64> {
    let id = |name: &String| {
        let digits = name.strip_prefix("unit")?;
        let id: i64 = digits.parse().ok()?;
        (id >= 0 && id.to_string() == digits).then_some(id)
    };
    let named: Option<Vec<i64>> = names.iter().map(id).collect();
    named.unwrap_or_else(|| (0..names.len() as i64).collect())
}

/// A (ticks, channels) series in `processing/ecephys`.
fn matrix<T: H5Type + Default + Into<f32>>(
    file: &NewFile,
    source: &mut dyn Source,
    name: &str,
    unit: &str,
    narrow: impl Fn(f32) -> T,
) -> Result<()> {
    file.object("/processing/ecephys", CORE, "ProcessingModule")?;
    let said = "features of each electrode";
    file.said("/processing/ecephys", "description", said)?;
    let path = format!("/processing/ecephys/{name}");
    file.object(&path, CORE, "TimeSeries")?;
    let about = "one column per row of the table of electrodes";
    file.said(&path, "description", about)?;
    file.said(&path, "comments", "no comments")?;
    let (ticks, channels, seconds) = {
        let outline: &Recording = source.outline();
        (outline.ticks, outline.channels(), outline.tick_seconds)
    };
    let data = format!("{path}/data");
    let mut rows = file.growing::<T>(&data, Some(channels), ticks as u64)?;
    let height = ((BLOCK / channels).max(1) as i64).min(ticks);
    let mut block: Vec<T> = vec![T::default(); height as usize * channels];
    let mut first = 0;
    // Rows below `until` are complete.
    let mut flush = |block: &mut Vec<T>, first: &mut i64, until: i64| {
        while *first + height <= until || (until == ticks && *first < ticks) {
            let whole = height.min(ticks - *first) as usize * channels;
            rows.push(&block[..whole])?;
            block.fill(T::default());
            *first += height;
        }
        Ok(())
    };
    source.spikes(&mut |stretch| {
        for i in 0..stretch.len() {
            let tick = stretch.ticks[i];
            flush(&mut block, &mut first, tick)?;
            let cell = (tick - first) as usize * channels + stretch.channels[i] as usize;
            block[cell] = narrow(block[cell].into() + stretch.weight(i));
        }
        Ok(())
    })?;
    flush(&mut block, &mut first, ticks)?;
    super::series::measured(rows.whole(), unit)?;
    let start = file.number(&format!("{path}/starting_time"), 0.0)?;
    super::series::rated(start, 1.0 / seconds)
}
