// Windows of a recording, mined one after another and played: episodes with their counts beside the spikes.
import { useEffect, useState } from "preact/hooks";
import { Aligned } from "../panels/Aligned.tsx";
import { Plane } from "../panels/Canvas.tsx";
import { Electrodes } from "../panels/Electrodes.tsx";
import { origin, save } from "../panels/Export.tsx";
import { Panel, font } from "../panels/Panel.tsx";
import { Raster } from "../panels/Raster.tsx";
import { table } from "../draw/table.ts";
import { clock, plural, whole } from "../draw/format.ts";
import * as mined from "../mined/state.ts";
import * as windows from "../mined/windows.ts";
import { SPEEDS, countIn, delaysShown, keyOf, readDelays, speedShown, speedSpoken } from "../mined/played.ts";
import * as state from "../state.ts";
import { colours, painted } from "../theme.ts";

const signed = (n: number | null): string => n === null ? "" : n > 0 ? `+${n}` : n < 0 ? `−${-n}` : "0";

function Settings() {
  const now = windows.settings.value, [wrong, setWrong] = useState("");
  const put = (change: Parameters<typeof windows.set>[0] | null): void => setWrong(change && windows.set(change) ? "" : "Expected lengths above 0, counts of at least 1, episodes of 2 spikes or more, and delays such as 4–6 ms.");
  const number = (label: string, value: number, step: string, change: (v: number) => Parameters<typeof windows.set>[0], unit = "") => <label>{label} <input type="number" min={0} step={step} value={value} onChange={e => put(change(e.currentTarget.valueAsNumber))} />{unit}</label>;
  return <>
    <div class="row">{number("window", now.window, "any", v => ({ window: v }), " s")}{number("every", now.step, "any", v => ({ step: v }), " s")}
      <label>delays <input class="delays" value={delaysShown(now)} onChange={e => { const intervals = readDelays(e.currentTarget.value); put(intervals && { intervals }); }} /> ms</label></div>
    <div class="row">{number("count at least", now.least, "1", v => ({ least: v }))}{number("longest", now.longest, "1", v => ({ longest: v }), " spikes")}</div>
    {wrong && <p role="alert" class="bad">{wrong}</p>}
  </>;
}

function Player() {
  const k = windows.index.value, n = windows.count.value, now = windows.shown.value, playing = state.playing.value, speed = state.speed.value;
  const words = now ? `${clock(now.from, 1)} to ${clock(now.to, 1)}` : windows.failure.value ? "not mined" : "is mined …";
  return <>
    <div class="row stages"><button class="act" aria-pressed={playing} onClick={() => state.pause()} title="Space">{playing ? "stop" : "play"}</button>
      <button class="icon" aria-label="Window before" title="," disabled={k <= 0} onClick={() => windows.step(-1)}>◀</button>
      <input type="range" aria-label="Window" min={0} max={n - 1} value={k} disabled={n < 2} aria-valuetext={`${k + 1} of ${n}, ${words}`} onInput={e => windows.seek(e.currentTarget.valueAsNumber)} />
      <button class="icon" aria-label="Next window" title="." disabled={k >= n - 1} onClick={() => windows.step(1)}>▶</button></div>
    <div class="row stages"><label class="speed">speed <input type="range" aria-label="Speed" min={0} max={SPEEDS.length - 1} value={SPEEDS.indexOf(speed)} aria-valuetext={speedSpoken(speed)} onInput={e => windows.faster(e.currentTarget.valueAsNumber - SPEEDS.indexOf(state.speed.peek()))} /></label><output>{speedShown(speed)}</output></div>
    <p class="dim played">{whole(k + 1)} of {plural(n, "window")}: {words}</p>
  </>;
}

function List() {
  const all = windows.listed.value, now = windows.shown.value, picked = windows.pickedKey.value;
  return <div class="rows" tabIndex={0} role="region" aria-label="Episodes of the window"><table>
    <thead><tr><th scope="col">episode</th><th scope="col" title="Occurrences in the window that do not overlap">count</th><th scope="col" title="Change since the window before">change</th><th scope="col" title="Occurrences per minute">/min</th></tr></thead>
    <tbody>{all.map(e => <tr key={keyOf(e)} class={keyOf(e) === picked ? "on" : ""} onClick={() => windows.choose(e)}>
      <th scope="row"><button class="link" onClick={ev => { ev.stopPropagation(); windows.choose(e); }}>{e.name}</button></th><td>{whole(e.count)}</td><td>{signed(e.change)}</td><td>{e.rate.toFixed(1)}</td></tr>)}</tbody></table>
    {now && all.length < now.frequent && <p class="dim">the first {whole(all.length)} of {whole(now.frequent)}: raise the least count</p>}
    {now && all.length === 0 && <p class="dim">No episode of two or more spikes has this count among {plural(now.spikes, "spike")}.</p>}</div>;
}

/** Counts of the picked episode, or the number of episodes, by window. */
function Counts() {
  const draw = (g: CanvasRenderingContext2D, w: number, h: number): void => {
    void painted.value;
    const n = windows.count.value, key = windows.pickedKey.value, at = windows.index.value, low = h - 16;
    const values = windows.have().map(k => { const one = windows.keptAt(k)!; return [k, key === null ? one.frequent : countIn(one, key) ?? (k === at ? mined.occurrences.value?.total ?? null : null)] as const; });
    const most = Math.max(1, ...values.map(v => v[1] ?? 0)), unknown = values.some(v => v[1] === null), wide = (w - 12) / n, x = (k: number): number => 6 + k * wide;
    for (const [k, v] of values) {
      // A count that is not known is a mark of its own, and no count of 0.
      if (v === null) { g.fillStyle = colours.dim.css; g.fillRect(x(k), low - 2, Math.max(1, wide / 2), 2); continue; }
      const high = v / most * (low - 18);
      g.fillStyle = k === at ? colours.bad.css : colours.x.css;
      g.fillRect(x(k), low - high, Math.max(1, wide - (wide > 3 ? 1 : 0)), high);
    }
    g.fillStyle = colours.line.css; g.fillRect(6, low, w - 12, 1);
    g.fillStyle = colours.bad.css; g.fillRect(x(at), low, Math.max(2, wide), 3);
    g.fillStyle = colours.dim.css; g.font = font(10); g.textBaseline = "top"; g.textAlign = "left"; g.fillText(whole(most), 6, 1);
    if (unknown) { g.textAlign = "right"; g.fillText("grey: not among the episodes listed", w - 6, 1); }
    g.textBaseline = "bottom"; g.fillText("0:00", 6, h); g.textAlign = "right"; g.fillText(clock(windows.length.value), w - 6, h);
  };
  const go = (e: MouseEvent): void => { const box = (e.currentTarget as HTMLElement).getBoundingClientRect(); windows.seek(Math.floor((e.clientX - box.left - 6) / (box.width - 12) * windows.count.value)); };
  return <Plane class="aligned" draw={draw} onClick={go} label="Counts by window, as far as they are mined; a click goes to a window, as the slider does" />;
}

const takes: [string, () => void][] = [["list, CSV", () => {
  const now = windows.shown.value;
  if (!now) throw new Error("The window is not mined yet.");
  save(new Blob([table({ ...origin(), from: String(now.from), to: String(now.to), frequent: String(now.frequent) }, ["episode", "count", "change", "per_minute"], windows.listed.value.map(e => [e.name, e.count, e.change, e.rate]))], { type: "text/csv" }), "betz-window.csv");
}]];

export function Windows() {
  useEffect(() => {
    mined.begin();
    const end = windows.begin();
    state.offers.value = { words: "The episodes of the window that is shown; spikes and outputs of the view.", beside: true, take: takes };
    return () => { end(); mined.leave(); state.offers.value = null; };
  }, []);
  const picked = mined.picked.value, found = mined.occurrences.value, now = windows.shown.value, failure = windows.failure.value;
  if (!state.store.value) return <main><div class="waiting" role="status"><p class="large">Loading …</p></div></main>;
  const chain = new Map<number, number>();
  picked?.channels.forEach((c, k) => { if (!chain.has(c)) chain.set(c, k); });
  const size = Math.max(1, (picked?.channels.length ?? 1) - 1);
  return <main class="episodes">
    <Panel area="ep-list" title="Episodes by window" note={now ? plural(now.frequent, "episode") : "…"} tools={mined.files.value.length > 0 ? <span class="tools"><button class="link" onClick={mined.toLists}>mined lists</button></span> : undefined}>
      <Settings /><Player />
      {failure && <p role="alert" class="bad">{failure} <button class="link" onClick={windows.retry}>try again</button></p>}
      <List /></Panel>
    <Raster />
    <Panel area="ep-aligned" title="Occurrences" note={picked ? found ? `${plural(found.total, "occurrence")} in the window` : "…" : "pick an episode"}
      tools={<span class="tools"><button class="link" disabled={!found} onClick={() => mined.zoom()}>zoom to it</button></span>}>
      {picked && found ? <Aligned /> : <p class="dim">Pick an episode to see each of its occurrences in a row here, and as a line over the raster.</p>}</Panel>
    <Panel area="ep-delays" title={picked ? "Count by window" : "Episodes in each window"} note=""><Counts /></Panel>
    <Panel area="ep-chain" title="Chain" note={picked?.name ?? ""}>
      {picked && <Electrodes label="Order of the chain's channels" value={c => chain.has(c) ? chain.get(c)! / size : 0} states={c => chain.has(c) ? "active" : "silent"} low="first" high="last" path={picked.channels} />}</Panel>
  </main>;
}
