"""Training in PyTorch at the same work as benches/gpu_train.rs: N = 1,000 channels, T = 400,000
steps of 0.25 ms, one filter (tau 10 ms, order 1). Data starts on the device; medians of warm runs.

    python3 benches/peers/gram_torch.py
"""
import math
import statistics
import time

import torch

N, T, DT, TAU, OUTPUTS = 1000, 400_000, 0.00025, 0.010, 2
device = torch.device("cuda")
torch.manual_seed(0)
counts = torch.poisson(torch.full((N, T), 20 * DT, device=device)).to(torch.uint8)
x = torch.randn(T, OUTPUTS, device=device)
m = torch.arange(T, device=device, dtype=torch.float64)
h = (m * torch.exp(-m * DT / TAU))
h = (h / h.sum()).float()
LENGTH = 1 << math.ceil(math.log2(2 * T))
SHORT = 1 << math.ceil(math.log2(T + 40_000))  # the filter's support is far below the padding


def timed(name, work, runs=15):
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    print(f"torch {name}: median {statistics.median(times):.3f} ms, least {min(times):.3f} ms")


def responses():
    spectrum = torch.fft.rfft(h[:40_000], SHORT)
    return torch.cat([
        torch.fft.irfft(torch.fft.rfft(part.float(), SHORT) * spectrum, SHORT)[:, :T]
        for part in counts.split(250)
    ])


def train():
    a = responses()
    gram, upsilon = a @ a.T, a @ x
    mean, x_mean = a.mean(1), x.mean(0)
    gram = gram - T * torch.outer(mean, mean) + 0.4 * torch.eye(N, device=device)
    upsilon = upsilon - T * torch.outer(mean, x_mean)
    return torch.cholesky_solve(upsilon, torch.linalg.cholesky(gram)).cpu()


print(torch.cuda.get_device_name(), torch.__version__)
torch.backends.cuda.matmul.allow_tf32 = False
a = responses()
timed("A @ A.T f32", lambda: a @ a.T)
timed("train f32 dense, counts on the device", train)
torch.backends.cuda.matmul.allow_tf32 = True
timed("A @ A.T TF32", lambda: a @ a.T)
timed("train TF32 dense, counts on the device", train)
f = torch.randn(100, 1 << 19, device=device)
timed("cuFFT R2C + C2R, 100 x 2^19", lambda: torch.fft.irfft(torch.fft.rfft(f), 1 << 19))
s = torch.randn(N, N, device=device)
s = s @ s.T / N + torch.eye(N, device=device)
timed("cholesky f32 N=1000", lambda: torch.linalg.cholesky(s))
d = s.double()
timed("cholesky f64 N=1000", lambda: torch.linalg.cholesky(d))

# The larger work of benches/gpu_gram.rs: a bank of 8 filters (8,000 features) and N = 8,000 channels.
# Responses of N = 8,000 take 12.8 GB in f32.
del a
features = torch.rand(8000, T, device=device)
torch.backends.cuda.matmul.allow_tf32 = False
timed("A @ A.T f32 N=8000", lambda: features @ features.T, runs=3)
torch.backends.cuda.matmul.allow_tf32 = True
timed("A @ A.T TF32 N=8000", lambda: features @ features.T, runs=3)
del features
torch.backends.cuda.matmul.allow_tf32 = False
TAUS = [0.01, 0.005, 0.02, 0.04, 0.003, 0.08, 0.03, 0.015]
spectra = []
for tau in TAUS:
    f = m * torch.exp(-m * DT / tau)
    spectra.append(torch.fft.rfft((f / f.sum()).float()[:40_000], SHORT))


def bank_responses():
    parts = []
    for part in counts.split(125):
        spectrum = torch.fft.rfft(part.float(), SHORT)
        parts += [torch.fft.irfft(spectrum * s, SHORT)[:, :T] for s in spectra]
    return torch.cat(parts)


def train_bank():
    a = bank_responses()
    gram, upsilon = a @ a.T, a @ x
    mean, x_mean = a.mean(1), x.mean(0)
    n = a.shape[0]
    gram = gram - T * torch.outer(mean, mean) + 0.4 * torch.eye(n, device=device)
    upsilon = upsilon - T * torch.outer(mean, x_mean)
    return torch.cholesky_solve(upsilon, torch.linalg.cholesky(gram)).cpu()


timed("train f32 dense, bank of 8 filters, counts on the device", train_bank, runs=3)
