//! Sources and sinks by their addresses.

use std::net::{SocketAddr, ToSocketAddrs};

use betz_base::{Error, Result};

use super::{Sink, Source};

/// Facts about a model that its streams are told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stream<'a> {
    /// Channels of the model.
    pub channels: usize,
    /// Outputs of the model, by name.
    pub outputs: &'a [String],
    /// Length of a step in seconds.
    pub step_seconds: f64,
}

/// The parts of `SCHEME://PLACE?KEY=VALUE&…`.
pub(crate) struct Address<'a> {
    pub(crate) whole: &'a str,
    pub(crate) scheme: &'a str,
    pub(crate) place: &'a str,
    query: Vec<(&'a str, &'a str)>,
}

impl<'a> Address<'a> {
    pub(crate) fn parse(whole: &'a str, known: &[(&str, &[&str])]) -> Result<Self> {
        let schemes = || {
            let names: Vec<_> = known.iter().map(|(name, _)| format!("{name}://")).collect();
            names.join(", ")
        };
        let refused = |got: &str| {
            Error::argument(format!(
                "\"{whole}\": expected an address that begins with one of {}, got {got}",
                schemes()
            ))
        };
        let Some((scheme, rest)) = whole.split_once("://") else {
            return Err(refused("none"));
        };
        let Some((_, keys)) = known.iter().find(|(name, _)| *name == scheme) else {
            return Err(refused(&format!("{scheme}://")));
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut pairs = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            if !keys.contains(&key) || value.is_empty() {
                let expected = match keys.len() {
                    0 => "nothing after ?".into(),
                    _ => format!("{}=…", keys.join("=…, ")),
                };
                return Err(Error::argument(format!(
                    "\"{whole}\": expected {expected}, got \"{part}\""
                )));
            }
            pairs.push((key, value));
        }
        if place.is_empty() {
            return Err(Error::argument(format!(
                "\"{whole}\": expected a place after ://, got none"
            )));
        }
        Ok(Self {
            whole,
            scheme,
            place,
            query: pairs,
        })
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a str> {
        self.query
            .iter()
            .find(|(k, _)| *k == key)
            .map(|(_, value)| *value)
    }

    #[cfg(feature = "udp")]
    pub(crate) fn spin(&self) -> Result<std::time::Duration> {
        (self.number("spin", 0)).map(std::time::Duration::from_micros)
    }

    #[cfg_attr(not(any(feature = "zmq", feature = "udp")), allow(dead_code))]
    pub(crate) fn number(&self, key: &str, default: u64) -> Result<u64> {
        self.get(key).map_or(Ok(default), |text| {
            text.parse().map_err(|_| {
                Error::argument(format!(
                    "\"{}\": {key}: expected a whole number, got {text}",
                    self.whole
                ))
            })
        })
    }
}

/// Sources and the keys of their addresses.
const SOURCES: &[(&str, &[&str])] = &[
    #[cfg(feature = "udp")]
    ("udp", &["spin"]),
    #[cfg(feature = "udp")]
    ("cerebus", &["version", "spin"]),
    #[cfg(feature = "lsl")]
    ("lsl", &[]),
    #[cfg(feature = "brand")]
    ("brand", &["nickname", "type"]),
    #[cfg(feature = "zmq")]
    ("zmq", &["rate"]),
];

/// Sinks and the keys of their addresses.
const SINKS: &[(&str, &[&str])] = &[
    #[cfg(feature = "udp")]
    ("udp", &[]),
    #[cfg(feature = "lsl")]
    ("lsl", &[]),
    #[cfg(feature = "brand")]
    ("brand", &["nickname"]),
    #[cfg(feature = "zmq")]
    ("zmq", &["topic"]),
];

/// The source at `address`:
/// `udp://HOST:PORT`, `cerebus://HOST:PORT?version=3.11|4.0|4.1` (bound here; `spin=MICROSECONDS`: asks so long before
/// its thread sleeps), `lsl://NAME`,
/// `brand://HOST:PORT?nickname=NAME` or `brand:///SOCKET?nickname=NAME` (`type=int8|int16|uint16|float32` of its samples),
/// `zmq://HOST:PORT?rate=HZ`.
///
/// # Errors
/// `InvalidArgument` for another address, and those of the source.
pub fn open_source(address: &str, stream: &Stream<'_>) -> Result<Box<dyn Source>> {
    let at = Address::parse(address, SOURCES)?;
    match at.scheme {
        #[cfg(feature = "udp")]
        "udp" => {
            let source = crate::udp::UdpSource::bind(at.place, stream.channels)?;
            Ok(Box::new(source.spinning(at.spin()?)))
        }
        #[cfg(feature = "udp")]
        "cerebus" => {
            let protocol = crate::cerebus::Protocol::named(at.get("version").unwrap_or("4.1"))?;
            let source =
                crate::cerebus::CerebusSource::bind(at.place, protocol, stream.step_seconds)?;
            Ok(Box::new(source.spinning(at.spin()?)))
        }
        #[cfg(feature = "lsl")]
        "lsl" => {
            let source = crate::lsl::LslSource::named(at.place, stream.channels)?;
            beside_source(Box::new(source), stream)
        }
        #[cfg(feature = "brand")]
        "brand" => {
            let node = crate::brand::Place::new(at.place, at.get("nickname"))?;
            let samples = crate::brand::Samples::named(at.get("type").unwrap_or("int8"))?;
            let source = crate::brand::BrandSource::new(node, samples, stream.channels);
            beside_source(Box::new(source), stream)
        }
        #[cfg(feature = "zmq")]
        "zmq" => {
            let rate = at.number("rate", 30_000)?;
            let source = crate::zmq::EventSource::new(at.place, rate, stream.step_seconds)?;
            beside_source(Box::new(source), stream)
        }
        other => Err(Error::argument(format!(
            "no source {other}:// in this build"
        ))),
    }
}

#[cfg(any(feature = "lsl", feature = "brand", feature = "zmq"))]
fn beside_source(source: Box<dyn Source>, stream: &Stream<'_>) -> Result<Box<dyn Source>> {
    Ok(Box::new(super::threads::SourceThread::start(
        source,
        stream.channels,
    )?))
}

/// The sink at `address`: `udp://HOST:PORT`, `lsl://NAME`, `brand://…` as of a source, or `zmq://HOST:PORT?topic=NAME` (bound
/// here).
///
/// # Errors
/// `InvalidArgument` for another address, and those of the sink.
pub fn open_sink(address: &str, stream: &Stream<'_>) -> Result<Box<dyn Sink>> {
    let at = Address::parse(address, SINKS)?;
    match at.scheme {
        #[cfg(feature = "udp")]
        "udp" => Ok(Box::new(crate::udp::UdpSink::to(
            at.place,
            stream.outputs.len(),
        )?)),
        #[cfg(feature = "lsl")]
        "lsl" => {
            let sink = crate::lsl::LslSink::named(at.place, stream)?;
            beside_sink(Box::new(sink), stream)
        }
        #[cfg(feature = "brand")]
        "brand" => {
            let node = crate::brand::Place::new(at.place, at.get("nickname"))?;
            beside_sink(Box::new(crate::brand::BrandSink::new(node)), stream)
        }
        #[cfg(feature = "zmq")]
        "zmq" => {
            let topic = at.get("topic").unwrap_or(crate::zmq::TOPIC);
            let sink = crate::zmq::OutputSink::bind(at.place, topic, stream.outputs.len())?;
            beside_sink(Box::new(sink), stream)
        }
        other => Err(Error::argument(format!("no sink {other}:// in this build"))),
    }
}

#[cfg(any(feature = "lsl", feature = "brand", feature = "zmq"))]
fn beside_sink(sink: Box<dyn Sink>, stream: &Stream<'_>) -> Result<Box<dyn Sink>> {
    Ok(Box::new(super::threads::SinkThread::start(
        sink,
        stream.outputs.len(),
    )?))
}

/// The first of the addresses that `address`, `HOST:PORT`, stands for.
#[cfg_attr(not(any(feature = "udp", feature = "zmq")), allow(dead_code))]
pub(crate) fn resolve(address: &str) -> Result<SocketAddr> {
    let refused = |why: String| {
        Error::argument(format!(
            "address \"{address}\": expected HOST:PORT, got {why}"
        ))
    };
    let mut all = address
        .to_socket_addrs()
        .map_err(|e| refused(e.to_string()))?;
    all.next().ok_or_else(|| refused("no address".into()))
}
