"""Synapse types: parameters keep PyNN's names and units until the network is built."""

from pyNN.standardmodels import build_translations, synapses

from .simulator import NotSupported, state


def _same_names(*names):
    return build_translations(*((name, name) for name in names))


class StaticSynapse(synapses.StaticSynapse):
    __doc__ = synapses.StaticSynapse.__doc__
    translations = _same_names("weight", "delay")

    def _get_minimum_delay(self):
        return state.default_delay


class STDPMechanism(synapses.STDPMechanism):
    __doc__ = synapses.STDPMechanism.__doc__
    base_translations = _same_names("weight", "delay", "dendritic_delay_fraction")

    def __init__(
        self,
        timing_dependence=None,
        weight_dependence=None,
        voltage_dependence=None,
        dendritic_delay_fraction=1.0,
        weight=0.0,
        delay=None,
    ):
        if not isinstance(timing_dependence, SpikePairRule):
            raise NotSupported(f"STDPMechanism: expected the timing dependence SpikePairRule, got {timing_dependence!r}")
        if not isinstance(weight_dependence, (AdditiveWeightDependence, MultiplicativeWeightDependence)):
            raise NotSupported(
                "STDPMechanism: expected AdditiveWeightDependence or MultiplicativeWeightDependence, "
                f"got {weight_dependence!r}"
            )
        if voltage_dependence is not None:
            raise NotSupported("STDPMechanism: Betz's plasticity does not depend on the potential")
        if dendritic_delay_fraction != 0:
            raise NotSupported(
                "STDPMechanism: Betz's delays are axonal: expected dendritic_delay_fraction=0, "
                f"got {dendritic_delay_fraction} (PyNN's default is 1)"
            )
        super().__init__(timing_dependence, weight_dependence, None, dendritic_delay_fraction, weight, delay)

    def _build_translations(self):
        # The base class adds to one table that all mechanisms share.
        self.translations = {
            **self.base_translations,
            **self.timing_dependence.translations,
            **self.weight_dependence.translations,
        }

    def _get_minimum_delay(self):
        return state.default_delay

    def plasticity(self, weight_scale):
        """The rule as a network's description has it."""
        timing, bounds = self.timing_dependence.parameter_space, self.weight_dependence.parameter_space
        timing.shape = bounds.shape = (1,)
        timing.evaluate(simplify=True)
        bounds.evaluate(simplify=True)
        additive = isinstance(self.weight_dependence, AdditiveWeightDependence)
        return {
            "tau_plus_ms": float(timing["tau_plus"]),
            "tau_minus_ms": float(timing["tau_minus"]),
            "a_plus": float(timing["A_plus"]),
            "a_minus": float(timing["A_minus"]),
            "low": float(bounds["w_min"]) * weight_scale,
            "high": float(bounds["w_max"]) * weight_scale,
            "dependence": "additive" if additive else "multiplicative",
        }


class SpikePairRule(synapses.SpikePairRule):
    __doc__ = synapses.SpikePairRule.__doc__
    translations = _same_names("tau_plus", "tau_minus", "A_plus", "A_minus")


class AdditiveWeightDependence(synapses.AdditiveWeightDependence):
    __doc__ = synapses.AdditiveWeightDependence.__doc__
    translations = _same_names("w_min", "w_max")


class MultiplicativeWeightDependence(synapses.MultiplicativeWeightDependence):
    __doc__ = synapses.MultiplicativeWeightDependence.__doc__
    translations = _same_names("w_min", "w_max")
