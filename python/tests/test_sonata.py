"""SONATA networks: files written here to the published schema, read, run and refused. Skipped without h5py."""

import json

import numpy as np
import pytest

import betz

h5py = pytest.importorskip("h5py")


def write_circuit(folder, **change):
    """Two populations: 3 virtual nodes, and 4 point neurons of two types, of which one has values of its own."""
    given = {
        "template": "nest:iaf_psc_exp",
        "exc": {"C_m": 200.0, "tau_m": 12.0, "E_L": -65.0, "V_th": -50.0, "V_reset": -65.0, "t_ref": 2.0, "V_m": -65.0},
        "edge": "static_synapse",
        "function": "NULL",
        "delay": 1.5,
        "target": 3,
        "module": "sonata",
        "set": {},
        "own": "C_m",
        **change,
    }
    (folder / "models").mkdir(parents=True)
    (folder / "models/exc.json").write_text(json.dumps(given["exc"]))
    (folder / "models/inh.json").write_text(json.dumps(given.get("inh", {**given["exc"], "tau_m": 8.0})))
    with h5py.File(folder / "v1_nodes.h5", "w") as file:
        v1 = file.create_group("nodes/v1")
        v1["node_id"] = [10, 11, 12, 13]
        v1["node_type_id"] = [101, 102, 101, 101]
        v1["node_group_id"] = [0, 0, 1, 1]
        v1["node_group_index"] = [0, 1, 1, 0]
        v1["0/x"] = [0.5, 0.25]
        v1[f"1/dynamics_params/{given['own']}"] = [150.0, 250.0]  # Of nodes 13 and 12.
    (folder / "v1_types.csv").write_text(
        "node_type_id model_type model_template dynamics_params pop_name\n"
        f"101 point_neuron {given['template']} exc.json 'exc cells'\n"
        f"102 point_process {given['template']} inh.json NULL\n"
    )
    with h5py.File(folder / "in_nodes.h5", "w") as file:
        file["nodes/in/node_type_id"] = [7, 7, 7]
    (folder / "in_types.csv").write_text("node_type_id model_type\n7 virtual\n")
    with h5py.File(folder / "edges.h5", "w") as file:
        forward = file.create_group("edges/in_to_v1")
        forward["source_node_id"] = [0, 1, 2, 2, 0]
        forward["target_node_id"] = [10, 11, 12, 10 + given["target"], 13]
        forward["edge_type_id"] = [1, 1, 1, 1, 2]
        forward["edge_group_id"] = [0, 0, 0, 0, 0]
        forward["edge_group_index"] = [4, 3, 2, 1, 0]
        forward["0/nsyns"] = [1, 4, 3, 2, 1]
        forward["source_node_id"].attrs["node_population"] = "in"
        forward["target_node_id"].attrs["node_population"] = "v1"
        back = file.create_group("edges/v1_to_v1")
        back["source_node_id"], back["target_node_id"] = [11, 11], [10, 12]
        back["edge_type_id"] = [3, 3]
        back["edge_group_id"], back["edge_group_index"] = [0, 0], [0, 1]
        back["0/syn_weight"], back["0/delay"] = [-90.0, -150.0], [0.5, 2.0]
        back["source_node_id"].attrs["node_population"] = np.bytes_("v1")
        back["target_node_id"].attrs["node_population"] = np.bytes_("v1")
    (folder / "edge_types.csv").write_text(
        "edge_type_id syn_weight delay model_template weight_function\n"
        f"1 400.0 {given['delay']} {given['edge']} {given['function']}\n"
        "2 250.0 NULL NULL NULL\n"
        "3 NULL NULL nest:static_synapse NULL\n"
    )
    with h5py.File(folder / "spikes.h5", "w") as file:
        file["spikes/in/node_ids"] = [0, 1, 2, 0, 2]
        file["spikes/in/timestamps"] = [1.0, 2.0, 2.5, 30.0, 12.5]
        file["spikes/in/timestamps"].attrs["units"] = "ms"
    (folder / "spikes.csv").write_text(
        "timestamps population node_ids\n1.0 in 0\n2.0 in 1\n2.5 in 2\n30.0 in 0\n12.5 in 2\n"
    )
    circuit = {
        "manifest": {"$BASE_DIR": "${configdir}", "$MODELS": "$BASE_DIR/models"},
        "components": {"point_neuron_models_dir": "$MODELS"},
        "networks": {
            "nodes": [
                {"nodes_file": "$BASE_DIR/v1_nodes.h5", "node_types_file": "$BASE_DIR/v1_types.csv"},
                {"nodes_file": "$BASE_DIR/in_nodes.h5", "node_types_file": "$BASE_DIR/in_types.csv"},
            ],
            "edges": [{"edges_file": "$BASE_DIR/edges.h5", "edge_types_file": "edge_types.csv"}],
        },
    }
    (folder / "circuit.json").write_text(json.dumps(circuit))
    file = "spikes.csv" if given["module"] == "csv" else "spikes.h5"
    simulation = {
        "run": {"tstop": 60.0, "dt": 0.1},
        "network": "./circuit.json",
        "node_sets_file": "sets.json",
        "inputs": {"drive": {"input_type": "spikes", "module": given["module"], "input_file": file, "node_set": "all"}},
    }
    (folder / "sets.json").write_text(json.dumps({"all": {"population": "in", **given["set"]}}))
    (folder / "simulation.json").write_text(json.dumps(simulation))
    (folder / "config.json").write_text('{"network": "circuit.json", "simulation": "simulation.json"}')
    return folder / "simulation.json"


def by_hand():
    """The same network, described by hand."""
    network = betz.spiking.Network(step_ms=0.1)
    common = {"rest_mv": -65.0, "threshold_mv": -50.0, "reset_mv": -65.0, "refractory_ms": 2.0, "start_mv": -65.0}
    cells = [
        network.population(name, 1, "lif", synapse=betz.spiking.exponential(2.0, 2.0), tau_m_ms=tau, c_m_pf=c, **common)
        for name, tau, c in (("10", 12.0, 200.0), ("11", 8.0, 200.0), ("12", 12.0, 250.0), ("13", 12.0, 150.0))
    ]
    noise = network.population("in", 3, "spikes", trains_ms=[[0.9, 29.9], [1.9], [2.4, 12.4]])
    weights = [(0, 0, 400.0 * 1, 15), (1, 1, 400.0 * 2, 15), (2, 2, 400.0 * 3, 15), (2, 3, 400.0 * 4, 15), (0, 3, 250.0, 10)]
    for source, target, weight, delay in weights:
        listed = [{"source": source, "target": 0, "weight": weight, "delay_steps": delay}]
        network.project(noise, cells[target], {"list": {"synapses": listed}})
    for target, weight, delay in ((0, -90.0, 5), (2, -150.0, 20)):
        listed = [{"source": 0, "target": 0, "weight": weight, "delay_steps": delay}]
        network.project(cells[1], cells[target], {"list": {"synapses": listed}})
    return network.build(traces=range(4))


@pytest.mark.parametrize("module, file", [("sonata", "simulation.json"), ("csv", "config.json")])
def test_a_network_runs_as_the_same_one_described_by_hand(tmp_path, module, file):
    write_circuit(tmp_path, module=module)
    read = betz.spiking.read_sonata(tmp_path / file)
    assert read.milliseconds == 60.0
    assert sorted(read.neurons["v1"]) == [0, 1, 2, 3] and read.neurons["in"].tolist() == [4, 5, 6]
    engine, want = read.network.build(traces=range(4)), by_hand()
    for each in (engine, want):
        each.run(0.06)
    potentials, expected = engine.potentials(), want.potentials()
    for node, neuron in enumerate(read.neurons["v1"].tolist()):
        assert np.ptp(expected[node]) > 1.0
        np.testing.assert_allclose(potentials[neuron], expected[node], rtol=0, atol=1e-5)
    counts = engine.counts()
    assert counts[read.neurons["v1"]].tolist() == want.counts()[:4].tolist() and counts.sum() > 6
    assert counts[read.neurons["in"]].tolist() == [2, 1, 2]


def test_the_files_are_sonata_to_libsonata(tmp_path):
    libsonata = pytest.importorskip("libsonata")
    write_circuit(tmp_path)
    # It reads nodes of one group only, which v1 are not.
    assert libsonata.NodeStorage(str(tmp_path / "v1_nodes.h5")).population_names == {"v1"}
    edges = libsonata.EdgeStorage(str(tmp_path / "edges.h5")).open_population("in_to_v1")
    assert (edges.source, edges.target, edges.size) == ("in", "v1", 5)
    assert edges.source_nodes(edges.select_all()).tolist() == [0, 1, 2, 2, 0]
    spikes = libsonata.SpikeReader(str(tmp_path / "spikes.h5"))["in"].get()
    assert sorted(spikes) == [(0, 1.0), (0, 30.0), (1, 2.0), (2, 2.5), (2, 12.5)]


def test_conductances_are_chosen_by_the_sign_of_weights(tmp_path):
    cell = {"C_m": 200.0, "g_L": 10.0, "E_L": -65.0, "V_m": -65.0, "E_in": -75.0, "V_th": -50.0}
    read = betz.spiking.read_sonata(write_circuit(tmp_path, template="nest:iaf_cond_exp", exc=cell, inh=cell))
    description = json.loads(read.network.json())
    receptors = {(p["receptor"], p["rule"]["list"]["synapses"][0]["weight"] > 0) for p in description["projections"]}
    assert receptors == {("ampa", True), ("gaba_a", True)}
    engine = read.network.build()
    engine.run(0.06)
    assert engine.counts().sum() > 5


@pytest.mark.parametrize(
    "change, message",
    [
        ({"template": "nest:glif_psc"}, r"v1, type 101: expected a model_template of nest:iaf_psc_exp.*got 'nest:glif_psc'"),
        ({"template": "nrn:IntFire1"}, "got 'nrn:IntFire1'"),
        ({"exc": {"tau_m": 10.0, "rho": 0.1}}, "expected parameters of iaf_psc_exp.*got 'rho'"),
        ({"edge": "tsodyks_synapse"}, "in_to_v1, type 1: expected the model_template static_synapse, got 'tsodyks_synapse'"),
        ({"function": "wmax"}, "weight_function 'wmax' is code"),
        ({"delay": 90.0}, "expected delays of 1 to 255 steps of 0.1 ms, got 10 to 900 steps"),
        ({"delay": "fast"}, "expected a number as delay, got 'fast'"),
        ({"target": 9}, "population v1 has no node 19"),
        (
            {"template": "nest:izhikevich", "exc": {"b": 0.25}, "inh": {}, "own": "d"},
            "Betz starts U_m at b V_m = -16.25, got -13; set U_m",
        ),
        ({"set": {"node_id": [0, 1]}}, r"expected a population alone, got \['node_id', 'population'\]"),
        ({"module": "ecephys"}, "expected spikes of module sonata, h5 or csv, got 'spikes' of 'ecephys'"),
    ],
)
def test_what_betz_does_not_have_is_refused_by_name(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        betz.spiking.read_sonata(write_circuit(tmp_path, **change))


def test_a_circuit_without_inputs_and_broken_files(tmp_path):
    simulation = write_circuit(tmp_path)
    read = betz.spiking.read_sonata(tmp_path / "circuit.json", step_ms=0.05)
    assert read.milliseconds is None and json.loads(read.network.json())["step_ms"] == 0.05
    engine = read.network.build()
    engine.run(0.01)
    assert engine.counts().sum() == 0
    simulation.write_text('{"run": {}}')
    with pytest.raises(ValueError, match='expected "networks", or "network"'):
        betz.spiking.read_sonata(simulation)
    simulation.write_text("{")
    with pytest.raises(ValueError, match="simulation.json: expected JSON"):
        betz.spiking.read_sonata(simulation)


@pytest.mark.parametrize("model, split", [("iaf_psc_exp", False), ("iaf_psc_alpha", True), ("iaf_cond_exp", False)])
def test_nodes_that_differ_are_one_population_with_lists(tmp_path, model, split):
    capacitance = np.linspace(150.0, 300.0, 20)
    cell = {"E_L": -65.0, "V_m": -65.0, "V_th": -50.0, "V_reset": -65.0, "I_e": 500.0}
    (tmp_path / "models").mkdir()
    (tmp_path / "models/cell.json").write_text(json.dumps(cell))
    with h5py.File(tmp_path / "nodes.h5", "w") as file:
        nodes = file.create_group("nodes/v1")
        nodes["node_type_id"] = [1] * 20
        nodes["0/dynamics_params/C_m"] = capacitance[::-1]
        nodes["0/dynamics_params/t_ref"] = [0.0, 2.0] * 10
    (tmp_path / "types.csv").write_text(
        f"node_type_id model_type model_template dynamics_params\n1 point_neuron nest:{model} cell.json\n"
    )
    config = {
        "components": {"point_neuron_models_dir": "models"},
        "networks": {"nodes": [{"nodes_file": "nodes.h5", "node_types_file": "types.csv"}], "edges": []},
        "run": {"dt": 0.1, "tstop": 100.0},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    read = betz.spiking.read_sonata(tmp_path / "config.json")
    populations = json.loads(read.network.json())["populations"]
    assert len(populations) == (20 if split else 1)
    engine = read.network.build()
    engine.run(0.1)
    counts = engine.counts()[read.neurons["v1"]]
    # Those of a network of single neurons, which are integrated exactly where they are `lif` with currents.
    apart = betz.spiking.Network(step_ms=0.1)
    for c, refractory in zip(capacitance[::-1], [0.0, 2.0] * 10, strict=True):
        conductances = model == "iaf_cond_exp"
        apart.population(
            f"{c}",
            1,
            synapse=betz.spiking.conductance("ampa") if conductances else betz.spiking.exponential(2.0),
            start_mv=-65.0,
            tau_m_ms=c / 16.6667 if conductances else 10.0,
            c_m_pf=c,
            refractory_ms=refractory,
            current_pa=500.0,
            rest_mv=-65.0,
            threshold_mv=-50.0,
            reset_mv=-65.0,
        )
    want = apart.build()
    want.run(0.1)
    assert counts.sum() > 100 and len(set(counts.tolist())) > 5
    np.testing.assert_allclose(counts, want.counts(), rtol=0, atol=0 if conductances else 1)
