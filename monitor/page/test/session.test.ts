import assert from "node:assert/strict";
import { test } from "node:test";
import { clock } from "../src/draw/format.ts";
import { passedFacts, slotsIn, verdictAt } from "../src/link/passed.ts";
import { meanR2, verdictWords, type Slot, type Verdict } from "../src/link/session.ts";
import { Store } from "../src/link/store.ts";
import { frame } from "./make.ts";

const slot = (at: number, more: Partial<Slot> = {}): Slot => ({ at, seconds: 1, steps: 100, spikes: 50, misses: 0, lost: 0, late: 0, unknown: 0, not_shown: 0, flags: { clamped: 0, out_of_range: 0, blanked: 0, non_finite: 0, held: 0 }, computing: null, arrival: null, r2: [0.8, null, 0.6], silent: [], noisy: [], masked: 0, model: "0", ...more });

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
  // Spikes and misses of these seconds that come later are in the server's numbers already; a newer second is counted here.
  s.fill([frame(1, 9_000, 50, [[9_010, 1], [9_020, 1]])], 9_000, 9_050);
  s.missed({ tick: 9_015, ns: 900 });
  assert.deepEqual(s.seconds[90], { spikes: 7, misses: 0, r2: 0.7 });
  assert.equal(s.misses.length, 1);
  s.add(frame(2, 9_100, 10, [[9_105, 1]]), false);
  s.missed({ tick: 9_105, ns: 900 });
  assert.deepEqual([s.seconds[91]!.spikes, s.seconds[91]!.misses], [1, 1]);
});

test("a verdict says since when", () => {
  const of = (level: Verdict["level"], words: string): string => verdictWords({ level, words, since: 60, causes: [], r2: null, trained_r2: null }, clock);
  assert.equal(of("good", "Decoder good: 0.80 (trained: 0.81)"), "Decoder good: 0.80 (trained: 0.81)");
  assert.equal(of("bad", "7 channels silent"), "Bad since 1:00: 7 channels silent");
  assert.equal(of("watch", "3 channels away"), "Watch since 1:00: 3 channels away");
});

test("a file tells what the server counted in the seconds of its moment, and nothing of another time", () => {
  const computing = (p50_ns: number, p99_ns: number, longest_ns: number) => ({ p50_ns, p99_ns, longest_ns });
  const slots = [slot(0, { seconds: 60, misses: 9 }), slot(60, { misses: 1, computing: computing(1000, 2000, 2500), silent: [1], model: "aa" }),
    slot(61, { misses: 2, computing: computing(900, 4000, 4100), arrival: { p50_us: 150, p99_us: 180, max_us: 1234 }, silent: [0, 1], noisy: [2], masked: 1, model: "bb", flags: { clamped: 3, out_of_range: 0, blanked: 0, non_finite: 0, held: 0 } }), slot(62, { misses: 100 })];
  assert.deepEqual(slotsIn(slots, 60.5, 61.5).map(s => s.at), [60, 61]);
  assert.deepEqual(slotsIn(slots, 60, 61).map(s => s.at), [60]);
  const verdict: Verdict = { level: "bad", words: "2 channels silent", since: 61, causes: [], r2: null, trained_r2: null }, past = [{ from: 10, to: 61, level: "good" as const, words: "Decoder good: 0.80" }];
  const facts = new Map(passedFacts({ slots, verdict, past }, [60.5, 61.5], { channels: ["a", "b", "c"], outputs: ["x", "y", "z"] }, 5e3));
  assert.equal(facts.get("computing a step, 1:00 to 1:02"), "p50 ≤ 1 µs, p99 ≤ 4 µs in every second, max 4.1 µs; deadline 5 µs");
  assert.match(facts.get("from arrival to output, 1:00 to 1:02")!, /max 1.2 ms$/);
  assert.match(facts.get("counts, 1:00 to 1:02")!, /^200 steps, 100 spikes, 3 deadlines missed/);
  assert.equal(facts.get("flagged steps, 1:00 to 1:02"), "3 clamped");
  assert.equal(facts.get("channels, 1:00 to 1:02"), "silent: a, b; noisy: c; masked: 1 of 3");
  assert.equal(facts.get("model, 1:00 to 1:02"), "checksum aa, then bb");
  assert.equal(facts.get("R², half a minute up to 1:02"), "x 0.800, z 0.600");
  assert.equal(facts.get("verdict at 1:02"), "Bad since 1:01: 2 channels silent");
  assert.equal(verdictAt({ verdict, past }, 30), "good, 0:10 to 1:01: Decoder good: 0.80");
  assert.equal(verdictAt({ verdict, past }, 3), null);
  assert.deepEqual(passedFacts({ slots, verdict, past }, [500, 501], { channels: [], outputs: [] }, null), [["history", "the server has no whole second of this time"]]);
});
