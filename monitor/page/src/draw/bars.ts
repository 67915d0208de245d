// Bars of the timeline: spikes per second of whole seconds, several to a bar if there are more seconds than pixels.
import type { Second } from "../link/store.ts";

export interface TimeBar { from: number; to: number; rate: number; misses: number }

/** Bars from the second `from` on, at most `most`. The last one ends where the data do, at `end`: none lies in the future. */
export function timeBars(seconds: Second[], from: number, end: number, most: number): TimeBar[] {
  const last = Math.min(seconds.length, Math.ceil(end)), per = Math.max(1, Math.ceil((last - from) / Math.max(1, most))), bars: TimeBar[] = [];
  for (let i = from; i < last; i += per) {
    let sum = 0, misses = 0;
    const to = Math.min(i + per, end);
    for (let j = i; j < Math.min(last, i + per); j++) { sum += seconds[j]!.spikes; misses += seconds[j]!.misses; }
    bars.push({ from: i, to, rate: sum / (to - i), misses });
  }
  return bars;
}
