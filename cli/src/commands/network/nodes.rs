//! `--nodes` and `--region`: some of an input's nodes alone.

use std::ops::Range;
use std::path::Path;

use betz::recording::arrays::{Values, read_npy};
use betz::{Error, Result};

use crate::parse;

/// The nodes that `list` has, ascending, none twice: numbers from 0 (`3`), half-open ranges
/// (`3..10`, or `3-9` with both ends), and names, separated by commas. A name goes before a number.
///
/// # Errors
/// `InvalidArgument` for a node that is not there.
pub(super) fn chosen(list: &str, nodes: usize, names: Option<&[String]>) -> Result<Vec<usize>> {
    listed(list.split(','), nodes, names).map_err(|e| e.at("--nodes"))
}

/// Refuses a list that is none of numbers and ranges, whatever number of nodes there are.
///
/// # Errors
/// `InvalidArgument` for another entry, and a range without a node.
pub(super) fn check_list(list: &str) -> Result<()> {
    for part in list.split(',').map(str::trim) {
        let range = parse::range(part, usize::MAX).or_else(|| with_both_ends(part, usize::MAX));
        if range.is_none() {
            return Err(Error::argument(format!(
                "--nodes: expected numbers, or half-open ranges such as 3..10, got {part:?}"
            )));
        }
    }
    Ok(())
}

/// The nodes that the file at `path` has: entries as [`chosen`] takes them, over any number of lines (what
/// follows `#` is not read), or an `.npy` with a number for each node, 0 outside.
///
/// # Errors
/// A file that cannot be read, or is not there; a region without a node.
pub(super) fn region(path: &Path, nodes: usize, names: Option<&[String]>) -> Result<Vec<usize>> {
    let at = |e: Error| e.at(format_args!("--region {}", path.display()));
    let npy = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("npy"));
    let kept = if npy {
        let mask = read_npy(path)?;
        if mask.shape.iter().product::<usize>() != nodes {
            return Err(at(Error::mismatch(format!(
                "expected a number for each of {nodes} nodes, got {:?}",
                mask.shape
            ))));
        }
        fn inside<T: Copy + Into<f64>>(of: &[T]) -> Vec<usize> {
            let inside = |v: T| v.into() != 0.0;
            (0..of.len()).filter(|n| inside(of[*n])).collect()
        }
        match &mask.values {
            Values::U8(v) => inside(v),
            Values::U16(v) => inside(v),
            Values::I16(v) => inside(v),
            Values::F32(v) => inside(v),
            Values::F64(v) => inside(v),
        }
    } else {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("read", path, &e))?;
        let entries = (text.lines())
            .map(|line| line.split('#').next().unwrap_or(""))
            .flat_map(|line| line.split(','))
            .map(str::trim)
            .filter(|entry| !entry.is_empty());
        listed(entries, nodes, names).map_err(at)?
    };
    if kept.is_empty() {
        return Err(at(Error::argument("expected a node, got none")));
    }
    Ok(kept)
}

fn listed<'a>(
    list: impl Iterator<Item = &'a str>,
    nodes: usize,
    names: Option<&[String]>,
) -> Result<Vec<usize>> {
    let mut kept = vec![false; nodes];
    for part in list.map(str::trim) {
        let named = names.and_then(|names| names.iter().position(|name| name == part));
        if let Some(at) = named {
            kept[at] = true;
            continue;
        }
        let Some(range) = parse::range(part, nodes).or_else(|| with_both_ends(part, nodes)) else {
            let or_names = if names.is_some() { ", or names" } else { "" };
            return Err(Error::argument(format!(
                "expected numbers below {nodes}, half-open ranges such as 3..10{or_names}, got {part:?}"
            )));
        };
        kept[range].fill(true);
    }
    Ok((0..nodes).filter(|n| kept[*n]).collect())
}

/// A range with both ends, `3-9`: the spelling of earlier versions.
fn with_both_ends(part: &str, nodes: usize) -> Option<Range<usize>> {
    let (first, last) = part.split_once('-')?;
    let one = |text: &str| parse::range(text, nodes).filter(|range| range.len() == 1);
    let (first, last) = (one(first)?.start, one(last)?.end);
    (first < last).then_some(first..last)
}

/// The samples of `kept` of `nodes` nodes.
pub(super) fn columns(values: Values, nodes: usize, kept: &[usize]) -> Values {
    fn of<T: Copy>(all: &[T], nodes: usize, kept: &[usize]) -> Vec<T> {
        (all.chunks_exact(nodes.max(1)))
            .flat_map(|row| kept.iter().map(|n| row[*n]))
            .collect()
    }
    match values {
        Values::U8(v) => Values::U8(of(&v, nodes, kept)),
        Values::U16(v) => Values::U16(of(&v, nodes, kept)),
        Values::I16(v) => Values::I16(of(&v, nodes, kept)),
        Values::F32(v) => Values::F32(of(&v, nodes, kept)),
        Values::F64(v) => Values::F64(of(&v, nodes, kept)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_numbers_ranges_and_names() {
        let names = ["a b", "7", "c-d"].map(str::to_owned);
        let chosen = |list: &str| chosen(list, 3, Some(&names));
        assert_eq!(chosen("2, 0").unwrap(), [0, 2]);
        assert_eq!(chosen("0-1,1-2,2").unwrap(), [0, 1, 2]);
        assert_eq!(chosen("1..3").unwrap(), [1, 2]);
        // A name that looks like something else is a name.
        assert_eq!(chosen("7,c-d").unwrap(), [1, 2]);
        assert_eq!(chosen("a b").unwrap(), [0]);
        for wrong in [
            "",
            "3",
            "2-3",
            "2-1",
            "0..4",
            "0..2-3",
            "-1",
            "+1",
            "x",
            "1,,2",
            "0-99999999999999999999",
        ] {
            let error = chosen(wrong).unwrap_err();
            assert!(error.message().contains("below 3"), "{wrong}: {error}");
        }
    }

    #[test]
    fn regions_are_lists_or_masks() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("region.txt");
        std::fs::write(&list, "# left\n0, 2-3\n\n5 # the last\n").unwrap();
        assert_eq!(region(&list, 6, None).unwrap(), [0, 2, 3, 5]);
        let error = region(&list, 5, None).unwrap_err();
        assert!(error.message().contains("region.txt") && error.message().contains("below 5"));
        std::fs::write(&list, "# nothing\n").unwrap();
        assert!(region(&list, 6, None).is_err());
        assert!(region(&folder.path().join("none"), 6, None).is_err());
    }

    #[test]
    fn columns_are_those_of_the_nodes() {
        let Values::I16(few) = columns(Values::I16((0..12).collect()), 4, &[1, 3]) else {
            panic!("of its type");
        };
        assert_eq!(few, [1, 3, 5, 7, 9, 11]);
    }
}
