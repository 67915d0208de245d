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
