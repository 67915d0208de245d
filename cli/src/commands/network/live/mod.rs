//! `betz network live`: the network of a signal while it comes, from a device, a folder that fills or a pipe.

pub(crate) mod args;
mod bins;
mod feed;
mod folder;
mod output;
mod pipe;
mod queue;
mod reduce;
mod rig;
#[cfg(feature = "page")]
mod shown;

use std::time::{Duration, Instant};

use betz::device::Device;
use betz::network::live::{SampleCounts, SampleNetwork};
use betz::network::{Measure, Signal, SignalData, WindowEdges};
use betz::recording::arrays::Values;
use betz::{Error, ErrorKind, Progress, Result};

use super::args::Span;
use super::compute::spec;
use super::nodes;
use crate::device;
use crate::files::{Files, Kind};
use crate::report::{self, UntilInterrupted};
use args::Live;
use feed::{Facts, FeedCounts, Piece};
use output::{LiveReport, OutputNetworks};
use queue::{Queue, values_of};
use reduce::Reducer;
#[cfg(feature = "page")]
use shown::NetworkPage;

/// Time between two lines about the newest window.
const LINE: Duration = Duration::from_secs(1);
/// Time without rows after which a line says so.
const SILENCE: Duration = Duration::from_secs(5);
/// Bytes of rows in line.
const WAITING: u64 = 256_000_000;
/// Time that rows of a device may wait before windows are left out.
const BEHIND: Duration = Duration::from_secs(1);

pub(super) fn run(args: &Live) -> Result<()> {
    check(args)?;
    let device = device::open(&args.common.device)?;
    let feed = feed::open(args)?;
    #[cfg(feature = "page")]
    let shown = NetworkPage::open(args)?;
    report::stop_on_interrupt();
    eprintln!("reading {}; Ctrl-C ends", args.source.display());
    let waiting = usize::try_from(args.waiting.unwrap_or(WAITING)).unwrap_or(usize::MAX);
    let queue = Queue::start(feed, Reducer::new(&args.from), waiting)?;
    let mut live = LiveRun {
        args,
        device,
        network: None,
        kept: (args.out.as_ref())
            .map(|out| OutputNetworks::new(&args.common, out, args.edges.max_edges)),
        #[cfg(feature = "page")]
        shown,
        began: Instant::now(),
        said: None,
        newest: None,
        counts: FeedCounts::default(),
        kept_edges: 0,
        changes: 0,
        last_rows: Instant::now(),
        unreadable_said: 0,
    };
    let ran = live.run(&queue);
    live.finish(ran)
}

/// Refuses what no source could do, before anything is opened.
fn check(args: &Live) -> Result<()> {
    if let Measure::SpikeTiling { .. } = args.edges.measure {
        return Err(Error::argument(
            "--measure: expected a measure of samples, got sttc, which `betz network compute` computes of a recording's spikes",
        ));
    }
    if let Measure::Distance { .. } = args.edges.measure {
        return Err(Error::argument(
            "--measure: expected a measure of one value per node, got distance; `betz network compute` computes it of recorded \
             places",
        ));
    }
    if args.edges.reach.is_some() {
        return Err(Error::argument(format!(
            "--reach: expected --measure sttc, got {}",
            args.edges.measure.name()
        )));
    }
    if args.windows == Some(0) {
        return Err(Error::argument("--windows: expected at least 1, got 0"));
    }
    if args.from.average == Some(Span::Samples(0)) {
        return Err(Error::argument("--average: expected at least 1 row, got 0"));
    }
    if let Some(list) = &args.from.nodes {
        nodes::check_list(list)?;
    }
    if !needs_rate(args) {
        spec(&args.edges, &no_rows(2, None)?)?.check()?;
    }
    Files::new(&args.common).may_write("--out", args.out.as_deref(), Kind::Network)
}

/// True if the time between samples decides what the specification is; the source may give it.
fn needs_rate(args: &Live) -> bool {
    let edges = &args.edges;
    let spans = [
        Some(edges.window),
        Some(edges.step),
        edges.lags,
        edges.near,
        edges.gap,
        edges.band,
        edges.segment,
    ];
    let timed = |span: &Span| matches!(span, Span::Seconds(_));
    edges.frequencies.is_some() || spans.iter().flatten().any(timed)
}

/// The newest window, for a line about it.
struct Newest {
    start: u64,
    edges: usize,
}

/// A network and its way out.
struct LiveRun<'a> {
    args: &'a Live,
    device: Device,
    /// Known with the first rows.
    network: Option<SampleNetwork>,
    kept: Option<OutputNetworks<'a>>,
    #[cfg(feature = "page")]
    shown: Option<NetworkPage>,
    began: Instant,
    /// Time of the last line.
    said: Option<Instant>,
    newest: Option<Newest>,
    counts: FeedCounts,
    /// Edges of all windows for `--out`.
    kept_edges: u64,
    /// Changes of the specification.
    changes: u64,
    /// Time of the last rows.
    last_rows: Instant,
    /// Unreadable images, or messages, that a line has counted.
    unreadable_said: u64,
}

impl LiveRun<'_> {
    /// Until the source ends, a limit is reached or Ctrl-C.
    fn run(&mut self, queue: &Queue) -> Result<()> {
        let behind = self.args.behind.map_or(BEHIND, Duration::from_secs_f64);
        while !UntilInterrupted.cancelled() && !self.is_done() {
            let batch = queue.take();
            self.counts = batch.counts;
            for piece in batch.pieces {
                self.take(piece)?;
            }
            if batch.waited > behind
                && !queue.waits
                && let Some(network) = &mut self.network
            {
                network.skip();
            }
            self.update()?;
            self.change();
            self.say();
            if let Some(ended) = batch.ended {
                return ended;
            }
        }
        Ok(())
    }

    /// Rows after which the command ends, if the time of one is known.
    fn row_limit(&self) -> Option<u64> {
        let seconds = self.args.seconds?;
        let sample = self.network.as_ref()?.meta().sample_seconds?;
        Some((seconds / sample).round() as u64)
    }

    fn is_done(&self) -> bool {
        let counts = self.sample_counts();
        if self.args.windows.is_some_and(|most| counts.windows >= most) {
            return true;
        }
        let clocked = match &self.network {
            Some(network) if network.meta().sample_seconds.is_some() => {
                return (self.row_limit()).is_some_and(|most| network.rows() >= most);
            }
            _ => self.began.elapsed().as_secs_f64(),
        };
        self.args.seconds.is_some_and(|most| clocked >= most)
    }

    fn sample_counts(&self) -> SampleCounts {
        (self.network.as_ref()).map_or_else(SampleCounts::default, SampleNetwork::counts)
    }

    fn take(&mut self, piece: Piece) -> Result<()> {
        match piece {
            Piece::Facts(facts) => self.begin(facts),
            Piece::Rows(values) => {
                self.last_rows = Instant::now();
                let left = self.row_limit();
                let Some(network) = &mut self.network else {
                    return Ok(());
                };
                let rows = values_of(&values) / network.nodes().max(1);
                let left = left.map_or(u64::MAX, |most| most.saturating_sub(network.rows()));
                let rows = rows.min(usize::try_from(left).unwrap_or(usize::MAX));
                let used = rows * network.nodes();
                match &values {
                    Values::U8(v) => network.push(&v[..used]),
                    Values::U16(v) => network.push(&v[..used]),
                    Values::I16(v) => network.push(&v[..used]),
                    Values::F32(v) => network.push(&v[..used]),
                    Values::F64(v) => network.push(&v[..used]),
                }
            }
            Piece::Gap(lost) => {
                // Windows before the gap are complete.
                self.update()?;
                if let Some(network) = &mut self.network {
                    network.gap(lost);
                }
                Ok(())
            }
        }
    }

    /// The first rows are about to come.
    fn begin(&mut self, facts: Facts) -> Result<()> {
        let signal = no_rows(facts.nodes, facts.sample_seconds)?;
        // Edges are counted over what is kept.
        let spec = spec(&self.args.edges, &signal)?.max_edges(u64::MAX);
        let mut network = SampleNetwork::new(spec, facts.nodes)?;
        if let Some(seconds) = facts.sample_seconds {
            network = network.with_sample_seconds(seconds)?;
        }
        let network = network.on(&self.device).map_err(|e| e.at("--device"))?;
        let rate = facts.sample_seconds.map_or(String::new(), |seconds| {
            format!(" at {} Hz", (1e3 / seconds).round() / 1e3)
        });
        eprintln!(
            "{}{rate}; windows of {} every {}, {} ({})",
            report::count(facts.nodes as u128, "node"),
            report::count(spec.window.length as u128, "sample"),
            spec.window.step,
            spec.measure.name(),
            network.meta().device
        );
        if let Some(kept) = &mut self.kept {
            kept.begin(network.meta(), facts.positions.clone());
        }
        #[cfg(feature = "page")]
        if let Some(shown) = &mut self.shown {
            shown.begin(network.meta(), facts.positions);
        }
        self.network = Some(network);
        Ok(())
    }

    /// Computes the windows that are complete.
    fn update(&mut self) -> Result<()> {
        let Some(network) = &mut self.network else {
            return Ok(());
        };
        let left = self
            .args
            .windows
            .map(|most| most - network.counts().windows.min(most));
        let (kept, newest) = (&mut self.kept, &mut self.newest);
        let (most, edges) = (self.args.edges.max_edges, &mut self.kept_edges);
        #[cfg(feature = "page")]
        let shown = &mut self.shown;
        let mut taken = 0;
        let take = |window: &WindowEdges<'_>| {
            if left == Some(taken) {
                return Err(Error::new(ErrorKind::Interrupted, "--windows"));
            }
            let own = window.len() as u64;
            if let Some(kept) = kept {
                *edges += own;
                if *edges > most {
                    return Err(too_many(most, "over all windows that are kept"));
                }
                kept.push(window)?;
            } else if own > most {
                return Err(too_many(most, "in a window"));
            }
            #[cfg(feature = "page")]
            if let Some(shown) = shown {
                shown.push(window);
            }
            taken += 1;
            *newest = Some(Newest {
                start: window.start,
                edges: window.len(),
            });
            Ok(())
        };
        match network.update(&UntilInterrupted, take) {
            Ok(_) => Ok(()),
            // The loop sees the reason.
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(()),
            Err(e) if e.kind() == ErrorKind::InvalidArgument => Err(e.at("--max-edges")),
            Err(e) => Err(e),
        }
    }

    /// Does what pages ask for.
    #[cfg(feature = "page")]
    fn change(&mut self) {
        let Some(shown) = &mut self.shown else {
            return;
        };
        while let Some(wish) = shown.wish() {
            let Some(network) = &mut self.network else {
                wish.answer(Err(Error::argument(
                    "expected a network whose rows have come, got none yet",
                )));
                continue;
            };
            let changed = changed(network, self.kept.as_mut(), &wish.change, &self.args.edges);
            if changed.is_ok() {
                self.changes += 1;
                shown.begin_again(network.meta());
            }
            wish.answer(changed);
        }
        shown.status(self.network.as_ref(), false);
    }

    #[cfg(not(feature = "page"))]
    fn change(&mut self) {}

    /// A line about the newest window, once per second, or about rows that do not come.
    fn say(&mut self) {
        self.say_silence();
        let due = self.said.is_none_or(|said| said.elapsed() >= LINE);
        let (Some(network), true) = (&self.network, due && !self.args.quiet) else {
            return;
        };
        let Some(newest) = self.newest.take() else {
            return;
        };
        self.said = Some(Instant::now());
        let counts = network.counts();
        let meta = network.meta();
        let end = newest.start + meta.spec.window.length as u64;
        let at = match meta.sample_seconds {
            Some(seconds) => format!("{:.2} s", end as f64 * seconds),
            None => format!("row {end}"),
        };
        let FeedCounts { late, unreadable } = self.counts;
        let of_source: String = [(late, "late"), (unreadable, "unreadable")]
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!(", {count} {what}"))
            .collect();
        eprintln!(
            "{at}: window {}, {}; {} lost, {} skipped{of_source}",
            counts.windows,
            report::count(newest.edges as u128, "edge"),
            report::count(u128::from(counts.lost), "sample"),
            report::count(u128::from(counts.skipped), "window"),
        );
    }

    /// A line if no rows have come for some seconds.
    fn say_silence(&mut self) {
        let silent = self.last_rows.elapsed();
        let due = (self.said).is_none_or(|said| said.elapsed() >= SILENCE);
        if self.args.quiet || silent < SILENCE || !due {
            return;
        }
        self.said = Some(Instant::now());
        let unreadable = self.counts.unreadable - self.unreadable_said;
        self.unreadable_said = self.counts.unreadable;
        let of_source = match unreadable {
            0 => String::new(),
            more => format!("; {more} unreadable since the last line"),
        };
        eprintln!("no rows for {} s{of_source}", silent.as_secs());
    }

    /// Writes and reports what was computed, also after an error.
    fn finish(mut self, ran: Result<()>) -> Result<()> {
        #[cfg(feature = "page")]
        if let Some(shown) = &mut self.shown {
            shown.status(self.network.as_ref(), true);
        }
        let Some(network) = &self.network else {
            ran?;
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!("{}: expected rows, got none", self.args.source.display()),
            ));
        };
        let written = match &mut self.kept {
            Some(kept) => kept.end(network.meta()),
            None => Ok(()),
        };
        let report = LiveReport::new(
            network,
            self.counts,
            self.changes,
            self.began.elapsed(),
            self.kept.as_ref(),
        );
        if ran.is_ok() || network.counts().windows > 0 {
            report::tell(&report, self.args.common.json)?;
        }
        ran.and(written)
    }
}

/// Computes by the specification that a page asks for. Windows so far are written before; if that fails, everything
/// stays as it was.
#[cfg(feature = "page")]
fn changed(
    network: &mut SampleNetwork,
    kept: Option<&mut OutputNetworks<'_>>,
    asked: &betz_monitor::NetworkChange,
    edges: &super::args::Edges,
) -> Result<()> {
    let before = network.meta();
    let signal = no_rows(network.nodes(), before.sample_seconds)?;
    let spec = shown::changed(network.spec(), asked, edges, &signal)?;
    network.check_spec(&spec)?;
    let Some(kept) = kept else {
        return network.set_spec(spec);
    };
    kept.write(before)?;
    let changed = network.set_spec(spec);
    kept.go_on(network.meta());
    changed
}

fn too_many(most: u64, of: &str) -> Error {
    Error::argument(format!("expected at most {most} edges {of}, got more"))
}

/// A signal of so many nodes without a row.
fn no_rows(nodes: usize, sample_seconds: Option<f64>) -> Result<Signal<'static>> {
    let none: &'static [f32] = &[];
    let signal = Signal::new(SignalData::from(none), nodes)?;
    match sample_seconds {
        Some(seconds) => signal.with_sample_seconds(seconds),
        None => Ok(signal),
    }
}
