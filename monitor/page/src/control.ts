// What the page asks of a session, where it may ask anything. Each is asked for once more first.
import * as state from "./state.ts";

/** A mark at the newest step, with words of one's own. */
export function mark(): void {
  const text = prompt("Mark this moment as");
  if (text !== null) void control("mark", { text }, `Set the mark "${text}"?`);
}

export async function control(what: string, asked: object, question: string): Promise<void> {
  if (!confirm(question)) return;
  try {
    const answer = await fetch(`/api/control/${what}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(asked) });
    state.said.value = { what, good: answer.ok, words: answer.ok ? "asked for" : await answer.text() };
    state.spoken.value = `${what}: ${state.said.value.words}`;
    await state.refresh();
  } catch { state.said.value = { what, good: false, words: "the server does not answer" }; }
}

interface Expected { against: string; seconds: number; outputs: { name: string; now: number | null; masked: number | null }[] }

/** In words, what the last minute would have lost by a mask: the server runs it with the channels and without. */
export async function cost(channels: number[]): Promise<string> {
  try {
    const answer = await fetch("/api/expected", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ channels }) });
    if (!answer.ok) return `R² with the mask is not known: ${await answer.text()}`;
    const { against, seconds, outputs } = await answer.json() as Expected, r2 = (v: number | null) => v?.toFixed(3) ?? "–", truth = against === "truth";
    return `Of the last ${seconds.toFixed(0)} s, R² against ${truth ? "the truth" : "what all channels say"}: ${outputs.map(o => `${o.name} ${truth ? `${r2(o.now)} → ` : ""}${r2(o.masked)}`).join(", ")}.`;
  } catch { return "R² with the mask is not known: the server does not answer"; }
}
