// Rates of populations and intervals between spikes, over the last seconds in the store.
import { lowerBound, type Store } from "../link/store.ts";

/** First channel of each population and the end, where channel c is neuron c · every. */
export function firstChannels(neurons: number[], every: number): number[] {
  let first = 0;
  return [0, ...neurons.map(n => Math.ceil((first += n) / every))];
}

/** Mean spikes per second and channel of each population over the last `seconds` of the store; NaN if none of its channels is shown. */
export function rates(s: Store, firsts: number[], seconds: number): number[] {
  const from = Math.max(s.first, s.end - Math.round(seconds / s.shape.stepSeconds)), span = (s.end - from - s.hidden(from, s.end)) * s.shape.stepSeconds;
  const counts = new Float64Array(firsts.length - 1);
  for (let i = lowerBound(s.tick, s.spikes, from); i < s.spikes; i++) {
    let p = 0;
    while (p + 2 < firsts.length && s.channel[i]! >= firsts[p + 1]!) p++;
    counts[p]! += s.weight[i]!;
  }
  return Array.from(counts, (n, p) => span > 0 ? n / span / (firsts[p + 1]! - firsts[p]!) : NaN);
}

/** Intervals between spikes of a channel, by powers of √2 of a millisecond, the first bin up to 1 ms. */
export const INTERVAL_BINS = 21;
export const intervalOf = (bin: number): number => 2 ** (bin / 2);

export function intervals(s: Store, from: number, to: number, seconds: number): Uint32Array {
  const begin = lowerBound(s.tick, s.spikes, Math.max(s.first, s.end - Math.round(seconds / s.shape.stepSeconds)));
  const last = new Int32Array(to - from).fill(-1), bins = new Uint32Array(INTERVAL_BINS);
  for (let i = begin; i < s.spikes; i++) {
    const c = s.channel[i]! - from;
    if (c < 0 || c >= last.length) continue;
    if (last[c]! >= 0) {
      const ms = (s.tick[i]! - last[c]!) * s.shape.stepSeconds * 1000;
      bins[Math.min(INTERVAL_BINS - 1, Math.max(0, Math.ceil(2 * Math.log2(ms) - 1e-9)))]!++;
    }
    last[c] = s.tick[i]!;
  }
  return bins;
}
