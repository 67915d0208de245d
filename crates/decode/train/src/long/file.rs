//! A recording's file as training reads it in chunks.

use std::ops::Range;

use betz_base::error::{Error, Result};
use betz_recording::{AlignOptions, AlignReport, Dataset, Segment, SpikeForm, Stretches};
use betz_runtime::psc::FilterBank;

use super::{Outline, Read, job};
use crate::options::TrainOptions;

/// Bytes that an entry takes while its chunk is at work, on the clock, without artefacts, and in the path to Γ, and the
/// next one's while it is read.
const BYTES_AN_ENTRY: u64 = 64;

/// Bytes that a step takes beside its spikes: what it holds in all, and its behaviour twice.
const BYTES_A_STEP: u64 = 16;

/// Steps that are read for each step of the recording, beyond which chunks are too short for their filters.
const MOST_READ: i64 = 20;

/// An `.npz` recording, open, on a clock, and cut into chunks.
pub struct File {
    chunks: Stretches,
    options: AlignOptions,
    outline: Outline,
    cuts: Vec<i64>,
    memory: u64,
}

impl File {
    /// Cuts a recording so that a chunk at work takes about `memory` bytes at most. The cuts depend on nothing else,
    /// so that the same file and the same `memory` give the same bits anywhere.
    ///
    /// # Errors
    /// The same as for [`Stretches::cut_steps`].
    pub fn new(mut chunks: Stretches, options: AlignOptions, memory: u64) -> Result<Self> {
        let steps = chunks.steps(&options)?;
        let whole = chunks.outline();
        let outputs = whole
            .behavior
            .as_ref()
            .map_or(&[][..], |b| &b.outputs)
            .to_vec();
        let a_step = BYTES_A_STEP + 8 * outputs.len() as u64;
        // A third for spikes, a third for behaviour, the last for what lies before a chunk.
        let entries = (memory / 3 / BYTES_AN_ENTRY).max(1);
        let most = i64::try_from(memory / 3 / a_step)
            .unwrap_or(i64::MAX)
            .max(1);
        let outline = Outline {
            step_seconds: options.step_seconds,
            steps,
            channel_names: whole.channel_names.clone(),
            outputs,
        };
        let cuts = chunks.cut_steps(&options, entries, most)?;
        Ok(Self {
            chunks,
            options,
            outline,
            cuts,
            memory,
        })
    }

    /// The report of [`Stretches::align_report`] on the recording's behaviour.
    ///
    /// # Errors
    /// The same as for [`Stretches::align_report`].
    pub fn align_report(&mut self) -> Result<AlignReport> {
        self.chunks.align_report(&self.options, &self.cuts)
    }

    /// Outline of the recording.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Cuts between chunks, in steps.
    pub fn cuts(&self) -> &[i64] {
        &self.cuts
    }

    /// Refuses chunks so short that the time before them, which the filters of `banks` remember, is most of the work.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) with the memory that would do.
    pub fn check_chunks(&self, options: &TrainOptions, banks: &[FilterBank]) -> Result<()> {
        let step_seconds = self.outline.step_seconds;
        let lead = job::lead(banks, options, step_seconds);
        let segments = self.whole_steps();
        let before = |&cut: &i64| {
            let next = segments.partition_point(|s| s.start <= cut);
            let of = next.checked_sub(1).and_then(|i| segments.get(i));
            of.filter(|s| cut < s.stop)
                .map_or(0, |s| lead.min(cut - s.start))
        };
        let again: i64 = self.cuts.iter().map(before).sum();
        let most = (MOST_READ - 1).saturating_mul(self.outline.steps);
        if again <= most {
            return Ok(());
        }
        let kib = self.memory as f64 / 1024.0;
        let least = (kib * again as f64 / most.max(1) as f64).ceil();
        Err(Error::argument(format!(
            "memory: expected at least {least} KiB, got {kib} KiB: each of {} chunks needs up to {:.1} s before it, which filters remember",
            self.cuts.len().saturating_sub(1),
            lead as f64 * step_seconds
        )))
    }

    /// Format in which its spikes are stored.
    pub fn form(&self) -> SpikeForm {
        self.chunks.outline().form
    }

    /// Whole steps of each segment that is used, wherever there is behaviour.
    pub fn whole_steps(&self) -> Vec<Segment> {
        self.chunks.whole_steps(&self.options)
    }
}

impl Read for File {
    fn read(&mut self, steps: Range<i64>) -> Result<Dataset> {
        self.chunks.dataset(&self.options, steps)
    }
}
