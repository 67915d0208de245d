// Edges over time at the threshold, a curve a session; a cursor with its number; communities as strips.
import { signal } from "@preact/signals";
import { endOf, NONE, windowAt } from "../../net/model.ts";
import * as net from "../../net/state.ts";
import { DASHES, communityInk, css, sessionCss } from "../../net/ink.ts";
import { colours, painted } from "../../theme.ts";
import { plural, ticks, timeLabel } from "../../draw/format.ts";
import { Plane } from "../Canvas.tsx";
import { font } from "../Panel.tsx";

/** Where the pointer is on the time, if it is there. */
const pointed = signal<number | null>(null);

function span(): [number, number] {
  let from = Infinity, to = -Infinity;
  for (const l of net.loaded.value) if (l.info.windows > 0) { from = Math.min(from, endOf(l.info, 0)); to = Math.max(to, endOf(l.info, l.info.windows - 1)); }
  return to > from ? [from, to] : [from === Infinity ? 0 : from - 0.5, (from === Infinity ? 0 : from) + 0.5];
}

export function Time() {
  void net.moved.value;
  const strip = net.overlay.value === "communities" && net.loaded.value.some(l => l.communities.size > 0);
  const draw = (g: CanvasRenderingContext2D, w: number, h: number): void => {
    void painted.value; void net.moved.value;
    const all = net.loaded.value, [from, to] = span(), low = 16, high = h - low, x = (t: number) => (t - from) / (to - from) * (w - 8) + 4;
    let top = 1;
    const curves = all.map(l => {
      const counts = l.counts[net.rule.value], b = net.level(l), width = l.info.levels.length;
      const values = counts ? Float64Array.from({ length: l.info.windows }, (_, k) => counts[k * width + b]!) : new Float64Array(0);
      for (const v of values) top = Math.max(top, v);
      return values;
    });
    const under = strip ? high * 0.5 : high, y = (v: number) => under - 3 - v / top * (under - 18);
    curves.forEach((values, s) => {
      const l = all[s]!;
      g.strokeStyle = sessionCss(s); g.lineWidth = 1.6; g.setLineDash(DASHES[s] ? [DASHES[s]!, DASHES[s]!] : []);
      g.beginPath();
      // One column a pixel at most: its least and its most.
      const per = Math.max(1, Math.floor(values.length / Math.max(1, w)));
      for (let k = 0; k < values.length; k += per) {
        let least = Infinity, most = -Infinity;
        for (let i = k; i < Math.min(values.length, k + per); i++) { least = Math.min(least, values[i]!); most = Math.max(most, values[i]!); }
        const at = x(endOf(l.info, k));
        if (k === 0) g.moveTo(at, y(most)); else g.lineTo(at, y(most));
        if (least < most) g.lineTo(at, y(least));
      }
      g.stroke();
      g.setLineDash([]);
    });
    if (strip) {
      const found = all.filter(l => l.communities.size > 0), each = (high - under) / found.length;
      found.forEach((l, k) => strips(g, l, found.length > 1, x, under + k * each + 4, under + (k + 1) * each));
    }
    // On the side where the time of the line is not.
    const written = pointed.value ?? net.moment.value, left = written !== null && x(written) > w / 2;
    g.font = font(10); g.fillStyle = colours.dim.css; g.textAlign = left ? "left" : "right"; g.textBaseline = "top";
    g.fillText(`most ${plural(top, "edge")}`, left ? 4 : w - 4, 1);
    g.strokeStyle = colours.line.css; g.lineWidth = 1;
    g.beginPath(); g.moveTo(0, high + 0.5); g.lineTo(w, high + 0.5); g.stroke();
    const timed = all[0]?.info.seconds, marks = ticks(from, to, w / 110), step = (marks[1] ?? 1) - (marks[0] ?? 0);
    g.textAlign = "center"; g.textBaseline = "bottom"; g.font = font(11);
    for (const t of marks) if (x(t) > 24 && x(t) < w - 24) { g.fillRect(x(t), high, 1, 4); g.fillText(timed ? timeLabel(t, step) : String(Math.round(t)), x(t), h); }
    for (const [t, ink, wide] of [[pointed.value, colours.bad.css, 1], [net.moment.value, colours.bad.css, 2]] as const) {
      if (t === null) continue;
      const at = Math.round(x(Math.min(to, Math.max(from, t))));
      g.strokeStyle = ink; g.lineWidth = wide; g.beginPath(); g.moveTo(at, 12); g.lineTo(at, high); g.stroke();
      const l = all[0], words = l ? timed ? `${t.toFixed(2)} s` : `window ${windowAt(l.info, t) + 1}` : "";
      g.fillStyle = ink; g.font = font(11); g.textBaseline = "top"; g.textAlign = at > w - 60 ? "right" : at < 60 ? "left" : "center";
      if (wide === 1 || pointed.value === null) g.fillText(words, at, 0);
    }
  };
  const at = (e: MouseEvent): number => { const box = (e.currentTarget as HTMLElement).getBoundingClientRect(), [from, to] = span(); return from + Math.min(1, Math.max(0, (e.clientX - box.left - 4) / (box.width - 8))) * (to - from); };
  const go = (e: MouseEvent): void => { const l = net.first.value; if (l) net.goTo(l, windowAt(l.info, at(e))); };
  return <Plane class="edges-time" draw={draw} label="Number of edges over time, one curve per session; , and . go from window to window"
    onMouseMove={e => { pointed.value = at(e); if (e.buttons & 1) go(e); }} onMouseLeave={() => { pointed.value = null; }} onClick={go} />;
}

/** How many nodes each community of a session has, one above the other, in the same order throughout. */
function strips(g: CanvasRenderingContext2D, l: net.Loaded, named: boolean, x: (t: number) => number, top: number, bottom: number): void {
  const sizes = new globalThis.Map<number, globalThis.Map<number, number>>();
  for (const [k, of] of l.communities) {
    const count = new globalThis.Map<number, number>();
    for (const c of of) if (c !== NONE) count.set(c, (count.get(c) ?? 0) + 1);
    sizes.set(k, count);
  }
  const wide = Math.max(1, x(endOf(l.info, 1 % Math.max(1, l.info.windows))) - x(endOf(l.info, 0)));
  for (const [k, count] of sizes) {
    let y = bottom;
    const at = x(endOf(l.info, k));
    for (const c of [...count.keys()].sort((a, b) => a - b)) {
      const high = count.get(c)! / l.info.nodes * (bottom - top);
      g.fillStyle = css(communityInk(l.slots.get(c) ?? NONE));
      g.fillRect(at - wide / 2, y - high, wide + 0.4, high);
      if (high > 12 && wide > 16) { g.fillStyle = colours.panel.css; g.font = font(9); g.textAlign = "center"; g.textBaseline = "middle"; g.fillText(String(c), at, y - high / 2); }
      y -= high;
    }
  }
  if (named) { g.fillStyle = colours.ink.css; g.font = font(10); g.textAlign = "left"; g.textBaseline = "top"; g.fillText(l.info.name, 6, top); }
}
