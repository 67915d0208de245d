"""Numbers that do not depend on where zero is, nor on units and types: against scikit-learn's Ridge."""

import os
import pickle
import time
import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import betz
from betz import ClassDecoder, Decoder

ROWS, CHANNELS = 3000, 12


def features(seed=0):
    """Normal features and outputs that are linear in them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, CHANNELS))
    y = X @ rng.normal(size=(CHANNELS, 2)) + 0.05 * rng.normal(size=(ROWS, 2))
    return X, y


def like_ridge(X, y, fitted, alpha=1e-3):
    """`fitted` decodes the last third of X as Ridge does."""
    train, test = slice(0, 2 * len(X) // 3), slice(2 * len(X) // 3, None)
    reference = Ridge(alpha=alpha).fit(X[train].astype(float), y[train])
    expected = reference.predict(X[test].astype(float))
    with warnings.catch_warnings():
        warnings.simplefilter("error", betz.BetzWarning)
        decoder = fitted(X[train], y[train], alpha)
        estimates = decoder.predict(X[test])
    error = np.abs(estimates - expected.reshape(estimates.shape)).max() / y.std()
    assert decoder.model_.channel_mask.all()
    assert error < 5e-3, error
    assert decoder.score(X[test], y[test]) > reference.score(X[test].astype(float), y[test]) - 1e-4


def whole(X, y, alpha):
    return Decoder(ridge=alpha).fit(X, y)


def in_parts(X, y, alpha):
    decoder = Decoder(ridge=alpha)
    for rows in np.array_split(np.arange(len(X)), 5):
        decoder.partial_fit(X[rows], y[rows])
    return decoder


def merged(X, y, alpha):
    half = len(X) // 2
    other = Decoder(ridge=alpha).partial_fit(X[half:], y[half:])
    return Decoder(ridge=alpha).partial_fit(X[:half], y[:half]).merge(pickle.loads(pickle.dumps(other)))


def weighted(X, y, alpha):
    return Decoder(ridge=alpha).fit(X, y, sample_weight=np.ones(len(X)))


WAYS = [whole, in_parts, merged, weighted]


@pytest.mark.parametrize("fitted", WAYS)
@pytest.mark.parametrize("offset", [0.0, 1e3, 2e3, 1e4, -1e4])
def test_an_offset_changes_nothing(fitted, offset):
    X, y = features()
    like_ridge(X + offset * (1 + np.arange(CHANNELS) / 7), y, fitted)


@pytest.mark.parametrize("fitted", WAYS)
@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e3, 1e9])
def test_a_unit_changes_nothing(fitted, scale):
    X, y = features()
    like_ridge(scale * (X + 300), y, fitted, alpha=1e-3 * scale**2)


@pytest.mark.parametrize("fitted", WAYS)
@pytest.mark.parametrize(
    ("kind", "offset", "spread"),
    [(np.uint8, 128, 20), (np.uint16, 32768, 100), (np.int16, -20000, 100), (np.float32, 10, 1), (np.int64, 40000, 500)],
)
def test_a_type_changes_nothing(fitted, kind, offset, spread):
    X, y = features()
    X = offset + spread * X
    like_ridge((np.round(X) if np.issubdtype(kind, np.integer) else X).astype(kind), y, fitted)


@pytest.mark.parametrize("fitted", WAYS)
def test_outliers_are_rows_like_others(fitted):
    X, y = features()
    rng = np.random.default_rng(3)
    whole_numbers = np.round(20 + 4 * X).clip(0)
    whole_numbers[rng.random(ROWS) < 0.01] += 30
    y = whole_numbers @ rng.normal(size=(CHANNELS, 1))
    like_ridge(whole_numbers, y, fitted)
    # Rows of training alone: estimates stay within the range of its behaviour.
    X[rng.integers(0, ROWS // 2, 20), rng.integers(0, CHANNELS, 20)] *= 100
    like_ridge(X + 1e3, X @ rng.normal(size=(CHANNELS, 1)), fitted)


def filtered_signal(offset, trials=90, steps=80, seed=7):
    """Trials of two slow movements, and channels of unit noise that mix them, `offset` standard deviations from 0."""
    rng = np.random.default_rng(seed)
    X, y = np.zeros((trials, steps, CHANNELS)), np.zeros((trials, steps, 2))
    for trial in range(trials):
        state = np.zeros(2)
        for step in range(steps):
            state = 0.97 * state + 0.2 * rng.normal(size=2)
            y[trial, step] = state
    X = y @ rng.normal(size=(2, CHANNELS)) + rng.normal(size=X.shape)
    X += offset * (1 + np.arange(CHANNELS) / 7) * X.std()
    return X.reshape(-1, CHANNELS), y.reshape(-1, 2), np.repeat(np.arange(trials), steps)


def fit_whole(decoder, X, y, trials):
    return decoder.fit(X, y, trials=trials)


def fit_parts(decoder, X, y, trials):
    half = trials < trials[len(trials) // 2]
    decoder.partial_fit(X[half], y[half], trials=trials[half])
    return decoder.partial_fit(X[~half], y[~half], trials=trials[~half])


def fit_weighted(decoder, X, y, trials):
    return decoder.fit(X, y, trials=trials, sample_weight=np.ones(len(X)))


@pytest.mark.parametrize("way", [fit_whole, fit_parts, fit_weighted])
@pytest.mark.parametrize("offset", [1, 3, 10, 1000, -3])
def test_filters_start_at_the_mean(way, offset):
    scores = {}
    for zero in (0, offset):
        X, y, trials = filtered_signal(zero)
        train = trials < 60
        decoder = Decoder(step_seconds=0.02, bank=[(0.05, 0), (0.2, 1)], ridge=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error", betz.BetzWarning)
            way(decoder, X[train], y[train], trials[train])
            scores[zero] = decoder.score(X[~train], y[~train], trials=trials[~train])
        # A session gives what predict gives.
        first = trials == 70
        session = decoder.session()
        stepped = np.array([session.step(row) for row in X[first].astype(np.float32)])
        assert np.allclose(stepped, decoder.predict(X[first], trials=trials[first]), atol=1e-3)
    assert scores[0] > 0.7
    assert abs(scores[offset] - scores[0]) < 0.01, scores


def test_converted_samples_start_at_the_mean():
    X, y, trials = filtered_signal(0)
    train = trials < 60
    scores = [
        Decoder(step_seconds=0.02, bank=[(0.05, 0), (0.2, 1)], ridge=1.0)
        .fit(values[train], y[train], trials=trials[train])
        .score(values[~train], y[~train], trials=trials[~train])
        for values in (X, np.round(32768 + 300 * X).astype(np.uint16))
    ]
    assert abs(scores[1] - scores[0]) < 0.01, scores


@pytest.mark.parametrize("kind", ["softmax", "lda"])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_classes_do_not_depend_on_zero(kind, offset):
    X, y = features()
    labels = np.where(y[:, 0] > 0, "right", "left")
    decoder = ClassDecoder(kind).fit(X[:2000] + offset, labels[:2000])
    assert decoder.score(X[2000:] + offset, labels[2000:]) > 0.95


def test_one_row_parts_of_whole_numbers_are_all_added():
    rng = np.random.default_rng(5)
    X = rng.integers(0, 2, (400, 3)).astype(float)
    y = X @ [1.0, 2.0, 3.0]
    decoder = Decoder(ridge=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", betz.BetzWarning)
        # A first row of zeros would leave nothing to solve.
        decoder.partial_fit(X[:50], y[:50])
        for row in range(50, 400):
            decoder.partial_fit(X[row : row + 1], y[row : row + 1])
        decoder.partial_fit(np.zeros((40, 3)), np.zeros(40))
    assert decoder.sums_.steps == 440
    backwards = Decoder(ridge=1e-3).partial_fit(X[:50], y[:50])
    for row in reversed(range(50, 400)):
        backwards.partial_fit(X[row : row + 1], y[row : row + 1])
    backwards.partial_fit(np.zeros((40, 3)), np.zeros(40))
    assert backwards.model_ == decoder.model_
    with pytest.warns(betz.BetzWarning, match="already"):
        decoder.partial_fit(X[:50], y[:50])
    assert decoder.sums_.steps == 440


def test_masked_channels_are_named_with_their_reason():
    X, y = features()
    X[:, 4], X[:, 7] = 5.0, X[:, 2]
    with pytest.warns(betz.BetzWarning, match="'ch4' never varies, 'ch7' is a copy of 'ch2'"):
        decoder = Decoder(ridge=0.0, folds=0).fit(X, y)
    assert any("never varies" in warning for warning in decoder.training_["warnings"])
    with pytest.warns(betz.BetzWarning, match="'ch7' is a copy of 'ch2'"):
        Decoder(ridge=0.0).partial_fit(X, y)


def test_columns_beyond_the_digits_of_float32_are_told():
    X, y = features()
    X[:, 3] += 1e7
    with pytest.warns(betz.BetzWarning, match="float32.* column 3"):
        Decoder(ridge=1.0).fit(X, y)


def test_artefacts_of_steps_are_told_with_their_share():
    rng = np.random.default_rng(6)
    X = rng.poisson(2.0, (2000, 10))
    X[100:110] += 30
    decoder = Decoder(step_seconds=0.02, bank=[(0.05, 0)], noise=0.1, folds=0)
    with pytest.warns(betz.BetzWarning, match=r"10 steps of 2000 \(0.50 %\) hold more than"):
        decoder.fit(X, X[:, 0])
    assert any("0.50 %" in warning for warning in decoder.training_["warnings"])
    for scored in (lambda: decoder.predict(X[:500]), lambda: decoder.score(X[:500], X[:500, 0])):
        with pytest.warns(betz.BetzWarning, match=r"10 steps of 500 \(2.00 %\) hold more than"):
            scored()
    with warnings.catch_warnings():
        warnings.simplefilter("error", betz.BetzWarning)
        decoder.predict(X[500:])


def test_later_parts_have_the_outputs_of_the_first():
    pandas = pytest.importorskip("pandas")
    X, y = features()
    frame = pandas.DataFrame(y, columns=["vx", "vy"])
    frame.attrs["units"] = "mm"
    swapped = Decoder(ridge=1.0).partial_fit(X[:1000], frame[:1000]).partial_fit(X[1000:], frame[1000:][["vy", "vx"]])
    assert swapped.model_ == Decoder(ridge=1.0).partial_fit(X[:1000], frame[:1000]).partial_fit(X[1000:], frame[1000:]).model_
    with pytest.raises(ValueError, match="expected the outputs"):
        swapped.partial_fit(X[:500], frame[:500].rename(columns={"vx": "other"}))
    with pytest.raises(ValueError, match="'vx' in 'mm', as in fit, got 'cm'"):
        swapped.partial_fit(X[:500], y[:500], units="cm")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_after_use_works_on_threads_of_its_own():
    X, y = features()
    whole(X, y, 1e-3)
    child = os.fork()
    if child == 0:
        os._exit(0 if whole(X, y, 1e-3).score(X, y) > 0.9 else 1)
    deadline = 600
    for _ in range(deadline * 10):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.1)
    else:
        os.kill(child, 9)
        pytest.fail("the child still runs")
    assert status == 0


def test_results_pickle():
    recording, _ = betz.simulate.chains(seconds=10, seed=1)
    mined = betz.mine(recording, delays=[(0.004, 0.006)], threshold=60)
    again = pickle.loads(pickle.dumps(mined))
    values = lambda episodes: [(e.channels, e.numbers, e.delays, e.count) for e in episodes]
    assert values(again.episodes) == values(mined.episodes) and values(again.maximal) == values(mined.maximal)
    dataset = recording.align(0.01)
    again = pickle.loads(pickle.dumps(dataset))
    assert (again.counts() == dataset.counts()).all() and again.segments == dataset.segments
    assert again.left_out == dataset.left_out and again.channel_names == dataset.channel_names
