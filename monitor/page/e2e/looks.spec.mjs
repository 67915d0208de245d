// How every view looks at three sizes, light, and dark at one, against committed pictures: recordings and networks made with a seed, standing still.
// All text is in boxes, so that the pictures are the same with any fonts. To make them anew: check.sh looks.
import { inBoxes, widthOf } from "./boxes.mjs";
import { drawn, expect, shown, start } from "./rig.mjs";

const test = shown.extend({ page: async ({ page }, use) => { await inBoxes(page); await use(page); } });

const VIEWS = {
  live: ["#v=live&t=20&w=5", page => expect(page.locator("canvas.cells")).toBeVisible()],
  channels: ["#v=channels&t=20&c=9", page => expect(page.locator(".panel.table tbody tr").first()).toBeVisible()],
  networks: ["#v=networks&n=0,1&t=31&node=8&th=0.35", page => page.waitForFunction(() => globalThis.betzNet?.spent.edges > 0 && globalThis.betzNet.net.loaded.value.every(l => globalThis.betzNet.net.edgesOf(l)))],
  episodes: ["#v=episodes&ep=0.0&w=2&t=20", page => expect(page.locator(".ep-aligned .note")).toContainText("from their first spikes")],
  map: ["#v=map&cell=40", page => page.waitForFunction(() => globalThis.betzMap?.surface.value && globalThis.betzMap.weights.value && globalThis.betzMap.samples.value)],
};
/** Name of the picture's ending, width, height and scheme. */
const LOOKS = [["light", 1440, 900, "light"], ["dark", 1440, 900, "dark"], ["large", 1920, 1080, "light"], ["phone", 390, 844, "light"]];

/** To a view, until it stands still. */
async function still(page, url, hash, ready) {
  await page.goto(new URL(`/${hash}`, url).href);
  await page.waitForFunction(() => globalThis.betz?.store?.spikes > 100);
  await ready(page);
  await drawn(page);
}
/** Compares a view with its pictures. */
async function compare(page, view, mask = []) {
  for (const [look, width, height, colorScheme] of LOOKS) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme });
    await expect(page).toHaveScreenshot(`${view}-${look}.png`, { mask });
  }
}

test("all text is in boxes of known widths", async ({ looked: { page } }) => {
  const words = "Decoded against true, 0123456789 ▲ ◆ ⚑ µs";
  const [onCanvas, onPage] = await page.evaluate(words => {
    const g = document.createElement("canvas").getContext("2d"), span = document.createElement("span");
    g.font = "11px system-ui"; span.textContent = words; span.style.cssText = "font-size:11px;white-space:nowrap;position:absolute";
    document.body.append(span);
    return [g.measureText(words).width, span.getBoundingClientRect().width];
  }, words);
  expect(onCanvas).toBeCloseTo(widthOf(words, 11), 1);
  expect(onPage).toBeCloseTo(widthOf(words, 11), 1);
});

for (const [view, [hash, ready]] of Object.entries(VIEWS)) test(`${view} looks as it did`, async ({ looked: { page } }) => {
  await still(page, page.url(), hash, ready);
  await compare(page, view);
});

test("trials and a recording with outputs look as they did", async ({ reached: { page } }) => {
  for (const [view, hash, there] of [["trials", "#v=trials&s=1&c=3", ".tr-spikes .note"], ["reach", "#v=live&s=1&t=60&w=10&sel=52,56", ".range.panel .sum"]]) {
    await page.evaluate(h => { location.hash = h; }, hash);
    await expect(page.locator(there)).toContainText(/trials|spikes/);
    await compare(page, view);
  }
});

// A session that has come to its end stands still as a recording does: what it ran, and a network that it said it was.
const ENDED = { live: "main.live.decodes .plane", model: "main.model .panel.log", simulation: "main.simulation .network" };
test("first view, model and simulation of a session that has ended look as they did", async ({ page }) => {
  const rig = await start("--channels", "48", "--seconds", "6", "--speed", "6", "--simulation", "--control", "--stay", "--deadline", "4000000");
  await page.goto(rig.url);
  // One that comes when all is over sees what is kept.
  await expect.poll(() => page.evaluate(() => fetch("/api/state").then(r => r.json()).then(s => s.ended))).toBe(true);
  await page.reload();
  await page.waitForFunction(() => globalThis.betz?.store?.end === 6000);
  await expect(page.locator(".pill")).toContainText("session stopped");
  for (const [view, there] of Object.entries(ENDED)) {
    await page.evaluate(v => { location.hash = `#v=${v}&t=6&w=2`; }, view);
    await expect(page.locator(there)).toBeVisible();
    // How fast it ran and how long its steps took is of this machine, and so is the number of lines of the strip that says it.
    await page.locator(".strip").evaluate(e => { e.style.display = "none"; });
    await compare(page, view === "live" ? "decoded" : view, [page.locator(".panel.latency"), page.locator("main.simulation .network .note")]);
  }
  await rig.stop();
});

test("a panel that is missing would be seen", async ({ looked: { page } }, info) => {
  test.skip(["all", "changed"].includes(info.config.updateSnapshots), "pictures are being made");
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
  await still(page, page.url(), ...VIEWS.live);
  await page.evaluate(() => { document.querySelector(".panel.timeline").style.visibility = "hidden"; });
  await expect(expect(page).toHaveScreenshot("live-light.png", { timeout: 5000 })).rejects.toThrow(/different/);
});
