import assert from "node:assert/strict";
import { test } from "node:test";
import { alarms, arrow, margin, trend } from "../src/link/alarms.ts";
import { Store, percentile, type Second } from "../src/link/store.ts";

const store = (): Store => new Store({ channels: 2, outputs: 1, stepSeconds: 0.01, keepSeconds: 60 }, 0);
const seconds = (r2: number[]): Second[] => r2.map(v => ({ spikes: 0, misses: 0, r2: v }));
/** `count` steps of one bucket of latency in one second. */
const latency = (s: Store, second: number, bucket: number, count: number): void => {
  const all = new Uint32Array(64);
  all[bucket] = count;
  (s as unknown as { addLatency(f: object, first: number): void }).addLatency({ latency: all, more: new Map() }, second * 100);
};

test("a quiet session raises no alarm", () => {
  const s = store();
  s.end = 6000;
  latency(s, 0, 4, 100);
  s.seconds = seconds(Array(60).fill(0.8));
  assert.deepEqual(alarms(s, 1e6), []);
});

test("misses of the last minute are counted, older ones are not", () => {
  const s = store();
  s.end = 12_000;
  s.misses = [{ tick: 5999, ns: 1 }, { tick: 6000, ns: 1 }, { tick: 11_999, ns: 1 }];
  assert.deepEqual(alarms(s, null), [{ kind: "bad", words: "2 deadlines missed in the last minute" }]);
  s.misses.pop();
  assert.equal(alarms(s, null)[0]!.words, "1 deadline missed in the last minute");
});

test("an R² that falls is said with both values; a trend needs both", () => {
  const s = store();
  s.seconds = seconds([...Array(30).fill(0.8), ...Array(31).fill(0.5)]);
  assert.deepEqual(trend(s.seconds), { now: 0.5, before: 0.5 });
  s.seconds = seconds([...Array(31).fill(0.8), ...Array(30).fill(0.5)]);
  assert.equal(alarms(s, null)[0]!.words, "R² fell from 0.80 to 0.50 within 30 s");
  assert.equal(arrow(trend(s.seconds)), "↘");
  assert.equal(arrow({ now: 0.81, before: 0.8 }), "→");
  assert.equal(arrow({ now: 0.9, before: 0.8 }), "↗");
  s.seconds = seconds([0.8, 0.1]);
  assert.equal(arrow(trend(s.seconds)), "");
  assert.deepEqual(alarms(s, null), []);
});

test("the margin is what the slowest hundredth leaves of the deadline", () => {
  const s = store();
  latency(s, 0, 8, 98);
  latency(s, 0, 20, 2);
  const all = s.recentLatency();
  assert.equal(margin(s, 1e6), 1 - percentile(all, 0.99) / 1e6);
  assert.ok(Number.isNaN(margin(s, null)));
  assert.match(alarms(s, percentile(all, 0.99) * 1.1)[0]!.words, /^1 % of the steps take more than 91 % of the deadline$/);
  assert.match(alarms(s, percentile(all, 0.99) / 2)[0]!.words, /as long as the deadline/);
});

test("time that did not reach the page is an alarm while it is in the last minute", () => {
  const s = store();
  s.end = 6000;
  s.holes = [{ from: 100, to: 220, fillable: false }];
  assert.equal(alarms(s, null)[0]!.words, "1.2 s of the last minute did not reach this page");
  s.first = s.end = 7000;
  assert.deepEqual(alarms(s, null), []);
});

test("latency of every second, and none where no step was taken", () => {
  const s = store();
  latency(s, 0, 4, 10);
  latency(s, 2, 12, 10);
  const trend = s.latencyTrend(0.5);
  assert.equal(trend.length, 60);
  assert.deepEqual(trend.slice(57), [64 * 2 ** (5 / 4), NaN, 64 * 2 ** (13 / 4)]);
  assert.ok(trend.slice(0, 57).every(v => Number.isNaN(v)));
});

test("the error of an output is the root of its mean square, in its unit", () => {
  const s = store();
  const truth = [1, 2, 3, 4, NaN], decoded = [1.5, 2, 2, 4, 9];
  s.rows = 5;
  truth.forEach((t, i) => { s.rowTick[i] = i; s.truth[i] = t; s.estimate[i] = decoded[i]!; });
  const { r2, rms } = s.accuracy(0, 5);
  assert.ok(Math.abs(rms[0]! - Math.sqrt((0.25 + 1) / 4)) < 1e-6);
  assert.ok(Math.abs(r2[0]! - (1 - 1.25 / 5)) < 1e-6);
});
