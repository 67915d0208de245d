// Channels: a map of electrodes, a table of what each does, and what masking some would take away.
import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { RULES, measure, neighbours, spanOf, type ChannelState, type Health, type Rules } from "../link/health.ts";
import { Electrodes } from "../panels/Electrodes.tsx";
import { origin, save } from "../panels/Export.tsx";
import { Inspector } from "../panels/Inspector.tsx";
import { Panel } from "../panels/Panel.tsx";
import { table } from "../draw/table.ts";
import { clock, whole } from "../draw/format.ts";
import * as state from "../state.ts";
import { control, cost } from "../control.ts";

const ROW = 25, SIGNS: Record<ChannelState, string> = { active: "", silent: "☐ silent", noisy: "⊠ noisy", twin: "≈ twin", masked: "╱ masked" };
export const rules = signal<Rules>(RULES);

/** What the mask that was asked about last would cost. */
const told = signal("");
/** Says what a mask would cost, then asks whether it is wanted. */
async function mask(channels: number[], question: string): Promise<void> {
  told.value = "working out what the mask would cost …";
  const words = told.value = state.spoken.value = await cost(channels);
  // The page says it, too, before the question stops it.
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  await control("mask", { channels }, `${question} ${words}`);
}

type Column = "channel" | "rate" | "fano" | "short" | "neighbour" | "share" | "state";
const HEADS: [Column, string, string][] = [
  ["channel", "channel", ""], ["rate", "rate /s", "Spikes per second"], ["fano", "Fano", "Variance over mean of the counts of 0.1 s"],
  ["short", "≤ 1 ms", "Share of intervals of at most one millisecond; – if times are coarser"], ["neighbour", "r", "Greatest correlation with a neighbour"], ["share", "weight", "Share of the readout: Σ|φ| of all"], ["state", "state", ""],
];

function Trend({ c }: { c: number }) {
  const rows = state.store.value?.trend ?? [];
  if (rows.length < 2) return null;
  const values = rows.map(r => r[c] ?? 0), top = Math.max(1, ...values);
  return <svg class="trend" viewBox="0 0 60 18" preserveAspectRatio="none" aria-hidden="true"><polyline points={values.map((v, i) => `${60 - values.length + i},${17 - v / top * 16}`).join(" ")} /></svg>;
}

export function Channels() {
  const s = state.store.value, source = state.server.value?.source, model = state.server.value?.model;
  const near = useMemo(() => source ? neighbours(source.electrode_um, source.channels) : [], [source]);
  const [asked, setAsked] = useState<Set<number> | null>(null), [sort, setSort] = useState<[Column, boolean]>(["channel", false]), [top, setTop] = useState(0), [only, setOnly] = useState("");
  const box = useRef<HTMLDivElement>(null);
  const turn = Math.floor(state.beat.value / 2), off = state.masked();
  // Of a recording the table describes what is on view; of a session the last half minute.
  const onView = s && state.file.value ? [state.viewEnd(s) - state.viewWindow(s), state.viewEnd(s)] as [number, number] : null, span = s ? spanOf(s, onView) : [0, 0] as [number, number];
  const health: Health | null = useMemo(() => s ? measure(s, near, off, rules.value, span) : null, [s, turn, near, rules.value, off.size, onView?.[0], onView?.[1]]);
  const names = source?.channel_names ?? [], share = model?.weight_share ?? [];
  const order = useMemo(() => {
    if (!health) return [];
    const key = (c: number): number | string => ({ channel: c, rate: health.rate[c]!, fano: health.fano[c]!, short: health.short[c]!, neighbour: health.neighbour[c]!, share: share[c] ?? 0, state: health.state[c]! })[sort[0]];
    const found = Array.from({ length: health.rate.length }, (_, c) => c).filter(c => only === "" || (names[c] ?? "").toLowerCase().includes(only.toLowerCase()) || health.state[c]!.startsWith(only.toLowerCase()));
    found.sort((a, b) => { const x = key(a), y = key(b); return (x < y ? -1 : x > y ? 1 : Number.isNaN(x) ? 1 : a - b) * (sort[1] ? -1 : 1); });
    return found;
  }, [health, sort, only]);
  // As it stands when it is asked for.
  const latest = useRef<() => string>(() => "");
  latest.current = () => health ? table(origin(), [...HEADS.map(h => h[0]), "x_um", "y_um"], order.map(c => [names[c] ?? c, health.rate[c], health.fano[c], health.short[c], health.neighbour[c], share[c], health.state[c], ...(source?.electrode_um?.[c] ?? [null, null])])) : "";
  useEffect(() => {
    state.offers.value = { words: "The table of channels in its order and with its filters; spikes and outputs of the window.", beside: true, take: [["channels, CSV", () => save(new Blob([latest.current()], { type: "text/csv" }), "betz-channels.csv")]] };
    return () => { state.offers.value = null; };
  }, []);
  // What is ticked as it is masked asks nothing, and is forgotten.
  const open = asked && (asked.size !== off.size || [...asked].some(c => !off.has(c))) ? asked : null;
  useEffect(() => { if (asked && !open) setAsked(null); }, [asked, open]);
  if (!s || !health || !source) return null;
  const count = (k: ChannelState) => health.state.filter(v => v === k).length;
  const controlled = state.server.value?.control ?? false, wanted = open ?? off, part = (of: Iterable<number>): string => { let sum = 0; for (const c of of) sum += share[c] ?? 0; return `${(sum * 100).toFixed(1)} %`; };
  const tick = (c: number): void => { const next = new Set(wanted); if (!next.delete(c)) next.add(c); setAsked(next); };
  const noisy = health.state.flatMap((v, c) => v === "noisy" ? [c] : []);
  const high = Math.max(1, health.median * 2.5), view = box.current?.clientHeight ?? 500, from = Math.max(0, Math.floor(top / ROW) - 4), to = Math.min(order.length, from + Math.ceil(view / ROW) + 10);
  const number = (v: number, digits: number) => Number.isNaN(v) ? "–" : v.toFixed(digits);
  const rule = (key: keyof Rules, words: string, step: number) => <label>{words} <input type="number" step={step} min={0} value={rules.value[key]} onChange={e => { const v = e.currentTarget.valueAsNumber; if (v >= 0) rules.value = { ...rules.value, [key]: v }; }} /></label>;
  const picked = state.address.value.channel;
  return <main class={picked !== null && picked < names.length ? "channels picked-one" : "channels"}>
    <Panel area="map" title="Electrodes" note={source.electrode_um ? "at their positions · colour: spikes per second" : "in a grid: positions are unknown · colour: spikes per second"}>
      <Electrodes label="Rates" value={c => health.rate[c]! / high} states={c => health.state[c]!} low="0 /s" high={`${high.toFixed(0)} /s and more`} />
      <p class="legend">median {health.median.toFixed(1)} /s · ☐ {count("silent")} silent · ⊠ {count("noisy")} noisy · ≈ {count("twin")} twins · ╱ {count("masked")} masked, over {health.seconds.toFixed(0)} s</p>
      <details><summary>Rules</summary><div class="rules">
        {rule("silentHz", "silent below, /s", 0.01)}{rule("noisyTimesMedian", "noisy above, × median", 1)}{rule("noisyHz", "and above, /s", 5)}{rule("noisyFano", "noisy above, Fano", 1)}{rule("twinR", "twin above, r", 0.01)}
      </div></details>
    </Panel>
    <Panel area="table" title="Channels" note={`${order.length < names.length ? `${whole(order.length)} of ${whole(names.length)}` : `all ${whole(names.length)}`} · ${clock(s.seconds_(health.from), 1)} to ${clock(s.seconds_(health.to), 1)}`}
      tools={<span class="tools"><input type="search" placeholder="find a channel or a state" aria-label="Find a channel or a state" value={only} onInput={e => setOnly(e.currentTarget.value)} />
        {controlled && open && open.size > 0 && <button class="act" onClick={() => void mask([...open], `Mask ${open.size} channels? That removes ${part(open)} of the readout's weights.`)}>mask {open.size} ticked · {part(open)}</button>}
        {controlled && !open && noisy.length > 0 && <button class="act" title={`removes ${part(noisy)} of the readout's weights`}
          onClick={() => void mask([...new Set([...off, ...noisy])], `Mask ${noisy.length} noisy channels? That removes ${part(noisy)} of the readout's weights.`)}>mask {noisy.length} noisy · {part(noisy)}</button>}
        {controlled && open && <button class="act" onClick={() => setAsked(null)}>undo</button>}
        {controlled && off.size > 0 && <button class="act" onClick={() => void control("mask", { channels: [] }, `Remove the mask of ${off.size} channels?`)}>no mask</button>}</span>}>
      {told.value && <p class="legend cost">{told.value}</p>}
      <div class="rows" ref={box} onScroll={e => setTop(e.currentTarget.scrollTop)} tabIndex={0} role="region" aria-label="Table of channels">
        <table aria-rowcount={order.length + 1}>
          <thead><tr>{HEADS.map(([key, words, what]) => <th key={key} scope="col" title={what} aria-sort={sort[0] === key ? (sort[1] ? "descending" : "ascending") : "none"}>
            <button onClick={() => setSort([key, sort[0] === key ? !sort[1] : key !== "channel"])}>{words}{sort[0] === key ? (sort[1] ? " ↓" : " ↑") : ""}</button></th>)}<th scope="col">minute</th>{controlled && <th scope="col">mask</th>}</tr></thead>
          <tbody>
            {from > 0 && <tr aria-hidden="true" style={{ height: `${from * ROW}px` }} />}
            {order.slice(from, to).map((c, i) => <tr key={c} aria-rowindex={from + i + 2} class={state.address.value.channel === c ? "on" : ""} onClick={() => state.go({ channel: c })}>
              <th scope="row"><button class="link" onClick={() => state.go({ channel: c })}>{names[c]}</button></th><td>{number(health.rate[c]!, 1)}</td><td>{number(health.fano[c]!, 2)}</td><td>{Number.isNaN(health.short[c]!) ? "–" : `${number(health.short[c]! * 100, 1)} %`}</td>
              <td>{number(health.neighbour[c]!, 2)}</td><td>{share[c] === undefined ? "–" : `${(share[c]! * 100).toFixed(2)} %`}</td><td class={health.state[c]}>{SIGNS[health.state[c]!]}</td><td><Trend c={c} /></td>{controlled && <td><input type="checkbox" aria-label={`Mask ${names[c]}`} checked={wanted.has(c)} onClick={e => e.stopPropagation()} onChange={() => tick(c)} /></td>}</tr>)}
            {to < order.length && <tr aria-hidden="true" style={{ height: `${(order.length - to) * ROW}px` }} />}
          </tbody>
        </table>
      </div>
    </Panel>
    {picked !== null && picked < names.length && <Inspector s={s} c={picked} span={span} />}
  </main>;
}
