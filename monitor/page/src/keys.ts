// Every action has a key; every key is listed here, and the help shows this list.
import { mark } from "./control.ts";
import * as state from "./state.ts";
import * as theme from "./theme.ts";
import { ORDERS, VIEWS } from "./url.ts";

export interface Action { keys: string[]; shown: string; words: string; act: (event: KeyboardEvent) => void }

const channels = (step: number) => () => {
  const s = state.store.value;
  if (!s) return;
  const now = state.address.value.channel, last = s.shape.channels - 1;
  const next = Math.min(last, Math.max(0, now === null ? 0 : now + step));
  state.go({ channel: next });
  state.spoken.value = `channel ${state.server.value?.source.channel_names[next] ?? next}, ${s.rates[next]?.toFixed(1) ?? "–"} spikes per second`;
};

export const ACTIONS: Action[] = [
  { keys: VIEWS.map((_, i) => String(i + 1)), shown: "1 – 8", words: "views", act: e => state.go({ view: VIEWS[Number(e.key) - 1]! }) },
  { keys: [" "], shown: "Space", words: "pause, resume; a recording: play, stop", act: () => state.pause() },
  { keys: ["ArrowLeft"], shown: "←", words: "back by a tenth of the window; with Shift, by all of it", act: e => state.move(e.shiftKey ? -1 : -0.1) },
  { keys: ["ArrowRight"], shown: "→", words: "forward by a tenth of the window; with Shift, by all of it", act: e => state.move(e.shiftKey ? 1 : 0.1) },
  { keys: ["+", "="], shown: "+", words: "zoom in: show less time", act: () => state.zoom(0.5) },
  { keys: ["-"], shown: "−", words: "zoom out: show more time", act: () => state.zoom(2) },
  { keys: ["a", "A"], shown: "A", words: "show the whole recording", act: () => state.showAll() },
  { keys: ["g", "G"], shown: "G", words: "rates, Fano factors and R² of the view; again: close", act: () => { const s = state.shown.value; if (s) state.select(state.range.value ? null : state.viewSpan(s)); } },
  { keys: ["ArrowUp"], shown: "↑", words: "previous channel", act: channels(-1) },
  { keys: ["ArrowDown"], shown: "↓", words: "next channel", act: channels(1) },
  { keys: ["o", "O"], shown: "O", words: "order of channels: number, rate, electrode", act: () => state.go({ order: ORDERS[(ORDERS.indexOf(state.address.value.order) + 1) % ORDERS.length]! }) },
  { keys: ["n", "N"], shown: "N", words: "next incident (miss, loss, swap, mask, mark) or trial; episodes: occurrence", act: () => (state.acts.get("n") ?? (() => state.jump(true)))() },
  { keys: ["p", "P"], shown: "P", words: "previous incident, trial or occurrence", act: () => (state.acts.get("p") ?? (() => state.jump(false)))() },
  { keys: ["0"], shown: "0", words: "all channels, ten seconds, now", act: () => state.go({ channels: null, window: 10, at: state.file.value ? 10 : null, channel: null }) },
  { keys: ["[", "]"], shown: "[ ]", words: "networks: lower, raise the threshold by 0.01; windows of episodes: slower, faster", act: e => state.acts.get(e.key)?.() },
  { keys: ["S"], shown: "Shift S", words: "networks: show or hide a second session", act: () => state.acts.get("S")?.() },
  { keys: ["l", "L"], shown: "L", words: "go to the list of recordings, networks or maps", act: () => document.querySelector<HTMLElement>("main .sessions input,main .library,select.source")?.focus() },
  { keys: ["w", "s"], shown: "W S", words: "simulation: move the stimulus forward, back", act: e => state.acts.get(e.key)?.() },
  { keys: [",", "."], shown: ", .", words: "networks, episodes: previous, next window; map: stage of training", act: e => state.acts.get(e.key)?.() },
  { keys: ["r", "R"], shown: "R", words: "model: roll back, with --control", act: () => state.acts.get("r")?.() },
  { keys: ["m", "M"], shown: "M", words: "mark this moment, with --control; name it afterwards", act: () => { if (state.server.value?.control) void mark(); else state.spoken.value = "read-only: no marks"; } },
  { keys: ["f", "F"], shown: "F", words: "find a channel, an episode, a node", act: () => document.querySelector<HTMLElement>("main input[type=search]")?.focus() },
  { keys: ["e", "E"], shown: "E", words: "export what is shown: PNG, SVG, CSV, .npz, a link", act: () => { state.exportOpen.value = !state.exportOpen.value; } },
  { keys: ["t", "T"], shown: "T", words: "theme: system, light, dark, low light", act: () => { theme.next(); state.spoken.value = `theme: ${theme.theme.value}`; } },
  { keys: ["?"], shown: "?", words: "show or hide these keys", act: () => { state.helpOpen.value = !state.helpOpen.value; } },
  { keys: ["Escape"], shown: "Esc", words: "close; back to live", act: () => { if (state.helpOpen.value || state.exportOpen.value) state.helpOpen.value = state.exportOpen.value = false; else if (state.file.value) state.go({ channel: null }); else state.go({ channel: null, at: null }); } },
];

export function find(event: { key: string; ctrlKey: boolean; metaKey: boolean; altKey: boolean }): Action | undefined {
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  return ACTIONS.find(action => action.keys.includes(event.key));
}

export function begin(): void {
  addEventListener("keydown", event => {
    const on = event.target as HTMLElement;
    if (on.closest("input:not([type=checkbox]):not([type=range]),select,textarea,[contenteditable]")) return;
    const action = find(event);
    if (!action || (state.keysOff.value && event.key !== "Escape")) return;
    // A button that has the focus is pressed by the space bar; a link, such as a view's, is not.
    if (event.key === " " && on.closest("button,summary,input")) return;
    if (event.key.startsWith("Arrow") && on.closest("[role=tablist],input,table")) return;
    event.preventDefault();
    action.act(event);
  });
}
