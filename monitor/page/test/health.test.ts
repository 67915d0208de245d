import assert from "node:assert/strict";
import { test } from "node:test";
import { RULES, measure, neighbours } from "../src/link/health.ts";
import { Store } from "../src/link/store.ts";
import { frame, random } from "./make.ts";

test("silent, noisy and twin channels are told apart", () => {
  const s = new Store({ channels: 8, outputs: 1, stepSeconds: 0.001, keepSeconds: 60 }, 0), next = random(5);
  for (let n = 0; n < 200; n++) {
    const spikes: [number, number][] = [];
    for (let t = n * 100; t < n * 100 + 100; t++) for (let c = 0; c < 6; c++) {
      const rate = c === 1 ? 0 : c === 2 ? 300 : 20;
      if (next() < rate * 0.001) { spikes.push([t, c]); if (c === 4) spikes.push([t, 5]); }
    }
    s.add(frame(n, n * 100, 100, spikes.filter(x => x[1] !== 5 || spikes.some(y => y[0] === x[0] && y[1] === 4))), false);
  }
  const near = neighbours(null, 8), health = measure(s, near, new Set([0]), RULES);
  assert.deepEqual(health.state.slice(0, 4), ["masked", "silent", "noisy", "active"]);
  assert.ok(Math.abs(health.rate[3]! - 20) < 4 && Math.abs(health.rate[2]! - 300) < 20);
  assert.ok(health.fano[3]! > 0.6 && health.fano[3]! < 1.6);
  assert.ok(health.neighbour[4]! > 0.3, "4 and 5 go together");
  assert.ok(Number.isNaN(health.fano[1]!));
});

test("neighbours are those that lie closest", () => {
  const grid = Array.from({ length: 9 }, (_, i): [number, number] => [i % 3 * 100, Math.floor(i / 3) * 100]);
  assert.deepEqual([...neighbours(grid, 9)[4]!].sort(), [1, 3, 5, 7]);
  assert.deepEqual([...neighbours([null, ...grid.slice(1)], 9)[0]!], [1]);
  assert.deepEqual([...neighbours(null, 3)[1]!], [0, 2]);
});
