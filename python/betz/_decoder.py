"""scikit-learn's estimator over the library's training."""

import warnings

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ._core import Dataset, Recording, Session, Sums, train

# Noise over the largest response where neither it nor a ridge is given and nothing is cross-validated.
_CUSTOMARY_NOISE = 0.1

# A filter this much shorter than a step hands on the counts of its own step: rows that no time connects.
_STEPS_OF_NO_TIME = 40.0


class Decoder(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A decoder of movement (or anything else) from spike counts or other features.

    Spike trains pass through a bank of filters, h(t) = t^order e^(-t/tau), and the optimal linear decoder, or one of
    the nonlinear kinds, reads the filtered trains. What is trained is the library's own model: `model_.save` writes
    the file that the command line and the C library run, `session()` runs it here.

    Parameters
    ----------
    kind : {"linear", "lift", "experts", "kalman", "refit", "place", "recurrent", "auto"}
        The kind of decoder; "auto" takes the one that decodes best what it was not trained on.
    step_seconds : float or None
        Seconds from one row of X to the next. None: rows stand for themselves, as scikit-learn has it, and no filter
        runs over them; recordings keep their own bins, and spike times are put in steps of 5 ms.
    bank : "auto", a name from `betz.presets()`, or a list of (tau_seconds, order)
        The filters; "auto" cross-validates the presets. Rows without time have none.
    ridge : "auto" or float
        The ridge λ on the centred Γ; "auto" cross-validates it in `fit`. In `partial_fit`, which sees its data in
        parts, "auto" stands for `noise=0.1`.
    noise : float or None
        Instead of a ridge: neural noise as a part of the largest response; λ = σ²T.
    delay_seconds : float
        Row t of the estimates is of the behaviour this much earlier.
    low_pass : (hertz, order) or None
        A Butterworth low-pass behind the filters.
    folds : int
        Folds of cross-validation; 0: none, and the ridge follows from `noise`.
    latents, units, experts : int or None
        Sizes of the nonlinear kinds; None: cross-validated.
    layers : sequence of int or None
        Units of each layer of a recurrent decoder, multiples of 16. None: 64, 64 for trials, 64 for continuous
        recordings.
    members : int or None
        Number of networks that a recurrent decoder averages. None: one.
    epochs : int or None
        Passes over the recording that train a recurrent decoder. None: 140 over trials, 150 over continuous
        recordings.
    device : str
        "cpu", "auto", "cuda", "cuda:1", "cuda:all".
    seed : int
        Of random projections, clusters and networks.
    progress : callable or None
        Called as progress(stage, done, total), at most twenty times per second. Ctrl-C stops training either way.

    Attributes
    ----------
    model_ : betz.Model
        What was trained.
    training_ : dict
        Where it ran, and how the kinds compare.
    sums_ : betz.Sums
        The sums behind a linear decoder: what `partial_fit` and `merge` add to.
    n_features_in_, feature_names_in_
        As scikit-learn has them.

    Examples
    --------
    >>> import numpy as np
    >>> from betz import Decoder
    >>> rng = np.random.default_rng(1)
    >>> X = rng.poisson(0.5, (2000, 30)).astype(np.uint8)         # counts in bins of 20 ms
    >>> y = np.cumsum(X[:, :2] - 0.5, axis=0) * 0.02              # something that remembers
    >>> decoder = Decoder(step_seconds=0.02, bank=[(0.1, 0), (1.0, 0), (10.0, 0)]).fit(X[:1500], y[:1500])
    >>> decoder.predict(X[1500:]).shape
    (500, 2)

    Parts that are summed apart, on other days or machines, make the same decoder bit for bit:

    >>> whole = Decoder(ridge=1.0).partial_fit(X[:900], y[:900]).partial_fit(X[900:], y[900:])
    >>> one, other = Decoder(ridge=1.0).partial_fit(X[:900], y[:900]), Decoder(ridge=1.0).partial_fit(X[900:], y[900:])
    >>> other.merge(one).model_ == whole.model_
    True
    """

    def __init__(
        self,
        kind="linear",
        *,
        step_seconds=None,
        bank="auto",
        ridge="auto",
        noise=None,
        delay_seconds=0.0,
        low_pass=None,
        folds=5,
        latents=None,
        units=None,
        experts=None,
        layers=None,
        members=None,
        epochs=None,
        device="cpu",
        seed=0,
        progress=None,
    ):
        self.kind = kind
        self.step_seconds = step_seconds
        self.bank = bank
        self.ridge = ridge
        self.noise = noise
        self.delay_seconds = delay_seconds
        self.low_pass = low_pass
        self.folds = folds
        self.latents = latents
        self.units = units
        self.experts = experts
        self.layers = layers
        self.members = members
        self.epochs = epochs
        self.device = device
        self.seed = seed
        self.progress = progress

    def fit(self, X, y=None, trials=None):
        """Trains on X, (time, channels) with y, (time,) or (time, outputs); or on a `Recording` or `Dataset`, whose
        behaviour is y.

        trials : one label per row, or None; filters start from rest wherever it changes, and cross-validation keeps
        trials whole. (A recording has its own.)
        """
        for name in ("model_", "sums_", "training_"):
            if hasattr(self, name):
                delattr(self, name)
        data = self._dataset(X, y, trials, first=True, rows=2)
        options = self._options(data, self._wanted_bank(X))
        self.model_, self.training_ = train(data, options, self.progress)
        if self.kind == "linear":
            self.sums_ = Sums.over(data, options | {"bank": self.model_.bank}, self.progress)
        self._scale = (self.model_.ridge, self.model_.training_steps)
        return self

    def partial_fit(self, X, y=None, trials=None):
        """Adds X and y to what a linear decoder was trained on, as recordings of their own: filters start from rest.

        Sums are added exactly, so the order of the parts makes no difference to a bit. The same part a second time
        adds nothing, and warns.
        """
        self._refuse_other_kinds("partial_fit")
        begun = hasattr(self, "sums_")
        data = self._dataset(X, y, trials, first=not begun, rows=1)
        bank = self.model_.bank if begun else self._wanted_bank(X)
        part = Sums.over(data, self._options(data, bank), self.progress)
        if begun and self.sums_.shares(part):
            warnings.warn("partial_fit: the decoder was trained on these very rows already: nothing is added", stacklevel=2)
            return self
        return self._solve(self.sums_.merged(part) if begun else part)

    def merge(self, other):
        """Adds what another linear decoder was trained on: parts of the data that were summed elsewhere."""
        self._refuse_other_kinds("merge")
        check_is_fitted(self, "sums_")
        check_is_fitted(other, "sums_")
        if hasattr(self, "_scale") and hasattr(other, "_scale"):
            self._scale = tuple(a + b for a, b in zip(self._scale, other._scale))
        return self._solve(self.sums_.merged(other.sums_))

    def predict(self, X, trials=None):
        """Estimates, float64, of the shape of y: one row for each of X (NaN in a recording's steps outside trials)."""
        check_is_fitted(self, "model_")
        data = self._dataset(X, None, trials, first=False, rows=1)
        estimates = self.model_.decode(data, device=self.device).astype(np.float64)
        return estimates[:, 0] if self._flat else estimates

    def score(self, X, y=None, trials=None):
        """Mean R² over the outputs that change, each estimate against the behaviour `delay_seconds` before it."""
        check_is_fitted(self, "model_")
        return self.model_.score(self._dataset(X, y, trials, first=False, rows=1, labels=True))[1]

    def session(self, **config):
        """A `Session` of the model, from rest; `config` as there."""
        check_is_fitted(self, "model_")
        return Session(self.model_, **config)

    def to_onnx(self, path):
        """Writes one step of the model as ONNX (opset 17) to the file `path`: whole, or not at all.

        Inputs are `counts`, a row of X as float32 (1, channels), and the states, float64; outputs are `estimates`,
        float32 (1, outputs), a row of `predict`, and the states for the next step. States are 0 at rest: at the first
        row, and wherever a trial starts. For kinds "linear", "lift", "kalman" and "refit"; others raise `BetzError`.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> from betz import Decoder
        >>> X = np.random.default_rng(1).poisson(0.5, (500, 30)).astype(np.uint8)
        >>> decoder = Decoder(step_seconds=0.02, bank=[(0.1, 0), (1.0, 0)], noise=0.1).fit(X, X[:, 0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "decoder.onnx")
        ...     decoder.to_onnx(path)
        ...     b"state_out" in path.read_bytes()
        True

        In onnxruntime, a row at a time::

            step = onnxruntime.InferenceSession("decoder.onnx")
            names = [output.name for output in step.get_outputs()]
            states = {i.name: np.zeros(i.shape) for i in step.get_inputs() if i.name != "counts"}
            for row in X.astype(np.float32):
                out = dict(zip(names, step.run(names, {"counts": row[None], **states})))
                states = {name: out[name + "_out"] for name in states}
                use(out["estimates"][0])
        """
        check_is_fitted(self, "model_")
        self.model_.to_onnx(path)

    def _refuse_other_kinds(self, what):
        if self.kind != "linear":
            raise ValueError(f"{what}: expected kind='linear', whose sums can be added, got {self.kind!r}")

    def _solve(self, sums):
        """The decoder of `sums`; a ridge that was cross-validated grows with the steps, as noise's does."""
        if self.ridge != "auto":
            self.model_ = sums.solve(ridge=self.ridge)
        elif self.noise is None and hasattr(self, "_scale"):
            ridge, steps = self._scale
            self.model_ = sums.solve(ridge=ridge / steps * sums.steps)
        else:
            self.model_ = sums.solve(noise=_CUSTOMARY_NOISE if self.noise is None else self.noise)
        self.sums_ = sums
        return self

    def _wanted_bank(self, X):
        if self.step_seconds is None and not isinstance(X, (Recording, Dataset)):
            return [(1.0 / _STEPS_OF_NO_TIME, 0)]
        return self.bank

    def _options(self, data, bank):
        delay = self.delay_seconds / data.step_seconds
        if not np.isfinite(delay):
            raise ValueError(f"delay_seconds: expected a finite time, got {self.delay_seconds}")
        return {
            "bank": bank,
            "ridge": None if self.ridge == "auto" else self.ridge,
            "noise": self.noise,
            "delay_steps": round(delay),
            "low_pass": self.low_pass,
            "folds": self.folds,
            "kind": self.kind,
            "latents": self.latents,
            "units": self.units,
            "experts": self.experts,
            "layers": self.layers,
            "members": self.members,
            "epochs": self.epochs,
            "seed": self.seed,
            "device": self.device,
        }

    def _dataset(self, X, y, trials, *, first, rows, labels=False):
        """X and y on a clock, checked as scikit-learn checks them."""
        if isinstance(X, (Recording, Dataset)):
            return self._of_recording(X, y, trials, first)
        checks = dict(reset=first, dtype=[np.float64, np.float32], ensure_min_samples=rows)
        if first or y is not None or labels:
            X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, **checks)
            if first:
                self._flat = y.ndim == 1
            y = y.reshape(len(y), -1)
        else:
            X = validate_data(self, X, **checks)
        names = getattr(self, "feature_names_in_", None)
        return Dataset.of_rows(
            X,
            y,
            1.0 if self.step_seconds is None else self.step_seconds,
            _segments(trials, len(X)),
            None if names is None else [str(name) for name in names],
        )

    def _of_recording(self, data, y, trials, first):
        if y is not None or trials is not None:
            raise ValueError("a recording has behaviour and trials of its own: expected neither y nor trials beside it")
        if isinstance(data, Recording):
            data = data.align(self.step_seconds if first else self.model_.step_seconds)
        if first:
            self._flat = False
            self.n_features_in_ = len(data.channel_names)
        return data


def _segments(trials, rows):
    """Runs of one label, (n, 2) half-open."""
    if trials is None:
        return None
    trials = np.asarray(trials)
    if trials.shape != (rows,):
        raise ValueError(f"trials: expected one label per row, ({rows},), got {trials.shape}")
    cuts = np.flatnonzero(trials[1:] != trials[:-1]) + 1
    return np.column_stack([np.r_[0, cuts], np.r_[cuts, rows]]).tolist()
