//! `betz sort edit`: merge and split by hand.

use betz::sort::{Edit, Sorter};
use betz::{Error, Result};

use super::args::SortEdit;
use super::show;
use crate::files::{Files, Kind};
use crate::report;

pub(super) fn run(args: &SortEdit) -> Result<()> {
    let mut files = Files::new(&args.common).reads("SORTER", &args.sorter);
    files.writes("--out", &args.out, Kind::Sorter)?;
    let mut sorter = Sorter::load(&args.sorter)?;
    if let Some(text) = &args.merge {
        let units = numbers("--merge", text)?;
        sorter
            .edit(Edit::Merge { units })
            .map_err(|e| e.at("--merge"))?;
    }
    if let Some(text) = &args.split {
        let (unit, nodes) = text.split_once(':').ok_or_else(|| {
            Error::argument(format!(
                "--split: expected a unit and its nodes such as 4:12,13, got '{text}'"
            ))
        })?;
        let unit = numbers("--split", unit)?[0];
        let nodes = numbers("--split", nodes)?;
        sorter
            .edit(Edit::Split { unit, nodes })
            .map_err(|e| e.at("--split"))?;
    }
    sorter.save(&args.out)?;
    report::tell(&show::facts(&sorter, &args.out), args.common.json)
}

fn numbers(option: &str, text: &str) -> Result<Vec<u32>> {
    text.split(',')
        .map(|number| {
            number.trim().parse().map_err(|_| {
                Error::argument(format!(
                    "{option}: expected numbers with commas between them, got '{text}'"
                ))
            })
        })
        .collect()
}
