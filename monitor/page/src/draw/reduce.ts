// Reduces any number of rows to lines of a few hundred points.
import { lowerBound, type Store } from "../link/store.ts";

/** Columns of a line: two points each. */
export const POINTS = 700;

/** Least and greatest value of every column of `store`'s rows in [from, to), NaN where a column has none. */
export function reduce(s: Store, values: Float32Array, k: number, from: number, to: number, xs: Float64Array, ys: Float64Array, most = POINTS): number {
  const o = s.shape.outputs, a = lowerBound(s.rowTick, s.rows, from), b = lowerBound(s.rowTick, s.rows, to);
  // Few steps: each at its own time, with one on either side so that the line goes on to the edges.
  if (to - from <= most) {
    let n = 0;
    for (let i = Math.max(0, a - 1); i < Math.min(s.rows, b + 1); i++) {
      const tick = s.rowTick[i]!, v = values[i * o + k]!;
      if (i > 0 && n > 0 && tick > s.rowTick[i - 1]! + s.cell) { xs[n] = (tick - 0.5 + s.base) * s.shape.stepSeconds; ys[n++] = NaN; }
      xs[n] = (tick + s.base) * s.shape.stepSeconds; ys[n++] = v;
    }
    return n;
  }
  const columns = Math.max(1, Math.floor(most)), per = (to - from) / columns;
  let n = 0, i = a;
  for (let c = 0; c < columns; c++) {
    const stop = from + (c + 1) * per;
    let low = Infinity, high = -Infinity, lowFirst = true;
    for (; i < b && s.rowTick[i]! < stop; i++) {
      const v = values[i * o + k]!;
      if (v < low) { low = v; lowFirst = false; }
      if (v > high) { high = v; lowFirst = true; }
    }
    const x = (from + c * per + s.base) * s.shape.stepSeconds, half = per / 2 * s.shape.stepSeconds;
    const none = low === Infinity;
    xs[n] = x; ys[n++] = none ? NaN : lowFirst ? low : high;
    if (per > 1.5) { xs[n] = x + half; ys[n++] = none ? NaN : lowFirst ? high : low; }
  }
  return n;
}
