"""`betz run` against the simulator of Science's own client library, with a server of the time made of its messages."""
import json
import socket
import subprocess
import sys
import threading
import time

import pytest
from conftest import BETZ, free_port, run

CHANNELS = 16
RATE = 4000
PLAN = """
[session]
name = "synapse"

[[source]]
name = "tap"
from = "{address}?microvolts=0.5&probe={clock}"
channels = {channels}

[voltage]
band = [300, 1500]

[record]
to = "{folder}"
"""


def tap_of_simulator(syn, device):
    """Configures and starts the simulator; returns the address of its tap."""
    from synapse.client.taps import Tap

    channels = [syn.Channel(id=i, electrode_id=2 * i, reference_id=2 * i + 1) for i in range(CHANNELS)]
    signal = syn.SignalConfig(electrode=syn.ElectrodeConfig(channels=channels))
    config = syn.Config()
    config.add_node(syn.BroadbandSource(peripheral_id=1, sample_rate_hz=RATE, bit_width=12, gain=1.0, signal=signal))
    until = time.monotonic() + 60
    while True:
        client = syn.Device(device)
        if client.configure(config):
            break
        assert time.monotonic() < until, "the simulator does not answer"
        time.sleep(0.2)
    client.start()
    while True:
        taps = [tap for tap in Tap(device).list_taps() if tap.message_type == "synapse.BroadbandFrame"]
        if taps and not taps[0].endpoint.endswith("None"):
            return taps[0].endpoint
        assert time.monotonic() < until, "the simulator lists no tap"
        time.sleep(0.2)


def serve_time(server):
    """Answers questions by the clock that the simulator's times are of."""
    from synapse.api.time_pb2 import TimeSyncPacket

    while True:
        try:
            question, client = server.recvfrom(1024)
        except OSError:
            return
        packet = TimeSyncPacket.FromString(question)
        packet.server_receive_time_ns = packet.server_send_time_ns = time.time_ns()
        server.sendto(packet.SerializeToString(), client)


def subscribe(endpoint, rows, ends):
    """Collects the rows of the tap by their numbers."""
    import zmq
    from synapse.api.datatype_pb2 import BroadbandFrame

    with zmq.Context() as context, context.socket(zmq.SUB) as tap:
        tap.setsockopt(zmq.SUBSCRIBE, b"")
        tap.setsockopt(zmq.RCVHWM, 0)
        tap.connect(endpoint)
        while not ends.is_set():
            if tap.poll(100):
                frame = BroadbandFrame.FromString(tap.recv())
                rows[frame.sequence_number] = list(frame.frame_data)


def test_rows_of_the_simulator_are_those_of_another_subscriber(tmp_path):
    syn = pytest.importorskip("synapse", reason="science-synapse is not installed")
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    port = free_port(socket.SOCK_STREAM)
    command = [sys.executable, "-m", "synapse.simulator", "--iface-ip", "127.0.0.1", "--rpc-port", str(port)]
    simulator = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows, ends = {}, threading.Event()
    try:
        endpoint = tap_of_simulator(syn, f"127.0.0.1:{port}")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 0))
            threading.Thread(target=serve_time, args=(server,), daemon=True).start()
            subscriber = threading.Thread(target=subscribe, args=(endpoint, rows, ends))
            subscriber.start()
            while not rows:
                time.sleep(0.05)
            plan = tmp_path / "plan.toml"
            address = endpoint.replace("tcp://", "synapse://")
            clock = f"127.0.0.1:{server.getsockname()[1]}"
            plan.write_text(PLAN.format(address=address, clock=clock, channels=CHANNELS, folder=tmp_path / "to"))
            # Its clock is slower than the rate that it states, so late steps are not this test's matter.
            arguments = ["run", str(plan), "--seconds", "14", "--json", "--set", "limits.late_steps=1"]
            told = json.loads(subprocess.run([BETZ, *arguments], check=True, capture_output=True, text=True).stdout)
            time.sleep(0.5)
            ends.set()
            subscriber.join()
    finally:
        ends.set()
        simulator.terminate()
        simulator.wait()
    source = told["sources"][0]
    assert (source["lost"], source["malformed"]) == (0, 0)
    assert source["path_us"] is not None, "no answer about the time came"
    run("record", "export", told["folder"], "--to", "nwb", "--out", tmp_path / "session.nwb", cwd=tmp_path)
    with h5py.File(tmp_path / "session.nwb") as file:
        voltage = file["acquisition/voltage/data"][:]
    sent = numpy.array([rows[number] for number in sorted(rows)])
    first = [at for at in numpy.flatnonzero((sent == voltage[0]).all(axis=1))]
    assert len(first) == 1 and len(voltage) > 10 * RATE
    assert (sent[first[0] : first[0] + len(voltage)] == voltage).all()
