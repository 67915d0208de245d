import assert from "node:assert/strict";
import { test } from "node:test";
import { INTERVAL_BINS, firstChannels, intervalOf, intervals, rates } from "../src/draw/intervals.ts";
import { Store } from "../src/link/store.ts";
import { frame } from "./make.ts";

test("populations have the channels of their neurons, of every so many", () => {
  assert.deepEqual(firstChannels([6, 2], 1), [0, 6, 8]);
  // Neurons 0, 3, 6, 9 are shown: two of the first seven's are, and so on.
  assert.deepEqual(firstChannels([4, 3, 5], 3), [0, 2, 3, 4]);
});

test("rates and intervals are those of the spikes", () => {
  const s = new Store({ channels: 8, outputs: 1, stepSeconds: 0.0005, keepSeconds: 60 }, 0);
  // Channels 0 to 5 fire every 10 ms, 6 and 7 every 40 ms: 100 and 25 spikes per second.
  for (let n = 0; n < 40; n++) {
    const spikes: [number, number][] = [];
    for (let t = n * 100; t < n * 100 + 100; t++) for (let c = 0; c < 8; c++) if (t % (c < 6 ? 20 : 80) === 0) spikes.push([t, c]);
    s.add(frame(n, n * 100, 100, spikes), false);
  }
  const [a, b] = rates(s, [0, 6, 8], 1);
  assert.ok(Math.abs(a! - 100) < 1e-9 && Math.abs(b! - 25) < 1e-9, `${a} ${b}`);
  const fast = intervals(s, 0, 6, 2), slow = intervals(s, 6, 8, 2);
  const only = (bins: Uint32Array) => Array.from(bins).flatMap((n, i) => n > 0 ? [[i, n]] : []);
  assert.deepEqual(only(fast), [[7, 6 * 199]]);
  assert.ok(intervalOf(7) >= 10 && intervalOf(6) < 10);
  assert.deepEqual(only(slow), [[11, 2 * 49]]);
  assert.equal(fast.length, INTERVAL_BINS);
});
