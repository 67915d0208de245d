//! Threads for the parallel work of one owner.

use std::format;
use std::prelude::rust_2024::*;
use std::thread::{self, JoinHandle};

use crate::error::{Error, ErrorKind, Result};

/// A pool of threads for the parallel work of one owner. They inherit policy, priority, processors and signal mask from
/// the thread that starts the pool. Dropping the pool waits for their end.
///
/// A library must not use rayon's global pool: that pool's threads inherit from whichever caller happens to come first,
/// live until the process ends, and do not exist in a forked child.
///
/// ```
/// # fn main() -> betz_base::Result<()> {
/// let pool = betz_base::worker::Pool::start("sum", 2)?;
/// assert_eq!(pool.run(|| 1 + 1), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Pool {
    // Declared before the threads, and therefore dropped first: that tells them to end.
    pool: rayon::ThreadPool,
    _threads: Threads,
}

impl Pool {
    /// Starts `threads` threads `betz-NAME-INDEX`; 0: one per processor that the caller may use.
    ///
    /// # Errors
    /// `Io` when the system cannot start one of them.
    pub fn start(name: &str, threads: usize) -> Result<Self> {
        let mut started = Threads::default();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .spawn_handler(|thread| started.start(name, thread))
            .build()
            .map_err(|e| {
                let text = format!("threads of the {name} pool cannot be started: {e}");
                Error::new(ErrorKind::Io, text)
            })?;
        Ok(Self {
            pool,
            _threads: started,
        })
    }

    /// Runs `work` in the pool: its parallel parts use these threads alone. The caller waits, and a panic continues in
    /// it.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }
}

/// The threads of a pool; dropping this waits for them.
#[derive(Debug, Default)]
struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    fn start(&mut self, name: &str, thread: rayon::ThreadBuilder) -> std::io::Result<()> {
        let started = thread::Builder::new()
            .name(format!("betz-{name}-{}", thread.index()))
            .spawn(|| thread.run())?;
        self.0.push(started);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // A panic has already continued in the caller of `run`.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_runs_on_threads_of_the_pool_which_have_ended_after_it() {
        let pool = Pool::start("test", 3).unwrap();
        let name = || thread::current().name().map(str::to_owned);
        let (one, other) = pool.run(|| rayon::join(name, name));
        for name in [one, other] {
            assert!(name.is_some_and(|name| name.starts_with("betz-test-")));
        }
        assert_eq!(pool.run(rayon::current_num_threads), 3);
        let handles = &pool._threads.0;
        assert!(handles.len() == 3 && handles.iter().all(|thread| !thread.is_finished()));
    }
}
