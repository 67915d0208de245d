//! Some of the nodes alone, and means of rows.

use betz::network::Signal;
use betz::network::file::Positions;
use betz::recording::arrays::Values;
use betz::{Error, Result};

use super::super::args::Span;
use super::super::compute::samples;
use super::super::nodes;
use super::args::LiveInput;
use super::feed::{Facts, Piece};

/// Changes rows on their way from the source.
#[derive(Default)]
pub(super) struct Reducer {
    nodes: Option<String>,
    average: Option<Span>,
    /// Known with the facts.
    width: usize,
    kept: Option<Vec<usize>>,
    mean: Option<Mean>,
}

/// Mean of the rows so far.
struct Mean {
    rows: usize,
    sums: Vec<f64>,
    count: usize,
    /// Rows up to the next sample, after a gap.
    skip: u64,
}

impl Reducer {
    pub(super) fn new(from: &LiveInput) -> Self {
        Self {
            nodes: from.nodes.clone(),
            average: from.average,
            ..Self::default()
        }
    }

    /// Gives what remains of a piece: nothing, itself or another one.
    ///
    /// # Errors
    /// `InvalidArgument` for nodes that are not there, and a mean over less than a row.
    pub(super) fn reduce(&mut self, piece: Piece) -> Result<Vec<Piece>> {
        Ok(match piece {
            Piece::Facts(facts) => vec![Piece::Facts(self.begin(facts)?)],
            Piece::Rows(values) => {
                let values = match &self.kept {
                    Some(kept) => nodes::columns(values, self.width, kept),
                    None => values,
                };
                match &mut self.mean {
                    None => vec![Piece::Rows(values)],
                    Some(mean) => match mean.take(&values) {
                        means if means.is_empty() => Vec::new(),
                        means => vec![Piece::Rows(Values::F32(means))],
                    },
                }
            }
            Piece::Gap(lost) => match &mut self.mean {
                None => vec![Piece::Gap(lost)],
                Some(mean) => Vec::from_iter(mean.gap(lost).map(Piece::Gap)),
            },
        })
    }

    fn begin(&mut self, mut facts: Facts) -> Result<Facts> {
        self.width = facts.nodes;
        if let Some(average) = self.average {
            let signal = Signal::new(&[0_u8][..], 1)?;
            let signal = match facts.sample_seconds {
                Some(seconds) => signal.with_sample_seconds(seconds)?,
                None => signal,
            };
            let rows = samples("--average", average, &signal)?;
            if rows == 0 {
                return Err(Error::argument("--average: expected at least 1 row, got 0"));
            }
            facts.sample_seconds = facts.sample_seconds.map(|s| s * rows as f64);
            self.mean = Some(Mean {
                rows,
                sums: Vec::new(),
                count: 0,
                skip: 0,
            });
        }
        if let Some(list) = &self.nodes {
            let kept = nodes::chosen(list, facts.nodes, None)?;
            facts.nodes = kept.len();
            facts.positions = facts.positions.map(|all| Positions {
                values: (kept.iter())
                    .flat_map(|n| &all.values[n * all.axes..(n + 1) * all.axes])
                    .copied()
                    .collect(),
                axes: all.axes,
            });
            self.kept = Some(kept);
        }
        if let Some(mean) = &mut self.mean {
            mean.sums = vec![0.0; facts.nodes];
        }
        Ok(facts)
    }
}

impl Mean {
    fn take(&mut self, values: &Values) -> Vec<f32> {
        match values {
            Values::U8(v) => self.add(v),
            Values::U16(v) => self.add(v),
            Values::I16(v) => self.add(v),
            Values::F32(v) => self.add(v),
            Values::F64(v) => self.add(v),
        }
    }

    fn add<T: Copy + Into<f64>>(&mut self, values: &[T]) -> Vec<f32> {
        let mut means = Vec::new();
        for row in values.chunks_exact(self.sums.len().max(1)) {
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            for (sum, value) in self.sums.iter_mut().zip(row) {
                *sum += (*value).into();
            }
            self.count += 1;
            if self.count == self.rows {
                means.extend(self.sums.iter().map(|sum| (sum / self.rows as f64) as f32));
                self.clear();
            }
        }
        means
    }

    fn clear(&mut self) {
        self.sums.fill(0.0);
        self.count = 0;
    }

    /// The samples that a gap of `lost` rows costs, with the one that was begun; `None` if an earlier gap has cost
    /// them. The next sample begins at the time that it would have without the gap.
    fn gap(&mut self, lost: u64) -> Option<u64> {
        if lost > 0 && lost <= self.skip {
            self.skip -= lost;
            return None;
        }
        if lost == 0 && self.skip > 0 {
            return Some(0);
        }
        let (begun, rows) = (self.count as u64, self.rows as u64);
        self.clear();
        let gone = begun.saturating_add(lost) - std::mem::take(&mut self.skip);
        let samples = gone.div_ceil(rows);
        self.skip = samples.saturating_mul(rows) - gone;
        Some(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_nodes_are_those_of_the_rows() {
        let mut reducer = Reducer {
            nodes: Some("0,2".into()),
            average: Some(Span::Seconds(0.02)),
            ..Reducer::default()
        };
        let facts = Facts {
            nodes: 3,
            sample_seconds: Some(0.01),
            positions: Some(Positions {
                values: vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
                axes: 2,
            }),
        };
        let begun = reducer.reduce(Piece::Facts(facts)).unwrap();
        let Piece::Facts(facts) = &begun[0] else {
            panic!("facts first");
        };
        assert_eq!((facts.nodes, facts.sample_seconds), (2, Some(0.02)));
        assert_eq!(
            facts.positions.as_ref().unwrap().values,
            [0.0, 1.0, 4.0, 5.0]
        );
        let rows = |v: &[i16]| Piece::Rows(Values::I16(v.to_vec()));
        let mut reduce = |piece| reducer.reduce(piece).unwrap();
        assert!(reduce(rows(&[1, 9, 5])).is_empty());
        let means = |v: &[f32]| vec![Piece::Rows(Values::F32(v.to_vec()))];
        assert_eq!(reduce(rows(&[2, 9, 8, 4, 9, 4])), means(&[1.5, 6.5]));
        // The row that was begun is lost with the two others: two samples, and a row up to the next one.
        assert_eq!(reduce(Piece::Gap(2)), [Piece::Gap(2)]);
        assert!(reduce(rows(&[7, 7, 7])).is_empty());
        assert_eq!(reduce(rows(&[1, 9, 1, 3, 9, 7])), means(&[2.0, 4.0]));
        assert_eq!(reduce(Piece::Gap(0)), [Piece::Gap(0)]);
        let error = Reducer {
            nodes: Some("7".into()),
            ..Reducer::default()
        }
        .reduce(Piece::Facts(Facts {
            nodes: 3,
            sample_seconds: None,
            positions: None,
        }));
        assert!(error.unwrap_err().message().contains("numbers below 3"));
    }

    #[test]
    fn samples_keep_their_times_behind_gaps() {
        // Row t has the value t; every 15th is lost, and some in a row.
        const ROWS: u32 = 400;
        let lost = |t: u32| t % 15 == 14 || (200..233).contains(&t);
        let mut mean = Mean {
            rows: 10,
            sums: vec![0.0],
            count: 0,
            skip: 0,
        };
        let (mut at, mut given) = (0, 0);
        for t in 0..ROWS {
            if lost(t) {
                at += mean.gap(1).unwrap_or(0);
                continue;
            }
            for value in mean.add(&[f64::from(t)]) {
                assert_eq!(value, at as f32 * 10.0 + 4.5);
                (at, given) = (at + 1, given + 1);
            }
        }
        let whole = (0..ROWS / 10).filter(|s| !(s * 10..s * 10 + 10).any(lost));
        assert_eq!((at, given), (u64::from(ROWS) / 10, whole.count()));
    }
}
