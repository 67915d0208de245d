// Numbers of the selected range: rates, Fano factors and how well each output is decoded, from the server.
import { useEffect, useState } from "preact/hooks";
import { origin, save } from "./Export.tsx";
import { table } from "../draw/table.ts";
import { plural, timeLabel, whole } from "../draw/format.ts";
import * as state from "../state.ts";

interface Numbers {
  from: number; to: number; seconds: number; window_seconds: number; spikes: number[]; rate: (number | null)[]; fano: (number | null)[];
  outputs: { name: string; unit: string; steps: number; r2: number | null; rmse: number | null }[];
}
const MOST_LISTED = 200;
/** With as many digits as there are. */
const words = (t: number): string => timeLabel(t, 10 ** -(String(Number(t.toFixed(6))).split(".")[1]?.length ?? 0));
const short = (v: number | null | undefined, n = 2): string => v === null || v === undefined ? "–" : v.toFixed(n);

export function Range() {
  const part = state.range.value, source = state.address.value.source, [found, setFound] = useState<Numbers | null>(null), [wrong, setWrong] = useState("");
  useEffect(() => {
    setFound(null); setWrong("");
    if (!part) return;
    const gone = new AbortController();
    void fetch(`api/range?source=${source}&from=${part[0]}&to=${part[1]}`, { signal: gone.signal }).then(async answer => {
      if (!answer.ok) throw new Error(await answer.text());
      const numbers = await answer.json() as Numbers;
      setFound(numbers);
      state.spoken.value = `${plural(numbers.spikes.reduce((a, b) => a + b, 0), "spike")} in ${numbers.seconds.toFixed(3)} seconds`;
    }).catch(e => { if (!gone.signal.aborted) setWrong((e as Error).message); });
    return () => gone.abort();
  }, [part?.[0], part?.[1], source]);
  if (!part) return null;
  const names = state.server.value?.source.channel_names ?? [], total = found?.spikes.reduce((a, b) => a + b, 0) ?? 0, rows = found ? found.spikes.map((_, c) => c).sort((a, b) => (found.rate[b] ?? 0) - (found.rate[a] ?? 0) || a - b) : [];
  const take = (): void => { if (found) save(new Blob([table({ ...origin(), from: String(found.from), to: String(found.to), seconds: String(found.seconds), fano_window_seconds: String(found.window_seconds), ...Object.fromEntries(found.outputs.map(o => [`r2 ${o.name}`, String(o.r2)])) }, ["channel", "spikes", "rate", "fano"], found.spikes.map((n, c) => [names[c] ?? c, n, found.rate[c] ?? null, found.fano[c] ?? null]))], { type: "text/csv" }), "betz-range.csv"); };
  return <aside class="range panel" aria-labelledby="h-range">
    <header><h2 id="h-range">Selected range</h2><span class="note" />
      <button class="link" disabled={!found} onClick={take}>CSV</button><button class="link" onClick={() => state.go({ window: part[1] - part[0], at: part[1] })}>zoom to it</button><button class="icon" aria-label="Close the range" title="G" onClick={() => state.select(null)}>×</button></header>
    {wrong && <p role="alert" class="bad">{wrong}</p>}
    {found && <>
      <p class="sum">{words(part[0])} to {words(part[1])}: <b>{whole(total)}</b> spikes in <b>{Number(found.seconds.toPrecision(6))}</b> s, <b>{found.seconds > 0 ? Number((total / found.seconds).toPrecision(4)) : "–"}</b> spikes/s of all channels</p>
      {found.outputs.some(o => o.steps > 0) && <table aria-label="Accuracy in the range"><thead><tr><th scope="col">output</th><th scope="col">R²{state.server.value?.in_sample ? ", in-sample" : ""}</th><th scope="col">error</th><th scope="col">steps</th></tr></thead>
        <tbody>{found.outputs.map(o => <tr key={o.name}><th scope="row">{o.name}</th><td>{short(o.r2, 3)}</td><td>{o.rmse === null ? "–" : `${Number(o.rmse.toPrecision(3))} ${o.unit}`}</td><td>{whole(o.steps)}</td></tr>)}</tbody></table>}
      <div class="rows" tabIndex={0} role="region" aria-label="Channels in the range"><table><thead><tr><th scope="col">channel</th><th scope="col">spikes</th><th scope="col">rate, /s</th><th scope="col" title={`variance / mean of counts in windows of ${found.window_seconds} s inside trials`}>Fano</th></tr></thead>
        <tbody>{rows.slice(0, MOST_LISTED).map(c => <tr key={c} class={state.address.value.channel === c ? "on" : ""} onClick={() => state.go({ channel: c })}><th scope="row">{names[c] ?? c}</th><td>{whole(found.spikes[c]!)}</td><td>{short(found.rate[c])}</td><td>{short(found.fano[c])}</td></tr>)}</tbody></table>
        {rows.length > MOST_LISTED && <p class="dim">the {MOST_LISTED} fastest of {whole(rows.length)}; the CSV has all</p>}</div></>}
  </aside>;
}
