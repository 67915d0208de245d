"""Filters of any shape, for the `bank` of a decoder."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Filter:
    """A filter of any shape: samples of its impulse response, or a curve.

    Parameters
    ----------
    samples : sequence of float
        The impulse response. Finite, at least one sample, and one of them other than 0.
    step_seconds : float or None
        Seconds between samples. None: the decoder's steps. Samples at a step other than the decoder's are refused: give
        `times` instead.
    start : int
        Steps from a spike to the first sample. Below 0 the filter looks ahead; sessions refuse its models.
    times : sequence of float or None
        Seconds after a spike of every sample, ascending. The samples are then points of a curve, which is linear between
        them and zero outside. It is resampled to the decoder's steps: a sample is the curve's mean over one step.
    name : str or None
        Name in messages and in the model. None: its place in the bank, such as "bank[0]".
    keep_gain : bool
        True: keep the samples as they are. False: scale them to a sum of one.

    Examples
    --------
    >>> import numpy as np, betz
    >>> X = np.random.default_rng(0).poisson(1.0, (1000, 4))
    >>> epsc = betz.Filter([0.0, 1.0, 0.0], times=[0.0, 0.05, 0.2], name="epsc")
    >>> decoder = betz.Decoder(step_seconds=0.02, bank=[(0.1, 0), epsc]).fit(X, X[:, 0])
    >>> len(decoder.model_.bank)
    2
    """

    samples: Sequence[float]
    step_seconds: float | None = None
    start: int = 0
    times: Sequence[float] | None = None
    name: str | None = None
    keep_gain: bool = False

    def __post_init__(self) -> None:
        called = "filter" if self.name is None else f"filter {self.name}"
        for field in ("samples", "times"):
            values = getattr(self, field)
            if values is None and field == "times":
                continue
            try:
                values = np.asarray(values, dtype=float)
            except (TypeError, ValueError):
                raise TypeError(f"{called}: expected {field} as a list of numbers, got {type(values).__name__}") from None
            if values.ndim != 1:
                raise ValueError(f"{called}: expected {field} of one dimension, got the shape {values.shape}")
            object.__setattr__(self, field, tuple(values.tolist()))
        if self.times is None:
            return
        if len(self.times) != len(self.samples):
            raise ValueError(
                f"{called}: expected one time per sample, got {len(self.times)} times and {len(self.samples)} samples"
            )
        if self.step_seconds is not None or self.start != 0:
            raise ValueError(f"{called}: expected times, or step_seconds and start, got both; leave out step_seconds and start")
