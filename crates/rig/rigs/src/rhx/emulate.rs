//! Intan RHX' TCP servers.

use betz_base::lock::lock;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};

use super::{ROWS, SPIKE, WAVEFORMS};
use crate::rig::RigSpike;
use crate::rig::emulate::{Emulator, whole_rows};

/// Time that a client may take to receive what was written.
const WRITE: Duration = Duration::from_secs(10);

/// State that the threads share.
struct Controller {
    rate: f64,
    is_running: bool,
    /// Settings that were sent, as they came.
    commands: Vec<String>,
    waveforms: Option<TcpStream>,
    spikes: Option<TcpStream>,
    is_closed: bool,
}

/// Serves commands, waveforms and spikes as [`RhxRig`](crate::rig::RhxRig) asks for them.
pub struct RhxServer {
    controller: Arc<Mutex<Controller>>,
    /// Addresses of commands, waveforms and spikes.
    addresses: [SocketAddr; 3],
    channels: usize,
    next: u32,
    /// Rows of the block that is not whole yet, with their numbers.
    block: Vec<u8>,
    rows: usize,
    piece: usize,
    name: fn(u32) -> String,
}

impl RhxServer {
    /// A controller with `channels`, whose commands are heard at `at`; waveforms and spikes have the two ports behind it, or free
    /// ones if the port of `at` is 0.
    ///
    /// # Errors
    /// `Io` if the system gives no ports or threads.
    pub fn open(at: SocketAddr, channels: usize, rate: f64) -> Result<Self> {
        let io = |e| Error::new(ErrorKind::Io, format!("emulator of Intan RHX at {at}: {e}"));
        let controller = Arc::new(Mutex::new(Controller {
            rate,
            is_running: false,
            commands: Vec::new(),
            waveforms: None,
            spikes: None,
            is_closed: false,
        }));
        let mut addresses = [at; 3];
        for (port, address) in addresses.iter_mut().enumerate() {
            if at.port() > 0 {
                address.set_port(at.port().saturating_add(port as u16));
            }
            let listener = TcpListener::bind(*address).map_err(io)?;
            *address = listener.local_addr().map_err(io)?;
            let shared = Arc::clone(&controller);
            std::thread::Builder::new()
                .name("betz-rhx".into())
                .spawn(move || accept(&listener, port, &shared))
                .map_err(io)?;
        }
        Ok(Self {
            controller,
            addresses,
            channels,
            next: 0,
            block: Vec::new(),
            rows: 0,
            piece: usize::MAX,
            name: |channel| {
                format!(
                    "{}-{:03}",
                    (b'A' + (channel / 128) as u8) as char,
                    channel % 128
                )
            },
        })
    }

    /// The address that a rig is opened with, without further keys.
    pub fn address(&self) -> String {
        let [commands, waveforms, spikes] = self.addresses;
        format!(
            "rhx://{commands}?waveforms={}&spikes={}",
            waveforms.port(),
            spikes.port()
        )
    }

    /// Writes at most so many bytes at once.
    pub fn set_piece(&mut self, bytes: usize) {
        self.piece = bytes.max(1);
    }

    /// True if a client has connected to waveforms or spikes.
    pub fn is_connected(&self) -> bool {
        let controller = self.lock();
        controller.waveforms.is_some() || controller.spikes.is_some()
    }

    /// True if the controller was started.
    pub fn is_running(&self) -> bool {
        self.lock().is_running
    }

    /// Commands that came, in their order.
    pub fn commands(&self) -> Vec<String> {
        self.lock().commands.clone()
    }

    /// Cuts the connections of waveforms and spikes.
    pub fn disconnect(&mut self) {
        let mut controller = self.lock();
        (controller.waveforms, controller.spikes) = (None, None);
    }

    /// Sends bytes among the waveforms, as damage.
    ///
    /// # Errors
    /// An error of the system.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let stream = self
            .lock()
            .waveforms
            .as_ref()
            .and_then(|s| s.try_clone().ok());
        self.write(stream, bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Controller> {
        lock(&self.controller)
    }

    fn write(&self, stream: Option<TcpStream>, bytes: &[u8]) -> Result<()> {
        // Without a client RHX writes nowhere.
        let Some(mut stream) = stream else {
            return Ok(());
        };
        for part in bytes.chunks(self.piece) {
            stream.write_all(part).map_err(|e| {
                Error::new(
                    ErrorKind::Io,
                    format!("emulator of Intan RHX: writing: {e}"),
                )
            })?;
        }
        Ok(())
    }
}

/// Accepts connections at the port of commands (0), waveforms (1) or spikes (2).
fn accept(listener: &TcpListener, port: usize, controller: &Arc<Mutex<Controller>>) {
    for stream in listener.incoming().flatten() {
        if lock(controller).is_closed {
            return;
        }
        let _ = stream.set_nodelay(true);
        let _ = stream.set_write_timeout(Some(WRITE));
        match port {
            1 => lock(controller).waveforms = Some(stream),
            2 => lock(controller).spikes = Some(stream),
            _ => {
                let shared = Arc::clone(controller);
                drop(std::thread::Builder::new().spawn(move || obey(stream, &shared)));
            }
        }
    }
}

/// Reads commands until the client goes away.
fn obey(mut stream: TcpStream, controller: &Mutex<Controller>) {
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    loop {
        let read = match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        text += &String::from_utf8_lossy(&piece[..read]);
        while let Some((command, rest)) = text.split_once(';') {
            let command = command.trim().to_string();
            text = rest.to_string();
            let words: Vec<String> = command.split_whitespace().map(str::to_lowercase).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let mut state = lock(controller);
            let answer = match words[..] {
                ["get", "sampleratehertz"] => format!("Return: SampleRateHertz {}", state.rate),
                ["get", "runmode"] => {
                    format!(
                        "Return: RunMode {}",
                        if state.is_running { "Run" } else { "Stop" }
                    )
                }
                ["get", name] => format!("Unrecognized parameter: {name}"),
                ["set", "runmode", mode] => {
                    state.is_running = mode == "run";
                    String::new()
                }
                _ => String::new(),
            };
            if !words.starts_with(&["get"]) {
                state.commands.push(command);
            }
            drop(state);
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

impl Emulator for RhxServer {
    /// Rows are written when 128 of them are there.
    fn send(&mut self, voltage: &[i16]) -> Result<()> {
        whole_rows(voltage, self.channels)?;
        for row in voltage.chunks(self.channels) {
            if self.rows == 0 {
                self.block.extend(WAVEFORMS.to_le_bytes());
            }
            self.block.extend(self.next.to_le_bytes());
            let words = row.iter().map(|v| (*v as u16 ^ 0x8000).to_le_bytes());
            self.block.extend(words.flatten());
            self.next = self.next.wrapping_add(1);
            self.rows += 1;
            if self.rows == ROWS {
                self.rows = 0;
                let block = std::mem::take(&mut self.block);
                self.send_bytes(&block)?;
            }
        }
        Ok(())
    }

    fn lose(&mut self, rows: u64) -> Result<()> {
        self.next = self.next.wrapping_add(rows as u32);
        Ok(())
    }

    fn spike(&mut self, spike: RigSpike) -> Result<()> {
        let mut bytes = SPIKE.to_le_bytes().to_vec();
        bytes.extend((self.name)(spike.channel).bytes());
        bytes.extend((spike.tick as u32).to_le_bytes());
        bytes.push(match spike.unit {
            0 => 0x40,
            255 => 0x80,
            unit => 1 << ((unit - 1) % 4),
        });
        let stream = self.lock().spikes.as_ref().and_then(|s| s.try_clone().ok());
        self.write(stream, &bytes)
    }

    fn is_heard(&self) -> bool {
        self.is_connected()
    }

    fn restart(&mut self) -> Result<()> {
        self.next = 0;
        self.block.clear();
        self.rows = 0;
        Ok(())
    }

    fn next_row(&self) -> u64 {
        u64::from(self.next)
    }
}

impl Drop for RhxServer {
    fn drop(&mut self) {
        self.lock().is_closed = true;
        // Wakes the threads that wait for connections.
        for address in self.addresses {
            drop(TcpStream::connect_timeout(&address, Duration::from_secs(1)));
        }
    }
}
