import type { ComponentChildren } from "preact";
import { Raster } from "../panels/Raster.tsx";
import { Outputs } from "../panels/Outputs.tsx";
import { recorded } from "../panels/Line.tsx";
import { Latency } from "../panels/Latency.tsx";
import * as state from "../state.ts";
import { Timeline } from "../panels/Timeline.tsx";

/** `children`: further panels of a session. `histogram`: that of latencies, if it is open. */
export function Live({ children, histogram }: { children?: ComponentChildren; histogram?: ComponentChildren }) {
  // A recording has no step's latency, and may have nothing but spikes.
  const file = state.file.value !== null, bare = state.server.value?.source.outputs.length === 0;
  // The largest panel is what is decoded; without a model it is the spikes.
  const decodes = !bare && !recorded();
  const kind = `live${file ? " file" : ""}${bare ? " bare" : ""}${decodes ? " decodes" : ""}${children ? " more" : ""}${state.latencyOpen.value ? " open" : ""}`;
  return <main class={kind}>{decodes && <Outputs />}<Raster /><Timeline />{!bare && !decodes && <Outputs />}{!file && <Latency>{histogram}</Latency>}{children}</main>;
}
