// Classes: probabilities as stacked bands over time, those of a gate with its factor, and the confusion of training.
import { useRef } from "preact/hooks";
import { lowerBound, type Store } from "../link/store.ts";
import { gateWords } from "../link/gate.ts";
import { surface, usePainter } from "../panels/Panel.tsx";
import * as state from "../state.ts";

const ink = (k: number, n: number): string => `hsl(${(210 + k * 360 / n) % 360} 60% 55%)`;

/** A band for every class, as high as its probability; `of` has `wide` values per row, the probabilities first. */
export function Bands({ names, of = s => s.estimate, wide = names.length, words }: { names: string[]; of?: (s: Store) => Float32Array; wide?: number; words?: string }) {
  const canvas = useRef<HTMLCanvasElement>(null), n = names.length;
  usePainter(s => {
    const on = surface(canvas.current);
    if (!on) return;
    const { g, w, h } = on, end = state.viewEnd(s), from = end - state.viewWindow(s), x = (tick: number): number => (tick - from) / (end - from) * w, values = of(s);
    const stop = lowerBound(s.rowTick, s.rows, end), first = lowerBound(s.rowTick, s.rows, from), skip = Math.ceil((stop - first) / w) || 1;
    for (let i = first; i < stop; i += skip) {
      const at = x(s.rowTick[i]!), next = i + skip < stop ? x(s.rowTick[i + skip]!) : at + 1;
      for (let k = 0, y = h; k < n; k++) {
        const high = values[i * wide + k]! * h;
        g.fillStyle = ink(k, n);
        g.fillRect(at, y -= high, next - at + 0.5, high);
      }
    }
  }, 30);
  return <figure class={words === undefined ? "plane" : "plane line"}><canvas ref={canvas} role="img" aria-label="Probability of each class" />
    <figcaption>{names.map((name, k) => <span key={k} style={{ color: ink(k, n) }}>■ {name} </span>)}{words}</figcaption></figure>;
}

/** Probabilities of the classes of a gate, and the factor of the outputs that it gates at the end of the view. */
export function Gate({ model }: { model: state.ModelCard }) {
  void state.beat.value;
  const s = state.shown.value, names = model.classes.names;
  return <Bands names={names} of={of => of.gate} wide={names.length + 1} words={s && model.gate ? gateWords(s, state.viewEnd(s), names[model.gate.class]!, model.gate.outputs) : ""} />;
}

/** Held-out steps of training, by true class and most probable class. */
export const Confusion = ({ names, confusion }: { names: string[]; confusion: number[][] }) => <table><tr><th>true</th>{names.map(name => <th key={name}>as {name}</th>)}</tr>
  {confusion.map((row, i) => <tr key={i}><th>{names[i]}</th>{row.map((steps, j) => <td key={j}>{steps}</td>)}</tr>)}</table>;
