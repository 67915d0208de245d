//! Two sources by a line that both hear: a pulse that goes to the digital input of either.
//!
//! The arrivals place a source to about a millisecond. Each change of its line is then matched with the change of the other
//! source's line that is nearest in time and of the same direction. A straight line through the matches gives the offset and the
//! drift of its clock; how far the matches lie from it is the error.

use betz::{Error, ErrorKind, Result};
use betz_live::{FARTHEST_SECONDS, SharedLine, nearest_change};
use betz_rigs::rig::LineEdge;
use serde::Serialize;

use super::survey::Epoch;

/// Least number of matches in an epoch: the drift needs two, and a third shows that they fit.
const LEAST: usize = 3;
/// Largest drift that is believed, in parts per million.
const MOST_PPM: f64 = 500.0;

/// An epoch of a source that was placed by a shared line.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AlignedSource {
    source: String,
    reference: String,
    epoch: u32,
    /// Changes that were matched, and those of the source's line that were not.
    matched: usize,
    unmatched: usize,
    /// Drift of its clock against the reference's, in parts per million.
    drift_ppm: f64,
    /// Time by which the arrivals had misplaced it, in microseconds.
    moved_us: f64,
    /// Root of the mean square, and largest distance of a match from the line, in microseconds.
    rms_us: f64,
    largest_us: f64,
    /// Lengths of a row of the reference and of the source, to which a change is known, in microseconds.
    row_us: [f64; 2],
}

impl std::fmt::Display for AlignedSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            source,
            reference,
            epoch,
            matched,
            unmatched,
            drift_ppm,
            moved_us,
            rms_us,
            largest_us,
            row_us: [row, own],
        } = self;
        write!(
            f,
            "{source}, epoch {epoch}: placed by {matched} changes of a line shared with {reference} ({unmatched} not matched); \
             error {rms_us:.1} µs (rms), {largest_us:.1} µs at most, of rows of {row:.1} and {own:.1} µs; \
             drift {drift_ppm:.2} ppm; moved by {moved_us:.0} µs"
        )
    }
}

/// Places every epoch of the other source by its matches. Its rate becomes that of the reference's clock.
pub(super) fn align(
    shared: &SharedLine,
    sources: &[String],
    epochs: &mut [Epoch],
    edges: &[(usize, LineEdge)],
) -> Result<Vec<AlignedSource>> {
    let number = |name: &str| {
        sources
            .iter()
            .position(|source| source == name)
            .ok_or_else(|| {
                Error::argument(format!(
                    "--align {shared}: expected sources of the session, {}, got {name}",
                    sources.join(", ")
                ))
            })
    };
    let (reference, other) = (number(&shared.reference.0)?, number(&shared.other.0)?);
    let of = |source: usize, line: u8| {
        (edges.iter()).filter(move |(of, edge)| *of == source && edge.line == line)
    };
    let place = |epochs: &[Epoch], source: usize, edge: &LineEdge| {
        let of = |e: &&Epoch| (e.source, e.epoch) == (source, edge.epoch);
        epochs.iter().find(of).map(|epoch| epoch.seconds(edge.row))
    };
    let mut known: Vec<(f64, bool)> = of(reference, shared.reference.1)
        .filter_map(|(_, edge)| Some((place(epochs, reference, edge)?, edge.is_up)))
        .collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let row_us = |source: usize| {
        let rate = epochs
            .iter()
            .find(|e| e.source == source)
            .map(|e| e.facts.rate);
        rate.map_or(0.0, |rate| 1e6 / rate)
    };
    let row_us = [row_us(reference), row_us(other)];
    (epochs.iter_mut().filter(|epoch| epoch.source == other))
        .map(|epoch| {
            let changes: Vec<&LineEdge> = (of(other, shared.other.1))
                .map(|(_, edge)| edge)
                .filter(|edge| edge.epoch == epoch.epoch)
                .collect();
            place_epoch(shared, epoch, &changes, &known, row_us)
        })
        .collect()
}

/// Places an epoch by the `changes` of its line that match the `known` ones of the reference's.
fn place_epoch(
    shared: &SharedLine,
    epoch: &mut Epoch,
    changes: &[&LineEdge],
    known: &[(f64, bool)],
    row_us: [f64; 2],
) -> Result<AlignedSource> {
    let matches: Vec<(f64, f64)> = (changes.iter())
        .filter_map(|edge| {
            let at = epoch.seconds(edge.row);
            Some((at, nearest_change(known, at, edge.is_up)?))
        })
        .collect();
    let Some(line) = Line::through(&matches).filter(|_| matches.len() >= LEAST) else {
        return Err(Error::new(
            ErrorKind::InsufficientData,
            format!(
                "--align {shared}: expected at least {LEAST} changes of both lines within {FARTHEST_SECONDS} s of each other in epoch {} of {}, got {} of {}",
                epoch.epoch,
                shared.other.0,
                matches.len(),
                changes.len()
            ),
        ));
    };
    if (line.slope - 1.0).abs() * 1e6 > MOST_PPM {
        return Err(Error::recording(format!(
            "--align {shared}: expected clocks within {MOST_PPM} ppm of each other, got {:.0} ppm: the lines hear other pulses",
            (line.slope - 1.0) * 1e6
        )));
    }
    let errors: Vec<f64> = (matches.iter())
        .map(|(at, reference)| (line.at(*at) - reference) * 1e6)
        .collect();
    let squares: f64 = errors.iter().map(|e| e * e).sum();
    let begun = epoch.start_seconds;
    epoch.start_seconds = line.at(begun);
    epoch.facts.rate /= line.slope;
    Ok(AlignedSource {
        source: shared.other.0.clone(),
        reference: shared.reference.0.clone(),
        epoch: epoch.epoch,
        matched: matches.len(),
        unmatched: changes.len() - matches.len(),
        drift_ppm: (1.0 / line.slope - 1.0) * 1e6,
        moved_us: (epoch.start_seconds - begun) * 1e6,
        rms_us: (squares / errors.len() as f64).sqrt(),
        largest_us: errors.iter().fold(0.0, |most, e| e.abs().max(most)),
        row_us,
    })
}

/// A straight line from times of a source to times of its reference.
struct Line {
    /// Means of both.
    from: f64,
    to: f64,
    slope: f64,
}

impl Line {
    /// The line of least squares; `None` without two different times.
    fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let (from, to) = (
            points.iter().map(|p| p.0).sum::<f64>() / count,
            points.iter().map(|p| p.1).sum::<f64>() / count,
        );
        let square: f64 = points.iter().map(|p| (p.0 - from) * (p.0 - from)).sum();
        let product: f64 = points.iter().map(|p| (p.0 - from) * (p.1 - to)).sum();
        (square > 0.0).then(|| Self {
            from,
            to,
            slope: product / square,
        })
    }

    fn at(&self, time: f64) -> f64 {
        self.to + (time - self.from) * self.slope
    }
}
