"""Files that `betz convert` writes, read with pynwb and pynapple alone: whatever Betz keeps for itself in them is not looked at."""
import numpy
import pytest
from conftest import run

pynwb = pytest.importorskip("pynwb", reason="pynwb is not installed")

STEP = 0.02
BINS = 400


def counts():
    """Counts of three channels, and per bin their sum: the behaviour that belongs to the end of the bin."""
    random = numpy.random.default_rng(7)
    made = random.poisson(0.7, (BINS, 3)).astype("u1")
    return made, made.sum(axis=1, keepdims=True).astype("f4")


def convert(folder, **arrays):
    numpy.savez(folder / "bins.npz", segments=[[0, BINS]], behavior_names=["sum"], **arrays)
    run("convert", folder / "bins.npz", folder / "bins.nwb", "--start", "2020-10-19T13:00:00-05:00")
    return folder / "bins.nwb"


def moments(series):
    return series.starting_time + numpy.arange(len(series.data)) / series.rate


def test_behaviour_of_bins_lies_at_their_ends(tmp_path):
    made, sums = counts()
    path = convert(tmp_path, counts=made, behavior=sums, step_seconds=STEP)
    with pynwb.NWBHDF5IO(path, "r") as file:
        nwb = file.read()
        counted = nwb.processing["ecephys"]["spike_counts"]
        behaviour = nwb.processing["behavior"]["sum"]
        begins, ends = moments(counted), moments(behaviour)
        # The bin that ends at the moment of a sample is the one whose sum it is.
        of = numpy.rint((ends - 1 / counted.rate - begins[0]) * counted.rate).astype(int)
        assert numpy.array_equal(counted.data[:][of].sum(axis=1), behaviour.data[:].ravel())


def test_behaviour_of_ticks_lies_at_their_ends(tmp_path):
    pynapple = pytest.importorskip("pynapple", reason="pynapple is not installed")
    made, sums = counts()
    ticks, channels = (numpy.repeat(axis, made.ravel()) for axis in numpy.indices(made.shape).reshape(2, -1))
    path = convert(tmp_path, spike_ticks=ticks, spike_channels=channels.astype("u2"), behavior=sums,
                   tick_seconds=STEP, channel_names=["a", "b", "c"], ticks=BINS)
    data = pynapple.NWBFile(str(path))
    spikes, behaviour = data["units"], data["sum"]
    ends = behaviour.times()
    edges = numpy.append(ends - STEP, ends[-1]) - 1e-9
    counted = sum(numpy.histogram(unit.times(), edges)[0] for unit in spikes.values())
    assert numpy.array_equal(counted, numpy.asarray(behaviour.values).ravel())
