"""Notebooks and examples run from top to bottom, without a network, and print what docs/tutorial.md prints."""

import contextlib
import io
import json
import os
import pathlib
import re
import runpy

import pytest

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
pytestmark = pytest.mark.skipif(not NOTEBOOKS, reason="the examples are in the repository, not in the package")


def cells(notebook):
    return ["".join(cell["source"]) for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_cells(notebook, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed: the notebook draws")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names, said = {}, io.StringIO()
    with contextlib.redirect_stdout(said):
        for number, cell in enumerate(cells(notebook)):
            exec(compile(cell, f"{notebook.name}, cell {number}", "exec"), names)
    matplotlib.pyplot.close("all")
    # The same recording, decoder and scores as those of the command line.
    page = EXAMPLES.parents[1] / "docs" / "tutorial.md"
    if page.exists():
        told = re.findall(r"^([xy]) +(0\.[0-9]{4}) +0", page.read_text(), re.MULTILINE)[:4]
        printed = re.findall(r"([xy]): R² (0\.[0-9]{4})", said.getvalue())
        assert len(told) == 4 and printed == told


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_in_a_kernel(notebook, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: the cells run without a kernel alone")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the notebook draws")
    import nbformat

    # The kernel finds the package where this process does.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")]))
    run = nbformat.read(notebook, as_version=4)
    nbclient.NotebookClient(run, timeout=None, startup_timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    pictures = [out for cell in run.cells if cell.cell_type == "code" for out in cell.outputs if "image/png" in out.get("data", {})]
    assert len(pictures) == 2


# The unit for ezmsg needs that package, and test_live.py runs it where it is installed; the task program talks to a session.
OTHERS = {EXAMPLES / name for name in ("ezmsg_unit.py", "send_labels.py", "centre_out.py", "learning_network.py")}


@pytest.mark.parametrize("example", sorted(set(EXAMPLES.glob("*.py")) - OTHERS), ids=lambda path: path.stem)
def test_scripts(example, monkeypatch, capsys):
    # Their recordings are not part of the repository: without them they say so.
    monkeypatch.setenv("BETZ_SHARED", str(EXAMPLES / "nowhere"))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(example))
    assert ended.value.code is None and "skipped: there is no" in capsys.readouterr().out


def test_a_decoder_of_a_learning_network_has_to_be_trained_again():
    names = runpy.run_path(str(EXAMPLES / "learning_network.py"))
    scores = [names[name].score(names["counts"], names["velocity"]) for name in ("decoder", "again")]
    assert scores[1] > 0.7 and scores[1] > scores[0] + 0.1
    assert names["moved"] > 10.0


def test_the_simulated_user_reaches_every_target(monkeypatch):
    betz = pathlib.Path(os.environ.get("BETZ", EXAMPLES.parents[1] / "target" / "debug" / "betz"))
    if not betz.is_file():
        pytest.skip("no program betz: cargo build -p betz-cli, or name one by BETZ")
    monkeypatch.setenv("BETZ", str(betz))
    task = runpy.run_path(str(EXAMPLES / "centre_out.py"))
    hits, told = task["main"](8)
    assert hits == 8
    notes = told["notes"]
    assert (notes["marks"], notes["trials"], notes["malformed"]) == (16, 16, 0), notes
