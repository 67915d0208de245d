//! From a cluster of spikes to a unit.

use std::collections::BTreeMap;

use crate::collect::Spikes;
use crate::echo::UnitTrain;
use crate::settings::Window;
use crate::sorter::{Sorter, Unit};
use crate::template::Template;
use betz_som::Samples;

/// Part of a unit's spikes that its gate lets through.
const GATE_PART: f64 = 0.98;
/// Factor by which the gate is wider than that, to be on the safe side.
const GATE_MORE: f32 = 1.3;

/// Spikes of a group that make one unit.
pub(crate) struct Members<'a> {
    /// Their indices.
    pub(crate) own: &'a [usize],
    pub(crate) spikes: &'a Spikes,
    pub(crate) samples: Samples<'a>,
    /// Distance of every spike of the group from its node.
    pub(crate) distances: &'a [f32],
}

impl Members<'_> {
    /// The unit, and its spikes in time order.
    pub(crate) fn make_unit(&self, sorter: &Sorter, group: u32, seconds: f64) -> (Unit, UnitTrain) {
        let own = self.own;
        let mut far: Vec<f32> = own.iter().map(|s| self.distances[*s]).collect();
        let at = ((far.len() - 1) as f64 * GATE_PART) as usize;
        let (_, gate, _) = far.select_nth_unstable_by(at, f32::total_cmp);
        let gate = (*gate * GATE_MORE).max(1.0);
        let mut centre = vec![0.0_f64; self.samples.dims()];
        let mut by_channel = BTreeMap::new();
        for &s in own {
            for (c, x) in centre.iter_mut().zip(self.samples.row(s)) {
                *c += f64::from(*x);
            }
            let entry = by_channel
                .entry(self.spikes.channels[s])
                .or_insert((0_u64, 0.0_f64));
            entry.0 += 1;
            entry.1 += f64::from(self.spikes.microvolts[s]);
        }
        let most = by_channel.iter().max_by_key(|(_, (spikes, _))| *spikes);
        let (channel, (on_it, sum)) = most.map_or((0, (1, 0.0)), |(c, s)| (*c, *s));
        let used = sorter
            .layout
            .used
            .iter()
            .position(|c| *c == channel)
            .unwrap_or(0);
        // Those that lay under others came after them.
        let mut samples_of: Vec<i64> = own.iter().map(|s| self.spikes.samples[*s]).collect();
        samples_of.sort_unstable();
        let fired = UnitTrain {
            samples: samples_of,
            size: (-sum / on_it as f64) as f32 / sorter.layout.noise[used],
            place: sorter.layout.places[used],
        };
        let unit = Unit {
            id: 0,
            group,
            channel,
            spikes: own.len() as u64,
            rate_hz: own.len() as f64 / seconds,
            microvolts: (sum / on_it as f64) as f32,
            centre: centre
                .iter()
                .map(|c| (c / own.len() as f64) as f32)
                .collect(),
            gate,
            waveform: vec![0.0; Window::from_settings(&sorter.settings).len()],
            template: Template::default(),
            more: Vec::new(),
            beyond: Vec::new(),
        };
        (unit, fired)
    }
}
