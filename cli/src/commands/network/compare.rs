//! `betz network compare`: networks against the first of them, window by window.

use std::cmp::Ordering;
use std::io::Write;
use std::path::Path;

use betz::file::write_atomically;
use betz::network::file::NetworkFile;
use betz::network::{Network, WindowEdges};
use betz::{Error, Result};
use serde::Serialize;

use super::args::Compare;
use super::{Spread, on_cpu};
use crate::files::{Files, Kind};
use crate::report::{self, Outcome, Table};

const HEADER: &str = "first,second,start,edges_first,edges_second,common,";

/// One window of two networks.
struct WindowComparison {
    start: u64,
    first: usize,
    second: usize,
    common: usize,
    /// Over the edges of either; NaN without any.
    jaccard: f64,
    /// Over all pairs of nodes, 0 where there is no edge; NaN where one of them has none.
    correlation: f64,
    /// Mean over nodes of the second's degree less the first's, and of its magnitude.
    degree_change: f64,
    degree_difference: f64,
}

#[derive(Serialize)]
struct Pair {
    first: String,
    second: String,
    /// Windows that begin at the same sample.
    windows: usize,
    windows_only_first: usize,
    windows_only_second: usize,
    edges_first: u64,
    edges_second: u64,
    edges_common: u64,
    jaccard: Option<Spread>,
    correlation: Option<Spread>,
    degree_change: Option<Spread>,
    degree_difference: Option<Spread>,
}

#[derive(Serialize)]
struct ComparisonReport {
    nodes: usize,
    comparisons: Vec<Pair>,
    seconds: f64,
    device: &'static str,
    out: Option<String>,
}

pub(super) fn run(args: &Compare) -> Result<()> {
    on_cpu(&args.common.device)?;
    let mut files = Files::new(&args.common);
    for path in &args.networks {
        files = files.reads("NET", path);
    }
    files.may_write("--out", args.out.as_deref(), Kind::Table(&[HEADER]))?;
    let [first_path, others @ ..] = args.networks.as_slice() else {
        return Err(Error::argument("NET: expected at least two networks"));
    };
    let first = NetworkFile::read(first_path)?;
    let mut comparisons = Vec::new();
    let mut rows = Vec::new();
    for path in others {
        let second = NetworkFile::read(path)?;
        same_nodes(&first, first_path, &second, path)?;
        let compared = compare(&first.network, &second.network);
        comparisons.push(summary(
            first_path,
            &first.network,
            path,
            &second.network,
            &compared,
        ));
        rows.push((path, compared));
    }
    if let Some(out) = &args.out {
        write_atomically(out, |to| {
            writeln!(
                to,
                "{HEADER}jaccard,correlation,degree_change,degree_difference"
            )?;
            for (number, (_, compared)) in rows.iter().enumerate() {
                for c in compared {
                    let number_of = |v: f64| {
                        if v.is_finite() {
                            v.to_string()
                        } else {
                            String::new()
                        }
                    };
                    writeln!(
                        to,
                        "0,{},{},{},{},{},{},{},{},{}",
                        number + 1,
                        c.start,
                        c.first,
                        c.second,
                        c.common,
                        number_of(c.jaccard),
                        number_of(c.correlation),
                        c.degree_change,
                        c.degree_difference
                    )?;
                }
            }
            Ok(())
        })?;
    }
    let found = ComparisonReport {
        nodes: first.network.nodes(),
        comparisons,
        seconds: report::total_seconds(),
        device: "cpu",
        out: args.out.as_ref().map(|p| p.display().to_string()),
    };
    report::tell(&found, args.common.json)
}

impl Outcome for ComparisonReport {
    fn print(&self) -> Result<()> {
        for pair in &self.comparisons {
            report::line(&format!(
                "{} and {}: {} in common ({} and {} by themselves)",
                pair.first,
                pair.second,
                report::count(pair.windows as u128, "window"),
                pair.windows_only_first,
                pair.windows_only_second
            ))?;
            report::line(&format!(
                "{} and {} there, {} in common",
                report::count(pair.edges_first, "edge"),
                report::count(pair.edges_second, "edge"),
                pair.edges_common
            ))?;
            let mut table = Table::new(&["over windows", "least", "mean", "most"]);
            for (name, spread) in [
                ("Jaccard", pair.jaccard),
                ("correlation", pair.correlation),
                ("change of degree", pair.degree_change),
                ("difference of degree", pair.degree_difference),
            ] {
                let cell = |of: fn(&Spread) -> f64| {
                    spread
                        .as_ref()
                        .map_or_else(|| "-".to_owned(), |s| format!("{:.4}", of(s)))
                };
                table.row([
                    name.to_owned(),
                    cell(|s| s.min),
                    cell(|s| s.mean),
                    cell(|s| s.max),
                ]);
            }
            table.print()?;
        }
        Ok(())
    }
}

fn same_nodes(a: &NetworkFile, a_path: &Path, b: &NetworkFile, b_path: &Path) -> Result<()> {
    let place = || format!("{} and {}", a_path.display(), b_path.display());
    let (n, m) = (a.network.nodes(), b.network.nodes());
    if n != m {
        return Err(Error::mismatch(format!(
            "{}: expected networks of the same nodes, got {n} and {m}",
            place()
        )));
    }
    if let (Some(x), Some(y)) = (&a.names, &b.names)
        && let Some(at) = (0..n).find(|&at| x[at] != y[at])
    {
        return Err(Error::mismatch(format!(
            "{}: expected the same nodes, but node {at} is `{}` and `{}`",
            place(),
            x[at],
            y[at]
        )));
    }
    Ok(())
}

/// Every window of both that begins at the same sample.
fn compare(a: &Network, b: &Network) -> Vec<WindowComparison> {
    let mut compared = Vec::new();
    let nodes = a.nodes();
    let (mut k, mut l) = (0, 0);
    while let (Some(x), Some(y)) = (a.window(k), b.window(l)) {
        match x.start.cmp(&y.start) {
            Ordering::Less => k += 1,
            Ordering::Greater => l += 1,
            Ordering::Equal => {
                compared.push(windows(&x, &y, nodes));
                (k, l) = (k + 1, l + 1);
            }
        }
    }
    compared
}

fn windows(a: &WindowEdges<'_>, b: &WindowEdges<'_>, nodes: usize) -> WindowComparison {
    let mut degrees = vec![0_i64; nodes];
    for (edges, sign) in [(a, -1), (b, 1)] {
        for (i, j, _) in edges.edges() {
            degrees[i as usize] += sign;
            degrees[j as usize] += sign;
        }
    }
    let (mut common, mut products) = (0, 0.0);
    let mut others = b.edges().peekable();
    for (i, j, r) in a.edges() {
        while others.next_if(|(x, y, _)| (*x, *y) < (i, j)).is_some() {}
        if let Some((_, _, other)) = others.next_if(|(x, y, _)| (*x, *y) == (i, j)) {
            common += 1;
            products += f64::from(r) * f64::from(other);
        }
    }
    let pairs = nodes as f64 * (nodes as f64 - 1.0) / 2.0;
    let sums = |w: &WindowEdges<'_>| {
        let values = w.r.iter().map(|r| f64::from(*r));
        values.fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r))
    };
    let ((sa, qa), (sb, qb)) = (sums(a), sums(b));
    let spread = (qa - sa * sa / pairs) * (qb - sb * sb / pairs);
    let mean = |sum: i64| sum as f64 / (nodes as f64).max(1.0);
    WindowComparison {
        start: a.start,
        first: a.len(),
        second: b.len(),
        common,
        jaccard: common as f64 / (a.len() + b.len() - common) as f64,
        correlation: if spread > 0.0 {
            ((products - sa * sb / pairs) / spread.sqrt()).clamp(-1.0, 1.0)
        } else {
            f64::NAN
        },
        degree_change: mean(degrees.iter().sum()),
        degree_difference: mean(degrees.iter().map(|d| d.abs()).sum()),
    }
}

fn summary(
    a_path: &Path,
    a: &Network,
    b_path: &Path,
    b: &Network,
    compared: &[WindowComparison],
) -> Pair {
    let spread = |of: fn(&WindowComparison) -> f64| Spread::of(compared.iter().map(of));
    let sum = |of: fn(&WindowComparison) -> usize| compared.iter().map(|c| of(c) as u64).sum();
    Pair {
        first: a_path.display().to_string(),
        second: b_path.display().to_string(),
        windows: compared.len(),
        windows_only_first: a.len() - compared.len(),
        windows_only_second: b.len() - compared.len(),
        edges_first: sum(|c| c.first),
        edges_second: sum(|c| c.second),
        edges_common: sum(|c| c.common),
        jaccard: spread(|c| c.jaccard),
        correlation: spread(|c| c.correlation),
        degree_change: spread(|c| c.degree_change),
        degree_difference: spread(|c| c.degree_difference),
    }
}
