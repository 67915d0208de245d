// Trials around an event, as the server computes them, and their order.
import { More, floats, numbers, type Frame } from "./frame.ts";

export interface Trial {
  label?: string | null; seconds: number; spikes: number;
  /** Seconds after the event between which its own trial lies: nothing is counted outside. */
  inside: [number, number];
  /** Seconds from the event to the first point. */ begin: number; r2: number | null; rmse: number | null;
}
export interface Trials {
  align: string; from: number; to: number; bin: number; bins: number; channel: number; output: number;
  left_out: number; outside_segments: number; trials: Trial[]; mean: (number | null)[]; error: (number | null)[];
  /** Trials behind each bin: those whose own time covers all of it. */
  events: number[];
  /** Variance over mean of the counts in `fano_bins`, which every trial has. */
  fano: number | null; fano_bins: [number, number];
  point_seconds: number; points: number; /** Number of trials whose outputs are here. */ decoded: number; /** Channels of `heat`. */ channels: number;
  row: Uint32Array; after: Float32Array; heat: Float32Array; estimate: Float32Array; truth: Float32Array;
}
export const SORTS = ["time", "spikes", "R²", "error", "label"] as const;
export type Sort = typeof SORTS[number];

export const trialsOf = (f: Frame): Trials => ({ ...f.event as Trials, row: numbers(f, More.EventRow), after: floats(f, More.EventSeconds), heat: floats(f, More.Value), estimate: f.estimate, truth: f.truth ?? new Float32Array(0) });

/** Bin and window that trials have unless the address says otherwise: about 0.05 s, from 0.5 s before the event to 1 s after it. Counts in
 *  bins allow only multiples of their bin; `step` is that bin, or null where spikes have finer times. */
export function windowOf(step: number | null): { bin: number; from: number; to: number } {
  const exact = (v: number): number => Number(v.toFixed(9)), bin = step === null ? 0.05 : exact(Math.max(1, Math.ceil(0.05 / step - 1e-6)) * step);
  return { bin, from: exact(-Math.max(1, Math.round(0.5 / bin)) * bin), to: exact(Math.max(1, Math.round(1 / bin)) * bin) };
}

/** Width of a spike in a plot of trials, in pixels, and its opacity: as wide as its step, so that the spikes of a step lie on each other and
 *  darken it. `step`: null where spikes have finer times. */
export function markOf(t: { from: number; to: number }, width: number, step: number | null): { wide: number; alpha: number } {
  const wide = (step ?? 0) / (t.to - t.from) * width - 0.6;
  return wide > 3 ? { wide, alpha: 0.3 } : { wide: 1.2, alpha: 1 };
}

/** Trials in the order in which they are drawn; those without a value come last. */
export function sorted(t: Trial[], by: Sort): number[] {
  const value = (k: number): number => by === "spikes" ? -t[k]!.spikes : by === "R²" ? -(t[k]!.r2 ?? -Infinity) : by === "error" ? t[k]!.rmse ?? Infinity : t[k]!.seconds;
  if (by === "label") return t.map((_, k) => k).sort((a, b) => (t[a]!.label ?? "").localeCompare(t[b]!.label ?? "") || a - b);
  return t.map((_, k) => k).sort((a, b) => value(a) - value(b) || a - b);
}

/** Mean over the trials at each point, of values (trials, points); NaN where none has one. */
export function meanCourse(values: Float32Array, trials: number, points: number): Float64Array {
  return Float64Array.from({ length: points }, (_, p) => {
    let sum = 0, n = 0;
    for (let k = 0; k < trials; k++) { const v = values[k * points + p]!; if (v === v) { sum += v; n++; } }
    return sum / n;
  });
}

/** Most trials that are overlaid: as many as there are colours. */
export const MOST_OVERLAID = 4;
/** Trials by their numbers from 1 on, as a text lists them; what is no trial is left out. */
export const overlaid = (text: string, trials: number): number[] => [...new Set((text.match(/\d+/g) ?? []).map(Number))].filter(k => k >= 1 && k <= trials).slice(0, MOST_OVERLAID).map(k => k - 1);

/** Rate of one trial in the bins, spikes per second; NaN where the bin is not all its own. */
export function rateOf(t: Trials, trial: number): Float64Array {
  const rate = new Float64Array(t.bins), [begin, end] = t.trials[trial]!.inside;
  for (let i = 0; i < t.row.length; i++) if (t.row[i] === trial) { const b = Math.floor((t.after[i]! - t.from) / t.bin + 1e-6); if (b >= 0 && b < t.bins) rate[b]! += 1 / t.bin; }
  for (let b = 0; b < t.bins; b++) if (t.from + b * t.bin < begin - 1e-9 || t.from + (b + 1) * t.bin > end + 1e-9) rate[b] = NaN;
  return rate;
}

/** Trials whose window reaches beyond their own time. */
export const reaching = (t: Pick<Trials, "from" | "to" | "trials">): number => t.trials.filter(of => of.inside[0] > t.from + 1e-9 || of.inside[1] < t.to - 1e-9).length;
