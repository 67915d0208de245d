"""Round trips through `betz stream`, in microseconds: python cli/tests/peers/round_trip.py udp|brand|zmq MODEL [N]. (LSL: lsl_peer.py.)"""
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from conftest import CHANNELS, Live, datagram, free_port, until

bus, model = sys.argv[1], sys.argv[2]
steps = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000


def tell(times, live):
    times = sorted(t / 1e3 for t in times)
    said = live.end()
    print(json.dumps({"bus": bus, "n": len(times), "p50_us": times[len(times) // 2], "p99_us": times[len(times) * 99 // 100],
                      "max_us": times[-1], "through_us": said["through_us"], "source": said["source"], "sink": said["sink"]}))


def udp():
    port = free_port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mine:
        mine.bind(("127.0.0.1", 0))
        to = f"udp://127.0.0.1:{mine.getsockname()[1]}"
        with Live(model, "--in", f"udp://127.0.0.1:{port}", "--out", to) as live:
            times = []
            for sequence in range(steps):
                packet = datagram(sequence, [1] * CHANNELS)
                before = time.perf_counter_ns()
                mine.sendto(packet, ("127.0.0.1", port))
                mine.recv(4096)
                times.append(time.perf_counter_ns() - before)
                time.sleep(0.0002)
            tell(times, live)


def brand():
    import redis
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "redis.sock"
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder], stdout=subprocess.DEVNULL)
        try:
            until(path.exists, "Redis")
            client = redis.Redis(unix_socket_path=str(path))
            graph = {"nodes": {"d": {"nickname": "betz", "parameters": {"input_stream": "bins", "output_stream": "out"}}}}
            client.xadd("supergraph_stream", {"data": json.dumps(graph)})
            node = f"brand://{path}?nickname=betz"
            with Live(model, "--in", node, "--out", node) as live:
                until(lambda: client.xlen("betz_state") >= 2, "the node")
                times, last = [], "0-0"
                for _ in range(steps):
                    before = time.perf_counter_ns()
                    client.xadd("bins", {"samples": bytes([1] * CHANNELS)})
                    last = client.xread({"out": last}, block=5000)[0][1][-1][0]
                    times.append(time.perf_counter_ns() - before)
                    time.sleep(0.0002)
                tell(times, live)
        finally:
            server.kill()
            server.wait()


def of_zmq():
    """A message of samples ends a step, whose outputs come back."""
    import zmq
    context = zmq.Context()
    rig, mine = context.socket(zmq.XPUB), context.socket(zmq.SUB)
    there, back = free_port(socket.SOCK_STREAM), free_port(socket.SOCK_STREAM)
    rig.bind(f"tcp://127.0.0.1:{there}")
    mine.setsockopt(zmq.SUBSCRIBE, b"")

    def samples(number):
        header = {"message_no": number, "type": "data", "content": {"sample_num": 60 * number}}
        rig.send_multipart([b"DATA\0", json.dumps(header).encode(), b""])

    with Live(model, "--in", f"zmq://127.0.0.1:{there}", "--out", f"zmq://127.0.0.1:{back}") as live:
        mine.connect(f"tcp://127.0.0.1:{back}")
        rig.recv()
        number = 0
        samples(number)
        while not mine.poll(20):
            number += 1
            samples(number)
        while mine.poll(100):
            mine.recv_multipart()
        times = []
        for number in range(number + 1, number + 1 + steps):
            before = time.perf_counter_ns()
            samples(number)
            mine.recv_multipart()
            times.append(time.perf_counter_ns() - before)
            time.sleep(0.0002)
        tell(times, live)


{"udp": udp, "brand": brand, "zmq": of_zmq}[bus]()
