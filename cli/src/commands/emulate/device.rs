//! Devices that are emulated, and the addresses at which they are reached.

use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};

use betz::{Error, ErrorKind, Result};
use betz_rigs::cerebus::Protocol;
use betz_rigs::rig::Signal;
use betz_rigs::rig::emulate::{
    BrandRedis, CerebusDevice, Emulator, FREE_PORT, FrameSender, LslOutlet, OpenEphysPublisher,
    RhxServer, SpikeGlxServer, SynapseTap,
};
use clap::ValueEnum;

/// Microvolts per bit of Intan's chips.
const INTAN: f64 = 0.195;
/// Sample groups of Cerebus and their rates; the last is raw.
const GROUPS: [(u8, f64); 5] = [
    (1, 500.0),
    (2, 1000.0),
    (3, 2000.0),
    (4, 10_000.0),
    (6, 30_000.0),
];

/// Device that is emulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Device {
    /// BRAND: a Redis with its graph
    Brand,
    /// Blackrock Cerebus, group raw of version 4.1
    Cerebus,
    /// A stream of Lab Streaming Layer; needs liblsl
    Lsl,
    /// SpikeGLX with a NI device: analogue channels and two words of digital lines
    Nidq,
    /// Open Ephys with the plugin "ZMQ Interface"
    Openephys,
    /// Intan RHX
    Rhx,
    /// Shared memory
    #[cfg(target_os = "linux")]
    Shm,
    /// SpikeGLX
    Spikeglx,
    /// A tap of a Synapse device
    Synapse,
    /// Plain datagrams of int16
    Udp,
}

/// Places of a device.
pub(crate) struct Place {
    /// Address at which the device is reached.
    pub(crate) at: SocketAddr,
    /// Address to which it sends its datagrams.
    pub(crate) to: String,
    /// Its name, where it has one.
    pub(crate) name: String,
}

impl Place {
    /// Free ports of this machine.
    ///
    /// # Errors
    /// `Io` if there are none.
    pub(crate) fn free(name: &str) -> Result<Self> {
        let address = UdpSocket::bind(FREE_PORT).and_then(|socket| socket.local_addr());
        let io = |e| Error::new(ErrorKind::Io, format!("emulated device: no free port: {e}"));
        Ok(Self {
            at: FREE_PORT,
            to: address.map_err(io)?.to_string(),
            name: format!("betz-{name}-{}", std::process::id()),
        })
    }

    /// The places that a user gave, else those of the real device on this machine.
    ///
    /// # Errors
    /// `InvalidArgument` for an address that is none.
    pub(super) fn of(
        device: Device,
        at: Option<&str>,
        to: Option<&str>,
        name: &str,
    ) -> Result<Self> {
        let (port, receiver) = device.ports();
        let refused = |at: &str| {
            Error::argument(format!(
                "--at {at}: expected HOST:PORT, such as 0.0.0.0:{port}"
            ))
        };
        let at = match at {
            Some(at) => (at.to_socket_addrs().ok())
                .and_then(|mut all| all.next())
                .ok_or_else(|| refused(at))?,
            None => SocketAddr::new(FREE_PORT.ip(), port),
        };
        Ok(Self {
            at,
            to: to.map_or_else(|| format!("127.0.0.1:{receiver}"), ToOwned::to_owned),
            name: name.to_owned(),
        })
    }
}

impl Device {
    /// Microvolts per bit of what it sends.
    pub(crate) const fn microvolts(self) -> f64 {
        match self {
            Self::Openephys | Self::Rhx => INTAN,
            _ => 0.25,
        }
    }

    /// The port at which the device is reached, and the one to which it sends.
    const fn ports(self) -> (u16, u16) {
        match self {
            Self::Brand => (6379, 0),
            Self::Cerebus => (51_001, 51_002),
            Self::Openephys => (5556, 0),
            Self::Rhx => (5000, 0),
            Self::Nidq | Self::Spikeglx => (4142, 0),
            Self::Udp => (0, 5000),
            _ => (0, 0),
        }
    }

    /// The number of the digital line at which the device hears pulses: SYNC of a probe is bit 6.
    pub(super) const fn sync_line(self) -> Option<u8> {
        match self {
            Self::Cerebus | Self::Nidq | Self::Openephys => Some(1),
            Self::Spikeglx => Some(7),
            _ => None,
        }
    }

    /// The sending side for rows of `signal`, and the address at which a session hears it.
    ///
    /// # Errors
    /// `Io` if a port is taken, or the system gives no thread or memory; `InvalidArgument` for a signal that the protocol does
    /// not take.
    pub(crate) fn open(
        self,
        signal: &Signal,
        place: &Place,
    ) -> Result<(Box<dyn Emulator>, String)> {
        let (channels, rate) = (signal.channels, signal.rate);
        let microvolts = signal.microvolts.unwrap_or(self.microvolts());
        let (at, to) = (place.at, &place.to);
        Ok(match self {
            Self::Brand => {
                let redis = BrandRedis::open(at, channels, rate)?;
                let address = redis.address();
                (Box::new(redis), address)
            }
            Self::Cerebus => {
                let (group, name) = group(rate)?;
                let device = CerebusDevice::new(to, Protocol::V41, true, group, channels)?;
                let mut device = device.bound_to(&at.to_string())?;
                device.describe()?;
                let digital = device.digital_channel();
                let address = format!("cerebus://{to}?group={name}&digital={digital}");
                (Box::new(device), address)
            }
            Self::Lsl => {
                let outlet = LslOutlet::open(&place.name, channels, rate)?;
                (Box::new(outlet), format!("lsl://{}", place.name))
            }
            Self::Nidq => {
                let room = rate as usize;
                let server = SpikeGlxServer::open_ni(at, channels, 2, rate, microvolts, room)?;
                let address = format!("spikeglx://{}?js=0&ip=0&sync=1", server.address());
                (Box::new(server), address)
            }
            Self::Openephys => {
                let publisher = OpenEphysPublisher::bind(at, channels, rate, microvolts)?;
                let address = format!("openephys://{}", publisher.address());
                (Box::new(publisher), address)
            }
            Self::Rhx => {
                let server = RhxServer::open(at, channels, rate)?;
                let address = server.address();
                (Box::new(server), address)
            }
            #[cfg(target_os = "linux")]
            Self::Shm => {
                let room = 1 << 16;
                let writer = betz_rigs::rig::emulate::SharedWriter::create(
                    &place.name,
                    channels,
                    rate,
                    microvolts,
                    room,
                )?;
                (Box::new(writer), format!("shm:///{}", place.name))
            }
            Self::Spikeglx => {
                let server = SpikeGlxServer::open(at, channels, rate, microvolts, rate as usize)?;
                let address = format!("spikeglx://{}?js=2&ip=0&sync=1", server.address());
                (Box::new(server), address)
            }
            Self::Synapse => {
                let tap = SynapseTap::bind(at, channels, rate)?;
                let address = format!("synapse://{}", tap.address());
                (Box::new(tap), address)
            }
            Self::Udp => {
                let sender = FrameSender::new(to, channels, rate)?;
                (Box::new(sender), format!("udp://{to}"))
            }
        })
    }
}

/// The sample group of a rate, and its name in an address.
fn group(rate: f64) -> Result<(u8, String)> {
    match GROUPS.iter().find(|(_, of)| *of == rate) {
        Some((6, _)) => Ok((6, "raw".into())),
        Some((group, _)) => Ok((*group, group.to_string())),
        None => Err(Error::argument(format!(
            "emulated Cerebus: expected rows at 500, 1000, 2000, 10000 or 30000 Hz, got {rate} Hz"
        ))),
    }
}
