// State of the page, and its updates from the server.
import { signal, computed, batch, effect } from "@preact/signals";
import { askState, type Early } from "./link/early.ts";
import { Link } from "./link/socket.ts";
import { Store, tickOf, type Accuracy, type Happened, type Hole } from "./link/store.ts";
import { Kind, parseAll, type Frame } from "./link/frame.ts";
import type { Picture } from "./draw/raster.ts";
import { clock } from "./draw/format.ts";
import { AROUND_SECONDS, incidents, neighbour, type Incident } from "./link/incidents.ts";
import { latencySoFar, missesSoFar } from "./link/moments.ts";
import { overviewStore, planOf, type Plan } from "./link/overview.ts";
import { sessionSoFar, type Slot, type Verdict } from "./link/session.ts";
import type { SessionStatus } from "./link/status.ts";
import { painted } from "./theme.ts";
import * as url from "./url.ts";

export interface Output { name: string; unit: string }
export interface ModelCard {
  name: string; fingerprint: string; kind: string; channels: number; masked: number; latents: number;
  filters: { tau_seconds: number; order: number }[]; delay_steps: number; memory_steps: number; ridge: number | null;
  trained: { betz_version: string; steps: number; segments: number; spikes: number; folds: number; solver: string };
  scores: { name: string; unit: string; r2: number | null; rmse: number | null }[]; weight_share: number[]; classes: { names: string[]; confusion: number[][] | null };
  /** Class whose probability p gates the outputs by closed + slope·p; null without a gate. */
  gate: { class: number; closed: number; slope: number; outputs: string[] } | null;
}
export interface ServerState {
  version: string; mode: "live" | "file"; sources: string[]; epoch: string; ended: boolean; control: boolean; running: string; swap: string;
  history: [number, number] | null; networks: number; mined: number; maps: number; labels: string[]; kept: { address: string; region?: number[] } | null;
  source: {
    name: string; channels: number; channel_names: string[]; electrode_um: ([number, number] | null)[] | null;
    outputs: Output[]; step_seconds: number; speed: number; deadline_ns: number | null;
  };
  model: ModelCard | null;
  simulation: { populations: { name: string; neurons: number; takes_current: boolean; degrees: [number, number]; parameters: [string, string][] }[]; synapses: number; seed: number; name: string; scale: number; every: number; replaceable: boolean; paused: boolean;
    /** Weights of synapses that learn: how many are in each equal bin from `low` to `high`. */
    weights: { name: string; low: number; high: number; bins: number[] }[] } | null;
  /** True if pages may steer the simulation. */
  steered: boolean;
  /** True if the model was trained on this recording. */
  in_sample: boolean;
  /** State that the session's program reports; null until it does. */
  status: SessionStatus | null;
  models: { models: ModelCard[]; running: string; state: string; ticks_left: number; ticks: number } | null;
  /** True if pages may accept the model that waits, and go back: the session's program carries it out. */
  decides: boolean;
}

/** Overview of a recording. */
export interface Outline {
  steps: number; seconds: number[]; trials: number[];
  /** Steps [from, to) that were left out on request. */
  left_out: [number, number][];
  /** The recording's own tick; null for binned counts. */
  tick_seconds: number | null;
}
export const KEEP_SECONDS = 60;
export const address = signal<url.Address>(url.read(location.hash));
export const server = signal<ServerState | null>(null);
export const connection = signal<"connecting" | "open" | "lost" | "refused" | "version" | "damaged">("connecting");
export const store = signal<Store | null>(null);
/** Data around a missed deadline that `store` no longer has. */
export const aside = signal<Store | null>(null);
/** Store that is drawn. */
export const shown = computed(() => aside.value ?? store.value);
/** Changes once per second, and whenever something other than the end changes. */
export const beat = signal(0);
export const slowly = signal({ spikesPerSecond: 0, r2: [] as number[], rms: [] as number[], behind: 0, fps: 0, kibPerSecond: 0, skipped: 0 });
export const helpOpen = signal(false);
export const exportOpen = signal(false);
/** True if the latency panel shows its histogram. */
export const latencyOpen = signal(false);
/** Text for screen readers. */
export const spoken = signal("");
export const keysOff = signal(false);
/** The server's answer to the last request. */
export const said = signal<{ what: string; good: boolean; words: string } | null>(null);
/** Overview of the whole recording; null for a session. */
export const file = signal<Outline | null>(null);
/** Actions of keys that belong to views loaded later. */
export const acts = new Map<string, () => void>();
/** Parts of a saved state that views add to the address. */
export const keeps = new Map<string, () => unknown>();
/** Functions that draw over the raster's spikes. */
export const overRaster = new Set<(g: CanvasRenderingContext2D, w: number, h: number, s: Store, p: Picture) => void>();
/** Exports that a view offers in place of spikes and outputs or, if it shows those too, `beside` them. */
export const offers = signal<{ words: string; beside?: boolean; take: [name: string, take: () => void | Promise<void>][] } | null>(null);
export const playing = signal(false);
/** Speed of playing a recording; 1: its own. */
export const speed = signal(1);
/** Time to which playing goes on from a time by some seconds, if a view decides it. */
export const pace: { next: ((at: number, by: number) => number) | null } = { next: null };
/** True while a session sends steps, or may send them. */
export const running = computed(() => !server.value?.ended && (connection.value === "open" || connection.value === "connecting"));
export const live = computed(() => address.value.at === null);

/** Channels that are masked now: those of the last mask event. */
export const masked = (): Set<number> => {
  const last = store.value?.events.findLast(e => e.type === "control" && e["what"] === "mask");
  return new Set((last?.["channels"] as number[] | undefined) ?? []);
};

export type Pill = { kind: "good" | "warn" | "bad" | "plain"; words: string };
/** Wall-clock time of the last frame, ms. */
let lastFrame = 0, link: Link | null = null;
const queue: { frame: Frame; lost: boolean }[] = [];
const marks = { time: performance.now(), spikes: 0, steps: 0, frames: 0, bytes: 0 };
let drawn = 0, best = Infinity;

export const pill = computed((): Pill => {
  void beat.value;
  if (connection.value === "version") return { kind: "bad", words: "newer server: reload the page" };
  if (connection.value === "refused") return { kind: "bad", words: "another server runs here: open the address it printed" };
  // A page cannot know whether the session goes on: the server may have ended with it.
  if (connection.value === "damaged") return { kind: "bad", words: "damaged data: trying again" };
  if (connection.value === "lost") return { kind: "bad", words: "no answer from the server" };
  if (connection.value === "connecting") return { kind: "plain", words: "connecting" };
  if (server.value?.ended) return { kind: "warn", words: "session stopped" };
  if (file.value) return playing.value ? { kind: "good", words: "playing" } : { kind: "plain", words: "recording" };
  if (server.value?.mode === "file") return { kind: "plain", words: "files" };
  if (!store.value) return { kind: "plain", words: "no session yet" };
  if (!live.value) return { kind: "warn", words: "paused" };
  const quiet = (performance.now() - lastFrame) / 1000;
  if (quiet > 1.5) return { kind: "warn", words: `nothing received for ${quiet.toFixed(0)} s` };
  const behind = slowly.value.behind;
  return behind > 0.35 ? { kind: "warn", words: `behind ${behind.toFixed(1)} s` } : { kind: "good", words: "live" };
});

export function go(change: Partial<url.Address>): void {
  address.value = { ...address.value, ...change };
}

/** Seconds in view. Only the first view shows more than the page stores one by one. */
export const seconds = (): number => address.value.view === "live" ? address.value.window : Math.min(KEEP_SECONDS, address.value.window);
/** Time of the pointer in any panel, in seconds; null: none. Every panel has a line there. */
export const cursor = signal<number | null>(null);
/** The selected range in seconds, from the address. */
export const range = computed((): [number, number] | null => {
  const [from, to] = (address.value.more["sel"] ?? "").split(",").map(Number);
  return from !== undefined && to !== undefined && from < to ? [from, to] : null;
});
export const select = (part: [number, number] | null): void => {
  const { sel: _, ...more } = address.value.more;
  go({ more: part ? { ...more, sel: part.map(t => String(Number(t.toFixed(6)))).join(",") } : more });
};

/** Ticks as the store can show them: whole cells or steps; with finer times any. */
const shownTicks = (s: Store, ticks: number): number => s.cell === 1 && s.offset && seconds() < 200 * s.shape.stepSeconds ? Math.round(ticks * 1e6) / 1e6 : Math.round(ticks / s.cell) * s.cell;
/** The end of what is shown, exclusive, in the store's ticks. */
export function viewEnd(s: Store): number {
  const at = address.value.at;
  if (at === null) return s.end;
  // The whole cell at the end: else the last moments would not be seen.
  const ticks = at / s.shape.stepSeconds - s.base;
  return s.cell > 1 ? Math.ceil(ticks / s.cell - 1e-6) * s.cell : shownTicks(s, ticks);
}
export const viewWindow = (s: Store): number => s.cell > 1 ? Math.max(2, Math.ceil(seconds() / s.shape.stepSeconds / s.cell - 1e-6)) * s.cell : Math.max(s.cell === 1 && s.offset ? 1e-3 : 2 * s.cell, shownTicks(s, seconds() / s.shape.stepSeconds));
/** Times between which the view lies, in seconds: those that were asked for, which whole cells of an overview may miss. */
export function viewSpan(s: Store): [number, number] {
  const { at, window } = address.value, last = s.seconds_(reach(s).end);
  if (at === null || s.cell === 1) return [s.seconds_(viewEnd(s) - viewWindow(s)), s.seconds_(viewEnd(s))];
  return [Math.max(0, at - window), Math.min(at, last)];
}
/** The least and greatest number of seconds that can be shown. */
export function zoomBounds(s: Store): [number, number] {
  const least = Math.max(0.001, 2 * tickOf(s));
  return [least, file.value ? Math.max(KEEP_SECONDS, file.value.steps * s.shape.stepSeconds) : KEEP_SECONDS];
}
/** Shows the whole recording, or all that is stored of a session. */
export function showAll(): void {
  const s = store.value;
  if (!s) return;
  const { first, end } = reach(s);
  go({ window: Math.min(zoomBounds(s)[1], Math.max(0.05, (end - first) * s.shape.stepSeconds)), at: file.value ? s.seconds_(end) : null });
}

/** The ticks that can be gone to. */
export const reach = (s: Store): { first: number; end: number } => file.value ? { first: 0, end: file.value.steps } : { first: s.first, end: s.end };

export function pause(on = live.value): void {
  const s = store.value;
  if (!s) return;
  if (file.value) {
    const at = viewEnd(s);
    if (!playing.value && at >= file.value.steps) go({ at: address.value.window });
    playing.value = !playing.value;
    return;
  }
  go({ at: on ? s.seconds_(s.end) : null });
}

export function move(windows: number): void {
  const s = store.value, { window, at } = address.value;
  if (!s) return;
  const within = (of: Store, to: number): number => {
    const { first, end } = reach(of), least = of.seconds_(first) + Math.min(window, (end - first) * of.shape.stepSeconds);
    return Math.max(Math.min(to, of.seconds_(end)), least);
  };
  const to = (at ?? s.seconds_(reach(s).end)) + windows * window, kept = aside.value;
  // Within a moment that is kept, or out of it into what the last minute has.
  go({ at: kept && within(kept, to) === to ? to : within(s, to) });
}

export function zoom(factor: number, around = 1): void {
  const { window, at } = address.value, s = shown.value, [least, most] = s ? zoomBounds(s) : [0.05, KEEP_SECONDS];
  const next = Number(Math.min(most, Math.max(least, window * factor)).toPrecision(9));
  const end = at !== null && s ? Math.min(at + (next - window) * (1 - around), s.seconds_(reach(s).end)) : at;
  go({ window: next, at: end });
}

/** Tick of the incident that is shown; null: none. The view was moved to it, and every panel has a line there. */
const incidentAt = signal<Incident | null>(null);
/** The incident in view; null if there is none or the view has moved away from it. */
export const incident = computed((): Incident | null => {
  const s = store.value, at = incidentAt.value;
  if (!s || !at || live.value) return null;
  const end = viewEnd(s);
  return at.tick >= end - viewWindow(s) && at.tick < end ? at : null;
});

/** Shows half a second before and after an incident. */
export function showIncident(at: Incident): void {
  const s = store.value;
  if (!s) return;
  // A session goes on to the end of this window; what has ended does not.
  const last = file.value || server.value?.ended ? s.seconds_(reach(s).end) : Infinity;
  go({ window: 2 * AROUND_SECONDS, at: Math.min(last, s.seconds_(at.tick) + AROUND_SECONDS) });
  incidentAt.value = at;
  spoken.value = at.words;
}

/** To the next incident or trial, or to the one before. */
export function jump(forward: boolean): void {
  const s = store.value;
  if (!s) return;
  const now = incident.value?.tick ?? viewEnd(s) - viewWindow(s) / 2, first = reach(s).first;
  // The server stores what lies around a missed deadline for longer than the rest.
  const all = incidents(s).filter(i => i.tick >= first || s.misses.some(m => m.tick === i.tick)), step = incident.value ? 0 : 1;
  const found = neighbour(all, now + (forward ? step : -step), forward);
  const trials = file.value?.trials ?? [], trial = forward ? trials.find(t => t > now + 1) : trials.findLast(t => t < now - 1);
  if (found && (trial === undefined || (forward ? found.tick <= trial : found.tick >= trial))) showIncident(found);
  else if (trial !== undefined) showAround(trial);
  else spoken.value = forward ? "no later incident or trial" : "no earlier incident or trial";
}

export function showAround(tick: number): void {
  const s = store.value;
  if (!s) return;
  // Half a second on both sides is stored of data older than the last minute.
  const window = tick < reach(s).first ? Math.min(1, address.value.window) : address.value.window;
  go({ window, at: Math.min(s.seconds_(tick) + window / 2, s.seconds_(reach(s).end)) });
}

export async function refresh(early?: Early): Promise<void> {
  const answer = await (early?.source === address.value.source ? early.state : askState(address.value.source));
  if (!answer.ok) throw new Error(await answer.text());
  const next = await answer.json() as ServerState, before = server.value;
  batch(() => {
    server.value = next;
    // Another session: what is here is not its past.
    if (before && before.epoch !== next.epoch) store.value = null;
  });
}

const wanted = new Set<string>();
async function fill(s: Store, hole: { from: number; to: number }): Promise<void> {
  const key = `${hole.from} ${hole.to}`;
  if (wanted.has(key)) return;
  wanted.add(key);
  try {
    const answer = await fetch(`api/spikes?from=${hole.from + s.base}&to=${hole.to + s.base}`);
    if (answer.ok && s === store.value) s.fill(parseAll(await answer.arrayBuffer()), hole.from, hole.to);
  } catch { /* The connection is lost: the pill says so, and the hole stays hatched. */ }
}

/** True when what the server keeps of the time before this page has come, or cannot be had: what takes long may then begin. */
export const gathered = signal(false);
/** Loads what was before this page: the timeline's numbers and the spikes in view first, then those of the rest of the minute. */
async function soFar(s: Store): Promise<void> {
  const ticks = (seconds: number): number => Math.max(0, s.first - Math.ceil(seconds / s.shape.stepSeconds));
  const first = s.first, seen = ticks(Math.min(KEEP_SECONDS, seconds())), oldest = ticks(KEEP_SECONDS);
  const told = [sessionSoFar(s), eventsSoFar(s), missesSoFar(s), latencySoFar(s)];
  if (first > seen) told.push(fill(s, { from: seen, to: first }));
  await Promise.allSettled(told);
  if (s !== store.value) return;
  gathered.value = true;
  // Nothing is known before what did not come.
  if (seen > oldest && s.first === seen) await fill(s, { from: oldest, to: seen });
}

async function eventsSoFar(s: Store): Promise<void> {
  try {
    const answer = await fetch("api/events");
    if (!answer.ok || s !== store.value) return;
    s.events = [];
    for (const event of await answer.json() as Happened[]) s.happened(event);
  } catch { /* As above. */ }
}

/** Shape of a store for the session or the recording. */
const shapeOf = ({ source, model }: ServerState) => ({ channels: source.channels, outputs: source.outputs.length, stepSeconds: source.step_seconds, gate: model?.gate ? model.classes.names.length + 1 : 0 });

function take(frame: Frame, lost: boolean): void {
  const state = server.value;
  if (frame.kind === Kind.Event) {
    const event = frame.event as Happened | null;
    if (event?.type === "status") { server.value = state && { ...state, status: event["status"] as SessionStatus }; return; }
    if (event?.type === "second") { const s = store.value; if (s) { s.slot(event["slot"] as Slot); s.verdict = event["verdict"] as Verdict; } return; }
    if (event && store.value) store.value.happened(event);
    if (event?.type === "verdict") spoken.value = String(event["words"]);
    // These events change nothing else of the server's state.
    if (event && !["labels", "target", "trial", "verdict"].includes(event.type)) { void refresh().catch(() => undefined); spoken.value = event.type; }
    return;
  }
  if (frame.kind !== Kind.Step || !state) return;
  let s = store.value;
  if (!s) {
    s = store.value = new Store({ ...shapeOf(state), keepSeconds: KEEP_SECONDS }, 0);
    s.add(frame, false);
    // The first picture does not wait for the seconds before this page: their answers would be read and drawn with it.
    requestAnimationFrame(() => setTimeout(() => void soFar(s!)));
  } else s.add(frame, lost);
  for (const hole of s.holes) if (hole.fillable) { hole.fillable = false; void fill(s, hole as Hole); }
  if (lost) { void eventsSoFar(s); void sessionSoFar(s).catch(() => undefined); }
}

/** Loads the stored data of a session that ended before this page was opened. */
async function past(): Promise<void> {
  const state = server.value;
  if (!state?.ended || !state.history || store.value) return;
  const [from, to] = state.history;
  const answer = await fetch(`api/spikes?from=${from}&to=${to}`);
  if (!answer.ok || store.value) return;
  const s = new Store({ ...shapeOf(state), keepSeconds: KEEP_SECONDS }, 0);
  for (const frame of parseAll(await answer.arrayBuffer())) s.add(frame, false);
  store.value = s;
  await Promise.allSettled([sessionSoFar(s), eventsSoFar(s), missesSoFar(s), latencySoFar(s)]);
  gathered.value = true;
}

export const painters = new Set<(s: Store) => void>();
/** Painters that change elements. They run after all others: an element that changes earlier makes the next canvas wait for a layout
 *  when it asks for its size. */
export const writers = new Set<(s: Store) => void>();
/** Keep drawing for this long after a change: some painters draw rarely, and some animate. */
const STILL_AFTER_MS = 2000;
let changedAt = -Infinity, movedAt = -Infinity, toldAt = -Infinity, shownBefore = "";
/** Marks the picture as changed. */
export function redraw(): void { changedAt = performance.now(); wake(); }
/** True while no frame is asked for, because nothing changes. */
let asleep = false;
/** Draws again from the next frame on. */
function wake(): void {
  if (!asleep) return;
  asleep = false;
  // The time that passed asleep was neither played nor drawn.
  marks.time = performance.now(); drawn = 0; playedAt = 0;
  requestAnimationFrame(frameLoop);
}
/** True if there is something to draw; an unchanging page costs nothing. */
function moves(now: number, s: Store): boolean {
  const a = address.value, of = shown.value!;
  const key = [incident.value?.tick, a.at, a.window, a.more["sel"], cursor.value, a.channels, a.order, a.channel, a.view, s.end, of.end, s.version, of.version, s.events.length, s.misses.length, painted.value, innerWidth, innerHeight, devicePixelRatio].join(" ");
  if (key !== shownBefore) { shownBefore = key; changedAt = movedAt = now; }
  return now - changedAt < STILL_AFTER_MS;
}

export function choose(source: number): void {
  go({ source, at: null, channels: null, channel: null });
  reopen();
}

/** Shows the recording that the address names. */
function reopen(): void {
  playing.value = false;
  void refresh().then(openFile).catch(() => { connection.value = "lost"; });
}

/** A recording: its outline, and as much around the view as is kept of a session. */
async function openFile(): Promise<void> {
  if (server.value!.sources.length === 0) {
    // Networks or maps alone: there is nothing on the first view.
    batch(() => { connection.value = "open"; if (address.value.view === "live") go({ view: server.value!.networks > 0 ? "networks" : "map" }); });
    return;
  }
  const answer = await fetch(`api/outline?source=${address.value.source}`);
  if (!answer.ok) throw new Error(await answer.text());
  const outline = await answer.json() as Outline;
  batch(() => {
    file.value = outline;
    loaded = null;
    const step = server.value!.source.step_seconds, end = outline.steps * step, first = outline.left_out[0];
    // Where the beginning was left out, the view begins with what was not.
    const begin = first && first[0] === 0 ? first[1] * step : 0;
    go({ at: Math.min(address.value.at ?? begin + address.value.window, end) });
    connection.value = "open";
  });
  await load();
}

/** Rows of an overview. */
const MOST_ROWS = 1024;
/** Device pixels of the raster from left to right. */
export const picture = { columns: Math.round(innerWidth / 2) };
let loaded: Plan & { channels: string } | null = null, loading = false;
/** Loads data around the view if they are missing: every spike, or counts in cells if there are too many. */
async function load(): Promise<void> {
  const outline = file.value, source = server.value?.source, which = address.value.source;
  if (!outline || !source || loading) return;
  const step = source.step_seconds, end = (address.value.at ?? 0) / step, begin = end - seconds() / step, clip = (t: number) => Math.max(0, Math.min(outline.steps, t));
  const plan = planOf({ begin, end, steps: outline.steps, stepSeconds: step, seconds: outline.seconds, keepSeconds: KEEP_SECONDS, columns: picture.columns });
  // Of very many channels, those that are shown have a row each in an overview, as far as there are rows.
  const [first, last] = plan.cell > 0 && source.channels > MOST_ROWS ? address.value.channels ?? [0, source.channels] : [0, source.channels], channels = `${first} ${last}`;
  if (loaded?.cell === plan.cell && loaded.channels === channels && clip(begin) >= loaded.from && clip(end) <= loaded.to) return;
  loading = true;
  try {
    const { from, to, cell } = plan, shape = { ...shapeOf(server.value!), ...(outline.tick_seconds !== null && { tickSeconds: outline.tick_seconds }) };
    const answer = await fetch(cell > 0 ? `api/overview?source=${which}&from=${from}&to=${to}&cell=${cell}&first=${first}&last=${last}&rows=${Math.min(last - first, MOST_ROWS)}` : `api/spikes?source=${which}&from=${from}&to=${to}`);
    if (!answer.ok) throw new Error(await answer.text());
    const frames = parseAll(await answer.arrayBuffer());
    if (which !== address.value.source) return;
    const s = cell > 0 ? overviewStore(frames[0]!, shape, outline.steps) : new Store({ ...shape, keepSeconds: 2 * KEEP_SECONDS }, 0);
    if (cell === 0) for (const frame of frames) s.add(frame, false);
    s.seconds = outline.seconds.map(spikes => ({ spikes, misses: 0, r2: NaN }));
    s.trials = outline.trials;
    s.leftOut = outline.left_out;
    s.rates = new Float32Array(source.channels);
    for (let i = 0; i < s.spikes; i++) s.rates[s.channel[i]!]! += s.weight[i]! / Math.max(step, (to - from - s.without(from, to)) * step);
    loaded = { ...plan, channels };
    store.value = s;
    gathered.value = true;
  } catch { connection.value = "lost"; }
  // The view may have moved on meanwhile.
  finally { loading = false; wake(); }
}

/** Accuracy of the view if the store has only the least and greatest value of each cell: the server's. */
let measured = "";
async function measure(s: Store): Promise<void> {
  const [from, to] = viewSpan(s), key = `${address.value.source} ${from} ${to}`;
  if (key === measured) return;
  measured = key;
  slowly.value = { ...slowly.value, r2: [], rms: [] };
  const answer = await fetch(`api/range?source=${address.value.source}&from=${Math.max(0, from)}&to=${to}`);
  if (!answer.ok || measured !== key) return;
  const { outputs } = await answer.json() as { outputs: { r2: number | null; rmse: number | null }[] };
  slowly.value = { ...slowly.value, r2: outputs.map(o => o.r2 ?? NaN), rms: outputs.map(o => o.rmse ?? NaN) };
  beat.value++;
}

let playedAt = 0;
function play(now: number): void {
  const outline = file.value, source = server.value?.source;
  if (outline && source && playing.value && playedAt > 0) {
    const end = outline.steps * source.step_seconds, was = address.value.at ?? 0, by = Math.min(0.5, (now - playedAt) / 1000) * speed.value, at = Math.min(end, pace.next?.(was, by) ?? was + by);
    if (at !== address.value.at) go({ at });
    if (at >= end) playing.value = false;
  }
  playedAt = now;
  if (outline) void load();
}

function taken(): void {
  for (const { frame, lost } of queue) take(frame, lost);
  queue.length = 0;
}

/** Milliseconds of script for the last frames that had data to process. */
const spent = new Float32Array(256);
let spentAt = 0;

function frameLoop(now: number): void {
  const began = performance.now(), came = queue.length;
  play(now);
  taken();
  link?.drawn();
  const s = store.value;
  const paints = s !== null && moves(began, s);
  if (paints) for (const paint of [...painters, ...writers]) paint(shown.value!);
  if (paints) drawn++;
  if (came > 0) spent[spentAt++ % spent.length] = performance.now() - began;
  if (now - marks.time >= 1000) second(now, s);
  // A browser composes a page that asks for frames, even if it draws nothing.
  asleep = !paints && !playing.value && queue.length === 0 && (file.value !== null || !running.value) && (s === null || toldAt > movedAt);
  if (!asleep) requestAnimationFrame(frameLoop);
}

const accuracy = (s: Store, from: number, to: number): Accuracy => s.hasTruth ? s.accuracy(from, to) : { r2: [], rms: [] };

function second(now: number, s: Store | null): void {
  const elapsed = (now - marks.time) / 1000;
  // A recording that stands still, or a session that has ended or is lost, has nothing new to say once it was said: a beat
  // would have all panels drawn again, and that would be a change.
  if (s && (file.value || !running.value) && now - movedAt > STILL_AFTER_MS && toldAt > movedAt) { marks.time = now; drawn = 0; return; }
  toldAt = now;
  if (s && file.value) {
    const end = viewEnd(s);
    if (s.cell > 1) void measure(s).catch(() => undefined); else measured = "";
    if (s.cell === 1) slowly.value = { ...slowly.value, ...accuracy(s, end - viewWindow(s), end) };
  }
  if (s && link) {
    const counters = s.counters, tail = Math.round(30 / s.shape.stepSeconds);
    const { r2, rms } = accuracy(s, s.end - tail, s.end);
    // A view that stands still has the accuracy of what it shows.
    const seen = shown.value!, shownNow = live.value ? { r2, rms } : accuracy(seen, viewEnd(seen) - viewWindow(seen), viewEnd(seen));
    slowly.value = {
      // Of the session's seconds, not of the wall's: a slow page does not make a slow session.
      spikesPerSecond: counters && counters.steps > marks.steps ? (counters.spikes - marks.spikes) / ((counters.steps - marks.steps) * s.shape.stepSeconds) : 0, ...shownNow,
      behind: lag, fps: drawn / elapsed, kibPerSecond: (link.bytes - marks.bytes) / 1024 / elapsed, skipped: link.skipped,
    };
    marks.spikes = counters?.spikes ?? 0;
    marks.steps = counters?.steps ?? 0;
    marks.bytes = link.bytes;
  }
  drawn = 0;
  marks.time = now;
  best += 2; // The clocks of two machines drift slowly.
  beat.value++;
}

let lag = 0;
/** Measures the lag of a frame against the earliest arrival so far: frames waiting on the way put the page behind. */
function late(frame: Frame): void {
  const source = server.value?.source;
  lastFrame = performance.now();
  if (!source || frame.kind !== Kind.Step) return;
  const offset = lastFrame - (frame.first + frame.ticks) * source.step_seconds * 1000 / source.speed;
  best = Math.min(best, offset);
  lag = Math.max(0, (offset - best) / 1000);
}

/** State of the page, for tests and diagnostics. */
export const inspect = { get store() { return store.value; }, get shown() { return shown.value; }, get link() { return link; }, get slowly() { return slowly.value; }, spent };

/** Longest time for which a page without data is left empty, ms. */
const EMPTY_MS = 150;
/** Resolves when there are data to show, or a reason why there are none, and otherwise after a moment: a view is made once, not first without data. */
export async function ready(): Promise<void> {
  let stop = (): void => undefined;
  await new Promise<void>(done => {
    stop = effect(() => {
      const come = store.value || server.value?.ended || server.value?.mode === "file" && connection.value === "open";
      if (come || !["connecting", "open"].includes(connection.value)) done();
    });
    setTimeout(done, EMPTY_MS);
  });
  stop();
}

export async function begin(early?: Early): Promise<void> {
  let view = address.value.view, last = 0, timer = 0, known = location.hash;
  const bare = known === "";
  addEventListener("hashchange", () => {
    const before = address.value.source;
    known = location.hash;
    const asked = url.read(location.hash);
    // A recording has no "now": a link without a time leaves the view where it is.
    address.value = file.value && asked.at === null && asked.source === before ? { ...asked, at: address.value.at } : asked;
    if (file.value && address.value.source !== before) reopen();
  });
  const put = () => {
    last = performance.now(); timer = 0;
    // An address that somebody has just written is read before it is written over.
    if (location.hash !== known) return;
    known = url.write(address.value);
    history.replaceState(null, "", known);
  };
  effect(() => {
    const now = address.value;
    if (now.view !== view) { view = now.view; if (location.hash === known) { known = url.write(now); history.pushState(null, "", known); } return; }
    // At most twice per second: browsers refuse more.
    if (timer === 0) timer = window.setTimeout(put, Math.max(0, 500 - (performance.now() - last)));
  });
  // Written where it differs: a browser tells its window of every writing.
  // Lost, it says until when it knows.
  effect(() => { const s = store.value, words = connection.value === "lost" && s ? `lost at ${clock(s.seconds_(s.end), 1)}` : pill.value.words, title = `${pill.value.kind === "good" ? "" : `${words} · `}${server.value?.source.name ?? "Betz"}`; if (document.title !== title) document.title = title; });
  requestAnimationFrame(frameLoop);
  effect(() => { void [address.value, incident.value, cursor.value, shown.value, painted.value, playing.value, server.value, connection.value, file.value, beat.value]; wake(); });
  addEventListener("resize", wake);
  // The connection does not wait for the state, nor the first frame for a picture without it.
  // `before`: it has been open; opened again, what is known of the session may be old.
  let opened = false, before = false;
  const own = link = new Link({
    frame: (frame, lost) => {
      late(frame);
      queue.push({ frame, lost });
      wake();
      if (server.value && !store.value) taken();
    },
    connection: state => {
      beat.value++;
      if (!server.value) { opened = state === "open"; if (opened) return; }
      else if (state === "lost") {
        // A server that was started anew has another token: then trying again does not help, and the page says what does.
        void fetch("api/state").then(answer => { if (answer.status === 401 && connection.value === "lost") connection.value = "refused"; }, () => undefined);
        if (connection.value === "refused") return;
      }
      else if (state === "open" && before) { best = Infinity; void refresh().then(past).catch(() => undefined); }
      before ||= state === "open";
      connection.value = state;
    },
  }, early);
  for (let asked: Early | undefined = early; !server.value; asked = undefined) {
    try { await refresh(asked); } catch { connection.value = "lost"; await new Promise(done => setTimeout(done, 1000)); }
  }
  const kept = server.value.kept;
  if (kept && bare) {
    address.value = url.read(kept.address);
    if (address.value.source !== 0) await refresh();
  }
  if (server.value.mode === "file") {
    own.stop();
    link = null;
    await openFile();
    return;
  }
  if (opened) { connection.value = "open"; before = true; }
  taken();
  await past().catch(() => undefined);
}
