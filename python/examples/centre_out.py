"""Centre-out in a closed loop: a simulated user reaches for eight targets through a session of `betz run`.

Run: python centre_out.py [REACHES]. It needs NumPy and `betz` (on the path, or the program that BETZ names), and takes about a minute.

 1. The user imagines random movements. Their spikes and the movements are a recording, from which `betz train` makes a decoder.
 2. `betz run` decodes the spikes that the task sends as datagrams, and sends velocities back.
 3. The user sees the cursor, and steers it to the target. Marks, trials and labels of the task are recorded with the session.
"""
import json
import math
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time

import numpy

STEP = 0.02  # s
NEURONS, RATE, DEPTH = 64, 20.0, 15.0  # Hz at rest, and more in the preferred direction at full speed
SPEED, RADIUS, DISTANCE, HOLD, LIMIT = 1.0, 0.15, 1.0, 0.2, 4.0  # units per s, units, units, s, s
HEADER = struct.Struct("<4sBBHQqII")
COUNTS, LABEL, MARK, TRIAL = 1, 5, 6, 7
BEGIN, END, REJECT = 1, 2, 3
BETZ = os.environ.get("BETZ", "betz")
PLAN = """[session]
name = "centre-out"
model = "user.betz"

[[source]]
name = "user"
from = "udp://127.0.0.1:{spikes}"
sends = "steps"

[missing]
stale_after = "1s"

[outputs]
to = ["udp://127.0.0.1:{outputs}"]

[labels]
from = "udp://127.0.0.1:{labels}"

[record]
to = "recordings"
"""


class User:
    """Neurons that are tuned to the direction in which the user wants to go, and its speed."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        angles = self.random.uniform(0, 2 * math.pi, NEURONS)
        self.preferred = numpy.stack([numpy.cos(angles), numpy.sin(angles)], axis=1)

    def spikes(self, velocity):
        rates = numpy.maximum(RATE + DEPTH * self.preferred @ velocity, 0)
        return self.random.poisson(rates * STEP).astype("uint16")

    def wants(self, cursor, target):
        """Full speed towards the target, slower near it."""
        way = target - cursor
        distance = numpy.linalg.norm(way)
        return way / max(distance, 1e-9) * SPEED * min(1.0, distance / (2 * RADIUS))


def betz(*arguments, folder):
    return subprocess.run([BETZ, *map(str, arguments)], cwd=folder, check=True, capture_output=True, text=True).stdout


def train(user, folder, seconds=60):
    """A decoder from imagined movements, which change their direction twice per second."""
    steps = int(seconds / STEP)
    angles = numpy.repeat(user.random.uniform(0, 2 * math.pi, steps // 25 + 1), 25)[:steps]
    speeds = numpy.repeat(user.random.uniform(0, SPEED, steps // 25 + 1), 25)[:steps]
    velocity = (speeds * numpy.stack([numpy.cos(angles), numpy.sin(angles)])).T
    counts = numpy.stack([user.spikes(v) for v in velocity])
    numpy.savez(folder / "imagined.npz", counts=counts, step_seconds=STEP, behavior=velocity.astype("float32"), behavior_names=["vx", "vy"])
    betz("train", "imagined.npz", "--decoder", "linear", "--step", STEP, "--filter", "0.06:1", "--out", "user.betz", folder=folder)


def receiver():
    inbox = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    inbox.bind(("127.0.0.1", 0))
    return inbox


def free_port():
    with receiver() as inbox:
        return inbox.getsockname()[1]


class Task:
    """The world of the task: it sends spikes and notes, and moves the cursor by what comes back."""

    def __init__(self, ports, inbox):
        self.out, self.inbox, self.ports = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), inbox, ports
        self.inbox.settimeout(2.0)
        self.step, self.cursor = 0, numpy.zeros(2)

    def note(self, content, entries, body):
        head = HEADER.pack(b"BETZ", 1, content, entries, self.step, time.monotonic_ns(), 0, 0)
        self.out.sendto(head + body, ("127.0.0.1", self.ports["labels"]))

    def mark(self, text):
        self.note(MARK, len(text.encode()), text.encode())

    def trial(self, bound):
        self.note(TRIAL, 1, struct.pack("<H", bound))

    def move(self, user, target):
        """A step: the user's spikes go to the session, and the cursor moves by its answer."""
        wanted = user.wants(self.cursor, target)
        counts = user.spikes(wanted)
        head = HEADER.pack(b"BETZ", 1, COUNTS, NEURONS, self.step, time.monotonic_ns(), 0, 0)
        self.out.sendto(head + counts.tobytes(), ("127.0.0.1", self.ports["spikes"]))
        self.note(LABEL, 2, struct.pack("<2f", *wanted))
        datagram = self.inbox.recv(4096)
        velocity = numpy.frombuffer(datagram, "<f4", 2, HEADER.size)
        self.cursor = self.cursor + STEP * velocity
        self.step += 1

    def reach(self, user, target):
        """True if the cursor was in the target for long enough, in time."""
        self.cursor, held, steps = numpy.zeros(2), 0, 0
        self.mark("target " + " ".join(f"{value:.3f}" for value in target))
        self.trial(BEGIN)
        while held * STEP < HOLD and steps * STEP < LIMIT:
            self.move(user, target)
            held = held + 1 if numpy.linalg.norm(self.cursor - target) < RADIUS else 0
            steps += 1
        is_hit = held * STEP >= HOLD
        self.mark("reward" if is_hit else "too late")
        self.trial(END if is_hit else REJECT)
        return is_hit, steps * STEP


def main(reaches):
    user = User(seed=1)
    with tempfile.TemporaryDirectory() as folder, receiver() as inbox:
        folder = pathlib.Path(folder)
        train(user, folder)
        ports = {"spikes": free_port(), "labels": free_port(), "outputs": inbox.getsockname()[1]}
        (folder / "session.toml").write_text(PLAN.format(**ports))
        session = subprocess.Popen([BETZ, "run", "session.toml", "--json"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert "listening" in session.stderr.readline(), "the session has ended"
        task = Task(ports, inbox)
        hits, times = 0, []
        for reach in range(reaches):
            angle = 2 * math.pi * (reach % 8) / 8
            is_hit, seconds = task.reach(user, DISTANCE * numpy.array([math.cos(angle), math.sin(angle)]))
            hits += is_hit
            times.append(seconds)
        session.terminate()  # It takes the notes that have arrived.
        told = json.loads(session.communicate()[0])
    print(f"{hits} of {reaches} targets, {numpy.mean(times):.2f} s each in the time of the task; "
          f"{told['notes']['labels']} labels, {told['notes']['trials']} bounds of trials, {told['notes']['marks']} marks recorded")
    return hits, told


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 32)
