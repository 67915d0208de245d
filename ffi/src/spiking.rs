//! A spiking network at work (`include/betz_spiking.h`): currents and spikes in, spikes out.

use std::ffi::c_char;
use std::mem::ManuallyDrop;
use std::path::Path;

use betz::spiking::{Engine, MAX_THREADS, Network, Options};

use crate::barrier::{self, Handle, Poison};
use crate::cast;
use crate::exclusive::{Exclusive, ExclusiveGuard};
use crate::failure::{Failure, Result};
use crate::grow::{self, Config, grows};
use crate::status::betz_status;
use crate::train::open_device;
use crate::workers::{Process, Workers};

/// A running network of spiking neurons, built from a description in JSON. It fires the same spikes as
/// `betz simulate --spec` of that description, on any number of threads and on any device. One call at a time may use it: a second
/// one is refused (`BETZ_ERROR_BUSY`).
pub struct betz_spiking {
    state: ManuallyDrop<Exclusive<EngineState>>,
    populations: Vec<Range>,
    neurons: u32,
    step_seconds: f64,
    rounded_weights: u64,
    workers: Workers,
    /// The process that opened the device; `None` on the CPU, which a forked child may go on to use.
    process: Option<Process>,
    poison: Poison,
}

/// The state that steps change.
struct EngineState {
    engine: Engine,
    /// Neurons that fired in the last step, with room for all.
    fired: Vec<u32>,
}

/// Neurons of a population.
struct Range {
    name: String,
    first: u32,
    count: u32,
}

impl Handle for betz_spiking {
    const NAME: &'static str = "spiking";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl betz_spiking {
    fn open(engine: Engine, workers: Workers) -> Self {
        let network = engine.network();
        let populations: Vec<Range> = (network.populations.iter().zip(network.firsts()))
            .map(|(population, first)| Range {
                name: population.name.clone(),
                first: first as u32,
                count: population.neurons,
            })
            .collect();
        let neurons = network.neurons() as u32;
        Self {
            populations,
            neurons,
            step_seconds: network.step_ms * 1e-3,
            rounded_weights: (engine.plan().rounded_weights.iter())
                .map(|weights| weights.rounded as u64)
                .sum(),
            workers,
            process: (engine.ran().device != "cpu").then(Process::current),
            state: ManuallyDrop::new(Exclusive::new(EngineState {
                fired: Vec::with_capacity(neurons as usize),
                engine,
            })),
            poison: Poison::default(),
        }
    }

    /// The network, for one call. Refuses a second call, and a forked child that has no device.
    fn enter(&self) -> Result<ExclusiveGuard<'_, EngineState>> {
        if let Some(process) = self.process {
            process.check(Self::NAME)?;
        }
        self.state.enter(Self::NAME)
    }
}

impl Drop for betz_spiking {
    fn drop(&mut self) {
        // The device's driver works only in the process that opened it.
        if self
            .process
            .is_none_or(|opened| opened == Process::current())
        {
            // SAFETY: dropped here and never touched again.
            unsafe { ManuallyDrop::drop(&mut self.state) }
        }
    }
}

grows! {
    /// Configuration of a spiking network. Fill it with `betz_spiking_config_default`. Everything is copied.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_spiking_config {
        /// Size of this struct in bytes in the caller's header; the default function sets it.
        pub struct_size: u32,
        /// Number of threads that build the network, and that share its neurons in `betz_spiking_run`, 1 to 256. Default: 1.
        /// `betz_spiking_step` runs in the calling thread. Spikes do not depend on it.
        pub threads: u32,
        /// Most bytes that the network may take, in the device's memory if it runs on a device. 0 (default): the memory
        /// that is available.
        pub memory_bytes: u64,
        /// Device to run on: "cpu"; "cuda" (the first device), "cuda:N" or "cuda:all", which fail with
        /// `BETZ_ERROR_DEVICE_UNAVAILABLE` if there is no such device; "auto", a device for large networks. NULL (default):
        /// "cpu". Spikes do not depend on it. A single step on a device takes tens of microseconds or more.
        pub device: *const c_char,
        /// Folder of the files that the description names. NULL (default): the working directory.
        pub folder: *const c_char,
        /// Priority of these threads: 0 (default) for the normal policy, 1 to 99 for SCHED_FIFO, which needs the right to use
        /// it (`BETZ_ERROR_IO`). The calling thread's priority is not inherited.
        pub thread_priority: u32,
        /// Zero.
        pub reserved: u32,
        /// Numbers of the processors that these threads may run on. NULL (default): the processors that the process had when
        /// the library was loaded, even if the calling thread is pinned.
        pub processors: *const u32,
        /// Number of processors; 0 for NULL.
        pub n_processors: usize,
    }
}

impl Config for betz_spiking_config {
    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>() as u32,
            threads: 1,
            ..grow::zeroed()
        }
    }
}

/// Fills a spiking network's configuration of `size` bytes (pass `sizeof`) with the defaults. Writes nothing beyond `size`
/// bytes.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `config` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_spiking_config_default(
    config: *mut betz_spiking_config,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    barrier::run(|| unsafe { grow::write_defaults(config, size) })
}

/// Builds the network that the `length` bytes of `json` describe (docs/spiking.md), at rest before its first step. `config`
/// may be NULL, which means the defaults. The caller frees the network with `betz_spiking_close`.
///
/// Any bytes are safe to pass. A description that is refused is `BETZ_ERROR_INVALID_ARGUMENT`: the message names the
/// population or projection, the field and its range. Fails with `BETZ_ERROR_OUT_OF_MEMORY`, before it is built, if the
/// network exceeds `memory_bytes` or the memory that is available, and with `BETZ_ERROR_IO` if a file that it names cannot
/// be read.
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `json` is NULL or points to `length` bytes; `config` is NULL or a configuration whose texts are NULL or NUL-terminated and
/// whose array is as its fields say; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_spiking_open(
    json: *const c_char,
    length: usize,
    config: *const betz_spiking_config,
    out: *mut *mut betz_spiking,
) -> betz_status {
    barrier::run(|| {
        if json.is_null() {
            return Err(Failure::Null("json"));
        }
        // SAFETY: the caller's promise.
        let (json, out) = unsafe {
            (
                cast::slice(json.cast::<u8>(), length, "json")?,
                cast::out(out, "out")?,
            )
        };
        let json = std::str::from_utf8(json).map_err(|_| Failure::Argument {
            name: "json",
            expected: "UTF-8 text",
        })?;
        let given = match config.is_null() {
            true => betz_spiking_config::defaults(),
            // SAFETY: the caller's promise.
            false => unsafe { grow::read(config, "config")? },
        };
        grow::zero(given.reserved, "config->reserved")?;
        if !(1..=MAX_THREADS).contains(&(given.threads as usize)) {
            return Err(Failure::Argument {
                name: "config->threads",
                expected: "1 to 256",
            });
        }
        let folder = match given.folder.is_null() {
            true => Path::new(""),
            // SAFETY: the caller's promise.
            false => unsafe { cast::path(given.folder, "config->folder")? },
        };
        let memory = (given.memory_bytes != 0).then_some(given.memory_bytes);
        // SAFETY: the caller's promise.
        let (workers, device) = unsafe {
            let workers = Workers::read(
                given.threads,
                given.thread_priority,
                given.processors,
                given.n_processors,
            )?;
            (workers, open_device(given.device)?)
        };
        let options = Options {
            device: device.with_memory_cap(memory),
            threads: given.threads as usize,
            memory_limit: memory,
            ..Options::default()
        };
        let engine = workers.run_in_pool(|| {
            let network = Network::load(json, folder)?;
            Ok(Engine::build(&network, &options, &())?)
        })?;
        out.write(cast::into_handle(betz_spiking::open(engine, workers))?);
        Ok(())
    })
}

/// Returns the number of neurons; 0 for NULL. They are numbered from 0, population after population.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `spiking` is NULL or a live network.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_spiking_neurons(spiking: *const betz_spiking) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(spiking, 0, |s| s.neurons) }
}

/// Returns the length of a step in seconds; 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `spiking` is NULL or a live network.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_spiking_step_seconds(spiking: *const betz_spiking) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(spiking, 0.0, |s| s.step_seconds) }
}

/// Returns the number of listed weights that are 0 in the network although the description has others, because they are below
/// half a unit (docs/spiking.md, Guarantees): the largest weight of the network sets the unit of all. 0 for NULL.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `spiking` is NULL or a live network.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_spiking_rounded_weights(spiking: *const betz_spiking) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { barrier::query(spiking, 0, |s| s.rounded_weights) }
}

/// Finds a population by its name. Writes its number to `*population`, its first neuron to `*first` and its number of
/// neurons to `*count`. An unknown name is `BETZ_ERROR_INVALID_ARGUMENT`.
///
/// Thread-safe: yes. Realtime-safe: yes if it is found. Allocates: no if it is found.
///
/// # Safety
/// `spiking` is NULL or a live network; `name` is NULL or NUL-terminated; the others are NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_spiking_population(
    spiking: *const betz_spiking,
    name: *const c_char,
    population: *mut u32,
    first: *mut u32,
    count: *mut u32,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(spiking, |handle| {
            let name = cast::text(name, "name")?;
            let population = cast::out(population, "population")?;
            let first = cast::out(first, "first")?;
            let count = cast::out(count, "count")?;
            let found = (handle.populations.iter()).position(|range| range.name == name);
            let Some(number) = found else {
                let names: Vec<_> = handle.populations.iter().map(|p| &p.name).collect();
                return Err(betz::Error::argument(format!(
                    "name: expected a population among {names:?}, got {name:?}"
                ))
                .into());
            };
            population.write(number as u32);
            first.write(handle.populations[number].first);
            count.write(handle.populations[number].count);
            Ok(())
        })
    }
}

/// Sets the currents in pA into the `n` neurons of population number `population`, from the next step on, in place of its
/// stimuli. They hold until they are set again. `n` must be the population's number of neurons (`BETZ_ERROR_MISMATCH`
/// otherwise). A source takes no currents (`BETZ_ERROR_INVALID_ARGUMENT`), and all must be finite.
///
/// Thread-safe: no (the thread that steps). Realtime-safe: no. Allocates: yes (4 bytes per neuron, freed by the call).
///
/// # Safety
/// `spiking` is NULL or a live network; `currents_pa` points to `n` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_spiking_set_currents(
    spiking: *mut betz_spiking,
    population: u32,
    currents_pa: *const f64,
    n: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(spiking, |handle| {
            let currents = cast::slice(currents_pa, n, "currents_pa")?;
            let mut state = handle.enter()?;
            state.engine.set_currents(population as usize, currents)?;
            Ok(())
        })
    }
}

/// Lets `n` neurons of populations that are a `source` fire in the next step. They are numbered within the network. A neuron
/// of another population, or one that is named twice before a step, is `BETZ_ERROR_INVALID_ARGUMENT`, and none fires.
///
/// Thread-safe: no (the thread that steps). Realtime-safe: no. Allocates: yes (4 bytes per neuron named, freed by the call).
///
/// # Safety
/// `spiking` is NULL or a live network; `neurons` points to `n` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_spiking_emit(
    spiking: *mut betz_spiking,
    neurons: *const u32,
    n: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(spiking, |handle| {
            let neurons = cast::slice(neurons, n, "neurons")?;
            handle.enter()?.engine.emit(neurons)?;
            Ok(())
        })
    }
}

/// Adds `amount` of dopamine, by which the recent changes of synapses that learn from reward become weight. A network
/// without a projection whose plasticity has a `reward`, and an amount that is not finite, are refused
/// (`BETZ_ERROR_INVALID_ARGUMENT`).
///
/// Thread-safe: no (the thread that steps). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `spiking` is NULL or a live network.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_spiking_reward(
    spiking: *mut betz_spiking,
    amount: f64,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(spiking, |handle| {
            handle.enter()?.engine.reward(amount)?;
            Ok(())
        })
    }
}

/// Runs one step. Writes the neurons that fire in it to `fired`, in ascending order, and their number to `*count`.
/// `capacity`, the room of `fired`, must be at least the number of neurons (`BETZ_ERROR_MISMATCH` otherwise, and no step is
/// made): all may fire at once. With `fired` NULL and `capacity` 0 only the number is written.
///
/// `BETZ_ERROR_INVALID_ARGUMENT` is also the status of a step after which a potential is no number: the message names the
/// neuron. Close the network then.
///
/// On the CPU a step runs in the calling thread. Its lists of spikes grow while more neurons fire in a step than in any step
/// before; apart from that it allocates nothing and calls no system function. A device allocates and waits.
///
/// Thread-safe: no (one call at a time). Realtime-safe: on the CPU, once its lists have grown. Allocates: on the CPU, only while
/// its lists grow.
///
/// # Safety
/// `spiking` is NULL or a live network; `fired` points to `capacity` writable values; `count` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_spiking_step(
    spiking: *mut betz_spiking,
    fired: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(spiking, |handle| {
            let count = cast::out(count, "count")?;
            let is_wanted = !(fired.is_null() && capacity == 0);
            let short = |expected| Failure::Length {
                name: "capacity",
                expected,
                got: capacity,
            };
            if is_wanted && capacity < handle.neurons as usize {
                return Err(short(handle.neurons as usize));
            }
            let room = cast::slice_mut(fired, capacity, "fired")?;
            let mut state = handle.enter()?;
            let EngineState { engine, fired } = &mut *state;
            engine.step(fired)?;
            if is_wanted {
                fired.sort_unstable();
                let room = room.get_mut(..fired.len());
                room.ok_or(short(fired.len()))?.copy_from_slice(fired);
            }
            count.write(fired.len());
            Ok(())
        })
    }
}

/// Runs `steps` steps on the configured threads, or on the device. This is faster than single steps, and fires the same
/// spikes. The threads have ended when the call returns.
///
/// Thread-safe: no (one call at a time). Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `spiking` is NULL or a live network.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_spiking_run(spiking: *mut betz_spiking, steps: u64) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(spiking, |handle| {
            let mut state = handle.enter()?;
            let engine = &mut state.engine;
            handle.workers.run(|| Ok(engine.run(steps, &())?))?;
            Ok(())
        })
    }
}

/// Writes the number of steps and of spikes since the network was opened, and a hash of all these spikes. `betz simulate
/// --json` prints the same hash in hexadecimal.
///
/// Thread-safe: no (the thread that steps). Realtime-safe: on the CPU. Allocates: no.
///
/// # Safety
/// `spiking` is NULL or a live network; the others are NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_spiking_totals(
    spiking: *const betz_spiking,
    steps: *mut u64,
    spikes: *mut u64,
    hash: *mut u64,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::run_on(spiking, |handle| {
            let steps = cast::out(steps, "steps")?;
            let spikes = cast::out(spikes, "spikes")?;
            let hash = cast::out(hash, "hash")?;
            let state = handle.enter()?;
            steps.write(state.engine.steps());
            spikes.write(state.engine.spike_count());
            hash.write(state.engine.hash());
            Ok(())
        })
    }
}

/// Copies the number of spikes of each neuron since the network was opened to `out`, which has room for `n` values, the
/// number of neurons (`BETZ_ERROR_MISMATCH` otherwise).
///
/// Thread-safe: no (the thread that steps). Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `spiking` is NULL or a live network; `out` points to `n` writable values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_spiking_counts(
    spiking: *const betz_spiking,
    out: *mut u32,
    n: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    unsafe {
        barrier::wait_on(spiking, |handle| {
            if n != handle.neurons as usize {
                return Err(Failure::Length {
                    name: "n",
                    expected: handle.neurons as usize,
                    got: n,
                });
            }
            let out = cast::slice_mut(out, n, "out")?;
            out.copy_from_slice(&handle.enter()?.engine.counts());
            Ok(())
        })
    }
}

/// Closes and frees a network; does nothing for NULL. A poisoned network can be closed.
///
/// Thread-safe: no (nobody may use the network any more). Realtime-safe: no. Allocates: no.
///
/// # Safety
/// `spiking` is NULL or a live network, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_spiking_close(spiking: *mut betz_spiking) {
    // SAFETY: the caller's promise.
    barrier::run_free(|| unsafe { cast::drop_handle(spiking) });
}
