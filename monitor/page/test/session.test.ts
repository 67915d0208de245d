import assert from "node:assert/strict";
import { test } from "node:test";
import { clock } from "../src/draw/format.ts";
import { meanR2, verdictWords, type Slot, type Verdict } from "../src/link/session.ts";
import { Store } from "../src/link/store.ts";
import { frame } from "./make.ts";

const slot = (at: number, more: Partial<Slot> = {}): Slot => ({ at, seconds: 1, steps: 100, spikes: 50, misses: 0, lost: 0, late: 0, unknown: 0, not_shown: 0, computing: null, arrival: null, r2: [0.8, null, 0.6], silent: [], noisy: [], masked: 0, model: "0", ...more });

test("seconds of the server replace what arrived here, and those of before are there, too", () => {
  const s = new Store({ channels: 2, outputs: 1, stepSeconds: 0.01, keepSeconds: 60 }, 0);
  // This page came in the middle of the second 90.
  s.add(frame(0, 9_050, 50, [[9_060, 1], [9_070, 0]]), false);
  assert.equal(s.seconds[90]!.spikes, 2);
  for (const one of [slot(0, { seconds: 60, spikes: 1200, misses: 3 }), slot(60, { seconds: 10, r2: [null] }), slot(90, { spikes: 7 })]) s.slot(one);
  assert.deepEqual(s.seconds[0], { spikes: 20, misses: 3, r2: 0.7 });
  assert.deepEqual(s.seconds[59], { spikes: 20, misses: 0, r2: 0.7 });
  assert.equal(s.seconds[60]!.spikes, 5);
  assert.ok(Number.isNaN(s.seconds[60]!.r2) && Number.isNaN(s.seconds[80]!.r2));
  assert.deepEqual(s.seconds[90], { spikes: 7, misses: 0, r2: 0.7 });
  assert.equal(s.seconds.reduce((n, x) => n + x.spikes, 0), 1200 + 50 + 7);
  assert.ok(Number.isNaN(meanR2({ r2: [] })));
});

test("a verdict says since when", () => {
  const of = (level: Verdict["level"], words: string): string => verdictWords({ level, words, since: 60, causes: [], r2: null, trained_r2: null }, clock);
  assert.equal(of("good", "Decoder good: 0.80 (trained: 0.81)"), "Decoder good: 0.80 (trained: 0.81)");
  assert.equal(of("bad", "7 channels silent"), "Bad since 1:00: 7 channels silent");
  assert.equal(of("watch", "3 channels away"), "Watch since 1:00: 3 channels away");
});
