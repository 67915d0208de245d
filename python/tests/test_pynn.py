"""The PyNN backend against equations integrated here, and its refusals by name. Skipped without PyNN, save for the message."""

import subprocess
import sys

import numpy as np
import pytest


def test_without_pynn_the_message_says_what_to_install():
    code = "import sys; sys.modules['pyNN'] = None\nimport betz.pynn"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "ImportError: betz.pynn needs PyNN 0.12: pip install 'PyNN>=0.12,<0.13'" in run.stderr


try:
    import betz.pynn as sim
except ImportError:
    sim = None

needs_pynn = pytest.mark.skipif(sim is None, reason="PyNN is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
FINE = 16  # Sub-steps of the oracle per step of 0.1 ms.


def signal(population, name="v"):
    return population.get_data().segments[0].filter(name=name)[0].magnitude


def spikes(population):
    return [train.magnitude for train in population.get_data("spikes").segments[-1].spiketrains]


def integrate(slope, start, milliseconds, arrivals=(), jump=None):
    """States at every step of 0.1 ms by RK4 in f64; `jump(y)` at times of arrivals."""
    step, y = 0.1 / FINE, np.array(start, dtype=float)
    states = [y]
    steps = {round(t / 0.1) for t in arrivals}
    for k in range(round(milliseconds / 0.1)):
        if k in steps:
            y = jump(y)
            states[-1] = y
        for _ in range(FINE):
            a = slope(y)
            b = slope(y + step / 2 * a)
            c = slope(y + step / 2 * b)
            y = y + step / 6 * (a + 2 * b + 2 * c + slope(y + step * c))
        states.append(y)
    return np.array(states)


def one_input(cell, weight, delay=1.5, at=2.0, milliseconds=40.0, receptor="excitatory"):
    sim.setup(timestep=0.1)
    source = sim.Population(1, sim.SpikeSourceArray(spike_times=[at]))
    target = sim.Population(1, cell)
    sim.Projection(
        source, target, sim.OneToOneConnector(), sim.StaticSynapse(weight=weight, delay=delay), receptor_type=receptor
    )
    target.record([v for v in ("v", "gsyn_exc") if target.can_record(v)])
    sim.run(milliseconds)
    return target


@needs_pynn
@pytest.mark.parametrize("alpha", [False, True])
def test_currents_follow_the_equations(alpha):
    cell = (sim.IF_curr_alpha if alpha else sim.IF_curr_exp)(tau_m=12.0, cm=0.8, tau_syn_E=3.0, v_rest=-65.0)
    got = signal(one_input(cell, 0.7))[:, 0]

    # y: potential, current, and the variable that drives an alpha function.
    def slope(y):
        v, i, x = y
        rise = x * np.e / 3.0 if alpha else 0.0
        return np.array([(-65.0 - v) / 12.0 + i / 0.8, -i / 3.0 + rise, -x / 3.0])

    jump = np.array([0.0, 0.0, 0.7]) if alpha else np.array([0.0, 0.7, 0.0])
    want = integrate(slope, [-65.0, 0.0, 0.0], 40.0, [3.5], lambda y: y + jump)
    assert want[:, 0].max() > -64.0
    np.testing.assert_allclose(got, want[:, 0], atol=2e-4)


@needs_pynn
@pytest.mark.parametrize("receptor", ["excitatory", "inhibitory"])
def test_conductances_follow_the_equations_and_are_recorded(receptor):
    cell = sim.IF_cond_exp(tau_m=12.0, cm=0.8, tau_syn_E=3.0, tau_syn_I=4.0, e_rev_E=-5.0, e_rev_I=-75.0, v_rest=-65.0)
    target = one_input(cell, 0.02, receptor=receptor)
    tau, reversal = (3.0, -5.0) if receptor == "excitatory" else (4.0, -75.0)

    def slope(y):
        return np.array([(-65.0 - y[0]) / 12.0 + y[1] * (reversal - y[0]) / 0.8, -y[1] / tau])

    want = integrate(slope, [-65.0, 0.0], 40.0, [3.5], lambda y: y + [0.0, 0.02])
    assert np.ptp(want[:, 0]) > 0.2
    np.testing.assert_allclose(signal(target)[:, 0], want[:, 0], atol=1e-3)
    expected = want[:, 1] if receptor == "excitatory" else np.zeros(len(want))
    np.testing.assert_allclose(signal(target, "gsyn_exc")[:, 0], expected, atol=1e-9)


@needs_pynn
def test_a_jump_is_in_millivolts():
    for cell in (sim.IF_curr_delta(v_rest=-65.0), sim.Izhikevich(a=0.02, b=0.2)):
        target = one_input(cell, 3.0)
        v = signal(target)[:, 0]
        assert v[35] - v[34] == pytest.approx(3.0, abs=0.1)
        assert abs(v[34] - v[33]) < 0.1


@needs_pynn
def test_adaptive_neurons_and_izhikevichs_follow_the_equations():
    sim.setup(timestep=0.1)
    adex = sim.Population(1, sim.EIF_cond_exp_isfa_ista(i_offset=0.6))
    izhikevich = sim.Population(1, sim.Izhikevich(i_offset=0.01))
    for population in (adex, izhikevich):
        population.record("v")
    sim.run(20.0)

    def slope(y):
        v, w = y
        leak = 0.281 / 9.3667 * 1e3
        drive = -leak * (v + 70.6) + leak * 2.0 * np.exp((v + 50.4) / 2.0) - w + 600.0
        return np.array([drive / 281.0, (4.0 * (v + 70.6) - w) / 144.0])

    want = integrate(slope, [-70.6, 0.0], 20.0)
    assert want[-1, 0] > -62.0
    np.testing.assert_allclose(signal(adex)[:, 0], want[:, 0], atol=2e-3)

    def slope(y):
        v, u = y
        return np.array([0.04 * v * v + 5 * v + 140 - u + 10.0, 0.02 * (0.2 * v - u)])

    # Until the first spike.
    want = integrate(slope, [-70.0, -14.0], 2.5)
    np.testing.assert_allclose(signal(izhikevich)[:26, 0], want[:, 0], atol=2e-3)


@needs_pynn
def test_threshold_reset_and_refractory_time():
    sim.setup(timestep=0.1)
    cells = sim.Population(
        3, sim.IF_curr_exp(tau_m=20.0, cm=1.0, i_offset=[0.5, 1.0, 2.0], tau_refrac=[2.0, 3.0, 4.0], v_rest=-65.0)
    )
    cells.record(["spikes", "v"])
    sim.run(200.0)
    for train, current, silence in zip(spikes(cells), [0.5, 1.0, 2.0], [2.0, 3.0, 4.0], strict=True):
        if current * 20.0 <= 15.0:
            assert len(train) == 0
            continue
        rise = 20.0 * np.log(current * 20.0 / (current * 20.0 - 15.0))
        first = np.ceil(rise / 0.1 - 1e-9) * 0.1
        np.testing.assert_allclose(train, np.arange(len(train)) * (first + silence) + first, atol=1e-6)
        assert len(train) == int((200.0 + silence) / (first + silence) + 1e-9)


@needs_pynn
def test_pairs_of_spikes_change_weights_as_the_rule_says():
    sim.setup(timestep=0.1)
    source = sim.Population(1, sim.SpikeSourceArray(spike_times=[5.0]))
    driver = sim.Population(1, sim.SpikeSourceArray(spike_times=[20.0]))
    target = sim.Population(1, sim.IF_cond_exp(tau_refrac=50.0))
    rule = sim.STDPMechanism(
        sim.SpikePairRule(tau_plus=15.0, tau_minus=25.0, A_plus=0.02, A_minus=0.03),
        sim.AdditiveWeightDependence(w_min=0.0, w_max=0.1),
        dendritic_delay_fraction=0,
        weight=0.001,
        delay=2.0,
    )
    learning = sim.Projection(source, target, sim.AllToAllConnector(), rule)
    sim.Projection(driver, target, sim.AllToAllConnector(), sim.StaticSynapse(weight=0.5, delay=0.5))
    target.record("spikes")
    assert learning.get("weight", format="list", with_address=False) == [0.001]
    sim.run(60.0)
    (fired,) = spikes(target)[0]
    want = 0.001 + 0.1 * 0.02 * np.exp(-(fired - 7.0) / 15.0)
    assert learning.get("weight", format="list", with_address=False)[0] == pytest.approx(want, rel=2e-3)
    sim.reset()
    assert learning.get("weight", format="list", with_address=False) == [0.001]


@needs_pynn
def test_every_connector_of_pynn_connects():
    sim.setup()
    a, b = sim.Population(8, sim.SpikeSourcePoisson(rate=50.0)), sim.Population(8, sim.IF_cond_exp())
    rng = sim.NumpyRNG(seed=5)
    first = sim.Projection(a, b, sim.AllToAllConnector(), sim.StaticSynapse(weight=0.01))
    counts = {
        "one": (sim.OneToOneConnector(), 8),
        "pre": (sim.FixedNumberPreConnector(3, rng=rng), 24),
        "post": (sim.FixedNumberPostConnector(2, rng=rng), 16),
        "total": (sim.FixedTotalNumberConnector(11, rng=rng), 11),
        "list": (sim.FromListConnector([(0, 1), (2, 3)]), 2),
        "array": (sim.ArrayConnector(np.eye(8, dtype=bool)), 8),
        "clone": (sim.CloneConnector(first), 64),
        "certain": (sim.FixedProbabilityConnector(1.0, rng=rng), 64),
        "near": (sim.DistanceDependentProbabilityConnector("d < 1.5", rng=rng), 22),
        "index": (sim.IndexBasedProbabilityConnector(Diagonal(), rng=rng), 8),
        "displaced": (sim.DisplacementDependentProbabilityConnector(lambda d: abs(d[0]) < 0.5, rng=rng), 8),
    }
    for name, (connector, count) in counts.items():
        made = sim.Projection(a, b, connector, sim.StaticSynapse(weight=0.01, delay=0.5))
        assert len(made) == made.size() == count, name
    b.record("spikes")
    sim.run(20.0)
    assert sum(map(len, spikes(b))) > 0


class Diagonal:
    """Made an index-based expression below, when PyNN is there."""


if sim is not None:
    from pyNN.core import IndexBasedExpression

    class Diagonal(IndexBasedExpression):  # noqa: F811
        def __call__(self, i, j):
            return np.array(i == j, dtype=float)


@needs_pynn
def test_views_and_assemblies_reach_their_neurons():
    sim.setup()
    source = sim.Population(1, sim.SpikeSourceArray(spike_times=[1.0]))
    left, right = sim.Population(4, sim.IF_cond_exp()), sim.Population(3, sim.IF_cond_exp(tau_m=5.0))
    both = left[1:3] + right
    # PyNN guesses the receptor of an assembly from a set, whose order differs between runs.
    synapse = sim.StaticSynapse(weight=0.05, delay=1.0)
    sim.Projection(source, both, sim.AllToAllConnector(), synapse, receptor_type="excitatory")
    for population in (left, right):
        population.record("v")
    sim.run(5.0)
    moved = [(signal(p).max(axis=0) > -64.0).tolist() for p in (left, right)]
    assert moved == [[False, True, True, False], [True] * 3]


@needs_pynn
def test_runs_in_parts_and_after_reset_are_alike_on_any_number_of_threads():
    results = []
    for threads, parts in ((1, [80.0]), (2, [30.0, 50.0])):
        sim.setup(threads=threads, rng_seed=3)
        source = sim.Population(20, sim.SpikeSourceArray(spike_times=list(np.arange(1.0, 79.0, 1.7))))
        cells = sim.Population(10, sim.IF_cond_exp(tau_m=list(np.linspace(8.0, 20.0, 10))))
        cells.initialize(v=list(np.linspace(-65.0, -55.0, 10)))
        sim.Projection(source, cells, sim.FixedProbabilityConnector(0.5, rng=sim.NumpyRNG(1)), sim.StaticSynapse(weight=0.01))
        cells.record(["spikes", "v"])
        for _ in range(2):
            for part in parts:
                sim.run(part)
            results.append((np.concatenate(spikes(cells)), cells.get_data().segments[-1].filter(name="v")[0].magnitude))
            sim.reset()
    assert len(results[0][0]) > 10 and results[0][1].shape == (801, 10)
    for times, potentials in results[1:]:
        np.testing.assert_array_equal(times, results[0][0])
        np.testing.assert_array_equal(potentials, results[0][1])


@needs_pynn
def test_what_betz_does_not_have_is_refused_by_name():
    sim.setup()
    for name in ("HH_cond_exp", "IF_cond_alpha", "TsodyksMarkramSynapse", "SpikeSourceGamma", "GutigWeightDependence"):
        with pytest.raises(sim.NotSupported, match=name):
            getattr(sim, name)()
        assert name not in sim.list_standard_models()
    with pytest.raises(sim.NotSupported, match="dendritic_delay_fraction=0, got 1.0"):
        sim.STDPMechanism(sim.SpikePairRule(), sim.AdditiveWeightDependence())
    sim.setup(spike_precision="off_grid")
    sim.Population(1, sim.SpikeSourceArray(spike_times=[0.25]))
    with pytest.raises(sim.NotSupported, match="off_grid.*whole steps of 0.1 ms"):
        sim.run(1.0)
    sim.setup()
    cells = sim.Population(2, sim.EIF_cond_exp_isfa_ista(), initial_values={"v": -60.0})
    with pytest.raises(sim.NotSupported, match=r"w at a \(v - v_rest\) = 0.0424 nA"):
        sim.run(1.0)
    sim.setup()
    source, cells = sim.Population(1, sim.SpikeSourceArray(spike_times=[1.0])), sim.Population(2, sim.IF_cond_exp())
    sim.Projection(source, cells, sim.AllToAllConnector(), sim.StaticSynapse(weight=0.01, delay=50.0))
    with pytest.raises(sim.NotSupported, match="1 to 255 steps of 0.1 ms, got 500 to 500"):
        sim.run(1.0)
    sim.setup()
    cells = sim.Population(2, sim.IF_cond_exp())
    sim.run(1.0)
    with pytest.raises(sim.NotSupported, match="tau_m: Betz builds the network at the first run"):
        cells.set(tau_m=3.0)
    with pytest.raises(sim.NotSupported, match="populations: Betz builds the network at the first run"):
        sim.Population(1, sim.IF_cond_exp())
    cells.set(i_offset=0.1)
    sim.setup()
    source = sim.Population(1, sim.SpikeSourceArray(spike_times=[0.0, 1.0]))
    with pytest.raises(ValueError, match="above 0 ms, got 0.0 ms"):
        sim.run(1.0)


@needs_pynn
def test_weights_that_rounding_would_lose_are_refused():
    sim.setup()
    source = sim.Population(1, sim.SpikeSourceArray(spike_times=[1.0]))
    volts, amperes = sim.Population(1, sim.IF_curr_delta()), sim.Population(1, sim.IF_curr_exp())
    sim.Projection(source, volts, sim.AllToAllConnector(), sim.StaticSynapse(weight=0.5), label="small")
    sim.Projection(source, amperes, sim.AllToAllConnector(), sim.StaticSynapse(weight=20.0), label="large")
    with pytest.raises(sim.NotSupported, match="small: its weights"):
        sim.run(1.0)


@needs_pynn
@pytest.mark.parametrize("kind, apart", [("IF_curr_exp", 1), ("IF_curr_alpha", 30), ("IF_cond_exp", 1), ("Izhikevich", 1)])
def test_neurons_that_differ_are_one_population_where_their_synapses_are_alike(kind, apart):
    """Equal spikes of a population that differs, and of one population for each neuron."""
    values = np.linspace(0.0, 1.0, 30)
    if kind == "Izhikevich":
        given = {"d": 2.0 + 6.0 * values, "i_offset": 0.01}
    else:
        given = {"cm": 0.2 + 0.1 * values, "tau_refrac": 1.0 + np.arange(30) % 3, "i_offset": 0.9}
    of = lambda k: {n: v if np.isscalar(v) else float(v[k]) for n, v in given.items()}
    start = {"v": -65.0, "u": -13.0} if kind == "Izhikevich" else {"v": -65.0}

    def run(make):
        sim.setup(timestep=0.1)
        populations = make()
        for population in populations:
            population.initialize(**start)
            population.record("spikes")
        sim.run(200.0)
        fired = [train for population in populations for train in spikes(population)]
        parts = len(sim.simulator.state.parts)
        sim.end()
        return fired, parts

    cell = getattr(sim, kind)
    together, parts = run(lambda: [sim.Population(30, cell(**given))])
    alone, _ = run(lambda: [sim.Population(1, cell(**of(k))) for k in range(30)])
    assert parts == apart
    assert len({len(train) for train in together}) > 3
    for mine, its in zip(together, alone, strict=True):
        assert abs(len(mine) - len(its)) <= (1 if kind == "IF_curr_exp" else 0)
        # Integrated exactly when alone: a spike may move by a step.
        least = min(len(mine), len(its))
        assert np.abs(mine[:least] - its[:least]).max() <= (0.1 * least if kind == "IF_curr_exp" else 1e-9)
