//! The recorder: a ring from the loop, and a thread that writes it to segments.
//!
//! The loop never waits. What finds the ring full is counted, and a frame says how much is missing.

use betz_base::lock::lock;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};
use betz_rigs::rig::notes::NoteContent;
use betz_rigs::rig::{Block, LineEdge, Samples};
use ringbuf::traits::{Consumer, Observer, Producer};
use ringbuf::{HeapCons, HeapProd};

use super::disk::{Spare, Writer, WriterState};
use super::frame::{HEAD, Head, Kind};
use super::log::Disk;
use super::log::LogEvent;
use super::segments::Segments;
use crate::grid::Alignment;
use crate::pipeline::Step;
use crate::plan::OnFull;
use crate::scheduling::ThreadPlace;

/// Bytes of a body for which there is room from the start.
const BODY: usize = 1 << 20;
/// Bytes of samples that are put into the ring at once.
const PIECE: usize = 1 << 12;

/// Settings of a recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecorderOptions {
    /// Bytes of the ring from the loop to the recorder's thread.
    pub ring: usize,
    /// Largest size of a segment in bytes.
    pub segment: u64,
    /// Treatment of a full disk.
    pub on_full: OnFull,
    /// Bytes of the disk that are set aside for a full one.
    pub reserve: u64,
    /// Priority and processor of the recorder's thread.
    pub place: ThreadPlace,
}

/// Counts of a recorder.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct RecorderCounts {
    /// Frames handed over.
    pub frames: u64,
    /// Frames that are missing, because the ring was full or the disk refused them.
    pub unrecorded: u64,
    /// Bytes that are in files.
    pub written: u64,
    /// Share of the ring that is in use: the rest is left for a disk that is slow.
    pub fill: f64,
    /// Largest share of the ring that was in use.
    pub fullest: f64,
    /// State of the disk.
    pub disk: Disk,
}

/// Place from which a recording goes on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Continuation {
    /// Number of the next segment.
    pub(crate) segment: u64,
    /// Number of the next frame.
    pub(crate) number: u64,
    /// Epoch of the blocks before; another one is recorded with its first block.
    pub(crate) epoch: u32,
}

/// The ring from the loop to the recorder's thread, all of whose pages are there.
pub(crate) struct RecorderRing {
    bytes: usize,
    send: HeapProd<u8>,
    take: HeapCons<u8>,
}

impl RecorderRing {
    /// A ring of so many bytes.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        let (mut send, mut take) =
            betz_base::ring::ring_of("recorder", 1 << 10, bytes.div_ceil(1 << 10))?;
        // Every page is touched now, so that the loop never waits for the system to map one.
        while send.push_slice(&[0; 1 << 10]) > 0 {}
        take.clear();
        Ok(Self { bytes, send, take })
    }
}

/// The loop's end of a recorder.
pub struct Recorder {
    ring: HeapProd<u8>,
    shared: Arc<WriterState>,
    thread: Option<JoinHandle<()>>,
    body: Vec<u8>,
    /// Epoch of each source.
    epochs: Vec<u32>,
    number: u64,
    counts: RecorderCounts,
    /// Frames that are missing before the next one.
    gap: u64,
    folder: PathBuf,
    /// Room for the last frames, until they are written.
    spare: Option<Spare>,
}

impl Recorder {
    /// A recorder into `folder`, which exists.
    ///
    /// # Errors
    /// `Io` if the first segment cannot be made; `OutOfMemory` for the ring.
    pub fn start(folder: &Path, options: &RecorderOptions) -> Result<Self> {
        Self::open(folder, options, Continuation::default(), None)
    }

    /// As [`Recorder::start`], also for a recording that goes on: never in a segment that a killed session may have torn. A ring
    /// that was made before is used if it is as long as the options say. All files are open afterwards and have their room: none
    /// is opened before the end of the first segment.
    ///
    /// # Errors
    /// As [`Recorder::start`].
    pub(crate) fn open(
        folder: &Path,
        options: &RecorderOptions,
        from: Continuation,
        ring: Option<RecorderRing>,
    ) -> Result<Self> {
        let ring = match ring.filter(|ring| ring.bytes == options.ring) {
            Some(ring) => ring,
            None => RecorderRing::new(options.ring)?,
        };
        let (send, take) = (ring.send, ring.take);
        let shared = Arc::new(WriterState::default());
        shared.next_frame.store(from.number, Ordering::Relaxed);
        let segments = Segments::new(folder, options.segment, from.segment)?;
        let (on_full, reserve, place) = (options.on_full, options.reserve, options.place);
        let writer = Writer::new(segments, on_full, reserve, Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("betz-recorder".into())
            .spawn(move || {
                // A right that was taken away since the check costs priority, and not the recording.
                let _ = place.apply();
                writer.run(take);
            })
            .map_err(|e| Error::new(ErrorKind::Io, format!("starting a thread: {e}")))?;
        Ok(Self {
            ring: send,
            shared,
            thread: Some(thread),
            body: Vec::with_capacity(BODY),
            epochs: vec![from.epoch],
            number: from.number,
            counts: RecorderCounts::default(),
            gap: 0,
            spare: Spare::open(folder),
            folder: folder.to_owned(),
        })
    }

    /// The folder of the recording.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Counts so far.
    pub fn counts(&self) -> RecorderCounts {
        RecorderCounts {
            unrecorded: self.counts.unrecorded + self.shared.left_out.load(Ordering::Relaxed),
            written: self.shared.written.load(Ordering::Relaxed),
            fill: self.fill(),
            disk: self.disk(),
            ..self.counts
        }
    }

    /// State of the disk.
    pub fn disk(&self) -> Disk {
        self.shared.disk()
    }

    /// True if nothing more is recorded, because the disk is full or has failed.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.ended.load(Ordering::Relaxed)
    }

    /// Share of the ring that is in use.
    pub(crate) fn fill(&self) -> f64 {
        1.0 - self.ring.vacant_len() as f64 / self.ring.capacity().get() as f64
    }

    /// Records the facts of the session, or of a source beside the first.
    pub fn configuration(&mut self, source: usize, json: &str, host_ns: i64) {
        self.body.clear();
        self.body.extend_from_slice(json.as_bytes());
        self.put_of(source, Kind::Configuration, 0, 0, host_ns);
    }

    /// Records a block of a source, with its epoch and its loss.
    pub fn block(&mut self, source: usize, block: &Block) {
        if self.epochs.len() <= source {
            self.epochs.resize(source + 1, 0);
        }
        if block.epoch != self.epochs[source] {
            self.epochs[source] = block.epoch;
            self.body.clear();
            let epoch = u64::from(block.epoch);
            self.put_of(source, Kind::Epoch, epoch, 0, block.host_ns);
        }
        let loss = block.lost_before;
        if loss.count > 0 || loss.at_least {
            self.body.clear();
            self.body.push(u8::from(loss.at_least));
            self.put_of(source, Kind::Loss, loss.count, 0, block.host_ns);
        }
        let (rows, at) = (block.rows as u32, block.host_ns);
        match &block.samples {
            Samples::Voltage(all) => {
                let begun = self.begin(
                    (source, Kind::Voltage, block.first, rows, at),
                    2 * all.len(),
                );
                if begun {
                    push(&mut self.ring, all, |v| v.to_le_bytes());
                }
            }
            Samples::Features(all) => {
                let begun = self.begin(
                    (source, Kind::Features, block.first, rows, at),
                    4 * all.len(),
                );
                if begun {
                    push(&mut self.ring, all, |v| v.to_le_bytes());
                }
            }
            Samples::Spikes(all) => {
                self.body.clear();
                for spike in all {
                    self.body.extend_from_slice(&spike.tick.to_le_bytes());
                    self.body.extend_from_slice(&spike.channel.to_le_bytes());
                    self.body
                        .extend_from_slice(&u32::from(spike.unit).to_le_bytes());
                }
                self.put_of(source, Kind::Spikes, block.first, rows, at);
            }
        }
    }

    /// Records a step and its outputs.
    pub fn step(&mut self, step: &Step<'_>) {
        self.body.clear();
        self.body
            .extend_from_slice(&step.status.bits().to_le_bytes());
        self.body.extend_from_slice(&step.end.to_le_bytes());
        step.values
            .iter()
            .for_each(|v| self.body.extend_from_slice(&v.to_le_bytes()));
        self.put(
            Kind::Step,
            step.number,
            step.values.len() as u32,
            step.host_ns,
        );
    }

    /// Records that a step is made without data, before it is.
    pub fn stale(&mut self, step: u64, host_ns: i64) {
        self.body.clear();
        self.body.push(1);
        self.put(Kind::Decision, step, 0, host_ns);
    }

    /// Records that the steps from the open one up to `to` are left out, before they are.
    pub(crate) fn skip_behind(&mut self, step: u64, to: u64, host_ns: i64) {
        self.body.clear();
        self.body.push(5);
        self.body.extend_from_slice(&to.to_le_bytes());
        self.put(Kind::Decision, step, 0, host_ns);
    }

    /// Records the place of the steps in the device time of a source, before its next block.
    pub(crate) fn align(&mut self, source: usize, at: &Alignment, host_ns: i64) {
        self.body.clear();
        self.body.extend_from_slice(&[4, u8::from(at.begins)]);
        self.body.extend_from_slice(&at.row.to_le_bytes());
        self.body.extend_from_slice(&at.rows_per_step.to_le_bytes());
        self.put_of(source, Kind::Decision, at.step, 0, host_ns);
    }

    /// Records that a model is given to the session at the open step, before it is.
    pub(crate) fn swap(&mut self, step: u64, fingerprint: u64, host_ns: i64) {
        self.body.clear();
        self.body.push(2);
        self.body.extend_from_slice(&fingerprint.to_le_bytes());
        self.put(Kind::Decision, step, 0, host_ns);
    }

    /// Records that the session goes back to the model before, before it does.
    pub(crate) fn roll_back(&mut self, step: u64, host_ns: i64) {
        self.body.clear();
        self.body.push(3);
        self.put(Kind::Decision, step, 0, host_ns);
    }

    /// Records the session's state at the open step; with `resumed`, the session goes on from it.
    pub(crate) fn checkpoint(&mut self, step: u64, state: &[u8], resumed: bool, host_ns: i64) {
        self.body.clear();
        self.body.push(if resumed { 2 } else { 1 });
        self.body.extend_from_slice(state);
        self.put(Kind::Checkpoint, step, 0, host_ns);
    }

    /// Records a line of the log.
    pub(crate) fn event(&mut self, step: u64, event: &LogEvent<'_>, host_ns: i64) {
        self.body.clear();
        if serde_json::to_writer(&mut self.body, event).is_ok() {
            self.put(Kind::Event, step, 0, host_ns);
        }
    }

    /// Records that a digital line of a source changes.
    pub fn edge(&mut self, source: usize, edge: &LineEdge, host_ns: i64) {
        self.body.clear();
        self.body.push(u8::from(edge.is_up));
        self.body.extend_from_slice(&edge.epoch.to_le_bytes());
        let line = u32::from(edge.line);
        self.put_of(source, Kind::Line, edge.row, line, host_ns);
    }

    /// Records a label, a mark or a trial at a step.
    pub fn note(&mut self, step: u64, content: &NoteContent, host_ns: i64) {
        self.body.clear();
        let kind = match content {
            NoteContent::Label(values) => {
                (values.iter()).for_each(|v| self.body.extend_from_slice(&v.to_le_bytes()));
                Kind::Label
            }
            NoteContent::Mark(text) => {
                self.body.extend_from_slice(text.as_bytes());
                Kind::Mark
            }
            NoteContent::TrialBegin => self.trial(1),
            NoteContent::TrialEnd => self.trial(2),
            NoteContent::TrialReject => self.trial(3),
        };
        self.put(kind, step, 0, host_ns);
    }

    fn trial(&mut self, code: u8) -> Kind {
        self.body.push(code);
        Kind::Trial
    }

    fn put(&mut self, kind: Kind, first: u64, count: u32, host_ns: i64) {
        self.put_of(0, kind, first, count, host_ns);
    }

    /// Puts the body into the ring, or counts it.
    fn put_of(&mut self, source: usize, kind: Kind, first: u64, count: u32, host_ns: i64) {
        if self.begin((source, kind, first, count, host_ns), self.body.len()) {
            self.ring.push_slice(&self.body);
        }
    }

    /// Puts the head of a body of `length` bytes into the ring, which has room for both: the body follows. Otherwise counts it, and
    /// returns false.
    fn begin(
        &mut self,
        (source, kind, first, count, host_ns): (usize, Kind, u64, u32, i64),
        length: usize,
    ) -> bool {
        self.counts.frames += 1;
        let needed = 2 * HEAD + length;
        let room = self.ring.vacant_len();
        let is_refused = self.shared.ended.load(Ordering::Relaxed)
            || (kind == Kind::Voltage && self.disk() == Disk::KeepsSmall);
        if room < needed || is_refused {
            self.counts.unrecorded += 1;
            self.gap += 1;
            return false;
        }
        if self.gap > 0 {
            let missing = Head {
                source: 0,
                kind: Kind::Unrecorded,
                number: self.number,
                first: self.gap,
                count: 0,
                host_ns,
            };
            self.ring.push_slice(&missing.to_bytes(0));
            (self.number, self.gap) = (self.number + 1, 0);
        }
        let head = Head {
            source: source as u16,
            kind,
            number: self.number,
            first,
            count,
            host_ns,
        };
        self.number += 1;
        self.ring.push_slice(&head.to_bytes(length));
        let fill = self.fill() + length as f64 / self.ring.capacity().get() as f64;
        self.counts.fullest = self.counts.fullest.max(fill);
        true
    }

    /// Ends the recording: waits until all is in its files, with a frame that says so. A full disk is no error: see
    /// [`RecorderCounts::disk`].
    ///
    /// # Errors
    /// The first error of the disk.
    pub fn end(&mut self, host_ns: i64) -> Result<()> {
        self.body.clear();
        // The writer, which is waited for anyway, makes room in a ring that is full.
        let writes = |thread: &JoinHandle<()>| !thread.is_finished();
        while self.ring.vacant_len() < 2 * HEAD && self.thread.as_ref().is_some_and(writes) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.put(Kind::End, 0, 0, host_ns);
        self.join();
        self.tell_missing(true, host_ns);
        let mut failed = lock(&self.shared.failed);
        failed.take().map_or(Ok(()), Err)
    }

    /// Tells in the recording itself how many of its frames are missing since the disk was full or failed, in the place that was
    /// kept for it; and that the session has ended as asked, if it has.
    fn tell_missing(&mut self, ended: bool, host_ns: i64) {
        let Some(spare) = self.spare.take().filter(|_| self.has_ended()) else {
            return;
        };
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let missing = self
            .counts()
            .unrecorded
            .saturating_sub(of(&self.shared.told));
        let head = Head {
            source: 0,
            kind: Kind::Unrecorded,
            number: self.number,
            // The end is recorded here.
            first: missing.saturating_sub(u64::from(ended)),
            count: u32::try_from(self.number.saturating_sub(of(&self.shared.next_frame)))
                .map_or(u32::MAX, |lost| lost.saturating_add(1)),
            host_ns,
        };
        let mut frames = head.to_bytes(0).to_vec();
        if ended {
            let end = Head {
                kind: Kind::End,
                number: self.number + 1,
                first: 0,
                count: 0,
                ..head
            };
            frames.extend(end.to_bytes(0));
        }
        let path = Segments::path(&self.folder, of(&self.shared.next_segment));
        // A disk that takes not even this was told of already.
        let _ = spare.write_as(&path, &mut frames);
    }

    fn join(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic of the writer's thread has been printed by it.
            let _ = thread.join();
        }
    }
}

/// Puts the bytes of `values` into the ring, which has room for them, piece by piece: a piece stays in the fastest cache.
fn push<T: Copy, const N: usize>(
    ring: &mut HeapProd<u8>,
    values: &[T],
    bytes: impl Fn(T) -> [u8; N],
) {
    let mut piece = [0; PIECE];
    for values in values.chunks(PIECE / N) {
        let piece = &mut piece[..N * values.len()];
        let (places, _) = piece.as_chunks_mut::<N>();
        for (place, value) in places.iter_mut().zip(values) {
            *place = bytes(*value);
        }
        ring.push_slice(piece);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.join();
        self.tell_missing(false, 0);
    }
}
