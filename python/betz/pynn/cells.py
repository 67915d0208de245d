"""Cell types: parameters keep PyNN's names and units until the network is built, where `neurons` converts them."""

import numpy as np
from pyNN.standardmodels import build_translations, cells

from .simulator import NotSupported, state


def _same_names(cell):
    return build_translations(*((name, name) for name in cell.default_parameters))


def _refractory(ms):
    """A refractory time in whole steps, at least one unless it is 0."""
    steps = max(np.rint(ms / state.dt), 1.0) if ms > 0 else 0.0
    return float(steps * state.dt)


def _lif(p):
    return {
        "tau_m_ms": p["tau_m"],
        "c_m_pf": p["cm"] * 1e3,
        "rest_mv": p["v_rest"],
        "threshold_mv": p["v_thresh"],
        "reset_mv": p["v_reset"],
        "refractory_ms": _refractory(p["tau_refrac"]),
    }


def _channels(p):
    """The two conductances: the names are Betz's, all constants are PyNN's."""
    channels = {
        "ampa": {"tau_decay_ms": p["tau_syn_E"], "reversal_mv": p["e_rev_E"]},
        "gaba_a": {"tau_decay_ms": p["tau_syn_I"], "reversal_mv": p["e_rev_I"]},
    }
    return {"conductance": {"channels": channels}}


class _Cell:
    """Base of all cell types with a potential. `weight_scale` goes from PyNN's unit of a weight to Betz's."""

    receptors = {}
    weight_scale = 1e3
    source = False


class IF_curr_exp(_Cell, cells.IF_curr_exp):
    __doc__ = cells.IF_curr_exp.__doc__
    translations = _same_names(cells.IF_curr_exp)
    recordable = ["spikes", "v"]

    @staticmethod
    def neurons(p, start):
        synapse = {"exponential": {"tau_ms": p["tau_syn_E"], "tau_inhibitory_ms": p["tau_syn_I"]}}
        return {"lif": _lif(p)}, synapse


class IF_curr_alpha(_Cell, cells.IF_curr_alpha):
    __doc__ = cells.IF_curr_alpha.__doc__
    translations = _same_names(cells.IF_curr_alpha)
    recordable = ["spikes", "v"]

    @staticmethod
    def neurons(p, start):
        synapse = {"alpha": {"tau_ms": p["tau_syn_E"], "tau_inhibitory_ms": p["tau_syn_I"]}}
        return {"lif": _lif(p)}, synapse


class IF_curr_delta(_Cell, cells.IF_curr_delta):
    __doc__ = cells.IF_curr_delta.__doc__
    translations = _same_names(cells.IF_curr_delta)
    weight_scale = 1.0

    @staticmethod
    def neurons(p, start):
        return {"lif": _lif(p)}, "delta"


class IF_cond_exp(_Cell, cells.IF_cond_exp):
    __doc__ = cells.IF_cond_exp.__doc__
    translations = _same_names(cells.IF_cond_exp)
    receptors = {"excitatory": "ampa", "inhibitory": "gaba_a"}

    @staticmethod
    def neurons(p, start):
        return {"lif": _lif(p)}, _channels(p)


class EIF_cond_exp_isfa_ista(_Cell, cells.EIF_cond_exp_isfa_ista):
    __doc__ = cells.EIF_cond_exp_isfa_ista.__doc__
    translations = _same_names(cells.EIF_cond_exp_isfa_ista)
    recordable = ["spikes", "v", "gsyn_exc", "gsyn_inh"]
    receptors = {"excitatory": "ampa", "inhibitory": "gaba_a"}

    @staticmethod
    def neurons(p, start):
        steady = p["a"] * (start["v"] - p["v_rest"]) * 1e-3
        if abs(start["w"] - steady) > 1e-9:
            raise NotSupported(
                f"EIF_cond_exp_isfa_ista: Betz starts w at a (v - v_rest) = {steady:g} nA for v = {start['v']:g} mV, "
                f"got w = {start['w']:g} nA; initialize w to that value"
            )
        neuron = {
            "c_m_pf": p["cm"] * 1e3,
            "leak_ns": p["cm"] / p["tau_m"] * 1e3,
            "rest_mv": p["v_rest"],
            "threshold_mv": p["v_thresh"],
            "slope_mv": p["delta_T"],
            "tau_w_ms": p["tau_w"],
            "a_ns": p["a"],
            "b_pa": p["b"] * 1e3,
            "reset_mv": p["v_reset"],
            "peak_mv": p["v_spike"],
            "refractory_ms": _refractory(p["tau_refrac"]),
        }
        return {"adex": neuron}, _channels(p)


class Izhikevich(_Cell, cells.Izhikevich):
    __doc__ = cells.Izhikevich.__doc__
    translations = _same_names(cells.Izhikevich)
    recordable = ["spikes", "v"]
    weight_scale = 1.0

    @staticmethod
    def neurons(p, start):
        steady = p["b"] * start["v"]
        if abs(start["u"] - steady) > 1e-9:
            raise NotSupported(
                f"Izhikevich: Betz starts u at b v = {steady:g} mV/ms for v = {start['v']:g} mV, got {start['u']:g}; "
                "initialize u to that value"
            )
        return {"izhikevich": {"a": p["a"], "b": p["b"], "c_mv": p["c"], "d": p["d"]}}, "delta"


class SpikeSourcePoisson(cells.SpikeSourcePoisson):
    __doc__ = cells.SpikeSourcePoisson.__doc__
    translations = _same_names(cells.SpikeSourcePoisson)
    source = True


class SpikeSourceArray(cells.SpikeSourceArray):
    __doc__ = cells.SpikeSourceArray.__doc__
    translations = _same_names(cells.SpikeSourceArray)
    source = True
