"""scikit-learn's own checks, and what they leave open."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import betz


def counts(steps=2000, channels=40, outputs=2, seed=0):
    """Counts, and what is linear in them but for noise."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(1.0, (steps, channels)).astype(float)
    weights = rng.standard_normal((channels, outputs))
    return X, X @ weights + 0.5 * rng.standard_normal((steps, outputs))


def test_scikit_learns_checks():
    results = check_estimator(betz.Decoder(), on_fail=None)
    failed = [(r["check_name"], str(r["exception"])) for r in results if r["status"] == "failed"]
    assert len(results) > 40 and failed == []


def test_pipeline_and_grid_search():
    X, y = counts()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), betz.Decoder()),
        {"decoder__ridge": [1e-3, 1e6]},
        cv=KFold(3),
    ).fit(X, y)
    assert search.best_params_ == {"decoder__ridge": 1e-3}
    assert search.best_score_ > 0.9


def test_grid_search_hands_trials_on():
    import sklearn

    X, y = counts(600, 10)
    trials = np.repeat(np.arange(12), 50)
    with sklearn.config_context(enable_metadata_routing=True):
        decoder = betz.Decoder(step_seconds=0.02, bank=[(0.02, 0)])
        decoder.set_fit_request(trials=True).set_score_request(trials=True)
        search = GridSearchCV(decoder, {"ridge": [1.0, 10.0]}, cv=KFold(3)).fit(X, y, trials=trials)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    plain = betz.Decoder(step_seconds=0.02, bank=[(0.02, 0)], ridge=1.0)
    assert plain.fit(X, y, trials=trials).model_ != plain.fit(X, y).model_


def test_parts_in_any_order_are_the_whole():
    X, y = counts()
    parts = np.array_split(np.arange(len(X)), 7)
    forth, back = betz.Decoder(noise=0.1), betz.Decoder(noise=0.1)
    for part in parts:
        forth.partial_fit(X[part], y[part])
    for part in parts[::-1]:
        back.partial_fit(X[part], y[part])
    assert forth.model_ == back.model_
    whole = betz.Decoder(noise=0.1).fit(X, y)
    np.testing.assert_allclose(forth.model_.weights, whole.model_.weights, atol=1e-9)


def test_merge_is_the_whole():
    X, y = counts()
    one, other = (betz.Decoder(ridge=2.0).fit(X[part], y[part]) for part in (slice(0, 900), slice(900, None)))
    whole = betz.Decoder(ridge=2.0).fit(X, y)
    np.testing.assert_allclose(one.merge(other).model_.weights, whole.model_.weights, atol=1e-9)
    with pytest.raises(betz.BetzError, match="the same sums twice"):
        one.merge(other)


def test_what_is_in_already_adds_nothing_and_warns():
    X, y = counts(300)
    decoder = betz.Decoder().partial_fit(X, y)
    with pytest.warns(UserWarning, match="nothing is added"):
        decoder.partial_fit(X, y)
    assert decoder.sums_.steps == 300


def test_pickle_and_clone():
    X, y = counts(500)
    decoder = betz.Decoder(step_seconds=0.02, bank="single").fit(X, y)
    again = pickle.loads(pickle.dumps(decoder))
    np.testing.assert_array_equal(decoder.predict(X), again.predict(X))
    assert again.partial_fit(*counts(100, seed=3)).sums_.steps == 600
    assert clone(decoder).bank == "single"


def test_every_form_of_x_is_the_same_data():
    X, y = counts(400, 8)
    whole = betz.Decoder(ridge=1.0).fit(X, y).model_
    for other in (X.astype(np.uint8), X.astype(np.float32), np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X.tolist()):
        assert betz.Decoder(ridge=1.0).fit(other, y).model_ == whole


def test_nonlinear_kinds_are_compared():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((1000, 4))
    y = np.tanh(4 * X[:, 0])
    decoder = betz.Decoder("auto", folds=3, latents=1, units=32, experts=4).fit(X, y)
    assert decoder.training_["taken"] == decoder.model_.kind != "linear"
    assert [row["kind"] for row in decoder.training_["kinds"]] == ["linear", "lift", "experts", "recurrent", "blend"]
    assert decoder.score(X, y) > betz.Decoder().fit(X, y).score(X, y)
    with pytest.raises(ValueError, match="kind='linear'"):
        decoder.partial_fit(X, y)


def test_a_recurrent_decoder_remembers():
    rng = np.random.default_rng(6)
    X = rng.poisson(1.0, (2000, 4)).astype(np.uint8)
    y = np.zeros(2000)
    for t in range(1, 2000):
        y[t] = 0.9 * y[t - 1] + np.tanh(float(X[t, 0]) - float(X[t, 1]))
    sizes = {"step_seconds": 0.1, "folds": 2, "layers": (16,), "members": 2, "epochs": 80}
    decoder = betz.Decoder("recurrent", **sizes).fit(X, y)
    assert decoder.model_.kind == "recurrent"
    assert decoder.score(X, y) > 0.7
    rounded = betz.Decoder("recurrent", weights="int8", **sizes).fit(X, y)
    assert abs(rounded.score(X, y) - decoder.score(X, y)) < 0.01
    with pytest.raises(ValueError, match="weights: expected f32, bf16, int8 or None, got 'int4'"):
        betz.Decoder("recurrent", weights="int4", **sizes).fit(X, y)
    with pytest.raises(ValueError, match="multiple of 16"):
        betz.Decoder("recurrent", step_seconds=0.1, layers=(10,)).fit(X, y)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"kind": "quadratic"}, "kind: expected linear, lift"),
        ({"bank": "wider", "step_seconds": 0.02}, "got 'wider'"),
        ({"bank": [(0.1, 9)], "step_seconds": 0.02}, "order"),
        ({"ridge": -1.0}, "ridge: expected a finite number of at least 0"),
        ({"device": "abacus"}, "abacus"),
        ({"delay_seconds": float("nan")}, "delay_seconds"),
        ({"step_seconds": -0.5}, "step"),
    ],
)
def test_what_is_refused_says_what_was_expected(parameters, message):
    with pytest.raises(ValueError, match=message):
        betz.Decoder(**parameters).fit(*counts(100, 4))
