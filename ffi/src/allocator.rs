//! Memory of the library: from the host, from the system, or from a reserve if neither has any.
//!
//! Rust ends the process when memory runs out, and an allocator must not unwind. To keep a controller
//! running, [`BetzAllocator`] has a reserve. If the system refuses a block, the reserve provides it; the
//! call runs to its end, frees its results and returns `BETZ_ERROR_OUT_OF_MEMORY` (`shortage.rs`; checked
//! when a handle is made). The reserve is one range of addresses, so that its blocks are recognised wherever
//! and whenever they are freed. When the last block is freed, the whole reserve is available again.
//!
//! A block that is larger than the rest of the reserve is refused. Blocks that grow with the caller's data
//! are therefore allocated with `try_reserve` or checked beforehand (`expect_room`), and a failure becomes
//! an error; all other blocks are small.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use betz::memory;

use crate::barrier;
use crate::block;
use crate::failure::{Failure, Result};
use crate::grow::{self, Config, grows};
use crate::shortage::Shortage;
use crate::status::betz_status;

/// Size of the reserve in bytes. While unused it takes addresses but no memory, unless all memory is locked.
const RESERVE: usize = 4 << 20;

#[repr(C, align(4096))]
struct Reserve {
    room: UnsafeCell<[u8; RESERVE]>,
    /// Number of blocks in use << 32 | bytes taken.
    state: AtomicU64,
}

// SAFETY: each part of the room belongs to the caller that got it from `take`.
unsafe impl Sync for Reserve {}

static IN_RESERVE: Reserve = Reserve {
    room: UnsafeCell::new([0; RESERVE]),
    state: AtomicU64::new(0),
};

impl Reserve {
    /// Allocates a block of the room; NULL if no block is large enough.
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

    /// Frees a block of this reserve; with the last one, the whole reserve is free.
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
    /// Memory functions of the host. `allocate` returns `size` bytes aligned to `align` (a power of two), or
    /// NULL if it has none; `release` takes them back with the same numbers. Both are called from any
    /// thread, from several at once, and must not call Betz.
    #[repr(C)]
    pub struct betz_allocator {
        /// Size of this struct in bytes in the caller's header.
        pub struct_size: u32,
        /// Zero.
        pub reserved: u32,
        /// Pointer passed to both functions unchanged.
        pub user: *mut c_void,
        /// Allocates memory.
        pub allocate:
            Option<unsafe extern "C" fn(user: *mut c_void, size: usize, align: usize) -> *mut c_void>,
        /// Frees memory.
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

/// The host's functions, written once before `STATE` becomes `HOSTED`.
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
/// The host's functions are being stored.
const SETTING: u8 = 1;
/// Memory comes from the system.
const SYSTEM: u8 = 2;
/// Memory comes from the host.
const HOSTED: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(OPEN);

/// The host's functions, if it has set any. They cannot change after the first allocation.
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
            // Another thread is setting them at this moment.
            Err(_) => std::hint::spin_loop(),
        }
    }
}

/// Makes Betz allocate with the host's functions, for the rest of the process. Call it before any other
/// function: it fails with `BETZ_ERROR_INVALID_ARGUMENT` if Betz has already allocated memory, and on a
/// second call. Memory that the C library and a device's driver allocate for themselves, such as a thread's
/// stack, does not use these functions.
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
        // SAFETY: in this state no other thread reads or writes.
        unsafe { *HOST.0.get() = given };
        STATE.store(HOSTED, Ordering::Release);
        Ok(())
    })
}

/// The allocator that libbetz is linked with.
#[derive(Debug, Clone, Copy, Default)]
pub struct BetzAllocator;

impl BetzAllocator {
    /// Allocates from the host or the system; NULL if it has no memory.
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
    /// Allocates a block of the reserve; NULL if no block is large enough.
    pub fn reserved(layout: Layout) -> *mut u8 {
        IN_RESERVE.take(layout)
    }

    /// True if a block lies in the reserve; false for all others and for NULL.
    pub fn is_reserved(block: *mut u8) -> bool {
        IN_RESERVE.holds(block)
    }

    /// Frees a block of the reserve, once. Returns false and does nothing for any other block.
    pub fn take_back(block: *mut u8) -> bool {
        let is_reserved = IN_RESERVE.holds(block);
        if is_reserved {
            IN_RESERVE.give_back();
        }
        is_reserved
    }
}

// SAFETY: each block comes from the host, the system or the reserve, as large and aligned as requested, and
// is freed there; its address tells whether it is the reserve's.
unsafe impl GlobalAlloc for BetzAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let outside = || Self::outside(layout);
        let block = block::take(layout, outside).unwrap_or_else(outside);
        if block.is_null() {
            return IN_RESERVE.take(layout);
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if host().is_none() && !block::is_filling() {
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
        if block::give_back(block) {
            return;
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
        let is_systems = !IN_RESERVE.holds(block) && !block::holds(block);
        if host().is_none() && is_systems && !block::is_filling() {
            // SAFETY: the block is the system's.
            let longer = unsafe { System.realloc(block, layout, size) };
            if !longer.is_null() {
                return longer;
            }
        }
        // SAFETY: `size` is valid for a layout by the caller's promise; old and new block do not overlap.
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

/// Fails if the system cannot provide `bytes` now. Called before work whose single allocations are not
/// checked.
pub(crate) fn expect_room(bytes: usize, what: &'static str) -> Result<()> {
    // Small amounts fit into the reserve and need no check.
    if bytes <= RESERVE / 4 {
        return Ok(());
    }
    Ok(memory::expect(what, bytes)?)
}

/// True if the host or the system can provide `bytes` now. The reserve, which is for calls, does not count.
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
