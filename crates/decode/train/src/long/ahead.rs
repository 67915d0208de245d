//! A chunk is read while the one before it is at work.

use std::ops::Range;
use std::sync::mpsc::sync_channel;
use std::thread;

use betz_base::error::{Error, ErrorKind, Result};
use betz_recording::Dataset;

use super::Read;

/// Hands each of `items` to `take`, in their order, with its number and the steps that it `reach`es, read on a thread of its
/// own while `take` has those of the one before: two are in memory at most. What fails first, reading or taking, ends both.
///
/// # Errors
/// Returns the errors of `read` and `take`, and [`ErrorKind::Io`] if the system cannot start a thread.
pub(super) fn each<T: Sync>(
    read: &mut dyn Read,
    items: &[T],
    reach: impl Fn(&T) -> Range<i64> + Sync,
    mut take: impl FnMut(usize, &T, Dataset) -> Result<()>,
) -> Result<()> {
    if let [only] = items {
        return take(0, only, read.read(reach(only))?);
    }
    thread::scope(|scope| {
        // Nothing lies in between: what has been read waits in the reader's hands, so that it reads no further.
        let (to, from) = sync_channel(0);
        let reader = || {
            let to = to;
            for item in items {
                let data = read.read(reach(item));
                let last = data.is_err();
                // Nobody takes what comes after a failure.
                if to.send(data).is_err() || last {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("betz-read".into())
            .spawn_scoped(scope, reader)
            .map_err(|e| Error::new(ErrorKind::Io, format!("starting a thread to read: {e}")))?;
        let mut all = items.iter().enumerate().zip(from);
        all.try_for_each(|((number, item), data)| take(number, item, data?))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    fn nothing(steps: &Range<i64>) -> Dataset {
        let length = steps.end - steps.start;
        betz_gram::cases::dataset(1, &[(0, length)], Vec::new(), 1)
    }

    const LENGTHS: [i64; 5] = [1, 2, 3, 4, 5];

    fn reach(length: &i64) -> Range<i64> {
        0..*length
    }

    #[test]
    fn every_range_comes_in_its_order() {
        for count in 0..4 {
            let mut taken = Vec::new();
            let mut read = |steps: Range<i64>| Ok(nothing(&steps));
            each(
                &mut read,
                &LENGTHS[..count],
                reach,
                |number, length, data| {
                    taken.push((number, *length, data.steps as i64));
                    Ok(())
                },
            )
            .unwrap();
            let wanted = (0..).zip(&LENGTHS[..count]).map(|(i, &l)| (i, l, l));
            assert_eq!(taken, wanted.collect::<Vec<_>>());
        }
    }

    #[test]
    fn one_is_read_ahead_and_no_more() {
        let read_to = AtomicI64::new(0);
        let mut read = |steps: Range<i64>| {
            read_to.store(steps.end, Ordering::SeqCst);
            Ok(nothing(&steps))
        };
        each(&mut read, &LENGTHS, reach, |_, _, data| {
            // The reader may be behind, never further ahead than the one that it holds.
            assert!(read_to.load(Ordering::SeqCst) <= data.steps as i64 + 1);
            Ok(())
        })
        .unwrap();
        assert_eq!(read_to.into_inner(), 5);
    }

    #[test]
    fn what_fails_ends_both() {
        let mut reads = 0;
        let mut read = |steps: Range<i64>| {
            reads += 1;
            match steps.end {
                3 => Err(Error::recording("the third is damaged")),
                _ => Ok(nothing(&steps)),
            }
        };
        let mut taken = 0;
        let failed = each(&mut read, &LENGTHS, reach, |_, _, _| {
            taken += 1;
            Ok(())
        });
        assert_eq!(failed.unwrap_err().message(), "the third is damaged");
        assert_eq!((reads, taken), (3, 2));

        let mut read = |steps: Range<i64>| Ok(nothing(&steps));
        let failed = each(&mut read, &LENGTHS, reach, |_, _, _| {
            Err(Error::argument("enough"))
        });
        assert_eq!(failed.unwrap_err().message(), "enough");
    }
}
