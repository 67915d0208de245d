//! Changes of digital lines of the sources: recorded, and made marks and trials by the plan.

use betz_rigs::rig::notes::NoteContent;
use betz_rigs::rig::{LineEdge, host_ns};

use super::Live;
use super::sources::LiveSource;
use crate::shared_line::TimedChange;

/// Use of a line that begins a trial when it goes up, and ends it when it goes down.
const TRIAL: &str = "trial";

impl Live {
    /// Takes the changes of lines that have arrived. One of an epoch whose first block has not come waits for it.
    pub(super) fn take_edges(&mut self) {
        let has_begun = (self.pipeline.as_ref()).is_some_and(|p| p.binner().open_step().is_some());
        if !has_begun {
            return;
        }
        for source in 0..=self.others.len() {
            while let Some(edge) = self.next_edge(source) {
                self.take_edge(source, &edge);
            }
        }
    }

    fn heard(&mut self, source: usize) -> &mut LiveSource {
        match source {
            0 => &mut self.first,
            _ => &mut self.others[source - 1],
        }
    }

    /// The next change of a source's lines whose epoch has begun, with the session's number of that epoch.
    fn next_edge(&mut self, source: usize) -> Option<LineEdge> {
        let heard = self.heard(source);
        let mut edge = heard.edge.take().or_else(|| heard.ear.take_edge())?;
        let epoch = edge.epoch.wrapping_add(heard.first_epoch);
        let is_ahead = |now: u32| epoch.wrapping_sub(now) as i32 > 0;
        if heard.epoch().is_none_or(is_ahead) {
            heard.edge = Some(edge);
            return None;
        }
        edge.epoch = epoch;
        Some(edge)
    }

    fn take_edge(&mut self, source: usize, edge: &LineEdge) {
        let step = self.step_of_edge(source, edge);
        self.heard(source).edges += 1;
        self.follow_shared_line(source, edge);
        let now = host_ns();
        if let Some(recorder) = &mut self.recorder {
            recorder.edge(source, edge, now);
        }
        let name = self.plan.source[source].lines.get(&edge.line.to_string());
        let content = match (name.map(String::as_str), edge.is_up) {
            (Some(TRIAL), true) => NoteContent::TrialBegin,
            (Some(TRIAL), false) => NoteContent::TrialEnd,
            (Some(text), true) => NoteContent::Mark(text.to_owned()),
            _ => return,
        };
        self.note(step, &content, now);
    }

    /// Places a change by the host's clock, if the plan names a line that two sources hear.
    fn follow_shared_line(&mut self, source: usize, edge: &LineEdge) {
        if self.shared_line.is_none() {
            return;
        }
        let heard = self.heard(source);
        if heard.epoch() != Some(edge.epoch) || heard.clock.is_in_doubt() {
            return;
        }
        let change = TimedChange {
            source,
            line: edge.line,
            epoch: edge.epoch,
            is_up: edge.is_up,
            at: heard.clock.host(heard.device_seconds(edge.row)),
            row_seconds: 1.0 / heard.ear.rate(),
        };
        if let Some(watch) = &mut self.shared_line {
            watch.take(&change);
        }
    }

    /// The step in which a line has changed, by the source's own rows; the open one for a change of an earlier epoch.
    fn step_of_edge(&self, source: usize, edge: &LineEdge) -> u64 {
        let open = self.open_step();
        let heard = match source {
            0 => &self.first,
            _ => &self.others[source - 1],
        };
        if heard.epoch() != Some(edge.epoch) {
            return open;
        }
        let binner = self.pipeline.as_ref().map(|pipeline| pipeline.binner());
        let place = binner.and_then(|binner| {
            let (step, _) = binner.open_step()?;
            Some((step, binner.place(source, step)?))
        });
        match place {
            Some((step, (begin, rows_per_step))) => {
                let steps = ((edge.row as f64 - begin as f64) / rows_per_step).floor();
                step.saturating_add_signed(steps as i64)
            }
            None => {
                let host = heard.clock.host(heard.device_seconds(edge.row));
                self.step_at(host).unwrap_or(open)
            }
        }
    }
}
