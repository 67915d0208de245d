// Loads the data around a missed deadline if the view is older than the last minute.
import { effect } from "@preact/signals";
import { around } from "./link/moments.ts";
import * as state from "./state.ts";

export function begin(): void {
  let asked = "";
  effect(() => {
    const s = state.store.value, at = state.address.value.at;
    void state.beat.value;
    if (!s || at === null || state.file.value) { state.aside.value = null; asked = ""; return; }
    const end = state.viewEnd(s), middle = Math.round(end - state.viewWindow(s) / 2), held = state.aside.peek();
    if (end > s.first) { state.aside.value = null; asked = ""; return; }
    if (held && held.first < end && end - state.viewWindow(s) < held.end) return;
    // Ask once per place: data that are not stored do not arrive later.
    if (asked === `${middle}`) return;
    asked = `${middle}`;
    state.aside.value = null;
    void around(middle, s).then(found => { if (asked === `${middle}`) state.aside.value = found; }, () => {
      // The connection is lost; ask again when the view moves.
      if (asked === `${middle}`) asked = "";
    });
  });
}
