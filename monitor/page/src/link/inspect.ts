// One channel's spikes in a span of time: intervals, autocorrelogram, rate and tuning.
import { lowerBound, tickOf, type Store } from "./store.ts";

export interface Bars { /** Width of a bar in seconds. */ width: number; values: Float64Array }
export const BARS = 100;
/** Width of the bars of intervals: half a millisecond, or the finest time that is known. */
export const barWidth = (s: Store): number => Math.max(0.0005, tickOf(s));

/** Times of a channel's spikes in ticks, each as often as it is counted. */
export function timesOf(s: Store, c: number, [from, to]: [number, number]): number[] {
  const all: number[] = [];
  for (let i = lowerBound(s.tick, s.spikes, from), end = lowerBound(s.tick, s.spikes, to); i < end; i++) if (s.channel[i] === c) for (let n = 0; n < s.weight[i]!; n++) all.push(s.when(i));
  return all.sort((a, b) => a - b);
}

const known = (s: Store, from: number, to: number): boolean => s.hidden(from, to) === 0 && s.without(from, to) === 0;
/** Bar in which a difference of two times lies; the tolerance is far below any clock's tick. */
const place = (s: Store, ticks: number, width: number): number => Math.floor(ticks * s.shape.stepSeconds / width + 1e-6);

/** Intervals from each spike to the next; `beyond` are longer than the last bar. An interval across unknown time is none. */
export function intervals(s: Store, times: number[]): Bars & { beyond: number } {
  const width = barWidth(s), values = new Float64Array(BARS);
  let beyond = 0;
  for (let i = 1; i < times.length; i++) {
    if (!known(s, times[i - 1]!, times[i]!)) continue;
    const bar = place(s, times[i]! - times[i - 1]!, width);
    if (bar < BARS) values[bar]!++; else beyond++;
  }
  return { width, values, beyond };
}

/** Begins of the unknown stretches of [from, to), ascending, and the end. */
function unknownFrom(s: Store, [from, to]: [number, number]): number[] {
  const begins = [...s.holes.map(h => h.from), ...s.leftOut.map(part => part[0])].filter(t => t > from && t < to);
  return [...begins.sort((a, b) => a - b), to];
}

/** Rate in spikes per second at each delay after a spike. A bar counts the spikes that have the whole of it inside what is known: near the end
 *  of the span there are fewer of them, and no fewer spikes. NaN where there are none. */
export function autocorrelogram(s: Store, times: number[], span: [number, number]): Bars {
  const width = barWidth(s), pairs = new Float64Array(BARS), possible = new Float64Array(BARS + 1), ends = unknownFrom(s, span);
  for (let i = 0, e = 0; i < times.length; i++) {
    while (e + 1 < ends.length && ends[e]! <= times[i]!) e++;
    const whole = Math.min(BARS, place(s, ends[e]! - times[i]!, width));
    possible[0]!++; possible[whole]!--;
    for (let j = i + 1; j < times.length; j++) {
      const bar = place(s, times[j]! - times[i]!, width);
      if (bar >= whole) break;
      pairs[bar]!++;
    }
  }
  let from = 0;
  return { width, values: pairs.map((n, b) => { from += possible[b]!; return from > 0 ? n / from / width : NaN; }) };
}

/** Rate over the span, in 60 bars; NaN where nothing is known. */
export function rates(s: Store, times: number[], [from, to]: [number, number]): Bars {
  const bars = 60, wide = Math.max(1, (to - from) / bars), values = new Float64Array(bars);
  for (const t of times) values[Math.min(bars - 1, Math.floor((t - from) / wide))]!++;
  return {
    width: wide * s.shape.stepSeconds,
    values: values.map((n, b) => {
      const a = Math.round(from + b * wide), e = Math.round(from + (b + 1) * wide), ticks = e - a - s.hidden(a, e) - s.without(a, e);
      return ticks > 0 ? n / (ticks * s.shape.stepSeconds) : NaN;
    }),
  };
}

export const SECTORS = 8;
export interface Sector { /** Spikes per second, and the standard error of this mean over the steps. */ rate: number; error: number; steps: number }

/** The two outputs whose direction a channel is tuned to: the first two that are velocities (their unit ends in /s, as mm/s), else the first two. */
export function directionOf(outputs: { name: string; unit: string }[]): [number, number] {
  const moving = outputs.flatMap((o, k) => /\/\s*s$/.test(o.unit) || /vel/i.test(o.name) ? [k] : []);
  return moving.length > 1 ? [moving[0]!, moving[1]!] : [0, 1];
}

/** Rate by direction of two true outputs, in sectors around 0°, 45° …; null if there is no truth in two outputs. */
export function tuning(s: Store, times: number[], [from, to]: [number, number], [first, second]: [number, number] = [0, 1]): Sector[] | null {
  const o = s.shape.outputs;
  if (o < 2 || !s.hasTruth) return null;
  const steps = new Float64Array(SECTORS), spikes = new Float64Array(SECTORS), squares = new Float64Array(SECTORS);
  let next = 0;
  for (let i = lowerBound(s.rowTick, s.rows, from), end = lowerBound(s.rowTick, s.rows, to); i < end; i++) {
    const x = s.truth[i * o + first]!, y = s.truth[i * o + second]!, tick = s.rowTick[i]!;
    while (next < times.length && times[next]! < tick) next++;
    let n = 0;
    while (next < times.length && times[next]! < tick + 1) { n++; next++; }
    if (x !== x || y !== y || x === 0 && y === 0) continue;
    const sector = (Math.round(Math.atan2(y, x) / (2 * Math.PI) * SECTORS) + SECTORS) % SECTORS;
    steps[sector]!++;
    spikes[sector]! += n;
    squares[sector]! += n * n;
  }
  return Array.from(steps, (n, k) => {
    const mean = spikes[k]! / n, variance = n > 1 ? Math.max(0, squares[k]! / n - mean * mean) * n / (n - 1) : NaN;
    return { rate: mean / s.shape.stepSeconds, error: Math.sqrt(variance / n) / s.shape.stepSeconds, steps: n };
  });
}
