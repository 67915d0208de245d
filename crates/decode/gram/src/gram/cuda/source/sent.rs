//! A round's spikes on the device, as sent from host memory.

use std::ops::Range;

use crate::gram::cuda::plan::CHUNK_BLOCKS;
use crate::gram::cuda::staging::GramStaging;
use crate::gram::cuda::timeline::{PackedEvents, Timeline};
use betz_base::error::Result;
use betz_device::cuda::{Context, FEED_PIECES, Feed};
use betz_recording::SpikesView;

/// Spikes in time order: the channel of each, its step within its block, and where blocks begin.
pub(super) struct SentSpikes {
    pub(super) channels: Feed<u16>,
    pub(super) ticks: Feed<u8>,
    pub(super) starts: Feed<u32>,
    /// Weight of each spike, unless all weights are 1.
    pub(super) weights: Option<Feed<f32>>,
}

/// Largest number of spikes in `chunks` consecutive chunks of `timeline`.
pub(super) fn most_events(timeline: &Timeline, spikes: &SpikesView<'_>, chunks: usize) -> usize {
    chunks * timeline.most_events(spikes, CHUNK_BLOCKS)
}

impl SentSpikes {
    /// Bytes that a chunk of at most `events` spikes takes on the device.
    pub(super) const fn chunk_bytes(events: u64, weighted: bool) -> u64 {
        let each = if weighted { 7 } else { 3 };
        FEED_PIECES as u64 * (each * events + 4 * CHUNK_BLOCKS as u64)
    }

    /// Allocates room for `chunks` chunks with up to `events` spikes in all, with weights if `weighted`.
    pub(super) fn new(
        context: &Context,
        events: usize,
        chunks: usize,
        weighted: bool,
        staging: &mut GramStaging,
    ) -> Result<Self> {
        let weights = weighted.then(|| Feed::new(context, events, &mut staging.f32s));
        Ok(Self {
            weights: weights.transpose()?,
            channels: Feed::new(context, events, &mut staging.u16s)?,
            ticks: Feed::new(context, events, &mut staging.u8s)?,
            starts: Feed::new(context, chunks * CHUNK_BLOCKS + 1, &mut staging.u32s)?,
        })
    }

    /// Sends the spikes in `blocks`; `known` counts the channels that exist.
    pub(super) fn send(
        &mut self,
        timeline: &Timeline,
        spikes: &SpikesView<'_>,
        known: usize,
        blocks: &Range<usize>,
    ) -> Result<()> {
        let events = timeline.events(spikes, blocks.clone());
        if let Some(weights) = &mut self.weights {
            weights.send(events, |target| {
                timeline.pack_weights(spikes, blocks.clone(), target)
            })?;
        }
        let (channels, ticks) = (&mut self.channels, &mut self.ticks);
        self.starts.send(blocks.len() + 1, |starts| {
            channels.send(events, |channels| {
                ticks.send(events, |ticks| {
                    let target = PackedEvents {
                        channels,
                        ticks,
                        starts,
                    };
                    timeline.pack(spikes, known, blocks.clone(), target)
                })
            })
        })
    }

    /// The caller needs the latest spikes no longer.
    pub(super) fn release(&mut self) -> Result<()> {
        self.channels.release()?;
        self.ticks.release()?;
        if let Some(weights) = &mut self.weights {
            weights.release()?;
        }
        self.starts.release()
    }

    /// Keeps the host memory for the next call.
    pub(super) fn keep(self, staging: &mut GramStaging) {
        self.channels.keep(&mut staging.u16s);
        self.ticks.keep(&mut staging.u8s);
        self.starts.keep(&mut staging.u32s);
        if let Some(weights) = self.weights {
            weights.keep(&mut staging.f32s);
        }
    }
}
