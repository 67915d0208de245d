//! Real-time spike sorting: from voltage to spikes with units, by a trained sorter.

use std::cell::UnsafeCell;
use std::ffi::c_char;

use betz::sort::{Sorter, Sorting, Spike, UnitMove};

use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::failure::{Failure, Result};
use crate::grow::{self, grows};
use crate::model::{expect_readable, expect_room_for_file};
use crate::status::betz_status;

/// Unit of a spike that belongs to no unit: noise, an overlap, or a unit that training did not see.
pub const BETZ_UNIT_NONE: u32 = u32::MAX;

/// A running spike sorter, loaded from a file of `betz sort train`: voltage in, spikes with their units out. A spike's
/// unit is its channel for `betz_session_step_spikes`, in the same order as in the recording that `betz sort run`
/// makes. One thread at a time may use it.
pub struct betz_sorter {
    sorter: Sorter,
    /// Used only by the thread that pushes.
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
    /// No other thread uses the sorter, and no other reference from this function is alive.
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
    /// Sample number of the spike's minimum, counted from 0.
    pub sample: i64,
    /// The spike's unit, below `betz_sorter_units`, or BETZ_UNIT_NONE.
    pub unit: u32,
    /// Channel of the minimum, in the order of the samples.
    pub channel: u32,
    /// Voltage of the minimum in microvolts, below 0.
    pub microvolts: f32,
    /// Difference in amplitude from the unit's mean spike, in standard deviations of the noise; 0 without a unit.
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
    /// Counters of a sorter.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_sorter_stats {
        /// Number of samples of each channel.
        pub samples: u64,
        /// Number of spikes without a unit.
        pub unlabelled: u64,
        /// Number of artefacts: periods that were blanked.
        pub artefacts: u64,
        /// Number of threshold crossings inside artefacts; they do not count as spikes.
        pub blanked: u64,
        /// Number of samples at either end of the 16-bit range.
        pub saturated: u64,
    }
}

grows! {
    /// A unit and its current position and rate.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_sorter_unit {
        /// Number of the unit; it stays the same when others are merged or split (`betz sort edit`).
        pub id: u32,
        /// Channel of its largest minimum, in the order of the samples.
        pub channel: u32,
        /// Mean voltage of its minimum in training, in microvolts, below 0.
        pub microvolts: f32,
        /// Distance of its centre from its centre in training, in standard deviations of the noise; 0 if the unit does
        /// not follow its spikes.
        pub moved: f32,
        /// Spikes per second in training.
        pub trained_hz: f64,
        /// Spikes per second now, averaged with the same forgetting as its centre; NAN if the unit does not follow its
        /// spikes.
        pub rate_hz: f64,
        /// 1 if its centre has moved by more than three standard deviations, or it fires less than a third or more than
        /// three times as often; else 0.
        pub changed: u32,
        /// Zero.
        pub reserved: u32,
    }
}

/// Reads the sorter file `path` (`betz sort train`) into a new sorter at rest, which the caller frees with
/// `betz_sorter_close`. This call makes all allocations of the sorter.
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

/// Reads a sorter like `betz_sorter_load`, from the `len` bytes of a sorter file in memory, which may be freed after
/// the call.
///
/// Any bytes are safe to pass: damaged bytes are refused.
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

/// Takes voltage: `samples` is (rows, channels); each row holds one sample of all channels. Writes the spikes that
/// these rows decide to `spikes`, in the order of their samples, their number to `*n`, and the number of rows taken to
/// `*taken`. If `spikes` is full before all rows are taken, `*taken` is less than `rows`: pass the remaining rows to
/// the next call, which also returns any spike that did not fit. `cap` is at least 1.
///
/// A spike is decided about a millisecond after its minimum, when the last sample of its waveform has arrived. The
/// result does not depend on how the samples are divided into calls. `channels` must be the sorter's
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

/// Returns the numbers of rows taken and of spikes written.
fn sort(
    sorting: &mut Sorting,
    samples: &[i16],
    spikes: &mut [betz_sorter_spike],
) -> (usize, usize) {
    let mut rows = samples.chunks_exact(sorting.channels());
    let (mut taken, mut found) = (0, 0);
    loop {
        // Decided spikes are written before the next row is taken.
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

/// Returns the number of channels per row of samples; 0 for NULL.
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

/// Returns the number of units; 0 for NULL.
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

/// Returns the sampling rate in samples per second; 0 for NULL.
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

/// Returns the microvolts per bit of a sample, as in training; 0 for NULL.
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

/// Copies the state of unit `unit` to `*out`, whose size in bytes is `size` (pass `sizeof`). A program with an older
/// header gets the fields that its struct has.
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
            let now = moved.unwrap_or(UnitMove {
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

/// Copies the sorter's counters to `*out`, whose size in bytes is `size` (pass `sizeof`).
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

/// Closes and frees a sorter; does nothing for NULL. A poisoned sorter can be closed.
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
