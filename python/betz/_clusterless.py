"""scikit-learn's estimator over clusterless place decoders."""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ._core import ClusterlessSession, train_clusterless


class ClusterlessDecoder(BaseEstimator):
    """A decoder of place from spikes that nobody has sorted.

    A channel is an electrode group, such as a tetrode, and each spike has features, such as its amplitudes on the wires.
    Components of the features have rates in the cells of a grid; Bayes' rule and a random walk give the probability of
    every cell (docs/decoders.md). `model_.save` writes the file that `betz evaluate`, `decode` and the C library run.

    Parameters
    ----------
    step_seconds : float or None
        Length of a step. None: 0.02, or a tick of the recording if that is longer.
    cells : int or None
        Cells along the longest axis, 4 to 1000. None: 28.
    components : int or None
        Largest number of components per channel, 1 to 4096. None: 64.
    seed : int
        Seed of the components.
    progress : callable or None
        Called as progress(stage, done, total). Ctrl-C stops training either way.

    Attributes
    ----------
    model_ : betz.ClusterlessModel
        The trained model.
    training_ : dict
        `held_out_median_error` in `unit`, the median distance on the last fifth of the steps (`held_out_steps`) by a
        decoder trained on the others.

    Examples
    --------
    >>> import numpy as np, betz
    >>> rng = np.random.default_rng(1)
    >>> x = 50 - 50 * np.cos(np.arange(6000) * 0.02)                  # place in cm, one sample per 20 ms
    >>> ticks = np.flatnonzero(rng.random(6000) < 0.5)                # one tetrode
    >>> amplitudes = np.stack([x[ticks] + rng.normal(0, 8, len(ticks)), rng.normal(0, 1, len(ticks))], axis=1)
    >>> recording = betz.Recording.from_spikes(
    ...     ticks, np.zeros(len(ticks), int), 0.02, duration_ticks=6000, behavior=x, behavior_names=["x"], behavior_units=["cm"]
    ... )
    >>> decoder = betz.ClusterlessDecoder().fit(recording, amplitudes, seconds=(0, 90))
    >>> bool(decoder.score(recording, amplitudes, seconds=(90, 120)) > 0.8)
    True
    >>> decoder.predict(recording, amplitudes).shape
    (6000, 1)
    """

    def __init__(self, *, step_seconds=None, cells=None, components=None, seed=1, progress=None):
        self.step_seconds = step_seconds
        self.cells = cells
        self.components = components
        self.seed = seed
        self.progress = progress

    def fit(self, recording, spike_features, *, seconds=None):
        """Trains on a `Recording` of spike times with behaviour.

        spike_features : (spikes, features), one row per spike of the recording; `betz.spike_features` reads those of an
        `.npz` file. A feature that is NaN in all spikes of a channel is not used there.

        seconds : (from, until) to train on, or None for all.
        """
        for name in ("model_", "training_"):
            if hasattr(self, name):
                delattr(self, name)
        self.model_, self.training_ = train_clusterless(
            recording,
            spike_features,
            seconds=seconds,
            step_seconds=self.step_seconds,
            cells=self.cells,
            components=self.components,
            seed=self.seed,
            progress=self.progress,
        )
        return self

    def predict(self, recording, spike_features, *, seconds=None):
        """Estimates of every step, float64 (steps, outputs); NaN in steps outside segments and `seconds`."""
        check_is_fitted(self, "model_")
        return self.model_.decode(recording, spike_features, seconds=seconds)[0].astype(np.float64)

    def score(self, recording, spike_features, *, seconds=None):
        """Mean R² over the outputs that change."""
        check_is_fitted(self, "model_")
        return self.model_.score(recording, spike_features, seconds=seconds)[1]

    def median_error(self, recording, spike_features, *, seconds=None):
        """Median distance between estimate and place, in the unit of the outputs."""
        check_is_fitted(self, "model_")
        return self.model_.score(recording, spike_features, seconds=seconds)[2]

    def session(self):
        """A `ClusterlessSession` of the model, from rest."""
        check_is_fitted(self, "model_")
        return ClusterlessSession(self.model_)
