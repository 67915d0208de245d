// Simulation: a network at work: its spikes, potentials and rates, what it is, and a stimulus that is moved.
import { useEffect, useRef, useState } from "preact/hooks";
import { plural, whole } from "../draw/format.ts";
import { firstChannels, intervalOf, intervals, rates } from "../draw/intervals.ts";
import { Waiting } from "../panels/Frame.tsx";
import { Outputs } from "../panels/Outputs.tsx";
import { Panel } from "../panels/Panel.tsx";
import { Raster } from "../panels/Raster.tsx";
import * as state from "../state.ts";

/** The window of the paper's raster, and the usual one, in seconds. */
const PAPER = 0.25, USUAL = 10, RATE_SECONDS = 1, INTERVAL_SECONDS = 10;

/** Asks without asking back: a stimulus is moved by hand, and the last word counts. */
async function ask(what: string, asked: object): Promise<void> {
  try {
    const answer = await fetch(`api/control/${what}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(asked) });
    state.said.value = answer.ok ? null : { what, good: false, words: await answer.text() };
  } catch { state.said.value = { what, good: false, words: "the server does not answer" }; }
}

/** How many seconds of the network a second on the wall is, over the last seconds. */
function useFactor(): number {
  const seen = useRef<[number, number][]>([]), s = state.store.value;
  void state.beat.value;
  if (!s) return NaN;
  const now = performance.now(), all = seen.current;
  if (all.length === 0 || now - all[all.length - 1]![0] > 200) all.push([now, s.end]);
  // Another network begins anew.
  if (all.length > 1 && s.end < all[all.length - 2]![1]) all.splice(0, all.length - 1);
  while (all.length > 20) all.shift();
  const [t, end] = all[0]!;
  return now - t > 500 ? (s.end - end) * s.shape.stepSeconds / ((now - t) / 1000) : NaN;
}

export function Simulation() {
  const told = state.server.value?.simulation, s = state.store.value, factor = useFactor();
  useEffect(() => {
    if (!told || state.address.peek().window !== USUAL) return;
    state.go({ window: PAPER });
    // Other views have their usual window again.
    return () => { if (state.address.peek().window === PAPER) state.go({ window: USUAL }); };
  }, [told !== null]);
  if (!told) return <main><div class="waiting" role="status"><p class="large">No network is simulated here.</p><p><code>betz monitor --simulate cuba</code> simulates one. With <code>--control</code> this view moves a stimulus and begins another network.</p></div></main>;
  if (!s) return <main><Waiting /></main>;
  const firsts = firstChannels(told.populations.map(p => p.neurons), told.every), hz = rates(s, firsts, RATE_SECONDS);
  const neurons = told.populations.reduce((sum, p) => sum + p.neurons, 0), steered = state.server.value?.steered ?? false;
  const currents = told.populations.some(p => p.takes_current), units = state.server.value!.source.outputs.map(o => o.unit), conductances = units.includes("nS");
  return <main class={currents ? "simulation" : "simulation bare"}>
    <Raster />
    {s.shape.outputs > 0 && <Outputs title={conductances ? "Potentials and conductances" : units.every(u => u === "mV") ? "Membrane potentials" : "Decoded"} />}
    <Panel area="network" title="Network" note={`${plural(neurons, "neuron")}${told.every > 1 ? `, every ${told.every}th shown` : ""} · ${told.synapses > 0 ? whole(told.synapses) : "no"} synapses · seed ${told.seed} · ${Number.isNaN(factor) ? "–" : factor.toFixed(2)} × real time`}
      tools={<span class="tools"><button onClick={() => state.go({ window: PAPER, at: null })} aria-pressed={state.address.value.window === PAPER}>250 ms</button>{steered && <Pause />}</span>}>
      <div class="rows" tabIndex={0} role="region" aria-label="Populations"><table>
        <thead><tr><th scope="col">population</th><th scope="col">neurons</th><th scope="col" title="Spikes per second and neuron, over the last second">rate /s</th><th scope="col" title={`Intervals between a neuron's spikes, of the last ${INTERVAL_SECONDS} s, from 1 ms to 1 s`}>intervals</th>{told.synapses > 0 && <th scope="col" title="Mean number of synapses onto and from a neuron">in, out</th>}<th scope="col" class="what">parameters</th></tr></thead>
        <tbody>{told.populations.map((p, i) => <tr key={p.name}><th scope="row">{p.name}</th><td>{whole(p.neurons)}</td><td>{Number.isNaN(hz[i]) ? "–" : hz[i]!.toFixed(1)}</td>
          <td><Intervals from={firsts[i]!} to={firsts[i + 1]!} name={p.name} /></td>{told.synapses > 0 && <td>{few(p.degrees[0])}, {few(p.degrees[1])}</td>}<td class="what">{p.parameters.map(([name, value]) => `${name} ${value}`).join(" · ")}</td></tr>)}</tbody>
      </table>{told.weights.length > 0 && <Weights />}</div>
      {steered && told.replaceable && <Another key={told.name} />}
    </Panel>
    {currents && <Panel area="stimulus" title="Stimulus" note={steered ? "a current into some neurons, in place of the last one" : "start with --control to inject a current"}>
      {steered && <Stimulus />}
    </Panel>}
  </main>;
}

/** Networks that are built from numbers, and those of the literature, which are kept to a scale. */
const SIZED: Record<string, string> = { ring: "100", full: "100", random: "1000,10000" }, MODELS = ["cuba", "brunel", "pd14"];
const few = (v: number): string => v < 10 ? String(Math.round(v * 10) / 10) : whole(Math.round(v));

/** Another network in place of this one: what `betz simulate` has options for. */
function Another() {
  const told = state.server.value!.simulation!, [was, ...size] = told.name.split(":");
  const own = was! in SIZED || MODELS.includes(was!) ? [] : [told.name];
  const [kind, setKind] = useState(was!), [sizes, setSizes] = useState(size.join(":") || SIZED[was!] || ""), [scale, setScale] = useState(told.scale), [seed, setSeed] = useState(told.seed);
  const name = kind in SIZED ? `${kind}:${sizes.replace(/\s/g, "")}` : kind, said = state.said.value;
  // The server answers at once, the simulation later: whether it could be built comes as an event.
  const last = state.store.value?.events.findLast(e => e.type === "refused" || e.type === "control" && e["what"] === "network");
  const words = said && !said.good && said.what === "network" ? said.words : last?.type === "refused" ? String(last["words"]) : last ? "building …" : "";
  return <form class="rules" onSubmit={e => { e.preventDefault(); void ask("network", { name, scale, seed }); }}>
    <label>network <select value={kind} onChange={e => { setKind(e.currentTarget.value); setSizes(SIZED[e.currentTarget.value] ?? ""); }}>{[...own, ...MODELS, ...Object.keys(SIZED)].map(k => <option key={k}>{k}</option>)}</select></label>
    {kind in SIZED ? <label>{kind === "random" ? "neurons, synapses" : "neurons"} <input value={sizes} required pattern={kind === "random" ? " *[0-9]+ *, *[0-9]+ *" : " *[0-9]+ *"} onInput={e => setSizes(e.currentTarget.value)} /></label>
      : <label>share of its neurons <input type="number" min={0.01} max={1} step={0.01} value={scale} onChange={e => { const v = e.currentTarget.valueAsNumber; if (v > 0 && v <= 1) setScale(v); }} /></label>}
    <label>seed <input type="number" min={0} step={1} value={seed} onChange={e => { const v = e.currentTarget.valueAsNumber; if (v >= 0) setSeed(Math.round(v)); }} /></label>
    <button>simulate</button>
    {words && <p class="legend" role="status">{words}</p>}
  </form>;
}

function Pause() {
  // The server's word, since another page may have said it: every event is followed by a look at the state.
  const paused = state.server.value?.simulation?.paused ?? false;
  return <button aria-pressed={paused} onClick={() => void ask("pause", { paused: !paused }).then(() => state.refresh()).catch(() => undefined)}>{paused ? "resume" : "pause"}</button>;
}

function Intervals({ from, to, name }: { from: number; to: number; name: string }) {
  const s = state.store.value;
  if (!s || to <= from) return null;
  const bins = intervals(s, from, to, INTERVAL_SECONDS), top = Math.max(1, ...bins), sum = bins.reduce((a, b) => a + b, 0);
  const most = bins.indexOf(Math.max(...bins));
  return <Bars bins={bins} top={top} label={sum === 0 ? `${name}: no intervals` : `${name}: ${plural(sum, "interval")}, most of up to ${intervalOf(most).toFixed(0)} ms`} />;
}

function Bars({ bins, top, label }: { bins: ArrayLike<number>; top: number; label: string }) {
  return <svg class="intervals" viewBox={`0 0 ${bins.length * 4} 18`} preserveAspectRatio="none" role="img" aria-label={label}>
    {Array.from(bins, (n, i) => n > 0 && <rect key={i} x={i * 4} width={3} y={18 - 17 * n / top} height={17 * n / top} fill="currentColor" />)}</svg>;
}

/** Weights of synapses that learn, as they change. */
function Weights() {
  useEffect(() => {
    const timer = setInterval(() => void state.refresh().catch(() => undefined), 1000);
    return () => clearInterval(timer);
  }, []);
  return <table><thead><tr><th scope="col">learning</th><th scope="col">synapses</th><th scope="col">from</th><th scope="col">weights</th><th scope="col">to</th></tr></thead>
    <tbody>{state.server.value!.simulation!.weights.map(({ name, low, high, bins }, i) => <tr key={i}><th scope="row">{name}</th><td>{whole(bins.reduce((a, b) => a + b, 0))}</td><td>{few(low)}</td>
      <td><Bars bins={bins} top={Math.max(1, ...bins)} label={`${name}: weights from ${low} to ${high}`} /></td><td>{few(high)}</td></tr>)}</tbody></table>;
}

function Stimulus() {
  const told = state.server.value!.simulation!, usable = told.populations.flatMap((p, i) => p.takes_current ? [i] : []);
  const [population, setPopulation] = useState(usable[0] ?? 0), neurons = told.populations[population]?.neurons ?? 0;
  const [first, setFirst] = useState(0), [count, setCount] = useState(1), [current, setCurrent] = useState(0), [on, setOn] = useState(false);
  const wanted = useRef<object | null>(null), busy = useRef(false);
  // One question at a time, always the latest.
  const tell = async (now: object) => {
    wanted.current = now;
    if (busy.current) return;
    busy.current = true;
    while (wanted.current) { const next = wanted.current; wanted.current = null; await ask("stimulus", next); }
    busy.current = false;
  };
  const say = (change: Partial<{ first: number; count: number; current: number; on: boolean }>) => {
    const now = { first, count, current, on, ...change };
    now.count = Math.max(1, Math.min(now.count, neurons));
    now.first = Math.max(0, Math.min(now.first, neurons - now.count));
    setFirst(now.first); setCount(now.count); setCurrent(now.current); setOn(now.on);
    if (now.on || on) void tell({ population, first: now.first, count: now.count, current_pa: now.on ? now.current : 0 });
  };
  const move = (by: number) => say({ first: first + by });
  useEffect(() => {
    // As in the paper, two keys move the stimulus.
    state.acts.set("w", () => move(Math.max(1, count)));
    state.acts.set("s", () => move(-Math.max(1, count)));
    return () => { state.acts.delete("w"); state.acts.delete("s"); };
  });
  return <div class="rules">
    <label>population <select value={population} onChange={e => { if (on) void ask("stimulus", { population, first: 0, count: 0, current_pa: 0 }); setOn(false); setFirst(0); setPopulation(Number(e.currentTarget.value)); }}>{usable.map(i => <option key={i} value={i}>{told.populations[i]!.name}</option>)}</select></label>
    <label>first neuron <input type="range" min={0} max={Math.max(0, neurons - count)} value={first} onInput={e => say({ first: e.currentTarget.valueAsNumber })} /> <output>{whole(first)}</output></label>
    <label>neurons <input type="number" min={1} max={neurons} value={count} onChange={e => { const v = e.currentTarget.valueAsNumber; if (v >= 1) say({ count: Math.round(v) }); }} /></label>
    <label>current, pA <input type="number" step={10} value={current} onChange={e => { const v = e.currentTarget.valueAsNumber; if (Number.isFinite(v)) say({ current: v }); }} /></label>
    <button aria-pressed={on} onClick={() => say({ on: !on })}>{on ? "stop it" : "inject it"}</button>
    <p class="legend">w and s move it.{state.said.value && !state.said.value.good ? ` ${state.said.value.words}` : ""}</p>
  </div>;
}
