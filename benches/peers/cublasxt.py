"""cuBLASXt, the library's own product beyond a device's memory, at the work of `gpu_gram cap`: one
triangle of A A^T with A (N = 8,000 rows of f32) in host memory, some steps long, in blocks of some sizes.

    python3 benches/peers/cublasxt.py [STEPS]

Prints the rate by the operations of one triangle, n (n + 1) steps; T = 400,000 takes 12.8 GB of pinned
host memory. Needs PyTorch, for pinned memory and to find the library.
"""
import ctypes
import sys
import time

import torch

N = 8000
T = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
torch.zeros(1, device="cuda") @ torch.zeros(1, device="cuda")  # loads cuBLAS


def library():
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "libcublas.so" in line}
    return ctypes.CDLL(paths.pop() if paths else "libcublas.so.13")


blas = library()
if not hasattr(blas, "cublasXtCreate"):
    sys.exit("this cuBLAS has no cublasXtCreate")


def check(status, what):
    if status:
        sys.exit(f"{what}: status {status}")


handle = ctypes.c_void_p()
check(blas.cublasXtCreate(ctypes.byref(handle)), "cublasXtCreate")
check(blas.cublasXtDeviceSelect(handle, 1, (ctypes.c_int * 1)(0)), "cublasXtDeviceSelect")
a = torch.empty((T, N), pin_memory=True)  # column-major N x T
a.uniform_()
c = torch.zeros((N, N), pin_memory=True)
one, zero = ctypes.c_float(1), ctypes.c_float(0)
LOWER, PLAIN = 0, 0
free = torch.cuda.mem_get_info()[0]
for block in (2048, 4096, 8192):
    check(blas.cublasXtSetBlockDim(handle, block), "cublasXtSetBlockDim")
    times = []
    for _ in range(3):
        start = time.perf_counter()
        check(
            blas.cublasXtSsyrk(
                handle, LOWER, PLAIN, ctypes.c_size_t(N), ctypes.c_size_t(T), ctypes.byref(one),
                ctypes.c_void_p(a.data_ptr()), ctypes.c_size_t(N), ctypes.byref(zero),
                ctypes.c_void_p(c.data_ptr()), ctypes.c_size_t(N),
            ),
            "cublasXtSsyrk",
        )
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    seconds = sorted(times)[1]
    taken = free - torch.cuda.mem_get_info()[0]
    rate = N * (N + 1) * T / seconds / 1e12
    print(f"cublasXtSsyrk N={N} T={T} blocks of {block}: median {seconds * 1e3:.0f} ms, "
          f"{rate:.1f} TFLOP/s, {taken / 2**20:.0f} MiB of device memory", flush=True)
exact = a[:, :64].T.double() @ a[:, :64].double()
got = c.T[:64, :64].double()
lower = torch.tril(torch.ones(64, 64)).bool()
got = torch.where(lower, got, c[:64, :64].double())
print(f"largest relative difference from f64 sums on 64 x 64: {((got - exact).abs() / exact).max():.1e}")
