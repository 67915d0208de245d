"""A B of f32 matrices in host memory by cuBLASXt, by PyTorch and by CuPy, at the sizes of
benches/programs/src/bin/products.rs, and by that program in the same run.

    python3 benches/peers/products.py [SIDE ...] [PROGRAM]

Prints seconds and GFLOP/s, medians of three. PyTorch and CuPy copy both factors to the device and the product back."""
import ctypes
import statistics
import subprocess
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
try:
    import cupy
except ImportError as error:
    cupy = None
    print(f"without CuPy: {error}")
sides = [int(text) for text in sys.argv[1:] if text.isdigit()] or [1000, 4000, 8000]
for side in sides:
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
    if cupy:
        rows = a.numpy()
        timed("CuPy, from host memory and back", side, lambda: cupy.asnumpy(cupy.asarray(rows) @ cupy.asarray(rows)))
for program in [text for text in sys.argv[1:] if not text.isdigit()]:
    sizes = ["--device", "cuda", "--sizes", ",".join(map(str, sides))]
    subprocess.run([program, *sizes], check=True)
