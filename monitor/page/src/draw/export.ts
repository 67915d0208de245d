// Export of the current view: pictures drawn again, and tables of their data.
import { safe } from "./escape.ts";
import { quoted } from "./table.ts";
import { lowerBound, tickOf, type Store } from "../link/store.ts";
import { ramp } from "./colour.ts";
import { RasterView, type Picture } from "./raster.ts";
import { POINTS, reduce } from "./reduce.ts";
import { brief, clock, ticks, timeTicks } from "./format.ts";

export interface Facts {
  source: string; checksum: string;
  /** Name of the model that runs. */
  model: string;
  /** Date and time at which the export was made. */
  saved: string;
  address: string; version: string; channels: string[]; outputs: { name: string; unit: string }[];
}
export interface Inks { ink: string; dim: string; line: string; paper: string; intended: string; goal: string; decoded: string[] }

/** Above this number of spikes, the raster in an SVG is a bitmap. */
export const MOST_MARKS = 50_000;
/** Width on paper: two columns of a journal, in millimetres. */
const PAPER_MM = 180;
const WIDTH = 1100, LEFT = 90, RIGHT = 20, TOP = 46, RASTER = 420, LINE = 110, GAP = 34, FOOT = 34;

const head = (f: Facts): string => [`# source: ${f.source}`, `# model: ${f.checksum}`, `# saved: ${f.saved}`, `# address: ${f.address}`, `# betz ${f.version}`].map(l => l.replace(/[\n\r]/g, " ")).join("\n") + "\n";

/** Refuses cells: a table of spikes and steps has each by itself. */
export function single(s: Store): void {
  if (s.cell > 1) throw new Error(`This window is counted in cells of ${Number((s.cell * s.shape.stepSeconds).toPrecision(3))} s: zoom in to 60 s or less to export every spike and step.`);
}

/** True if a spike's own time is in view: a window may begin inside a step. */
const within = (s: Store, p: Picture, i: number): boolean => s.when(i) >= p.end - p.window && s.when(i) < p.end;

/** All spikes in view: seconds, channel. */
export function spikesCsv(s: Store, p: Picture, f: Facts): string {
  single(s);
  const lines = [`${head(f)}seconds,channel,spikes`], end = lowerBound(s.tick, s.spikes, p.end), digits = Math.max(0, Math.ceil(-Math.log10(tickOf(s))) + 1);
  for (let i = lowerBound(s.tick, s.spikes, Math.floor(p.end - p.window)); i < end; i++) {
    if (!within(s, p, i)) continue;
    const c = s.channel[i]!, place = p.order ? p.order[c]! : c;
    if (place >= p.from && place < p.to) lines.push(`${s.seconds_(s.when(i)).toFixed(digits)},${quoted(f.channels[c] ?? String(c))},${s.weight[i]!}`);
  }
  return lines.join("\n") + "\n";
}

/** All steps in view: seconds, estimates, intended outputs. */
export function outputsCsv(s: Store, p: Picture, f: Facts): string {
  single(s);
  const o = s.shape.outputs, digits = Math.max(0, Math.ceil(-Math.log10(s.shape.stepSeconds)) + 1);
  const lines = [head(f) + ["seconds", ...f.outputs.map(x => quoted(x.name)), ...(s.hasTruth ? f.outputs.map(x => quoted(`${x.name}_true`)) : [])].join(",")];
  // Nine digits are all that a float of 32 bits has.
  const cell = (v: number) => Number.isNaN(v) ? "" : String(Number(v.toPrecision(9))), end = lowerBound(s.rowTick, s.rows, p.end);
  for (let i = lowerBound(s.rowTick, s.rows, p.end - p.window); i < end; i++) {
    const row = [s.seconds_(s.rowTick[i]!).toFixed(digits)];
    for (const values of s.hasTruth ? [s.estimate, s.truth] : [s.estimate]) for (let k = 0; k < o; k++) row.push(cell(values[i * o + k]!));
    lines.push(row.join(","));
  }
  return lines.join("\n") + "\n";
}

/** A raster as a bitmap, and the colours of some counts if it has any. */
export interface Bitmap { url: string; scale: [spikes: number, colour: string][] }

/** The raster as a picture of its own, `scale` device pixels to one. */
export function rasterPng(s: Store, p: Picture, scale: number): Bitmap {
  const canvas = document.createElement("canvas"), view = new RasterView(canvas);
  view.draw(s, { ...p, sweep: false }, [Math.round((WIDTH - LEFT - RIGHT) * scale), Math.round(RASTER * scale)]);
  const heat = view.cells.heat(), counts = heat ? [...new Set([1, Math.round(Math.sqrt(heat.top)), heat.top])] : [];
  return { url: canvas.toDataURL("image/png"), scale: counts.map(n => [n, `rgb(${ramp()[Math.round(255 * heat!.of(n))]!.join(" ")})`]) };
}

/** Raster and lines as SVG: all lines and letters are vectors, spikes too up to MOST_MARKS. */
export function svg(s: Store, p: Picture, f: Facts, inks: Inks, raster: () => Bitmap): string {
  const w = WIDTH - LEFT - RIGHT, begin = p.end - p.window, x = (tick: number) => LEFT + (tick - begin) / p.window * w;
  const o = Math.min(s.shape.outputs, 4), height = TOP + RASTER + GAP + o * (LINE + 14) + (o > 0 ? FOOT : 20), parts: string[] = [];
  const text = (at: number, y: number, words: string, ink: string, anchor = "start", more = "") => parts.push(`<text x="${at}" y="${y}" fill="${ink}" text-anchor="${anchor}"${more}>${safe(words)}</text>`);
  parts.push(`<rect width="${WIDTH}" height="${height}" fill="${inks.paper}"/>`);
  text(LEFT, 24, f.source, inks.ink, "start", ' font-weight="bold" font-size="15"');
  const a = lowerBound(s.tick, s.spikes, Math.floor(begin)), b = lowerBound(s.tick, s.spikes, p.end);
  // Counts of bins are colours.
  let drawn: Bitmap | null = null;
  const bitmap = (): Bitmap => drawn ??= raster();
  if (b - a > MOST_MARKS || s.binned && !s.offset) parts.push(`<image x="${LEFT}" y="${TOP}" width="${w}" height="${RASTER}" preserveAspectRatio="none" href="${bitmap().url}"/>`);
  else {
    const row = RASTER / (p.to - p.from), high = Math.max(0.6, row * 0.8), marks: string[] = [];
    for (let i = a; i < b; i++) {
      const c = s.channel[i]!, place = (p.order ? p.order[c]! : c) - p.from;
      if (place >= 0 && place < p.to - p.from && within(s, p, i)) marks.push(`M${x(s.when(i)).toFixed(2)} ${(TOP + place * row + (row - high) / 2).toFixed(2)}v${high.toFixed(2)}`);
    }
    parts.push(`<path d="${marks.join("")}" stroke="${inks.ink}" stroke-width="0.8" fill="none"/>`);
  }
  if (s.binned && !s.offset) {
    text(WIDTH - RIGHT, TOP - 3, "spikes per bin", inks.dim, "end");
    bitmap().scale.forEach(([n, colour], k, all) => { const at = WIDTH - RIGHT - 90 - 50 * (all.length - k); parts.push(`<rect x="${at}" y="${TOP - 12}" width="10" height="10" fill="${colour}"/>`); text(at + 14, TOP - 3, String(n), inks.dim); });
  }
  for (const hole of [...s.holes, ...s.leftOut.map(([from, to]) => ({ from, to }))]) {
    const from = Math.max(hole.from, begin), to = Math.min(hole.to, p.end);
    if (from < to) parts.push(`<rect x="${x(from).toFixed(2)}" y="${TOP}" width="${(x(to) - x(from)).toFixed(2)}" height="${RASTER}" fill="url(#hole)"/>`);
  }
  parts.push(`<rect x="${LEFT}" y="${TOP}" width="${w}" height="${RASTER}" fill="none" stroke="${inks.line}"/>`);
  text(LEFT - 8, TOP + 10, f.channels[p.order ? p.order.indexOf(p.from) : p.from] ?? "", inks.dim, "end");
  text(LEFT - 8, TOP + RASTER, f.channels[p.order ? p.order.indexOf(p.to - 1) : p.to - 1] ?? "", inks.dim, "end");
  const t0 = s.seconds_(begin), t1 = s.seconds_(p.end);
  /** The axis of time below a plot that ends at `y`. */
  const timeAxis = (y: number): void => {
    for (const { at: t, words } of timeTicks(t0, t1, 8)) {
      const at = LEFT + (t - t0) / (t1 - t0) * w;
      parts.push(`<path d="M${at.toFixed(1)} ${y}v5" stroke="${inks.dim}"/>`);
      text(at, y + 18, words, inks.dim, "middle");
    }
    text(LEFT + w / 2, y + 31, "time of the session", inks.dim, "middle");
  };
  timeAxis(TOP + RASTER);
  parts.push(`<text transform="translate(${LEFT - 62} ${TOP + RASTER / 2}) rotate(-90)" fill="${inks.dim}" text-anchor="middle">channels</text>`);
  if (o > 0) {
    // The legend: solid is decoded, dashed is true.
    const aimed = s.events.some(e => e.type === "target"), entries: [string, string, string][] = [...Array.from({ length: o }, (_, k): [string, string, string] => [`${f.outputs[k]?.name ?? k}, decoded`, inks.decoded[k % inks.decoded.length]!, ""]),
      ...(s.hasTruth ? [["true", inks.intended, ' stroke-dasharray="5 4"'] as [string, string, string]] : []), ...(aimed ? [["target", inks.goal, ' stroke-dasharray="8 3 2 3"'] as [string, string, string]] : [])];
    entries.forEach(([words, ink, dash], k) => {
      const at = LEFT + k * Math.min(160, w / entries.length);
      parts.push(`<path d="M${at} ${TOP - 7}h22" stroke="${ink}" stroke-width="1.5"${dash}/>`);
      text(at + 28, TOP - 3, words, inks.dim);
    });
  }
  const xs = new Float64Array(2 * POINTS), ys = new Float64Array(2 * POINTS);
  for (let k = 0; k < o; k++) {
    const top = TOP + RASTER + GAP + k * (LINE + 14), lines: [Float32Array, string, string][] = [];
    if (s.hasTruth) lines.push([s.truth, inks.intended, ' stroke-dasharray="5 4"']);
    lines.push([s.estimate, inks.decoded[k % inks.decoded.length]!, ""]);
    let low = Infinity, high = -Infinity;
    for (const [values] of lines) { const n = reduce(s, values, k, begin, p.end, xs, ys); for (let i = 0; i < n; i++) { const v = ys[i]!; if (v < low) low = v; if (v > high) high = v; } }
    parts.push(`<rect x="${LEFT}" y="${top}" width="${w}" height="${LINE}" fill="none" stroke="${inks.line}"/>`);
    const unit = f.outputs[k]?.unit;
    parts.push(`<text transform="translate(${LEFT - 62} ${top + LINE / 2}) rotate(-90)" fill="${inks.ink}" text-anchor="middle">${safe(`${f.outputs[k]?.name ?? ""}${unit ? `, ${unit}` : ""}`)}</text>`);
    if (!(high > low)) continue;
    const y = (v: number): number => top + 4 + (high - v) / (high - low) * (LINE - 8);
    for (const v of ticks(low, high, 4)) {
      parts.push(`<path d="M${LEFT - 4} ${y(v).toFixed(1)}h4" stroke="${inks.dim}"/><path d="M${LEFT} ${y(v).toFixed(1)}h${w}" stroke="${inks.line}" stroke-width="0.5"/>`);
      text(LEFT - 7, y(v) + 4, brief(v), inks.dim, "end");
    }
    // Its target, from one to the next.
    const goals = s.events.filter(e => e.type === "target" && e.tick < p.end);
    goals.forEach((e, i) => {
      const v = (e["values"] as number[])[k] ?? NaN, from = Math.max(begin, e.tick), to = Math.min(p.end, goals[i + 1]?.tick ?? p.end);
      if (v >= low && v <= high && to > from) parts.push(`<path d="M${x(from).toFixed(1)} ${y(v).toFixed(1)}H${x(to).toFixed(1)}" stroke="${inks.goal}" stroke-width="1.4" stroke-dasharray="8 3 2 3"/>`);
    });
    for (const [values, ink, dash] of lines) {
      const n = reduce(s, values, k, begin, p.end, xs, ys), path: string[] = [];
      let open = false;
      for (let i = 0; i < n; i++) {
        if (Number.isNaN(ys[i])) { open = false; continue; }
        path.push(`${open ? "L" : "M"}${(LEFT + (xs[i]! - t0) / (t1 - t0) * w).toFixed(1)} ${y(ys[i]!).toFixed(1)}`);
        open = true;
      }
      parts.push(`<path d="${path.join("")}" stroke="${ink}" fill="none" stroke-width="1.5"${dash}/>`);
    }
  }
  if (o > 0) timeAxis(TOP + RASTER + GAP + o * (LINE + 14) - 14);
  text(WIDTH - RIGHT, 24, `${clock(Math.max(0, t0), 2)} to ${clock(t1, 2)} · ${f.model} ${f.checksum.slice(0, 8)}`, inks.dim, "end");
  text(LEFT, height - 6, `${f.saved} · ${f.address} · betz ${f.version}`, inks.dim, "start", ' font-size="9"');
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${PAPER_MM}mm" height="${(height * PAPER_MM / WIDTH).toFixed(1)}mm" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui,DejaVu Sans,sans-serif" font-size="11">`
    + `<defs><pattern id="hole" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0v7" stroke="${inks.dim}" stroke-width="2"/></pattern></defs>${parts.join("")}</svg>\n`;
}

/** An SVG as PNG: drawn by the browser, larger by `scale`. */
export async function png(text: string, scale: number): Promise<Blob> {
  const image = new Image(), size = /viewBox="0 0 (\d+) (\d+)"/.exec(text)!;
  await new Promise<void>((done, failed) => { image.onload = () => done(); image.onerror = () => failed(new Error("the picture cannot be drawn")); image.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" })); });
  const canvas = document.createElement("canvas");
  canvas.width = Number(size[1]) * scale;
  canvas.height = Number(size[2]) * scale;
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return new Promise((done, failed) => { canvas.toBlob(blob => blob ? done(blob) : failed(new Error("the browser made no picture")), "image/png"); });
}
