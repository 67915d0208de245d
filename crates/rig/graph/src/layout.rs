//! Axes of a network's first input and of its estimates.

use betz_base::{Error, Result};

/// Shape of the first input: the counts of a window of steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Window {
    /// Lengths of all axes.
    pub(crate) shape: Vec<usize>,
    /// Number of steps.
    pub(crate) steps: usize,
    pub(crate) channels: usize,
    /// The last axis is that of the channels; otherwise it is that of the steps.
    pub(crate) channels_last: bool,
}

impl Window {
    /// The window of `channels` that an input of `shape` takes; `None` stands for an axis of any length. The last two
    /// axes are (steps, channels) or (channels, steps), all others have length 1. `steps` is the length of an axis of
    /// steps that has none.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for a shape without an axis of `channels`, and for
    /// another number of steps than `steps`. [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) if
    /// `steps` is needed and `None`.
    pub(crate) fn fit(
        shape: &[Option<usize>],
        channels: usize,
        steps: Option<usize>,
    ) -> Result<Self> {
        let shown = show(shape);
        let fits = |axis: Option<usize>| axis.is_none_or(|length| length == channels);
        let refuse = || {
            Err(Error::mismatch(format!(
                "first input: expected the axes (1, steps, {channels} channels) or (1, {channels} channels, steps), got {shown}"
            )))
        };
        let (leading, last) = match shape {
            [leading @ .., _, _] => (leading, &shape[shape.len() - 2..]),
            [length] if fits(*length) => {
                return Self::checked(vec![channels], (1, channels, true), steps);
            }
            _ => return refuse(),
        };
        if leading
            .iter()
            .any(|axis| axis.is_some_and(|length| length != 1))
        {
            return refuse();
        }
        let (time, channels_last) = match (last[0], last[1]) {
            (time, Some(length)) if length == channels => (time, true),
            (Some(length), time) if length == channels => (time, false),
            (time, None) => (time, true),
            (None, time) => (time, false),
            _ => return refuse(),
        };
        // An input of two axes may be one step of a batch.
        let length = match (time, steps) {
            (Some(length), _) | (None, Some(length)) => length,
            (None, None) if leading.is_empty() => 1,
            (None, None) => {
                return Err(Error::argument(format!(
                    "first input: its axis of steps has no length of its own, {shown}; expected --window with the number of steps that the network sees at once"
                )));
            }
        };
        let mut concrete = vec![1; leading.len()];
        concrete.extend(match channels_last {
            true => [length, channels],
            false => [channels, length],
        });
        Self::checked(concrete, (length, channels, channels_last), steps)
    }

    fn checked(
        shape: Vec<usize>,
        (length, channels, channels_last): (usize, usize, bool),
        steps: Option<usize>,
    ) -> Result<Self> {
        match steps {
            Some(steps) if steps != length => Err(Error::mismatch(format!(
                "first input: expected a window of {steps} steps, got {length} in {shape:?}"
            ))),
            _ => Ok(Self {
                shape,
                steps: length,
                channels,
                channels_last,
            }),
        }
    }
}

/// Place of the newest estimates among the numbers of an output: `count` of them, `stride` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(crate) start: usize,
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

impl Newest {
    /// The last step's estimates in an output of `shape`: (1, outputs), (1, steps, outputs), or (1, outputs, steps) of a
    /// network whose input is (channels, steps).
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for another shape.
    pub(crate) fn fit(shape: &[usize], window: &Window) -> Result<Self> {
        let steps = window.steps;
        let before = |axes: usize| shape[..shape.len() - axes].iter().product::<usize>();
        match *shape {
            [] => Ok(Self::row(0, 1)),
            [.., time, outputs] if before(2) == 1 && time == steps && window.channels_last => {
                Ok(Self::row((steps - 1) * outputs, outputs))
            }
            [.., outputs, time] if before(2) == 1 && time == steps && !window.channels_last => {
                Ok(Self {
                    start: steps - 1,
                    stride: steps,
                    count: outputs,
                })
            }
            [.., time, outputs] if before(2) == 1 && time == steps => {
                Ok(Self::row((steps - 1) * outputs, outputs))
            }
            [.., outputs] if before(1) == 1 => Ok(Self::row(0, outputs)),
            _ => Err(Error::mismatch(format!(
                "first output: expected the axes (1, outputs) or (1, {steps} steps, outputs), got {shape:?}"
            ))),
        }
    }

    fn row(start: usize, count: usize) -> Self {
        Self {
            start,
            stride: 1,
            count,
        }
    }
}

/// Lengths of axes, with `?` for any length.
pub(crate) fn show(shape: &[Option<usize>]) -> String {
    let axes: Vec<String> = (shape.iter())
        .map(|axis| axis.map_or_else(|| "?".to_owned(), |length| length.to_string()))
        .collect();
    format!("[{}]", axes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_found_by_its_axis_of_channels() -> Result<()> {
        let all = [
            (vec![Some(1), Some(20), Some(7)], None, 20, true),
            (vec![None, None, Some(7)], Some(5), 5, true),
            (vec![Some(1), Some(7), Some(20)], None, 20, false),
            (vec![Some(1), Some(7), None], Some(4), 4, false),
            (vec![None, Some(7)], None, 1, true),
            (vec![Some(7)], None, 1, true),
            (vec![Some(7), Some(7)], None, 7, true),
            (vec![Some(1), Some(1), Some(7), Some(30)], None, 30, false),
        ];
        for (shape, steps, expected, channels_last) in all {
            let window = Window::fit(&shape, 7, steps)?;
            assert_eq!(
                (window.steps, window.channels_last),
                (expected, channels_last)
            );
            assert_eq!(window.shape.len(), shape.len());
            assert_eq!(window.shape.iter().product::<usize>(), expected * 7);
        }
        Ok(())
    }

    #[test]
    fn windows_that_do_not_fit_are_refused_with_their_axes() {
        for (shape, steps, part) in [
            (vec![Some(1), Some(20), Some(6)], None, "got [1, 20, 6]"),
            (vec![Some(2), Some(20), Some(7)], None, "got [2, 20, 7]"),
            (vec![], None, "got []"),
            (
                vec![Some(1), Some(20), Some(7)],
                Some(10),
                "10 steps, got 20",
            ),
            (vec![None, None, Some(7)], None, "--window"),
        ] {
            let message = Window::fit(&shape, 7, steps).map_err(|e| e.message().to_owned());
            assert!(
                message.as_ref().is_err_and(|m| m.contains(part)),
                "{message:?}"
            );
        }
    }

    #[test]
    fn the_newest_estimates_are_those_of_the_last_step() -> Result<()> {
        let window = |channels_last| Window {
            shape: Vec::new(),
            steps: 4,
            channels: 7,
            channels_last,
        };
        for (shape, channels_last, expected) in [
            (vec![1, 2], true, (0, 1, 2)),
            (vec![], true, (0, 1, 1)),
            (vec![1, 4, 2], true, (6, 1, 2)),
            (vec![4, 2], true, (6, 1, 2)),
            (vec![1, 2, 4], false, (3, 4, 2)),
            (vec![1, 4, 2], false, (6, 1, 2)),
        ] {
            let newest = Newest::fit(&shape, &window(channels_last))?;
            assert_eq!((newest.start, newest.stride, newest.count), expected);
        }
        let error = Newest::fit(&[3, 2], &window(true)).map_err(|e| e.message().to_owned());
        assert!(error.is_err_and(|m| m.contains("got [3, 2]")));
        Ok(())
    }
}
