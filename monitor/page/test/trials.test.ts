import assert from "node:assert/strict";
import { test } from "node:test";
import { overlaid, rateOf, type Trials } from "../src/link/trials.ts";

test("trials that are overlaid are named by their numbers, each once, as many as there are colours", () => {
  assert.deepEqual(overlaid("3, 7", 10), [2, 6]);
  assert.deepEqual(overlaid("7 3 7 11 0 x", 10), [6, 2]);
  assert.deepEqual(overlaid("1,2,3,4,5", 10), [0, 1, 2, 3]);
  assert.deepEqual(overlaid("", 10), []);
});

test("the rate of one trial is its spikes in each bin, and unknown beyond its own time", () => {
  const t = { from: -0.2, to: 0.3, bin: 0.1, bins: 5, row: Uint32Array.from([0, 1, 1, 1, 1]), after: Float32Array.from([0, -0.15, 0, 0.05, 0.29]), trials: [{ inside: [-1, 1] }, { inside: [-0.1, 1] }] } as unknown as Trials;
  assert.deepEqual(Array.from(rateOf(t, 0)), [0, 0, 10, 0, 0]);
  assert.deepEqual(Array.from(rateOf(t, 1)), [NaN, 0, 20, 0, 10]);
});
