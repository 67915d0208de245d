// Which networks are looked at, where, and how strong an edge must be. What the address can say, it says.
import { batch, computed, effect, signal } from "@preact/signals";
import { Kind, More, floats, numbers } from "../link/frame.ts";
import { follow, frames, wrong } from "../link/frames.ts";
import * as state from "../state.ts";
import { circle, degrees, endOf, colour, keyOf, levelOf, listed, prefix, projected, spans, windowAt, type Edges, type Info } from "./model.ts";

export type Rule = "every" | "peak";
export interface Loaded { info: Info; counts: Record<Rule, Uint32Array | null>; forced: Float32Array | null; communities: Map<number, Uint32Array>; slots: Map<number, number>; events: { window: number; what: string }[] }
export interface Work { what: string; done: number; of: number; stop: AbortController; began: number }

/** Windows whose edges are kept in the page, of each network. */
const KEPT = 6;
/** A session of the list; kept: the server's database has it; live: it grows. */
export interface Offered { id: number; name: string; kept: boolean; live: boolean }
export const offered = signal<Offered[]>([]);
/** The server has a database of sessions, and lets pages change it or only look. */
export const keeping = signal<"changes" | "looks" | null>(null);
/** Milliseconds after which a page asks for what others have kept. */
const ASK_AGAIN = 5000;
/** Milliseconds after which it asks for new windows of networks that grow. */
const GROW = 250;
export const image = signal<{ extent: number[] | null; picture: HTMLImageElement } | null>(null);
export const loaded = signal<Loaded[]>([]);
export const failure = signal<string | null>(null);
export const work = signal<Work | null>(null);
export const hovered = signal<number | null>(null);
/** A node is in the region; null: all are. */
export const region = signal<Uint8Array | null>(null);
/** Goes up with everything that is drawn of communities and places. */
export const moved = signal(0);
export const playing = signal(false);
/** The edges of windows, by network, rule and window. */
const edges = signal(new Map<string, Edges>());
const asked = new Set<string>();

const more = (key: string): string | undefined => state.address.value.more[key];
export function say(change: Record<string, string | undefined>): void {
  const next = { ...state.address.value.more };
  for (const [key, value] of Object.entries(change)) if (value === undefined) delete next[key]; else next[key] = value;
  state.go({ more: next });
}

export const rule = computed<Rule>(() => more("rule") === "peak" ? "peak" : "every");
export const compare = computed((): "over" | "side" | "diff" | "two" => {
  const how = more("cmp");
  return how === "two" || loaded.value.length > 1 && (how === "side" || how === "diff") ? how : "over";
});
export const tab = computed(() => more("tab") === "matrix" ? "matrix" : "graph");
export const placing = computed(() => {
  const wanted = more("pl");
  return wanted === "force" || wanted === "circle" ? wanted : first.value?.info.positions ? "place" : wanted === "place" ? "circle" : "circle";
});
export const overlay = computed(() => more("ov") === "communities" ? "communities" : more("ov") === "degree" ? "degree" : "session");
/** Draw all edges, however many. */
export const allEdges = computed(() => more("ea") === "all");
export const axes = computed((): [number, number] => ({ xz: [0, 2], yz: [1, 2] } as Record<string, [number, number]>)[more("ax") ?? ""] ?? [0, 1]);
export const node = computed(() => { const n = Number(more("node") ?? "-1"); return Number.isInteger(n) && n >= 0 && n < (first.value?.info.nodes ?? 0) ? n : null; });
export const first = computed((): Loaded | undefined => loaded.value[0]);
/** Networks of the address; `none` is none of them. */
const wanted = computed(() => (more("n") ?? "0").split(",").map(Number).filter(n => Number.isInteger(n) && n >= 0).slice(0, 4));

/** The moment that is looked at, in seconds (or windows, where nobody knows the time); of a network that grows the newest. */
export const moment = computed(() => state.address.value.at ?? (first.value ? endOf(first.value.info, first.value.info.live ? first.value.info.windows - 1 : 0) : 0));
export const windowOf = (l: Loaded): number => windowAt(l.info, moment.value);

/** Key that edges are compared with; by default the lowest at which the picture stays readable. */
export const threshold = computed((): number => {
  const l = first.value, said = Number(more("th"));
  if (!l) return 0;
  if (more("th") !== undefined && Number.isFinite(said)) return keyOf(l.info.distance, said);
  const counts = l.counts.every;
  if (!counts) return l.info.levels[0] ?? 0;
  const k = windowOf(l), most = Math.max(400, 3 * l.info.nodes), width = l.info.levels.length;
  for (let b = 0; b < width; b++) if (counts[k * width + b]! <= most) return l.info.levels[b]!;
  return l.info.levels[width - 1] ?? 0;
});
/** Key of the second threshold in comparisons; by default halfway to the strongest edge. */
export const second = computed((): number => {
  const l = first.value, said = Number(more("th2"));
  if (l && more("th2") !== undefined && Number.isFinite(said)) return keyOf(l.info.distance, said);
  return (threshold.value + (l?.info.levels.at(-1) ?? threshold.value)) / 2;
});
/** As people say it: a distance is not negative. */
export const shown = (l: Loaded | undefined, key: number): number => l?.info.distance ? -key : key;
export function setThreshold(key: number, which: "th" | "th2" = "th"): void {
  const l = first.value, levels = l?.info.levels ?? [0, 1];
  say({ [which]: String(Number(shown(l, Math.min(levels.at(-1)!, Math.max(levels[0]!, key))).toPrecision(9))) });
}
export function nudge(by: number): void {
  const levels = first.value?.info.levels ?? [], wide = (levels.at(-1) ?? 1) - (levels[0] ?? 0);
  setThreshold(Math.abs(wide) > 2 ? threshold.value + by * wide : threshold.value + by);
  state.spoken.value = `threshold ${shown(first.value, threshold.value).toFixed(2)}, ${counted(first.value)} edges`;
}
export const level = (l: Loaded): number => levelOf(l.info.levels, threshold.value);

const keyed = (l: Loaded, which: Rule, window: number): string => `${l.info.id} ${which} ${window} ${l.info.live?.version ?? 0}`;
export function edgesOf(l: Loaded): Edges | null {
  const key = keyed(l, rule.value, windowOf(l));
  return edges.value.get(key) ?? null;
}
/** Edges at the threshold in the window that is looked at. */
export const counted = (l: Loaded | undefined): number => { const e = l && edgesOf(l); return e ? prefix(e.key, threshold.value) : 0; };

export function goTo(l: Loaded, window: number): void {
  const k = Math.min(l.info.windows - 1, Math.max(0, window));
  state.go({ at: l.info.live && k === l.info.windows - 1 ? null : Number(endOf(l.info, k).toFixed(3)) });
}
export function shift(by: number): void {
  const l = first.value;
  if (!l) return;
  goTo(l, windowOf(l) + by);
  state.spoken.value = `window ${windowOf(l) + 1} of ${l.info.windows}, ${l.info.seconds ? `${moment.value.toFixed(2)} seconds` : ""}`;
}

/** Places that were worked out last: they change with the axes and the communities, and with no threshold. */
const laid = new WeakMap<Info, { by: unknown; places: Float32Array | null }>();
function laidOut(info: Info, by: unknown, make: () => Float32Array | null): Float32Array | null {
  const before = laid.get(info);
  if (before && before.by === by) return before.places;
  const places = make();
  laid.set(info, { by, places });
  return places;
}
/** Positions of the nodes, in the chosen layout. */
export function placesOf(l: Loaded): Float32Array {
  void moved.value;
  const how = placing.value, head = first.value!;
  if (how === "place") { const p = laidOut(l.info, axes.value.join(), () => projected(l.info, axes.value)); if (p) return p; }
  const same = head.info.nodes === l.info.nodes ? head : l, of = communitiesOf(same);
  if (how === "force" && same.forced) return same.forced;
  return laidOut(l.info, of, () => circle(l.info.nodes, of))!;
}
export function communitiesOf(l: Loaded): Uint32Array | null { void moved.value; return l.communities.get(windowOf(l)) ?? null; }
/** Degrees that were counted last, of each window's edges: a threshold that moves leaves most of them as they are. */
const counts = new WeakMap<Edges, { n: number; inside: Uint8Array | null; all: Uint32Array }>();
export function degreesOf(l: Loaded, from = threshold.value): Uint32Array {
  const e = edgesOf(l), inside = region.value;
  if (!e) return new Uint32Array(l.info.nodes);
  const n = prefix(e.key, from), before = counts.get(e), all = degrees(e, n, l.info.nodes, inside, before?.inside === inside ? before : null);
  counts.set(e, { n, inside, all });
  return all;
}

async function json<T>(path: string): Promise<T> {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return await answer.json() as T;
}

const known = new Map<number, Loaded>();
/** Part of a query that names the version of a network that grows. */
const versioned = (l: Loaded): string => l.info.live ? `&version=${l.info.live.version}` : "";
async function load(id: number): Promise<Loaded | null> {
  return known.get(id) ?? await fetched(id, await json<Info>(`api/network/${id}`));
}
/** A network with its counts; null before its first window, and if the server has a newer version by now. */
async function fetched(id: number, info: Info): Promise<Loaded | null> {
  if (info.live && info.windows === 0) return null;
  const l: Loaded = { info, counts: { every: null, peak: null }, forced: known.get(id)?.forced ?? null, communities: new Map(), slots: new Map(), events: [] };
  const counts = numbers(await frames(`api/network/${id}/timeline?rule=every${versioned(l)}`), More.Count);
  if (info.live && counts.length !== info.windows * info.levels.length) return null;
  l.counts.every = counts;
  known.set(id, l);
  return l;
}

/** Takes the newest windows of networks that grow, with the edges that are looked at next: the picture does not wait for them. */
let growing = false;
async function grow(): Promise<void> {
  const ids = wanted.value.filter(id => offered.value.some(o => o.id === id && o.live));
  if (growing || ids.length === 0 || document.visibilityState !== "visible") return;
  growing = true;
  try {
    for (const id of ids) {
      const info = await json<Info | null>(`api/network/${id}?since=${known.get(id)?.info.live?.version ?? 0}`), l = info && await fetched(id, info);
      if (!l) continue;
      await fetchEdges(l, rule.value, state.address.value.at === null ? l.info.windows - 1 : windowOf(l));
      const all = wanted.value.map(w => known.get(w));
      loaded.value = all.filter(x => x !== undefined);
    }
  } catch (e) { failure.value = String((e as Error).message); }
  finally { growing = false; }
}

/** Asks for another window or threshold of a network that grows. */
export async function ask(l: Loaded, change: Record<string, number>): Promise<void> {
  try {
    const answer = await fetch(`api/network/${l.info.id}/change`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(change) });
    failure.value = answer.ok ? null : await answer.text();
  } catch (e) { failure.value = String((e as Error).message); }
}

async function fetchEdges(l: Loaded, which: Rule, window: number): Promise<void> {
  const key = keyed(l, which, window);
  if (asked.has(key) || edges.value.has(key)) return;
  asked.add(key);
  try {
    const f = await frames(`api/network/${l.info.id}/edges?window=${window}&rule=${which}${versioned(l)}`);
    const r = floats(f, More.Value), e: Edges = { window, total: f.ticks, i: numbers(f, More.I), j: numbers(f, More.J), r, key: r.map(v => keyOf(l.info.distance, v)), undefined: numbers(f, More.Undefined) };
    const next = new Map(edges.value);
    next.set(key, e);
    const mine = [...next.keys()].filter(k => k.startsWith(`${l.info.id} `));
    for (const old of mine.slice(0, Math.max(0, mine.length - KEPT))) next.delete(old);
    edges.value = next;
    failure.value = null;
  } catch (e) { failure.value = String((e as Error).message); }
  finally { asked.delete(key); }
}

/** Puts nodes where their edges pull them; the picture moves while the server works. */
export async function arrange(): Promise<void> {
  const l = first.value;
  if (!l) return;
  say({ pl: "force" });
  await job("layout", stop => follow(`api/network/${l.info.id}/layout?window=${windowOf(l)}&rule=${rule.value}&threshold=${threshold.value}&warm=${l.forced ? 1 : 0}&steps=300${versioned(l)}`, stop, f => {
    if (f.kind !== Kind.Layout) { const words = wrong(f); if (words) throw new Error(words); return; }
    l.forced = floats(f, More.Place);
    progress(f.first, f.ticks);
    moved.value++;
  }));
}

/** Communities of every window from the first to the last, followed. */
export async function findCommunities(): Promise<void> {
  say({ ov: "communities" });
  for (const l of loaded.value) {
    l.communities.clear();
    l.slots.clear();
    l.events = [];
    await job(`communities of ${l.info.name}`, stop => follow(`api/network/${l.info.id}/communities?threshold=${threshold.value}${versioned(l)}`, stop, f => {
      const words = wrong(f);
      if (words) throw new Error(words);
      const of = numbers(f, More.Community);
      l.communities.set(f.first, of);
      colour(l.slots, of);
      const said = f.event as { events?: { what: string }[] } | null;
      for (const e of said?.events ?? []) if (e) l.events.push({ window: f.first, what: e.what });
      progress(f.first + 1, l.info.windows);
      moved.value++;
    }));
  }
}

/** A network of a recording, in windows of one's own. */
export async function compute(source: number, window: number, step: number, bin: number, measure: string, shift: number, min: number): Promise<void> {
  let id: number | null = null;
  await job("network", stop => follow(`api/compute?source=${source}&window=${window}&step=${step}&bin=${bin}&measure=${measure}&shift=${shift}&min=${min}`, stop, f => {
    const said = f.event as { error?: string; network?: number; done?: number; of?: number } | null;
    if (said?.error) throw new Error(said.error);
    if (said?.network !== undefined) id = said.network;
    if (said?.done !== undefined) progress(said.done, said.of ?? 0);
  }));
  if (id === null) return;
  await list();
  say({ n: String(id), th: undefined });
}

function progress(done: number, of: number): void { if (work.value) work.value = { ...work.value, done, of }; }
async function job(what: string, act: (stop: AbortSignal) => Promise<void>): Promise<void> {
  work.value?.stop.abort();
  const stop = new AbortController(), mine: Work = { what, done: 0, of: 0, stop, began: performance.now() };
  work.value = mine;
  try { await act(stop.signal); failure.value = null; }
  catch (e) { if (!stop.signal.aborted) failure.value = `${what}: ${(e as Error).message}`; }
  finally { if (work.value?.stop === stop) work.value = null; }
}

/** Seconds that the work still takes at its pace; null until it is known, and for the last one. */
export function left(w: Work): number | null {
  const seconds = (performance.now() - w.began) / 1000 * (w.of - w.done) / w.done;
  return w.done > 0 && seconds >= 1 ? Math.round(seconds) : null;
}

/** Nothing is shown any more, and nothing of it kept. */
export function unload(): void {
  work.value?.stop.abort();
  known.clear();
  batch(() => { edges.value = new Map(); say({ n: "none", node: undefined }); setRegion(null); });
}

/** Another list of sessions: names that others gave are shown, and what was deleted is gone. */
export function setOffered(list: Offered[]): void {
  if (JSON.stringify(list) === JSON.stringify(offered.peek())) return;
  for (const [id, l] of known) {
    const found = list.find(o => o.id === id);
    if (found) l.info.name = found.name; else known.delete(id);
  }
  batch(() => { offered.value = list; moved.value++; });
}

async function list(): Promise<void> {
  const found = await json<{ networks: Offered[]; image: { extent: number[] | null } | null; keeps: boolean; changes: boolean; failure: string | null }>("api/networks");
  setOffered(found.networks);
  keeping.value = found.keeps ? found.changes ? "changes" : "looks" : null;
  if (found.failure) failure.value = found.failure;
  if (found.image && !image.value) {
    const picture = new Image();
    picture.onload = () => { image.value = { extent: found.image!.extent, picture }; };
    picture.src = "api/image";
  }
}

export function setRegion(nodes: number[] | null): void {
  const l = first.value;
  if (!l || !nodes || nodes.length === 0) { batch(() => { say({ rg: undefined }); region.value = null; }); return; }
  const mask = new Uint8Array(l.info.nodes);
  for (const n of nodes) if (n < mask.length) mask[n] = 1;
  // Text that is too long for an address goes into the saved state only.
  const text = spans(mask);
  batch(() => { region.value = mask; say({ rg: text.length <= 240 ? text : undefined }); });
}
export function regionOf(text: string): boolean {
  const l = first.value, found = l ? listed(text, l.info.nodes, l.info.names) : [];
  if (found === null) return false;
  setRegion(found);
  return true;
}

/** Another session beside the first, the next of those that are offered; after the last none. */
function compareNext(): void {
  const head = wanted.value[0], others = offered.value.map(o => o.id).filter(id => id !== head), now = wanted.value[1];
  const next = now === undefined ? others[0] : others[others.indexOf(now) + 1];
  if (head === undefined) return;
  say({ n: next === undefined ? String(head) : `${head},${next}` });
  state.spoken.value = next === undefined ? "one session" : `compared with ${offered.value.find(o => o.id === next)?.name}`;
}

let begun = false;
export function begin(): void {
  if (begun) return;
  begun = true;
  state.keeps.set("region", () => { const mask = region.value, all: number[] = []; mask?.forEach((m, n) => { if (m) all.push(n); }); return all; });
  // The region of the address, or of what was kept: once.
  const stop = effect(() => {
    if (!first.value) return;
    const text = state.address.peek().more["rg"], kept = state.server.peek()?.kept?.region;
    queueMicrotask(() => { stop(); if (text) regionOf(text); else if (kept && kept.length > 0) setRegion(kept); });
  });
  void list().catch(e => { failure.value = String((e as Error).message); });
  // Other pages and servers may change the database.
  setInterval(() => { if (keeping.value && document.visibilityState === "visible") void list().catch(e => { failure.value = String((e as Error).message); }); }, ASK_AGAIN);
  effect(() => {
    const ids = wanted.value, there = offered.value;
    void (async () => {
      try {
        const all: Loaded[] = [];
        for (const id of ids) if (there.some(o => o.id === id)) { const l = await load(id); if (l) all.push(l); }
        if (ids === wanted.peek()) loaded.value = all;
      } catch (e) { failure.value = String((e as Error).message); }
    })();
  });
  effect(() => {
    for (const l of loaded.value) {
      const which = rule.value, k = windowOf(l);
      if (l.info.windows > 0) void fetchEdges(l, which, k);
      if (which === "peak" && !l.counts.peak) void frames(`api/network/${l.info.id}/timeline?rule=peak${versioned(l)}`).then(f => { l.counts.peak = numbers(f, More.Count); moved.value++; }).catch(e => { failure.value = String((e as Error).message); });
    }
  });
  setInterval(() => void grow(), GROW);
  // Plays ten windows per second, once those before have arrived.
  setInterval(() => {
    const l = first.value;
    if (!playing.value || !l || !edgesOf(l)) return;
    if (windowOf(l) + 1 >= l.info.windows) playing.value = false; else goTo(l, windowOf(l) + 1);
  }, 100);
  for (const [key, act] of [["S", compareNext], ["[", () => nudge(-0.01)], ["]", () => nudge(0.01)], [",", () => shift(-1)], [".", () => shift(1)]] as const) state.acts.set(key, act);
}
