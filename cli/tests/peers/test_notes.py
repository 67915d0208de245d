"""Labels, marks and trials of a session from a ZeroMQ publisher and from a Redis stream, each by its own client library."""
import json
import shutil
import socket
import struct
import subprocess
import threading
import time

import pytest
from conftest import BETZ, free_port, run, until

CHANNELS = 4


class Session:
    """A session that records datagrams of silence, and hears notes at an address."""

    def __init__(self, folder, notes):
        self.folder = folder
        port = free_port()
        (folder / "session.toml").write_text(
            f'[session]\nstep = "20ms"\noutputs = ["x", "y"]\n[[source]]\nname = "rig"\nfrom = "udp://127.0.0.1:{port}"\n'
            f'channels = {CHANNELS}\nmicrovolts = 1.0\n[labels]\nfrom = "{notes}"\n[record]\nto = "recordings"\n'
            '[missing]\nstale_after = "1h"\nbacklog = 1000000\n')
        command = [BETZ, "run", "session.toml", "--json", "--ctl", "session.ctl"]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.over = threading.Event()
        self.sender = threading.Thread(target=self.send, args=(port,))
        self.sender.start()
        until(lambda: (folder / "session.ctl").exists(), "control")

    def send(self, port):
        rows, out = 0, socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        while not self.over.wait(0.01):
            head = struct.pack("<4sBBHQqII", b"BETZ", 1, 4, CHANNELS, rows, time.monotonic_ns(), 0, 30_000_000)
            out.sendto(head + bytes(2 * CHANNELS * 300), ("127.0.0.1", port))
            rows += 300

    def counts(self):
        return json.loads(run("ctl", "session.ctl", "health", "--json", cwd=self.folder))["report"]["notes"]

    def end(self):
        run("ctl", "session.ctl", "stop", cwd=self.folder)
        told = json.loads(self.process.communicate(timeout=60)[0])
        run("record", "export", told["folder"], "--to", "flat", "--out", "flat", cwd=self.folder)
        session = json.loads((self.folder / "flat" / "session.json").read_text())
        labels = (self.folder / "flat" / "labels.csv").read_text().splitlines()[1:]
        return session["notes"], [line.split(",") for line in labels]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        self.process.kill()
        self.process.wait()
        self.sender.join()


def label(step, values):
    body = struct.pack(f"<{len(values)}f", *values)
    return struct.pack("<4sBBHQqII", b"BETZ", 1, 5, len(values), step, 0, 0, 0) + body


def test_a_publisher_of_pyzmq(tmp_path):
    zmq = pytest.importorskip("zmq", reason="pyzmq is not installed")
    publisher = zmq.Context.instance().socket(zmq.XPUB)
    port = publisher.bind_to_random_port("tcp://127.0.0.1")
    publisher.setsockopt(zmq.RCVTIMEO, 30_000)
    with Session(tmp_path, f"zmq://127.0.0.1:{port}") as session:
        assert publisher.recv() == b"\x01", "a subscription to everything"
        publisher.send_multipart([b"task", b"trial begin"])
        publisher.send("reward é".encode())
        publisher.send(b"label 0.5 -2")
        publisher.send(label(3, [1.0, 2.0]))
        publisher.send(b"\xff")
        publisher.send_multipart([b"task", b"trial end"])
        until(lambda: session.counts()["trials"] == 2, "the notes")
        assert session.counts()["malformed"] == 1
        notes, labels = session.end()
    assert [mark["text"] for mark in notes["marks"]] == ["reward é"] and len(notes["trials"]) == 1
    assert ["3", "1", "2"] in labels and any(line[1:] == ["0.5", "-2"] for line in labels)
    publisher.close()


def test_a_redis_stream(tmp_path):
    redis = pytest.importorskip("redis", reason="redis-py is not installed")
    if not shutil.which("redis-server"):
        pytest.skip("no redis-server")
    port = free_port(socket.SOCK_STREAM)
    server = ["redis-server", "--port", str(port), "--save", "", "--dir", str(tmp_path)]
    server = subprocess.Popen(server, stdout=subprocess.DEVNULL)
    try:
        client = redis.Redis(port=port)
        until(lambda: ping(client), "redis-server")
        client.xadd("task", {"mark": "too early"})
        with Session(tmp_path, f"redis://127.0.0.1:{port}/task") as session:
            until(lambda: len(client.client_list()) > 1, "the session's connection")
            time.sleep(0.5)
            client.xadd("task", {"trial": "begin", "ts": time.monotonic_ns()})
            client.xadd("task", {"label": "1 2", "step": 3, "mark": "reward"})
            client.xadd("task", {"other": 1})
            client.xadd("task", {"trial": "reject", "ts": struct.pack("<q", 12)})
            until(lambda: session.counts()["trials"] == 2, "the notes")
            assert session.counts()["malformed"] == 1
            notes, labels = session.end()
    finally:
        server.kill()
        server.wait()
    assert [mark["text"] for mark in notes["marks"]] == ["reward"] and labels == [["3", "1", "2"]]
    assert [trial["learn"] for trial in notes["trials"]] == [False]


def ping(client):
    try:
        return client.ping()
    except Exception:
        return False
