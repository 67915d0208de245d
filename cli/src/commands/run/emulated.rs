//! `betz run --simulate=RIG`: the voltage of the simulated rig by the protocol of a device, over the loopback.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use betz::{Error, ErrorKind, Result};
use betz_interop::rig::emulate::{
    BrandRedis, CerebusDevice, Emulator, FrameSender, LslOutlet, OpenEphysPublisher, RhxServer,
    SpikeGlxServer, SynapseTap,
};
use betz_interop::rig::{Arrival, Block, Rig, Samples, Signal};
use betz_interop::udp::cerebus::Protocol;
use betz_live::plan::{Sends, SourcePlan};
use betz_live::{Pace, Part, Simulation};
use clap::ValueEnum;

/// Microvolts per bit of Intan's chips.
const INTAN: f64 = 0.195;

/// Time between two looks for a receiver.
const LOOK: Duration = Duration::from_millis(1);

/// Time after which the thread looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(50);

/// Device whose protocol the simulated rig speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Device {
    /// BRAND: a Redis with its graph
    Brand,
    /// Blackrock Cerebus, group raw of version 4.1
    Cerebus,
    /// A stream of Lab Streaming Layer; needs liblsl
    Lsl,
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

impl Device {
    /// Microvolts per bit of what it sends.
    pub(super) const fn microvolts(self) -> f64 {
        match self {
            Self::Openephys | Self::Rhx => INTAN,
            _ => 0.25,
        }
    }

    /// The sending side for rows of `signal`, and the address at which a session hears it.
    fn open(self, signal: &Signal) -> Result<(Box<dyn Emulator>, String)> {
        let (channels, rate, microvolts) = (signal.channels, signal.rate, self.microvolts());
        Ok(match self {
            Self::Brand => {
                let redis = BrandRedis::open(channels, rate)?;
                let address = redis.address();
                (Box::new(redis), address)
            }
            Self::Cerebus => {
                let to = free_port()?;
                let mut device = CerebusDevice::new(&to, Protocol::V41, true, 6, channels)?;
                device.describe()?;
                (Box::new(device), format!("cerebus://{to}?group=raw"))
            }
            Self::Lsl => {
                let name = format!("betz-simulated-{}", std::process::id());
                let outlet = LslOutlet::open(&name, channels, rate)?;
                (Box::new(outlet), format!("lsl://{name}"))
            }
            Self::Openephys => {
                let rows = (rate * 0.001).max(1.0) as usize;
                let publisher = OpenEphysPublisher::bind(channels, rate, microvolts, rows)?;
                let address = format!("openephys://{}", publisher.address());
                (Box::new(publisher), address)
            }
            Self::Rhx => {
                let server = RhxServer::open(channels, rate)?;
                let address = server.address();
                (Box::new(server), address)
            }
            #[cfg(target_os = "linux")]
            Self::Shm => {
                let name = format!("betz-simulated-{}", std::process::id());
                let room = 1 << 16;
                let writer = betz_interop::rig::emulate::SharedWriter::create(
                    &name, channels, rate, microvolts, room,
                )?;
                (Box::new(writer), format!("shm:///{name}"))
            }
            Self::Spikeglx => {
                let server = SpikeGlxServer::open(channels, rate, microvolts, rate as usize)?;
                let address = format!("spikeglx://{}?js=2&ip=0", server.address());
                (Box::new(server), address)
            }
            Self::Synapse => {
                let tap = SynapseTap::bind(channels, rate)?;
                let address = format!("synapse://{}", tap.address());
                (Box::new(tap), address)
            }
            Self::Udp => {
                let to = free_port()?;
                let sender = FrameSender::new(&to, channels, rate)?;
                (Box::new(sender), format!("udp://{to}"))
            }
        })
    }
}

/// A port of this machine that nobody uses.
fn free_port() -> Result<String> {
    let address = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let io = |e| Error::new(ErrorKind::Io, format!("simulated rig: no free port: {e}"));
    Ok(address.map_err(io)?.to_string())
}

/// A device that is ready to send.
pub(super) struct ReadyDevice {
    emulator: Box<dyn Emulator>,
}

impl ReadyDevice {
    /// Opens `device` for a rig of `simulation`, and makes `source` its other end.
    ///
    /// # Errors
    /// `Io` if the system gives no port, thread or memory; `InvalidArgument` for more channels than the protocol takes.
    pub(super) fn open(
        device: Device,
        simulation: &Simulation,
        source: &mut SourcePlan,
    ) -> Result<Self> {
        let signal = simulation.signal();
        let (emulator, address) = device.open(&signal)?;
        source.from = address;
        source.sends = Some(Sends::Samples);
        source.channels = Some(signal.channels);
        source.rate = Some(signal.rate);
        source.microvolts = Some(device.microvolts());
        Ok(Self { emulator })
    }

    /// Sends the part to run on in real time, from a thread.
    ///
    /// # Errors
    /// `Io` if the system cannot start the thread.
    pub(super) fn start(self, simulation: &Simulation) -> Result<RunningDevice> {
        let simulation = simulation.clone();
        let ends = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&ends);
        let mut emulator = self.emulator;
        let thread = std::thread::Builder::new()
            .name("betz-device".into())
            .spawn(move || {
                while !emulator.is_heard() && !asked.load(Ordering::Relaxed) {
                    std::thread::sleep(LOOK);
                }
                let rig = simulation.rig(Part::Run, Pace::RealTime);
                if let Err(error) = send(rig, &mut *emulator, &asked)
                    && !asked.load(Ordering::Relaxed)
                {
                    eprintln!("simulated rig: {}", error.message());
                }
            })
            .map_err(|e| Error::new(ErrorKind::Io, format!("simulated rig: no thread: {e}")))?;
        Ok(RunningDevice {
            ends,
            thread: Some(thread),
        })
    }
}

/// Sends blocks as they come until it is to end.
fn send(mut rig: impl Rig, emulator: &mut dyn Emulator, ends: &AtomicBool) -> Result<()> {
    let mut block = Block::new();
    while !ends.load(Ordering::Relaxed) {
        if rig.take(&mut block, PATIENCE)? != Arrival::Block {
            continue;
        }
        if let Samples::Voltage(voltage) = &block.samples {
            emulator.send(voltage)?;
        }
    }
    Ok(())
}

/// A device at work. It ends with this.
pub(super) struct RunningDevice {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for RunningDevice {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
