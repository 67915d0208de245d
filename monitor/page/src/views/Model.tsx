// The model in use, those that may take its place, and what was done.
import { useEffect } from "preact/hooks";
import { Electrodes } from "../panels/Electrodes.tsx";
import { Line } from "../panels/Line.tsx";
import { useWeights } from "../panels/Inspector.tsx";
import { Panel } from "../panels/Panel.tsx";
import { Confusion } from "./classes.tsx";
import type { Happened, Store } from "../link/store.ts";
import { diverging } from "../draw/colour.ts";
import { clock, plural, whole } from "../draw/format.ts";
import { control, mark } from "../control.ts";
import * as state from "../state.ts";

const STATES: Record<string, string> = { Idle: "one model runs", Pending: "requested: waiting for the session's next step", WarmingUp: "the new model runs beside the old one", TakenOver: "the new model gives the estimates; the old one stands by" };

function Card({ model, step, running }: { model: state.ModelCard; step: number; running: boolean }) {
  const facts: [string, string][] = [
    ["checksum", model.fingerprint], ["kind", `${model.kind}, ${plural(model.channels, "channel")}${model.masked > 0 ? `, ${whole(model.masked)} masked` : ""}, ${plural(model.latents, "latent")}`],
    ["filters", model.filters.map(f => `order ${f.order}, τ ${(f.tau_seconds * 1e3).toFixed(1)} ms`).join("; ")],
    ["delay", `${(model.delay_steps * step * 1e3).toFixed(1)} ms`], ["memory", `${(model.memory_steps * step).toFixed(2)} s (its warm-up)`],
    ["trained", model.trained.steps > 0 ? `on ${plural(model.trained.steps, "step")}, ${plural(model.trained.segments, "segment")}, ${plural(model.trained.spikes, "spike")}; ridge ${model.ridge === null ? "–" : Number(model.ridge.toPrecision(4))}, ${model.trained.solver}` : "unknown"],
  ];
  return <dl class="facts"><div><dt>name</dt><dd><b>{model.name}</b>{running && <span class="runs"> ● runs</span>}</dd></div>
    {facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
    {model.scores.length > 0 && <div><dt>scores</dt><dd>{model.scores.map(s => `${s.name}: R² ${s.r2?.toFixed(3) ?? "–"}, RMSE ${s.rmse?.toPrecision(3) ?? "–"} ${s.unit}`).join("; ")} (cross-validated, {model.trained.folds} folds)</dd></div>}
    {model.gate && <div><dt>gate</dt><dd>{model.gate.outputs.join(", ")} × ({model.gate.closed.toPrecision(3)} + {model.gate.slope.toPrecision(3)} · p({model.classes.names[model.gate.class]}))</dd></div>}
    {model.classes.confusion && <div><dt>held-out steps</dt><dd><Confusion names={model.classes.names} confusion={model.classes.confusion} /></dd></div>}
  </dl>;
}

/** Mean R² of the outputs over ticks of the last minute; a dash where there is no truth, or no row. */
function score(s: Store, from: number, to: number, values = s.estimate): string {
  const known = s.hasTruth ? s.r2(from, to, values).filter(v => !Number.isNaN(v)) : [];
  return known.length > 0 ? (known.reduce((a, b) => a + b, 0) / known.length).toFixed(2) : "–";
}
/** How long before and after a swap is judged by. */
const JUDGED_SECONDS = 10;

/** How much there has to be after a swap before it is judged. */
const JUDGED_FROM_SECONDS = 2;

const told = (e: Happened): string => `${String(e["what"])}${e["model"] ? ` to ${String(e["model"])}` : ""}${e["text"] ? `: ${String(e["text"])}` : ""}${Array.isArray(e["channels"]) ? `: ${(e["channels"] as unknown[]).length} channels` : ""}`;
/** What was asked for last before a model took over; else the checksum that the session says. */
function cause(s: Store | null, e: Happened): string {
  const asked = s?.events.slice(0, s.events.indexOf(e)).findLast(b => b.type === "control" && ["swap", "roll back", "mask"].includes(String(b["what"])));
  return `: ${asked ? told(asked) : String(e["model"])}`;
}
/** R² of the seconds before and after. */
function judged(s: Store | null, e: Happened, step: number): string {
  const ticks = Math.round(JUDGED_SECONDS / step), after = (s?.end ?? 0) - e.tick;
  if (!s?.hasTruth || e.tick - ticks / 2 < s.first) return "";
  return `, R² ${score(s, e.tick - ticks, e.tick)} before, ${after * step < JUDGED_FROM_SECONDS ? "…" : score(s, e.tick, Math.min(s.end, e.tick + ticks))} after`;
}

/** What both models make of the same spikes, as long as both run. */
function Both({ s, warming }: { s: Store; warming: boolean }) {
  void state.beat.value;
  const end = state.viewEnd(s), from = end - state.viewWindow(s), outputs = state.server.value?.source.outputs ?? [];
  return <Panel area="both" title="Old and new" note={<><span class="key solid" aria-hidden="true" />{warming ? "the old one, which gives the estimates" : "the new one, which gives the estimates"}, R² <b>{score(s, from, end)}</b> <span class="key dotted" aria-hidden="true" />{warming ? "the new one, warming up" : "the old one, standing by"}, R² <b class="besides">{score(s, from, end, s.beside)}</b> <span class="key dashed" aria-hidden="true" />true · of what is shown</>}>
    <div class="lines">{outputs.slice(0, 2).map((_, k) => <Line key={k} k={k} />)}</div></Panel>;
}

/** Where the readout's weights lie: of all filters and outputs together, or of one of each. */
function Weights({ model, outputs }: { model: state.ModelCard | null; outputs: state.Output[] }) {
  const said = /^(\d+)\.(\d+)$/.exec(state.address.value.more["wt"] ?? ""), filters = model?.filters.length ?? 0, latents = model?.latents ?? 0;
  const one = said && Number(said[1]) < latents && Number(said[2]) < filters ? { latent: Number(said[1]), filter: Number(said[2]) } : null;
  const id = model?.fingerprint ?? "", [all, wrong] = useWeights(id, one !== null);
  const say = (latent: string, filter: number): void => { const { wt: _, ...more } = state.address.value.more; state.go({ more: latent === "" ? more : { ...more, wt: `${latent}.${filter}` } }); };
  // Without a head the latents are the outputs.
  const named = (k: number): string => model?.kind === "linear" ? outputs[k]?.name ?? String(k) : `latent ${k + 1}`, of = (f: { tau_seconds: number; order: number }): string => `τ ${(f.tau_seconds * 1e3).toFixed(0)} ms, order ${f.order}`;
  const share = model?.weight_share ?? [], top = Math.max(1e-9, ...share), weight = (c: number): number => all && one ? all[(c * filters + one.filter) * latents + one.latent] ?? 0 : 0;
  let most = 1e-12;
  if (one) for (let c = 0; c < share.length; c++) most = Math.max(most, Math.abs(weight(c)));
  return <Panel area="weights" title="Weights" note={!model ? "" : one ? "φ: what a filtered spike adds" : "Σ|φ| of each channel, as a share of all"} tools={model && latents > 0 ? <span class="tools">
    <label>of <select value={one ? String(one.latent) : ""} onChange={e => say(e.currentTarget.value, one?.filter ?? 0)}><option value="">all</option>{Array.from({ length: Math.min(latents, 64) }, (_, k) => <option key={k} value={String(k)}>{named(k)}</option>)}</select></label>
    {one && <label>filter <select value={String(one.filter)} onChange={e => say(String(one.latent), Number(e.currentTarget.value))}>{model.filters.map((f, k) => <option key={k} value={String(k)}>{of(f)}</option>)}</select></label>}</span> : undefined}>
    {wrong && <p role="alert" class="bad">{wrong}</p>}
    {!model ? <p class="dim">There is no model here.</p> : one ? <Electrodes label={`Weights of ${named(one.latent)}, filter ${of(model.filters[one.filter]!)}`} ink={diverging} value={c => 0.5 + weight(c) / most / 2} states={() => "active"} low={all ? (-most).toPrecision(3) : "…"} high={all ? most.toPrecision(3) : "…"} />
      : <Electrodes label="Shares of the readout" value={c => (share[c] ?? 0) / top} states={() => "active"} low="0 %" high={`${(top * 100).toFixed(2)} %`} />}
  </Panel>;
}

export function Model() {
  const server = state.server.value, models = server?.models, s = state.store.value;
  const busy = models?.state === "Pending" || models?.state === "WarmingUp";
  useEffect(() => {
    // A recording's model never changes; a session's does with the steps: looked at more often while something is under way.
    if (state.file.value) return;
    const timer = setInterval(() => void state.refresh().catch(() => undefined), busy ? 250 : 2000);
    return () => clearInterval(timer);
  }, [busy, state.file.value]);
  const two = s?.hasBeside && models && models.state !== "Idle";
  useEffect(() => {
    if (!server?.control) return;
    state.acts.set("r", () => { if (state.server.peek()?.models?.state !== "Idle") void control("roll-back", {}, "Roll back to the previous model?"); });
    return () => { state.acts.delete("r"); };
  }, [server?.control]);
  if (!server) return null;
  const step = server.source.step_seconds, running = models?.models.find(m => m.fingerprint === models.running) ?? server.model;
  const said = state.said.value;
  const waits = server.status?.recalibration?.suggested || server.status?.learning?.proposed;
  const others = (models?.models ?? []).map((m, i) => [m, i] as const).filter(([m]) => m.fingerprint !== models?.running);
  const history = (s?.events ?? []).filter(e => e.type === "swap" || e.type === "control").slice(-12).reverse();
  const done = models && models.ticks > 0 && busy ? 1 - models.ticks_left / models.ticks : 0;
  return <main class={two ? "model two" : "model"}>
    <Panel area="card" title="Model in use" note={models ? STATES[models.state] ?? models.state : ""}>
      {running ? <Card model={running} step={step} running /> : <p class="dim">{state.file.value ? "This recording is shown without a model. To decode it: betz serve MODEL RECORDING." : "The session does not name its model."}</p>}
      {busy && <div class="warm"><progress max={1} value={done} aria-label="Warm-up" /> {models.state === "Pending" ? "pending" : `${(models.ticks_left * step).toFixed(2)} s of warm-up left`}</div>}
      {server.control && <p class="acts">
        <button class="act" disabled={models?.state === "Idle"} onClick={() => void control("roll-back", {}, "Roll back to the previous model?")}>roll back</button>
        <button class="act" disabled={models?.state !== "TakenOver"} onClick={() => void control("release", {}, "Release the old model? After that you cannot roll back.")}>release the old model</button>
        <button class="act" onClick={() => void mark()}>⚑ mark</button></p>}
      {server.decides && <p class="acts">
        <button class="act" disabled={!waits} onClick={() => void control("accept", {}, "Swap to the proposed model? It warms up beside the running model.")}>accept the proposed model</button>
        <button class="act" onClick={() => void control("roll-back", {}, "Roll back to the previous model?")}>roll back</button></p>}
      {said && <p role="status" class={said.good ? "good" : "bad"}>{said.what}: {said.words}</p>}
    </Panel>
    <Weights model={running ?? null} outputs={server.source.outputs} />
    {two && <Both s={s} warming={busy} />}
    <Panel area="others" title="Other models" note={server.control || server.decides || state.file.value ? "" : "read-only: start with --control to swap"}>
      {others.length === 0 && <p class="dim">{server.control ? "No other model was given." : state.file.value ? "Only a session can swap models." : server.decides ? "The session offers its own models: accept one, or roll back, under Model in use." : "This page is read-only."}</p>}
      <div class="cards" tabIndex={0} role="region" aria-label="Models">{others.map(([m, i]) => <article key={m.fingerprint}><Card model={m} step={step} running={false} />
        {server.control && <button class="act" disabled={busy} onClick={() => void control("swap", { model: i }, `Swap to ${m.name}? It warms up for ${(m.memory_steps * step).toFixed(2)} s beside the running model.`)}>swap to this</button>}</article>)}</div>
    </Panel>
    <Panel area="log" title="Log" note="swaps, masks and marks, newest first">
      {history.length === 0 ? <p class="dim">Nothing yet.</p> : <ol class="log">{history.map((e, i) => <li key={`${e.tick} ${i}`}><button class="link" onClick={() => { state.go({ view: "live" }); state.showAround(e.tick); }}>{s ? clock(s.seconds_(e.tick), 2) : ""}</button>
        {" "}{e.type === "swap" ? `◆ a model took over${cause(s, e)}${judged(s, e, step)}` : `⚑ ${told(e)}`}</li>)}</ol>}
    </Panel>
  </main>;
}
