// Spikes: what fired when, its marks above, time and the population's rate below.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Store } from "../link/store.ts";
import { lowerBound, tickOf } from "../link/store.ts";
import { ramp } from "../draw/colour.ts";
import { PlainRaster } from "../draw/plain.ts";
import { RasterView, type Picture } from "../draw/raster.ts";
import { RateBars } from "../draw/rate.ts";
import * as state from "../state.ts";
import { colours, painted, still } from "../theme.ts";
import { ORDERS, WINDOWS, type Order } from "../url.ts";
import { groupsOf, runs, type Groups } from "../draw/groups.ts";
import { isMoment, momentLines, strokeMoments } from "../draw/lines.ts";
import { Cursor, Selected } from "./Cursor.tsx";
import { length, plural, timeLabel, timeTicks, whole, withoutCommon } from "../draw/format.ts";
import { Panel, font, staged, surface, usePainter, textWidth } from "./Panel.tsx";

const rank = (rates: Float32Array): Uint32Array => {
  const by = Array.from(rates.keys()).sort((a, b) => rates[b]! - rates[a]! || a - b), order = new Uint32Array(rates.length);
  by.forEach((channel, place) => { order[channel] = place; });
  return order;
};

let orderNow: Uint32Array | null = null;
/** The order that the raster shows. */
export const rasterOrder = (s: Store): Uint32Array | null => orderNow?.length === s.shape.channels ? orderNow : null;

/** A picture of the store as the address asks for it. */
export function rasterPicture(s: Store, order: Uint32Array | null): Picture {
  const [from, to] = state.address.value.channels ?? [0, s.shape.channels];
  const low = Math.min(from, s.shape.channels - 1);
  return {
    end: state.viewEnd(s), window: state.viewWindow(s), from: low, to: Math.max(low + 1, Math.min(to, s.shape.channels)),
    order, sweep: still.matches && state.live.value,
    ink: colours.spike.rgb, paper: colours.panel.rgb, dim: colours.dim.rgb,
  };
}

/** Trials ┆, misses ▲, swaps ◆ and marks ⚑ where they lie. */
function drawMarks(canvas: HTMLCanvasElement | null, s: Store, p: Picture): void {
  const on = surface(canvas);
  if (!on) return;
  const { g, w, h } = on, begin = p.end - p.window, x = (tick: number) => (tick - begin) / p.window * w;
  g.font = font(10);
  g.textBaseline = "middle";
  g.strokeStyle = colours.line.css;
  g.beginPath();
  for (let i = lowerBound(s.trials, s.trials.length, begin); i < s.trials.length && s.trials[i]! < p.end; i++) { g.moveTo(x(s.trials[i]!), h / 2); g.lineTo(x(s.trials[i]!), h); }
  g.strokeStyle = colours.dim.css;
  g.stroke();
  g.textAlign = "center";
  let last = -99;
  for (const miss of s.misses) if (miss.tick >= begin && miss.tick < p.end && x(miss.tick) - last > 5) {
    last = x(miss.tick);
    g.fillStyle = colours.bad.css;
    g.fillText("▲", last, h / 2 + 1);
  }
  for (const event of s.events) if (event.tick >= begin && event.tick < p.end && isMoment(event)) {
    g.fillStyle = colours.warn.css;
    g.fillText(event.type === "swap" ? "◆" : "⚑", x(event.tick), h / 2 + 1);
  }
}

/** A channel's rate over what is shown, in words; nothing is counted where nothing is known. */
function rateInView(s: Store, channel: number): string {
  const end = state.viewEnd(s), begin = end - state.viewWindow(s), from = Math.max(begin, s.first), to = Math.min(end, s.end), seconds = (to - from - s.hidden(from, to) - s.without(from, to)) * s.shape.stepSeconds;
  if (!(seconds > 0)) return "";
  let n = 0;
  for (let i = lowerBound(s.tick, s.spikes, Math.floor(from)), last = lowerBound(s.tick, s.spikes, to); i < last; i++) if (s.channel[i] === channel && s.when(i) >= from) n += s.weight[i]!;
  return `${(n / seconds).toFixed(1)} /s in view`;
}

const shortened = new WeakMap<string[], string[]>();
/** Names for the axis, without what all have in common. */
function shortNames(names: string[]): string[] {
  let short = shortened.get(names);
  if (!short) shortened.set(names, short = withoutCommon(names));
  return short;
}

/** Channels from top to bottom: names where rows are high enough for them, groups of electrodes beside them. */
function drawAxis(canvas: HTMLCanvasElement | null, p: Picture, names: string[], groups: Groups | null): void {
  const on = surface(canvas);
  if (!on) return;
  const { g, w, h } = on, row = h / (p.to - p.from), of = groups ? runs(groups, p.order, p.from, p.to) : [], channel = new Uint32Array(names.length);
  for (let c = 0; c < names.length; c++) channel[p.order ? p.order[c]! : c] = c;
  g.font = font(10); g.textBaseline = "middle"; g.textAlign = "right";
  let free = -Infinity;
  for (const { group, from, to } of of) {
    const top = (from - p.from) * row, high = (to - from) * row;
    g.fillStyle = group % 2 === 0 ? colours.dim.css : colours.line.css;
    g.fillRect(w - 4, top, 4, Math.max(1, high - 1));
    g.fillStyle = colours.ink.css;
    if (row < 11 && top + high / 2 - free >= 11) { free = top + high / 2; g.fillText(groups!.names[group]!, w - 7, free, w - 8); }
  }
  if (of.length > 0 && row < 11) return;
  const every = [1, 2, 5].flatMap(m => [0, 1, 2, 3, 4].map(e => m * 10 ** e)).sort((a, b) => a - b).find(n => n * row >= 13) ?? p.to;
  g.fillStyle = colours.dim.css;
  for (let place = Math.ceil(p.from / every) * every; place < p.to; place += every) {
    const y = (place - p.from + 0.5) * row;
    g.fillText(names[channel[place]!] ?? "", w - 7, Math.min(h - 5, Math.max(5, y)), w - 8);
  }
}

/** The population's rate in bars of whole steps, and the time below it. */
function drawFoot(canvas: HTMLCanvasElement | null, s: Store, p: Picture, rate: RateBars): void {
  const on = surface(canvas);
  if (!on) return;
  const { g, w, h } = on, axis = 16, high = h - axis - 3;
  rate.update(s, p, Math.floor(w / 3));
  const top = rate.most, [first, last] = rate.span, wide = rate.per / p.window * w;
  // Of a sweep, the picture's left edge is the last multiple of the window.
  const left = p.sweep ? Math.floor(p.end / p.window) * p.window : p.end - p.window;
  g.fillStyle = colours.x.css;
  g.globalAlpha = 0.55;
  for (let b = first; b <= last; b++) {
    const v = top > 0 ? Math.min(1, rate.sum(b) / top) * (high - 12) : 0, x = (b * rate.per - left) / p.window * w;
    if (v > 0) g.fillRect(p.sweep && x < 0 ? x + w : x, high - v, wide + 0.3, v);
  }
  g.globalAlpha = 1;
  g.fillStyle = colours.dim.css;
  g.font = font(10);
  g.textAlign = "left";
  g.textBaseline = "top";
  if (top > 0) g.fillText(`most ${whole(top / (rate.per * s.shape.stepSeconds))} spikes/s in ${length(rate.per * s.shape.stepSeconds)}`, 3, 1);
  if (!p.sweep) strokeMoments(g, s, p.end - p.window, p.end, [0, 0, w, high]);
  const struck = state.incident.value;
  if (struck) { g.fillStyle = colours.bad.css; g.fillRect((struck.tick - left) / p.window * w, 0, 1.5, high); }
  g.strokeStyle = colours.line.css;
  g.beginPath(); g.moveTo(0, high + 0.5); g.lineTo(w, high + 0.5); g.stroke();
  if (p.sweep) return;
  const end = s.seconds_(p.end), begin = end - p.window * s.shape.stepSeconds;
  g.fillStyle = colours.dim.css;
  g.font = font(11);
  g.textBaseline = "bottom";
  for (const { at, words } of timeTicks(begin, end, w / 80)) {
    const x = (at - begin) / (end - begin) * w, half = textWidth(g, words) / 2;
    g.fillRect(Math.round(x), high, 1, 4);
    if (x - half > 0 && x + half < w) { g.textAlign = "center"; g.fillText(words, x, h); }
  }
}

export function Raster() {
  const canvas = useRef<HTMLCanvasElement>(null), marks = useRef<HTMLCanvasElement>(null), foot = useRef<HTMLCanvasElement>(null), hand = useRef<HTMLDivElement>(null), above = useRef<HTMLCanvasElement>(null), axis = useRef<HTMLCanvasElement>(null);
  const view = useRef<RasterView | PlainRaster | null>(null), drag = useRef<{ x: number; at: number } | null>(null);
  /** The pointer has moved since it went down: what follows is a drag, not a click on a channel. */
  const moved = useRef(false);
  const [how, setHow] = useState<"at first" | "gl" | "plain">("at first"), [tip, setTip] = useState<{ x: number; y: number; words: string } | null>(null), [part, setPart] = useState<[number, number, number, number] | null>(null), [span, setSpan] = useState<[number, number] | null>(null);
  const address = state.address.value, s = state.shown.value, byRate = address.order === "rate";
  // Sorted anew every five seconds: rows that jump every second cannot be followed.
  const turn = byRate ? Math.floor(state.beat.value / 5) : 0;
  const source = state.server.value?.source, grouped = state.gathered.value || address.order === "electrode";
  // Groups of many electrodes take longer than a picture: the first one does without, except where its order needs them.
  const groups = useMemo(() => source && grouped ? groupsOf(source.channel_names, source.electrode_um) : null, [source, grouped]);
  const byPlace = address.order === "electrode" ? groups?.order ?? null : null;
  const ranked = useMemo(() => byRate && s ? rank(s.trend.length > 0 ? mean(s.trend) : s.rates) : null, [byRate, s, turn]), order = byRate ? ranked : byPlace;
  /** The picture that is on the canvas, and how often it was drawn again. */
  const drawn = useRef<{ key: string; store: Store | null; order: Uint32Array | null; times: number }>({ key: "", store: null, order: null, times: 0 });
  useEffect(() => { drawn.current.key = ""; state.redraw(); }, [groups]);
  /** What the axis was drawn of, and whether anything lies above the spikes: neither is drawn again for nothing. */
  const axisOf = useRef<{ key: string; order: Uint32Array | null; source: typeof source | null; groups: Groups | null; runs: ReturnType<typeof runs> }>({ key: "", order: null, source: null, groups: null, runs: [] }), covered = useRef(false);
  // A context of WebGL takes longer than all else, and nothing else is done meanwhile: the first frames are drawn without one, until what
  // was before this page has come.
  useLayoutEffect(() => {
    if (!canvas.current) return;
    if (how === "gl") try {
      view.current = new RasterView(canvas.current);
      canvas.current.addEventListener("webglcontextrestored", () => { drawn.current.key = ""; state.redraw(); });
      // It is made after the first picture, when a page that has all it shows may have stopped drawing.
      drawn.current.key = "";
      state.redraw();
    } catch { setHow("plain"); }
    else view.current = new PlainRaster(canvas.current);
  }, [how]);
  useEffect(() => {
    if (how !== "at first" || !s || !state.gathered.value) return;
    let timer = 0;
    const frame = requestAnimationFrame(() => { timer = window.setTimeout(() => setHow("gl")); });
    return () => { cancelAnimationFrame(frame); clearTimeout(timer); };
  }, [s !== null, state.gathered.value]);
  const rate = useRef(new RateBars());
  usePainter(store => {
    // A figure has spikes of its own.
    if (!view.current || staged()) return;
    void painted.value;
    orderNow = order;
    const p = rasterPicture(store, order), box = canvas.current!;
    state.picture.columns = Math.round(box.clientWidth * (how === "gl" ? devicePixelRatio || 1 : 1));
    // The same picture again costs as much as another one, on the graphics processor, too.
    const key = [state.incident.value?.tick, how, p.end, p.window, p.from, p.to, p.sweep, store.version, store.trials.length, store.events.length, store.misses.length, painted.value, box.clientWidth, box.clientHeight, devicePixelRatio].join(" ");
    const same = drawn.current.key === key && drawn.current.store === store && drawn.current.order === order && state.overRaster.size === 0;
    // The first picture of a view without WebGL may have been put off.
    if (same && drawn.current.times > 15) return;
    drawn.current = { key, store, order, times: same ? drawn.current.times + 1 : 0 };
    view.current.draw(store, p);
    const axisKey = [p.from, p.to, painted.value, axis.current?.clientWidth, axis.current?.clientHeight, devicePixelRatio].join(" "), was = axisOf.current;
    if (was.key !== axisKey || was.order !== order || was.source !== source || was.groups !== groups) {
      axisOf.current = { key: axisKey, order, source, groups, runs: groups ? runs(groups, order, p.from, p.to) : [] };
      drawAxis(axis.current, p, source ? shortNames(source.channel_names) : [], groups);
    }
    const of = p.sweep ? [] : axisOf.current.runs, covers = state.overRaster.size > 0 || of.length > 1 || !p.sweep && momentLines(store, p.end - p.window, p.end, box.clientWidth).length > 0;
    const over = covers || covered.current ? surface(above.current) : null;
    covered.current = covers;
    if (over && !p.sweep) {
      strokeMoments(over.g, store, p.end - p.window, p.end, [0, 0, over.w, over.h]);
      over.g.fillStyle = colours.line.css;
      for (const run of of.slice(1)) over.g.fillRect(0, Math.round((run.from - p.from) / (p.to - p.from) * over.h), over.w, 1);
    }
    if (over) for (const paint of state.overRaster) paint(over.g, over.w, over.h, store, p);
    // Marks and rate belong to the same picture: they are drawn with it.
    drawMarks(marks.current, store, p);
    drawFoot(foot.current, store, p, rate.current);
  });

  const at = (event: MouseEvent): { tick: number; when: number; channel: number } | null => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box || !s) return null;
    const p = rasterPicture(s, order), place = p.from + Math.floor((event.clientY - box.top) / box.height * (p.to - p.from));
    const channel = order ? order.indexOf(place) : place;
    const when = p.end - p.window + (event.clientX - box.left) / box.width * p.window;
    return { tick: Math.floor(when), when, channel };
  };
  const hover = (event: MouseEvent) => {
    const box = canvas.current?.getBoundingClientRect(), here = at(event);
    if (!box || !here || !s) return;
    state.cursor.value = s.seconds_(here.when);
    if (span) { setSpan([span[0], state.cursor.value]); return; }
    if (part) { setPart([part[0], part[1], event.clientX - box.left, event.clientY - box.top]); return; }
    if (drag.current) {
      const by = drag.current.x - event.clientX;
      moved.current ||= Math.abs(by) > 3;
      if (moved.current) state.go({ at: Math.min(s.seconds_(state.reach(s).end), Math.max(s.seconds_(state.reach(s).first), drag.current.at + by / box.width * address.window)) });
      return;
    }
    // A window of a session that has just begun reaches to before its start.
    if (s.seconds_(here.when) < 0) { setTip(null); return; }
    const names = state.server.value?.source.channel_names, near = s.cell > 1 ? 0 : state.viewWindow(s) / box.width * 2, first = s.cell > 1 ? Math.floor(here.when / s.cell) * s.cell : here.when - near, last = s.cell > 1 ? first + s.cell : here.when + near;
    let n = 0;
    for (let i = lowerBound(s.tick, s.spikes, Math.floor(first)); i < s.spikes && s.tick[i]! <= last; i++) if (s.channel[i] === here.channel && s.when(i) >= first && (s.cell > 1 ? s.when(i) < last : s.when(i) <= last)) n += s.weight[i]!;
    setTip({ x: event.clientX - box.left, y: event.clientY - box.top, words: `${names?.[here.channel] ?? here.channel} · ${timeLabel(s.seconds_(s.offset ? here.when : here.tick), Math.min(0.001, tickOf(s)))} · ${n === 0 ? "no spike here" : `${n} spike${n > 1 ? "s" : ""}`} · ${rateInView(s, here.channel)}` });
  };
  /** With Alt a part is drawn round, and then shown alone. */
  const select = (): void => {
    const box = canvas.current?.getBoundingClientRect(), s = state.shown.value;
    setPart(null);
    if (!part || !box || !s) return;
    const p = rasterPicture(s, order), span = (a: number, b: number, whole: number): [number, number] => [Math.max(0, Math.min(a, b) / whole), Math.min(1, Math.max(a, b) / whole)];
    const [x0, x1] = span(part[0], part[2], box.width), [y0, y1] = span(part[1], part[3], box.height), rows = p.to - p.from, step = s.shape.stepSeconds;
    if ((x1 - x0) * box.width < 5 || (y1 - y0) * box.height < 5) return;
    state.go({ at: s.seconds_(p.end - p.window * (1 - x1)), window: Math.max(state.zoomBounds(s)[0], (x1 - x0) * p.window * step), channels: [p.from + Math.floor(y0 * rows), p.from + Math.max(Math.floor(y0 * rows) + 1, Math.ceil(y1 * rows))] });
  };
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    const box = canvas.current?.getBoundingClientRect(), here = at(event);
    if (!box || !here || !s) return;
    if (event.shiftKey) {
      const [from, to] = address.channels ?? [0, s.shape.channels], y = (event.clientY - box.top) / box.height;
      const delta = event.deltaY || event.deltaX, span = Math.max(4, Math.min(s.shape.channels, Math.round((to - from) * (delta > 0 ? 1.25 : 0.8))));
      const low = Math.max(0, Math.min(s.shape.channels - span, Math.round(from + ((to - from) - span) * y)));
      state.go({ channels: span >= s.shape.channels ? null : [low, low + span] });
    } else state.zoom(event.deltaY > 0 ? 1.25 : 0.8, state.live.value ? 1 : (event.clientX - box.left) / box.width);
  };
  useEffect(() => {
    const over = hand.current;
    over?.addEventListener("wheel", wheel, { passive: false });
    return () => over?.removeEventListener("wheel", wheel);
  });

  void state.beat.value;
  const moves = state.file.value ? state.playing.value : state.live.value;
  const [from, to] = address.channels ?? [0, s?.shape.channels ?? 0], shown = to - from, rows = Math.max(1, Math.min(shown, canvas.current?.clientHeight ?? shown));
  const hidden = s ? s.hidden(state.viewEnd(s) - state.viewWindow(s), state.viewEnd(s)) * s.shape.stepSeconds : 0;
  const left = s ? s.without(state.viewEnd(s) - state.viewWindow(s), state.viewEnd(s)) * s.shape.stepSeconds : 0;
  const note = s ? [
    ...(s.cell > 1 ? [`cells of ${Number((s.cell * s.shape.stepSeconds).toPrecision(3))} s`] : []),
    shown < s.shape.channels ? `${whole(shown)} of ${plural(s.shape.channels, "channel")}` : `all ${plural(shown, "channel")}`,
    ...(shown > rows * 1.5 ? [`about ${Math.round(shown / rows)} per row`] : []),
    ...(!state.file.value && state.viewEnd(s) <= s.first ? ["this time is no longer stored"] : state.aside.value ? ["kept because a deadline was missed"] : []),
    ...(left > 0 ? [`hatched: ${left < 0.1 ? left.toFixed(3) : left.toFixed(1)} s left out as asked`] : []),
    ...(hidden > 0 ? [`hatched: ${hidden < 0.1 ? hidden.toFixed(3) : hidden.toFixed(1)} s not shown`] : []),
    ...(how === "plain" ? ["no WebGL2: 10 frames per second"] : []),
    ...(s.grouped > 0 ? [`counts of ${plural(s.groupedRows, "row")}`] : []),
  ].join(" · ") : "";
  const picked = address.channel !== null && s ? (order ? order[address.channel]! : address.channel) : null;
  const struck = state.incident.value;
  const lineAt = picked !== null && picked >= from && picked < to ? (picked - from + 0.5) / shown * 100 : null;
  // Once a second: what the inks stand for.
  const cells = view.current?.cells, most = s && cells && cells.columns > 0 ? cells.most : 1, ink = cells && cells.columns > 0 ? cells.ink() : null, heat = cells && cells.columns > 0 ? cells.heat() : null, [cellSeconds, perRow] = cells && cells.columns > 0 ? cells.size : [0, 1];
  const swatch = (n: number): string => heat ? `rgb(${ramp()[Math.round(255 * heat.of(n))]!.join(" ")})` : `color-mix(in srgb,var(--spike) ${Math.round(100 * ink!.of(n))}%,var(--panel))`;
  const levels = [...new Set([1, Math.round(Math.sqrt(most)), most])].filter(n => n >= 1), inks = most > 1 && ink ? levels : [];
  const windows = [...new Set([...WINDOWS, address.window])].filter(w => !s || w === address.window || w >= state.zoomBounds(s)[0]).sort((a, b) => a - b), longest = s ? state.zoomBounds(s)[1] : 60;
  return <Panel area="raster" title="Spikes" note={note} tools={<span class="tools">
    <label>order <select value={address.order} onChange={e => state.go({ order: e.currentTarget.value as Order })}>
      {ORDERS.filter(o => o !== "electrode" || groups).map(o => <option key={o} value={o}>{o}</option>)}</select></label>
    <label>window <select value={String(address.window)} onChange={e => { if (e.currentTarget.value === "all") state.showAll(); else state.go({ window: Number(e.currentTarget.value) }); }}>
      {windows.map(w => <option key={w} value={String(w)}>{w < 1 ? `${Number((w * 1e3).toPrecision(3))} ms` : `${Number(w.toFixed(2))} s`}</option>)}{longest > 60 && <option value="all">all</option>}</select></label>
    <button class="icon" onClick={() => state.pause()} aria-pressed={!moves} aria-label={moves ? "Pause" : "Resume"} title="Space">{moves ? "❚❚" : "▶"}</button>
  </span>}>
    <div class="rows2">
    <canvas class="marks" ref={marks} aria-hidden="true" />
    <canvas class="axis" ref={axis} aria-hidden="true" />
    <div class="hand" ref={hand} onPointerMove={hover} onPointerLeave={() => { setTip(null); setPart(null); setSpan(null); state.cursor.value = null; drag.current = null; }} onDblClick={() => { if (!state.file.value) state.go({ at: null }); }}
      onPointerDown={e => { moved.current = false; const here = at(e); if (e.shiftKey && s && here) { setTip(null); setSpan([s.seconds_(here.when), s.seconds_(here.when)]); } else if (e.altKey && s) { const box = e.currentTarget.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top; setTip(null); setPart([x, y, x, y]); } else if (s) drag.current = { x: e.clientX, at: s.seconds_(state.viewEnd(s)) }; }} onPointerUp={() => { drag.current = null; select(); if (span) { moved.current = span[0] !== span[1]; if (moved.current) state.select([Math.min(...span), Math.max(...span)]); setSpan(null); } }} onPointerCancel={() => { drag.current = null; setPart(null); setSpan(null); }}
      onClick={e => { const here = at(e); if (here && e.detail === 1 && !e.altKey && !e.shiftKey && !moved.current) state.go({ channel: here.channel }); }}>
      <canvas key={how} class="cells" ref={canvas} tabIndex={0} role="img" aria-label={`Raster of spikes: ${plural(shown, "channel")} from top to bottom, ${length(address.window)} from left to right. Arrow keys move.`} />
      <canvas class="above" ref={above} aria-hidden="true" />
      {lineAt !== null && <div class="picked" style={{ top: `${lineAt}%` }}><span>{state.server.value?.source.channel_names[address.channel!]}</span></div>}
      {struck && s && <div class="at" style={{ left: `${(struck.tick - state.viewEnd(s) + state.viewWindow(s)) / state.viewWindow(s) * 100}%` }} />}
      <Selected part={span ? [Math.min(...span), Math.max(...span)] : state.range.value} /><Cursor />
      {part && <div class="part" style={{ left: `${Math.min(part[0], part[2])}px`, top: `${Math.min(part[1], part[3])}px`, width: `${Math.abs(part[2] - part[0])}px`, height: `${Math.abs(part[3] - part[1])}px` }} />}
      {tip && <div class="tip" style={{ left: `${Math.min(tip.x + 12, (canvas.current?.clientWidth ?? 600) - 300)}px`, top: `${tip.y + 14}px` }}>{tip.words}</div>}
    </div>
    {inks.length > 0 && <div class="density" title={`Spikes per cell of ${Number((cellSeconds * 1e3).toPrecision(3))} ms and ${Number(perRow.toPrecision(3))} channel${perRow > 1 ? "s" : ""}`}>{inks.map(n => <span key={n}><i style={{ background: swatch(n) }} aria-hidden="true" />{whole(n)}{n >= 255 * (s?.unit ?? 1) ? " or more" : ""}</span>)}spikes</div>}
    <div class="foot"><canvas ref={foot} aria-hidden="true" /><Cursor /></div>
    </div>
  </Panel>;
}

function mean(rows: Float32Array[]): Float32Array {
  const sum = new Float32Array(rows[0]!.length);
  for (const row of rows) for (let i = 0; i < sum.length; i++) sum[i]! += row[i]! / rows.length;
  return sum;
}
