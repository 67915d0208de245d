//! Rigs by their addresses.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};

use super::{
    BrandRig, CerebusRig, Fifo, FrameRig, Group, LslRig, OpenEphysRig, PipeRig, Rig, SpikeGlxRig,
    SpikeGlxStream, SynapseRig,
};
use crate::bus::Address;
use crate::cerebus::Protocol;
use crate::order::rows::PATIENCE;
use crate::rhx::{RhxBand, RhxOptions, RhxRig, channel_names};

/// Rigs and the keys of their addresses.
const RIGS: &[(&str, &[&str])] = &[
    ("udp", &["channels", "rate", "microvolts", "buffer", "spin"]),
    (
        "cerebus",
        &[
            "group",
            "version",
            "channels",
            "microvolts",
            "buffer",
            "spin",
            "probe",
            "digital",
        ],
    ),
    ("spikeglx", &["js", "ip", "sync", "channels", "microvolts"]),
    (
        "rhx",
        &[
            "band",
            "enable",
            "blocks",
            "channels",
            "waveforms",
            "spikes",
        ],
    ),
    ("openephys", &["group", "channels", "rate", "microvolts"]),
    (
        "synapse",
        &["group", "channels", "rate", "microvolts", "offset", "probe"],
    ),
    ("brand", &["nickname", "channels", "rate", "microvolts"]),
    ("lsl", &["channels", "rate", "microvolts"]),
    ("shm", &["microvolts"]),
    ("pipe", &["channels", "rate", "microvolts"]),
];

/// Bytes of a socket's buffer, unless another number is given: 0.13 s of 1,024 channels at 30 kHz.
const BUFFER: usize = 8 << 20;

/// Facts for a rig that does not state them itself. The same key of an address has precedence.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RigOptions {
    /// Channels of each row.
    pub channels: Option<usize>,
    /// Rows per second.
    pub rate: Option<f64>,
    /// Microvolts per bit.
    pub microvolts: Option<f64>,
    /// Bytes of the socket's buffer; 8 MiB if none are given.
    pub buffer: Option<usize>,
    /// Time for which rows of datagrams wait for those that they have overtaken; 5 ms if none is given.
    pub reorder: Option<Duration>,
}

/// Opens the rig at `address`:
/// `udp://HOST:PORT` (rows of int16 in plain datagrams, bound here),
/// `cerebus://HOST:PORT?group=raw|spikes|1…6` (bound here; `version=3.11|4.0|4.1`; `probe=HOST:PORT` of the device, to
/// ask for its time; `digital=CHANNEL` of the digital input, whose lines are heard),
/// `spikeglx://HOST:4142?js=2&ip=0` (`js`: 0 NI, 1 OneBox, 2 imec; `sync=1` hears the digital lines),
/// `rhx://HOST:5000?enable=A-000..A-031` (Intan RHX; `band=wide|low|high|spikes`, `blocks=N` of 128 samples per write),
/// `openephys://HOST:5556?channels=N` (`group=voltage|spikes`; `rate=HZ` with spikes),
/// `synapse://HOST:PORT` of a tap (`group=voltage|spikes`; `offset=N` of unsigned voltage; `probe=HOST:PORT`, as above),
/// `brand://HOST:PORT?nickname=NAME&channels=N` or `brand:///SOCKET?…` (Redis of a BRAND graph),
/// `lsl://NAME` (a stream of Lab Streaming Layer, int16 or float32 in µV),
/// `shm:///NAME` (POSIX shared memory), `pipe:-` or `pipe:/PATH` with `?channels=N&rate=HZ`. Further keys:
/// `channels=N`, `rate=HZ`, `microvolts=PER_BIT`, `buffer=BYTES` of the socket, `spin=MICROSECONDS` of polling.
///
/// # Errors
/// `InvalidArgument` for another address, and those of the rig.
pub fn open_rig(address: &str) -> Result<Box<dyn Rig>> {
    RigOptions::default().open(address)
}

impl RigOptions {
    /// Opens a rig as [`open_rig`] does, with these facts where its address states none.
    ///
    /// # Errors
    /// The errors of [`open_rig`].
    pub fn open(&self, address: &str) -> Result<Box<dyn Rig>> {
        let written = written(address);
        let at = Address::parse(&written, RIGS)?;
        let facts = self.with(&at)?;
        match at.scheme {
            "udp" => {
                let rig = FrameRig::bind(at.place, facts.channels, facts.rate)?
                    .with_microvolts(facts.microvolts)
                    .with_buffer(facts.buffer.unwrap_or(BUFFER))
                    .reordering(facts.reorder.unwrap_or(PATIENCE));
                Ok(Box::new(rig.spinning(at.spin()?)))
            }
            "cerebus" => open_cerebus(&at, &facts),
            "spikeglx" => open_spikeglx(&at, &facts),
            "rhx" => open_rhx(&at, &facts),
            "openephys" => open_openephys(&at, &facts),
            "synapse" => open_synapse(&at, &facts),
            "brand" => open_brand(&at, &facts),
            "lsl" => {
                let rig = LslRig::named(at.place, facts.channels, facts.rate)?;
                Ok(Box::new(rig.with_microvolts(facts.microvolts)))
            }
            "pipe" => open_pipe(&at, &facts),
            "shm" => open_shared(&at, &facts),
            other => Err(Error::argument(format!(
                "\"{address}\": no rig {other}:// in this build"
            ))),
        }
    }

    /// The facts that `address` states, completed by these. Opens nothing.
    ///
    /// # Errors
    /// `InvalidArgument` for an address that cannot be parsed.
    pub fn of_address(&self, address: &str) -> Result<Self> {
        self.with(&Address::parse(&written(address), RIGS)?)
    }

    /// The facts of an address, completed by these.
    fn with(&self, at: &Address<'_>) -> Result<Self> {
        let whole = |key: &str| match at.get(key) {
            Some(_) => match at.number(key, 0)? {
                0 => Err(refused(at, key, "a number above 0", "0")),
                number => usize::try_from(number)
                    .map(Some)
                    .map_err(|_| refused(at, key, "a smaller number", &number.to_string())),
            },
            None => Ok(None),
        };
        let real = |key: &str| match at.get(key) {
            Some(text) => match text.parse::<f64>() {
                Ok(number) if number.is_finite() && number > 0.0 => Ok(Some(number)),
                _ => Err(refused(at, key, "a number above 0", text)),
            },
            None => Ok(None),
        };
        Ok(Self {
            channels: whole("channels")?.or(self.channels),
            rate: real("rate")?.or(self.rate),
            microvolts: real("microvolts")?.or(self.microvolts),
            buffer: whole("buffer")?.or(self.buffer),
            reorder: self.reorder,
        })
    }
}

/// An address with a place: a pipe has no host, and `pipe:-` is the usual way to write it.
fn written(address: &str) -> String {
    match address.strip_prefix("pipe:") {
        Some(rest) if !rest.starts_with("//") => format!("pipe://{rest}"),
        _ => address.to_string(),
    }
}

fn refused(at: &Address<'_>, key: &str, expected: &str, got: &str) -> Error {
    Error::argument(format!(
        "\"{}\": {key}: expected {expected}, got {got}",
        at.whole
    ))
}

fn open_cerebus(at: &Address<'_>, facts: &RigOptions) -> Result<Box<dyn Rig>> {
    let group = Group::named(at.get("group").unwrap_or("raw"))?;
    let protocol = at.get("version").map(Protocol::named).transpose()?;
    if group == Group::Spikes && facts.channels.is_none() {
        let why =
            "with group=spikes, because packets of spikes do not state the number of channels";
        return Err(refused(at, "channels=N", why, "none"));
    }
    let rig = CerebusRig::bind(at.place, protocol, group, facts.channels)?
        .with_microvolts(facts.microvolts)
        .with_buffer(facts.buffer.unwrap_or(BUFFER))
        .reordering(facts.reorder.unwrap_or(PATIENCE));
    let rig = match at.get("probe") {
        Some(device) => rig.with_probe(device)?,
        None => rig,
    };
    let rig = match at.get("digital") {
        Some(_) => {
            let channel = at.number("digital", 0)?;
            let channel = u16::try_from(channel)
                .ok()
                .filter(|channel| (1..0x8000).contains(channel));
            let why = "the number of the digital input's channel, as Central shows it";
            let got = at.get("digital").unwrap_or_default();
            rig.with_digital(channel.ok_or_else(|| refused(at, "digital", why, got))?)
        }
        None => rig,
    };
    Ok(Box::new(rig.spinning(at.spin()?)))
}

fn open_spikeglx(at: &Address<'_>, facts: &RigOptions) -> Result<Box<dyn Rig>> {
    let kind = match at.get("js").unwrap_or("2") {
        "0" => 0,
        "1" => 1,
        "2" => 2,
        "-2" => -2,
        got => return Err(refused(at, "js", "0 (NI), 1 (OneBox), 2 or -2 (imec)", got)),
    };
    let index = at.number("ip", 0)?;
    let index = u32::try_from(index)
        .map_err(|_| refused(at, "ip", "the number of a device", &index.to_string()))?;
    let stream = SpikeGlxStream { kind, index };
    let rig = SpikeGlxRig::new(at.place, stream, facts.channels)?;
    let rig = match at.get("sync").unwrap_or("0") {
        "0" => rig,
        "1" => rig.with_lines(),
        got => return Err(refused(at, "sync", "0 or 1", got)),
    };
    Ok(Box::new(rig.with_microvolts(facts.microvolts)))
}

fn open_rhx(at: &Address<'_>, facts: &RigOptions) -> Result<Box<dyn Rig>> {
    let port = |key: &str, default: u16| {
        let number = at.number(key, u64::from(default))?;
        u16::try_from(number).map_err(|_| refused(at, key, "a port", &number.to_string()))
    };
    let blocks = at.number("blocks", 1)?;
    let blocks = u32::try_from(blocks)
        .ok()
        .filter(|b| (1..=1000).contains(b))
        .ok_or_else(|| refused(at, "blocks", "1 to 1000", &blocks.to_string()))?;
    let options = RhxOptions {
        band: RhxBand::named(at.get("band").unwrap_or("wide"))?,
        enable: at.get("enable").map_or(Ok(Vec::new()), channel_names)?,
        blocks,
        channels: facts.channels,
        ports: [port("waveforms", 5001)?, port("spikes", 5002)?],
    };
    Ok(Box::new(RhxRig::new(at.place, options)?))
}

fn open_openephys(at: &Address<'_>, facts: &RigOptions) -> Result<Box<dyn Rig>> {
    let Some(channels) = facts.channels else {
        let why = "a number, because messages of Open Ephys do not state the number of channels";
        return Err(refused(at, "channels=N", why, "none"));
    };
    match (at.get("group").unwrap_or("voltage"), facts.rate) {
        ("voltage", _) => {
            let rig = OpenEphysRig::voltage(at.place, channels, facts.microvolts)?;
            Ok(Box::new(rig))
        }
        ("spikes", Some(rate)) => Ok(Box::new(OpenEphysRig::spikes(at.place, channels, rate)?)),
        ("spikes", None) => {
            let why = "a number with group=spikes, because spikes do not state it";
            Err(refused(at, "rate=HZ", why, "none"))
        }
        (got, _) => Err(refused(at, "group", "voltage or spikes", got)),
    }
}

fn open_synapse(at: &Address<'_>, facts: &RigOptions) -> Result<Box<dyn Rig>> {
    let rig = match at.get("group").unwrap_or("voltage") {
        "voltage" => SynapseRig::voltage(at.place, facts.channels, facts.rate)?,
        "spikes" => SynapseRig::spikes(at.place, facts.channels, facts.rate)?,
        got => return Err(refused(at, "group", "voltage or spikes", got)),
    };
    let offset = at.number("offset", 0)?;
    let offset = u32::try_from(offset)
        .map_err(|_| refused(at, "offset", "a smaller number", &offset.to_string()))?;
    let rig = rig.with_microvolts(facts.microvolts).with_offset(offset);
    Ok(Box::new(match at.get("probe") {
        Some(device) => rig.with_probe(device)?,
        None => rig,
    }))
}

fn open_brand(at: &Address<'_>, facts: &RigOptions) -> Result<Box<dyn Rig>> {
    let Some(channels) = facts.channels else {
        let why = "a number, because entries of BRAND do not state the number of channels";
        return Err(refused(at, "channels=N", why, "none"));
    };
    let node = crate::brand::Place::new(at.place, at.get("nickname"))?;
    let rig = BrandRig::new(node, channels, facts.rate, facts.microvolts)?;
    Ok(Box::new(rig))
}

fn open_pipe(at: &Address<'_>, facts: &RigOptions) -> Result<Box<dyn Rig>> {
    let (Some(channels), Some(rate)) = (facts.channels, facts.rate) else {
        let got = if facts.channels.is_none() {
            "no channels"
        } else {
            "no rate"
        };
        let why = "both, because a pipe holds rows alone";
        return Err(refused(at, "channels=N&rate=HZ", why, got));
    };
    let io = |e| {
        Error::new(
            ErrorKind::Io,
            format!("\"{}\": opening {}: {e}", at.whole, at.place),
        )
    };
    let pipe: Box<dyn Read + Send> = match at.place {
        "-" => Box::new(std::io::stdin()),
        path if std::fs::metadata(path).map_err(io)?.is_file() => {
            Box::new(File::open(path).map_err(io)?)
        }
        path => Box::new(Fifo::new(path)),
    };
    Ok(Box::new(PipeRig::new(
        pipe,
        channels,
        rate,
        facts.microvolts,
    )?))
}

#[cfg(target_os = "linux")]
fn open_shared(at: &Address<'_>, facts: &RigOptions) -> Result<Box<dyn Rig>> {
    let name = at.place.strip_prefix('/').unwrap_or(at.place);
    let rig = super::SharedRig::open(name)?.with_microvolts(facts.microvolts);
    Ok(Box::new(rig))
}

#[cfg(not(target_os = "linux"))]
fn open_shared(at: &Address<'_>, _: &RigOptions) -> Result<Box<dyn Rig>> {
    Err(Error::argument(format!(
        "\"{}\": expected Linux, whose shared memory is a file of /dev/shm, got another system",
        at.whole
    )))
}
