import assert from "node:assert/strict";
import { test } from "node:test";
import { Store, lowerBound, percentile } from "../src/link/store.ts";
import { More } from "../src/link/frame.ts";
import { gateWords } from "../src/link/gate.ts";
import { reduce } from "../src/draw/reduce.ts";
import { frame, random } from "./make.ts";

const store = () => new Store({ channels: 8, outputs: 1, stepSeconds: 0.001, keepSeconds: 60 }, 0);
const spikes = (s: Store): [number, number][] => Array.from({ length: s.spikes }, (_, i) => [s.tick[i]!, s.channel[i]!]);

test("a frame that is lost leaves a hole, which the history fills", () => {
  const all: [number, number][] = [], next = random(3);
  for (let t = 0; t < 100; t++) if (next() < 0.4) all.push([t, Math.floor(next() * 8)]);
  const part = (n: number) => frame(n, n * 10, 10, all.filter(a => Math.floor(a[0] / 10) === n));
  const whole = store(), holed = store();
  for (let n = 0; n < 10; n++) whole.add(part(n), false);
  for (const n of [0, 1, 2, 5, 6, 9]) holed.add(part(n), n === 5 || n === 9);
  assert.deepEqual(holed.holes, [{ from: 30, to: 50, fillable: true }, { from: 70, to: 90, fillable: true }]);
  assert.equal(holed.hidden(0, 100), 40);
  assert.equal(holed.hidden(45, 75), 10);
  holed.fill([part(2), part(3), part(4), part(5)], 30, 50);
  assert.deepEqual(holed.holes.map(h => [h.from, h.to]), [[70, 90]]);
  // Half of the other hole is not there any more.
  holed.fill([part(8)], 70, 90);
  assert.deepEqual(holed.holes.map(h => [h.from, h.to]), [[70, 80]]);
  holed.fill([part(7)], 70, 80);
  assert.deepEqual(holed.holes, []);
  assert.deepEqual(spikes(holed), spikes(whole));
  assert.deepEqual([...holed.rowTick.subarray(0, holed.rows)], [...whole.rowTick.subarray(0, whole.rows)]);
  assert.deepEqual([...holed.estimate.subarray(0, holed.rows)], [...whole.estimate.subarray(0, whole.rows)]);
});

test("a page that comes late is given what was before", () => {
  const s = store();
  s.add(frame(5, 500, 100, [[510, 1]]), false);
  assert.equal(s.first, 500);
  const rates = (v: number) => ({ rates: new Float32Array(8).fill(v) });
  s.add(frame(6, 600, 100, [], rates(6)), false);
  s.fill([frame(3, 300, 100, [[310, 2]], rates(3)), frame(4, 400, 100, [[410, 3]], rates(4))], 0, 500);
  assert.deepEqual(s.trend.map(r => r[0]), [3, 4, 6]);
  assert.equal(s.first, 300);
  assert.deepEqual(spikes(s), [[310, 2], [410, 3], [510, 1]]);
  assert.deepEqual(s.holes, []);
});

test("ticks without a step are holes, not silence", () => {
  const s = store();
  s.add(frame(0, 0, 10, [], { rowTick: Uint16Array.from([0, 1, 2, 6, 7, 8, 9]), estimate: new Float32Array(7), truth: null }), false);
  assert.deepEqual(s.holes, [{ from: 3, to: 6, fillable: false }]);
  s.add(frame(1, 20, 10), false);
  assert.deepEqual(s.holes[1], { from: 10, to: 20, fillable: false });
});

test("memory stays what it is, and the newest spikes stay", () => {
  const s = store(), room = s.tick.length;
  for (let n = 0; n < 400; n++) s.add(frame(n, n * 100, 100, Array.from({ length: 5000 }, (_, i) => [n * 100 + i % 100, i % 8])), false);
  assert.equal(s.tick.length, room);
  assert.ok(s.spikes <= room && s.spikes > room / 2);
  assert.equal(s.tick[s.spikes - 1], 39_999);
  assert.ok(s.first >= s.tick[0]!, "what was forgotten is not shown as known");
  for (let i = 1; i < s.spikes; i++) assert.ok(s.tick[i]! >= s.tick[i - 1]!);
});

test("counts in cells keep their number", () => {
  const s = store();
  s.add(frame(0, 0, 4, [], { cells: { rows: 4, columns: 2, wide: 2, counts: Uint8Array.from([1, 0, 0, 0, 0, 0, 0, 200]) } }), false);
  assert.deepEqual(spikes(s), [[0, 1], [2, 7]]);
  assert.deepEqual([...s.weight.subarray(0, 2)], [1, 200]);
  assert.equal(s.grouped, 201);
});

test("a clock that goes back forgets what lay after", () => {
  const s = store();
  s.add(frame(0, 0, 100, [[50, 1], [90, 2]]), false);
  s.add(frame(1, 60, 10, [[61, 3]]), false);
  assert.deepEqual(spikes(s), [[50, 1], [61, 3]]);
  assert.equal(s.end, 70);
});

test("R² is one where all is known and zero for the mean", () => {
  const s = store(), truth = Float32Array.from({ length: 100 }, (_, i) => Math.sin(i)), mean = truth.reduce((a, b) => a + b, 0) / 100;
  s.add(frame(0, 0, 100, [], { estimate: truth, truth }), false);
  assert.ok(Math.abs(s.r2(0, 100)[0]! - 1) < 1e-9);
  s.add(frame(1, 100, 100, [], { estimate: new Float32Array(100).fill(mean), truth }), false);
  assert.ok(Math.abs(s.r2(100, 200)[0]!) < 1e-6);
  s.add(frame(2, 200, 10, [], { truth: null }), false);
  assert.ok(Number.isNaN(s.r2(200, 210)[0]!));
});

test("lines keep every peak and break at holes", () => {
  const s = store(), values = new Float32Array(5000);
  values[1234] = 9; values[4321] = -7;
  for (let n = 0; n < 50; n++) if (n !== 20) s.add(frame(n, n * 100, 100, [], { estimate: values.subarray(n * 100, n * 100 + 100) }), n === 21);
  const xs = new Float64Array(2000), ys = new Float64Array(2000);
  const n = reduce(s, s.estimate, 0, 0, 5000, xs, ys, 200);
  const drawn = [...ys.subarray(0, n)];
  assert.equal(Math.max(...drawn.filter(v => v === v)), 9);
  assert.equal(Math.min(...drawn.filter(v => v === v)), -7);
  const holes = Array.from(xs.subarray(0, n)).filter((_, i) => Number.isNaN(drawn[i]));
  assert.ok(holes.length > 0 && Math.min(...holes) >= 1.9 && Math.max(...holes) < 2.1, String(holes));
});

test("percentiles and bounds", () => {
  const counts = new Float64Array(64);
  counts[8] = 99; counts[40] = 1;
  assert.equal(percentile(counts, 0.5), 64 * 2 ** (9 / 4));
  assert.equal(percentile(counts, 0.999), 64 * 2 ** (41 / 4));
  assert.ok(Number.isNaN(percentile(new Float64Array(64), 0.5)));
  assert.deepEqual([0, 1, 2, 3, 4].map(v => lowerBound([1, 1, 3], 3, v)), [0, 0, 2, 2, 3]);
});

test("a page with more spikes than room says how much it keeps", () => {
  const s = store(), each = 60_000;
  // 60,000 spikes per second with room for 2^20: about 17 s at most.
  for (let n = 0; n < 30; n++) {
    s.add(frame(n, n * 1000, 1000, Array.from({ length: each }, (_, i): [number, number] => [n * 1000 + Math.floor(i / 60), i % 8])), false);
    assert.equal(s.cut, (n + 1) * each > 2 ** 20);
    assert.equal(s.keptSeconds < n + 1, s.cut);
  }
  // All that is known is there, from the first tick on that it says.
  assert.equal(s.tick[0], s.first);
  assert.ok(s.spikes >= (s.end - s.first - 1) * 60 && s.spikes <= (s.end - s.first) * 60);
});

test("labels that come after their steps, before them, or before what is filled in are the truth of their ticks", () => {
  const s = store(), estimate = new Float32Array(100).fill(0.5), values = (from: number) => Array.from(s.truth.subarray(from, from + 3), v => Number.isNaN(v) ? null : v);
  s.add(frame(1, 100, 100, [], { estimate, truth: null }), false);
  assert.equal(s.hasTruth, false);
  s.happened({ type: "labels", tick: 199, rows: [[101, [1.5]], [150, [-2]], [200, [7]], [50, [3]], [102, [1, 2]]] });
  assert.equal(s.hasTruth, true);
  assert.deepEqual(values(0), [null, 1.5, null]);
  assert.equal(s.truth[50], -2);
  s.add(frame(2, 200, 100, [], { estimate, truth: null }), false);
  assert.equal(s.truth[100], 7);
  s.fill([frame(0, 0, 100, [], { estimate, truth: null })], 0, 100);
  assert.deepEqual([s.rows, s.truth[50], s.truth[101], s.truth[200]], [300, 3, 1.5, 7]);
  const { r2, rms } = s.accuracy(0, 300);
  assert.ok(Math.abs(rms[0]! - Math.sqrt((2.5 ** 2 + 1 + 2.5 ** 2 + 6.5 ** 2) / 4)) < 1e-6 && r2[0]! < 0);
  // Labels are no incidents, and a page keeps them as long as their steps.
  assert.equal(s.events.length, 0);
  for (let n = 3; n < 700; n++) s.add(frame(n, n * 100, 100, [], { estimate, truth: null }), false);
  s.happened({ type: "labels", tick: 69_999, rows: [[69_990, [1]]] });
  assert.equal((s as unknown as { labels: Map<number, number[]> }).labels.size, 1);
});

test("a target is in force until the next, and a trial that is told is one line", () => {
  const s = store();
  s.add(frame(0, 0, 100, []), false);
  for (const [tick, values] of [[10, [1]], [40, [2]], [60, []], [80, [1, 2]]] as const) s.happened({ type: "target", tick, values });
  assert.deepEqual([5, 10, 39, 40, 59, 60, 99].map(t => s.targetAt(t)), [null, [1], [1], [2], [2], null, null]);
  for (const tick of [50, 20, 50]) s.happened({ type: "trial", tick });
  assert.deepEqual(s.trials, [20, 50]);
});

test("the values of a gate stay with their steps, and are told in words", () => {
  const gate = (factor: (i: number) => number, ticks: number) => ({ more: new Map([[More.Gate as number, new Uint32Array(Float32Array.from({ length: 3 * ticks }, (_, i) => i % 3 === 2 ? factor(i / 3 | 0) : (i % 3 === 1 ? 0.75 : 0.25)).buffer)]]) });
  const s = new Store({ channels: 8, outputs: 1, gate: 3, stepSeconds: 0.001, keepSeconds: 60 }, 0);
  s.add(frame(0, 0, 10, [], gate(i => i / 10, 10)), false);
  s.add(frame(2, 20, 10, [], gate(() => NaN, 10)), true);
  s.add(frame(3, 30, 10), false);
  s.fill([frame(1, 10, 10, [], gate(i => 1 + i / 10, 10))], 10, 20);
  assert.deepEqual([...s.gate.subarray(3 * 15, 3 * 16)], [0.25, 0.75, 1.5]);
  const words = (end: number): string => gateWords(s, end, "move", ["vx", "vy"]);
  assert.equal(words(16), "gate by p(move): vx, vy × 1.50");
  assert.equal(words(25), "gate stands open, channels are gone: vx, vy × 1");
  assert.equal(words(40), "no gate in this step");
  assert.equal(words(0), "no gate in this step");
});
