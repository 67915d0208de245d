import assert from "node:assert/strict";
import { test } from "node:test";
import { beside, delays, namesOf, narrowed, nearest, sorted, taken, type Told } from "../src/mined/model.ts";

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

test("found chains come first, the largest of them before the most frequent", () => {
  const q = (labels: string, count: number, value: number | null): Told => told([...labels], count, { q: value });
  const list = taken([q("ab", 900, 0.5), q("ab", 90, 0.001), q("abcd", 7, 0.01), q("abcde", 3, null), q("abdc", 8, 0.05)], 60);
  assert.deepEqual(sorted(list, "episode", true).map(e => e.index), [4, 2, 1, 3, 0]);
  assert.deepEqual(sorted(list, "episode", false).map(e => e.index), [0, 3, 1, 2, 4]);
});

test("no two episodes of a list have the same name", () => {
  const pair = (low: number, high: number): Told => told(["a", "b"], 1, { low: [low], high: [high] });
  const list = [pair(0.001, 0.002), pair(0.002, 0.004), told(["a"], 1), pair(0.002, 0.004), told(["a"], 2), told(["a", "b", "c"], 1)];
  const names = namesOf(list);
  assert.deepEqual(names.slice(0, 2), ["a → b · 1–2 ms", "a → b · 2–4 ms · no. 2"]);
  assert.equal(names[5], "a → b → c");
  assert.equal(new Set(names).size, list.length);
});

test("the occurrence nearest to a time is found", () => {
  const times = [1, 2, 5].map(t => Float64Array.of(t, t + 0.01));
  assert.deepEqual([0, 1.4, 1.6, 2, 4, 9].map(t => nearest(times, t)), [0, 0, 1, 1, 2, 2]);
  assert.equal(nearest([], 1), null);
});
