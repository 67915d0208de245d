import assert from "node:assert/strict";
import { test } from "node:test";
import { BUCKETS, More, bucketBegins } from "../src/link/frame.ts";
import { margin } from "../src/link/alarms.ts";
import { Store, percentile } from "../src/link/store.ts";
import { frame } from "./make.ts";

const shape = { channels: 8, outputs: 1, stepSeconds: 0.01, keepSeconds: 60 };
/** A frame of one second in which every step takes `ns`. */
const second = (at: number, ns: number, steps = 100) => frame(at, at * 100, 100, [], {
  latency: Uint32Array.from({ length: BUCKETS }, (_, b) => bucketBegins(b) <= ns && ns < bucketBegins(b + 1) ? steps : 0),
  more: new Map([[More.Longest, Uint32Array.of(ns)]]),
});

test("steps of a second are shown as such, with their exact maximum, and raise the alarm", () => {
  const s = new Store(shape, 0);
  for (let at = 0; at < 3; at++) s.add(second(at, 6_500_000), false);
  s.add(second(3, 1_074_000_000, 1), false);
  assert.equal(s.recentLongest, 1_074_000_000);
  assert.equal(s.longest, 1_074_000_000);
  const bound = percentile(s.recentLatency(), 0.5);
  assert.ok(bound > 6_500_000 && bound < 6_500_000 * 2 ** 0.25 * 1.001, `${bound}`);
  assert.ok(margin(s, 5_600_000) < 0);
  assert.ok(margin(s, 50_000_000) > 0.8);
});

test("a page that comes late shows the seconds that the server has, each step once", () => {
  const late = new Store(shape, 0), all = new Store(shape, 0);
  for (let at = 0; at < 90; at++) all.add(second(at, at === 70 ? 1_700_000 : 2_000), false);
  late.add(second(89, 2_000), false);
  const ring = (from: number) => Array.from({ length: 90 - from }, (_, k) => from + k).map(at => ({ at, counts: Array.from(second(at, at === 70 ? 1_700_000 : 2_000).latency), longest_ns: at === 70 ? 1_700_000 : 2_000 }));
  late.latencyBefore({ seconds: ring(30), all: Array.from(all.latency), longest_ns: 1_700_000 });
  assert.deepEqual(late.recentLatency(), all.recentLatency());
  assert.deepEqual(late.latencyTrend(0.99), all.latencyTrend(0.99));
  assert.equal(late.recentLongest, 1_700_000);
  assert.deepEqual(late.latency, all.latency);
  // Later steps are added to both.
  for (const s of [late, all]) for (let at = 90; at < 140; at++) s.add(second(at, 3_000), false);
  assert.deepEqual(late.recentLatency(), all.recentLatency());
  assert.equal(late.recentLongest, 3_000);
});

test("a missed deadline counts once on the timeline, whether it comes with its frame or from the server's list", () => {
  const s = new Store(shape, 0);
  s.add(frame(0, 1000, 100, [], { slow: [{ offset: 5, ns: 9_000_000 }] }), false);
  for (const tick of [120, 150, 1005]) s.missed({ tick, ns: 9_000_000 });
  s.sortMisses();
  assert.deepEqual(s.misses.map(m => m.tick), [120, 150, 1005]);
  assert.deepEqual([s.seconds[1]!.misses, s.seconds[10]!.misses], [2, 1]);
});
