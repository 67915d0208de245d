"""scikit-learn's transformer over the library's self-organising maps."""

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _labels
from ._core import train_map
from ._decoder import warn_of_digits


class SelfOrganizingMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A self-organising map: a grid of nodes, each with a weight per feature, on which similar rows lie close together.

    Parameters are those of the command `betz som`. Rows are read as float32.

    Parameters
    ----------
    map : (rows, columns), (layers, rows, columns), or a text such as "90x70"
        Nodes of the map, in two or three dimensions.
    hex : bool
        True: a hexagonal grid, with six neighbours per node in a layer.
    torus : bool
        True: opposite edges are joined, in every dimension.
    positions : array (nodes, 1 to 3) or None
        Positions of the nodes, in place of `map`. Radii then have their unit.
    metric : {"euclidean", "manhattan", "chebyshev", "cosine", "correlation"}
        Distance between rows and nodes.
    epochs : int or None
        Number of passes over all rows. None: 30, or 16 with `online`.
    radius : float, (first, last) or None
        Radius of the neighbourhood in the first pass and in the last. None: a third of the longest side to 0.6, or 16 to 1
        with `online`.
    exact : bool
        True: batches decide in float64 where float32 cannot tell nodes apart.
    online : bool
        False: batch training from a plane through the data, without chance. True: Kohonen's rule, one row after the other,
        from random weights; only this has `partial_fit`.
    rate : float, (first, last) or None
        Learning rate of the online rule; None: 0.05.
    neighbourhood : {"disc", "window", "gaussian", "triangle", "mexican-hat"} or None
        Neighbourhood of the online rule; None: "disc".
    disc : {"open", "closed"} or None
        Edge of the disc: "open" (also None) moves nodes nearer than the radius, "closed" those at the radius, too.
    fade : {"linear", "geometric", "one-per-pass"} or None
        Change of the online rule's radius from pass to pass; None: "one-per-pass".
    seed : int
        Seed of the online rule's first weights.
    device : str
        "cpu", "auto", "cuda" or "cuda:1". Euclidean maps in two dimensions are trained on a GPU, others on the CPU.
    progress : callable or None
        Called as progress(stage, done, total), at most twenty times per second. Ctrl-C stops training either way.

    Attributes
    ----------
    map_ : betz.SomMap
        Nodes, weights and metric. It pickles.
    weights_ : ndarray
        Weights in the shape of the map: (rows, columns, features), (layers, rows, columns, features), or (nodes, features)
        with `positions`.
    cluster_centers_ : ndarray (nodes, features)
        The same weights, node by node, in the order that `predict` counts.
    u_matrix_ : ndarray
        Mean distance of each node from its neighbours, in the shape of the map.
    labels_ : ndarray
        Node of each row of the latest `fit` or `partial_fit`.
    quantization_error_ : float
        Mean distance of these rows from their nodes.
    topographic_error_ : float
        Share of these rows whose two nearest nodes do not touch; of large data, of rows that are evenly spread.
    n_passes_ : int
        Number of passes done. `partial_fit` counts as one.
    training_ : dict
        Device of the training, and why it was the CPU if a GPU was asked for ("fallback"); mean distance before each epoch
        of a batch ("errors"), and the number of rows that float64 decided ("rechecked").
    n_features_in_, feature_names_in_
        As scikit-learn has them.

    Examples
    --------
    >>> import numpy as np
    >>> from betz import SelfOrganizingMap
    >>> rng = np.random.default_rng(1)
    >>> X = rng.standard_normal((600, 3)) + 8.0 * np.eye(3)[np.repeat([0, 1, 2], 200)]    # three heaps
    >>> som = SelfOrganizingMap(map=(6, 6)).fit(X)
    >>> som.weights_.shape, som.transform(X).shape
    ((6, 6, 3), (600, 36))
    >>> nodes = [set(som.predict(heap)) for heap in np.split(X, 3)]
    >>> nodes[0] & nodes[1] or nodes[1] & nodes[2] or nodes[0] & nodes[2]      # no node has rows of two heaps
    set()

    Parts of the data, one after the other:

    >>> som = SelfOrganizingMap(map=(6, 6), online=True, radius=(3, 1), fade="linear", epochs=4)
    >>> for part in np.array_split(rng.permutation(X), 4):
    ...     _ = som.partial_fit(part)
    >>> bool(som.quantization_error_ < 3)
    True
    """

    def __init__(
        self,
        map=(16, 16),
        *,
        hex=False,
        torus=False,
        positions=None,
        metric="euclidean",
        epochs=None,
        radius=None,
        exact=False,
        online=False,
        rate=None,
        neighbourhood=None,
        disc=None,
        fade=None,
        seed=1,
        device="cpu",
        progress=None,
    ):
        self.map = map
        self.hex = hex
        self.torus = torus
        self.positions = positions
        self.metric = metric
        self.epochs = epochs
        self.radius = radius
        self.exact = exact
        self.online = online
        self.rate = rate
        self.neighbourhood = neighbourhood
        self.disc = disc
        self.fade = fade
        self.seed = seed
        self.device = device
        self.progress = progress

    def fit(self, X, y=None):
        """Trains the map on X, (rows, features), anew. y counts for nothing."""
        X = self._rows(X, first=True)
        return self._train(X, None, None)

    @available_if(lambda self: self._takes_parts())
    def partial_fit(self, X, y=None):
        """Presents each row of X once, by the online rule. y counts for nothing.

        The first call begins with random weights within the range of X. The k-th call has the rate and the radius of pass k
        of `fit`, and every call behind the last pass those of the last, so that `epochs` calls with the same X make the map
        that `fit` makes of it, bit for bit.
        """
        begun = hasattr(self, "map_")
        X = self._rows(X, first=not begun)
        return self._train(X, self.map_ if begun else None, self.n_passes_ if begun else 0)

    def predict(self, X):
        """The nearest node of each row of X, int64, counted from 0, row by row and layer by layer of the map; of nodes equally
        near the lowest. `numpy.unravel_index(nodes, som.map_.shape)` makes rows and columns of them.
        """
        check_is_fitted(self, "map_")
        return self.map_.assign(self._rows(X, first=False))[0].astype(np.int64)

    def transform(self, X):
        """The distance of each row of X from each node, float64 (rows, nodes)."""
        check_is_fitted(self, "map_")
        return self.map_.distances(self._rows(X, first=False))

    def score(self, X, y=None):
        """Less the mean distance of the rows of X from their nearest nodes: more is better, as for a grid search."""
        check_is_fitted(self, "map_")
        return -float(self.map_.assign(self._rows(X, first=False))[1].astype(np.float64).mean())

    @property
    def weights_(self):
        return self.map_.weights.reshape(*self.map_.shape, -1)

    @property
    def cluster_centers_(self):
        return self.map_.weights

    @property
    def u_matrix_(self):
        return self.map_.heights().reshape(self.map_.shape)

    @property
    def _n_features_out(self):
        return len(self.map_.weights)

    def _takes_parts(self):
        if not self.online:
            raise AttributeError(f"partial_fit: expected online=True, got online={self.online!r}")
        return True

    def _rows(self, X, first):
        _labels.refuse_other_than_numbers("X", X)
        X = _labels.plain(_labels.oriented("X", X))
        X = validate_data(self, X, reset=first, dtype=[np.float64, np.float32])
        if first:
            warn_of_digits(X, getattr(self, "feature_names_in_", None))
        return X

    def _train(self, X, start, number):
        if self.progress is not None and not callable(self.progress):
            got = type(self.progress).__name__
            raise TypeError(f"progress: expected a function of (stage, done, total), or None, got {got}")
        parameters = self.get_params(deep=False) | {"positions": self._positions()}
        self.map_, report = train_map(X, parameters, start, number, self.progress)
        self.labels_ = report.pop("winners").astype(np.int64)
        self.quantization_error_ = report.pop("quantization_error")
        self.topographic_error_ = report.pop("topographic_error")
        self.n_passes_ = report.pop("passes") + (number or 0)
        self.training_ = report
        return self

    def _positions(self):
        """An array of two dimensions, or None."""
        if self.positions is None:
            return None
        _labels.refuse_other_than_numbers("positions", self.positions)
        positions = np.asarray(self.positions, np.float64)
        return positions[:, None] if positions.ndim == 1 else positions
