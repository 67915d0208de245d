//! Health of a session, its recording, and replays.

use std::ffi::c_char;

use betz::live::record::Disk;
use betz::live::{BackgroundHealth, Phase, Replay};

use super::session::{betz_live, here};
use crate::barrier;
use crate::cast;
use crate::grow::{self, grows};
use crate::status::betz_status;

/// The source and the outputs are open, and nothing is decoded yet.
pub const BETZ_LIVE_PHASE_OPEN: u32 = 0;
/// The session decodes, or waits for its source.
pub const BETZ_LIVE_PHASE_RUNNING: u32 = 1;
/// The session is over.
pub const BETZ_LIVE_PHASE_ENDED: u32 = 2;

grows! {
    /// Counts and state of a session so far.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_live_health {
        /// `BETZ_LIVE_PHASE_*`.
        pub phase: u32,
        /// Number of the plan's limits that are crossed.
        pub limits_crossed: u32,
        /// Steps made.
        pub steps: u64,
        /// Steps made without data.
        pub stale: u64,
        /// Steps of `stale` that are without data because the noise was still being measured.
        pub calibrating: u64,
        /// Steps left out because their data came too late or never.
        pub skipped: u64,
        /// Rows that came.
        pub rows: u64,
        /// Rows that never came.
        pub lost: u64,
        /// Blocks before which more may be missing than was counted.
        pub bounds: u64,
        /// Rows of `lost` that were interpolated.
        pub bridged: u64,
        /// Rows that came twice, or after their step.
        pub late: u64,
        /// Times that the device started again.
        pub restarts: u64,
        /// Labels.
        pub labels: u64,
        /// Labels left out because they did not fit the outputs.
        pub odd_labels: u64,
        /// Marks.
        pub marks: u64,
        /// Begins and ends of trials.
        pub trials: u64,
        /// Outputs that could not be sent.
        pub unsent: u64,
        /// Frames handed to the recorder.
        pub recorded: u64,
        /// Frames that are missing from the recording.
        pub unrecorded: u64,
        /// Bytes written to the recording.
        pub written_bytes: u64,
        /// Messages of the source that came after later ones.
        pub source_late: u64,
        /// Messages of the source that came twice.
        pub source_duplicates: u64,
        /// Messages of the source that could not be read.
        pub source_malformed: u64,
        /// Messages of the source that this machine's kernel dropped.
        pub source_dropped: u64,
        /// Connections to the source that were lost and made again.
        pub source_reconnects: u64,
        /// Epoch of the source's clock, from 1; 0 before the first block.
        pub clock_epoch: u64,
        /// Drift of the source's clock against this machine's, in parts per million.
        pub clock_drift_ppm: f64,
        /// Bound of the clock's error in microseconds.
        pub clock_bound_us: f64,
        /// Median time from the arrival of a step's last block to the hand-over of its outputs, in
        /// microseconds.
        pub p50_us: f64,
        /// 99th percentile of that time.
        pub p99_us: f64,
        /// Longest such time.
        pub max_us: f64,
        /// Steps of `skipped` that were left out because the decoder was slow.
        pub behind: u64,
        /// Disk that is recorded to: 0 has room; 1 is full, and no voltage is recorded; 2 is full, and
        /// nothing is recorded.
        pub disk: u64,
        /// Share of the recorder's buffer that waits for the disk, from 0 to 1.
        pub recorder_fill: f64,
    }
}

impl From<&BackgroundHealth> for betz_live_health {
    fn from(health: &BackgroundHealth) -> Self {
        let report = &health.report;
        let (input, notes) = (report.input, report.notes);
        let recorder = report.recorder;
        Self {
            phase: match health.phase {
                Phase::Open => BETZ_LIVE_PHASE_OPEN,
                Phase::Running => BETZ_LIVE_PHASE_RUNNING,
                Phase::Ended => BETZ_LIVE_PHASE_ENDED,
            },
            limits_crossed: health.crossed.len() as u32,
            steps: input.steps,
            stale: input.stale,
            calibrating: input.calibrating,
            skipped: input.skipped,
            rows: input.rows,
            lost: input.lost,
            bounds: input.bounds,
            bridged: input.bridged,
            late: input.late,
            restarts: input.restarts,
            labels: notes.labels,
            odd_labels: notes.odd_labels,
            marks: notes.marks,
            trials: notes.trials,
            unsent: report.unsent,
            recorded: recorder.map_or(0, |r| r.frames),
            unrecorded: recorder.map_or(0, |r| r.unrecorded),
            written_bytes: recorder.map_or(0, |r| r.written),
            source_late: report.source_late,
            source_duplicates: report.source_duplicates,
            source_malformed: report.source_malformed,
            source_dropped: report.source_dropped,
            source_reconnects: report.source_reconnects,
            clock_epoch: u64::from(report.clock.epoch),
            clock_drift_ppm: report.clock.drift_ppm,
            clock_bound_us: report.clock.bound_us,
            p50_us: report.p50_us,
            p99_us: report.p99_us,
            max_us: report.max_us,
            behind: input.behind,
            disk: recorder.map_or(0, |r| match r.disk {
                Disk::Room => 0,
                Disk::KeepsSmall => 1,
                Disk::Full => 2,
            }),
            recorder_fill: recorder.map_or(0.0, |r| r.fill),
        }
    }
}

/// Writes the session's counts so far to `*out`, whose size in bytes is `size` (pass `sizeof`).
/// Waits for the loop to answer, no longer than a block takes. After the end it writes the last
/// ones.
///
/// Thread-safe: yes, but not from `on_step`. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `live` is NULL or a live session; `out` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_health_read(
    live: *const betz_live,
    out: *mut betz_live_health,
    size: usize,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (live, _guard) = unsafe { here(live)? };
        grow::check_place(out, size, "out")?;
        let health = live.session.health()?;
        // SAFETY: the caller's promise.
        unsafe { grow::write(out, size, "out", (&health).into()) }
    })
}

/// Copies the path of the recording's folder, with a NUL behind it, to `buf` of `cap` bytes, and
/// its length without the NUL to `*len`: 0 if nothing is recorded. With `buf` NULL and `cap` 0 it
/// only writes the length. Waits as `betz_live_health_read` does.
///
/// Thread-safe: yes, but not from `on_step`. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `live` is NULL or a live session; `buf` is NULL or points to `cap` writable bytes; `len` is NULL
/// or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_folder(
    live: *const betz_live,
    buf: *mut c_char,
    cap: usize,
    len: *mut usize,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let (live, _guard) = unsafe { here(live)? };
        let folder = live.session.health()?.folder.unwrap_or_default();
        // SAFETY: the caller's promise.
        unsafe { cast::write_text(folder.as_os_str().as_encoded_bytes(), buf, cap, len) }
    })
}

grows! {
    /// Result of a replay.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct betz_live_replayed {
        /// Steps whose outputs and status were compared.
        pub compared: u64,
        /// Steps that differ from the recorded ones, in any bit.
        pub different: u64,
        /// Number of the first of them; 0 if there is none.
        pub first_different: u64,
        /// Steps after a gap of the recording, which cannot be compared.
        pub not_compared: u64,
        /// 1 if every recorded step came again with the same bits, and nothing of the recording is
        /// damaged; else 0.
        pub equal: u64,
        /// Length of the session in seconds.
        pub seconds: f64,
    }
}

/// Runs the session that was recorded in `folder` again, as fast as possible, compares every output
/// with the recorded one, and writes the result to `*out`, whose size in bytes is `size` (pass
/// `sizeof`).
///
/// Thread-safe: yes. Realtime-safe: no. Allocates: yes.
///
/// # Safety
/// `folder` is NULL or a NUL-terminated string; `out` is NULL or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn betz_live_replay(
    folder: *const c_char,
    out: *mut betz_live_replayed,
    size: usize,
) -> betz_status {
    barrier::run(|| {
        // SAFETY: the caller's promise.
        let folder = unsafe { cast::path(folder, "folder")? };
        grow::check_place(out, size, "out")?;
        let told = Replay::open(folder)?.run(&mut |_| Ok(()))?;
        let replayed = betz_live_replayed {
            compared: told.compared,
            different: told.different,
            first_different: told.first.as_ref().map_or(0, |first| first.step),
            not_compared: told.not_compared,
            equal: u64::from(told.is_equal()),
            seconds: told.seconds,
        };
        // SAFETY: the caller's promise.
        unsafe { grow::write(out, size, "out", replayed) }
    })
}
