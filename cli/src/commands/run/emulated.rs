//! `betz run --simulate=RIG`: the voltage of the simulated rig by the protocol of a device, over the loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use betz::{Error, ErrorKind, Result};
use betz_live::plan::{Sends, SourcePlan};
use betz_live::{Pace, Part, Simulation};
use betz_rigs::rig::emulate::Emulator;
use betz_rigs::rig::{Arrival, Block, Rig, Samples};

use crate::commands::emulate::{Device, Place};

/// Time between two looks for a receiver.
const LOOK: Duration = Duration::from_millis(1);

/// Time after which the thread looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(50);

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
        let place = Place::free("simulated")?;
        let (emulator, address) = device.open(&signal, &place)?;
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
        emulator.attend()?;
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
