"""Pictures show what they are asked for."""

import numpy as np
import pytest

import betz

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def made():
    train, test = betz.simulate.population(neurons=30, train_seconds=20, test_seconds=4, seed=1)
    decoder = betz.Decoder(step_seconds=0.005, bank=[(0.02, 1)], delay_seconds=0.03).fit(train)
    return train, test, decoder


def test_raster(made):
    train, *_ = made
    ax = betz.plot.raster(train, channels=[3, "u5"], seconds=(1.0, 3.0))
    marks = [collection.get_positions() for collection in ax.collections]
    for row, channel in zip(marks, (3, 5)):
        times = train.spike_ticks[train.spike_channels == channel] * train.tick_seconds
        np.testing.assert_allclose(sorted(row), times[(times >= 1) & (times < 3)])
    assert ax.get_xlim() == (1.0, 3.0)
    assert "10 of 30 channels" in betz.plot.raster(train, most=10, ax=pyplot.figure().gca()).get_title(loc="right")
    trials = train.with_trials([(0, train.ticks // 4), (train.ticks // 2, train.ticks)])
    shaded = betz.plot.raster(trials, seconds=(0, 20), ax=pyplot.figure().gca()).patches
    assert len(shaded) == 1 and shaded[0].get_x() == pytest.approx(5.0)
    for wrong, message in [(dict(channels=["no"]), "expected names"), (dict(channels=[99]), "from 0 to 29"), (dict(seconds=(2, 1)), "start before")]:
        with pytest.raises(ValueError, match=message):
            betz.plot.raster(train, **wrong)
    with pytest.raises(TypeError, match="expected a betz.Recording, got ndarray"):
        betz.plot.raster(np.zeros((3, 3)))


def test_tuning_and_psth(made):
    train, *_ = made
    ax = betz.plot.tuning(train, "direction", derivative=True)
    assert len(ax.lines) == 4 and "4 of 30 channels" in ax.get_title(loc="right")
    found = betz.look.tuning(train, "x", channels=[7])
    line = betz.plot.tuning(train, "x", channels=[7], ax=pyplot.figure().gca()).lines[0]
    np.testing.assert_array_equal(line.get_ydata(), found["rate_hz"][0])
    assert betz.plot.tuning(train, ["x", "y"], channels=[7], ax=pyplot.figure().gca()).collections
    trials = train.with_trials([(k * train.ticks // 10, (k + 1) * train.ticks // 10) for k in range(10)])
    assert len(betz.plot.psth(trials, channels=[0, 1], ax=pyplot.figure().gca()).lines) == 3


def test_decoded_is_drawn_at_the_time_it_is_of(made):
    _, test, decoder = made
    ax = betz.plot.decoded(decoder, test, output="y", seconds=(0.5, 2.0))
    true, estimate = (line.get_xydata() for line in ax.lines)
    data = test.align(0.005)
    np.testing.assert_allclose(true[:, 1][: data.steps], data.behavior[:, 1])
    delay = decoder.model_.delay_steps
    np.testing.assert_allclose(estimate[:, 0], (np.arange(data.steps) - delay) * 0.005)
    score = next(row["r2"] for row in decoder.model_.score(data)[0] if row["name"] == "y")
    assert ax.get_title() == f"R² {score:.3f}"
    betz.plot.decoded(decoder.model_, data, ax=pyplot.figure().gca())
    with pytest.raises(ValueError, match="output: expected one of x, y"):
        betz.plot.decoded(decoder, test, output="z")


def test_weights(made):
    *_, decoder = made
    image = betz.plot.weights(decoder, output="y").images[0]
    np.testing.assert_array_equal(np.asarray(image.get_array())[:, 0], decoder.model_.weights[:, 1])
    with pytest.raises(ValueError, match="from 0 to 1"):
        betz.plot.weights(decoder, output=2)


def test_an_episode_is_marked_as_often_as_it_is_counted():
    culture, _ = betz.simulate.chains(seconds=10, seed=1)
    mined = betz.mine(culture, delays=[(0.004, 0.006)], threshold=60)
    for found in mined.episodes[::7] + [max(mined.maximal, key=len)]:
        assert len(betz.plot.occurrences(culture, found)) == found.count
    longest = max(mined.maximal, key=len)
    ax = betz.plot.episode(culture, longest)
    assert len([line for line in ax.lines if len(line.get_xdata()) == len(longest)]) == 6
    assert f"{longest.count} occurrences" in ax.get_title()


def test_network():
    t = np.arange(600)[:, None]
    signal = np.hstack([np.sin(t / 40 + np.zeros(3)), np.cos(t / 13 + np.zeros(3))])
    net = betz.network(signal + np.random.default_rng(0).normal(0, 0.1, signal.shape), window=200, step=50, threshold=0.8)
    ax = betz.plot.network(net, 2)
    assert len(ax.lines) == int(net.indptr[3] - net.indptr[2]) and "2 communities" in ax.get_title()
    with pytest.raises(ValueError, match="from 0 to 8"):
        betz.plot.network(net, 9)
