"""`Decoder.to_onnx`: what is written decodes in onnxruntime as `predict` does."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import betz


def fitted(kind="linear", outputs=2, **parameters):
    """Counts, and a decoder of what remembers them."""
    rng = np.random.default_rng(3)
    X = rng.poisson(0.8, (3000, 24)).astype(np.uint8)
    y = np.empty((len(X), outputs))
    y[0] = 0
    for step in range(1, len(X)):
        y[step] = 0.95 * y[step - 1] + 0.1 * (X[step, :outputs] - 0.8)
    if outputs == 1:
        y = y[:, 0]
    parameters = {"step_seconds": 0.02, "bank": [(0.05, 0), (0.4, 1)], "noise": 0.1, **parameters}
    return X, betz.Decoder(kind, **parameters).fit(X, y)


CASES = {
    "linear": dict(outputs=2),
    "one output, flat": dict(outputs=1),
    "rows without time": dict(step_seconds=None, bank="auto"),
    "delayed and smoothed": dict(delay_seconds=0.06, low_pass=(5.0, 2)),
    "lift": dict(kind="lift", latents=5, units=40),
    "kalman": dict(kind="kalman"),
    "experts": dict(kind="experts", experts=3),
    "blend": dict(kind="auto", latents=5, units=40, experts=2, epochs=3, layers=(16,)),
    "recurrent": dict(kind="recurrent", layers=(16, 16), members=2, epochs=3, folds=2),
}


def steps_in_onnxruntime(path, X, output="estimates"):
    """One row of `output` per row of X."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    step = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in step.get_outputs()]
    states = {i.name: np.zeros(i.shape) for i in step.get_inputs() if i.name != "counts"}
    estimates = []
    for row in X.astype(np.float32):
        out = dict(zip(names, step.run(names, {"counts": row[None], **states})))
        states = {name: out[name + "_out"] for name in states}
        estimates.append(out[output][0])
    return np.array(estimates)


@pytest.mark.parametrize("case", CASES)
def test_onnxruntime_decodes_the_same(case, tmp_path):
    X, decoder = fitted(**CASES[case])
    decoder.to_onnx(tmp_path / "decoder.onnx")
    estimates = steps_in_onnxruntime(tmp_path / "decoder.onnx", X)
    expected = decoder.predict(X)
    assert np.ptp(expected) > 0.1
    # Cosines are of float32 on both sides; all else is float64, rounded once.
    tolerance = (2e-4 if case in ("lift", "experts", "blend") else 1e-5) * np.abs(expected).max()
    np.testing.assert_allclose(np.reshape(estimates, expected.shape), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", ["linear", "recurrent", "auto"])
def test_a_signal_is_decoded_about_its_means(kind, tmp_path):
    X, decoder = fitted()
    signal = (X + np.random.default_rng(8).normal(size=X.shape) + 50).astype(np.float32)
    small = {} if kind == "linear" else dict(epochs=2, layers=(16,))
    decoder = betz.Decoder(kind, step_seconds=0.02, bank=[(0.05, 0), (0.4, 1)], **small).fit(signal, X[:, :2].astype(float))
    decoder.to_onnx(tmp_path / "decoder.onnx")
    expected = decoder.predict(signal)
    got = steps_in_onnxruntime(tmp_path / "decoder.onnx", signal)
    np.testing.assert_allclose(got, expected, rtol=0, atol=5e-4 * np.abs(expected).max())


def states(classes):
    """Counts in bins of 20 ms, and states of half a second."""
    rng = np.random.default_rng(5)
    y = np.repeat(rng.integers(0, classes, 120), 25)
    rates = np.where(np.arange(24) % classes == y[:, None], 0.9, 0.3)
    return rng.poisson(rates).astype(np.uint8), y


@pytest.mark.parametrize("classes, step, bank", [(2, 0.02, [(0.1, 0)]), (3, 0.02, [(0.1, 0), (0.3, 1)]), (2, 1.0, [(0.01, 0)])])
def test_onnxruntime_gives_the_same_probabilities(classes, step, bank, tmp_path):
    X, y = states(classes)
    if step == 1.0:
        X = X[:, :4]  # few channels without a memory: a hidden Markov model helps
    fitted = betz.ClassDecoder(step_seconds=step, bank=bank, units=16).fit(X, y)
    assert (fitted.training_["kappa"] is not None) == (step == 1.0)
    fitted.model_.to_onnx(tmp_path / "classes.onnx")
    estimates = steps_in_onnxruntime(tmp_path / "classes.onnx", X)
    expected = fitted.predict_proba(X)
    assert expected[:, 1].std() > 0.1
    np.testing.assert_allclose(estimates, expected, rtol=0, atol=1e-4)


def test_what_cannot_be_written_is_refused(tmp_path):
    path = tmp_path / "decoder.onnx"
    with pytest.raises(NotFittedError):
        betz.Decoder().to_onnx(path)
    _, decoder = fitted(bank=[([0.5, 0.3, 0.2], -1)])
    with pytest.raises(betz.BetzError, match="looks 0.02 s ahead"):
        decoder.to_onnx(path)
    with pytest.raises(OSError):
        fitted()[1].to_onnx(tmp_path / "no such folder" / "decoder.onnx")
    assert list(tmp_path.iterdir()) == []
