// The pictures of docs/page.md: node shots.mjs [FOLDER [NAME…]], all of them without names. Needs Chromium and the examples `watched` and `shown`.
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "@playwright/test";

const here = dirname(fileURLToPath(import.meta.url)), folder = process.argv[2] ?? join(here, "../../docs/page");
process.env.BETZ_WATCHED ??= join(here, "../../target/debug/examples/watched");
process.env.BETZ_SHOWN ??= join(here, "../../target/debug/examples/shown");
const { run, start } = await import("./e2e/rig.mjs");
mkdirSync(folder, { recursive: true });
const names = process.argv.slice(3), asked = ([name]) => names.length === 0 || names.includes(name);
const browser = await chromium.launch({
  executablePath: process.env.BETZ_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"],
});
const rig = await start("--channels", "192", "--slow-every", "9000", "--control");
for (const [name, hash, colorScheme, width] of [["live", "#v=live", "light", 1400], ["live-dark", "#v=live", "dark", 1400], ["channels", "#v=channels&c=43", "light", 1400], ["model", "#v=model&wt=0.0", "light", 1400]].filter(asked)) {
  const page = await browser.newPage({ viewport: { width, height: 820 }, colorScheme });
  await page.goto(rig.url);
  await page.evaluate(h => { location.hash = h; }, hash);
  await page.waitForFunction(() => { const s = globalThis.betz?.store; return s && (s.end - s.first) * s.shape.stepSeconds > 25 && globalThis.betz.slowly.r2.length > 0; }, null, { timeout: 120_000 });
  await page.waitForTimeout(2500);
  // Old and new beside each other, as after a swap.
  if (name === "model") { page.on("dialog", d => void d.accept()); await page.getByRole("button", { name: "swap to this" }).click(); await page.waitForTimeout(12_000); }
  await page.screenshot({ path: join(folder, `${name}.png`) });
  await page.close();
}
await rig.stop();
const files = await run(process.env.BETZ_SHOWN, []);
for (const [name, hash, colorScheme, acts] of [
  ["networks", "#v=networks&n=0&t=31&node=8&th=0.3", "light", ["findCommunities"]], ["networks-compared", "#v=networks&n=0,1&t=47&cmp=side&th=0.35", "dark", []], ["episodes", "#v=episodes&ep=0.0&w=2&t=20", "light", []], ["windows", "#v=episodes&t=20&pw=10,2.5,15,5,0.004,0.006", "light", []], ["map", "#v=map&cell=98", "light", []],
].filter(asked)) {
  const page = await browser.newPage({ viewport: { width: 1400, height: 820 }, colorScheme });
  await page.goto(files.url);
  await page.evaluate(h => { location.hash = h; }, hash);
  await page.waitForTimeout(2500);
  for (const act of acts) { await page.evaluate(a => globalThis.betzNet.net[a](), act); await page.waitForTimeout(1000); }
  // The longest first.
  if (name === "episodes") { for (let k = 0; k < 2; k++) await page.getByRole("button", { name: /^episode/ }).first().click(); await page.locator(".ep-list tbody tr button").first().click(); await page.waitForTimeout(1500); await page.keyboard.press("n"); await page.waitForTimeout(1500); }
  if (name === "windows") { await page.locator(".ep-list tbody tr button").first().click(); await page.waitForTimeout(3000); }
  await page.screenshot({ path: join(folder, `${name}.png`) });
  await page.close();
}
await browser.close();
await files.stop();
