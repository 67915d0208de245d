// A map's nodes on the screen, and colours for them: what needs no browser.
export interface Unit { name: string; spikes: number; rate_hz: number; waveform: number[] }
export interface Info {
  id: number; name: string; rows: number; columns: number; hexagonal: boolean; torus: boolean; dims: number; names: string[] | null; units: Unit[];
  samples: number; hit_samples: number; error_samples: number; version: number; training: [number, number] | null;
  stages: { number: number; epochs: number; hits: boolean }[]; left_out: number; errors: [number, number | null, number | null][];
}
/** Content of the map's view: heights, hits, units, one plane, or three planes as red, green and blue. */
export type Shown = { what: "heights" | "hits" | "units" } | { what: "plane"; dim: number } | { what: "rgb"; dims: [number, number, number] };

export const NO_UNIT = 0xffff_ffff;
/** Height of a row of hexagons, in widths. */
const ROW = Math.sqrt(3) / 2;

export function readShown(text: string | undefined, dims: number): Shown {
  if (text === "hits" || text === "units") return { what: text };
  const numbers = (text ?? "").split(",").map(n => /^\d{1,7}$/.test(n) ? Number(n) : NaN);
  if (numbers.every(n => n < dims)) {
    if (numbers.length === 1) return { what: "plane", dim: numbers[0]! };
    if (numbers.length === 3) return { what: "rgb", dims: numbers as [number, number, number] };
  }
  return { what: "heights" };
}
export const writeShown = (s: Shown): string | undefined => s.what === "heights" ? undefined : s.what === "plane" ? String(s.dim) : s.what === "rgb" ? s.dims.join(",") : s.what;

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

/** The nodes that touch one, as crates/base/som counts them. */
export function neighbours(info: Pick<Info, "rows" | "columns" | "hexagonal" | "torus">, node: number): number[] {
  const row = Math.floor(node / info.columns), column = node % info.columns, odd = row % 2;
  const off: [number, number][] = !info.hexagonal ? [[-1, -1], [-1, 0], [-1, 1], [0, -1], [0, 1], [1, -1], [1, 0], [1, 1]]
    : odd === 0 ? [[-1, -1], [-1, 0], [0, -1], [0, 1], [1, -1], [1, 0]] : [[-1, 0], [-1, 1], [0, -1], [0, 1], [1, 0], [1, 1]];
  const found: number[] = [], along = (at: number, by: number, n: number): number => info.torus ? (at + by + n) % n : at + by;
  for (const [down, right] of off) {
    const r = along(row, down, info.rows), c = along(column, right, info.columns);
    if (r < 0 || r >= info.rows || c < 0 || c >= info.columns) continue;
    const other = r * info.columns + c;
    if (other !== node && !found.includes(other)) found.push(other);
  }
  return found;
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
