// How many edges have which strength, with the threshold as a handle below: it moves without asking the server.
import { useState } from "preact/hooks";
import * as net from "../../net/state.ts";
import { sessionCss } from "../../net/ink.ts";
import { colours, painted } from "../../theme.ts";
import { whole } from "../../draw/format.ts";
import { Plane } from "../Canvas.tsx";
import { font } from "../Panel.tsx";

export function Threshold() {
  const l = net.first.value, [wrong, setWrong] = useState("");
  if (!l) return null;
  const levels = l.info.levels, at = net.level(l), value = net.shown(l, net.threshold.value);
  const draw = (g: CanvasRenderingContext2D, w: number, h: number): void => {
    void painted.value; void net.moved.value;
    const b = net.level(l), width = levels.length, tall = h - 4;
    net.loaded.value.forEach((one, s) => {
      const counts = one.counts[net.rule.value], k = net.windowOf(one);
      if (!counts) return;
      const bars = Float64Array.from({ length: width }, (_, i) => Math.log1p(counts[k * width + i]! - (i + 1 < width ? counts[k * width + i + 1]! : 0))), top = Math.max(1, ...bars);
      const low = levels[0]!, wide = levels[width - 1]! - low, x = (i: number) => (wide > 0 ? (one.info.levels[i]! - low) / wide : i / width) * (w - 16) + 8;
      g.fillStyle = sessionCss(s);
      for (let i = 0; i < width; i++) {
        g.globalAlpha = i >= b ? 0.75 : 0.25;
        const high = bars[i]! / top * (tall - 14);
        g.fillRect(x(i) - (w - 16) / width / 2, tall - high, Math.max(1, (w - 16) / width - 0.4), high);
      }
      g.globalAlpha = 1;
    });
    const x = at / Math.max(1, width - 1) * (w - 16) + 8;
    g.strokeStyle = colours.bad.css; g.lineWidth = 2; g.beginPath(); g.moveTo(x, 12); g.lineTo(x, h); g.stroke();
    g.fillStyle = colours.dim.css; g.font = font(10); g.textAlign = "left"; g.textBaseline = "top";
    g.fillText(`${l.info.measure}, edges of this window (logarithmic)`, 4, 0);
  };
  const set = (text: string, key: "th" | "th2" = "th"): void => {
    const number = Number(text);
    if (text.trim() === "" || !Number.isFinite(number)) { setWrong("expected a number"); return; }
    setWrong("");
    net.setThreshold(l.info.distance ? -number : number, key);
  };
  return <div class="threshold">
    <Plane class="strengths" draw={draw} label="How many edges have which strength" />
    <input type="range" class="handle" min={0} max={levels.length - 1} value={at} aria-label="Threshold" aria-valuetext={`${value.toFixed(3)}: ${whole(net.counted(l))} edges`}
      onInput={e => net.setThreshold(levels[Number(e.currentTarget.value)]!)} />
    <div class="row">
      <label>threshold <input type="number" step="0.01" value={Number(value.toFixed(4))} onChange={e => set(e.currentTarget.value)} /></label>
      {net.compare.value === "two" && <label>and <input type="number" step="0.01" aria-label="Second threshold" value={Number(net.shown(l, net.second.value).toFixed(4))} onChange={e => set(e.currentTarget.value, "th2")} /></label>}
      <label>an edge is there <select value={net.rule.value} onChange={e => net.say({ rule: e.currentTarget.value === "peak" ? "peak" : undefined })}>
        <option value="every">in every window that reaches it</option>{l.info.peaks && <option value="peak">at its peak alone</option>}</select></label>
      <span class="dim">as computed, from {net.shown(l, levels[0]!).toFixed(2)} on{l.info.strict ? ", more than it" : ""}, sign {l.info.sign}</span>
      {wrong && <span role="alert" class="bad">{wrong}</span>}
    </div>
  </div>;
}
