"""A session of Betz as a unit of ezmsg (https://www.ezmsg.org): arrays of counts or voltage in, outputs out.

The plan's source has from = "push". Each message in is an array of shape (time, channels); each message out is a `Decoded`.
Run as a program, it decodes a second of random counts and prints how many steps came back. It needs `pip install ezmsg`.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import ezmsg.core as ez
import numpy as np

import betz


@dataclass
class Decoded:
    """Outputs of a step, for units in any process."""

    number: int
    values: np.ndarray
    status: str


class BetzSettings(ez.Settings):
    plan: str | dict
    """Path of a plan, or a dictionary with its sections."""


class Betz(ez.Unit):
    """Pushes what it receives into a session, and publishes every step."""

    SETTINGS = BetzSettings

    INPUT = ez.InputStream(np.ndarray)
    OUTPUT = ez.OutputStream(Decoded)

    async def initialize(self) -> None:
        self.live = betz.Live(self.SETTINGS.plan).start()

    async def shutdown(self) -> None:
        await asyncio.to_thread(self.live.stop)

    @ez.subscriber(INPUT)
    async def rows(self, message: np.ndarray) -> None:
        # Waits on another thread if the session is behind.
        await asyncio.to_thread(self.live.push, message)

    @ez.publisher(OUTPUT)
    async def steps(self) -> AsyncGenerator:
        steps = iter(self.live)
        while (step := await asyncio.to_thread(next, steps, None)) is not None:
            yield self.OUTPUT, Decoded(step.number, step.values, step.status)


class Counts(ez.Unit):
    """50 rows of random counts."""

    OUTPUT = ez.OutputStream(np.ndarray)

    @ez.publisher(OUTPUT)
    async def send(self) -> AsyncGenerator:
        rng = np.random.default_rng(1)
        for _ in range(50):
            yield self.OUTPUT, rng.poisson(0.5, (1, 24)).astype(np.uint8)


class Printer(ez.Unit):
    """Ends the program after 50 steps."""

    INPUT = ez.InputStream(Decoded)

    async def initialize(self) -> None:
        self.count = 0

    @ez.subscriber(INPUT)
    async def hear(self, step: Decoded) -> None:
        self.count += 1
        if self.count == 50:
            print(f"{self.count} steps; the last is {step.number}", flush=True)
            raise ez.NormalTermination


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        X = np.random.default_rng(0).poisson(0.5, (1000, 24)).astype(np.uint8)
        model = Path(folder) / "model.betz"
        betz.Decoder(step_seconds=0.02, bank=[(0.05, 1)], folds=0).fit(X, X[:, :2] * 1.0).model_.save(model)
        plan = {
            "session": {"model": str(model)},
            "source": {"name": "ezmsg", "from": "push", "sends": "steps"},
            "missing": {"stale_after": "1h"},
        }
        units = {"COUNTS": Counts(), "BETZ": Betz(BetzSettings(plan=plan)), "PRINTER": Printer()}
        ez.run(
            components=units,
            connections=[
                (units["COUNTS"].OUTPUT, units["BETZ"].INPUT),
                (units["BETZ"].OUTPUT, units["PRINTER"].INPUT),
            ],
            force_single_process=True,
        )
