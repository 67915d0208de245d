"""Self-organising maps: scikit-learn's own checks, the rules in NumPy, and what is refused."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import betz

SMALL = dict(map=(4, 5), epochs=5)
ONLINE = dict(map=(4, 5), epochs=5, online=True, radius=(2, 1), fade="linear")


@parametrize_with_checks([betz.SelfOrganizingMap(), betz.SelfOrganizingMap(map=(3, 4), online=True, epochs=2)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def heaps(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, 4)) + 5.0 * np.eye(4)[rng.integers(0, 4, rows)]


def apart(som):
    """Squared distance on the map of every two nodes."""
    places = som.map_.places
    return ((places[:, None] - places) ** 2).sum(axis=2)


def test_a_batch_is_the_rule_in_numpy():
    X = np.random.default_rng(1).standard_normal((300, 4)) * [8, 3, 1, 0.5]
    X = X.astype(np.float32).astype(float)
    som = betz.SelfOrganizingMap(map=(4, 5), epochs=3, radius=(2.0, 0.5), exact=True).fit(X)
    centred = X - X.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)
    # The start: two standard deviations along the first two components; their signs do not change the errors.
    errors = {}
    for flip in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        row, column = np.divmod(np.arange(20), 5)
        along = np.column_stack([column / 4 * 2 - 1, row / 3 * 2 - 1]) * flip
        weights = X.mean(axis=0) + 2 * along * (axes[1][:2] / np.sqrt(len(X))) @ axes[2][:2]
        squared = (row[:, None] - row) ** 2 + (column[:, None] - column) ** 2
        errors[flip] = []
        for radius in (2.0, 1.0, 0.5):
            distances = np.linalg.norm(X[:, None] - weights, axis=2)
            errors[flip].append(distances.min(axis=1).mean())
            near = np.exp(-squared[:, distances.argmin(axis=1)] / (2 * radius**2))
            weights = near @ X / near.sum(axis=1, keepdims=True)
    assert any(np.allclose(som.training_["errors"], error, rtol=1e-3) for error in errors.values()), (som.training_, errors)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "chebyshev", "cosine", "correlation"])
def test_the_online_rule_is_that_of_numpy(metric):
    X = heaps(60)
    som = betz.SelfOrganizingMap(metric=metric, **ONLINE | {"epochs": 1, "radius": 1.5, "rate": 0.1})
    weights = som.partial_fit(X).weights_
    assert weights.shape == (4, 5, 4)
    # One more pass, from the weights that the first has left.
    expected = weights.reshape(-1, 4).astype(float)
    for x in X.astype(np.float32).astype(float):
        winner = distances(metric, x[None], expected)[0].argmin()
        near = apart(som)[winner] < 1.5**2
        expected[near] += 0.1 * (x - expected[near])
    som.partial_fit(X)
    np.testing.assert_allclose(som.cluster_centers_, expected, atol=1e-4)
    np.testing.assert_allclose(som.transform(X), distances(metric, X, som.cluster_centers_.astype(float)), atol=1e-5)


def distances(metric, rows, weights):
    a, b = rows[:, None], weights[None]
    if metric == "correlation":
        a, b = a - a.mean(axis=2, keepdims=True), b - b.mean(axis=2, keepdims=True)
    if metric in ("cosine", "correlation"):
        return 1 - (a * b).sum(axis=2) / np.linalg.norm(a, axis=2) / np.linalg.norm(b, axis=2)
    order = {"euclidean": 2, "manhattan": 1, "chebyshev": np.inf}[metric]
    return np.linalg.norm(a - b, ord=order, axis=2)


@pytest.mark.parametrize("parameters", [SMALL, ONLINE, SMALL | {"metric": "cosine"}, ONLINE | {"metric": "manhattan"}])
def test_nodes_errors_and_distances_agree(parameters):
    X = heaps()
    som = betz.SelfOrganizingMap(**parameters).fit(X)
    nodes, far = som.predict(X), som.transform(X)
    np.testing.assert_array_equal(far.argmin(axis=1), nodes)
    np.testing.assert_array_equal(som.labels_, nodes)
    assert som.quantization_error_ == pytest.approx(far.min(axis=1).mean(), rel=1e-5)
    assert som.score(X) == pytest.approx(-som.quantization_error_)
    second = np.argsort(far, axis=1, kind="stable")[:, 1]
    assert som.topographic_error_ == pytest.approx((apart(som)[nodes, second] > 2.1).mean())
    assert som.get_feature_names_out()[-1] == "selforganizingmap19" and far.shape == (300, 20)
    again = pickle.loads(pickle.dumps(som))
    np.testing.assert_array_equal(again.transform(X), far)
    assert clone(som).map == (4, 5) and again.map_.shape == [4, 5]


def test_parts_are_the_passes_of_fit():
    X = heaps()
    whole = betz.SelfOrganizingMap(**ONLINE).fit(X)
    parts = betz.SelfOrganizingMap(**ONLINE)
    for _ in range(5):
        parts.partial_fit(X)
    np.testing.assert_array_equal(parts.weights_, whole.weights_)
    assert parts.n_passes_ == whole.n_passes_ == 5
    assert parts.partial_fit(X).n_passes_ == 6
    other = betz.SelfOrganizingMap(**ONLINE | {"seed": 2}).fit(X)
    assert (other.weights_ != whole.weights_).any()
    with pytest.raises(AttributeError, match="partial_fit"):
        betz.SelfOrganizingMap().partial_fit(X)


def test_layouts():
    X = heaps()
    body = betz.SelfOrganizingMap("2x3x4", torus=True, epochs=3).fit(X)
    assert body.weights_.shape == (2, 3, 4, 4) and body.u_matrix_.shape == (2, 3, 4)
    np.testing.assert_array_equal(body.cluster_centers_, body.weights_.reshape(24, 4))
    grid = betz.SelfOrganizingMap((3, 4), hex=True, epochs=3).fit(X)
    row, column = np.divmod(np.arange(12), 4)
    np.testing.assert_allclose(grid.map_.places[:, :2], np.column_stack([column + row % 2 / 2, row * 0.75**0.5]))
    line = betz.SelfOrganizingMap(positions=[0.0, 1.0, 2.5], epochs=3).fit(X)
    assert line.map_.shape == [3] and line.weights_.shape == (3, 4)
    for som in (body, grid, line):
        again = pickle.loads(pickle.dumps(som))
        np.testing.assert_array_equal(again.predict(X), som.predict(X))
        np.testing.assert_array_equal(again.u_matrix_, som.u_matrix_)
        assert repr(again.map_) == repr(som.map_)


def test_pipeline_and_grid_search():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), betz.SelfOrganizingMap(epochs=5)),
        {"selforganizingmap__map": [(1, 2), (6, 6)]},
        cv=3,
    ).fit(heaps())
    assert search.best_params_ == {"selforganizingmap__map": (6, 6)}


def test_progress_is_told_and_stops():
    told = []

    def stop(stage, done, total):
        told.append((stage, total))
        raise KeyboardInterrupt

    som = betz.SelfOrganizingMap((60, 60), epochs=1_000_000, progress=stop)
    with pytest.raises(KeyboardInterrupt):
        som.fit(heaps(3000))
    assert told == [("training the map", 1_000_000)]
    assert not hasattr(som, "map_")
    with pytest.raises(NotFittedError):
        som.predict(heaps())


@pytest.mark.parametrize(
    "parameters, error, message",
    [
        ({"map": (3,)}, ValueError, r"map: expected rows and columns.*got \(3,\)"),
        ({"map": "3xfour"}, ValueError, "map: expected rows and columns.*got 3xfour"),
        ({"map": 3.5}, TypeError, "map: expected rows and columns.*got 3.5"),
        ({"map": (0, 3)}, ValueError, "expected 1 to 4194304 nodes, got 0 x 3"),
        ({"map": (3, 3), "hex": True, "torus": True}, ValueError, "an even number of rows"),
        ({"hex": "yes"}, TypeError, r"hex: expected True or False, got 'yes' \(str\)"),
        ({"metric": "hamming"}, ValueError, "metric: expected one of euclidean, .*got 'hamming'"),
        ({"rate": 0.1}, ValueError, "rate: expected online=True, got online=False"),
        ({"exact": True, "online": True}, ValueError, "exact: expected online=False"),
        ({"online": True, "neighbourhood": "cone"}, ValueError, "neighbourhood: expected one of disc, window"),
        ({"online": True, "neighbourhood": "window", "disc": "open"}, ValueError, "disc: expected neighbourhood=.disc., got 'window'"),
        ({"online": True, "rate": 1.5}, ValueError, "learning rate: expected above 0 and at most 1, got 1.5"),
        ({"radius": (3, 2, 1)}, TypeError, r"radius: expected a number, or \(first, last\)"),
        ({"epochs": 0}, ValueError, "epochs: expected one at least"),
        ({"epochs": -1}, ValueError, "epochs: expected a whole number of at least 0, got -1"),
        ({"positions": np.zeros((3, 4))}, ValueError, "positions: expected one to three numbers for each node, got 4"),
        ({"positions": [0.0, 1.0], "torus": True}, ValueError, "torus: expected False"),
        ({"device": "abacus"}, ValueError, "abacus"),
        ({"progress": 3}, TypeError, "progress: expected a function of"),
    ],
)
def test_what_is_refused_says_what_was_expected(parameters, error, message):
    with pytest.raises(error, match=message):
        betz.SelfOrganizingMap(**parameters).fit(heaps(50))


def test_features_have_the_number_of_fit():
    som = betz.SelfOrganizingMap(**SMALL).fit(heaps())
    with pytest.raises(ValueError, match="3 features.*expecting 4"):
        som.predict(heaps()[:, :3])
    with pytest.raises(TypeError, match="^X: expected numbers, got text"):
        som.fit(heaps().astype(str))
