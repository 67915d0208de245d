// Time that the decoder computes for a step, as a line per second, with the deadline and every miss to go to; it opens to a histogram.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { LATENCY_SECONDS, percentile, type Store } from "../link/store.ts";
import { missWords } from "../link/incidents.ts";
import * as state from "../state.ts";
import { colours, painted } from "../theme.ts";
import { clock, duration, logTicks, whole } from "../draw/format.ts";
import { Cursor } from "./Cursor.tsx";
import { Panel, font, surface, usePainter } from "./Panel.tsx";

/** Median and 99th percentile of every second of the last minute, on a logarithmic scale. */
function Sparkline() {
  const canvas = useRef<HTMLCanvasElement>(null);
  usePainter(() => {
    void painted.value;
    const on = surface(canvas.current), s = state.store.value;
    if (!on || !s) return;
    const { g, w, h } = on, deadline = state.server.value?.source.deadline_ns ?? null, lines = [s.latencyTrend(0.5), s.latencyTrend(0.99)];
    const known = [...lines.flat(), ...(deadline === null ? [] : [deadline])].filter(v => v === v);
    if (known.length === 0) return;
    const low = Math.log(Math.min(...known)) - 0.3, high = Math.log(Math.max(...known)) + 0.3, y = (ns: number) => h - 2 - (Math.log(ns) - low) / (high - low) * (h - 4);
    g.font = font(10); g.textAlign = "right"; g.textBaseline = "bottom";
    let free = Infinity;
    for (const ns of logTicks(Math.exp(low), Math.exp(high))) {
      const at = Math.round(y(ns));
      g.fillStyle = colours.line.css; g.fillRect(0, at, w, 1);
      if (free - at < 12 || at < 11) continue;
      free = at;
      g.fillStyle = colours.dim.css; g.fillText(duration(ns), w - 2, at - 1);
    }
    g.lineWidth = 1.6;
    lines.forEach((line, k) => {
      g.strokeStyle = k === 0 ? colours.x.css : colours.y.css;
      g.beginPath();
      let open = false;
      line.forEach((v, i) => { const x = (i + 0.5) / line.length * w; if (v !== v) open = false; else { if (open) g.lineTo(x, y(v)); else { g.moveTo(x - w / line.length / 2, y(v)); g.lineTo(x, y(v)); } open = true; } });
      g.stroke();
    });
    if (deadline === null) return;
    g.strokeStyle = g.fillStyle = colours.bad.css; g.setLineDash([6, 3]);
    g.beginPath(); g.moveTo(0, y(deadline)); g.lineTo(w, y(deadline)); g.stroke();
    g.setLineDash([]);
    g.font = font(10); g.textAlign = "left"; g.textBaseline = "top"; g.fillText(`deadline ${duration(deadline)}`, 2, y(deadline) + 2);
  }, 5);
  const place = (time: number): number => { const s = state.store.peek(); return s ? (time - s.latencyFrom) / LATENCY_SECONDS : NaN; };
  return <div class="of-line"><canvas ref={canvas} class="spark" role="img" aria-label="Median and 99th percentile of the step latency in every second of the last minute" /><Cursor place={place} /></div>;
}

/** The longest step of the last minute: exact, or the end of its bucket in a file of an earlier version. */
export const longest = (s: Store): string => Number.isNaN(s.recentLongest) ? `≤ ${duration(percentile(s.recentLatency(), 1))}` : duration(s.recentLongest);

/** `children`: the histogram, if the panel is open. */
export function Latency({ children }: { children?: ComponentChildren }) {
  void state.beat.value;
  const s = state.store.value, recent = s?.recentLatency(), misses = s?.misses ?? [], open = state.latencyOpen.value, arrival = state.server.value?.status?.arrival_to_output;
  // Of the newest minute, also while the view stands still.
  const lately = state.live.value ? "last minute" : "last minute, now";
  const counted = recent?.some(n => n > 0) ?? false;
  return <Panel area="latency" title="Step latency" note={!counted ? "the session does not measure its steps" : open ? `dark: ${lately}; pale: whole session` : <><span class="key ink0" aria-hidden="true" />p50 <span class="key ink1" aria-hidden="true" />p99 per second, {lately}</>}
    tools={<button class="link" aria-expanded={open} onClick={() => { state.latencyOpen.value = !open; }}>{open ? "less" : "histogram"}</button>}>
    {open && children}<Sparkline />
    <dl class="quantiles">{recent && <>{([["p50", 0.5], ["p99", 0.99], ["p99.9", 0.999]] as const).map(([name, share]) =>
      <div key={name}><dt>{name}</dt><dd>≤ {duration(percentile(recent, share))}</dd></div>)}<div><dt>max</dt><dd>{longest(s!)}</dd></div></>}</dl>
    {arrival && <p class="legend">from arrival to output, whole session: p50 {duration(arrival.p50_us * 1e3)}, p99 {duration(arrival.p99_us * 1e3)}, max {duration(arrival.max_us * 1e3)}; above: computing alone</p>}
    {misses.length > 0 && <p class="misses"><span class="bad">▲ {whole(s?.counters?.misses ?? misses.length)} missed</span>
      {misses.slice(-3).reverse().map(m => <button key={m.tick} class="link" onClick={() => state.showIncident({ tick: m.tick, words: missWords(m) })} title="Half a second before and after it">{clock(s!.seconds_(m.tick), 2)} <small>{duration(m.ns)}</small></button>)}</p>}
  </Panel>;
}
