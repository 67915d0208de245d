// Writes the current view as a recording: an .npz that NumPy and betz can read.
import { lowerBound, tickOf, type Store } from "../link/store.ts";
import type { Picture } from "./raster.ts";

export interface NpyArray { name: string; descr: string; shape: number[]; bytes: Uint8Array }
const bytesOf = (a: ArrayBufferView): Uint8Array => new Uint8Array(a.buffer, a.byteOffset, a.byteLength);

/** Strings in NumPy's form: all padded to the longest, with four bytes per character. */
export function texts(name: string, all: string[]): NpyArray {
  const points = all.map(t => Array.from(t, c => c.codePointAt(0)!)), wide = Math.max(1, ...points.map(p => p.length)), values = new Uint32Array(all.length * wide);
  points.forEach((p, k) => values.set(p, k * wide));
  return { name, descr: `<U${wide}`, shape: [all.length], bytes: bytesOf(values) };
}
export const array = (name: string, descr: string, shape: number[], values: ArrayBufferView): NpyArray => ({ name, descr, shape, bytes: bytesOf(values) });

function npy(a: NpyArray): Uint8Array {
  const shape = a.shape.length === 1 ? `(${a.shape[0]},)` : `(${a.shape.join(", ")})`, words = `{'descr': '${a.descr}', 'fortran_order': False, 'shape': ${shape}, }`;
  const length = Math.ceil((10 + words.length + 1) / 64) * 64, out = new Uint8Array(length + a.bytes.length);
  out.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, (length - 10) & 255, (length - 10) >> 8]);
  out.set(new TextEncoder().encode(words.padEnd(length - 11) + "\n"), 10);
  out.set(a.bytes, length);
  return out;
}

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => { for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ n >>> 1 : n >>> 1; return n; });
export function crc(bytes: Uint8Array): number {
  let c = 0xffffffff;
  for (const b of bytes) c = TABLE[(c ^ b) & 255]! ^ c >>> 8;
  return (c ^ 0xffffffff) >>> 0;
}

/** A zip of arrays, not compressed. */
export function npz(arrays: NpyArray[]): Uint8Array {
  const files: Uint8Array[] = [], list: Uint8Array[] = [];
  let at = 0;
  for (const a of arrays) {
    const name = new TextEncoder().encode(`${a.name}.npy`), data = npy(a), sum = crc(data), head = (central: boolean): Uint8Array => {
      const out = new Uint8Array((central ? 46 : 30) + name.length), view = new DataView(out.buffer), from = central ? 6 : 4;
      view.setUint32(0, central ? 0x02014b50 : 0x04034b50, true);
      if (central) view.setUint16(4, 20, true);
      view.setUint16(from, 20, true);
      // The earliest date that a zip can store.
      view.setUint16(from + 8, 0x21, true);
      view.setUint32(from + 10, sum, true);
      view.setUint32(from + 14, data.length, true);
      view.setUint32(from + 18, data.length, true);
      view.setUint16(from + 22, name.length, true);
      if (central) view.setUint32(42, at, true);
      out.set(name, central ? 46 : 30);
      return out;
    };
    list.push(head(true));
    const local = head(false);
    files.push(local, data);
    at += local.length + data.length;
  }
  const size = list.reduce((sum, l) => sum + l.length, 0), end = new Uint8Array(22), view = new DataView(end.buffer);
  view.setUint32(0, 0x06054b50, true);
  view.setUint16(8, arrays.length, true);
  view.setUint16(10, arrays.length, true);
  view.setUint32(12, size, true);
  view.setUint32(16, at, true);
  const all = [...files, ...list, end], out = new Uint8Array(all.reduce((sum, p) => sum + p.length, 0));
  let to = 0;
  for (const p of all) { out.set(p, to); to += p.length; }
  return out;
}

/** Spikes, estimates and intended outputs in view, for the channels in view; the clock starts with the picture. */
export function selection(s: Store, p: Picture, names: string[], outputs: { name: string; unit: string }[]): Uint8Array {
  const begin = Math.max(s.first, p.end - p.window), end = Math.min(p.end, s.end), inside: number[] = [], kept = new Map<number, number>();
  for (let c = 0; c < s.shape.channels; c++) { const place = p.order ? p.order[c]! : c; if (place >= p.from && place < p.to) kept.set(c, kept.size); }
  // The recording's own tick, so that spikes keep their times.
  const tick = tickOf(s), per = s.shape.stepSeconds / tick, ticks: bigint[] = [];
  for (let i = lowerBound(s.tick, s.spikes, begin), last = lowerBound(s.tick, s.spikes, end); i < last; i++) {
    const at = kept.get(s.channel[i]!);
    if (at !== undefined) for (let k = s.weight[i]!; k > 0; k--) { ticks.push(BigInt(Math.round((s.when(i) - begin) * per))); inside.push(at); }
  }
  const n = ticks.length, arrays = [
    array("spike_ticks", "<i8", [n], BigInt64Array.from(ticks)), array("spike_channels", "<u4", [n], Uint32Array.from(inside)),
    array("tick_seconds", "<f8", [], Float64Array.of(tick)), array("duration_ticks", "<i8", [], BigInt64Array.of(BigInt(Math.max(1, Math.ceil((end - begin) * per - 1e-6))))),
    texts("channel_names", [...kept.keys()].map(c => names[c] ?? `ch${c}`)),
  ];
  const a = lowerBound(s.rowTick, s.rows, begin), b = lowerBound(s.rowTick, s.rows, end), o = s.shape.outputs, means = s.hasTruth ? [["", s.truth], ["decoded ", s.estimate]] as const : [["decoded ", s.estimate]] as const, rows: number[] = [];
  // Leave out times with unknown values, because a recording's behaviour must be finite.
  for (let i = a; i < b; i++) if (means.every(([, v]) => v.subarray(i * o, (i + 1) * o).every(Number.isFinite))) rows.push(i);
  if (o > 0 && rows.length > 1) {
    const values = new Float64Array(rows.length * o * means.length);
    rows.forEach((i, r) => means.forEach(([, v], m) => values.set(v.subarray(i * o, (i + 1) * o), (r * means.length + m) * o)));
    arrays.push(array("behavior", "<f8", [rows.length, o * means.length], values), array("behavior_times", "<f8", [rows.length], Float64Array.from(rows, i => (s.rowTick[i]! - begin) * s.shape.stepSeconds)),
      texts("behavior_names", means.flatMap(([before]) => outputs.map(x => before + x.name))), texts("behavior_units", means.flatMap(() => outputs.map(x => x.unit))));
  }
  return npz(arrays);
}
