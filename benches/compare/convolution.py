"""Responses to a kernel of any shape, and Γ of them, by other programs: CuPy and PyTorch on a GPU, SciPy on the CPU.

    convolution --spikes FILE          # benches/programs/src/bin/convolution.rs writes spikes and kernel
    python3 benches/compare/convolution.py FILE [CHANNELS] [STEPS] [gpu|cpu] [PROGRAM]
    python3 benches/compare/convolution.py lengths PROGRAM [SAMPLES] [FIRST LAST]

Prints medians, on a GPU by its own clock, and the error against f64 of three channels. With PROGRAM (the convolution
program), Betz runs between them: with cpu, Betz and SciPy take turns on one thread each, Betz on the spikes, and on a
dense train; with gpu, Betz prints its phases from spikes to weights.

`lengths` is figure 5.2: nanoseconds per step and channel for 2^FIRST to 2^LAST steps (10 to 24) and a kernel of SAMPLES
(1,000). Betz (recursion, spikes, a dense train) and SciPy run on one thread; CuPy and PyTorch are added where they are
installed."""
import re
import statistics
import subprocess
import sys
import time

import numpy as np

WHERE = "lengths" if sys.argv[1] == "lengths" else sys.argv[4] if len(sys.argv) > 4 else "gpu"
if WHERE == "lengths":
    PROGRAM, CHANNELS, STEPS = sys.argv[2], 1, 0
else:
    CHANNELS = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    STEPS = int(sys.argv[3]) if len(sys.argv) > 3 else 400_000
    PROGRAM = sys.argv[5] if len(sys.argv) > 5 else None
SOME = (0, 1, CHANNELS - 1)
# Values of one measurement of `lengths`, and most channels.
VALUES, MOST = 1 << 24, 256


def read(name):
    with open(name, "rb") as file:
        spikes, samples = np.frombuffer(file.read(16), "<u8")
        ticks = np.frombuffer(file.read(4 * int(spikes)), "<u4")
        channels = np.frombuffer(file.read(4 * int(spikes)), "<u4")
        return ticks, channels, np.frombuffer(file.read(8 * int(samples)), "<f8")


if WHERE != "lengths":
    TICKS, OF, KERNEL = read(sys.argv[1])


def counts(channels, dtype="f4"):
    rows = np.zeros((channels.stop - channels.start, STEPS), dtype)
    here = (OF >= channels.start) & (OF < channels.stop)
    np.add.at(rows, (OF[here] - channels.start, TICKS[here]), 1)
    return rows


def expected(channel):
    return np.convolve(counts(slice(channel, channel + 1), "f8")[0], KERNEL)[:STEPS]


def error(found):
    wanted = np.stack([expected(c) for c in SOME])
    return np.linalg.norm(np.asarray(found, "f8") - wanted) / np.linalg.norm(wanted)


def betz(channels, rate):
    """Processor seconds of Betz on one thread."""
    size = ["--channels", channels, "--steps", STEPS, "--samples", len(KERNEL), "--rate", rate]
    told = subprocess.run(
        [PROGRAM, "--cpu", "--repeats", "1", *map(str, size)], env={"RAYON_NUM_THREADS": "1"}, check=True, capture_output=True, text=True
    )
    return float(re.search(r"([0-9.]+) processor seconds", told.stdout)[1])


def on_cpu():
    from scipy.signal import oaconvolve

    some = min(CHANNELS, 64)
    rows = counts(slice(0, some), "f8")
    times, sparse, dense = [], [], []
    for _ in range(5):
        start = time.process_time()
        found = oaconvolve(rows, KERNEL[None], axes=1)[:, :STEPS]
        times.append(time.process_time() - start)
        if PROGRAM:
            sparse.append(betz(some, 20))
            dense.append(betz(some, 2000))
    wanted = expected(0)
    off = np.linalg.norm(found[0] - wanted) / np.linalg.norm(wanted)
    scaled = lambda seconds: statistics.median(seconds) * CHANNELS / some
    peer = scaled(times)
    print(f"scipy.signal.oaconvolve, {some} channels scaled: {peer:.3f} processor seconds, error {off:.1e}")
    for name, seconds in (("spikes at 20 Hz", sparse), ("a dense train", dense)):
        if seconds:
            print(f"Betz, {name}: {scaled(seconds):.3f} processor seconds, {peer / scaled(seconds):.1f} times as fast")


def on_gpu():
    import cupy as cp
    import torch

    x = cp.asarray(counts(slice(0, CHANNELS)))
    h = cp.asarray(KERNEL.astype("f4"))
    length = len(KERNEL)
    print(cp.cuda.runtime.getDeviceProperties(0)["name"].decode(), "CuPy", cp.__version__, "torch", torch.__version__)

    def timed(name, work, repeats=7, scale=1.0):
        work()
        times = []
        for _ in range(repeats):
            begin, end = cp.cuda.Event(), cp.cuda.Event()
            begin.record()
            found = work()
            end.record()
            end.synchronize()
            times.append(cp.cuda.get_elapsed_time(begin, end))
        off = ""
        if found is not None and found.shape[0] == CHANNELS and found.shape[1] == STEPS:
            off = f", error {error(np.stack([cp.asnumpy(found[c]) for c in SOME])):.1e}"
        print(f"{name}: {statistics.median(times) * scale:.2f} ms{off}")
        return found

    multiply = cp.ElementwiseKernel("complex64 a, raw complex64 h, int64 m", "complex64 y", "y = a * h[i % m]", "multiply")
    for block in (8192, 16_384, 32_768, 65_536):
        if block < 2 * length:
            continue
        hop = block - length + 1
        each = -(-STEPS // hop)
        padded = cp.zeros((CHANNELS, length - 1 + each * hop), cp.float32)
        padded[:, length - 1 : length - 1 + STEPS] = x
        view = cp.lib.stride_tricks.as_strided(padded, (CHANNELS, each, block), (padded.strides[0], hop * 4, 4))
        transfer = cp.asarray(np.fft.rfft(KERNEL, block).astype("c8"))
        at_once = max(1, int(2e9 // (each * block * 4)))

        def overlap_save():
            out = cp.empty((CHANNELS, each * hop), cp.float32)
            for start in range(0, CHANNELS, at_once):
                blocks = cp.ascontiguousarray(view[start : start + at_once])
                spectra = multiply(cp.fft.rfft(blocks, axis=-1), transfer, block // 2 + 1)
                back = cp.fft.irfft(spectra, n=block, axis=-1)
                out[start : start + at_once] = back[:, :, length - 1 :].reshape(len(blocks), -1)
            return out[:, :STEPS]

        responses = timed(f"CuPy, overlap-save, block {block}", overlap_save)
        del padded, view
    responses = cp.ascontiguousarray(responses)
    # CuPy and PyTorch work on one stream, so that CuPy's events time both.
    stream = torch.cuda.ExternalStream(cp.cuda.get_current_stream().ptr)
    with torch.cuda.stream(stream):
        rows, kernel = torch.from_dlpack(x), torch.from_dlpack(h)
        found = torch.from_dlpack(responses)

        def transformed():
            size = 1 << int(np.ceil(np.log2(STEPS + length)))
            out, transfer = torch.empty_like(rows), torch.fft.rfft(kernel, size)
            for start in range(0, CHANNELS, 128):
                spectra = torch.fft.rfft(rows[start : start + 128], size) * transfer
                out[start : start + 128] = torch.fft.irfft(spectra, size)[:, :STEPS]
            return cp.from_dlpack(out)

        timed("torch.fft over all steps", transformed)
        for tf32 in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            timed(f"torch, Γ of the responses, {'TF32' if tf32 else 'f32'}", lambda: cp.from_dlpack(found @ found.T))

        def trained():
            torch.backends.cuda.matmul.allow_tf32 = True
            out = torch.from_dlpack(transformed())
            gram = out @ out.T + torch.eye(CHANNELS, device="cuda")
            return cp.from_dlpack(torch.linalg.solve(gram, out[:, :1024]))

        timed("torch, responses to weights, TF32", trained)
        few = min(CHANNELS, 32)
        flipped = kernel.flip(0)[None, None]

        def conv1d():
            part = torch.nn.functional.pad(rows[:few, None], (length - 1, 0))
            return cp.from_dlpack(torch.nn.functional.conv1d(part, flipped)[:, 0])

        timed(f"torch conv1d, {few} channels scaled", conv1d, 1, CHANNELS / few)


def betz_on_gpu():
    size = ["--channels", CHANNELS, "--steps", STEPS, "--samples", len(KERNEL)]
    for more in ([], ["--tf32"]):
        told = subprocess.run([PROGRAM, "--cuda", *map(str, size), *more], check=True, capture_output=True, text=True)
        print("Betz:", told.stdout.strip())


def by_length():
    """Figure 5.2: a row per number of steps."""
    from scipy.signal import oaconvolve

    samples = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    first, last = (int(sys.argv[4]), int(sys.argv[5])) if len(sys.argv) > 5 else (10, 24)
    kernel = np.random.default_rng(0).random(samples)
    peers = {"SciPy": (np, oaconvolve)}
    try:
        import cupy as cp
        from cupyx.scipy.signal import oaconvolve as overlap_add

        peers["CuPy oaconvolve"] = (cp, overlap_add)
    except ImportError as error:
        print(f"without CuPy: {error}")
    try:
        import torch

        torch.zeros(1, device="cuda")
    except (ImportError, RuntimeError, AssertionError) as error:
        torch = None
        print(f"without PyTorch: {error}")

    def betz_ns(channels, steps, more):
        size = ["--channels", channels, "--steps", steps, "--samples", samples, "--repeats", 3]
        command = [PROGRAM, "--cpu", *map(str, size), *more]
        told = subprocess.run(command, env={"RAYON_NUM_THREADS": "1"}, check=True, capture_output=True, text=True)
        return 1e9 * float(re.search(r"([0-9.]+) processor seconds", told.stdout)[1]) / (channels * steps)

    def timed(work, values, wait=lambda: None):
        work()
        wait()
        times = []
        for _ in range(3):
            # One thread: its processor's seconds are the clock's.
            start = time.perf_counter()
            work()
            wait()
            times.append(time.perf_counter() - start)
        return 1e9 * statistics.median(times) / values

    names = ["steps", "channels", "Betz recursion", "Betz, spikes at 20 Hz", "Betz, dense", *peers]
    print(", ".join(names + (["torch.fft"] if torch else [])))
    for power in range(first, last + 1):
        steps = 1 << power
        channels = max(1, min(MOST, VALUES >> power))
        row = [betz_ns(channels, steps, more) for more in (["--recursive"], ["--rate", "20"], ["--rate", "2000"])]
        dense = np.random.default_rng(1).poisson(0.5, (channels, steps)).astype("f8")
        for xp, work in peers.values():
            x, h = xp.asarray(dense, dtype="f8" if xp is np else "f4"), xp.asarray(kernel)[None].astype("f4")
            h = h.astype(x.dtype)
            wait = (lambda: None) if xp is np else xp.cuda.Device().synchronize
            row.append(timed(lambda: work(x, h, axes=1)[:, :steps], dense.size, wait))
            del x, h
        if torch:
            x = torch.from_numpy(dense.astype("f4")).cuda()
            h = torch.from_numpy(kernel.astype("f4")).cuda()
            size = 1 << int(np.ceil(np.log2(steps + samples)))

            def transformed():
                return torch.fft.irfft(torch.fft.rfft(x, size) * torch.fft.rfft(h, size), size)[:, :steps]

            row.append(timed(transformed, dense.size, torch.cuda.synchronize))
            del x, h
        print(", ".join([f"2^{power}", str(channels), *(f"{value:.3f}" for value in row)]), flush=True)


if WHERE == "lengths":
    by_length()
elif WHERE == "cpu":
    on_cpu()
else:
    on_gpu()
    if PROGRAM:
        betz_on_gpu()
