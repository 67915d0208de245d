// Windows of a recording, mined anew one after another and played with their episodes.
import { expect, shown as test } from "./rig.mjs";

/** To windows of ten seconds, one every five: eleven in a minute. */
const HASH = "#v=episodes&t=10&pw=10,5,15,5,0.004,0.006", rows = page => page.locator(".ep-list tbody tr"), note = page => page.locator(".ep-list .played");
const open = async (page, hash = HASH) => { await page.evaluate(h => { location.hash = h; }, hash); await expect(rows(page).first()).toBeVisible(); };
const slide = (page, name, value) => page.getByRole("slider", { name, exact: true }).fill(String(value));
const speed = page => page.getByRole("slider", { name: "Speed" });

test("windows are mined ahead, gone through by keys and slider, and show what the server mines", async ({ looked: { page, faults } }) => {
  await open(page);
  await expect(note(page)).toHaveText("1 of 11 windows: 0:00.0 to 0:10.0");
  await expect(rows(page).first()).toContainText("ch3 → ch17 → ch30 → ch44 → ch61");
  await page.keyboard.press(".");
  await expect(note(page)).toHaveText("2 of 11 windows: 0:05.0 to 0:15.0");
  await expect(page.locator("[aria-live=polite]").last()).toContainText("window 2 of 11");
  await slide(page, "Window", 10);
  await expect(note(page)).toHaveText("11 of 11 windows: 0:50.0 to 1:00.0");
  await expect(page.getByRole("slider", { name: "Window", exact: true })).toHaveAttribute("aria-valuetext", "11 of 11, 0:50.0 to 1:00.0");
  await rows(page).first().getByRole("button").click();
  const count = await rows(page).first().locator("td").first().innerText();
  await expect(page.locator(".ep-aligned .note")).toHaveText(`${count} occurrences in the window`);
  await expect(page.locator(".ep-chain .note")).toContainText("ch3 → ch17");
  // Every occurrence lies in the window that is shown.
  await page.keyboard.press(",");
  await expect(note(page)).toContainText("10 of 11");
  await expect(page.locator(".ep-aligned .note")).not.toHaveText("…");
  expect(faults).toEqual([]);
});

test("it plays slowly and fast, and stops at the end", async ({ looked: { page, faults } }) => {
  await open(page);
  await expect(speed(page)).toHaveAttribute("aria-valuetext", "1 times the recording's time");
  await speed(page).fill("0");
  await expect(speed(page)).toHaveAttribute("aria-valuetext", "0.1 times the recording's time");
  for (let k = 0; k < 10; k++) await page.keyboard.press("]");
  await expect(speed(page)).toHaveAttribute("aria-valuetext", "as fast as windows are mined");
  await page.getByRole("button", { name: "play", exact: true }).click();
  await expect(note(page)).toContainText("11 of 11 windows");
  await expect(page.getByRole("button", { name: "play", exact: true })).toBeVisible();
  // Another view plays at the recording's own speed again.
  await page.evaluate(() => { location.hash = "#v=live&t=20"; });
  await page.evaluate(() => { location.hash = "#v=episodes&t=20&pw=10,5,15,5,0.004,0.006"; });
  await expect(speed(page)).toHaveAttribute("aria-valuetext", "1 times the recording's time");
  expect(faults).toEqual([]);
});

test("with less motion, playing goes from window to window", async ({ looked: { page } }) => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await open(page);
  await speed(page).fill("5");
  const times = await page.evaluate(async () => {
    const seen = new Set(), at = () => Number(new URLSearchParams(location.hash.slice(1)).get("t"));
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: " ", bubbles: true }));
    while (at() < 60) { seen.add(at()); await new Promise(done => setTimeout(done, 50)); }
    return [...seen];
  });
  expect(times.length).toBeGreaterThan(2);
  for (const t of times) expect(t % 5).toBe(0);
});

test("what cannot be mined is said, and settings that make no sense are not taken", async ({ looked: { page } }) => {
  await page.evaluate(() => { location.hash = "#v=episodes&t=10&pw=0.01,5,15,5,0.004,0.006"; });
  const alarm = page.locator(".ep-list [role=alert]");
  await expect(alarm).toContainText("expected a longer window");
  await page.getByRole("spinbutton", { name: /^window/ }).fill("10");
  await page.keyboard.press("Enter");
  await expect(rows(page).first()).toBeVisible();
  await expect(alarm).toHaveCount(0);
  await page.getByLabel("delays").fill("6-4");
  await page.keyboard.press("Enter");
  await expect(alarm).toContainText("delays such as 4–6 ms");
  await page.getByLabel("delays").fill("4-6, 9-11");
  await page.keyboard.press("Enter");
  await expect(alarm).toHaveCount(0);
  await expect.poll(() => page.evaluate(() => location.hash)).toContain("pw=10,5,15,5,0.004,0.006,0.009,0.011");
});

test("the list of a file leads to windows and back", async ({ looked: { page } }) => {
  await page.evaluate(() => { location.hash = "#v=episodes&ep=0.0&t=20"; });
  await page.getByRole("button", { name: "play windows" }).click();
  await expect(note(page)).toContainText("windows");
  await page.getByRole("button", { name: "mined lists" }).click();
  await expect(page.locator(".ep-list .note")).toContainText("episodes.csv");
});
