"""pandas, xarray and pynapple: names, trials, units and times come along, in and out."""

import json
import warnings

import numpy as np
import pytest

import betz

rng = np.random.default_rng(0)
COUNTS = rng.poisson(1.0, (120, 3))
MOVED = rng.normal(size=(120, 2))
TRIALS = np.repeat(np.arange(4), 30)


def check(recording):
    assert recording.channel_names == ["a", "b", "c"] and recording.behavior_names == ["x", "y"]
    assert recording.behavior_units == ["mm", "mm/s"] and recording.tick_seconds == 0.02
    assert recording.segments.tolist() == [[0, 30], [30, 60], [60, 90], [90, 120]]
    np.testing.assert_array_equal(recording.align().counts(), COUNTS)
    np.testing.assert_allclose(recording.behavior, MOVED.astype(np.float32))


def test_pandas():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    index = pandas.MultiIndex.from_arrays([TRIALS, np.arange(120) * 0.02], names=["trial", "time"])
    counts = pandas.DataFrame(COUNTS, index=index, columns=list("abc"))
    moved = pandas.DataFrame(MOVED, index=index, columns=list("xy"))
    moved.attrs["units"] = {"x": "mm", "y": "mm/s"}
    recording = betz.Recording.from_pandas(counts, 0.02, behavior=moved)
    check(recording)
    back, behavior = recording.align().to_pandas()
    pandas.testing.assert_frame_equal(back.astype(counts.dtypes.iloc[0]), counts)
    pandas.testing.assert_frame_equal(behavior, moved.astype(np.float32))
    assert behavior.attrs == moved.attrs
    check(betz.Recording.from_pandas(back.astype(int), 0.02, behavior=behavior))
    decoder = betz.Decoder(step_seconds=0.02, bank="single").fit(counts, moved)
    model = decoder.model_
    assert (model.channel_names, model.output_names, model.output_units) == (list("abc"), ["x", "y"], ["mm", "mm/s"])
    assert model == betz.Decoder(step_seconds=0.02, bank="single").fit(recording).model_
    np.testing.assert_array_equal(decoder.predict(counts), model.decode(recording).astype(float))
    series = betz.Decoder().fit(counts, moved["y"])
    assert series.model_.output_names == ["y"] and series.predict(counts).ndim == 1
    with pytest.raises(TypeError, match="X: expected numbers, got times"):
        betz.Decoder().fit(counts.assign(c=pandas.Timestamp("2020-01-01")), moved)


def test_xarray():
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    time = {"time": np.arange(120) * 0.02, "trial": ("time", TRIALS)}
    counts = xarray.DataArray(COUNTS, dims=("time", "channel"), coords=time | {"channel": list("abc")})
    moved = xarray.DataArray(MOVED, dims=("time", "output"), coords=time | {"output": list("xy")}, attrs={"units": ["mm", "mm/s"]})
    recording = betz.Recording.from_xarray(counts, behavior=moved)
    check(recording)
    back = recording.align().to_xarray()
    np.testing.assert_array_equal(back["counts"], COUNTS)
    assert back["trial"].values.tolist() == TRIALS.tolist() and back["behavior"].attrs["units"] == {"x": "mm", "y": "mm/s"}
    check(betz.Recording.from_xarray(back["counts"].astype(int), behavior=back["behavior"]))
    decoder = betz.Decoder(step_seconds=0.02, bank="single").fit(counts, moved)
    assert decoder.model_ == betz.Decoder(step_seconds=0.02, bank="single").fit(recording).model_
    estimates = decoder.predict(counts)
    assert estimates.dims == ("time", "output") and estimates["output"].values.tolist() == ["x", "y"]
    assert estimates["trial"].values.tolist() == TRIALS.tolist()
    one = betz.Decoder().fit(counts, moved[:, 0].drop_vars("output").rename("grip"))
    assert one.predict(counts).name == "grip" and one.predict(counts).dims == ("time",)
    uneven = counts.assign_coords(time=np.arange(120) ** 2)
    with pytest.raises(ValueError, match="step_seconds: expected seconds, because the times of 'time' are not evenly spaced"):
        betz.Recording.from_xarray(uneven)


def test_masks_and_restrictions():
    recording = betz.Recording.from_counts(COUNTS, 0.02, behavior=MOVED, segments=[(0, 30), (30, 60), (60, 90), (90, 120)])
    masked = recording.mask([(1.0, 1.1), (0.3, 0.9), (2.39, 9.0)])
    assert masked.segments.tolist() == [[0, 15], [45, 50], [55, 60], [60, 90], [90, 119]]
    assert recording.restrict([(0.3, 0.9)]).segments.tolist() == [[15, 30], [30, 45]]
    assert recording.restrict([(0.29, 0.35)]).segments.tolist() == [[15, 17]]
    assert recording.mask(np.empty((0, 2))).segments.tolist() == recording.segments.tolist()
    # Nothing outside is read: wrong values there change nothing.
    wrong = COUNTS.copy()
    wrong[15:45] += 50
    parameters = dict(step_seconds=0.02, bank="single", folds=0)
    other = betz.Recording.from_counts(wrong, 0.02, behavior=MOVED, segments=recording.segments)
    assert betz.Decoder(**parameters).fit(recording.mask([(0.3, 0.9)])).model_ == betz.Decoder(**parameters).fit(other.mask([(0.3, 0.9)])).model_


def test_pynapple_masks_and_conditions():
    nap = pytest.importorskip("pynapple", reason="pynapple is not installed")
    units = nap.TsGroup({k: nap.Ts(np.sort(rng.random(80) * 10)) for k in range(3)}, time_support=nap.IntervalSet(0, 10))
    left, right = nap.IntervalSet([0, 4], [1, 5]), nap.IntervalSet([2, 6], [3, 7])
    recording = betz.Recording.from_pynapple(units, trials={"left": left, "right": right})
    assert (recording.segments * recording.tick_seconds).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert json.loads(recording.meta) == {"conditions": ["left", "right", "left", "right"]}
    assert len(betz.Recording.from_pynapple(units, trials=[left, right])) == 4
    lost = nap.IntervalSet([0.5, 8], [2.5, 9])
    masked = betz.Recording.from_pynapple(units, trials={"left": left, "right": right}, mask=lost)
    assert (masked.segments * masked.tick_seconds).round(4).tolist() == [[0, 0.5], [2.5, 3], [4, 5], [6, 7]]
    assert (recording.mask(lost).segments == masked.segments).all()
    whole = betz.Recording.from_pynapple(units, mask=lost)
    assert (whole.segments * whole.tick_seconds).round(4).tolist() == [[0, 0.5], [2.5, 8], [9, 10]]
    with pytest.raises(ValueError, match="trials: expected trials that do not overlap, got 0.0 to 1.0 s and 0.5 to 3.0 s"):
        betz.Recording.from_pynapple(units, trials=[left, nap.IntervalSet(0.5, 3)])


def test_neo_epochs_are_trials():
    neo = pytest.importorskip("neo", reason="neo is not installed")
    import quantities as pq

    segment = neo.Segment()
    segment.spiketrains.append(neo.SpikeTrain(np.sort(rng.random(50) * 10) * pq.s, t_start=0 * pq.s, t_stop=10 * pq.s))
    segment.epochs.append(neo.Epoch([1, 5] * pq.s, [1000, 2000] * pq.ms, labels=["left", "right"], name="reach"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recording = betz.Recording.from_neo(segment, trials="reach")
    assert (recording.segments * recording.tick_seconds).tolist() == [[1, 2], [5, 7]]
    assert json.loads(recording.meta) == {"conditions": ["left", "right"]}
    with pytest.raises(ValueError, match="one of 'reach', got 'rest'"):
        betz.Recording.from_neo(segment, trials="rest")
