import assert from "node:assert/strict";
import { test } from "node:test";
import { RULES, measure, neighbours } from "../src/link/health.ts";
import { Store } from "../src/link/store.ts";
import { More } from "../src/link/frame.ts";
import { selection } from "../src/draw/npz.ts";
import { spikesCsv } from "../src/draw/export.ts";
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

test("a unit that fires where the others are quiet is no noise", () => {
  // 40 units of 0.1 spikes/s, a place cell of 1.2, and a channel of 80.
  const s = new Store({ channels: 42, outputs: 0, stepSeconds: 0.01, keepSeconds: 60 }, 0), next = random(9), spikes: [number, number][] = [];
  for (let t = 0; t < 3000; t++) for (let c = 0; c < 42; c++) if (next() < (c === 40 ? 1.2 : c === 41 ? 80 : 0.1) * 0.01) spikes.push([t, c]);
  s.add(frame(0, 0, 3000, spikes), false);
  const health = measure(s, neighbours(null, 42), new Set(), RULES);
  assert.ok(health.rate[40]! > 8 * health.median, "it is far above the median");
  assert.deepEqual([health.state[40], health.state[41]], ["active", "noisy"]);
});

test("neighbours are those that lie closest", () => {
  const grid = Array.from({ length: 9 }, (_, i): [number, number] => [i % 3 * 100, Math.floor(i / 3) * 100]);
  assert.deepEqual([...neighbours(grid, 9)[4]!].sort(), [1, 3, 5, 7]);
  assert.deepEqual([...neighbours([null, ...grid.slice(1)], 9)[0]!], [1]);
  assert.deepEqual([...neighbours(null, 3)[1]!], [0, 2]);
});

/** Spikes of a recording with ticks of 10 microseconds, in steps of `step` seconds. */
function recorded(times: [number, number][], step: number, steps: number): Store {
  const s = new Store({ channels: 8, outputs: 0, stepSeconds: step, keepSeconds: steps * step, tickSeconds: 1e-5 }, 0);
  const sorted = [...times].sort((a, b) => a[0] - b[0]), at = sorted.map(([t]) => Math.floor(t / step + 1e-9));
  const offset = Float32Array.from(sorted, ([t], i) => t / step - at[i]!);
  s.add(frame(0, 0, steps, sorted.map(([, c], i): [number, number] => [at[i]!, c]), { more: new Map([[More.Offset as number, new Uint32Array(offset.buffer)]]) }), false);
  return s;
}

test("short intervals are those of the recording's own times, in steps of any length", () => {
  const next = random(11), times: [number, number][] = [];
  for (let c = 0; c < 8; c++) for (let t = next() * 0.01; t < 20; t += 0.0004 + next() * 0.05) times.push([Math.round(t * 1e5) / 1e5, c]);
  const own = Array.from({ length: 8 }, (_, c) => times.filter(x => x[1] === c).map(x => x[0]).sort((a, b) => a - b));
  // The plain loop over the file.
  const expected = own.map(all => all.slice(1).filter((t, i) => t - all[i]! <= 0.001 + 1e-9).length / (all.length - 1));
  assert.ok(expected[0]! > 0.005 && expected[0]! < 0.05);
  for (const step of [0.001, 0.005, 0.1]) {
    const s = recorded(times, step, Math.round(20 / step)), health = measure(s, neighbours(null, 8), new Set(), RULES, [0, s.end]);
    for (let c = 0; c < 8; c++) assert.ok(Math.abs(health.short[c]! - expected[c]!) < 1e-6, `step ${step}: ${health.short[c]} for ${expected[c]}`);
  }
});

test("intervals of a millisecond are not known of steps of 100 ms", () => {
  const s = new Store({ channels: 8, outputs: 1, stepSeconds: 0.1, keepSeconds: 60 }, 0);
  s.add(frame(0, 0, 100, Array.from({ length: 90 }, (_, t): [number, number] => [t, t % 2])), false);
  assert.ok(measure(s, neighbours(null, 8), new Set(), RULES).short.every(Number.isNaN));
});

test("rates are of the view, and do not count what was left out", () => {
  const s = recorded(Array.from({ length: 1000 }, (_, k): [number, number] => [10 + k * 0.01, 3]), 0.1, 400);
  s.leftOut = [[0, 100], [200, 400]];
  const whole = measure(s, neighbours(null, 8), new Set(), RULES, [0, 400]);
  assert.equal(whole.seconds, 10);
  assert.ok(Math.abs(whole.rate[3]! - 100) < 1e-3);
  const part = measure(s, neighbours(null, 8), new Set(), RULES, [150, 200]);
  assert.deepEqual([part.from, part.to, part.seconds], [150, 200, 5]);
  assert.ok(Math.abs(part.rate[3]! - 100) < 1e-3);
});

test("exported spikes keep the recording's own times", () => {
  const times = [[0.00001, 1], [0.01234, 2], [0.01236, 2], [0.10001, 5]] as [number, number][];
  const s = recorded(times, 0.005, 40), picture = { end: 40, window: 40, from: 0, to: 8, order: null, sweep: false, ink: [0, 0, 0], paper: [0, 0, 0], dim: [0, 0, 0] } as const;
  const facts = { source: "a", checksum: "b", model: "m", saved: "now", address: "c", version: "1", channels: Array.from({ length: 8 }, (_, c) => `ch${c}`), outputs: [] };
  const rows = spikesCsv(s, picture as never, facts).trimEnd().split("\n").slice(6).map(l => Number(l.split(",")[0]));
  assert.deepEqual(rows, times.map(t => t[0]));
  const bytes = selection(s, picture as never, facts.channels, []), text = Buffer.from(bytes).toString("latin1"), at = text.indexOf("\n", text.indexOf("spike_ticks.npy")) + 1;
  assert.deepEqual(Array.from({ length: 4 }, (_, k) => Number(Buffer.from(bytes).readBigInt64LE(at + 8 * k))), [1, 1234, 1236, 10001]);
});
