"""Rates, irregularity and learned weights beside Brian2: is Betz as near to Brian2 as seeds of Brian2 are to each other?

    python -m venv brian && brian/bin/pip install brian2 'numpy<2.4'
    for s in 1 2 3 4 5; do
        brian/bin/python benches/compare/spiking_models_brian2.py brian2 coba $s brian$s.npz
        brian/bin/python benches/compare/spiking_models_brian2.py spec coba $s net.json
        betz simulate --spec net.json --seconds 2 --out betz$s.npz --write-connections betz$s.bin
    done
    brian/bin/python benches/compare/spiking_models_brian2.py compare coba brian?.npz -- betz?.npz

Models: `cuba` and `coba` (Vogels and Abbott 2005, as benchmarks 2 and 1 of Brette et al. 2007, which 100 neurons start),
`brunel` (`betz simulate --model brunel` itself, without `spec`; its other peer is `spiking_nest.py brunel 1.1 SEED nest$s.npz`),
`izhikevich` (1,000 neurons after Izhikevich 2003, parameters drawn independently, Poisson input and exponential currents), `adex`
(1,000 neurons of Brette and Gerstner 2005 with AMPA, NMDA and GABA-A), `stdp` (1,000 balanced neurons; synapses of the
excitatory ones learn by pairs of spikes). Both sides have the same populations, projections, delays and conventions; what is drawn
differs. Statistics leave out the first 0.2 s of 2 s (`brunel`: of 1.2 s).
"""

import json
import sys
from itertools import combinations, product

import numpy as np

SETTLED = 0.2


def length(model):
    """Seconds that are simulated."""
    return 1.2 if model == "brunel" else 2.0


def brunel():
    """Brunel (2000) with exponential currents of 0.5 ms: the values of `betz simulate --model brunel`."""
    tau_m, tau_s, c_m = 20.0, 0.5, 250.0
    ratio, inverse = tau_m / tau_s, 1 / (tau_m - tau_s)
    peak = ratio ** (-tau_m * inverse) - ratio ** (-tau_s * inverse)
    weight = 0.1 * abs(1 / (tau_m * tau_s / c_m * inverse * peak))
    cell = {"tau_m_ms": tau_m, "rest_mv": 0, "threshold_mv": 20, "reset_mv": 0, "refractory_ms": 2, "c_m_pf": c_m}
    kind = dict(
        neuron={"lif": cell},
        synapse={"exponential": {"tau_ms": tau_s, "tau_inhibitory_ms": tau_s}},
        poisson={"rate_hz": 2 * 20 * c_m / (weight * tau_m * tau_s) * 1000, "weight": weight},
        start_mv=0.0,
    )
    sizes, weights, counts = {"e": 10_000, "i": 2_500}, {"e": weight, "i": -5 * weight}, {"e": 1_000, "i": 250}
    populations = [dict(name=name, neurons=sizes[name], **kind) for name in sizes]
    projections = [
        dict(source=s, target=t, rule={"fixed_in": {"count": counts[s]}}, weight=weights[s], delay_ms=1.5)
        for s, t in product(sizes, sizes)
    ]
    return {"step_ms": 0.1, "populations": populations, "projections": projections}


def uniform(low, high):
    return {"low": low, "high": high}


def pairwise(probability):
    return {"pairwise": {"probability": probability}}


def description(model, seed):
    """The network as Betz reads it; Brian2's is made from it."""
    if model == "brunel":
        return {"seed": seed, **brunel()}
    exponential = lambda e, i: {"exponential": {"tau_ms": e, "tau_inhibitory_ms": i}}
    lif = {"tau_m_ms": 20, "rest_mv": -60, "threshold_mv": -50, "reset_mv": -60, "refractory_ms": 5, "c_m_pf": 200}
    if model == "cuba":
        cell = {"lif": {**lif, "rest_mv": -49, "c_m_pf": 20}}
        kind = dict(neuron=cell, synapse=exponential(5, 10), start_mv=uniform(-60, -50))
        weights, chance, receptors, delay = {"e": 1.62, "i": -9.0}, 0.02, {}, 0.1
        sizes = {"e": 3200, "i": 800}
        kinds = {"e": kind, "i": kind}
    elif model == "coba":
        channels = {"ampa": {"tau_decay_ms": 5, "reversal_mv": 0}, "gaba_a": {"tau_decay_ms": 10, "reversal_mv": -80}}
        kind = dict(neuron={"lif": lif}, synapse={"conductance": {"channels": channels}}, start_mv=uniform(-60, -50))
        weights, chance, receptors, delay = {"e": 6.0, "i": 67.0}, 0.02, {"e": "ampa", "i": "gaba_a"}, 0.1
        sizes = {"e": 3200, "i": 800}
        kinds = {"e": kind, "i": kind}
    elif model == "izhikevich":
        kind = lambda parameters, weight: dict(
            neuron={"izhikevich": parameters},
            synapse=exponential(2, 4),
            poisson={"rate_hz": 500, "weight": weight},
            start_mv=uniform(-65, -55),
        )
        kinds = {
            "e": kind({"c_mv": uniform(-65, -50), "d": uniform(2, 8)}, 4.0),
            "i": kind({"a": uniform(0.02, 0.1), "b": uniform(0.2, 0.25), "d": 2}, 3.0),
        }
        weights, chance, receptors, delay = {"e": uniform(0, 1), "i": uniform(-4, 0)}, 0.1, {}, 1.0
        sizes = {"e": 800, "i": 200}
    elif model == "adex":
        channels = {"ampa": {}, "nmda": {}, "gaba_a": {}}
        kind = dict(
            neuron={"adex": {"tau_w_ms": uniform(100, 200), "b_pa": 60}},
            synapse={"conductance": {"channels": channels}},
            poisson={"rate_hz": 3000, "weight": 1.5},
            poisson_receptor="ampa",
            start_mv=uniform(-70, -55),
        )
        kinds = {"e": kind, "i": kind}
        weights, chance, receptors, delay = {"e": 0.5, "i": 6.0}, 0.1, {"e": "nmda", "i": "gaba_a"}, 1.0
        sizes = {"e": 800, "i": 200}
    else:
        cell = {"lif": {**lif, "tau_m_ms": 20, "rest_mv": -65, "reset_mv": -65, "refractory_ms": 2}}
        kind = dict(
            neuron=cell,
            synapse=exponential(2, 5),
            poisson={"rate_hz": 4000, "weight": 30.0},
            start_mv=uniform(-65, -50),
        )
        kinds = {"e": kind, "i": kind}
        weights, chance, receptors, delay = {"e": uniform(0, 60), "i": -120.0}, 0.1, {}, 1.5
        sizes = {"e": 800, "i": 200}
    populations = [dict(name=name, neurons=sizes[name], **kinds[name]) for name in sizes]
    projections = []
    for source, target in product(sizes, sizes):
        made = dict(source=source, target=target, rule=pairwise(chance), weight=weights[source], delay_ms=delay)
        if source in receptors:
            made["receptor"] = receptors[source]
        if model == "stdp" and source == target == "e":
            made["plasticity"] = {"a_plus": 0.01, "a_minus": 0.0105, "high": 60.0}
        projections.append(made)
    if model == "coba":
        trains = [[0.5 * i + 1] for i in range(100)]
        populations.append(dict(name="kick", neurons=100, neuron={"spikes": {"trains_ms": trains}}))
        for target in ("e", "i"):
            made = dict(source="kick", target=target, rule=pairwise(0.2), weight=6.0, delay_ms=0.1, receptor="ampa")
            projections.append(made)
    return {"step_ms": 0.1, "seed": seed, "populations": populations, "projections": projections}


def brian2(network, length):
    """Spikes of Brian2: seconds, neurons; and the weights of the projection that learns."""
    import brian2 as b
    from brian2 import ms, mV, nS, pA, pF

    b.prefs.codegen.target = "numpy"
    b.seed(network["seed"] + 1000)
    b.defaultclock.dt = network["step_ms"] * ms
    groups, first, monitors, inputs = {}, 0, [], []

    def drawn(value, count):
        if isinstance(value, dict):
            return value["low"] + (value["high"] - value["low"]) * np.random.rand(count)
        return value

    np.random.seed(network["seed"] + 1000)
    for population in network["populations"]:
        name, count = population["name"], population["neurons"]
        (model, given), *_ = population["neuron"].items()
        if model == "spikes":
            times = [train[0] for train in given["trains_ms"]]
            group = b.SpikeGeneratorGroup(count, range(count), times * ms)
            groups[name] = group
            monitors.append((first, b.SpikeMonitor(group)))
            first += count
            continue
        (kind, synapse), *_ = population["synapse"].items()
        if kind == "exponential":
            currents = "I = ie + ii : 1\ndie/dt = -ie / taue : 1\ndii/dt = -ii / taui : 1\n"
            space = {"taue": synapse["tau_ms"] * ms, "taui": synapse["tau_inhibitory_ms"] * ms}
        else:
            usual = {"ampa": (0, 5, 0), "nmda": (2, 100, 0), "gaba_a": (0, 10, -80)}
            currents, space, terms = "", {}, []
            for channel, constants in synapse["channels"].items():
                rise, decay, reversal = usual[channel]
                decay = constants.get("tau_decay_ms", decay)
                reversal = constants.get("reversal_mv", reversal)
                space[f"tau_{channel}"] = decay * ms
                conductance = f"g_{channel}"
                currents += f"dg_{channel}/dt = -g_{channel} / tau_{channel} : 1\n"
                if rise:
                    space[f"rise_{channel}"] = rise * ms
                    currents += f"dr_{channel}/dt = -r_{channel} / rise_{channel} : 1\n"
                    conductance = f"(g_{channel} - r_{channel})"
                block = " / (1 + exp(-0.062 * v) / 3.57)" if channel == "nmda" else ""
                terms.append(f"{conductance} * ({reversal} - v){block}")
            currents = f"I = {' + '.join(terms)} : 1\n" + currents
        # Potentials in mV, currents in pA and conductances in nS as plain numbers.
        if model == "lif":
            equations = "dv/dt = ((rest - v) / tau + I / c / ms) : 1 (unless refractory)\n"
            space |= {"rest": given["rest_mv"], "tau": given["tau_m_ms"] * ms, "c": given["c_m_pf"]}
            rules = dict(threshold=f"v >= {given['threshold_mv']}", reset=f"v = {given['reset_mv']}")
            rules["refractory"] = given["refractory_ms"] * ms
            parameters = {}
        elif model == "izhikevich":
            equations = (
                "dv/dt = (0.04 * v**2 + 5 * v + 140 - u + I) / ms : 1\ndu/dt = a * (b * v - u) / ms : 1\n"
                "a : 1\nb : 1\nc : 1\nd : 1\n"
            )
            rules = dict(threshold="v >= 30", reset="v = c; u += d")
            parameters = {
                "a": given.get("a", 0.02), "b": given.get("b", 0.2), "c": given.get("c_mv", -65), "d": given.get("d", 8)
            }
        else:
            equations = (
                "dv/dt = (30 * (-70.6 - v) + 60 * exp((clip(v, -200, 20) + 50.4) / 2) - w + I) / 281 / ms : 1\n"
                "dw/dt = (4 * (clip(v, -200, 20) + 70.6) - w) / tauw : 1\ntauw : second\n"
            )
            rules = dict(threshold="v >= 20", reset=f"v = -70.6; w += {given['b_pa']}")
            parameters = {}
        method = "exact" if (model, kind) == ("lif", "exponential") else "rk4"
        group = b.NeuronGroup(count, equations + currents, namespace=space, method=method, **rules)
        group.v = drawn(population["start_mv"], count)
        for parameter, value in parameters.items():
            setattr(group, parameter, drawn(value, count))
        if model == "izhikevich":
            group.u = group.b[:] * group.v[:]
        if model == "adex":
            group.tauw = drawn(given["tau_w_ms"], count) * ms
            group.w = 4 * (group.v[:] + 70.6)
        if "poisson" in population:
            poisson = population["poisson"]
            into = f"g_{population['poisson_receptor']}" if kind == "conductance" else "ie"
            # One train per neuron, as a sum of slower ones, each of which rarely has two spikes in a step.
            trains = 10 if poisson["rate_hz"] <= 5000 else 1000
            inputs.append(b.PoissonInput(group, into, trains, poisson["rate_hz"] / trains * b.Hz, poisson["weight"]))
        groups[name] = group
        monitors.append((first, b.SpikeMonitor(group)))
        first += count
    learning, synapses = None, []
    for projection in network["projections"]:
        source, target = groups[projection["source"]], groups[projection["target"]]
        weight = projection["weight"]
        receptor = projection.get("receptor")
        least = weight["low"] if isinstance(weight, dict) else weight
        into = f"g_{receptor}_post" if receptor else ("ii_post" if least < 0 else "ie_post")
        act = f"{into} += strength"
        if receptor == "nmda":
            at = np.log(100 / 2) * 2 * 100 / 98
            peak = 1 / (np.exp(-at / 100) - np.exp(-at / 2))
            act = f"g_nmda_post += {peak} * strength; r_nmda_post += {peak} * strength"
        if "plasticity" in projection:
            rule = projection["plasticity"]
            plastic = "strength : 1\ndr/dt = -r / (20 * ms) : 1 (event-driven)\ndo/dt = -o / (20 * ms) : 1 (event-driven)"
            high = rule["high"]
            before = f"strength = clip(strength - {rule['a_minus'] * high} * o, 0, {high}); r += 1; {act}"
            after = f"o += 1; strength = clip(strength + {rule['a_plus'] * high} * r, 0, {high})"
            made = b.Synapses(source, target, plastic, on_pre=before, on_post=after, delay=projection["delay_ms"] * ms)
            learning = made
        else:
            made = b.Synapses(source, target, "strength : 1", on_pre=act, delay=projection["delay_ms"] * ms)
        if "fixed_in" in projection["rule"]:
            count = projection["rule"]["fixed_in"]["count"]
            targets = np.repeat(np.arange(len(target)), count)
            made.connect(i=np.random.randint(len(source), size=len(targets)), j=targets)
        else:
            made.connect(p=projection["rule"]["pairwise"]["probability"])
        made.strength = drawn(weight, len(made))
        synapses.append(made)
    simulation = b.Network(*groups.values(), *synapses, *inputs, *(m for _, m in monitors))
    simulation.run(length * b.second)
    seconds = np.concatenate([np.asarray(m.t / b.second) for _, m in monitors])
    neurons = np.concatenate([np.asarray(m.i) + first for first, m in monitors])
    return seconds, neurons, np.zeros(0) if learning is None else np.asarray(learning.strength)


def read(path, network):
    """Spikes after `SETTLED` and learned weights of a run of either side."""
    data = np.load(path, allow_pickle=False)
    if "sizes" in data:
        # NEST's, without the first 0.1 s.
        return data["seconds"] + 0.1, data["neuron"], np.zeros(0)
    if "seconds" in data:
        return data["seconds"], data["neuron"], data["weights"]
    weights = np.zeros(0)
    if any("plasticity" in p for p in network["projections"]):
        record = np.dtype([("source", "<u4"), ("target", "<u4"), ("weight", "<f4"), ("delay", "<f4")])
        list_ = np.fromfile(path.replace(".npz", ".bin"), record)
        excitatory = network["populations"][0]["neurons"]
        own = (list_["source"] < excitatory) & (list_["target"] < excitatory)
        weights = list_["weight"][own].astype(float)
    return data["spike_ticks"] * float(data["tick_seconds"]), data["spike_channels"], weights


def statistics(run, network, length):
    """By population: rates of neurons and CVs of their intervals; the learned weights."""
    seconds, neuron, weights = run
    later = seconds >= SETTLED
    seconds, neuron = seconds[later], neuron[later]
    found, first = {}, 0
    for population in network["populations"]:
        count = population["neurons"]
        if "spikes" not in population["neuron"]:
            own = (neuron >= first) & (neuron < first + count)
            n, t = neuron[own] - first, seconds[own]
            order = np.lexsort((t, n))
            n, t = n[order], t[order]
            rates = np.bincount(n, minlength=count) / (length - SETTLED)
            starts = np.searchsorted(n, np.arange(count + 1))
            cvs = []
            for a, b in zip(starts, starts[1:]):
                if b - a >= 4:
                    intervals = np.diff(t[a:b])
                    cvs.append(intervals.std() / intervals.mean())
            found[f"{population['name']}: rate (Hz)"] = rates
            found[f"{population['name']}: CV"] = np.array(cvs)
        first += count
    if len(weights):
        found["learned weights (pA)"] = weights
    return found


def distance(a, b):
    """Kolmogorov-Smirnov."""
    at = np.sort(np.concatenate([a, b]))
    part = lambda x: np.searchsorted(np.sort(x), at, side="right") / len(x)
    return np.abs(part(a) - part(b)).max()


def compare(model, paths):
    apart = paths.index("--")
    network = description(model, 0)
    of = lambda group: [statistics(read(path, network), network, length(model)) for path in group]
    theirs, ours = of(paths[:apart]), of(paths[apart + 1 :])
    print("| statistic | peer, mean | Betz, mean | KS within the peer | KS Betz to the peer |\n|---|---|---|---|---|")
    for name in theirs[0]:
        means = [np.array([run[name].mean() for run in runs]) for runs in (theirs, ours)]
        within = [distance(a[name], b[name]) for a, b in combinations(theirs, 2)]
        between = [distance(a[name], b[name]) for a, b in product(ours, theirs)]
        words = [f"{m.mean():.3f} ± {m.std():.3f}" for m in means]
        words += [f"{np.mean(d):.4f} ± {np.std(d):.4f}" for d in (within, between)]
        print(f"| {model}, {name} | " + " | ".join(words) + " |")


if __name__ == "__main__":
    what, model, *rest = sys.argv[1:]
    if what == "spec":
        with open(rest[1], "w", encoding="utf-8") as file:
            json.dump(description(model, int(rest[0])), file)
    elif what == "brian2":
        seconds, neurons, weights = brian2(description(model, int(rest[0])), length(model))
        np.savez(rest[1], seconds=seconds, neuron=neurons, weights=weights)
        print(f"{model}, seed {rest[0]}: {len(seconds)} spikes")
    else:
        compare(model, rest)
