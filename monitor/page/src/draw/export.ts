// Export of the current view: pictures drawn again, and tables of their data.
import { quoted } from "./table.ts";
import { lowerBound, tickOf, type Store } from "../link/store.ts";
import { RasterView, type Picture } from "./raster.ts";
import { POINTS, reduce } from "./reduce.ts";
import { clock, timeTicks } from "./format.ts";

export interface Facts {
  source: string; checksum: string;
  /** Name of the model that runs. */
  model: string;
  /** Date and time at which the export was made. */
  saved: string;
  address: string; version: string; channels: string[]; outputs: { name: string; unit: string }[];
}
export interface Inks { ink: string; dim: string; line: string; paper: string; intended: string; decoded: string[] }

/** Above this number of spikes, the raster in an SVG is a bitmap. */
export const MOST_MARKS = 50_000;
/** Width on paper: two columns of a journal, in millimetres. */
const PAPER_MM = 180;
const WIDTH = 1100, LEFT = 90, RIGHT = 20, TOP = 46, RASTER = 420, LINE = 110, GAP = 34;

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
  const cell = (v: number) => Number.isNaN(v) ? "" : String(v), end = lowerBound(s.rowTick, s.rows, p.end);
  for (let i = lowerBound(s.rowTick, s.rows, p.end - p.window); i < end; i++) {
    const row = [s.seconds_(s.rowTick[i]!).toFixed(digits)];
    for (const values of s.hasTruth ? [s.estimate, s.truth] : [s.estimate]) for (let k = 0; k < o; k++) row.push(cell(values[i * o + k]!));
    lines.push(row.join(","));
  }
  return lines.join("\n") + "\n";
}

/** The raster as a picture of its own, `scale` device pixels to one. */
export function rasterPng(s: Store, p: Picture, scale: number): string {
  const canvas = document.createElement("canvas"), view = new RasterView(canvas);
  view.draw(s, { ...p, sweep: false }, [Math.round((WIDTH - LEFT - RIGHT) * scale), Math.round(RASTER * scale)]);
  return canvas.toDataURL("image/png");
}

export const safe = (text: string): string => text.replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);

/** Raster and lines as SVG: all lines and letters are vectors, spikes too up to MOST_MARKS. */
export function svg(s: Store, p: Picture, f: Facts, inks: Inks, raster: () => string): string {
  const w = WIDTH - LEFT - RIGHT, begin = p.end - p.window, x = (tick: number) => LEFT + (tick - begin) / p.window * w;
  const o = Math.min(s.shape.outputs, 4), height = TOP + RASTER + GAP + o * (LINE + 14) + 20, parts: string[] = [];
  const text = (at: number, y: number, words: string, ink: string, anchor = "start", more = "") => parts.push(`<text x="${at}" y="${y}" fill="${ink}" text-anchor="${anchor}"${more}>${safe(words)}</text>`);
  parts.push(`<rect width="${WIDTH}" height="${height}" fill="${inks.paper}"/>`);
  text(LEFT, 24, f.source, inks.ink, "start", ' font-weight="bold" font-size="15"');
  const a = lowerBound(s.tick, s.spikes, Math.floor(begin)), b = lowerBound(s.tick, s.spikes, p.end);
  if (b - a > MOST_MARKS) parts.push(`<image x="${LEFT}" y="${TOP}" width="${w}" height="${RASTER}" preserveAspectRatio="none" href="${raster()}"/>`);
  else {
    const row = RASTER / (p.to - p.from), high = Math.max(0.6, row * 0.8), marks: string[] = [];
    for (let i = a; i < b; i++) {
      const c = s.channel[i]!, place = (p.order ? p.order[c]! : c) - p.from;
      if (place >= 0 && place < p.to - p.from && within(s, p, i)) marks.push(`M${x(s.when(i)).toFixed(2)} ${(TOP + place * row + (row - high) / 2).toFixed(2)}v${high.toFixed(2)}`);
    }
    parts.push(`<path d="${marks.join("")}" stroke="${inks.ink}" stroke-width="0.8" fill="none"/>`);
  }
  for (const hole of [...s.holes, ...s.leftOut.map(([from, to]) => ({ from, to }))]) {
    const from = Math.max(hole.from, begin), to = Math.min(hole.to, p.end);
    if (from < to) parts.push(`<rect x="${x(from).toFixed(2)}" y="${TOP}" width="${(x(to) - x(from)).toFixed(2)}" height="${RASTER}" fill="url(#hole)"/>`);
  }
  parts.push(`<rect x="${LEFT}" y="${TOP}" width="${w}" height="${RASTER}" fill="none" stroke="${inks.line}"/>`);
  text(LEFT - 8, TOP + 10, f.channels[p.order ? p.order.indexOf(p.from) : p.from] ?? "", inks.dim, "end");
  text(LEFT - 8, TOP + RASTER, f.channels[p.order ? p.order.indexOf(p.to - 1) : p.to - 1] ?? "", inks.dim, "end");
  const t0 = s.seconds_(begin), t1 = s.seconds_(p.end);
  for (const { at: t, words } of timeTicks(t0, t1, 8)) {
    const at = LEFT + (t - t0) / (t1 - t0) * w;
    parts.push(`<path d="M${at.toFixed(1)} ${TOP + RASTER}v5" stroke="${inks.dim}"/>`);
    text(at, TOP + RASTER + 18, words, inks.dim, "middle");
  }
  text(LEFT + w / 2, TOP + RASTER + 31, "time of the session", inks.dim, "middle");
  parts.push(`<text transform="translate(${LEFT - 62} ${TOP + RASTER / 2}) rotate(-90)" fill="${inks.dim}" text-anchor="middle">channels</text>`);
  if (o > 0) {
    // The legend: solid is decoded, dashed is true.
    parts.push(`<path d="M${LEFT} ${TOP - 7}h22" stroke="${inks.decoded[0]}" stroke-width="1.5"/>`);
    text(LEFT + 28, TOP - 3, "decoded", inks.dim);
    if (s.hasTruth) { parts.push(`<path d="M${LEFT + 90} ${TOP - 7}h22" stroke="${inks.intended}" stroke-width="1.5" stroke-dasharray="5 4"/>`); text(LEFT + 118, TOP - 3, "true", inks.dim); }
  }
  const xs = new Float64Array(2 * POINTS), ys = new Float64Array(2 * POINTS);
  for (let k = 0; k < o; k++) {
    const top = TOP + RASTER + GAP + k * (LINE + 14), lines: [Float32Array, string, string][] = [];
    if (s.hasTruth) lines.push([s.truth, inks.intended, ' stroke-dasharray="5 4"']);
    lines.push([s.estimate, inks.decoded[k % inks.decoded.length]!, ""]);
    let low = Infinity, high = -Infinity;
    for (const [values] of lines) { const n = reduce(s, values, k, begin, p.end, xs, ys); for (let i = 0; i < n; i++) { const v = ys[i]!; if (v < low) low = v; if (v > high) high = v; } }
    parts.push(`<rect x="${LEFT}" y="${top}" width="${w}" height="${LINE}" fill="none" stroke="${inks.line}"/>`);
    text(LEFT - 8, top + LINE / 2, `${f.outputs[k]?.name ?? ""} ${f.outputs[k]?.unit ?? ""}`, inks.ink, "end");
    if (!(high > low)) continue;
    text(LEFT - 8, top + 10, high.toPrecision(3), inks.dim, "end");
    text(LEFT - 8, top + LINE, low.toPrecision(3), inks.dim, "end");
    for (const [values, ink, dash] of lines) {
      const n = reduce(s, values, k, begin, p.end, xs, ys), path: string[] = [];
      let open = false;
      for (let i = 0; i < n; i++) {
        if (Number.isNaN(ys[i])) { open = false; continue; }
        path.push(`${open ? "L" : "M"}${(LEFT + (xs[i]! - t0) / (t1 - t0) * w).toFixed(1)} ${(top + 4 + (high - ys[i]!) / (high - low) * (LINE - 8)).toFixed(1)}`);
        open = true;
      }
      parts.push(`<path d="${path.join("")}" stroke="${ink}" fill="none" stroke-width="1.5"${dash}/>`);
    }
  }
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
