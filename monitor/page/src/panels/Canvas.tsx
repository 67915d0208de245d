// A canvas that is drawn when something that its picture reads changes, or its size; at most once a frame.
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { JSX } from "preact";
import { surface } from "./Panel.tsx";

/** Pictures that are on the page, to draw them into a figure. */
export const drawings = new Set<() => void>();

/** Gives what asks for the next picture. */
export function useDrawn(draw: () => void, element: { current: HTMLElement | null }): () => void {
  const latest = useRef(draw), due = useRef(0), turn = useSignal(0), now = useRef(true);
  latest.current = draw;
  const ask = useRef(() => { if (due.current === 0) due.current = requestAnimationFrame(() => { due.current = 0; now.current = true; turn.value++; }); }).current;
  useEffect(() => {
    const seen = new ResizeObserver(ask);
    if (element.current) seen.observe(element.current);
    const again = (): void => latest.current();
    drawings.add(again);
    return () => { drawings.delete(again); seen.disconnect(); cancelAnimationFrame(due.current); due.current = 0; };
  }, []);
  // Whatever is read while drawing is listened to; a change asks for a picture, and many of them for one.
  useSignalEffect(() => {
    void turn.value;
    if (!now.current) { ask(); return; }
    now.current = false;
    latest.current();
  });
  useEffect(ask);
  return ask;
}

/** A canvas in the plane, drawn in CSS pixels. */
export function Plane({ draw, label, class: name, ...rest }: { draw: (g: CanvasRenderingContext2D, w: number, h: number) => void; label: string; class: string } & Pick<JSX.IntrinsicElements["canvas"], "tabIndex" | "onClick" | "onMouseMove" | "onMouseLeave">) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useDrawn(() => { const on = surface(canvas.current); if (on) draw(on.g, on.w, on.h); }, canvas);
  return <canvas ref={canvas} class={name} role="img" aria-label={label} {...rest} />;
}
