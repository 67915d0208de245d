// State of a gate in words.
import { lowerBound, type Store } from "./store.ts";

/** The factor of the gated outputs in the last step before `end`, or that the gate stands open because channels are gone. */
export function gateWords(s: Store, end: number, name: string, outputs: string[]): string {
  if (s.cell > 1) return "the gate: zoom in to 60 s";
  const wide = s.shape.gate ?? 0, i = lowerBound(s.rowTick, s.rows, end) - 1, at = i * wide;
  if (wide < 2 || i < 0 || Number.isNaN(s.gate[at]!)) return "no gate in this step";
  const factor = s.gate[at + wide - 1]!, of = outputs.join(", ");
  return Number.isNaN(factor) ? `gate stands open, channels are gone: ${of} × 1` : `gate by p(${name}): ${of} × ${factor.toFixed(2)}`;
}
