// Frames as monitor/src/frame.rs writes them: a header of 32 bytes, then sections; every array begins at a
// multiple of 8, so that it is looked at where it lies.
export const MAGIC = 0x465a5442, VERSION = 1, HEADER = 32;
export const STEP_BEFORE = 65_535;
export const enum Kind { Step = 1, Event = 2, Layout = 3, Job = 4, Again = 5, Network = 8 }
/** Sections of networks, layouts and communities: found by number in `more`. */
export const enum More { I = 14, J = 15, Value = 16, Place = 17, Community = 18, Count = 19, Undefined = 20, /** f32 (rows, outputs) */ Beside = 21, /** f32 per spike: fraction of its tick */ Offset = 22, Density = 23, EventRow = 24, EventSeconds = 25, /** f32 (rows, classes + 1): probabilities of a gate, and its factor */ Gate = 26, /** u32: the longest latency in nanoseconds */ Longest = 27 }
const enum Section {
  SpikeTick = 1, SpikeChannel = 2, Estimate = 3, Truth = 4, Latency = 5, Counters = 6, Slow = 7, RowTick = 8,
  Rates = 10, Cells = 11, Event = 12, Trials = 13,
}

export interface Cells { rows: number; columns: number; wide: number; counts: Uint8Array }
export interface Counters {
  steps: number; spikes: number; unknown: number; dropped: number; late: number; misses: number; swaps: number;
  notShown: number;
}
export interface Frame {
  kind: number; sequence: number; channels: number; first: number; ticks: number;
  spikeTick: Uint16Array; spikeChannel: Uint16Array | Uint32Array;
  estimate: Float32Array; truth: Float32Array | null; rowTick: Uint16Array | null;
  latency: Uint32Array; counters: Counters | null;
  slow: { offset: number; ns: number }[]; rates: Float32Array | null; cells: Cells | null;
  trials: Uint16Array; event: unknown;
  /** Other sections with elements of 4 bytes. */
  more: Map<number, Uint32Array>;
}

/** Reason why a message could not be read; `version` if page and server have different versions. */
export class FrameError extends Error {
  constructor(message: string, readonly version = false, readonly short = false) { super(message); }
}

/** Reads all frames of a message. */
export function parseAll(buffer: ArrayBuffer): Frame[] {
  const all: Frame[] = [];
  for (let at = 0; at < buffer.byteLength;) {
    const [frame, end] = parse(buffer, at);
    all.push(frame);
    at = end;
  }
  return all;
}

const NO_U16 = new Uint16Array(0), NO_U32 = new Uint32Array(0), NO_F32 = new Float32Array(0);

export function parse(buffer: ArrayBuffer, start = 0): [Frame, number] {
  const length = buffer.byteLength - start;
  if (length < HEADER) throw new FrameError(`a frame is cut short: expected ${HEADER} bytes, got ${length}`, false, true);
  const view = new DataView(buffer, start);
  if (view.getUint32(0, true) !== MAGIC) throw new FrameError("expected a frame (BTZF), got other bytes");
  const version = view.getUint16(4, true);
  if (version !== VERSION) throw new FrameError(`frames of version ${version}, this page reads ${VERSION}`, true);
  const frame: Frame = {
    kind: view.getUint16(6, true), sequence: view.getUint32(8, true), channels: view.getUint32(12, true),
    first: Number(view.getBigInt64(16, true)), ticks: view.getUint32(24, true),
    spikeTick: NO_U16, spikeChannel: NO_U16, estimate: NO_F32, truth: null, rowTick: null, latency: NO_U32,
    counters: null, slow: [], rates: null, cells: null, trials: NO_U16, event: null, more: new Map(),
  };
  let at = HEADER;
  for (let left = view.getUint32(28, true); left > 0; left--) {
    if (at + 8 > length) throw new FrameError(`a frame is cut short: expected ${at + 8} bytes, got ${length}`, false, true);
    const id = view.getUint16(at, true), size = view.getUint16(at + 2, true), n = view.getUint32(at + 4, true);
    const data = start + at + 8, next = at + 8 + Math.ceil(size * n / 8) * 8;
    if (next > length) throw new FrameError(`a frame is cut short: expected ${next} bytes, got ${length}`, false, true);
    section(frame, id, size, n, buffer, data);
    at = next;
  }
  return [frame, start + at];
}

function section(f: Frame, id: number, size: number, n: number, buffer: ArrayBuffer, at: number): void {
  // A section with another element size comes from a newer server; skip it like an unknown section.
  switch (id << 4 | size) {
    case Section.SpikeTick << 4 | 2: f.spikeTick = new Uint16Array(buffer, at, n); break;
    case Section.SpikeChannel << 4 | 2: f.spikeChannel = new Uint16Array(buffer, at, n); break;
    case Section.SpikeChannel << 4 | 4: f.spikeChannel = new Uint32Array(buffer, at, n); break;
    case Section.Estimate << 4 | 4: f.estimate = new Float32Array(buffer, at, n); break;
    case Section.Truth << 4 | 4: f.truth = new Float32Array(buffer, at, n); break;
    case Section.Latency << 4 | 4: f.latency = new Uint32Array(buffer, at, n); break;
    case Section.RowTick << 4 | 2: f.rowTick = new Uint16Array(buffer, at, n); break;
    case Section.Rates << 4 | 4: f.rates = new Float32Array(buffer, at, n); break;
    case Section.Trials << 4 | 2: f.trials = new Uint16Array(buffer, at, n); break;
    case Section.Counters << 4 | 8: {
      if (n < 8) break;
      const [steps, spikes, unknown, dropped, late, misses, swaps, notShown] =
        Array.from(new BigUint64Array(buffer, at, 8), Number) as [number, number, number, number, number, number, number, number];
      f.counters = { steps, spikes, unknown, dropped, late, misses, swaps, notShown };
      break;
    }
    case Section.Slow << 4 | 2: {
      const words = new Uint16Array(buffer, at, n);
      for (let i = 0; i + 4 <= n; i += 4) f.slow.push({ offset: words[i]!, ns: words[i + 2]! + words[i + 3]! * 65536 });
      break;
    }
    case Section.Cells << 4 | 1: {
      if (n < 8) break;
      const [rows, columns, wide] = new Uint16Array(buffer, at, 4) as unknown as [number, number, number];
      if (wide > 0 && 8 + rows * columns <= n) f.cells = { rows, columns, wide, counts: new Uint8Array(buffer, at + 8, rows * columns) };
      break;
    }
    case Section.Event << 4 | 1:
      try { f.event = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, at, n))); } catch { f.event = null; }
      break;
    default: if (size === 4 && id >= More.I) f.more.set(id, new Uint32Array(buffer, at, n));
  }
}

export const numbers = (f: Frame, id: More): Uint32Array => f.more.get(id) ?? NO_U32;
export const floats = (f: Frame, id: More): Float32Array => { const n = numbers(f, id); return new Float32Array(n.buffer, n.byteOffset, n.length); };

/** Number of buckets of a latency histogram: up to 4.3 s. */
export const BUCKETS = 104;
/** Shortest latency of a bucket in nanoseconds: four buckets per octave from 64 ns. */
export const bucketBegins = (bucket: number): number => 64 * 2 ** (bucket / 4);
