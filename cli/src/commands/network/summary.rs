//! The report of `betz network compute` and the file that it writes.

use std::path::{Path, PathBuf};
use std::time::Instant;

use betz::network::file::{Chance, LARGEST, NetworkFile};
use betz::{ErrorKind, Result, memory};
use serde::Serialize;

use super::Spread;
use super::args::Compute;
use super::full::{self, AllPairs};
use super::request::Request;
use crate::files;
use crate::report::{self, Bar, Outcome};

#[derive(Serialize)]
pub(super) struct Seconds {
    pub(super) read: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) surrogates: Option<f64>,
    pub(super) compute: f64,
    /// Both are known at the end.
    pub(super) write: f64,
    pub(super) total: f64,
}

#[derive(Serialize)]
struct UndefinedNodes {
    constant: u64,
    nonfinite: u64,
}

#[derive(Serialize)]
struct NetworkReport {
    #[serde(flatten)]
    asked: Request,
    windows: usize,
    edges: u64,
    density: Option<Spread>,
    undefined: UndefinedNodes,
    trailing: usize,
    rechecked: u64,
    rebuilt: u64,
    extreme: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    chance: Option<Chance>,
    complete: bool,
    seconds: Seconds,
    device: String,
    out: String,
}

/// Writes the network as the file `out`, or as the directory that is said where it is too large for one: its place.
pub(super) fn write_where_it_fits(file: &NetworkFile, out: &Path) -> Result<PathBuf> {
    let place = file.place(out);
    if place != out {
        eprintln!(
            "{} would have more than {}: written as the directory {}",
            out.display(),
            memory::size(LARGEST),
            place.display()
        );
    }
    file.write(&place)?;
    Ok(place)
}

/// Writes the file, with the values of all pairs if they are given, and says what it holds.
pub(super) fn finish(
    args: &Compute,
    out: &Path,
    file: &NetworkFile,
    asked: Request,
    mut seconds: Seconds,
    all: Option<AllPairs<'_>>,
) -> Result<()> {
    let started = Instant::now();
    let out = files::destination(out, file.complete);
    let place = match all {
        Some(all) => match all.write(file, &out, &Bar::new()) {
            // The edges are there: they are written without the values.
            Err(e) if e.kind() == ErrorKind::Interrupted => {
                full::say_left_out();
                write_where_it_fits(file, &out)?
            }
            written => written?,
        },
        None => write_where_it_fits(file, &out)?,
    };
    seconds.write = started.elapsed().as_secs_f64();
    seconds.total = report::total_seconds();
    let network = &file.network;
    let meta = network.meta();
    let (constant, nonfinite) = network.undefined();
    let computed = NetworkReport {
        asked,
        windows: network.len(),
        edges: network.edges(),
        density: Spread::of((0..network.len()).filter_map(|k| network.density(k))),
        undefined: UndefinedNodes {
            constant,
            nonfinite,
        },
        trailing: meta.trailing,
        rechecked: meta.rechecked,
        rebuilt: meta.rebuilt,
        extreme: meta.extreme,
        chance: file.chance.clone(),
        complete: file.complete,
        seconds,
        device: meta.device.clone(),
        out: place.display().to_string(),
    };
    report::tell(&computed, args.common.json)?;
    match computed.complete {
        true => Ok(()),
        false => Err(report::interrupted("the network")),
    }
}

impl Outcome for NetworkReport {
    fn print(&self) -> Result<()> {
        let asked = &self.asked;
        report::line(&format!(
            "{}: {} of {} of {} every {}, {} by {}",
            self.out,
            report::count(self.windows as u128, "window"),
            report::count(asked.nodes as u128, "node"),
            report::count(asked.window as u128, "sample"),
            asked.step,
            report::count(self.edges, "edge"),
            asked.measure
        ))?;
        if let Some(threshold) = asked.threshold {
            let found = if self.chance.is_some() {
                ", found from surrogates"
            } else {
                ""
            };
            report::line(&format!("threshold {threshold:.6}{found}"))?;
        }
        if let Some(density) = &self.density {
            report::line(&format!(
                "density {:.4} % (from {:.4} to {:.4} %)",
                density.mean * 100.0,
                density.min * 100.0,
                density.max * 100.0
            ))?;
        }
        let UndefinedNodes {
            constant,
            nonfinite,
        } = self.undefined;
        if constant + nonfinite > 0 {
            report::line(&format!(
                "undefined, counted in each window: {} constant, {nonfinite} not finite",
                report::count(constant, "node")
            ))?;
        }
        if self.trailing > 0 {
            report::line(&format!(
                "in no window: {}",
                report::count(self.trailing as u128, "sample")
            ))?;
        }
        let Seconds {
            read,
            compute,
            write,
            total,
            ..
        } = self.seconds;
        report::line(&format!(
            "read {read:.2} s, compute {compute:.2} s, write {write:.2} s, {total:.2} s in all ({})",
            self.device
        ))
    }
}
