//! Episodes that a miner watches, and their counts, at one moment.

use std::ffi::{CString, c_char};
use std::sync::Arc;

use betz::episode::Alphabet;
use betz::episode::online::WatchedEpisode;

use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::failure::Failure;
use crate::grow::{self, grows};
use crate::miner::betz_miner;
use crate::miner_config::betz_interval;
use crate::shortage::Shortage;
use crate::status::betz_status;

/// The episodes that a miner watched at one moment, with their counts. Immutable: may be read from any
/// number of threads, and outlives its miner.
pub struct betz_watch_list {
    entries: Vec<Entry>,
    last_failure: Option<CString>,
    poison: Poison,
}

struct Entry {
    text: CString,
    symbols: Vec<u32>,
    intervals: Vec<betz_interval>,
    count: u64,
    since: Option<i64>,
}

impl Handle for betz_watch_list {
    const NAME: &'static str = "list";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl Entry {
    fn new(watched: &WatchedEpisode, alphabet: &Alphabet) -> Self {
        let clock = alphabet.clock();
        let pattern = &watched.pattern;
        let edges = pattern.intervals().iter();
        Self {
            text: text(pattern.display(alphabet).to_string()),
            symbols: pattern.symbols().to_vec(),
            intervals: edges
                .map(|i| betz_interval {
                    low_seconds: clock.seconds(i.low),
                    high_seconds: clock.seconds(i.high),
                })
                .collect(),
            count: watched.count,
            since: watched.since,
        }
    }
}

/// Labels came from C: they hold no NUL.
fn text(text: String) -> CString {
    CString::new(text).unwrap_or_default()
}

grows! {
    /// An episode and its count in a watch list. Its pointers belong to the list.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_watched {
        /// The episode as text, `a3 -(0.004,0.006]-> a5`: NUL-terminated UTF-8.
        pub text: *const c_char,
        /// Its symbols, `size` of them.
        pub symbols: *const u32,
        /// The intervals of its edges, `size` - 1 of them, on whole ticks.
        pub intervals: *const betz_interval,
        /// Number of symbols.
        pub size: usize,
        /// Number of its non-overlapped occurrences.
        pub count: u64,
        /// First tick whose events are counted; INT64_MIN: all events are counted.
        pub since_tick: i64,
    }
}

/// Returns the list of `miner` and its counts at one moment. The caller frees it with `betz_watch_list_free`.
///
/// Thread-safe: yes, also while another thread feeds. Realtime-safe: no (waits for the miner's
/// thread). Allocates: yes.
///
/// # Safety
/// `miner` is NULL or a live miner; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_miner_watch_list(
    miner: *const betz_miner,
    out: *mut *mut betz_watch_list,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(miner, |miner| {
            let out = cast::out(out, "out")?;
            miner.here()?;
            Shortage::begin();
            let alphabet: Arc<Alphabet> = Arc::clone(miner.alphabet());
            let now = miner.handle().snapshot();
            let entries = now.watched.iter().map(|w| Entry::new(w, &alphabet));
            out.write(cast::into_handle(betz_watch_list {
                entries: entries.collect(),
                last_failure: now.remining_error.map(text),
                poison: Poison::default(),
            })?);
            Ok(())
        })
    }
}

/// Number of episodes in the list; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `list` is NULL or a live list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_watch_list_len(list: *const betz_watch_list) -> usize {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(list, 0, |list| list.entries.len()) }
}

/// Writes episode `index`, counted from 0, to `*out`, whose size in bytes is `size` (pass `sizeof`). Its pointers stay
/// valid until the list is freed. Fails with `BETZ_ERROR_INVALID_ARGUMENT` for an index beyond the end.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `list` is NULL or a live list; `out` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_watch_list_get(
    list: *const betz_watch_list,
    index: usize,
    out: *mut betz_watched,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(list, |list| {
            grow::check_place(out, size, "out")?;
            let entry = list.entries.get(index).ok_or(Failure::Argument {
                name: "index",
                expected: "less than the list's length",
            })?;
            let watched = betz_watched {
                text: entry.text.as_ptr(),
                symbols: entry.symbols.as_ptr(),
                intervals: entry.intervals.as_ptr(),
                size: entry.symbols.len(),
                count: entry.count,
                since_tick: entry.since.unwrap_or(i64::MIN),
            };
            grow::write(out, size, "out", watched)
        })
    }
}

/// Returns the message of the last failure to mine the miner's window; NULL if mining has never failed, and for NULL.
/// The text stays valid until the list is freed.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `list` is NULL or a live list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_watch_list_last_failure(
    list: *const betz_watch_list,
) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::query(list, std::ptr::null(), |list| {
            let text = list.last_failure.as_ref();
            text.map_or(std::ptr::null(), |text| text.as_ptr())
        })
    }
}

/// Frees a watch list; does nothing for NULL.
///
/// Thread-safe: no (nobody may use the list any more). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `list` is NULL or a live list, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_watch_list_free(list: *mut betz_watch_list) {
    // SAFETY: the caller's promise.
    barrier::run_free(|| unsafe { cast::drop_handle(list) });
}
