"""The classifier: scikit-learn's own checks, and what they leave open."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

import betz


def counts(seed=0, steps=3000, channels=20):
    """Counts in bins of 20 ms whose rates depend on two states of half a second each."""
    rng = np.random.default_rng(seed)
    moves = np.repeat(rng.integers(0, 2, steps // 25), 25)
    rates = np.where(moves[:, None] == (np.arange(channels) < channels // 2), 0.6, 0.2)
    return rng.poisson(rates).astype(np.uint8), moves


def decoder(**more):
    return betz.ClassDecoder(step_seconds=0.02, bank=[(0.1, 0)], units=16, **more)


def test_scikit_learns_checks():
    results = check_estimator(betz.ClassDecoder(), on_fail=None)
    failed = [(r["check_name"], str(r["exception"])) for r in results if r["status"] == "failed"]
    assert len(results) > 40 and failed == []


def test_probabilities_are_those_of_a_session():
    X, y = counts()
    fitted = decoder().fit(X[:2000], y[:2000])
    assert fitted.classes_.tolist() == [0, 1] and fitted.model_.kind == "classes"
    assert fitted.score(X[2000:], y[2000:]) > 0.85
    assert fitted.training_["ece"] < 0.1 and fitted.training_["auc"][1] > 0.9
    P = fitted.predict_proba(X[2000:])
    session = fitted.session()
    for row, p in zip(X[2000:], P):
        session.step(row)
        np.testing.assert_allclose(session.classes(), p, atol=1e-6)
    events = fitted.events(X[2000:])
    assert events["on"].any()
    ticks = [(tick, on) for tick, _, on, _ in session.events()]
    # The end of the recording ends the last event.
    assert ticks == [(e["step"], e["on"]) for e in events if e["probability"] > 0]
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert clone(fitted).bank == [(0.1, 0)]


def test_classes_without_events_are_told():
    X, y = counts()
    X = X[::-1]  # which has nothing to do with y
    with pytest.warns(betz.BetzWarning, match="no class makes events: no threshold") as told:
        fitted = decoder(false_alarms=1e-9).fit(X, y)
    assert fitted.training_["events"] == [None, None]
    assert [str(warning.message) for warning in told] == fitted.training_["warnings"]
    # Rows that no time connects have no events to miss.
    assert betz.ClassDecoder(units=16, false_alarms=1e-9).fit(X, y).training_["warnings"] == []


def test_rows_without_a_label_are_left_out():
    X, y = counts()
    y = y.astype(object)
    y[y == 0], y[y == 1], y[::7] = "rest", "move", "?"
    fitted = decoder(unlabelled="?").fit(X, y)
    assert fitted.classes_.tolist() == ["move", "rest"]
    assert sum(fitted.training_["labelled"]) == (y != "?").sum()
    trials = np.repeat(np.arange(3.0), 1000)
    trials[:100] = np.nan
    with pytest.warns(betz.BetzWarning, match="lie outside trials"):
        assert (fitted.predict(X, trials=trials)[:100] == "?").all()
    with pytest.warns(betz.BetzWarning), pytest.raises(ValueError, match="100 of 3000 outside"):
        decoder().fit(X, y != "move").predict(X, trials=trials)


def test_a_recording_names_its_labels():
    X, y = counts()
    recording = betz.Recording.from_counts(
        X, 0.02, behavior=np.column_stack([y, y - 0.5]), behavior_names=["state", "x"], segments=[(k, k + 500) for k in range(0, 3000, 500)]
    )
    by_column = betz.ClassDecoder(bank=[(0.1, 0)], units=16).fit(recording, "state")
    assert by_column.classes_.tolist() == ["0", "1"]
    condition = betz.ClassDecoder(bank=[(0.1, 0)], units=16).fit(recording, "go=x>0")
    assert condition.classes_.tolist() == ["not go", "go"]
    assert condition.score(recording, "go=x>0") == by_column.score(recording, "state") > 0.85
    parts = [(0.0, 20.0, "a"), (20.0, 60.0, "b")]
    assert betz.ClassDecoder(bank=[(0.1, 0)], units=16).fit(recording, parts).classes_.tolist() == ["a", "b"]
    rows = betz.ClassDecoder(step_seconds=0.02, bank=[(0.1, 0)], units=16).fit(X, y, trials=np.repeat(np.arange(6), 500))
    np.testing.assert_array_equal(rows.model_.weights, by_column.model_.weights)


def test_sorted_rows_are_dealt_to_the_folds():
    rng = np.random.default_rng(3)
    y = np.repeat(["a", "b", "c"], 100)
    X = rng.standard_normal((300, 4)) + 2.0 * np.eye(4)[np.repeat([0, 1, 2], 100)]
    fitted = betz.ClassDecoder(units=16).fit(X, y)
    assert fitted.training_["kappa"] is None
    assert 0.7 < fitted.training_["balanced_accuracy"] and fitted.training_["ece"] < 0.1
    assert cross_val_score(betz.ClassDecoder(units=16), X, y, cv=3).mean() > 0.7


@pytest.mark.parametrize(
    "more, labels, message",
    [
        ({}, lambda y: np.where(np.arange(len(y)) < 29, 2, y), "at least 30 labelled steps of every class, got 29"),
        ({"priors": {0: 0.5, 1: 0.6}}, lambda y: y, "add up to 1"),
        ({"priors": {0: 1.0}}, lambda y: y, "a share for each of the classes"),
        ({"folds": 1}, lambda y: y, "at least 2 folds"),
        ({"false_alarms": 0.0}, lambda y: y, "false alarms per minute"),
        ({}, lambda y: "speed>1", "one label per row"),
        ({}, lambda y: y + 0.5, "continuous|Unknown label type"),
    ],
)
def test_what_is_refused_says_what_was_expected(more, labels, message):
    X, y = counts()
    with pytest.raises(ValueError, match=message):
        decoder(**more).fit(X, labels(y))


def test_priors_of_use_move_the_probabilities():
    X, y = counts()
    plain, rare = decoder().fit(X, y), decoder(priors={0: 0.9, 1: 0.1}).fit(X, y)
    assert rare.predict_proba(X)[:, 1].mean() < plain.predict_proba(X)[:, 1].mean()


def test_trials_of_one_row_are_named():
    X, y = counts(steps=300)
    with pytest.raises(betz.BetzError, match="expected trials of several steps, got 300 trials of one step among 300: .*one label"):
        betz.ClassDecoder(step_seconds=0.02, bank="reach", units=16).fit(X, y, trials=np.arange(300))


def test_events_need_time():
    X, y = counts()
    with pytest.raises(ValueError, match="step_seconds"):
        betz.ClassDecoder(units=16).fit(X, y).events(X)


def discriminant(**more):
    return betz.ClassDecoder("lda", step_seconds=0.02, bank=[(0.1, 0)], **more)


def test_parts_of_a_discriminant_add_up_to_the_bit(tmp_path):
    X, y = counts(steps=4000)
    y = np.where(y == 1, "move", "rest")
    one, other = (discriminant().partial_fit(X[a:b], y[a:b]) for a, b in ((0, 1500), (1500, 3000)))
    both = discriminant().partial_fit(X[1500:3000], y[1500:3000]).partial_fit(X[:1500], y[:1500])
    merged = one.merge(other).calibrate(X[3000:], y[3000:])
    assert merged.model_ == both.calibrate(X[3000:], y[3000:]).model_
    assert merged.sums_.steps == 3000 and merged.sums_.output_names == ["move", "rest"]
    assert merged.training_["ece"] < merged.training_["ece_before"]
    P = merged.predict_proba(X[3000:])
    assert merged.model_.kind == "classes" and np.allclose(P.sum(axis=1), 1.0)
    assert 0.8 < np.mean(merged.predict(X[3000:]) == y[3000:])
    merged.sums_.save(tmp_path / "a.sums")
    again = betz.Sums.from_bytes((tmp_path / "a.sums").read_bytes(), False)
    assert again.steps == 3000 and not again.takes_signal and again.step_seconds == 0.02
    # The solution is dropped once another part comes.
    with pytest.raises(NotFittedError):
        clone(merged).merge(other)
    more, its = counts(seed=5, steps=1000)
    merged.partial_fit(more, np.where(its == 1, "move", "rest"))
    with pytest.raises(NotFittedError):
        merged.predict(X)
    with pytest.warns(betz.BetzWarning, match="nothing is added"):
        assert merged.partial_fit(more, np.where(its == 1, "move", "rest")).sums_.steps == 4000


def test_a_discriminant_of_one_recording_is_calibrated_on_its_last_part():
    X, y = counts(steps=4000)
    fitted = discriminant().fit(X[:3000], y[:3000])
    assert fitted.score(X[3000:], y[3000:]) > 0.85
    assert sum(fitted.training_["labelled"]) == 2400
    with pytest.raises(ValueError, match="fitted whole"):
        fitted.partial_fit(X[3000:], y[3000:])
    recording = betz.Recording.from_counts(X, 0.02, behavior=y[:, None], behavior_names=["state"], segments=[(k, k + 500) for k in range(0, 4000, 500)])
    by_name = betz.ClassDecoder("lda", bank=[(0.1, 0)]).fit(recording, "state")
    assert by_name.classes_.tolist() == ["0", "1"] and by_name.score(recording, "state") > 0.85
    parts = betz.ClassDecoder("lda", bank=[(0.1, 0)]).partial_fit(recording[:4], "state").partial_fit(recording[4:6], "state")
    assert parts.calibrate(recording[6:], "state").score(recording, "state") > 0.85


def test_a_discriminant_refuses_by_name():
    X, y = counts()
    fitted = discriminant().partial_fit(X[:1000], np.zeros(1000, int), classes=[0, 1]).partial_fit(X[1000:2000], y[1000:2000])
    assert fitted.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="got 2 as well"):
        fitted.partial_fit(X[2000:], y[2000:] + 1)
    with pytest.raises(betz.BetzError, match="in none of the sums"):
        fitted.calibrate(X[1000:2000], y[1000:2000])
    with pytest.raises((betz.BetzError, ValueError), match="expected one by name or by its filters"):
        betz.ClassDecoder("lda", step_seconds=0.02).partial_fit(X, y)
    assert not hasattr(decoder(), "partial_fit")
    for call in ("merge", "calibrate"):
        with pytest.raises(ValueError, match=f"{call}: expected kind='lda'"):
            getattr(decoder(), call)(*{"merge": [fitted], "calibrate": [X, y]}[call])
    with pytest.raises(ValueError, match="kind: expected 'softmax' or 'lda', got 'svm'"):
        betz.ClassDecoder("svm").fit(X, y)
