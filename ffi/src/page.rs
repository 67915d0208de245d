//! The page of a running session (`include/betz_page.h`).

use std::ffi::{CString, c_char};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::betz_monitor::{Feed, Monitor, Options, Source};
use betz::model::Decoder;
use betz::stream::Tap;

use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::failure::{Failure, Result};
use crate::grow::{self, Config, grows};
use crate::hearing::{Attachment, attach_page};
use crate::model::{betz_model, decoder};
use crate::session::betz_session;
use crate::status::betz_status;
use crate::workers::{Process, Workers};

/// The page of a session, served by two threads of low priority.
pub struct betz_monitor {
    /// To the session that the page shows; dropped before the monitor.
    attachment: ManuallyDrop<Mutex<Option<Attachment>>>,
    monitor: ManuallyDrop<Monitor>,
    /// The feed, until it is attached.
    feed: Mutex<Option<Feed>>,
    attached: Arc<AtomicBool>,
    decoder: Arc<Decoder>,
    url: CString,
    /// The process that has the page's threads.
    process: Process,
    poison: Poison,
}

impl Handle for betz_monitor {
    const NAME: &'static str = "monitor";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl Drop for betz_monitor {
    fn drop(&mut self) {
        // A forked child must not wait: the threads exist only in the parent.
        if self.process == Process::current() {
            // SAFETY: dropped here and never touched again.
            unsafe {
                ManuallyDrop::drop(&mut self.attachment);
                ManuallyDrop::drop(&mut self.monitor);
            }
        }
    }
}

grows! {
    /// Options of a page: zero it, then set struct_size and the fields that you need. Texts are copied.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_monitor_config {
        /// `sizeof(betz_monitor_config)`.
        pub struct_size: u32,
        /// Port to listen on; 0 chooses a free one.
        pub port: u32,
        /// Name of the session on the page, UTF-8; NULL: "a session".
        pub name: *const c_char,
        /// IP address to listen on; NULL: 127.0.0.1. On any other address, everybody on the network path can read
        /// along.
        pub address: *const c_char,
        /// Deadline of a step in microseconds. Slower steps are marked and the frames around them are stored. 0:
        /// none.
        pub deadline_us: f64,
    }
}

impl Config for betz_monitor_config {
    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>() as u32,
            ..grow::zeroed()
        }
    }
}

/// Fills a page's configuration of `size` bytes (pass `sizeof`) with the defaults.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `config` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_monitor_config_default(
    config: *mut betz_monitor_config,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    barrier::run(|| unsafe { grow::write_defaults(config, size) })
}

/// Opens the page of a session that runs `model`, and starts its threads. `config` may be NULL, which means 0 and NULL
/// in all fields. The page is read-only. Fails with `BETZ_ERROR_IO` if the address cannot be bound. The caller frees
/// the page with `betz_monitor_close`.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `model` is NULL or a live model; `config` is NULL or a configuration whose texts are NULL or
/// NUL-terminated; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_monitor_open(
    model: *const betz_model,
    config: *const betz_monitor_config,
    out: *mut *mut betz_monitor,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (out, decoder) = unsafe { (cast::out(out, "out")?, decoder(model)?) };
        // SAFETY: the caller's promise.
        let (name, options, deadline) = unsafe { read(config)? };
        let mut source = Source::of(&name, &decoder);
        source.deadline = deadline;
        let start = || Ok(Monitor::start(source, options)?);
        let (monitor, feed) = Workers::plain().run(start)?;
        out.write(cast::into_handle(betz_monitor {
            attachment: ManuallyDrop::default(),
            url: CString::new(monitor.url()).unwrap_or_default(),
            monitor: ManuallyDrop::new(monitor),
            feed: Mutex::new(Some(feed)),
            attached: Arc::default(),
            decoder,
            process: Process::current(),
            poison: Poison::default(),
        })?);
        Ok(())
    })
}

/// Reads a configuration: name, options and deadline.
///
/// # Safety
/// The requirements of [`betz_monitor_open`].
unsafe fn read(config: *const betz_monitor_config) -> Result<(String, Options, Option<Duration>)> {
    let given = match config.is_null() {
        true => betz_monitor_config::defaults(),
        // SAFETY: the caller's promise.
        false => unsafe { grow::read(config, "config")? },
    };
    // SAFETY: the caller's promise.
    let name = unsafe { cast::text_or(given.name, "config->name", "a session")? };
    // SAFETY: as above.
    let address = unsafe { cast::text_or(given.address, "config->address", "127.0.0.1")? };
    let refuse = |name, expected| Failure::Argument { name, expected };
    let options = Options {
        address: (address.parse())
            .map_err(|_| refuse("config->address", "an address in numbers"))?,
        port: (given.port.try_into()).map_err(|_| refuse("config->port", "one below 65,536"))?,
        ..Options::default()
    };
    let deadline = if given.deadline_us == 0.0 {
        None
    } else {
        let deadline = Duration::try_from_secs_f64(given.deadline_us * 1e-6);
        Some(deadline.map_err(|_| refuse("config->deadline_us", "microseconds, or 0"))?)
    };
    Ok((name.to_owned(), options, deadline))
}

/// Shows `session` on the page from its next step on, which gets the tick `first_tick`. A step never waits for the
/// page: a step that does not fit is counted there as not shown. A page shows one session; either may be closed first.
/// Fails with `BETZ_ERROR_MISMATCH` if the session's channels, outputs or step differ from the model's.
///
/// Thread-safe: yes, also while the session steps in another thread. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `monitor` is NULL or a live monitor; `session` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_monitor_attach(
    monitor: *mut betz_monitor,
    session: *mut betz_session,
    first_tick: i64,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(monitor.cast_const(), |monitor| {
            monitor.process.check(betz_monitor::NAME)?;
            let (session, _guard) = barrier::second(session.cast_const())?;
            let feed = || {
                let mut feed = monitor.feed.lock().unwrap_or_else(PoisonError::into_inner);
                feed.take().map(|feed| Box::new(feed) as Box<dyn Tap>)
            };
            let attached = attach_page(
                session,
                &monitor.decoder,
                &monitor.attached,
                first_tick,
                feed,
            )?;
            let mut kept = (monitor.attachment.lock()).unwrap_or_else(PoisonError::into_inner);
            *kept = Some(attached);
            Ok(())
        })
    }
}

/// Address to open in a browser. It contains the token, so everybody who has it can watch. Valid until the monitor is
/// closed; NULL for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `monitor` is NULL or a live monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_monitor_url(monitor: *const betz_monitor) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { monitor.as_ref() }.map_or(ptr::null(), |monitor| monitor.url.as_ptr())
}

/// Number of pages that watch now; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `monitor` is NULL or a live monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_monitor_viewers(monitor: *const betz_monitor) -> usize {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(monitor, 0, |monitor| monitor.monitor.viewers()) }
}

/// Ends the page and frees it; the session goes on. Does nothing for NULL.
///
/// Thread-safe: no (nobody may use the page any more). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `monitor` is NULL or a live monitor, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_monitor_close(monitor: *mut betz_monitor) {
    // SAFETY: the caller's promise; it came from `betz_monitor_open`.
    barrier::run_free(|| unsafe { cast::drop_handle(monitor) });
}
