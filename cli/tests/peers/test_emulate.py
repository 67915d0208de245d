"""`betz emulate`, judged by the programs that read the real devices."""
import subprocess
import time

import pytest
from conftest import BETZ, free_port, run


class Device:
    """`betz emulate …`, until the end of a block."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([BETZ, "emulate", *map(str, arguments)], stderr=subprocess.PIPE, text=True)
        self.process.stderr.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


@pytest.mark.filterwarnings("ignore")
def test_pycbsdk_connects_configures_and_reads(tmp_path):
    """Version 0.4.1, in pure Python: it makes the handshake of Central, and then takes samples and digital events."""
    cbsdk = pytest.importorskip("pycbsdk.cbsdk", reason="pycbsdk 0.4.1 is not installed")
    if not hasattr(cbsdk, "create_params"):
        pytest.skip("pycbsdk of CereLink is installed, not 0.4.1")
    import numpy
    from pycbsdk.cbhw.packet.common import CBChannelType

    at, to = free_port(), free_port()
    with Device("cerebus", "--channels", 8, "--pulse", 5, "--at", f"127.0.0.1:{at}", "--to", f"127.0.0.1:{to}"):
        params = cbsdk.create_params(inst_addr="127.0.0.1", inst_port=at, client_addr="127.0.0.1", client_port=to, protocol="4.1")
        nsp = cbsdk.get_device(params)
        assert cbsdk.connect(nsp) == 50, "running"
        config = cbsdk.get_config(nsp)
        assert config["proc_chans"] == 9 and config["b_gemini"] and config["group_infos"][6] == set(range(1, 9))
        assert config["channel_infos"][3].label == b"elec3" and config["channel_types"][1] == CBChannelType.FrontEnd
        rows, events = [], []
        cbsdk.register_group_callback(nsp, 6, lambda packet: rows.append((packet.header.time, numpy.array(packet.data))))
        nsp.register_event_callback(CBChannelType.DigitalIn, lambda packet: events.append((packet.header.time, packet.valueRead)))
        end = time.monotonic() + 60
        while (len(rows) < 3000 or len(events) < 4) and time.monotonic() < end:
            time.sleep(0.05)
        # A client that sets a channel is answered.
        assert cbsdk.set_channel_config(nsp, 3, "smpgroup", 6) in (None, 0)
        cbsdk.disconnect(nsp)
    times = numpy.array([row[0] for row in rows], dtype="int64")
    assert len(rows) >= 3000 and {len(row[1]) for row in rows} == {8}
    assert set(numpy.unique(numpy.diff(times))) <= {33333, 33334}, "no row is missing"
    assert any(row[1].any() for row in rows)
    # Five pulses per second: a change every 100 ms, up and down in turn.
    steps = numpy.diff(numpy.array([event[0] for event in events], dtype="int64"))
    assert set(steps) == {100_000_000} and {event[1] for event in events} == {0, 1}


def test_pyzmq_reads_blocks_and_events_of_open_ephys():
    zmq = pytest.importorskip("zmq", reason="pyzmq is not installed")
    import json

    port = free_port()
    with Device("openephys", "--channels", 4, "--at", f"127.0.0.1:{port}", "--pulse", 10, "--wait"):
        subscriber = zmq.Context.instance().socket(zmq.SUB)
        subscriber.connect(f"tcp://127.0.0.1:{port}")
        subscriber.setsockopt(zmq.SUBSCRIBE, b"")
        subscriber.setsockopt(zmq.RCVTIMEO, 30_000)
        blocks, events = [], []
        while len(events) < 6:
            envelope, header, body = subscriber.recv_multipart()
            header = json.loads(header)
            if header["type"] == "data" and header["content"]["channel_num"] == 0:
                blocks.append((header["content"]["sample_num"], header["content"]["num_samples"]))
                assert len(body) == 4 * blocks[-1][1]
            elif header["type"] == "event":
                assert header["content"]["type"] == 3 and len(body) == 10
                events.append((header["content"]["sample_num"], body[0], body[1]))
        subscriber.close()
    lengths = {length for _, length in blocks}
    assert min(lengths) >= 300 and max(lengths) <= 690 and len(lengths) > 3, "10 to 23 ms"
    assert all(first + length == following for (first, length), (following, _) in zip(blocks, blocks[1:]))
    assert [event[0] for event in events] == [1500 * n for n in range(1, 7)]
    assert [event[1:] for event in events] == [(0, 1), (0, 0)] * 3


def test_pylsl_reads_the_stream(tmp_path):
    pylsl = pytest.importorskip("pylsl", reason="pylsl is not installed", exc_type=Exception)
    import os

    name = f"betz-emulated-{os.getpid()}"
    with Device("lsl", "--channels", 4, "--name", name) as device:
        if device.process.poll() is not None:
            pytest.skip("no liblsl for betz")
        found = pylsl.resolve_byprop("name", name, timeout=20)
        if not found:
            pytest.skip("LSL finds no streams here")
        inlet = pylsl.StreamInlet(found[0])
        rows, end = [], time.monotonic() + 30
        while len(rows) < 3000 and time.monotonic() < end:
            rows += inlet.pull_chunk(timeout=1.0)[0]
        assert len(rows) >= 3000 and len(rows[0]) == 4


@pytest.mark.filterwarnings("ignore")
def test_lines_of_a_session_are_events_for_pynwb_and_neo(tmp_path):
    pynwb = pytest.importorskip("pynwb", reason="pynwb is not installed")
    neo = pytest.importorskip("neo", reason="neo is not installed")
    import json

    import numpy

    port = free_port()
    (tmp_path / "session.toml").write_text(
        f'[session]\nstep = "20ms"\n[[source]]\nname = "rig"\nfrom = "openephys://127.0.0.1:{port}"\nchannels = 4\n'
        'lines = { 1 = "trial" }\n[record]\nto = "recordings"\n[limits]\nlate_steps = 1\nlost = 1\n')
    with Device("openephys", "--channels", 4, "--at", f"127.0.0.1:{port}", "--pulse", 10, "--wait"):
        told = json.loads(run("run", "session.toml", "--seconds", 3, "--json", cwd=tmp_path))
    assert told["sources"][0]["edges"] > 20 and told["notes"]["trials"] == told["sources"][0]["edges"]
    run("record", "export", told["folder"], "--to", "nwb", "--out", "s.nwb", "--plain-voltage", cwd=tmp_path)
    with pynwb.NWBHDF5IO(tmp_path / "s.nwb", "r") as file:
        session = file.read()
        lines = session.acquisition["lines"]
        assert list(lines.data[:4]) == ["rig/1 up", "rig/1 down"] * 2
        assert numpy.allclose(numpy.diff(lines.timestamps[:]), 0.05, atol=1e-9)
        assert numpy.allclose(session.trials["start_time"][:], lines.timestamps[::2][:len(session.trials)], atol=0.02)
    events = {event.name: event for event in neo.io.NWBIO(str(tmp_path / "s.nwb"), "r").read_block(lazy=False).segments[0].events}
    assert list(events["lines"].labels[:2]) == ["rig/1 up", "rig/1 down"]
