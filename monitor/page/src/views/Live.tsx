import type { ComponentChildren } from "preact";
import { Raster } from "../panels/Raster.tsx";
import { Outputs } from "../panels/Outputs.tsx";
import { Latency } from "../panels/Latency.tsx";
import * as state from "../state.ts";
import { Timeline } from "../panels/Timeline.tsx";

/** `children`: what a session has besides. */
export function Live({ children }: { children?: ComponentChildren }) {
  // A recording has no step's latency, and may have nothing but spikes.
  const file = state.file.value !== null, bare = file && state.server.value?.source.outputs.length === 0;
  return <main class={`live${file ? " file" : ""}${bare ? " bare" : ""}${children ? " more" : ""}`}><Raster /><Timeline />{!bare && <Outputs />}{!file && <Latency />}{children}</main>;
}
