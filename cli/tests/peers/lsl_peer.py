"""Sends N samples of 96 channels through `betz stream --in lsl://… --out lsl://…` and back. Arguments: MODEL N HZ [--steady] [--echo PROGRAM].

With --echo through that program (lsl_echo.c) instead: what liblsl and the machine take themselves.
Without --steady the stream vanishes after three quarters and comes back. Prints one JSON object."""
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import pylsl
from conftest import CHANNELS, Live, until

model, steps, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
steady = "--steady" in sys.argv
library = next((pathlib.Path(pylsl.__file__).parent / "lib").glob("liblsl.so*"))


def outlet():
    return pylsl.StreamOutlet(pylsl.StreamInfo("peer", "Spikes", CHANNELS, rate, "float32", "peer-uid"), chunk_size=0)


out = outlet()
delays, came = [], 0


class Echo:
    """In the place of `betz stream`."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.argv[sys.argv.index("--echo") + 1], str(library), "peer", "betz"])
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def end(self):
        return None


def between():
    if "--echo" in sys.argv:
        return Echo()
    return Live(model, "--in", "lsl://peer", "--out", "lsl://betz", env=dict(os.environ, BETZ_LSL=str(library)))


with between() as live:
    streams = pylsl.resolve_byprop("name", "betz", timeout=20)
    inlet = pylsl.StreamInlet(streams[0], max_buflen=360)
    inlet.open_stream(10)
    assert out.wait_for_consumers(20)
    done = threading.Event()

    def take():
        global came
        while not done.is_set():
            sample, stamp = inlet.pull_sample(timeout=0.2)
            if sample is not None:
                delays.append(pylsl.local_clock() - stamp)
                came += 1

    taker = threading.Thread(target=take)
    taker.start()
    due = time.perf_counter()
    for index in range(steps):
        if not steady and index == steps * 3 // 4:
            until(lambda: came == index, "samples before the stream vanishes")
            del out
            time.sleep(1.0)
            out = outlet()
            assert out.wait_for_consumers(20)
            due = time.perf_counter()
        due += 1 / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        out.push_sample([float(index % 3)] * CHANNELS, pylsl.local_clock(), True)
    until(lambda: came == steps, "all samples", 20)
    done.set()
    taker.join()
    said = live.end()
delays = sorted(d * 1e6 for d in delays)
print(json.dumps({"came": came, "p50_us": delays[len(delays) // 2], "p99_us": delays[len(delays) * 99 // 100],
                  "max_us": delays[-1], "betz": said}))
