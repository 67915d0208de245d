//! Emulators: the sending side of each rig, for tests and for sessions without hardware.
//!
//! An [`Emulator`] counts rows as its device does. Tests let it lose rows, restart, or send damaged packets, and
//! compare the blocks that a rig gives with the rows that were sent.

pub(crate) mod publication;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use betz_base::{Error, ErrorKind, Result};

pub use crate::brand::emulate::BrandRedis;
pub use crate::cerebus::emulate::CerebusDevice;
pub use crate::lsl::emulate::LslOutlet;
pub use crate::openephys::emulate::OpenEphysPublisher;
pub use crate::rhx::emulate::RhxServer;
#[cfg(target_os = "linux")]
pub use crate::shared::emulate::SharedWriter;
pub use crate::spikeglx::emulate::SpikeGlxServer;
pub use crate::synapse::emulate::SynapseTap;
pub use crate::udp::emulate::FrameSender;

use super::RigSpike;

/// The sending side of a rig.
pub trait Emulator: Send {
    /// Sends rows of int16, each with all channels.
    ///
    /// # Errors
    /// An error of the system.
    fn send(&mut self, voltage: &[i16]) -> Result<()>;

    /// Counts `rows` as sent and does not send them.
    ///
    /// # Errors
    /// An error of the system.
    fn lose(&mut self, rows: u64) -> Result<()>;

    /// Sends a spike, if the rig has spikes beside voltage. `tick` is a number of a row.
    ///
    /// # Errors
    /// An error of the system.
    fn spike(&mut self, spike: RigSpike) -> Result<()> {
        let _ = spike;
        Ok(())
    }

    /// Changes a digital line, from 1, at the next row, if the rig has lines.
    ///
    /// # Errors
    /// An error of the system.
    fn edge(&mut self, line: u8, is_up: bool) -> Result<()> {
        let _ = (line, is_up);
        Ok(())
    }

    /// Answers the requests that have come meanwhile, where the device is asked by datagrams.
    ///
    /// # Errors
    /// An error of the system.
    fn attend(&mut self) -> Result<()> {
        Ok(())
    }

    /// Sends rows that wait for a whole block.
    ///
    /// # Errors
    /// An error of the system.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// Begins to count from 0 again, as after a reboot.
    ///
    /// # Errors
    /// An error of the system.
    fn restart(&mut self) -> Result<()>;

    /// Number of the next row.
    fn next_row(&self) -> u64;

    /// True if somebody receives the rows, as far as the rig can tell. What is sent before is lost, and where rows have no
    /// numbers, nobody knows.
    fn is_heard(&self) -> bool {
        true
    }
}

/// A free port of this machine.
pub const FREE_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A socket that sends to one address.
pub(crate) struct Sender {
    pub(crate) socket: std::net::UdpSocket,
    pub(crate) to: std::net::SocketAddr,
}

impl Sender {
    pub(crate) fn new(to: &str) -> Result<Self> {
        let any = if crate::bus::resolve(to)?.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        Self::bound(any, to)
    }

    /// Sends from `at`, where questions are answered. `to` may be the address of a network's broadcast.
    pub(crate) fn bound(at: &str, to: &str) -> Result<Self> {
        let to = crate::bus::resolve(to)?;
        let io = |e| sending(to, e);
        let socket = std::net::UdpSocket::bind(crate::bus::resolve(at)?).map_err(io)?;
        socket.set_broadcast(true).map_err(io)?;
        Ok(Self { socket, to })
    }

    pub(crate) fn send(&self, datagram: &[u8]) -> Result<()> {
        match self.socket.send_to(datagram, self.to) {
            Ok(_) => Ok(()),
            // Nobody listens yet: a device sends on all the same.
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => Ok(()),
            Err(e) => Err(sending(self.to, e)),
        }
    }
}

/// The next datagram of a socket that does not block, and its sender; `None` if none waits.
///
/// # Errors
/// The errors of the socket, but for the refusals of what it sent before: Windows tells them here, and datagrams may wait behind them.
pub(crate) fn next_datagram(
    socket: &std::net::UdpSocket,
    bytes: &mut [u8],
) -> std::io::Result<Option<(usize, SocketAddr)>> {
    use std::io::ErrorKind as Io;
    loop {
        match socket.recv_from(bytes) {
            Ok(found) => return Ok(Some(found)),
            Err(e) if e.kind() == Io::WouldBlock => return Ok(None),
            Err(e)
                if matches!(
                    e.kind(),
                    Io::ConnectionRefused | Io::ConnectionReset | Io::Interrupted
                ) => {}
            Err(e) => return Err(e),
        }
    }
}

pub(crate) fn sending(to: std::net::SocketAddr, e: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("emulator: sending to {to}: {e}"))
}

/// Refuses voltage that is not whole rows.
pub(crate) fn whole_rows(voltage: &[i16], channels: usize) -> Result<usize> {
    if channels == 0 || !voltage.len().is_multiple_of(channels) {
        return Err(Error::argument(format!(
            "emulator: expected whole rows of {channels} channels, got {} values",
            voltage.len()
        )));
    }
    Ok(voltage.len() / channels)
}
