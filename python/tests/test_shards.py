"""Shards from Python: what they make together is what one run makes, whoever carries them."""

import pickle

import numpy as np
import pytest

import betz


@pytest.fixture(scope="module")
def culture(tmp_path_factory):
    """A recording of chains, its file, and the episodes that are in it."""
    recording, _ = betz.simulate.chains(seconds=20, seed=3)
    path = tmp_path_factory.mktemp("shards") / "culture.npz"
    recording.save(path)
    mined = betz.mine(recording, delays=[(0.004, 0.006)], threshold=60)
    assert len(mined) > 30 and max(map(len, mined.episodes)) > 3
    return path, mined.episodes


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_counts_of_shards_are_those_of_the_whole(culture, of):
    path, episodes = culture
    parts = [betz.count(path, episodes, shard=(k, of), memory=1 << 16) for k in range(of, 0, -1)]
    assert [part.shard for part in parts] == [(k, of) for k in range(of, 0, -1)]
    joined = betz.join(pickle.loads(pickle.dumps(parts)))
    shown = lambda found: [(e.channels, e.numbers, e.delays, e.count) for e in found]
    assert shown(joined) == shown(episodes)


def test_episodes_are_found_ones_or_lines(culture):
    path, episodes = culture
    pair = next(e for e in episodes if len(e) == 2)
    line = f"{pair.channels[0]} -(0.004,0.006]-> {pair.channels[1]}"
    found, read = betz.join([betz.count(path, [pair, line])])
    assert (found.count, found.channels, found.delays) == (read.count, read.channels, read.delays)
    assert found.count == pair.count


def test_networks_of_shards_are_those_of_the_whole(tmp_path):
    signal = np.random.default_rng(2).normal(size=(3000, 12)).cumsum(axis=0)
    asked = dict(window=100, step=7, threshold=0.4)
    whole = betz.network(signal, **asked)
    whole.save(tmp_path / "whole.npz")
    for of in (1, 2, 3, 7):
        parts = [betz.network(signal, shard=(k, of), **asked) for k in range(of, 0, -1)]
        assert sum(map(len, parts)) == len(whole)
        joined = betz.join(pickle.loads(pickle.dumps(parts)))
        joined.save(tmp_path / "joined.npz")
        assert (tmp_path / "joined.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_what_does_not_belong_together_is_refused(culture, tmp_path):
    path, episodes = culture
    signal = np.random.default_rng(2).normal(size=(400, 6))
    asked = dict(window=100, step=20, top=3)
    one, two = (betz.network(signal, shard=(k, 2), **asked) for k in (1, 2))
    half = betz.count(path, episodes[:3], shard=(1, 2))
    with pytest.raises(betz.BetzError, match="expected each shard once"):
        betz.join([one, one])
    with pytest.raises(betz.BetzError, match="shard"):
        betz.join([one])
    with pytest.raises(betz.BetzError, match="source|hash"):
        betz.join([one, betz.network(signal + 1e-3, shard=(2, 2), **asked)])
    with pytest.raises(betz.BetzError, match="other episodes"):
        betz.join([half, betz.count(path, episodes[3:6], shard=(2, 2))])
    for mixed in ([], [one, half], [one, two, 3]):
        with pytest.raises(TypeError, match="all of the same kind"):
            betz.join(mixed)
    for wrong in ((0, 2), (3, 2), (1, 0)):
        with pytest.raises(betz.BetzError, match="expected a number from 1"):
            betz.count(path, episodes, shard=wrong)
    with pytest.raises(betz.BetzError, match="at least one"):
        betz.count(path, [])
    with pytest.raises(betz.BetzError, match="no label"):
        betz.count(path, ["nobody"])
    with pytest.raises(betz.BetzError, match="shard of counts"):
        betz.CountPart.from_bytes(b"no such file")
    with pytest.raises(betz.BetzError, match="checksum|damaged"):
        one.save(tmp_path / "part.net")
        damaged = bytearray((tmp_path / "part.net").read_bytes())
        damaged[40] ^= 1
        betz.NetworkPart.from_bytes(bytes(damaged))
    with pytest.raises(OSError):
        betz.count(tmp_path / "none.npz", episodes)
