"""Runs a SONATA network of point neurons on Betz and on NEST, and compares the spikes.

    git clone https://github.com/AllenInstitute/sonata
    python spiking_sonata.py sonata/examples/300_pointneurons/config.json

NEST gets the network from this script's own reading of the files, which suits that example: nodes of one type file, static
synapses with weights in the files of edges, spikes of one population. Needs betz, h5py and nest-simulator.
"""

import csv
import json
import pathlib
import sys
import time

import h5py
import nest
import numpy as np

import betz


def run_nest(folder, step_ms, milliseconds):
    """Spikes as steps and cells, and the seconds that the simulation took."""
    nest.ResetKernel()
    nest.resolution = step_ms
    nodes = h5py.File(folder / "network/internal_nodes.h5")["nodes/internal"]
    with open(folder / "network/internal_node_types.csv", encoding="utf-8") as file:
        types = {int(row["node_type_id"]): row for row in csv.DictReader(file, delimiter=" ")}
    models = folder / "../shared_components/nest_models/cell_models"
    cells = [
        nest.Create(row["model_template"].split(":")[1], params=json.loads((models / row["dynamics_params"]).read_text()))
        for row in (types[int(kind)] for kind in nodes["node_type_id"][:])
    ]
    internal = dict(zip(nodes["node_id"][:].tolist(), (cell.global_id for cell in cells), strict=True))
    spikes = h5py.File(folder / "inputs/external_spike_trains.h5")["spikes"]
    ids, times = spikes["gids"][:], spikes["timestamps"][:]
    external = {}
    for node in range(h5py.File(folder / "network/external_nodes.h5")["nodes/external/node_type_id"].shape[0]):
        steps = np.ceil(np.sort(times[ids == node]) / step_ms - 1e-6)
        generator = nest.Create("spike_generator", params={"spike_times": np.round(steps * step_ms, 6).tolist()})
        external[node] = generator.global_id
    for name, sources, delay in (("internal_internal", internal, 2.0), ("external_internal", external, 1.0)):
        edges = next(iter(h5py.File(folder / f"network/{name}_edges.h5")["edges"].values()))
        weights = edges["0/syn_weight"][:][edges["edge_group_index"][:]]
        ends = [
            np.array([number[int(node)] for node in edges[f"{end}_node_id"][:]])
            for end, number in (("source", sources), ("target", internal))
        ]
        nest.Connect(*ends, "one_to_one", syn_spec={"weight": weights, "delay": np.full(len(weights), delay)})
    recorder = nest.Create("spike_recorder")
    for cell in cells:
        nest.Connect(cell, recorder)
    begun = time.perf_counter()
    nest.Simulate(milliseconds)
    seconds = time.perf_counter() - begun
    events = recorder.get("events")
    place = {cell.global_id: number for number, cell in enumerate(cells)}
    return np.rint(events["times"] / step_ms).astype(int), np.array([place[cell] for cell in events["senders"]]), seconds


def run_betz(config):
    read = betz.spiking.read_sonata(config)
    engine = read.network.build()
    begun = time.perf_counter()
    engine.run(read.milliseconds * 1e-3)
    seconds = time.perf_counter() - begun
    recording, internal = engine.recording(), read.neurons["internal"]
    neurons, ticks = np.asarray(recording.spike_channels), np.asarray(recording.spike_ticks)
    place = np.full(neurons.max() + 1, -1)
    place[internal[internal <= neurons.max()]] = (internal <= neurons.max()).nonzero()[0]
    own = place[neurons] >= 0
    return ticks[own].astype(int) + 1, place[neurons[own]], seconds


def main():
    config = pathlib.Path(sys.argv[1])
    run = json.loads((config.parent / "simulation_config.json").read_text(encoding="utf-8"))["run"]
    peer_steps, peer_cells, peer_seconds = run_nest(config.parent, run["dt"], run["tstop"])
    steps, cells, seconds = run_betz(config)
    neurons = 1 + max(cells.max(), peer_cells.max())
    counts, peer_counts = (np.bincount(each, minlength=neurons) for each in (cells, peer_cells))
    print(f"spikes: Betz {len(steps)}, NEST {len(peer_steps)}")
    equal, apart = (counts == peer_counts).sum(), abs(counts - peer_counts).max()
    print(f"neurons with equal counts: {equal} of {neurons}, largest difference {apart}")
    print(f"correlation of counts: {np.corrcoef(counts, peer_counts)[0, 1]:.5f}")
    ours, theirs = set(zip(steps, cells, strict=True)), set(zip(peer_steps, peer_cells, strict=True))
    first = min(ours ^ theirs, default=None)
    before = sum(step < first[0] for step, _ in ours) if first else len(ours)
    print(f"equal spikes before the first that differs: {before}, at {first[0] * run['dt']:.2f} ms" if first else "all equal")
    print(f"seconds: Betz {seconds:.2f}, NEST {peer_seconds:.2f}")


if __name__ == "__main__":
    main()
