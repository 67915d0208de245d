//! liblsl, loaded at run time: the functions that input and output streams need.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_double, c_float, c_int, c_ulong, c_void};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};
use libloading::Library;

/// Seconds of samples that an outlet keeps for a reader that is slow.
const KEPT_SECONDS: c_int = 60;
/// Seconds for which a stream is still listed after its last answer.
const REMEMBERED_SECONDS: c_double = 5.0;
/// Number of samples in liblsl's unit of room for a stream of irregular rate.
const IRREGULAR_UNIT: f64 = 100.0;
/// liblsl's code for a stream that is gone.
const LOST: c_int = -2;
const TIMEOUT: c_int = -1;

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Functions of liblsl, and the library that contains them.
        #[cfg_attr(not(all(test, feature = "emulate")), allow(dead_code))]
        pub(crate) struct Lsl {
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
    lsl_get_channel_format: fn(*mut c_void) -> c_int;
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
    lsl_local_clock: fn() -> c_double;
    lsl_time_correction: fn(*mut c_void, c_double, *mut c_int) -> c_double;
    lsl_pull_sample_f: fn(*mut c_void, *mut c_float, c_int, c_double, *mut c_int) -> c_double;
    lsl_pull_sample_str: fn(*mut c_void, *mut *mut c_char, c_int, c_double, *mut c_int) -> c_double;
    lsl_destroy_string: fn(*mut c_char);
    lsl_pull_chunk_s: fn(*mut c_void, *mut i16, *mut c_double, c_ulong, c_ulong, c_double, *mut c_int) -> c_ulong;
    lsl_pull_chunk_f: fn(*mut c_void, *mut c_float, *mut c_double, c_ulong, c_ulong, c_double, *mut c_int) -> c_ulong;
    lsl_create_outlet: fn(*mut c_void, c_int, c_int) -> *mut c_void;
    lsl_destroy_outlet: fn(*mut c_void);
    lsl_have_consumers: fn(*mut c_void) -> c_int;
    lsl_push_sample_ftp: fn(*mut c_void, *const c_float, c_double, c_int) -> c_int;
    lsl_push_sample_strtp: fn(*mut c_void, *const *const c_char, c_double, c_int) -> c_int;
    lsl_push_chunk_stp: fn(*mut c_void, *const i16, c_ulong, c_double, c_int) -> c_int;
}

/// Places to look for liblsl: only `BETZ_LSL` if it is set, else the system's names.
fn places() -> Vec<PathBuf> {
    match std::env::var_os("BETZ_LSL") {
        Some(path) => vec![path.into()],
        // 1.14 and later, and those before it.
        None if cfg!(windows) => ["lsl.dll", "liblsl64.dll"].map(PathBuf::from).into(),
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
    /// Now, in seconds of LSL's clock.
    pub(crate) fn now(&self) -> f64 {
        // SAFETY: it takes nothing and reads a clock.
        unsafe { (self.lsl_local_clock)() }
    }

    /// Loads the library.
    ///
    /// # Errors
    /// `Io` if it is not found, with the places searched and how to name another.
    pub(crate) fn load() -> Result<Arc<Self>> {
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

/// Format of a stream's values, as liblsl numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format(c_int);

impl Format {
    pub(crate) const FLOAT32: Self = Self(1);
    #[cfg(feature = "rig")]
    pub(crate) const INT16: Self = Self(5);
    #[cfg(all(test, feature = "emulate"))]
    pub(crate) const STRING: Self = Self(3);

    #[cfg(all(test, feature = "emulate"))]
    pub(crate) fn of_code(code: c_int) -> Self {
        Self(code)
    }

    /// Its name in liblsl.
    #[cfg(feature = "rig")]
    pub(crate) fn name(self) -> &'static str {
        let names = [
            "float32", "double64", "string", "int32", "int16", "int8", "int64",
        ];
        usize::try_from(self.0)
            .ok()
            .and_then(|number| names.get(number.checked_sub(1)?))
            .copied()
            .unwrap_or("an undefined format")
    }
}

/// A stream's description, which this value owns.
pub(crate) struct Info(Arc<Lsl>, NonNull<c_void>);

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
pub(crate) struct Resolver {
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
    pub(crate) fn new(lsl: &Arc<Lsl>, name: &CStr) -> Result<Self> {
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
    pub(crate) fn found(&self) -> Option<Info> {
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
pub(crate) struct Inlet {
    lsl: Arc<Lsl>,
    inlet: NonNull<c_void>,
    pub(crate) channels: usize,
    /// Samples per second; 0 if irregular.
    pub(crate) rate: f64,
    #[cfg_attr(not(feature = "rig"), allow(dead_code))]
    pub(crate) format: Format,
}

// SAFETY: liblsl's inlets may be used by several threads at once (lsl_c.h).
unsafe impl Send for Inlet {}
// SAFETY: as above.
unsafe impl Sync for Inlet {}

/// Room of an inlet for samples that nobody has taken yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) seconds: f64,
    /// Samples per second of a stream that does not state its rate.
    pub(crate) irregular_rate: f64,
}

impl Room {
    /// The room in liblsl's unit: seconds, or hundreds of samples if the rate is irregular.
    fn of_rate(self, rate: f64) -> c_int {
        let irregular = self.seconds * self.irregular_rate / IRREGULAR_UNIT;
        let room = if rate > 0.0 { self.seconds } else { irregular };
        room.ceil().max(1.0) as c_int
    }
}

/// Answer to a request for a sample.
pub(crate) enum Pull {
    /// A sample with its time, on the sender's clock in seconds.
    Sample(f64),
    Nothing,
    Gone,
}

/// liblsl's function that pulls chunks of values of type `T`.
#[cfg(feature = "rig")]
type PullChunk<T> = unsafe extern "C" fn(
    *mut c_void,
    *mut T,
    *mut c_double,
    c_ulong,
    c_ulong,
    c_double,
    *mut c_int,
) -> c_ulong;

/// Type of the values of a chunk.
#[cfg(feature = "rig")]
pub(crate) trait ChunkValue: Copy {
    fn function(lsl: &Lsl) -> PullChunk<Self>;
}

#[cfg(feature = "rig")]
impl ChunkValue for i16 {
    fn function(lsl: &Lsl) -> PullChunk<Self> {
        lsl.lsl_pull_chunk_s
    }
}

#[cfg(feature = "rig")]
impl ChunkValue for f32 {
    fn function(lsl: &Lsl) -> PullChunk<Self> {
        lsl.lsl_pull_chunk_f
    }
}

impl Inlet {
    /// Opens the stream `info` with `room`; `None` if it does not answer.
    ///
    /// # Errors
    /// `Io` if liblsl refuses the stream.
    pub(crate) fn open(info: &Info, room: Room) -> Result<Option<Self>> {
        let lsl = &info.0;
        // SAFETY: `info` is one of liblsl's; the inlet copies what it needs.
        let (inlet, channels, rate, format) = unsafe {
            let of = info.1.as_ptr();
            let rate = (lsl.lsl_get_nominal_srate)(of);
            // liblsl's own recovery is off: this code searches for a lost stream and counts the loss.
            let inlet = (lsl.lsl_create_inlet)(of, room.of_rate(rate), 0, 0);
            (
                inlet,
                (lsl.lsl_get_channel_count)(of),
                rate,
                (lsl.lsl_get_channel_format)(of),
            )
        };
        let inlet = Self {
            lsl: Arc::clone(lsl),
            inlet: NonNull::new(inlet).ok_or_else(|| null("inlet"))?,
            channels: usize::try_from(channels).unwrap_or(0),
            rate,
            format: Format(format),
        };
        let mut code = 0;
        // SAFETY: an inlet that lives.
        unsafe { (lsl.lsl_open_stream)(inlet.inlet.as_ptr(), 2.0, &mut code) };
        Ok((code == 0).then_some(inlet))
    }

    /// Writes the next sample to `values`, one value per channel.
    pub(crate) fn pull(&self, values: &mut [f32], patience: Duration) -> Pull {
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

    /// Writes the first value of the next sample to `text`: a string as it is, a number in decimals.
    #[cfg(feature = "rig")]
    pub(crate) fn pull_text(&self, text: &mut String, patience: Duration) -> Pull {
        let mut code = 0;
        let mut values = vec![std::ptr::null_mut::<c_char>(); self.channels];
        // SAFETY: an inlet that lives, and room for all of its channels.
        let time = unsafe {
            let (inlet, to) = (self.inlet.as_ptr(), values.as_mut_ptr());
            let length = self.channels as c_int;
            (self.lsl.lsl_pull_sample_str)(inlet, to, length, patience.as_secs_f64(), &mut code)
        };
        text.clear();
        for (channel, value) in values.into_iter().enumerate() {
            if value.is_null() {
                continue;
            }
            if channel == 0 {
                // SAFETY: liblsl has made it, and it ends in zero.
                text.push_str(&unsafe { CStr::from_ptr(value) }.to_string_lossy());
            }
            // SAFETY: liblsl has made it, and it is destroyed once.
            unsafe { (self.lsl.lsl_destroy_string)(value) };
        }
        match code {
            0 if time != 0.0 => Pull::Sample(time),
            0 | TIMEOUT => Pull::Nothing,
            _ => Pull::Gone,
        }
    }

    /// Waits at most `patience` until `values` and `times` are full, with one time per sample and one value per channel;
    /// returns the number of samples, or `None` if the stream is gone.
    #[cfg(feature = "rig")]
    pub(crate) fn pull_chunk<T: ChunkValue>(
        &self,
        values: &mut [T],
        times: &mut [f64],
        patience: Duration,
    ) -> Option<usize> {
        let samples = times.len().min(values.len() / self.channels.max(1));
        let length = (samples * self.channels) as c_ulong;
        let mut code = 0;
        // SAFETY: an inlet that lives, and room for `samples` times and the values of all their channels.
        let pulled = unsafe {
            T::function(&self.lsl)(
                self.inlet.as_ptr(),
                values.as_mut_ptr(),
                times.as_mut_ptr(),
                length,
                samples as c_ulong,
                patience.as_secs_f64(),
                &mut code,
            )
        };
        match code {
            0 | TIMEOUT => Some((pulled as usize / self.channels.max(1)).min(samples)),
            _ => None,
        }
    }

    /// Correction from the sender's times to ours; `None` if liblsl could not determine it. May take a while.
    pub(crate) fn correction(&self) -> Option<f64> {
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
pub(crate) struct Outlet {
    lsl: Arc<Lsl>,
    outlet: NonNull<c_void>,
    channels: usize,
    _info: Info,
}

// SAFETY: as inlets, outlets may be used by any thread.
unsafe impl Send for Outlet {}

/// Description of an outgoing stream.
pub(crate) struct OutletPlan<'a> {
    pub(crate) name: &'a str,
    /// Content of the stream, as LSL calls it: `EEG`, `Movement`, …
    pub(crate) kind: &'a CStr,
    pub(crate) channels: usize,
    /// Labels of the channels; none, or one per channel.
    pub(crate) labels: &'a [String],
    /// Samples per second; 0 if irregular.
    pub(crate) rate: f64,
    pub(crate) format: Format,
}

impl Outlet {
    /// Creates the stream of `plan`.
    ///
    /// # Errors
    /// `Io` if liblsl refuses the stream; `InvalidArgument` for a name with a zero byte.
    pub(crate) fn new(lsl: Arc<Lsl>, plan: &OutletPlan<'_>) -> Result<Self> {
        let (called, id) = (text(plan.name)?, text(&format!("betz-{}", plan.name))?);
        let labels: Vec<CString> = plan.labels.iter().map(|o| text(o)).collect::<Result<_>>()?;
        // SAFETY: strings that end in zero; what comes back is checked before it is used.
        let (info, outlet) = unsafe {
            let info = (lsl.lsl_create_streaminfo)(
                called.as_ptr(),
                plan.kind.as_ptr(),
                plan.channels as c_int,
                plan.rate,
                plan.format.0,
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
            channels: plan.channels,
            lsl,
            _info: info,
        })
    }

    /// True if somebody reads the stream.
    #[cfg(feature = "emulate")]
    pub(crate) fn has_consumers(&self) -> bool {
        // SAFETY: an outlet that lives.
        unsafe { (self.lsl.lsl_have_consumers)(self.outlet.as_ptr()) != 0 }
    }

    /// Sends samples of int16, the last with this time in seconds; returns whether liblsl accepted them.
    #[cfg(feature = "emulate")]
    pub(crate) fn push_chunk(&self, values: &[i16], seconds: f64) -> bool {
        if self.channels == 0 || !values.len().is_multiple_of(self.channels) {
            return false;
        }
        // SAFETY: an outlet that lives, and whole samples.
        unsafe {
            let (outlet, from) = (self.outlet.as_ptr(), values.as_ptr());
            (self.lsl.lsl_push_chunk_stp)(outlet, from, values.len() as c_ulong, seconds, 1) == 0
        }
    }

    /// Now, in seconds of LSL's clock.
    pub(crate) fn now(&self) -> f64 {
        self.lsl.now()
    }

    /// Sends a text with its time in seconds of our clock; returns whether liblsl accepted it.
    #[cfg(all(test, feature = "emulate"))]
    pub(crate) fn push_text(&self, words: &str, seconds: f64) -> bool {
        let Ok(words) = text(words) else {
            return false;
        };
        let values = [words.as_ptr()];
        // SAFETY: an outlet that lives, of one channel, and a string that ends in zero.
        unsafe {
            (self.lsl.lsl_push_sample_strtp)(self.outlet.as_ptr(), values.as_ptr(), seconds, 1) == 0
        }
    }

    /// Sends a sample with its time in seconds of our clock; returns whether liblsl accepted it.
    pub(crate) fn push(&self, values: &[f32], seconds: f64) -> bool {
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
