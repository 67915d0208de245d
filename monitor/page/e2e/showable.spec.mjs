// What a page shows others: figures, overlaid trials, numbers that can be read, and a page that stands still when alarms come.
import { readFileSync } from "node:fs";
import { expect, known, run, shown, start, test } from "./rig.mjs";

const exported = async (page, name) => {
  await page.getByRole("button", { name: "Export what is shown" }).click();
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name, exact: true }).click();
  const text = readFileSync(await (await saved).path(), "utf8");
  await page.locator("dialog.export").getByRole("button", { name: "close" }).click();
  return text;
};
/** Parts of a figure: its plots with the number of their shapes and texts, and what cannot be read as XML. */
const parsed = (page, text) => page.evaluate(text => {
  const of = new DOMParser().parseFromString(text, "image/svg+xml"), error = of.querySelector("parsererror")?.textContent ?? "";
  return { error, paper: of.querySelector("svg > rect")?.getAttribute("fill"), width: of.documentElement.getAttribute("width"), words: of.documentElement.textContent, plots: [...of.querySelectorAll("svg > svg")].map(s => [s.querySelectorAll("path,image").length, s.querySelectorAll("text").length]) };
}, text);

shown("the plots of every view are a figure in millimetres and light colours, and the snapshot is the first way to share", async ({ reached: { page, faults } }) => {
  await page.emulateMedia({ colorScheme: "dark" });
  const before = await page.evaluate(() => getComputedStyle(document.querySelector(".panel")).backgroundColor);
  for (const [hash, there, title, least] of [["#v=trials&s=1&c=3", ".tr-spikes .note", "Trials", 4], ["#v=channels&s=1&t=60&w=10&c=3", ".inspector .note", "Channels", 4], ["#v=live&s=1&t=60&w=10", ".outputs .note", "Recording", 2]]) {
    await page.evaluate(h => { location.hash = h; }, hash);
    await expect(page.locator(there)).toContainText(/\w/);
    const { error, paper, width, words, plots } = await parsed(page, await exported(page, "plots, SVG"));
    expect(error, hash).toBe("");
    expect([paper, width], hash).toEqual(["rgb(255, 255, 255)", "180mm"]);
    expect(words).toContain(title);
    expect(plots.length, hash).toBeGreaterThanOrEqual(least);
    // Every plot has something drawn, and words on its axes.
    for (const [shapes, texts] of plots) expect(shapes * texts, `${hash}: ${JSON.stringify(plots)}`).toBeGreaterThan(0);
    await page.keyboard.press("e");
    await expect(page.locator("dialog.export .choices button").first()).toHaveText("snapshot, HTML");
    await page.keyboard.press("Escape");
  }
  // The page has its own colours again.
  expect(await page.evaluate(() => getComputedStyle(document.querySelector(".panel")).backgroundColor)).toBe(before);
  expect(faults).toEqual([]);
});

shown("two trials lie over each other in their own colours, by their numbers or a click with Shift", async ({ reached: { page, faults } }) => {
  await page.evaluate(() => { location.hash = "#v=trials&s=1&c=3"; });
  const field = page.getByLabel("overlay trials"), note = page.locator(".tr-decodes .note");
  await expect(note).toContainText("mean of the true");
  await field.fill("2, 5, 900");
  await field.press("Enter");
  await expect.poll(() => page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get("tro"))).toBe("2,5");
  await expect(note).toContainText("true, of the overlaid trials");
  await expect(page.locator(".tr-spikes .row")).toContainText(/2: \d+:\d\d\.\d.*5: \d+:\d\d\.\d/);
  /** Pixels of a colour in a plot. */
  const inked = (selector, name) => page.locator(selector).evaluate((canvas, name) => {
    const probe = document.createElement("i"); probe.style.color = `var(--${name})`; document.body.append(probe);
    const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number), { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    probe.remove();
    let n = 0;
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200 && Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 12) n++;
    return n;
  }, name);
  for (const plot of [".tr-spikes canvas", ".tr-decodes canvas", ".tr-rate canvas"]) await expect.poll(() => inked(plot, "y"), plot).toBeGreaterThan(20);
  await page.locator(".tr-spikes canvas").click({ position: { x: 60, y: 2 }, modifiers: ["Shift"] });
  await expect.poll(() => page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get("tro"))).toMatch(/^2,5,\d+$/);
  await field.fill("");
  await field.press("Enter");
  await expect(note).toContainText("mean of the true");
  await expect.poll(() => inked(".tr-decodes canvas", "y")).toBe(0);
  // Chromium advises against reading pixels, as this test does.
  expect(faults.filter(f => !f.includes("willReadFrequently"))).toEqual([]);
});

shown("no number on the page has ten digits behind its point", async ({ reached: { page } }) => {
  for (const hash of ["#v=live&s=1&t=60.123456789&w=3.2768012345", "#v=trials&s=1&c=3&tr=starts,-0.3333333333,0.6666666667,0.0333333333,0,0", "#v=channels&s=1&t=60.1234567&w=3.2768012345&c=3", "#v=live&s=1&t=60&w=10&sel=52.1234567,56.7654321"]) {
    await page.evaluate(h => { location.hash = h; }, hash);
    await page.waitForTimeout(500);
    expect(await page.evaluate(() => [...document.querySelectorAll("#app *")].flatMap(e => [e.getAttribute("aria-label"), e.getAttribute("title"), ...[...e.childNodes].filter(n => n instanceof Text).map(n => n.textContent)]).filter(t => t && /\d\.\d{10,}|\d{13,}/.test(t))), hash).toEqual([]);
  }
});

test.describe("a session with misses", () => {
  test.use({ args: ["--channels", "64", "--slow-every", "900"] });
  test("alarms and incidents move nothing, and numbers of a view that stands still say that they are of now", async ({ watched: { page, faults } }) => {
    await page.waitForFunction(() => globalThis.betz?.store?.verdict && globalThis.betz.store.misses.length === 0 || globalThis.betz?.store?.misses.length > 0);
    const main = () => page.locator("main").boundingBox();
    await known(page, 2);
    const before = await main();
    await page.waitForFunction(() => globalThis.betz.store.misses.length > 1);
    await expect(page.locator(".alarms [role=alert]")).toContainText("missed in the last minute");
    await expect(page.locator(".latency .note")).not.toContainText("now");
    await page.locator(".misses .link").first().click();
    await expect(page.locator(".incident")).toContainText("deadline missed");
    expect(await main()).toEqual(before);
    await expect(page.locator(".alarms > b")).toHaveText("now");
    await expect(page.locator(".latency .note")).toContainText("last minute, now");
    // A file of that moment has the server's numbers of its seconds.
    const text = await exported(page, "snapshot, HTML");
    expect(text).toMatch(/computing a step, \d+:\d\d to \d+:\d\d<\/th><td>p50 ≤ [^<]* max [\d.]+ (µs|ms|s)/);
    expect(text).toMatch(/counts, \d+:\d\d to \d+:\d\d<\/th><td>[\d,]+ steps/);
    expect(text).toContain("from the session's beginning to now");
    expect(faults).toEqual([]);
  });
});

test("a session that is started again at the same address is found by an open page; at another one the page says how", async ({ page }) => {
  const first = await start("--channels", "32");
  await page.goto(first.url);
  await known(page, 1);
  const store = () => page.evaluate(() => { globalThis.before ??= globalThis.betz.store; return globalThis.betz.store !== null && globalThis.betz.store !== globalThis.before; });
  expect(await store()).toBe(false);
  await first.stop();
  await expect(page.locator(".alarms [role=alert]")).toContainText("this page tries again by itself");
  // With another token, as a program that is started anew has.
  const second = await start("--channels", "32", "--port", String(first.port));
  await expect(page.locator(".alarms [role=alert]")).toContainText("open the address that it printed", { timeout: 60_000 });
  await expect(page.getByRole("status").first()).toContainText("another server runs here");
  await page.goto(second.url);
  await known(page, 1);
  await second.stop();
  // With the same one, as betz run --keep gives it.
  process.env.BETZ_MONITOR_TOKEN = "none";
  try {
    const third = await run(process.env.BETZ_WATCHED, ["--channels", "32"]);
    await page.goto(third.url);
    await known(page, 1);
    await page.evaluate(() => { delete globalThis.before; });
    expect(await store()).toBe(false);
    await third.stop();
    const fourth = await run(process.env.BETZ_WATCHED, ["--channels", "32", "--port", String(third.port)]);
    await expect.poll(store, { timeout: 60_000 }).toBe(true);
    await expect(page.getByRole("status").first()).toHaveText("live");
    await fourth.stop();
  } finally { delete process.env.BETZ_MONITOR_TOKEN; }
});
