"""A B of f32 matrices in host memory by cuBLASXt and by PyTorch, at the sizes of benches/programs/src/bin/products.rs.

    python3 benches/peers/products.py [SIDE ...]

Prints seconds and GFLOP/s, medians of three. PyTorch's copies both factors to the device and the product back."""
import ctypes
import statistics
import sys
import time

import torch

torch.zeros(1, device="cuda") @ torch.zeros(1, device="cuda")  # loads cuBLAS
with open("/proc/self/maps") as maps:
    paths = {line.split()[-1] for line in maps if "libcublas.so" in line}
blas = ctypes.CDLL(paths.pop() if paths else "libcublas.so.13")


def check(status, what):
    if status:
        sys.exit(f"{what}: status {status}")


def timed(name, side, work):
    work()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    seconds = statistics.median(times)
    print(f"{name}, {side}: {seconds:.4f} s, {2e-9 * side**3 / seconds:.0f} GFLOP/s")


handle = ctypes.c_void_p()
check(blas.cublasXtCreate(ctypes.byref(handle)), "cublasXtCreate")
check(blas.cublasXtDeviceSelect(handle, 1, (ctypes.c_int * 1)(0)), "cublasXtDeviceSelect")
torch.backends.cuda.matmul.allow_tf32 = False
print(torch.cuda.get_device_name(), torch.__version__)
for side in [int(text) for text in sys.argv[1:]] or [1000, 4000, 8000]:
    a, c = torch.rand((side, side)) - 0.4, torch.zeros((side, side))
    one, zero, n = ctypes.c_float(1), ctypes.c_float(0), ctypes.c_size_t(side)

    def xt():
        status = blas.cublasXtSgemm(
            handle, 0, 0, n, n, n, ctypes.byref(one), ctypes.c_void_p(a.data_ptr()), n,
            ctypes.c_void_p(a.data_ptr()), n, ctypes.byref(zero), ctypes.c_void_p(c.data_ptr()), n,
        )
        check(status, "cublasXtSgemm")

    timed("cuBLASXt", side, xt)
    timed("PyTorch, from host memory and back", side, lambda: (a.cuda() @ a.cuda()).cpu())
