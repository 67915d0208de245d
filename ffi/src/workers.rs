//! Threads of Betz: their number, priority and processors follow the configuration, not the caller's thread.
//!
//! A new thread inherits the policy, priority and processors of the thread that starts it. A controller may
//! call from its real-time thread, pinned to one core. The work therefore begins on a thread that first sets
//! its own policy, priority and processors, and that thread starts all others.

#[cfg(feature = "train")]
use betz::Pool;
use betz::{Error, ErrorKind};

use crate::cast;
use crate::failure::{Failure, Result};

/// Largest number of threads for one call.
const MAX_THREADS: u32 = 1024;
/// Highest priority of SCHED_FIFO.
const MAX_PRIORITY: u32 = 99;

/// Number, priority and processors of threads.
#[derive(Debug, Clone)]
pub(crate) struct Workers {
    threads: usize,
    priority: u32,
    processors: Vec<usize>,
}

impl Workers {
    /// Reads the configuration's fields of the same names.
    ///
    /// # Safety
    /// The same as for [`cast::slice`] of `processors` and `n_processors`.
    pub(crate) unsafe fn read(
        threads: u32,
        priority: u32,
        processors: *const u32,
        n_processors: usize,
    ) -> Result<Self> {
        if threads > MAX_THREADS {
            return Err(Failure::Argument {
                name: "config->threads",
                expected: "at most 1,024",
            });
        }
        if priority > MAX_PRIORITY {
            return Err(Failure::Argument {
                name: "config->thread_priority",
                expected: "0 (the normal policy) or 1 to 99 (SCHED_FIFO)",
            });
        }
        // SAFETY: the caller's promise.
        let processors = unsafe { cast::slice(processors, n_processors, "config->processors")? };
        if processors
            .iter()
            .any(|&p| p as usize >= system::MAX_PROCESSORS)
        {
            return Err(Failure::Argument {
                name: "config->processors",
                expected: "numbers of processors, 0 to 1,023",
            });
        }
        Ok(Self {
            threads: threads as usize,
            priority,
            processors: processors.iter().map(|&p| p as usize).collect(),
        })
    }

    /// Runs `work` on a thread of this kind; threads that it starts inherit its settings. The caller waits,
    /// and a panic continues in it.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let begun = std::thread::Builder::new()
                .name("betz-work".into())
                .spawn_scoped(scope, || {
                    system::settle(self.priority, &self.processors)?;
                    work()
                })
                .map_err(|e| no_thread(&e))?;
            (begun.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Threads with the process's plain scheduling, one per processor that it may use.
    #[cfg(any(feature = "train", feature = "page"))]
    pub(crate) fn plain() -> Self {
        Self {
            threads: 0,
            priority: 0,
            processors: Vec::new(),
        }
    }

    /// Runs `work` with a pool of these threads for its parallel parts, otherwise like [`run`](Self::run).
    /// The threads have ended when the call returns. Otherwise a thread that allocates while it ends, and
    /// finds no memory, would make the caller's next call report a shortage.
    #[cfg(feature = "train")]
    pub(crate) fn run_in_pool<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> Result<T> {
        self.run(|| Pool::start("work", self.threads)?.run(work))
    }
}

fn no_thread(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("a thread to work in: {error}"))
}

/// The process that has a handle's threads; a forked child does not have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// This process. Calls no system: steps and reads of outputs ask for it.
    pub(crate) fn current() -> Self {
        Self(system::generation())
    }

    /// Refuses a call that needs threads of the parent process.
    pub(crate) fn check(self, name: &'static str) -> Result<()> {
        if self == Self::current() {
            Ok(())
        } else {
            Err(Failure::Forked(name))
        }
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "calls of the C library that std does not have")]
mod system {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    use betz::{Error, ErrorKind};

    pub(super) const MAX_PROCESSORS: usize = libc::CPU_SETSIZE as usize;
    const WORDS: usize = MAX_PROCESSORS / 64;

    /// The processors of the process when the library was loaded, before any thread was pinned; zeros before
    /// that.
    static AT_LOAD: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

    extern "C" fn at_load() {
        // SAFETY: the function stays loaded as long as the process runs (`-z nodelete`), and only adds to a number.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
        // SAFETY: a set of zeros is a set; the kernel writes no more than its size.
        let set = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            if libc::sched_getaffinity(0, size_of_val(&set), &mut set) != 0 {
                return;
            }
            set
        };
        for cpu in 0..MAX_PROCESSORS {
            // SAFETY: below CPU_SETSIZE.
            if unsafe { libc::CPU_ISSET(cpu, &set) } {
                AT_LOAD[cpu / 64].fetch_or(1 << (cpu % 64), Ordering::Relaxed);
            }
        }
    }

    #[used]
    #[unsafe(link_section = ".init_array")]
    static RUN_AT_LOAD: extern "C" fn() = at_load;

    /// Number of forks between the process that loaded the library and this one.
    static GENERATION: AtomicU32 = AtomicU32::new(0);

    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn generation() -> u32 {
        GENERATION.load(Ordering::Relaxed)
    }

    /// Sets policy, priority and processors of the calling thread, which is a new thread of Betz, and blocks
    /// the host's signals in it.
    pub(super) fn settle(priority: u32, processors: &[usize]) -> Result<(), Error> {
        default_floats();
        // SAFETY: the sets are initialised and have the given size; all calls concern the calling thread
        // only.
        unsafe {
            let mut signals: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut signals);
            libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut());

            let mut parameters: libc::sched_param = std::mem::zeroed();
            parameters.sched_priority = priority as i32;
            let policy = if priority == 0 {
                libc::SCHED_OTHER
            } else {
                libc::SCHED_FIFO
            };
            let refused = libc::pthread_setschedparam(libc::pthread_self(), policy, &parameters);
            if refused != 0 {
                return Err(system_error(
                    format_args!("config->thread_priority {priority}"),
                    &std::io::Error::from_raw_os_error(refused),
                ));
            }

            let mut set: libc::cpu_set_t = std::mem::zeroed();
            if processors.is_empty() {
                for cpu in 0..MAX_PROCESSORS {
                    if AT_LOAD[cpu / 64].load(Ordering::Relaxed) >> (cpu % 64) & 1 == 1 {
                        libc::CPU_SET(cpu, &mut set);
                    }
                }
                // None may be left if the machine's processors have changed since: then use the caller's.
                libc::sched_setaffinity(0, size_of_val(&set), &set);
                return Ok(());
            }
            processors
                .iter()
                .for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
            if libc::sched_setaffinity(0, size_of_val(&set), &set) != 0 {
                return Err(system_error(
                    format_args!("config->processors"),
                    &std::io::Error::last_os_error(),
                ));
            }
        }
        Ok(())
    }

    /// Sets the floating-point environment in which every program starts: no traps, rounding to nearest; on x86 also
    /// x87's, with its full precision. A new thread inherits the environment of the thread that starts it, and a host
    /// may have enabled traps.
    fn default_floats() {
        #[cfg(target_arch = "x86_64")]
        {
            let (sse, x87): (u32, u16) = (0x1F80, 0x037F);
            // SAFETY: loads both control registers from local words.
            unsafe {
                std::arch::asm!("ldmxcsr [{}]", in(reg) &sse, options(nostack, readonly));
                std::arch::asm!("fldcw [{}]", in(reg) &x87, options(nostack, readonly));
            }
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: writes the control register alone.
        unsafe {
            std::arch::asm!("msr fpcr, {}", in(reg) 0u64, options(nomem, nostack));
        }
    }

    fn system_error(what: std::fmt::Arguments<'_>, error: &std::io::Error) -> Error {
        Error::new(ErrorKind::Io, format!("{what}: {error}"))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use betz::Error;

    pub(super) const MAX_PROCESSORS: usize = 1024;

    pub(super) fn generation() -> u32 {
        std::process::id()
    }

    /// Only Linux supports these settings: on other systems the configuration must leave them to the system.
    pub(super) fn settle(priority: u32, processors: &[usize]) -> Result<(), Error> {
        if priority == 0 && processors.is_empty() {
            return Ok(());
        }
        Err(Error::argument(
            "config->thread_priority and config->processors: expected 0 and NULL on this system",
        ))
    }
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;

    fn control() -> u32 {
        let mut word = 0u32;
        // SAFETY: stores a register in a local word.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &mut word, options(nostack));
        }
        word
    }

    fn x87_control() -> u16 {
        let mut word = 0u16;
        // SAFETY: stores a register in a local word.
        unsafe {
            std::arch::asm!("fnstcw [{}]", in(reg) &mut word, options(nostack));
        }
        word
    }

    fn set_x87_control(word: u16) {
        // SAFETY: loads a register from a local word.
        unsafe {
            std::arch::asm!("fldcw [{}]", in(reg) &word, options(nostack, readonly));
        }
    }

    fn set_control(word: u32) {
        // SAFETY: loads a register from a local word.
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", in(reg) &word, options(nostack, readonly));
        }
    }

    /// The host's traps on invalid operations and its rounding toward zero do not reach threads of Betz.
    #[test]
    fn own_threads_have_the_default_floating_point_environment() {
        // SAFETY: there is no array of processors.
        let workers = unsafe { Workers::read(0, 0, std::ptr::null(), 0) }.unwrap();
        let before = control();
        set_control(0x1F80 & !0x80 | 0x6000);
        // Single precision, rounding toward zero.
        let x87_before = x87_control();
        set_x87_control(0x0C7F);
        let both = || (control() & 0xFFC0, x87_control());
        let within = workers.run(|| {
            let below = std::thread::spawn(both).join();
            Ok((both(), below.unwrap_or((0, 0))))
        });
        set_control(before);
        set_x87_control(x87_before);
        let (own, below) = within.unwrap();
        assert_eq!((own, below), ((0x1F80, 0x037F), (0x1F80, 0x037F)));
    }
}
