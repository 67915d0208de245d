"""A task program beside a session: hears its outputs, and sends labels, marks and trials back.

The plan of the session has these lines:

    [outputs]
    to = ["udp://127.0.0.1:5001"]

    [labels]
    from = "udp://127.0.0.1:5002"

Run: python send_labels.py [SECONDS]. It needs no package. The target moves on a circle, and each second is a trial. A label names the
step of the output that the task saw, so that no clock is needed.
"""
import math
import socket
import struct
import sys
import time

HEADER = struct.Struct("<4sBBHQqII")
LABEL, MARK, TRIAL = 5, 6, 7
BEGIN, END = 1, 2


def note(content, entries, step, body):
    """A plain datagram of contents 5 to 7; docs/connect.md has its table."""
    return HEADER.pack(b"BETZ", 1, content, entries, step, time.monotonic_ns(), 0, 0) + body


def label(step, values):
    return note(LABEL, len(values), step, struct.pack(f"<{len(values)}f", *values))


def mark(step, text):
    return note(MARK, len(text.encode()), step, text.encode())


def trial(step, what):
    return note(TRIAL, 1, step, struct.pack("<H", what))


def main(seconds):
    outputs = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    outputs.bind(("127.0.0.1", 5001))
    outputs.settimeout(0.1)
    notes = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    notes.connect(("127.0.0.1", 5002))
    began, second, sent = time.monotonic(), -1, 0
    while (passed := time.monotonic() - began) < seconds:
        try:
            datagram = outputs.recv(4096)
        except TimeoutError:
            continue
        _, _, _, count, step, _, status, _ = HEADER.unpack_from(datagram)
        target = [math.cos(passed), math.sin(passed)][:count]
        if int(passed) != second:
            if second >= 0:
                notes.send(trial(step, END))
            second = int(passed)
            notes.send(mark(step, "target " + " ".join(f"{value:.3f}" for value in target)))
            notes.send(trial(step, BEGIN))
        notes.send(label(step, target))
        sent += 1
    print(f"{sent} labels in {second + 1} trials")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else math.inf)
