import "./app.css";
import { render } from "preact";
import { effect, signal } from "@preact/signals";
import type { Early } from "./link/early.ts";
import { Help, TopBar, TruthStrip, Waiting } from "./panels/Frame.tsx";
import { Live } from "./views/Live.tsx";
import * as keys from "./keys.ts";
import * as moments from "./moments.ts";
import * as state from "./state.ts";
import * as theme from "./theme.ts";

/** Views in a separate script, which is loaded when one of them is first opened. */
const more = signal<typeof import("./more.ts") | null>(null), missing = signal(false);
const HEAVY = ["channels", "episodes", "networks", "simulation", "map", "model", "trials"];
/** A session whose episodes are counted shows them on the first view, too. */
const counts = (): boolean => state.server.value?.mode === "live" && state.server.value.mined > 0;
effect(() => {
  if ((HEAVY.includes(state.address.value.view) || counts() || state.exportOpen.value || state.range.value || state.latencyOpen.value) && !more.peek()) void import("./more.ts").then(found => { more.value = found; }, () => { missing.value = true; });
});

function App() {
  const view = state.address.value.view, found = more.value, s = state.store.value;
  const lost = ["lost", "refused"].includes(state.connection.value) && s !== null, own = HEAVY.includes(view);
  return <>
    <a class="skip" href="#app" onClick={e => { e.preventDefault(); document.querySelector<HTMLElement>("main canvas")?.focus(); }}>Skip to the picture</a>
    <TopBar />
    <TruthStrip />
    <div class={lost ? "content lost" : "content"}>
      {!own && !s && <main><Waiting /></main>}
      {s && view === "live" && <Live histogram={found && <found.Histogram />}>{found && counts() && <found.Counted />}</Live>}
      {own && !found && <main class="later"><p class="large" role="status">{missing.value ? "This view's script could not be loaded: reload the page." : "Loading …"}</p></main>}
      {found && state.server.value && view === "networks" && <found.Networks />}
      {found && state.server.value && view === "episodes" && <found.Episodes />}
      {found && state.server.value && view === "simulation" && <found.Simulation />}
      {found && state.server.value && view === "map" && <found.SelfMap />}
      {found && view === "trials" && (s ? <found.Trials /> : <main><Waiting /></main>)}
      {found && view === "channels" && (s ? <found.Channels /> : <main><Waiting /></main>)}
      {found && view === "model" && (s ? <found.Model /> : <main><Waiting /></main>)}
    </div>
    <Help />
    {found && <found.Export />}
    {found && s && view === "live" && <found.Range />}
    <div class="sr" aria-live="polite">{state.spoken.value}</div>
  </>;
}

theme.begin();
keys.begin();
moments.begin();
Object.assign(globalThis, { betz: state.inspect });
// `begin.js` has asked for the data already.
void state.begin((globalThis as { early?: Early }).early);
void state.ready().then(() => render(<App />, document.getElementById("app")!));
