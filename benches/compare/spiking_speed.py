"""Speed beside Brian2 (C++ standalone) and NEST: the same networks on one thread of each, in one run.

    python -m venv peers && peers/bin/pip install brian2 nest-simulator 'numpy<2.4'
    peers/bin/python benches/compare/spiking_speed.py BETZ izhikevich 100000 100 0.2       # neurons, synapses of each, seconds
    peers/bin/python benches/compare/spiking_speed.py BETZ adex 10000 1000 0.2
    peers/bin/python benches/compare/spiking_speed.py BETZ stdp 3125 400 1                 # 800,000 of the synapses learn
    python3 benches/compare/spiking_speed.py spec izhikevich 1000000 100 net.json          # Betz' description alone
    python3 benches/compare/spiking_speed.py spec static 200000 5000 net.json              # for synapses in the host's memory

BETZ is a release build of `betz`. A last argument `betz`, `brian2` or `nest` runs that side alone. Prints processor seconds of
SECONDS of the network after 0.1 s that do not count, without building. Four fifths of the neurons are excitatory, and so
are four fifths of the synapses. Steps of 0.1 ms, delays of 1.5 ms.

`izhikevich`: spikes move the potential. Betz and Brian2 integrate by Runge-Kutta of order 4, NEST by Euler's rule.
`adex`: conductances without a rise. Betz has two sub-steps of 0.05 ms of order 4, Brian2 one step of order 4, NEST adaptive steps.
`stdp`: leaky neurons with exponential currents, integrated exactly; synapses between excitatory neurons learn by pairs of spikes.
`static`, for `spec` alone: the same without learning, and each neuron draws its targets, so that a GPU draws the synapses.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

STEP, SETTLED, DELAY = 0.1, 0.1, 1.5
LIF = {"tau_m_ms": 20, "rest_mv": -65, "threshold_mv": -50, "reset_mv": -65, "refractory_ms": 2, "c_m_pf": 200}


def description(model, neurons, degree):
    """The network as Betz reads it; the others are made from it."""
    sizes = {"e": neurons * 4 // 5, "i": neurons - neurons * 4 // 5}
    degrees = {"e": degree * 4 // 5, "i": degree - degree * 4 // 5}
    receptors = {}
    if model == "izhikevich":
        kinds = {
            "e": dict(neuron={"izhikevich": {"d": 8}}, poisson={"rate_hz": 1000, "weight": 3.5}),
            "i": dict(neuron={"izhikevich": {"a": 0.1, "d": 2}}, poisson={"rate_hz": 1000, "weight": 3.0}),
        }
        common = dict(synapse="delta", start_mv={"low": -65, "high": -55})
        weights = {"e": {"low": 0, "high": 40 / degree}, "i": -80 / degree}
    elif model == "adex":
        receptors = {"e": "ampa", "i": "gaba_a"}
        channels = {"ampa": {"tau_decay_ms": 5, "reversal_mv": 0}, "gaba_a": {"tau_decay_ms": 10, "reversal_mv": -80}}
        cell = dict(neuron={"adex": {"b_pa": 60}}, poisson={"rate_hz": 2000, "weight": 1.5}, poisson_receptor="ampa")
        kinds = {"e": cell, "i": cell}
        common = dict(synapse={"conductance": {"channels": channels}}, start_mv={"low": -70, "high": -55})
        weights = {"e": 100 / degree, "i": 1000 / degree}
    else:
        cell = dict(neuron={"lif": LIF}, poisson={"rate_hz": 4000, "weight": 30.0})
        kinds = {"e": cell, "i": cell}
        synapse = {"exponential": {"tau_ms": 2, "tau_inhibitory_ms": 5}}
        common = dict(synapse=synapse, start_mv={"low": -65, "high": -50})
        weights = {"e": {"low": 0, "high": 6000 / degree}, "i": -12000 / degree}
    populations = [dict(name=name, neurons=sizes[name], **kinds[name], **common) for name in sizes]
    projections = []
    for source, target in product(sizes, sizes):
        rule = {"fixed_in": {"count": degrees[source]}}
        made = dict(source=source, target=target, rule=rule, weight=weights[source], delay_ms=DELAY)
        if source in receptors:
            made["receptor"] = receptors[source]
        if model == "static":
            share = degrees[source] * sizes[target] // sizes[source]
            made["rule"] = {"fixed_out": {"count": share}}
            if source == "e":
                made["weight"] = {"mean": 3000 / degree, "sd": 300 / degree}
        if model == "stdp" and source == target == "e":
            made["plasticity"] = {"a_plus": 0.01, "a_minus": 0.0105, "high": weights["e"]["high"]}
        projections.append(made)
    return {"step_ms": STEP, "seed": 1, "populations": populations, "projections": projections}


def betz(program, network, seconds):
    """The difference of two runs: building is the same in both."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.json")
        path.write_text(json.dumps(network), encoding="utf-8")
        used, said = [], {}
        for length in (SETTLED, SETTLED + seconds):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [program, "simulate", "--spec", path, "--seconds", f"{length:g}", "--threads", "1"]
            output = subprocess.run([*command, "--device", "cpu", "--json"], check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            said = json.loads(output.stdout)
        return used[1] - used[0], used[0], [rate["hz"] for rate in said["rates_hz"]]


def brian2(network, seconds):
    import brian2 as b
    from brian2 import Hz, ms, second

    folder = tempfile.mkdtemp()
    b.set_device("cpp_standalone", directory=folder, build_on_run=False)
    b.prefs.devices.cpp_standalone.openmp_threads = 0
    b.prefs.codegen.cpp.extra_compile_args_gcc = ["-O3", "-march=native", "-ffast-math"]
    b.seed(7)
    b.defaultclock.dt = STEP * ms
    groups, monitors, objects = {}, [], []
    for population in network["populations"]:
        (model, given), *_ = population["neuron"].items()
        space = {}
        if model == "izhikevich":
            equations = "dv/dt = (0.04 * v**2 + 5 * v + 140 - u) / ms : 1\ndu/dt = a * (0.2 * v - u) / ms : 1\n"
            space = {"a": given.get("a", 0.02), "d": given["d"]}
            rules = dict(threshold="v >= 30", reset="v = -65; u += d", method="rk4")
            into = {"e": "v", "i": "v"}
        elif model == "adex":
            equations = (
                "dv/dt = (30 * (-70.6 - v) + 60 * exp((clip(v, -200, 20) + 50.4) / 2) - w - ge * v - gi * (v + 80)) / 281 / ms : 1\n"
                "dw/dt = (4 * (clip(v, -200, 20) + 70.6) - w) / (144 * ms) : 1\n"
                "dge/dt = -ge / (5 * ms) : 1\ndgi/dt = -gi / (10 * ms) : 1\n"
            )
            rules = dict(threshold="v >= 20", reset=f"v = -70.6; w += {given['b_pa']}", method="rk4")
            into = {"e": "ge", "i": "gi"}
        else:
            equations = (
                "dv/dt = ((-65 - v) / 20 + (ie + ii) / 200) / ms : 1 (unless refractory)\n"
                "die/dt = -ie / (2 * ms) : 1\ndii/dt = -ii / (5 * ms) : 1\n"
            )
            rules = dict(threshold="v >= -50", reset="v = -65", refractory=2 * ms, method="exact")
            into = {"e": "ie", "i": "ii"}
        group = b.NeuronGroup(population["neurons"], equations, namespace=space, **rules)
        start = population["start_mv"]
        group.v = f"{start['low']} + {start['high'] - start['low']} * rand()"
        if model == "izhikevich":
            group.u = "0.2 * v"
        if model == "adex":
            group.w = "4 * (v + 70.6)"
        poisson = population["poisson"]
        # One train per neuron, as a sum of ten slower ones.
        objects.append(b.PoissonInput(group, into["e"], 10, poisson["rate_hz"] / 10 * Hz, poisson["weight"]))
        groups[population["name"]] = group
        monitors.append(b.SpikeMonitor(group, record=False))
    for projection in network["projections"]:
        source, target = groups[projection["source"]], groups[projection["target"]]
        weight = projection["weight"]
        act = f"{into[projection['source']]}_post += strength"
        if "plasticity" in projection:
            rule = projection["plasticity"]
            high = rule["high"]
            made = b.Synapses(
                source,
                target,
                "strength : 1\ndr/dt = -r / (20 * ms) : 1 (event-driven)\ndo/dt = -o / (20 * ms) : 1 (event-driven)",
                on_pre=f"strength = clip(strength - {rule['a_minus'] * high} * o, 0, {high}); r += 1; {act}",
                on_post=f"o += 1; strength = clip(strength + {rule['a_plus'] * high} * r, 0, {high})",
                delay=DELAY * ms,
            )
        elif isinstance(weight, dict):
            made = b.Synapses(source, target, "strength : 1", on_pre=act, delay=DELAY * ms)
        else:
            made = b.Synapses(source, target, on_pre=act.replace("strength", str(weight)), delay=DELAY * ms)
        made.connect(i=f"int(rand() * N_pre) for _ in range({projection['rule']['fixed_in']['count']})")
        if isinstance(weight, dict):
            made.strength = f"{weight['low']} + {weight['high'] - weight['low']} * rand()"
        objects.append(made)
    simulation = b.Network(*groups.values(), *objects, *monitors)
    clock = 'printf("processor %.6f\\n", (double)clock() / CLOCKS_PER_SEC);'
    b.device.insert_code("main", clock)
    simulation.run(SETTLED * second)
    b.device.insert_code("main", clock)
    simulation.run(seconds * second)
    b.device.insert_code("main", clock)
    b.device.build(directory=folder, compile=True, run=True, with_output=False)
    output = Path(folder, "results", "stdout.txt").read_text(encoding="utf-8")
    built, begun, ended = (float(line.split()[1]) for line in output.splitlines() if line.startswith("processor"))
    rates = [m.num_spikes / (SETTLED + seconds) / len(m.source) for m in monitors]
    return ended - begun, built, rates


def nest_(network, seconds):
    import nest

    nest.set_verbosity("M_ERROR")
    nest.ResetKernel()
    nest.SetKernelStatus({"resolution": STEP, "local_num_threads": 1, "rng_seed": 12345})
    begun = time.process_time()
    groups, recorders = {}, []
    for population in network["populations"]:
        (model, given), *_ = population["neuron"].items()
        start = population["start_mv"]
        parameters = {"V_m": nest.random.uniform(start["low"], start["high"])}
        if model == "izhikevich":
            kind = "izhikevich"
            parameters |= {"a": given.get("a", 0.02), "b": 0.2, "c": -65.0, "d": float(given["d"])}
            parameters["U_m"] = -13.0
        elif model == "adex":
            kind = "aeif_cond_exp"
            parameters |= {
                "C_m": 281.0, "g_L": 30.0, "E_L": -70.6, "V_th": -50.4, "Delta_T": 2.0, "a": 4.0, "tau_w": 144.0,
                "b": float(given["b_pa"]), "V_peak": 20.0, "V_reset": -70.6, "E_ex": 0.0, "E_in": -80.0,
                "tau_syn_ex": 5.0, "tau_syn_in": 10.0, "t_ref": 0.0,
            }
        else:
            kind = "iaf_psc_exp"
            parameters |= {
                "C_m": 200.0, "tau_m": 20.0, "E_L": -65.0, "V_th": -50.0, "V_reset": -65.0, "t_ref": 2.0,
                "tau_syn_ex": 2.0, "tau_syn_in": 5.0, "tau_minus": 20.0,
            }
        group = nest.Create(kind, population["neurons"], params=parameters)
        poisson = population["poisson"]
        source = nest.Create("poisson_generator", params={"rate": float(poisson["rate_hz"])})
        nest.Connect(source, group, "all_to_all", {"weight": float(poisson["weight"]), "delay": DELAY})
        recorder = nest.Create("spike_recorder", params={"record_to": "memory"})
        nest.Connect(group, recorder)
        groups[population["name"]] = group
        recorders.append(recorder)
    for projection in network["projections"]:
        weight = projection["weight"]
        if isinstance(weight, dict):
            weight = nest.random.uniform(weight["low"], weight["high"])
        elif projection.get("receptor") == "gaba_a":
            weight = -weight
        synapse = {"weight": weight, "delay": DELAY}
        if "plasticity" in projection:
            rule = projection["plasticity"]
            synapse |= {
                "synapse_model": "stdp_synapse", "Wmax": rule["high"], "lambda": rule["a_plus"],
                "alpha": rule["a_minus"] / rule["a_plus"], "tau_plus": 20.0, "mu_plus": 0.0, "mu_minus": 0.0,
            }
        rule = {"rule": "fixed_indegree", "indegree": projection["rule"]["fixed_in"]["count"]}
        nest.Connect(groups[projection["source"]], groups[projection["target"]], rule, synapse)
    nest.Prepare()
    nest.Run(SETTLED * 1000.0)
    before = time.process_time()
    nest.Run(seconds * 1000.0)
    used = time.process_time() - before
    rates = [r.n_events / (SETTLED + seconds) / len(g) for r, g in zip(recorders, groups.values())]
    return used, before - begun, rates


if __name__ == "__main__":
    program, model, neurons, degree, last, *only = sys.argv[1:]
    network = description(model, int(neurons), int(degree))
    if program == "spec":
        Path(last).write_text(json.dumps(network), encoding="utf-8")
        sys.exit()
    seconds = float(last)
    sides = {"betz": lambda: betz(program, network, seconds), "brian2": lambda: brian2(network, seconds)}
    sides["nest"] = lambda: nest_(network, seconds)
    first = None
    for name, run in sides.items():
        if only and name not in only:
            continue
        used, before, rates = run()
        first = first or used
        print(
            f"{model} {neurons} x {degree}, {seconds:g} s: {name}: {used:.3f} s of processor ({used / seconds:.2f} per second of the "
            f"network, {used / first:.2f} times the first), before that {before:.2f} s; rates {', '.join(f'{r:.2f}' for r in rates)} Hz",
            flush=True,
        )
