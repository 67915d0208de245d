"""Arguments of the wrong type: the message names the argument, what is expected, what came, and what to do."""

import datetime

import numpy as np
import pytest

import betz

rng = np.random.default_rng(0)
X = rng.poisson(1.0, (200, 4))
y = X[:, :2] * 1.0
TIMES = np.arange(200).astype("datetime64[s]")
MASKED = np.ma.masked_array(X, X > 1)


class Sparse:
    """The part of a sparse matrix that Betz looks at."""

    shape, dtype = (200, 4), np.dtype(float)

    def toarray(self):
        return X


@pytest.fixture(scope="module")
def decoder():
    return betz.Decoder(step_seconds=0.02, bank="single", folds=0).fit(X, y)


MATRICES = [
    (np.column_stack([TIMES] * 4), r"got .*(datetime64|times).*timedelta64\(1, \"s\"\)"),
    (np.column_stack([TIMES - TIMES[0]] * 4), r"got .*timedelta64.*seconds"),
    (X.astype(str), r"got (ndarray of dtype <U21|text).*\.astype\(float\)"),
    (MASKED, "got .*masked values; fill them, or leave their rows out"),
]


@pytest.mark.parametrize("matrix, message", MATRICES, ids=["times", "durations", "text", "masked"])
def test_numbers_are_numbers_everywhere(decoder, matrix, message):
    for name, take in [
        ("X", lambda m: betz.Decoder().fit(m, y)),
        ("y", lambda m: betz.Decoder().fit(X, m)),
        ("X", decoder.predict),
        ("counts", lambda m: betz.Recording.from_counts(m, 0.02)),
        ("signal", lambda m: betz.Recording.from_signal(m, 0.02)),
        ("behavior", lambda m: betz.Recording.from_counts(X, 0.02, behavior=m)),
        ("signal", lambda m: betz.network(m, window=100, step=100, top=2)),
        ("counts", lambda m: decoder.session().step(m[1])),
    ]:
        with pytest.raises(TypeError, match=f"^{name}: expected numbers, {message}"):
            take(matrix)


def test_sparse_complex_records_and_objects(decoder):
    for matrix, message in [
        (Sparse(), r"got Sparse.*\.toarray\(\)"),
        (X * 1j, r"got ndarray of dtype complex128 and shape \(200, 4\); take its .real"),
        (np.array([[None] * 4] * 3, object), r"dtype object.*\.astype\(float\)"),
        (np.zeros(3, [("a", "f8")]), "one column of it"),
    ]:
        for take in (lambda m: betz.Recording.from_counts(m, 0.02), lambda m: betz.network(m, window=100, top=2)):
            with pytest.raises(TypeError, match=f"expected numbers, .*{message}|expected numbers, {message}"):
                take(matrix)
    with pytest.raises(TypeError, match=r"^y: .*sparse.*toarray"):
        betz.Decoder().fit(X, Sparse())
    with pytest.raises(ValueError, match=r"signal: expected two dimensions, \(samples, nodes\), got ndarray of dtype int64 and shape \(200,\)"):
        betz.network(X[:, 0], window=100, top=2)
    # Other layouts, byte orders and precisions are the same numbers.
    whole = betz.Recording.from_counts(X, 0.02)
    for same in (X.astype(">f8"), X.astype(np.float16), np.asfortranarray(X), X[::-1][::-1], X.tolist(), np.ma.masked_array(X)):
        assert (betz.Recording.from_counts(same, 0.02).spike_ticks == whole.spike_ticks).all()
    assert betz.Recording.from_counts(X > 1, 0.02).spike_weights is None


R = betz.Recording


@pytest.mark.parametrize(
    "take, error, message",
    [
        (lambda: R.from_counts(-X, 0.02), ValueError, r"counts: expected whole numbers from 0 to 65535, got -\d at \[0, \d\]; Recording.from_signal"),
        (lambda: R.from_counts(X, "a"), TypeError, r"step_seconds: expected a number of seconds, got 'a' \(str\)"),
        (lambda: R.from_counts(X, datetime.timedelta(seconds=1)), TypeError, r"step_seconds: .*\.total_seconds\(\)"),
        (lambda: R.from_counts(X, None), TypeError, "step_seconds: .*got None"),
        (lambda: R.from_counts(X, 0.02).align("a"), TypeError, "step_seconds: expected a number of seconds"),
        (lambda: R.from_counts(X, 0.02, behaviour=y), TypeError, "unexpected keyword argument 'behaviour'; expected one of behavior, "),
        (lambda: R.from_counts(X, 0.02, behavior=y, behavior_times=TIMES), TypeError, "behavior_times: .*timedelta64"),
        (lambda: R.from_counts(X, 0.02, behavior=y, behavior_times=[datetime.datetime.now()] * 200), TypeError, "behavior_times: expected numbers"),
        (lambda: R.from_counts(X, 0.02, channel_names=[1, 2, 3, 4]), TypeError, r"channel_names: \[0\]: expected a name as text, got 1 \(int\); str\(\)"),
        (lambda: R.from_counts(X, 0.02, channel_names="abcd"), TypeError, "channel_names: expected a list of names, got 'abcd'"),
        (lambda: R.from_counts(X, 0.02, electrode_um=[(0, 0, 0)] * 4), TypeError, r"electrode_um: expected one \(x, y\)"),
        (lambda: R.from_counts(X, 0.02, meta=3), TypeError, r"meta: expected a text, got 3 \(int\)"),
        (lambda: R.from_counts(X, 0.02, segments=[(0.0, 1.0)]), TypeError, r"segments: expected whole numbers \(n, 2\)"),
        (lambda: R.from_spikes(TIMES, np.zeros(200, int), 0.001), TypeError, "spike_ticks: expected numbers, .*timedelta64"),
        (lambda: R.from_spikes([0.5], [0], 0.001), TypeError, r"spike_ticks: expected whole numbers, got list; numpy.round\(seconds / tick_seconds\)"),
        (lambda: R.from_spikes([1], [0.0], 0.001), TypeError, r"spike_channels: expected whole numbers, got list; .*\.astype\(int\)"),
        (lambda: R.from_spikes([[1, 2]], [0, 0], 0.001), ValueError, "spike_ticks: expected one dimension, got list"),
        (lambda: R.from_spikes(np.array([2**63], np.uint64), [0], 0.001), ValueError, "spike_ticks: expected numbers below 2"),
        (lambda: R.from_spikes([1], [0], 0.001, duration_ticks=-5), ValueError, r"duration_ticks: .*at least 0, got -5"),
        (lambda: R.from_counts(X, 0.02).to_nwb("x.nwb", start=3), TypeError, "start: expected a datetime with its time zone"),
        (lambda: R.from_counts(X, 0.02).mask([(3, 1)]), ValueError, r"mask: \[0\] = \[3.0, 1.0\]: expected a start before its stop"),
        (lambda: R.from_counts(X, 0.02).mask("abc"), TypeError, r"mask: expected intervals \(start, stop\) in seconds"),
        (lambda: R.from_counts(X, 0.02).mask([(0, 99)]), ValueError, "mask: .*they cover every trial"),
        (lambda: R.from_counts(X, 0.02).restrict([(50, 99)]), ValueError, "restrict: expected some time of a trial"),
        (lambda: R.from_neo(X), TypeError, "neo: expected a neo.Block or neo.Segment, got ndarray"),
        (lambda: R.from_pynapple(X), TypeError, "units: expected a pynapple.TsGroup, got ndarray"),
        (lambda: R.from_pandas(X, 0.02), TypeError, "counts: expected a DataFrame or a DataArray, got ndarray; Recording.from_counts"),
        (lambda: R.from_counts(X, 0.02).align().select([5]), IndexError, "segments: expected numbers from 0 to 0, got 5"),
        (lambda: R.from_counts(X, 0.02).align().select([-1]), IndexError, "got -1"),
        (lambda: betz.mine(X, delays=[(0, 1)], threshold=3), TypeError, "recording: expected a betz.Recording, such as .*, got ndarray|recording: expected a betz.Recording"),
        (lambda: betz.mine(R.from_counts(X, 0.02), delays=(0, 1), threshold=3), TypeError, r"delays: expected a list of intervals \(low, high\)"),
        (lambda: betz.mine(R.from_counts(X, 0.02), delays=[(0, 1)], threshold=-3), ValueError, r"threshold: .*got -3 \(int\)"),
        (lambda: betz.network(X, window=2.5, top=2), TypeError, r"window: expected a whole number of at least 0, got 2.5 \(float\)"),
        (lambda: betz.network(X, window=100, top=2, measure="coherence", segment=80), ValueError, "segment: expected 4 to 66 samples"),
        (lambda: betz.network(X, window=100, top=2, measure="coherence", frequencies=(0.3, 0.2)), ValueError, "expected a lower and a higher one"),
        (lambda: betz.network(X, window=100), ValueError, "exactly one of threshold=, density=, top="),
        (lambda: betz.sort.train(X, 30000, 0.195, [(0, 0)] * 4), TypeError, r"samples: expected a contiguous int16 array .*, got ndarray of dtype int64.*ascontiguousarray"),
        (lambda: betz.sort.train(X.astype(np.int16), 30000, 0.195, 3), TypeError, r"places: expected one \(x, y\)"),
        (lambda: betz.Sums.over(X, {}), TypeError, "data: expected a betz.Dataset, got ndarray.*Recording.align makes one"),
        (lambda: betz.Sums.over(R.from_counts(X, 0.02).align(), {}), TypeError, "options: expected a dictionary with \"bank\""),
    ],
)
def test_what_is_refused(take, error, message):
    with pytest.raises(error, match=message) as refused:
        take()
    assert "Options." not in str(refused.value) and "is not an instance of" not in str(refused.value)


@pytest.mark.parametrize(
    "parameters, error, message",
    [
        (dict(folds="five"), TypeError, "folds: expected a whole number of at least 0, got 'five'"),
        (dict(folds=-1), TypeError, "folds: .*got -1"),
        (dict(seed=-1), TypeError, "seed: .*got -1"),
        (dict(ridge="big"), TypeError, "ridge: expected \"auto\" or a number of at least 0, got 'big'"),
        (dict(bank=[(0.1, 0.5)]), TypeError, r"bank: expected \"auto\".* with whole orders, .*got \[\(0.1, 0.5\)\]"),
        (dict(bank=3), TypeError, "bank: expected .*got 3"),
        (dict(low_pass=3), TypeError, r"low_pass: expected \(hertz, order\).*got 3"),
        (dict(device=3), TypeError, "device: expected \"cpu\""),
        (dict(kind=3), TypeError, "kind: .*got 3"),
        (dict(kind="lift", units=2.5), TypeError, "units: expected a whole number of at least 1, or None, got 2.5"),
        (dict(kind="recurrent", layers=16), TypeError, r"layers: expected a list of whole numbers, such as \(64, 64\).*got 16"),
        (dict(delay_seconds="a"), TypeError, "delay_seconds: expected a number of seconds, got 'a'"),
        (dict(step_seconds=datetime.timedelta(seconds=1)), TypeError, "step_seconds: .*total_seconds"),
        (dict(noise="a"), TypeError, "noise: expected a number of at least 0, or None, got 'a'"),
        (dict(progress=3), TypeError, "progress: expected a function"),
    ],
)
def test_options_are_refused_by_name(parameters, error, message):
    with pytest.raises(error, match=message) as refused:
        betz.Decoder(**(dict(step_seconds=0.02) | parameters)).fit(X, y)
    assert "Options." not in str(refused.value)


def test_models_and_sessions(decoder):
    model, session = decoder.model_, decoder.session()
    for take, error, message in [
        (lambda: model.decode(X), TypeError, "data: expected a betz.Dataset, got ndarray of dtype int64.*Recording.align"),
        (lambda: model.score(X), TypeError, "data: expected a betz.Dataset"),
        (lambda: betz.Session(decoder), TypeError, "model: expected a betz.Model, got Decoder; .* in model_"),
        (lambda: betz.Session(model, clamp=3), TypeError, r"clamp: expected \(low, high\) for each output, .*got 3"),
        (lambda: betz.Session(model, slew="a"), TypeError, "slew: expected a largest change for each output"),
        (lambda: session.skip(-1), ValueError, "ticks: .*got -1"),
        (lambda: session.step(X), ValueError, r"counts: expected one dimension, got ndarray of dtype int64 and shape \(200, 4\)"),
        (lambda: session.step(None), TypeError, "counts: expected numbers, got None"),
        (lambda: session.step_spikes([-1]), ValueError, r"channels: \[0\] = -1"),
        (lambda: session.step_spikes([1.5]), TypeError, "channels: expected whole numbers, got list; .*uint32"),
        (lambda: decoder.sums_.solve(ridge="a"), TypeError, r"ridge: expected a number, got 'a'"),
    ]:
        with pytest.raises(error, match=message):
            take()
    # A recording is put on the model's clock.
    recording = R.from_counts(X, 0.02, behavior=y, behavior_names=model.output_names)
    np.testing.assert_array_equal(model.decode(recording), model.decode(recording.align(0.02)))


def test_every_missing_file_is_one(tmp_path):
    missing = tmp_path / "missing"
    for read in (R.from_npz, R.from_nwb, betz.Model.load, betz.sort.Sorter.load, lambda path: betz.count(path, ["a -(0,1]-> b"])):
        with pytest.raises(FileNotFoundError, match="missing"):
            read(missing)


def test_networks_tell_of_values_that_are_not_finite():
    signal = rng.normal(size=(200, 4))
    signal[150, 2] = np.nan
    with pytest.warns(betz.BetzWarning, match="NaN or an infinite value in 1 node, counted in each window"):
        network = betz.network(signal, window=100, step=100, top=2)
    assert network.undefined == (0, 1)


@pytest.mark.parametrize("kind", ["f4", "u1", "u2", "f8"])
def test_masked_values_of_a_step_are_refused(decoder, kind):
    masked = np.ma.masked_array([1, 2, 3, 4], [False, True, False, False], dtype=kind)
    with pytest.raises(TypeError, match="counts: expected numbers, got .* masked values"):
        decoder.session().step(masked)
    unmasked = np.ma.masked_array([1, 2, 3, 4], dtype=kind)
    assert (decoder.session().step(unmasked) == decoder.session().step(np.asarray(unmasked))).all()
    channels = np.ma.masked_array([1, 2], [False, True], dtype=np.uint32)
    with pytest.raises(TypeError, match="channels: expected numbers, got .* masked values"):
        decoder.session().step_spikes(channels)


def test_masked_spikes_and_voltage_are_refused():
    ticks = np.ma.masked_array([1, 5, 9], [False, True, False])
    with pytest.raises(TypeError, match="spike_ticks: expected numbers, got .* masked values"):
        betz.Recording.from_spikes(ticks, [0, 1, 0], tick_seconds=0.001, channels=2)
    voltage = np.ma.masked_array(np.zeros((300, 2), np.int16), np.eye(300, 2, dtype=bool))
    with pytest.raises(TypeError, match="samples: expected numbers, got .* masked values"):
        betz.sort.train(voltage, 30000, 0.2, [[0.0, 0.0], [0.0, 20.0]])


CURVE = np.exp(-np.arange(20) / 5)
FILTERS = [
    (dict(samples=[]), "one sample per step"),
    (dict(samples=[1.0, np.nan]), "NaN at sample 1; give a number"),
    (dict(samples=[1.0, -np.inf]), "-inf at sample 1; give a number"),
    (dict(samples=[0.0, 0.0]), "2 zeros; give other values"),
    (dict(samples=[1e308, 1e308]), "give smaller samples"),
    (dict(samples=[1.0, -1.0]), "keep_gain=True of betz.Filter"),
    (dict(samples=np.ones(201)), "at most 200 samples.*use a shorter filter"),
    (dict(samples=[1.0], start=200), "Shift it"),
    (dict(samples=CURVE, step_seconds=0.001), "0.02 s apart.*got 0.001 s; give times="),
    (dict(samples=[1.0], times=[0.0]), "two points"),
    (dict(samples=[1.0, np.nan], times=[0.0, 0.1]), "NaN at point 1"),
    (dict(samples=[1.0, 2.0], times=[0.1, 0.0]), "ascend.*sort the points"),
    (dict(samples=[1.0, 2.0], times=[0.0, 5e4]), "in seconds"),
]


@pytest.mark.parametrize("given, message", FILTERS)
def test_filters_are_refused_by_name_with_the_way_out(given, message):
    bank = [betz.Filter(**given, name="epsc")]
    with pytest.raises(ValueError, match=f"filter epsc: .*{message}"):
        betz.Decoder(step_seconds=0.02, bank=bank, folds=0).fit(X, y)


def test_filters_are_samples_or_curves_and_look_ahead_offline_only():
    def bank(*filters):
        return betz.Decoder(step_seconds=0.02, bank=list(filters), folds=0).fit(X, y).model_.bank

    (samples, start), = bank(betz.Filter(CURVE, start=2))
    np.testing.assert_allclose(samples, CURVE / CURVE.sum(), rtol=1e-12)
    assert start == 2
    # A ramp from 0 to 1 over 40 ms: its mean over steps around 0, 20 and 40 ms.
    (samples, start), = bank(betz.Filter([0.0, 1.0], times=[0.0, 0.04], keep_gain=True))
    np.testing.assert_allclose(samples, [0.0625, 0.5, 0.4375], rtol=1e-12)
    for wrong, message in [
        (dict(samples=["a"]), "samples as a list of numbers"),
        (dict(samples=[[1.0]]), "one dimension"),
        (dict(samples=[1.0], times=[0.0, 1.0]), "one time per sample"),
        (dict(samples=[1.0, 2.0], times=[0.0, 1.0], start=1), "leave out"),
    ]:
        with pytest.raises((TypeError, ValueError), match=f"filter epsc: .*{message}"):
            betz.Filter(**wrong, name="epsc")
    ahead = betz.Decoder(step_seconds=0.02, bank=[betz.Filter([1.0, 2.0, 1.0], start=-2, name="early")], folds=0).fit(X, y)
    with pytest.raises(ValueError, match="filter early: .*start of 2 steps more"):
        ahead.session()
