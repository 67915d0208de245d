"""Coherence of all pairs beside `gpu_network pairs`: SciPy for a few nodes, and PyTorch's complex products on a GPU.

    python benches/compare/network_coherence.py [NODES ...]

One window of 200 samples, segments of 50, the mean of the 25 frequencies above 0, in f64. PyTorch holds the matrix of all pairs; Betz holds edges.
"""

import sys
import time

import numpy as np

W, SEGMENT = 200, 50


def spectra(samples):
    hop = SEGMENT - SEGMENT // 2
    weights = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(SEGMENT) / SEGMENT)
    parts = np.stack([samples[s : s + SEGMENT] for s in range(0, W - SEGMENT + 1, hop)])
    parts = (parts - parts.mean(1, keepdims=True)) * weights[:, None]
    found = np.fft.rfft(parts, axis=1)[:, 1:]
    return found / np.sqrt((abs(found) ** 2).sum(0))  # (segment, frequency, node)


rng = np.random.default_rng(1)
x = rng.normal(size=(W, 40)) + 0.5 * rng.normal(size=(W, 1))
z = spectra(x)
mean = (abs(np.einsum("sfi,sfj->fij", z, z.conj())) ** 2).mean(0)
try:
    from scipy.signal import coherence

    begun = time.perf_counter()
    for i in range(40):
        for j in range(i + 1, 40):
            _, values = coherence(x[:, i], x[:, j], nperseg=SEGMENT)
            assert abs(values[1:].mean() - mean[i, j]) < 1e-12
    took = time.perf_counter() - begun
    print(f"SciPy: {40 * 39 // 2} pairs in {took:.3f} s, the same values; {took / 780 * 1e6:.0f} us per pair")
except ImportError:
    print("SciPy is not there")

try:
    import torch
except ImportError:
    sys.exit("PyTorch is not there")
device = "cuda" if torch.cuda.is_available() else "cpu"
for nodes in map(int, sys.argv[1:] or ["4000", "22360"]):
    z = torch.from_numpy(spectra(rng.normal(size=(W, nodes)))).to(device)

    def edges():
        total = torch.zeros(nodes, nodes, dtype=torch.float64, device=device)
        for f in range(z.shape[1]):
            product = z[:, f].T @ z[:, f].conj()
            total += product.real**2 + product.imag**2
        return int((total.triu(1) >= 0.8 * z.shape[1]).sum())

    edges()
    times = []
    for _ in range(3):
        if device == "cuda":
            torch.cuda.synchronize()
        begun = time.perf_counter()
        found = edges()
        times.append(time.perf_counter() - begun)
    print(f"PyTorch {torch.__version__} on {device}: {nodes} nodes, one window, {found} edges, {sorted(times)[1]:.4f} s")
