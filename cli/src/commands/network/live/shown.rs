//! The page of a network that grows.

use betz::network::file::Positions;
use betz::network::live::SampleNetwork;
use betz::network::{Meta, NetworkSpec, Signal, Threshold, Window, WindowEdges};
use betz::{Error, Result};
use betz_monitor::{LiveNetwork, LiveNodes, LiveStatus, Monitor, NetworkChange, NetworkWish};

use super::super::args::Edges;
use super::super::compute::measure;
use super::args::Live;
use crate::browser::Door;
use crate::network_database::NetworkDatabase;
use crate::page::{Page, announce, options};

/// A page, and the network on it.
pub(super) struct NetworkPage {
    network: LiveNetwork,
    nodes: LiveNodes,
    _monitor: Monitor,
    _door: Option<Door>,
}

impl NetworkPage {
    /// The page, if it is asked for.
    ///
    /// # Errors
    /// The page cannot be served, or its database cannot be opened.
    pub(super) fn open(args: &Live) -> Result<Option<Self>> {
        if !args.page.of_session.shown {
            return Ok(None);
        }
        let page = Page {
            control: args.page.control,
            ..args.page.of_session.options()
        };
        let store = (args.page.sessions.as_deref()).map(NetworkDatabase::open);
        let store = store.transpose()?;
        let name = args.source.to_string_lossy();
        let name = if name == "-" { "standard input" } else { &name };
        let (monitor, network) = Monitor::open_live_network(name, options(&page))?;
        if let Some(store) = store {
            monitor.keep_networks(Box::new(store))?;
        }
        let door = announce(&monitor, &page, args.common.json)?;
        Ok(Some(Self {
            network,
            nodes: LiveNodes::default(),
            _monitor: monitor,
            _door: door,
        }))
    }

    /// The nodes are known.
    pub(super) fn begin(&mut self, meta: Meta, positions: Option<Positions>) {
        self.nodes = LiveNodes {
            names: None,
            positions: positions.map(|all| (all.values, all.axes)),
        };
        self.begin_again(meta);
    }

    /// Another specification.
    pub(super) fn begin_again(&self, meta: Meta) {
        self.network.begin(meta, self.nodes.clone());
    }

    pub(super) fn push(&self, window: &WindowEdges<'_>) {
        self.network.push(window);
    }

    pub(super) fn wish(&self) -> Option<NetworkWish> {
        self.network.wish()
    }

    pub(super) fn status(&self, network: Option<&SampleNetwork>, ended: bool) {
        let Some(network) = network else { return };
        let counts = network.counts();
        let status = LiveStatus {
            rows: counts.rows,
            lost: counts.lost,
            windows: counts.windows,
            skipped: counts.skipped,
            ended,
        };
        self.network.status(status, network.meta());
    }
}

/// The specification that a page asks for, of a signal like `signal`. What `edges` leave to the length of the window,
/// such as the segment of a coherence, follows it.
///
/// # Errors
/// Several kinds of thresholds. What is out of range is refused with the specification.
pub(super) fn changed(
    spec: &NetworkSpec,
    asked: &NetworkChange,
    edges: &Edges,
    signal: &Signal<'_>,
) -> Result<NetworkSpec> {
    if *asked == NetworkChange::default() {
        return Err(Error::argument(
            "expected window, step, threshold, density or top, got none of them",
        ));
    }
    let threshold = asked.kept()?.unwrap_or(spec.threshold);
    let strict = spec.strict && matches!(threshold, Threshold::Absolute(_));
    let window = Window {
        length: asked.window.unwrap_or(spec.window.length),
        step: asked.step.unwrap_or(spec.window.step),
    };
    let measure = match window.length == spec.window.length {
        true => spec.measure,
        false => measure(edges, signal, window)?,
    };
    let changed = NetworkSpec {
        window,
        measure,
        ..*spec
    };
    Ok(changed.threshold(threshold).strict(strict))
}

#[cfg(test)]
mod tests {
    use super::super::no_rows;
    use super::*;
    use betz::network::Measure;
    use clap::Parser;

    #[derive(Parser)]
    #[command(group = clap::ArgGroup::new("keep").required(true).multiple(false))]
    struct Line {
        #[command(flatten)]
        edges: Edges,
    }

    fn edges(line: &str) -> Edges {
        Line::parse_from(std::iter::once("x").chain(line.split_whitespace())).edges
    }

    #[test]
    fn what_is_not_asked_for_stays() {
        let spec = NetworkSpec::pearson(Window::new(100, 10)).strict(true);
        let edges = edges("--window 100 --step 10 --threshold 0.5");
        let signal = no_rows(3, None).unwrap();
        let changed = |asked: &NetworkChange| changed(&spec, asked, &edges, &signal);
        let asked = NetworkChange {
            step: Some(20),
            ..NetworkChange::default()
        };
        let other = changed(&asked).unwrap();
        assert_eq!(other.window, Window::new(100, 20));
        assert_eq!((other.threshold, other.strict), (spec.threshold, true));
        let asked = NetworkChange {
            density: Some(0.1),
            ..asked
        };
        let other = changed(&asked).unwrap();
        assert_eq!(
            (other.threshold, other.strict),
            (Threshold::Density(0.1), false)
        );
        let asked = NetworkChange {
            top: Some(3),
            ..asked
        };
        assert!(changed(&asked).is_err());
        assert!(changed(&NetworkChange::default()).is_err());
    }

    #[test]
    fn a_segment_that_was_not_given_follows_the_window() {
        let signal = no_rows(3, Some(0.01)).unwrap();
        let asked = NetworkChange {
            window: Some(200),
            ..NetworkChange::default()
        };
        for (more, segment) in [("", 50), ("--segment 20", 20)] {
            let edges = edges(&format!(
                "--window 100 --step 10 --threshold 0.5 --measure coherence --frequencies 8-12 {more}"
            ));
            let spec = super::super::spec(&edges, &signal).unwrap();
            let other = changed(&spec, &asked, &edges, &signal).unwrap();
            let Measure::Coherence {
                segment: own,
                first,
                ..
            } = other.measure
            else {
                panic!("coherence");
            };
            // A bin is the rate of 100 Hz over the segment.
            assert_eq!((own, first), (segment, (8_usize * segment).div_ceil(100)));
        }
    }
}
