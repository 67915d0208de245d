//! libbetz_page.so: libbetz plus the page of a running session (`include/betz_page.h`).
//!
//! It is a separate library, so that libbetz contains no server. It also has all functions of libbetz, because a
//! session belongs to one library: link one of the two.
#![allow(
    unsafe_code,
    non_camel_case_types,
    reason = "functions of C, with their contracts"
)]

use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::betz_monitor::{Feed, Monitor, Options, Source};
use betz::model::Decoder;
use betz::stream::Tap;
use betz_ffi::beside::{self, Refusal};
use betz_ffi::model::betz_model;
use betz_ffi::session::betz_session;
use betz_ffi::status::betz_status;

pub use betz_ffi as functions;

/// Keeps the process alive when memory runs out, as in libbetz.
#[global_allocator]
static MEMORY: betz_ffi::BetzAllocator = betz_ffi::BetzAllocator;

/// The page of a session, served by two threads of low priority.
pub struct betz_monitor {
    monitor: Monitor,
    /// The feed, until it is attached.
    feed: Mutex<Option<Feed>>,
    attached: AtomicBool,
    decoder: Arc<Decoder>,
    url: CString,
}

/// Options of a page. Texts are copied.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct betz_monitor_config {
    /// `sizeof(betz_monitor_config)` of the caller.
    pub struct_size: u32,
    /// Port to listen on; 0 chooses a free one.
    pub port: u32,
    /// Name of the session on the page, UTF-8; NULL: "a session".
    pub name: *const c_char,
    /// IP address to listen on; NULL: 127.0.0.1.
    pub address: *const c_char,
    /// Deadline of a step in microseconds. Slower steps are marked and the frames around them are stored. 0: none.
    pub deadline_us: f64,
}

/// Opens the page of a session that runs `model`. `config` may be NULL, which means 0 and NULL in all fields. The
/// caller frees the page with `betz_monitor_close`.
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
    beside::run(|| {
        if out.is_null() {
            return Err(Refusal::null("out"));
        }
        // SAFETY: the caller's promise.
        let decoder = unsafe { beside::decoder(model)? };
        // SAFETY: the caller's promise.
        let (name, options, deadline) = unsafe { read(config)? };
        let mut source = Source::of(&name, &decoder);
        source.deadline = deadline;
        let (monitor, feed) = beside::start(|| Monitor::start(source, options))?;
        let made = Box::new(betz_monitor {
            url: CString::new(monitor.url()).unwrap_or_default(),
            monitor,
            feed: Mutex::new(Some(feed)),
            attached: AtomicBool::new(false),
            decoder,
        });
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { out.write(Box::into_raw(made)) };
        Ok(())
    })
}

/// Reads a configuration: name, options and deadline.
///
/// # Safety
/// The requirements of [`betz_monitor_open`].
unsafe fn read(
    config: *const betz_monitor_config,
) -> Result<(String, Options, Option<Duration>), Refusal> {
    let mut given = betz_monitor_config {
        struct_size: 0,
        port: 0,
        name: ptr::null(),
        address: ptr::null(),
        deadline_us: 0.0,
    };
    if !config.is_null() {
        // SAFETY: the caller's promise; the first field alone, until its size is known.
        let size = unsafe { config.cast::<u32>().read() };
        if size as usize != size_of::<betz_monitor_config>() {
            let expected = "sizeof(betz_monitor_config), as this library has it";
            return Err(Refusal::argument("config->struct_size", expected));
        }
        // SAFETY: the caller's promise, of that size.
        given = unsafe { config.read() };
    }
    // SAFETY: the caller's promise.
    let name = unsafe { beside::text(given.name, "config->name", "a session")? };
    // SAFETY: as above.
    let address = unsafe { beside::text(given.address, "config->address", "127.0.0.1")? };
    let wrong = |field, expected| move |_| Refusal::argument(field, expected);
    let options = Options {
        address: (address.parse())
            .map_err(|_| Refusal::argument("config->address", "an address in numbers"))?,
        port: u16::try_from(given.port).map_err(wrong("config->port", "one below 65,536"))?,
        ..Options::default()
    };
    let deadline = if given.deadline_us == 0.0 {
        None
    } else {
        let deadline = Duration::try_from_secs_f64(given.deadline_us * 1e-6);
        let what = "microseconds, or 0";
        Some(deadline.map_err(|_| Refusal::argument("config->deadline_us", what))?)
    };
    Ok((name.to_owned(), options, deadline))
}

/// Shows `session` on the page from its next step on, which gets the tick `first_tick`. No step waits for the page. A
/// page shows one session.
///
/// # Safety
/// `monitor` is NULL or a live monitor; `session` is NULL or a live session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_monitor_attach(
    monitor: *mut betz_monitor,
    session: *mut betz_session,
    first_tick: i64,
) -> betz_status {
    beside::run(|| {
        // SAFETY: the caller's promise.
        let monitor = unsafe { monitor.as_ref() }.ok_or_else(|| Refusal::null("monitor"))?;
        let feed = || {
            let mut feed = monitor.feed.lock().unwrap_or_else(PoisonError::into_inner);
            feed.take().map(|feed| Box::new(feed) as Box<dyn Tap>)
        };
        // SAFETY: the caller's promise.
        unsafe {
            beside::attach(
                session,
                &monitor.decoder,
                &monitor.attached,
                first_tick,
                feed,
            )
        }
    })
}

/// Address to open in a browser. It contains the token, so everybody who has it can watch. Valid until the monitor is
/// closed; NULL for NULL.
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
/// # Safety
/// `monitor` is NULL or a live monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_monitor_viewers(monitor: *const betz_monitor) -> usize {
    // SAFETY: the caller's promise.
    let monitor = unsafe { monitor.as_ref() };
    let count = AssertUnwindSafe(|| monitor.map_or(0, |monitor| monitor.monitor.viewers()));
    catch_unwind(count).unwrap_or(0)
}

/// Ends the page and frees it; the session goes on. Does nothing for NULL.
///
/// # Safety
/// `monitor` is NULL or a live monitor, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_monitor_close(monitor: *mut betz_monitor) {
    if !monitor.is_null() {
        // SAFETY: it came from `betz_monitor_open`, and the caller no longer uses it.
        beside::run_free(|| drop(unsafe { Box::from_raw(monitor) }));
    }
}
