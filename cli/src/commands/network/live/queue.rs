//! Rows in line between the thread that reads a source and the one that computes.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use betz::recording::arrays::Values;
use betz::{Error, ErrorKind, Result};

use super::feed::{Answer, Feed, FeedCounts, Piece};
use super::reduce::Reducer;

/// Longest time between two looks for the end.
const LOOK: Duration = Duration::from_millis(50);

/// Pieces that have come since the last look.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) pieces: Vec<Piece>,
    /// Time for which the first of them has waited.
    pub(super) waited: Duration,
    /// Nothing more will come: the source has ended, or failed.
    pub(super) ended: Option<Result<()>>,
    pub(super) counts: FeedCounts,
}

#[derive(Default)]
struct Line {
    pieces: VecDeque<(Instant, Piece)>,
    bytes: usize,
    /// Rows that found no room since the last piece.
    lost: u64,
    width: usize,
    ended: Option<Result<()>>,
    counts: FeedCounts,
    /// The reader of the line has gone.
    closed: bool,
}

fn lock(line: &Mutex<Line>) -> MutexGuard<'_, Line> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line of pieces.
pub(super) struct Queue {
    line: Arc<(Mutex<Line>, Condvar)>,
    /// True if the source waits for room.
    pub(super) waits: bool,
}

impl Queue {
    /// Starts the thread that reads `feed`, with at most about `limit` bytes in line.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(super) fn start(mut feed: Box<dyn Feed>, reducer: Reducer, limit: usize) -> Result<Self> {
        let line: Arc<(Mutex<Line>, Condvar)> = Arc::default();
        let waits = feed.waits();
        let writer = Writer {
            line: Arc::clone(&line),
            waits,
            limit,
        };
        let work = move || writer.run(&mut *feed, reducer);
        (std::thread::Builder::new().name("betz-source".into()))
            .spawn(work)
            .map_err(|e| Error::new(ErrorKind::Io, format!("a thread for the source: {e}")))?;
        Ok(Self { line, waits })
    }

    /// All pieces in line; waits a moment for the first.
    pub(super) fn take(&self) -> Batch {
        let (line, changed) = &*self.line;
        let mut line = lock(line);
        if line.pieces.is_empty() && line.ended.is_none() {
            let waited = changed.wait_timeout(line, LOOK);
            line = waited.map_or_else(|e| e.into_inner().0, |(line, _)| line);
        }
        let waited = line.pieces.front().map(|(since, _)| since.elapsed());
        let pieces: Vec<Piece> = line.pieces.drain(..).map(|(_, piece)| piece).collect();
        line.bytes = 0;
        changed.notify_all();
        Batch {
            ended: match pieces.is_empty() {
                true => line.ended.take(),
                // The end comes behind the last pieces.
                false => None,
            },
            pieces,
            waited: waited.unwrap_or_default(),
            counts: line.counts,
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let (line, changed) = &*self.line;
        lock(line).closed = true;
        changed.notify_all();
    }
}

/// The end of the line that the source's thread has.
struct Writer {
    line: Arc<(Mutex<Line>, Condvar)>,
    waits: bool,
    limit: usize,
}

impl Writer {
    fn run(&self, feed: &mut dyn Feed, mut reducer: Reducer) {
        let mut pieces = Vec::new();
        let ended = loop {
            let fed = feed.next(&mut pieces, LOOK);
            for piece in pieces.drain(..) {
                match reducer.reduce(piece) {
                    Ok(reduced) => reduced.into_iter().for_each(|piece| self.push(piece)),
                    Err(e) => return self.end(Err(e), feed.counts()),
                }
            }
            let mut line = lock(&self.line.0);
            line.counts = feed.counts();
            if line.closed {
                return;
            }
            drop(line);
            match fed {
                Ok(Answer::Pieces | Answer::Nothing) => {}
                Ok(Answer::Ended) => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        self.end(ended, feed.counts());
    }

    fn end(&self, ended: Result<()>, counts: FeedCounts) {
        let mut line = lock(&self.line.0);
        let lost = std::mem::take(&mut line.lost);
        if lost > 0 {
            line.pieces.push_back((Instant::now(), Piece::Gap(lost)));
        }
        (line.ended, line.counts) = (Some(ended), counts);
        self.line.1.notify_all();
    }

    fn push(&self, piece: Piece) {
        let size = size_of_piece(&piece);
        let mut line = lock(&self.line.0);
        // One piece always has room.
        while line.bytes > 0 && line.bytes + size > self.limit && !line.closed {
            if !self.waits {
                if let Piece::Rows(values) = &piece {
                    line.lost += (values_of(values) / line.width.max(1)) as u64;
                }
                return;
            }
            line = (self.line.1.wait(line)).unwrap_or_else(PoisonError::into_inner);
        }
        if let Piece::Facts(facts) = &piece {
            line.width = facts.nodes;
        }
        let now = Instant::now();
        let lost = std::mem::take(&mut line.lost);
        if lost > 0 {
            line.pieces.push_back((now, Piece::Gap(lost)));
        }
        line.bytes += size;
        line.pieces.push_back((now, piece));
        self.line.1.notify_all();
    }
}

/// Number of values.
pub(super) fn values_of(values: &Values) -> usize {
    match values {
        Values::U8(v) => v.len(),
        Values::U16(v) => v.len(),
        Values::I16(v) => v.len(),
        Values::F32(v) => v.len(),
        Values::F64(v) => v.len(),
    }
}

fn size_of_piece(piece: &Piece) -> usize {
    let Piece::Rows(values) = piece else {
        return 0;
    };
    let bytes = match values {
        Values::U8(_) => 1,
        Values::U16(_) | Values::I16(_) => 2,
        Values::F32(_) => 4,
        Values::F64(_) => 8,
    };
    values_of(values) * bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::network::live::feed::Facts;

    /// Gives ten rows, one at a time.
    struct Ten {
        given: u8,
        waits: bool,
    }

    impl Feed for Ten {
        fn next(&mut self, pieces: &mut Vec<Piece>, _: Duration) -> Result<Answer> {
            if self.given == 10 {
                return Ok(Answer::Ended);
            }
            if self.given == 0 {
                pieces.push(Piece::Facts(Facts {
                    nodes: 2,
                    sample_seconds: None,
                    positions: None,
                }));
            }
            pieces.push(Piece::Rows(Values::U8(vec![self.given; 2])));
            self.given += 1;
            Ok(Answer::Pieces)
        }

        fn waits(&self) -> bool {
            self.waits
        }
    }

    /// Rows and losses of all batches.
    fn all(queue: &Queue) -> (Vec<u8>, u64) {
        let (mut rows, mut lost) = (Vec::new(), 0);
        loop {
            let batch = queue.take();
            for piece in batch.pieces {
                match piece {
                    Piece::Rows(Values::U8(v)) => rows.extend(v.iter().step_by(2)),
                    Piece::Gap(n) => lost += n,
                    _ => {}
                }
            }
            if let Some(ended) = batch.ended {
                ended.unwrap();
                return (rows, lost);
            }
        }
    }

    #[test]
    fn a_source_that_waits_loses_nothing_and_another_one_is_counted() {
        let started = |waits| {
            let feed = Box::new(Ten { given: 0, waits });
            Queue::start(feed, Reducer::default(), 6).unwrap()
        };
        let (rows, lost) = all(&started(true));
        assert_eq!((rows, lost), ((0..10).collect(), 0));
        let queue = started(false);
        // Nobody takes until the source has ended.
        while lock(&queue.line.0).ended.is_none() {
            std::thread::yield_now();
        }
        let (rows, lost) = all(&queue);
        assert_eq!((rows, lost), (vec![0, 1, 2], 7));
    }
}
