//! Which crossings are given at once: dead time, artefacts, settling.

use betz_base::Result;
use betz_base::state::StateBytes;

use super::super::state::is_before;
use super::super::{AT_ONCE_MS, ArtefactCounts, MANY};
use super::passes::Hit;
use crate::settings::Settings;

/// A channel's crossings as they come: none within the dead time of the last, none in or shortly after an artefact.
#[derive(Debug, Clone)]
pub(super) struct Once {
    dead: i64,
    blank: i64,
    /// Sample of each channel's last crossing that was given.
    given: Vec<i64>,
    /// Sample of each channel's last crossing.
    crossed: Vec<i64>,
    /// Channels whose last crossing lies this many samples back: a ring.
    recent: Vec<u32>,
    /// Sum of `recent`.
    together: u32,
    last_artefact: i64,
    pub(super) blanked: ArtefactCounts,
}

/// Long before every sample.
const LONG_AGO: i64 = i64::MIN / 2;

impl Once {
    pub(super) fn new(settings: &Settings, dead_ms: f64, channels: usize) -> Self {
        Self {
            dead: settings.samples(dead_ms) as i64,
            blank: settings.samples(settings.blank_ms) as i64,
            given: vec![LONG_AGO; channels],
            crossed: vec![LONG_AGO; channels],
            recent: vec![0; settings.samples(AT_ONCE_MS)],
            together: 0,
            last_artefact: LONG_AGO,
            blanked: ArtefactCounts::default(),
        }
    }

    pub(super) fn restart(&mut self) {
        self.given.fill(LONG_AGO);
        self.crossed.fill(LONG_AGO);
        self.recent.fill(0);
        self.together = 0;
        self.last_artefact = LONG_AGO;
    }

    pub(super) fn state(&mut self, next: i64, state: &mut StateBytes<'_>) -> Result<()> {
        state.numbers(&mut self.given)?;
        state.numbers(&mut self.crossed)?;
        state.number(&mut self.last_artefact)?;
        let mut all = (self.given.iter()).chain(&self.crossed);
        state.check(all.all(|at| is_before(*at, next)) && is_before(self.last_artefact, next))?;
        self.blanked.state(state)?;
        if state.is_load() {
            let span = self.recent.len() as i64;
            self.recent.fill(0);
            let lately = self.crossed.iter().filter(|at| **at >= next - span);
            lately.for_each(|at| self.recent[at.rem_euclid(span) as usize] += 1);
            self.together = self.recent.iter().sum();
        }
        Ok(())
    }

    /// A row: its hits, by channel, and whether a sample of it is at an end of its range. Gives the channels that
    /// crossed.
    pub(super) fn row(
        &mut self,
        sample: i64,
        hits: &[Hit],
        saturated: bool,
        give: &mut dyn FnMut(usize),
    ) {
        let slot = sample.rem_euclid(self.recent.len() as i64) as usize;
        self.together -= std::mem::take(&mut self.recent[slot]);
        if hits.is_empty() && !saturated {
            return;
        }
        let mut artefact = saturated;
        for hit in hits {
            artefact |= hit.artefact;
            if hit.crossing {
                self.count(sample, slot, hit.channel as usize);
            }
        }
        let channels = self.given.len();
        artefact |= channels >= MANY && self.together as usize * 4 > 3 * channels;
        if artefact {
            self.blanked.artefacts += u64::from(sample - self.last_artefact > self.blank);
            self.last_artefact = sample;
        }
        for hit in hits.iter().filter(|hit| hit.crossing) {
            let channel = hit.channel as usize;
            if sample - self.last_artefact <= self.blank {
                self.blanked.crossings += 1;
            } else if sample - self.given[channel] >= self.dead {
                self.given[channel] = sample;
                give(channel);
            }
        }
    }

    /// Counts a channel once among those that crossed lately.
    fn count(&mut self, sample: i64, slot: usize, channel: usize) {
        let span = self.recent.len() as i64;
        let before = std::mem::replace(&mut self.crossed[channel], sample);
        if before > sample - span && before < sample {
            let old = before.rem_euclid(span) as usize;
            self.recent[old] -= 1;
            self.together -= 1;
        }
        self.recent[slot] += 1;
        self.together += 1;
    }
}
