//! A recording that is aligned to a model's steps, as a source of whole steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use betz_base::Result;
use betz_recording::Dataset;
use betz_rigs::rig::{Arrival, Block, Loss, Rig, RigCounts, RigSpike, Samples, Signal, host_ns};

/// Waits that are shorter are not slept, but made up for by a later step: a thread cannot sleep for less.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// Time between two looks whether a pause is over.
const LOOK: Duration = Duration::from_millis(20);

/// Way in which a recording is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DatasetFeed {
    /// Send a row of counts per step instead of a list of spikes. Weighted spikes and signals are rows in any case.
    pub rows: bool,
    /// Multiple of real time; as fast as the session takes the steps if absent.
    pub speed: Option<f64>,
    /// Begin again at the end.
    pub repeats: bool,
}

/// Sends the steps of a recording, for a plan whose source has `sends = "steps"` and `inline = true`. Each segment is an epoch,
/// so that the decoder starts it from rest, and the device time of a step is its number in the recording.
pub struct DatasetRig {
    dataset: Arc<Dataset>,
    feed: DatasetFeed,
    /// The segment, and the step in it; `None` before its first.
    segment: usize,
    step: Option<i64>,
    /// The next entry of the spikes.
    next: usize,
    epoch: u32,
    done: u64,
    /// When the first step was due, had there been no pause.
    begun: Option<Instant>,
    paused: Arc<AtomicBool>,
    paused_since: Option<Instant>,
}

impl DatasetRig {
    /// A source of the segments of `dataset`, in their order.
    pub fn new(dataset: Arc<Dataset>, feed: DatasetFeed) -> Self {
        Self {
            dataset,
            feed,
            segment: 0,
            step: None,
            next: 0,
            epoch: 0,
            done: 0,
            begun: None,
            paused: Arc::default(),
            paused_since: None,
        }
    }

    /// The source, which sends nothing while `paused` is set; that time does not count for its speed.
    #[must_use]
    pub fn paused_by(mut self, paused: Arc<AtomicBool>) -> Self {
        self.paused = paused;
        self
    }

    /// The next step; `None` at the end.
    fn upcoming(&mut self) -> Option<i64> {
        let segments = &self.dataset.segments;
        loop {
            let Some(segment) = segments.get(self.segment) else {
                if !self.feed.repeats || self.done == 0 {
                    return None;
                }
                self.segment = 0;
                continue;
            };
            let step = *self.step.get_or_insert_with(|| {
                self.next = self.dataset.spikes.range(segment.start, segment.stop).start;
                segment.start
            });
            if step < segment.stop {
                return Some(step);
            }
            (self.segment, self.step) = (self.segment + 1, None);
            self.epoch = self.epoch.wrapping_add(1);
        }
    }

    /// Waits until the next step is due; false if `patience` is over before.
    fn wait(&mut self, patience: Duration) -> bool {
        if self.paused.load(Ordering::Relaxed) {
            self.paused_since.get_or_insert_with(Instant::now);
            std::thread::sleep(patience.min(LOOK));
            return false;
        }
        if let (Some(since), Some(begun)) = (self.paused_since.take(), &mut self.begun) {
            *begun += since.elapsed();
        }
        let Some(speed) = self.feed.speed else {
            return true;
        };
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let due = self.done as f64 * self.dataset.step_seconds / speed;
        let due = Duration::try_from_secs_f64(due).unwrap_or(Duration::MAX);
        let wait = due.saturating_sub(begun.elapsed());
        if wait < SHORTEST_SLEEP {
            return true;
        }
        std::thread::sleep(wait.min(patience));
        wait <= patience
    }

    /// The input of `step`, in the room of an earlier one's.
    fn samples(&mut self, step: i64, room: Samples) -> Samples {
        let spikes = &self.dataset.spikes;
        let ticks = spikes.ticks[self.next..].iter();
        let now = self.next..self.next + ticks.take_while(|tick| **tick == step).count();
        self.next = now.end;
        if !self.feed.rows && spikes.weights.is_empty() {
            let mut list = match room {
                Samples::Spikes(list) => list,
                Samples::Voltage(_) | Samples::Features(_) => Vec::new(),
            };
            list.clear();
            list.extend(spikes.channels[now].iter().map(|channel| RigSpike {
                tick: device_time(step),
                channel: *channel,
                unit: 0,
            }));
            return Samples::Spikes(list);
        }
        let mut row = match room {
            Samples::Features(row) => row,
            Samples::Voltage(_) | Samples::Spikes(_) => Vec::new(),
        };
        row.clear();
        row.resize(self.dataset.channels(), 0.0);
        for entry in now {
            if let Some(value) = row.get_mut(spikes.channels[entry] as usize) {
                *value += spikes.weight(entry);
            }
        }
        Samples::Features(row)
    }
}

/// Steps of a recording count from 0.
fn device_time(step: i64) -> u64 {
    u64::try_from(step).unwrap_or(0)
}

impl Rig for DatasetRig {
    fn signal(&self) -> Option<Signal> {
        Some(Signal {
            channels: self.dataset.channels(),
            rate: 1.0 / self.dataset.step_seconds,
            microvolts: None,
            clock_bits: 64,
        })
    }

    fn take(&mut self, block: &mut Block, patience: Duration) -> Result<Arrival> {
        let Some(step) = self.upcoming() else {
            return Ok(Arrival::Ended);
        };
        if !self.wait(patience) {
            return Ok(Arrival::Nothing);
        }
        let room = std::mem::replace(&mut block.samples, Samples::Features(Vec::new()));
        *block = Block {
            epoch: self.epoch,
            first: device_time(step),
            rows: 1,
            host_ns: host_ns(),
            lost_before: Loss::default(),
            samples: self.samples(step, room),
        };
        self.step = Some(step + 1);
        self.done += 1;
        Ok(Arrival::Block)
    }

    fn counts(&self) -> RigCounts {
        RigCounts {
            blocks: self.done,
            rows: self.done,
            ..RigCounts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_recording::{Segment, Spikes};

    /// Two segments, the first of two steps.
    fn dataset(weights: &[f32]) -> Arc<Dataset> {
        let segment = |start, stop| Segment { start, stop };
        Arc::new(Dataset {
            step_seconds: 0.5,
            steps: 9,
            channel_names: vec!["a".into(), "b".into()],
            spikes: Spikes {
                ticks: vec![1, 3, 3, 7],
                channels: vec![0, 1, 1, 0],
                weights: weights.to_vec(),
            },
            segments: vec![segment(2, 4), segment(4, 4), segment(7, 8)],
            outputs: Vec::new(),
            behavior: Vec::new(),
        })
    }

    /// Epoch, device time and contents of each block.
    fn blocks(mut rig: DatasetRig, most: usize) -> Result<Vec<(u32, u64, Samples)>> {
        let (mut block, mut all) = (Block::new(), Vec::new());
        while all.len() < most && rig.take(&mut block, Duration::ZERO)? == Arrival::Block {
            assert_eq!(block.rows, 1);
            all.push((block.epoch, block.first, block.samples.clone()));
        }
        Ok(all)
    }

    #[test]
    fn every_step_is_a_block_and_every_segment_an_epoch() -> Result<()> {
        let spike = |tick, channel| RigSpike {
            tick,
            channel,
            unit: 0,
        };
        let none = || Samples::Spikes(Vec::new());
        let rig = DatasetRig::new(dataset(&[]), DatasetFeed::default());
        assert_eq!(
            blocks(rig, 9)?,
            [
                (0, 2, none()),
                (0, 3, Samples::Spikes(vec![spike(3, 1), spike(3, 1)])),
                (2, 7, Samples::Spikes(vec![spike(7, 0)])),
            ]
        );
        Ok(())
    }

    #[test]
    fn weighted_spikes_are_rows_and_a_recording_repeats() -> Result<()> {
        let feed = DatasetFeed {
            repeats: true,
            ..DatasetFeed::default()
        };
        let row = |a, b| Samples::Features(vec![a, b]);
        let rig = DatasetRig::new(dataset(&[9.0, 0.5, 2.0, -1.0]), feed);
        let all = blocks(rig, 5)?;
        let first = [
            (0, 2, row(0.0, 0.0)),
            (0, 3, row(0.0, 2.5)),
            (2, 7, row(-1.0, 0.0)),
        ];
        assert_eq!(all[..3], first);
        assert_eq!(all[3..], [(3, 2, row(0.0, 0.0)), (3, 3, row(0.0, 2.5))]);
        let rows = DatasetFeed {
            rows: true,
            ..DatasetFeed::default()
        };
        let counted = blocks(DatasetRig::new(dataset(&[]), rows), 9)?;
        assert_eq!(counted[1], (0, 3, row(0.0, 2.0)));
        Ok(())
    }

    #[test]
    fn nothing_is_sent_during_a_pause() -> Result<()> {
        let paused = Arc::new(AtomicBool::new(true));
        let feed = DatasetFeed {
            speed: Some(1e6),
            ..DatasetFeed::default()
        };
        let mut rig = DatasetRig::new(dataset(&[]), feed).paused_by(Arc::clone(&paused));
        let mut block = Block::new();
        for _ in 0..3 {
            assert_eq!(rig.take(&mut block, Duration::ZERO)?, Arrival::Nothing);
        }
        paused.store(false, Ordering::Relaxed);
        assert_eq!(blocks(rig, 9)?.len(), 3);
        Ok(())
    }

    #[test]
    fn a_recording_without_steps_ends_even_if_it_repeats() -> Result<()> {
        let mut none = Dataset::clone(&dataset(&[]));
        none.segments.truncate(0);
        let feed = DatasetFeed {
            repeats: true,
            ..DatasetFeed::default()
        };
        let rig = DatasetRig::new(Arc::new(none), feed);
        assert!(blocks(rig, 1)?.is_empty());
        Ok(())
    }
}
