"""Ways to add up two devices' partial sums of f64 (Gamma of n features): NCCL's reduce against a copy from
peer to peer and an addition, which is what Betz does. Medians of warm runs; needs two devices.

    python3 benches/peers/combine_torch.py
"""
import statistics
import time

import torch
from torch.cuda import nccl

if torch.cuda.device_count() < 2:
    raise SystemExit("needs two devices")
devices = [torch.device("cuda", i) for i in range(2)]


def wait():
    for device in devices:
        torch.cuda.synchronize(device)


def timed(name, work, runs=15):
    times = []
    for _ in range(runs + 1):
        wait()
        start = time.perf_counter()
        work()
        wait()
        times.append((time.perf_counter() - start) * 1e3)
    print(f"{name}: first {times[0]:.2f} ms, median {statistics.median(times[1:]):.3f} ms, "
          f"least {min(times[1:]):.3f} ms", flush=True)


for n in (1000, 2000, 4000, 8000):
    parts = [torch.rand(n * n, dtype=torch.float64, device=device) for device in devices]
    whole = torch.empty_like(parts[0])
    here = torch.empty_like(parts[0])

    def by_copy():
        here.copy_(parts[1], non_blocking=True)
        torch.add(parts[0], here, out=whole)

    def by_nccl():
        nccl.reduce(parts, output=whole, root=0)

    timed(f"n={n}: peer copy and add", by_copy)
    timed(f"n={n}: NCCL reduce", by_nccl)
    assert torch.equal(whole, parts[0] + parts[1].to(devices[0]))
