//! Writes a [`Recording`] to a `.npz` archive.

use std::io::{self, Seek, Write};
use std::path::Path;

use super::archive::ArchiveWriter;
use super::features::FEATURES;
use super::number::Element;
use crate::{Recording, SpikeFeatures, SpikeForm, SpikesView};
use betz_base::error::{Error, Result};
use betz_base::file::write_atomically;

impl Recording {
    /// Checks the recording and writes it to `path` as a deflated `.npz` archive in its [`form`](Recording::form). The
    /// file appears whole or not at all; equal recordings give equal bytes.
    ///
    /// Channels are stored as u16 if they fit, counts as u8 if they fit. The counts form does not keep the order of
    /// spikes within a bin: they are read back in channel order, as one entry per channel.
    ///
    /// # Errors
    /// The errors of [`Recording::check`]; [`ErrorKind::Io`](betz_base::error::ErrorKind::Io) if the file cannot be
    /// written; [`ErrorKind::InvalidRecording`](betz_base::error::ErrorKind::InvalidRecording) if a count exceeds
    /// 65,535.
    pub fn write_npz(&self, path: &Path) -> Result<()> {
        self.write_npz_with(path, None)
    }

    /// The same with the features of its spikes as the array `spike_features`.
    ///
    /// # Errors
    /// The errors of [`Recording::write_npz`] and of [`SpikeFeatures::check_exactly`].
    pub fn write_npz_with(&self, path: &Path, features: Option<&SpikeFeatures>) -> Result<()> {
        self.check()?;
        if let Some(features) = features {
            features.check_exactly(self.spikes.view())?;
            if self.form != SpikeForm::Events {
                return Err(Error::recording(
                    "spike features: expected a recording of spike times, got counts or a signal",
                ));
            }
        }
        let largest = match self.form {
            SpikeForm::Counts => largest_count(&self.spikes.view(), self.channels())?,
            SpikeForm::Events | SpikeForm::Signal => 0.0,
        };
        write_atomically(path, |file| {
            let mut archive = ArchiveWriter::new(file);
            self.write_arrays(&mut archive, largest)?;
            if let Some(features) = features {
                let shape = [features.rows(), features.columns];
                archive.write(FEATURES, &shape, &features.values)?;
            }
            archive.finish()
        })
    }

    fn write_arrays<W: Write + Seek>(
        &self,
        archive: &mut ArchiveWriter<W>,
        largest_count: f64,
    ) -> io::Result<()> {
        match self.form {
            SpikeForm::Counts => {
                if largest_count <= f64::from(u8::MAX) {
                    self.write_matrix(archive, "counts", |c| c as u8)?;
                } else {
                    self.write_matrix(archive, "counts", |c| c as u16)?;
                }
                archive.write("step_seconds", &[], &[self.tick_seconds])?;
            }
            SpikeForm::Signal => {
                self.write_matrix(archive, "signal", |value| value)?;
                archive.write("sample_seconds", &[], &[self.tick_seconds])?;
            }
            SpikeForm::Events => {
                let spikes = &self.spikes;
                archive.write("spike_ticks", &[spikes.len()], &spikes.ticks)?;
                if self.channels() <= 1 << 16 {
                    archive.start("spike_channels", u16::DESCR, &[spikes.len()])?;
                    let mut narrow = Vec::new();
                    for block in spikes.channels.chunks(1 << 16) {
                        narrow.clear();
                        narrow.extend(block.iter().map(|&c| c as u16));
                        archive.push(&narrow)?;
                    }
                } else {
                    archive.write("spike_channels", &[spikes.len()], &spikes.channels)?;
                }
                archive.write("tick_seconds", &[], &[self.tick_seconds])?;
                archive.write("duration_ticks", &[], &[self.ticks])?;
            }
        }
        archive.write_strings("channel_names", &[self.channels()], &self.channel_names)?;
        if let Some(b) = &self.behavior {
            let (samples, outputs) = (b.samples(), b.outputs.len());
            archive.write("behavior", &[samples, outputs], &b.values)?;
            if let Some(times) = &b.times {
                archive.write("behavior_times", &[samples], times)?;
            }
            let names: Vec<&str> = b.outputs.iter().map(|o| o.name.as_str()).collect();
            let units: Vec<&str> = b.outputs.iter().map(|o| o.unit.as_str()).collect();
            archive.write_strings("behavior_names", &[outputs], &names)?;
            archive.write_strings("behavior_units", &[outputs], &units)?;
        }
        let bounds: Vec<i64> = self
            .segments
            .iter()
            .flat_map(|s| [s.start, s.stop])
            .collect();
        archive.write("segments", &[self.segments.len(), 2], &bounds)?;
        if let Some(places) = &self.electrode_um {
            archive.write("electrode_um", &[places.len(), 2], places.as_flattened())?;
        }
        if let Some(meta) = &self.meta {
            archive.write_strings("meta", &[], &[meta])?;
        }
        Ok(())
    }

    /// Writes the (ticks, channels) matrix a few rows at a time.
    fn write_matrix<W: Write + Seek, T: Element + Default + Into<f32>>(
        &self,
        archive: &mut ArchiveWriter<W>,
        array: &str,
        narrow: impl Fn(f32) -> T,
    ) -> io::Result<()> {
        let (bins, channels) = (self.ticks, self.channels());
        archive.start(array, T::DESCR, &[bins as usize, channels])?;
        let at_once = ((1 << 20) / channels).max(1) as i64;
        let mut rows = Vec::new();
        for first in (0..bins).step_by(at_once as usize) {
            let stop = bins.min(first + at_once);
            rows.clear();
            rows.resize((stop - first) as usize * channels, T::default());
            for i in self.spikes.range(first, stop) {
                let row = (self.spikes.ticks[i] - first) as usize;
                let cell = &mut rows[row * channels + self.spikes.channels[i] as usize];
                *cell = narrow((*cell).into() + self.spikes.weight(i));
            }
            archive.push(&rows)?;
        }
        Ok(())
    }
}

/// Largest number of spikes of one channel in one tick.
fn largest_count(spikes: &SpikesView<'_>, channels: usize) -> Result<f64> {
    let mut counts = vec![0.0; channels];
    let mut largest: f64 = 0.0;
    let mut first = 0;
    for here in spikes.ticks.chunk_by(|a, b| a == b) {
        let now = first..first + here.len();
        first = now.end;
        for i in now.clone() {
            let count: &mut f64 = &mut counts[spikes.channels[i] as usize];
            *count += f64::from(spikes.weight(i));
            largest = largest.max(*count);
        }
        if largest > f64::from(u16::MAX) {
            return Err(Error::recording(format!(
                "bin {}: expected at most 65535 spikes of a channel, got {largest}",
                here[0]
            )));
        }
        for i in now {
            counts[spikes.channels[i] as usize] = 0.0;
        }
    }
    Ok(largest)
}
