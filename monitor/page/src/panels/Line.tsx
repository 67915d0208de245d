// An output over time: decoded, true and, during a swap, a second model's estimate, with axes and a reading.
import { useRef } from "preact/hooks";
import { useSignalEffect } from "@preact/signals";
import { strokeMoments } from "../draw/lines.ts";
import { POINTS, reduce } from "../draw/reduce.ts";
import { brief, length, ticks, timeLabel, timeTicks } from "../draw/format.ts";
import type { Store } from "../link/store.ts";
import * as state from "../state.ts";
import { OUTPUT_INKS, colours, outputInk } from "../theme.ts";
import { Cursor, inView } from "./Cursor.tsx";
import { font, surface, usePainter, textWidth } from "./Panel.tsx";

/** Room for the axes, in CSS pixels; the style sheet's `.plot .over` has the same. */
const LEFT = 42, TOP = 6, RIGHT = 6, FOOT = 22;
/** Spaces between labels of an axis, in CSS pixels. */
const APART_X = 75, APART_Y = 34;

/** Nothing is decoded; the page shows only what was recorded. */
export const recorded = (): boolean => state.file.value !== null && state.server.value?.model === null;

/** Lines of an output, NaN where there is no value. */
interface Curves { n: number; from: number; to: number; xs: Float64Array; decoded: Float64Array; intended: Float64Array; beside: Float64Array }
const curves = (): Curves => ({ n: 0, from: 0, to: 1, xs: new Float64Array(2 * POINTS), decoded: new Float64Array(2 * POINTS), intended: new Float64Array(2 * POINTS), beside: new Float64Array(2 * POINTS) });

function fill(d: Curves, s: Store, k: number, from: number, end: number, most: number): void {
  d.from = s.seconds_(from); d.to = s.seconds_(end);
  d.n = reduce(s, s.estimate, k, from, end, d.xs, d.decoded, most);
  for (const [known, values, into] of [[s.hasTruth, s.truth, d.intended], [s.hasBeside, s.beside, d.beside]] as const) if (known) reduce(s, values, k, from, end, d.xs, into, most); else into.fill(NaN);
}

/** Times from which a target is in force, and its value; NaN without one. */
function targets(s: Store, k: number, from: number): [number, number][] {
  const before = s.targetAt(from), all: [number, number][] = before ? [[from, before[k]!]] : [];
  for (const event of s.events) if (event.type === "target" && event.tick > from) all.push([event.tick, (event["values"] as number[])[k] ?? NaN]);
  return all;
}

/** Least and greatest value of the lines, with some room; [-1, 1] around a constant. */
function bounds(d: Curves, goals: [number, number][]): [number, number] {
  let low = Infinity, high = -Infinity;
  for (const all of [d.decoded, d.intended, d.beside]) for (let i = 0; i < d.n; i++) { const v = all[i]!; if (v < low) low = v; if (v > high) high = v; }
  for (const [, v] of goals) { if (v < low) low = v; if (v > high) high = v; }
  if (!(high > low)) return low === Infinity ? [-1, 1] : [low - 1, low + 1];
  return [low - (high - low) * 0.06, high + (high - low) * 0.06];
}

function draw(g: CanvasRenderingContext2D, width: number, height: number, d: Curves, k: number, s: Store): void {
  const w = Math.max(1, width - LEFT - RIGHT), h = Math.max(1, height - TOP - FOOT), goals = targets(s, k, d.from / s.shape.stepSeconds - s.base), [low, high] = bounds(d, goals), { n, xs, decoded } = d;
  const x = (t: number): number => LEFT + (t - d.from) / (d.to - d.from) * w, y = (v: number): number => TOP + h - (v - low) / (high - low) * h;
  g.font = font(11); g.fillStyle = colours.dim.css; g.strokeStyle = colours.line.css; g.lineWidth = 1;
  g.textBaseline = "middle"; g.textAlign = "right"; g.beginPath();
  for (const v of ticks(low, high, h / APART_Y)) { const at = Math.round(y(v)) + 0.5; g.moveTo(LEFT - 4, at); g.lineTo(LEFT + w, at); g.fillText(brief(v), LEFT - 7, at, LEFT - 8); }
  g.textBaseline = "top"; g.textAlign = "center";
  for (const { at: t, words } of timeTicks(d.from, d.to, w / APART_X)) {
    const at = Math.round(x(t)) + 0.5, half = textWidth(g, words) / 2;
    g.moveTo(at, TOP); g.lineTo(at, TOP + h + 4);
    // A label that would be cut off is left out.
    if (at - half > 0 && at + half < width) g.fillText(words, at, TOP + h + 6);
  }
  g.stroke();
  g.save();
  g.beginPath(); g.rect(LEFT, TOP, w, h); g.clip();
  strokeMoments(g, s, d.from / s.shape.stepSeconds - s.base, d.to / s.shape.stepSeconds - s.base, [LEFT, TOP, w, h]);
  const part = state.range.peek(), struck = state.incident.peek(), rms = state.slowly.peek().rms[k] ?? NaN;
  if (part) { g.globalAlpha = 0.14; g.fillStyle = colours.x.css; g.fillRect(x(part[0]), TOP, x(part[1]) - x(part[0]), h); g.globalAlpha = 1; }
  if (struck) { g.fillStyle = colours.bad.css; g.fillRect(x(s.seconds_(struck.tick)), TOP, 1.5, h); }
  // The estimate ± its error of the last half minute.
  if (rms > 0) {
    g.globalAlpha = 0.16; g.fillStyle = outputInk(k).css;
    for (let i = 0; i < n;) {
      while (i < n && Number.isNaN(decoded[i])) i++;
      const from = i;
      g.beginPath();
      for (; i < n && !Number.isNaN(decoded[i]); i++) g.lineTo(x(xs[i]!), y(decoded[i]! + rms));
      for (let j = i - 1; j >= from; j--) g.lineTo(x(xs[j]!), y(decoded[j]! - rms));
      g.fill();
    }
    g.globalAlpha = 1;
  }
  for (const [values, ink, wide, dash] of [[d.intended, colours.true, 1.4, [5, 4]], [decoded, outputInk(k), 1.6, []], [d.beside, colours.warn, 1.4, [1, 3]]] as const) {
    g.strokeStyle = ink.css; g.lineWidth = wide; g.setLineDash([...dash]);
    g.beginPath();
    // A line is broken where there is no value.
    let open = false;
    for (let i = 0; i < n; i++) {
      const v = values[i]!;
      if (v !== v) { open = false; continue; }
      if (open) g.lineTo(x(xs[i]!), y(v)); else g.moveTo(x(xs[i]!), y(v));
      open = true;
    }
    g.stroke();
  }
  // The target, from one to the next.
  g.strokeStyle = colours.good.css; g.lineWidth = 1.4; g.setLineDash([8, 3, 2, 3]);
  goals.forEach(([tick, v], i) => {
    if (v !== v) return;
    const from = Math.max(LEFT, x(s.seconds_(tick))), to = i + 1 < goals.length ? x(s.seconds_(goals[i + 1]![0])) : LEFT + w;
    g.beginPath(); g.moveTo(from, y(v)); g.lineTo(to, y(v)); g.stroke();
    if (i + 1 < goals.length) return;
    // The newest one is named.
    g.font = font(10); g.fillStyle = colours.good.css; g.textAlign = "right"; g.textBaseline = y(v) - TOP > 14 ? "bottom" : "top";
    g.fillText("target", to - 3, y(v) + (y(v) - TOP > 14 ? -2 : 2));
  });
  g.restore();
}

export function Line({ k }: { k: number }) {
  const box = useRef<HTMLDivElement>(null), over = useRef<HTMLDivElement>(null), canvas = useRef<HTMLCanvasElement>(null), read = useRef<HTMLSpanElement>(null), spokenAt = useRef(0), data = useRef<Curves | null>(null);
  /** Place of the pointer or of the keys in this plot, as a share of its width; null: neither is here. */
  const here = useRef<number | null>(null);
  const output = state.server.value?.source.outputs[k], name = output?.name ?? `output ${k}`, d = data.current ??= curves();
  const put = (share: number | null): void => { here.current = share; state.cursor.value = share === null ? null : d.from + share * (d.to - d.from); };
  /** Writes the values at the cursor; screen readers hear them at most once per second. */
  const tell = (): void => {
    const t = state.cursor.value;
    let i = -1;
    if (t !== null && t >= d.from && t <= d.to) for (let j = 0; j < d.n; j++) if (i < 0 || Math.abs(d.xs[j]! - t) < Math.abs(d.xs[i]! - t)) i = j;
    const said = (v: number): string => Number.isNaN(v) ? "–" : String(Number(v.toPrecision(4)));
    const words = i < 0 ? "" : `${timeLabel(d.xs[i]!, 0.001)}: ${said(d.decoded[i]!)}${state.shown.value?.hasTruth ? `, true ${said(d.intended[i]!)}` : ""}`, now = performance.now();
    if (read.current) read.current.textContent = words;
    if (words && document.activeElement === box.current && now - spokenAt.current > 1000) { spokenAt.current = now; state.spoken.value = `${name} ${words}`; }
  };
  /** Arrow keys move the cursor, with Shift by a tenth; Escape takes it away. */
  const key = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0, now = state.cursor.value, off = event.key === "Escape" && now !== null;
    if (by === 0 && !off || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault(); event.stopPropagation();
    const at = now === null ? 0.5 : inView(now), share = at + by * (event.shiftKey ? 0.1 : 4 / (over.current?.clientWidth || 300));
    put(off ? null : Math.min(1, Math.max(0, share)));
  };
  useSignalEffect(tell);
  usePainter(s => {
    const on = surface(canvas.current), end = state.viewEnd(s);
    if (!on) return;
    fill(d, s, k, end - state.viewWindow(s), end, Math.min(POINTS, Math.max(2, Math.floor(on.w - LEFT - RIGHT))));
    draw(on.g, on.w, on.h, d, k, s);
    // Time goes on under a pointer that rests.
    if (here.current !== null) put(here.current);
    if (state.cursor.peek() !== null) tell();
  }, 30);
  const { r2: all, rms } = state.slowly.value, r2 = all[k], error = rms[k];
  return <div class="line">
    <div class="label"><span class={`key ${recorded() ? "dashed" : `ink${k % OUTPUT_INKS}`}`} aria-hidden="true" /><b>{name}</b> {output?.unit}{r2 !== undefined && !Number.isNaN(r2) && <span class="r2">R² {r2.toFixed(2)}{error !== undefined && <>, ± {Number(error.toPrecision(3))} {output?.unit}</>}</span>}<span class="read" ref={read} /></div>
    <div class="plot" ref={box} role="img" tabIndex={0} onKeyDown={key} onBlur={() => { if (here.current !== null) put(null); }} aria-label={`${name}: decoded and true over ${length(state.address.value.window)}; arrow keys read`}>
      <canvas ref={canvas} />
      <div class="over" ref={over} onPointerMove={e => { const at = e.currentTarget.getBoundingClientRect(); put(Math.min(1, Math.max(0, (e.clientX - at.left) / at.width))); }} onPointerLeave={() => put(null)}><Cursor /></div>
    </div>
  </div>;
}
