"""`betz record export`, judged by pynwb, nwbinspector, SpikeInterface and neo: they read every row as it was recorded."""
import json
import socket
import struct
import subprocess
import time

import numpy
import pytest
from conftest import BETZ, free_port, run, until

CHANNELS = 8


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The folder of a simulated session of two seconds, and its voltage as the flat export has it."""
    folder = tmp_path_factory.mktemp("export")
    options = ["--set", f"source.channels={CHANNELS}", "--set", "record.to=recordings", "--set", "missing.stale_after=1h"]
    command = [BETZ, "run", "--simulate", "--seconds", "2", "--json", *options]
    told = json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)
    run("record", "export", told["folder"], "--to", "flat", "--out", "flat", cwd=folder)
    about = json.loads((folder / "flat" / "rig.json").read_text())
    voltage = numpy.fromfile(folder / "flat" / about["file"], about["dtype"]).reshape(-1, about["num_channels"])
    assert len(voltage) == about["rows"] and voltage.any()
    return folder, told["folder"], about, voltage


@pytest.fixture(scope="module")
def nwb(recorded):
    folder, path, _, _ = recorded
    subject = ["--subject", "J", "--species", "Macaca mulatta", "--sex", "M", "--age", "P8Y"]
    run("record", "export", path, "--to", "nwb", "--out", "session.nwb", *subject, cwd=folder)
    return folder / "session.nwb"


def test_spikeinterface_reads_the_flat_rows(recorded):
    core = pytest.importorskip("spikeinterface.core", reason="spikeinterface is not installed")
    folder, _, about, voltage = recorded
    read = core.read_binary(folder / "flat" / about["file"], about["sampling_frequency"], about["dtype"], about["num_channels"],
                            gain_to_uV=about["gain_to_uV"], offset_to_uV=about["offset_to_uV"])
    assert numpy.array_equal(read.get_traces(), voltage)


@pytest.mark.filterwarnings("ignore")
def test_pynwb_reads_the_same_rows(recorded, nwb):
    pynwb = pytest.importorskip("pynwb", reason="pynwb is not installed")
    _, _, about, voltage = recorded
    with pynwb.NWBHDF5IO(nwb, "r") as file:
        session = file.read()
        series = session.acquisition["voltage"]
        assert numpy.array_equal(series.data[:], voltage)
        assert (series.rate, series.conversion) == (about["sampling_frequency"], about["gain_to_uV"] * 1e-6)
        assert (session.subject.subject_id, session.subject.species) == ("J", "Macaca mulatta")
        steps = session.processing["decoding"]["step_status"]
        assert len(steps.data) == len(steps.timestamps) > 0


@pytest.mark.filterwarnings("ignore")
def test_nwbinspector_finds_nothing_critical(nwb):
    inspector = pytest.importorskip("nwbinspector", reason="nwbinspector is not installed")
    found = inspector.inspect_nwbfile(nwbfile_path=str(nwb), config=inspector.load_config("dandi"))
    critical = [message for message in found if message.importance.name in ("ERROR", "PYNWB_VALIDATION", "CRITICAL")]
    assert not critical, critical


@pytest.mark.filterwarnings("ignore")
def test_spikeinterface_reads_the_same_rows(recorded, nwb):
    extractors = pytest.importorskip("spikeinterface.extractors", reason="spikeinterface is not installed")
    _, _, about, voltage = recorded
    read = extractors.read_nwb_recording(nwb, electrical_series_path="acquisition/voltage")
    assert numpy.array_equal(read.get_traces(), voltage)
    assert numpy.allclose(read.get_channel_gains(), about["gain_to_uV"], rtol=1e-12)


def neo_signals(path):
    """The signals of a file by their names, and its spike trains and events."""
    neo = pytest.importorskip("neo", reason="neo is not installed")
    block = neo.io.NWBIO(str(path), "r").read_block(lazy=False)
    segment = block.segments[0]
    return {signal.name: signal for signal in segment.analogsignals}, segment.spiketrains, segment.events


@pytest.mark.filterwarnings("ignore")
def test_neo_reads_the_rows_of_plain_voltage(recorded):
    pynwb = pytest.importorskip("pynwb", reason="pynwb is not installed")
    folder, path, about, voltage = recorded
    run("record", "export", path, "--to", "nwb", "--out", "plain.nwb", "--plain-voltage", cwd=folder)
    signals, _, _ = neo_signals(folder / "plain.nwb")
    expected = (voltage * about["gain_to_uV"]).astype("float32")
    read = signals["voltage"]
    assert str(read.units.dimensionality) == "uV" and float(read.sampling_rate) == about["sampling_frequency"]
    assert numpy.array_equal(read.magnitude, expected)
    with pynwb.NWBHDF5IO(folder / "plain.nwb", "r") as file:
        series = file.read().acquisition["voltage"]
        assert numpy.array_equal(series.data[:], expected) and series.conversion == 1e-6
        # The bits come back, by the resolution in volts.
        bits = numpy.rint(series.data[:] * (series.conversion / series.resolution)).astype("int16")
        assert numpy.array_equal(bits, voltage)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.xfail(strict=True, raises=ValueError, reason="neo 0.14.6 reads no ElectricalSeries: if it does, --plain-voltage is no longer needed")
def test_neo_reads_an_electrical_series_of_pynwb_itself(tmp_path):
    import datetime

    pynwb = pytest.importorskip("pynwb", reason="pynwb is not installed")
    file = pynwb.NWBFile("a session", "one", datetime.datetime.now(datetime.timezone.utc))
    device = file.create_device("device")
    group = file.create_electrode_group("group", description="a", location="b", device=device)
    file.add_electrode(location="b", group=group)
    region = file.create_electrode_table_region([0], "all")
    series = pynwb.ecephys.ElectricalSeries(name="v", data=numpy.zeros((10, 1)), electrodes=region, rate=100.0, conversion=1e-6)
    file.add_acquisition(series)
    with pynwb.NWBHDF5IO(tmp_path / "own.nwb", "w") as io:
        io.write(file)
    neo_signals(tmp_path / "own.nwb")


def test_neo_reads_the_flat_rows(recorded):
    neo = pytest.importorskip("neo", reason="neo is not installed")
    folder, _, about, voltage = recorded
    reader = neo.io.RawBinarySignalIO(str(folder / "flat" / about["file"]), dtype=about["dtype"], sampling_rate=about["sampling_frequency"],
                                      nb_channel=about["num_channels"], signal_gain=about["gain_to_uV"], signal_offset=0.0)
    signal = reader.read_block().segments[0].analogsignals[0]
    assert numpy.array_equal(signal.magnitude, (voltage * about["gain_to_uV"]).astype(signal.dtype))


class Rig:
    """Plain datagrams of int16 rows, with numbers that begin again after a restart."""

    def __init__(self, port, seed, channels):
        self.socket, self.to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), ("127.0.0.1", port)
        self.random, self.channels, self.next = numpy.random.default_rng(seed), channels, 0
        self.epochs = [[]]

    def send(self, rows, lost=False):
        values = self.random.integers(-2000, 2000, (rows, self.channels), dtype="int16")
        head = struct.pack("<4sBBHQqII", b"BETZ", 1, 4, self.channels, self.next, time.monotonic_ns(), 0, 30_000_000)
        if not lost:
            self.socket.sendto(head + values.tobytes(), self.to)
        self.epochs[-1].append(numpy.zeros_like(values) if lost else values)
        self.next += rows

    def restart(self):
        self.next = 0
        self.epochs.append([])


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A session of two sources; the second is started again, and loses rows before."""
    folder = tmp_path_factory.mktemp("several")
    ports = [free_port(), free_port()]
    sources = "".join(f'[[source]]\nname = "{name}"\nfrom = "udp://127.0.0.1:{port}"\nchannels = {channels}\nmicrovolts = 0.195\n'
                      for name, port, channels in zip("ab", ports, (4, 6)))
    plan = f'[session]\nstep = "20ms"\n{sources}[record]\nto = "recordings"\n[missing]\nstale_after = "1h"\nbacklog = 1000000\n'
    (folder / "session.toml").write_text(plan)
    command = [BETZ, "run", "session.toml", "--json", "--ctl", "session.ctl"]
    session = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    a, b = Rig(ports[0], 1, 4), Rig(ports[1], 2, 6)
    until(lambda: all(map(port_is_bound, ports)), "a session that listens")
    for block in range(60):
        a.send(300)
        if block == 20:
            b.send(300, lost=True)
        if block == 40:
            b.restart()
        b.send(150)
        time.sleep(0.01)
    until(lambda: (folder / "session.ctl").exists(), "control")
    time.sleep(0.5)
    run("ctl", "session.ctl", "stop", cwd=folder)
    told = json.loads(session.communicate(timeout=60)[0])
    return folder, told["folder"], a, b


def port_is_bound(port):
    return f":{port:04X} " in open("/proc/net/udp").read()


@pytest.mark.filterwarnings("ignore")
def test_every_row_of_every_source_and_epoch_is_read(several):
    pynwb = pytest.importorskip("pynwb", reason="pynwb is not installed")
    folder, path, a, b = several
    run("record", "export", path, "--to", "nwb", "--out", "s.nwb", "--subject", "J", "--species", "Mus musculus", "--sex", "F", "--age", "P90D", cwd=folder)
    run("record", "export", path, "--to", "nwb", "--out", "plain.nwb", "--plain-voltage", cwd=folder)
    run("record", "export", path, "--to", "flat", "--out", "flat", cwd=folder)
    expected = {"a": a.epochs[0], "b_epoch0": b.epochs[0], "b_epoch1": b.epochs[1]}
    expected = {name: numpy.concatenate(blocks) for name, blocks in expected.items()}
    for name, rows in expected.items():
        flat = numpy.fromfile(folder / "flat" / f"{name}.dat", "int16").reshape(-1, rows.shape[1])
        # Rows that were sent before the session heard the source are not in it.
        missing = len(rows) - len(flat)
        assert 0 <= missing < len(rows) // 2
        expected[name] = rows[missing:]
        assert numpy.array_equal(flat, expected[name]), name
    with pynwb.NWBHDF5IO(folder / "s.nwb", "r") as file:
        session = file.read()
        for name, rows in expected.items():
            series = session.acquisition[f"voltage_{name}"]
            assert numpy.array_equal(series.data[:], rows) and len(series.electrodes) == rows.shape[1], name
        assert len(session.invalid_times) == 1
    signals, _, _ = neo_signals(folder / "plain.nwb")
    for name, rows in expected.items():
        assert numpy.array_equal(signals[f"voltage_{name}"].magnitude, (rows * 0.195).astype("float32")), name
    extractors = pytest.importorskip("spikeinterface.extractors", reason="spikeinterface is not installed")
    for name, rows in expected.items():
        read = extractors.read_nwb_recording(folder / "s.nwb", electrical_series_path=f"acquisition/voltage_{name}")
        assert numpy.array_equal(read.get_traces(), rows), name


@pytest.mark.filterwarnings("ignore")
def test_nwbinspector_finds_nothing_critical_with_several_sources(several):
    inspector = pytest.importorskip("nwbinspector", reason="nwbinspector is not installed")
    folder, _, _, _ = several
    found = inspector.inspect_nwbfile(nwbfile_path=str(folder / "s.nwb"), config=inspector.load_config("dandi"))
    critical = [message for message in found if message.importance.name in ("ERROR", "PYNWB_VALIDATION", "CRITICAL")]
    assert not critical, critical


@pytest.mark.filterwarnings("ignore")
def test_sorted_units_are_read_with_their_times(recorded):
    pynwb = pytest.importorskip("pynwb", reason="pynwb is not installed")
    folder, _, about, _ = recorded
    run("sort", "train", f"flat/{about['file']}", "--rate", 30000, "--channels", CHANNELS, "--gain", about["gain_to_uV"],
        "--probe", "none", "--out", "units.betz", cwd=folder)
    plan = f"""[session]
step = "20ms"
[[source]]
name = "rig"
from = "pipe:flat/{about['file']}?channels={CHANNELS}&rate=30000"
channels = {CHANNELS}
microvolts = {about['gain_to_uV']}
[voltage]
feature = "units"
sorter = "units.betz"
[record]
to = "units"
[limits]
late_steps = 1
[missing]
stale_after = "1h"
backlog = 1000000
"""
    (folder / "units.toml").write_text(plan)
    path = json.loads(run("run", "units.toml", "--json", cwd=folder))["folder"]
    run("record", "export", path, "--to", "nwb", "--out", "units.nwb", cwd=folder)
    run("record", "export", path, "--to", "nwb", "--out", "plain_units.nwb", "--plain-voltage", cwd=folder)
    run("record", "export", path, "--to", "flat", "--out", "flat_units", cwd=folder)
    spikes = {}
    for line in (folder / "flat_units" / "spikes.csv").read_text().splitlines()[1:]:
        seconds, unit, _ = line.split(",")
        spikes.setdefault(unit, []).append(float(seconds))
    assert len(spikes) > 1
    with pynwb.NWBHDF5IO(folder / "units.nwb", "r") as file:
        units = file.read().units
        read = {units["unit_name"][i]: list(units["spike_times"][i]) for i in range(len(units)) if len(units["spike_times"][i])}
        assert read == spikes
    _, trains, _ = neo_signals(folder / "plain_units.nwb")
    assert sorted(len(train) for train in trains if len(train)) == sorted(map(len, spikes.values()))
