#!/usr/bin/env python3
"""A wheel of scripts/wheel.sh: its tag, size, licences, what its library asks of the system, and that it works.

    scripts/check_wheel.py WHEEL.whl [--python "COMMAND"]

--python is a command that runs Python with NumPy for the wheel's machine, such as an emulated one
("qemu-aarch64 -L ROOT ROOT/usr/bin/python3"); without it a wheel for this machine is tried by this very Python, or
by target/python's, and one for another machine is not run. Needs readelf. How long an import takes is printed only.
"""

import pathlib
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import zipfile

LARGEST = 6_000_000
# Of manylinux2014, and what every glibc and its loader are made of.
GLIBC = (2, 17)
SYSTEM = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libgcc_s.so.1",
          "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
MACHINES = {"x86_64": "X86-64", "aarch64": "AArch64"}

WORKS = """
import time; began = time.perf_counter()
import betz; import_seconds = time.perf_counter() - began
import numpy as np; with_numpy = time.perf_counter() - began
counts = np.random.default_rng(0).poisson(1.0, (400, 8)).astype(np.uint8)
data = betz.Recording.from_counts(counts, 0.02, behavior=counts[:, :1].astype(np.float32)).align(0.02)
options = {"bank": [(0.001, 0)], "ridge": 1e-6, "noise": None, "delay_steps": 0, "low_pass": None, "folds": 0, "kind": "linear",
           "latents": None, "units": None, "experts": None, "seed": 0, "device": "cpu"}
model = betz.Sums.over(data, options, None).solve(ridge=1e-6)
session = betz.Session(model)
estimates = [float(session.step(row)[0]) for row in counts[:50]]
assert np.allclose(estimates, counts[:50, 0], atol=1e-3), estimates[:5]
print(betz.__version__, f"{import_seconds:.3f}", f"{with_numpy:.3f}")
"""

failed = []


def expect(holds, what):
    if not holds:
        failed.append(what)


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], check=True, capture_output=True, text=True).stdout


def python_there():
    """A Python of this machine that has NumPy."""
    here = pathlib.Path(__file__).resolve().parent.parent / "target" / "python" / "bin" / "python"
    for python in (sys.executable, str(here)):
        try:
            if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
                return [python]
        except OSError:
            continue
    return None


def main(wheel, python):
    name = re.fullmatch(r"betz-([^-]+)-cp310-abi3-(manylinux\S*)_(x86_64|aarch64)\.whl", wheel.name)
    if name is None:
        sys.exit(f"{wheel.name}: expected betz-VERSION-cp310-abi3-manylinux2014_MACHINE.whl")
    version, platforms, machine = name.groups()
    expect("manylinux2014" in platforms or "manylinux_2_17" in platforms, f"expected a tag of manylinux2014, got {platforms}")
    size = wheel.stat().st_size
    expect(size <= LARGEST, f"expected at most {LARGEST:,} bytes, got {size:,}")
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        there = {str(file.relative_to(folder)) for file in pathlib.Path(folder).rglob("*") if file.is_file()}
        for file in ("__init__.py", "_core.abi3.so", "_core.pyi", "_decoder.pyi", "py.typed"):
            expect(f"betz/{file}" in there, f"expected betz/{file}")
        for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
            expect(any(file.endswith("/" + licence) for file in there), f"expected {licence}")
        library = f"{folder}/betz/_core.abi3.so"
        header = readelf("--file-header", library)
        expect(MACHINES[machine] in header, f"expected a library for {machine}, got {header}")
        needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic", library)))
        expect(needed <= SYSTEM, f"expected the system's libraries alone, got {sorted(needed - SYSTEM)}")
        versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", readelf("--version-info", library))}
        newest = max(versions, default=(0,))
        expect(newest <= GLIBC, f"expected symbols of glibc up to {GLIBC}, got {newest}")
        private = set(re.findall(r"UND (_Py\w+)", readelf("--dyn-syms", library))) - {"_Py_NoneStruct", "_Py_TrueStruct", "_Py_FalseStruct"}
        # Of the stable ABI, too: what its macros call, and objects.
        private -= {"_Py_IncRef", "_Py_DecRef", "_Py_Dealloc", "_Py_NotImplementedStruct", "_Py_EllipsisObject"}
        expect(not private, f"expected functions of Python's stable ABI, got {sorted(private)}")
        if python is None and machine == platform.machine():
            python = python_there()
        if python is None:
            ran = f"not run: no Python with NumPy for {machine} was named"
        else:
            program = f"import sys; sys.path.insert(0, {folder!r})\n{WORKS}"
            out = [subprocess.run([*python, "-c", program], capture_output=True, text=True) for _ in range(6)]
            bad = [o.stderr for o in out if o.returncode != 0]
            expect(not bad, f"expected a model that is trained and steps, got {bad[:1]}")
            # The first compiles what is Python; the median of the others.
            said = [o.stdout.split()[1:] for o in out[1:] if o.returncode == 0]
            alone, with_numpy = (sorted(column)[len(said) // 2] for column in zip(*said)) if said else ("", "")
            ran = f"trains and steps; imported in {alone} s, with NumPy in {with_numpy} s" if said else "fails"
            expect(all(o.stdout.split()[0] == version for o in out if o.returncode == 0), f"expected version {version}")
    print(f"{wheel.name}: {size:,} bytes, glibc {'.'.join(map(str, newest))}, needs {', '.join(sorted(needed))}; {ran}")
    for what in failed:
        print(f"{wheel.name}: {what}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if len(arguments) == 3 and arguments[1] == "--python":
        main(pathlib.Path(arguments[0]), shlex.split(arguments[2]))
    elif len(arguments) == 1 and not arguments[0].startswith("-"):
        main(pathlib.Path(arguments[0]), None)
    else:
        sys.exit(__doc__.strip())
