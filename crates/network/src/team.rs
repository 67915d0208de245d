//! A network by a team of processes: each takes windows, the first gets them all.

use betz_base::team::Team;
use betz_base::{Error, Progress, Result};

use crate::hold::Hold;
use crate::network::Network;
use crate::plan::Plan;
use crate::signal::Signal;
use crate::words::{absorb, to_words};

/// Runs of windows that a team shares out, where there are as many windows: enough for ranks to be about even, few
/// enough for their beginnings, each of which is summed from zero, to cost little.
const RUNS: usize = 32;

impl Plan {
    /// [`Plan::run`] by `team`, every process of which has the whole signal; the first gets the network, the others
    /// `None`. The edges are those of [`Plan::run`]; values are the same to the last bit for any team.
    ///
    /// # Errors
    /// As [`Plan::stream`]; [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for
    /// [`NetworkSpec::max_edges`](crate::NetworkSpec::max_edges) and for distances that have to last, which go from
    /// window to window; what the team says.
    pub fn run_by(
        &self,
        team: &dyn Team,
        signal: &Signal<'_>,
        progress: &dyn Progress,
    ) -> Result<Option<Network>> {
        self.check_apart("a team")?;
        let windows = self.grid.len();
        let limit = self.chunk_windows.min(windows.div_ceil(RUNS).max(1));
        let chunks = self.grid.chunks(limit);
        let own = &chunks[team.share(chunks.len())];
        let mut meta = self.meta(signal);
        let mut network = Network::empty(self.meta(signal));
        self.each_of(own, signal, progress, &mut meta, &mut |chunk| {
            network.absorb(chunk);
            Ok(())
        })?;
        network.meta = meta;
        let parts = team.collect(&to_words(&network))?;
        if parts.is_empty() {
            return Ok(None);
        }
        let mut whole = Network::empty(self.meta(signal));
        whole.meta.device.clone_from(&network.meta.device);
        drop(network);
        for words in parts {
            absorb(&mut whole, &words)?;
        }
        if whole.edges() > self.spec.max_edges {
            return Err(crate::engine::too_many(self.spec.max_edges));
        }
        Ok(Some(whole))
    }

    /// Refuses `whom`, who take windows apart, what goes from window to window.
    pub(crate) fn check_apart(&self, whom: &str) -> Result<()> {
        match Hold::of(&self.spec) {
            None => Ok(()),
            Some(_) => Err(Error::argument(format!(
                "{whom}: expected a measure of each window on its own, got distances that have to last (hold)"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use betz_base::team::Alone;

    use super::*;
    use crate::{Measure, NetworkSpec, Threshold, Window};

    /// A rank and its words.
    type Said = (usize, Vec<u64>);

    /// Threads that send what they have to the first.
    struct Threads {
        rank: usize,
        size: usize,
        to: Sender<Said>,
        from: std::sync::Mutex<Option<Receiver<Said>>>,
    }

    impl Team for Threads {
        fn rank(&self) -> usize {
            self.rank
        }

        fn size(&self) -> usize {
            self.size
        }

        fn gather(&self, _own: &[u64]) -> Result<Vec<Vec<u64>>> {
            Err(Error::argument("not asked for"))
        }

        fn collect(&self, own: &[u64]) -> Result<Vec<Vec<u64>>> {
            self.to.send((self.rank, own.to_vec())).unwrap();
            let from = self.from.lock().unwrap().take();
            let mut all: Vec<_> = from
                .iter()
                .flat_map(|from| from.iter().take(self.size))
                .collect();
            all.sort();
            Ok(all.into_iter().map(|(_, words)| words).collect())
        }

        fn add(&self, _values: &mut [i128]) -> Result<()> {
            Err(Error::argument("not asked for"))
        }
    }

    fn by(size: usize, plan: &Plan, signal: &Signal<'_>) -> Network {
        let (to, from) = channel();
        let mut from = Some(from);
        let teams: Vec<Threads> = (0..size)
            .map(|rank| Threads {
                rank,
                size,
                to: to.clone(),
                from: from.take().into(),
            })
            .collect();
        std::thread::scope(|scope| {
            let all: Vec<_> = (teams.iter())
                .map(|team| scope.spawn(move || plan.run_by(team, signal, &()).unwrap()))
                .collect();
            let mut all = all.into_iter().map(|thread| thread.join().unwrap());
            let first = all.next().flatten();
            assert!(all.all(|none| none.is_none()));
            first.unwrap()
        })
    }

    #[test]
    fn every_team_makes_the_same_network() {
        let nodes = 9;
        let samples: Vec<f32> = (0..700_u32)
            .flat_map(|t| {
                (0..nodes as u32).map(move |n| match (n, t) {
                    (8, _) => 2.0,
                    (7, 300) => f32::NAN,
                    _ => ((t * (n % 4 + 1)) as f32 / 9.0).sin() + (t * (n + 7) % 13) as f32 / 9.0,
                })
            })
            .collect();
        let signal = Signal::new(&samples, nodes).unwrap();
        let window = Window {
            length: 60,
            step: 7,
        };
        for measure in [
            Measure::Pearson,
            Measure::Spearman,
            Measure::Lagged { lags: 3 },
            Measure::Partial,
        ] {
            for threshold in [
                Threshold::Absolute(0.4),
                Threshold::Density(0.2),
                Threshold::TopPerNode(2),
            ] {
                let spec = NetworkSpec::new(measure, window).threshold(threshold);
                let Ok(plan) = Plan::new(&spec, &signal) else {
                    continue;
                };
                let alone = plan.run_by(&Alone, &signal, &()).unwrap().unwrap();
                let whole = plan.run(&signal, &()).unwrap();
                assert_eq!((alone.i(), alone.j()), (whole.i(), whole.j()));
                assert_eq!(alone.window_start(), whole.window_start());
                assert!(
                    alone
                        .r()
                        .iter()
                        .zip(whole.r())
                        .all(|(a, b)| (a - b).abs() < 1e-5)
                );
                // More of them than windows, too.
                for size in [2, 3, 7, 120] {
                    assert_eq!(
                        by(size, &plan, &signal),
                        alone,
                        "{size} of {measure:?}, {threshold:?}"
                    );
                }
            }
        }
    }
}
