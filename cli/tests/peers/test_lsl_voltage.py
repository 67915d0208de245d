"""`betz run` on voltage that pylsl sends: chunks of 10 ms, each stamped when it is sent."""
import json
import os
import pathlib
import subprocess
import threading
import time

import pytest
from conftest import BETZ, run

CHANNELS = 8
RATE = 30_000
CHUNK = 300
PLAN = """
[session]
name = "lsl"

[[source]]
name = "stream"
from = "lsl://{name}?microvolts=0.5"
sends = "samples"
channels = {channels}
path = "10ms"

[voltage]
noise = {{ calibrate = "1s", track = "30s" }}

[record]
to = "{folder}"
"""


def send(outlet, rows, ends):
    """Sends rows that look random, in real time."""
    import numpy

    random = numpy.random.default_rng(1)
    begin = time.monotonic()
    while not ends.is_set():
        chunk = random.integers(-500, 500, (CHUNK, CHANNELS)).astype("int16")
        rows.append(chunk)
        outlet.push_chunk(chunk)
        time.sleep(max(0, begin + len(rows) * CHUNK / RATE - time.monotonic()))


def test_rows_come_as_sent_although_their_times_jitter(tmp_path):
    pylsl = pytest.importorskip("pylsl", reason="pylsl is not installed")
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    library = next((pathlib.Path(pylsl.__file__).parent / "lib").glob("liblsl.so*"))
    name = f"betz-peer-{os.getpid()}"
    outlet = pylsl.StreamOutlet(pylsl.StreamInfo(name, "Voltage", CHANNELS, RATE, "int16", name))
    rows, ends = [], threading.Event()
    sender = threading.Thread(target=send, args=(outlet, rows, ends))
    sender.start()
    try:
        plan = tmp_path / "plan.toml"
        plan.write_text(PLAN.format(name=name, channels=CHANNELS, folder=tmp_path / "to"))
        # The sender may be held up, so late steps are not this test's matter.
        command = [BETZ, "run", str(plan), "--seconds", "8", "--json", "--set", "limits.late_steps=1"]
        env = dict(os.environ, BETZ_LSL=str(library))
        told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout)
    finally:
        ends.set()
        sender.join()
    source = told["sources"][0]
    assert (source["lost"], source["at_least"], source["malformed"], source["reconnects"]) == (0, False, 0, 0), source
    run("record", "export", told["folder"], "--to", "nwb", "--out", tmp_path / "session.nwb", cwd=tmp_path)
    with h5py.File(tmp_path / "session.nwb") as file:
        voltage = file["acquisition/voltage/data"][:]
    sent = numpy.concatenate(rows)
    first = numpy.flatnonzero((sent == voltage[0]).all(axis=1))
    assert len(first) == 1 and len(voltage) > 6 * RATE
    assert (sent[first[0] : first[0] + len(voltage)] == voltage).all()
