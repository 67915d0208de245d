// Network functions that need no browser: strongest edges, edges above a threshold, positions.
import { safe } from "../draw/escape.ts";
import { quoted } from "../draw/table.ts";

export interface Info {
  id: number; name: string; nodes: number; windows: number; edges: number; measure: string; sign: string; strict: boolean; distance: boolean;
  window: number; step: number; window_seconds: number | null; step_seconds: number | null; seconds: number[] | null;
  names: string[] | null; positions: (number[] | null)[] | null; levels: number[]; undefined: [number, number]; complete: boolean; peaks: boolean; device: string;
  live?: Growth;
}
/** State of a network that grows; `version` goes up with its windows, and `changes` says whether pages may change it. */
export interface Growth { version: number; rows: number; lost: number; total: number; skipped: number; ended: boolean; changes: boolean; sample_seconds: number | null; threshold?: number; density?: number; top?: number }
/** Edges of a window, the strongest first. `key`: what a threshold is compared with. */
export interface Edges { window: number; total: number; i: Uint32Array; j: Uint32Array; r: Float32Array; key: Float32Array; undefined: Uint32Array }
export const NONE = 0xffffffff;

export const keyOf = (distance: boolean, r: number): number => distance ? -r : Math.abs(r);

/** Number of edges that reach a threshold; they are the first ones. */
export function prefix(key: Float32Array, threshold: number): number {
  const least = Math.fround(threshold);
  let low = 0, high = key.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (key[middle]! >= least) low = middle + 1; else high = middle;
  }
  return low;
}

/** The first level that is not below a threshold; the last where none is. */
export function levelOf(levels: ArrayLike<number>, threshold: number): number {
  for (let b = 0; b < levels.length; b++) if (levels[b]! >= Math.fround(threshold)) return b;
  return levels.length - 1;
}

/** End of a window in seconds, or its number if times are unknown. */
export const endOf = (info: Info, k: number): number => info.seconds ? info.seconds[k]! + (info.window_seconds ?? 0) : k + 1;

/** The window that ends nearest to a time. */
export function windowAt(info: Info, time: number): number {
  let low = 0, high = info.windows - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (endOf(info, middle) < time - 1e-9) low = middle + 1; else high = middle;
  }
  return low > 0 && Math.abs(endOf(info, low - 1) - time) <= Math.abs(endOf(info, low) - time) ? low - 1 : Math.max(0, low);
}

/** Edges of each node among the `n` strongest. `known`: the same of another number of them, from which only what lies between is counted. */
export function degrees(e: Edges, n: number, nodes: number, inside: Uint8Array | null = null, known: { n: number; all: Uint32Array } | null = null): Uint32Array {
  const all = known ? known.all.slice() : new Uint32Array(nodes), from = known?.n ?? 0, by = n < from ? -1 : 1, { i, j } = e;
  for (let k = Math.min(n, from), to = Math.max(n, from); k < to; k++) {
    const a = i[k]!, b = j[k]!;
    if (inside && !(inside[a] && inside[b])) continue;
    all[a]! += by; all[b]! += by;
  }
  return all;
}

export interface Link { node: number; r: number }
export function linksOf(e: Edges, n: number, node: number, inside: Uint8Array | null = null): Link[] {
  const all: Link[] = [];
  for (let k = 0; k < n; k++) {
    const other = e.i[k] === node ? e.j[k]! : e.j[k] === node ? e.i[k]! : -1;
    if (other >= 0 && !(inside && !inside[other])) all.push({ node: other, r: e.r[k]! });
  }
  return all;
}

/** The edges of A alone, of both, of B alone, each from the strongest on. */
export function difference(a: Edges, na: number, b: Edges, nb: number, nodes: number): [Edges, Edges, Edges] {
  const pair = (e: Edges, k: number): number => e.i[k]! * nodes + e.j[k]!;
  const inB = new Set<number>(), inA = new Set<number>();
  for (let k = 0; k < nb; k++) inB.add(pair(b, k));
  const only: number[] = [], both: number[] = [], other: number[] = [];
  for (let k = 0; k < na; k++) { const p = pair(a, k); inA.add(p); (inB.has(p) ? both : only).push(k); }
  for (let k = 0; k < nb; k++) if (!inA.has(pair(b, k))) other.push(k);
  const of = (e: Edges, all: number[]): Edges => ({
    window: e.window, total: all.length, undefined: e.undefined, i: Uint32Array.from(all, k => e.i[k]!), j: Uint32Array.from(all, k => e.j[k]!), r: Float32Array.from(all, k => e.r[k]!), key: Float32Array.from(all, k => e.key[k]!),
  });
  return [of(a, only), of(a, both), of(b, other)];
}

/** Nodes on a circle, those of a community side by side. */
export function circle(nodes: number, communities: Uint32Array | null): Float32Array {
  const order = orderBy(nodes, communities), places = new Float32Array(2 * nodes);
  order.forEach((node, k) => { const angle = 2 * Math.PI * k / nodes - Math.PI / 2; places[2 * node] = Math.cos(angle); places[2 * node + 1] = Math.sin(angle); });
  return places;
}

/** Nodes by community, then by number; those that are not followed last. */
export function orderBy(nodes: number, communities: Uint32Array | null): Uint32Array {
  const order = Uint32Array.from({ length: nodes }, (_, n) => n);
  return communities ? order.sort((a, b) => communities[a]! - communities[b]! || a - b) : order;
}

/** Gives each new community of a window a colour that none beside it has, the colours of the dead again. */
export function colour(slots: Map<number, number>, communities: Uint32Array, most = 24): void {
  const here = new Set(communities), used = new Set<number>();
  for (const c of here) { const slot = slots.get(c); if (slot !== undefined) used.add(slot); }
  for (const c of [...here].sort((a, b) => a - b)) {
    if (c === NONE || slots.has(c)) continue;
    let slot = 0;
    while (slot < most && used.has(slot)) slot++;
    used.add(slot);
    slots.set(c, slot < most ? slot : NONE);
  }
}

/** Two axes of the positions that are known; the others in a row below. Up is up where y grows downwards: as images have it. */
export function projected(info: Info, axes: [number, number]): Float32Array | null {
  if (!info.positions) return null;
  const places = new Float32Array(2 * info.nodes);
  let low = Infinity, high = -Infinity, left = Infinity, right = -Infinity;
  for (const p of info.positions) if (p) { low = Math.min(low, p[axes[1]] ?? 0); high = Math.max(high, p[axes[1]] ?? 0); left = Math.min(left, p[axes[0]] ?? 0); right = Math.max(right, p[axes[0]] ?? 0); }
  if (!(high >= low)) return null;
  const below = high + Math.max(1e-6, high - low) * 0.08;
  let unknown = 0;
  info.positions.forEach((p, n) => {
    places[2 * n] = p ? p[axes[0]] ?? 0 : left + (right - left) * (unknown++ % 50) / 50;
    places[2 * n + 1] = p ? p[axes[1]] ?? 0 : below;
  });
  return places;
}

/** Left, top, right, bottom of the nodes that count; of all where none does. */
export function bounds(places: Float32Array, counts: (node: number) => boolean): [number, number, number, number] {
  const box: [number, number, number, number] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let n = 0; 2 * n < places.length; n++) if (counts(n)) {
    const x = places[2 * n]!, y = places[2 * n + 1]!;
    box[0] = Math.min(box[0], x); box[1] = Math.min(box[1], y); box[2] = Math.max(box[2], x); box[3] = Math.max(box[3], y);
  }
  if (box[2] >= box[0]) {
    const pad = Math.max(box[2] - box[0], box[3] - box[1], 1e-3) * 0.04;
    return [box[0] - pad, box[1] - pad, box[2] + pad, box[3] + pad];
  }
  return places.length > 0 && counts(-1) !== true ? bounds(places, () => true) : [0, 0, 1, 1];
}

/** Part of the plane that picture `k` of several shows. All have one scale; those of the same nodes show the same part. */
export function fitted(all: [number, number, number, number][], k: number, same: boolean, w: number, h: number): { x: number; y: number; scale: number } {
  const joined = all.reduce(([l, t, r, b], [x0, y0, x1, y1]) => [Math.min(l, x0), Math.min(t, y0), Math.max(r, x1), Math.max(b, y1)] as [number, number, number, number]);
  const scale = Math.min(...(same ? [joined] : all).map(([l, t, r, b]) => Math.min(w / (r - l), h / (b - t)))), [l, t, r, b] = same ? joined : all[k]!;
  return { x: (l + r) / 2 - w / 2 / scale, y: (t + b) / 2 - h / 2 / scale, scale };
}

/** Numbers and ranges as people write them: "3, 7-9". `null` where it is something else. */
export function listed(text: string, nodes: number, names: string[] | null): number[] | null {
  const found = new Set<number>();
  for (const part of text.split(",").map(t => t.trim()).filter(t => t !== "")) {
    const named = names?.indexOf(part) ?? -1, range = /^(\d+)(?:-(\d+))?$/.exec(part);
    if (named >= 0) found.add(named);
    else if (range && Number(range[1]) < nodes && Number(range[2] ?? range[1]) < nodes) for (let n = Number(range[1]); n <= Number(range[2] ?? range[1]); n++) found.add(n);
    else return null;
  }
  return [...found].sort((a, b) => a - b);
}

export function within(polygon: [number, number][], x: number, y: number): boolean {
  let inside = false;
  for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a++) {
    const [xa, ya] = polygon[a]!, [xb, yb] = polygon[b]!;
    if (ya > y !== yb > y && x < (xb - xa) * (y - ya) / (yb - ya) + xa) inside = !inside;
  }
  return inside;
}

/** The adjacency matrix in an order, at most `most` cells wide: the strongest of each cell. */
export function matrix(e: Edges, n: number, order: Uint32Array, most: number): { size: number; cells: Float32Array } {
  const nodes = order.length, size = Math.max(1, Math.min(nodes, most)), place = new Uint32Array(nodes), cells = new Float32Array(size * size).fill(NaN);
  order.forEach((node, at) => { place[node] = Math.floor(at * size / nodes); });
  for (let k = n - 1; k >= 0; k--) { const a = place[e.i[k]!]!, b = place[e.j[k]!]!; cells[a * size + b] = cells[b * size + a] = e.r[k]!; }
  return { size, cells };
}

export function csv(parts: { name: string; info: Info; edges: Edges; n: number }[], head: string): string {
  const lines = [`${head}session,window,i,j,r`];
  for (const { name, info, edges, n } of parts) for (let k = 0; k < n; k++) {
    const node = (at: number): string => quoted(info.names?.[at] ?? String(at));
    lines.push(`${quoted(name)},${edges.window},${node(edges.i[k]!)},${node(edges.j[k]!)},${edges.r[k]!}`);
  }
  return lines.join("\n") + "\n";
}


/** The `n` strongest edges of a window, with the nodes' names and places, as `betz network export` writes them. */
export function graphml(info: Info, edges: Edges, n: number): string {
  const key = (id: string, of: string, type: string): string => `<key id="${id}" for="${of}" attr.name="${id}" attr.type="${type}"/>`;
  const lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">', key("name", "node", "string"), ...["x", "y", "z"].map(axis => key(axis, "node", "double")), key("weight", "edge", "double"), `<graph id="window-${edges.window}" edgedefault="undirected">`];
  for (let k = 0; k < info.nodes; k++) {
    const place = info.positions?.[k] ?? [];
    lines.push(`<node id="n${k}"><data key="name">${safe(info.names?.[k] ?? String(k))}</data>${place.map((v, axis) => `<data key="${"xyz"[axis]}">${v}</data>`).join("")}</node>`);
  }
  for (let k = 0; k < n; k++) lines.push(`<edge source="n${edges.i[k]!}" target="n${edges.j[k]!}"><data key="weight">${edges.r[k]!}</data></edge>`);
  return `${lines.join("\n")}\n</graph>\n</graphml>\n`;
}

/** The nodes of a region as numbers and spans: 0-7,12. */
export function spans(mask: Uint8Array): string {
  const parts: string[] = [];
  for (let n = 0; n < mask.length; n++) {
    if (!mask[n]) continue;
    const from = n;
    while (mask[n + 1]) n++;
    parts.push(from === n ? String(n) : `${from}-${n}`);
  }
  return parts.join(",");
}

/** The strongest edge of all networks that are shown: their edges have one scale, laid over each other or side by side. */
export const strongest = (keys: (ArrayLike<number> | undefined)[]): number => {
  const firsts = keys.flatMap(k => k && k.length > 0 ? [k[0]!] : []);
  return firsts.length > 0 ? Math.max(...firsts) : 1;
};
