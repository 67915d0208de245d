// The adjacency matrix, its nodes by community: readable where nodes and lines are not.
import { useState } from "preact/hooks";
import { matrix, orderBy, prefix } from "../../net/model.ts";
import * as net from "../../net/state.ts";
import { ramp } from "../../draw/colour.ts";
import { painted } from "../../theme.ts";
import { Plane } from "../Canvas.tsx";

const MOST = 1024;

export function Matrix({ l }: { l: net.Loaded }) {
  const [tip, setTip] = useState("");
  const draw = (g: CanvasRenderingContext2D, w: number, h: number): void => {
    void painted.value;
    const e = net.edgesOf(l);
    if (!e) return;
    const order = orderBy(l.info.nodes, net.communitiesOf(l)), { size, cells } = matrix(e, prefix(e.key, net.threshold.value), order, MOST), image = new ImageData(size, size), inks = ramp();
    const top = Math.max(1e-9, Math.abs(e.r[0] ?? 1)), low = Math.abs(net.shown(l, l.info.levels[0]!));
    for (let k = 0; k < cells.length; k++) {
      const v = cells[k]!;
      if (Number.isNaN(v)) continue;
      const t = l.info.distance ? 1 - Math.abs(v) / Math.max(1e-9, low) : Math.abs(v) / top, ink = inks[Math.min(255, Math.max(0, Math.round(t * 255)))]!;
      image.data.set([...ink, 255], 4 * k);
    }
    const held = document.createElement("canvas");
    held.width = held.height = size;
    held.getContext("2d")!.putImageData(image, 0, 0);
    const side = Math.min(w, h);
    g.imageSmoothingEnabled = false;
    g.drawImage(held, 0, 0, side, side);
  };
  const over = (ev: MouseEvent): void => {
    const box = (ev.currentTarget as HTMLElement).getBoundingClientRect(), side = Math.min(box.width, box.height), n = l.info.nodes, order = orderBy(n, net.communitiesOf(l));
    const a = order[Math.floor((ev.clientY - box.top) / side * n)], b = order[Math.floor((ev.clientX - box.left) / side * n)], e = net.edgesOf(l);
    if (a === undefined || b === undefined || !e) { setTip(""); return; }
    let r: number | null = null;
    for (let k = prefix(e.key, net.threshold.value) - 1; k >= 0; k--) if (e.i[k] === Math.min(a, b) && e.j[k] === Math.max(a, b)) { r = e.r[k]!; break; }
    const named = (k: number): string => l.info.names?.[k] ?? String(k);
    setTip(`${named(a)} – ${named(b)}: ${r === null ? "no edge" : r.toFixed(4)}`);
  };
  return <div class="graph"><h3>{l.info.name}{l.info.nodes > MOST ? `: ${MOST} rows, the strongest of each cell` : ""} <span class="dim">{tip}</span></h3>
    <div class="field"><Plane class="net" draw={draw} tabIndex={0} label={`Adjacency matrix of ${l.info.name}, ${l.info.nodes} nodes${net.communitiesOf(l) ? " by community" : ""}`} onMouseMove={over} onMouseLeave={() => setTip("")} /></div></div>;
}
