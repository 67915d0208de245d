import assert from "node:assert/strict";
import { test } from "node:test";
import { BARS, SECTORS, autocorrelogram, barWidth, directionOf, intervals, rates, timesOf, tuning } from "../src/link/inspect.ts";
import { Store } from "../src/link/store.ts";
import { random } from "./make.ts";

/** Spikes of two channels at (tick, fraction), with a clock of 10 µs if `fine`. */
function store(spikes: [number, number, number][], step = 0.005, fine = true): Store {
  const s = new Store({ channels: 2, outputs: 2, stepSeconds: step, keepSeconds: 60, ...(fine && { tickSeconds: 1e-5 }) }, 0);
  if (fine) s.offset = new Float32Array(s.tick.length);
  spikes.forEach(([tick, offset, channel], i) => { s.tick[i] = tick; if (s.offset) s.offset[i] = offset; s.channel[i] = channel; s.weight[i] = 1; });
  s.spikes = spikes.length;
  s.end = 4000;
  return s;
}

test("intervals and autocorrelogram are those of a plain loop over the times", () => {
  const next = random(4), all: [number, number, number][] = [];
  for (let i = 0; i < 2000; i++) all.push([Math.floor(next() * 4000), Math.fround(Math.floor(next() * 500) / 500), i % 2]);
  all.sort((a, b) => a[0] + a[1] - b[0] - b[1]);
  const s = store(all), times = timesOf(s, 1, [0, 4000]), width = barWidth(s);
  assert.equal(width, 0.0005);
  // In whole ticks of 10 µs: 500 per step, 50 per bar.
  const exact = all.filter(a => a[2] === 1).map(([t, f]) => t * 500 + Math.round(f * 500)), isi = new Float64Array(BARS), acg = new Float64Array(BARS), possible = new Float64Array(BARS);
  let beyond = 0;
  exact.forEach((t, i) => {
    if (i > 0) { const b = Math.floor((t - exact[i - 1]!) / 50); if (b < BARS) isi[b]!++; else beyond++; }
    for (let b = 0; b < BARS; b++) {
      if (t + (b + 1) * 50 > 4000 * 500) continue;
      possible[b]!++;
      for (let j = i + 1; j < exact.length; j++) if (Math.floor((exact[j]! - t) / 50) === b) acg[b]!++;
    }
  });
  const found = intervals(s, times);
  assert.deepEqual(found.values, isi);
  assert.equal(found.beyond, beyond);
  autocorrelogram(s, times, [0, 4000]).values.forEach((v, b) => assert.ok(Math.abs(v - acg[b]! / possible[b]! / width) < 1e-9, `bar ${b}`));
});

test("the autocorrelogram of a steady rate does not fall towards the end of a short span, or before unknown time", () => {
  // 20 spikes per second by chance, in 60 ms stretches of known time: each bar reaches far into the span.
  const next = random(9), s = store([], 0.001, false), width = barWidth(s);
  let n = 0;
  for (let t = 0; t < 4000; t++) if (next() < 0.2 && t % 80 < 60) { s.tick[n] = t; s.channel[n] = 0; s.weight[n++] = 1; }
  s.spikes = n;
  s.holes = Array.from({ length: 50 }, (_, k) => ({ from: k * 80 + 60, to: k * 80 + 80, fillable: false }));
  const found = autocorrelogram(s, timesOf(s, 0, [0, 4000]), [0, 4000]).values;
  assert.equal(width, 0.001);
  for (const [from, to] of [[1, 20], [20, 40], [40, 58]] as const) {
    const mean = found.slice(from, to).reduce((a, b) => a + b, 0) / (to - from);
    assert.ok(Math.abs(mean - 200) < 25, `bars ${from} to ${to}: ${mean}`);
  }
  assert.ok(Number.isNaN(found[70]!));
});

test("bars are never finer than the time that is known", () => {
  assert.equal(barWidth(store([], 0.005, false)), 0.005);
  assert.equal(barWidth(store([], 0.0001, false)), 0.0005);
});

test("an interval across unknown time is none, and unknown time has no rate", () => {
  const s = store([[10, 0, 0], [20, 0, 0], [30, 0, 0], [40, 0, 0]], 0.005, false);
  s.holes = [{ from: 22, to: 28, fillable: false }];
  const times = timesOf(s, 0, [0, 60]), found = intervals(s, times);
  assert.equal(found.values[10], 2);
  assert.equal(found.values.reduce((a, b) => a + b, 0) + found.beyond, 2);
  const rate = rates(s, times, [0, 60]).values;
  assert.equal(rate[10], 200);
  assert.ok(Number.isNaN(rate[25]!));
  assert.equal(rate[50], 0);
});

test("a channel that fires in one direction is tuned to it", () => {
  const spikes: [number, number, number][] = [], s = store([], 0.01, false);
  for (let i = 0; i < 800; i++) {
    const angle = 2 * Math.PI * (i % SECTORS) / SECTORS;
    s.rowTick[i] = i; s.truth[2 * i] = Math.cos(angle); s.truth[2 * i + 1] = Math.sin(angle);
    if (i % SECTORS === 3 || i % 80 === 0) spikes.push([i, 0, 0]);
  }
  s.rows = 800; s.hasTruth = true;
  spikes.forEach(([t], i) => { s.tick[i] = t; s.channel[i] = 0; s.weight[i] = 1; });
  s.spikes = spikes.length;
  const found = tuning(s, timesOf(s, 0, [0, 800]), [0, 800])!;
  assert.deepEqual(found.map(v => Math.round(v.rate)), [10, 0, 0, 100, 0, 0, 0, 0]);
  assert.deepEqual(found.map(v => v.steps), Array(SECTORS).fill(100));
  // 10 of 100 steps with a spike: √(0.1 · 0.9 / 99) spikes per step of 10 ms.
  assert.ok(Math.abs(found[0]!.error - Math.sqrt(0.09 / 99) / 0.01) < 1e-9);
  assert.equal(found[3]!.error, 0);
  s.hasTruth = false;
  assert.equal(tuning(s, [], [0, 800]), null);
});

test("a channel is tuned to a velocity where there is one, else to the first two outputs", () => {
  const output = (name: string, unit: string) => ({ name, unit });
  assert.deepEqual(directionOf([output("x", "mm"), output("y", "mm"), output("vx", "mm/s"), output("vy", "mm/s")]), [2, 3]);
  assert.deepEqual(directionOf([output("x", "mm"), output("y", "mm")]), [0, 1]);
  assert.deepEqual(directionOf([output("x", "cm"), output("speed", "cm/s")]), [0, 1]);
});
