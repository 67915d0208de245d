// The line at the pointer's time, in every panel.
import { useSignalEffect } from "@preact/signals";
import { useRef } from "preact/hooks";
import { cursor, seconds, shown, viewEnd, viewWindow, address, writers } from "../state.ts";
import { usePainter } from "./Panel.tsx";

/** Place of a time in the window that is shown, as a share of its width. */
export function inView(time: number): number {
  const s = shown.value;
  return s ? (time / s.shape.stepSeconds - s.base - viewEnd(s)) / viewWindow(s) + 1 : NaN;
}

/** `place`: where a time lies in this panel, 0 to 1; outside it has no line. */
export function Cursor({ place = inView }: { place?: (time: number) => number }) {
  const line = useRef<HTMLDivElement>(null);
  const put = () => {
    const at = cursor.value === null ? NaN : place(cursor.value), style = line.current?.style;
    if (!style) return;
    style.display = at >= 0 && at <= 1 ? "" : "none";
    style.left = `${at * 100}%`;
  };
  useSignalEffect(() => { void address.value; void seconds(); put(); });
  // Time goes on under a pointer that rests.
  usePainter(put, 30, writers);
  return <div ref={line} class="cursor" style={{ display: "none" }} aria-hidden="true" />;
}

/** The selected range, shaded. */
export function Selected({ part, place = inView }: { part: [number, number] | null; place?: (time: number) => number }) {
  if (!part) return null;
  const [from, to] = part.map(t => Math.min(1, Math.max(0, place(t)))) as [number, number];
  return to > from ? <div class="selected" style={{ left: `${from * 100}%`, width: `${(to - from) * 100}%` }} aria-hidden="true" /> : null;
}
