// Reads frames from a connection that stays open while the server works.
import { FrameError, parse, type Frame } from "./frame.ts";

/** Sends a request and passes on each complete frame. Aborting the signal stops the work. */
export async function follow(path: string, signal: AbortSignal, heard: (frame: Frame) => void): Promise<void> {
  const answer = await fetch(path, { signal });
  if (!answer.ok || !answer.body) throw new Error(await answer.text());
  const reader = answer.body.getReader();
  let rest = new Uint8Array(0);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const joined = new Uint8Array(rest.length + value.length);
    joined.set(rest);
    joined.set(value, rest.length);
    rest = joined;
    for (;;) {
      let frame: Frame, end: number;
      try { [frame, end] = parse(rest.buffer); } catch (e) { if (e instanceof FrameError && e.short) break; throw e; }
      // Frames keep views of their bytes, so copy the rest: the next frame then starts at a multiple of 8.
      rest = rest.slice(end);
      heard(frame);
    }
  }
  if (rest.length > 0) throw new FrameError(`an answer is cut short: ${rest.length} bytes of a frame`);
}

export async function frames(path: string): Promise<Frame> {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return parse(await answer.arrayBuffer())[0];
}

/** The server's error message, or null. */
export function wrong(frame: Frame): string | null {
  const said = frame.event as { error?: string } | null;
  return said?.error ?? null;
}
