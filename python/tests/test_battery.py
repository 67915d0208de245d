"""Odd and hostile values for every argument: each is refused by name with what was expected, or gives a right result.

A run takes every fifth use; `BETZ_EXHAUSTIVE=1` takes all. The command line's uses are in cli/tests/battery.
"""

import datetime
import os
import warnings

import numpy as np
import pytest

import betz

EVERY = 1 if os.environ.get("BETZ_EXHAUSTIVE") else 5
rng = np.random.default_rng(0)
X = rng.poisson(1.0, (200, 4))
y = X[:, :2] * 1.0
R = betz.Recording
WHOLE = R.from_counts(X, 0.02, behavior=y)
REFUSALS = (TypeError, ValueError, IndexError, OSError, betz.BetzError)

VALUES = {
    "half": 3.5,
    "minus": -1,
    "nan": np.nan,
    "inf": np.inf,
    "huge": 1e300,
    "big int": 2**70,
    "text": "x",
    "no text": "",
    "bytes": b"x",
    "None": None,
    "object": object(),
    "dict": {},
    "set": set(),
    "function": abs,
    "list": [],
    "nested": [[]],
    "ragged": [1, [2, 3]],
    "pair": (1, 2),
    "backwards": (3, 1),
    "range": range(4),
    "duration": datetime.timedelta(seconds=1),
    "day": np.datetime64("2026-01-01"),
    "days": np.arange(200).astype("datetime64[s]"),
    "complex": 1j,
    "true": True,
    "scalar array": np.array(0.5),
    "no rows": np.zeros((0, 4)),
    "no columns": np.zeros((4, 0)),
    "cube": np.zeros((2, 2, 2)),
    "all nan": np.full((200, 4), np.nan),
    "all inf": np.full((200, 4), np.inf),
    "all huge": np.full((200, 4), 1e300),
    "texts": X.astype(str),
    "objects": X.astype(object),
    "masked": np.ma.masked_array(X, X > 1),
    "column less": X[:, :3],
    "rows less": X[:100],
    "negative": -X,
    "fractions": X * 0.5,
    "byte texts": np.array([b"a"] * 4),
    "transposed": X.T,
}


def fitted_on(counts, behavior, **keywords):
    return betz.Decoder(step_seconds=0.02, bank="single", folds=0).fit(counts, behavior, **keywords)


def fitted(**options):
    return betz.Decoder(**(dict(step_seconds=0.02, bank="single", folds=0) | options)).fit(X, y)


@pytest.fixture(scope="module")
def decoder():
    return fitted()


def same_counts(got, value):
    ticks, channels = np.nonzero(value)
    weights = np.ones(len(ticks)) if got.spike_weights is None else got.spike_weights
    made = np.zeros(np.shape(value))
    made[got.spike_ticks, got.spike_channels] = weights
    return (made == np.asarray(value, float)).all()


def tick(got, value):
    return got.tick_seconds == float(value)


def anything(got, value):
    return got is not None


def predicts(got, value):
    return np.isfinite(got.predict(X)).all()


def whole_predictions(got, value):
    return got.shape == (len(value), 2) and np.isfinite(got).all()


# For each argument: what takes it, its name in a refusal, the values that are right, and what is then so.
USES = {
    "counts": (lambda v, d: R.from_counts(v, 0.02), {"column less", "rows less", "transposed"}, same_counts),
    "step_seconds": (lambda v, d: R.from_counts(X, v), {"half", "huge", "big int", "true", "scalar array"}, tick),
    "behavior": (
        lambda v, d: R.from_counts(X, 0.02, behavior=v),
        {"None", "column less", "negative", "fractions"},
        lambda got, v: v is None or (got.behavior == v).all(),
    ),
    "behavior_times": (lambda v, d: R.from_counts(X, 0.02, behavior=y, behavior_times=v), {"None"}, anything),
    "channel_names": (lambda v, d: R.from_counts(X, 0.02, channel_names=v), {"None"}, anything),
    "segments": (lambda v, d: R.from_counts(X, 0.02, segments=v), {"None"}, anything),
    "electrode_um": (lambda v, d: R.from_counts(X, 0.02, electrode_um=v), {"None"}, anything),
    "meta": (
        lambda v, d: R.from_counts(X, 0.02, meta=v),
        {"None", "text", "no text"},
        lambda got, v: (got.meta or None) == (v or None),
    ),
    "signal": (
        lambda v, d: R.from_signal(v, 0.02),
        {"column less", "rows less", "negative", "fractions", "transposed"},
        same_counts,
    ),
    "spike_ticks": (
        lambda v, d: R.from_spikes(v, [0] * 4, 0.001),
        {"range"},
        lambda got, v: list(got.spike_ticks) == list(v),
    ),
    "spike_channels": (
        lambda v, d: R.from_spikes([1, 2, 3, 4], v, 0.001),
        {"range"},
        lambda got, v: list(got.spike_channels) == list(v),
    ),
    "tick_seconds": (lambda v, d: R.from_spikes([1], [0], v), {"half", "huge", "big int", "true", "scalar array"}, tick),
    "duration_ticks": (lambda v, d: R.from_spikes([1], [0], 0.001, duration_ticks=v), {"None"}, anything),
    "step_seconds of align": (lambda v, d: WHOLE.align(v), {"half", "None", "true", "scalar array"}, anything),
    "mask": (lambda v, d: WHOLE.mask(v), {"list", "nested", "no rows", "no columns"}, anything),
    "restrict": (lambda v, d: WHOLE.restrict(v), set(), anything),
    "segments of select": (lambda v, d: WHOLE.align().select(v), {"list"}, anything),
    "path": (lambda v, d: R.from_npz(v), set(), anything),
    "path of load": (lambda v, d: betz.Model.load(v), set(), anything),
    "X of fit": (
        lambda v, d: fitted_on(v, y),
        {"objects", "column less", "negative", "fractions"},
        lambda got, v: np.isfinite(got.predict(v)).all(),
    ),
    "y of fit": (lambda v, d: fitted_on(X, v), {"objects", "column less", "negative", "fractions"}, predicts),
    "X of predict": (lambda v, d: d.predict(v), {"objects", "rows less"}, whole_predictions),
    "sample_weight": (
        lambda v, d: fitted_on(X, y, sample_weight=v),
        {"half", "huge", "None", "true", "scalar array"},
        lambda got, v: np.allclose(got.predict(X), fitted().predict(X), atol=1e-3),
    ),
    "data": (lambda v, d: d.model_.decode(v), set(), anything),
    "counts of step": (lambda v, d: d.session().step(v), {"range"}, lambda got, v: np.isfinite(got).all()),
    "channels": (
        lambda v, d: d.session().step_spikes(v),
        {"list", "pair", "range", "backwards"},
        lambda got, v: np.isfinite(got).all(),
    ),
    "ticks": (lambda v, d: d.session().skip(v), {"true"}, lambda got, v: got is None),
    "ridge": (lambda v, d: fitted(ridge=v), {"half", "huge", "big int", "None", "true", "scalar array"}, predicts),
    "bank": (lambda v, d: fitted(bank=v), set(), anything),
    "kind": (lambda v, d: fitted(kind=v), set(), anything),
    "delay_seconds": (lambda v, d: fitted(delay_seconds=v), {"half", "minus", "true"}, predicts),
    "folds": (lambda v, d: fitted(folds=v), set(), predicts),
    "step_seconds of fit": (
        lambda v, d: fitted(step_seconds=v),
        {"half", "huge", "big int", "None", "true", "scalar array"},
        predicts,
    ),
    "low_pass": (lambda v, d: fitted(low_pass=v), {"None", "pair", "backwards"}, predicts),
    "trials": (lambda v, d: fitted_on(X, y, trials=v), {"None"}, predicts),
    "outputs": (lambda v, d: fitted_on(X, y, outputs=v), {"None"}, predicts),
    "units of fit": (
        lambda v, d: fitted_on(X, y, units=v),
        {"None", "text", "no text"},
        lambda got, v: v is None or got.model_.output_units == [v] * 2,
    ),
    "units": (lambda v, d: fitted(kind="linear", units=v), {"None", "true"}, predicts),
    "window": (lambda v, d: betz.network(X, window=v, step=100, top=2), set(), anything),
    "top": (lambda v, d: betz.network(X, window=100, step=100, top=v), {"true"}, anything),
    "density": (lambda v, d: betz.network(X, window=100, step=100, density=v), {"scalar array", "true"}, anything),
    "signal of network": (
        lambda v, d: betz.network(v, window=100, step=100, top=2),
        {"all nan", "all inf", "all huge", "column less", "rows less", "negative", "fractions"},
        lambda got, v: np.isfinite(got.r).all() and (np.isfinite(v).all() or len(got.r) == 0),
    ),
    "delays": (lambda v, d: betz.mine(WHOLE, delays=v, threshold=1000), set(), anything),
    "threshold": (lambda v, d: betz.mine(WHOLE, delays=[(0, 0.05)], threshold=v, max_size=2), {"true"}, anything),
    "clamp": (lambda v, d: betz.Session(d.model_, clamp=v), {"None"}, anything),
    "slew": (lambda v, d: betz.Session(d.model_, slew=v), {"None", "pair", "backwards"}, anything),
}
# scikit-learn checks these before Betz does, and its words are its own.
BY_SCIKIT_LEARN = {"X of fit", "y of fit", "X of predict"}


def fault(argument, named, decoder):
    """The fault of one use; None if it does what it should."""
    take, right, check = USES[argument]
    value = VALUES[named]
    try:
        got = take(value, decoder)
    except REFUSALS as refusal:
        said = str(refusal)
        if named in right:
            return f"refused: {said}"
        if "is not an instance of" in said or "Options." in said or "cannot be interpreted" in said or len(said) > 1000:
            return f"refused in words of the machine: {said}"
        if argument in BY_SCIKIT_LEARN:
            return None
        missing = isinstance(refusal, FileNotFoundError) and "reading" in said
        return None if "expected" in said or missing else f"refused without what was expected: {said}"
    except BaseException as other:
        return f"{type(other).__name__}: {other}"
    if named not in right:
        return f"taken, and gave {got!r}"
    return None if check(got, value) else f"wrong result {got!r}"


@pytest.mark.parametrize("argument", USES)
@pytest.mark.filterwarnings("ignore")
def test_every_value_is_refused_or_right(decoder, argument):
    assert set(USES[argument][1]) <= set(VALUES)
    # Another fifth for each argument.
    first = list(USES).index(argument) % EVERY
    faults = {named: fault(argument, named, decoder) for named in list(VALUES)[first::EVERY]}
    wrong = [f"{argument}, {named}: {said}" for named, said in faults.items() if said]
    assert not wrong, "\n".join(wrong)


def test_there_are_enough_uses():
    assert len(USES) * len(VALUES) > 1500
