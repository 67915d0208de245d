// Mined episodes: a list that can be sorted, and of one of them every occurrence, over the raster and laid upon each other.
import { useEffect, useState } from "preact/hooks";
import { Electrodes } from "../panels/Electrodes.tsx";
import { origin, save } from "../panels/Export.tsx";
import { Panel } from "../panels/Panel.tsx";
import { Raster } from "../panels/Raster.tsx";
import { Aligned, Delays } from "../panels/Aligned.tsx";
import { table } from "../draw/table.ts";
import { plural, whole } from "../draw/format.ts";
import * as mined from "../mined/state.ts";
import { HEADS, MOST_LISTED, sorted, type Column } from "../mined/model.ts";
import { START, writeSettings } from "../mined/played.ts";
import * as state from "../state.ts";
import { Windows } from "./Windows.tsx";

const digits = (value: number | null, n: number): string => value === null ? "–" : value !== 0 && Math.abs(value) < 10 ** -n ? value.toExponential(1) : value.toFixed(n);

function List() {
  const all = mined.listed.value, [column, down] = mined.sort.value, picked = mined.picked.value;
  const [least, setLeast] = useState("");
  return <>
    <div class="row"><label>containing <input type="search" value={mined.only.value} placeholder="a channel" onInput={e => { mined.only.value = e.currentTarget.value; }} /></label>
      <label>count at least <input type="number" min={0} value={least} onInput={e => { setLeast(e.currentTarget.value); mined.leastCount.value = Number(e.currentTarget.value) || 0; }} /></label>
      <label>z at least <input type="number" step="0.5" value={mined.leastZ.value ?? ""} onInput={e => { const v = e.currentTarget.value; mined.leastZ.value = v === "" ? null : Number(v); }} /></label></div>
    <div class="rows" tabIndex={0} role="region" aria-label="List of episodes"><table>
      <thead><tr>{HEADS.map(([key, words, title]) => <th key={key} scope="col" aria-sort={column === key ? down ? "descending" : "ascending" : "none"}><button title={title} onClick={() => mined.sortBy(key as Column)}>{words}{column === key ? down ? " ▾" : " ▴" : ""}</button></th>)}</tr></thead>
      <tbody>{all.slice(0, MOST_LISTED).map(e => <tr key={e.index} class={picked?.index === e.index ? "on" : ""} onClick={() => mined.pick(e.index)}>
        <th scope="row"><button class="link" onClick={ev => { ev.stopPropagation(); mined.pick(e.index); }}>{e.name}</button></th>
        <td>{whole(e.count)}</td><td>{digits(e.rate, 2)}</td><td>{digits(e.expected, 1)}</td><td>{digits(e.z, 1)}</td><td>{digits(e.q, 4)}</td></tr>)}</tbody></table>
      {all.length > MOST_LISTED && <p class="dim">the first {whole(MOST_LISTED)} of {whole(all.length)}: filter the list, or sort it by another column</p>}
      {all.length === 0 && <p class="dim">No episode of {whole(mined.current.value?.episodes.length ?? 0)} passes the filter{mined.current.value && mined.current.value.episodes.length > 0 ? `: the most frequent has ${whole(Math.max(...mined.current.value.episodes.map(e => e.count)))}` : ""}.</p>}</div>
  </>;
}

const csv = (text: string, name: string): void => save(new Blob([text], { type: "text/csv" }), name);
/** The list as it is sorted and narrowed, and every occurrence of the one that is picked. */
const takes: [string, () => void][] = [
  ["list, CSV", () => csv(table({ ...origin(), episodes: mined.current.value?.name ?? "" }, ["episode", "count", "per_minute", "expected", "z", "p", "q"], mined.listed.value.map(e => [e.name, e.count, e.rate, e.expected, e.z, e.p, e.q])), "betz-episodes.csv")],
  ["occurrences, CSV", () => {
    const e = mined.picked.value, found = mined.occurrences.value;
    if (!e || !found) throw new Error("No episode is picked.");
    csv(table({ ...origin(), episodes: mined.current.value?.name ?? "", episode: e.name, occurrences: `${found.times.length} of ${found.total}` }, e.labels.map((l, k) => `${k + 1}: ${l}, s`), found.times.map(t => [...t])), "betz-occurrences.csv");
  }],
];

/** A list, or windows of the recording that are mined while they are played. */
export const Episodes = () => mined.played.value ? <Windows /> : <Lists />;

const toWindows = (): void => state.go({ window: START.window, more: { ...state.address.value.more, pw: writeSettings(START) } });

function Lists() {
  useEffect(() => {
    mined.begin();
    state.offers.value = { words: "The list in its order and with its filters; the occurrences of the picked episode; spikes and outputs of the window.", beside: true, take: takes };
    return () => { mined.leave(); state.offers.value = null; };
  }, []);
  const file = mined.current.value, picked = mined.picked.value, found = mined.occurrences.value, s = state.store.value;
  if (!file || !s) return <main><div class="waiting" role="status">
    <p class="large">There are no mined episodes here.</p>
    {mined.failure.value && <p role="alert" class="bad">{mined.failure.value}</p>}
    <p>Mine them with <code>betz mine RECORDING --csv EPISODES.csv</code> and show them with <code>betz serve RECORDING EPISODES.csv</code>. Or count them during a session with <code>betz monitor --episodes EPISODES.csv</code>.</p></div></main>;
  const chain = new Map<number, number>();
  picked?.channels.forEach((c, k) => { if (!chain.has(c)) chain.set(c, k); });
  const size = Math.max(1, (picked?.channels.length ?? 1) - 1);
  return <main class="episodes">
    <Panel area="ep-list" title="Episodes" note={`${whole(mined.listed.value.length)} of ${whole(file.episodes.length)} in ${file.name}${file.live ? ` · counted as they come${file.live.dropped + file.live.late > 0 ? `; ${plural(file.live.dropped + file.live.late, "spike")} not counted` : ""}${file.live.running ? "" : "; the miner has ended"}` : ""}`} tools={<span class="tools">{mined.files.value.length > 1 && <select class="library" aria-label="Mined episodes" value={String(mined.which.value)} onChange={e => mined.choose(Number(e.currentTarget.value))}>{mined.files.value.map((f, k) => <option key={k} value={String(k)}>{f}</option>)}</select>}{!file.live && <button class="link" onClick={toWindows} title="Mine the recording again, window after window, and play them">play windows</button>}</span>}><List /></Panel>
    <Raster />
    <Panel area="ep-aligned" title="Occurrences" note={picked ? found ? `${whole(found.times.length)} of ${whole(found.total)}${file.live ? " of the last minute" : ""}, from their first spikes on` : "…" : "pick an episode"}
      tools={<span class="tools"><button class="link" disabled={!found} onClick={() => mined.zoom()}>zoom to it</button><button class="icon" aria-label="Occurrence before" disabled={!found} onClick={() => mined.step(-1)}>◀</button><button class="icon" aria-label="Next occurrence" disabled={!found} onClick={() => mined.step(1)}>▶</button></span>}>
      {mined.failure.value && <p role="alert" class="bad">{mined.failure.value}</p>}
      {picked && found ? <Aligned /> : <p class="dim">Pick an episode to see each of its occurrences in a row here, and as a line over the raster.</p>}</Panel>
    <Panel area="ep-delays" title="Delays" note={picked ? "from each spike to the next" : ""}>{picked && picked.low.length === 0 ? <p class="dim">One spike alone has no delay.</p> : picked && found ? <Delays /> : null}</Panel>
    <Panel area="ep-chain" title="Chain" note={picked?.name ?? ""}>
      {picked && <Electrodes label="Order of the chain's channels" value={c => chain.has(c) ? chain.get(c)! / size : 0} states={c => chain.has(c) ? "active" : "silent"} low="first" high="last" path={picked.channels} />}</Panel>
  </main>;
}

/** Beside a session at work, those that come most. */
const MOST_BESIDE = 3;
export function Counted() {
  const open = (e: number): void => state.go({ view: "episodes", more: { ...state.address.value.more, ep: `0.${e}` } });
  useEffect(() => mined.watch(), []);
  const file = mined.current.value, all = file ? sorted(file.episodes, "count", true) : [];
  return <Panel area="counted" title="Episodes" note={file ? `${all.length > MOST_BESIDE ? `the ${MOST_BESIDE} most frequent of ${whole(all.length)}, counted` : "counted"} as they come` : "…"} tools={<span class="tools"><button class="link" onClick={() => state.go({ view: "episodes" })}>all of them</button></span>}>
    {mined.failure.value && <p role="alert" class="bad">{mined.failure.value}</p>}
    <table aria-label="Episodes"><tbody>{all.slice(0, MOST_BESIDE).map(e => <tr key={e.index} onClick={() => open(e.index)}><th scope="row"><button class="link" onClick={ev => { ev.stopPropagation(); open(e.index); }}>{e.name}</button></th><td>{whole(e.count)}</td><td>{digits(e.rate, 1)} /min</td></tr>)}</tbody></table></Panel>;
}
