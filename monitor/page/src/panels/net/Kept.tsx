// Buttons that keep, name and delete sessions, if the server has a database for them.
import * as net from "../../net/state.ts";
import { change } from "../../net/kept.ts";
import { plural } from "../../draw/format.ts";

/** Buttons of one session. */
export function KeptRow({ o }: { o: net.Offered }) {
  if (net.keeping.value !== "changes") return o.kept ? <span class="dim">kept</span> : null;
  const named = (what: "keep" | "name"): void => {
    const name = prompt("Name of the session", o.name)?.trim();
    if (name) void change(what, { id: o.id, name });
  };
  const remove = (): void => {
    if (confirm(o.kept ? `Delete ${o.name} from the database?` : `Take ${o.name} off the list?`)) void change("delete", { id: o.id });
  };
  return <>{o.kept ? <button class="link" aria-label={`Rename ${o.name}`} onClick={() => named("name")}>rename</button> : <button class="link" aria-label={`Keep ${o.name}`} onClick={() => named("keep")}>keep</button>}
    {!o.live && <button class="link" aria-label={`Delete ${o.name}`} onClick={remove}>delete</button>}</>;
}

/** Deletes all sessions of the database. */
export function Reset() {
  const kept = net.offered.value.filter(o => o.kept).length;
  if (net.keeping.value !== "changes" || kept === 0) return null;
  return <button class="link" onClick={() => { if (confirm(`Delete ${plural(kept, "session")} from the database?`)) void change("reset", {}); }}>reset: delete all that are kept</button>;
}
