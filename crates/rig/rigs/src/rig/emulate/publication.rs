//! A ZeroMQ publisher that takes subscribers in from a thread of its own.

use betz_base::lock::lock;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use betz_base::{Error, ErrorKind, Result};

use crate::zmq::Publisher;

/// Time that a subscriber may take to make room.
const ROOM: Duration = Duration::from_secs(10);

/// A publisher, attended until this is dropped.
pub(crate) struct Publication {
    publisher: Arc<Mutex<Publisher>>,
    is_closed: Arc<AtomicBool>,
    /// Attends to the publisher.
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
    /// Name of the emulated program, for errors.
    of: &'static str,
}

impl Publication {
    /// Binds a publisher for the emulator of `of`.
    pub(crate) fn bind(of: &'static str, at: SocketAddr) -> Result<Self> {
        let io = |e| Error::new(ErrorKind::Io, format!("emulator of {of} at {at}: {e}"));
        let publisher = Publisher::bind(at).map_err(io)?;
        let address = publisher.address().map_err(io)?;
        let publisher = Arc::new(Mutex::new(publisher));
        let is_closed = Arc::new(AtomicBool::new(false));
        let (shared, closed) = (Arc::clone(&publisher), Arc::clone(&is_closed));
        let thread = std::thread::Builder::new()
            .name("betz-publisher".into())
            .spawn(move || {
                while !closed.load(Ordering::Relaxed) {
                    lock(&shared).attend();
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
            .map_err(io)?;
        Ok(Self {
            publisher,
            is_closed,
            thread: Some(thread),
            address,
            of,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// True if somebody has subscribed.
    pub(crate) fn is_connected(&self) -> bool {
        lock(&self.publisher).has_subscriber()
    }

    /// Publishes a message of these parts; waits for a subscriber that has no room.
    pub(crate) fn publish(&self, parts: &[&[u8]]) -> Result<()> {
        let started = Instant::now();
        while lock(&self.publisher).send_parts(parts).without_room > 0 {
            if started.elapsed() > ROOM {
                return Err(Error::new(
                    ErrorKind::Io,
                    format!("emulator of {}: nobody reads", self.of),
                ));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The publisher goes with this, and not with the thread: it waits for its last messages.
            let _ = thread.join();
        }
    }
}
