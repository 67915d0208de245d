//! The page of a network that grows.

use betz::network::file::Positions;
use betz::network::live::SampleNetwork;
use betz::network::{Meta, NetworkSpec, Threshold, Window, WindowEdges};
use betz::{Error, Result};
use betz_monitor::{LiveNetwork, LiveNodes, LiveStatus, Monitor, NetworkChange, NetworkWish};

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

/// The specification that a page asks for.
///
/// # Errors
/// Several kinds of thresholds. What is out of range is refused with the specification.
pub(super) fn changed(spec: &NetworkSpec, asked: &NetworkChange) -> Result<NetworkSpec> {
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
    let changed = NetworkSpec { window, ..*spec };
    Ok(changed.threshold(threshold).strict(strict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_asked_for_stays() {
        let spec = NetworkSpec::pearson(Window::new(100, 10)).strict(true);
        let asked = NetworkChange {
            step: Some(20),
            ..NetworkChange::default()
        };
        let other = changed(&spec, &asked).unwrap();
        assert_eq!(other.window, Window::new(100, 20));
        assert_eq!((other.threshold, other.strict), (spec.threshold, true));
        let asked = NetworkChange {
            density: Some(0.1),
            ..asked
        };
        let other = changed(&spec, &asked).unwrap();
        assert_eq!(
            (other.threshold, other.strict),
            (Threshold::Density(0.1), false)
        );
        let asked = NetworkChange {
            top: Some(3),
            ..asked
        };
        assert!(changed(&spec, &asked).is_err());
        assert!(changed(&spec, &NetworkChange::default()).is_err());
    }
}
