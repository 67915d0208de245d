// Mined episodes as a list: what can be sorted and narrowed without a browser.
export interface Told { channels: number[]; labels: string[]; low: number[]; high: number[]; count: number; expected: number | null; std: number | null; p: number | null; q: number | null }
export interface Episode extends Told { index: number; /** Differs from the names of all other episodes of the list. */ name: string; z: number | null; rate: number }
export interface Mined { name: string; recording: number; seconds: number; episodes: Episode[]; /** While a session runs. */ live?: { events: number; dropped: number; late: number; running: boolean } }
export interface Occurrences { times: Float64Array[]; total: number }
export type Column = "episode" | "count" | "rate" | "expected" | "z" | "q";
export const HEADS: [Column, string, string][] = [["episode", "episode", "Chains that chance does not explain (q ≤ 0.05) first, then by size and count"], ["count", "count", "Occurrences that do not overlap"], ["rate", "/min", "Occurrences a minute"], ["expected", "chance", "Count that is expected by chance"], ["z", "z", "(count − expected) / standard deviation of surrogates"], ["q", "q", "False discovery rate"]];
export const MOST_LISTED = 500;

export const labelOf = (e: Told): string => e.labels.join(" → ");
/** Largest false discovery rate of an episode that counts as found. */
const FOUND = 0.05;
export const found = (e: Told): boolean => e.q !== null && e.q <= FOUND;

/** The channels; for episodes of the same channels also their delays, and their numbers in the list if these agree, too. */
export function namesOf(all: Told[]): string[] {
  const ms = (seconds: number): string => String(Number((seconds * 1e3).toPrecision(3)));
  const apart = (names: string[], more: (e: Told, index: number) => string): string[] => {
    const shared = new Map<string, number>();
    for (const name of names) shared.set(name, (shared.get(name) ?? 0) + 1);
    return names.map((name, k) => shared.get(name)! > 1 ? `${name} · ${more(all[k]!, k)}` : name);
  };
  const delayed = apart(all.map(labelOf), e => e.low.length > 0 ? `${e.low.map((low, k) => `${ms(low)}–${ms(e.high[k]!)}`).join(", ")} ms` : "one spike");
  return apart(delayed, (_, index) => `no. ${index + 1}`);
}
export function taken(told: Told[], seconds: number): Episode[] {
  const names = namesOf(told);
  return told.map((e, index) => ({ ...e, index, name: names[index]!, rate: e.count / Math.max(1e-9, seconds) * 60, z: e.expected !== null && e.std !== null && e.std > 0 ? (e.count - e.expected) / e.std : null }));
}

export function narrowed(all: Episode[], only: string, leastCount: number, leastZ: number | null): Episode[] {
  const word = only.trim().toLowerCase();
  return all.filter(e => e.count >= leastCount && (leastZ === null || e.z !== null && e.z >= leastZ) && (word === "" || e.labels.some(l => l.toLowerCase().includes(word))));
}

/** Sorts a list of episodes. Untested ones come last in either direction; equal ones keep the file's order. */
export function sorted(all: Episode[], by: Column, down: boolean): Episode[] {
  const key = (e: Episode): number | null => by === "episode" ? e.labels.length : e[by];
  return [...all].sort((a, b) => {
    if (by === "episode" && found(a) !== found(b)) return found(a) === down ? -1 : 1;
    const x = key(a), y = key(b);
    if (x === null || y === null) return x === y ? a.index - b.index : x === null ? 1 : -1;
    const apart = x - y || (by === "episode" ? a.count - b.count : 0);
    return (down ? -apart : apart) || a.index - b.index;
  });
}

/** Histogram over the edge's interval of the delays to the spike before. */
export function delays(times: Float64Array[], edge: number, low: number, high: number, bins: number): Uint32Array {
  const counts = new Uint32Array(bins);
  for (const t of times) {
    const d = t[edge + 1]! - t[edge]!, at = Math.floor((d - low) / (high - low) * bins);
    counts[Math.min(bins - 1, Math.max(0, at))]!++;
  }
  return counts;
}

/** First occurrence that begins after a time, or last that begins before it. */
export function beside(times: Float64Array[], at: number, by: 1 | -1): number | null {
  let low = 0, high = times.length;
  while (low < high) { const m = (low + high) >> 1; if (times[m]![0]! < at - 1e-9) low = m + 1; else high = m; }
  if (by < 0) return low > 0 ? low - 1 : null;
  while (low < times.length && times[low]![0]! <= at + 1e-9) low++;
  return low < times.length ? low : null;
}

/** Occurrence that is nearest to a time. */
export function nearest(times: Float64Array[], at: number): number | null {
  const after = beside(times, at, 1), before = after === null ? times.length - 1 : after - 1;
  if (before < 0) return after;
  return after !== null && times[after]![0]! - at < at - times[before]![0]! ? after : before;
}
