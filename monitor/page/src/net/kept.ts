// Sessions that outlive the server: requests that keep, name and delete them in its database.
import * as net from "./state.ts";

export type Change = "keep" | "name" | "delete" | "reset";

export async function change(what: Change, asked: { id?: number; name?: string }): Promise<void> {
  try {
    const answer = await fetch(`api/sessions/${what}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(asked) });
    if (!answer.ok) throw new Error(await answer.text());
    net.setOffered((await answer.json() as { networks: net.Offered[] }).networks);
    net.failure.value = null;
  } catch (e) { net.failure.value = `${what}: ${(e as Error).message}`; }
}
