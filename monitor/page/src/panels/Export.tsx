// The dialog that exports what is shown.
import { useEffect, useRef, useState } from "preact/hooks";
import * as out from "../draw/export.ts";
import { selection } from "../draw/npz.ts";
import * as state from "../state.ts";
import { snapshot, type Snapshot } from "../draw/snapshot.ts";
import type { Picture } from "../draw/raster.ts";
import { clock, plural, whole } from "../draw/format.ts";
import { alarms } from "../link/alarms.ts";
import { incidents } from "../link/incidents.ts";
import { passedFacts } from "../link/passed.ts";
import { readHistory, verdictWords } from "../link/session.ts";
import type { Store } from "../link/store.ts";
import { here, write } from "../url.ts";
import { OUTPUT_INKS, colours, inLight, outputInk } from "../theme.ts";
import { viewFigure } from "./Figure.ts";
import { runningModel } from "./Frame.tsx";
import { rasterOrder, rasterPicture } from "./Raster.tsx";

export function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** What a file says at its head: where it is from. */
export const origin = (): Record<string, string> => {
  const { source, model, running, version } = state.server.value!;
  return { source: source.name, model: running === "0000000000000000" ? model?.fingerprint ?? "none" : running, address: here(), betz: version };
};

/** Date, time and offset of this machine's clock. */
function when(): string {
  const now = new Date(), pad = (n: number) => String(n).padStart(2, "0"), zone = -now.getTimezoneOffset();
  return `${now.getFullYear()}-${pad(now.getMonth() + 1)}-${pad(now.getDate())} ${now.toLocaleTimeString("en-GB")} ${zone < 0 ? "-" : "+"}${pad(Math.floor(Math.abs(zone) / 60))}:${pad(Math.abs(zone) % 60)}`;
}

/** The numbers of a moment, its alarms and what happened in view. Those of a session are the server's of the seconds in view; what is not says that it
 *  is of now. */
async function moment(s: Store, p: Picture): Promise<Omit<Snapshot, "picture">> {
  const server = state.server.value!, own = state.store.value ?? s, live = server.mode === "live", deadline = server.source.deadline_ns, counters = own.counters, span: [number, number] = [s.seconds_(p.end - p.window), s.seconds_(p.end)];
  const facts: [string, string][] = [["session", server.source.name], ["in view", `${clock(s.seconds_(p.end - p.window), 3)} to ${clock(s.seconds_(p.end), 3)}`], ["saved", when()], [live ? "model, now" : "model", `${runningModel()}, checksum ${origin()["model"]}`]];
  const r2 = s.cell > 1 ? state.slowly.value : s.hasTruth ? s.accuracy(p.end - p.window, p.end) : null;
  server.source.outputs.forEach((o, k) => { if (r2 && !Number.isNaN(r2.r2[k] ?? NaN)) facts.push([o.name, `R² ${r2.r2[k]!.toFixed(3)}, error ${Number(r2.rms[k]!.toPrecision(3))} ${o.unit} in view`]); });
  if (live) {
    const history = await readHistory().catch(() => null), names = { channels: server.source.channel_names, outputs: server.source.outputs.map(o => o.name) };
    facts.push(...(history ? passedFacts(history, span, names, deadline) : [["history", "the server does not answer: its numbers of this time are not here"] as [string, string]]));
  }
  if (counters) facts.push([live ? "from the session's beginning to now" : "whole recording", `${plural(counters.steps, "step")}, ${plural(counters.spikes, "spike")}, ${plural(counters.misses, "deadline")} missed, ${plural(counters.dropped, "spike")} dropped, ${whole(counters.late)} late, ${whole(counters.unknown)} of unknown channels, ${plural(counters.notShown, "step")} not shown`]);
  if (live && own.verdict) facts.push(["verdict, now", verdictWords(own.verdict, clock)]);
  facts.push(["betz", server.version]);
  return { facts, alarms: live ? alarms(own, deadline).map(a => state.live.value ? a.words : `now: ${a.words}`) : [], incidents: incidents(own).filter(i => i.tick >= p.end - p.window && i.tick < p.end).map(i => [clock(own.seconds_(i.tick), 3), i.words]) };
}

export function Export() {
  const box = useRef<HTMLDialogElement>(null), open = state.exportOpen.value, [words, setWords] = useState("");
  // Only this closes it: a browser tells late of what it closed itself, when somebody may have opened it again.
  useEffect(() => {
    if (open && !box.current?.open) { setWords(""); box.current?.showModal(); }
    if (!open && box.current?.open) box.current.close();
  }, [open]);
  const take = async (what: string): Promise<void> => {
    const s = state.shown.value, server = state.server.value;
    if (what === "link") { await navigator.clipboard.writeText(here()); setWords("The link works while this program runs, for everyone who has its token."); return; }
    if (what === "state") {
      const kept = { betz_state: 1, address: write(state.address.value), files: server?.sources, ...Object.fromEntries([...state.keeps].map(([name, of]) => [name, of()])) };
      save(new Blob([`${JSON.stringify(kept)}\n`], { type: "application/json" }), "betz-state.json");
      setWords("Saved. To start from this view: betz serve FILES --state betz-state.json");
      return;
    }
    if (!s || !server) return;
    // Figures are for paper, in light colours.
    const [p, inks] = inLight(() => [rasterPicture(s, rasterOrder(s)), { ink: colours.ink.css, dim: colours.dim.css, line: colours.line.css, paper: colours.panel.css, intended: colours.true.css, goal: colours.good.css, decoded: Array.from({ length: OUTPUT_INKS }, (_, k) => outputInk(k).css) } satisfies out.Inks] as const), name = `betz-${Math.round(s.seconds_(p.end) * 1000)}ms`;
    const facts: out.Facts = { source: server.source.name, checksum: server.running === "0000000000000000" ? server.model?.fingerprint ?? "none" : server.running, model: runningModel(), saved: when(), address: here(), version: server.version, channels: server.source.channel_names, outputs: server.source.outputs };
    const plots = () => viewFigure(`${facts.source}: ${document.querySelector("nav a[aria-current]")?.textContent ?? ""}`, `${facts.saved} · ${facts.model} ${facts.checksum.slice(0, 8)} · ${facts.address} · betz ${facts.version}`), of = state.address.value.view;
    const picture = (scale: number) => out.svg(s, p, facts, inks, () => out.rasterPng(s, p, scale));
    if (what === "npz") out.single(s);
    if (what === "html") save(new Blob([snapshot({ ...await moment(s, p), picture: picture(2) }, facts, inks)], { type: "text/html" }), `${name}.html`);
    else if (what === "svg") save(new Blob([picture(2)], { type: "image/svg+xml" }), `${name}.svg`);
    else if (what === "plots") save(new Blob([plots()], { type: "image/svg+xml" }), `betz-${of}.svg`);
    else if (what === "plots 4") save(await out.png(plots(), 4), `betz-${of}.png`);
    else if (what === "spikes") save(new Blob([out.spikesCsv(s, p, facts)], { type: "text/csv" }), `${name}-spikes.csv`);
    else if (what === "outputs") save(new Blob([out.outputsCsv(s, p, facts)], { type: "text/csv" }), `${name}-outputs.csv`);
    else if (what === "npz") save(new Blob([selection(s, p, facts.channels, facts.outputs) as BlobPart], { type: "application/octet-stream" }), `${name}.npz`);
    else save(await out.png(picture(Number(what)), Number(what)), `${name}.png`);
    setWords("Saved.");
  };
  const offers = state.offers.value, anything = state.store.value !== null && state.server.value !== null;
  const button = (what: string, name: string) => <button disabled={what !== "link" && what !== "state" && !anything} onClick={() => void take(what).catch(e => setWords(String(e)))}>{name}</button>;
  return <dialog ref={box} class="export" aria-labelledby="h-export" onCancel={e => { e.preventDefault(); state.exportOpen.value = false; }} onClick={e => { if (e.target === box.current) state.exportOpen.value = false; }}>
    <h2 id="h-export">Export what is shown</h2>
    <p>{offers?.words ?? (anything ? "Spikes and outputs of the window, in its order and channels, drawn anew." : "There is no data yet.")}</p>
    <div class="choices">{button("html", "snapshot, HTML")}{offers?.take.map(([name, act]) => <button key={name} onClick={() => void Promise.resolve().then(act).then(() => setWords("Saved."), e => setWords(String((e as Error).message)))}>{name}</button>)}
      {(!offers || offers.beside) && <>{button("1", "PNG")}{button("2", "PNG × 2")}{button("4", "PNG × 4")}{button("svg", "SVG")}{button("spikes", "spikes, CSV")}{button("outputs", "outputs, CSV")}{button("npz", "recording, .npz")}</>}{button("plots", "plots, SVG")}{button("plots 4", "plots, PNG × 4")}{button("link", "copy link")}{button("state", "state")}</div>
    <p role="status">{words}</p>
    <button onClick={() => { state.exportOpen.value = false; }}>close</button>
  </dialog>;
}
