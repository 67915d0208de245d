// Histogram of step latencies: the last minute over all time, both axes logarithmic, with the deadline.
import { BUCKETS, bucketBegins } from "../link/frame.ts";
import { colours } from "../theme.ts";
import { duration, whole } from "./format.ts";
import { font } from "./font.ts";

/** Draws it; `all` and `recent` are steps by bucket. The numbers of steps lie on the bars. */
export function paintLatency(g: CanvasRenderingContext2D, w: number, h: number, all: Float64Array, recent: ArrayLike<number>, deadline: number | null): void {
  const foot = 17, high = h - foot - 4;
  // From a tenth of a microsecond to what there is, at least to the deadline.
  let last = 40;
  all.forEach((n, i) => { if (n > 0) last = Math.max(last, i + 2); });
  if (deadline !== null) last = Math.max(last, Math.log2(deadline / 64) * 4 + 3);
  last = Math.min(BUCKETS, Math.ceil(last));
  const bar = w / last, top = Math.log10(1 + Math.max(1, ...all)), y = (n: number) => high - Math.log10(1 + n) / top * (high - 4);
  g.font = font(10); g.textBaseline = "top"; g.textAlign = "left";
  for (let e = 0; e <= top; e++) {
    const at = Math.round(y(10 ** e - 1 || 0));
    g.fillStyle = colours.line.css; g.fillRect(0, at, w, 1);
  }
  for (let i = 0; i < last; i++) {
    const over = deadline !== null && bucketBegins(i) >= deadline;
    g.fillStyle = over ? colours.bad.css : colours.x.css;
    g.globalAlpha = 0.28;
    if (all[i]! > 0) g.fillRect(i * bar, y(all[i]!), bar - 1, high - y(all[i]!));
    g.globalAlpha = 1;
    if (recent[i]! > 0) g.fillRect(i * bar, y(recent[i]!), bar - 1, high - y(recent[i]!));
  }
  // The numbers lie on the bars, not under them.
  g.fillStyle = colours.dim.css;
  for (let e = 1; e <= top; e++) g.fillText(whole(10 ** e), 1, Math.round(y(10 ** e - 1)) + 2);
  const x = (ns: number) => Math.log2(ns / 64) * 4 * bar;
  g.font = font(11);
  g.textBaseline = "bottom";
  for (const ns of [100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9]) {
    if (x(ns) > w - 18) break;
    g.fillStyle = colours.line.css; g.fillRect(Math.round(x(ns)), 0, 1, high + 4);
    g.fillStyle = colours.dim.css; g.textAlign = x(ns) < 20 ? "left" : "center"; g.fillText(duration(ns), Math.max(0, x(ns)), h);
  }
  if (deadline !== null && x(deadline) < w) {
    g.strokeStyle = colours.bad.css; g.lineWidth = 1.5; g.setLineDash([6, 3]);
    g.beginPath(); g.moveTo(x(deadline), 0); g.lineTo(x(deadline), high); g.stroke();
    g.setLineDash([]); g.lineWidth = 1;
    g.fillStyle = colours.bad.css; g.textBaseline = "top"; g.textAlign = x(deadline) > w - 70 ? "right" : "left";
    g.fillText("deadline", x(deadline) + (x(deadline) > w - 70 ? -4 : 4), 2);
  }
}
