//! A folder that Phy opens: spike times and clusters beside the raw samples.

use std::io::Write;
use std::path::Path;

use betz::file::write_atomically;
use betz::sort::Sorter;
use betz::{Error, Result};

use super::input::Info;

/// The first line of `params.py`; it tells a folder of ours from somebody else's.
const MADE: &str = "# Written by betz sort.";

/// Folder of a result for Phy.
pub(super) struct Folder<'a> {
    pub(super) path: &'a Path,
    /// Bytes before the first sample, in the flat file that Phy opens beside the folder.
    offset: u64,
}

impl<'a> Folder<'a> {
    /// Refuses samples that Phy cannot open, and a folder that holds something else than an earlier result.
    pub(super) fn of(path: &'a Path, info: &Info, force: bool) -> Result<Self> {
        let Some(offset) = info.stream.flat_offset() else {
            return Err(Error::argument(format!(
                "--phy {}: expected samples in a flat file, which is what Phy opens, got an NWB file; write its samples to one (int16, channels interleaved) and sort that",
                path.display()
            )));
        };
        let params = std::fs::read_to_string(path.join("params.py")).unwrap_or_default();
        let empty = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        if !path.exists() || force || empty || params.starts_with(MADE) {
            return Ok(Self { path, offset });
        }
        Err(Error::argument(format!(
            "--phy {}: what is there is no earlier result of this kind; --force writes into it",
            path.display()
        )))
    }

    /// Writes the folder: what Phy (phylib) and SpikeInterface read.
    pub(super) fn write(&self, info: &Info, sorter: &Sorter, spikes: &PhySpikes<'_>) -> Result<()> {
        let folder = self.path;
        std::fs::create_dir_all(folder).map_err(|e| Error::io("making", folder, &e))?;
        let (layout, units) = (sorter.layout(), sorter.units());
        let (n, channels) = (spikes.rows.len(), layout.channels());
        let ids = spikes.units.iter().map(|u| units[*u as usize].id as i32);
        let places = spikes.units.iter().map(|u| *u as i32);
        let used = layout.used.iter().map(|c| *c as i32);
        let positions = layout.places.as_flattened();
        let sizes = spikes.microvolts.iter().map(|v| v.abs());
        npy(
            folder,
            "spike_times.npy",
            "<i8",
            &[n],
            &bytes(spikes.rows.iter().copied(), i64::to_le_bytes),
        )?;
        npy(
            folder,
            "spike_clusters.npy",
            "<i4",
            &[n],
            &bytes(ids, i32::to_le_bytes),
        )?;
        npy(
            folder,
            "spike_templates.npy",
            "<i4",
            &[n],
            &bytes(places, i32::to_le_bytes),
        )?;
        npy(
            folder,
            "amplitudes.npy",
            "<f4",
            &[n],
            &bytes(sizes, f32::to_le_bytes),
        )?;
        npy(
            folder,
            "channel_map.npy",
            "<i4",
            &[channels],
            &bytes(used, i32::to_le_bytes),
        )?;
        npy(
            folder,
            "channel_positions.npy",
            "<f4",
            &[channels, 2],
            &bytes(positions.iter().copied(), f32::to_le_bytes),
        )?;
        self.write_templates(sorter)?;
        self.write_params(info)?;
        write_atomically(&folder.join("cluster_info.tsv"), |file| {
            writeln!(file, "cluster_id\tch\tfr\tamp\tn_spikes")?;
            for (place, unit) in units.iter().enumerate() {
                let spikes = spikes.units.iter().filter(|u| **u as usize == place);
                writeln!(
                    file,
                    "{}\t{}\t{:.3}\t{:.1}\t{}",
                    unit.id,
                    unit.channel,
                    unit.rate_hz,
                    unit.microvolts.abs(),
                    spikes.count()
                )?;
            }
            Ok(())
        })
    }

    /// Templates of size 1: a spike of a unit is its template times its amplitude, in microvolts.
    fn write_templates(&self, sorter: &Sorter) -> Result<()> {
        let channels = sorter.layout().channels();
        let (mut templates, mut samples) = (Vec::new(), 0);
        for unit in sorter.units() {
            let mut mean = sorter.mean_waveform(unit);
            let size = mean.iter().fold(0.0_f32, |most, v| most.max(v.abs()));
            if size > 0.0 {
                mean.iter_mut().for_each(|v| *v /= size);
            }
            samples = mean.len() / channels.max(1);
            templates.extend(mean);
        }
        let units = sorter.units().len();
        let shape = [units, samples, channels];
        npy(
            self.path,
            "templates.npy",
            "<f4",
            &shape,
            &bytes(templates.iter().copied(), f32::to_le_bytes),
        )?;
        let each: Vec<&[f32]> = templates
            .chunks_exact((samples * channels).max(1))
            .collect();
        let pairs = each.iter().flat_map(|a| each.iter().map(move |b| (*a, *b)));
        let similar = pairs.map(|(a, b)| cosine(a, b));
        npy(
            self.path,
            "similar_templates.npy",
            "<f4",
            &[units, units],
            &bytes(similar, f32::to_le_bytes),
        )
    }

    fn write_params(&self, info: &Info) -> Result<()> {
        let raw =
            std::fs::canonicalize(&info.path).map_err(|e| Error::io("reading", &info.path, &e))?;
        write_atomically(&self.path.join("params.py"), |file| {
            writeln!(file, "{MADE}")?;
            writeln!(file, "dat_path = {:?}", raw.display().to_string())?;
            writeln!(file, "n_channels_dat = {}", info.channels)?;
            writeln!(file, "dtype = 'int16'")?;
            writeln!(file, "offset = {}", self.offset)?;
            writeln!(file, "sample_rate = {:?}", info.rate_hz)?;
            writeln!(file, "hp_filtered = False")
        })
    }
}

/// Sorted spikes as Phy counts them.
pub(super) struct PhySpikes<'a> {
    /// Row of the file of each spike, ascending.
    pub(super) rows: &'a [i64],
    /// Unit of each spike, by its place in the sorter.
    pub(super) units: &'a [u32],
    /// Minimum of each spike in microvolts.
    pub(super) microvolts: &'a [f32],
}

/// Cosine of the angle between two templates; 0 if one is 0.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let product = |a: &[f32], b: &[f32]| -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let size = (product(a, a) * product(b, b)).sqrt();
    (product(a, b) / size.max(f64::MIN_POSITIVE)) as f32
}

/// Little-endian bytes of `values`.
fn bytes<T, const N: usize>(values: impl Iterator<Item = T>, of: fn(T) -> [u8; N]) -> Vec<u8> {
    values.flat_map(of).collect()
}

/// One array in NumPy's format, version 1.
fn npy(folder: &Path, name: &str, kind: &str, shape: &[usize], data: &[u8]) -> Result<()> {
    let shape: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Data begins at a multiple of 64.
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    write_atomically(&folder.join(name), |file| {
        file.write_all(b"\x93NUMPY\x01\x00")?;
        file.write_all(&(header.len() as u16).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        file.write_all(data)
    })
}
