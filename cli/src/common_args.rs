//! Options that several commands have.

use betz::model::WeightPrecision;
use betz::team::Shard;
#[cfg(feature = "rig")]
use betz_formats::nwb::Subject;
use clap::{Args, ValueEnum};

use crate::parse::seconds;

/// Subject of an NWB file.
#[cfg(feature = "rig")]
#[derive(Args, Clone)]
pub(crate) struct SubjectArgs {
    /// Identifier of the subject [default: that of the input, else unknown]
    #[arg(long = "subject", value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Species of the subject in Latin, such as "Macaca mulatta"
    #[arg(long, value_name = "NAME")]
    pub(crate) species: Option<String>,
    /// Sex of the subject: M, F, O (other) or U (unknown)
    #[arg(long, value_parser = ["M", "F", "O", "U"])]
    pub(crate) sex: Option<String>,
    /// Age of the subject as an ISO 8601 duration such as P8Y, or a range such as P8Y/P9Y
    #[arg(long, value_name = "DURATION")]
    pub(crate) age: Option<String>,
}

#[cfg(feature = "rig")]
impl SubjectArgs {
    /// Sets what was given.
    pub(crate) fn set(&self, subject: &mut Subject) {
        for (given, field) in [
            (&self.id, &mut subject.id),
            (&self.species, &mut subject.species),
            (&self.sex, &mut subject.sex),
            (&self.age, &mut subject.age),
        ] {
            if let Some(given) = given {
                field.clone_from(given);
            }
        }
    }
}

/// Options of every command.
#[derive(Args, Clone)]
pub(crate) struct Common {
    /// Print one JSON object on standard output instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Device that computes: auto, cpu, cuda, cuda:N or cuda:all
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    pub(crate) device: String,
    /// Replace existing output files whatever they hold. Without it, only an earlier result of the
    /// same kind is replaced. An input is never replaced
    #[arg(long)]
    pub(crate) force: bool,
}

/// Checks the name of a device.
pub(crate) fn device(text: &str) -> Result<String, String> {
    let known = text.parse::<betz::device::DeviceSpec>();
    let said = |e: betz::Error| e.message().trim_start_matches("device: ").to_owned();
    known.map(|_| text.to_owned()).map_err(said)
}

/// The numbers of a network's matrices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Weights {
    #[default]
    F32,
    Bf16,
    Int8,
}

impl From<Weights> for WeightPrecision {
    fn from(weights: Weights) -> Self {
        match weights {
            Weights::F32 => Self::F32,
            Weights::Bf16 => Self::Bf16,
            Weights::Int8 => Self::Int8,
        }
    }
}

/// Series and tables of an NWB file that are used.
#[derive(Args, Clone, Default)]
pub(crate) struct Behaviors {
    /// Behaviour series of an NWB file, by name, by container or by path; repeat for several that
    /// share their sample times [default: the first that holds velocities, else the first]
    #[arg(long = "behavior", value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Table of intervals of an NWB file whose rows are the segments, with a condition on a column if
    /// wanted: reaches, or trials:side=left; repeat for several [default: trials]
    #[arg(long = "trial-table", value_name = "TABLE")]
    pub(crate) trial_tables: Vec<String>,
    /// Use only what lies in the intervals of this table of an NWB file; repeat for several
    #[arg(long = "within", value_name = "TABLE")]
    pub(crate) within_tables: Vec<String>,
    /// Leave out what lies in the intervals of this table of an NWB file, such as artifacts; repeat
    /// for several; none: nothing [default: invalid_times, if present]
    #[arg(long = "mask-table", value_name = "TABLE")]
    pub(crate) mask_tables: Vec<String>,
    /// Behaviour output that is an angle in radians or degrees, by name: decode its cosine and sine;
    /// repeat for several
    #[arg(long = "angle", value_name = "NAME")]
    pub(crate) angles: Vec<String>,
}

impl Behaviors {
    /// Refuses names for a recording that is read in chunks.
    pub(crate) fn none_in_stretches(&self) -> betz::Result<()> {
        self.none("--memory reads .npz, whose series and tables have no names")
    }

    /// Refuses names where a recording has none, for the reason `why`.
    pub(crate) fn none(&self, why: &str) -> betz::Result<()> {
        let given = [
            ("--behavior", &self.names),
            ("--trial-table", &self.trial_tables),
            ("--within", &self.within_tables),
            ("--mask-table", &self.mask_tables),
            ("--angle", &self.angles),
        ];
        for (option, names) in given {
            if let Some(name) = names.first() {
                return Err(betz::Error::argument(format!(
                    "{option} {name}: expected none, because {why}"
                )));
            }
        }
        Ok(())
    }
}

/// The part of a recording to use.
#[derive(Args, Clone, Default)]
pub(crate) struct Part {
    #[command(flatten)]
    pub(crate) behavior: Behaviors,
    /// Segments (trials) to use, counted from 0: numbers and half-open ranges such as 0..800,805
    /// [default: all]
    #[arg(long, value_name = "LIST")]
    pub(crate) segments: Option<String>,
    /// Start of the part to use, in seconds or with a unit (90s, 1.5min) [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) from: Option<f64>,
    /// End of the part to use, in seconds [default: the end]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) until: Option<f64>,
    /// Longest gap between two behaviour samples that is interpolated, in seconds; a longer one ends
    /// its segment. inf: no limit [default: five sample intervals, at least 0.15]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) max_gap: Option<f64>,
    /// Outputs that are velocities, by name, such as vx,vy [default: those in a unit per time, and of
    /// outputs without a unit the derivatives of others]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) velocity: Vec<String>,
}

/// Parses a size such as `2GiB`, `1.5 GB`, `300M` (binary, as GiB) or `4096`.
pub(crate) fn memory_size(text: &str) -> Result<u64, String> {
    let expected = || format!("expected a size such as 2GiB, 500MB or 4096, got {text:?}");
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(expected()),
    };
    let number: f64 = number.parse().map_err(|_| expected())?;
    let bytes = number * factor as f64;
    if bytes < 1.0 || bytes > u64::MAX as f64 / 2.0 {
        return Err(expected());
    }
    Ok(bytes as u64)
}

/// The least memory that work in chunks takes.
const LEAST_CHUNKS: u64 = 4000;

/// Parses the memory of work in chunks: [`memory_size`], of at least 4 kB.
pub(crate) fn chunk_memory(text: &str) -> Result<u64, String> {
    let bytes = memory_size(text)?;
    match bytes < LEAST_CHUNKS {
        true => Err(format!("expected at least 4kB to work with, got {text:?}")),
        false => Ok(bytes),
    }
}

/// Parses `2/8`, the second of eight shards.
pub(crate) fn shard(text: &str) -> Result<Shard, String> {
    let expected = || {
        format!(
            "expected the number of a shard and the number of shards, such as 2/8, got {text:?}"
        )
    };
    let (number, of) = text.split_once('/').ok_or_else(expected)?;
    let whole = |text: &str| text.trim().parse::<u32>().map_err(|_| expected());
    Shard::new(whole(number)? as usize, whole(of)? as usize).map_err(|e| e.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{chunk_memory, device, memory_size, shard};

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("4096", 4096),
            ("2GiB", 2 << 30),
            ("2g", 2 << 30),
            ("1.5 GiB", 3 << 29),
            ("500MB", 500_000_000),
            ("300M", 300 << 20),
            ("1kib", 1024),
        ] {
            assert_eq!(memory_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "2 gigs", "0", "1e9", "1..2"] {
            assert!(memory_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn chunks_have_a_least_size_and_devices_are_known() {
        assert_eq!(chunk_memory("4kB"), Ok(4000));
        assert!(chunk_memory("3999").unwrap_err().contains("at least 4kB"));
        for name in ["auto", "cpu", "cuda", "cuda:1", "cuda:all"] {
            assert_eq!(device(name).as_deref(), Ok(name));
        }
        for name in ["", "gpu", "cuda:", "cuda:+1", "CPU"] {
            assert!(device(name).unwrap_err().starts_with("expected auto, cpu"));
        }
    }

    #[test]
    fn shards_are_numbered_from_one() {
        let two = shard("2/8").unwrap();
        assert_eq!((two.number(), two.of()), (2, 8));
        for text in [
            "",
            "2",
            "0/8",
            "9/8",
            "-1/8",
            "1/0",
            "a/8",
            "1/8/2",
            "1/99999999999",
        ] {
            assert!(shard(text).is_err(), "{text}");
        }
    }
}
