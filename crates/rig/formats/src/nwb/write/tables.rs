//! Tables: where the electrodes are, and the trials.

use betz_base::error::Result;
use betz_recording::{Recording, Segment};

use super::{Clock, SessionElectrodes};
use crate::nwb::hdf5_write::{COMMON, CORE, NewFile, Value};
use crate::nwb::own::CHANNEL_NAME;

/// Path of the table of electrodes.
pub(super) const ELECTRODES: &str = "/general/extracellular_ephys/electrodes";

/// The end offsets of the ragged column at `of`.
pub(super) fn index(file: &NewFile, of: &str, ends: &[u64]) -> Result<()> {
    let about = format!("ends of the rows of {of}");
    file.numbers(&format!("{of}_index"), ends)?
        .of(COMMON, "VectorIndex")?
        .with("description", Value::Text(&about))?
        .with("target", Value::Object(of))
        .map(drop)
}

pub(super) fn ids(file: &NewFile, table: &str, rows: usize) -> Result<()> {
    let ids: Vec<i64> = (0..rows as i64).collect();
    file.numbers(&format!("{table}/id"), &ids)?
        .of(COMMON, "ElementIdentifiers")
        .map(drop)
}

/// A row of the table of electrodes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Electrode {
    pub(super) name: String,
    /// x and y in micrometres.
    pub(super) place: Option<[f32; 2]>,
    pub(super) shank: Option<u32>,
}

/// The electrodes of a recording's channels, and behind them `more`.
pub(super) fn electrodes_of(outline: &Recording, more: &[SessionElectrodes]) -> Vec<Electrode> {
    let places = outline.electrode_um.as_ref();
    let own = outline.channel_names.iter().enumerate();
    let own = own.map(|(channel, name)| Electrode {
        name: name.clone(),
        place: places.map(|places| places[channel]),
        shank: None,
    });
    let numbered = more.iter().flat_map(|of| {
        (0..of.channels).map(move |channel| Electrode {
            name: format!("{}/{channel}", of.source),
            place: None,
            shank: None,
        })
    });
    own.chain(numbered).collect()
}

/// A row per electrode: its name and, where they are known, x, y and shank.
pub(super) fn electrodes(file: &NewFile, electrodes: &[Electrode]) -> Result<()> {
    let (device, group) = (
        "/general/devices/array",
        "/general/extracellular_ephys/array",
    );
    file.group("/general/devices")?;
    file.object(device, CORE, "Device")?;
    file.said(
        device,
        "description",
        "what the channels were recorded with",
    )?;
    file.group("/general/extracellular_ephys")?;
    file.object(group, CORE, "ElectrodeGroup")?;
    file.said(group, "description", "all channels of the recording")?;
    file.said(group, "location", "unknown")?;
    file.link(&format!("{group}/device"), device)?;

    let names: Vec<&str> = electrodes.iter().map(|e| e.name.as_str()).collect();
    let rows = names.len();
    let of = |column: &str| format!("{ELECTRODES}/{column}");
    // A type of its own since NWB 2.9; readers of that know this one, those of before know no other.
    file.object(ELECTRODES, COMMON, "DynamicTable")?;
    file.said(ELECTRODES, "description", "a row per channel")?;
    ids(file, ELECTRODES, rows)?;
    file.texts(&of("location"), &vec!["unknown"; rows])?
        .column("the brain area")?;
    file.references(&of("group"), group, rows)?
        .column("the group that the electrode is of")?;
    file.texts(&of("group_name"), &vec!["array"; rows])?
        .column("that group's name")?;
    file.texts(&of(CHANNEL_NAME), &names)?
        .column("the channel's name")?;
    let mut columns = vec!["location", "group", "group_name", CHANNEL_NAME];
    if electrodes.iter().any(|e| e.place.is_some()) {
        for (axis, name) in ["x", "y"].into_iter().enumerate() {
            let values: Vec<f32> = (electrodes.iter())
                .map(|e| e.place.map_or(f32::NAN, |place| place[axis]))
                .collect();
            file.numbers(&of(name), &values)?
                .column("on the array in micrometres; NaN where unknown")?;
            columns.push(name);
        }
    }
    if electrodes.iter().any(|e| e.shank.is_some()) {
        let shanks: Vec<i32> = (electrodes.iter())
            .map(|e| e.shank.map_or(-1, |shank| shank as i32))
            .collect();
        file.numbers(&of("shank"), &shanks)?
            .column("number of the shank, from 0; -1 where unknown")?;
        columns.push("shank");
    }
    file.columns(ELECTRODES, &columns)
}

/// The segments, in the table `name` of intervals; none where all of the recording is one.
pub(super) fn trials(file: &NewFile, outline: &Recording, name: &str) -> Result<()> {
    let whole = Segment {
        start: 0,
        stop: outline.ticks,
    };
    if outline.segments == [whole] {
        return Ok(());
    }
    let clock = Clock::new(outline.tick_seconds);
    let table = &format!("/intervals/{name}");
    file.group("/intervals")?;
    file.object(table, CORE, "TimeIntervals")?;
    file.said(
        table,
        "description",
        "segments: filters begin anew with each",
    )?;
    ids(file, table, outline.segments.len())?;
    let of = |bound: fn(&Segment) -> i64| -> Vec<f64> {
        let seconds = outline.segments.iter().map(|s| clock.seconds(bound(s)));
        seconds.collect()
    };
    file.numbers(&format!("{table}/start_time"), &of(|s| s.start))?
        .column("start of the trial in seconds")?;
    file.numbers(&format!("{table}/stop_time"), &of(|s| s.stop))?
        .column("end of the trial in seconds, not in it")?;
    file.columns(table, &["start_time", "stop_time"])
}
