// How many edges have which strength, with the threshold as a handle below: it moves without asking the server.
import { useState } from "preact/hooks";
import * as net from "../../net/state.ts";
import { sessionCss } from "../../net/ink.ts";
import { colours, painted } from "../../theme.ts";
import { plural, ticks, whole } from "../../draw/format.ts";
import { Plane } from "../Canvas.tsx";
import { font } from "../Panel.tsx";

export function Threshold() {
  const l = net.first.value, [wrong, setWrong] = useState("");
  if (!l) return null;
  const levels = l.info.levels, at = net.level(l), value = net.shown(l, net.threshold.value);
  const draw = (g: CanvasRenderingContext2D, w: number, h: number): void => {
    void painted.value; void net.moved.value;
    const b = net.level(l), width = levels.length, top = 14, base = h - 14, low = levels[0]!, wide = levels[width - 1]! - low, side = 8, across = w - 2 * side;
    const x = (v: number, i: number) => (wide > 0 ? (v - low) / wide : i / width) * across + side;
    const bars = net.loaded.value.map(one => {
      const counts = one.counts[net.rule.value], k = net.windowOf(one);
      return counts ? Float64Array.from({ length: width }, (_, i) => counts[k * width + i]! - (i + 1 < width ? counts[k * width + i + 1]! : 0)) : null;
    });
    // One scale for all sessions: each a decade of edges.
    const most = Math.log10(1 + bars.reduce((m, all) => Math.max(m, ...all ?? []), 1)), y = (n: number) => base - Math.log10(1 + n) / most * (base - top);
    bars.forEach((all, s) => {
      g.fillStyle = sessionCss(s);
      all?.forEach((n, i) => { g.globalAlpha = i >= b ? 0.75 : 0.25; g.fillRect(x(net.loaded.value[s]!.info.levels[i]!, i) - across / width / 2, y(n), Math.max(1, across / width - 0.4), base - y(n)); });
      g.globalAlpha = 1;
    });
    g.strokeStyle = g.fillStyle = colours.dim.css; g.lineWidth = 1; g.font = font(10); g.textAlign = "left"; g.textBaseline = "bottom";
    for (let n = 1; Math.log10(1 + n) <= most; n *= 10) {
      if (n > 1 && y(n / 10) - y(n) < 12) continue;
      g.globalAlpha = 0.35; g.beginPath(); g.moveTo(side, y(n)); g.lineTo(w - side, y(n)); g.stroke(); g.globalAlpha = 1;
      g.fillText(whole(n), side, y(n));
    }
    g.textBaseline = "top"; g.textAlign = "center";
    for (const v of wide > 0 ? ticks(low, low + wide, w / 70) : []) { g.fillRect(x(v, 0), base, 1, 3); g.fillText(String(Number(net.shown(l, v).toFixed(4))), Math.min(w - 14, Math.max(14, x(v, 0))), base + 3); }
    g.textAlign = "left"; g.fillText(`edges of this window by ${l.info.measure}`, side, 0);
    const mark = x(levels[at]!, at);
    g.strokeStyle = colours.bad.css; g.lineWidth = 2; g.beginPath(); g.moveTo(mark, top); g.lineTo(mark, base); g.stroke();
  };
  const set = (text: string, key: "th" | "th2" = "th"): void => {
    const number = Number(text);
    if (text.trim() === "" || !Number.isFinite(number)) { setWrong("expected a number"); return; }
    setWrong("");
    net.setThreshold(l.info.distance ? -number : number, key);
  };
  return <div class="threshold">
    <Plane class="strengths" draw={draw} label="How many edges have which strength" />
    <input type="range" class="handle" min={0} max={levels.length - 1} value={at} aria-label="Threshold" aria-valuetext={`${value.toFixed(3)}: ${plural(net.counted(l), "edge")}`}
      onInput={e => net.setThreshold(levels[Number(e.currentTarget.value)]!)} />
    <div class="row">
      <label>threshold <input type="number" step="0.01" value={Number(value.toFixed(4))} onChange={e => set(e.currentTarget.value)} /></label>
      {net.compare.value === "two" && <label>and <input type="number" step="0.01" aria-label="Second threshold" value={Number(net.shown(l, net.second.value).toFixed(4))} onChange={e => set(e.currentTarget.value, "th2")} /></label>}
      <label>draw edges <select value={net.rule.value} onChange={e => net.say({ rule: e.currentTarget.value === "peak" ? "peak" : undefined })}>
        <option value="every">in every window</option>{l.info.peaks && <option value="peak">in their strongest window</option>}</select></label>
      <span class="dim">as computed, from {net.shown(l, levels[0]!).toFixed(2)} on{l.info.strict ? ", more than it" : ""}, sign {l.info.sign}</span>
      {wrong && <span role="alert" class="bad">{wrong}</span>}
    </div>
  </div>;
}
