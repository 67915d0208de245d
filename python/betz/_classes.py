"""scikit-learn's classifier over the library's classes."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _labels
from ._core import Dataset, Recording, Sums, class_events, labels, train_classes, warn
from ._decoder import Decoder, refuse_rows_of_trials, warn_of_digits, warn_of_overlap

# Least number of labelled steps of a class where steps follow each other in time.
_LEAST_LABELLED = 30


class ClassDecoder(ClassifierMixin, BaseEstimator):
    """A decoder of classes (move or rest, which target, which key) from spike counts or other features.

    The linear engine computes latents that predict the labels; a softmax of the latents and of cosines of them gives the
    probability of each class, calibrated on held-out folds. `model_` is a model of the library: `model_.save` writes the
    file that the command line and the C library run, and `session()` runs it here.

    Parameters
    ----------
    kind : {"softmax", "lda"}
        "lda" is linear discriminant analysis of the filtered counts. It needs sums only, which `partial_fit` and `merge` add
        exactly, and `calibrate` makes the model of them. `fit` sums all but the last of `folds` parts of the labelled rows,
        and calibrates on the last one. It has no ridge, latents or units.
    step_seconds : float or None
        Seconds from one row of X to the next. None: rows stand for themselves, as scikit-learn has it, and no filter
        runs over them; recordings keep their own bins, and spike times are put in steps of 5 ms.
    bank : "auto", a name from `betz.presets()`, or a list of (tau_seconds, order), `betz.Filter`, (samples, first step) and
        texts such as "boxcar:50ms"
        The filters; "auto" cross-validates the presets. Rows without time have none.
    ridge : "auto" or float
        The ridge λ of the latents; "auto" cross-validates it.
    delay_seconds : float
        Row t of the estimates estimates the class this much earlier.
    folds : int
        Folds of cross-validation, at least 2. They also calibrate the probabilities and choose the rules of events.
    latents, units : int or None
        Number of latents and of cosines; None: 12 and 128.
    priors : dict or None
        Share of each class in use, if it differs from that in training; the shares add up to 1.
    false_alarms : float
        Largest number of false alarms per minute that the events of a class may make.
    unlabelled : object
        The value of y of rows without a label. Their spikes enter the filters, and they enter nothing else. `predict`
        gives it to rows outside trials. None: every row has a label.
    keep_artefacts : bool
        As for `Decoder`.
    device : str
        "cpu", "auto", "cuda", "cuda:1", "cuda:all".
    seed : int
        Seed of the random projections.
    progress : callable or None
        Called as progress(stage, done, total), at most twenty times per second. Ctrl-C stops training either way.

    Attributes
    ----------
    classes_ : ndarray
        The classes, in the order of the columns of `predict_proba`; text for labels of a recording.
    model_ : betz.Model
        The trained model.
    sums_ : betz.Sums
        The sums of kind="lda", to which `partial_fit` and `merge` add.
    training_ : dict
        Scores on held-out folds: accuracy, balanced accuracy, AUC, confusion, negative log-likelihood, calibration error
        before and after calibration, and events of each class.
    n_features_in_, feature_names_in_
        As scikit-learn has them.

    Examples
    --------
    >>> import numpy as np
    >>> from betz import ClassDecoder
    >>> rng = np.random.default_rng(1)
    >>> moves = np.repeat(rng.integers(0, 2, 100), 25).astype(bool)               # half a second each
    >>> rates = np.where(moves[:, None] == (np.arange(30) < 15), 0.5, 0.2)
    >>> X = rng.poisson(rates).astype(np.uint8)                                   # counts in bins of 20 ms
    >>> y = np.where(moves, "move", "rest")
    >>> decoder = ClassDecoder(step_seconds=0.02, bank=[(0.1, 0)]).fit(X[:2000], y[:2000])
    >>> decoder.classes_.tolist(), decoder.predict_proba(X[2000:]).shape
    (['move', 'rest'], (500, 2))
    >>> decoder.score(X[2000:], y[2000:]) > 0.8
    True
    >>> events = decoder.events(X[2000:])
    >>> events.dtype.names
    ('step', 'class', 'on', 'probability')
    """

    # With scikit-learn's metadata routing, trials reach the decoder of every fold.
    __metadata_request__fit = {"trials": True}
    __metadata_request__partial_fit = {"trials": True}
    __metadata_request__predict = {"trials": True}
    __metadata_request__predict_proba = {"trials": True}
    __metadata_request__score = {"trials": True, "sample_weight": True}

    def __init__(
        self,
        kind="softmax",
        *,
        step_seconds=None,
        bank="auto",
        ridge="auto",
        delay_seconds=0.0,
        folds=5,
        latents=None,
        units=None,
        priors=None,
        false_alarms=1.0,
        unlabelled=None,
        keep_artefacts=False,
        device="cpu",
        seed=0,
        progress=None,
    ):
        self.kind = kind
        self.step_seconds = step_seconds
        self.bank = bank
        self.ridge = ridge
        self.delay_seconds = delay_seconds
        self.folds = folds
        self.latents = latents
        self.units = units
        self.priors = priors
        self.false_alarms = false_alarms
        self.unlabelled = unlabelled
        self.keep_artefacts = keep_artefacts
        self.device = device
        self.seed = seed
        self.progress = progress

    # Trials mean the same for both estimators.
    _segments = Decoder._segments
    _wanted_bank = Decoder._wanted_bank
    session = Decoder.session

    def fit(self, X, y, trials=None):
        """Trains on X, (time, channels), with y, one label per row; or on a `Recording` or `Dataset`.

        y of a recording is a column of its behaviour with whole numbers (−1: no label), a condition such as
        "move=speed>60", or a list of (start, stop, name) in seconds.

        trials : one label per row, or None, as for `Decoder.fit`; a recording has its own.

        With `step_seconds`, and for recordings, a class needs at least 30 labelled steps.
        """
        self._forget("model_", "training_", "classes_", "sums_")
        data, y = self._dataset(X, y, trials, first=True, rows=2)
        names, codes = self._codes(data, y, first=True)
        self.model_, self.training_ = train_classes(
            data, self._options(data, self._wanted_bank(X), X), names, codes, self._choices(X, names), self.progress
        )
        self._warn()
        return self

    @available_if(lambda self: self._sums_are_added("partial_fit"))
    def partial_fit(self, X, y, trials=None, classes=None):
        """Adds X and y to the sums of kind="lda", as recordings of their own: filters start from rest. The model comes with
        `calibrate`.

        Sums are added exactly, so the order of the parts makes no difference to a bit. The same part a second time adds
        nothing, and warns, unless it has fewer than 32 rows: such parts are added however often they come.

        classes : every class, or None: those of y. Counts in the first call only; later parts may lack some, but have no others.
        trials : as in `fit`.
        """
        begun = hasattr(self, "sums_")
        if hasattr(self, "model_") and not begun:
            raise ValueError("partial_fit: expected a decoder whose parts were added one by one, got one that was fitted whole")
        data, y = self._dataset(X, y, trials, first=not begun, rows=1, labels=True)
        names, codes = self._codes(data, y, first=not begun, classes=classes, strict=True)
        part = Sums.over_labels(data, self._options(data, self._wanted_bank(X), X), names, codes, self.progress)
        if begun and self.sums_.shares(part):
            warn("partial_fit: these very rows are in the sums already: nothing is added")
            return self
        self.sums_ = self.sums_.merged(part) if begun else part
        self._forget("model_", "training_")
        return self

    def merge(self, other):
        """Adds the sums of another decoder of kind="lda", which were made elsewhere: of the same classes in the same order."""
        self._sums_are_added("merge")
        check_is_fitted(self, "sums_")
        check_is_fitted(other, "sums_")
        self.sums_ = self.sums_.merged(other.sums_)
        self._forget("model_", "training_")
        return self

    def calibrate(self, X, y, trials=None):
        """Makes the model of the sums of `partial_fit` and `merge`. X and y, which must be in none of the sums, calibrate the
        probabilities, and choose the shrinkage and the rules of events. A discriminant alone is too confident.

        Parameters as for `fit`.
        """
        self._sums_are_added("calibrate")
        check_is_fitted(self, "sums_")
        data, y = self._dataset(X, y, trials, first=False, rows=2, labels=True)
        names, codes = self._codes(data, y, first=False, strict=True)
        self.model_, self.training_ = self.sums_.solve_classes(data, names, codes, self._choices(X, names))
        self._warn()
        return self

    def predict_proba(self, X, trials=None):
        """The probability of each class, float64 (rows, classes), in the order of `classes_`. NaN in rows outside trials,
        and in a recording's steps outside them.

        trials : as in `fit`. A decoder that was fitted with trials needs them here, too, unless X is one trial.
        """
        check_is_fitted(self, "model_")
        data, _ = self._dataset(X, None, trials, first=False, rows=1)
        return _labels.like(X, self._probabilities(data), self.model_.output_names)

    def predict(self, X, trials=None):
        """The most probable class of each row of X. Rows outside trials, and a recording's steps outside them, have the
        value `unlabelled`; without one they are refused.
        """
        check_is_fitted(self, "model_")
        data, _ = self._dataset(X, None, trials, first=False, rows=1)
        probabilities = self._probabilities(data)
        outside = np.isnan(probabilities[:, 0])
        classes = self.classes_[np.argmax(np.where(outside[:, None], 0.0, probabilities), axis=1)]
        if outside.any():
            if self.unlabelled is None:
                raise ValueError(
                    f"predict: expected every row inside a trial, got {int(outside.sum())} of {len(outside)} outside; set"
                    " unlabelled= to the value that they get, or use predict_proba, which gives NaN there"
                )
            classes = np.where(outside, np.asarray(self.unlabelled), classes)
        return classes

    def events(self, X, trials=None):
        """Onsets and ends of the classes, in the order of time: an array with the fields "step" (row of X), "class", "on"
        (True for an onset, False for the end) and "probability" (0 if the trial's end ended it).

        The rule of each class keeps the rate of false alarms; a class for which no rule does makes no events.
        """
        check_is_fitted(self, "model_")
        if self.step_seconds is None and not isinstance(X, (Recording, Dataset)):
            raise ValueError("events: expected steps that follow each other in time; set step_seconds in the constructor")
        data, _ = self._dataset(X, None, trials, first=False, rows=1)
        steps, classes, on, probability = class_events(self.model_, data)
        kinds = [("step", np.int64), ("class", self.classes_.dtype), ("on", bool), ("probability", np.float32)]
        events = np.empty(len(steps), kinds)
        events["step"], events["class"], events["on"], events["probability"] = steps, self.classes_[classes], on, probability
        return events

    def score(self, X, y, trials=None, sample_weight=None):
        """Share of the labelled rows whose most probable class is theirs, each against the class `delay_seconds` earlier.

        y, trials : as in `fit`. sample_weight : one weight per row, or None. Warns if the decoder was trained on rows of X
        whose weight is above 0.
        """
        check_is_fitted(self, "model_")
        data, y = self._dataset(X, y, trials, first=False, rows=1, labels=True)
        _, codes = self._codes(data, y, first=False)
        decided = np.argmax(self._probabilities(data), axis=1)
        weights = np.ones(data.steps) if sample_weight is None else np.asarray(sample_weight, np.float64)
        if weights.shape != (data.steps,):
            raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(data.steps,)}: one weight per row of X")
        warn_of_overlap(self.model_, data, None if sample_weight is None else weights)
        delay, right, total = self.model_.delay_steps, 0.0, 0.0
        for start, stop in data.segments:
            rows = np.arange(max(start, start + delay), min(stop, stop + delay))
            rows = rows[codes[rows - delay] != -1]
            right += weights[rows - delay][decided[rows] == codes[rows - delay]].sum()
            total += weights[rows - delay].sum()
        if not total > 0:
            raise ValueError("y: expected a label for at least one row, got none")
        return float(right / total)

    def _probabilities(self, data):
        probabilities = self.model_.decode(data, device=self.device).astype(np.float64)
        return probabilities / probabilities.sum(axis=1, keepdims=True)

    def _codes(self, data, y, first, classes=None, strict=False):
        """Names of the classes, and the class of each step as a number; −1 for no label, or another class, which `strict`
        refuses.
        """
        if isinstance(y, tuple):
            names, codes = y
            if first:
                self.classes_ = np.array(names if classes is None else [str(label) for label in classes])
            places = {name: code for code, name in enumerate(self.classes_.tolist())}
            if strict:
                self._refuse_others([name for name in names if name not in places])
            return self.classes_.tolist(), np.array([places.get(name, -1) for name in names] + [-1])[codes]
        known = np.ones(len(y), bool) if self.unlabelled is None else y != self.unlabelled
        if first:
            self.classes_ = np.unique(y[known] if classes is None else np.asarray(classes))
        if strict:
            self._refuse_others(np.setdiff1d(y[known], self.classes_).tolist())
        order = {label: code for code, label in enumerate(self.classes_.tolist())}
        codes = [order.get(label, -2) if has else -1 for label, has in zip(y.tolist(), known.tolist())]
        return [str(label) for label in self.classes_], np.array(codes, np.int64)

    def _refuse_others(self, labels):
        if labels:
            raise ValueError(f"y: expected the classes {self.classes_.tolist()}, got {labels[0]!r} as well; name all in classes=")

    def _sums_are_added(self, what):
        if self._kind() != "lda":
            raise ValueError(f"{what}: expected kind='lda', whose sums can be added, got {self.kind!r}")
        return True

    def _kind(self):
        if not isinstance(self.kind, str) or self.kind not in ("softmax", "lda"):
            raise ValueError(f"kind: expected 'softmax' or 'lda', got {self.kind!r}")
        return self.kind

    def _warn(self):
        """Warns of what training found. Rows without time have no events to miss."""
        for message in self.training_["warnings"]:
            warn(message)

    def _forget(self, *names):
        for name in names:
            if hasattr(self, name):
                delattr(self, name)

    def _trained(self):
        """The model, or before it is calibrated the sums: both know the step and the form of the channels."""
        return self.model_ if hasattr(self, "model_") else self.sums_

    def _choices(self, X, names):
        timed = self.step_seconds is not None or isinstance(X, (Recording, Dataset))
        priors = self.priors
        if priors is not None:
            if not hasattr(priors, "keys") or set(priors) != set(self.classes_.tolist()):
                raise ValueError(f"priors: expected a share for each of the classes {self.classes_.tolist()}, got {priors!r}")
            priors = [float(priors[label]) for label in self.classes_.tolist()]
        return {
            "discriminant": self._kind() == "lda",
            "false_alarms": self.false_alarms,
            "priors": priors,
            "least_labelled": _LEAST_LABELLED if timed else 1,
            "markov": timed,
        }

    def _options(self, data, bank, X):
        decoder = Decoder(
            step_seconds=self.step_seconds,
            ridge=self.ridge,
            delay_seconds=self.delay_seconds,
            folds=self.folds,
            latents=self.latents,
            units=self.units,
            keep_artefacts=self.keep_artefacts,
            device=self.device,
            seed=self.seed,
            progress=self.progress,
        )
        return decoder._options(data, bank, X)

    def _dataset(self, X, y, trials, *, first, rows, labels=False):
        """X on a clock, and y: checked as scikit-learn checks them; y of a recording as names and numbers."""
        if isinstance(X, (Recording, Dataset)):
            return self._of_recording(X, y, trials, first, labels)
        _labels.refuse_other_than_numbers("X", X)
        X = _labels.oriented("X", X)
        trials = _labels.trials_of(X, y) if trials is None else trials
        X = _labels.plain(X)
        checks = dict(reset=first, dtype=[np.float64, np.float32], ensure_min_samples=rows)
        if first or labels:
            if isinstance(y, str):
                raise ValueError(f"y: expected one label per row of X, got {y!r}; a column or a condition is for recordings")
            X, y = validate_data(self, X, _labels.plain(y), **checks)
            check_classification_targets(y)
        else:
            X = validate_data(self, X, **checks)
        segments = self._segments(trials, len(X), first)
        names = getattr(self, "feature_names_in_", None)
        if first:
            warn_of_digits(X, names)
        if first and self.step_seconds is None:
            X, y, segments = self._dealt(X, y, segments)
        data = Dataset.of_rows(
            X,
            None,
            1.0 if self.step_seconds is None else self.step_seconds,
            segments,
            None if names is None else [str(name) for name in names],
            # A signal may happen to be whole numbers.
            signal=not first and self._trained().takes_signal,
        )
        if not first and data.is_signal and not self._trained().takes_signal:
            row, column = np.argwhere((X < 0) | (X != np.floor(X)) | (X > 65535))[0]
            raise ValueError(
                f"X: expected counts, whole numbers from 0 to 65535 as in fit, got {X[row, column]} at [{row}, {column}]; scale X"
                " in the same way as for fit"
            )
        return data, y

    def _dealt(self, X, y, segments):
        """Rows that no time connects, dealt to the folds so that each has its share of every class."""
        if segments is not None:
            inside = np.concatenate([np.arange(start, stop) for start, stop in segments])
            X, y = X[inside], y[inside]
        _, codes = np.unique(y, return_inverse=True)
        by_class = np.argsort(codes, kind="stable")
        fold = np.empty(len(y), np.int64)
        fold[by_class] = np.arange(len(y)) % max(int(self.folds), 1)
        order = np.argsort(fold, kind="stable")
        return X[order], y[order], None

    def _of_recording(self, data, y, trials, first, wants_labels):
        if trials is not None:
            raise ValueError("a recording has trials of its own: expected no trials beside it")
        if not first:
            refuse_rows_of_trials()
        if isinstance(data, Recording):
            data = data.align(self.step_seconds if first else self._trained().step_seconds)
        if first:
            self.n_features_in_ = len(data.channel_names)
        return data, labels(data, y) if first or wants_labels else None
