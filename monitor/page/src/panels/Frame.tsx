// What is round every view: the bar at the top, the truth strip, the keys.
import { useEffect, useRef } from "preact/hooks";
import * as state from "../state.ts";
import * as theme from "../theme.ts";
import { nameMark, naming } from "../control.ts";
import { ACTIONS } from "../keys.ts";
import { VIEWS, type View } from "../url.ts";
import { clock, whole } from "../draw/format.ts";
import { alarms, arrow, margin, trend, type Alarm } from "../link/alarms.ts";
import { statusFacts, type Fact } from "../link/status.ts";
import { verdictWords, type Verdict } from "../link/session.ts";
import { incidents } from "../link/incidents.ts";
import { usePainter } from "./Panel.tsx";

const NAMES: Record<View, string> = { live: "Live", channels: "Channels", episodes: "Episodes", networks: "Networks", simulation: "Simulation", map: "Map", model: "Model", trials: "Trials" };

/** True if a view has something to show; the current view has its tab in any case. */
function filled(view: View): boolean {
  const server = state.server.value;
  if (!server || view === state.address.value.view || server.mode === "live" && ["live", "channels", "networks", "model"].includes(view)) return true;
  switch (view) {
    case "trials": return server.mode === "live" ? (state.store.value?.trials.length ?? 0) + (state.store.value?.events.filter(e => e["what"] === "mark").length ?? 0) > 0 : (state.file.value?.trials.length ?? 0) > 1 || state.file.value !== null && server.labels.length > 0;
    case "live": case "channels": return server.sources.length > 0;
    case "networks": return server.networks + server.sources.length > 0;
    case "episodes": return server.mined > 0 || server.mode === "file" && server.sources.length > 0;
    case "simulation": return server.simulation !== null;
    case "map": return server.maps > 0;
    case "model": return server.model !== null;
  }
}

function Clock() {
  const text = useRef<HTMLElement>(null);
  usePainter(s => { const words = clock(s.seconds_(state.viewEnd(s)), 1); if (text.current && text.current.textContent !== words) text.current.textContent = words; }, 20, state.writers);
  return <time class="clock" ref={text as never} aria-label="Session clock">–:––</time>;
}

/** The field for the name of a mark that is set already. */
function Naming() {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => box.current?.focus(), []);
  return <form class="naming" onSubmit={e => { e.preventDefault(); void nameMark(box.current?.value ?? ""); }}>
    <label>⚑ marked; name <input ref={box} maxLength={200} onKeyDown={e => { if (e.key === "Escape") { e.stopPropagation(); naming.value = null; } }} onBlur={e => void nameMark(e.currentTarget.value)} /></label></form>;
}

/** The name of the model that gives the estimates; its checksum where the page does not know it. */
export function runningModel(): string {
  const server = state.server.value;
  if (!server) return "–";
  const none = /^0*$/.test(server.running), running = none ? server.model?.fingerprint : server.running;
  const known = [...(server.models?.models ?? []), ...(server.model ? [server.model] : [])];
  return known.find(m => m.fingerprint === running)?.name ?? running?.slice(0, 8) ?? "–";
}

export function TopBar() {
  const pill = state.pill.value, source = state.server.value?.source;
  return <header class="top">
    <h1>Betz</h1>
    <nav aria-label="Views">{VIEWS.map((view, i) => filled(view) && <a key={view} href={`#v=${view}`} aria-keyshortcuts={String(i + 1)}
      aria-current={state.address.value.view === view ? "page" : undefined}
      onClick={event => { event.preventDefault(); state.go({ view }); }}>{view === "live" && state.server.value?.mode === "file" ? "Recording" : NAMES[view]}</a>)}</nav>
    {state.server.value && state.server.value.sources.length > 1
      ? <select class="source" aria-label="Recording" value={String(state.address.value.source)} onChange={e => state.choose(Number(e.currentTarget.value))}>
        {state.server.value.sources.map((name, i) => <option key={i} value={String(i)}>{name}</option>)}</select>
      : <span class="source" title={source?.name}>{source?.name ?? ""}</span>}
    {state.store.value && <Clock />}
    <button class={`pill ${pill.kind}`} onClick={() => state.pause()} title={state.file.value ? "Play or stop (Space)" : "Pause or resume (Space)"}>
      <span class="dot" aria-hidden="true" /><span role="status">{pill.words}</span></button>
    {naming.value !== null && <Naming key={naming.value} />}
    {!state.file.value && !state.live.value && state.connection.value === "open" && <button class="text" onClick={() => state.go({ at: null })}>back to live</button>}
    <button class="icon" onClick={() => { state.exportOpen.value = true; }} title="Export (E)" aria-label="Export what is shown">⤓</button>
    <button class="icon" onClick={theme.next} title="Theme (T)" aria-label={`Theme: ${theme.theme.value}`}>◐</button>
    <button class="icon" onClick={() => { state.helpOpen.value = true; }} title="Keys (?)" aria-label="Keys">?</button>
  </header>;
}

/** How a page whose connection is gone finds the session again. */
function lostAlarm(): Alarm[] {
  switch (state.connection.value) {
    case "lost": return [{ kind: "bad", words: "No answer: this page tries again by itself, and finds a session of betz run --keep. Any other that is started again prints its new address: open that." }];
    case "refused": return [{ kind: "bad", words: "The session was started again: open the address that it printed. With betz run --keep, it keeps its address." }];
    default: return [];
  }
}

/** What the page does not show, what came too late, what was lost: counted, and never left out. */
export function TruthStrip() {
  const now = state.slowly.value, s = state.store.value, counters = s?.counters, server = state.server.value;
  void state.beat.value;
  if (state.file.value) return <FileStrip />;
  if (server?.mode !== "live") return null;
  const off = state.masked(), swap = server.models?.state, deadline = server.source.deadline_ns, r2 = trend(s?.seconds ?? []), free = s ? margin(s, deadline) : NaN;
  const facts: Fact[] = state.live.value ? [] : [["paused", "these are of now", "", "The view stands still; the numbers of this band are those of the newest step"]];
  facts.push(["model", runningModel(), "", "The model that gives the estimates"]);
  if (swap && swap !== "Idle") facts.push(["swap", swap === "TakenOver" ? "new model runs; the old one stands by" : "new model warms up", "warn", "A swap of models is under way; the Model view has more"]);
  facts.push(["masked", whole(off.size), off.size > 0 ? "warn" : "", "Channels that are left out by a mask"]);
  if (!Number.isNaN(r2.now)) facts.push(["R²", `${r2.now.toFixed(2)} ${arrow(r2)}`, "", "Mean R² of the last 30 s, and its change since half a minute ago"]);
  if (deadline !== null) facts.push(["margin", Number.isNaN(free) ? "–" : `${Math.floor(free * 100)} %`, "", "Share of the deadline that 99 % of the last minute's steps leave free"]);
  if (server.status) facts.push(...statusFacts(server.status));
  facts.push(["step", counters ? whole(counters.steps) : "–", "", "Steps taken"],
    ["channels", s ? whole(s.shape.channels) : "–", "", "Channels of the model"],
    ["spikes/s", counters ? whole(now.spikesPerSecond) : "–", "", "Spikes taken in the last second"]);
  const faults: [string, number, string, "warn" | "bad"][] = [
    ["deadline missed", counters?.misses ?? 0, "Steps that took longer than the deadline", "bad"],
    ["dropped", counters?.dropped ?? 0, "Spikes lost before the session", "warn"],
    ["late", counters?.late ?? 0, "Spikes that came after their tick", "warn"],
    ["unknown", counters?.unknown ?? 0, "Spikes of channels that the model does not have", "warn"],
    ["not shown", counters?.notShown ?? 0, "Steps that never reached this page: the ring to it was full", "warn"],
    ["skipped", now.skipped, "Frames that this page was too slow for; refilled from the history where it still has them", "warn"]];
  // Events that never happened share one word, so that the others are seen.
  for (const [name, count, what, kind] of faults) if (count > 0) facts.push([name, whole(count), kind, what]);
  if (counters && faults.every(f => f[1] === 0)) facts.push(["losses", "0", "", `None so far: ${faults.map(f => f[0]).join(", ")}`]);
  if (s?.cut && s.keptSeconds < state.KEEP_SECONDS) facts.push(["keeping", `${Math.floor(s.keptSeconds)} of ${state.KEEP_SECONDS} s`, "warn", "More spikes than this page has room for: the oldest go sooner"]);
  const raised = state.connection.value !== "open" ? lostAlarm() : s && !server.ended ? alarms(s, deadline) : [];
  const verdict = s?.verdict ?? null;
  return <section class={server.status ? "strip session reports" : "strip session"} aria-label="Totals"><dl class="truth">
    {facts.map(([name, value, kind, what]) => <div key={name} class={kind || (value === "0" ? "zero" : "")} title={what}>
      <dt>{name}</dt><dd>{kind === "bad" ? "▲ " : kind === "warn" ? "! " : ""}{value}</dd></div>)}
    <div class="page zero" title="Frames per second of this page, and data per second from the session's program"><dt>page</dt><dd>{now.fps.toFixed(0)} fps · {now.kibPerSecond.toFixed(0)} KiB/s</dd></div>
    {state.running.value && <div class="wall zero" title="Clock of this browser's machine"><dt>wall time</dt><dd>{new Date().toLocaleTimeString("en-GB")}</dd></div>}
  </dl><p class="alarms">{!state.live.value && verdict && <b class="dim">{state.connection.value === "open" && !server.ended ? "now" : "at the end"}</b>}<VerdictWords of={verdict} /><span role="alert">{raised.map(a => <span key={a.words} class={a.kind} title={a.words}>{a.kind === "bad" ? "▲" : "!"} {a.words}</span>)}</span><IncidentBar /></p></section>;
}

/** The verdict on the decoder; what is wrong leads to the moment at which it began. Its line is there from the beginning, so that it moves nothing. */
function VerdictWords({ of }: { of: Verdict | null }) {
  const s = state.store.value;
  if (!of || !s) return <span class="verdict" role="status">No verdict yet</span>;
  const words = verdictWords(of, clock), wrong = of.level === "bad" || of.level === "watch", kind = of.level === "bad" ? "bad" : of.level === "watch" ? "warn" : of.level === "good" ? "good" : "";
  return <span class={`verdict ${kind}`} role="status" title={words}>{of.level === "bad" ? "▲ " : of.level === "watch" ? "! " : of.level === "good" ? "✓ " : ""}
    {wrong ? <button class="link" title="Half a second before and after it" onClick={() => state.showIncident({ tick: Math.round(of.since / s.shape.stepSeconds) - s.base, words })}>{words}</button> : words}</span>;
}

/** The incident that is shown, with the ways to others and into a file. It is in the line of alarms, so that it moves nothing. */
function IncidentBar() {
  const at = state.incident.value, s = state.store.value;
  if (!at || !s) return null;
  const all = incidents(s), k = all.findIndex(i => i.tick === at.tick);
  return <span class="incident"><b>{clock(s.seconds_(at.tick), 3)}</b> {at.words} <span class="dim">{k >= 0 && `${whole(k + 1)} of ${whole(all.length)}`}</span>
    <button class="link" title="P" onClick={() => state.jump(false)}>previous</button><button class="link" title="N" onClick={() => state.jump(true)}>next</button>
    <button class="link" title="E" onClick={() => { state.exportOpen.value = true; }}>export</button></span>;
}

/** Of a recording: what it holds. */
function FileStrip() {
  const file = state.file.value!, source = state.server.value!.source, all = file.steps * source.step_seconds;
  const left = file.left_out.reduce((sum, [a, b]) => sum + b - a, 0) * source.step_seconds, seconds = all - left;
  const total = file.seconds.reduce((a, b) => a + b, 0);
  const facts: [string, string][] = [["length", clock(all, 1)], ...(left > 0 ? [["left out", clock(left, 1)] as [string, string]] : []),
    // Spikes with times of their own, and no model: steps are of the page alone. One trial is none.
    ...(file.tick_seconds === null || source.outputs.length > 0 ? [["step", `${Number((source.step_seconds * 1e3).toPrecision(4))} ms`] as [string, string]] : []), ["channels", whole(source.channels)],
    ["spikes", whole(total)], ["spikes/s", whole(total / Math.max(1e-9, seconds))], ...(file.trials.length > 1 ? [["trials", whole(file.trials.length)] as [string, string]] : [])];
  return <section class="strip" aria-label="Totals"><dl class="truth">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl></section>;
}

export function Help() {
  const box = useRef<HTMLDialogElement>(null), open = state.helpOpen.value;
  useEffect(() => {
    // The heading is focused here: a browser complains of `autofocus` if another element has the focus while the page loads.
    if (open && !box.current?.open) { box.current?.showModal(); box.current?.querySelector("h2")?.focus(); }
    if (!open && box.current?.open) box.current.close();
  }, [open]);
  return <dialog ref={box} class="help" aria-labelledby="h-keys" onCancel={e => { e.preventDefault(); state.helpOpen.value = false; }}
    onClick={event => { if (event.target === box.current) state.helpOpen.value = false; }}>
    <h2 id="h-keys" tabIndex={-1}>Keys</h2>
    <dl class="keys">{ACTIONS.map(a => <div key={a.shown}><dt><kbd>{a.shown}</kbd></dt><dd>{a.words}</dd></div>)}</dl>
    <p>Wheel: zoom time at the pointer; with Shift, zoom channels. Drag: move in time; with Shift, select a range and see its numbers; with Alt, show only the part you drag over. Double click: back to now.</p>
    <label><input type="checkbox" checked={state.keysOff.value} onChange={e => { state.keysOff.value = e.currentTarget.checked; }} /> no shortcuts</label>
    <button onClick={() => { state.helpOpen.value = false; }}>close</button>
  </dialog>;
}

/** What there is to say before there is something to see. */
export function Waiting() {
  const connection = state.connection.value;
  if (state.store.value) return null;
  const lost = connection === "lost" || connection === "refused";
  if (connection === "open" && state.server.value?.mode === "file") return <div class="waiting" role="status"><p class="large">No recording is shown here.</p><p>To see spikes, give <code>betz serve</code> a recording, too.</p></div>;
  return <div class="waiting" role="status">
    <p class="large">{lost ? "The server does not answer." : connection === "open" ? "Waiting for steps." : "Connecting …"}</p>
    {connection === "open" && <p>The session has not sent a step yet. To see a demo: <code>betz monitor --demo</code>.</p>}
    {lost && <p>{connection === "refused" ? "The session was started again: open the address that it printed. With betz run --keep, it keeps its address." : "The page tries again by itself. It cannot know whether the session goes on. If it was started again, open the address that it printed."}</p>}
  </div>;
}
