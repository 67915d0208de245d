"""`betz stream --in --out` against the peers of the field. What is not installed is skipped, with a word."""
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time

import pytest
from conftest import CHANNELS, Live, datagram, free_port, until

ONES = [1] * CHANNELS


def expected(model, steps, folder):
    """First output of a session after so many steps of one spike per channel."""
    betz = pytest.importorskip("betz", reason="the wheel is not installed")
    session = betz.Session(betz.Model.load(str(model)))
    return [float(session.step([1] * CHANNELS)[0]) for _ in range(steps)]


def test_datagrams_go_round(model):
    port = free_port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mine:
        mine.bind(("127.0.0.1", 0))
        mine.settimeout(20)
        with Live(model, "--in", f"udp://127.0.0.1:{port}", "--out", f"udp://127.0.0.1:{mine.getsockname()[1]}") as live:
            # The third is lost on the way; the others come back with their numbers and times.
            for sequence in (0, 1, 3):
                mine.sendto(datagram(sequence, ONES, 1000 + sequence), ("127.0.0.1", port))
                reply = mine.recv(4096)
                magic, version, kind, entries, number, sent, status, _ = struct.unpack_from("<4sBBHQqII", reply)
                assert (magic, version, kind, number, sent) == (b"BETZ", 1, 16, sequence, 1000 + sequence)
                assert len(reply) == 32 + 4 * entries
            mine.sendto(b"BETZ", ("127.0.0.1", port))
            mine.sendto(datagram(4, ONES[1:]), ("127.0.0.1", port))
            mine.sendto(datagram(4, ONES), ("127.0.0.1", port))
            mine.recv(4096)
            said = live.end()
    assert (said["steps"], said["skipped"], said["spikes"]) == (4, 1, 4 * CHANNELS)
    assert said["source"] == {"messages": 6, "steps": 4, "lost": 1, "malformed": 2}
    assert said["sink"] == {"messages": 4, "steps": 4}


@pytest.mark.parametrize("version, header", [("3.11", "<IHBB"), ("4.0", "<QHBHBH"), ("4.1", "<QHHHBB")])
def test_cerebus_packets(model, version, header):
    rate = 10**9 if version == "4.1" else 30_000

    def packet(seconds, chid, words):
        fields = (0, words) if version == "3.11" else (0, words, 0, 0)
        return struct.pack(header, round(seconds * rate), chid, *fields) + bytes(4 * words)

    port = free_port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mine:
        mine.bind(("127.0.0.1", 0))
        mine.settimeout(20)
        out = f"udp://127.0.0.1:{mine.getsockname()[1]}"
        with Live(model, "--in", f"cerebus://127.0.0.1:{port}?version={version}", "--out", out) as live:
            both = packet(100.0, 1, 28) + packet(100.0001, 96, 28) + packet(100.0002, 97, 28)
            mine.sendto(both, ("127.0.0.1", port))
            mine.sendto(packet(100.01, 0x8000, 0), ("127.0.0.1", port))  # a heartbeat ends five steps
            for _ in range(5):
                mine.recv(4096)
            said = live.end()
    assert (said["steps"], said["spikes"], said["unknown_channel_spikes"]) == (5, 2, 1)
    assert said["source"] == {"messages": 2, "steps": 5, "ignored": 1}


def test_packets_of_blackrocks_own_library_are_read(model):
    """Packets of Blackrock's client to a device begin with headers like those that devices send."""
    pycbsdk = pytest.importorskip("pycbsdk", reason="pycbsdk is not installed")
    sent = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        try:
            device.bind(("127.0.0.1", 51001))
        except OSError as error:
            pytest.skip(f"nPlay's port is taken: {error}")
        device.settimeout(0.5)
        program = "import pycbsdk; pycbsdk.Session(pycbsdk.DeviceType.NPLAY)"
        client = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(40):
                try:
                    sent.append(device.recv(65536))
                except TimeoutError:
                    if client.poll() is not None:
                        break
        finally:
            client.kill()
            client.wait()
    if not sent:
        pytest.skip("Blackrock's library sent nothing here")
    port = free_port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mine:
        with Live(model, "--in", f"cerebus://127.0.0.1:{port}?version=4.1", "--silence", 1) as live:
            for packets in sent:
                mine.sendto(packets, ("127.0.0.1", port))
            said = live.end(interrupt=False)
    assert said["source"].get("messages") == len(sent)
    assert said["source"].get("ignored", 0) >= len(sent) and "malformed" not in said["source"], said


@pytest.fixture
def redis_server(tmp_path):
    redis = pytest.importorskip("redis", reason="the Python package redis is not installed")
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    path = tmp_path / "redis.sock"
    servers = []

    def start():
        servers.append(subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no", "--dir", str(tmp_path)],
            stdout=subprocess.DEVNULL))
        client = redis.Redis(unix_socket_path=str(path))

        def answers():
            try:
                return client.ping()
            except redis.ConnectionError:
                return False
        until(answers, "Redis")
        graph = {"nodes": {"decoder": {"nickname": "betz", "parameters": {"input_stream": "bins", "output_stream": "out"}}}}
        client.xadd("supergraph_stream", {"data": json.dumps(graph)})
        return client

    def kill():
        servers[-1].kill()
        servers[-1].wait()
        path.unlink(missing_ok=True)
    yield path, start, kill
    servers[-1].kill()
    servers[-1].wait()


def entry(index, counts=ONES):
    return {"ts": struct.pack("<q", 1000 + index), "sync": json.dumps({"nsp_idx": index}), "samples": bytes(counts)}


def test_a_node_of_brand_and_a_redis_that_dies(model, redis_server):
    path, start, kill = redis_server
    client = start()
    node = f"brand://{path}?nickname=betz"
    with Live(model, "--in", node, "--out", node) as live:
        until(lambda: any(fields[b"status"] == b"NODE_READY" for _, fields in client.xrange("betz_state")), "the node")
        for index in range(3):
            client.xadd("bins", entry(index))
        until(lambda: client.xlen("out") == 3, "three outputs")
        first = client.xrange("out")[0][1]
        assert struct.unpack("<q", first[b"ts_in"]) == (1000,) and json.loads(first[b"sync"]) == {"nsp_idx": 0}
        assert len(first[b"samples"]) % 8 == 0
        client.xadd("bins", entry(3, ONES[1:]))  # of other channels
        client.xadd("bins", {"samples": bytes([255] * CHANNELS)})  # −1 spikes
        kill()
        client = start()
        until(lambda: client.xlen("betz_state") >= 2, "the node, again")
        client.xadd("bins", entry(7))

        def came_through():
            # The first output finds the sink's connection dead, and is counted as unsent.
            client.xadd("bins", entry(8))
            return client.xlen("out") > 0
        until(came_through, "an output of the new Redis")
        said = live.end()
    assert client.xrange("betz_state")[-1][1][b"status"] == b"NODE_SHUTDOWN"
    assert said["source"]["reconnects"] == 1 and said["source"]["malformed"] == 2 and said["sink"]["reconnects"] == 1
    assert said["sink"]["steps"] + said["sink"].get("unsent", 0) <= said["steps"]


def test_brand_says_what_is_missing(model, redis_server):
    path, start, _ = redis_server
    start()
    for nickname, says in (("other", "nodes betz"), (None, "expected ?nickname=NAME")):
        address = f"brand://{path}" + (f"?nickname={nickname}" if nickname else "")
        done = subprocess.run([*Live_command(model), "--in", address], capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and says in done.stderr, done.stderr


def Live_command(model):
    from conftest import BETZ
    return [BETZ, "stream", str(model)]


@pytest.mark.parametrize("plugin", ["before June 2022", "since June 2022"])
def test_spikes_of_open_ephys(model, plugin):
    zmq = pytest.importorskip("zmq", reason="pyzmq is not installed")

    def header(number, **what):
        return json.dumps({"message_no" if plugin.startswith("before") else "message_num": number, **what}).encode()

    def spike(number, sample, electrode):
        told = {"timestamp": sample, "electrode_id": electrode}
        if plugin.startswith("since"):
            told = {"sample_num": sample, "electrode": f"Electrode {electrode + 1}"}
        return [b"EVENT\0", header(number, type="spike", spike=told), bytes(8)]

    context = zmq.Context()
    port = free_port(socket.SOCK_STREAM)

    def publisher():
        socket_ = context.socket(zmq.XPUB)
        socket_.setsockopt(zmq.LINGER, 0)
        socket_.setsockopt(zmq.RCVTIMEO, 20_000)
        until(lambda: bound(socket_), "the address")
        assert socket_.recv() == b"\x01"  # a subscription to all
        return socket_

    def bound(socket_):
        """ZeroMQ closes an earlier socket in the background: its address is in use for a moment."""
        try:
            socket_.bind(f"tcp://127.0.0.1:{port}")
        except zmq.ZMQError as e:
            assert e.errno == zmq.EADDRINUSE, e
            return False
        return True

    with Live(model, "--in", f"zmq://127.0.0.1:{port}?rate=30000", "--steps", 30) as live:
        first = publisher()
        first.send_multipart(spike(0, 0, 3))
        first.send_multipart(spike(1, 10, 95))
        first.send_multipart([b"EVENT\0", b"no JSON", b""])
        first.send_multipart(spike(4, 600, 200))  # two lost; a channel that the model does not have; ten steps end
        first.send_multipart([b"DATA\0", header(5, type="data", content={"sample_num": 1200}), bytes(1 << 17)])
        time.sleep(0.5)
        first.close()
        second = publisher()
        second.send_multipart(spike(6, 1500, 0))
        second.send_multipart(spike(7, 1800, 0))
        said = live.end(interrupt=False)
        second.close()
    context.term()
    source = said["source"]
    assert (said["steps"], said["spikes"], said["unknown_channel_spikes"]) == (30, 3, 1), said
    assert (source["lost"], source["malformed"], source["reconnects"]) == (2, 1, 1)


def test_outputs_over_zeromq(model):
    """Two subscribers of pyzmq, one of which wants another topic; spikes come from a publisher of pyzmq."""
    zmq = pytest.importorskip("zmq", reason="pyzmq is not installed")
    context = zmq.Context()
    there, back = free_port(socket.SOCK_STREAM), free_port(socket.SOCK_STREAM)
    rig, mine, other = context.socket(zmq.XPUB), context.socket(zmq.SUB), context.socket(zmq.SUB)
    for socket_ in (rig, mine, other):
        socket_.setsockopt(zmq.LINGER, 0)
        socket_.setsockopt(zmq.RCVTIMEO, 20_000)
    mine.setsockopt(zmq.HEARTBEAT_IVL, 100)
    mine.setsockopt(zmq.SUBSCRIBE, b"bet")
    other.setsockopt(zmq.SUBSCRIBE, b"other")
    rig.bind(f"tcp://127.0.0.1:{there}")

    def samples(number, sample):
        header = {"message_no": number, "type": "data", "content": {"sample_num": sample}}
        rig.send_multipart([b"DATA\0", json.dumps(header).encode(), b""])

    with Live(model, "--in", f"zmq://127.0.0.1:{there}", "--out", f"zmq://127.0.0.1:{back}") as live:
        for subscriber in (mine, other):
            subscriber.connect(f"tcp://127.0.0.1:{back}")
        assert rig.recv() == b"\x01"
        number = 0
        samples(number, 0)
        while not mine.poll(20):  # until it is subscribed, nobody hears
            number += 1
            samples(number, 60 * number)
        began = number
        for number in range(began + 1, began + 101):
            samples(number, 60 * number)
        steps = []
        while len(steps) < 100 or steps[-1] < number - 1:
            topic, message = mine.recv_multipart()
            magic, version, kind, entries, step, _, status, _ = struct.unpack_from("<4sBBHQqII", message)
            assert (topic, magic, version, kind, len(message)) == (b"betz", b"BETZ", 1, 16, 32 + 4 * entries)
            steps.append(step)
        assert steps == list(range(steps[0], number))
        assert not other.poll(0)
        said = live.end()
    for socket_ in (rig, mine, other):
        socket_.close()
    context.term()
    sink = said["sink"]
    assert sink["steps"] == sink["messages"] == len(steps), said
    assert sink["steps"] + sink.get("unsent", 0) == said["steps"], said


def test_a_place_that_is_taken_is_said(model):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run([*Live_command(model), "--in", "udp://127.0.0.1:0", "--out", f"zmq://{place}"],
                              capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and f"publishing at {place}" in done.stderr, done.stderr


ALONE = """[ports]
IPv6 = disable
[multicast]
ResolveScope = machine
AddressesOverride = {127.0.0.1}
ListenAddress = 127.0.0.1
TTLOverride = 0
[lab]
KnownPeers = {127.0.0.1}
[log]
level = -2
"""


def test_lsl_in_and_out(model, tmp_path):
    """In a network namespace that has the loopback alone."""
    pylsl = pytest.importorskip("pylsl", reason="pylsl is not installed")
    del pylsl
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode != 0:
        pytest.skip("no network namespaces here")
    config = tmp_path / "lsl_api.cfg"
    config.write_text(ALONE)
    peer = os.path.join(os.path.dirname(__file__), "lsl_peer.py")
    command = ["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", sys.executable, peer, str(model), "2000", "500"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ, LSLAPICFG=str(config)))
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["came"], said["betz"]["source"]["reconnects"]) == (2000, 1), said
    assert "lost" not in said["betz"]["source"] or said["betz"]["source"]["lost"] > 0


def test_lsl_without_its_library_says_so(model):
    env = dict(os.environ, BETZ_LSL="/nowhere/liblsl.so")
    done = subprocess.run([*Live_command(model), "--in", "lsl://spikes"], capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode == 1 and "BETZ_LSL" in done.stderr and "/nowhere" in done.stderr, done.stderr
