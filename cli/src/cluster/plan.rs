//! `betz-mpi --plan`: what a command will cost by so many ranks.

use betz::train::long::{Cluster, Growth};
use betz::{Error, Result, memory};

use super::{Network, Train};
use crate::commands::{long, network as networks};
use crate::report::{self, Table};

/// Most ranks that are planned for.
const MOST: usize = 1 << 20;

/// What `--plan`, `--link` and `--latency` say.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Numbers of ranks.
    pub ranks: Vec<usize>,
    /// Bytes a second from one rank to another.
    pub link: f64,
    /// Seconds until what is sent begins to come.
    pub latency: f64,
}

impl Planned {
    /// Of a list such as `1,2,4,1024`, bytes a second and microseconds.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz::ErrorKind::InvalidArgument) for what is no list, or not above 0.
    pub fn new(list: &str, link: f64, latency_us: f64) -> Result<Self> {
        let ranks = list.split(',').map(|text| {
            let number = text.trim().parse().ok();
            number.filter(|n| (1..=MOST).contains(n)).ok_or_else(|| {
                Error::argument(format!("--plan: expected numbers of ranks from 1 to {MOST}, such as 1,4,64; got '{text}'"))
            })
        });
        for (option, value) in [("--link", link), ("--latency", latency_us)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::argument(format!(
                    "{option}: expected a number above 0, got {value}"
                )));
            }
        }
        Ok(Self {
            ranks: ranks.collect::<Result<_>>()?,
            link,
            latency: latency_us * 1e-6,
        })
    }
}

/// Prints what `betz-mpi train` will cost: its beginning alone is trained on.
///
/// # Errors
/// As the command's, about its arguments and the recording.
pub fn train(planned: &Planned, args: &Train) -> Result<()> {
    let (mut file, options) = long::prepared(args, args.memory.unwrap_or(super::MEMORY))?;
    let growth = Growth::of(&mut file, &options);
    report::line(&format!(
        "{} stretches, {:.0} % of the steps twice more for what filters remember at a cut; {:.3e} operations in {:.1} s of one rank's {}, {}; {} a rank and exchange, {} in all; {} read by all; {:.1} s of solving by the first",
        growth.stretches,
        50.0 * growth.lead,
        growth.sum_operations,
        growth.sum_seconds,
        report::count(rayon::current_num_threads() as u128, "thread"),
        match growth.timed {
            true => "timed on the recording's beginning",
            false =>
                "by built-in figures or betz info --calibrate: its beginning cannot be trained on",
        },
        memory::size((growth.exchange_bytes / growth.exchanges.max(1) as f64) as u64),
        report::count(growth.exchanges as u128, "exchange"),
        memory::size(growth.read_bytes as u64),
        growth.solve_seconds
    ))?;
    let [first, others] = growth.held_bytes();
    report::line(&format!(
        "memory beside a stretch: {} the first rank, {} any other ({} of {} at once)",
        memory::size(first),
        memory::size(others),
        growth.at_once,
        report::count(growth.folds as u128, "fold"),
    ))?;
    let one = growth.seconds(&cluster(planned, 1));
    let mut table = Table::new(&[
        "ranks",
        "stretches a rank",
        "operations a rank",
        "exchange",
        "all",
        "of 1 / ranks",
    ]);
    for &ranks in &planned.ranks {
        let here = cluster(planned, ranks);
        let seconds = growth.seconds(&here);
        table.row([
            ranks.to_string(),
            growth.stretches.div_ceil(ranks).to_string(),
            format!(
                "{:.2e}",
                growth.sum_operations / ranks.min(growth.stretches.max(1)) as f64
            ),
            format!("{:.3} s", growth.exchange_seconds(&here)),
            format!("{seconds:.2} s"),
            format!("{:.2}", one / seconds / ranks as f64),
        ]);
    }
    table.print()
}

/// Prints what `betz-mpi network` will cost, without computing it: the signal is read, and a few windows and nodes of it
/// tell how many edges to expect, and how fast this machine is.
///
/// # Errors
/// As the command's, about its arguments and the signal.
pub fn network(planned: &Planned, args: &Network) -> Result<()> {
    let networks::compute::Planned {
        plan,
        edges,
        pace,
        signal_bytes,
    } = networks::compute::planned(args)?;
    let estimate = plan.estimate();
    let one = plan.growth(1, edges, pace);
    report::line(&format!(
        "{}, {:.3e} pairs in all; {:.3e} operations in {:.1} s of one rank's {}, {:.1} s for its panels; about {:.2e} edges; \
         every rank holds the signal, {}, and {} of panels",
        report::count(estimate.windows as u128, "window"),
        estimate.pair_windows,
        one.operations,
        one.walk_seconds,
        report::count(rayon::current_num_threads() as u128, "thread"),
        one.panel_seconds,
        edges,
        memory::size(signal_bytes as u64),
        memory::size(one.panel_bytes as u64),
    ))?;
    let seconds = |ranks| {
        plan.growth(ranks, edges, pace)
            .seconds(planned.link, planned.latency)
    };
    let alone = seconds(1);
    let mut table = Table::new(&[
        "ranks",
        "pieces a rank",
        "operations a rank",
        "panels",
        "exchange",
        "exchange, bytes",
        "all",
        "of 1 / ranks",
    ]);
    for &ranks in &planned.ranks {
        let growth = plan.growth(ranks, edges, pace);
        table.row([
            ranks.to_string(),
            growth.pieces.to_string(),
            format!("{:.2e}", growth.operations),
            format!("{:.3} s", growth.panel_seconds),
            format!(
                "{:.3} s",
                growth.exchange_seconds(planned.link, planned.latency) + growth.join_seconds
            ),
            memory::size(growth.exchange_bytes as u64),
            format!("{:.3} s", seconds(ranks)),
            format!("{:.2}", alone / seconds(ranks) / ranks as f64),
        ]);
    }
    table.print()
}

fn cluster(planned: &Planned, ranks: usize) -> Cluster {
    Cluster {
        ranks,
        link: planned.link,
        latency: planned.latency,
    }
}
