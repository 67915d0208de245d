// How channels do, from the spikes of a span of time, counted in bins of a tenth of a second.
import { lowerBound, type Store } from "./store.ts";

export type ChannelState = "active" | "silent" | "noisy" | "twin" | "masked";
export interface Rules { silentHz: number; noisyTimesMedian: number; /** Least rate of a noisy channel: in a quiet array, units that fire are no noise. */ noisyHz: number; noisyFano: number; twinR: number }
export const RULES: Rules = { silentHz: 0.05, noisyTimesMedian: 8, noisyHz: 50, noisyFano: 20, twinR: 0.95 };
const BIN_SECONDS = 0.1, LONGEST_SECONDS = 30;

export interface Health {
  /** The span that was measured, in ticks, and its seconds without what is not known or was left out. */
  from: number; to: number; seconds: number; rate: Float32Array; fano: Float32Array;
  /** Share of intervals of at most a millisecond; NaN if times are coarser than that. */
  short: Float32Array;
  /** Largest correlation of the counts per bin with those of a neighbour. */
  neighbour: Float32Array;
  state: ChannelState[]; median: number;
}

/** The four closest electrodes; without positions, the channels before and after. */
export function neighbours(at: ([number, number] | null)[] | null, channels: number): Uint32Array[] {
  const beside = (c: number) => Uint32Array.from([c - 1, c + 1].filter(n => n >= 0 && n < channels));
  if (!at || at.length !== channels || channels > 4096) return Array.from({ length: channels }, (_, c) => beside(c));
  return at.map((p, c) => {
    if (!p) return beside(c);
    const near: [number, number][] = [];
    at.forEach((q, n) => {
      if (!q || n === c) return;
      const d = (p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2;
      if (near.length < 4 || d < near[3]![0]) { near.push([d, n]); near.sort((a, b) => a[0] - b[0]); near.length = Math.min(4, near.length); }
    });
    return Uint32Array.from(near, n => n[1]);
  });
}

/** Ticks of the last half minute of a session, or of the recording's part in view. */
export const spanOf = (s: Store, view: [number, number] | null): [number, number] => view
  ? [Math.max(s.first, view[0]), Math.min(s.end, view[1])]
  : [Math.max(s.first, s.end - Math.round(LONGEST_SECONDS / s.shape.stepSeconds)), s.end];

export function measure(s: Store, near: Uint32Array[], masked: ReadonlySet<number>, rules: Rules, span = spanOf(s, null)): Health {
  const channels = s.shape.channels, step = s.shape.stepSeconds, [from, to] = span;
  const seconds = Math.max(step, (to - from - s.hidden(from, to) - s.without(from, to)) * step);
  const bin = Math.max(1, Math.round(BIN_SECONDS / step)), bins = Math.max(1, Math.floor((to - from) / bin));
  const counts = new Float32Array(channels * bins), total = new Float32Array(channels), brief = new Float32Array(channels), last = new Float64Array(channels).fill(-Infinity);
  // An interval of a millisecond is known only if times are at least that fine.
  const begin = to - bins * bin, fine = s.offset !== null || step <= 0.001 * (1 + 1e-9), shortTicks = 0.001 / step * (1 + 1e-6);
  for (let i = lowerBound(s.tick, s.spikes, from), end = lowerBound(s.tick, s.spikes, to); i < end; i++) {
    const c = s.channel[i]!, t = s.when(i), n = s.weight[i]!;
    total[c]! += n;
    if (t - last[c]! <= shortTicks) brief[c]! += n; else if (n > 1) brief[c]! += n - 1;
    last[c] = t;
    if (t >= begin) counts[c * bins + Math.min(bins - 1, Math.floor((t - begin) / bin))]! += n;
  }
  const rate = total.map(n => n / seconds), mean = new Float32Array(channels), square = new Float32Array(channels), fano = new Float32Array(channels);
  for (let c = 0; c < channels; c++) {
    let sum = 0, sq = 0;
    for (let b = 0; b < bins; b++) { const v = counts[c * bins + b]!; sum += v; sq += v * v; }
    mean[c] = sum / bins;
    square[c] = Math.max(0, sq / bins - mean[c]! ** 2);
    fano[c] = sum > 0 ? square[c]! / mean[c]! : NaN;
  }
  const neighbour = new Float32Array(channels);
  for (let c = 0; c < channels; c++) {
    let most = NaN;
    for (const n of near[c] ?? []) {
      if (square[c]! <= 0 || square[n]! <= 0) continue;
      let product = 0;
      for (let b = 0; b < bins; b++) product += counts[c * bins + b]! * counts[n * bins + b]!;
      const r = (product / bins - mean[c]! * mean[n]!) / Math.sqrt(square[c]! * square[n]!);
      if (!(r <= most)) most = r;
    }
    neighbour[c] = most;
  }
  const sorted = rate.slice().sort(), median = sorted[sorted.length >> 1] ?? 0;
  const state = Array.from({ length: channels }, (_, c): ChannelState =>
    masked.has(c) ? "masked" : seconds >= 10 && rate[c]! < rules.silentHz ? "silent"
      : rate[c]! > Math.max(rules.noisyTimesMedian * median, rules.noisyHz) && median > 0 || fano[c]! > rules.noisyFano ? "noisy"
        : neighbour[c]! > rules.twinR ? "twin" : "active");
  return { from, to, seconds, rate, fano, short: total.map((n, c) => fine && n > 1 ? brief[c]! / (n - 1) : NaN), neighbour, state, median };
}
