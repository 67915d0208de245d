//! Memory of the library: the host's, the system's, and a reserve for when neither has any.
//!
//! Rust ends the process when memory runs out, and an allocator may not unwind. So that a controller is
//! not ended, [`BetzAllocator`] keeps a reserve: what the system refuses comes from there, the call goes
//! on to its end, and what it has made is given back with `BETZ_ERROR_OUT_OF_MEMORY`
//! (`shortage.rs`, looked at where handles are made). The reserve is one range of addresses, so that a
//! block of it is known wherever and whenever it is freed; when the last one is, the whole is there again.
//!
//! Blocks too large for what is left of the reserve are refused to the asker. Those that grow with what the
//! caller gives are asked for with `try_reserve`, or tried beforehand (`expect_room`), and become an
//! error; the rest is small.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use betz::memory;

use crate::barrier;
use crate::failure::{Failure, Result};
use crate::grow::{self, Config, grows};
use crate::shortage::Shortage;
use crate::status::betz_status;

/// Bytes of the reserve. Untouched, it takes addresses and no memory, unless all memory is locked.
const RESERVE: usize = 4 << 20;

#[repr(C, align(4096))]
struct Reserve {
    room: UnsafeCell<[u8; RESERVE]>,
    /// Blocks in use << 32 | bytes taken.
    state: AtomicU64,
}

// SAFETY: a part of the room belongs to whoever `take` gave it to.
unsafe impl Sync for Reserve {}

static IN_RESERVE: Reserve = Reserve {
    room: UnsafeCell::new([0; RESERVE]),
    state: AtomicU64::new(0),
};

impl Reserve {
    /// A block of the room, or NULL when none is large enough.
    #[cold]
    fn take(&self, layout: Layout) -> *mut u8 {
        Shortage::note();
        let base = self.room.get().cast::<u8>();
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let (blocks, taken) = (state >> 32, (state & u64::from(u32::MAX)) as usize);
            // The room is aligned to a page.
            let Some(start) = taken.checked_next_multiple_of(layout.align()) else {
                return ptr::null_mut();
            };
            let fits = layout.align() <= 4096 && layout.size() <= RESERVE.saturating_sub(start);
            if !fits {
                return ptr::null_mut();
            }
            let next = (blocks + 1) << 32 | (start + layout.size()) as u64;
            let swapped =
                self.state
                    .compare_exchange_weak(state, next, Ordering::Acquire, Ordering::Relaxed);
            match swapped {
                // SAFETY: within the room, by `fits`.
                Ok(_) => return unsafe { base.add(start) },
                Err(now) => state = now,
            }
        }
    }

    fn holds(&self, block: *mut u8) -> bool {
        (block as usize).wrapping_sub(self.room.get() as usize) < RESERVE
    }

    /// A block of this reserve is free again; with the last one, all is.
    #[cold]
    fn give_back(&self) {
        let update = |state: u64| {
            let blocks = (state >> 32) - 1;
            Some(if blocks == 0 {
                0
            } else {
                blocks << 32 | state & u64::from(u32::MAX)
            })
        };
        // The closure always gives a state.
        let _ = (self.state).fetch_update(Ordering::Release, Ordering::Relaxed, update);
    }
}

grows! {
    /// Where a host's own memory comes from. `allocate` gives `size` bytes aligned to `align` (a power of
    /// two), or NULL when it has none; `release` takes them back with the same numbers. Both are called from
    /// any thread, several at once, and must not call Betz.
    #[repr(C)]
    pub struct betz_allocator {
        /// Size of this struct in bytes, as the caller was compiled.
        pub struct_size: u32,
        /// Zero.
        pub reserved: u32,
        /// Handed to both functions as it is.
        pub user: *mut c_void,
        /// Gives memory.
        pub allocate:
            Option<unsafe extern "C" fn(user: *mut c_void, size: usize, align: usize) -> *mut c_void>,
        /// Takes it back.
        pub release: Option<
            unsafe extern "C" fn(user: *mut c_void, block: *mut c_void, size: usize, align: usize),
        >,
    }
}

impl Config for betz_allocator {
    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>() as u32,
            user: ptr::null_mut(),
            allocate: None,
            release: None,
            ..grow::zeroed()
        }
    }
}

/// A host's functions, written once before `HOST` says so.
struct Host(UnsafeCell<betz_allocator>);

// SAFETY: written before `STATE` becomes `HOSTED`, and only read from then on.
unsafe impl Sync for Host {}

static HOST: Host = Host(UnsafeCell::new(betz_allocator {
    struct_size: 0,
    reserved: 0,
    user: ptr::null_mut(),
    allocate: None,
    release: None,
}));

/// Nothing has been allocated yet.
const OPEN: u8 = 0;
/// A host's functions are being written down.
const SETTING: u8 = 1;
/// Memory is the system's.
const SYSTEM: u8 = 2;
/// Memory is the host's.
const HOSTED: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(OPEN);

/// The host's functions, if it has given any; from the first block on there is no changing them.
#[inline]
fn host() -> Option<&'static betz_allocator> {
    match STATE.load(Ordering::Acquire) {
        SYSTEM => None,
        HOSTED => {
            // SAFETY: written before the state said so.
            Some(unsafe { &*HOST.0.get() })
        }
        _ => first_block(),
    }
}

#[cold]
fn first_block() -> Option<&'static betz_allocator> {
    loop {
        match STATE.compare_exchange_weak(OPEN, SYSTEM, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) | Err(SYSTEM) => return None,
            // SAFETY: written before the state said so.
            Err(HOSTED) => return Some(unsafe { &*HOST.0.get() }),
            // Being set in another thread this very moment.
            Err(_) => std::hint::spin_loop(),
        }
    }
}

/// Has Betz take its memory from the host's functions, for the rest of the process. Before any other
/// call: `BETZ_ERROR_INVALID_ARGUMENT` once Betz has memory of the system's, and the second time.
/// (What the C library and a device's driver take for themselves, such as a thread's stack, is not asked
/// for here.)
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `allocator` is NULL or a live struct whose functions do what they say for the rest of the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_set_allocator(allocator: *const betz_allocator) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let given = unsafe { grow::read(allocator, "allocator")? };
        grow::zero(given.reserved, "allocator->reserved")?;
        if given.allocate.is_none() {
            return Err(Failure::Null("allocator->allocate"));
        }
        if given.release.is_none() {
            return Err(Failure::Null("allocator->release"));
        }
        (STATE.compare_exchange(OPEN, SETTING, Ordering::AcqRel, Ordering::Relaxed)).map_err(
            |_| Failure::Argument {
                name: "allocator",
                expected: "to be set once, before any other call",
            },
        )?;
        // SAFETY: nobody else writes in this state, and nobody reads.
        unsafe { *HOST.0.get() = given };
        STATE.store(HOSTED, Ordering::Release);
        Ok(())
    })
}

/// The allocator that libbetz is linked with.
#[derive(Debug, Clone, Copy, Default)]
pub struct BetzAllocator;

impl BetzAllocator {
    /// From the host or the system; NULL when it has none.
    fn outside(layout: Layout) -> *mut u8 {
        match host() {
            // SAFETY: the host's promise.
            Some(host) => host.allocate.map_or(ptr::null_mut(), |allocate| unsafe {
                allocate(host.user, layout.size(), layout.align()).cast()
            }),
            // SAFETY: the layout is the caller's of `alloc`.
            None => unsafe { System.alloc(layout) },
        }
    }
}

/// For `betz-library`, which puts the reserve behind what std takes from the system for itself.
#[doc(hidden)]
impl BetzAllocator {
    /// A block of the reserve, or NULL when none is large enough.
    pub fn reserved(layout: Layout) -> *mut u8 {
        IN_RESERVE.take(layout)
    }

    /// Whether a block lies in the reserve. No block of the reserve does not, nor NULL.
    pub fn is_reserved(block: *mut u8) -> bool {
        IN_RESERVE.holds(block)
    }

    /// Takes a block of the reserve back, once; false, and nothing done, for any other.
    pub fn take_back(block: *mut u8) -> bool {
        let is_reserved = IN_RESERVE.holds(block);
        if is_reserved {
            IN_RESERVE.give_back();
        }
        is_reserved
    }
}

// SAFETY: blocks are the host's, the system's or the reserve's, each as large and aligned as asked, and
// go back to where they came from, which the reserve's addresses tell.
unsafe impl GlobalAlloc for BetzAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = Self::outside(layout);
        if block.is_null() {
            return IN_RESERVE.take(layout);
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if host().is_none() {
            // SAFETY: the caller's layout. The system knows which pages are zero already.
            let block = unsafe { System.alloc_zeroed(layout) };
            if !block.is_null() {
                return block;
            }
        }
        // SAFETY: as large as asked.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if IN_RESERVE.holds(block) {
            return IN_RESERVE.give_back();
        }
        match host() {
            Some(host) => {
                if let Some(release) = host.release {
                    // SAFETY: the block is the host's, with these numbers.
                    unsafe { release(host.user, block.cast(), layout.size(), layout.align()) }
                }
            }
            // SAFETY: the block is the system's.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if host().is_none() && !IN_RESERVE.holds(block) {
            // SAFETY: the block is the system's.
            let longer = unsafe { System.realloc(block, layout, size) };
            if !longer.is_null() {
                return longer;
            }
        }
        // SAFETY: `size` is one that a layout may have, by the caller's promise; old and new do not overlap.
        unsafe {
            let fresh = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !fresh.is_null() {
                ptr::copy_nonoverlapping(block, fresh, size.min(layout.size()));
                self.dealloc(block, layout);
            }
            fresh
        }
    }
}

/// Fails when the system would not give `bytes` now: asked before work whose parts are not each asked for.
pub(crate) fn expect_room(bytes: usize, what: &'static str) -> Result<()> {
    // What fits in the reserve needs no asking.
    if bytes <= RESERVE / 4 {
        return Ok(());
    }
    Ok(memory::expect(what, bytes)?)
}

/// True where the host or the system gives `bytes` now, without the reserve: that is for calls.
#[cfg(feature = "train")]
pub(crate) fn has_room_outside(bytes: usize) -> bool {
    Shortage::begin();
    memory::expect("work", bytes).is_ok() && Shortage::check().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_whole_again_when_its_last_block_is_freed() {
        static RESERVE_OF_THE_TEST: Reserve = Reserve {
            room: UnsafeCell::new([0; RESERVE]),
            state: AtomicU64::new(0),
        };
        let reserve = &RESERVE_OF_THE_TEST;
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        let first = reserve.take(layout(1, 1));
        let second = reserve.take(layout(RESERVE / 2, 64));
        assert!(reserve.holds(first) && reserve.holds(second) && first != second);
        assert_eq!(second as usize % 64, 0);
        assert!(
            reserve.take(layout(RESERVE / 2, 64)).is_null(),
            "half is taken"
        );
        assert!(reserve.take(layout(8, 8192)).is_null());
        reserve.give_back();
        assert!(
            reserve.take(layout(RESERVE / 2, 64)).is_null(),
            "one is in use"
        );
        reserve.give_back();
        let whole = reserve.take(layout(RESERVE, 4096));
        assert!(reserve.holds(whole));
        // SAFETY: one past the room, not touched.
        assert!(!reserve.holds(unsafe { whole.add(RESERVE) }));
        reserve.give_back();
    }

    #[test]
    fn blocks_of_two_threads_do_not_overlap() {
        static RESERVE_OF_THE_TEST: Reserve = Reserve {
            room: UnsafeCell::new([0; RESERVE]),
            state: AtomicU64::new(0),
        };
        std::thread::scope(|scope| {
            for mark in 1..=4u8 {
                scope.spawn(move || {
                    for size in 1..2000 {
                        let layout = Layout::from_size_align(size % 97 + 1, 8).unwrap();
                        let block = RESERVE_OF_THE_TEST.take(layout);
                        if block.is_null() {
                            continue;
                        }
                        // SAFETY: this thread's own until it is given back.
                        unsafe {
                            block.write_bytes(mark, layout.size());
                            for i in 0..layout.size() {
                                assert_eq!(block.add(i).read(), mark);
                            }
                        }
                        RESERVE_OF_THE_TEST.give_back();
                    }
                });
            }
        });
        assert_eq!(RESERVE_OF_THE_TEST.state.load(Ordering::Relaxed), 0);
    }
}
