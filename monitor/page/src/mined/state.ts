// Which mined episodes are looked at, and the occurrences of the one that is picked.
import { computed, effect, signal, type ReadonlySignal } from "@preact/signals";
import * as state from "../state.ts";
import { type Store } from "../link/store.ts";
import type { Picture } from "../draw/raster.ts";
import { colours } from "../theme.ts";
import { HEADS, beside, narrowed, nearest, sorted, taken, type Column, type Episode, type Mined, type Occurrences, type Told } from "./model.ts";

export const files = signal<string[]>([]);
export const current = signal<Mined | null>(null);
export const failure = signal<string | null>(null);
export const only = signal("");
export const leastCount = signal(0);
export const leastZ = signal<number | null>(null);
export const occurrences = signal<Occurrences | null>(null);

const said = computed(() => { const [file, episode] = (state.address.value.more["ep"] ?? "0").split(".").map(Number); return { file: Number.isInteger(file) ? file! : 0, episode: Number.isInteger(episode) ? episode! : null }; });
export const which = computed(() => said.value.file);
export const sort = computed((): [Column, boolean] => {
  const by = state.address.value.more["by"] ?? "-episode", column = by.replace(/^-/, "");
  return [HEADS.some(h => h[0] === column) ? column as Column : "episode", by.startsWith("-")];
});
/** True if windows of a recording are mined and played in place of a list. */
export const played = computed(() => { const server = state.server.value; return server?.mode === "file" && server.sources.length > 0 && (server.mined === 0 || state.address.value.more["pw"] !== undefined); });
/** The picked episode of a window. */
export const ofWindow = signal<ReadonlySignal<Episode | null> | null>(null);
export const picked = computed(() => played.value ? ofWindow.value?.value ?? null : current.value?.episodes[said.value.episode ?? -1] ?? null);
export const listed = computed(() => current.value ? sorted(narrowed(current.value.episodes, only.value, leastCount.value, leastZ.value), ...sort.value) : []);

const say = (change: Record<string, string>): void => state.go({ more: { ...state.address.value.more, ...change } });
export const sortBy = (column: Column): void => { const [now, down] = sort.value; say({ by: `${now === column ? down ? "" : "-" : "-"}${column}` }); };
/** Picks an episode; the one that is picked is let go. */
export function pick(episode: number): void {
  if (said.value.episode === episode) { say({ ep: String(which.value) }); return; }
  say({ ep: `${which.value}.${episode}` });
  const e = current.value?.episodes[episode];
  if (e) state.spoken.value = `${e.name}, ${e.count} occurrences`;
}
export const choose = (file: number): void => say({ ep: String(file) });

/** To the next occurrence, or the one before. */
export function step(by: 1 | -1): void {
  const found = occurrences.value, s = state.store.value;
  if (!found || !s) return;
  const middle = s.seconds_(state.viewEnd(s)) - state.address.value.window / 2, at = beside(found.times, middle, by);
  if (at === null) { state.spoken.value = by > 0 ? "no occurrence later" : "no occurrence earlier"; return; }
  show(at);
}
export function show(at: number): void {
  const t = occurrences.value?.times[at]?.[0], s = state.store.value;
  if (t === undefined || !s) return;
  state.go({ at: Math.min(t + state.address.value.window / 2, s.seconds_(state.reach(s).end)) });
}

/** Share of the window that an occurrence fills after a zoom to it, and the shortest window, in steps. */
const FILLS = 0.4, LEAST_STEPS = 10;
/** Zooms to the occurrence that is nearest to the middle of the view. */
export function zoom(): void {
  const found = occurrences.value, s = state.store.value;
  if (!found || !s) return;
  const at = nearest(found.times, s.seconds_(state.viewEnd(s)) - state.address.value.window / 2);
  if (at === null) { state.spoken.value = "no occurrence"; return; }
  const times = found.times[at]!, first = times[0]!, last = times[times.length - 1]!, [least, most] = state.zoomBounds(s);
  const window = Math.min(most, Math.max(least, LEAST_STEPS * s.shape.stepSeconds, (last - first) / FILLS));
  state.go({ window, at: Math.min((first + last + window) / 2, s.seconds_(state.reach(s).end)) });
}

/** Each occurrence that is in sight as a line from spike to spike. */
function lines(g: CanvasRenderingContext2D, w: number, h: number, s: Store, p: Picture): void {
  const found = occurrences.value, e = picked.value;
  if (!found || !e || !played.value && state.address.value.source !== current.value?.recording) return;
  const step = s.shape.stepSeconds, from = (p.end - p.window) * step, to = p.end * step, starts = found.times;
  let k = 0, high = starts.length;
  while (k < high) { const m = (k + high) >> 1; if (starts[m]![starts[m]!.length - 1]! < from) k = m + 1; else high = m; }
  g.strokeStyle = g.fillStyle = colours.bad.css; g.lineWidth = 1.4;
  for (; k < starts.length && starts[k]![0]! < to; k++) {
    g.beginPath();
    starts[k]!.forEach((t, n) => {
      const c = e.channels[n]!, place = (p.order ? p.order[c]! : c) - p.from, x = (t - from) / (to - from) * w, y = (place + 0.5) / (p.to - p.from) * h;
      if (n === 0) g.moveTo(x, y); else g.lineTo(x, y);
      g.fillRect(x - 1.5, y - 1.5, 3, 3);
    });
    g.stroke();
  }
}

type Asked = Omit<Mined, "episodes"> & { episodes: Told[] };
let begun = false;
export function begin(): void {
  state.overRaster.add(lines);
  effect(() => { void occurrences.value; void picked.value; state.redraw(); });
  state.acts.set("n", () => step(1));
  state.acts.set("p", () => step(-1));
  watch();
}
/** The list, and of a session its counts as they grow. */
export function watch(): void {
  if (begun) return;
  begun = true;
  void (async () => {
    const answer = await fetch("api/mined");
    if (!answer.ok) throw new Error(await answer.text());
    files.value = (await answer.json() as { name: string }[]).map(f => f.name);
  })().catch(e => { failure.value = String((e as Error).message); });
  effect(() => {
    const file = which.value;
    if (file >= files.value.length) return;
    void (async () => {
      const answer = await fetch(`api/mined/${file}`);
      if (!answer.ok) throw new Error(await answer.text());
      const told = await answer.json() as Asked;
      if (file !== which.peek()) return;
      current.value = { ...told, episodes: taken(told.episodes, told.seconds) };
      if (!told.live && !played.peek() && state.address.peek().source !== told.recording) state.choose(told.recording);
    })().catch(e => { failure.value = String((e as Error).message); });
  });
  const key = computed(() => picked.value && !played.value ? `${which.value} ${picked.value.index}` : null);
  // Of a session counts grow, and so do occurrences.
  effect(() => {
    if (state.beat.value % 2 > 0 || !current.peek()?.live || !["episodes", "live"].includes(state.address.peek().view)) return;
    void (async () => {
      const told = await (await fetch("api/mined/0")).json() as Asked, e = picked.peek();
      current.value = { ...told, episodes: taken(told.episodes, told.seconds) };
      if (!e) return;
      const found = await (await fetch(`api/mined/0/${e.index}`)).json() as { total: number; times: number[][] };
      if (e.index === picked.peek()?.index) occurrences.value = { total: found.total, times: found.times.map(t => Float64Array.from(t)) };
    })().catch(() => { /* The connection is lost: the pill says so. */ });
  });
  effect(() => {
    const now = key.value, e = picked.peek(), file = which.peek();
    occurrences.value = null;
    if (!e || now === null) return;
    void (async () => {
      const answer = await fetch(`api/mined/${file}/${e.index}`);
      if (!answer.ok) throw new Error(await answer.text());
      const found = await answer.json() as { total: number; times: number[][] };
      if (now !== key.peek()) return;
      occurrences.value = { total: found.total, times: found.times.map(t => Float64Array.from(t)) };
      failure.value = null;
    })().catch(problem => { failure.value = String((problem as Error).message); });
  });
}
/** Back from windows to the lists, with the recording that the list is of. */
export function toLists(): void {
  const { pw: _, ...more } = state.address.value.more, of = current.value?.recording;
  state.go({ more });
  if (of !== undefined && of !== state.address.value.source) state.choose(of);
}
/** The lines stay over the raster of the other views, too; the keys go back. */
export function leave(): void { state.acts.delete("n"); state.acts.delete("p"); }
