//! From voltage to spikes with units: a trained sorter, loaded and at work.

use std::cell::UnsafeCell;
use std::ffi::c_char;

use betz::sort::{Moved, Sorter, Sorting, Spike};

use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::failure::{Failure, Result};
use crate::grow::{self, grows};
use crate::model::{expect_readable, expect_room_for_file};
use crate::status::betz_status;

/// The unit of a spike that none has: noise, an overlap, or a unit that training did not see.
pub const BETZ_UNIT_NONE: u32 = u32::MAX;

/// A sorter at work, from a file that `betz sort train` made: voltage in, spikes with their units out. A spike's unit
/// is its channel for `betz_session_step_spikes`, in the order of the recording that `betz sort run` makes. One
/// thread at a time.
pub struct betz_sorter {
    sorter: Sorter,
    /// Used by the thread that pushes, and by no other.
    sorting: UnsafeCell<Sorting>,
    poison: Poison,
}

impl Handle for betz_sorter {
    const NAME: &'static str = "sorter";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl betz_sorter {
    fn open(sorter: Sorter) -> Result<Self> {
        Ok(Self {
            sorting: UnsafeCell::new(Sorting::open(&sorter)?),
            sorter,
            poison: Poison::default(),
        })
    }

    /// # Safety
    /// No other thread uses the sorter, and no other reference from here is alive.
    #[allow(clippy::mut_from_ref)]
    unsafe fn sorting(&self) -> &mut Sorting {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.sorting.get() }
    }

    fn place(&self, unit: u32) -> Result<usize> {
        let place = unit as usize;
        if place < self.sorter.units().len() {
            return Ok(place);
        }
        Err(Failure::Argument {
            name: "unit",
            expected: "a number below betz_sorter_units",
        })
    }
}

/// A spike with its unit.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct betz_sorter_spike {
    /// Sample of its minimum, from 0.
    pub sample: i64,
    /// Its unit, below `betz_sorter_units`, or BETZ_UNIT_NONE.
    pub unit: u32,
    /// Channel of the minimum, as the samples have them.
    pub channel: u32,
    /// Its minimum, below 0.
    pub microvolts: f32,
    /// How much larger or smaller than its unit's mean spike it is, in standard deviations of the noise; 0 where it has no unit.
    pub distance: f32,
}

impl From<Spike> for betz_sorter_spike {
    fn from(spike: Spike) -> Self {
        Self {
            sample: spike.sample,
            unit: spike.unit.unwrap_or(BETZ_UNIT_NONE),
            channel: spike.channel,
            microvolts: spike.microvolts,
            distance: spike.distance,
        }
    }
}

grows! {
    /// What a sorter has taken.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_sorter_stats {
        /// Samples of each channel.
        pub samples: u64,
        /// Spikes that no unit has.
        pub unlabelled: u64,
        /// Artefacts: stretches that were blanked.
        pub artefacts: u64,
        /// Crossings in them, which are no spikes.
        pub blanked: u64,
        /// Values at an end of what 16 bits hold.
        pub saturated: u64,
    }
}

grows! {
    /// A unit, and where it is now.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_sorter_unit {
        /// Its number, which stays when others are merged or split (`betz sort edit`).
        pub id: u32,
        /// Channel of its largest minimum, as the samples have them.
        pub channel: u32,
        /// Mean minimum in training, below 0.
        pub microvolts: f32,
        /// Distance of its centre from that of training, in standard deviations of the noise; 0 where it does not follow
        /// its spikes.
        pub moved: f32,
        /// Spikes a second in training.
        pub trained_hz: f64,
        /// Spikes a second now, by the same forgetting as its centre; NAN where it does not follow its spikes.
        pub rate_hz: f64,
        /// 1 when it is further than three standard deviations from where it was, or fires less than a third or more than
        /// three times as often.
        pub changed: u32,
        /// 0.
        pub reserved: u32,
    }
}

/// Reads the sorter file `path` (`betz sort train`) into a new sorter at rest, which the caller frees with
/// `betz_sorter_close`. All allocation is here.
///
/// `path` is NUL-terminated, in the system's encoding. Fails with `BETZ_ERROR_IO`, `BETZ_ERROR_INVALID_MODEL` or
/// `BETZ_ERROR_UNSUPPORTED_VERSION`; `*out` is then untouched.
///
/// Thread-safe: yes. Realtime-safe: no (reads a file). Allocates: yes.
///
/// # Safety
/// `path` is NULL or a NUL-terminated string; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_sorter_load(
    path: *const c_char,
    out: *mut *mut betz_sorter,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (path, out) = unsafe { (cast::path(path, "path")?, cast::out(out, "out")?) };
        expect_readable(path)?;
        let sorter = betz_sorter::open(Sorter::load(path)?)?;
        out.write(cast::into_handle(sorter)?);
        Ok(())
    })
}

/// As `betz_sorter_load`, from the `len` bytes of a sorter file in memory, which may go when the call returns.
///
/// Any bytes are safe to pass: damaged ones are refused.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `data` is NULL or points to `len` bytes; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_sorter_load_bytes(
    data: *const u8,
    len: usize,
    out: *mut *mut betz_sorter,
) -> betz_status {
    barrier::run(|| {
        if data.is_null() {
            return Err(Failure::Null("data"));
        }
        // SAFETY: the caller's promise.
        let (data, out) = unsafe { (cast::slice(data, len, "data")?, cast::out(out, "out")?) };
        expect_room_for_file(data.len() as u64)?;
        let sorter = betz_sorter::open(Sorter::from_bytes(data)?)?;
        out.write(cast::into_handle(sorter)?);
        Ok(())
    })
}

/// Takes voltage: `samples` is (rows, channels), each row what all channels have at one sample. The spikes that are
/// decided by them go to `spikes` in the order of their samples, and their number to `*n`; the rows that were taken,
/// to `*taken`. Where `cap` spikes are full before all rows are taken, `*taken` is less than `rows`: the rest is for
/// the next call, and so is a spike that found no room. `cap` is 1 at least.
///
/// A spike is decided about a millisecond after its minimum, when the last sample of its waveform is there. What
/// comes out does not depend on how the samples are cut into calls. `channels` must be the sorter's
/// (`BETZ_ERROR_MISMATCH` otherwise). On failure nothing is taken.
///
/// Thread-safe: no (one thread at a time). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `sorter` is NULL or a live sorter that no other thread is using; `samples` points to `rows` times `channels`
/// values, `spikes` to `cap` writable ones; `taken` and `n` are NULL or writable. None of these overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_sorter_push(
    sorter: *mut betz_sorter,
    samples: *const i16,
    rows: usize,
    channels: usize,
    spikes: *mut betz_sorter_spike,
    cap: usize,
    taken: *mut usize,
    n: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(sorter, |handle| {
            let sorting = handle.sorting();
            if channels != sorting.channels() {
                return Err(Failure::Length {
                    name: "channels",
                    expected: sorting.channels(),
                    got: channels,
                });
            }
            let Some(all) = rows.checked_mul(channels) else {
                return Err(Failure::Argument {
                    name: "rows",
                    expected: "rows that fit in memory",
                });
            };
            if cap == 0 {
                return Err(Failure::Argument {
                    name: "cap",
                    expected: "room for a spike at least",
                });
            }
            let samples = cast::slice(samples, all, "samples")?;
            let spikes = cast::slice_mut(spikes, cap, "spikes")?;
            let (taken, n) = (cast::out(taken, "taken")?, cast::out(n, "n")?);
            let (rows_taken, found) = sort(sorting, samples, spikes);
            taken.write(rows_taken);
            n.write(found);
            Ok(())
        })
    }
}

/// Rows taken and spikes written.
fn sort(
    sorting: &mut Sorting,
    samples: &[i16],
    spikes: &mut [betz_sorter_spike],
) -> (usize, usize) {
    let mut rows = samples.chunks_exact(sorting.channels());
    let (mut taken, mut found) = (0, 0);
    loop {
        // What is decided goes out before the next row comes.
        loop {
            let Some(room) = spikes.get_mut(found) else {
                return (taken, found);
            };
            let Some(spike) = sorting.take() else { break };
            *room = spike.into();
            found += 1;
        }
        let Some(row) = rows.next() else {
            return (taken, found);
        };
        sorting.step(row);
        taken += 1;
    }
}

/// Number of channels of a row of samples; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `sorter` is NULL or a live sorter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_sorter_channels(sorter: *const betz_sorter) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(sorter, 0, |s| s.sorter.layout().row_channels as u32) }
}

/// Number of units; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `sorter` is NULL or a live sorter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_sorter_units(sorter: *const betz_sorter) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(sorter, 0, |s| s.sorter.units().len() as u32) }
}

/// Samples a second of each channel; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `sorter` is NULL or a live sorter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_sorter_rate_hz(sorter: *const betz_sorter) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(sorter, 0.0, |s| s.sorter.settings().rate_hz) }
}

/// Microvolts of a sample's bit, as in training; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `sorter` is NULL or a live sorter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_sorter_microvolts(sorter: *const betz_sorter) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(sorter, 0.0, |s| s.sorter.settings().microvolts) }
}

/// Copies what is known of the unit `unit` to `*out`, whose size in bytes is `size` (give `sizeof`): less than the
/// whole struct for a program of an older header.
///
/// Thread-safe: no (the thread that pushes). Realtime-safe: yes (as many steps as there are units). Allocates: no.
///
/// # Safety
/// `sorter` is NULL or a live sorter that no other thread is using; `out` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_sorter_get_unit(
    sorter: *const betz_sorter,
    unit: u32,
    out: *mut betz_sorter_unit,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(sorter, |handle| {
            grow::check_place(out, size, "out")?;
            let trained = &handle.sorter.units()[handle.place(unit)?];
            let moved = handle.sorting().moves().find(|moved| moved.unit == unit);
            let now = moved.unwrap_or(Moved {
                unit,
                distance: 0.0,
                size: 0.0,
                rate_hz: f64::NAN,
                reported: false,
            });
            let told = betz_sorter_unit {
                id: trained.id,
                channel: trained.channel,
                microvolts: trained.microvolts,
                moved: now.distance,
                trained_hz: trained.rate_hz,
                rate_hz: now.rate_hz,
                changed: u32::from(now.reported),
                reserved: 0,
            };
            grow::write(out, size, "out", told)
        })
    }
}

/// Copies what the sorter has taken to `*out`, whose size in bytes is `size` (give `sizeof`).
///
/// Thread-safe: no (the thread that pushes). Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `sorter` is NULL or a live sorter that no other thread is using; `out` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_sorter_get_stats(
    sorter: *const betz_sorter,
    out: *mut betz_sorter_stats,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(sorter, |handle| {
            grow::check_place(out, size, "out")?;
            let sorting = handle.sorting();
            let blanked = sorting.blanked();
            let stats = betz_sorter_stats {
                samples: sorting.samples() as u64,
                unlabelled: sorting.unlabelled(),
                artefacts: blanked.artefacts,
                blanked: blanked.crossings,
                saturated: blanked.saturated,
            };
            grow::write(out, size, "out", stats)
        })
    }
}

/// Closes and frees a sorter; NULL is nothing to do. A poisoned one can be closed.
///
/// Thread-safe: no (nobody may use the sorter any more). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `sorter` is NULL or a live sorter, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_sorter_close(sorter: *mut betz_sorter) {
    // SAFETY: the caller's promise.
    barrier::run_free(|| unsafe { cast::drop_handle(sorter) });
}
