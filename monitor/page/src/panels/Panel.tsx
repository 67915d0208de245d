// A panel: title, what is hidden, its content.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Store } from "../link/store.ts";
import { painters, redraw } from "../state.ts";

export function Panel({ title, note, area, tools, children }: { title: string; note?: ComponentChildren; area: string; tools?: ComponentChildren; children: ComponentChildren }) {
  const id = `h-${area}`;
  return <section class={`panel ${area}`} aria-labelledby={id}>
    <header><h2 id={id}>{title}</h2><span class="note">{note}</span>{tools}</header>
    {children}
  </section>;
}

/** Where canvases are drawn while a figure is made of them. */
type Stage = (canvas: HTMLCanvasElement) => { g: CanvasRenderingContext2D; w: number; h: number } | null;
let stage: Stage | null = null;
/** True while a figure is made: everything is drawn, also what has not changed. */
export const staged = (): boolean => stage !== null;
/** Draws elsewhere what `work` draws, and the page again afterwards. */
export function onStage(to: Stage, work: () => void): void {
  stage = to;
  try { work(); } finally { stage = null; redraw(); }
}

/** Calls `paint` in every animation frame in which something may have changed, at most `rate` times per second. `into`: `writers` if it
 *  changes elements rather than a canvas. */
export function usePainter(paint: (store: Store) => void, rate = 60, into = painters): void {
  const latest = useRef(paint);
  latest.current = paint;
  // A component that is rendered again may draw something else.
  redraw();
  // Before the browser paints: the first frame has its picture.
  useLayoutEffect(() => {
    let last = 0;
    const call = (store: Store) => {
      const now = performance.now();
      if (!stage && now - last < 1000 / rate - 4) return;
      if (!stage) last = now;
      latest.current(store);
    };
    into.add(call);
    return () => { into.delete(call); };
  }, [rate]);
}

/** The context of a canvas, sized to the device's pixels; all drawing is in CSS pixels. */
export function surface(canvas: HTMLCanvasElement | null): { g: CanvasRenderingContext2D; w: number; h: number } | null {
  if (canvas && stage) return stage(canvas);
  const g = canvas?.getContext("2d");
  if (!canvas || !g) return null;
  const ratio = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (w < 2 || h < 2) return null;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
  }
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, w, h);
  return { g, w, h };
}

export { font, textWidth } from "../draw/font.ts";
