//! Folds of cross-validation: segments, or pieces of them.

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::text;
use betz_recording::Segment;

/// A segment longer than this many times a fold is cut.
const LONGEST: f64 = 1.5;

/// Most folds: each is a set of sums as large as Γ, and a solution at every ridge that is tried.
pub const MAX_FOLDS: usize = 1000;

/// Parts that are held out together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folds {
    /// The parts of each fold, ascending; at least two folds, none empty.
    pub folds: Vec<Vec<Part>>,
    /// True when the folds together are the segments they were made of, none cut.
    pub whole: bool,
}

/// A segment, or a piece of one that has the history it would have had uncut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The steps that are held out.
    pub segment: Segment,
    /// Step at which the filters start from rest: the segment's start, unless the segment follows a cut.
    pub from: i64,
}

/// Splits `segments` into (up to) `count` folds of about equal length: runs of neighbouring
/// segments, so that slow drift is held out too.
///
/// A segment longer than one and a half folds is cut into pieces. A piece that follows a cut begins
/// `guard` steps (at most a tenth of a piece) later, so that what is held out is no neighbour of
/// what is trained on; its filters start `history` steps earlier than it does.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for fewer than two folds or more than [`MAX_FOLDS`]; [`ErrorKind::InsufficientData`] when
/// there are not two steps to hold apart.
pub(crate) fn folds(
    segments: &[Segment],
    count: usize,
    guard: usize,
    history: usize,
) -> Result<Folds> {
    if count < 2 {
        return Err(Error::argument(format!(
            "cross-validation: expected at least 2 folds, got {count}"
        )));
    }
    if count > MAX_FOLDS {
        return Err(Error::argument(format!(
            "cross-validation: expected at most {MAX_FOLDS} folds, got {count}"
        )));
    }
    let total: usize = segments.iter().map(Segment::len).sum();
    let fold = total as f64 / count as f64;
    let mut pieces = Vec::new();
    let mut whole = true;
    for segment in segments {
        if segment.len() as f64 <= LONGEST * fold {
            pieces.push(Part {
                segment: *segment,
                from: segment.start,
            });
            continue;
        }
        let parts = ((segment.len() as f64 / fold).round() as usize).clamp(2, segment.len().max(2));
        let guard = guard.min(segment.len() / parts / 10) as i64;
        let bound = |i: usize| segment.start + (i * segment.len() / parts) as i64;
        whole = false;
        pieces.extend((0..parts).map(|i| {
            let start = bound(i) + if i > 0 { guard } else { 0 };
            let history = i64::try_from(history).unwrap_or(i64::MAX);
            Part {
                segment: Segment {
                    start,
                    stop: bound(i + 1),
                },
                from: start.saturating_sub(history).max(segment.start),
            }
        }));
    }
    pieces.retain(|p| !p.segment.is_empty());
    let total: usize = pieces.iter().map(|p| p.segment.len()).sum();
    let mut folds = vec![Vec::new(); count];
    let mut before = 0;
    for piece in pieces {
        // The fold in which the middle of the piece falls.
        let fold = (2 * before + piece.segment.len()) * count / (2 * total);
        folds[fold.min(count - 1)].push(piece);
        before += piece.segment.len();
    }
    folds.retain(|f| !f.is_empty());
    if folds.len() < 2 {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "cross-validation: expected at least two steps to hold apart, got {total} in {}",
                text::count(segments.len() as u128, "segment")
            ),
        ));
    }
    Ok(Folds { folds, whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(bounds: &[(i64, i64)]) -> Vec<Segment> {
        let segment = |&(start, stop): &(i64, i64)| Segment { start, stop };
        bounds.iter().map(segment).collect()
    }

    fn held(split: &Folds) -> Vec<Segment> {
        split.folds.iter().flatten().map(|p| p.segment).collect()
    }

    #[test]
    fn many_segments_stay_whole_and_every_one_is_held_out_once() {
        let trials: Vec<Segment> = (0..103)
            .map(|i| Segment {
                start: i * 30,
                stop: i * 30 + 15 + i % 13,
            })
            .collect();
        let split = folds(&trials, 5, 100, 100).unwrap();
        assert!(split.whole);
        assert_eq!(held(&split), trials);
        assert!(
            split
                .folds
                .iter()
                .flatten()
                .all(|p| p.from == p.segment.start)
        );
        let lengths: Vec<usize> = (split.folds.iter())
            .map(|f| f.iter().map(|p| p.segment.len()).sum())
            .collect();
        let (least, most) = (lengths.iter().min(), lengths.iter().max());
        assert!(most.unwrap() - least.unwrap() < 60, "{lengths:?}");
    }

    #[test]
    fn one_segment_is_cut_into_guarded_blocks() {
        let split = folds(&segments(&[(100, 1100)]), 4, 20, 300).unwrap();
        let expected = [(100, 350), (370, 600), (620, 850), (870, 1100)];
        assert!(!split.whole);
        assert_eq!(held(&split), segments(&expected));
        let from: Vec<i64> = split.folds.iter().flatten().map(|p| p.from).collect();
        assert_eq!(from, [100, 100, 320, 570]);
        assert_eq!(split.folds.len(), 4);
        // A guard is never more than a tenth of a piece.
        let split = folds(&segments(&[(0, 1000)]), 4, 5000, 0).unwrap();
        assert_eq!(held(&split)[1], segments(&[(275, 500)])[0]);
    }

    #[test]
    fn few_and_uneven_segments() {
        let split = folds(&segments(&[(0, 10), (20, 1020), (1030, 1040)]), 5, 0, 0).unwrap();
        assert_eq!(split.folds.len(), 5);
        let steps: usize = held(&split).iter().map(Segment::len).sum();
        assert_eq!(steps, 1020);
        assert_eq!(folds(&segments(&[(0, 2)]), 5, 3, 3).unwrap().folds.len(), 2);
        for few in [&[(0, 1)][..], &[]] {
            let error = folds(&segments(few), 5, 0, 0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InsufficientData);
        }
        let error = folds(&segments(&[(0, 9)]), 1, 0, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}
