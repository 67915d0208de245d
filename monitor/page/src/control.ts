// Requests of the page to a session, if control is allowed. Changes of model or mask ask for confirmation; marks do
// not.
import { signal } from "@preact/signals";
import * as state from "./state.ts";

/** Number of the mark that was set last and may get a name; null: none. */
export const naming = signal<number | null>(null);

/** Marks the newest step at once; a name can be given afterwards. */
export async function mark(): Promise<void> {
  const s = state.store.value;
  if (!s) return;
  // The tick at which the key was pressed, not at which the answer arrived.
  const done = await post("mark", { text: "", tick: s.end - 1 + s.base });
  if (done) naming.value = (done as { mark: number }).mark;
}

export async function nameMark(text: string): Promise<void> {
  const number = naming.value;
  naming.value = null;
  if (number !== null && text.trim() !== "") await post("name-mark", { mark: number, text: text.trim() });
}

export async function control(what: string, asked: object, question: string): Promise<void> {
  if (confirm(question)) await post(what, asked);
}

/** The server's answer; null if the server refuses or does not answer, and `said` then has the reason. */
async function post(what: string, asked: object): Promise<unknown> {
  try {
    const answer = await fetch(`api/control/${what}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(asked) });
    state.said.value = { what, good: answer.ok, words: answer.ok ? "done" : await answer.text() };
    state.spoken.value = `${what}: ${state.said.value.words}`;
    const done: unknown = answer.ok ? await answer.json() : null;
    await state.refresh();
    return done;
  } catch { state.said.value = { what, good: false, words: "the server does not answer" }; return null; }
}

interface Expected { against: string; seconds: number; outputs: { name: string; now: number | null; masked: number | null }[] }

/** Expected loss from a mask over the last minute, in words: the server decodes it with and without the channels. */
export async function cost(channels: number[]): Promise<string> {
  try {
    const answer = await fetch("api/expected", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ channels }) });
    if (!answer.ok) return `R² with the mask is not known: ${await answer.text()}`;
    const { against, seconds, outputs } = await answer.json() as Expected, r2 = (v: number | null) => v?.toFixed(3) ?? "–", truth = against === "truth";
    const change = (o: Expected["outputs"][number]): string => truth && o.now !== null && o.masked !== null ? ` (ΔR² ${o.masked - o.now < 0 ? "−" : "+"}${Math.abs(o.masked - o.now).toFixed(3)})` : "";
    return `Of the last ${seconds.toFixed(0)} s, R² against ${truth ? "the truth" : "the estimates of all channels"}: ${outputs.map(o => `${o.name} ${truth ? `${r2(o.now)} → ` : ""}${r2(o.masked)}${change(o)}`).join(", ")}.`;
  } catch { return "R² with the mask is not known: the server does not answer"; }
}
