import assert from "node:assert/strict";
import { test } from "node:test";
import { RateBars } from "../src/draw/rate.ts";
import { Store } from "../src/link/store.ts";
import type { Picture } from "../src/draw/raster.ts";
import { frame, random } from "./make.ts";

const base: Picture = { end: 0, window: 100, from: 0, to: 8, order: null, sweep: false, ink: [0, 0, 0], paper: [0, 0, 0], dim: [0, 0, 0] };

for (const [window, most, from, to] of [[100, 300, 0, 8], [100, 33, 0, 8], [1000, 64, 2, 5], [97, 10, 0, 8]] as const) {
  test(`bars of ${window} ticks, at most ${most}: each holds whole steps, as counted one by one`, () => {
    const next = random(window + most), s = new Store({ channels: 8, outputs: 1, stepSeconds: 0.1, keepSeconds: 600 }, 0), bars = new RateBars();
    for (let n = 0, tick = 0; n < 60; n++) {
      const ticks = 1 + Math.floor(next() * 40);
      s.add(frame(n, tick, ticks, Array.from({ length: Math.floor(next() * 30) }, () => [tick + Math.floor(next() * ticks), Math.floor(next() * 8)])), false);
      tick += ticks;
      const p = { ...base, end: s.end, window, from, to };
      bars.update(s, p, most);
      const [first, last] = bars.span, per = bars.per;
      assert.ok(last - first + 1 <= most + 2);
      assert.ok(first * per <= p.end - window && (last + 1) * per >= p.end);
      let top = 0;
      for (let b = first; b <= last; b++) {
        let sum = 0;
        for (let i = 0; i < s.spikes; i++) if (Math.floor(s.tick[i]! / per) === b && s.channel[i]! >= from && s.channel[i]! < to) sum += s.weight[i]!;
        assert.equal(bars.sum(b), sum, `bar ${b} of frame ${n}`);
        if ((b + 1) * per <= p.end) top = Math.max(top, sum);
      }
      assert.equal(bars.most, top);
    }
  });
}

test("no bar exceeds the busiest bin of the file, however wide the panel", () => {
  const s = new Store({ channels: 8, outputs: 1, stepSeconds: 0.1, keepSeconds: 60 }, 0), counts = Array.from({ length: 200 }, (_, t) => (t * 7) % 23);
  s.add(frame(0, 0, 200, counts.flatMap((n, t) => Array.from({ length: n }, (_, k): [number, number] => [t, k % 8]))), false);
  for (let columns = 40; columns < 2000; columns += 37) {
    const bars = new RateBars();
    bars.update(s, { ...base, end: 200, window: 100 }, Math.floor(columns / 3));
    assert.ok(bars.most / bars.per <= 22, `${columns} columns`);
    if (columns >= 300) assert.equal(bars.most, 22);
  }
});
