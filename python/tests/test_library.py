"""Recordings, models and sessions: what Python gives is what the library gives."""

import pickle
import threading

import numpy as np
import pytest

import betz


def made(seconds=20.0, seed=1):
    """A population that follows a movement: the first nine tenths to train on, the rest to test."""
    train, test = betz.simulate.population(neurons=30, train_seconds=seconds, test_seconds=seconds / 10, seed=seed)
    return train, test


def test_a_session_gives_what_decoding_gives():
    train, test = made()
    decoder = betz.Decoder(step_seconds=0.005, bank=[(0.02, 1)], delay_seconds=0.03).fit(train)
    data = test.align(0.005)
    decoded = decoder.model_.decode(data)
    session, out = decoder.session(), np.empty(2, np.float32)
    steps = test.spike_ticks // round(0.005 / test.tick_seconds)
    (start, stop), = data.segments
    for step in range(start, stop):
        session.step_spikes(test.spike_channels[steps == step].copy(), out)
        np.testing.assert_allclose(out, decoded[step], rtol=1e-5, atol=1e-5)
    assert decoder.score(test) > 0.7
    assert session.stats()["ticks"] == stop - start


def test_steps_take_counts_of_any_type_and_refuse_others():
    X = np.random.default_rng(0).poisson(1.0, (300, 3))
    model = betz.Decoder(step_seconds=0.02, bank="single").fit(X, X[:, 0] * 1.0).model_
    sessions = [betz.Session(model) for _ in range(5)]
    for row in X[:20]:
        forms = [row.astype(np.uint8), row.astype(np.uint16), row.astype(np.float32), row, row.tolist()]
        spikes = np.repeat(np.arange(3), row)
        outs = [session.step(form) for session, form in zip(sessions, forms)]
        assert all(out == outs[0] for out in outs), outs
        fresh = betz.Session(model)
        np.testing.assert_allclose(fresh.step_spikes(spikes), betz.Session(model).step(row.astype(np.uint8)), rtol=1e-5)
    session = sessions[0]
    for bad, message in [([1, 2], "expected 3"), ([1, -1, 0], "expected 0 to 65535"), ([np.nan, 0, 0], "NaN")]:
        with pytest.raises(betz.BetzError, match=message):
            session.step(bad)
    with pytest.raises(betz.BetzError, match="channel 3"):
        session.step_spikes(np.array([0, 3], np.uint32))
    with pytest.raises(TypeError, match="uint32"):
        session.step_spikes([0.5])
    with pytest.raises(betz.BetzError, match="output"):
        session.step_spikes([0], np.empty(2, np.float32))
    with pytest.raises(TypeError):
        session.step_spikes([0], np.empty(1))
    assert session.stats()["ticks"] == 20
    assert betz.Session(model, refuse_unknown=False).step_spikes([7]).shape == (1,)


def test_recordings_keep_what_they_are_given(tmp_path):
    recording = betz.Recording.from_spikes(
        np.array([0, 5, 5, 9], np.int32),
        [1, 0, 1, 2],
        0.001,
        duration_ticks=20,
        behavior=np.arange(4.0),
        behavior_times=[0.0, 0.005, 0.01, 0.019],
        behavior_names=["x"],
        behavior_units=["mm"],
        segments=[(0, 10), (10, 20)],
        channel_names=["a", "b", "c"],
        electrode_um=[(0, 0), (1, 2), (float("nan"), 4)],
        meta='{"from": "a test"}',
    )
    path = tmp_path / "made.npz"
    recording.save(path)
    again = betz.Recording.from_npz(path)
    for name in ("ticks", "tick_seconds", "channel_names", "behavior_names", "behavior_units", "meta", "form"):
        assert getattr(recording, name) == getattr(again, name)
    for name in ("spike_ticks", "spike_channels", "behavior", "behavior_times", "segments", "electrode_um"):
        np.testing.assert_array_equal(getattr(recording, name), getattr(again, name))
    assert recording.spike_ticks.tolist() == [0, 5, 5, 9]
    assert recording.segments.tolist() == [[0, 10], [10, 20]]


def test_views_outlive_their_recording_and_cannot_be_written():
    recording = betz.Recording.from_counts(np.eye(50, dtype=np.uint8), 0.1)
    ticks = recording.spike_ticks
    assert ticks.base is not None and not ticks.flags.owndata
    del recording
    assert ticks.tolist() == list(range(50))
    with pytest.raises(ValueError):
        ticks[0] = 1


@pytest.mark.parametrize(
    "make, kind, message",
    [
        (lambda: betz.Recording.from_counts([[0.5]], 0.1), ValueError, "whole numbers from 0"),
        (lambda: betz.Recording.from_counts([[1]], 0.0), betz.BetzError, "step_seconds"),
        (lambda: betz.Recording.from_counts([1, 2], 0.1), ValueError, "two dimensions"),
        (lambda: betz.Recording.from_counts([["a"]], 0.1), TypeError, "expected numbers"),
        (lambda: betz.Recording.from_counts([[1]], 0.1, behaviour=[1]), TypeError, "behaviour"),
        (lambda: betz.Recording.from_counts([[1]], 0.1, channel_names=["a", "b"]), ValueError, "expected 1, one per column, got 2"),
        (lambda: betz.Recording.from_signal([[np.inf]], 0.1), betz.BetzError, "finite"),
        (lambda: betz.Recording.from_spikes([3, 1], [0, 0], 0.1), betz.BetzError, "ascend"),
        (lambda: betz.Recording.from_spikes([1], [-1], 0.1), ValueError, "from 0"),
        (lambda: betz.Recording.from_spikes([0.5], [0], 0.1), TypeError, "whole numbers"),
        (lambda: betz.Recording.from_spikes([1], [2**31], 0.1), ValueError, "from 0"),
        (lambda: betz.Recording.from_npz("nowhere.npz"), OSError, "nowhere.npz"),
        (lambda: betz.Model.from_bytes(b"no model"), betz.BetzError, "model"),
    ],
)
def test_what_breaks_the_schema_is_refused(make, kind, message):
    with pytest.raises(kind, match=message) as refused:
        make()
    if isinstance(refused.value, betz.BetzError):
        assert refused.value.kind


def test_a_model_is_its_file(tmp_path):
    train, _ = made(5.0)
    model = betz.Decoder(step_seconds=0.005, bank="single").fit(train).model_
    path = tmp_path / "made.betz"
    model.save(path)
    assert betz.Model.load(path) == model == pickle.loads(pickle.dumps(model))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(betz.BetzError, match="made.betz"):
        betz.Model.load(path)


def test_an_interrupt_stops_the_work_and_progress_is_told():
    train, _ = made(30.0)
    stages = []

    def stop(stage, done, total):
        stages.append((stage, done, total))
        raise KeyboardInterrupt

    # A search that takes seconds: the first word of its progress ends it.
    with pytest.raises(KeyboardInterrupt):
        betz.Decoder("auto", step_seconds=0.002, progress=stop).fit(train)
    assert len(stages) == 1


@pytest.mark.parametrize("kind", ["linear", "kalman"])
def test_progress_is_one_stage_that_never_goes_back(kind):
    train, _ = made(10.0)
    told = []
    betz.Decoder(kind, step_seconds=0.01, progress=lambda *words: told.append(words)).fit(train)
    assert {stage for stage, _, _ in told} == {"training"} and len({total for _, _, total in told}) == 1
    done = [done for _, done, _ in told]
    assert done == sorted(done) and done[-1] <= told[0][2]


def test_other_threads_go_on_while_it_trains():
    train, _ = made(10.0)
    waiting, trained = threading.Event(), threading.Event()
    seen = []

    # Progress is told by the thread that trains: this one can only answer it while that one lets go of the lock.
    def answer():
        waiting.wait(60)
        seen.append(trained.is_set())

    other = threading.Thread(target=answer)
    other.start()

    def told(stage, done, total):
        waiting.set()
        other.join(60)

    betz.Decoder("auto", step_seconds=0.005, folds=2, latents=1, units=16, experts=2, progress=told).fit(train)
    trained.set()
    other.join()
    assert seen == [False]


def test_messages_name_the_file_and_the_argument(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.npz"):
        betz.Recording.from_npz(tmp_path / "none.npz")
    with pytest.raises(FileNotFoundError, match="none.betz"):
        betz.Model.load(tmp_path / "none.betz")
    X = np.random.default_rng(0).poisson(1.0, (300, 3))
    session = betz.Decoder(step_seconds=0.02, bank="single").fit(X, X[:, 0] * 1.0).session()
    with pytest.raises(TypeError, match="out: expected a float32 array of one dimension, got ndarray of dtype float64"):
        session.step(X[0].astype(np.uint8), np.empty(1))
    options = dict(
        bank="single", ridge=None, noise=None, delay_steps=0, low_pass=None, folds="five",
        kind="linear", latents=None, units=None, experts=None, seed=0, device="cpu", solver="cholesky",
    )
    with pytest.raises(TypeError, match="folds: expected a whole number of at least 0, got 'five'"):
        betz.Sums.over(betz.Recording.from_counts(X, 0.02, behavior=X[:, 0] * 1.0).align(), options)


def test_one_is_one_in_words():
    recording = betz.Recording.from_counts([[1], [0]], 0.02, behavior=[[0.0], [1.0]])
    assert repr(recording) == "<betz.Recording: 1 channel, 1 entry, 0.0 s in 1 segment, 1 output>"
    data = recording.align(0.02)
    assert repr(data) == "<betz.Dataset: 1 channel, 2 steps of 0.02 s in 1 segment, 1 output>"
