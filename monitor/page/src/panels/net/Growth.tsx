// A network that grows: its counts, and another window or threshold while it does.
import { useState } from "preact/hooks";
import * as net from "../../net/state.ts";
import * as state from "../../state.ts";
import { plural, whole } from "../../draw/format.ts";

export function Growth() {
  const l = net.first.value, live = l?.info.live, [said, setSaid] = useState<Record<string, string>>({});
  if (!l || !live) return null;
  const unit = live.sample_seconds ?? 1, time = live.sample_seconds ? ", s" : ", samples", kind = (["density", "top", "threshold"] as const).find(k => live[k] !== undefined);
  const fields: [string, string, number][] = [["window", `window${time}`, l.info.window * unit], ["step", `step${time}`, l.info.step * unit]];
  if (kind) fields.push([kind, { density: "share of pairs", top: "strongest pairs", threshold: l.info.distance ? "largest distance" : "least size" }[kind], live[kind] ?? 0]);
  const change = (): void => {
    const asked: Record<string, number> = {};
    for (const [key, , now] of fields) {
      const number = Number(said[key] ?? now);
      if (said[key] !== undefined && number !== now) asked[key] = key === "window" || key === "step" ? Math.round(number / unit) : number;
    }
    setSaid({});
    if (Object.keys(asked).length > 0) void net.ask(l, asked);
  };
  return <div class="growth"><p>{live.ended ? "ended" : "live"}: {plural(live.total, "window")} of {plural(live.rows, "row")}, {whole(live.lost)} lost, {whole(live.skipped)} skipped
    {state.address.value.at !== null && <> <button class="link" onClick={() => state.go({ at: null })}>follow the newest</button></>}</p>
    {live.changes && <form class="row" onSubmit={e => { e.preventDefault(); change(); }}>
      {fields.map(([key, name, now]) => <label key={key}>{name} <input type="number" min={0} step="any" value={said[key] ?? Number(now.toPrecision(6))} onInput={e => setSaid({ ...said, [key]: e.currentTarget.value })} /></label>)}
      <button class="act">apply</button></form>}</div>;
}
