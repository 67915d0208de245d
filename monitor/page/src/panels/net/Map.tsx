// The whole field, or the picture below it, with a rectangle round the part that is shown; the node under the
// pointer with its edges at its own place.
import { bounds, prefix } from "../../net/model.ts";
import * as net from "../../net/state.ts";
import { sessionCss } from "../../net/ink.ts";
import { colours, painted } from "../../theme.ts";
import { Plane } from "../Canvas.tsx";
import { drawImage, extentOf, part, shownView } from "./Graph.tsx";

/** Dots of all nodes as they were drawn last, and what they were drawn from: thousands of them do not move with the rectangle. */
let dots: { made: unknown[]; canvas: HTMLCanvasElement } | null = null;
function dotted(where: Float32Array, inside: Uint8Array | null, w: number, h: number, ox: number, oy: number, scale: number): HTMLCanvasElement {
  const ratio = devicePixelRatio || 1, made = [where, inside, w, h, ox, oy, scale, ratio, painted.value];
  if (dots?.made.every((v, k) => v === made[k])) return dots.canvas;
  const canvas = document.createElement("canvas"), n = where.length / 2, dot = n > 3000 ? 1 : 2.4;
  canvas.width = Math.round(w * ratio);
  canvas.height = Math.round(h * ratio);
  const g = canvas.getContext("2d")!;
  g.scale(ratio, ratio);
  g.fillStyle = colours.dim.css;
  for (let k = 0; k < n; k++) if (!inside || inside[k]) g.fillRect(where[2 * k]! * scale + ox - dot / 2, where[2 * k + 1]! * scale + oy - dot / 2, dot, dot);
  dots = { made, canvas };
  return canvas;
}

export function Map() {
  const draw = (g: CanvasRenderingContext2D, w: number, h: number): void => {
    void painted.value;
    const l = net.first.value;
    if (!l) return;
    const where = net.placesOf(l), below = net.placing.value === "place" ? net.image.value : null;
    const size = below ? extentOf(below) : null;
    const box = size ? [Math.min(size[0]!, size[2]!), Math.min(size[1]!, size[3]!), Math.max(size[0]!, size[2]!), Math.max(size[1]!, size[3]!)] as const : bounds(where, () => true);
    const scale = Math.min(w / (box[2] - box[0]), h / (box[3] - box[1])), ox = (w - (box[2] - box[0]) * scale) / 2 - box[0] * scale, oy = (h - (box[3] - box[1]) * scale) / 2 - box[1] * scale;
    const x = (n: number) => where[2 * n]! * scale + ox, y = (n: number) => where[2 * n + 1]! * scale + oy;
    if (below) drawImage(g, below, v => v * scale + ox, v => v * scale + oy);
    g.globalAlpha = 0.7;
    g.drawImage(dotted(where, net.region.value, w, h, ox, oy, scale), 0, 0, w, h);
    g.globalAlpha = 1;
    const near = net.hovered.value ?? net.node.value;
    if (near !== null) {
      net.loaded.value.forEach((one, s) => {
        const e = net.edgesOf(one);
        if (!e || one.info.nodes !== l.info.nodes) return;
        g.strokeStyle = sessionCss(s); g.lineWidth = 1;
        g.beginPath();
        for (let k = prefix(e.key, net.threshold.value) - 1; k >= 0; k--) if (e.i[k] === near || e.j[k] === near) { g.moveTo(x(e.i[k]!), y(e.i[k]!)); g.lineTo(x(e.j[k]!), y(e.j[k]!)); }
        g.stroke();
      });
      g.fillStyle = colours.bad.css;
      g.beginPath(); g.arc(x(near), y(near), 3.5, 0, 2 * Math.PI); g.fill();
    }
    const p = part.value;
    if (p) {
      g.strokeStyle = colours.bad.css; g.lineWidth = 1.5;
      const left = Math.max(1, p[0] * scale + ox), top = Math.max(1, p[1] * scale + oy), right = Math.min(w - 1, p[2] * scale + ox), bottom = Math.min(h - 1, p[3] * scale + oy);
      if (right > left && bottom > top) g.strokeRect(left, top, right - left, bottom - top);
    }
  };
  return <Plane class="minimap" draw={draw} label="The whole field; the rectangle is the part that the network shows" onClick={() => { shownView.value = null; }} />;
}
