//! Positions of a series' channels.

use std::collections::BTreeMap;

use betz_base::error::{Error, Result};

use super::super::hdf5::File;

/// Electrodes of different groups are this far apart, in micrometres, where only their places within a group are known.
const APART_UM: f32 = 1000.0;
/// Most electrodes that lie in one place: those of a tetrode, of which that is often said.
const TOGETHER: usize = 4;

/// Place of each channel in micrometres; `None` for one whose place is not known.
pub(super) type Places = Vec<Option<[f32; 2]>>;

/// The places of the channels of a series, and what is to be said of them; none where none is known.
///
/// `rel_x` and `rel_y` of the table of electrodes, which count within a group: groups lie beside each other. Where these
/// are not there `x` and `y`, and groups beside each other if they share a place.
pub(super) fn read(
    file: &File,
    series: &str,
    rows: usize,
    channels: usize,
) -> Result<(Option<Places>, Vec<String>)> {
    let region = format!("{series}/electrodes");
    let electrodes = match file.stored(&region)? {
        // A damaged one may be long: it is not read.
        Some(stored) if stored.shape == [channels] => {
            let electrodes = file.numbers(&region)?;
            electrodes.map(|e| e.values).unwrap_or_default()
        }
        Some(stored) if stored.shape == [rows] => {
            return Err(Error::recording(format!(
                "{series}/data: expected (time, channels) with a channel for each of {rows} electrodes, got ({rows}, {channels}): (channels, time), turned"
            )));
        }
        Some(stored) => {
            return Err(Error::recording(format!(
                "{region}: expected {channels} rows of the table of electrodes, one per channel, got a shape of {:?}",
                stored.shape
            )));
        }
        None => {
            return Err(Error::recording(format!(
                "{region}: expected a row of the table of electrodes for each channel, got none"
            )));
        }
    };
    let table = "general/extracellular_ephys/electrodes";
    let column = |name: &str| -> Result<Option<Vec<f64>>> {
        let column = file.numbers(&format!("{table}/{name}"))?;
        Ok(column.map(|c| c.values))
    };
    let mut found = None;
    for (x, y, relative) in [("rel_x", "rel_y", true), ("x", "y", false)] {
        if let (Some(x), Some(y)) = (column(x)?, column(y)?) {
            let places = of_rows(&region, &electrodes, &x, &y)?;
            if places.iter().any(Option::is_some) {
                found = Some((places, relative));
                break;
            }
        }
    }
    let Some((places, relative)) = found else {
        return Ok((None, Vec::new()));
    };
    let groups = file.strings(&format!("{table}/group_name"))?;
    let group = |row: &f64| groups.as_ref().and_then(|g| g.get(*row as usize).cloned());
    let groups: Vec<String> = (electrodes.iter())
        .map(|row| group(row).unwrap_or_default())
        .collect();
    Ok(apart(series, places, &groups, relative))
}

fn of_rows(region: &str, electrodes: &[f64], x: &[f64], y: &[f64]) -> Result<Places> {
    let table = x.len().min(y.len());
    let place = |(channel, &row): (usize, &f64)| {
        if !(row >= 0.0 && row < table as f64 && row.fract() == 0.0) {
            return Err(Error::recording(format!(
                "{region}: [{channel}] = {row}: expected a row of the {table} electrodes"
            ))
            .with_channel(channel));
        }
        let place = [x[row as usize] as f32, y[row as usize] as f32];
        Ok(place.iter().all(|v| v.is_finite()).then_some(place))
    };
    electrodes.iter().enumerate().map(place).collect()
}

/// Groups beside each other where they would lie over each other; no places where those of a group are no places.
fn apart(
    series: &str,
    mut places: Places,
    groups: &[String],
    relative: bool,
) -> (Option<Places>, Vec<String>) {
    let mut notes = Vec::new();
    // By bits: what is there twice is the same number. −0 is 0.
    let bits = |place: [f32; 2]| place.map(|v| (v + 0.0).to_bits());
    let mut of_place: BTreeMap<[u32; 2], Vec<usize>> = BTreeMap::new();
    for (channel, place) in places.iter().enumerate() {
        if let Some(place) = place {
            of_place.entry(bits(*place)).or_default().push(channel);
        }
    }
    let crowd = of_place.values().find_map(|channels| {
        let beside = |channel: usize| {
            let same = channels.iter().filter(|c| groups[**c] == groups[channel]);
            same.count()
        };
        let crowded = channels.iter().find(|c| beside(**c) > TOGETHER)?;
        Some((beside(*crowded), *crowded))
    });
    if let Some((count, channel)) = crowd {
        notes.push(format!(
            "{series}/electrodes: {count} electrodes of a group in one place (that of channel {channel}) are taken for electrodes whose places nobody knows: each is sorted by itself"
        ));
        return (None, notes);
    }
    let mut order: Vec<&String> = Vec::new();
    for group in groups {
        if !order.contains(&group) {
            order.push(group);
        }
    }
    let shared = |channels: &Vec<usize>| channels.iter().any(|c| groups[*c] != groups[channels[0]]);
    if order.len() > 1 && (relative || of_place.values().any(shared)) {
        let mut next = f32::NEG_INFINITY;
        for group in &order {
            let own = || (0..groups.len()).filter(|c| groups[*c] == **group);
            let ends = own().filter_map(|c| places[c]).map(|[x, _]| x);
            let (low, high) = ends.fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), x| {
                (l.min(x), h.max(x))
            });
            if low > high {
                continue;
            }
            let by = if next.is_finite() { next - low } else { 0.0 };
            for channel in own() {
                if let Some([x, _]) = &mut places[channel] {
                    *x += by;
                }
            }
            next = high + by + APART_UM;
        }
        notes.push(format!(
            "{series}/electrodes: {} groups are laid {APART_UM} µm beside each other",
            order.len()
        ));
    }
    (Some(places), notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn groups_lie_beside_each_other_where_they_must() {
        let two = names(&["b", "b", "a", "a"]);
        let same = vec![Some([0.0, 0.0]), Some([20.0, 5.0]), Some([0.0, 0.0]), None];
        let (places, notes) = apart("s", same.clone(), &two, true);
        assert_eq!(
            places.unwrap(),
            [
                Some([0.0, 0.0]),
                Some([20.0, 5.0]),
                Some([1020.0, 0.0]),
                None
            ]
        );
        assert!(notes[0].contains("2 groups"), "{notes:?}");
        assert_eq!(
            apart("s", same, &two, false).0.unwrap()[2],
            Some([1020.0, 0.0])
        );
        // Places in the brain that differ are what they are.
        let other: Places = (0..4).map(|k| Some([k as f32, 0.0])).collect();
        assert_eq!(
            apart("s", other.clone(), &two, false),
            (Some(other), Vec::new())
        );
    }

    #[test]
    fn a_tetrode_may_be_in_one_place_and_an_array_may_not() {
        let (four, notes) = apart("s", vec![Some([0.0; 2]); 4], &names(&["a"; 4]), false);
        assert!(four.is_some() && notes.is_empty());
        let (five, notes) = apart("s", vec![Some([0.0, -0.0]); 5], &names(&["a"; 5]), false);
        assert!(
            five.is_none() && notes[0].contains("5 electrodes"),
            "{notes:?}"
        );
        // Two tetrodes.
        let groups = names(&["a", "a", "a", "b", "b", "b"]);
        let (both, _) = apart("s", vec![Some([0.0; 2]); 6], &groups, false);
        assert_eq!(both.unwrap()[5], Some([1000.0, 0.0]));
    }
}
