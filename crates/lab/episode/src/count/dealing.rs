//! Work dealt over devices as they finish.
//!
//! Devices differ, and so do candidates: equal numbers of them do not take equal time. Each device takes
//! a piece from one queue whenever it is idle. Pieces begin large, for one of many candidates costs less
//! a candidate, and shrink towards the end, so that all devices end within about the time of the last
//! piece (guided self-scheduling: Polychronopoulos and Kuck, IEEE Trans. Comput. C-36, 1987).

use betz_base::lock::lock;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread;

use betz_base::error::Result;

/// Fewest units in a piece, except the last, and most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceSizes {
    pub(crate) least: usize,
    pub(crate) most: usize,
}

/// Units that nobody has taken yet.
#[derive(Debug, Clone)]
struct PieceQueue {
    next: usize,
    total: usize,
    takers: usize,
    /// Fewest units in a piece, but for the last, and most.
    least: usize,
    most: usize,
}

impl PieceQueue {
    /// Units 0..`total` for `takers`, in pieces of `sizes`; with fewer than the least per taker, one piece per taker.
    fn new(total: usize, takers: usize, sizes: PieceSizes) -> Self {
        let takers = takers.max(1);
        let PieceSizes { least, most } = sizes;
        Self {
            next: 0,
            total,
            takers,
            least: least.min(most).min(total.div_ceil(takers)).max(1),
            most: most.max(1),
        }
    }

    /// Takes an eighth of a fair share of the units that are left. Larger pieces would wait for each other: if a slow device
    /// took half of its share at once, and those units were costly, it could finish after all others.
    fn take(&mut self) -> Option<Range<usize>> {
        let left = self.total - self.next;
        let fair = match self.takers {
            // Nobody else is to end with it.
            1 => self.most,
            takers => left / (8 * takers),
        };
        let size = fair.max(self.least).min(self.most).min(left);
        let from = self.next;
        self.next += size;
        (size > 0).then_some(from..self.next)
    }

    /// Leaves nothing to take.
    fn close(&mut self) {
        self.next = self.total;
    }
}

/// Runs `work` on all pieces of 0..`total`, with one thread per device. Returns the results with their ranges, in no
/// particular order. The sizes of the pieces depend on timing, so a caller's result must not depend on them.
///
/// # Errors
/// Returns the error of the first failed device, in the order of `devices`. No device takes a piece after a failure.
pub(crate) fn deal<D: Sync, T: Send>(
    devices: &[D],
    total: usize,
    sizes: PieceSizes,
    work: impl Fn(&D, Range<usize>) -> Result<T> + Sync,
) -> Result<Vec<(Range<usize>, T)>> {
    let left = Mutex::new(PieceQueue::new(total, devices.len(), sizes));
    let lock = || lock(&left);
    let serve = |device: &D| {
        let mut done = Vec::new();
        loop {
            // In a statement of its own: the lock is not held while there is work.
            let piece = lock().take();
            let Some(piece) = piece else {
                return Ok(done);
            };
            match work(device, piece.clone()) {
                Ok(result) => done.push((piece, result)),
                Err(e) => {
                    lock().close();
                    return Err(e);
                }
            }
        }
    };
    let done: Result<Vec<Vec<_>>> = on_each(devices, serve).into_iter().collect();
    Ok(done?.into_iter().flatten().collect())
}

/// `work` on all devices at once, a thread each, for a thread mostly waits for its device; in order.
pub(crate) fn on_each<D: Sync, T: Send>(devices: &[D], work: impl Fn(&D) -> T + Sync) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = (devices.iter())
            .map(|device| scope.spawn(move || work(device)))
            .collect();
        (threads.into_iter())
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_base::error::Error;

    fn sizes(least: usize, most: usize) -> PieceSizes {
        PieceSizes { least, most }
    }

    /// Simulated times at which devices of `speeds` end that take pieces as they finish; unit i costs
    /// `cost(i)`, a piece `start` besides its units.
    fn simulated(
        speeds: &[f64],
        mut left: PieceQueue,
        start: f64,
        cost: impl Fn(usize) -> f64,
    ) -> Vec<f64> {
        let mut ends = vec![0.0; speeds.len()];
        let mut expected = 0;
        loop {
            let idle = (0..ends.len())
                .min_by(|&a, &b| f64::total_cmp(&ends[a], &ends[b]))
                .unwrap();
            let Some(piece) = left.take() else {
                assert_eq!(expected, left.total, "every unit is dealt");
                return ends;
            };
            assert_eq!(piece.start, expected, "each once, in order");
            expected = piece.end;
            ends[idle] += (start + piece.map(&cost).sum::<f64>()) / speeds[idle];
        }
    }

    #[test]
    fn unlike_devices_and_unlike_units_end_together() {
        let costs: [fn(usize) -> f64; 3] = [
            |_| 1.0,
            // The first tenth costs ten times as much.
            |i| if i < 4_365 { 10.0 } else { 1.0 },
            // So does the last.
            |i| if i >= 39_291 { 10.0 } else { 1.0 },
        ];
        for speeds in [
            &[1.0, 1.0][..],
            &[1.0, 2.0],
            &[1.0, 1.0, 1.0, 0.5],
            &[1.0; 4],
        ] {
            for (k, cost) in costs.iter().enumerate() {
                let left = PieceQueue::new(43_656, speeds.len(), sizes(512, usize::MAX));
                let ends = simulated(speeds, left, 20.0, cost);
                let last = ends.iter().copied().fold(0.0, f64::max);
                let work: f64 = (0..43_656).map(cost).sum();
                let ideal = work / speeds.iter().sum::<f64>();
                assert!(
                    last < 1.15 * ideal,
                    "{speeds:?}, costs {k}: {last} of {ideal}"
                );
            }
        }
    }

    #[test]
    fn few_units_are_one_piece_a_device() {
        for (total, takers, pieces) in [(10, 2, 2), (7, 3, 3), (2, 4, 2), (1, 1, 1), (0, 2, 0)] {
            let mut left = PieceQueue::new(total, takers, sizes(512, 9_000));
            let dealt: Vec<_> = std::iter::from_fn(|| left.take()).collect();
            assert_eq!(dealt.len(), pieces, "{total} for {takers}");
            assert_eq!(dealt.iter().map(Range::len).sum::<usize>(), total);
        }
    }

    #[test]
    fn every_unit_comes_back_once_with_its_piece() {
        let devices = [1_u64, 2, 3];
        let mut done = deal(&devices, 5_000, sizes(16, 5_000), |_, piece| {
            Ok(piece.sum::<usize>())
        })
        .unwrap();
        done.sort_by_key(|(piece, _)| piece.start);
        let mut next = 0;
        for (piece, sum) in done {
            assert_eq!(piece.start, next);
            next = piece.end;
            assert_eq!(sum, piece.sum::<usize>());
        }
        assert_eq!(next, 5_000);
    }

    #[test]
    fn a_device_that_fails_ends_the_dealing() {
        // Device 0 waits in its first piece until device 1 has failed.
        let (fails, failed) = std::sync::mpsc::channel::<()>();
        let (fails, failed) = (Mutex::new(Some(fails)), Mutex::new(failed));
        let one = deal(
            &[0, 1],
            10_000,
            sizes(1, 10_000),
            |device, piece| match device {
                0 => {
                    let _ = failed.lock().unwrap().recv();
                    Ok(piece.len())
                }
                _ => {
                    drop(fails.lock().unwrap().take());
                    Err(Error::argument("device 1"))
                }
            },
        );
        assert_eq!(one.unwrap_err().message(), "device 1");
        let all = deal(&[0, 1], 10_000, sizes(1, 10_000), |_, _| {
            Err::<(), _>(Error::argument("none"))
        });
        assert_eq!(all.unwrap_err().message(), "none");
    }
}
