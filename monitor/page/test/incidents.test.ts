import assert from "node:assert/strict";
import { test } from "node:test";
import { incidents, neighbour } from "../src/link/incidents.ts";
import { Store } from "../src/link/store.ts";

const store = (): Store => {
  const s = new Store({ channels: 2, outputs: 0, stepSeconds: 0.001, keepSeconds: 60 }, 0);
  s.end = 9000;
  s.misses = [{ tick: 500, ns: 905_000 }, { tick: 4000, ns: 1e6 }];
  s.holes = [{ from: 2000, to: 2120, fillable: false }];
  for (const e of [
    { tick: 100, type: "swap state" }, { tick: 700, type: "control", what: "swap", model: "m2.betz" }, { tick: 1500, type: "swap" },
    { tick: 3000, type: "control", what: "mask", channels: [1, 2] }, { tick: 3500, type: "control", what: "mask", channels: [] }, { tick: 4000, type: "control", what: "mark", text: "cable" },
  ]) s.happened(e);
  return s;
};

test("everything that happened, once and in order; a state of a swap is no incident", () => {
  assert.deepEqual(incidents(store()), [
    { tick: 500, words: "deadline missed: the step took 905 µs" }, { tick: 700, words: "swap to m2.betz asked for" }, { tick: 1500, words: "a new model took over" },
    { tick: 2000, words: "0.120 s did not reach this page" }, { tick: 3000, words: "mask of 2 channels" }, { tick: 3500, words: "mask removed" },
    { tick: 4000, words: "deadline missed: the step took 1 ms; mark: cable" }]);
});

test("from one to the next and back, and no further than the last", () => {
  const all = incidents(store()), there: number[] = [], back: number[] = [];
  for (let at = neighbour(all, -1, true); at; at = neighbour(all, at.tick, true)) there.push(at.tick);
  for (let at = neighbour(all, 9999, false); at; at = neighbour(all, at.tick, false)) back.push(at.tick);
  assert.deepEqual(there, all.map(i => i.tick));
  assert.deepEqual(back, there.toReversed());
});
