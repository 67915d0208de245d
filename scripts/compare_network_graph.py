#!/usr/bin/env python3
"""Graph measures and communities of betz-network beside networkx, bctpy and leidenalg.

    cargo build --release -p betz-programs --bin network_graph
    python scripts/compare_network_graph.py target/release/network_graph [--large]

Needs networkx, bctpy, leidenalg, igraph, numpy. Prints a table in Markdown; ends with 1 if a value
differs by more than 1e-9 (relative to 1) or a quality is below leidenalg's by more than 0.001.
--large adds a graph of 22,360 nodes and about 10^6 edges, communities only, with times.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings

import bct
import igraph
import leidenalg
import networkx as nx
import numpy as np

warnings.filterwarnings("ignore")


def planted(rng, nodes, groups, inside, between, signed):
    """Edges (i, j, weight) with more of them inside groups; negative ones mostly between."""
    of = rng.integers(0, groups, nodes)
    i, j = np.triu_indices(nodes, 1)
    same = of[i] == of[j]
    keep = rng.random(len(i)) < np.where(same, inside, between)
    i, j, same = i[keep], j[keep], same[keep]
    w = np.round(rng.uniform(0.2, 1.0, len(i)), 6)
    if signed:
        w[rng.random(len(i)) < np.where(same, 0.05, 0.5)] *= -1
    return i, j, w


def sparse(rng, nodes, groups, edges, mixing):
    """The same drawn edge by edge, for large graphs."""
    of = rng.integers(0, groups, nodes)
    order = np.argsort(of, kind="stable")
    first = np.searchsorted(of[order], np.arange(groups + 1))
    i = rng.integers(0, nodes, edges * 2)
    inside = order[first[of[i]] + (rng.random(len(i)) * (first[of[i] + 1] - first[of[i]])).astype(int)]
    j = np.where(rng.random(len(i)) < mixing, rng.integers(0, nodes, len(i)), inside)
    pairs = np.unique(np.stack([np.minimum(i, j), np.maximum(i, j)], 1)[i != j], axis=0)
    pairs = pairs[rng.permutation(len(pairs))[:edges]]
    return pairs[:, 0], pairs[:, 1], np.round(rng.uniform(0.5, 1.0, len(pairs)), 6)


def betz(binary, nodes, i, j, w, partition=None):
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(f"{folder}/edges", np.stack([i, j, w], 1), fmt=["%d", "%d", "%.9g"])
        command = [binary, str(nodes), f"{folder}/edges"]
        if partition is not None:
            np.savetxt(f"{folder}/partition", partition, fmt="%d")
            command.append(f"{folder}/partition")
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def layers(nodes, i, j, w):
    """leidenalg's positive and negative layer, weighted as Gómez' symmetric modularity."""
    def layer(keep):
        g = igraph.Graph(n=nodes, edges=list(zip(i[keep].tolist(), j[keep].tolist())))
        g.es["weight"] = np.abs(w[keep]).tolist()
        return g
    parts, weights = [], []
    total = np.abs(w).sum()
    for sign in (1, -1):
        keep = np.sign(w) == sign
        if keep.any():
            parts.append(leidenalg.ModularityVertexPartition(layer(keep), weights="weight"))
            weights.append(sign * np.abs(w[keep]).sum() / total)
    return parts, weights


def leiden_quality(nodes, i, j, w, seeds):
    best, seconds = -np.inf, np.inf
    for seed in range(seeds):
        parts, weights = layers(nodes, i, j, w)
        optimiser = leidenalg.Optimiser()
        optimiser.set_rng_seed(seed)
        start = time.perf_counter()
        while optimiser.optimise_partition_multiplex(parts, layer_weights=weights) > 0:
            pass
        seconds = min(seconds, time.perf_counter() - start)
        best = max(best, sum(a * p.quality() for a, p in zip(weights, parts)))
    return best, seconds


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    arguments.add_argument("--large", action="store_true")
    options = arguments.parse_args()
    failed = False
    print("| graph | measure | largest difference | from |\n|---|---|---|---|")

    def compare(graph, name, ours, theirs, source):
        nonlocal failed
        difference = float(np.max(np.abs(np.asarray(ours, float) - np.asarray(theirs, float))))
        failed |= not difference <= 1e-9
        print(f"| {graph} | {name} | {difference:.1e} | {source} |")

    rows = []
    for name, nodes, groups, inside, between, signed in (
        ("120 nodes", 120, 4, 0.3, 0.03, False),
        ("120 nodes, signed", 120, 4, 0.3, 0.05, True),
        ("400 nodes, sparse", 400, 8, 0.08, 0.002, False),
        ("400 nodes, signed", 400, 8, 0.15, 0.02, True),
    ):
        rng = np.random.default_rng(len(name))
        i, j, w = planted(rng, nodes, groups, inside, between, signed)
        partition = rng.integers(1, groups + 1, nodes)
        ours = betz(options.binary, nodes, i, j, w, partition)
        # Weights are stored in 32 bits.
        w = w.astype(np.float32).astype(float)
        graph = nx.Graph()
        graph.add_nodes_from(range(nodes))
        graph.add_weighted_edges_from(zip(i.tolist(), j.tolist(), w.tolist()))
        size = nx.Graph()
        size.add_nodes_from(range(nodes))
        size.add_weighted_edges_from(zip(i.tolist(), j.tolist(), np.abs(w).tolist()))
        a = nx.to_numpy_array(graph)
        values = lambda d: [d[n] for n in range(nodes)]
        compare(name, "clustering", ours["clustering"], values(nx.clustering(graph)), "networkx")
        compare(name, "clustering", ours["clustering"], bct.clustering_coef_bu((a != 0).astype(float)), "bctpy")
        compare(name, "weighted clustering", ours["weighted_clustering"], values(nx.clustering(size, weight="weight")), "networkx, magnitudes")
        compare(name, "weighted clustering", ours["weighted_clustering"], bct.clustering_coef_wu(np.abs(a) / np.abs(a).max()), "bctpy, magnitudes")
        compare(name, "transitivity", ours["transitivity"], nx.transitivity(graph), "networkx")
        compare(name, "components", ours["components"], nx.number_connected_components(graph), "networkx")
        compare(name, "assortativity", ours["assortativity"], nx.degree_assortativity_coefficient(graph), "networkx")
        compare(name, "global efficiency", ours["efficiency"], nx.global_efficiency(graph), "networkx")
        inverse = np.where(a != 0, 1 / np.where(a != 0, np.abs(a), 1), 0)
        distance = np.array(bct.distance_wei(inverse)[0])
        np.fill_diagonal(distance, np.inf)
        compare(name, "weighted efficiency", ours["weighted_efficiency"], (1 / distance).sum() / (nodes * (nodes - 1)), "bctpy distance_wei")
        blocks = [set(np.flatnonzero(partition == c).tolist()) for c in np.unique(partition)]
        if not signed:
            compare(name, "modularity", ours["modularity"], nx.community.modularity(graph, blocks), "networkx")
        for kind, key in (("sta", "modularity"), ("gja", "modularity_symmetric")):
            # bctpy evaluates a given partition with no optimisation here.
            plus, minus = np.where(a > 0, a, 0), np.where(a < 0, -a, 0)
            same = partition[:, None] == partition[None, :]
            def share(m):
                s = m.sum()
                return ((m - np.outer(m.sum(0), m.sum(0)) / s) * same).sum() if s else 0.0
            vp, vm = plus.sum(), minus.sum()
            q = share(plus) / (vp if kind == "sta" else vp + vm) - share(minus) / (vp + vm)
            compare(name, f"{key}", ours[key], q, "definition, NumPy")
        pos, neg = bct.participation_coef_sign(a, partition)
        compare(name, "participation +", ours["participation_plus"], pos, "bctpy")
        compare(name, "participation −", ours["participation_minus"], np.nan_to_num(neg), "bctpy")
        compare(name, "within-module z", ours["within_module_z"], bct.module_degree_zscore(a, partition), "bctpy")
        quality, _ = leiden_quality(nodes, i, j, w, 5)
        rows.append((name, ours["leiden_quality"], quality, None, None))
        if not signed:
            print(f"| {name} | sigma (transitivity, 20 rewirings) | {ours['sigma']:.3f} | not compared: chance |")
    if options.large:
        rng = np.random.default_rng(7)
        nodes = 22_360
        i, j, w = sparse(rng, nodes, 60, 1_000_000, 0.3)
        ours = betz(options.binary, nodes, i, j, w)
        quality, seconds = leiden_quality(nodes, i, j, w, 1)
        rows.append((f"{nodes} nodes, {len(i)} edges", ours["leiden_quality"], quality, ours["leiden_seconds"], seconds))
        print(f"\nwarm, from its own communities: {ours['leiden_warm_seconds']:.3f} s, Q {ours['leiden_warm_quality']:.6f}")
    print("\n| graph | Betz Q | leidenalg Q (best of 5 seeds) | Betz s | leidenalg s |\n|---|---|---|---|---|")
    for name, q, other, s, t in rows:
        failed |= q < other - 0.001
        print(f"| {name} | {q:.6f} | {other:.6f} | {'' if s is None else f'{s:.2f}'} | {'' if t is None else f'{t:.2f}'} |")
    sys.exit(failed)


if __name__ == "__main__":
    main()
