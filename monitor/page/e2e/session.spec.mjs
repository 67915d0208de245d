// A session's history and the verdict on its decoder: the server's, the same on every page.
import { expect, ink, shown, test } from "./rig.mjs";

/** The second of the session's clock up to which the page has the server's numbers. */
const told = page => page.waitForFunction(() => globalThis.betz?.store?.verdict && globalThis.betz.store.seconds.length > 2);
const verdict = page => page.locator(".strip .verdict");

test.describe("a session whose channels fail after six seconds", () => {
  test.use({ args: ["--channels", "192", "--fails", "6"] });
  test("is called bad, names its channels, and one click leads to that moment", async ({ watched: { page, faults } }) => {
    await told(page);
    const main = page.locator("main"), before = await main.boundingBox();
    await expect(verdict(page)).toContainText("7 channels silent", { timeout: 120_000 });
    await expect(verdict(page)).toContainText(/▲ Bad since 0:0[5-9]: 7 channels silent \(ch3, ch8, ch21, …\), ch20 × \d+ of its rate/);
    // It came without moving anything.
    expect(await main.boundingBox()).toEqual(before);
    const since = await page.evaluate(() => globalThis.betz.store.verdict.since);
    expect(since).toBeGreaterThanOrEqual(5);
    expect(since).toBeLessThanOrEqual(9);
    expect(await page.evaluate(() => globalThis.betz.store.verdict.causes.map(c => [c.kind, c.channels]))).toEqual(expect.arrayContaining([["silent", [3, 8, 21, 34, 55, 60, 72]], ["noisy", [20]]]));
    await verdict(page).getByRole("button").click();
    await expect(page.locator(".incident")).toContainText("channels silent");
    await expect.poll(() => page.evaluate(() => Number(new URLSearchParams(location.hash.slice(1)).get("t")))).toBeCloseTo(since + 0.5, 3);
    // The verdict stays, and is on the timeline of pages that come later, too.
    await expect(verdict(page)).toContainText("Bad since");
    const spoken = await page.evaluate(async () => (await (await fetch("/api/history")).json()).past.map(p => p.level));
    expect(spoken).toContain("good");
    expect(faults).toEqual([]);
  });
});

test("every page has the same seconds, also one that is opened late", async ({ watched: { page, faults }, context, rig }) => {
  await told(page);
  // So many seconds that a page of its own would not have them all.
  await page.waitForFunction(() => globalThis.betz.store.seconds.length > 8, null, { timeout: 120_000 });
  const late = await context.newPage();
  await late.goto(rig.url);
  await told(late);
  const seconds = p => p.evaluate(() => globalThis.betz.store.seconds.slice(0, 7).map(s => [s.spikes, s.misses, Number.isNaN(s.r2) ? null : s.r2]));
  const served = () => page.evaluate(async () => (await (await fetch("/api/history")).json()).slots.slice(0, 7).map(s => [s.spikes, s.misses, s.r2.reduce((a, b) => a + b, 0) / s.r2.length]));
  // A second's score comes after its spikes: all three are asked anew until they agree.
  await expect.poll(async () => {
    const [first, other, server] = [await seconds(page), await seconds(late), await served()].map(list => JSON.stringify(list));
    return first === other && first === server ? "the same" : `${first}\n${other}\n${server}`;
  }).toBe("the same");
  await expect(verdict(late)).toContainText(/✓ Decoder good: 0\.\d\d \(trained: 0\.85\)/);
  expect(faults).toEqual([]);
});

shown("a raster is drawn at every opening, without a key", async ({ looked: { page, faults } }) => {
  for (let opening = 0; opening < 8; opening++) {
    await page.reload();
    await page.waitForFunction(() => globalThis.betz?.store?.spikes > 100);
    await expect.poll(() => ink(page), { message: `opening ${opening}` }).toBeGreaterThan(0.005);
  }
  expect(faults).toEqual([]);
});

shown("what is shown of a whole recording covers all of it, and a unit can be seen over all of it", async ({ reached: { page, faults } }) => {
  await page.keyboard.press("a");
  await page.waitForFunction(() => globalThis.betz.store.cell > 1);
  await page.keyboard.press("g");
  await expect(page.locator(".range.panel .sum")).toContainText("0 s to 3:20:");
  const length = await page.evaluate(() => globalThis.betz.store.end * globalThis.betz.store.shape.stepSeconds);
  // The address is written at most twice per second.
  await page.waitForFunction(() => new URLSearchParams(location.hash.slice(1)).has("sel"));
  const [from, to] = await page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get("sel").split(",").map(Number));
  expect([from, to]).toEqual([0, length]);
  await page.evaluate(() => { location.hash = "#v=channels&s=1&t=20&w=5&c=3"; });
  const note = page.locator(".inspector .note");
  await expect(note).toContainText("0:15.0 to 0:20.0");
  await page.getByRole("button", { name: "whole recording" }).click();
  await expect(note).toContainText("0:00.0 to 3:20.0, the whole recording");
  const spikes = await page.evaluate(async () => (await (await fetch("/api/unit?source=1&channel=3&x=0&y=1")).json()).spikes);
  await expect(note).toContainText(`${spikes.toLocaleString("en")} spikes`);
  expect(faults).toEqual([]);
});
