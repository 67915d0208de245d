// Properties of the picked channel: intervals, autocorrelogram, rate, tuning and weights.
import { useEffect, useState } from "preact/hooks";
import { SECTORS, autocorrelogram, directionOf, intervals, rates, timesOf, tuning, type Bars } from "../link/inspect.ts";
import type { Store } from "../link/store.ts";
import { More, floats } from "../link/frame.ts";
import { frames } from "../link/frames.ts";
import { drawCourse } from "../draw/course.ts";
import { valueAxis, valueLines } from "../draw/axes.ts";
import { clock, plural, whole } from "../draw/format.ts";
import { colours, painted } from "../theme.ts";
import { cost } from "../control.ts";
import type { Info, Unit } from "../som/model.ts";
import * as state from "../state.ts";
import { Plane } from "./Canvas.tsx";
import { Panel, font } from "./Panel.tsx";

/** Weights of models, as they were asked for: (channels, filters, latents). */
const held = new Map<string, ArrayLike<number>>();
/** The weights of a model, once they have come; the server's words if it refuses. */
export function useWeights(id: string, wanted: boolean): [weights: ArrayLike<number> | undefined, wrong: string] {
  const [, came] = useState(0), [wrong, setWrong] = useState("");
  useEffect(() => {
    setWrong("");
    if (wanted && id !== "" && !held.has(id)) void frames(`api/weights/${id}`).then(f => { held.set(id, floats(f, More.Value)); came(n => n + 1); }, e => setWrong(String((e as Error).message)));
  }, [id, wanted]);
  return [held.get(id), wrong];
}

/** Units of the sorters that are shown, by name; null until they are asked for. */
let units: Map<string, Unit> | null = null;
/** The sorted unit that a channel is, if its sorter is shown beside the recording: of other channels no voltage is known. */
function useUnit(name: string): Unit | undefined {
  const maps = state.server.value?.maps ?? 0, [, came] = useState(0);
  useEffect(() => {
    if (units || maps === 0) return;
    const found = units = new Map<string, Unit>();
    const ask = async (k: number): Promise<void> => { for (const u of (await (await fetch(`api/map/${k}`)).json() as Info).units) found.set(u.name, u); };
    void Promise.all(Array.from({ length: maps }, (_, k) => ask(k))).then(() => came(n => n + 1), () => { units = null; });
  }, [maps]);
  return units?.get(name);
}

interface Plot { name: string; bars: ArrayLike<number>; /** ± of each bar. */ errors?: number[]; unit: string; ends: [string, string] }
const milliseconds = (b: Bars): string => `${Number((b.width * b.values.length * 1e3).toPrecision(4))} ms`;

function Chart({ name, bars, errors, unit, ends }: Plot) {
  const top = Array.from(bars).reduce((a, b) => b > a ? b : a, 0), reach = errors ? errors.reduce((a, e, i) => bars[i]! + e > a ? bars[i]! + e : a, top) : top, most = `most ${Number.isInteger(top) ? whole(top) : Number(top.toPrecision(3))} ${unit}`;
  return <figure><Plane class="bars" label={`${name}, from ${ends[0]} to ${ends[1]}: ${most}`} draw={(g, w, h) => {
    void painted.value;
    const high = h - 14, wide = w / bars.length;
    const at = (v: number): number => high - v / reach * (high - 12);
    if (reach > 0) valueLines(g, w, [0, reach], at);
    g.fillStyle = colours.x.css;
    for (let i = 0; i < bars.length; i++) if (bars[i]! > 0) { const tall = bars[i]! / reach * (high - 12); g.fillRect(i * wide, high - tall, Math.max(0.6, wide - 0.6), tall); }
    g.fillStyle = colours.ink.css;
    errors?.forEach((e, i) => { const y = (v: number): number => high - v / reach * (high - 12); if (e > 0 && reach > 0) g.fillRect((i + 0.5) * wide, y(bars[i]! + e), 1, y(Math.max(0, bars[i]! - e)) - y(bars[i]! + e)); });
    g.fillStyle = colours.line.css; g.fillRect(0, high, w, 1);
    if (reach > 0) valueAxis(g, [0, reach], at, unit);
    g.fillStyle = colours.dim.css; g.font = font(10); g.textBaseline = "top"; g.textAlign = "left"; g.fillText(ends[0], 0, high + 3);
    g.textAlign = "right"; g.fillText(ends[1], w, high + 3);
  }} /><figcaption>{name}</figcaption></figure>;
}

/** The readout's weights of a channel: a row per filter, a column per output or latent. */
function WeightTable({ c }: { c: number }) {
  const server = state.server.value, model = server?.models?.models.find(m => m.fingerprint === server.models!.running) ?? server?.model ?? null, [all, wrong] = useWeights(model?.fingerprint ?? "", true);
  if (!model || wrong || !all) return <p class="dim">{wrong || (model ? "Loading the weights …" : "No model, so no weights.")}</p>;
  const filters = model.filters.length, shown = Math.min(4, model.latents), named = (k: number): string => model.kind === "linear" ? server!.source.outputs[k]?.name ?? String(k) : `latent ${k + 1}`;
  return <div class="rows" tabIndex={0} role="region" aria-label="Weights by filter"><table><thead><tr><th scope="col">filter</th>{Array.from({ length: shown }, (_, k) => <th key={k} scope="col">{named(k)}</th>)}</tr></thead>
    <tbody>{model.filters.map((f, i) => <tr key={i}><th scope="row">τ {(f.tau_seconds * 1e3).toFixed(0)} ms, order {f.order}</th>{Array.from({ length: shown }, (_, k) => <td key={k}>{(all[(c * filters + i) * model.latents + k] ?? 0).toPrecision(3)}</td>)}</tr>)}</tbody></table></div>;
}

/** A channel over the whole recording, as the server counts it. */
interface Whole { spikes: number; from: number; to: number; width: number; intervals: number[]; beyond: number; autocorrelogram: (number | null)[]; rate_width: number; rate: (number | null)[]; tuning: { rate: number | null; error: number | null; steps: number }[] | null }
const known = (values: (number | null)[]): Float64Array => Float64Array.from(values, v => v ?? NaN);
/** Asked for while `wanted`; null until it has come. */
function useWhole(c: number, [x, y]: [number, number], wanted: boolean): Whole | null {
  const source = state.address.value.source, path = `api/unit?source=${source}&channel=${c}&x=${x}&y=${y}`, [found, setFound] = useState<{ path: string; whole: Whole } | null>(null);
  useEffect(() => {
    if (!wanted) return;
    let gone = false;
    void fetch(path).then(async answer => { if (answer.ok && !gone) setFound({ path, whole: await answer.json() as Whole }); }, () => undefined);
    return () => { gone = true; };
  }, [path, wanted]);
  return wanted && found?.path === path ? found.whole : null;
}

export function Inspector({ s, c, span }: { s: Store; c: number; span: [number, number] }) {
  const [words, setWords] = useState(""), [wide, setWide] = useState(false), [chosen, setChosen] = useState<[number, number] | null>(null), server = state.server.value, name = server?.source.channel_names[c] ?? String(c), unit = useUnit(name);
  useEffect(() => setWords(""), [c]);
  const outputs = server?.source.outputs ?? [], pair = chosen ?? directionOf(outputs), file = state.file.value !== null, full = useWhole(c, pair, wide && file);
  const times = full ? [] : timesOf(s, c, span), spikes = full?.spikes ?? times.length;
  const isi = full ? { width: full.width, values: Float64Array.from(full.intervals), beyond: full.beyond } : intervals(s, times);
  const acg = full ? { width: full.width, values: known(full.autocorrelogram) } : autocorrelogram(s, times, span);
  const rate = full ? { width: full.rate_width, values: known(full.rate) } : rates(s, times, span), ends = full ? [full.from, full.to] as const : [s.seconds_(span[0]), s.seconds_(span[1])] as const;
  const tuned = full ? full.tuning?.map(t => ({ rate: t.rate ?? NaN, error: t.error ?? NaN, steps: t.steps })) ?? null : tuning(s, times, span, pair);
  const plots: Plot[] = [
    { name: `intervals${isi.beyond > 0 ? `; ${whole(isi.beyond)} are longer` : ""}`, bars: isi.values, unit: "intervals", ends: ["0", milliseconds(isi)] },
    { name: "autocorrelogram", bars: acg.values, unit: "/s", ends: ["0", milliseconds(acg)] },
    { name: "rate", bars: rate.values, unit: "/s", ends: [clock(ends[0], 1), clock(ends[1], 1)] },
    ...(tuned ? [{
      name: `tuning to the true (${outputs[pair[0]]!.name}, ${outputs[pair[1]]!.name}), mean ± SE of ${[Math.min, Math.max].map(of => whole(of(...tuned.map(t => t.steps)))).join(" to ")} steps a sector`,
      bars: tuned.map(t => t.rate), errors: tuned.map(t => t.error), unit: "/s", ends: ["0°", `${360 - 360 / SECTORS}°`] as [string, string],
    }] : [])];
  return <Panel area="inspector" title={name} note={`${plural(spikes, "spike")} · ${clock(ends[0], 1)} to ${clock(ends[1], 1)}${full ? ", the whole recording" : ""} · bars of ${Number((isi.width * 1e3).toPrecision(4))} ms`} tools={<span class="tools">
    {file && <button class="link" aria-pressed={wide} onClick={() => setWide(!wide)}>whole recording</button>}
    {outputs.length > 2 && s.hasTruth && ([0, 1] as const).map(k => <label key={k}>{k === 0 ? "tuning →" : "↑"} <select value={String(pair[k])} onChange={e => { const to = Number(e.currentTarget.value); setChosen(k === 0 ? [to, pair[1]] : [pair[0], to]); }}>{outputs.map((o, i) => <option key={i} value={String(i)}>{o.name}</option>)}</select></label>)}
    {server?.control && <button class="act" onClick={() => { setWords("…"); void cost([...state.masked(), c]).then(setWords); }}>cost of masking it</button>}
    <button class="link" onClick={() => state.go({ view: "live" })}>its spikes</button><button class="link" onClick={() => state.go({ channel: null })}>close</button></span>}>
    {words && <p class="legend" role="status">{words}</p>}
    <div class="inspect">{plots.map(p => <Chart key={p.name} {...p} />)}{unit && unit.waveform.length > 1 && <figure><Plane class="bars" label={`Mean waveform of ${unit.name}, in microvolts`} draw={(g, w, h) => { void painted.value; drawCourse(g, w, h, unit.waveform, colours.y.css); }} /><figcaption>mean waveform, µV</figcaption></figure>}<WeightTable c={c} /></div>
  </Panel>;
}
