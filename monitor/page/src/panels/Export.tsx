// The dialog that exports what is shown.
import { useEffect, useRef, useState } from "preact/hooks";
import * as out from "../draw/export.ts";
import { selection } from "../draw/npz.ts";
import * as state from "../state.ts";
import { snapshot, type Snapshot } from "../draw/snapshot.ts";
import type { Picture } from "../draw/raster.ts";
import { clock, duration, plural, whole } from "../draw/format.ts";
import { alarms } from "../link/alarms.ts";
import { incidents } from "../link/incidents.ts";
import { verdictWords } from "../link/session.ts";
import { percentile, type Store } from "../link/store.ts";
import { here, write } from "../url.ts";
import { OUTPUT_INKS, colours, inLight, outputInk } from "../theme.ts";
import { runningModel } from "./Frame.tsx";
import { longest } from "./Latency.tsx";
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

/** The numbers of a moment, its alarms and what happened in view. */
function moment(s: Store, p: Picture): Omit<Snapshot, "picture"> {
  const server = state.server.value!, own = state.store.value ?? s, live = server.mode === "live", deadline = server.source.deadline_ns, latency = own.recentLatency(), counters = own.counters, arrival = server.status?.arrival_to_output;
  const facts: [string, string][] = [["session", server.source.name], ["in view", `${clock(s.seconds_(p.end - p.window), 3)} to ${clock(s.seconds_(p.end), 3)}`], ["saved", when()], ["model", `${runningModel()}, checksum ${origin()["model"]}`]];
  const r2 = s.cell > 1 ? state.slowly.value : s.hasTruth ? s.accuracy(p.end - p.window, p.end) : null;
  server.source.outputs.forEach((o, k) => { if (r2 && !Number.isNaN(r2.r2[k] ?? NaN)) facts.push([o.name, `R² ${r2.r2[k]!.toFixed(3)}, error ${Number(r2.rms[k]!.toPrecision(3))} ${o.unit} in view`]); });
  if (live) facts.push(["masked", `${state.masked().size} of ${s.shape.channels} channels`],
    ["computing a step, last minute", `${[["p50", 0.5], ["p99", 0.99]].map(([n, share]) => `${n} ≤ ${duration(percentile(latency, share as number))}`).join(", ")}, max ${longest(own)}`],
    ...(arrival ? [["from arrival to output, whole session", `p50 ${duration(arrival.p50_us * 1e3)}, p99 ${duration(arrival.p99_us * 1e3)}, max ${duration(arrival.max_us * 1e3)}`] as [string, string]] : []),
    ["deadline", deadline === null ? "none" : duration(deadline)]);
  if (counters) facts.push(["since the session began", `${plural(counters.steps, "step")}, ${plural(counters.spikes, "spike")}, ${plural(counters.misses, "deadline")} missed, ${plural(counters.dropped, "spike")} dropped, ${whole(counters.late)} late, ${whole(counters.unknown)} of unknown channels, ${plural(counters.notShown, "step")} not shown`]);
  if (live && own.verdict) facts.push(["verdict, now", verdictWords(own.verdict, clock)]);
  facts.push(["betz", server.version]);
  return { facts, alarms: live ? alarms(own, deadline).map(a => a.words) : [], incidents: incidents(own).filter(i => i.tick >= p.end - p.window && i.tick < p.end).map(i => [clock(own.seconds_(i.tick), 3), i.words]) };
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
    const [p, inks] = inLight(() => [rasterPicture(s, rasterOrder(s)), { ink: colours.ink.css, dim: colours.dim.css, line: colours.line.css, paper: colours.panel.css, intended: colours.true.css, decoded: Array.from({ length: OUTPUT_INKS }, (_, k) => outputInk(k).css) } satisfies out.Inks] as const), name = `betz-${Math.round(s.seconds_(p.end) * 1000)}ms`;
    const facts: out.Facts = { source: server.source.name, checksum: server.running === "0000000000000000" ? server.model?.fingerprint ?? "none" : server.running, model: runningModel(), saved: when(), address: here(), version: server.version, channels: server.source.channel_names, outputs: server.source.outputs };
    const picture = (scale: number) => out.svg(s, p, facts, inks, () => out.rasterPng(s, p, scale));
    if (what === "npz") out.single(s);
    if (what === "html") save(new Blob([snapshot({ ...moment(s, p), picture: picture(2) }, facts, inks)], { type: "text/html" }), `${name}.html`);
    else if (what === "svg") save(new Blob([picture(2)], { type: "image/svg+xml" }), `${name}.svg`);
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
    <div class="choices">{offers?.take.map(([name, act]) => <button key={name} onClick={() => void Promise.resolve().then(act).then(() => setWords("Saved."), e => setWords(String((e as Error).message)))}>{name}</button>)}
      {(!offers || offers.beside) && <>{button("html", "snapshot, HTML")}{button("1", "PNG")}{button("2", "PNG × 2")}{button("4", "PNG × 4")}{button("svg", "SVG")}{button("spikes", "spikes, CSV")}{button("outputs", "outputs, CSV")}{button("npz", "recording, .npz")}</>}{button("link", "copy link")}{button("state", "state")}</div>
    <p role="status">{words}</p>
    <button onClick={() => { state.exportOpen.value = false; }}>close</button>
  </dialog>;
}
