// Which map is looked at, at which stage of its training, and what of it; new stages as they come.
import { computed, effect, signal } from "@preact/signals";
import { More, floats, numbers } from "../link/frame.ts";
import { frames } from "../link/frames.ts";
import * as state from "../state.ts";
import { DEFAULT_TURN, neighbours, readShown, readTurn, sideBySide, stageAt, turned, writeShown, writeTurn, type Info, type Shown, type Turn } from "./model.ts";

export const maps = signal<string[]>([]);
export const info = signal<Info | null>(null);
export const failure = signal<string | null>(null);
/** Of the stage that is looked at. */
export const surface = signal<{ stage: number; heights: Float32Array; hits: Uint32Array; units: Uint32Array } | null>(null);
/** Planes, and of which stage and dimensions they are. */
export const planes = signal<{ of: string; values: Float32Array } | null>(null);
/** Planes side by side, as they come. */
export const gallery = signal<{ of: string; dims: number[]; values: Float32Array[] } | null>(null);
/** Samples of the node that is looked at, nearest first: their numbers, distances, the values of the nearest, and the number of all. */
export const samples = signal<{ of: string; rows: Uint32Array; distances: Float32Array; values: Float32Array; total: number } | null>(null);
export const weights = signal<{ of: string; values: Float32Array } | null>(null);

const said = (key: string): number | null => { const v = state.address.value.more[key]; return v !== undefined && /^\d{1,9}$/.test(v) ? Number(v) : null; };
export const which = computed(() => said("m") ?? 0);
export const shown = computed((): Shown => readShown(state.address.value.more["mv"], info.value?.dims ?? 0));
export const cell = computed(() => { const at = said("cell"), i = info.value; return i && at !== null && at < i.rows * i.columns ? at : null; });
/** The place of the stage among those that are kept; −1: there is none yet. */
export const stage = computed(() => info.value ? stageAt(info.value.stages, said("st")) : -1);
export const following = computed(() => said("st") === null);

export const say = (change: Record<string, string | undefined>): void => {
  const more: Record<string, string> = {};
  for (const [key, value] of Object.entries({ ...state.address.value.more, ...change })) if (value !== undefined) more[key] = value;
  state.go({ more });
};
/** Direction of the view in three dimensions; null: layers lie side by side. */
export const turn3d = computed((): Turn | null => (info.value?.layers ?? 1) > 1 && shown.value.what !== "all" ? readTurn(state.address.value.more["td"]) : null);
export const rotate = (around: number, up: number): void => { const now = turn3d.value; if (now) say({ td: writeTurn(turned(now, around, up)) }); };
export const stand = (on: boolean): void => say({ td: on ? writeTurn(DEFAULT_TURN) : undefined });
export const show = (what: Shown): void => say({ mv: writeShown(what) });
export const choose = (map: number): void => say({ m: map === 0 ? undefined : String(map), st: undefined, cell: undefined, mv: undefined, td: undefined });
export function goTo(at: number): void {
  const i = info.value, to = i?.stages[at];
  if (!i || !to) return;
  // The last one is followed while others come.
  say({ st: at === i.stages.length - 1 ? undefined : String(to.number) });
  state.spoken.value = `after ${Number(to.epochs.toFixed(2))} epochs`;
}
export function pick(node: number | null): void {
  say({ cell: node === null ? undefined : String(node) });
  const i = info.value, now = surface.value;
  if (node !== null && i) state.spoken.value = `row ${Math.floor(node / i.columns) + 1}, column ${node % i.columns + 1}${now ? `, height ${now.heights[node]?.toPrecision(3)}${now.hits.length > 0 ? `, ${now.hits[node]} hits` : ""}` : ""}`;
}
export function moveCell(down: number, right: number): void {
  const i = info.value;
  if (!i) return;
  const at = cell.value ?? 0, row = Math.floor(at / i.columns) + down, column = at % i.columns + right;
  const within = (v: number, n: number): number => i.torus ? (v + n) % n : Math.min(n - 1, Math.max(0, v));
  pick(cell.value === null ? 0 : within(row, i.rows) * i.columns + within(column, i.columns));
}
export const around = computed(() => info.value && cell.value !== null ? neighbours(info.value, cell.value) : []);

const problem = (e: unknown): void => { failure.value = String((e as Error).message); };
let turn = 0;
/** Asks for a map, and again whenever there is something new, as long as it is trained and looked at. */
async function follow(id: number): Promise<void> {
  const mine = ++turn;
  info.value = null; surface.value = null; planes.value = null; gallery.value = null; samples.value = null;
  for (let after = 0; mine === turn;) {
    try {
      const answer = await fetch(`api/map/${id}?after=${after}`);
      if (mine !== turn) return;
      if (!answer.ok) { failure.value = await answer.text(); return; }
      const next = await answer.json() as Info;
      info.value = next;
      failure.value = null;
      after = next.version;
      if (!next.training && next.stages.length > 0) return;
    } catch {
      if (mine !== turn) return;
      failure.value = "The server does not answer: what is here stays, and the page tries again.";
      await new Promise(done => setTimeout(done, 1000));
    }
  }
}
/** Nobody looks any more. */
export function leave(): void { turn++; for (const k of [",", "."]) state.acts.delete(k); }

let begun = false;
export function begin(): void {
  for (const [key, by] of [[",", -1], [".", 1]] as const) state.acts.set(key, () => goTo(stage.value + by));
  if (begun) { if (maps.value.length > 0) void follow(which.value); return; }
  begun = true;
  void (async () => {
    const answer = await fetch("api/maps");
    if (!answer.ok) throw new Error(await answer.text());
    maps.value = (await answer.json() as { name: string }[]).map(m => m.name);
  })().catch(problem);
  effect(() => { const id = which.value; if (maps.value.length > 0) void follow(id); });
  const number = computed(() => { const i = info.value; return i && stage.value >= 0 ? `${i.id}/${i.stages[stage.value]!.number}` : null; });
  effect(() => {
    const at = number.value;
    if (at === null) return;
    void frames(`api/map/${at}`).then(f => { if (number.peek() === at) surface.value = { stage: f.first, heights: floats(f, More.Value), hits: numbers(f, More.Count), units: numbers(f, More.Community) }; }).catch(problem);
  });
  effect(() => {
    const at = number.value, what = shown.value;
    if (at === null || what.what !== "plane" && what.what !== "rgb") return;
    const dims = what.what === "plane" ? [what.dim] : what.dims, of = `${at} ${dims.join()}`;
    void frames(`api/map/${at}/planes?dims=${dims.join()}`).then(f => { if (number.peek() === at && writeShown(shown.peek()) === writeShown(what)) planes.value = { of, values: floats(f, More.Value) }; }).catch(problem);
  });
  effect(() => {
    const at = number.value, what = shown.value, i = info.value;
    if (at === null || what.what !== "all" || !i) return;
    const dims = sideBySide(i.dims, what.from), of = `${at} ${dims.join()}`, mine = (): boolean => number.peek() === at && writeShown(shown.peek()) === writeShown(what);
    if (gallery.peek()?.of === of) return;
    void (async () => {
      const values: Float32Array[] = [], nodes = i.rows * i.columns;
      for (let k = 0; k < dims.length; k += 3) {
        const some = dims.slice(k, k + 3), found = floats(await frames(`api/map/${at}/planes?dims=${some.join()}`), More.Value);
        if (!mine()) return;
        some.forEach((_, j) => values.push(found.subarray(j * nodes, (j + 1) * nodes)));
        gallery.value = { of, dims, values: [...values] };
      }
    })().catch(problem);
  });
  effect(() => {
    const i = info.value, node = cell.value;
    if (!i?.assigned || node === null) { samples.value = null; return; }
    const of = `${i.id} ${node} ${i.version}`;
    void frames(`api/map/${i.id}/samples/${node}`).then(f => { if (info.peek() === i && cell.peek() === node) samples.value = { of, rows: numbers(f, More.Count), distances: floats(f, More.Value), values: floats(f, More.Beside), total: f.ticks }; }).catch(problem);
  });
  effect(() => {
    const at = number.value, node = cell.value;
    if (at === null || node === null) { weights.value = null; return; }
    const of = `${at} ${node}`;
    void frames(`api/map/${at}/node/${node}`).then(f => { if (number.peek() === at && cell.peek() === node) weights.value = { of, values: floats(f, More.Value) }; }).catch(problem);
  });
}
