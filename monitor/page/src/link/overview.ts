// Windows with more steps or spikes than are stored one by one: the server counts them in cells.
import { More, numbers, type Frame } from "./frame.ts";
import { LEAST_BIN_SECONDS, Store, type Shape } from "./store.ts";

/** Steps to load, and the number of steps per cell; 0: every spike by itself. */
export interface Plan { from: number; to: number; cell: number }
/** Largest number of spikes that are loaded one by one. */
const MOST_SPIKES = 4_000_000;

/** Plans what the page loads for the steps [begin, end). `seconds` are the spikes in each second of the recording. */
export function planOf(v: { begin: number; end: number; steps: number; stepSeconds: number; seconds: number[]; keepSeconds: number; columns: number }): Plan {
  const window = v.end - v.begin, around = v.keepSeconds / 4 / v.stepSeconds, clip = (t: number) => Math.max(0, Math.min(v.steps, t));
  // As much around the view as there is room for.
  if (window * v.stepSeconds <= v.keepSeconds * (1 + 1e-9)) for (const share of [1, 0.2, 0.02]) {
    // More of what comes than of what was: it may play.
    const from = Math.floor(clip(v.begin - share * around)), to = Math.max(from + 1, Math.ceil(clip(v.end + 2 * share * around)));
    let spikes = 0;
    for (let i = Math.floor(from * v.stepSeconds), last = Math.ceil(to * v.stepSeconds); i < last; i++) spikes += v.seconds[i] ?? 0;
    if (spikes <= MOST_SPIKES) return { from, to, cell: 0 };
  }
  // A power of two, so that zooming keeps most cells; a column of the picture is a cell.
  const cell = 2 ** Math.max(0, Math.ceil(Math.log2(window / Math.max(64, Math.min(2048, v.columns))))), side = Math.ceil(window / 2 / cell) * cell;
  const begin = Math.max(0, Math.floor(v.begin / cell) * cell - side);
  return { from: begin, to: Math.min(v.steps, Math.ceil(v.end / cell) * cell + side), cell };
}

/** A store of cells: an entry per cell that has spikes, and two rows per column with the least and greatest outputs. */
export function overviewStore(frame: Frame, shape: Omit<Shape, "keepSeconds">, steps: number): Store {
  const all = numbers(frame, More.Density), [first, last, rows, columns, cell] = all as unknown as [number, number, number, number, number], counts = all.subarray(5), per = (last - first) / rows;
  const s = new Store({ ...shape, keepSeconds: 1 }, 0), n = counts.reduce((sum, c) => sum + Number(c > 0), 0);
  s.cell = cell;
  s.tick = new Int32Array(n); s.channel = shape.channels > 65_536 ? new Uint32Array(n) : new Uint16Array(n); s.weight = new Uint32Array(n);
  let most = 1;
  for (let c = 0; c < columns; c++) for (let r = 0; r < rows; r++) {
    const count = counts[c * rows + r]!;
    if (count === 0) continue;
    s.tick[s.spikes] = frame.first + c * cell;
    s.channel[s.spikes] = first + Math.floor((r + 0.5) * per);
    s.weight[s.spikes++] = count;
    most = Math.max(most, count);
    if (per > 1) s.grouped += count;
  }
  s.groupedRows = rows;
  s.unit = Math.ceil(most / 255);
  s.binned = shape.tickSeconds === undefined && shape.stepSeconds >= LEAST_BIN_SECONDS && most > 1;
  s.first = frame.first;
  s.end = Math.min(steps, frame.first + frame.ticks);
  s.rows = 2 * columns;
  s.rowTick = Int32Array.from({ length: s.rows }, (_, i) => frame.first + (i >> 1) * cell + (i & 1) * (cell >> 1));
  const nothing = () => new Float32Array(s.rows * shape.outputs).fill(NaN);
  s.estimate = frame.estimate.length > 0 ? frame.estimate : nothing();
  s.hasTruth = (frame.truth?.length ?? 0) > 0;
  s.truth = s.hasTruth ? frame.truth! : nothing();
  s.beside = nothing();
  return s;
}
