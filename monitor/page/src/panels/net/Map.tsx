// The whole field, or the picture below it, with a rectangle round the part that is shown; the node under the
// pointer with its edges at its own place.
import { bounds, prefix, projected } from "../../net/model.ts";
import * as net from "../../net/state.ts";
import { sessionCss } from "../../net/ink.ts";
import { colours, painted } from "../../theme.ts";
import { Plane } from "../Canvas.tsx";
import { drawImage, extentOf, part, shownView } from "./Graph.tsx";

export function Map() {
  const draw = (g: CanvasRenderingContext2D, w: number, h: number): void => {
    void painted.value;
    const l = net.first.value;
    if (!l) return;
    const where = net.placing.value === "place" ? projected(l.info, net.axes.value) ?? net.placesOf(l) : net.placesOf(l), below = net.placing.value === "place" ? net.image.value : null;
    const size = below ? extentOf(below) : null;
    const box = size ? [Math.min(size[0]!, size[2]!), Math.min(size[1]!, size[3]!), Math.max(size[0]!, size[2]!), Math.max(size[1]!, size[3]!)] as const : bounds(where, () => true);
    const scale = Math.min(w / (box[2] - box[0]), h / (box[3] - box[1])), ox = (w - (box[2] - box[0]) * scale) / 2 - box[0] * scale, oy = (h - (box[3] - box[1]) * scale) / 2 - box[1] * scale;
    const x = (n: number) => where[2 * n]! * scale + ox, y = (n: number) => where[2 * n + 1]! * scale + oy;
    if (below) drawImage(g, below, v => v * scale + ox, v => v * scale + oy);
    g.fillStyle = colours.dim.css;
    g.globalAlpha = 0.7;
    const dot = l.info.nodes > 3000 ? 1 : 2.4, inside = net.region.value;
    for (let n = 0; n < l.info.nodes; n++) if (!inside || inside[n]) g.fillRect(x(n) - dot / 2, y(n) - dot / 2, dot, dot);
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
