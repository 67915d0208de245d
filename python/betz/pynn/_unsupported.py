"""PyNN's models that Betz does not have, by name: making one raises `NotSupported` with the reason."""

from .simulator import NotSupported

_PLASTIC = "Betz learns by pairs of spikes with additive or multiplicative bounds"
_SOURCES = "Betz's sources fire at listed times or as Poisson processes"
_SHORT_TERM = "Betz's synapses have no short-term plasticity and do not fail"

_REASONS = {
    "IF_cond_alpha": "Betz's conductances rise at once or with a time constant shorter than the decay's",
    "EIF_cond_alpha_isfa_ista": "Betz's conductances rise at once or with a time constant shorter than the decay's",
    "HH_cond_exp": "Betz's hh has the rates of Hodgkin and Huxley 1952, not those of Traub and Miles 1991",
    "IF_cond_exp_gsfa_grr": "Betz has no such adaptation",
    "IF_facets_hardware1": "Betz does not model that hardware",
    "GIF_cond_exp": "Betz has no such neuron",
    "PointNeuron": "Betz has no neurons made of parts",
    "LIF": "Betz has no neurons made of parts",
    "AdExp": "Betz has no neurons made of parts",
    "MultiCompartmentNeuron": "Betz's neurons have one compartment",
    "SpikeSourceGamma": _SOURCES,
    "SpikeSourceInhGamma": _SOURCES,
    "SpikeSourcePoissonRefractory": _SOURCES,
    "TsodyksMarkramSynapse": _SHORT_TERM,
    "StochasticTsodyksMarkramSynapse": _SHORT_TERM,
    "SimpleStochasticSynapse": _SHORT_TERM,
    "MultiQuantalSynapse": _SHORT_TERM,
    "ElectricalSynapse": "Betz has no gap junctions",
    "AdditivePotentiationMultiplicativeDepression": _PLASTIC,
    "GutigWeightDependence": _PLASTIC,
    "Vogels2011Rule": _PLASTIC,
}


def _refusing(name, reason):
    def refuse(self, *_, **__):
        raise NotSupported(f"{name}: {reason}")

    return type(name, (), {"__init__": refuse, "__doc__": f"Not supported: {reason}."})


globals().update({name: _refusing(name, reason) for name, reason in _REASONS.items()})
__all__ = list(_REASONS)
