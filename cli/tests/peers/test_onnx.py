"""`betz export --onnx` in onnxruntime against `betz stream`, over 10,000 steps."""
import csv
import json

import pytest
from conftest import run


@pytest.mark.parametrize("kind, more", [("linear", []), ("linear", ["--low-pass", "5"]), ("linear", ["--filter", "boxcar:50ms", "--filter", "cosine:4:20ms..600ms", "--filter", "50ms:1", "--low-pass", "5"]),
    ("linear", ["--filter", "gauss:30ms@120ms"]), ("lift", ["--latents", 4, "--filter", "halfgauss:60ms"]), ("lift", ["--latents", 6]), ("kalman", []), ("experts", []), ("auto", ["--budget", "5s"]),
    ("classes", ["--labels", "right=x>0", "--folds", 3]), ("linear", ["--velocity", "x,y", "--labels", "right=x>0", "--gate", "right", "--folds", 3])])
def test_onnxruntime_decodes_the_same(kind, more, tmp_path):
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    recording, model, file, decoded = (tmp_path / name for name in ("p.npz", "m.betz", "m.onnx", "out.csv"))
    run("simulate", "--neurons", 40, "--seconds", 100, "--tick", 0.01, "--out", recording)
    bank = [] if "--filter" in more else ["--bank", "reach"]
    run("train", recording, "--out", model, *bank, "--step", 0.01, "--decoder", kind, *more)
    run("export", model, "--onnx", file)
    run("stream", model, recording, "--out", decoded)
    loaded = onnx.load(file)
    onnx.checker.check_model(loaded, full_check=True)
    assert {p.key: p.value for p in loaded.metadata_props}["step_seconds"] == "0.01"
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    data = np.load(recording)
    outputs = json.loads({p.key: p.value for p in loaded.metadata_props}["outputs"])
    with open(decoded) as rows:
        expected = np.array([[float(row[name]) for name in outputs] for row in csv.DictReader(rows)])
    steps = len(expected)
    assert steps == 10_000
    counts = np.zeros((steps, 40), np.float32)
    np.add.at(counts, (data["spike_ticks"], data["spike_channels"]), 1)
    states = {i.name: np.zeros(i.shape) for i in session.get_inputs() if i.name != "counts"}
    names = [o.name for o in session.get_outputs()]
    worst = 0.0
    for row, truth in zip(counts, expected):
        out = dict(zip(names, session.run(names, {"counts": row[None], **states})))
        states = {name: out[name + "_out"] for name in states}
        worst = max(worst, float(np.abs(out["estimates"][0] - truth).max()))
    # Cosines and classes are of float32 on both sides, and a Conv of sampled filters in the graph; all else is float64,
    # rounded once.
    assert worst <= (2e-4 if kind in ("lift", "experts", "auto", "classes") or "--gate" in more else 1e-5) * np.abs(expected).max(), worst
    print(kind, more, "largest difference", worst, "of", np.abs(expected).max())


def test_other_kinds_are_refused_by_name(tmp_path):
    import subprocess
    from conftest import BETZ
    recording, model = tmp_path / "p.npz", tmp_path / "m.betz"
    run("simulate", "--neurons", 20, "--seconds", 20, "--tick", 0.01, "--out", recording)
    run("train", recording, "--out", model, "--bank", "reach", "--step", 0.01, "--decoder", "place")
    done = subprocess.run([BETZ, "export", str(model), "--onnx", str(tmp_path / "m.onnx")], capture_output=True, text=True)
    assert done.returncode == 2 and "got place" in done.stderr and not (tmp_path / "m.onnx").exists(), done.stderr
