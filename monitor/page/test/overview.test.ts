import assert from "node:assert/strict";
import { test } from "node:test";
import { More } from "../src/link/frame.ts";
import { overviewStore, planOf } from "../src/link/overview.ts";
import { Cells, type Picture } from "../src/draw/raster.ts";
import { RateBars } from "../src/draw/rate.ts";
import { Store } from "../src/link/store.ts";
import { reduce } from "../src/draw/reduce.ts";
import { frame, random } from "./make.ts";

const base: Picture = { end: 0, window: 100, from: 0, to: 4, order: null, sweep: false, ink: [0, 0, 0], paper: [0, 0, 0], dim: [0, 0, 0] };
const STEPS = 5000, CELL = 16, CHANNELS = 4;

/** A recording, and its overview as the server counts it: monitor/tests/page/parts.rs compares that with a plain loop. */
function recording(most: number): { all: [number, number][]; s: Store } {
  const next = random(11), all: [number, number][] = Array.from({ length: most }, () => [Math.floor(next() * next() * STEPS), Math.floor(next() * CHANNELS)]);
  const columns = Math.ceil(STEPS / CELL), density = new Uint32Array(5 + columns * CHANNELS), estimate = new Float32Array(2 * columns).map((_, i) => i);
  density.set([0, CHANNELS, CHANNELS, columns, CELL]);
  for (const [t, c] of all) density[5 + Math.floor(t / CELL) * CHANNELS + c]!++;
  const f = frame(0, 0, columns * CELL, [], { estimate, truth: new Float32Array(0), more: new Map([[More.Density as number, density]]) });
  return { all, s: overviewStore(f, { channels: CHANNELS, outputs: 1, stepSeconds: 0.01 }, STEPS) };
}

test("every cell of an overview is a column of the picture, with the spikes of a plain loop", () => {
  for (const most of [3000, 400_000]) {
    const { all, s } = recording(most), cells = new Cells();
    assert.equal(s.end, STEPS);
    assert.ok(most < 10_000 ? s.unit === 1 : s.unit > 1);
    for (const [end, window] of [[STEPS - STEPS % CELL, 3200], [1600, 1600], [960, 320]] as const) {
      cells.update(s, { ...base, end, window }, 700, 4);
      assert.equal(cells.columns, window / CELL);
      let top = 0;
      for (let column = 0; column < cells.columns; column++) for (let c = 0; c < CHANNELS; c++) {
        const from = end - window + column * CELL, n = all.filter(a => a[1] === c && a[0] >= from && a[0] < from + CELL).length;
        top = Math.max(top, n);
        const at = ((from / CELL) % cells.columns + cells.columns) % cells.columns;
        assert.equal(cells.counts[at * cells.rows + c], Math.min(255, Math.ceil(n / s.unit)), `${end} ${column} ${c}`);
      }
      // The legend's greatest number, and the size of a cell.
      assert.equal(cells.most, top);
      assert.deepEqual(cells.size, [CELL * 0.01, 1]);
      const bars = new RateBars(), p = { ...base, end, window };
      bars.update(s, p, 33);
      assert.equal(bars.per % CELL, 0);
      const [first, last] = bars.span;
      for (let b = first; b <= last; b++) assert.equal(bars.sum(b), all.filter(a => Math.floor(a[0] / bars.per) === b && a[0] < end).length);
    }
  }
});

test("what is loaded holds the view, every spike by itself unless there are too many", () => {
  const whole = { steps: 200_000, stepSeconds: 0.005, seconds: new Array<number>(1000).fill(500), keepSeconds: 60, columns: 1400 };
  assert.equal(planOf({ ...whole, begin: 1000, end: 3000 }).cell, 0);
  assert.equal(planOf({ ...whole, begin: 0, end: 12_000 }).cell, 0);
  for (const [begin, end] of [[0, 200_000], [50_000, 70_000], [0, 12_001]] as const) {
    const plan = planOf({ ...whole, begin, end });
    assert.ok(plan.cell > 0 && Number.isInteger(Math.log2(plan.cell)));
    assert.ok((end - begin) / plan.cell <= 1400, "a cell is at least a pixel wide");
    assert.ok(plan.from <= begin && plan.to >= end && plan.from % plan.cell === 0);
    assert.ok((plan.to - plan.from) / plan.cell <= 8192, "as many columns as the server gives");
  }
  // So many spikes that a minute does not fit: less around the view, and cells only where the view alone is too much.
  const dense = { ...whole, seconds: new Array<number>(1000).fill(300_000) };
  assert.equal(planOf({ ...dense, begin: 1000, end: 1400 }).cell, 0);
  assert.ok(planOf({ ...dense, begin: 1000, end: 13_000 }).cell > 0);
});

test("milliseconds: spikes lie in the column of their own time, and only those in view are counted", () => {
  const next = random(5), s = new Store({ channels: CHANNELS, outputs: 1, stepSeconds: 0.005, keepSeconds: 60, tickSeconds: 1e-5 }, 0), cells = new Cells();
  const times = Array.from({ length: 400 }, () => Math.floor(next() * 500 * 40)).sort((a, b) => a - b);
  s.offset = new Float32Array(s.tick.length);
  times.forEach((t, i) => { s.tick[i] = Math.floor(t / 500); s.offset![i] = (t % 500) / 500; s.channel[i] = i % CHANNELS; s.weight[i] = 1; });
  s.spikes = times.length; s.end = 40;
  for (const [end, window] of [[20.5, 0.4], [33.3, 2.5], [10, 10], [12.25, 0.2]] as const) {
    cells.update(s, { ...base, end, window }, 100, CHANNELS);
    const expected = new Float64Array(100);
    times.forEach(t => { const when = Math.floor(t / 500) + Math.fround((t % 500) / 500); if (when >= (Math.ceil(end * 100 / window) - 100) * window / 100 && when < end) expected[((Math.floor(when * 100 / window) % 100) + 100) % 100]!++; });
    assert.deepEqual(Float64Array.from(cells.sums), expected, `${window} steps up to ${end}`);
  }
});

test("few steps are drawn each at its own time", () => {
  const s = new Store({ channels: 8, outputs: 1, stepSeconds: 0.005, keepSeconds: 60 }, 0);
  s.add(frame(0, 0, 20, [], { estimate: Float32Array.from({ length: 20 }, (_, i) => i * i) }), false);
  const xs = new Float64Array(1400), ys = new Float64Array(1400), n = reduce(s, s.estimate, 0, 5.5, 8.25, xs, ys, 700);
  assert.deepEqual([...ys.subarray(0, n)], [25, 36, 49, 64, 81]);
  assert.deepEqual([...xs.subarray(0, n)].map(x => Math.round(x * 1000)), [25, 30, 35, 40, 45]);
});

test("a legend's ink is the ink that is drawn: more spikes, more ink, none for none", () => {
  const { s } = recording(20_000), cells = new Cells();
  cells.update(s, { ...base, end: 3200, window: 3200 }, 700, 4);
  const ink = cells.ink();
  assert.equal(ink.of(0), 0);
  for (let n = 1; n < 200; n++) assert.ok(ink.of(n + 1) > ink.of(n) && ink.of(n) < 1);
  // As the shader has it.
  const v = 3, a = ink.least + (1 - ink.least) * v / (v + 0.6 * ink.per);
  assert.ok(Math.abs(ink.of(v) - a) < 1e-12);
});
