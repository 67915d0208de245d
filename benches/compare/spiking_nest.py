"""NEST beside `spiking_record models`: PD14 at a scale, or Brunel's network with exponential currents.

    python -m venv nest && nest/bin/pip install nest-simulator
    nest/bin/python benches/compare/spiking_nest.py pd14 0.1 1.2
    nest/bin/python benches/compare/spiking_nest.py brunel 0.2
    nest/bin/python benches/compare/spiking_nest.py pd14 0.1 4 12345 nest1.npz   # a seed, and the spikes for spiking_statistics.py
    nest/bin/python benches/compare/spiking_nest.py brunel 1.1 12345 nest1.npz   # the same for spiking_models_brian2.py

Prints processor seconds of one thread for the simulation alone, after 100 ms that do not count.
"""

import sys
import time

import nest
import numpy as np

STEP = 0.1
# PD14's scale comes before the seconds.
SEED, SPIKES = (sys.argv[4 if sys.argv[1] == "pd14" else 3 :] + [None] * 2)[:2]


def current_for_potential(c_m, tau_m, tau_s):
    inverse = 1 / (tau_m - tau_s)
    ratio = tau_m / tau_s
    peak = ratio ** (-tau_m * inverse) - ratio ** (-tau_s * inverse)
    return abs(1 / (tau_m * tau_s / c_m * inverse * peak))


def simulate(name, seconds, populations, built):
    recorders = [nest.Create("spike_recorder", params={"start": 100.0}) for _ in populations]
    for population, recorder in zip(populations, recorders):
        nest.Connect(population, recorder)
    nest.Prepare()
    nest.Run(100.0)
    before = time.process_time()
    nest.Run(seconds * 1000.0)
    used = time.process_time() - before
    rates = [r.n_events / len(p) / seconds for p, r in zip(populations, recorders)]
    print(
        f"{name}: {nest.num_connections} connections, built in {built:.1f} s, "
        f"{used:.3f} s of processor for {seconds} s, real-time factor {used / seconds:.2f}"
    )
    print("rates Hz", " ".join(f"{rate:.3f}" for rate in rates))
    if SPIKES:
        first = populations[0].tolist()[0]
        events = [r.events for r in recorders]
        np.savez(
            SPIKES,
            seconds=np.concatenate([e["times"] for e in events]) * 1e-3 - 0.1,
            neuron=np.concatenate([e["senders"] for e in events]) - first,
            sizes=[len(p) for p in populations],
        )


def pd14(scale, seconds):
    full = np.array([20683, 5834, 21915, 5479, 4850, 1065, 14395, 2948.0])
    probability = np.array(
        [
            [0.1009, 0.1689, 0.0437, 0.0818, 0.0323, 0.0, 0.0076, 0.0],
            [0.1346, 0.1371, 0.0316, 0.0515, 0.0755, 0.0, 0.0042, 0.0],
            [0.0077, 0.0059, 0.0497, 0.135, 0.0067, 0.0003, 0.0453, 0.0],
            [0.0691, 0.0029, 0.0794, 0.1597, 0.0033, 0.0, 0.1057, 0.0],
            [0.1004, 0.0622, 0.0505, 0.0057, 0.0831, 0.3726, 0.0204, 0.0],
            [0.0548, 0.0269, 0.0257, 0.0022, 0.06, 0.3158, 0.0086, 0.0],
            [0.0156, 0.0066, 0.0211, 0.0166, 0.0572, 0.0197, 0.0396, 0.2252],
            [0.0364, 0.001, 0.0034, 0.0005, 0.0277, 0.008, 0.0658, 0.1443],
        ]
    )
    external = np.array([1600, 1500, 2100, 1900, 2000, 1900, 2900, 2100.0])
    compensated = np.array([0.971, 2.868, 4.746, 5.396, 8.142, 9.078, 0.991, 7.523])
    begun = time.process_time()
    weight = 0.15 * current_for_potential(250.0, 10.0, 0.5)
    weights = np.tile(np.where(np.arange(8) % 2 == 1, -4 * weight, weight), (8, 1))
    weights[0, 2] *= 2
    in_degree = np.log(1 - probability) / np.log(1 - 1 / np.outer(full, full)) / full[:, None]
    missing = (in_degree * weights) @ compensated + weight * external * 8.0
    constant = 1e-3 * 0.5 * (1 - np.sqrt(scale)) * missing
    neurons = np.round(full * scale).astype(int)
    grown = 1 / np.sqrt(scale)
    populations = []
    for n, current in zip(neurons, constant):
        parameters = {
            "C_m": 250.0, "tau_m": 10.0, "tau_syn_ex": 0.5, "tau_syn_in": 0.5, "t_ref": 2.0,
            "E_L": -65.0, "V_th": -50.0, "V_reset": -65.0, "I_e": float(current),
            "V_m": nest.random.normal(-58.0, 10.0),
        }
        populations.append(nest.Create("iaf_psc_exp", int(n), params=parameters))
    for t in range(8):
        for s in range(8):
            if probability[t, s] == 0:
                continue
            mean = weights[t, s] * grown
            delay = 0.75 if s % 2 else 1.5
            low, high = (0.0, np.inf) if mean > 0 else (-np.inf, 0.0)
            drawn = nest.random.normal(mean, abs(mean * 0.1))
            nest.Connect(
                populations[s],
                populations[t],
                {"rule": "fixed_total_number", "N": int(round(in_degree[t, s] * scale * neurons[t]))},
                {
                    "weight": nest.math.redraw(drawn, min=low, max=high),
                    "delay": nest.math.redraw(
                        nest.random.normal(delay, delay / 2), min=STEP / 2, max=np.inf
                    ),
                },
            )
        source = nest.Create("poisson_generator", params={"rate": external[t] * scale * 8.0})
        nest.Connect(source, populations[t], "all_to_all", {"weight": weight * grown, "delay": 1.5})
    simulate(f"PD14 {scale}", seconds, populations, time.process_time() - begun)


def brunel(seconds, g=5.0, eta=2.0):
    c_m, tau_m, tau_s = 250.0, 20.0, 0.5
    begun = time.process_time()
    weight = 0.1 * current_for_potential(c_m, tau_m, tau_s)
    rate = eta * 20.0 * c_m / (weight * tau_m * tau_s) * 1000.0
    parameters = {
        "C_m": c_m, "tau_m": tau_m, "tau_syn_ex": tau_s, "tau_syn_in": tau_s, "t_ref": 2.0,
        "E_L": 0.0, "V_th": 20.0, "V_reset": 0.0, "V_m": 0.0,
    }
    excitatory = nest.Create("iaf_psc_exp", 10000, params=parameters)
    inhibitory = nest.Create("iaf_psc_exp", 2500, params=parameters)
    for target in (excitatory, inhibitory):
        for source, count, strength in ((excitatory, 1000, weight), (inhibitory, 250, -g * weight)):
            nest.Connect(
                source,
                target,
                {"rule": "fixed_indegree", "indegree": count},
                {"weight": strength, "delay": 1.5},
            )
    source = nest.Create("poisson_generator", params={"rate": rate})
    nest.Connect(source, excitatory + inhibitory, "all_to_all", {"weight": weight, "delay": 1.5})
    simulate("Brunel", seconds, [excitatory, inhibitory], time.process_time() - begun)


if __name__ == "__main__":
    nest.set_verbosity("M_ERROR")
    nest.ResetKernel()
    nest.SetKernelStatus({"resolution": STEP, "local_num_threads": 1,
                         "rng_seed": int(SEED) if SEED else 12345})
    if sys.argv[1] == "pd14":
        pd14(float(sys.argv[2]), float(sys.argv[3]))
    else:
        brunel(float(sys.argv[2]))
