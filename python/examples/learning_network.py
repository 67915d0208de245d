"""A decoder on a network that learns: synapses change by STDP, and a decoder that was trained before them has to be trained again.

Tuned neurons fire with a movement in the plane. Their synapses onto a second population learn from spikes, and the decoder hears the
second population alone. Cells (# %%) run in VS Code, Spyder and Jupytext. It takes seconds.
"""

# %% The network: 100 tuned neurons, 80 that hear them by synapses that learn
import numpy as np

import betz

BIN = 0.02
rng = np.random.default_rng(1)
network = betz.spiking.Network(step_ms=0.1, seed=1)
current = betz.spiking.exponential(5.0)
tuned = network.population("tuned", 100, synapse=current, c_m_pf=200.0, poisson=(800.0, 25.0))
heard = network.population("heard", 80, synapse=current, c_m_pf=200.0, poisson=(800.0, 25.0))
rule = betz.spiking.stdp(0.003, 0.0032, 120.0)
learning = network.project(tuned, heard, {"fixed_in": {"count": 30}}, weight=60.0, delay_ms=1.5, plasticity=rule)
engine = network.build()
angles = rng.uniform(0.0, 2.0 * np.pi, tuned.neurons)
preferred = np.stack([np.cos(angles), np.sin(angles)])


# %% A movement, and the spikes of the second population in bins of 20 ms
def simulate(seconds, begin):
    """Velocities and counts of the next seconds."""
    t = begin + np.arange(round(seconds / BIN)) * BIN
    velocity = np.stack([np.sin(1.9 * t) + np.sin(0.7 * t), np.cos(1.3 * t) + np.sin(2.3 * t)], axis=1) / 2.0
    counts = np.zeros((len(t), heard.neurons), np.uint16)
    before = engine.counts()[heard.first :]
    for k, v in enumerate(velocity):
        engine.set_currents(tuned.number, 200.0 + 200.0 * v @ preferred)
        engine.run(BIN)
        now = engine.counts()[heard.first :]
        counts[k], before = now - before, now
    return counts, velocity


def weights():
    return engine.synapses(learning)[2]


# %% Train on the first 20 s, and score while the synapses learn
def train(counts, velocity):
    return betz.Decoder(step_seconds=BIN, bank=[(0.1, 1)]).fit(counts, velocity)


first = weights().copy()
decoder = train(*simulate(20.0, 0.0))
counts, velocity = simulate(10.0, 20.0)
print(f"trained on 0 to 20 s, R2 of 20 to 30 s: {decoder.score(counts, velocity):.2f}")
simulate(60.0, 30.0)
again = train(*simulate(20.0, 90.0))
counts, velocity = simulate(10.0, 110.0)
moved = np.abs(weights() - first).mean()
print(f"weights have moved by {moved:.1f} pA on average, of 60")
print(f"R2 of 110 to 120 s: trained on 0 to 20 s {decoder.score(counts, velocity):.2f}, on 90 to 110 s {again.score(counts, velocity):.2f}")
