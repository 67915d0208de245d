//! Scheduling of a session's threads: real-time priority and processors.

use betz_base::Result;

use crate::plan::{Plan, Priority};

/// Priority and processor of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadPlace {
    /// Priority of `SCHED_FIFO`; `None`: that of other programs.
    pub fifo: Option<u8>,
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
        Self {
            fifo: of.fifo.map(|priority| priority.saturating_sub(1).max(1)),
            ..of
        }
    }

    fn of(plan: &Plan, thread: usize) -> Self {
        let Priority(fifo) = plan.session.priority;
        Self {
            fifo,
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
        match self.fifo {
            Some(priority) => system::set_fifo(priority).map_err(refused("priority")),
            None => Ok(()),
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
        let message = format!("expected Linux, got {}, {error}", std::env::consts::OS);
        return plan.refuse("session", refusal.key, message);
    }
    let message = match (refusal.key, place.core, place.fifo) {
        ("cores", Some(core), _) => format!(
            "expected a processor of this machine that this program may use, got {core}: {error}"
        ),
        (_, _, Some(priority)) => format!(
            "expected the right to run at fifo:{priority} (CAP_SYS_NICE, or `ulimit -r {priority}`), got none: {error}"
        ),
        _ => error.to_string(),
    };
    plan.refuse("session", refusal.key, message)
}

/// The places of a session's threads in words.
pub(crate) fn describe(plan: &Plan) -> String {
    let priority = match plan.session.priority {
        Priority(None) => "normal: other programs may delay the session".to_owned(),
        fifo => format!("{fifo}, the recorder behind"),
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
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io::{Error, ErrorKind, Result};

    #[cfg(windows)]
    pub(super) use super::windows::pin;

    #[cfg(not(windows))]
    pub(super) fn pin(_: usize) -> Result<()> {
        let lacks = "where a thread cannot be kept on a processor; leave `cores` out";
        Err(Error::new(ErrorKind::Unsupported, lacks))
    }

    pub(super) fn set_fifo(_: u8) -> Result<()> {
        let lacks = "which has no `SCHED_FIFO`; leave `priority` out";
        Err(Error::new(ErrorKind::Unsupported, lacks))
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
