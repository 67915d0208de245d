// Decoded against true: a line an output, and the first two as a cursor in the plane.
import { useRef } from "preact/hooks";
import { lowerBound } from "../link/store.ts";
import * as state from "../state.ts";
import { colours } from "../theme.ts";
import { brief, ticks } from "../draw/format.ts";
import { Line, recorded } from "./Line.tsx";
import { Panel, font, surface, usePainter } from "./Panel.tsx";
import { Bands, Gate } from "../views/classes.tsx";

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
    const target = s.targetAt(endTick);
    if (target) { x0 = Math.min(x0, target[0]!); x1 = Math.max(x1, target[0]!); y0 = Math.min(y0, target[1]!); y1 = Math.max(y1, target[1]!); }
    if (x1 < x0) return;
    const e = extent.current, now = performance.now(), ease = e[0] === e[1] ? 1 : 1 - Math.exp((drawnAt.current - now) / 400);
    drawnAt.current = now;
    [x0, x1, y0, y1].forEach((v, i) => { e[i]! += (v - e[i]!) * ease; });
    const scale = Math.min((w - 24) / Math.max(1e-9, e[1]! - e[0]!), (h - 24) / Math.max(1e-9, e[3]! - e[2]!));
    const px = (x: number) => w / 2 + (x - (e[0]! + e[1]!) / 2) * scale, py = (y: number) => h / 2 - (y - (e[2]! + e[3]!) / 2) * scale;
    g.strokeStyle = colours.line.css;
    g.strokeRect(0.5, 0.5, w - 1, h - 1);
    // One scale for both axes, in the outputs' unit.
    const cx = (e[0]! + e[1]!) / 2, cy = (e[2]! + e[3]!) / 2;
    g.font = font(10); g.fillStyle = colours.dim.css; g.textAlign = "left"; g.textBaseline = "bottom";
    g.beginPath();
    for (const v of ticks(cx - w / 2 / scale, cx + w / 2 / scale, w / 70)) { const at = Math.round(px(v)) + 0.5; g.moveTo(at, 0); g.lineTo(at, h); if (at > 24 && at < w - 14) g.fillText(brief(v), at + 3, h - 2); }
    g.textAlign = "left"; g.textBaseline = "middle";
    for (const v of ticks(cy - h / 2 / scale, cy + h / 2 / scale, h / 60)) { const at = Math.round(py(v)) + 0.5; g.moveTo(0, at); g.lineTo(w, at); if (at > 10 && at < h - 18) g.fillText(brief(v), 3, at - 6); }
    g.stroke();
    g.strokeStyle = colours.dim.css;
    g.beginPath(); g.moveTo(px(0), 0); g.lineTo(px(0), h); g.moveTo(0, py(0)); g.lineTo(w, py(0)); g.stroke();
    // Where it was in the last half minute, the longer the darker.
    const size = 5, wide = Math.ceil(w / size), seen = new Uint16Array(wide * Math.ceil(h / size)), every = Math.max(1, Math.floor((end - far) / 1000));
    let darkest = 0;
    for (let i = far; i < end; i += every) {
      const gx = Math.floor(px(s.estimate[i * o]!) / size), gy = Math.floor(py(s.estimate[i * o + 1]!) / size);
      if (gx >= 0 && gx < wide && gy >= 0 && gy * wide + gx < seen.length) darkest = Math.max(darkest, ++seen[gy * wide + gx]!);
    }
    g.fillStyle = colours.x.css;
    seen.forEach((n, k) => { if (n > 0) { g.globalAlpha = 0.08 + 0.3 * Math.sqrt(n / darkest); g.fillRect(k % wide * size, Math.floor(k / wide) * size, size, size); } });
    g.globalAlpha = 1;
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
    if (target) { g.strokeStyle = colours.good.css; g.lineWidth = 2; g.strokeRect(px(target[0]!) - 9, py(target[1]!) - 9, 18, 18); g.lineWidth = 1; g.fillStyle = colours.good.css; g.font = font(10); g.textAlign = px(target[0]!) > w - 60 ? "right" : "left"; g.textBaseline = "bottom"; g.fillText("target", px(target[0]!) + (px(target[0]!) > w - 60 ? 9 : -9), py(target[1]!) - 11); }
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
  const aimed = state.store.value?.events.some(e => e.type === "target") ?? false;
  const names = state.server.value?.source.outputs, unit = names?.[0]?.unit === names?.[1]?.unit ? names?.[0]?.unit : "";
  return <figure class="plane inset"><canvas ref={canvas} role="img" aria-label={`${names?.[0]?.name} and ${names?.[1]?.name} in the plane: decoded as a disc, true as a ring, with two seconds of their path${aimed ? "; the target as a square" : ""}`} />
    <figcaption><span>{names?.[0]?.name}</span> →, <span>{names?.[1]?.name}</span> ↑{unit && `, ${unit}`} · path of 2 s, shaded where it was in 30 s{state.slowly.value.rms[0]! > 0 && " · disc: ± error"}{aimed && " · □ target"}</figcaption></figure>;
}

/** `title`: what they are where they are not decoded, and no point in the plane then. */
export function Outputs({ title }: { title?: string }) {
  const outputs = state.server.value?.source.outputs ?? [], truth = state.store.value?.hasTruth;
  void state.beat.value;
  const lines = outputs.slice(0, 4), r2 = state.slowly.value.r2, known = r2.filter(v => !Number.isNaN(v));
  const bare = recorded();
  const note = <>{truth && !bare && <><span class="key solid" aria-hidden="true" />decoded <span class="key dashed" aria-hidden="true" />true </>}
    {known.length > 0 && <>· R² {state.file.value || !state.live.value ? "of what is shown" : "of the last 30 s"} <b>{(known.reduce((a, b) => a + b, 0) / known.length).toFixed(2)}</b>{state.server.value?.in_sample && <span title="The model was trained on this recording: its accuracy on other data is lower"> in-sample</span>}</>}
    {outputs.length > lines.length && <> · {lines.length} of {outputs.length} outputs shown</>}</>;
  const model = state.server.value?.model, classes = model?.kind === "classes", planar = outputs.length >= 2 && !title;
  return <Panel area="outputs" title={title ?? (bare ? "Recorded behaviour" : truth ? "Decoded against true" : "Decoded")} note={note}>
    <div class={planar ? classes ? "split" : "split inset" : "whole"}>
      {planar && (classes ? <Bands names={outputs.map(o => o.name)} /> : <Plane />)}
      <div class="lines">{lines.map((_, k) => <Line key={k} k={k} />)}{model?.gate && !title && <Gate model={model} />}</div>
    </div>
  </Panel>;
}
