"""Trials and names of arrays: what would be wrong in silence warns, and folds keep trials whole."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, ShuffleSplit, cross_val_predict, cross_val_score

import betz


def reaches(trials=24, rows=60, seed=0):
    """Counts whose filtered trains carry y, from rest in every trial; y jumps between trials."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(1.0, (trials * rows, 6)).astype(np.uint8)
    kernel = np.exp(-np.arange(60) / 25)
    y = np.vstack(
        [np.column_stack([np.convolve(x[:, k], kernel)[:rows] for k in (0, 1)]) for x in np.split(X.astype(float), trials)]
    )
    return X, y, np.repeat(np.arange(trials), rows)


def decoder(**parameters):
    return betz.Decoder(step_seconds=0.02, bank=[(0.5, 0)], ridge=1.0, **parameters)


def test_fitted_with_trials_and_predicted_without():
    X, y, trials = reaches()
    fitted = decoder().fit(X, y, trials=trials)
    assert fitted.score(X, y, trials=trials) > 0.99
    with pytest.warns(betz.BetzWarning, match="fitted with trials of at most 60 rows, and gets 1440 rows without trials.*Pass trials="):
        assert fitted.score(X, y) < 0.9
    with pytest.warns(betz.BetzWarning, match="without trials") as told:
        fitted.predict(X)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(X[:60])  # one trial
        fitted.predict(X, trials=trials)
        decoder().fit(X, y).predict(X)


def test_shuffled_rows_with_labels():
    X, y, trials = reaches()
    order = np.random.default_rng(1).permutation(len(X))
    with pytest.warns(betz.BetzWarning, match="24 labels recur in .* runs of rows, .* of one row.*no shuffling"):
        decoder().fit(X[order], y[order], trials=trials[order])
    with pytest.warns(betz.BetzWarning, match="2 labels recur in 24 runs"):
        decoder().fit(X, y, trials=trials % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Rows that no time connects have no order to lose.
        betz.Decoder(ridge=1.0).fit(X[order], y[order], trials=trials[order])


@pytest.mark.parametrize("none", [np.nan, None])
def test_rows_without_a_label_lie_outside_trials(none):
    X, y, trials = reaches()
    labels = trials.astype(float if none is not None else object)
    labels[trials == 3] = none
    broken = y.copy()
    broken[trials == 3] = 1e3
    with pytest.warns(betz.BetzWarning, match="60 of 1440 rows have no label .*left out"):
        fitted = decoder().fit(X, broken, trials=labels)
    assert fitted.score(X, y, trials=trials) > 0.99
    with pytest.warns(betz.BetzWarning, match="60 of 1440"):
        estimates = fitted.predict(X, trials=labels)
    assert np.isnan(estimates[trials == 3]).all() and np.isfinite(estimates[trials != 3]).all()
    with pytest.raises(ValueError, match="expected a label for at least one row"), pytest.warns(betz.BetzWarning):
        decoder().fit(X, y, trials=np.full(len(X), np.nan))


def test_groups_keep_trials_whole():
    X, y, trials = reaches()
    by_hand = []
    for train, test in GroupKFold(4).split(X, y, trials):
        by_hand.append(decoder().fit(X[train], y[train], trials=trials[train]).score(X[test], y[test], trials=trials[test]))
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("error", betz.BetzWarning)
        params = {"trials": trials, "groups": trials}
        routed = cross_val_score(decoder(), X, y, cv=GroupKFold(4), params=params)
        # One name for both.
        alias = decoder().set_fit_request(trials="groups").set_score_request(trials="groups")
        one_name = cross_val_score(alias, X, y, cv=GroupKFold(4), params={"groups": trials})
    np.testing.assert_array_equal(routed, by_hand)
    np.testing.assert_array_equal(one_name, by_hand)
    assert min(by_hand) > 0.99


def test_an_index_level_carries_trials_through_any_split():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    X, y, trials = reaches()
    frame = pandas.DataFrame(X, columns=list("abcdef"), index=pandas.Index(trials, name="trial"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_trial = dict(groups=trials, cv=GroupKFold(4))
        for scoring in (None, "r2", "neg_mean_squared_error"):
            scores = cross_val_score(decoder(), frame, y, scoring=scoring, **by_trial)
            assert min(scores) > (0.99 if scoring != "neg_mean_squared_error" else -0.2)
        assert np.abs(cross_val_predict(decoder(), frame, y, **by_trial) - y).mean() < 0.5
        search = GridSearchCV(decoder(), {"ridge": [0.1, 1e6]}, scoring="r2", cv=by_trial["cv"]).fit(frame, y, groups=trials)
        assert search.best_score_ > 0.99 and search.best_params_ == {"ridge": 0.1}
    assert decoder().fit(frame, y).model_.channel_names == list("abcdef")


def test_labels_that_reach_fit_alone_say_how_they_reach_all():
    X, y, trials = reaches()
    with pytest.warns(betz.BetzWarning, match=r"cross_val_score, need X with its trials: pandas.DataFrame\(X, index=") as told:
        cross_val_score(decoder(), X, y, groups=trials, cv=GroupKFold(4), params={"trials": trials})
    assert told[0].filename == __file__


def recording(trials=10, seed=1):
    """A population that follows a movement, in trials of two seconds."""
    made, _ = betz.simulate.population(neurons=20, train_seconds=2.0 * trials, test_seconds=1, seed=seed)
    ticks = made.ticks // trials
    return made.with_trials([(k * ticks, (k + 1) * ticks) for k in range(trials)])


def test_a_recording_is_a_sequence_of_trials():
    whole = recording()
    assert len(whole) == 10 and whole.shape == (10,)
    assert whole[2].segments.tolist() == whole.segments[2:3].tolist() and whole[-1].segments[0, 1] == whole.ticks
    assert len(whole[1:4]) == len(whole[[1, 2, 3]]) == len(whole[whole.segments[:, 0] < 3 * whole.segments[0, 1]]) == 3
    assert len(list(whole)) == 10
    with pytest.raises(IndexError):
        whole[10]
    with pytest.raises(ValueError, match="at least one"):
        whole[[]]
    some, data = [5, 0, 3], whole.align(0.005)
    bank = dict(step_seconds=0.005, bank=[(0.02, 1)])
    assert betz.Decoder(**bank).fit(whole[some]).model_ == betz.Decoder(**bank).fit(data.select(some)).model_


def test_warnings_of_the_training_are_python_s(monkeypatch):
    from betz import _decoder

    def train(*given):
        model, training = betz._core.train(*given)
        return model, training | {"warnings": ["expected trials of several steps"]}

    monkeypatch.setattr(_decoder, "train", train)
    with pytest.warns(betz.BetzWarning, match="several steps") as told:
        betz.Decoder(step_seconds=0.005, bank=[(0.02, 1)]).fit(recording(2))
    assert [warning.filename for warning in told] == [__file__]


def test_recordings_are_cross_validated_by_trials():
    whole = recording()
    of = betz.Decoder(step_seconds=0.005, bank=[(0.02, 1)], delay_seconds=0.03)
    scores = cross_val_score(of, whole, cv=5)
    by_hand = [of.fit(whole[train]).score(whole[test]) for train, test in KFold(5).split(range(10))]
    np.testing.assert_array_equal(scores, by_hand)
    assert min(scores) > 0.7
    assert len(cross_val_score(of, whole, cv=ShuffleSplit(2, random_state=0))) == 2
    with pytest.raises(TypeError, match="cross_val_predict: expected X as an array.*got a recording"):
        cross_val_predict(of, whole, cv=5)
    search = GridSearchCV(of, {"ridge": [0.1, 1e6]}, cv=KFold(3)).fit(whole)
    assert search.best_params_ == {"ridge": 0.1} and search.predict(whole).shape[1] == 2


@pytest.mark.parametrize("form", ["events", "counts", "signal", "bare"])
def test_recordings_pickle(form):
    rng = np.random.default_rng(0)
    counts = rng.poisson(1.0, (50, 3))
    more = dict(behavior=rng.normal(size=(50, 2)), behavior_names=["x", "y"], behavior_units=["mm", "mm/s"], meta="{}")
    made = {
        "events": lambda: recording(4),
        "counts": lambda: betz.Recording.from_counts(counts, 0.02, segments=[(0, 20), (30, 50)], **more),
        "signal": lambda: betz.Recording.from_signal(counts - 0.5, 0.02, electrode_um=[(0, 1), (2, 3), (4, 5)], **more),
        "bare": lambda: betz.Recording.from_spikes([1, 5], [0, 2], 0.001, channel_names=["a", "b", "c"]),
    }[form]()
    again = pickle.loads(pickle.dumps(made))
    for name in ("tick_seconds", "ticks", "form", "channel_names", "behavior_names", "behavior_units", "meta"):
        assert getattr(again, name) == getattr(made, name), name
    for name in ("spike_ticks", "spike_channels", "spike_weights", "behavior", "behavior_times", "segments", "electrode_um"):
        one, other = getattr(again, name), getattr(made, name)
        assert (one is None) == (other is None) and (one is None or (one == other).all()), name
    with pytest.raises(ValueError, match="parts: expected"):
        betz.Recording.from_parts({})


def test_outputs_have_names_and_units():
    X, y, trials = reaches()
    model = decoder().fit(X, y, outputs=["vx", "vy"], units=["mm/s", "mm/s"]).model_
    assert (model.output_names, model.output_units) == (["vx", "vy"], ["mm/s", "mm/s"])
    part = decoder(folds=0).set_params(ridge="auto").partial_fit(X, y, outputs=["vx", "vy"])
    assert part.partial_fit(X[:70], y[:70]).model_.output_names == ["vx", "vy"]
    assert decoder().fit(X, y[:, 0], outputs="grip", units="N").model_.output_units == ["N"]
    with pytest.raises(ValueError, match="outputs: expected 2, one per column of y, got 1"):
        decoder().fit(X, y, outputs=["vx"])
    with pytest.raises(TypeError, match=r"outputs: \[0\]: expected a name as text, got 1"):
        decoder().fit(X, y, outputs=[1, 2])
    with pytest.raises(ValueError, match="a recording has names and units of its own"):
        decoder().fit(recording(2), outputs=["a", "b"])


@pytest.mark.parametrize("kind", ["linear", "lift", "experts"])
def test_arrays_score_as_a_recording_does(kind):
    whole = recording(8)
    data = whole.align(0.02)
    parameters = dict(kind=kind, step_seconds=0.02, bank=[(0.04, 1)], folds=3, latents=2, units=16, experts=2)
    from_recording = betz.Decoder(**parameters).fit(whole)
    trials = np.full(data.steps, np.nan)
    for number, (start, stop) in enumerate(data.segments):
        trials[start:stop] = number
    inside = np.isfinite(trials)
    arrays = data.counts()[inside].astype(np.uint8), data.behavior[inside]
    named = dict(outputs=data.output_names, units=data.output_units)
    from_arrays = betz.Decoder(**parameters).fit(*arrays, trials=trials[inside], **named)
    expected = from_recording.score(whole)
    assert from_arrays.score(*arrays, trials=trials[inside]) == pytest.approx(expected, abs=2e-3)
    assert from_arrays.model_.output_names == from_recording.model_.output_names


def test_a_decoder_of_place_steps_as_the_command_line_does():
    rng = np.random.default_rng(3)
    times = np.arange(0, 120, 1 / 30)
    places = np.column_stack([np.sin(times / 2), np.cos(times / 3)]) * 50
    ticks = np.sort(rng.integers(0, 120_000, 4000))
    spikes = dict(behavior=places, behavior_times=times, behavior_names=["x", "y"], behavior_units=["cm", "cm"])
    tracked = betz.Recording.from_spikes(ticks, rng.integers(0, 6, 4000), 1e-3, duration_ticks=120_000, **spikes)
    assert tracked.default_step_seconds() == 0.005
    assert tracked.default_step_seconds("place") == 0.1
    fitted = betz.Decoder("place", folds=2).fit(tracked)
    assert fitted.model_.step_seconds == 0.1
    assert betz.Decoder("place", folds=2, step_seconds=0.2).fit(tracked).model_.step_seconds == 0.2


def test_scores_of_what_was_trained_on_warn():
    X, y, trials = reaches()
    half = trials < 12
    fitted = decoder().fit(X[half], y[half], trials=trials[half])
    with pytest.warns(betz.BetzWarning, match="trained on 100 % of what is scored") as told:
        fitted.score(X[half], y[half], trials=trials[half])
    assert told[0].filename == __file__
    with pytest.warns(betz.BetzWarning, match="trained on about .* % of what is scored"):
        fitted.score(X, y, trials=trials)
    weighted = decoder().fit(X, y, trials=trials, sample_weight=half.astype(float))
    with pytest.warns(betz.BetzWarning, match="trained on 100 % of what is scored"):
        fitted.score(X, y, trials=trials, sample_weight=half.astype(float))
    side = np.where(y[:, 0] > np.median(y[:, 0]), "left", "right")
    classes = betz.ClassDecoder(step_seconds=0.02, bank=[(0.5, 0)]).fit(X[half], side[half], trials=trials[half])
    with pytest.warns(betz.BetzWarning, match="trained on 100 % of what is scored"):
        classes.score(X[half], side[half], trials=trials[half])
    with warnings.catch_warnings():
        warnings.simplefilter("error", betz.BetzWarning)
        fitted.score(X[~half], y[~half], trials=trials[~half])
        fitted.score(X, y, trials=trials, sample_weight=~half)
        weighted.score(X[~half], y[~half], trials=trials[~half])
        classes.score(X[~half], side[~half], trials=trials[~half])
        classes.score(X, side, trials=trials, sample_weight=~half)
    with pytest.raises(ValueError, match="weights: expected 1440, one per step, got 3"):
        fitted.model_.overlap_warning(fitted._dataset(X, y, trials, first=False, rows=1), [1.0, 0.0, 1.0])


def test_artefacts_are_left_out_or_kept():
    X, y, trials = reaches()
    X[700] = 200
    left_out, kept = decoder().fit(X, y, trials=trials), decoder(keep_artefacts=True).fit(X, y, trials=trials)
    assert left_out.model_ != kept.model_
    # Their sums are those of the same steps, and do not mix.
    data = kept._dataset(X, None, trials, first=False, rows=1)
    for fitted in (left_out, kept):
        summed = fitted.sums_.solve(ridge=1.0)
        np.testing.assert_allclose(summed.decode(data), fitted.model_.decode(data), atol=1e-3)
    with pytest.raises(betz.BetzError, match="sum all recordings with keep_artefacts, or none"):
        left_out.sums_.merged(kept.sums_)


def test_signals_and_counts_are_not_mixed_up():
    X, y, trials = reaches()
    counts, signal = decoder().fit(X, y), decoder().fit(X - 0.5, y)
    with pytest.raises(ValueError, match=r"X: expected counts, .* got -?0.5 at \[.*\]; scale X"):
        counts.predict(X - 0.5)
    assert np.isfinite(signal.predict(np.ones_like(X))).all()
