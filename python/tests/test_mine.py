"""Mining with every option of the command, and counting spike by spike."""

import pickle

import numpy as np
import pytest

import betz

DELAYS = [(0.004, 0.006)]
STRATEGIES = "latest-start serial two-pass hybrid map-concat local-tracking local-tracking-atomic local-tracking-flags".split()


@pytest.fixture(scope="module")
def culture():
    return betz.simulate.chains(seconds=10, seed=1)


def counted(episodes):
    return [(e.numbers, e.delays, e.count) for e in episodes]


def test_strategies_give_the_same_counts(culture):
    mined = betz.mine(culture[0], delays=DELAYS, threshold=60, strategy=STRATEGIES[0])
    assert len(mined) > 30 and mined.device == "cpu" and mined.episodes[0].p is None
    for strategy in STRATEGIES[1:]:
        other = betz.mine(culture[0], delays=DELAYS, threshold=60, strategy=strategy, device="cpu")
        assert counted(other.episodes) == counted(mined.episodes), strategy


def test_given_episodes_are_counted(culture):
    recording = culture[0]
    mined = betz.mine(recording, delays=DELAYS, threshold=60)
    again = betz.mine(recording, episodes=mined.episodes[::-1], strategy="serial")
    assert counted(again.episodes) == counted(mined.episodes)[::-1]
    assert counted(again.maximal)[::-1] == counted(mined.maximal)
    first, second = mined.maximal[-1].channels[:2]
    (line,) = betz.mine(recording, episodes=[f"{first} -(0.004,0.006]-> {second}"]).episodes
    pair = [e for e in mined.episodes if e.channels == [first, second]]
    assert counted([line]) == counted(pair)


def test_counts_have_names():
    """A, A, B, B at 0, 1, 3 and 4 ms: every definition counts A then B otherwise."""
    few = betz.Recording.from_spikes([0, 1, 3, 4], [0, 0, 1, 1], 0.001, duration_ticks=10, channels=2)
    pair = ["ch0 -(0,0.005]-> ch1"]

    def count(name, span=None):
        (episode,) = betz.mine(few, episodes=pair, count=name, span_seconds=span).episodes
        return episode.count

    assert count("non-overlapped") == 1
    assert count("minimal") == count("minimal", 0.002) == 1 and count("minimal", 0.001) == 0
    assert count("windows", 0.004) == 2 and count("windows", 0.003) == 1 and count("windows", 0.002) == 0
    assert count("distinct") == 4
    assert count("total") == count("total", 0.003) == 2 and count("total", 0.002) == 1


def test_a_search_by_another_count(culture):
    recording = culture[0]
    for name, span in (("minimal", 0.03), ("windows", 0.05), ("total", None)):
        asked = dict(count=name, span_seconds=span)
        mined = betz.mine(recording, delays=DELAYS, threshold=90, max_size=3, **asked)
        again = betz.mine(recording, episodes=mined.episodes, **asked)
        assert len(mined) > 26 and counted(again.episodes) == counted(mined.episodes)
        tested = betz.mine(recording, delays=DELAYS, threshold=90, max_size=3, surrogates=19, **asked)
        assert counted(tested.episodes) == counted(mined.episodes)
        assert min(e.p for e in tested.episodes if e.p is not None) == 0.05


def test_a_result_is_written_as_the_command_writes_it(culture, tmp_path):
    recording = culture[0]
    mined = betz.mine(recording, delays=DELAYS, threshold=60)
    mined.write_csv(tmp_path / "all.csv")
    header, *lines = (tmp_path / "all.csv").read_text().splitlines()
    assert header == "size,count,symbols,low_seconds,high_seconds" and len(lines) == len(mined)
    for line, episode in zip(lines, mined.episodes):
        size, count, symbols, *_ = line.split(",")
        assert (int(size), int(count), symbols.split()) == (len(episode), episode.count, episode.channels)
    tested = betz.mine(recording, delays=DELAYS, threshold=60, surrogates=19, fdr=0.2, parts=True)
    tested.write_csv(tmp_path / "tested.csv")
    header, *lines = (tmp_path / "tested.csv").read_text().splitlines()
    columns = header.split(",")
    assert len(lines) == len(tested) and "weakest_q" in columns
    for line, episode in zip(lines, tested.episodes):
        assert float(line.split(",")[columns.index("q")]) == pytest.approx(episode.q, rel=1e-5)
    mined.write_graph(tmp_path / "net.dot")
    mined.write_graph(str(tmp_path / "net.GraphML"))
    pairs = {tuple(e.channels[k:k + 2]) for e in mined.episodes for k in range(len(e) - 1)}
    assert (tmp_path / "net.dot").read_text().count(" -> ") == len(pairs)
    assert (tmp_path / "net.GraphML").read_text().count("<edge ") == len(pairs)
    with pytest.raises(ValueError, match=r"ends with \.dot or \.graphml, got .*net\.png"):
        mined.write_graph(tmp_path / "net.png")
    with pytest.raises(ValueError, match="write before pickling"):
        pickle.loads(pickle.dumps(mined)).write_csv(tmp_path / "again.csv")
    assert not (tmp_path / "again.csv").exists() and not (tmp_path / "net.png").exists()


def test_chains_are_told_from_chance(culture):
    recording, chains = culture
    asked = dict(delays=DELAYS, threshold=60, surrogates=99)
    tested = betz.mine(recording, **asked)
    assert counted(tested.episodes) == counted(betz.mine(recording, delays=DELAYS, threshold=60).episodes)
    for episode in tested.episodes:
        assert (episode.p is None) == (len(episode) == 1) and episode.part_q is None
        if episode.p is not None:
            assert 0.01 <= episode.p <= episode.q <= 1 and episode.expected >= 0
    kept = betz.mine(recording, fdr=0.05, **asked)
    assert counted(kept.episodes) == counted(e for e in tested.episodes if e.q is not None and e.q <= 0.05)
    in_parts = betz.mine(recording, fdr=0.05, parts=True, **asked)
    found = [e.numbers for e in in_parts.maximal]
    assert all(chain in found for chain in chains)
    assert all(e.part_q <= 0.05 for e in in_parts.episodes) and len(in_parts) < len(kept)
    assert [e.q for e in pickle.loads(pickle.dumps(in_parts)).episodes] == [e.q for e in in_parts.episodes]
    # Seeds and kinds of surrogates change what is expected, and the same seed does not.
    means = [
        [e.expected for e in betz.mine(recording, **asked, **how).episodes if e.expected is not None]
        for how in ({}, {"seed": 1}, {"seed": 2}, {"shuffle": True}, {"dither_seconds": 0.1})
    ]
    assert means[0] == means[1] and all(mean != means[0] for mean in means[2:])


def test_a_test_that_nothing_passes_warns():
    rng = np.random.default_rng(0)
    ticks = np.sort(rng.choice(20_000, 600, replace=False))
    noise = betz.Recording.from_spikes(ticks, rng.integers(0, 4, 600), 0.001, duration_ticks=20_000, channels=4)
    with pytest.warns(betz.BetzWarning, match="no episode passes; to tell k of .* at fdr 0.05 from chance takes"):
        assert len(betz.mine(noise, delays=DELAYS, threshold=1, max_size=2, surrogates=19, fdr=0.05)) == 0


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({}, TypeError, "delays: expected intervals .*or episodes="),
        ({"delays": DELAYS}, TypeError, "threshold: expected a count, or episodes="),
        ({"episodes": ["ch0"], "threshold": 3}, TypeError, "threshold: expected none beside episodes="),
        ({"episodes": []}, ValueError, "episodes: expected at least one"),
        ({"episodes": ["nobody"]}, ValueError, "nobody"),
        ({"count": "often"}, ValueError, "count: expected one of non-overlapped, minimal, windows, distinct, total, got"),
        ({"count": "windows"}, ValueError, "count: windows: expected a span, which is the width of a window"),
        ({"count": "distinct"}, ValueError, "count without episodes=: distinct: expected episodes to count"),
        ({"span_seconds": 0.1}, ValueError, "count: non-overlapped: expected no span"),
        ({"count": "minimal", "span_seconds": 1e-9}, ValueError, "count: span: expected at least one tick"),
        ({"count": "minimal", "strategy": "serial"}, ValueError, "strategy: expected none beside count="),
        (
            {"count": "total", "surrogates": 99, "fdr": 0.1, "parts": True},
            ValueError,
            "parts: expected the count of non-overlapped occurrences, got total",
        ),
        ({"strategy": "guess"}, ValueError, "strategy.*expected one of latest-start, serial"),
        ({"device": "abacus"}, ValueError, "abacus"),
        ({"surrogates": 0}, ValueError, "surrogates: expected 1 to"),
        ({"fdr": 0.1}, TypeError, "fdr: expected surrogates="),
        ({"surrogates": 99, "fdr": 2.0}, ValueError, "fdr: expected a rate above 0 and up to 1"),
        ({"surrogates": 9, "fdr": 0.01}, ValueError, "fdr 0.01: expected surrogates of at least 99"),
        ({"surrogates": 99, "parts": True}, ValueError, "parts: expected fdr beside it, got none"),
        ({"surrogates": 99, "dither_seconds": -1.0}, ValueError, "dither_seconds: expected a finite number"),
        ({"surrogates": 99, "dither_seconds": 0.1, "shuffle": True}, ValueError, "shuffle: expected no dither_seconds"),
        ({"surrogates": 99, "seed": -1}, ValueError, "seed: expected a whole number"),
    ],
)
def test_what_is_refused_says_what_was_expected(culture, options, error, message):
    asked = {"delays": DELAYS, "threshold": 60} if options.keys() & {"count", "span_seconds", "strategy", "device", "surrogates", "fdr"} else {}
    with pytest.raises(error, match=message):
        betz.mine(culture[0], **asked, **options)


def test_a_miner_counts_as_mining_does(culture):
    recording = culture[0]
    mined = betz.mine(recording, delays=DELAYS, threshold=60)
    miner = betz.Miner(recording.channel_names, recording.tick_seconds, episodes=mined.episodes)
    for part in np.array_split(np.arange(len(recording.spike_ticks)), 7):
        assert miner.push(recording.spike_ticks[part], recording.spike_channels[part]) == len(part)
    assert counted(miner.episodes) == counted(mined.episodes)
    assert miner.events == len(recording.spike_ticks) and miner.late == miner.invalid == 0
    assert [e.count for e in miner.top(3)] == sorted((e.count for e in mined.episodes), reverse=True)[:3]
    assert miner.push([0], [0]) == 0 and miner.late == 1
    assert miner.push([recording.spike_ticks[-1]], [99]) == 0 and miner.invalid == 1
    miner.reset()
    assert [e.count for e in miner.episodes] == [0] * len(mined)


def test_a_miner_mines_its_window(culture):
    recording, chains = culture
    miner = betz.Miner(len(recording.channel_names), recording.tick_seconds, delays=DELAYS, window_seconds=5.0, threshold=30)
    assert miner.episodes == []
    miner.push(recording.spike_ticks, recording.spike_channels)
    found = [e.numbers for e in miner.episodes]
    assert all(chain in found for chain in chains)
    assert all(len(e) > 1 for e in miner.episodes) and "Miner: " in repr(miner)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({}, TypeError, "expected episodes= to count, or delays= to mine a window, got neither"),
        ({"episodes": ["ch0"], "delays": DELAYS}, TypeError, "got both"),
        ({"delays": DELAYS}, TypeError, "window_seconds: expected seconds"),
        ({"delays": DELAYS, "window_seconds": 0.01}, ValueError, "expected a longer window"),
        ({"episodes": ["ch0"], "threshold": 3}, TypeError, "threshold: expected delays="),
        ({"episodes": ["ch9"]}, ValueError, "ch9"),
    ],
)
def test_a_miner_refuses(options, error, message):
    with pytest.raises(error, match=message):
        betz.Miner(4, 0.001, **options)


def test_a_miner_refuses_other_lengths():
    with pytest.raises(ValueError, match="spike_channels: expected one channel for each of 2 spikes, got 1"):
        betz.Miner(4, 0.001, episodes=["ch0"]).push([1, 2], [0])
