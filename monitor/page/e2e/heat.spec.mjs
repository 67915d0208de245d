// Counts of bins in colours, as WebGL and as the plane draw them: read from the canvas and compared with the scale.
import { build } from "esbuild";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "@playwright/test";

const ENTRY = `
  export { ramp } from "./src/draw/colour.ts";
  export { PlainRaster } from "./src/draw/plain.ts";
  export { RasterView } from "./src/draw/raster.ts";
  export { Store } from "./src/link/store.ts";
  export { frame } from "./test/make.ts";`;

for (const kind of ["RasterView", "PlainRaster"]) test(`counts of 1 and 16 spikes have the colours of their scale: ${kind}`, async ({ page }) => {
  const built = await build({ stdin: { contents: ENTRY, resolveDir: join(dirname(fileURLToPath(import.meta.url)), ".."), loader: "ts" }, bundle: true, format: "iife", globalName: "parts", write: false, logLevel: "warning" });
  await page.setContent(`<canvas class="cells" style="width:400px;height:320px"></canvas>`);
  await page.addScriptTag({ content: built.outputFiles[0].text });
  const seen = await page.evaluate(kind => {
    const { Store, frame, ramp } = globalThis.parts, canvas = document.querySelector("canvas");
    // Bins of 100 ms; channels 1, 2 and 3 have 1, 16 and 4 spikes in one of them.
    const store = new Store({ channels: 8, outputs: 1, stepSeconds: 0.1, keepSeconds: 600 }, 0), times = (n, of) => Array.from({ length: n }, () => of);
    store.add(frame(0, 0, 10, [[3, 1], ...times(16, [5, 2]), ...times(4, [7, 3])]), false);
    const view = new globalThis.parts[kind](canvas);
    view.draw(store, { end: 10, window: 10, from: 0, to: 8, order: null, sweep: false, ink: [0, 0, 0], paper: [1, 1, 1], dim: [0, 0, 0] });
    const copy = document.createElement("canvas"), g = copy.getContext("2d");
    copy.width = canvas.width; copy.height = canvas.height;
    g.drawImage(canvas, 0, 0);
    // The first column of a bin, in the middle of the channel's row.
    const at = (bin, channel) => [...g.getImageData(Math.floor((bin + 0.2) * copy.width / 10), Math.floor((channel + 0.6) * copy.height / 8), 1, 1).data].slice(0, 3);
    const scale = n => [...ramp()[Math.round(255 * Math.log1p(n) / Math.log1p(16))]];
    return { drawn: [at(3, 1), at(5, 2), at(7, 3), at(4, 1)], expected: [scale(1), scale(16), scale(4)] };
  }, kind);
  for (const [k, expected] of seen.expected.entries()) for (const c of [0, 1, 2]) expect(Math.abs(seen.drawn[k][c] - expected[c]), `${JSON.stringify(seen)}`).toBeLessThanOrEqual(3);
  const apart = (a, b) => Math.hypot(...a.map((v, c) => v - b[c]));
  expect(apart(seen.drawn[0], seen.drawn[1]), JSON.stringify(seen)).toBeGreaterThan(100);
  // A bin without spikes is paper.
  expect(Math.min(...seen.drawn[3]), JSON.stringify(seen)).toBeGreaterThan(245);
});
