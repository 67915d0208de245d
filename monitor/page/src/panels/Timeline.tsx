// The session's timeline: rate and R² of every second, misses and swaps; the window that is shown is a brush on it.
import { signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Level } from "../link/session.ts";
import * as state from "../state.ts";
import { colours, painted } from "../theme.ts";
import { timeTicks } from "../draw/format.ts";
import { timeBars } from "../draw/bars.ts";
import { isMoment } from "../draw/lines.ts";
import { Cursor, Selected } from "./Cursor.tsx";
import { Panel, font, surface, usePainter, textWidth } from "./Panel.tsx";

/** Seconds of the timeline's nearer view of a session. */
const LATELY = 60;
/** True if the timeline of a session shows its last minute. */
const lately = signal(false);

export function Timeline() {
  const canvas = useRef<HTMLCanvasElement>(null), span = useRef<[number, number]>([0, 1]), dragging = useRef(false);
  usePainter(() => {
    void painted.value;
    const on = surface(canvas.current), s = state.store.value;
    if (!on || !s) return;
    const { g, w, h } = on, reach = state.reach(s), step = s.shape.stepSeconds, high = h - 15, first = s.seconds_(reach.first), end = s.seconds_(reach.end);
    // The server has the whole session, the page the steps of its last minute.
    const begin = state.file.value || !lately.peek() ? 0 : Math.max(0, end - LATELY), length = state.file.value ? Math.max(1e-3, end) : Math.max(60, end - begin), x = (t: number) => (t - begin) / length * w;
    span.current = [begin, begin + length];
    g.fillStyle = colours.dim.css;
    g.globalAlpha = 0.08;
    if (x(first) > 0) g.fillRect(0, 0, x(first), high);
    g.globalAlpha = 0.2;
    for (const [a, b] of s.leftOut) g.fillRect(x(s.seconds_(a)), 0, x(s.seconds_(b)) - x(s.seconds_(a)), high);
    g.globalAlpha = 1;
    const shade = (from: number, to: number, level: Level): void => { if (level === "bad" || level === "watch") { g.fillStyle = level === "bad" ? colours.bad.css : colours.warn.css; g.globalAlpha = 0.22; g.fillRect(x(from), 0, Math.max(2, x(to) - x(from)), high); g.globalAlpha = 1; } };
    for (const v of s.verdicts) if (v.to > begin) shade(v.from, v.to, v.level);
    if (s.verdict) shade(s.verdict.since, end, s.verdict.level);
    const from = Math.floor(begin), bars = timeBars(s.seconds, from, end, Math.floor(w)), top = bars.reduce((most, b) => Math.max(most, b.rate), 1);
    for (const bar of bars) {
      const v = bar.rate / top * (high - 12);
      g.fillStyle = colours.x.css; g.globalAlpha = 0.45;
      g.fillRect(x(bar.from), high - v, Math.max(1, x(bar.to) - x(bar.from) - 0.6), v);
      g.globalAlpha = 1;
      if (bar.misses > 0) { g.fillStyle = colours.bad.css; g.font = font(9); g.textAlign = "center"; g.textBaseline = "top"; g.fillText("▲", x((bar.from + bar.to) / 2), 0); }
    }
    g.strokeStyle = colours.good.css; g.lineWidth = 1.6; g.beginPath();
    let open = false;
    for (let i = from; i < s.seconds.length; i++) {
      const r2 = s.seconds[i]!.r2;
      if (Number.isNaN(r2)) { open = false; continue; }
      const y = high - 2 - Math.max(0, Math.min(1, r2)) * (high - 12);
      if (open) g.lineTo(x(i + 0.5), y); else g.moveTo(x(i + 0.5), y);
      open = true;
    }
    g.stroke(); g.lineWidth = 1;
    for (const event of s.events) if (isMoment(event)) { g.fillStyle = colours.warn.css; g.font = font(10); g.textAlign = "center"; g.textBaseline = "top"; g.fillText(event.type === "swap" ? "◆" : "⚑", x(s.seconds_(event.tick)), 0); }
    const struck = state.incident.value;
    if (struck) { g.fillStyle = colours.bad.css; g.fillRect(x(s.seconds_(struck.tick)), 0, 1.5, high); }
    const to = s.seconds_(state.viewEnd(s)), a = x(to - state.viewWindow(s) * step), b = x(to);
    g.fillStyle = colours.ink.css; g.globalAlpha = 0.1; g.fillRect(a, 0, b - a, high); g.globalAlpha = 1;
    g.strokeStyle = colours.ink.css; g.strokeRect(Math.round(a) + 0.5, 0.5, Math.max(2, b - a), high - 1);
    g.fillStyle = colours.line.css; g.fillRect(0, high, w, 1);
    g.font = font(11); g.fillStyle = colours.dim.css; g.textBaseline = "bottom";
    for (const { at, words } of timeTicks(begin, begin + length, w / 100)) { const half = textWidth(g, words) / 2; g.textAlign = "center"; if (x(at) - half > 0 && x(at) + half < w) g.fillText(words, x(at), h); }
  }, 8);
  const place = (time: number): number => (time - span.current[0]) / (span.current[1] - span.current[0]);
  const seek = (event: MouseEvent) => {
    const s = state.store.value, box = canvas.current?.getBoundingClientRect();
    if (!s || !box) return;
    const t = span.current[0] + (event.clientX - box.left) / box.width * (span.current[1] - span.current[0]) + state.address.value.window / 2;
    const reach = state.reach(s), last = s.seconds_(reach.end);
    if (state.file.value) state.go({ at: Math.min(last, Math.max(t, state.address.value.window)) });
    else state.go({ at: t >= last ? null : Math.max(t, s.seconds_(reach.first)) });
  };
  return <Panel area="timeline" title={state.file.value ? "Recording" : "Session"} note={<><span class="key bar" aria-hidden="true" />spikes per second {!state.file.value && <><span class="key good" aria-hidden="true" />R² · ▲ miss ◆ swap ⚑ mark · shaded: not good</>}</>}
    tools={state.file.value ? undefined : <button class="link" aria-pressed={lately.value} onClick={() => { lately.value = !lately.value; }}>last minute</button>}>
    <div class="of-time"><canvas ref={canvas} role="img" aria-label="Timeline of the session; the arrow keys move the window, N and P go to misses and swaps"
      onMouseDown={e => { dragging.current = true; seek(e); }} onMouseMove={e => { const box = e.currentTarget.getBoundingClientRect(), [a, b] = span.current; state.cursor.value = a + (e.clientX - box.left) / box.width * (b - a); if (dragging.current) seek(e); }}
      onMouseUp={() => { dragging.current = false; }} onMouseLeave={() => { dragging.current = false; state.cursor.value = null; }} /><Selected part={state.range.value} place={place} /><Cursor place={place} /></div>
  </Panel>;
}
