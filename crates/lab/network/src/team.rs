//! A network by a team of processes: each takes windows or a part of their pairs, the first gets them all.

use betz_base::team::Team;
use betz_base::{Error, Progress, Result};

use crate::hold::Hold;
use crate::network::Network;
use crate::plan::Plan;
use crate::signal::Signal;
use crate::window::Chunk;
use crate::words::{absorb, to_words};

impl Plan {
    /// Computes the network with the other processes of `team`; the first gets it.
    pub(crate) fn run_in(
        &self,
        team: &dyn Team,
        signal: &Signal<'_>,
        progress: &dyn Progress,
    ) -> Result<Option<Network>> {
        let dealt = self.agree_shares(team)?;
        let mut network = Network::empty(self.meta(signal));
        self.collect(&dealt[team.rank()], signal, progress, &mut network)?;
        if team.size() == 1 {
            return Ok(Some(network));
        }
        if team.rank() > 0 {
            let words = to_words(&network);
            drop(network);
            team.collect(&words)?;
            return Ok(None);
        }
        // The first sends itself nothing.
        let sent = team.collect(&[])?;
        let mut whole = Network::empty(self.meta(signal));
        whole.meta.device.clone_from(&network.meta.device);
        let mut parts = vec![network];
        for words in sent.into_iter().skip(1) {
            let mut part = Network::empty(self.meta(signal));
            absorb(&mut part, &words)?;
            parts.push(part);
        }
        let parts = (parts.into_iter().zip(&dealt))
            .filter_map(|(part, own)| Some((own.first()?.first, part)))
            .collect();
        self.put_together(&mut whole, parts)?;
        Ok(Some(whole))
    }

    /// The shares of all processes; each computes the same ones, whatever threads and devices it has.
    fn agree_shares(&self, team: &dyn Team) -> Result<Vec<Vec<Chunk>>> {
        let own = [self.chunk_windows as u64, u64::from(self.has_rows())];
        let all = team.gather(&own)?;
        let least = |at: usize| all.iter().filter_map(|words| words.get(at).copied()).min();
        let (windows, rows) = (least(0).unwrap_or(own[0]), least(1).unwrap_or(own[1]));
        let mut plan = self.clone();
        plan.chunk_windows = (windows as usize).min(self.chunk_windows);
        Ok(plan.deal(team.size(), rows == 1))
    }

    /// Appends the edges of all `parts`, each with the number of its first window, window by window; those of a window
    /// that several have in the order of the parts.
    fn put_together(&self, whole: &mut Network, parts: Vec<(usize, Network)>) -> Result<()> {
        let edges: u64 = parts.iter().map(|(_, part)| part.edges()).sum();
        if edges > self.spec.max_edges {
            return Err(crate::engine::too_many(self.spec.max_edges));
        }
        for (_, part) in &parts {
            whole.meta.rechecked += part.meta.rechecked;
            whole.meta.rebuilt += part.meta.rebuilt;
            whole.meta.extreme += part.meta.extreme;
        }
        let edges = edges as usize;
        whole.i.reserve_exact(edges);
        whole.j.reserve_exact(edges);
        whole.r.reserve_exact(edges);
        whole
            .window_start
            .extend(self.grid.starts().map(|s| s as u64));
        let mut first = 0;
        for k in 0..self.grid.len() {
            while parts
                .get(first)
                .is_some_and(|(from, part)| from + part.len() <= k)
            {
                first += 1;
            }
            let here = parts[first..].iter().take_while(|(from, _)| *from <= k);
            let mut some = false;
            for window in here.filter_map(|(from, part)| part.window(k - from)) {
                whole.i.extend(window.i);
                whole.j.extend(window.j);
                whole.r.extend(window.r);
                whole.lag.extend(window.lag);
                whole.undefined.extend(window.undefined);
                whole.why.extend(window.why);
                some = true;
            }
            if !some {
                return Err(Error::mismatch(format!(
                    "parts of a network: expected edges of window {k}, got none of its parts"
                )));
            }
            whole.indptr.push(whole.r.len() as u64);
            whole.undefined_indptr.push(whole.undefined.len() as u64);
        }
        Ok(())
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
    use super::*;
    use crate::{Measure, NetworkSpec, Run, Threshold, Window, cases};
    use betz_base::team::threads::run_team;

    fn run_by_team(size: usize, plan: &Plan, signal: &Signal<'_>) -> Network {
        let all = run_team(size, |team| {
            let run = Run {
                team: Some(team),
                ..Run::default()
            };
            plan.run_with(run, signal, &()).unwrap()
        });
        let mut all = all.into_iter();
        let first = all.next().flatten();
        assert!(all.all(|none| none.is_none()));
        first.unwrap()
    }

    /// Windows of 60 samples of 100 nodes, of which some are undefined and one is beyond f32 for a while.
    #[test]
    fn a_window_is_shared_out_to_the_last_bit() {
        let nodes = 100;
        let samples: Vec<f64> = (0..300_u32)
            .flat_map(|t| {
                (0..nodes as u32).map(move |n| {
                    let value =
                        f64::from(t * (n % 4 + 1)).sin() + f64::from(t * (n + 7) % 13) / 9.0;
                    match (n, t) {
                        (8, _) => 2.0,
                        (57, 200) => f64::NAN,
                        (60, 100..200) => value * 1e200,
                        (61, _) => value * 1e-200,
                        _ => value,
                    }
                })
            })
            .collect();
        let signal = Signal::new(&samples, nodes).unwrap();
        for (measure, threshold) in [
            (Measure::Pearson, 0.4),
            (Measure::GaussianInformation, 0.2),
            (Measure::Spearman, 0.4),
            (Measure::Kendall, 0.3),
            (Measure::Covariance, 0.3),
            (Measure::Euclidean { hold: 1 }, 6.0),
            (Measure::Lagged { lags: 3 }, 0.5),
            (Measure::PhaseLocking, 0.4),
            (Measure::ImaginaryPhaseLocking, 0.4),
            (Measure::PhaseConsistency, 0.2),
        ] {
            for length in [60, 290] {
                let window = Window { length, step: 7 };
                let spec =
                    NetworkSpec::new(measure, window).threshold(Threshold::Absolute(threshold));
                let plan = Plan::new(&spec, &signal).unwrap();
                let whole = plan.run(&signal, &()).unwrap();
                assert!(whole.edges() > 0, "{measure:?}");
                for size in [1, 2, 3, 7, 20] {
                    assert_eq!(
                        run_by_team(size, &plan, &signal),
                        whole,
                        "{size} of {measure:?}, {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_team_makes_the_same_network() {
        let samples = cases::nine_nodes(0);
        let signal = Signal::new(&samples, cases::NINE_NODES).unwrap();
        for plan in cases::plans(&signal, Window::new(60, 7), 0.4) {
            let alone = run_by_team(1, &plan, &signal);
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
                    run_by_team(size, &plan, &signal),
                    alone,
                    "{size} of {:?}",
                    plan.spec
                );
            }
        }
    }
}
