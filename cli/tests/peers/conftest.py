"""A model and its session as a program, for peers to talk to. Run: python -m pytest cli/tests/peers (BETZ names the program)."""
import json
import os
import random
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BETZ = os.environ.get("BETZ", str(ROOT / "target" / "debug" / "betz"))
CHANNELS = 96


def run(*arguments, cwd=None):
    return subprocess.run([BETZ, *map(str, arguments)], cwd=cwd, check=True, capture_output=True, text=True).stdout


def train(folder, step=0.002):
    """A model of 96 channels that takes a step every 2 ms."""
    recording = folder / "population.npz"
    run("simulate", "--neurons", CHANNELS, "--seconds", 20, "--tick", step, "--out", recording)
    run("train", recording, "--out", folder / "model.betz", "--bank", "reach", "--step", step)
    return folder / "model.betz"


def free_port(kind=socket.SOCK_DGRAM):
    """Below those that the system gives out: a client that tries one of these before its server is there can meet itself."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket(socket.AF_INET, kind) as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port below 32,000")


class Live:
    """`betz stream MODEL …`; what it printed at its end is in `said`."""

    def __init__(self, model, *arguments, env=None):
        command = [BETZ, "stream", str(model), "--json", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        said = ""
        while "listening" not in said:  # a library may have words of its own before
            line = self.process.stderr.readline()
            assert line, f"it ended before it listened: {said}"
            said += line

    def end(self, interrupt=True):
        if interrupt:
            self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return json.loads(out)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def until(true, what, seconds=30):
    """Waits for something that must come: the bound only ends a test that has failed."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what}: did not come in {seconds} s"
        time.sleep(0.01)


def datagram(sequence, counts, sent=0):
    return struct.pack("<4sBBHQqII", b"BETZ", 1, 1, len(counts), sequence, sent, 0, 0) + struct.pack(f"<{len(counts)}H", *counts)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    if not shutil.which(BETZ):
        pytest.skip(f"no program at {BETZ}: cargo build -p betz-cli")
    return train(tmp_path_factory.mktemp("model"))
