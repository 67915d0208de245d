// Step latency: the last minute over all time, both axes logarithmic, the deadline, every miss to be gone to.
import { useRef } from "preact/hooks";
import { percentile } from "../link/store.ts";
import { bucketBegins } from "../link/frame.ts";
import * as state from "../state.ts";
import { colours, painted } from "../theme.ts";
import { clock, whole } from "../draw/format.ts";
import { Panel, font, surface, usePainter } from "./Panel.tsx";

const short = (value: number): string => value < 9.95 ? String(Number(value.toFixed(1))) : value.toFixed(0);
export const duration = (ns: number): string => Number.isNaN(ns) ? "–" : ns < 999.5 ? `${ns.toFixed(0)} ns` : ns < 999.5e3 ? `${short(ns / 1e3)} µs` : ns < 999.5e6 ? `${short(ns / 1e6)} ms` : `${short(ns / 1e9)} s`;

export function Latency() {
  const canvas = useRef<HTMLCanvasElement>(null);
  usePainter(() => {
    void painted.value;
    const on = surface(canvas.current), s = state.store.value;
    if (!on || !s) return;
    const { g, w, h } = on, foot = 17, high = h - foot - 4, recent = s.recentLatency(), all = s.latency;
    // From a tenth of a microsecond to what there is, at least to the deadline.
    const deadline = state.server.value?.source.deadline_ns ?? null;
    let last = 40;
    all.forEach((n, i) => { if (n > 0) last = Math.max(last, i + 2); });
    if (deadline !== null) last = Math.max(last, Math.log2(deadline / 64) * 4 + 3);
    last = Math.min(64, Math.ceil(last));
    const bar = w / last, top = Math.log10(1 + Math.max(1, ...all)), y = (n: number) => high - Math.log10(1 + n) / top * (high - 4);
    g.font = font(10); g.textBaseline = "top"; g.textAlign = "left";
    for (let e = 0; e <= top; e++) {
      const at = Math.round(y(10 ** e - 1 || 0));
      g.fillStyle = colours.line.css; g.fillRect(0, at, w, 1);
    }
    for (let i = 0; i < last; i++) {
      const over = deadline !== null && bucketBegins(i) >= deadline;
      g.fillStyle = over ? colours.bad.css : colours.x.css;
      g.globalAlpha = 0.28;
      if (all[i]! > 0) g.fillRect(i * bar, y(all[i]!), bar - 1, high - y(all[i]!));
      g.globalAlpha = 1;
      if (recent[i]! > 0) g.fillRect(i * bar, y(recent[i]!), bar - 1, high - y(recent[i]!));
    }
    // The numbers lie on the bars, not under them.
    g.fillStyle = colours.dim.css;
    for (let e = 1; e <= top; e++) g.fillText(whole(10 ** e), 1, Math.round(y(10 ** e - 1)) + 2);
    const x = (ns: number) => Math.log2(ns / 64) * 4 * bar;
    g.font = font(11);
    g.textBaseline = "bottom";
    for (const ns of [100, 1e3, 1e4, 1e5, 1e6]) {
      if (x(ns) > w - 18) break;
      g.fillStyle = colours.line.css; g.fillRect(Math.round(x(ns)), 0, 1, high + 4);
      g.fillStyle = colours.dim.css; g.textAlign = x(ns) < 20 ? "left" : "center"; g.fillText(duration(ns), Math.max(0, x(ns)), h);
    }
    if (deadline !== null && x(deadline) < w) {
      g.strokeStyle = colours.bad.css; g.lineWidth = 1.5; g.setLineDash([6, 3]);
      g.beginPath(); g.moveTo(x(deadline), 0); g.lineTo(x(deadline), high); g.stroke();
      g.setLineDash([]); g.lineWidth = 1;
      g.fillStyle = colours.bad.css; g.textBaseline = "top"; g.textAlign = x(deadline) > w - 70 ? "right" : "left";
      g.fillText("deadline", x(deadline) + (x(deadline) > w - 70 ? -4 : 4), 2);
    }
  }, 5);
  void state.beat.value;
  const s = state.store.value, recent = s?.recentLatency(), misses = s?.misses ?? [];
  const counted = recent?.some(n => n > 0) ?? false;
  return <Panel area="latency" title="Step latency" note={counted ? "last minute; pale: since the page came" : state.file.value ? "a recording has none" : "the session keeps no times"}>
    <canvas ref={canvas} role="img" aria-label="Histogram of step latencies, both axes logarithmic" />
    <dl class="quantiles">{recent && ([["p50", 0.5], ["p99", 0.99], ["p99.9", 0.999], ["max", 1]] as const).map(([name, share]) =>
      <div key={name}><dt>{name}</dt><dd>≤ {duration(percentile(recent, share))}</dd></div>)}</dl>
    {misses.length > 0 && <p class="misses"><span class="bad">▲ {whole(s?.counters?.misses ?? misses.length)} missed</span>
      {misses.slice(-3).reverse().map(m => <button key={m.tick} class="link" onClick={() => state.showAround(m.tick)} title="What was half a second around it">{clock(s!.seconds_(m.tick), 2)} <small>{duration(m.ns)}</small></button>)}</p>}
  </Panel>;
}
