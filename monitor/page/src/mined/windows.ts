// Windows of a recording, mined ahead of what is played, and kept in a bounded number.
import { computed, effect, signal } from "@preact/signals";
import * as state from "../state.ts";
import type { Store } from "../link/store.ts";
import type { Picture } from "../draw/raster.ts";
import { follow } from "../link/frames.ts";
import { colours, still } from "../theme.ts";
import { namesOf, type Episode } from "./model.ts";
import { FASTEST, Pace, SPEEDS, changed, changes, countOf, endOf, indexAt, keyOf, missing, prune, queryOf, readSettings, speedSpoken, writeSettings, type Numbered, type Settings } from "./played.ts";
import * as mined from "./state.ts";

export type Listed = Episode & { edges: number[]; change: number | null };
export interface Window { window: number; of: number; from: number; to: number; spikes: number; frequent: number; episodes: Numbered[] }

/** Windows that are kept, those that are mined ahead, and those of one request. */
const MOST_KEPT = 256, AHEAD = 24, BATCH = 8;
const kept = new Map<number, Window>();
const arrived = signal(0), told = signal<number | null>(null), pick = signal<Numbered | null>(null);
/** Numbers of kept windows, for tests. */
export const have = (): number[] => { void arrived.value; return [...kept.keys()]; };
export const keptAt = (k: number): Window | undefined => { void arrived.value; return kept.get(k); };
export const failure = signal<string | null>(null);
export const waiting = signal(false);

export const settings = computed(() => readSettings(state.address.value.more["pw"]));
export const length = computed(() => { const s = state.server.value, file = state.file.value; return s && file ? file.steps * s.source.step_seconds : 0; });
export const count = computed(() => told.value ?? countOf(settings.value, length.value));
export const index = computed(() => indexAt(settings.value, length.value, count.value, state.address.value.at ?? 0));
export const shown = computed(() => { void arrived.value; return kept.get(index.value) ?? null; });
export const listed = computed((): Listed[] => {
  const now = shown.value;
  if (!now) return [];
  const names = namesOf(now.episodes), apart = changes(now.episodes, kept.get(index.value - 1) ?? null), minutes = (now.to - now.from) / 60;
  return now.episodes.map((e, k) => ({ ...e, index: k, name: names[k]!, z: null, rate: e.count / Math.max(1e-9, minutes), change: index.value === 0 ? null : apart[k]! }));
});
/** The picked episode, also in windows in which it is not frequent. */
mined.ofWindow.value = computed((): Episode | null => {
  const key = pick.value && keyOf(pick.value), found = listed.value.find(e => keyOf(e) === key);
  return found ?? (pick.value ? { ...pick.value, index: -1, name: namesOf([pick.value])[0]!, z: null, rate: 0, count: mined.occurrences.value?.total ?? 0 } : null);
});
export const pickedKey = computed(() => pick.value ? keyOf(pick.value) : null);

export function choose(e: Listed): void {
  if (pickedKey.value === keyOf(e)) { pick.value = null; return; }
  pick.value = e;
  state.spoken.value = `${e.name}, ${e.count} occurrences`;
}
/** Returns false if the settings make no sense. */
export function set(change: Partial<Settings>): boolean {
  const next = changed(settings.value, change);
  if (next) state.go({ window: Math.min(state.KEEP_SECONDS, next.window), more: { ...state.address.value.more, pw: writeSettings(next) } });
  return next !== null;
}
export function seek(k: number): void { state.go({ at: endOf(settings.value, length.value, Math.min(count.value - 1, Math.max(0, k))) }); }
export function step(by: number): void {
  seek(index.value + by);
  const now = shown.value;
  state.spoken.value = `window ${index.value + 1} of ${count.value}${now ? `, ${now.frequent} episodes` : ""}`;
}
export function faster(by: number): void {
  state.speed.value = SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, SPEEDS.indexOf(state.speed.value) + by))]!;
  state.spoken.value = speedSpoken(state.speed.value);
}
export function retry(): void { failure.value = null; }

/** The request that is under way. */
let flight: { from: number; stop: AbortController } | null = null;
async function ask(query: string, from: number): Promise<void> {
  const stop = new AbortController(), own = { from, stop };
  flight?.stop.abort();
  flight = own;
  waiting.value = true;
  try {
    await follow(`api/windows?${query}&from=${from}&count=${BATCH}`, stop.signal, frame => {
      const said = frame.event as Partial<Window> & { error?: string } | null;
      if (flight !== own || !said) return;
      if (said.error !== undefined) throw new Error(said.error);
      if (said.window === undefined) return;
      kept.set(said.window, said as Window);
      prune(kept, index.peek(), MOST_KEPT);
      told.value = said.of!;
      arrived.value++;
      state.redraw();
    });
  } catch (e) { if (flight === own) failure.value = (e as Error).message; }
  finally { if (flight === own) { flight = null; waiting.value = false; arrived.value++; } }
}

/** Occurrences of the picked episode in the window that is shown: one request at a time, for the newest wish. */
let wished = "", asking = false;
async function occurrences(): Promise<void> {
  if (asking) return;
  asking = true;
  try {
    for (let done = ""; done !== wished && wished !== "";) {
      const now = wished, answer = await fetch(`api/windows/occurrences?${now}`);
      done = now;
      if (!answer.ok) throw new Error(await answer.text());
      const found = await answer.json() as { total: number; times: number[][] };
      if (now === wished) mined.occurrences.value = { total: found.total, times: found.times.map(t => Float64Array.from(t)) };
    }
  } catch (e) { failure.value = (e as Error).message; }
  finally { asking = false; }
}

/** The borders of the window that was mined. */
function borders(g: CanvasRenderingContext2D, w: number, h: number, s: Store, p: Picture): void {
  const now = shown.value, step = s.shape.stepSeconds, from = (p.end - p.window) * step;
  if (!now || !mined.played.value) return;
  g.fillStyle = colours.warn.css;
  for (const t of [now.from, now.to]) { const x = (t - from) / (p.window * step) * w; if (x >= -1 && x <= w + 1) g.fillRect(Math.min(w - 1.5, Math.max(0, x - 0.75)), 0, 1.5, h); }
}

const pace = new Pace();
/** Begins to mine and play; returns a function that ends it. */
export function begin(): () => void {
  state.overRaster.add(borders);
  state.pace.next = (at, by) => pace.next(settings.peek(), length.peek(), count.peek(), k => kept.has(k), at, Math.min(by, FASTEST), still.matches);
  state.acts.set(",", () => step(-1));
  state.acts.set(".", () => step(1));
  state.acts.set("[", () => faster(-1));
  state.acts.set("]", () => faster(1));
  const query = computed(() => queryOf(settings.value, state.address.value.source));
  const ends = [
    // Other settings or another recording: nothing that is kept is of them.
    effect(() => {
      void query.value;
      flight?.stop.abort();
      flight = null;
      kept.clear();
      told.value = failure.value = pick.value = null;
      waiting.value = false;
      arrived.value = arrived.peek() + 1;
    }),
    effect(() => {
      void arrived.value;
      // With the window before, from which counts have changed.
      const from = length.value > 0 && failure.value === null ? missing(kept, Math.max(0, index.value - 1), count.value, AHEAD) : null, asked = query.value;
      if (from === null || flight && from >= flight.from && from < flight.from + BATCH) return;
      void ask(asked, from);
    }),
    effect(() => {
      const key = pickedKey.value, next = key === null || !shown.value ? "" : `${query.value}&from=${index.value}&symbols=${key}`;
      if (next === wished) return;
      wished = next;
      mined.occurrences.value = null;
      void occurrences();
    }),
  ];
  return () => {
    for (const end of ends) end();
    flight?.stop.abort();
    flight = null;
    wished = "";
    waiting.value = false;
    state.overRaster.delete(borders);
    state.pace.next = null;
    state.speed.value = 1;
    for (const key of [",", ".", "[", "]"]) state.acts.delete(key);
  };
}
