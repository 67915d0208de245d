//! A folder that Phy opens: spike times and clusters beside the raw samples.

use std::io::Write;
use std::path::Path;

use betz::file::write_atomically;
use betz::sort::Sorter;
use betz::{Error, Result};

use super::input::{Info, Source};

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
    pub(super) fn of(path: &'a Path, source: &Source, force: bool) -> Result<Self> {
        let Source::Flat { offset } = *source else {
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

    /// Writes the folder.
    pub(super) fn write(
        &self,
        info: &Info,
        sorter: &Sorter,
        ticks: &[i64],
        units: &[u32],
        microvolts: &[f32],
    ) -> Result<()> {
        let folder = self.path;
        std::fs::create_dir_all(folder).map_err(|e| Error::io("making", folder, &e))?;
        let ids: Vec<i32> = units
            .iter()
            .map(|u| sorter.units()[*u as usize].id as i32)
            .collect();
        let times: Vec<u8> = ticks.iter().flat_map(|t| t.to_le_bytes()).collect();
        npy(folder, "spike_times.npy", "<i8", &[ticks.len()], &times)?;
        let narrow: Vec<u8> = ids.iter().flat_map(|i| i.to_le_bytes()).collect();
        npy(folder, "spike_clusters.npy", "<i4", &[ids.len()], &narrow)?;
        let sizes: Vec<u8> = microvolts
            .iter()
            .flat_map(|v| v.abs().to_le_bytes())
            .collect();
        npy(folder, "amplitudes.npy", "<f4", &[microvolts.len()], &sizes)?;
        let layout = sorter.layout();
        let channels: Vec<u8> = layout
            .used
            .iter()
            .flat_map(|c| (*c as i32).to_le_bytes())
            .collect();
        npy(
            folder,
            "channel_map.npy",
            "<i4",
            &[layout.channels()],
            &channels,
        )?;
        let places = layout.places.as_flattened();
        let places: Vec<u8> = places.iter().flat_map(|p| p.to_le_bytes()).collect();
        npy(
            folder,
            "channel_positions.npy",
            "<f4",
            &[layout.channels(), 2],
            &places,
        )?;
        let raw =
            std::fs::canonicalize(&info.path).map_err(|e| Error::io("reading", &info.path, &e))?;
        write_atomically(&folder.join("params.py"), |file| {
            writeln!(file, "{MADE}")?;
            writeln!(file, "dat_path = {:?}", raw.display().to_string())?;
            writeln!(file, "n_channels_dat = {}", info.channels)?;
            writeln!(file, "dtype = 'int16'")?;
            writeln!(file, "offset = {}", self.offset)?;
            writeln!(file, "sample_rate = {}", info.rate_hz)?;
            writeln!(file, "hp_filtered = False")
        })?;
        write_atomically(&folder.join("cluster_info.tsv"), |file| {
            writeln!(file, "cluster_id\tch\tfr\tamp\tn_spikes")?;
            for unit in sorter.units() {
                let spikes = units
                    .iter()
                    .filter(|u| sorter.units()[**u as usize].id == unit.id);
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
