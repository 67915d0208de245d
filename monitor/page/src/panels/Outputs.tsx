// Decoded against true: a line an output, and the first two as a cursor in the plane.
import uPlot from "uplot";
import { useLayoutEffect, useRef } from "preact/hooks";
import { strokeMoments } from "../draw/lines.ts";
import { useSignalEffect } from "@preact/signals";
import { lowerBound } from "../link/store.ts";
import { POINTS, reduce } from "../draw/reduce.ts";
import * as state from "../state.ts";
import { colours, outputInk, painted } from "../theme.ts";
import { ticks, timeLabel } from "../draw/format.ts";
import { Panel, font, surface, usePainter } from "./Panel.tsx";
import { Bands } from "../views/classes.tsx";

/** A series as a path, broken where there is no value: what uPlot's own does besides, for fills and gaps, costs more than this. */
const paths: uPlot.Series.PathBuilder = (u, series, from, to) => {
  const xs = u.data[0], ys = u.data[series]!, { min: x0, max: x1 } = u.scales["x"]!, { min: y0, max: y1 } = u.scales["y"]!, { left, top, width, height } = u.bbox;
  const stroke = new Path2D(), kx = width / (x1! - x0!), ky = height / (y1! - y0!);
  let open = false;
  for (let i = from; i <= to; i++) {
    const y = ys[i];
    if (y === null || y === undefined) { open = false; continue; }
    const px = left + (xs[i]! - x0!) * kx, py = top + height - (y - y0!) * ky;
    if (open) stroke.lineTo(px, py); else stroke.moveTo(px, py);
    open = true;
  }
  return { stroke, fill: null, clip: null };
};

/** What was recorded is all there is: nothing is decoded. */
export const recorded = (): boolean => state.file.value !== null && state.server.value?.model === null;

export function Line({ k }: { k: number }) {
  const box = useRef<HTMLDivElement>(null), plot = useRef<uPlot | null>(null), read = useRef<HTMLSpanElement>(null), spokenAt = useRef(0);
  const output = state.server.value?.source.outputs[k], name = output?.name ?? `output ${k}`;
  const data = useRef({ xs: new Float64Array(2 * POINTS), decoded: [] as (number | null)[], intended: [] as (number | null)[], beside: [] as (number | null)[] });
  const range = useRef<[number, number]>([0, 1]), inside = useRef(false);
  /** Below the lines: the estimate ± its error of the last half minute, and the incident that is shown. */
  const band = (u: uPlot): void => {
    const rms = state.slowly.peek().rms[k] ?? NaN, xs = u.data[0], ys = u.data[2]!, { min: x0, max: x1 } = u.scales["x"]!, { min: y0, max: y1 } = u.scales["y"]!, { left, top, width, height } = u.bbox, g = u.ctx;
    const struck = state.incident.peek(), s = state.store.peek();
    const view = state.shown.peek(), part = state.range.peek();
    if (view && x1 != null) strokeMoments(g, view, x0! / view.shape.stepSeconds - view.base, x1 / view.shape.stepSeconds - view.base, [left, top, width, height], devicePixelRatio);
    if (part && x1 != null) {
      const [a, b] = part.map(t => left + Math.min(1, Math.max(0, (t - x0!) / (x1 - x0!))) * width) as [number, number];
      g.globalAlpha = 0.14; g.fillStyle = colours.x.css; g.fillRect(a, top, b - a, height); g.globalAlpha = 1;
    }
    if (struck && s && x1 != null) { g.fillStyle = colours.bad.css; g.fillRect(left + (s.seconds_(struck.tick) - x0!) * width / (x1 - x0!), top, 1.5 * devicePixelRatio, height); }
    if (!(rms > 0) || x1 == null || y1 == null) return;
    const x = (i: number) => left + (xs[i]! - x0!) * width / (x1 - x0!), y = (v: number) => top + height - (v - y0!) * height / (y1 - y0!);
    g.save();
    g.beginPath(); g.rect(left, top, width, height); g.clip();
    g.globalAlpha = 0.16; g.fillStyle = outputInk(k).css;
    for (let i = 0; i < xs.length;) {
      while (i < xs.length && ys[i] == null) i++;
      const from = i;
      g.beginPath();
      for (; i < xs.length && ys[i] != null; i++) g.lineTo(x(i), y(ys[i]! + rms));
      for (let j = i - 1; j >= from; j--) g.lineTo(x(j), y(ys[j]! - rms));
      g.fill();
    }
    g.restore();
  };
  /** What the lines say where the cursor is, in words; to those who listen at most once a second. */
  const reading = (u: uPlot): void => {
    const i = u.cursor.idx ?? -1, at = u.data[0][i], said = (s: number): string => { const v = u.data[s]?.[i]; return v === null || v === undefined ? "–" : String(Number(v.toPrecision(4))); };
    const words = at === undefined ? "" : `${timeLabel(at, 0.001)}: ${said(2)}${state.shown.value?.hasTruth ? `, true ${said(1)}` : ""}`, now = performance.now();
    if (read.current) read.current.textContent = words;
    // The pointer, or the keys, are in this plot: the other panels follow.
    const own = inside.current || document.activeElement === box.current && (u.cursor.left ?? -1) >= 0;
    if (own) state.cursor.value = (u.cursor.left ?? -1) >= 0 ? u.posToVal(u.cursor.left!, "x") : null;
    if (words && document.activeElement === box.current && now - spokenAt.current > 1000) { spokenAt.current = now; state.spoken.value = `${name} ${words}`; }
  };
  /** Arrow keys move the cursor, with Shift by a tenth; Escape takes it away. */
  const key = (event: KeyboardEvent): void => {
    const u = plot.current, by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0, off = event.key === "Escape" && (u?.cursor.left ?? -1) >= 0;
    if (!u || by === 0 && !off || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault(); event.stopPropagation();
    const wide = u.over.clientWidth, now = u.cursor.left ?? -1, from = now < 0 ? wide / 2 : now;
    u.setCursor({ left: off ? -10 : Math.min(wide - 1, Math.max(0, from + by * (event.shiftKey ? wide / 10 : 4))), top: off ? -10 : 1 });
  };
  useLayoutEffect(() => {
    const axis = { stroke: () => colours.dim.css, grid: { stroke: () => colours.line.css, width: 1 }, ticks: { stroke: () => colours.line.css, size: 4 }, font: font(11) };
    plot.current = new uPlot({
      width: box.current?.clientWidth ?? 300, height: box.current?.clientHeight ?? 100, legend: { show: false }, pxAlign: 1,
      cursor: { y: false, drag: { x: false, y: false } },
      scales: { x: { time: false, range: () => range.current }, y: { range: (_u, low, high) => low === null || low === high ? [(low ?? 0) - 1, (high ?? 0) + 1] : [low - (high - low) * 0.06, high + (high - low) * 0.06] } },
      // A label that would be cut off at the right is left out.
      axes: [{ ...axis, size: 22, space: 70, values: (u, v) => v.map(t => u.valToPos(t, "x") > u.width - 66 ? "" : timeLabel(t, (v[1] ?? 1) - (v[0] ?? 0))) }, { ...axis, size: 42, space: 28 }],
      padding: [6, 6, 0, 0], hooks: { setCursor: [reading], drawAxes: [band] },
      series: [{}, { stroke: () => colours.true.css, width: 1.4, dash: [5, 4], points: { show: false }, paths }, { stroke: () => outputInk(k).css, width: 1.6, points: { show: false }, paths }, { stroke: () => colours.warn.css, width: 1.4, dash: [1, 3], points: { show: false }, paths }],
    }, [[], [], [], []], box.current!);
    const resized = new ResizeObserver(() => { if (box.current) plot.current?.setSize({ width: box.current.clientWidth, height: box.current.clientHeight }); });
    resized.observe(box.current!);
    return () => { resized.disconnect(); plot.current?.destroy(); plot.current = null; };
  }, [k]);
  useSignalEffect(() => {
    const at = state.cursor.value, u = plot.current;
    if (!u || inside.current || document.activeElement === box.current) return;
    const left = at === null ? -10 : u.valToPos(at, "x");
    if (Math.abs((u.cursor.left ?? -10) - left) > 0.5) u.setCursor({ left, top: left < 0 ? -10 : 1 });
  });
  usePainter(s => {
    void painted.value;
    const end = state.viewEnd(s), from = end - state.viewWindow(s), d = data.current, most = Math.min(POINTS, plot.current?.width ?? POINTS);
    range.current = [s.seconds_(from), s.seconds_(end)];
    const n = reduce(s, s.estimate, k, from, end, d.xs, d.decoded, most);
    if (s.hasTruth) reduce(s, s.truth, k, from, end, d.xs, d.intended, most);
    for (let i = 0; i < n; i++) if (!s.hasTruth || Number.isNaN(d.intended[i])) d.intended[i] = null;
    if (s.hasBeside) reduce(s, s.beside, k, from, end, d.xs, d.beside, most); else d.beside.fill(null, 0, n);
    for (let i = d.beside.length; i < n; i++) d.beside[i] = null;
    d.decoded.length = d.intended.length = d.beside.length = n;
    plot.current?.setData([d.xs.subarray(0, n), d.intended, d.decoded, d.beside] as never);
  }, 30);
  const { r2: all, rms } = state.slowly.value, r2 = all[k], error = rms[k];
  return <div class="line">
    <div class="label"><span class={`key ${recorded() ? "dashed" : `ink${k % 3}`}`} aria-hidden="true" /><b>{name}</b> {output?.unit}{r2 !== undefined && !Number.isNaN(r2) && <span class="r2">R² {r2.toFixed(2)}{error !== undefined && <>, ± {Number(error.toPrecision(3))} {output?.unit}</>}</span>}<span class="read" ref={read} /></div>
    <div class="plot" ref={box} role="img" tabIndex={0} onKeyDown={key} onPointerEnter={() => { inside.current = true; }} onPointerLeave={() => { inside.current = false; state.cursor.value = null; }} aria-label={`${name}: decoded and true over the last ${state.address.value.window} seconds; arrow keys read`} />
  </div>;
}

/** The first two outputs as a point in the plane, with the last two seconds of its path. */
function Plane() {
  const canvas = useRef<HTMLCanvasElement>(null), extent = useRef([0, 0, 0, 0]), drawnAt = useRef(0);
  usePainter(s => {
    const on = surface(canvas.current);
    if (!on) return;
    const { g, w, h } = on, o = s.shape.outputs, end = lowerBound(s.rowTick, s.rows, state.viewEnd(s)), endTick = state.viewEnd(s);
    if (s.cell > 1) { g.fillStyle = colours.dim.css; g.font = font(11); g.textAlign = "center"; g.textBaseline = "middle"; g.fillText("the path of 2 s: zoom in to 60 s", w / 2, h / 2, w - 8); return; }
    const begin = lowerBound(s.rowTick, s.rows, endTick - Math.round(2 / s.shape.stepSeconds));
    // Bounds are those of the last half minute, so that the picture stands still.
    const far = lowerBound(s.rowTick, s.rows, endTick - Math.round(30 / s.shape.stepSeconds)), skip = Math.max(1, Math.floor((end - far) / 2000));
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = far; i < end; i += skip) for (const v of s.hasTruth ? [s.estimate, s.truth] : [s.estimate]) {
      const x = v[i * o]!, y = v[i * o + 1]!;
      if (x === x && y === y) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y); }
    }
    if (x1 < x0) return;
    const e = extent.current, now = performance.now(), ease = e[0] === e[1] ? 1 : 1 - Math.exp((drawnAt.current - now) / 400);
    drawnAt.current = now;
    [x0, x1, y0, y1].forEach((v, i) => { e[i]! += (v - e[i]!) * ease; });
    const scale = Math.min((w - 24) / Math.max(1e-9, e[1]! - e[0]!), (h - 24) / Math.max(1e-9, e[3]! - e[2]!));
    const px = (x: number) => w / 2 + (x - (e[0]! + e[1]!) / 2) * scale, py = (y: number) => h / 2 - (y - (e[2]! + e[3]!) / 2) * scale;
    g.strokeStyle = colours.line.css;
    g.strokeRect(0.5, 0.5, w - 1, h - 1);
    // One scale for both axes, in the outputs' unit.
    const cx = (e[0]! + e[1]!) / 2, cy = (e[2]! + e[3]!) / 2, word = (v: number) => String(Number(v.toPrecision(6)));
    g.font = font(10); g.fillStyle = colours.dim.css; g.textAlign = "center"; g.textBaseline = "bottom";
    g.beginPath();
    for (const v of ticks(cx - w / 2 / scale, cx + w / 2 / scale, w / 70)) { const at = Math.round(px(v)) + 0.5; g.moveTo(at, 0); g.lineTo(at, h); if (at > 24 && at < w - 14) g.fillText(word(v), at, h - 2); }
    g.textAlign = "left"; g.textBaseline = "middle";
    for (const v of ticks(cy - h / 2 / scale, cy + h / 2 / scale, h / 60)) { const at = Math.round(py(v)) + 0.5; g.moveTo(0, at); g.lineTo(w, at); if (at > 10 && at < h - 18) g.fillText(word(v), 3, at - 6); }
    g.stroke();
    g.strokeStyle = colours.dim.css;
    g.beginPath(); g.moveTo(px(0), 0); g.lineTo(px(0), h); g.moveTo(0, py(0)); g.lineTo(w, py(0)); g.stroke();
    const path = (values: Float32Array, ink: string, width: number, dash: number[]) => {
      g.strokeStyle = ink; g.lineWidth = width; g.setLineDash(dash); g.lineCap = "round";
      const parts = 8;
      for (let part = 0; part < parts; part++) {
        g.globalAlpha = (part + 1) / parts * 0.9;
        g.beginPath();
        let open = false;
        const a = begin + Math.floor((end - begin) * part / parts), b = Math.min(end, begin + Math.floor((end - begin) * (part + 1) / parts) + 1);
        for (let i = a; i < b; i++) {
          const x = values[i * o]!, y = values[i * o + 1]!;
          if (x !== x || y !== y) { open = false; continue; }
          if (open) g.lineTo(px(x), py(y)); else g.moveTo(px(x), py(y));
          open = true;
        }
        g.stroke();
      }
      g.setLineDash([]); g.globalAlpha = 1; g.lineWidth = 1;
    };
    if (s.hasTruth) path(s.truth, colours.true.css, 1.2, [4, 4]);
    path(s.estimate, colours.x.css, 2, []);
    if (end > begin) {
      const i = end - 1, dot = (values: Float32Array, fill: boolean) => {
        const x = px(values[i * o]!), y = py(values[i * o + 1]!);
        if (x !== x || y !== y) return;
        g.beginPath(); g.arc(x, y, 5, 0, 7);
        g.lineWidth = 2;
        if (fill) { g.fillStyle = colours.x.css; g.fill(); } else { g.strokeStyle = colours.ink.css; g.stroke(); }
        g.lineWidth = 1;
      };
      const [ex, ey] = state.slowly.peek().rms, ox = px(s.estimate[i * o]!), oy = py(s.estimate[i * o + 1]!);
      if (ex! > 0 && ey! > 0 && ox === ox && oy === oy) { g.globalAlpha = 0.16; g.fillStyle = colours.x.css; g.beginPath(); g.ellipse(ox, oy, ex! * scale, ey! * scale, 0, 0, 7); g.fill(); g.globalAlpha = 1; }
      if (s.hasTruth) dot(s.truth, false);
      dot(s.estimate, true);
    }
  }, 30);
  const names = state.server.value?.source.outputs, unit = names?.[0]?.unit === names?.[1]?.unit ? names?.[0]?.unit : "";
  return <figure class="plane"><canvas ref={canvas} role="img" aria-label={`${names?.[0]?.name} and ${names?.[1]?.name} in the plane: decoded as a disc, true as a ring, with two seconds of their path`} />
    <figcaption><span>{names?.[0]?.name}</span> →, <span>{names?.[1]?.name}</span> ↑{unit && `, ${unit}`} · path of 2 s{state.slowly.value.rms[0]! > 0 && " · shaded: ± error"}</figcaption></figure>;
}

/** `title`: what they are where they are not decoded, and no point in the plane then. */
export function Outputs({ title }: { title?: string }) {
  const outputs = state.server.value?.source.outputs ?? [], truth = state.store.value?.hasTruth;
  void state.beat.value;
  const lines = outputs.slice(0, 4), r2 = state.slowly.value.r2, known = r2.filter(v => !Number.isNaN(v));
  const bare = recorded();
  const note = <>{truth && !bare && <><span class="key solid" aria-hidden="true" />decoded <span class="key dashed" aria-hidden="true" />true </>}
    {known.length > 0 && <>· R² {state.file.value ? "of what is shown" : "of the last 30 s"} <b>{(known.reduce((a, b) => a + b, 0) / known.length).toFixed(2)}</b></>}
    {outputs.length > lines.length && <> · {lines.length} of {outputs.length} outputs shown</>}</>;
  const classes = state.server.value?.model?.kind === "classes", planar = outputs.length >= 2 && !title;
  return <Panel area="outputs" title={title ?? (bare ? "Recorded behaviour" : truth ? "Decoded against true" : "Decoded")} note={note}>
    <div class={planar ? "split" : "whole"}>
      {planar && (classes ? <Bands names={outputs.map(o => o.name)} /> : <Plane />)}
      <div class="lines">{lines.map((_, k) => <Line key={k} k={k} />)}</div>
    </div>
  </Panel>;
}
