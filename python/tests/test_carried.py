"""Conditions, units, times, trials and labels of other packages' objects are used, or refused by name."""

import json
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import betz

rng = np.random.default_rng(5)
COUNTS = rng.poisson(1.0, (120, 3))
MOVED = rng.normal(size=(120, 2))


def same(one, other):
    for name in ("spike_ticks", "spike_channels", "behavior", "segments"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    assert (one.ticks, one.tick_seconds, one.channel_names, one.meta) == (other.ticks, other.tick_seconds, other.channel_names, other.meta)


def test_conditions_stay_beside_behaviour():
    nap = pytest.importorskip("pynapple", reason="pynapple is not installed")
    units = nap.TsGroup({k: nap.Ts(np.sort(rng.random(80) * 10)) for k in range(3)}, time_support=nap.IntervalSet(0, 10))
    moved = nap.TsdFrame(t=np.arange(0, 10, 0.01), d=rng.normal(size=(1000, 2)), columns=["x", "y"])
    trials = {"left": nap.IntervalSet([0, 4], [1, 5]), "right": nap.IntervalSet(2, 3)}
    recording = betz.Recording.from_pynapple(units, behavior=moved, trials=trials)
    assert json.loads(recording.meta) == {"conditions": ["left", "right", "left"]}
    assert recording.behavior_names == ["x", "y"]
    tensor = nap.TsdTensor(t=np.arange(0, 10, 0.01), d=rng.normal(size=(1000, 2, 2)))
    assert betz.Recording.from_pynapple(units, behavior=tensor).behavior_names == [f"behavior{k}" for k in range(4)]


def test_trials_beyond_what_was_recorded_are_cut():
    nap = pytest.importorskip("pynapple", reason="pynapple is not installed")
    support = nap.IntervalSet([0, 6], [4, 10])
    units = nap.TsGroup({k: nap.Ts(np.sort(rng.random(80) * 4)) for k in range(2)}, time_support=support)
    with pytest.warns(betz.BetzWarning, match="trials: 2 s lie outside the time support of units"):
        recording = betz.Recording.from_pynapple(units, trials=nap.IntervalSet([1, 8], [7, 9]))
    assert (recording.segments * recording.tick_seconds).tolist() == [[1, 4], [6, 7], [8, 9]]
    with pytest.raises(ValueError, match="trials: expected some inside the time support of units, got none"):
        betz.Recording.from_pynapple(units, trials=nap.IntervalSet(4.5, 5.5))


def test_a_support_of_the_spikes_themselves_cuts_nothing():
    nap = pytest.importorskip("pynapple", reason="pynapple is not installed")
    units = nap.TsGroup({0: nap.Ts(np.array([1.0, 2.0, 8.0])), 1: nap.Ts(np.array([0.5, 7.0]))})
    recording = betz.Recording.from_pynapple(units, trials=nap.IntervalSet([0, 5], [4, 10]))
    assert (recording.segments * recording.tick_seconds).tolist() == [[0, 4], [5, 10]]


@pytest.fixture
def neo():
    return pytest.importorskip("neo", reason="neo is not installed")


def segment(neo, trains, start=0.0, stop=10.0, signals=()):
    """A segment of (name, times) and of (name, signal)."""
    import quantities as pq

    made = neo.Segment()
    for name, times in trains:
        made.spiketrains.append(neo.SpikeTrain(np.asarray(times) * pq.s, t_start=start * pq.s, t_stop=stop * pq.s, name=name))
    made.analogsignals.extend(signals)
    return made


def block(neo, *segments):
    made = neo.Block()
    made.segments.extend(segments)
    return made


def test_neo_matches_units_by_name(neo):
    one = segment(neo, [("a", [1.0]), ("b", [2.0, 3.0])])
    other = segment(neo, [("b", [12.0]), ("a", [13.0, 14.0, 15.0])], 10.0, 20.0)
    recording = betz.Recording.from_neo(block(neo, one, other))
    assert recording.channel_names == ["a", "b"]
    assert (recording.spike_ticks[recording.spike_channels == 0] * recording.tick_seconds).tolist() == [1, 13, 14, 15]
    lacks = segment(neo, [("b", [12.0])], 10.0, 20.0)
    with pytest.raises(ValueError, match="a spike train 'a' in the first that segment 1 lacks"):
        betz.Recording.from_neo(block(neo, one, lacks))
    twice = segment(neo, [("b", [12.0]), ("b", [13.0])], 10.0, 20.0)
    with pytest.raises(ValueError, match="segment 1: expected one spike train per unit, got several named 'b'"):
        betz.Recording.from_neo(block(neo, one, twice))
    unnamed = segment(neo, [(None, [1.0]), (None, [2.0])])
    later = segment(neo, [(None, [11.0]), (None, [12.0])], 10.0, 20.0)
    assert betz.Recording.from_neo(block(neo, unnamed, later)).channel_names == ["0", "1"]
    with pytest.raises(ValueError, match="neither name nor id"):
        betz.Recording.from_neo(block(neo, unnamed, segment(neo, [("a", [11.0]), (None, [12.0])], 10.0, 20.0)))


def test_neo_signals_are_of_the_same_times_and_units(neo):
    import quantities as pq

    def signal(name, start, unit="mm", scale=1.0, columns=1):
        values = np.full((1000, columns), scale)
        return neo.AnalogSignal(values, units=unit, sampling_rate=100 * pq.Hz, t_start=start * pq.s, name=name)

    # 15 ms apart at 1,500 s: one in a hundred thousand.
    late = segment(neo, [("a", [1501.0])], 1500.0, 1511.0, [signal("hand", 1500.0), signal("eye", 1500.015)])
    with pytest.raises(ValueError, match="'hand' and 'eye' to be sampled at the same times, got some that are 0.015 s apart"):
        betz.Recording.from_neo(late, behavior=["hand", "eye"])
    one = segment(neo, [("a", [1.0])], 0.0, 10.0, [signal("hand", 0.0, "mm", 10.0)])
    other = segment(neo, [("a", [11.0])], 10.0, 20.0, [signal("hand", 10.0, "cm", 1.0)])
    recording = betz.Recording.from_neo(block(neo, one, other), behavior="hand")
    assert recording.behavior_units == ["mm"] and (recording.behavior == 10).all()
    volts = segment(neo, [("a", [11.0])], 10.0, 20.0, [signal("hand", 10.0, "V")])
    with pytest.raises(ValueError, match="segment 1: expected 'hand' in mm, as in the first, got V"):
        betz.Recording.from_neo(block(neo, one, volts), behavior="hand")
    wide = segment(neo, [("a", [11.0])], 10.0, 20.0, [signal("hand", 10.0, columns=2)])
    with pytest.raises(ValueError, match="segment 1: expected 1 columns of 'hand'"):
        betz.Recording.from_neo(block(neo, one, wide), behavior="hand")


def test_neo_trials_keep_their_labels_beside_behaviour(neo):
    import quantities as pq

    hand = neo.AnalogSignal(np.zeros((1000, 1)), units="mm", sampling_rate=100 * pq.Hz, name="hand")
    made = segment(neo, [("a", [1.0, 5.0])], signals=[hand])
    made.epochs.append(neo.Epoch([1, 5] * pq.s, [1, 2] * pq.s, labels=["left", "right"], name="reach"))
    recording = betz.Recording.from_neo(made, behavior="hand", trials="reach")
    assert json.loads(recording.meta) == {"conditions": ["left", "right"]}


def test_trials_of_two_sessions_are_told_apart():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    session, trial = np.repeat([0, 1], 60), np.r_[np.repeat([1, 0], 30), np.repeat([0, 1], 30)]
    index = pandas.MultiIndex.from_arrays([session, trial, np.tile(np.arange(30) * 0.02, 4)], names=["session", "trial", "time"])
    counts = pandas.DataFrame(COUNTS, index=index)
    four = [[0, 30], [30, 60], [60, 90], [90, 120]]
    assert betz.Recording.from_pandas(counts, 0.02).segments.tolist() == four
    # The level before has no name where frames were concatenated with keys.
    unnamed = counts.rename_axis([None, "trial", "time"])
    assert betz.Recording.from_pandas(unnamed, 0.02).segments.tolist() == four
    with warnings.catch_warnings():
        warnings.simplefilter("error", betz.BetzWarning)
        decoder = betz.Decoder(step_seconds=0.02, bank="single").fit(counts, MOVED)
    apart = np.repeat([1, 2, 3, 4], 30)
    assert decoder.model_ == betz.Decoder(step_seconds=0.02, bank="single").fit(COUNTS, MOVED, trials=apart).model_
    # Time before the trial is no session.
    turned = counts.reorder_levels(["time", "trial", "session"])
    assert betz.Recording.from_pandas(turned, 0.02).segments.tolist() == four


def test_trials_of_two_sessions_of_xarray():
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    trial = np.r_[np.repeat([1, 0], 30), np.repeat([0, 1], 30)]
    coords = {"trial": ("time", trial), "session": ("time", np.repeat(["a", "b"], 60))}
    counts = xarray.DataArray(COUNTS, dims=("time", "channel"), coords=coords)
    assert betz.Recording.from_xarray(counts, 0.02).segments.tolist() == [[0, 30], [30, 60], [60, 90], [90, 120]]


@pytest.mark.parametrize("missing", [np.nan, None, "NA"])
def test_rows_without_a_trial_are_in_none(missing):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    labels = np.repeat(np.arange(4), 30).astype(object)
    labels[25:40] = pandas.NA if missing == "NA" else missing
    counts = pandas.DataFrame(COUNTS, index=pandas.Index(labels, name="trial"))
    with pytest.warns(betz.BetzWarning, match="trials: 15 of 120 rows have no label"):
        recording = betz.Recording.from_pandas(counts, 0.02)
    assert recording.segments.tolist() == [[0, 25], [40, 60], [60, 90], [90, 120]]
    with pytest.warns(betz.BetzWarning, match="15 of 120 rows have no label"):
        decoder = betz.Decoder(step_seconds=0.02, bank="single").fit(counts, MOVED)
        assert np.isnan(decoder.predict(counts)[25:40]).all()
    with pytest.raises(ValueError, match="expected a label for at least one row"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        betz.Recording.from_pandas(counts[25:40], 0.02)


def test_gaps_of_time_are_no_steps():
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    rows = np.r_[0:50, 80:150]
    counts = xarray.DataArray(COUNTS, dims=("time", "channel"), coords={"time": rows * 0.02, "channel": list("abc")})
    moved = xarray.DataArray(MOVED, dims=("time", "output"), coords={"time": rows * 0.02})
    recording = betz.Recording.from_xarray(counts, behavior=moved)
    assert recording.segments.tolist() == [[0, 50], [80, 150]] and recording.ticks == 150
    data = recording.align()
    np.testing.assert_array_equal(data.counts()[rows], COUNTS)
    np.testing.assert_allclose(data.behavior[rows], MOVED.astype(np.float32), rtol=1e-6)
    # As pandas and in milliseconds; stamps that tremble are no gaps.
    frame = betz.Recording.from_pandas(counts.to_pandas(), 0.02, behavior=moved.assign_coords(output=["output0", "output1"]).to_pandas())
    same(frame, recording)
    trembling = counts.assign_coords(time=rows * 20.0 + rng.normal(0, 1, 120))
    np.testing.assert_array_equal(betz.Recording.from_xarray(trembling, 0.02).segments, recording.segments)
    milliseconds = counts.assign_coords(time=("time", rows * 20, {"units": "ms"}))
    assert betz.Recording.from_xarray(milliseconds).tick_seconds == 0.02
    odd = counts.assign_coords(time=("time", rows * 20, {"units": "jiffies"}))
    with pytest.raises(ValueError, match="step_seconds: expected seconds, because the unit of the times of 'time' is not known"):
        betz.Recording.from_xarray(odd)
    back = counts.assign_coords(time=np.r_[0:60, 0:60] * 0.02)
    with pytest.raises(ValueError, match="expected times that ascend in a trial, got 1.18 in row 59 and 0 in the next"):
        betz.Recording.from_xarray(back)
    # From trial to trial they may begin anew.
    anew = back.assign_coords(trial=("time", np.repeat([0, 1], 60)))
    assert betz.Recording.from_xarray(anew).segments.tolist() == [[0, 60], [60, 120]]


def test_behaviour_of_other_times_is_refused():
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    counts = xarray.DataArray(COUNTS, dims=("time", "channel"), coords={"time": np.arange(120) * 0.02})
    moved = xarray.DataArray(MOVED, dims=("time", "output"), coords={"time": np.arange(120) * 0.02 + 0.1})
    with pytest.raises(ValueError, match="behavior: expected the times of counts, got 0.1 beside 0 in row 0"):
        betz.Recording.from_xarray(counts, behavior=moved)


def test_transposed_arrays_are_turned():
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    counts = xarray.DataArray(COUNTS, dims=("time", "channel"), coords={"time": np.arange(120) * 0.02, "channel": list("abc")})
    moved = xarray.DataArray(MOVED, dims=("time", "output"), coords={"output": list("xy")})
    expected = betz.Recording.from_xarray(counts, behavior=moved)
    assert expected.channel_names == ["a", "b", "c"]
    same(betz.Recording.from_xarray(counts.T, behavior=moved.T), expected)
    decoder = betz.Decoder(step_seconds=0.02, bank="single").fit(counts, moved)
    turned = betz.Decoder(step_seconds=0.02, bank="single").fit(counts.T, moved.T)
    assert decoder.model_ == turned.model_
    xarray.testing.assert_equal(decoder.predict(counts.T), decoder.predict(counts))
    square = xarray.DataArray(np.eye(4), dims=("trial", "time"))
    with pytest.raises(ValueError, match=r"expected a row per time .* got the dimensions \('trial', 'time'\)"):
        betz.Recording.from_xarray(square, 0.02)


def test_each_trial_is_taken_once():
    recording = betz.Recording.from_counts(COUNTS, 0.02, segments=[(0, 30), (30, 60), (60, 90), (90, 120)])
    assert recording[[2, 0]].segments.tolist() == [[0, 30], [60, 90]]
    assert recording[-1].segments.tolist() == [[90, 120]] and len(recording[np.array([True, False, True, False])]) == 2
    with pytest.raises(ValueError, match="trials: expected each trial at most once, got trial 0 twice"):
        recording[[0, 0, 2]]
    with pytest.raises(IndexError):
        recording[[4]]


def test_a_pipeline_that_drops_trials_is_refused():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    trials = np.repeat(np.arange(4), 30)
    counts = pandas.DataFrame(COUNTS, index=pandas.Index(trials, name="trial"), columns=list("abc"))
    decoder = betz.Decoder(step_seconds=0.02, bank="single")
    with pytest.raises(ValueError, match=r"step of the pipeline before the decoder dropped; .* pipeline.set_output\(transform=\"pandas\"\)"):
        make_pipeline(StandardScaler(), decoder).fit(counts, MOVED)
    keeps = make_pipeline(StandardScaler(), decoder).set_output(transform="pandas").fit(counts, MOVED)
    by_hand = betz.Decoder(step_seconds=0.02, bank="single").fit(StandardScaler().fit_transform(counts), MOVED, trials=trials)
    np.testing.assert_array_equal(keeps.predict(counts), by_hand.predict(StandardScaler().fit_transform(counts), trials=trials))
    # y's index has them, too.
    moved = pandas.DataFrame(MOVED, index=counts.index)
    of_y = betz.Decoder(step_seconds=0.02, bank="single").fit(COUNTS, moved)
    assert of_y.model_.training_steps == betz.Decoder(step_seconds=0.02, bank="single").fit(COUNTS, MOVED, trials=trials).model_.training_steps
    np.testing.assert_array_equal(of_y.model_.weights, betz.Decoder(step_seconds=0.02, bank="single").fit(COUNTS, MOVED, trials=trials).model_.weights)


def test_nullable_columns():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    plain = pandas.DataFrame(COUNTS, columns=list("abc"))
    nullable = plain.astype("Int64")
    same(betz.Recording.from_pandas(nullable, 0.02), betz.Recording.from_pandas(plain, 0.02))
    moved = pandas.DataFrame(MOVED, columns=list("xy"))
    model = betz.Decoder(step_seconds=0.02, bank="single").fit(plain, moved).model_
    assert betz.Decoder(step_seconds=0.02, bank="single").fit(nullable, moved.astype("Float64")).model_ == model
    series = betz.Decoder().fit(nullable, moved["y"].astype("Float64"))
    assert series.model_.output_names == ["y"] and series.predict(nullable).ndim == 1
    nullable.loc[7, "b"] = pandas.NA
    with pytest.raises(betz.BetzError, match=r"counts: \[7, 1\] = NaN"):
        betz.Recording.from_pandas(nullable, 0.02)


def test_polars():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    counts = polars.DataFrame({name: COUNTS[:, k] for k, name in enumerate("abc")})
    moved = polars.DataFrame({name: MOVED[:, k] for k, name in enumerate("xy")})
    recording = betz.Recording.from_pandas(counts, 0.02, behavior=moved)
    assert (recording.channel_names, recording.behavior_names) == (["a", "b", "c"], ["x", "y"])
    np.testing.assert_array_equal(recording.align().counts(), COUNTS)
    decoder = betz.Decoder(step_seconds=0.02, bank="single").fit(counts, moved)
    assert (decoder.model_.channel_names, decoder.model_.output_names) == (["a", "b", "c"], ["x", "y"])
    assert decoder.model_ == betz.Decoder(step_seconds=0.02, bank="single").fit(recording).model_
    assert decoder.predict(counts).shape == (120, 2)


def test_networks_pickle():
    signal = rng.normal(size=(400, 5))
    network = betz.network(signal, window=100, step=50, threshold=0.05)
    again = pickle.loads(pickle.dumps(network))
    assert len(again) == len(network) and (again.nodes, again.undefined) == (network.nodes, network.undefined)
    for name in ("window_start", "indptr", "i", "j", "r"):
        np.testing.assert_array_equal(getattr(again, name), getattr(network, name), name)
    constant = betz.network(np.c_[signal, np.ones(400)], window=100, step=50, top=3, measure="lagged", lags=5)
    assert pickle.loads(pickle.dumps(constant)).undefined == constant.undefined
    with pytest.raises(betz.BetzError, match="shard of a network"):
        betz.Network.from_bytes(b"BETZNETP")


def test_coherence_of_networks():
    signal = rng.normal(size=(400, 5)) + 0.7 * rng.normal(size=(400, 1))
    asked = dict(window=200, step=100, threshold=0.0, measure="coherence", segment=50)
    band = betz.network(signal, frequencies=(0.1, 0.2), **asked)
    peak = betz.network(signal, peak=True, **asked)
    assert len(band) == 3 and len(band.r) == 30
    assert (peak.r >= betz.network(signal, **asked).r).all()
    again = pickle.loads(pickle.dumps(band))
    np.testing.assert_array_equal(again.r, band.r)
    coherence = pytest.importorskip("scipy.signal").coherence
    f, values = coherence(signal[:200, 0], signal[:200, 1], nperseg=50)
    inside = (f >= 0.1 - 1e-9) & (f <= 0.2 + 1e-9)
    np.testing.assert_allclose(band.r[0], values[inside].mean(), atol=1e-6)
    np.testing.assert_allclose(peak.r[0], values[1:].max(), atol=1e-6)


def test_without_numpy_the_import_says_so():
    program = "import sys; sys.modules['numpy'] = None\nimport betz"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 1 and "ImportError: betz: expected NumPy" in ended.stderr and "Panic" not in ended.stderr


def test_small_units_train_as_large_ones_do():
    X = rng.normal(size=(400, 5))
    y = X[:, :2] @ [[1.0, 0.5], [-0.3, 1.0]] + 0.1 * rng.normal(size=(400, 2))
    expected = betz.Decoder().fit(X, y).predict(X)
    for scale in (1e-9, 1e-6, 1e6):
        decoder = betz.Decoder().fit(X * scale, y)
        np.testing.assert_allclose(decoder.predict(X * scale), expected, atol=1e-4)
        # Exact sums of any unit merge.
        twice = betz.Decoder().partial_fit(X[:200] * scale, y[:200]).partial_fit(X[200:] * scale, y[200:])
        np.testing.assert_allclose(twice.predict(X * scale), betz.Decoder().partial_fit(X, y).predict(X), atol=1e-3)


def test_angles_become_cosine_and_sine(tmp_path):
    turning = np.cumsum(np.full(400, 0.1)) % (2 * np.pi)
    recording = betz.Recording.from_counts(
        rng.poisson(1, (400, 3)), 0.02, behavior=np.c_[turning, np.arange(400)], behavior_names=["head", "x"], behavior_units=["rad", "mm"]
    )
    recording.save(tmp_path / "turning.npz")
    recording.to_nwb(tmp_path / "turning.nwb", start="2020-10-19T13:00:00-05:00")
    for read, path in ((betz.Recording.from_npz, "turning.npz"), (betz.Recording.from_nwb, "turning.nwb")):
        with pytest.warns(betz.BetzWarning, match=r"head \(6 times\).*angles=\[NAME\] takes cosine and sine") as told:
            read(tmp_path / path)
        assert not any("--" in str(warning.message) for warning in told)
        with pytest.warns(betz.BetzWarning, match="head: taken as an angle"):
            whole = read(tmp_path / path, angles="head")
        assert whole.behavior_names == ["head_cos", "head_sin", "x"]
        np.testing.assert_allclose(whole.behavior[:, 0], np.cos(turning), atol=1e-6)
        with pytest.raises(betz.BetzError, match="angle: expected one of .*got 'tail'"):
            read(tmp_path / path, angles=["tail"])


def test_voltage_is_no_recording_of_spikes(tmp_path):
    (tmp_path / "run_g0_t0.imec0.ap.meta").write_text("typeThis=imec\nnSavedChans=3\nsnsApLfSy=2,0,1\nimSampRate=30000\nimAiRangeMax=0.6\n")
    (tmp_path / "run_g0_t0.imec0.ap.bin").write_bytes(bytes(600))
    with pytest.raises(betz.BetzError, match=r"got one of voltage, with the streams \[imec0.ap \(ap\), imec0.ap-SYNC \(sync\)\]"):
        betz.Recording.from_npz(tmp_path / "run_g0_t0.imec0.ap.bin")


def test_messages_speak_python():
    decoder = betz.Decoder(step_seconds=0.02, bank="single", noise=0.1).fit(COUNTS, MOVED)
    session = decoder.session()
    for take in (session.classes, session.unlike):
        with pytest.raises(betz.BetzError) as error:
            take()
        assert "--" not in str(error.value), error.value
