// Parts of a recording: zoom, the pointer's line, numbers of a range, trials; each number against a plain loop.
import { readFileSync } from "node:fs";
import { expect, known, shown as test, start, test as live } from "./rig.mjs";

const go = (page, hash) => page.evaluate(h => { location.hash = h; }, hash);
/** Every spike of the recording: seconds and channel, by the server's frames of a minute each, without the page's store. */
const spikes = page => page.evaluate(async () => {
  const all = [];
  for (let from = 0; from < 40_000; from += 10_000) {
    const bytes = await (await fetch(`/api/spikes?source=1&from=${from}&to=${from + 10_000}`)).arrayBuffer(), view = new DataView(bytes);
    for (let at = 0; at < bytes.byteLength;) {
      const first = Number(view.getBigInt64(at + 16, true)), found = {};
      let next = at + 32;
      for (let k = view.getUint32(at + 28, true); k > 0; k--) {
        const id = view.getUint16(next, true), size = view.getUint16(next + 2, true), n = view.getUint32(next + 4, true);
        found[id] = { at: next + 8, n };
        next += 8 + Math.ceil(size * n / 8) * 8;
      }
      for (let i = 0; i < (found[1]?.n ?? 0); i++) all.push([(first + view.getUint16(found[1].at + 2 * i, true) + view.getFloat32(found[22].at + 4 * i, true)) * 0.005, view.getUint16(found[2].at + 2 * i, true)]);
      at = next;
    }
  }
  return all;
});

test("from milliseconds to the whole recording, with every spike of the file", async ({ reached: { page, faults } }) => {
  const all = await spikes(page);
  await page.keyboard.press("a");
  await page.waitForFunction(() => globalThis.betz.store.cell > 1 && globalThis.betz.store.first === 0);
  await expect(page.locator(".raster .note")).toContainText("cells of");
  const counted = await page.evaluate(() => { const s = globalThis.betz.store; let n = 0; for (let i = 0; i < s.spikes; i++) n += s.weight[i]; return [n, s.cell * 0.005, s.end]; });
  expect(counted[0]).toBe(all.length);
  expect(counted[2]).toBe(40_000);
  // The foot's numbers and those of the legend, of a plain loop over the file's spikes.
  await expect(page.locator(".density")).toHaveAttribute("title", `Spikes per cell of ${Number((counted[1] * 1e3).toPrecision(3))} ms and 1 channel`);
  const cells = new Map();
  for (const [t, c] of all) { const key = `${Math.floor(t / counted[1] + 1e-6)} ${c}`; cells.set(key, (cells.get(key) ?? 0) + 1); }
  await expect(page.locator(".density span").nth(2)).toHaveText(String(Math.max(...cells.values())));
  // R² of the whole is the server's, of every step.
  const exact = await page.evaluate(async () => (await (await fetch("/api/range?source=1&from=0&to=200")).json()).outputs.map(o => o.r2));
  await expect.poll(() => page.evaluate(() => globalThis.betz.slowly.r2)).toEqual(exact);
  // Down to two milliseconds: the times are those of the file.
  const [time] = all.find(s => s[0] > 30);
  await go(page, `#v=live&s=1&t=${(time + 0.001).toFixed(6)}&w=0.002`);
  await page.waitForFunction(() => globalThis.betz.store.cell === 1 && globalThis.betz.store.offset);
  await expect(page.locator(".raster select").nth(1)).toHaveValue("0.002");
  await page.keyboard.press("e");
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "spikes, CSV" }).click()]);
  const rows = readFileSync(await file.path(), "utf8").trim().split("\n").filter(l => !l.startsWith("#")).slice(1).map(l => Number(l.split(",")[0]));
  const from = Number((time + 0.001).toFixed(6)) - 0.002, inside = all.map(s => s[0]).filter(t => t >= from - 1e-9 && t < from + 0.002 - 1e-9);
  expect(rows).toHaveLength(inside.length);
  rows.forEach((t, i) => expect(Math.abs(t - inside[i])).toBeLessThan(5e-6));
  expect(faults).toEqual([]);
});

test("one line through all panels where the pointer is", async ({ reached: { page, faults } }) => {
  const box = await page.locator(".hand").boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 40);
  // In the raster, its foot and the timeline at the pointer's time, and in the plots of the outputs.
  const lines = page.locator(".cursor:visible");
  await expect(lines).toHaveCount(5);
  const at = await lines.evaluateAll(all => all.map(l => { const b = l.parentElement.getBoundingClientRect(); return (l.getBoundingClientRect().left - b.left) / b.width; }));
  expect(Math.abs(at[0] - 0.4)).toBeLessThan(0.01);
  expect(Math.abs(at[1] - 0.4)).toBeLessThan(0.01);
  // 15 s + 0.4 · 5 s of 200 s.
  expect(Math.abs((await lines.evaluateAll(all => all.map(l => l.closest(".timeline") ? parseFloat(l.style.left) : NaN).filter(v => v === v)))[0] - 8.5)).toBeLessThan(0.2);
  await expect(page.locator(".read").first()).toHaveText(/^1[67]\.\d{3} s: /);
  await expect(page.locator(".read").nth(1)).toHaveText(/^1[67]\.\d{3} s: /);
  const plot = await page.locator(".plot .over").first().boundingBox();
  await page.mouse.move(plot.x + plot.width * 0.8, plot.y + 20);
  await expect.poll(async () => Math.abs((await lines.first().evaluate(l => { const b = l.parentElement.getBoundingClientRect(); return (l.getBoundingClientRect().left - b.left) / b.width; })) - 0.8)).toBeLessThan(0.02);
  expect(faults).toEqual([]);
});

test("a range that is dragged with Shift has the numbers of a plain loop", async ({ reached: { page, faults } }) => {
  const all = await spikes(page), box = await page.locator(".hand").boundingBox();
  await page.keyboard.down("Shift");
  await page.mouse.move(box.x + box.width * 0.2, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.7, box.y + 90, { steps: 5 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  const panel = page.locator(".range.panel");
  await expect(panel).toContainText("spikes/s of all channels");
  await expect.poll(() => page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get("sel"))).not.toBe(null);
  const [from, to] = await page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get("sel").split(",").map(Number));
  expect(Math.abs(from - 16)).toBeLessThan(0.02);
  expect(Math.abs(to - 18.5)).toBeLessThan(0.02);
  // A tick of 10 µs belongs to the range that its time lies in.
  const edge = t => Math.ceil(t / 1e-5 - 1e-6), inside = all.filter(s => { const tick = Math.round(s[0] / 1e-5); return tick >= edge(from) && tick < edge(to); });
  const seconds = (edge(to) - edge(from)) * 1e-5;
  await expect(panel.locator(".sum b").first()).toHaveText(inside.length.toLocaleString("en"));
  const row = panel.getByRole("row", { name: /^PMd 9 / }), own = inside.filter(s => s[1] === 24).length;
  await expect(row.locator("td").nth(0)).toHaveText(String(own));
  await expect(row.locator("td").nth(1)).toHaveText((own / seconds).toFixed(2));
  await expect(panel.getByRole("table", { name: "Accuracy in the range" })).toContainText("vx");
  await expect(page.locator(".hand .selected")).toBeVisible();
  await page.keyboard.press("g");
  await expect(panel).toBeHidden();
  // By the keyboard: what is in view.
  await page.keyboard.press("g");
  await expect(panel).toContainText("15 s to 20 s");
  await panel.getByRole("button", { name: "Close the range" }).click();
  await expect(panel).toBeHidden();
  expect(faults).toEqual([]);
});

test("trials are aligned, sorted and lead to their moment; the file has what is shown", async ({ reached: { page, faults } }) => {
  const all = (await spikes(page)).filter(s => s[1] === 3);
  await go(page, "#v=trials&s=1&c=3");
  await expect(page.locator("nav a[aria-current]")).toHaveText("Trials");
  await expect(page.locator(".tr-spikes .note")).toContainText(/(79|80) trials/);
  const file = async name => {
    await page.getByRole("button", { name: "Export what is shown" }).click();
    const [taken] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name, exact: true }).click()]);
    await page.keyboard.press("Escape");
    return readFileSync(await taken.path(), "utf8").trim().split("\n").filter(l => !l.startsWith("#")).slice(1).map(l => l.split(",").map(Number));
  };
  const trials = await file("trials, CSV"), psth = await file("PSTH, CSV");
  const near = (at, from, to) => all.filter(s => Math.round((s[0] - at) * 1e5) >= Math.round(from * 1e5) && Math.round((s[0] - at) * 1e5) < Math.round(to * 1e5)).length;
  // What comes before its start is of another trial: it counts nowhere, and its bins have no trial.
  for (const [at, n] of trials) expect(n).toBe(near(at, 0, 1));
  for (const [t, rate, , behind] of psth) {
    expect(behind).toBe(t < -1e-9 ? 0 : trials.length);
    if (behind > 0) expect(rate).toBeCloseTo(trials.reduce((sum, [at]) => sum + near(at, t, t + 0.05), 0) / trials.length / 0.05, 6);
  }
  await expect(page.locator(".tr-spikes .dim")).toContainText(`hatched: beyond the own trial of ${trials.length}`);
  await page.getByLabel("sort by").selectOption("spikes");
  const most = (await file("trials, CSV")).map(r => r[1]);
  expect(most).toEqual([...most].sort((a, b) => b - a));
  await page.getByLabel("align to").selectOption("stops");
  // The menu of exports gives the focus back when it closes, which may be while a number is typed.
  const set = (label, value, seen) => expect(async () => {
    await page.getByLabel(label).fill(value);
    await page.getByLabel(label).press("Enter");
    await seen({ timeout: 3000 });
  }).toPass();
  const address = part => limit => expect.poll(() => page.evaluate(() => location.hash), limit).toContain(part);
  await set("to, s", "0.3", address("tr=stops,-0.5,0.3,"));
  await expect.poll(async () => (await file("trials, CSV"))[0][0] > 0).toBe(true);
  await set("bin, s", "0.07", limit => expect(page.getByRole("alert")).toContainText("expected a whole number of bins", limit));
  faults.length = 0; // The browser says on its console that a request was refused.
  await set("bin, s", "0.05", limit => expect(page.getByRole("alert")).toHaveCount(0, limit));
  await page.locator(".tr-spikes canvas").click({ position: { x: 200, y: 60 } });
  await expect(page.locator("nav a[aria-current]")).toHaveText("Recording");
  await expect.poll(() => page.evaluate(() => location.hash)).toContain("w=0.8");
  expect(faults).toEqual([]);
});

live("a session has trials of its last minute, a range, and the line in the latency", async ({ page }) => {
  const rig = await start("--channels", "32", "--control");
  await page.goto(rig.url);
  await known(page, 6);
  await page.keyboard.press("m");
  await page.locator(".naming input").press("Escape");
  await expect(page.locator(".naming")).toHaveCount(0);
  await known(page, 8);
  await page.keyboard.press("g");
  await expect(page.locator(".range.panel")).toContainText("spikes/s of all channels");
  const [text, from, to] = await page.evaluate(async () => { const [from, to] = new URLSearchParams(location.hash.slice(1)).get("sel")?.split(",").map(Number) ?? [0, 0]; return [document.querySelector(".range.panel .sum b").textContent, from, to]; });
  const n = await page.evaluate(([a, b]) => { const s = globalThis.betz.store; let n = 0; for (let i = 0; i < s.spikes; i++) if (s.tick[i] >= Math.ceil(a / 0.001 - 1e-6) && s.tick[i] < Math.ceil(b / 0.001 - 1e-6)) n += s.weight[i]; return n; }, [from, to]);
  expect(Number(text.replaceAll(",", ""))).toBe(n);
  await page.evaluate(() => { location.hash = "#v=trials&tr=marks,-0.5,0.5,0.05"; });
  await expect(page.locator(".tr-spikes .note")).toContainText("1 trial of the last minute");
  await rig.stop();
});
