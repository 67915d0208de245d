//! Blocks of memory that the host provides, one per session.
//!
//! While a session is opened in a block, the allocator takes this thread's requests from the block, one behind the
//! other. Freed parts are not used again (except the newest one): a session that runs allocates nothing. An address
//! tells whether a part belongs to a block, so that it may be freed wherever and whenever.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use crate::failure::{Failure, Result};

/// Most blocks in use at once.
const BLOCKS: usize = 64;

/// Alignment of a block, and unit of its size: a page.
pub(crate) const ALIGNMENT: usize = 4096;

/// A block in use: its addresses, and the number of parts that are not freed.
struct Slot {
    /// Odd while the addresses change, so that nobody takes the start of one block with the end of another.
    version: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    parts: AtomicUsize,
}

/// Start of a slot that is being set up or taken down: no address lies in it.
const RESERVED: usize = usize::MAX;

static SLOTS: [Slot; BLOCKS] = [const {
    Slot {
        version: AtomicUsize::new(0),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        parts: AtomicUsize::new(0),
    }
}; BLOCKS];

impl Slot {
    /// True if `part` lies in the block. A slot that changes meanwhile holds no part that is in use.
    fn holds(&self, part: usize) -> bool {
        let version = self.version.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Relaxed);
        let end = self.end.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let unchanged =
            version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        unchanged && start <= part && part < end
    }

    /// Sets the addresses. Only one thread at a time has reserved the slot.
    fn set(&self, start: usize, end: usize) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// Number of slots that have ever been in use: without any, freeing looks at nothing.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Number of threads that are opening a session in a block, or measuring one.
static FILLERS: AtomicUsize = AtomicUsize::new(0);

/// Requests of a thread while it opens a session.
#[derive(Clone, Copy)]
struct FillState {
    /// Slot of the block; `None` while only measuring.
    slot: Option<usize>,
    base: *mut u8,
    size: usize,
    /// Bytes taken now, and the most that were taken at once.
    taken: usize,
    most: usize,
    /// The newest part, and the bytes that were taken before it.
    newest: (*mut u8, usize),
    overflowed: bool,
}

thread_local! {
    static FILLING: Cell<Option<FillState>> = const { Cell::new(None) };
}

/// Takes a part of the block that this thread is filling. `None` for a request that goes elsewhere. While measuring,
/// `outside` provides the part.
#[inline]
pub(crate) fn take(layout: Layout, outside: impl FnOnce() -> *mut u8) -> Option<*mut u8> {
    if !is_filling() {
        return None;
    }
    take_slowly(layout, outside)
}

#[cold]
fn take_slowly(layout: Layout, outside: impl FnOnce() -> *mut u8) -> Option<*mut u8> {
    // A thread that ends has no block.
    let mut filling = FILLING.try_with(Cell::get).ok().flatten()?;
    let start = filling.taken.checked_next_multiple_of(layout.align())?;
    let end = start.checked_add(layout.size())?;
    let part = match filling.slot {
        None => outside(),
        Some(slot) if end <= filling.size && layout.align() <= ALIGNMENT => {
            SLOTS[slot].parts.fetch_add(1, Ordering::Relaxed);
            filling.base.wrapping_add(start)
        }
        Some(_) => {
            filling.overflowed = true;
            FILLING.set(Some(filling));
            return None;
        }
    };
    filling.newest = (part, filling.taken);
    filling.taken = end;
    filling.most = filling.most.max(end);
    FILLING.set(Some(filling));
    Some(part)
}

/// True while a thread is filling a block or measuring.
#[inline]
pub(crate) fn is_filling() -> bool {
    FILLERS.load(Ordering::Relaxed) != 0
}

/// True if `part` belongs to a block.
#[inline]
pub(crate) fn holds(part: *mut u8) -> bool {
    USED.load(Ordering::Relaxed) != 0 && slot_of(part).is_some()
}

#[cold]
fn slot_of(part: *mut u8) -> Option<usize> {
    let used = USED.load(Ordering::Acquire).min(BLOCKS);
    (SLOTS[..used].iter()).position(|slot| slot.holds(part as usize))
}

/// Frees a part of a block. Returns false and does nothing for any other part.
#[inline]
pub(crate) fn give_back(part: *mut u8) -> bool {
    if is_filling() {
        give_back_newest(part);
    }
    if USED.load(Ordering::Relaxed) == 0 {
        return false;
    }
    let Some(slot) = slot_of(part) else {
        return false;
    };
    SLOTS[slot].parts.fetch_sub(1, Ordering::Release);
    true
}

/// Makes the bytes of the newest part available again.
#[cold]
fn give_back_newest(part: *mut u8) {
    if let Some(mut filling) = FILLING.try_with(Cell::get).ok().flatten()
        && filling.newest.0 == part
    {
        filling.taken = filling.newest.1;
        filling.newest.0 = ptr::null_mut();
        FILLING.set(Some(filling));
    }
}

/// This thread's requests go to a block, or are measured, while it lives.
struct Filler;

impl Filler {
    fn begin(slot: Option<usize>, base: *mut u8, size: usize) -> Self {
        FILLERS.fetch_add(1, Ordering::Relaxed);
        FILLING.set(Some(FillState {
            slot,
            base,
            size,
            taken: 0,
            most: 0,
            newest: (ptr::null_mut(), 0),
            overflowed: false,
        }));
        Self
    }

    /// The most bytes taken at once, and true if a request found no room.
    fn demand(&self) -> (usize, bool) {
        FILLING
            .get()
            .map_or((0, false), |filling| (filling.most, filling.overflowed))
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        FILLING.set(None);
        FILLERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The result of `make`, and the size of the block that it needs.
pub(crate) fn measure<T>(make: impl FnOnce() -> Result<T>) -> Result<(T, usize)> {
    let filler = Filler::begin(None, ptr::null_mut(), 0);
    let made = make()?;
    let (most, _) = filler.demand();
    Ok((made, most.next_multiple_of(ALIGNMENT)))
}

/// A block that is being filled; it is given back if it is dropped.
pub(crate) struct Block {
    slot: usize,
}

impl Block {
    /// Registers the block.
    pub(crate) fn register(base: *mut u8, size: usize) -> Result<Self> {
        let free = |slot: &Slot| {
            (slot.start)
                .compare_exchange(0, RESERVED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let slot = (SLOTS.iter().position(free)).ok_or(Failure::Argument {
            name: "block",
            expected: "at most 64 sessions in blocks at once",
        })?;
        SLOTS[slot].parts.store(0, Ordering::Relaxed);
        SLOTS[slot].set(base as usize, base as usize + size);
        USED.fetch_max(slot + 1, Ordering::AcqRel);
        Ok(Self { slot })
    }

    /// The result of `make`, whose memory is the block's. Fails if the block is too small.
    pub(crate) fn fill<T>(
        self,
        make: impl FnOnce() -> Result<T>,
        free: impl FnOnce(T),
    ) -> Result<T> {
        let slot = &SLOTS[self.slot];
        let base = slot.start.load(Ordering::Relaxed) as *mut u8;
        let size = slot.end.load(Ordering::Relaxed) - base as usize;
        let filler = Filler::begin(Some(self.slot), base, size);
        let made = make();
        let (_, overflowed) = filler.demand();
        drop(filler);
        match made {
            Ok(made) if !overflowed => {
                std::mem::forget(self);
                Ok(made)
            }
            Ok(made) => {
                free(made);
                Err(Failure::Argument {
                    name: "size",
                    expected: "the size that betz_session_size gives",
                })
            }
            // The error's text lies in the block.
            Err(_) => Err(Failure::OutOfMemory),
        }
    }

    /// The block that `part` belongs to, for giving it back.
    pub(crate) fn of<T>(part: *mut T) -> Option<Self> {
        let part = part.cast::<u8>();
        holds(part)
            .then(|| slot_of(part))
            .flatten()
            .map(|slot| Self { slot })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let slot = &SLOTS[self.slot];
        let parts = slot.parts.load(Ordering::Acquire);
        debug_assert!(
            parts == 0 || std::thread::panicking(),
            "{parts} parts of a closed session's block are in use"
        );
        slot.set(RESERVED, 0);
        slot.start.store(0, Ordering::Release);
    }
}
