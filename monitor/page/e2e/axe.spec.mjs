// axe finds nothing in any view, light and dark, at 1440 and at 390; and no view is wider than its window.
import { expect, findings, known, shown, start, test } from "./rig.mjs";

const SIZES = [[1440, 900], [390, 844]], SCHEMES = ["light", "dark"];

/** `views`: name, hash, and a selector that appears when the view has its content. */
async function clean(page, views) {
  for (const [width, height] of SIZES) for (const colorScheme of SCHEMES) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme });
    for (const [hash, there] of views) {
      await page.evaluate(h => { location.hash = h; }, hash);
      await expect(page.locator(there).first(), hash).toBeVisible();
      expect(await findings(page), `${hash} in the ${colorScheme} at ${width}`).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), `${hash} at ${width}`).toBeLessThanOrEqual(0);
    }
  }
}
// Sixteen to thirty runs of axe, each of up to a second, or of twenty beside builds.
test.setTimeout(900_000);
shown.setTimeout(900_000);

test("a session in every view, also in red on black", async ({ page }) => {
  const rig = await start("--channels", "64", "--episodes", "--simulation", "--control", "--slow-every", "1700");
  await page.goto(rig.url);
  await known(page, 3);
  const views = [
    ["#v=live", ".panel.counted tbody tr"], ["#v=channels&c=3", ".panel.table tbody tr"], ["#v=episodes&ep=0.0", ".ep-list tbody tr"], ["#v=networks", ".waiting"],
    ["#v=simulation", "main.simulation .network tbody tr"], ["#v=map", ".waiting"], ["#v=model", ".panel.card"], ["#v=trials", "main"],
  ];
  await clean(page, views);
  // The third scheme is nobody's system's: the key chooses it.
  await page.emulateMedia({ colorScheme: "light" });
  for (let k = 0; k < 3; k++) await page.keyboard.press("t");
  await expect(page.locator("html")).toHaveAttribute("data-theme", "low");
  await expect(page.locator("body")).toHaveCSS("background-color", "rgb(0, 0, 0)");
  for (const [hash, there] of views) {
    await page.evaluate(h => { location.hash = h; }, hash);
    await expect(page.locator(there).first(), hash).toBeVisible();
    expect(await findings(page), `${hash} in red on black`).toEqual([]);
  }
  // Dialogs lie over the rest.
  for (const key of ["?", "e"]) {
    await page.keyboard.press(key);
    await expect(page.getByRole("dialog")).toBeVisible();
    expect(await findings(page), key).toEqual([]);
    await page.keyboard.press("Escape");
  }
  await rig.stop();
});

shown("networks, episodes and maps", async ({ looked: { page } }) => {
  await clean(page, [["#v=live&t=20&w=5", "canvas.cells"], ["#v=networks&n=0,1&node=8&t=31", ".net-node tbody tr"], ["#v=episodes&ep=0.0", ".ep-list tbody tr"], ["#v=episodes&t=20&pw=10,5,15,5,0.004,0.006", ".ep-list tbody tr"], ["#v=map&m=1&cell=30&mv=0,1,2", ".som-node tbody tr"]]);
});

shown("a recording with outputs, a range and trials", async ({ reached: { page } }) => {
  await clean(page, [["#v=live&s=1&t=60&w=60&o=electrode&sel=10,20", ".range.panel"], ["#v=channels&s=1&t=20&c=3", ".inspector"], ["#v=trials&s=1&c=3", ".tr-spikes .note"], ["#v=model&s=1", "main"]]);
});

test("axe would find something", async ({ watched: { page } }) => {
  await known(page, 0.2);
  await page.evaluate(() => document.body.append(document.createElement("img"), Object.assign(document.createElement("button"), { className: "x" })));
  expect((await findings(page)).join()).toContain("image-alt");
});
