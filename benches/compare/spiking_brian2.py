"""Brian2 (C++ standalone) beside `spiking_record models`: CUBA, 4,000 neurons, steps of 0.1 ms.

    python -m venv brian && brian/bin/pip install brian2 'numpy<2.4'
    brian/bin/python benches/compare/spiking_brian2.py 10

Prints processor seconds of the compiled program, one thread.
"""

import resource
import sys
import tempfile

from brian2 import NeuronGroup, SpikeMonitor, Synapses, device, ms, mV, prefs, run, second, seed
from brian2 import set_device

seconds = float(sys.argv[1])
folder = tempfile.mkdtemp()
set_device("cpp_standalone", directory=folder, build_on_run=False)
prefs.devices.cpp_standalone.openmp_threads = 0
prefs.codegen.cpp.extra_compile_args_gcc = ["-O3", "-march=native", "-ffast-math"]
seed(7)
tau_m, tau_e, tau_i = 20 * ms, 5 * ms, 10 * ms
threshold, reset, rest = -50 * mV, -60 * mV, -49 * mV
equations = """
dv/dt = (ge + gi - (v - rest)) / tau_m : volt (unless refractory)
dge/dt = -ge / tau_e : volt
dgi/dt = -gi / tau_i : volt
"""
neurons = NeuronGroup(
    4000, equations, threshold="v > threshold", reset="v = reset", refractory=5 * ms, method="exact"
)
neurons.v = "reset + rand() * (threshold - reset)"
excite, inhibit = 60 * 0.27 / 10 * mV, -20 * 4.5 / 10 * mV
excitatory = Synapses(neurons, neurons, on_pre="ge += excite")
inhibitory = Synapses(neurons, neurons, on_pre="gi += inhibit")
excitatory.connect("i < 3200", p=0.02)
inhibitory.connect("i >= 3200", p=0.02)
monitor = SpikeMonitor(neurons, record=False)
run(seconds * second)
device.build(directory=folder, run=False)
before = resource.getrusage(resource.RUSAGE_CHILDREN)
device.run()
after = resource.getrusage(resource.RUSAGE_CHILDREN)
used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
synapses = len(excitatory) + len(inhibitory)
print(
    f"CUBA 4,000: {synapses} synapses, {used:.3f} s of processor for {seconds} s, "
    f"rate {monitor.num_spikes / 4000 / seconds:.3f} Hz"
)
