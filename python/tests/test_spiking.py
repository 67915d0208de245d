"""Spiking networks from Python: built by name, run, learned, and refused."""

import json
import subprocess
import sys

import numpy as np
import pytest

import betz


def network(seed=1):
    network = betz.spiking.Network(step_ms=0.1, seed=seed)
    noise = network.population("noise", 60, "poisson", rate_hz={"low": 100.0, "high": 300.0})
    cells = network.population(
        "cells",
        40,
        "adex",
        synapse=betz.spiking.conductance("ampa", gaba_a={"tau_decay_ms": 6}),
        c_m_pf={"median": 281, "log_sd": 0.1},
    )
    learning = network.project(
        noise,
        cells,
        {"fixed_in": {"count": 40}},
        weight={"low": 2.0, "high": 6.0},
        delay_ms=1.5,
        receptor="ampa",
        plasticity=betz.spiking.stdp(0.01, 0.012, 8.0),
    )
    return network, noise, cells, learning


def test_a_network_runs_and_learns_alike_on_any_number_of_threads():
    description, _, cells, learning = network()
    engines = [description.build(threads=threads, traces=[cells.first]) for threads in (1, 2)]
    before = engines[0].synapses(learning)[2]
    for engine in engines:
        engine.run(0.5)
    assert engines[0].hash == engines[1].hash and engines[0].steps == 5000
    sources, targets, weights, delays = engines[0].synapses(learning)
    assert len(sources) == 1600 and targets.max() < 40 and set(delays) == {15}
    assert not np.array_equal(np.sort(before), np.sort(weights)) and weights.min() >= 0 and weights.max() <= 8
    assert np.array_equal(weights, engines[1].synapses(learning)[2])
    assert engines[0].rates()["cells"] > 1
    potential = engines[0].potentials()[cells.first]
    assert len(potential) == 5000 and np.isfinite(potential).all()
    recording = engines[0].recording()
    assert recording.channels == 100
    capacitances = engines[0].parameters(cells.number, "c_m_pf")
    assert len(capacitances) == 40 and 200 < np.median(capacitances) < 400


def test_currents_drive_a_population():
    description = betz.spiking.Network(step_ms=0.1)
    cells = description.population("cells", 3, "izhikevich")
    engine = description.build()
    engine.drive(cells.number, [0.0, 0.1], [[0.0, 10.0, 10.0], [0.0]], False)
    engine.run(0.2)
    counts = engine.counts()
    assert counts[0] == 0 and counts[1] == counts[2] > 0
    engine.set_currents(cells.number, np.array([10.0, 0.0, 0.0]))
    engine.run(0.2)
    assert engine.counts()[0] > 0
    assert isinstance(engine.step(), np.ndarray)


def test_sources_fire_by_call():
    description = betz.spiking.Network()
    source = description.population("in", 4, "source")
    cells = description.population("out", 4, "lif", synapse=betz.spiking.delta())
    description.project(source, cells, "one_to_one", weight=100.0)
    engine = description.build()
    engine.emit([1, 3])
    assert sorted(engine.step()) == [1, 3]
    assert sorted(engine.step()) == [5, 7]


def test_reward_needs_a_projection_that_takes_it():
    description, *_ = network()
    with pytest.raises(betz.BetzError, match="plasticity has a reward"):
        description.build().reward(1.0)


@pytest.mark.parametrize(
    "model, parameters, words",
    [
        ("adexx", {}, "adexx"),
        ("adex", {"tau": 1.0}, "tau"),
        ("adex", {"tau_w_ms": 0.02}, "1,000 times as much fits"),
        ("lif", {"rest_mv": {"low": 1.0, "high": 0.0}}, "low <= high"),
    ],
)
def test_bad_descriptions_name_population_and_parameter(model, parameters, words):
    description = betz.spiking.Network()
    description.population("cells", 3, model, **parameters)
    with pytest.raises(betz.BetzError, match=words) as error:
        description.build()
    assert "cells" in str(error.value)


def test_a_description_is_saved(tmp_path):
    description, *_ = network()
    description.save(tmp_path / "net.json")
    saved = json.loads((tmp_path / "net.json").read_text())
    assert [p["name"] for p in saved["populations"]] == ["noise", "cells"]


def test_without_h5py_the_message_says_what_to_install():
    code = "import sys; sys.modules['h5py'] = None\nimport betz; betz.spiking.read_sonata('x.json')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode != 0 and "ImportError: reading SONATA needs h5py: pip install h5py" in run.stderr


def test_lists_and_arrays_give_each_neuron_its_value():
    network = betz.spiking.Network(step_ms=0.1)
    start = [-70.0, -65.0, -60.0]
    network.population("a", 3, "izhikevich", d=np.array([2.0, 4.0, 8.0]), start_mv=start, current_pa=10.0)
    engine = network.build(traces=range(3))
    engine.run(0.5)
    counts = engine.counts().tolist()
    assert counts[0] > counts[1] > counts[2] > 0
    first = [engine.potentials()[neuron][0] for neuron in range(3)]
    assert np.allclose(first, start, atol=3.0) and first == sorted(first)
    network = betz.spiking.Network()
    network.population("b", 3, "izhikevich", d=[2.0, 4.0])
    with pytest.raises(ValueError, match='population "b".*parameter d: expected one value per neuron, 3, got 2'):
        network.build()


def test_numbers_within_lists_may_be_arrays_and_must_be_finite():
    made = betz.spiking.Network(step_ms=0.1, seed=1)
    made.population("a", 2, "lif", c_m_pf=[np.float32(281), np.float64(200)], poisson=(np.float64(100.0), 5.0))
    made.population("b", 2, "lif", c_m_pf={"mean": np.float64(281), "sd": np.float32(1)})
    with pytest.raises(ValueError, match="c: c_m_pf: expected finite numbers, got nan"):
        made.population("c", 2, "lif", c_m_pf=np.full(2, np.nan))
    with pytest.raises(TypeError, match="d: poisson: expected one rate"):
        made.population("d", 2, "lif", poisson=(np.full(2, 100.0), 5.0))


def test_listed_weights_that_round_to_nothing_warn_by_name():
    network = betz.spiking.Network()
    cells = network.population("cells", 2)
    listed = [{"source": 0, "target": t, "weight": w, "delay_steps": 10} for t, w in ((0, 1e-3), (1, 500.0))]
    network.project(cells, cells, {"list": {"synapses": listed}})
    with pytest.warns(UserWarning, match=r'projection 0 \("cells" to "cells"\): 1 of 2 listed weights'):
        network.build()


def test_a_tuned_population_follows_a_movement():
    def counts(seconds, positions):
        network = betz.spiking.Network(step_ms=0.5, seed=1)
        tuning = {"gain_pa": 600, "direction_deg": np.array([0.0, 180.0])}
        cells = network.population("m1", 2, tuning=tuning)
        engine = network.build()
        engine.follow(seconds, positions)
        engine.run(1.0)
        assert cells.number == 0
        return engine.counts().tolist()

    # Half a second to the right, half a second to the left.
    right, left = counts([0.0, 0.5], np.array([[1.0, 0.0], [-1.0, 0.0]]))
    assert right > 5 and abs(right - left) <= 1
    assert counts([0.0], [[1.0, 5.0]])[1] == 0
    with pytest.raises(ValueError, match="expected a position for each of 2 times, got 1"):
        counts([0.0, 0.5], [[1.0, 0.0]])
    plain = betz.spiking.Network()
    plain.population("e", 2)
    with pytest.raises(ValueError, match='expected a population with "tuning", got none'):
        plain.build().follow([0.0], [[1.0, 0.0]])
