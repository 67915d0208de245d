//! Scheduling of a session's threads: real-time priority and processors.

use betz_base::Result;

use crate::plan::{Plan, Priority};

/// Priority and processor of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadPlace {
    /// Priority among the threads of all programs.
    pub priority: Priority,
    /// Number of the only processor that it runs on; `None`: any.
    pub core: Option<usize>,
}

impl ThreadPlace {
    /// The place of the thread that decodes.
    pub(crate) fn of_loop(plan: &Plan) -> Self {
        Self::of(plan, 0)
    }

    /// The place of the thread that hears a source.
    pub(crate) fn of_source(plan: &Plan, source: usize) -> Self {
        Self::of(plan, 1 + source)
    }

    /// The place of the recorder's thread: behind the others, because seconds of data may wait for it.
    pub(crate) fn of_recorder(plan: &Plan) -> Self {
        let of = Self::of(plan, 1 + plan.source.len());
        let priority = match of.priority {
            Priority::Fifo(priority) => Priority::Fifo(priority.saturating_sub(1).max(1)),
            Priority::Normal | Priority::Realtime => Priority::Normal,
        };
        Self { priority, ..of }
    }

    fn of(plan: &Plan, thread: usize) -> Self {
        Self {
            priority: plan.session.priority,
            core: plan.session.cores.get(thread).copied(),
        }
    }

    /// Places the calling thread. Threads that it starts later are of other programs' priority.
    ///
    /// # Errors
    /// The key that the system refuses, with its error.
    pub(crate) fn apply(self) -> std::result::Result<(), PlaceRefusal> {
        let refused = |key| move |error| PlaceRefusal { key, error };
        if let Some(core) = self.core {
            system::pin(core).map_err(refused("cores"))?;
        }
        match self.priority {
            Priority::Normal => Ok(()),
            Priority::Fifo(priority) => system::set_fifo(priority).map_err(refused("priority")),
            Priority::Realtime => system::set_realtime().map_err(refused("priority")),
        }
    }
}

/// A place that the system refuses.
pub(crate) struct PlaceRefusal {
    key: &'static str,
    pub(crate) error: std::io::Error,
}

/// Refuses priorities and processors that this machine does not permit: a thread that ends at once tries them.
///
/// # Errors
/// `InvalidArgument` with file, line and key.
pub(crate) fn check(plan: &Plan) -> Result<()> {
    let sources = (0..plan.source.len()).map(|source| ThreadPlace::of_source(plan, source));
    let ends = [ThreadPlace::of_loop(plan), ThreadPlace::of_recorder(plan)];
    for place in ends.into_iter().chain(sources) {
        if place == ThreadPlace::default() {
            continue;
        }
        let tried = std::thread::scope(|scope| scope.spawn(move || place.apply()).join());
        if let Ok(Err(refusal)) = tried {
            return Err(refuse(plan, place, &refusal));
        }
    }
    Ok(())
}

/// The error of a place that the system refuses.
pub(crate) fn refuse(plan: &Plan, place: ThreadPlace, refusal: &PlaceRefusal) -> betz_base::Error {
    let error = &refusal.error;
    if error.kind() == std::io::ErrorKind::Unsupported {
        return plan.refuse("session", refusal.key, error.to_string());
    }
    let message = match (refusal.key, place.core, place.priority) {
        ("cores", Some(core), _) => format!(
            "expected a processor of this machine that this program may use, got {core}: {error}"
        ),
        (_, _, Priority::Fifo(priority)) => format!(
            "expected the right to run at fifo:{priority} (CAP_SYS_NICE, or `ulimit -r {priority}`), got none: {error}"
        ),
        (_, _, Priority::Realtime) => {
            format!("expected the system to give realtime priority, got its refusal: {error}")
        }
        _ => error.to_string(),
    };
    plan.refuse("session", refusal.key, message)
}

/// The places of a session's threads in words.
pub(crate) fn describe(plan: &Plan) -> String {
    let priority = match plan.session.priority {
        Priority::Normal => "normal: other programs may delay the session".to_owned(),
        Priority::Realtime => "realtime, the recorder normal".to_owned(),
        fifo @ Priority::Fifo(_) => format!("{fifo}, the recorder behind"),
    };
    let sources = plan.source.iter().map(|source| source.name.as_str());
    let names = std::iter::once("loop").chain(sources).chain(["recorder"]);
    let cores: Vec<String> = (names.zip(&plan.session.cores))
        .map(|(name, core)| format!("{name} {core}"))
        .collect();
    match cores.as_slice() {
        [] => priority,
        cores => format!("{priority}; processors: {}", cores.join(", ")),
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod system {
    use std::io::{Error, Result};

    /// Lets the calling thread run on one processor only.
    pub(super) fn pin(core: usize) -> Result<()> {
        if core >= libc::CPU_SETSIZE as usize {
            return Err(Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: a set of no processors is all zeros, and `core` is in its range.
        let set = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(core, &mut set);
            set
        };
        // SAFETY: the set is of the size that is told; 0 is the calling thread.
        match unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        }
    }

    /// Gives the calling thread a real-time priority, and the threads that it starts none.
    pub(super) fn set_fifo(priority: u8) -> Result<()> {
        let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        // SAFETY: parameters of zeros are valid; 0 is the calling thread.
        let done = unsafe {
            let mut parameters: libc::sched_param = std::mem::zeroed();
            parameters.sched_priority = i32::from(priority);
            libc::sched_setscheduler(0, policy, &raw const parameters)
        };
        match done {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        }
    }

    pub(super) fn set_realtime() -> Result<()> {
        let lacks = "expected \"fifo:1\" to \"fifo:99\", the real-time priorities of Linux, got \"realtime\", which is for Windows and macOS";
        Err(Error::new(std::io::ErrorKind::Unsupported, lacks))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io::{Error, ErrorKind, Result};

    #[cfg(windows)]
    pub(super) use super::windows::{pin, set_realtime};

    #[cfg(target_os = "macos")]
    pub(super) use super::macos::set_realtime;

    #[cfg(not(windows))]
    pub(super) fn pin(_: usize) -> Result<()> {
        Err(lacking(
            "cannot keep a thread on a processor; leave `cores` out",
        ))
    }

    #[cfg(not(any(windows, target_os = "macos")))]
    pub(super) fn set_realtime() -> Result<()> {
        Err(lacking(
            "has no real-time priority that Betz knows; leave `priority` out",
        ))
    }

    pub(super) fn set_fifo(_: u8) -> Result<()> {
        Err(lacking(
            "has no `SCHED_FIFO`; Windows and macOS take \"realtime\"",
        ))
    }

    fn lacking(what: &str) -> Error {
        let message = format!("expected Linux, got {}, which {what}", std::env::consts::OS);
        Error::new(ErrorKind::Unsupported, message)
    }
}

/// Lets waits with a time limit end within a millisecond of it while a session runs. Windows looks for ended waits 64 times per second
/// otherwise; other systems need nothing.
#[derive(Debug)]
pub(crate) struct FineTicks {
    #[cfg(windows)]
    is_granted: bool,
}

impl FineTicks {
    pub(crate) fn begin() -> Self {
        Self {
            #[cfg(windows)]
            is_granted: windows::begin_ticks(),
        }
    }
}

#[cfg(windows)]
impl Drop for FineTicks {
    fn drop(&mut self) {
        if self.is_granted {
            windows::end_ticks();
        }
    }
}

#[cfg(windows)]
#[allow(unsafe_code)]
mod windows {
    use std::ffi::c_void;
    use std::io::{Error, ErrorKind, Result};

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetCurrentThread() -> *mut c_void;
        fn SetThreadAffinityMask(thread: *mut c_void, mask: usize) -> usize;
    }

    #[link(name = "avrt")]
    unsafe extern "system" {
        fn AvSetMmThreadCharacteristicsW(task: *const u16, index: *mut u32) -> *mut c_void;
        fn AvSetMmThreadPriority(task: *mut c_void, priority: i32) -> i32;
    }

    #[link(name = "winmm")]
    unsafe extern "system" {
        fn timeBeginPeriod(milliseconds: u32) -> u32;
        fn timeEndPeriod(milliseconds: u32) -> u32;
    }

    /// `AVRT_PRIORITY_CRITICAL`: before all other threads of the task.
    const CRITICAL: i32 = 2;

    /// Makes the calling thread one of the multimedia scheduler's task "Pro Audio", until it ends.
    pub(super) fn set_realtime() -> Result<()> {
        let name: Vec<u16> = "Pro Audio\0".encode_utf16().collect();
        let mut index = 0;
        // SAFETY: the name ends with a zero and outlives the call, which writes to the index alone. The task is that of the
        // calling thread, and Windows closes it when the thread ends.
        let is_placed = unsafe {
            let task = AvSetMmThreadCharacteristicsW(name.as_ptr(), &raw mut index);
            !task.is_null() && AvSetMmThreadPriority(task, CRITICAL) != 0
        };
        match is_placed {
            true => Ok(()),
            false => Err(Error::last_os_error()),
        }
    }

    /// Asks for ticks of a millisecond; false if the system refuses.
    pub(super) fn begin_ticks() -> bool {
        // SAFETY: takes a number alone.
        unsafe { timeBeginPeriod(1) == 0 }
    }

    /// Takes back what [`begin_ticks`] was granted.
    pub(super) fn end_ticks() {
        // SAFETY: as above; its result says no more than that it was granted.
        let _ = unsafe { timeEndPeriod(1) };
    }

    /// Lets the calling thread run on one processor of its group only.
    pub(super) fn pin(core: usize) -> Result<()> {
        let bit = u32::try_from(core)
            .ok()
            .and_then(|core| 1_usize.checked_shl(core));
        let Some(mask) = bit else {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "a group of processors has 64",
            ));
        };
        // SAFETY: the handle stands for the calling thread and is not closed; a mask of processors that are not there is refused.
        match unsafe { SetThreadAffinityMask(GetCurrentThread(), mask) } {
            0 => Err(Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

#[cfg(target_os = "macos")]
#[allow(unsafe_code)]
mod macos {
    use std::ffi::c_void;
    use std::io::{Error, Result};

    #[repr(C)]
    struct Timebase {
        numerator: u32,
        denominator: u32,
    }

    /// Numbers of `THREAD_TIME_CONSTRAINT_POLICY`, in ticks of `mach_absolute_time`.
    #[repr(C)]
    struct TimeConstraint {
        period: u32,
        computation: u32,
        constraint: u32,
        is_preemptible: u32,
    }

    unsafe extern "C" {
        fn mach_timebase_info(base: *mut Timebase) -> i32;
        fn pthread_self() -> *mut c_void;
        fn pthread_mach_thread_np(thread: *mut c_void) -> u32;
        fn thread_policy_set(thread: u32, flavor: u32, policy: *const u32, count: u32) -> i32;
    }

    const THREAD_TIME_CONSTRAINT_POLICY: u32 = 2;
    /// Time that a thread may compute at once, and within which it must have done so, in nanoseconds.
    const COMPUTATION_NS: u64 = 1_000_000;
    const CONSTRAINT_NS: u64 = 3_000_000;

    /// Gives the calling thread a time constraint: it runs before all threads without one.
    pub(super) fn set_realtime() -> Result<()> {
        let mut base = Timebase {
            numerator: 0,
            denominator: 0,
        };
        // SAFETY: the structure is the system's.
        let told = unsafe { mach_timebase_info(&raw mut base) };
        if told != 0 || base.numerator == 0 {
            return Err(Error::other("mach_timebase_info failed"));
        }
        let ticks = |ns: u64| (ns * u64::from(base.denominator) / u64::from(base.numerator)) as u32;
        let policy = TimeConstraint {
            period: 0,
            computation: ticks(COMPUTATION_NS),
            constraint: ticks(CONSTRAINT_NS),
            is_preemptible: 1,
        };
        // SAFETY: the policy has the four numbers that are counted, and the port is that of the calling thread, which is not released.
        let result = unsafe {
            let port = pthread_mach_thread_np(pthread_self());
            thread_policy_set(
                port,
                THREAD_TIME_CONSTRAINT_POLICY,
                (&raw const policy).cast(),
                4,
            )
        };
        match result {
            0 => Ok(()),
            code => Err(Error::other(format!("thread_policy_set returned {code}"))),
        }
    }
}
