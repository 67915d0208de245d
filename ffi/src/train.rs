//! Training: spikes and behaviour in, a model out.

use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use betz::Error;
use betz::device::{Device, DeviceSpec};
use betz::model::{LowPass, MAX_CHANNELS, MAX_FILTERS, MAX_OUTPUTS};
use betz::progress::Progress;
use betz::psc::{Filter, FilterBank};
use betz::recording::{Dataset, OutputInfo, Segment, Spikes};
use betz::train::{Delay, MaskPolicy, RidgeChoice, TrainOptions, Training};

use crate::barrier;
use crate::cast;
use crate::enum_bits::enum_bits;
use crate::failure::{Failure, Result};
use crate::grow::{self, Config, grows};
use crate::model::betz_model;
use crate::queue::betz_spike;
use crate::status::betz_status;
use crate::train_filters::{betz_filter_sampled, betz_solver, read_sampled, read_solver};
use crate::train_kinds::{KindSettings, read_kinds};
use crate::workers::{Process, Workers};

/// Largest number of folds of a cross-validation: each fold is solved separately.
const MAX_FOLDS: usize = 1000;

/// One post-synaptic filter of the bank, h(t) = t^order e^(-t / tau_seconds) for t >= 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct betz_filter {
    /// Time constant in seconds, above 0.
    pub tau_seconds: f64,
    /// Order, 0 to 4.
    pub order: u32,
}

/// A trial: steps start, ..., stop - 1. Filter history never crosses its bounds.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct betz_segment {
    /// First step of the trial.
    pub start: i64,
    /// First step after the trial.
    pub stop: i64,
}

/// Method that sets lambda, the ridge on the diagonal of the covariance of the responses. 32 bits.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, non_camel_case_types)]
pub enum betz_ridge {
    /// lambda = sigma^2 T for neural noise of standard deviation sigma on every response and T
    /// steps: `ridge` is sigma, and 0 stands for a tenth of the largest response.
    BETZ_RIDGE_NOISE = 0,
    /// `ridge` is lambda itself.
    BETZ_RIDGE_FIXED = 1,
    /// Cross-validation chooses lambda; `ridge` is ignored. Needs `folds`.
    BETZ_RIDGE_CROSS_VALIDATED = 2,
}

/// Policy for a channel that is dead or a copy of others, if the ridge does not compensate for it. 32 bits.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, non_camel_case_types)]
pub enum betz_bad_channels {
    /// Fail with `BETZ_ERROR_NOT_POSITIVE_DEFINITE`; the message names the channel.
    BETZ_BAD_CHANNELS_REFUSE = 0,
    /// Mask the channel: its weights are zero, and the model records the mask.
    BETZ_BAD_CHANNELS_MASK = 1,
}

/// Receives the progress of training: `done` of `total` units of `stage` (UTF-8, valid during the call). Return 0 to
/// continue; any other value ends training with `BETZ_ERROR_INTERRUPTED`. It is called at least once before the work
/// and once after it, from any of the training threads, possibly from several at once. It must not unwind or longjmp.
pub type betz_progress =
    Option<extern "C" fn(user: *mut c_void, stage: *const c_char, done: u64, total: u64) -> u32>;

grows! {
    /// Configuration of training. Fill it with `betz_train_config_default`, then set at least `step_seconds` and
    /// `channels`. Everything is copied: nothing needs to outlive the call.
    #[repr(C)]
    pub struct betz_train_config {
        /// Size of this struct in bytes in the caller's header; the default function sets it.
        pub struct_size: u32,
        /// Number of channels, 1 to 1,048,576. No default.
        pub channels: u32,
        /// Length of one step (tick) in seconds. No default.
        pub step_seconds: f64,
        /// The bank: filters applied to every channel. NULL (default): cross-validation chooses among the library's
        /// presets, unless there are `sampled_filters`; this needs `folds`.
        pub filters: *const betz_filter,
        /// Number of filters, at most 256; 0 for NULL.
        pub n_filters: usize,
        /// Trials, ascending and disjoint; steps outside them are not used. NULL (default): one trial with all steps.
        pub segments: *const betz_segment,
        /// Number of trials; 0 for NULL.
        pub n_segments: usize,
        /// Method that sets the ridge. Default: cross-validation.
        pub ridge_choice: MaybeUninit<betz_ridge>,
        /// Policy for dead and duplicated channels. Default: refuse.
        pub bad_channels: MaybeUninit<betz_bad_channels>,
        /// sigma or lambda, depending on `ridge_choice`. Default: 0.
        pub ridge: f64,
        /// The output at step t estimates the behaviour at step t - delay_steps; a negative delay looks
        /// ahead. Default: 0.
        pub delay_steps: i64,
        /// Cut-off (-3 dB) in Hz of a Butterworth low-pass behind the filters. Default: 0, none.
        pub low_pass_hz: f64,
        /// Order of the low-pass, 1 to 8. Default: 2. Ignored without a cut-off.
        pub low_pass_order: u32,
        /// Number of folds of the cross-validation, which chooses what this configuration leaves open and scores the
        /// model (`betz_model_score`). At most 1,000, and at most the number of steps. Trials are kept whole if there
        /// are enough of them. Default: 5. 0: no cross-validation, which is several times as fast; bank and ridge must
        /// then be given.
        pub folds: u32,
        /// Names of the channels, UTF-8, one per channel, all different; NULL (default): "ch0", "ch1", ..., the same as
        /// in the command line's recordings.
        pub channel_names: *const *const c_char,
        /// Names of the outputs, UTF-8, one per output, all different; NULL (default): "x0", "x1", ...
        pub output_names: *const *const c_char,
        /// Units of the outputs, UTF-8, one per output; NULL (default): unknown.
        pub output_units: *const *const c_char,
        /// Function that receives the progress; NULL (default): none.
        pub progress: betz_progress,
        /// Pointer passed to `progress` unchanged.
        pub progress_user: *mut c_void,
        /// Device to train on: "cpu"; "cuda" (the first device), "cuda:N" or "cuda:all", which fail with
        /// `BETZ_ERROR_DEVICE_UNAVAILABLE` if there is no such device; "auto", the device with the least expected time.
        /// NULL (default): "cpu", which gives the same bits on any number of threads. Results of other devices differ
        /// by rounding.
        pub device: *const c_char,
        /// Number of threads that train; they end with the call. 0 (default): one for each of `processors`.
        pub threads: u32,
        /// Priority of these threads: 0 (default) for the normal policy, 1 to 99 for SCHED_FIFO, which needs the right
        /// to use it (`BETZ_ERROR_IO`). The calling thread's priority is not inherited.
        pub thread_priority: u32,
        /// Numbers of the processors that these threads may run on. NULL (default): the processors that the process had
        /// when the library was loaded, even if the calling thread is pinned.
        pub processors: *const u32,
        /// Number of processors; 0 for NULL.
        pub n_processors: usize,
        /// Store the sufficient statistics of training in the model, for `betz_trainer_open` and `betz drop`, if they
        /// take at most this many bytes (about features^2 / 2 * 8). If they take more, training is refused before it
        /// begins (`BETZ_ERROR_INVALID_ARGUMENT`). 0 (default): store none.
        pub retain_bytes: usize,
        /// Kinds of decoders to choose from, separated by commas: "linear", "lift", "experts", "kalman", "refit",
        /// "place" and "recurrent"; or "auto" for a blend of linear, lift, experts and recurrent. Another kind than the linear one is chosen
        /// if it is alone in the list, or if it decodes better in cross-validation by more than its uncertainty. Alone,
        /// "classes" trains a classifier: the behaviour is one column of labels, whole numbers from 0 and -1 for none.
        /// The classes are the numbers that occur, ascending, and the model has one output per class, its probability
        /// (`betz_session_classes`, `betz_session_events`). "lda" trains the same by linear discriminant
        /// analysis: of `folds` parts of the labelled steps, all but the last are summed, and the last one calibrates. All but
        /// "linear" need `folds` of at least 2, and a library with the feature "kinds" (`betz_has_feature`,
        /// `scripts/install.sh --parts training,kinds`): other libraries refuse them (`BETZ_ERROR_INVALID_ARGUMENT`). NULL (default):
        /// "linear", which every library that trains has.
        pub decoder: *const c_char,
        /// Seed of random projections, clusters and networks. Default: 0.
        pub seed: u64,
        /// 1: also estimate the variance of every output (`betz_session_variances`), if a lift, experts or a blend of these is chosen.
        /// 0 (default): do not.
        pub variance: u32,
        /// Zero.
        pub reserved: u32,
        /// Method that solves the linear system. Default: Cholesky.
        pub solver: MaybeUninit<betz_solver>,
        /// Zero.
        pub reserved_2: u32,
        /// Filters of samples, which follow `filters` in the bank. NULL (default): none. With these, `filters` may be NULL,
        /// and nothing is chosen among presets.
        pub sampled_filters: *const betz_filter_sampled,
        /// Number of filters of samples; 0 for NULL. At most 256 together with `n_filters`.
        pub n_sampled_filters: usize,
    }
}

impl Config for betz_train_config {
    fn defaults() -> Self {
        Self {
            struct_size: size_of::<Self>() as u32,
            ridge_choice: MaybeUninit::new(betz_ridge::BETZ_RIDGE_CROSS_VALIDATED),
            bad_channels: MaybeUninit::new(betz_bad_channels::BETZ_BAD_CHANNELS_REFUSE),
            solver: MaybeUninit::new(betz_solver::BETZ_SOLVER_CHOLESKY),
            low_pass_order: 2,
            folds: 5,
            progress: None,
            progress_user: std::ptr::null_mut(),
            ..grow::zeroed()
        }
    }
}

/// Fills a training configuration of `size` bytes (pass `sizeof`) with the defaults. `step_seconds` and `channels` are
/// 0: set them. Writes nothing beyond `size` bytes.
///
/// Thread-safe: yes. Realtime-safe: yes. Allocates: no.
///
/// # Safety
/// `config` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_train_config_default(
    config: *mut betz_train_config,
    size: usize,
) -> betz_status {
    // SAFETY: the caller's promise.
    barrier::run(|| unsafe { grow::write_defaults(config, size) })
}

/// Trains a model from spike times. The caller frees it with `betz_model_free`.
///
/// `spikes` holds `n_spikes` spikes in ascending order of their ticks, which lie in 0 to `steps` - 1, on channels 0 to
/// `config->channels` - 1. `behavior` is (steps, outputs) row-major: the values of the outputs at the end of each step,
/// in the units that the model will give; 1 to 4,096 outputs, finite inside the segments. Spikes and behaviour are
/// copied. On failure `*out` is untouched, and the message says what was expected, what was found and where.
///
/// After fork() the child can train on the CPU. Training in the child on a device that the parent has used is refused
/// (`BETZ_ERROR_FORKED`).
///
/// Thread-safe: yes. Realtime-safe: no (seconds; uses all processors, or a device). Allocates: yes.
///
/// # Safety
/// `config` is NULL or a configuration whose arrays are as its fields say; `spikes` points to
/// `n_spikes` spikes and `behavior` to `steps` * `outputs` values; `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_train(
    config: *const betz_train_config,
    spikes: *const betz_spike,
    n_spikes: usize,
    behavior: *const f32,
    steps: usize,
    outputs: usize,
    out: *mut *mut betz_model,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (config, spikes, behavior, out) = unsafe {
            let config = grow::read(config, "config")?;
            check_sizes(&config, steps, outputs)?;
            (
                config,
                cast::slice(spikes, n_spikes, "spikes")?,
                cast::slice(behavior, product(steps, outputs, "behavior")?, "behavior")?,
                cast::out(out, "out")?,
            )
        };
        let spikes = Spikes::new(
            spikes.iter().map(|spike| spike.tick).collect(),
            spikes.iter().map(|spike| spike.channel).collect(),
        );
        // SAFETY: the caller's promise.
        let model = unsafe { fit(&config, spikes, behavior, steps, outputs)? };
        out.write(cast::into_handle(model)?);
        Ok(())
    })
}

/// Trains a model from binned counts. The caller frees it with `betz_model_free`.
///
/// `counts` is (steps, config->channels) row-major: the spikes of each channel in each step. At most 2^30 bins may hold
/// spikes (`BETZ_ERROR_INVALID_RECORDING`). Each such bin takes 12 bytes of host memory, or 16 if any bin holds several
/// spikes; the number of spikes does not matter. Fails with `BETZ_ERROR_OUT_OF_MEMORY` if the system has too little
/// memory. Everything else is the same as in `betz_train`; the same spikes give the same model, to rounding.
///
/// Thread-safe: yes. Realtime-safe: no (seconds; uses all processors, or a device). Allocates: yes.
///
/// # Safety
/// `config` is NULL or a configuration whose arrays are as its fields say; `counts` points to
/// `steps` * `config->channels` values and `behavior` to `steps` * `outputs`; `out` is NULL or
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_train_counts(
    config: *const betz_train_config,
    counts: *const u16,
    behavior: *const f32,
    steps: usize,
    outputs: usize,
    out: *mut *mut betz_model,
) -> betz_status {
    let spikes = |counts: &[u16], channels| {
        Spikes::from_counts(counts, channels).map_err(|e| e.at("counts").into())
    };
    let (shape, rows) = ((steps, outputs), ("counts", counts));
    barrier::run(|| {
        // SAFETY: the caller's promise.
        unsafe { fit_rows(config, shape, rows, behavior, out, spikes) }
    })
}

/// Refuses sizes that no model can have, before anything in proportion to them is allocated. Training itself checks the
/// rest.
fn check_sizes(config: &betz_train_config, steps: usize, outputs: usize) -> Result<()> {
    let sizes = [
        ("config->folds", config.folds as usize, steps.min(MAX_FOLDS)),
        ("config->channels", config.channels as usize, MAX_CHANNELS),
        ("outputs", outputs, MAX_OUTPUTS),
        ("config->n_filters", config.n_filters, MAX_FILTERS),
        (
            "config->n_filters and n_sampled_filters together",
            config.n_filters.saturating_add(config.n_sampled_filters),
            MAX_FILTERS,
        ),
    ];
    for (name, got, most) in sizes {
        if got > most {
            let text = format!("{name}: expected at most {most}, got {got}");
            return Err(Error::argument(text).into());
        }
    }
    Ok(())
}

fn product(rows: usize, columns: usize, name: &'static str) -> Result<usize> {
    rows.checked_mul(columns).ok_or(Failure::Argument {
        name,
        expected: "a size that fits in memory",
    })
}

/// Writes the model of named rows of (steps, channels) and of behaviour of (steps, outputs) to `out`; `spikes` makes
/// spikes of the rows and the number of channels.
///
/// # Safety
/// The same as for [`betz_train_counts`].
pub(crate) unsafe fn fit_rows<T>(
    config: *const betz_train_config,
    (steps, outputs): (usize, usize),
    (name, rows): (&'static str, *const T),
    behavior: *const f32,
    out: *mut *mut betz_model,
    spikes: impl FnOnce(&[T], usize) -> Result<Spikes>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        let config = grow::read(config, "config")?;
        check_sizes(&config, steps, outputs)?;
        let channels = config.channels as usize;
        let rows = cast::slice(rows, product(steps, channels, name)?, name)?;
        let behavior = cast::slice(behavior, product(steps, outputs, "behavior")?, "behavior")?;
        let out = cast::out(out, "out")?;
        let model = fit(&config, spikes(rows, channels)?, behavior, steps, outputs)?;
        out.write(cast::into_handle(model)?);
        Ok(())
    }
}

/// # Safety
/// The configuration's arrays are as the documentation of their fields says.
unsafe fn fit(
    config: &betz_train_config,
    spikes: Spikes,
    behavior: &[f32],
    steps: usize,
    outputs: usize,
) -> Result<betz_model> {
    // SAFETY: the caller's promise.
    let workers = unsafe {
        Workers::read(
            config.threads,
            config.thread_priority,
            config.processors,
            config.n_processors,
        )?
    };
    let config = ConfigRef(config);
    let decoder = workers.run_in_pool(|| {
        let config = config.get();
        // SAFETY: the caller's promise; the caller's thread waits meanwhile.
        let data = unsafe { read_dataset(config, spikes, behavior, steps, outputs)? };
        // SAFETY: the caller's promise.
        let training = unsafe { read_training(config)? };
        // SAFETY: the caller's promise.
        let device = unsafe { open_device(config.device)? };
        let progress = Callback {
            function: config.progress,
            user: config.progress_user,
            stopped: AtomicBool::new(false),
        };
        // The callback is called before and after the work, however small the work is.
        progress.ask("begun", 0)?;
        // SAFETY: the caller's promise.
        let kinds = unsafe { read_kinds(config.decoder)? };
        let settings = KindSettings {
            variance: grow::flag(config.variance, "config->variance")?,
            seed: config.seed,
        };
        grow::zero(config.reserved, "config->reserved")?;
        grow::zero(config.reserved_2, "config->reserved_2")?;
        let trained = kinds.run(training, settings, &data, &device, &progress)?;
        progress.ask("done", 1)?;
        Ok(trained.decoder)
    })?;
    Ok(betz_model::new(decoder))
}

/// The caller's configuration, shared with a thread that works while the caller waits.
struct ConfigRef<'a>(&'a betz_train_config);

impl ConfigRef<'_> {
    fn get(&self) -> &betz_train_config {
        self.0
    }
}

// SAFETY: the data behind its pointers belongs to the caller for the whole call, and is only read.
unsafe impl Sync for ConfigRef<'_> {}

/// # Safety
/// The configuration's arrays are as the documentation of their fields says.
unsafe fn read_dataset(
    config: &betz_train_config,
    spikes: Spikes,
    behavior: &[f32],
    steps: usize,
    outputs: usize,
) -> Result<Dataset> {
    let channels = config.channels as usize;
    // SAFETY: the caller's promise.
    let (segments, channel_names, names, units) = unsafe {
        (
            cast::slice(config.segments, config.n_segments, "config->segments")?,
            cast::texts(config.channel_names, channels, "config->channel_names")?,
            cast::texts(config.output_names, outputs, "config->output_names")?,
            cast::texts(config.output_units, outputs, "config->output_units")?,
        )
    };
    let whole = Segment {
        start: 0,
        stop: steps as i64,
    };
    let segments = match segments {
        [] => vec![whole],
        given => (given.iter())
            .map(|s| Segment {
                start: s.start,
                stop: s.stop,
            })
            .collect(),
    };
    let data = Dataset {
        step_seconds: config.step_seconds,
        steps,
        channel_names: channel_names
            .unwrap_or_else(|| (0..channels).map(|i| format!("ch{i}")).collect()),
        spikes,
        segments,
        outputs: (0..outputs)
            .map(|i| OutputInfo {
                name: (names.as_ref()).map_or_else(|| format!("x{i}"), |names| names[i].clone()),
                unit: (units.as_ref()).map_or_else(String::new, |units| units[i].clone()),
            })
            .collect(),
        behavior: behavior.to_vec(),
    };
    data.check()?;
    Ok(data)
}

/// # Safety
/// The configuration's arrays are as the documentation of their fields says.
unsafe fn read_training(config: &betz_train_config) -> Result<Training> {
    // SAFETY: the caller's promise.
    let filters = unsafe { cast::slice(config.filters, config.n_filters, "config->filters")? };
    let filters: Vec<Filter> = (filters.iter())
        .map(|f| Filter {
            tau_seconds: f.tau_seconds,
            order: f.order,
        })
        .collect();
    // SAFETY: the caller's promise.
    let sampled = unsafe { read_sampled(config)? };
    let choose_bank = filters.is_empty() && sampled.is_empty() && config.folds > 0;
    let solver = read_solver(config)?;
    let customary = TrainOptions::CUSTOMARY_RIDGE;
    let ridge = match enum_bits(&config.ridge_choice) {
        0 if config.ridge != 0.0 => Some(RidgeChoice::Noise(config.ridge)),
        0 => Some(customary),
        1 => Some(RidgeChoice::Fixed(config.ridge)),
        2 if config.folds > 0 => None,
        2 => {
            return Err(Failure::Argument {
                name: "config->ridge_choice",
                expected: "a ridge by noise or a fixed one where there are no folds",
            });
        }
        _ => {
            return Err(Failure::Argument {
                name: "config->ridge_choice",
                expected: "a value of betz_ridge",
            });
        }
    };
    let mask = match enum_bits(&config.bad_channels) {
        0 => MaskPolicy::Refuse,
        1 => MaskPolicy::Mask,
        _ => {
            return Err(Failure::Argument {
                name: "config->bad_channels",
                expected: "a value of betz_bad_channels",
            });
        }
    };
    Ok(Training {
        bank: match choose_bank {
            true => None,
            false => Some(FilterBank::with_sampled(filters, sampled)?),
        },
        low_pass: (config.low_pass_hz != 0.0).then_some(LowPass {
            order: config.low_pass_order,
            cutoff_hz: config.low_pass_hz,
        }),
        delay: Delay::Steps(config.delay_steps),
        ridge,
        solver,
        mask,
        retain: (config.retain_bytes != 0).then_some(config.retain_bytes),
        folds: config.folds as usize,
        leave_out_silent: false,
        ..Training::default()
    })
}

/// The device that a configuration names; the CPU for NULL.
///
/// # Safety
/// `device` is NULL or NUL-terminated text.
pub(crate) unsafe fn open_device(device: *const c_char) -> Result<Device> {
    if device.is_null() {
        return Ok(Device::cpu());
    }
    // SAFETY: the caller's promise.
    let spec: DeviceSpec = unsafe { cast::text(device, "config->device")? }.parse()?;
    if spec != DeviceSpec::Cpu {
        // The state of an opened device driver does not survive a fork.
        static OPENED_IN: OnceLock<Process> = OnceLock::new();
        (OPENED_IN.get_or_init(Process::current)).check("config->device")?;
    }
    Ok(Device::open(spec)?)
}

/// The caller's progress function. Any thread may call it.
struct Callback {
    function: betz_progress,
    user: *mut c_void,
    stopped: AtomicBool,
}

// SAFETY: the function is documented to be called from several threads; `user` is only passed on.
unsafe impl Sync for Callback {}

impl Callback {
    /// Reports the overall progress. Fails if the callback asks to stop.
    fn ask(&self, stage: &str, done: u64) -> betz::Result<()> {
        self.update(stage, done, 1);
        betz::progress::check(self, "training")
    }
}

impl Progress for Callback {
    fn update(&self, stage: &str, done: u64, total: u64) {
        let Some(function) = self.function else {
            return;
        };
        let stage = CString::new(stage).unwrap_or_default();
        if function(self.user, CStr::as_ptr(&stage), done, total) != 0 {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }

    fn cancelled(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
