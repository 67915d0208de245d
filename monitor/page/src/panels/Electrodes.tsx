// Channels where their electrodes lie; in a grid where nobody says where.
import { useMemo, useRef } from "preact/hooks";
import { viridis } from "../draw/colour.ts";
import type { ChannelState } from "../link/health.ts";
import * as state from "../state.ts";
import { colours, painted } from "../theme.ts";
import { font, surface, usePainter } from "./Panel.tsx";
import { plural } from "../draw/format.ts";
import { places, type Places } from "../link/places.ts";

/** `value`: share of the scale, 0 to 1, a channel; `ink`: the scale's colours. */
export function Electrodes({ value, states, label, low, high, path, ink = viridis }: { path?: number[]; ink?: (share: number) => string; value: (c: number) => number; states: (c: number) => ChannelState; label: string; low: string; high: string }) {
  const canvas = useRef<HTMLCanvasElement>(null), source = state.server.value?.source, where = useRef<{ x: number; y: number; scale: number; places: Places } | null>(null);
  const spots = useMemo(() => source ? places(source.electrode_um, source.channels, 1.4) : null, [source]);
  usePainter(s => {
    void painted.value;
    const on = surface(canvas.current);
    if (!on || !spots) return;
    const { g, w, h } = on, [x0, y0, x1, y1] = spots.box, pad = spots.pitch * 0.7, foot = spots.known ? 20 : 34;
    const scale = Math.min(w / (x1 - x0 + 2 * pad), (h - foot) / (y1 - y0 + 2 * pad)), whole = spots.pitch * scale * 0.86;
    const ox = (w - (x1 - x0) * scale) / 2 - x0 * scale, oy = (h - foot - (y1 - y0) * scale) / 2 - y0 * scale;
    where.current = { x: ox, y: oy, scale, places: spots };
    const picked = state.address.value.channel;
    for (let c = 0; c < s.shape.channels; c++) {
      const p = spots.at[c];
      if (!p) continue;
      const size = Math.max(1, whole * spots.share[c]!), x = p[0] * scale + ox - size / 2, y = p[1] * scale + oy - size / 2, how = states(c);
      if (how === "silent") { g.strokeStyle = colours.dim.css; g.lineWidth = 1; g.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1); }
      else { g.fillStyle = ink(value(c)); g.fillRect(x, y, size, size); }
      if (how === "noisy" && size > 4) { g.strokeStyle = colours.bad.css; g.lineWidth = 1.5; g.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1); g.beginPath(); g.moveTo(x, y); g.lineTo(x + size, y + size); g.moveTo(x + size, y); g.lineTo(x, y + size); g.stroke(); }
      if (how === "twin" && size > 4) { g.strokeStyle = colours.warn.css; g.lineWidth = 2; g.beginPath(); g.moveTo(x, y + size); g.lineTo(x + size, y + size); g.stroke(); }
      if (how === "masked") { g.fillStyle = colours.panel.css; g.globalAlpha = 0.7; g.fillRect(x, y, size, size); g.globalAlpha = 1; g.strokeStyle = colours.ink.css; g.lineWidth = 1; g.beginPath(); g.moveTo(x, y + size); g.lineTo(x + size, y); g.stroke(); }
      if (c === picked) { g.strokeStyle = colours.ink.css; g.lineWidth = 2; g.strokeRect(x - 1.5, y - 1.5, size + 3, size + 3); }
    }
    if (path) {
      const points = path.flatMap(c => spots.at[c] ? [[spots.at[c]![0] * scale + ox, spots.at[c]![1] * scale + oy] as const] : []);
      g.strokeStyle = g.fillStyle = colours.bad.css; g.lineWidth = 2;
      g.beginPath(); points.forEach(([x, y], k) => k === 0 ? g.moveTo(x, y) : g.lineTo(x, y)); g.stroke();
      g.font = font(11); g.textAlign = "center"; g.textBaseline = "bottom";
      // On whatever colour lies below.
      g.strokeStyle = colours.panel.css; g.lineWidth = 3; g.lineJoin = "round";
      points.forEach(([x, y], k) => { g.beginPath(); g.arc(x, y, 3, 0, 2 * Math.PI); g.fill(); g.strokeText(String(k + 1), x, y - 4); g.fillText(String(k + 1), x, y - 4); });
      g.lineWidth = 1;
    }
    const bar = Math.min(160, w / 2);
    if (!spots.known) { g.fillStyle = colours.dim.css; g.font = font(11); g.textAlign = "center"; g.textBaseline = "middle"; g.fillText("no positions: in the order of the channels", w / 2, h - 24); }
    for (let i = 0; i < bar; i++) { g.fillStyle = ink(i / bar); g.fillRect(w / 2 - bar / 2 + i, h - 11, 1.5, 8); }
    g.fillStyle = colours.dim.css; g.font = font(11); g.textBaseline = "middle";
    g.textAlign = "right"; g.fillText(low, w / 2 - bar / 2 - 6, h - 6);
    g.textAlign = "left"; g.fillText(high, w / 2 + bar / 2 + 6, h - 6);
  }, 4);
  const pick = (event: MouseEvent) => {
    const box = canvas.current?.getBoundingClientRect(), now = where.current;
    if (!box || !now) return;
    const x = (event.clientX - box.left - now.x) / now.scale, y = (event.clientY - box.top - now.y) / now.scale;
    let best = -1, least = (now.places.pitch * 1.2) ** 2;
    now.places.at.forEach((p, c) => { if (!p) return; const d = (p[0] - x) ** 2 + (p[1] - y) ** 2; if (d < least) { least = d; best = c; } });
    if (best >= 0) state.go({ channel: best });
  };
  return <canvas class="electrodes" ref={canvas} tabIndex={0} role="img" onClick={pick} aria-label={`${label}, ${plural(source?.channels ?? 0, "channel")} ${spots?.known ? "where their electrodes lie" : "in a grid, for want of positions"}; the table says the same in numbers`} />;
}
