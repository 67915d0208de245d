//! Names of what a file holds and the reader did not use.

use std::collections::BTreeSet;

use super::hdf5::File;
use super::{intervals, own, units};
use crate::{ReadOptions, Report};

/// Most names that a note lists.
const MOST_LISTED: usize = 40;
/// Columns of the table of units that are read.
const UNIT_COLUMNS: [&str; 7] = [
    "id",
    "spike_times",
    "spike_times_index",
    "electrodes",
    "electrodes_index",
    "obs_intervals",
    "obs_intervals_index",
];
/// Columns of a table of intervals that are read.
const INTERVAL_COLUMNS: [&str; 3] = ["id", "start_time", "stop_time"];

/// Notes what was not used: series besides those of `behavior`, tables, columns of units and of trials.
pub(super) fn note(file: &File, options: &ReadOptions, behavior: &[String], report: &mut Report) {
    let own = file.has(own::PATH);
    let mut groups: BTreeSet<String> = BTreeSet::new();
    let mut columns: BTreeSet<String> = BTreeSet::new();
    let mut of_trials: BTreeSet<String> = BTreeSet::new();
    let used_tables = used_tables(options);
    for path in file.datasets() {
        let Some((group, name)) = path.rsplit_once('/') else {
            continue;
        };
        let root = path.split('/').next().unwrap_or("");
        if ["general", "specifications", "scratch", "file_create_date"].contains(&root) {
            continue;
        }
        if group == "units" {
            let read = UNIT_COLUMNS.contains(&name) || (own && name == "unit_name");
            if !read && !name.ends_with("_index") {
                columns.insert(name.to_owned());
            }
        } else if let Some(table) = group.strip_prefix("intervals/") {
            let used = used_tables
                .iter()
                .any(|used| used == table || used == group);
            if !used {
                groups.insert(group.to_owned());
            } else if !INTERVAL_COLUMNS.contains(&name) && !name.ends_with("_index") {
                of_trials.insert(format!("{table}.{name}"));
            }
        } else {
            let canonical = file.canonical(group);
            let known = behavior.iter().any(|b| file.canonical(b) == canonical)
                || report
                    .other_series
                    .iter()
                    .any(|s| file.canonical(s) == canonical)
                || used_tables.iter().any(|used| used == group);
            if !known && canonical == group {
                groups.insert(group.to_owned());
            }
        }
    }
    // Without trials the runs of this series are those.
    if !file.has("intervals/trials/start_time") {
        groups.remove("acquisition/TrialNum");
    }
    let listed = [
        ("not used", groups),
        ("columns of units that are not used", columns),
        ("columns of intervals that only conditions use", of_trials),
    ];
    for (what, names) in listed {
        report.notes.extend(list(what, &names));
    }
    let tables = units::elsewhere(file);
    if !tables.is_empty() {
        report.notes.push(format!(
            "spike times outside of units, not used: {}",
            tables.join(", ")
        ));
    }
}

/// Tables of intervals that `options` names, by name or by path, and those that are used without being asked for.
fn used_tables(options: &ReadOptions) -> Vec<String> {
    let asked = options
        .trials
        .iter()
        .chain(&options.within)
        .chain(&options.mask);
    let mut used: Vec<String> = asked
        .filter_map(|text| text.split(':').next())
        .map(|name| name.trim_matches('/').to_owned())
        .collect();
    if options.trials.is_empty() {
        used.push(intervals::TRIALS.to_owned());
    }
    if options.mask.is_empty() {
        used.push(intervals::INVALID.to_owned());
    }
    used
}

fn list(what: &str, names: &BTreeSet<String>) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let shown: Vec<&str> = names.iter().take(MOST_LISTED).map(String::as_str).collect();
    let more = match names.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("{what}: {}{more}", shown.join(", ")))
}
