// Trials: aligned to an event, sorted; mean rate, spikes and the decoded output of each.
import { useEffect, useState } from "preact/hooks";
import { frames } from "../link/frames.ts";
import { MOST_OVERLAID, SORTS, markOf, meanCourse, overlaid, rateOf, reaching, sorted, trialsOf, windowOf, type Sort, type Trials as Found } from "../link/trials.ts";
import { origin, save } from "../panels/Export.tsx";
import { Plane } from "../panels/Canvas.tsx";
import { Panel, font } from "../panels/Panel.tsx";
import { ramp } from "../draw/colour.ts";
import { valueAxis, valueLines } from "../draw/axes.ts";
import { table } from "../draw/table.ts";
import { clock, plural, ticks, timeLabel, whole } from "../draw/format.ts";
import { OUTPUT_INKS, colours, outputInk, painted } from "../theme.ts";
import * as state from "../state.ts";

/** Time of a step, which is that of its spikes; null where a recording has finer times. */
const stepOfSpikes = (): number | null => state.file.value?.tick_seconds != null ? null : state.server.value?.source.step_seconds ?? null;

/** Event, window, bin, output and order, as the address has them. */
interface Wanted { align: string; from: number; to: number; bin: number; output: number; sort: Sort }
const ALIGNS: Record<string, string> = { starts: "start of the trial", stops: "end of the trial", marks: "mark", labels: "any label" };
function wanted(): Wanted {
  const [align, from, to, bin, output, sort] = (state.address.value.more["tr"] ?? "").split(","), number = (text: string | undefined, otherwise: number): number => text !== undefined && text !== "" && Number.isFinite(Number(text)) ? Number(text) : otherwise;
  const usual = windowOf(stepOfSpikes());
  return { align: align && (align in ALIGNS || /^label\d+$/.test(align)) ? align : "starts", from: number(from, usual.from), to: number(to, usual.to), bin: number(bin, usual.bin), output: number(output, 0), sort: SORTS[number(sort, 0)] ?? "time" };
}
const change = (part: Partial<Wanted>): void => { const w = { ...wanted(), ...part }; state.go({ more: { ...state.address.value.more, tr: [w.align, w.from, w.to, w.bin, w.output, SORTS.indexOf(w.sort)].join(",") } }); };

/** The axis of time after the event below a plot that is `high` pixels high, and a line at the event. */
function axis(g: CanvasRenderingContext2D, w: number, h: number, high: number, t: Found): (time: number) => number {
  const x = (time: number): number => (time - t.from) / (t.to - t.from) * w, all = ticks(t.from, t.to, w / 80), step = (all[1] ?? 1) - (all[0] ?? 0);
  g.fillStyle = colours.dim.css; g.font = font(10); g.textBaseline = "bottom"; g.textAlign = "center";
  for (const time of all) { const at = x(time); g.fillRect(at, high, 1, 4); if (at > 16 && at < w - 16) g.fillText(time < 0 ? `−${timeLabel(-time, step)}` : timeLabel(time, step), at, h); }
  if (t.from < 0 && t.to > 0) { g.fillStyle = colours.bad.css; g.fillRect(x(0), 0, 1, high); }
  return x;
}

/** The pattern of time that is another trial's, or nobody's. */
let pattern: { ink: string; tile: HTMLCanvasElement } | null = null;
function hatching(g: CanvasRenderingContext2D): CanvasPattern | string {
  const ink = colours.line.css;
  if (pattern?.ink !== ink) {
    const tile = document.createElement("canvas"), on = tile.getContext("2d")!;
    tile.width = tile.height = 6;
    on.strokeStyle = ink;
    on.beginPath(); on.moveTo(-1, 7); on.lineTo(7, -1); on.moveTo(-4, 4); on.lineTo(4, -4); on.moveTo(2, 10); on.lineTo(10, 2); on.stroke();
    pattern = { ink, tile };
  }
  // A figure makes patterns of its own.
  return g.createPattern(pattern.tile, "repeat") ?? ink;
}

/** Adds a trial to those that are overlaid, or takes it away. */
function overlay(trials: number[]): void {
  const { tro: _, ...more } = state.address.value.more;
  state.go({ more: trials.length > 0 ? { ...more, tro: trials.slice(-MOST_OVERLAID).map(k => k + 1).join(",") } : more });
}

function Spikes({ t, order, byLabel, over }: { t: Found; order: number[]; byLabel: boolean; over: number[] }) {
  const draw = (g: CanvasRenderingContext2D, w: number, h: number): void => {
    void painted.value;
    const high = h - 16, row = high / Math.max(1, order.length), place = new Uint32Array(order.length), x = axis(g, w, h, high, t);
    order.forEach((k, i) => { place[k] = i; });
    order.forEach((k, i) => { const [begin, end] = t.trials[k]!.inside; for (const [a, b] of [[t.from, begin], [end, t.to]] as const) if (b > a) { g.fillStyle = hatching(g); g.fillRect(x(a), i * row, x(b) - x(a), row); } });
    const { wide, alpha } = markOf(t, w, stepOfSpikes());
    g.fillStyle = colours.spike.css; g.globalAlpha = alpha;
    for (let i = 0; i < t.row.length; i++) { const k = over.indexOf(t.row[i]!); g.fillStyle = k < 0 ? colours.spike.css : outputInk(k).css; g.fillRect(x(t.after[i]!), place[t.row[i]!]! * row, k < 0 ? wide : Math.max(2, wide), Math.max(k < 0 ? 0.7 : 2, row * 0.85)); }
    g.globalAlpha = 1;
    over.forEach((trial, k) => { g.fillStyle = outputInk(k).css; g.fillRect(0, place[trial]! * row, 6, Math.max(3, row)); });
    // Sorted by label, each label's trials begin below a line with its name.
    if (byLabel) order.forEach((k, i) => {
      const name = t.trials[k]!.label;
      if (!name || i > 0 && t.trials[order[i - 1]!]!.label === name) return;
      g.fillStyle = colours.line.css; g.fillRect(0, i * row, w, 1);
      g.fillStyle = colours.y.css; g.font = font(10); g.textAlign = "left"; g.textBaseline = "top"; g.fillText(name, 2, i * row + 1);
    });
  };
  const pick = (e: MouseEvent): void => {
    const box = (e.currentTarget as HTMLElement).getBoundingClientRect(), k = order[Math.floor((e.clientY - box.top) / (box.height - 16) * order.length)];
    if (k !== undefined && e.shiftKey) { overlay(over.includes(k) ? over.filter(j => j !== k) : [...over, k]); return; }
    if (k !== undefined) state.go({ view: "live", window: t.to - t.from, at: t.trials[k]!.seconds + t.to });
  };
  return <Plane class="aligned" draw={draw} onClick={pick} label={`Spikes of ${order.length} trials around the event, one trial per row; a click shows the trial, with Shift it is overlaid`} />;
}

/** The part of the window that a Fano factor is of, if it is not all of it: bins that every trial has. */
const fanoPart = (t: Found): string => t.fano_bins[1] - t.fano_bins[0] === t.bins ? "" : ` from ${t.fano_bins.map(b => `${Number((t.from + b * t.bin).toFixed(3))}`).join(" to ")} s`;

/** Mean rate in bars, with its standard error. */
function Rate({ t, over }: { t: Found; over: number[] }) {
  return <Plane class="aligned" label="Mean rate around the event in bars, with its standard error" draw={(g, w, h) => {
    void painted.value;
    const high = h - 16, lines = over.map(k => rateOf(t, k)), top = Math.max(t.mean.reduce<number>((most, v, b) => Math.max(most, (v ?? 0) + (t.error[b] ?? 0)), 0), ...lines.flatMap(l => Array.from(l).filter(v => v === v))) || 1, x = axis(g, w, h, high, t), y = (v: number): number => high - v / top * (high - 14);
    valueLines(g, w, [0, top], y);
    t.mean.forEach((v, b) => {
      const left = x(t.from + b * t.bin), wide = x(t.from + (b + 1) * t.bin) - left, error = t.error[b];
      if (v === null) { g.fillStyle = hatching(g); g.fillRect(left, 0, wide, high); return; }
      g.fillStyle = colours.x.css; g.globalAlpha = 0.55; g.fillRect(left, y(v), Math.max(0.6, wide - 0.6), high - y(v)); g.globalAlpha = 1;
      if (error != null) { g.fillStyle = colours.ink.css; g.fillRect(left + wide / 2, y(v + error), 1, y(Math.max(0, v - error)) - y(v + error)); }
    });
    lines.forEach((line, k) => {
      g.strokeStyle = outputInk(k).css; g.lineWidth = 2; g.beginPath();
      line.forEach((v, b) => { if (v !== v) return; g.moveTo(x(t.from + b * t.bin), y(v)); g.lineTo(x(t.from + (b + 1) * t.bin), y(v)); });
      g.stroke(); g.lineWidth = 1;
    });
    valueAxis(g, [0, top], y, "spikes/s");
  }} />;
}

/** Mean rate of every channel, each from nothing to its greatest. */
function Heat({ t }: { t: Found }) {
  return <Plane class="aligned" label="Mean rate of every channel around the event, one channel per row, each by its own greatest rate" onClick={e => { const box = (e.currentTarget as HTMLElement).getBoundingClientRect(); state.go({ channel: Math.min(t.channels - 1, Math.max(0, Math.floor((e.clientY - box.top) / (box.height - 16) * t.channels))) }); }} draw={(g, w, h) => {
    void painted.value;
    const high = h - 16, image = new ImageData(t.bins, t.channels), inks = ramp(), held = document.createElement("canvas");
    for (let c = 0; c < t.channels; c++) {
      const rates = t.heat.subarray(c * t.bins, (c + 1) * t.bins), most = rates.reduce((a, b) => b > a ? b : a, 0);
      // A bin that no trial has stays paper.
      rates.forEach((v, b) => { if (v === v) image.data.set([...inks[most > 0 ? Math.round(255 * v / most) : 0]!, 255], 4 * (c * t.bins + b)); });
    }
    held.width = t.bins; held.height = t.channels;
    held.getContext("2d")!.putImageData(image, 0, 0);
    g.imageSmoothingEnabled = false;
    g.drawImage(held, 0, 0, w, high);
    axis(g, w, h, high, t);
    g.fillStyle = colours.ink.css; g.font = font(10); g.textAlign = "left";
    const names = state.server.value?.source.channel_names ?? [];
    g.strokeStyle = colours.panel.css; g.lineWidth = 3; g.lineJoin = "round";
    for (const [c, at, base] of [[0, 1, "top"], [t.channels - 1, high - 1, "bottom"]] as const) { g.textBaseline = base; g.strokeText(names[c] ?? "", 3, at); g.fillText(names[c] ?? "", 3, at); }
    g.lineWidth = 1;
    g.strokeStyle = colours.ink.css; g.strokeRect(0.5, t.channel / t.channels * high, w - 1, Math.max(2, high / t.channels));
  }} />;
}

/** One output of every trial, and the means of what is decoded and what is true. */
function Decodes({ t, over }: { t: Found; over: number[] }) {
  return <Plane class="aligned" label="The output of every trial around the event, and the means of decoded and true" draw={(g, w, h) => {
    void painted.value;
    const unit = state.server.value?.source.outputs[t.output]?.unit ?? "", high = h - 16, x = axis(g, w, h, high, t), n = t.decoded, means = [meanCourse(t.estimate, n, t.points), meanCourse(t.truth, n, t.points)];
    let low = Infinity, top = -Infinity;
    for (const all of [t.estimate, t.truth]) for (const v of all) if (v === v) { low = Math.min(low, v); top = Math.max(top, v); }
    if (!(top > low)) return;
    const y = (v: number): number => high - 3 - (v - low) / (top - low) * (high - 6), line = (values: ArrayLike<number>, from: number, begin: number): void => {
      g.beginPath();
      for (let p = 0, open = false; p < t.points; p++) { const v = values[from + p]!; if (v !== v) open = false; else { const at = x(begin + p * t.point_seconds); if (open) g.lineTo(at, y(v)); else g.moveTo(at, y(v)); open = true; } }
      g.stroke();
    };
    g.lineWidth = 1;
    valueLines(g, w, [low, top], y);
    const chosen = over.filter(k => k < n);
    g.globalAlpha = Math.max(0.05, Math.min(0.5, 12 / n)) / (chosen.length > 0 ? 2 : 1); g.strokeStyle = outputInk(t.output).css;
    for (let k = 0; k < n; k++) line(t.estimate, k * t.points, t.trials[k]!.begin);
    g.globalAlpha = 1; g.lineWidth = 2.2;
    const begin = t.trials.slice(0, n).reduce((sum, trial) => sum + trial.begin, 0) / Math.max(1, n);
    if (chosen.length === 0) {
      line(means[0]!, 0, begin);
      g.strokeStyle = colours.true.css; g.setLineDash([5, 4]); line(means[1]!, 0, begin); g.setLineDash([]);
    }
    over.forEach((k, i) => {
      if (k >= n) return;
      g.strokeStyle = outputInk(i).css;
      line(t.estimate, k * t.points, t.trials[k]!.begin);
      g.setLineDash([5, 4]); line(t.truth, k * t.points, t.trials[k]!.begin); g.setLineDash([]);
    });
    g.lineWidth = 1;
    valueAxis(g, [low, top], y, unit);
  }} />;
}

/** A number that is asked for when it is complete. */
function Seconds({ words, value, set }: { words: string; value: number; set: (v: number) => void }) {
  // Typed text stays while answers arrive; text that is no number is dropped.
  const [typed, setTyped] = useState<string | null>(null);
  return <label>{words} <input type="number" step="any" value={typed ?? value} onInput={e => setTyped(e.currentTarget.value)} onBlur={() => setTyped(null)}
    onChange={e => { const v = Number(e.currentTarget.value); setTyped(null); if (e.currentTarget.value !== "" && Number.isFinite(v)) set(v); }} /></label>;
}

/** The trials that are overlaid, by their numbers in the order of time, and when each is. */
function Overlaid({ t, over }: { t: Found | null; over: number[] }) {
  const [typed, setTyped] = useState<string | null>(null);
  return <><label>overlay trials <input size={8} placeholder="3, 7" value={typed ?? over.map(k => k + 1).join(", ")} onInput={e => setTyped(e.currentTarget.value)} onBlur={() => setTyped(null)}
    onChange={e => { overlay(overlaid(e.currentTarget.value, t?.trials.length ?? 0)); setTyped(null); }} /></label>
    {t && over.map((k, i) => <span key={k}><span class={`key ink${i}`} aria-hidden="true" />{k + 1}: {clock(t.trials[k]!.seconds, 1)}{t.trials[k]!.label ? ` ${t.trials[k]!.label}` : ""}</span>)}</>;
}

/** Channels up to which a list has them all; of more a name is searched. */
const MOST_LISTED = 100, MOST_FOUND = 40;
function Channel({ names, channel }: { names: string[]; channel: number }) {
  const [typed, setTyped] = useState<string | null>(null), go = (c: number): void => { state.go({ channel: c }); setTyped(null); };
  if (names.length <= MOST_LISTED) return <label>channel <select value={String(channel)} onChange={e => go(Number(e.currentTarget.value))}>{names.map((name, c) => <option key={c} value={String(c)}>{name}</option>)}</select></label>;
  const found: string[] = [], word = (typed ?? "").toLowerCase();
  for (let c = 0; c < names.length && found.length < MOST_FOUND && typed !== null; c++) if (names[c]!.toLowerCase().includes(word)) found.push(names[c]!);
  return <label>channel <input type="search" list="tr-channels" size={10} value={typed ?? names[channel] ?? ""} onFocus={e => { setTyped(""); e.currentTarget.select(); }} onBlur={() => setTyped(null)}
    onInput={e => { const text = e.currentTarget.value, c = names.indexOf(text); if (c >= 0) go(c); else setTyped(text); }}
    onKeyDown={e => { const c = names.indexOf(found[0] ?? ""); if (e.key === "Enter" && c >= 0) { go(c); e.currentTarget.blur(); } }} />
    <datalist id="tr-channels">{found.map(name => <option key={name} value={name} />)}</datalist></label>;
}

export function Trials() {
  const w = wanted(), server = state.server.value!, s = state.store.value!, channel = Math.min(s.shape.channels - 1, state.address.value.channel ?? 0), live = server.mode === "live", names = server.source.channel_names, outputs = server.source.outputs;
  const [t, setFound] = useState<Found | null>(null), [wrong, setWrong] = useState(""), [turn, setTurn] = useState(0), source = state.address.value.source;
  const labels = server.labels ?? [], one = /^label(\d+)$/.exec(w.align);
  const path = `api/trials?source=${source}&align=${one ? `labels&label=${one[1]}` : w.align}&from=${w.from}&to=${w.to}&bin=${w.bin}&channel=${channel}&output=${Math.min(w.output, Math.max(0, outputs.length - 1))}`;
  useEffect(() => {
    let gone = false;
    void frames(path).then(f => { if (!gone) { setFound(trialsOf(f)); setWrong(""); } }, e => { if (!gone) { setFound(null); setWrong((e as Error).message); } });
    return () => { gone = true; };
  }, [path, turn]);
  const order = t ? sorted(t.trials, w.sort) : [], over = t ? overlaid(state.address.value.more["tro"] ?? "", t.trials.length) : [];
  useEffect(() => {
    if (!t) return;
    const tell = { ...origin(), align: one ? `label ${labels[Number(one[1])]}` : ALIGNS[t.align]!, channel: names[t.channel] ?? String(t.channel) };
    state.offers.value = { words: "Every trial in the order that is shown, and the mean rate in bins.", take: [
      ["trials, CSV", () => save(new Blob([table(tell, ["seconds", "spikes", "r2", "rmse", "label"], order.map(k => { const d = t.trials[k]!; return [d.seconds, d.spikes, d.r2, d.rmse, d.label]; }))], { type: "text/csv" }), "betz-trials.csv")],
      ["PSTH, CSV", () => save(new Blob([table(tell, ["seconds", "rate", "error", "trials"], t.mean.map((v, b) => [Number((t.from + b * t.bin).toFixed(9)), v, t.error[b] ?? null, t.events[b]]))], { type: "text/csv" }), "betz-psth.csv")]] };
    return () => { state.offers.value = null; };
  }, [t, w.sort]);
  const note = t ? `${plural(t.trials.length, "trial")}${live ? " of the last minute" : ""}, one per row` : "", apart = t ? [...(t.left_out > 0 ? [`${whole(t.left_out)} left out: their window reaches beyond the recording`] : []), ...(reaching(t) > 0 ? [`hatched: beyond the own trial of ${whole(reaching(t))}, counted nowhere`] : [])].join("; ") : "";
  return <main class={outputs.length > 0 ? "trials" : "trials bare"}>
    <Panel area="tr-spikes" title="Trials" note={note} tools={<span class="tools">
      <label>align to <select value={w.align} onChange={e => change({ align: e.currentTarget.value })}>{Object.entries(ALIGNS).filter(([k]) => k === "labels" ? labels.length > 0 : k !== (live ? "stops" : "marks")).map(([k, words]) => <option key={k} value={k}>{words}</option>)}{labels.map((name, k) => <option key={name} value={`label${k}`}>label {name}</option>)}</select></label>
      <label>sort by <select value={w.sort} onChange={e => change({ sort: e.currentTarget.value as Sort })}>{SORTS.filter(by => by === "label" ? labels.length > 0 : outputs.length > 0 || by === "time" || by === "spikes").map(by => <option key={by} value={by}>{by}</option>)}</select></label>
      <Channel names={names} channel={channel} />
      {live && <button class="link" onClick={() => setTurn(turn + 1)}>refresh</button>}</span>}>
      <div class="row"><Seconds words="from, s" value={w.from} set={from => change({ from })} /><Seconds words="to, s" value={w.to} set={to => change({ to })} /><Seconds words="bin, s" value={w.bin} set={bin => change({ bin })} /><Overlaid t={t} over={over} /><span class="dim">{apart}</span></div>
      {wrong && <p role="alert" class="bad">{wrong}</p>}
      {t && <Spikes t={t} order={order} byLabel={w.sort === "label"} over={over} />}</Panel>
    <Panel area="tr-rate" title="Mean rate" note={t ? `${names[t.channel] ?? t.channel}, bars of ${Number((t.bin * 1e3).toPrecision(3))} ms ± standard error${t.fano !== null ? ` · Fano factor ${t.fano.toFixed(2)}${fanoPart(t)}` : ""}` : ""}>{t && <Rate t={t} over={over} />}</Panel>
    <Panel area="tr-decodes" title={outputs.length > 0 ? "Single trials" : "All channels"} note={outputs.length > 0 ? t && t.decoded > 0 ? <><span class={`key ink${t.output % OUTPUT_INKS}`} aria-hidden="true" />decoded <span class="key dashed" aria-hidden="true" />{over.length > 0 ? "true, of the overlaid trials" : "mean of the true"}{t.decoded < t.trials.length ? ` · the first ${whole(t.decoded)}` : ""}</> : "no output is known in these windows" : "each row by its own greatest rate"}
      tools={outputs.length > 1 ? <span class="tools"><label>output <select value={String(w.output)} onChange={e => change({ output: Number(e.currentTarget.value) })}>{outputs.map((o, k) => <option key={k} value={String(k)}>{o.name}</option>)}</select></label></span> : undefined}>
      {t && outputs.length > 0 && t.decoded > 0 && <Decodes t={t} over={over} />}{t && outputs.length === 0 && t.channels > 1 && <Heat t={t} />}</Panel>
    {outputs.length > 0 && t && t.channels > 1 && <Panel area="tr-heat" title="All channels" note="each row by its own greatest rate; a click picks a channel"><Heat t={t} /></Panel>}
  </main>;
}
