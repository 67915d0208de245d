// Windows of a recording that are mined one after another: settings, times and speeds, without a browser.
import type { Told } from "./model.ts";

export interface Settings {
  /** Length of a window, and time from the start of one to the next, in seconds. */
  window: number; step: number;
  /** Count from which an episode is listed, and spikes of the longest episodes. */
  least: number; longest: number;
  /** Allowed delays between consecutive spikes, in seconds: low < delay <= high. */
  intervals: [number, number][];
}
export const START: Settings = { window: 10, step: 2.5, least: 20, longest: 5, intervals: [[0.004, 0.006]] };
/** More do not fit into an address. */
const MOST_INTERVALS = 3;

const valid = (s: Settings): boolean => s.window > 0 && s.step > 0 && s.least >= 1 && Number.isInteger(s.least) && s.longest >= 2 && Number.isInteger(s.longest) && s.intervals.length > 0 && s.intervals.length <= MOST_INTERVALS && s.intervals.every(([low, high]) => low >= 0 && low < high);
const short = (v: number): string => String(Number(v.toPrecision(6)));

/** Settings as the address has them; those of the start in place of what is invalid. */
export function readSettings(text: string | undefined): Settings {
  const n = (text ?? "").split(",").map(Number), [window, step, least, longest] = n as [number, number, number, number], intervals: [number, number][] = [];
  for (let k = 4; k + 1 < n.length; k += 2) intervals.push([n[k]!, n[k + 1]!]);
  const read = { window, step, least, longest, intervals };
  return n.length % 2 === 0 && n.every(Number.isFinite) && valid(read) ? read : START;
}
export const writeSettings = (s: Settings): string => [s.window, s.step, s.least, s.longest, ...s.intervals.flat()].map(short).join(",");
/** The part of a request that says which windows are meant. */
export const queryOf = (s: Settings, source: number): string => `source=${source}&window=${s.window}&step=${s.step}&threshold=${s.least}&max_size=${s.longest}&intervals=${s.intervals.flat().join(",")}`;

export const delaysShown = (s: Settings): string => s.intervals.map(pair => pair.map(t => short(t * 1e3)).join("–")).join(", ");
/** Reads delays in milliseconds, "4–6, 6–10"; null if they are not that. */
export function readDelays(text: string): [number, number][] | null {
  const all: [number, number][] = [];
  for (const part of text.split(",")) {
    const found = /^\s*([\d.]+)\s*[-–]\s*([\d.]+)\s*(ms)?\s*$/.exec(part), low = Number(found?.[1]) / 1e3, high = Number(found?.[2]) / 1e3;
    if (!found || !(low < high)) return null;
    all.push([Number(low.toPrecision(6)), Number(high.toPrecision(6))]);
  }
  return all.length <= MOST_INTERVALS ? all : null;
}
/** Settings with a change; null if they make no sense. */
export function changed(s: Settings, change: Partial<Settings>): Settings | null {
  const next = { ...s, ...change };
  return valid(next) ? next : null;
}

/** Number of windows of a recording of some seconds. The last one ends with the recording. */
export const countOf = (s: Settings, seconds: number): number => Math.max(0, Math.ceil((seconds - s.window) / s.step - 1e-6)) + 1;
/** Time at which a window ends. */
export const endOf = (s: Settings, seconds: number, k: number): number => Math.min(k * s.step + s.window, seconds);
/** The last window that has ended at a time; the first one before it has. */
export function indexAt(s: Settings, seconds: number, count: number, at: number): number {
  if (at >= seconds - 1e-9) return count - 1;
  return Math.min(count - 1, Math.max(0, Math.floor((at - s.window) / s.step + 1e-6)));
}

/** Speed of "as fast as windows are mined". */
export const FASTEST = 1e9;
export const SPEEDS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, FASTEST];
export const speedShown = (speed: number): string => speed === FASTEST ? "as mined" : `× ${speed}`;
export const speedSpoken = (speed: number): string => speed === FASTEST ? "as fast as windows are mined" : `${speed} times the recording's time`;

/** The time that playing has come to. A window is shown when it is mined, so playing waits before it.
 *  `stepwise`: from window to window, for less motion. */
export class Pace {
  /** Time that has been played, which may be later than the time that is shown. */
  #clock = 0; #shown = NaN;
  next(s: Settings, seconds: number, count: number, has: (k: number) => boolean, at: number, by: number, stepwise: boolean): number {
    if (at !== this.#shown) this.#clock = at;
    let k = indexAt(s, seconds, count, at), to = this.#clock + by;
    if (!has(k)) return this.#stand(at, at);
    // Each window is seen, however fast.
    if (by > s.step && k + 1 < count) to = Math.min(to, Math.max(at, endOf(s, seconds, k + 1)));
    while (k + 1 < count && endOf(s, seconds, k + 1) <= to && has(k + 1)) k++;
    // Not before the next one is mined.
    if (k + 1 < count && !has(k + 1)) to = Math.min(to, Math.max(at, endOf(s, seconds, k + 1) - s.step * 1e-3));
    to = Math.min(to, seconds);
    return this.#stand(to, stepwise ? Math.max(at, Math.min(to, endOf(s, seconds, k))) : to);
  }
  #stand(clock: number, shown: number): number { this.#clock = clock; this.#shown = shown; return shown; }
}

export const keyOf = (e: { channels: number[]; edges: number[] }): string => `${e.channels.join(",")}&edges=${e.edges.join(",")}`;
export interface Numbered extends Told { edges: number[] }
/** Count of an episode in a mined window: 0 if it is not frequent there; null if it may be, because not all frequent episodes are listed. */
export function countIn(window: { frequent: number; episodes: Numbered[] }, key: string): number | null {
  return window.episodes.find(e => keyOf(e) === key)?.count ?? (window.frequent > window.episodes.length ? null : 0);
}
/** Change of each episode's count since the window before; null if that window is not known, or may have the episode without listing it. */
export function changes(now: Numbered[], before: { frequent: number; episodes: Numbered[] } | null): (number | null)[] {
  return now.map(e => { const then = before && countIn(before, keyOf(e)); return then === null ? null : e.count - then; });
}
/** Removes the entries that are farthest from `at`, until `most` are left. */
export function prune<T>(kept: Map<number, T>, at: number, most: number): void {
  while (kept.size > most) {
    let far = -1, key = -1;
    for (const k of kept.keys()) if (Math.abs(k - at) > far) { far = Math.abs(k - at); key = k; }
    kept.delete(key);
  }
}
/** The first window from `at` on that is missing among the next `ahead`; null if none is. */
export function missing(kept: { has(k: number): boolean }, at: number, count: number, ahead: number): number | null {
  for (let k = at; k < Math.min(count, at + ahead); k++) if (!kept.has(k)) return k;
  return null;
}
