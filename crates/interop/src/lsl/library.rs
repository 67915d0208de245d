//! liblsl, loaded at run time: the functions that an input and an output stream need.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_double, c_float, c_int, c_void};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};
use libloading::Library;

/// Seconds of samples that an inlet buffers.
const KEPT_SECONDS: c_int = 60;
/// Seconds for which a stream is still listed after its last answer.
const REMEMBERED_SECONDS: c_double = 5.0;
const FLOAT32: c_int = 1;
/// liblsl's code for a stream that is gone.
const LOST: c_int = -2;
const TIMEOUT: c_int = -1;

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Functions of liblsl, and the library that contains them.
        pub(super) struct Lsl {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            _library: Library,
        }

        impl Lsl {
            /// # Safety
            /// `library` is liblsl.
            unsafe fn of(library: Library) -> std::result::Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the signatures are those of lsl_c.h, the same from 1.13 on.
                    $($name: unsafe { *library.get(concat!(stringify!($name), "\0").as_bytes())? },)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    lsl_create_streaminfo: fn(*const c_char, *const c_char, c_int, c_double, c_int, *const c_char) -> *mut c_void;
    lsl_destroy_streaminfo: fn(*mut c_void);
    lsl_get_channel_count: fn(*mut c_void) -> c_int;
    lsl_get_nominal_srate: fn(*mut c_void) -> c_double;
    lsl_get_desc: fn(*mut c_void) -> *mut c_void;
    lsl_append_child: fn(*mut c_void, *const c_char) -> *mut c_void;
    lsl_append_child_value: fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;
    lsl_create_continuous_resolver_byprop: fn(*const c_char, *const c_char, c_double) -> *mut c_void;
    lsl_resolver_results: fn(*mut c_void, *mut *mut c_void, u32) -> c_int;
    lsl_destroy_continuous_resolver: fn(*mut c_void);
    lsl_create_inlet: fn(*mut c_void, c_int, c_int, c_int) -> *mut c_void;
    lsl_destroy_inlet: fn(*mut c_void);
    lsl_open_stream: fn(*mut c_void, c_double, *mut c_int);
    lsl_time_correction: fn(*mut c_void, c_double, *mut c_int) -> c_double;
    lsl_pull_sample_f: fn(*mut c_void, *mut c_float, c_int, c_double, *mut c_int) -> c_double;
    lsl_create_outlet: fn(*mut c_void, c_int, c_int) -> *mut c_void;
    lsl_destroy_outlet: fn(*mut c_void);
    lsl_push_sample_ftp: fn(*mut c_void, *const c_float, c_double, c_int) -> c_int;
}

/// Places to look for liblsl: only `BETZ_LSL` if it is set, else the system's names.
fn places() -> Vec<PathBuf> {
    match std::env::var_os("BETZ_LSL") {
        Some(path) => vec![path.into()],
        None => ["liblsl.so.2", "liblsl.so", "liblsl.dylib"]
            .map(PathBuf::from)
            .into(),
    }
}

fn text(of: &str) -> Result<CString> {
    CString::new(of).map_err(|_| {
        Error::argument(format!(
            "stream: expected a name without a zero byte, got {of:?}"
        ))
    })
}

fn null(what: &str) -> Error {
    Error::new(ErrorKind::Io, format!("liblsl gave no {what}"))
}

impl Lsl {
    /// Loads the library.
    ///
    /// # Errors
    /// `Io` if it is not found, with the places searched and how to name another.
    pub(super) fn load() -> Result<Arc<Self>> {
        let mut tried = Vec::new();
        for place in places() {
            // SAFETY: loading runs the library's initialisers; the user names it, or the system has it.
            let loaded = unsafe { Library::new(&place).and_then(|library| Self::of(library)) };
            match loaded {
                Ok(lsl) => return Ok(Arc::new(lsl)),
                Err(e) => tried.push(format!("{}: {e}", place.display())),
            }
        }
        Err(Error::new(
            ErrorKind::Io,
            format!(
                "LSL: expected its library (name it with BETZ_LSL=/path/to/liblsl.so; the Python package pylsl brings one), got {}",
                tried.join("; ")
            ),
        ))
    }
}

/// A stream's description, which this value owns.
pub(super) struct Info(Arc<Lsl>, NonNull<c_void>);

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: made by liblsl and destroyed once.
        unsafe { (self.0.lsl_destroy_streaminfo)(self.1.as_ptr()) }
    }
}

/// Searches for streams of a name on a thread of liblsl until it is dropped.
///
/// This is one continuous search, not repeated short ones. liblsl asks the network's multicast group at once, but the
/// peers in its configuration (`KnownPeers`) only half a second later. A shorter search would never find those peers.
pub(super) struct Resolver {
    lsl: Arc<Lsl>,
    resolver: NonNull<c_void>,
}

// SAFETY: nothing of a resolver belongs to the thread that made it.
unsafe impl Send for Resolver {}

impl Resolver {
    /// Starts to search for streams called `name`.
    ///
    /// # Errors
    /// `Io` if liblsl cannot start the search.
    pub(super) fn new(lsl: &Arc<Lsl>, name: &CStr) -> Result<Self> {
        // SAFETY: two strings that end in zero.
        let resolver = unsafe {
            let property = c"name".as_ptr();
            (lsl.lsl_create_continuous_resolver_byprop)(property, name.as_ptr(), REMEMBERED_SECONDS)
        };
        Ok(Self {
            lsl: Arc::clone(lsl),
            resolver: NonNull::new(resolver).ok_or_else(|| null("resolver"))?,
        })
    }

    /// Returns a stream that has answered, without waiting.
    pub(super) fn found(&self) -> Option<Info> {
        let mut found = [std::ptr::null_mut(); 1];
        // SAFETY: a resolver that lives, and room for one stream.
        let n = unsafe {
            (self.lsl.lsl_resolver_results)(self.resolver.as_ptr(), found.as_mut_ptr(), 1)
        };
        let info = NonNull::new(found[0]).filter(|_| n > 0)?;
        Some(Info(Arc::clone(&self.lsl), info))
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        // SAFETY: made by liblsl and destroyed once.
        unsafe { (self.lsl.lsl_destroy_continuous_resolver)(self.resolver.as_ptr()) }
    }
}

/// An incoming stream.
pub(super) struct Inlet {
    lsl: Arc<Lsl>,
    inlet: NonNull<c_void>,
    pub(super) channels: usize,
    /// Samples per second; 0 if irregular.
    pub(super) rate: f64,
}

// SAFETY: liblsl's inlets may be used by several threads at once (lsl_c.h).
unsafe impl Send for Inlet {}
// SAFETY: as above.
unsafe impl Sync for Inlet {}

/// Answer to a request for a sample.
pub(super) enum Pull {
    /// A sample with its time, on the sender's clock in seconds.
    Sample(f64),
    Nothing,
    Gone,
}

impl Inlet {
    /// Opens the stream `info`; `None` if it does not answer.
    ///
    /// # Errors
    /// `Io` if liblsl refuses the stream.
    pub(super) fn open(info: &Info) -> Result<Option<Self>> {
        let lsl = &info.0;
        // SAFETY: `info` is one of liblsl's; the inlet copies what it needs.
        let (inlet, channels, rate) = unsafe {
            let of = info.1.as_ptr();
            // liblsl's own recovery is off: this code searches for a lost stream and counts the loss.
            let inlet = (lsl.lsl_create_inlet)(of, KEPT_SECONDS, 0, 0);
            (
                inlet,
                (lsl.lsl_get_channel_count)(of),
                (lsl.lsl_get_nominal_srate)(of),
            )
        };
        let inlet = Self {
            lsl: Arc::clone(lsl),
            inlet: NonNull::new(inlet).ok_or_else(|| null("inlet"))?,
            channels: usize::try_from(channels).unwrap_or(0),
            rate,
        };
        let mut code = 0;
        // SAFETY: an inlet that lives.
        unsafe { (lsl.lsl_open_stream)(inlet.inlet.as_ptr(), 2.0, &mut code) };
        Ok((code == 0).then_some(inlet))
    }

    /// Writes the next sample to `values`, one value per channel.
    pub(super) fn pull(&self, values: &mut [f32], patience: Duration) -> Pull {
        let (mut code, length) = (0, values.len().min(self.channels) as c_int);
        if length as usize != self.channels {
            return Pull::Gone;
        }
        // SAFETY: an inlet that lives, and room for all of its channels.
        let time = unsafe {
            let (inlet, to) = (self.inlet.as_ptr(), values.as_mut_ptr());
            (self.lsl.lsl_pull_sample_f)(inlet, to, length, patience.as_secs_f64(), &mut code)
        };
        match code {
            0 if time != 0.0 => Pull::Sample(time),
            0 | TIMEOUT => Pull::Nothing,
            LOST => Pull::Gone,
            _ => Pull::Gone,
        }
    }

    /// Correction from the sender's times to ours; `None` if liblsl could not determine it. May take a while.
    pub(super) fn correction(&self) -> Option<f64> {
        let mut code = 0;
        // SAFETY: an inlet that lives.
        let seconds =
            unsafe { (self.lsl.lsl_time_correction)(self.inlet.as_ptr(), 1.0, &mut code) };
        (code == 0).then_some(seconds)
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        // SAFETY: made by liblsl and destroyed once.
        unsafe { (self.lsl.lsl_destroy_inlet)(self.inlet.as_ptr()) }
    }
}

/// An outgoing stream.
pub(super) struct Outlet {
    lsl: Arc<Lsl>,
    outlet: NonNull<c_void>,
    channels: usize,
    _info: Info,
}

// SAFETY: as inlets, outlets may be used by any thread.
unsafe impl Send for Outlet {}

impl Outlet {
    /// Creates a stream called `name` with one channel per output and `rate` samples per second.
    ///
    /// # Errors
    /// `Io` if liblsl refuses the stream; `InvalidArgument` for a name with a zero byte.
    pub(super) fn new(lsl: Arc<Lsl>, name: &str, outputs: &[String], rate: f64) -> Result<Self> {
        let (called, id) = (text(name)?, text(&format!("betz-{name}"))?);
        let labels: Vec<CString> = outputs.iter().map(|o| text(o)).collect::<Result<_>>()?;
        // SAFETY: strings that end in zero; what comes back is checked before it is used.
        let (info, outlet) = unsafe {
            let (kind, count) = (c"Movement".as_ptr(), outputs.len() as c_int);
            let info = (lsl.lsl_create_streaminfo)(
                called.as_ptr(),
                kind,
                count,
                rate,
                FLOAT32,
                id.as_ptr(),
            );
            let info = Info(
                Arc::clone(&lsl),
                NonNull::new(info).ok_or_else(|| null("stream"))?,
            );
            let all =
                (lsl.lsl_append_child)((lsl.lsl_get_desc)(info.1.as_ptr()), c"channels".as_ptr());
            for label in &labels {
                let channel = (lsl.lsl_append_child)(all, c"channel".as_ptr());
                (lsl.lsl_append_child_value)(channel, c"label".as_ptr(), label.as_ptr());
            }
            let outlet = (lsl.lsl_create_outlet)(info.1.as_ptr(), 0, KEPT_SECONDS);
            (info, outlet)
        };
        Ok(Self {
            outlet: NonNull::new(outlet).ok_or_else(|| null("outlet"))?,
            channels: outputs.len(),
            lsl,
            _info: info,
        })
    }

    /// Sends a sample with its time in seconds of our clock; returns whether liblsl accepted it.
    pub(super) fn push(&self, values: &[f32], seconds: f64) -> bool {
        if values.len() != self.channels {
            return false;
        }
        // SAFETY: an outlet that lives, and one value for each of its channels.
        unsafe {
            (self.lsl.lsl_push_sample_ftp)(self.outlet.as_ptr(), values.as_ptr(), seconds, 1) == 0
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        // SAFETY: made by liblsl and destroyed once.
        unsafe { (self.lsl.lsl_destroy_outlet)(self.outlet.as_ptr()) }
    }
}
