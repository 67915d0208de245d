"""Microseconds per sample of kernels/map_online.cu, by the nodes that a block has, for maps of several sizes.

    python3 benches/compare/som_online.py          # on a machine with a GPU; needs CuPy

It launches the kernel as `betz som --online --device cuda` does, with other divisions, too, and compares the bits of all."""
import pathlib
import time

import cupy as cp
import numpy as np

SOURCE = (pathlib.Path(__file__).parents[2] / "kernels" / "map_online.cu").read_text()
MAPS = [(16, 16, 3), (90, 70, 3), (90, 70, 32), (300, 300, 3), (300, 300, 32), (128, 128, 300), (1024, 1024, 3)]
BLOCKS, SHARED = 132, 226_000
KERNELS = [cp.RawKernel(SOURCE, "map_online", ("--std=c++17", f"-DIN_SHARED={i}"), enable_cooperative_groups=True) for i in (0, 1)]


def run(shape, per, samples, weights):
    """Seconds of a pass, and the weights after it."""
    rows, columns, dims = shape
    nodes, whole = rows * columns, 4 * dims * (3 + per)
    in_shared = whole <= SHARED
    kernel, shared = KERNELS[in_shared], whole if in_shared else 12 * dims
    kernel.max_dynamic_shared_size_bytes = max(shared, 1024)
    radius = max(rows, columns) // 3
    width = 2 * radius + 1
    scales, ranges = cp.full((width, width), 0.05, "f4"), cp.zeros(2 * dims, "f4")
    messages, planes = cp.zeros(384, "u8"), weights.copy()
    threads = min(1024, max(32, -(-per // 32) * 32))

    def present(count):
        messages.fill(0)
        numbers = [dims, rows, columns, planes.shape[1], per, 0, 1, -radius, width, -radius, width, 0]
        counts = [np.uint64(0), np.uint64(count)]
        kernel((-(-nodes // per),), (threads,), (samples, scales, ranges, *counts, *map(np.int32, numbers), messages, planes), shared_mem=shared)
        cp.cuda.Device().synchronize()

    present(100)
    begun = time.perf_counter()
    present(len(samples))
    return time.perf_counter() - begun, cp.asnumpy(planes[:, :nodes])


def main():
    random = np.random.default_rng(0)
    for shape in MAPS:
        nodes, dims = shape[0] * shape[1], shape[2]
        count = int(np.clip(2e9 / (nodes * dims), 5000, 200_000))
        samples = cp.asarray(random.random((count, dims), "f4"))
        weights = cp.asarray(random.random((dims, -(-nodes // 16) * 16), "f4"))
        least = -(-nodes // BLOCKS)
        told, bits = [], set()
        for per in sorted({max(least, per) for per in (64, 128, 256, 512, 1024)}):
            seconds, after = run(shape, per, samples, weights)
            told.append((1e6 * seconds / count, per))
            bits.add(after.tobytes())
        same = "the same bits" if len(bits) == 1 else f"{len(bits)} DIFFERENT RESULTS"
        print("x".join(map(str, shape)), same, ", ".join(f"{us:.2f} µs (blocks of {per} nodes)" for us, per in sorted(told)), flush=True)


if __name__ == "__main__":
    main()
