// Histogram of step latencies: the last minute over all time, both axes logarithmic, with the deadline.
import { useRef } from "preact/hooks";
import * as state from "../state.ts";
import { paintLatency } from "../draw/latency.ts";
import { painted } from "../theme.ts";
import { surface, usePainter } from "./Panel.tsx";

export function Histogram() {
  const canvas = useRef<HTMLCanvasElement>(null);
  usePainter(() => {
    void painted.value;
    const on = surface(canvas.current), s = state.store.value;
    if (on && s) paintLatency(on.g, on.w, on.h, s.latency, s.recentLatency(), state.server.value?.source.deadline_ns ?? null);
  }, 5);
  return <canvas ref={canvas} class="histogram" role="img" aria-label="Histogram of step latencies, both axes logarithmic" />;
}
