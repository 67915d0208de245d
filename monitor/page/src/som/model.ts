// A map's nodes on the screen, and colours for them: what needs no browser.
export interface Unit { name: string; spikes: number; rate_hz: number; waveform: number[] }
export interface Info {
  id: number; name: string; rows: number; columns: number; hexagonal: boolean; torus: boolean; dims: number; layers: number; assigned: boolean; sample_values: boolean; names: string[] | null; units: Unit[];
  samples: number; hit_samples: number; error_samples: number; version: number; training: [number, number] | null;
  stages: { number: number; epochs: number; hits: boolean }[]; left_out: number; errors: [number, number | null, number | null][];
}
/** Content of the map's view: heights, hits, units, one plane, the U-matrix and planes side by side, or three planes as red, green and blue. */
export type Shown = { what: "heights" | "hits" | "units" } | { what: "all"; from: number } | { what: "plane"; dim: number } | { what: "rgb"; dims: [number, number, number] };

export const NO_UNIT = 0xffff_ffff;
/** Height of a row of hexagons, in widths. */
const ROW = Math.sqrt(3) / 2;

export function readShown(text: string | undefined, dims: number): Shown {
  if (text === "hits" || text === "units") return { what: text };
  const side = /^all(\d{1,7})$/.exec(text ?? "");
  if (side && Number(side[1]) < dims) return { what: "all", from: Number(side[1]) };
  const numbers = (text ?? "").split(",").map(n => /^\d{1,7}$/.test(n) ? Number(n) : NaN);
  if (numbers.every(n => n < dims)) {
    if (numbers.length === 1) return { what: "plane", dim: numbers[0]! };
    if (numbers.length === 3) return { what: "rgb", dims: numbers as [number, number, number] };
  }
  return { what: "heights" };
}
export const writeShown = (s: Shown): string | undefined => s.what === "heights" ? undefined : s.what === "all" ? `all${s.from}` : s.what === "plane" ? String(s.dim) : s.what === "rgb" ? s.dims.join(",") : s.what;

/** The stage to look at: the one that is asked for, the nearest before it where that is not kept; without one the last. */
export function stageAt(stages: Info["stages"], asked: number | null): number {
  if (asked === null) return stages.length - 1;
  let found = 0;
  stages.forEach((s, k) => { if (s.number <= asked) found = k; });
  return found;
}

export interface Layout { size: number; x: number; y: number; wide: number; high: number }
/** Layout of a map in a field: size of a node, and centre of the first. */
export function layout(info: Pick<Info, "rows" | "columns" | "hexagonal">, w: number, h: number): Layout {
  const across = info.columns + (info.hexagonal && info.rows > 1 ? 0.5 : 0), down = info.hexagonal ? (info.rows - 1) * ROW + 2 / Math.sqrt(3) : info.rows;
  const size = Math.max(0.01, Math.min(w / across, h / down)), wide = across * size, high = down * size;
  return { size, wide, high, x: (w - wide) / 2 + size / 2, y: (h - high) / 2 + (info.hexagonal ? size / Math.sqrt(3) : size / 2) };
}
export function middle(info: Pick<Info, "columns" | "hexagonal">, l: Layout, node: number): [number, number] {
  const row = Math.floor(node / info.columns), column = node % info.columns;
  return info.hexagonal ? [l.x + (column + 0.5 * (row % 2)) * l.size, l.y + row * ROW * l.size] : [l.x + column * l.size, l.y + row * l.size];
}
/** The node under a point, or null. */
export function nodeAt(info: Pick<Info, "rows" | "columns" | "hexagonal">, l: Layout, x: number, y: number): number | null {
  const guess = Math.round((y - l.y) / (l.size * (info.hexagonal ? ROW : 1)));
  let best: number | null = null, least = info.hexagonal ? (l.size / Math.sqrt(3)) ** 2 : Infinity;
  for (const row of info.hexagonal ? [guess - 1, guess, guess + 1] : [guess]) {
    if (row < 0 || row >= info.rows) continue;
    const column = Math.round((x - l.x) / l.size - (info.hexagonal ? 0.5 * (row % 2) : 0));
    if (column < 0 || column >= info.columns) continue;
    const node = row * info.columns + column, [mx, my] = middle(info, l, node), d = (x - mx) ** 2 + (y - my) ** 2;
    if (d <= least) { best = node; least = d; }
  }
  return best;
}

/** The nodes that touch one, as crates/base/som counts them. Layers lie one below the other in the rows. */
export function neighbours(info: Pick<Info, "rows" | "columns" | "hexagonal" | "torus" | "layers">, node: number): number[] {
  const high = info.rows / info.layers, line = Math.floor(node / info.columns), layer = Math.floor(line / high), row = line % high, column = node % info.columns, odd = row % 2;
  const off: [number, number][] = !info.hexagonal ? [[-1, -1], [-1, 0], [-1, 1], [0, -1], [0, 0], [0, 1], [1, -1], [1, 0], [1, 1]]
    : odd === 0 ? [[-1, -1], [-1, 0], [0, -1], [0, 0], [0, 1], [1, -1], [1, 0]] : [[-1, 0], [-1, 1], [0, -1], [0, 0], [0, 1], [1, 0], [1, 1]];
  const found: number[] = [], along = (at: number, by: number, n: number): number => info.torus ? (at + by + n) % n : at + by;
  for (const up of info.layers > 1 ? [-1, 0, 1] : [0]) for (const [down, right] of off) {
    const l = along(layer, up, info.layers), r = along(row, down, high), c = along(column, right, info.columns);
    if (l < 0 || l >= info.layers || r < 0 || r >= high || c < 0 || c >= info.columns) continue;
    const other = (l * high + r) * info.columns + c;
    if (other !== node && !found.includes(other)) found.push(other);
  }
  return found;
}

/** Most planes beside the U-matrix at a time. */
export const MOST_SIDE_BY_SIDE = 15;
/** The planes that are side by side, from one on. */
export const sideBySide = (dims: number, from: number): number[] => Array.from({ length: Math.min(MOST_SIDE_BY_SIDE, dims - from) }, (_, k) => from + k);
export interface Tile { x: number; y: number; w: number; h: number }
/** Fields for so many maps in a plane: the division in which the maps become largest. */
export function tiles(count: number, info: Pick<Info, "rows" | "columns" | "hexagonal">, w: number, h: number, head: number): Tile[] {
  let across = 1, largest = 0;
  for (let n = 1; n <= count; n++) {
    const size = layout(info, w / n - 8, h / Math.ceil(count / n) - head - 8).size;
    if (size > largest) { largest = size; across = n; }
  }
  const wide = w / across, high = h / Math.ceil(count / across);
  return Array.from({ length: count }, (_, k) => ({ x: k % across * wide + 4, y: Math.floor(k / across) * high + head, w: wide - 8, h: high - head - 8 }));
}

/** Direction from which a map in three dimensions is seen, in degrees. */
export interface Turn { around: number; up: number }
export const DEFAULT_TURN: Turn = { around: 30, up: 25 };
export function readTurn(text: string | undefined): Turn | null {
  const found = /^(\d{1,3}),(-?\d{1,2})$/.exec(text ?? "");
  return found && Number(found[1]) < 360 && Math.abs(Number(found[2])) <= 90 ? { around: Number(found[1]), up: Number(found[2]) } : null;
}
export const writeTurn = (t: Turn): string => `${t.around},${t.up}`;
export const turned = (t: Turn, around: number, up: number): Turn => ({ around: ((Math.round(t.around + around) % 360) + 360) % 360, up: Math.max(-90, Math.min(90, Math.round(t.up + up))) });
export interface Body { /** Size of a node on the screen. */ size: number; x: Float32Array; y: Float32Array; /** Larger is nearer. */ near: Float32Array; /** The nodes, the farthest first. */ order: Uint32Array }
/** The nodes of a map of several layers as they are seen from a direction: parallel projection, columns to the right, rows to the back, layers up. */
export function project(info: Pick<Info, "rows" | "columns" | "hexagonal" | "layers">, turn: Turn, w: number, h: number): Body {
  const nodes = info.rows * info.columns, high = info.rows / info.layers, deep = info.hexagonal ? ROW : 1;
  const centre = [(info.columns - 1 + (info.hexagonal && high > 1 ? 0.5 : 0)) / 2, (high - 1) * deep / 2, (info.layers - 1) / 2] as const;
  // The whole fits from every direction, so that the size stays while it turns.
  const across = 2 * Math.hypot(...centre) + 1, size = Math.max(0.01, Math.min(w, h) / across);
  const [sa, ca, su, cu] = [turn.around, turn.up].flatMap(d => [Math.sin(d * Math.PI / 180), Math.cos(d * Math.PI / 180)]) as [number, number, number, number];
  const body: Body = { size, x: new Float32Array(nodes), y: new Float32Array(nodes), near: new Float32Array(nodes), order: Uint32Array.from({ length: nodes }, (_, k) => k) };
  for (let n = 0; n < nodes; n++) {
    const line = Math.floor(n / info.columns), row = line % high, right = n % info.columns + (info.hexagonal ? 0.5 * (row % 2) : 0) - centre[0], back = row * deep - centre[1], up = Math.floor(line / high) - centre[2];
    const x = right * ca - back * sa, away = right * sa + back * ca;
    body.x[n] = w / 2 + x * size;
    body.y[n] = h / 2 - (up * cu + away * su) * size;
    body.near[n] = up * su - away * cu;
  }
  body.order.sort((a, b) => body.near[a]! - body.near[b]!);
  return body;
}
/** The node in front under a point, or null. */
export function bodyAt(body: Body, radius: number, x: number, y: number): number | null {
  for (let k = body.order.length - 1; k >= 0; k--) {
    const n = body.order[k]!;
    if (Math.hypot(body.x[n]! - x, body.y[n]! - y) <= radius) return n;
  }
  return null;
}

export function range(values: ArrayLike<number>, from = 0, to = values.length): [number, number] {
  let low = Infinity, high = -Infinity;
  for (let i = from; i < to; i++) { const v = values[i]!; if (v < low) low = v; if (v > high) high = v; }
  return low <= high ? [low, high] : [0, 0];
}
/** Where a value lies between two, 0 to 1; the middle where they are one. */
export const share = (v: number, [low, high]: [number, number]): number => high > low ? Math.min(1, Math.max(0, (v - low) / (high - low))) : 0.5;

/** A stage in words. A map that was read as trained, without its stages, has one of no epochs and no errors. */
export const stageWords = (info: Info, stage: { epochs: number } | undefined | null): string =>
  !stage ? "no stage yet" : stage.epochs > 0 ? `after ${Number(stage.epochs.toPrecision(4))} epochs` : info.stages.length === 1 && info.errors.length === 0 ? "as trained; the file has no earlier stages" : "before training";
