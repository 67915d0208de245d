import "uplot/dist/uPlot.min.css";
import "./app.css";
import { render } from "preact";
import { Export } from "./panels/Export.tsx";
import { Help, TopBar, TruthStrip, Waiting } from "./panels/Frame.tsx";
import { Channels } from "./views/Channels.tsx";
import { Live } from "./views/Live.tsx";
import { Model } from "./views/Model.tsx";
import * as keys from "./keys.ts";
import * as state from "./state.ts";
import * as theme from "./theme.ts";

/** Views that come with their own issues keep their place. */
const LATER: Partial<Record<string, string>> = {
  episodes: "Episodes are mined with betz mine; their view is not here yet.",
  networks: "Networks are computed with betz network compute; their view is not here yet.",
  simulation: "Populations are simulated with betz simulate; their view is not here yet.",
  map: "Self-organising maps are not here yet.",
};

function App() {
  const view = state.address.value.view, later = LATER[view];
  const lost = state.connection.value === "lost" && state.store.value !== null;
  return <>
    <a class="skip" href="#app" onClick={e => { e.preventDefault(); document.querySelector<HTMLElement>("main canvas")?.focus(); }}>Skip to the picture</a>
    <TopBar />
    <TruthStrip />
    <div class={lost ? "content lost" : "content"}>
      {!later && !state.store.value && <main><Waiting /></main>}
      {state.store.value && view === "live" && <Live />}
      {state.store.value && view === "channels" && <Channels />}
      {state.store.value && view === "model" && <Model />}
      {later && <main class="later"><p class="large">{later}</p></main>}
    </div>
    <Help />
    <Export />
    <div class="sr" aria-live="polite">{state.spoken.value}</div>
  </>;
}

theme.begin();
keys.begin();
Object.assign(globalThis, { betz: state.inspect });
render(<App />, document.getElementById("app")!);
void state.begin();
