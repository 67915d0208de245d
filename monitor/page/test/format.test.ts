import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, clock, length, ticks, timeLabel, timeTicks, withoutCommon } from "../src/draw/format.ts";

test("a clock never reads sixty seconds", () => {
  assert.equal(clock(59.96, 1), "1:00.0");
  assert.equal(clock(59.94, 1), "0:59.9");
  assert.equal(clock(3599.999, 2), "1:00:00.00");
  assert.equal(clock(754.2, 1), "12:34.2");
  assert.equal(clock(7, 0), "0:07");
  for (let t = 0; t < 7300; t += 0.037) assert.ok(!clock(t, 1).includes(":60"), clock(t, 1));
});

test("every label of an axis is the time it stands at", () => {
  assert.equal(timeLabel(12.5, 2.5), "12.5 s");
  assert.equal(timeLabel(59.99, 0.1), "1:00.0");
  for (const step of [0.001, 0.005, 0.02, 0.05, 0.25, 0.5, 1, 2, 2.5, 5, 10]) for (let k = 0; k * step < 200; k += Math.max(1, Math.floor(7 / step))) {
    const words = timeLabel(k * step, step), parts = words.replace(" s", "").split(":").map(Number), read = parts.length === 1 ? parts[0]! : parts[0]! * 60 + parts[1]!;
    assert.ok(Math.abs(read - k * step) < 1e-6, `${words} at ${k * step} by ${step}`);
  }
  assert.deepEqual(ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
});

test("an axis that begins before the start labels no time there", () => {
  assert.deepEqual(timeTicks(-4.2, 5.8, 5), [{ at: 0, words: "0 s" }, { at: 2, words: "2 s" }, { at: 4, words: "4 s" }]);
  assert.deepEqual(timeTicks(-0.9, 0.1, 4), [{ at: 0, words: "0.0 s" }]);
  assert.deepEqual(timeTicks(12.4, 15.2, 3).map(t => t.words), ["13 s", "14 s", "15 s"]);
});

test("an axis of minutes or hours has round times", () => {
  assert.deepEqual(timeTicks(0, 300, 6).map(t => t.words), ["0 s", "1:00", "2:00", "3:00", "4:00", "5:00"]);
  assert.deepEqual(timeTicks(3000, 3 * 3600, 8).map(t => t.words), ["1:00:00", "1:30:00", "2:00:00", "2:30:00", "3:00:00"]);
  for (const [from, to, most] of [[0, 784.7, 9], [100, 4000, 12], [0, 7 * 86_400, 10], [59, 1e6, 5]] as const) {
    const all = timeTicks(from, to, most);
    assert.ok(all.length > 1 && all.length <= most + 1, `${all.length} of ${most}`);
    for (const { at, words } of all) { const parts = words.replace(" s", "").split(":").map(Number); assert.equal(parts.reduce((sum, p) => sum * 60 + p, 0), at, words); assert.equal(at % 30, 0); }
  }
});

test("a bin's length is in seconds from one second on", () => {
  assert.deepEqual([0.0005, 0.08, 0.9996, 1, 15.4].map(length), ["0.5 ms", "80 ms", "1000 ms", "1 s", "15.4 s"]);
});

test("sizes have a unit of a power of a thousand", () => {
  assert.deepEqual([0, 12_340, 999_949, 12_345_678, 3_210_000_000].map(bytes), ["0.0 kB", "12.3 kB", "999.9 kB", "12.3 MB", "3.21 GB"]);
});

test("names lose what all have in common, and no digits", () => {
  assert.deepEqual(withoutCommon(["sub-01_array-M1_unit10", "sub-01_array-M1_unit12"]), ["10", "12"]);
  assert.deepEqual(withoutCommon(["electrode 1, shank A (uV)", "electrode 23, shank A (uV)"]), ["1", "23"]);
  assert.deepEqual(withoutCommon(["ch0", "ch1", "ch10"]), ["ch0", "ch1", "ch10"]);
  assert.deepEqual(withoutCommon(["recording", "recording 2"]), ["recording", "recording 2"]);
  assert.deepEqual(withoutCommon(["alone in here"]), ["alone in here"]);
});
