//! Files that a command reads and writes, checked in one place before it does anything.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use betz::file::FilePlan;
use betz::hash::Fnv1a;
#[cfg(feature = "lab")]
use betz::network::file::NetworkFile;
use betz::recording::Recording;
use betz::{Error, Result};

use crate::common_args::Common;
use crate::report;

/// The first line of every SVG; it tells one from somebody else's.
pub(crate) const DRAWN: &str = "<!-- drawn by betz -->";
/// Text inside every PNG and PDF.
pub(crate) const DRAWN_BY: &str = "drawn by betz";
/// First words of a file of chains.
pub(crate) const CHAINS: &str = "# Chains embedded among ";
/// First words of a file of candidates.
pub(crate) const CANDIDATES: &str = "# Candidates of size ";
/// First words of the description inside decoded outputs as `.npz`.
pub(crate) const DECODED: &str = "{\"decoded_by\": ";
/// First words of the description inside nodes of samples as `.npz`.
#[cfg(feature = "page")]
pub(crate) const ASSIGNED: &str = "{\"assigned_by\": ";
/// First words of the header of weights as safetensors.
const SAFETENSORS: &str = "{\"__metadata__\":{\"producer\":\"betz\"";
/// Ending of partial results.
const PARTIAL: &str = ".partial";
/// Note inside a partial result.
pub(crate) const INCOMPLETE: &str = "incomplete: the command was interrupted";
/// Bytes at the end of a PDF that hold what it says of itself.
const PDF_END: u64 = 64 << 10;
/// Bytes at a file's start that tell what it is.
const START: u64 = 4096;

/// The kind of an output file, by which an earlier result of the same kind is recognised.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A trained decoder.
    Model,
    /// A decoder as ONNX.
    Onnx,
    /// Weights of a recurrent decoder as safetensors.
    Safetensors,
    /// Sums that decoders are solved from.
    Sums,
    /// A recording as NWB that Betz wrote; any other is never taken for an earlier result.
    Nwb,
    /// A recording as `.npz`, which nothing tells from one that was recorded.
    Recorded,
    /// A simulated recording; one that was recorded is never taken for an earlier result.
    Simulated,
    /// Simulated events as text, which have their chains beside them.
    SimulatedEvents,
    /// A table as CSV whose first line begins with one of these.
    Table(&'static [&'static str]),
    /// Decoded outputs as `.npz`.
    Decoded,
    /// Chains, one per line.
    Chains,
    /// A graph as DOT or GraphML.
    Graph,
    /// A matrix as `.npy`, which nothing tells from others.
    #[cfg(feature = "lab")]
    Matrix,
    /// A picture as SVG, PNG or PDF.
    Picture,
    /// Weights of a model as `.npz`.
    Weights,
    /// A correlation network as `.npz`, or as a directory (`.zarr`).
    Network,
    /// A shard of a network.
    NetworkPart,
    /// A shard of episodes' counts.
    CountPart,
    /// Episodes to count, one per line.
    Episodes,
    /// Measures of a network's graphs as `.npz`.
    GraphMeasures,
    /// A network, or a window of it, as text of another program's format.
    NetworkText,
    /// Spikes of each neuron of a spiking network, as numbers.
    SpikeCounts,
    /// A spiking network as JSON.
    SpikingSpec,
    /// Synapses as binary records, which nothing tells from others.
    Connections,
    /// A self-organising map as `.npz`.
    Map,
    /// Nodes of samples as `.npz`.
    #[cfg(feature = "page")]
    Assignment,
    /// A picture of a map as PNG.
    Png,
    /// A trained spike sorter.
    Sorter,
    /// Spikes or band power of a sorter as `.npz`.
    Sorted,
    /// A page of `betz reproduce`.
    #[cfg(feature = "lab")]
    Page,
}

impl Kind {
    /// Endings that the file may have; any, where there are none.
    fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Graph => &["dot", "gv", "graphml"],
            Self::Picture => &["svg", "png", "pdf"],
            Self::Onnx => &["onnx"],
            Self::Safetensors => &["safetensors"],
            Self::Nwb => &["nwb"],
            Self::Png => &["png"],
            #[cfg(feature = "page")]
            Self::Assignment => &["npz"],
            #[cfg(feature = "lab")]
            Self::Matrix => &["npy"],
            #[cfg(feature = "lab")]
            Self::Page => &["html", "htm"],
            Self::Network => &["npz", "zarr"],
            Self::Recorded
            | Self::Simulated
            | Self::Map
            | Self::Sorted
            | Self::Decoded
            | Self::Weights
            | Self::GraphMeasures => &["npz"],
            Self::SimulatedEvents => &["csv"],
            _ => &[],
        }
    }

    /// True if the file at `path` is an earlier result of this kind.
    pub(crate) fn made(self, path: &Path) -> bool {
        let start = start(path);
        let begins = |with: &str| start.starts_with(with.as_bytes());
        match self {
            Self::Model => begins("BETZMODL") || begins("BETZCLUS"),
            Self::Sums => begins("BETZSUMS"),
            Self::NetworkPart => begins("BETZNETP"),
            Self::CountPart => begins("BETZCNTP"),
            Self::Episodes => begins(CANDIDATES),
            // IR version 9, producer "betz".
            Self::Onnx => begins("\x08\x09\x12\x04betz"),
            // Behind eight bytes of length.
            Self::Safetensors => {
                (start.get(8..)).is_some_and(|header| header.starts_with(SAFETENSORS.as_bytes()))
            }
            Self::Simulated => meta_begins(path, "{\"source\": \"betz "),
            Self::Decoded => meta_begins(path, DECODED),
            Self::Weights => meta_begins(path, "{\"weights_of\": "),
            Self::Network => meta_begins(path, "{\"kind\":\"network\","),
            Self::GraphMeasures => meta_begins(path, "{\"graph_of\":"),
            Self::NetworkText => {
                let text = String::from_utf8_lossy(&start);
                let gexf =
                    text.contains("<gexf ") && text.contains("timerepresentation=\"interval\"");
                begins("{\"network_window\":")
                    || (begins("<?xml") && (gexf || text.contains("<graph id=\"window-")))
            }
            Self::SimulatedEvents => is_told_of(path, &path.with_extension("chains.txt")),
            Self::Table(headers) => headers.iter().any(|h| begins(h)),
            Self::Chains => begins(CHAINS),
            Self::SpikeCounts => {
                !start.is_empty() && start.iter().all(|b| b" \n0123456789".contains(b))
            }
            Self::SpikingSpec => begins("{\n  \"step_ms\":"),
            #[cfg(feature = "rig")]
            Self::Nwb => betz_formats::nwb::is_own(path),
            #[cfg(not(feature = "rig"))]
            Self::Nwb => false,
            Self::Connections | Self::Recorded => false,
            #[cfg(feature = "lab")]
            Self::Matrix => false,
            #[cfg(feature = "lab")]
            Self::Page => begins(crate::commands::reproduce::page::MADE),
            Self::Map => meta_begins(path, "{\"map_of\": "),
            #[cfg(feature = "page")]
            Self::Assignment => meta_begins(path, ASSIGNED),
            Self::Png => String::from_utf8_lossy(&start).contains(DRAWN_BY),
            Self::Sorter => begins("BETZSORT"),
            Self::Sorted => meta_begins(path, "{\"source\": \"betz sort"),
            Self::Graph => {
                begins("digraph episodes {")
                    || (begins("<?xml")
                        && String::from_utf8_lossy(&start).contains("<graph id=\"episodes\""))
            }
            Self::Picture => begins(DRAWN) || Self::Png.made(path) || is_own_pdf(path, &start),
        }
    }
}

/// True for a PDF that Betz drew: what it says of itself stands at its end.
fn is_own_pdf(path: &Path, start: &[u8]) -> bool {
    let end = || -> std::io::Result<Vec<u8>> {
        let (mut file, mut bytes) = (File::open(path)?, Vec::new());
        let from = file.metadata()?.len().saturating_sub(PDF_END);
        file.seek(SeekFrom::Start(from))?;
        file.take(PDF_END).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let own = |end: Vec<u8>| {
        let mut parts = end.windows(DRAWN_BY.len());
        parts.any(|part| part == DRAWN_BY.as_bytes())
    };
    start.starts_with(b"%PDF-") && end().is_ok_and(own)
}

fn start(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A file that cannot be read is no earlier result, nor is a pipe, which would wait for its writer.
    if !is_stream(path)
        && let Ok(file) = File::open(path)
        && file.take(START).read_to_end(&mut bytes).is_err()
    {
        bytes.clear();
    }
    bytes
}

/// The line of a file of chains that tells the events beside it from anybody else's.
pub(crate) fn told_of(events: u64) -> String {
    format!("# The events are those of {events:016x}.")
}

/// True if `chains` describes the events at `path` as they are now.
fn is_told_of(path: &Path, chains: &Path) -> bool {
    let told = start(chains);
    let told = String::from_utf8_lossy(&told);
    told.starts_with(CHAINS)
        && hash_of(path).is_ok_and(|events| told.lines().any(|line| line == told_of(events)))
}

/// The hash of all bytes of a file.
pub(crate) fn hash_of(path: &Path) -> std::io::Result<u64> {
    let (mut file, mut hash) = (File::open(path)?, Fnv1a::new());
    let mut bytes = vec![0; 1 << 16];
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(hash.finish()),
            n => hash.bytes(&bytes[..n]),
        }
    }
}

/// The first eight bytes of the file at `path`; zeros where there are fewer.
///
/// # Errors
/// For a pipe or a device, too: whoever reads the file afterwards would miss these bytes, or wait for another writer.
pub(crate) fn first_bytes(path: &Path) -> Result<[u8; 8]> {
    refuse_stream(path)?;
    let mut start = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| Error::io("reading", path, &e))?;
    (file.take(8).read_to_end(&mut start)).map_err(|e| Error::io("reading", path, &e))?;
    start.resize(8, 0);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&start);
    Ok(bytes)
}

fn meta_begins(path: &Path, with: &str) -> bool {
    Recording::read_meta(path).is_ok_and(|meta| meta.is_some_and(|m| m.starts_with(with)))
}

/// The files of one command; see [`FilePlan`].
pub(crate) struct Files(FilePlan);

impl Files {
    pub(crate) fn new(common: &Common) -> Self {
        Self(FilePlan::new(common.force))
    }

    /// `path` is read. To be said of every input before the first output.
    #[must_use]
    pub(crate) fn reads(mut self, name: &str, path: &Path) -> Self {
        self.0.reads(name, path);
        self
    }

    /// `path`, where there is one, is read.
    #[must_use]
    pub(crate) fn may_read(self, name: &str, path: Option<&Path>) -> Self {
        match path {
            Some(path) => self.reads(name, path),
            None => self,
        }
    }

    /// Refuses, before any work, a file that could not be written when it is done, or must not be.
    pub(crate) fn writes(&mut self, option: &str, path: &Path, kind: Kind) -> Result<()> {
        let endings = kind.endings();
        let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        let named = endings.is_empty() || endings.iter().any(|e| e.eq_ignore_ascii_case(ending));
        if !named && !is_stream(path) {
            return Err(Error::argument(format!(
                "{option}: expected a file ending in .{}, got {}",
                endings.join(" or ."),
                path.display()
            )));
        }
        if ending.eq_ignore_ascii_case("zarr") && path.is_dir() {
            #[cfg(feature = "lab")]
            if matches!(kind, Kind::Network) && NetworkFile::is_one(path) {
                return Ok(());
            }
            return Err(Error::argument(format!(
                "{option}: expected an earlier network or no folder, got {}, a folder of something else; give another name (--force replaces files only)",
                path.display()
            )));
        }
        self.0.writes(option, path, &|there| kind.made(there))?;
        if is_standard_output(path) {
            report::leave_output_to_the_result();
        }
        Ok(())
    }

    /// [`Files::writes`] where there is a path.
    pub(crate) fn may_write(
        &mut self,
        option: &str,
        path: Option<&Path>,
        kind: Kind,
    ) -> Result<()> {
        path.map_or(Ok(()), |path| self.writes(option, path, kind))
    }
}

/// True if `path` leads to this process's standard output, and is read there: what
/// goes to a device (`/dev/null`, a terminal) is no file that a report could spoil.
#[cfg(unix)]
fn is_standard_output(path: &Path) -> bool {
    use std::fs::Metadata;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let same =
        |a: Metadata, b: Metadata| (a.dev(), a.ino(), a.rdev()) == (b.dev(), b.ino(), b.rdev());
    match (path.metadata(), Path::new("/dev/fd/1").metadata()) {
        (Ok(there), Ok(output)) => {
            is_stream(path) && !output.file_type().is_char_device() && same(there, output)
        }
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_standard_output(_: &Path) -> bool {
    false
}

/// Refuses a pipe or a device, which can be read once and from its beginning alone.
pub(crate) fn refuse_stream(path: &Path) -> Result<()> {
    match is_stream(path) {
        true => Err(Error::argument(format!(
            "{}: expected a file, got a pipe or a device; write its content to a file first",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// A pipe or a device has no ending, nor has what standard input is redirected from.
pub(crate) fn is_stream(path: &Path) -> bool {
    path.starts_with("/dev") || path.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// True if `--out` is a .csv table, false if it is .npz.
pub(crate) fn is_csv(path: &Path) -> Result<bool> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    match ending.to_ascii_lowercase().as_str() {
        "csv" => Ok(true),
        "npz" => Ok(false),
        _ => Err(Error::argument(format!(
            "--out {}: expected a file ending in .csv or .npz",
            path.display()
        ))),
    }
}

/// The file that a result goes to: `path` itself, or `NAME.partial` beside it if the work was interrupted. An earlier
/// result at `path` stays.
pub(crate) fn destination(path: &Path, complete: bool) -> PathBuf {
    if complete || is_stream(path) {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(PARTIAL);
    eprintln!("partial result: {}", name.to_string_lossy());
    name.into()
}

/// True if `path` is that of a partial result.
pub(crate) fn is_partial(path: &Path) -> bool {
    path.to_string_lossy().ends_with(PARTIAL)
}
