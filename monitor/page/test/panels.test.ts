import assert from "node:assert/strict";
import { test } from "node:test";
import { timeBars } from "../src/draw/bars.ts";
import { groupsOf, runs } from "../src/draw/groups.ts";
import { textWidth } from "../src/draw/font.ts";
import { strongest } from "../src/net/model.ts";
import { markOf, meanCourse, reaching, sorted, windowOf, type Trial } from "../src/link/trials.ts";
import { random } from "./make.ts";

test("no bar of the timeline lies in the future, and each has the rate of its seconds", () => {
  const next = random(2), seconds = Array.from({ length: 1001 }, () => ({ spikes: Math.floor(next() * 90), misses: Number(next() < 0.1), r2: NaN }));
  for (const [from, end, most] of [[0, 1000.25, 300], [0, 7.4, 300], [940, 1000.25, 30], [3, 3.05, 10], [0, 1001, 1001]] as const) {
    const bars = timeBars(seconds, from, end, most);
    assert.ok(bars.length <= most);
    for (const bar of bars) {
      assert.ok(bar.to <= end && bar.from < bar.to, `${bar.from} to ${bar.to} of ${end}`);
      let n = 0, missed = 0;
      for (let s = 0; s < seconds.length; s++) if (s >= bar.from && s < bar.to) { n += seconds[s]!.spikes; missed += seconds[s]!.misses; }
      assert.ok(Math.abs(bar.rate - n / (bar.to - bar.from)) < 1e-9);
      assert.equal(bar.misses, missed);
    }
    assert.equal(bars.at(-1)!.to, end);
  }
});

test("groups of electrodes are found by names, else by places", () => {
  const names = ["M1 1", "M1 2", "PMd 1", "M1 3", "PMd 2", "PMd 3"], named = groupsOf(names, null)!;
  assert.deepEqual(named.names, ["M1", "PMd"]);
  assert.deepEqual([...named.of], [0, 0, 1, 0, 1, 1]);
  assert.deepEqual([...named.order], [0, 1, 3, 2, 4, 5]);
  assert.deepEqual(runs(named, named.order, 0, 6), [{ group: 0, from: 0, to: 3 }, { group: 1, from: 3, to: 6 }]);
  assert.deepEqual(runs(named, named.order, 2, 5), [{ group: 0, from: 2, to: 3 }, { group: 1, from: 3, to: 5 }]);
  const plain = Array.from({ length: 40 }, (_, c) => `ch${c}`), two = plain.map((_, c): [number, number] => [(c % 2) * 5000 + (c >> 1) % 4 * 400, Math.floor(c / 8) * 400]);
  const placed = groupsOf(plain, two)!;
  assert.deepEqual(placed.names, ["array 1", "array 2"]);
  assert.deepEqual([...placed.of], plain.map((_, c) => c % 2));
  // Within a group from top to bottom, then from left to right.
  const rows = [...placed.order.keys()].sort((a, b) => placed.order[a]! - placed.order[b]!);
  assert.deepEqual(rows.slice(0, 5), [0, 2, 4, 6, 8]);
  assert.equal(groupsOf(plain, plain.map((_, c) => [(c % 8) * 400, Math.floor(c / 8) * 400])), null, "one array is no group");
  assert.equal(groupsOf(plain, null), null);
  assert.equal(groupsOf(["a", "b", "c"], null), null, "names of their own are no groups");
});

test("networks over each other have one scale", () => {
  assert.equal(strongest([Float32Array.from([0.5, 0.2]), undefined, Float32Array.from([0.75, 0.1])]), 0.75);
  assert.equal(strongest([undefined, new Float32Array(0)]), 1);
});

test("trials of counts in bins begin with whole bins of the recording", () => {
  assert.deepEqual(windowOf(null), { bin: 0.05, from: -0.5, to: 1 });
  assert.deepEqual(windowOf(0.001), { bin: 0.05, from: -0.5, to: 1 });
  assert.deepEqual(windowOf(0.1), { bin: 0.1, from: -0.5, to: 1 });
  assert.deepEqual(windowOf(0.02), { bin: 0.06, from: -0.48, to: 1.02 });
  for (const step of [0.001, 0.002, 0.005, 0.008, 0.01, 0.016, 0.02, 0.025, 0.03, 0.05, 0.07, 0.1, 0.2, 1, 3]) {
    const { bin, from, to } = windowOf(step), whole = (v: number): boolean => Math.abs(v - Math.round(v)) < 1e-6;
    assert.ok(bin >= 0.05 - 1e-9 && from < 0 && to > 0 && whole(bin / step) && whole(from / bin) && whole(to / bin), `${step}: ${bin}, ${from}, ${to}`);
  }
});

test("a spike of a trial is as wide as its step where that can be seen, and several darken it", () => {
  assert.deepEqual(markOf({ from: -0.5, to: 1 }, 750, null), { wide: 1.2, alpha: 1 });
  assert.deepEqual(markOf({ from: -0.5, to: 1 }, 750, 0.001), { wide: 1.2, alpha: 1 });
  const wide = markOf({ from: -0.5, to: 1 }, 750, 0.1);
  assert.ok(Math.abs(wide.wide - 49.4) < 1e-9 && wide.alpha < 0.5);
});

test("trials in an order, and their mean course without what is not known", () => {
  const t: Trial[] = [[3, 5, 0.5], [1, 9, null], [2, 9, 0.9]].map(([seconds, spikes, r2]) => ({ seconds: seconds!, spikes: spikes!, inside: [-0.5, 1], begin: 0, r2: r2!, rmse: r2 === null ? null : 1 - r2! }));
  assert.deepEqual(sorted(t, "time"), [1, 2, 0]);
  assert.deepEqual(sorted(t, "spikes"), [1, 2, 0]);
  assert.deepEqual(sorted(t, "R²"), [2, 0, 1]);
  assert.deepEqual(sorted(t, "error"), [2, 0, 1]);
  // Two of them end before the window does, one of these begins within it, too.
  t[1]!.inside = [-0.5, 0.8]; t[2]!.inside = [0, 0.4];
  assert.equal(reaching({ from: -0.5, to: 1, trials: t }), 2);
  const next = random(8), values = Float32Array.from({ length: 5 * 7 }, () => next() < 0.2 ? NaN : next());
  const mean = meanCourse(values, 5, 7);
  for (let p = 0; p < 7; p++) {
    const known = [0, 1, 2, 3, 4].map(k => values[k * 7 + p]!).filter(v => !Number.isNaN(v));
    assert.ok(Math.abs(mean[p]! - known.reduce((a, b) => a + b, 0) / known.length) < 1e-12);
  }
});

test("arrays of 2,048 electrodes are told apart without comparing every two of them", () => {
  // Two arrays of 32 by 32, mixed; the last electrode has no place.
  const plain = Array.from({ length: 2049 }, (_, c) => String(c));
  const at = plain.map((_, c): [number, number] | null => c === 2048 ? null : [(c % 2) * 40_000 + (c >> 1) % 32 * 400, Math.floor((c >> 1) / 32) * 400]);
  let reads = 0;
  const counted = new Proxy(at, { get: (all, key) => { if (typeof key === "string" && /^\d+$/.test(key)) reads++; return Reflect.get(all, key) as unknown; } });
  const groups = groupsOf(plain, counted)!;
  assert.deepEqual(groups.names, ["array 1", "array 2", "no place"]);
  assert.ok(at.every((_, c) => groups.of[c] === (c === 2048 ? 2 : c % 2)));
  assert.ok(reads < 2048 * 2048 / 2, `${reads} reads of places`);
});

test("a label's width is measured once", () => {
  let measured = 0;
  const g = { measureText: (text: string) => { measured++; return { width: 6 * text.length }; } } as unknown as CanvasRenderingContext2D;
  assert.deepEqual([textWidth(g, "0:05"), textWidth(g, "0:05"), textWidth(g, "0:05", 12), measured], [24, 24, 24, 2]);
});
