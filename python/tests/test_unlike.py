"""Unlike training: comparison, suggestion, application and the way back, without labels."""

import numpy as np
import pytest

import betz

CHANNELS, STEPS = 16, 60


def trials(seed, count, share=None):
    """Reaches of 1.2 s in random directions; channels tuned to them, of whose spikes a share is kept."""
    rng = np.random.default_rng(seed)
    angle = np.repeat(rng.uniform(0, 2 * np.pi, count), STEPS)
    reach = (1 - np.cos(np.tile(np.arange(STEPS), count) / STEPS * 2 * np.pi)) / 2
    y = np.column_stack([reach * np.cos(angle), reach * np.sin(angle)])
    tuned = np.arange(CHANNELS) * 2.4
    X = rng.random((len(y), CHANNELS)) < 0.3 + 0.28 * (y[:, :1] * np.cos(tuned) + y[:, 1:] * np.sin(tuned))
    if share is not None:
        X &= rng.random(X.shape) < share
    return X.astype(np.uint8), y, np.repeat(np.arange(count), STEPS)


WEAKER = np.array([0.15, 1.0, 0.4, 1.0] * 4)


@pytest.fixture(scope="module")
def fitted():
    X, y, labels = trials(1, 400)
    decoder = betz.Decoder(step_seconds=0.02, bank=[(0.04, 0), (0.12, 1)], folds=3, retain_bytes=1 << 20)
    return decoder.fit(X, y, trials=labels)


def step(session, X):
    """Filters start from rest at every trial, as in training."""
    outputs = []
    for i, row in enumerate(X):
        if i % STEPS == 0:
            session.reset()
        outputs.append(session.step(row))
    return np.array(outputs)


def dataset(X):
    return betz.Dataset.of_rows(X, None, 0.02, [(k, k + STEPS) for k in range(0, len(X), STEPS)])


def test_a_session_suggests_applies_and_rolls_back(fitted):
    session, control = fitted.session(), fitted.session()
    unlike = session.unlike(110.0, suggest=True)
    assert unlike.newest is None and unlike.suggestion is None and unlike.apply() is None
    X = trials(5, 100, WEAKER)[0]
    np.testing.assert_array_equal(step(session, X), step(control, X))
    unlike.flush()
    assert unlike.lost_steps == 0 and unlike.newest["latents"] > 0.1 and unlike.newest["seconds"] >= 110.0
    suggestion = unlike.suggestion
    assert suggestion["suggested"] and not suggestion["applied"] and suggestion["refusal"] is None
    assert np.abs(suggestion["gains"] - WEAKER).max() < 0.2
    assert unlike.suggested_model.kind == "linear"
    assert unlike.apply() == "recalibrated"
    assert unlike.suggestion["applied"] and unlike.suggested_model is None
    X = trials(6, 20, WEAKER)[0]
    assert (step(session, X) != step(control, X)).any()
    assert (unlike.running_model.weights != fitted.model_.weights).any()
    assert unlike.roll_back() and not unlike.roll_back()
    X = trials(7, 20, WEAKER)[0]
    np.testing.assert_array_equal(step(session, X), step(control, X))
    with pytest.raises(betz.BetzError, match="second request"):
        session.unlike()


def test_a_recording_is_recalibrated_for(fitted):
    X = trials(5, 100, WEAKER)[0]
    report, model = betz.recalibrate(fitted.model_, dataset(X))
    assert report["refusal"] is None and 0 <= report["explained"] < 0.6 and report["unexplained"] > 0.2
    assert np.abs(report["gains"] - WEAKER).max() < 0.2 and model is not None
    same, none = betz.recalibrate(fitted.model_, dataset(trials(8, 100)[0]))
    assert none is None and "rates changed" in same["refusal"]


def test_what_is_missing_is_said(fitted):
    X, y, _ = trials(2, 20)
    without = betz.Decoder(step_seconds=0.02, bank=[(0.04, 0)], folds=0).fit(X, y)
    with pytest.raises(betz.BetzError, match="with retain_bytes="):
        without.session().unlike()
    with pytest.raises(ValueError, match="more than 20 steps"):
        fitted.session().unlike(0.1)
    small = betz.Decoder(step_seconds=0.02, bank=[(0.04, 0)], folds=0, retain_bytes=100)
    with pytest.raises(betz.BetzError):
        small.fit(X, y)
