import assert from "node:assert/strict";
import { test } from "node:test";
import { beside, delays, narrowed, sorted, taken, type Told } from "../src/mined/model.ts";

const told = (labels: string[], count: number, more: Partial<Told> = {}): Told => ({ labels, channels: labels.map((_, k) => k), low: [], high: [], count, expected: null, std: null, p: null, q: null, ...more });
const all = taken([told(["a", "b"], 5, { expected: 1, std: 2, p: 0.1, q: 0.2 }), told(["c"], 9), told(["b", "a", "c"], 5, { expected: 4, std: 0.5, p: 0.5, q: 0.5 })], 120);

test("what was not tested comes last, whichever way", () => {
  assert.deepEqual(all.map(e => e.z), [2, null, 2]);
  assert.deepEqual(sorted(all, "q", false).map(e => e.index), [0, 2, 1]);
  assert.deepEqual(sorted(all, "q", true).map(e => e.index), [2, 0, 1]);
  assert.deepEqual(sorted(all, "count", true).map(e => e.index), [1, 0, 2]);
  assert.deepEqual(sorted(all, "episode", true).map(e => e.labels.length), [3, 2, 1]);
  assert.equal(all[1]!.rate, 4.5);
});

test("a list is narrowed by channel, count and z", () => {
  assert.deepEqual(narrowed(all, "A", 0, null).map(e => e.index), [0, 2]);
  assert.deepEqual(narrowed(all, "", 6, null).map(e => e.index), [1]);
  assert.deepEqual(narrowed(all, "", 0, 1).map(e => e.index), [0, 2]);
});

test("delays fall in their bins, and occurrences are gone to one by one", () => {
  const times = [Float64Array.of(1, 1.004), Float64Array.of(2, 2.01), Float64Array.of(5, 5.0001)];
  assert.deepEqual([...delays(times, 0, 0, 0.01, 2)], [2, 1]);
  assert.deepEqual([beside(times, 0, 1), beside(times, 1, 1), beside(times, 5, 1), beside(times, 5, -1), beside(times, 1, -1)], [0, 1, null, 1, null]);
});
