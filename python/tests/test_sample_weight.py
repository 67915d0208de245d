"""Weights of rows: a weight is as many rows of the same, and 0 leaves a row out."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold

import betz


def made(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6))
    y = X @ rng.normal(size=(6, 2)) + 1 + 0.4 * rng.normal(size=(rows, 2))
    return X, y, rng.integers(0, 4, rows)


def test_a_weight_is_as_many_rows():
    X, y, weights = made()
    weighted = betz.Decoder(ridge=1.0).fit(X, y, sample_weight=weights)
    repeated = betz.Decoder(ridge=1.0).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights, axis=0))
    # Models, since what counts as an artefact follows from the rows as they are.
    np.testing.assert_allclose(weighted.model_.weights, repeated.model_.weights, atol=1e-5)
    np.testing.assert_allclose(weighted.model_.intercept, repeated.model_.intercept, atol=1e-5)
    assert weighted.model_.ridge == pytest.approx(repeated.model_.ridge)


@pytest.mark.parametrize("ridge", [0.0, 20.0])
def test_they_are_those_of_scikit_learn(ridge):
    X, y, _ = made()
    weights = np.random.default_rng(1).exponential(size=len(X)) + 0.01
    ours = betz.Decoder(ridge=ridge).fit(X, y, sample_weight=weights)
    # scikit-learn's Ridge penalises the weights alone, as here; a filter of one step scales its input.
    scale = ours.model_.bank[0]
    theirs = (Ridge(ridge) if ridge else LinearRegression()).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=2e-3 if ridge else 1e-4), scale


def test_ones_are_no_weights():
    X, y, _ = made()
    for parameters in (dict(ridge=1.0), dict(noise=0.1), dict(folds=0)):
        plain = betz.Decoder(**parameters).fit(X, y)
        ones = betz.Decoder(**parameters).fit(X, y, sample_weight=np.ones(len(X)))
        np.testing.assert_allclose(plain.predict(X), ones.predict(X), atol=2e-5)
        assert plain.model_.ridge == pytest.approx(ones.model_.ridge)
        assert plain.score(X, y) == pytest.approx(ones.score(X, y, sample_weight=np.ones(len(X))), abs=1e-5)


def test_zero_leaves_behaviour_out_and_keeps_the_spikes():
    rng = np.random.default_rng(3)
    X = rng.poisson(1.0, (2000, 3)).astype(np.uint8)
    y = np.convolve(X[:, 0], np.exp(-np.arange(40) / 5))[:2000]
    lost = (np.arange(2000) % 100) > 60
    wrong = np.where(lost, 1000.0, y)
    decoder = betz.Decoder(step_seconds=0.02, bank=[(0.1, 0)], ridge=1e-3).fit(X, wrong, sample_weight=~lost)
    assert decoder.score(X, y) > 0.99
    assert decoder.score(X, wrong, sample_weight=~lost) > 0.99
    assert decoder.score(X, wrong) < 0.5


def test_cross_validation_chooses_by_the_weights():
    X, y, _ = made(300)
    half = np.arange(300) < 150
    y[~half] = np.random.default_rng(9).normal(size=(150, 2)) * 5
    weighted = betz.Decoder().fit(X, y, sample_weight=half)
    alone = betz.Decoder().fit(X[half], y[half])
    assert weighted.score(X[half], y[half]) == pytest.approx(alone.score(X[half], y[half]), abs=1e-3)
    timed = betz.Decoder(step_seconds=0.02).fit(np.abs(X), y, sample_weight=half + 0.1)
    assert timed.model_.bank


def test_the_score_is_scikit_learns_with_a_delay():
    X, y, weights = made()
    decoder = betz.Decoder(step_seconds=0.02, bank=[(0.001, 0)], ridge=1e-6, delay_seconds=0.04).fit(X, np.roll(y, -2, axis=0))
    truth = np.roll(y, -2, axis=0)
    expected = r2_score(truth[:-2], decoder.predict(X)[2:], sample_weight=weights[:-2])
    assert decoder.score(X, truth, sample_weight=weights) == pytest.approx(expected, abs=1e-5)


def test_grid_search_hands_weights_on():
    import sklearn

    X, y, weights = made(200)
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(betz.Decoder(), {"ridge": [1.0, 10.0]}, cv=KFold(3)).fit(X, y, sample_weight=weights)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.training_["path"] == "weighted"


@pytest.mark.parametrize("kind", ["lift", "experts", "kalman", "refit", "place", "recurrent", "auto"])
def test_other_kinds_refuse_them_by_name(kind):
    X, y, weights = made(50)
    with pytest.raises(betz.BetzError, match=f"sample_weight: expected kind='linear'.*got '{kind}'"):
        betz.Decoder(kind, step_seconds=0.02).fit(X, y, sample_weight=weights)


def test_what_is_no_weight_is_refused():
    X, y, weights = made(50)
    decoder = betz.Decoder()
    for wrong, error, message in [
        (weights[:10], ValueError, "one weight per row"),
        (-weights - 1.0, ValueError, "expected a finite number of at least 0"),
        (np.full(50, np.nan), ValueError, "expected a finite number"),
        (["a"] * 50, TypeError, "sample_weight: expected numbers"),
        (np.zeros(50), ValueError, "zero weights only"),
    ]:
        with pytest.raises(error, match=message):
            decoder.fit(X, y, sample_weight=wrong)
    recording = betz.Recording.from_signal(X, 0.02, behavior=y)
    with pytest.raises(ValueError, match="sample_weight: expected X and y as arrays"):
        decoder.fit(recording, sample_weight=weights)
    decoder.fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="partial_fit: expected a decoder without sample_weight"):
        decoder.partial_fit(X, y)
