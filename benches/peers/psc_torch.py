"""PSC filtering in PyTorch (and CuPy, where it is installed) at the same work as benches/gpu_psc.rs:
100 channels x 2^19 samples of 0.25 ms, one filter or eight (order 1). Data starts on the device;
medians of warm runs.

    python3 benches/peers/psc_torch.py
"""
import statistics
import time

import torch

CHANNELS, STEPS, DT = 100, 1 << 19, 0.00025
TAUS = [0.01, 0.005, 0.02, 0.04, 0.003, 0.08, 0.03, 0.015]
device = torch.device("cuda")
torch.manual_seed(0)
counts = torch.poisson(torch.full((CHANNELS, STEPS), 20 * DT, device=device)).to(torch.uint8)
floats = counts.float()


def timed(name, work, sync, runs=30):
    for _ in range(3):
        work()
    sync()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        sync()
        times.append((time.perf_counter() - start) * 1e3)
    print(f"{name}: median {statistics.median(times):.3f} ms, least {min(times):.3f} ms")


def impulse(tau):
    m = torch.arange(STEPS, device=device, dtype=torch.float64)
    h = m * torch.exp(-m * DT / tau)
    return (h / h.sum()).float()


def filtered(signal, spectra):
    """Linear convolution: the signal is padded to twice its length."""
    bins = torch.fft.rfft(signal.float(), 2 * STEPS)
    return [torch.fft.irfft(bins * h, 2 * STEPS)[:, :STEPS] for h in spectra]


def circular(signal, spectra):
    """Without padding: the end of a signal runs into its start, so this is less work, and not it."""
    bins = torch.fft.rfft(signal.float())
    return [torch.fft.irfft(bins * h, STEPS) for h in spectra]


print(torch.cuda.get_device_name(), torch.__version__)
sync = torch.cuda.synchronize
one = [torch.fft.rfft(impulse(TAUS[0]), 2 * STEPS)]
bank = [torch.fft.rfft(impulse(t), 2 * STEPS) for t in TAUS]
timed("torch rfft + irfft, 100 x 2^19, no product", lambda: torch.fft.irfft(torch.fft.rfft(floats), STEPS), sync)
timed("torch PSC padded, 1 filter, f32", lambda: filtered(floats, one), sync)
timed("torch PSC padded, 1 filter, u8", lambda: filtered(counts, one), sync)
short = [torch.fft.rfft(impulse(TAUS[0]))]
timed("torch PSC circular, 1 filter, f32", lambda: circular(floats, short), sync)
timed("torch PSC padded, 8 filters, u8", lambda: filtered(counts, bank), sync, 10)
try:
    import cupy

    signal = cupy.asarray(floats)
    spectrum = cupy.asarray(one[0])
    timed(
        "cupy PSC padded, 1 filter, f32",
        lambda: cupy.fft.irfft(cupy.fft.rfft(signal, 2 * STEPS) * spectrum, 2 * STEPS)[:, :STEPS],
        cupy.cuda.Device().synchronize,
    )
except ImportError as error:
    print("cupy:", error)
