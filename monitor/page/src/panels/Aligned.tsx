// Occurrences of an episode laid upon each other, and how long each spike comes after the one before.
import { delays } from "../mined/model.ts";
import * as mined from "../mined/state.ts";
import { colours, painted } from "../theme.ts";
import { ticks } from "../draw/format.ts";
import { viridis } from "../draw/colour.ts";
import { Plane } from "./Canvas.tsx";
import { font } from "./Panel.tsx";

const ms = (seconds: number): string => `${Number((seconds * 1e3).toPrecision(3))} ms`;
const span = (): number => { const e = mined.picked.value; return e ? Math.max(1e-6, e.high.reduce((a, b) => a + b, 0)) : 1; };

export function Aligned() {
  const draw = (g: CanvasRenderingContext2D, w: number, h: number): void => {
    void painted.value;
    const e = mined.picked.value, found = mined.occurrences.value;
    if (!e || !found) return;
    const wide = span(), high = h - 16, n = found.times.length, row = high / Math.max(1, n), dot = Math.max(1, Math.min(3, row)), size = Math.max(1, e.channels.length - 1);
    for (let k = 0; k < e.channels.length; k++) {
      g.fillStyle = e.channels.length > 1 ? viridis(k / size * 0.85) : colours.x.css;
      for (let o = 0; o < n; o++) { const t = found.times[o]!; g.fillRect(6 + (t[k]! - t[0]!) / wide * (w - 12), o * row, 2, dot); }
    }
    g.fillStyle = colours.dim.css; g.font = font(10); g.textBaseline = "bottom"; g.textAlign = "center";
    for (const t of e.high.length > 0 ? ticks(0, wide, w / 90) : []) { const x = 6 + t / wide * (w - 12); g.fillRect(x, high, 1, 4); if (x > 20 && x < w - 24) g.fillText(ms(t), x, h); }
  };
  const pick = (e: MouseEvent): void => { const box = (e.currentTarget as HTMLElement).getBoundingClientRect(), n = mined.occurrences.value?.times.length ?? 0; mined.show(Math.min(n - 1, Math.max(0, Math.floor((e.clientY - box.top) / (box.height - 16) * n)))); };
  return <Plane class="aligned" draw={draw} onClick={pick} label="Occurrences, one a row, the first spike on the left; a click goes to it, the buttons above go from one to the next" />;
}

export function Delays() {
  const draw = (g: CanvasRenderingContext2D, w: number, h: number): void => {
    void painted.value;
    const e = mined.picked.value, found = mined.occurrences.value;
    if (!e || !found || e.low.length === 0) return;
    const edges = e.low.length, tall = h / edges;
    for (let k = 0; k < edges; k++) {
      const low = e.low[k]!, high = e.high[k]!, bins = Math.max(4, Math.min(60, Math.floor((w - 90) / 4))), counts = delays(found.times, k, low, high, bins), top = Math.max(1, ...counts), y = (k + 1) * tall - 12;
      g.fillStyle = colours.x.css;
      counts.forEach((c, b) => { const v = c / top * (tall - 18); g.fillRect(86 + b * (w - 90) / bins, y - v, (w - 90) / bins - 0.6, v); });
      g.fillStyle = colours.dim.css; g.font = font(10); g.textBaseline = "middle"; g.textAlign = "left";
      g.fillText(`${e.labels[k]} → ${e.labels[k + 1]}`.slice(0, 22), 0, y - tall / 2 + 12, 82);
      g.textBaseline = "top"; g.fillText(ms(low), 86, y + 1); g.textAlign = "right"; g.fillText(ms(high), w - 4, y + 1);
    }
  };
  return <Plane class="aligned" draw={draw} label="Histograms of the delays, one for each step of the chain" />;
}
