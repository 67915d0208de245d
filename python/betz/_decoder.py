"""scikit-learn's estimator over the library's training."""

import numbers
import sys

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _labels
from ._core import BetzError, Dataset, Recording, Session, Sums, train, warn

# Noise over the largest response where neither it nor a ridge is given and nothing is cross-validated.
_CUSTOMARY_NOISE = 0.1

# A filter this much shorter than a step hands on the counts of its own step: rows that no time connects.
_STEPS_OF_NO_TIME = 40.0


def _described(value):
    """`value` for a message, or its type if that is shorter to read."""
    text = repr(value)
    return text if len(text) <= 60 else type(value).__name__


def _shares(progress, first):
    """Two functions that tell `progress` of one stage, of which the first work is `first` per cent."""
    if progress is None:
        return None, None

    def share(before, percent):
        return lambda stage, done, total: progress("training", 100 * before + 100 * percent * done // max(total, 1), 10000)

    return share(0, first), share(first, 100 - first)


def _array(name, values):
    """`values` as an array."""
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{name}: expected one value per row, got rows of different lengths") from None


class Decoder(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A decoder of movement (or anything else) from spike counts or other features.

    Spike trains pass through a bank of filters, h(t) = t^order e^(-t/tau), and the optimal linear decoder, or one of
    the nonlinear kinds, reads the filtered trains. `model_` is a model of the library: `model_.save` writes the file that
    the command line and the C library run, and `session()` runs it here.

    Parameters
    ----------
    kind : {"linear", "lift", "experts", "kalman", "refit", "place", "recurrent", "auto", "best"}
        The kind of decoder; "auto" blends linear, lift, experts and recurrent by how they decode what they were not trained on.
        "best" takes the one of these that decodes held-out data best. Networks take minutes of processor time.
    step_seconds : float or None
        Seconds from one row of X to the next. None: rows stand for themselves, as scikit-learn has it, and no filter
        runs over them; recordings keep their own bins, and spike times are put in steps of 5 ms. With kind="place",
        steps of recordings are at least 0.1 s, and as long as the interval between samples of behaviour.
    bank : "auto", a name from `betz.presets()`, or a list of (tau_seconds, order), `betz.Filter`, (samples, first step) and
        texts such as "boxcar:50ms"
        The filters; "auto" cross-validates the presets. Rows without time have none.
    ridge : "auto" or float
        The ridge λ on the centred Γ; "auto" cross-validates it in `fit`. In `partial_fit`, which sees its data in
        parts, "auto" stands for `noise=0.1`.
    noise : float or None
        Instead of a ridge: neural noise as a part of the largest response; λ = σ²T.
    solver : {"cholesky", "inverse"}
        Method that solves the linear system; "inverse" is the explicit inverse of Galbraith 2010: slower and less
        accurate, for comparison.
    delay_seconds : float
        Row t of the estimates estimates the behaviour this much earlier.
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
    mixed : int or None
        Number of networks of a recurrent decoder that are trained on mixtures of trials; it follows them in
        directions that training left out. None: one for trials, none for continuous recordings.
    epochs : int or None
        Passes over the recording that train a recurrent decoder. None: 140 over trials, 150 over continuous
        recordings; 400 over 64 trials or fewer, with more left out of each pass.
    weights : "f32", "bf16", "int8" or None
        Numbers that the matrices of a recurrent decoder are rounded to, before it is scored. None: bf16 in layers of
        128 units or more, f32 in others.
    keep_artefacts : bool
        Rows without time (`step_seconds` is None) have no artefacts, whatever is set here. True: steps with far more spikes than usual are trained on like others, and sessions do not blank them. False:
        they are left out of training, and blanked in sessions.
    retain_bytes : int or None
        Largest size in bytes of the sufficient statistics that the model stores, for `Session.unlike`, `betz.recalibrate`
        and `betz adapt`. Models that would need more are refused. None: the model stores none.
    device : str
        "cpu", "auto", "cuda", "cuda:1", "cuda:all".
    seed : int
        Seed of random projections, clusters and networks.
    progress : callable or None
        Called as progress(stage, done, total), at most twenty times per second. Ctrl-C stops training either way.

    Attributes
    ----------
    model_ : betz.Model
        The trained model.
    training_ : dict
        Device and path of the training, and the comparison of kinds.
    sums_ : betz.Sums
        The sufficient statistics of a linear decoder, to which `partial_fit` and `merge` add.
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

    # With scikit-learn's metadata routing, trials and weights reach the decoder of every fold.
    __metadata_request__fit = {"trials": True, "sample_weight": True}
    __metadata_request__partial_fit = {"trials": True}
    __metadata_request__predict = {"trials": True}
    __metadata_request__score = {"trials": True, "sample_weight": True}

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
        mixed=None,
        epochs=None,
        weights=None,
        keep_artefacts=False,
        retain_bytes=None,
        device="cpu",
        seed=0,
        progress=None,
        solver="cholesky",
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
        self.mixed = mixed
        self.epochs = epochs
        self.weights = weights
        self.keep_artefacts = keep_artefacts
        self.retain_bytes = retain_bytes
        self.device = device
        self.seed = seed
        self.progress = progress
        self.solver = solver

    def fit(self, X, y=None, trials=None, sample_weight=None, outputs=None, units=None):
        """Trains on X, (time, channels) with y, (time,) or (time, outputs); or on a `Recording` or `Dataset`, whose
        behaviour is y.

        trials : one label per row, or None; filters start from rest wherever it changes, and cross-validation keeps
        trials whole. Rows whose label is NaN or None lie outside trials and are left out. None: an index level or a
        coordinate named "trial" of X, if X has one. (A recording has its own.)

        sample_weight : one weight per row, or None: weighted least squares, for kind="linear". Weight 0 leaves the
        row's behaviour out, and keeps its spikes in the filters. Weights also count where cross-validation chooses bank
        and ridge; the model has no cross-validated scores then.

        outputs, units : a name and a unit per column of y. None: the columns of a DataFrame, the coordinates of a
        DataArray.
        """
        for name in ("model_", "sums_", "training_", "_without_sums"):
            if hasattr(self, name):
                delattr(self, name)
        data = self._dataset(X, y, trials, first=True, rows=2, outputs=outputs, units=units)
        options = self._options(data, self._wanted_bank(X), X)
        weights = self._weights(sample_weight, X, data)
        sums = isinstance(self.kind, str) and self.kind == "linear" and weights is None
        training, summing = _shares(self.progress, 90 if sums else 100)
        self.model_, self.training_ = train(data, options, training, weights)
        for message in self.training_.get("warnings", ()):
            # Trials of arrays have been looked at already.
            if isinstance(X, (Recording, Dataset)) or not message.startswith("expected trials"):
                warn(message)
        if sums:
            try:
                self.sums_ = Sums.over(data, options | {"bank": self.model_.bank}, summing)
            except BetzError as error:
                # Exact sums have a smallest unit; a model has none.
                if "in a smaller unit" not in str(error):
                    raise
                self._without_sums = str(error)
        self._scale = (self.model_.ridge, self.model_.training_steps)
        return self

    def partial_fit(self, X, y=None, trials=None, outputs=None, units=None):
        """Adds X and y to what a linear decoder was trained on, as recordings of their own: filters start from rest.

        Sums are added exactly, so the order of the parts makes no difference to a bit. The same part a second time
        adds nothing, and warns, unless it has fewer than 32 rows: such parts are added however often they come.
        Columns of y that have names are put in the order of the first part's; other names and units are refused.
        Parameters as for `fit`.
        """
        self._refuse_other_kinds("partial_fit")
        begun = hasattr(self, "sums_")
        if hasattr(self, "_without_sums"):
            raise ValueError(f"partial_fit: expected a decoder whose sums can be added, got one without: {self._without_sums}")
        if hasattr(self, "model_") and not begun:
            raise ValueError(
                "partial_fit: expected a decoder without sample_weight, whose sums can be added, got one that was fitted with"
                " weights; fit again without them"
            )
        data = self._dataset(X, y, trials, first=not begun, rows=1, outputs=outputs, units=units, strict=True)
        bank = self.model_.bank if begun else self._wanted_bank(X)
        part = Sums.over(data, self._options(data, bank, X), self.progress)
        if begun and self.sums_.shares(part):
            warn("partial_fit: the decoder was trained on these very rows already: nothing is added")
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
        """Estimates, float64, of the shape of y: one row for each of X (NaN in rows outside trials, and in a recording's
        steps outside them). Of a DataArray a DataArray.

        trials : as in `fit`. A decoder that was fitted with trials needs them here, too, unless X is one trial.
        """
        check_is_fitted(self, "model_")
        data = self._dataset(X, None, trials, first=False, rows=1)
        estimates = self.model_.decode(data, device=self.device).astype(np.float64)
        if not isinstance(X, (Recording, Dataset)):
            estimates = estimates[:, 0] if self._flat else estimates
        return _labels.like(X, estimates, self.model_.output_names)

    def score(self, X, y=None, trials=None, sample_weight=None):
        """Mean R² over the outputs that change, each estimate against the behaviour `delay_seconds` before it. Warns if
        the decoder was trained on X, or on rows of X whose weight is above 0.

        trials, sample_weight : as in `fit`; the weight of a row is that of its behaviour.
        """
        check_is_fitted(self, "model_")
        data = self._dataset(X, y, trials, first=False, rows=1, labels=True)
        weights = self._weights(sample_weight, X, data)
        if weights is None:
            return self.model_.score(data)[1]
        warn_of_overlap(self.model_, data, weights)
        return _weighted_r2(self.model_, data, weights)

    def session(self, **config):
        """A `Session` of the model, from rest; `config` as there."""
        check_is_fitted(self, "model_")
        return Session(self.model_, **config)

    def to_onnx(self, path):
        """Writes one step of the model as ONNX (opset 17) to the file `path`: whole, or not at all.

        Inputs are `counts`, a row of X as float32 (1, channels), and the states, float64; outputs are `estimates`,
        float32 (1, outputs), a row of `predict`, and the states for the next step. States are 0 at rest: at the first
        row, and wherever a trial starts. For kinds "linear", "lift", "experts", "kalman", "refit", "recurrent" and "auto"; others raise `BetzError`.

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

        In onnxruntime, row by row::

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
        if not isinstance(self.kind, str) or self.kind != "linear":
            raise ValueError(f"{what}: expected kind='linear', whose sums can be added, got {_described(self.kind)}")

    def _solve(self, sums):
        """The decoder of `sums`; a ridge that was cross-validated grows with the steps, as noise's does."""
        if self.ridge != "auto":
            self.model_ = sums.solve(ridge=self.ridge, solver=self.solver)
        elif self.noise is None and hasattr(self, "_scale"):
            ridge, steps = self._scale
            self.model_ = sums.solve(ridge=ridge / steps * sums.steps, solver=self.solver)
        else:
            self.model_ = sums.solve(noise=_CUSTOMARY_NOISE if self.noise is None else self.noise, solver=self.solver)
        self.sums_ = sums
        return self

    def _wanted_bank(self, X):
        if _has_no_time(self, X):
            return [(1.0 / _STEPS_OF_NO_TIME, 0)]
        return self.bank

    def _options(self, data, bank, X):
        if not isinstance(self.delay_seconds, numbers.Real):
            raise TypeError(f"delay_seconds: expected a number of seconds, got {_described(self.delay_seconds)}")
        delay = self.delay_seconds / data.step_seconds
        if not np.isfinite(delay):
            raise ValueError(f"delay_seconds: expected a finite time, got {self.delay_seconds}")
        if isinstance(self.ridge, (list, tuple)) or getattr(self.ridge, "ndim", 0):
            raise TypeError(f"ridge: expected \"auto\" or a number of at least 0, got {_described(self.ridge)}")
        if self.progress is not None and not callable(self.progress):
            raise TypeError(f"progress: expected a function of (stage, done, total), or None, got {_described(self.progress)}")
        return {
            "bank": bank,
            "ridge": None if self.ridge == "auto" else self.ridge,
            "noise": self.noise,
            "solver": self.solver,
            "delay_steps": round(delay),
            "low_pass": self.low_pass,
            "folds": self.folds,
            "kind": self.kind,
            "latents": self.latents,
            "units": self.units,
            "experts": self.experts,
            "layers": self.layers,
            "members": self.members,
            "mixed": self.mixed,
            "epochs": self.epochs,
            "weights": self.weights,
            # Rows that no time connects are no steps of a recording, and hold no artefacts.
            "keep_artefacts": self.keep_artefacts or _has_no_time(self, X),
            "retain_bytes": self.retain_bytes,
            "seed": self.seed,
            "device": self.device,
        }

    def _weights(self, sample_weight, X, data):
        """One weight per step, or None."""
        if sample_weight is None:
            return None
        if isinstance(X, (Recording, Dataset)):
            raise ValueError(
                "sample_weight: expected X and y as arrays, whose rows can have weights, got a recording; leave trials out by"
                " recording[numbers], or times by recording.mask(intervals)"
            )
        weights = _array("sample_weight", sample_weight)
        if weights.dtype.kind not in "biuf":
            raise TypeError(f"sample_weight: expected numbers of at least 0, got an array of dtype {weights.dtype}")
        if weights.ndim == 0:
            weights = np.full(data.steps, weights)
        if weights.shape != (data.steps,):
            # scikit-learn's checks look for these words.
            raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(data.steps,)}: one weight per row of X")
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            bad = int(np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[0])
            raise ValueError(f"sample_weight: [{bad}] = {weights[bad]}: expected a finite number of at least 0")
        return weights.astype(np.float64)

    def _dataset(self, X, y, trials, *, first, rows, labels=False, outputs=None, units=None, strict=False):
        """X and y on a clock, checked as scikit-learn checks them. `strict`: y has the outputs of `fit`."""
        if isinstance(X, (Recording, Dataset)):
            if outputs is not None or units is not None:
                raise ValueError("a recording has names and units of its own: expected neither outputs nor units beside it")
            return self._of_recording(X, y, trials, first)
        for name, array in (("X", X), ("y", y)):
            _labels.refuse_other_than_numbers(name, array)
        X, y = _labels.oriented("X", X), _labels.oriented("y", y)
        trials = _labels.trials_of(X, y) if trials is None else trials
        outputs, units = _labels.outputs(y, outputs, units)
        order = None
        if not first:
            known = self.model_.output_names, self.model_.output_units
            order = None if y is None else _labels.order((outputs, units), known, strict)
            outputs, units = known
        X, y = _labels.plain(X), _labels.plain(y)
        checks = dict(reset=first, dtype=[np.float64, np.float32], ensure_min_samples=rows)
        if first or y is not None or labels:
            X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, **checks)
            if first:
                self._flat = y.ndim == 1
            y = y.reshape(len(y), -1)
            y = y if order is None else y[:, order]
        else:
            X = validate_data(self, X, **checks)
        names = getattr(self, "feature_names_in_", None)
        if first:
            warn_of_digits(X, names)
        segments = self._segments(trials, len(X), first)
        data = Dataset.of_rows(
            X,
            y,
            1.0 if self.step_seconds is None else self.step_seconds,
            segments,
            None if names is None else [str(name) for name in names],
            None if y is None else outputs,
            None if y is None else units,
            # A signal may happen to be whole numbers.
            not first and self.model_.takes_signal,
        )
        if not first and data.is_signal and not self.model_.takes_signal:
            row, column = np.argwhere((X < 0) | (X != np.floor(X)) | (X > 65535))[0]
            raise ValueError(
                f"X: expected counts, whole numbers from 0 to 65535 as in fit, got {X[row, column]} at [{row}, {column}]; scale X"
                " in the same way as for fit"
            )
        return data

    def _segments(self, trials, rows, first):
        """Runs of one label, (n, 2) half-open, with a warning for labels that do not mean trials."""
        timed = self.step_seconds is not None
        if trials is None:
            longest = getattr(self, "_longest_trial", None)
            if first:
                self._longest_trial = None
            elif timed and longest is not None and rows > longest:
                warn(
                    f"trials: the decoder was fitted with trials of at most {longest} rows, and gets {rows} rows without trials:"
                    " filters run on from one trial into the next, and estimates and scores are worse. Pass trials= here, too;"
                    " functions of scikit-learn that call this one, such as cross_val_score, need X with its trials:"
                    ' pandas.DataFrame(X, index=pandas.Index(trials, name="trial"))'
                )
            return None
        trials = _array("trials", trials)
        if trials.shape != (rows,):
            raise ValueError(f"trials: expected one label per row, ({rows},), got {trials.shape}")
        found, numbers = _labels.runs(trials)
        _labels.warn_of_missing(trials, found)
        lengths, labels = found[:, 1] - found[:, 0], len(set(numbers.tolist()))
        if len(found) > labels and timed:
            short = int((lengths == 1).sum())
            warn(
                f"trials: {labels} labels recur in {len(found)} runs of rows, {short} of them of one row: filters start from rest at each"
                " run. Keep the rows of a trial together and in the order of time (no shuffling), and give every trial a label"
                " of its own"
            )
        if first:
            self._longest_trial = int(lengths.max())
        return found.tolist()

    def _of_recording(self, data, y, trials, first):
        if y is not None or trials is not None:
            raise ValueError("a recording has behaviour and trials of its own: expected neither y nor trials beside it")
        if not first:
            refuse_rows_of_trials()
        if isinstance(data, Recording):
            step_seconds = self.step_seconds if first else self.model_.step_seconds
            data = data.align(data.default_step_seconds(self.kind) if step_seconds is None else step_seconds)
        if first:
            self._flat = False
            self.n_features_in_ = len(data.channel_names)
        return data


def _has_no_time(decoder, X):
    """True if rows of X stand for themselves, as scikit-learn has it."""
    return decoder.step_seconds is None and not isinstance(X, (Recording, Dataset))


def warn_of_digits(X, names):
    """Warns of columns of float64 that vary by too little beside their distance from 0 for float32 to tell."""
    if X.dtype != np.float64:
        return
    high, low = X.max(axis=0), X.min(axis=0)
    lost = np.flatnonzero((high > low) & (high - low < 2.0**-16 * np.maximum(np.abs(high), np.abs(low))))
    if len(lost):
        column = lost[0]
        name = column if names is None else repr(str(names[column]))
        warn(
            f"X: {len(lost)} of {X.shape[1]} columns vary by too little beside their distance from 0 for float32, in which"
            f" channels are read; column {name} lies between {low[column]:.9g} and {high[column]:.9g}. Subtract each column's mean"
            " first, for example by sklearn.preprocessing.StandardScaler"
        )


def refuse_rows_of_trials():
    """Raises an error inside of `cross_val_predict`, which would take the first rows of estimates for those of trials."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_fit_and_predict" and frame.f_globals["__name__"].startswith("sklearn."):
            raise TypeError(
                "cross_val_predict: expected X as an array, with one estimate per row, got a recording, whose trials have many;"
                " decode each fold by itself: decoder.fit(recording[train]).predict(recording[test])"
            )
        frame = frame.f_back


def warn_of_overlap(model, data, weights=None):
    """Warns if `model` was trained on steps of `data` whose weight is above 0."""
    message = model.overlap_warning(data, weights)
    if message is not None:
        warn(message)


def _weighted_r2(model, data, weights):
    """Mean of weighted R² over outputs that change; step t estimates the behaviour at t - delay."""
    estimates, behavior, delay = model.decode(data), data.behavior.astype(np.float64), model.delay_steps
    pairs = []
    for start, stop in data.segments:
        rows = np.arange(max(start, start + delay), min(stop, stop + delay))
        pairs.append(np.column_stack([rows, rows - delay]))
    rows, of = np.vstack(pairs).T
    w, truth, estimate = weights[of][:, None], behavior[of], estimates[rows]
    if not w.sum() > 0:
        raise ValueError("sample_weight: expected a weight above 0 for a row that is scored, got zero weights only")
    left = (w * (truth - estimate) ** 2).sum(axis=0)
    total = (w * (truth - (w * truth).sum(axis=0) / w.sum()) ** 2).sum(axis=0)
    changing = total > 0
    return float(np.mean(1 - left[changing] / total[changing])) if changing.any() else float("nan")
