// Properties of the picked channel: intervals, autocorrelogram, rate, tuning and weights.
import { useEffect, useState } from "preact/hooks";
import { SECTORS, autocorrelogram, intervals, rates, timesOf, tuning, type Bars } from "../link/inspect.ts";
import type { Store } from "../link/store.ts";
import { More, floats } from "../link/frame.ts";
import { frames } from "../link/frames.ts";
import { drawCourse } from "../draw/course.ts";
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

interface Plot { name: string; bars: ArrayLike<number>; unit: string; ends: [string, string] }
const milliseconds = (b: Bars): string => `${Number((b.width * b.values.length * 1e3).toPrecision(4))} ms`;

function Chart({ name, bars, unit, ends }: Plot) {
  const top = Array.from(bars).reduce((a, b) => b > a ? b : a, 0), most = `most ${Number(top.toPrecision(3))} ${unit}`;
  return <figure><Plane class="bars" label={`${name}, from ${ends[0]} to ${ends[1]}: ${most}`} draw={(g, w, h) => {
    void painted.value;
    const high = h - 14, wide = w / bars.length;
    g.fillStyle = colours.x.css;
    for (let i = 0; i < bars.length; i++) if (bars[i]! > 0) { const tall = bars[i]! / top * (high - 12); g.fillRect(i * wide, high - tall, Math.max(0.6, wide - 0.6), tall); }
    g.fillStyle = colours.line.css; g.fillRect(0, high, w, 1);
    g.fillStyle = colours.dim.css; g.font = font(10); g.textBaseline = "top"; g.textAlign = "left"; g.fillText(most, 0, 0); g.fillText(ends[0], 0, high + 3);
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

export function Inspector({ s, c, span }: { s: Store; c: number; span: [number, number] }) {
  const [words, setWords] = useState(""), server = state.server.value, name = server?.source.channel_names[c] ?? String(c), unit = useUnit(name);
  useEffect(() => setWords(""), [c]);
  const times = timesOf(s, c, span), isi = intervals(s, times), acg = autocorrelogram(s, times), rate = rates(s, times, span), tuned = tuning(s, times, span);
  const plots: Plot[] = [
    { name: `intervals${isi.beyond > 0 ? `; ${whole(isi.beyond)} are longer` : ""}`, bars: isi.values, unit: "intervals", ends: ["0", milliseconds(isi)] },
    { name: "autocorrelogram", bars: acg.values, unit: "/s", ends: ["0", milliseconds(acg)] },
    { name: "rate", bars: rate.values, unit: "/s", ends: [clock(s.seconds_(span[0]), 1), clock(s.seconds_(span[1]), 1)] },
    ...(tuned ? [{ name: `tuning to the true (${server!.source.outputs[0]!.name}, ${server!.source.outputs[1]!.name})`, bars: tuned, unit: "/s", ends: ["0°", `${360 - 360 / SECTORS}°`] as [string, string] }] : [])];
  return <Panel area="inspector" title={name} note={`${plural(times.length, "spike")} · ${clock(s.seconds_(span[0]), 1)} to ${clock(s.seconds_(span[1]), 1)} · bars of ${Number((isi.width * 1e3).toPrecision(4))} ms`} tools={<span class="tools">
    {server?.control && <button class="act" onClick={() => { setWords("…"); void cost([...state.masked(), c]).then(setWords); }}>cost of masking it</button>}
    <button class="link" onClick={() => state.go({ view: "live" })}>its spikes</button><button class="link" onClick={() => state.go({ channel: null })}>close</button></span>}>
    {words && <p class="legend" role="status">{words}</p>}
    <div class="inspect">{plots.map(p => <Chart key={p.name} {...p} />)}{unit && unit.waveform.length > 1 && <figure><Plane class="bars" label={`Mean waveform of ${unit.name}, in microvolts`} draw={(g, w, h) => { void painted.value; drawCourse(g, w, h, unit.waveform, colours.y.css); }} /><figcaption>mean waveform, µV</figcaption></figure>}<WeightTable c={c} /></div>
  </Panel>;
}
