//! Crossings at once: thresholds, noise and calibration of each channel.

use betz_base::state::StateBytes;
use betz_base::{Result, memory};
use pulp::Arch;

use super::super::inspect::{HIGHEST, LOWEST};
use super::super::{ArtefactCounts, Crossing, LANES, Layout, MAD};
use super::BlockOptions;
use super::calibration::Calibration;
use super::once::Once;
use super::passes::{Cross, Hit, ROWS};
use crate::settings::Settings;

/// State of [`CrossingRule::Once`](super::CrossingRule::Once).
#[derive(Debug, Clone)]
pub(super) struct Detector {
    once: Once,
    before: Vec<f32>,
    thresholds: Vec<f32>,
    medians: Vec<f32>,
    steps: Vec<f32>,
    /// Noise of each channel, as measured or given.
    trained: Vec<f32>,
    hits: Vec<Hit>,
    calibration: Option<Calibration>,
}

/// Everything that a chunk's crossings depend on beside the detector.
pub(super) struct Scene<'a> {
    pub(super) arch: Arch,
    pub(super) settings: &'a Settings,
    pub(super) stride: usize,
    pub(super) references: &'a [f32; ROWS],
    pub(super) rails: &'a [u32; ROWS],
    pub(super) first: i64,
    pub(super) settled: i64,
}

impl Detector {
    pub(super) fn new(
        settings: &Settings,
        layout: &Layout,
        options: &BlockOptions,
    ) -> Result<Self> {
        let n = layout.channels();
        let padded = n.next_multiple_of(LANES);
        let calibration = match options.calibrate_seconds > 0.0 {
            true => Some(Calibration::new(
                n,
                (options.calibrate_seconds * settings.rate_hz) as u64,
            )?),
            false => None,
        };
        let mut detector = Self {
            once: Once::new(settings, options.dead_ms, n),
            before: vec![0.0; padded],
            thresholds: vec![f32::NEG_INFINITY; padded],
            medians: vec![f32::INFINITY; padded],
            steps: vec![0.0; padded],
            trained: vec![0.0; padded],
            hits: memory::room("crossings", ROWS * padded)?,
            calibration,
        };
        if detector.calibration.is_none() {
            detector.set_noise(settings, &layout.noise);
        }
        Ok(detector)
    }

    pub(super) fn set_noise(&mut self, settings: &Settings, noise: &[f32]) {
        let tracked = settings.tracking_seconds * settings.rate_hz;
        for (c, &noise) in noise.iter().enumerate() {
            let silent = noise <= 0.0;
            self.trained[c] = noise;
            self.medians[c] = if silent {
                f32::INFINITY
            } else {
                MAD as f32 * noise
            };
            // As in FrontEnd: a step of σ / (1.2714 T) has a time constant of T.
            self.steps[c] = if silent || tracked <= 0.0 {
                0.0
            } else {
                noise / (1.2714 * tracked) as f32
            };
            self.thresholds[c] = -(settings.threshold / MAD) as f32 * self.medians[c];
        }
    }

    pub(super) fn chunk(
        &mut self,
        scene: &Scene<'_>,
        rows: &mut [f32],
        sink: &mut dyn FnMut(Crossing),
    ) {
        let settings = scene.settings;
        if scene.first % 1024 == 0 {
            self.keep_in_bounds();
        }
        self.hits.clear();
        scene.arch.dispatch(Cross {
            rows,
            stride: scene.stride,
            reference: scene.references,
            before: &mut self.before,
            thresholds: &mut self.thresholds,
            medians: &mut self.medians,
            steps: &self.steps,
            factor: -(settings.threshold / MAD) as f32,
            artefact: settings.artefact_microvolts as f32,
            hits: &mut self.hits,
        });
        self.hits.sort_unstable();
        let mut hits = self.hits.as_slice();
        for (r, row) in rows.chunks_exact(scene.stride).enumerate() {
            let sample = scene.first + r as i64;
            let count = hits.partition_point(|hit| hit.row <= r as u32);
            let (mut now, later) = hits.split_at(count);
            hits = later;
            let mut saturated = scene.rails[r] > 0;
            self.once.blanked.saturated += u64::from(scene.rails[r]);
            if sample < scene.settled {
                (now, saturated) = (&[], false);
            }
            self.once.row(sample, now, saturated, &mut |channel| {
                sink(Crossing {
                    sample,
                    channel,
                    microvolts: row[channel],
                    shift: 0.0,
                });
            });
        }
        self.calibrate(scene, rows);
    }

    /// Noise of the first channels as it is now tracked; 0 for a silent one.
    pub(super) fn noise(&self, channels: usize) -> impl Iterator<Item = f32> + '_ {
        (self.medians[..channels].iter()).map(|m| if m.is_finite() { m / MAD as f32 } else { 0.0 })
    }

    pub(super) fn blanked(&self) -> ArtefactCounts {
        self.once.blanked
    }

    pub(super) fn restart(&mut self) {
        self.once.restart();
        self.before.fill(0.0);
    }

    /// As [`BlockFrontEnd::state`](super::BlockFrontEnd::state); `next` is the next sample.
    pub(super) fn state(&mut self, next: i64, state: &mut StateBytes<'_>) -> Result<()> {
        state.numbers(&mut self.before)?;
        state.numbers(&mut self.thresholds)?;
        state.numbers(&mut self.medians)?;
        state.numbers(&mut self.steps)?;
        state.numbers(&mut self.trained)?;
        self.once.state(next, state)?;
        match &mut self.calibration {
            Some(calibration) => calibration.state(state),
            None => Ok(()),
        }
    }

    pub(super) fn end_calibration(&mut self) {
        if let Some(calibration) = &mut self.calibration {
            calibration.end();
        }
    }

    pub(super) fn is_calibrating(&self) -> bool {
        (self.calibration.as_ref()).is_some_and(Calibration::is_under_way)
    }

    fn calibrate(&mut self, scene: &Scene<'_>, rows: &[f32]) {
        if !self.is_calibrating() {
            return;
        }
        let Some(mut calibration) = self.calibration.take() else {
            return;
        };
        for (r, row) in rows.chunks_exact(scene.stride).enumerate() {
            let sample = scene.first + r as i64;
            if sample >= scene.settled && scene.rails[r] == 0 {
                calibration.row(sample, row);
            }
        }
        // At ends of whole chunks, however the samples come.
        let end = scene.first + (rows.len() / scene.stride) as i64;
        if end % ROWS as i64 == 0
            && let Some(noise) = calibration.noise()
        {
            self.set_noise(scene.settings, noise);
            calibration.end();
        }
        self.calibration = Some(calibration);
    }

    /// A channel that goes silent must not cross all the time.
    fn keep_in_bounds(&mut self) {
        for (median, &trained) in self.medians.iter_mut().zip(&self.trained) {
            if trained > 0.0 {
                let trained = MAD as f32 * trained;
                *median = median.clamp(LOWEST * trained, HIGHEST * trained);
            }
        }
    }
}
