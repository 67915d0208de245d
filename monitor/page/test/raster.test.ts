import assert from "node:assert/strict";
import { test } from "node:test";
import { Cells, type Picture } from "../src/draw/raster.ts";
import { Store } from "../src/link/store.ts";
import { frame, random } from "./make.ts";

const CHANNELS = 8;
const base: Picture = { end: 0, window: 100, from: 0, to: CHANNELS, order: null, sweep: false, ink: [0, 0, 0], paper: [0, 0, 0], dim: [0, 0, 0] };

/** Expected cells: every spike counted by itself. */
function naive(s: Store, p: Picture, columns: number, height: number): { counts: number[][]; state: number[] } {
  const shown = p.to - p.from, rows = Math.min(shown, height), last = Math.ceil(p.end * columns / p.window);
  const counts = Array.from({ length: columns }, () => new Array<number>(rows).fill(0)), state = new Array<number>(columns).fill(0);
  const wide = Math.max(1, Math.floor(columns / p.window * 0.7));
  for (let c = last - columns; c < last; c++) for (let t = Math.max(s.first, 0); t < p.end; t++) {
    const from = Math.floor(t * columns / p.window), to = Math.ceil((t + 1) * columns / p.window);
    if (c < from || c >= to) continue;
    const hole = s.holes.some(h => t >= h.from && t < h.to), at = ((c % columns) + columns) % columns;
    state[at] = hole ? 2 : Math.max(state[at]!, 1);
  }
  for (let i = 0; i < s.spikes; i++) {
    const t = s.tick[i]!, place = (p.order ? p.order[s.channel[i]!]! : s.channel[i]!) - p.from;
    if (t >= p.end || place < 0 || place >= shown) continue;
    for (let k = 0; k < wide; k++) {
      const c = Math.floor(t * columns / p.window) + k;
      if (c < last - columns || c >= last || t < (last - columns) * p.window / columns) continue;
      counts[((c % columns) + columns) % columns]![Math.floor(place * rows / shown)]!++;
    }
  }
  return { counts, state };
}

function same(cells: Cells, s: Store, p: Picture, columns: number, height: number, words: string): void {
  const expected = naive(s, p, columns, height);
  const got = Array.from({ length: columns }, (_, c) => Array.from(cells.counts.subarray(c * cells.rows, (c + 1) * cells.rows)));
  assert.deepEqual(got, expected.counts, words);
  assert.deepEqual(Array.from(cells.state), expected.state, `${words}: state`);
}

for (const [columns, height, window] of [[50, 8, 100], [50, 3, 100], [37, 8, 100], [100, 8, 100], [300, 8, 100], [64, 5, 1000]] as const) {
  test(`${columns} columns of ${window} ticks, ${height} rows: as counted one by one, as time goes on`, () => {
    const next = random(columns * height), s = new Store({ channels: CHANNELS, outputs: 1, stepSeconds: 0.001, keepSeconds: 60 }, 0), cells = new Cells();
    let tick = 20;
    for (let n = 0; n < 60; n++) {
      const ticks = 1 + Math.floor(next() * 23);
      if (n === 30) tick += 17; // a hole
      s.add(frame(n, tick, ticks, Array.from({ length: Math.floor(next() * 12) }, () => [tick + Math.floor(next() * ticks), Math.floor(next() * CHANNELS)])), n === 30);
      tick += ticks;
      const p = { ...base, end: s.end, window };
      cells.update(s, p, columns, height);
      same(cells, s, p, columns, height, `frame ${n}`);
    }
    for (const change of [{ from: 2, to: 5 }, { order: Uint32Array.from([7, 6, 5, 4, 3, 2, 1, 0]) }, { end: s.end - 13 }]) {
      const p = { ...base, end: s.end, window, ...change };
      cells.update(s, p, columns, height);
      same(cells, s, p, columns, height, JSON.stringify(change));
    }
  });
}

test("what changed is a part, and all of it is in the part", () => {
  const s = new Store({ channels: CHANNELS, outputs: 1, stepSeconds: 0.001, keepSeconds: 60 }, 0), cells = new Cells();
  s.add(frame(0, 0, 200, [[150, 1]]), false);
  assert.equal(cells.update(s, { ...base, end: 200 }, 50, 8), null);
  const before = cells.counts.slice();
  s.add(frame(1, 200, 10, [[200, 3], [209, 4]]), false);
  const changed = cells.update(s, { ...base, end: 210 }, 50, 8)!;
  assert.ok(changed[1] - changed[0] < 8);
  for (let c = 0; c < 50; c++) {
    const inside = Array.from({ length: changed[1] - changed[0] + 1 }, (_, i) => (changed[0] + i) % 50).includes(c);
    if (!inside) assert.deepEqual(cells.counts.subarray(c * 8, c * 8 + 8), before.subarray(c * 8, c * 8 + 8), `column ${c}`);
  }
});

test("counts of bins are colours on a scale on which 1 and 16 differ; single spikes are ink", () => {
  const store = (stepSeconds: number) => new Store({ channels: CHANNELS, outputs: 1, stepSeconds, keepSeconds: 600 }, 0);
  const cells = new Cells(), binned = store(0.1), sixteen: [number, number][] = Array.from({ length: 16 }, () => [5, 2]);
  binned.add(frame(0, 0, 10, [[3, 1], ...sixteen]), false);
  assert.equal(binned.binned, true);
  cells.update(binned, { ...base, end: 10, window: 10 }, 10, 8);
  const heat = cells.heat()!;
  assert.equal(heat.top, 16);
  assert.ok(heat.of(16) === 1 && heat.of(1) < 0.3 && heat.of(1) > 0.1, String(heat.of(1)));
  // The scale stays while counts of its power of two come, and follows those above.
  binned.add(frame(1, 10, 10, Array.from({ length: 9 }, () => [12, 0])), false);
  cells.update(binned, { ...base, end: 20, window: 10 }, 10, 8);
  assert.equal(cells.heat()!.top, 16);
  binned.add(frame(2, 20, 10, Array.from({ length: 17 }, () => [22, 0])), false);
  cells.update(binned, { ...base, end: 30, window: 10 }, 10, 8);
  assert.equal(cells.heat()!.top, 32);
  // Steps of a millisecond hold single spikes, also two of a channel; so do bins that never hold more.
  const fine = store(0.001);
  fine.add(frame(0, 0, 10, sixteen), false);
  cells.update(fine, { ...base, end: 10, window: 10 }, 10, 8);
  assert.equal(cells.heat(), null);
  const single = store(0.1);
  single.add(frame(0, 0, 10, [[3, 1], [4, 1], [4, 2]]), false);
  cells.update(single, { ...base, end: 10, window: 10 }, 10, 8);
  assert.equal(cells.heat(), null);
});
