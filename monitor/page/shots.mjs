// The pictures of docs/page.md: node shots.mjs [FOLDER]. Needs Chromium and the example `watched`.
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "@playwright/test";

const here = dirname(fileURLToPath(import.meta.url)), folder = process.argv[2] ?? join(here, "../../docs/page");
process.env.BETZ_WATCHED ??= join(here, "../../target/debug/examples/watched");
const { start } = await import("./e2e/rig.mjs");
mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.BETZ_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"],
});
const rig = await start("--channels", "192", "--slow-every", "9000", "--control");
for (const [name, hash, colorScheme, width] of [["live", "#v=live", "light", 1400], ["live-dark", "#v=live", "dark", 1400], ["channels", "#v=channels&c=43", "light", 1400], ["model", "#v=model", "light", 1400]]) {
  const page = await browser.newPage({ viewport: { width, height: 820 }, colorScheme });
  await page.goto(rig.url);
  await page.evaluate(h => { location.hash = h; }, hash);
  await page.waitForFunction(() => { const s = globalThis.betz?.store; return s && (s.end - s.first) * s.shape.stepSeconds > 25 && globalThis.betz.slowly.r2.length > 0; }, null, { timeout: 120_000 });
  await page.waitForTimeout(2500);
  await page.screenshot({ path: join(folder, `${name}.png`) });
  await page.close();
}
await browser.close();
await rig.stop();
