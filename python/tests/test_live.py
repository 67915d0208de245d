"""Whole sessions from Python: rows that the test pushes, and the simulated rig. Nothing here depends on how fast this machine is."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import betz

X = np.random.default_rng(0).poisson(0.5, (600, 24)).astype(np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    decoder = betz.Decoder(step_seconds=0.02, bank=[(0.05, 1)], folds=0).fit(X, X[:, :2] * 1.0, outputs=["x", "y"])
    decoder.model_.save(folder / "model.betz")
    betz.Decoder(step_seconds=0.02, bank=[(0.05, 1)], folds=0).fit(X, X[:, 2:4] * 1.0, outputs=["x", "y"]).model_.save(
        folder / "other.betz"
    )
    return folder


def plan(folder, **more):
    """A plan whose source is pushed; no step is made without data by the clock."""
    return {
        "session": {"name": "a test", "model": folder / "model.betz"},
        "source": {"name": "bins", "from": "push", "sends": "steps"},
        "missing": {"stale_after": "1h", "backlog": 1000000},
        **more,
    }


def test_steps_are_those_of_a_session(folder):
    session = betz.Session(betz.Model.load(folder / "model.betz"))
    with betz.Live(plan(folder)) as live:
        assert live.outputs == ["x", "y"] and live.step_seconds == 0.02 and "a test" in repr(live)
        for part in np.split(X, 6):
            assert live.push(part)
        live.end()
        steps = list(live)
    assert [step.number for step in steps] == list(range(600))
    assert all(step.status == "" and step.host_ns > 0 and step.end == step.number + 1 for step in steps)
    np.testing.assert_array_equal([step.values for step in steps], [session.step(row) for row in X])
    assert live.latest().number == 599 and repr(live.latest()).startswith("<betz.LiveStep: 599, [")
    health = live.health()
    assert health["phase"] == "ended" and health["input"]["steps"] == 600 and health["crossed"] == []
    assert live.stop() == health and iter(live).missed == 0


def test_notes_are_recorded_and_a_replay_gives_the_same_bits(folder, tmp_path):
    with betz.Live(plan(folder, record={"to": tmp_path})) as live:
        live.push(X[:100])
        next(iter(live))
        live.trial("begin")
        live.label([1.0, -1.0], step=3)
        live.label(np.array([0.5, 0.5]))
        live.mark("reward")
        live.trial("end")
        notes = live.health()["notes"]
        assert (notes["labels"], notes["marks"], notes["trials"]) == (2, 1, 2)
        live.push(X[110:], first=110)
        live.end()
        values = [step.values for step in live]
        health = live.stop()
    assert health["input"]["lost"] == 10 and health["crossed"][0].startswith("limits.lost")
    replayed = betz.Live.replay(health["folder"])
    assert replayed["equal"] and replayed["compared"] == len(values) == len(replayed["number"])
    np.testing.assert_array_equal(replayed["values"], values)
    with pytest.raises(betz.BetzError, match="expected a folder that `betz run` recorded"):
        betz.Live.replay(tmp_path)


def test_voltage_goes_through_the_front_end(folder):
    source = {"name": "rig", "from": "push", "channels": 24, "rate": 30000, "microvolts": 0.25}
    voltage = {"noise": {"calibrate": "100ms", "track": "0s"}}
    rows = np.random.default_rng(1).normal(0, 40, (15000, 24)).astype(np.int16)
    with betz.Live(plan(folder, source=[source], voltage=voltage)) as live:
        for block in np.split(rows, 500):
            live.push(block)
        with pytest.raises(betz.BetzError, match="expected voltage as int16"):
            live.push(rows[:30].astype(float))
        live.end()
        steps = list(live)
    assert len(steps) == 25
    # The noise is measured first: no data until then.
    assert "stale" in steps[0].status and "stale" not in steps[-1].status
    assert live.health()["input"]["calibrating"] == 5


def test_counts_are_whole_numbers(folder):
    with betz.Live(plan(folder)) as live:
        for value in (-7.5, 0.5, -1.0, 70_000.0):
            rows = X[:3].astype(float)
            rows[1, 4] = value
            with pytest.raises(betz.BetzError, match=rf"expected counts, whole numbers from 0 to 65535, .* got {value:g} at row 1, channel 4"):
                live.push(rows)
        live.push(X[:10])
        live.end()
        assert len(list(live)) == 10


def test_the_simulated_rig_runs_in_real_time(folder):
    source = {"name": "rig", "from": "simulated", "channels": 24}
    voltage = {"noise": {"calibrate": "20ms", "track": "0s"}}
    with betz.Live(plan(folder, source=source, voltage=voltage)) as live:
        steps = [step for step, _ in zip(live, range(10))]
        assert live.health()["phase"] == "running"
    assert len(steps) == 10 and live.health()["input"]["rows"] >= 10 * 600
    assert live.health()["phase"] == "ended"


def test_a_swap_takes_over_and_another_shape_is_refused(folder):
    with betz.Live(plan(folder)) as live:
        with pytest.raises(betz.BetzError, match="heard nothing"):
            live.swap(betz.Model.load(folder / "other.betz"))
        live.push(X[:10])
        next(iter(live))
        live.swap(betz.Model.load(folder / "other.betz"))
        with pytest.raises(TypeError, match="model: expected a betz.Model"):
            live.swap("other.betz")
        wide = betz.Decoder(step_seconds=0.02, bank="single", folds=0).fit(X[:, :5], X[:, :2] * 1.0).model_
        with pytest.raises(betz.BetzError, match="expected 24"):
            live.swap(wide)
        live.push(X[10:])
        live.end()
        steps = list(live)
    assert sum("swapped" in step.status for step in steps) == 1


def test_a_swap_is_taken_back_and_without_a_trainer_nothing_is_proposed(folder):
    with betz.Live(plan(folder)) as live:
        live.push(X[:10])
        next(iter(live))
        assert live.accept() is False
        with pytest.raises(betz.BetzError):
            live.roll_back()
        live.swap(betz.Model.load(folder / "other.betz"))
        live.roll_back()
        live.push(X[10:])
        live.end()
        steps = list(live)
        health = live.health()
    assert health["swapped"] == 1 and health["rolled_back"] == 1
    own = betz.Session(betz.Model.load(folder / "model.betz"))
    expected = [own.step(row) for row in X]
    np.testing.assert_array_equal([step.values for step in steps], expected[len(expected) - len(steps) :])


def test_faults_name_file_line_and_key(folder, tmp_path):
    file = tmp_path / "session.toml"
    file.write_text("[session]\nmodel = \"model.betz\"\n[[source]]\nname = \"a\"\nfrom = \"push\"\n[voltage]\ntreshold = -4\n")
    with pytest.raises(betz.BetzError, match="session.toml, line 7, voltage.treshold: .*did you mean `threshold`"):
        betz.Live(file)
    with pytest.raises(FileNotFoundError, match="none.toml"):
        betz.Live(tmp_path / "none.toml")
    file.write_text(file.read_text().replace("treshold", "threshold"))
    with pytest.raises(FileNotFoundError, match="session.toml, line 2, session.model"):
        betz.Live(file)
    with pytest.raises(betz.BetzError, match='--set voltage.threshold="four": '):
        betz.Live(file, set={"voltage.threshold": "four"})
    with pytest.raises(betz.BetzError, match="plan, source.channels: expected a number"):
        betz.Live(plan(folder, source={"name": "a", "from": "push"}))
    with pytest.raises(betz.BetzError, match="plan, voltage.threshold: expected a multiple of the noise"):
        betz.Live(plan(folder, voltage={"threshold": np.float64(3.0)}))
    with pytest.raises(TypeError, match=r"plan.outputs.to\[0\]: expected text.*, got NoneType|got None"):
        betz.Live(plan(folder, outputs={"to": [None]}))
    with pytest.raises(TypeError, match="plan: expected the path of a plan, or a dictionary"):
        betz.Live(3)


def test_calls_that_do_not_fit_are_refused(folder):
    with betz.Live(plan(folder)) as live:
        for values in ([1.0], [1.0, np.nan]):
            with pytest.raises(betz.BetzError, match="label: expected"):
                live.label(values)
        with pytest.raises(ValueError, match='what: expected "begin"'):
            live.trial("start")
        with pytest.raises(TypeError, match="text: expected a text"):
            live.mark(3)
        with pytest.raises(betz.BetzError, match="rows: expected 24 channels, got 23"):
            live.push(X[:5, :23])
        live.push(X[:5], first=7)
        with pytest.raises(betz.BetzError, match="12 or later"):
            live.push(X[:5], first=0)
    with pytest.raises(betz.BetzError, match="has ended"):
        live.mark("late")
    with pytest.raises(betz.BetzError, match="open another"):
        live.start()


def test_an_error_of_the_session_is_raised_by_iteration_and_by_stop(folder):
    # Too slow for the band-pass, which is known with the first rows.
    source = {"name": "rig", "from": "push", "channels": 24, "rate": 8000, "microvolts": 0.25}
    live = betz.Live(plan(folder, source=source)).start()
    live.push(np.zeros((30, 24), np.int16))
    with pytest.raises(betz.BetzError, match="6000"):
        list(live)
    with pytest.raises(betz.BetzError, match="6000"):
        live.stop()


def test_a_model_that_does_not_fit_is_refused_before_the_first_rows(folder):
    source = {"name": "rig", "from": "push", "channels": 23, "rate": 30000, "microvolts": 0.25}
    with pytest.raises(betz.BetzError, match="plan, session.model: expected a model of the 23 channels"):
        betz.Live(plan(folder, source=source)).start()


def test_the_lock_is_free_while_it_waits(folder):
    with betz.Live(plan(folder)) as live:
        steps = []
        reader = threading.Thread(target=lambda: steps.extend(live))
        reader.start()
        # The reader waits; this thread goes on.
        live.push(X[:50])
        live.end()
        reader.join()
    assert len(steps) == 50


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_the_session_and_its_recording(folder, tmp_path):
    # A process that a shell starts in the background ignores the signal unless it takes it up.
    program = f"""
        import signal
        import betz
        signal.signal(signal.SIGINT, signal.default_int_handler)
        plan = {{"session": {{"model": {str(folder / "model.betz")!r}}}, "record": {{"to": {str(tmp_path)!r}}},
                "source": {{"name": "a", "from": "push", "sends": "steps"}}, "missing": {{"stale_after": "1h", "backlog": 1000000}}}}
        try:
            with betz.Live(plan) as live:
                live.push([[1] * 24] * 20)
                for step in live:
                    if step.number == 19:
                        print("ready", flush=True)
        except KeyboardInterrupt:
            print(live.health()["phase"], live.health()["folder"], flush=True)
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    phase, folder = child.stdout.readline().split()
    assert child.wait() == 0 and phase == "ended"
    assert betz.Live.replay(folder)["equal"]


def test_the_unit_for_ezmsg():
    pytest.importorskip("ezmsg.core")
    example = pathlib.Path(__file__).parents[1] / "examples" / "ezmsg_unit.py"
    if not example.exists():
        pytest.skip("no examples beside the package")
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "50 steps; the last is 49" in done.stdout
