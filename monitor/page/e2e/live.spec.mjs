import { readFileSync } from "node:fs";
import { expect, findings, ink, known, start, test } from "./rig.mjs";

test("draws spikes, lines and numbers, without a word and asking nobody else", async ({ watched: { page, faults } }) => {
  await known(page, 3);
  await expect(page.getByRole("status").first()).toHaveText(/live|behind/);
  // 192 channels at about 20 spikes a second: not nothing, not a black square.
  await expect.poll(() => ink(page)).toBeGreaterThan(0.02);
  expect(await ink(page)).toBeLessThan(0.6);
  await expect(page.locator(".truth")).toContainText("step");
  const r2 = await page.waitForFunction(() => { const r = globalThis.betz.slowly.r2; return r.length === 2 && r.every(v => v > 0.5) ? r : null; });
  expect(await r2.jsonValue()).toHaveLength(2);
  expect(page.url()).not.toContain("token");
  expect(faults).toEqual([]);
});

test("the page's policy forbids what is not its own", async ({ watched: { page, faults } }) => {
  await page.evaluate(() => { const s = document.createElement("script"); s.textContent = "globalThis.taken = 1"; document.body.append(s); });
  expect(await page.evaluate(() => globalThis.taken)).toBeUndefined();
  expect(faults.join()).toMatch(/Content Security Policy/);
});

test("everything by the keyboard, and the address says it", async ({ watched: { page } }) => {
  await known(page, 3);
  await page.keyboard.press("Space");
  await expect(page.getByRole("status").first()).toHaveText("paused");
  const at = () => page.evaluate(() => Number(new URLSearchParams(location.hash.slice(1)).get("t")));
  await expect.poll(at).toBeGreaterThan(0);
  await page.keyboard.press("+");
  await expect.poll(() => page.evaluate(() => location.hash)).toContain("w=5");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await expect(page.locator(".picked")).toContainText("ch1");
  await expect(page.locator("[aria-live=polite]").last()).toContainText("channel ch1");
  await page.keyboard.press("o");
  await expect(page.getByLabel("order")).toHaveValue("rate");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("status").first()).toHaveText(/live|behind/);
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog")).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toBeHidden();
  await page.keyboard.press("4");
  await expect(page.locator("nav a[aria-current]")).toHaveText("Networks");
});

test("shortcuts can be switched off, and Escape still leads out", async ({ watched: { page } }) => {
  await known(page, 1);
  await page.keyboard.press("?");
  await page.getByLabel("no shortcuts").check();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toBeHidden();
  // A letter that does something otherwise, and one that is typed into a field.
  await page.keyboard.press("4");
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog")).toBeHidden();
  await expect(page.locator("nav a[aria-current]")).toHaveText("Live");
  await page.getByRole("button", { name: "Keys" }).click();
  await page.getByLabel("no shortcuts").uncheck();
  await page.keyboard.press("Escape");
  await page.keyboard.press("2");
  await expect(page.locator("nav a[aria-current]")).toHaveText("Channels");
  await page.getByLabel("Find a channel").fill("4");
  await page.getByLabel("Find a channel").press("4");
  await expect(page.locator("nav a[aria-current]")).toHaveText("Channels");
});

test.describe("episodes", () => {
  test.use({ args: ["--channels", "64", "--episodes"] });
  test("are counted beside a session, and lead to their view", async ({ watched: { page, faults } }) => {
    await known(page, 3);
    const panel = page.locator(".panel.counted"), rows = panel.locator("tbody tr");
    await expect(panel).toContainText("the 3 most frequent of 20");
    await expect(rows).toHaveCount(3);
    // All counts of the same moment: they grow, and between two readings a lesser one may overtake.
    const counts = () => rows.evaluateAll(all => all.map(r => Number(r.querySelector("td").textContent.replaceAll(",", "")))), before = await counts();
    expect(before[0]).toBeGreaterThan(0);
    expect(before).toEqual(before.toSorted((a, b) => b - a));
    await expect.poll(async () => (await counts())[0]).toBeGreaterThan(before[0]);
    expect(await findings(page)).toEqual([]);
    // Its name is read as it is pressed: another may be the first a moment later.
    const name = await rows.first().locator("button").evaluate(b => { b.click(); return b.textContent; });
    await expect(page.locator("nav a[aria-current]")).toHaveText("Episodes");
    await expect(page.locator(".ep-list tr.on th")).toHaveText(name);
    expect(faults).toEqual([]);
  });
});

test("correlations of the session's last minute, on the session's clock", async ({ watched: { page, faults } }) => {
  await known(page, 6);
  await page.evaluate(() => { location.hash = "#v=networks"; });
  await page.getByText("compute from the session", { exact: true }).click();
  await page.getByLabel("window, s").fill("2");
  await page.getByLabel("step, s").fill("1");
  await page.getByRole("button", { name: "compute" }).click();
  await page.waitForFunction(() => { const l = globalThis.betzNet?.net.first.value; return l && l.info.nodes === 192 && l.info.windows > 2 && globalThis.betzNet.net.edgesOf(l) !== null; });
  await expect(page.locator("canvas.net")).toBeVisible();
  expect(faults).toEqual([]);
});

test("a link to a moment shows it", async ({ page, rig }) => {
  await page.goto(rig.url);
  await known(page, 3);
  await page.goto(`http://127.0.0.1:${rig.port}/#w=2&t=2.5&ch=10-19&o=rate`);
  await page.reload();
  await known(page, 3);
  await expect(page.locator(".clock")).toHaveText("0:02.5");
  await expect(page.locator(".raster .note")).toContainText("10 of 192 channels");
});

test("lines are read by the arrow keys, in words", async ({ watched: { page } }) => {
  await known(page, 6);
  await page.evaluate(() => { location.hash = "#v=live&t=5&w=4"; });
  await expect(page.locator(".clock")).toHaveText("0:05.0");
  const plot = page.locator(".plot").first(), read = page.locator(".read").first(), t = () => page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get("t"));
  await plot.focus();
  await page.keyboard.press("ArrowRight");
  await expect(read).toHaveText(/^[1-5]\.\d{3} s: -?[\d.e-]+/);
  const first = await read.innerText();
  await expect(page.locator("[aria-live=polite]").last()).toContainText(first.slice(0, 6));
  await page.keyboard.press("Shift+ArrowRight");
  await expect.poll(async () => Number.parseFloat(await read.innerText())).toBeGreaterThan(Number.parseFloat(first) + 0.3);
  // What is read is what is drawn: the value that was decoded there, between the least and the most of a column.
  const [at, value] = /^([\d.]+) s: (\S+?),?(?: |$)/.exec(await read.innerText()).slice(1).map(Number);
  const near = await page.evaluate(a => { const s = globalThis.betz.store, o = s.shape.outputs, all = []; for (let i = 0; i < s.rows; i++) if (Math.abs(s.seconds_(s.rowTick[i]) - a) < 0.03) all.push(s.estimate[i * o]); return [Math.min(...all), Math.max(...all)]; }, at);
  expect(value).toBeGreaterThanOrEqual(near[0] - 1e-3 * Math.abs(near[0]) - 1e-6);
  expect(value).toBeLessThanOrEqual(near[1] + 1e-3 * Math.abs(near[1]) + 1e-6);
  expect(await t()).toBe("5");
  await page.keyboard.press("Escape");
  await expect(read).toHaveText("");
});

test("lost, it says so and comes back by itself", async ({ page }) => {
  let rig = await start("--channels", "64");
  await page.goto(rig.url);
  await known(page, 1);
  await rig.stop();
  await expect(page.getByRole("status").first()).toHaveText("no answer from the server");
  await expect(page.locator(".content.lost")).toBeVisible();
  await expect(page).toHaveTitle(/^lost at 0:\d\d\.\d · a made-up session$/);
  // Another program at the same address has another token: the page stays lost rather than showing it.
  rig = await start("--channels", "64", "--port", rig.port);
  await expect(page.getByRole("status").first()).toHaveText("another server runs here: open the address it printed");
  await page.goto(rig.url);
  await known(page, 0.5);
  await expect(page.getByRole("status").first()).toHaveText(/live|behind/);
  await rig.stop();
});

test.describe("labels, targets and trials that a session hears", () => {
  test.use({ args: ["--channels", "64", "--notes"] });
  test("the true outputs are drawn at their steps, and the target in the plane", async ({ watched: { page, faults } }) => {
    await known(page, 4);
    await page.keyboard.press("Space");
    // Every label that the server keeps is the truth of its step.
    const odd = await page.evaluate(async () => {
      const s = globalThis.betz.store, all = await (await fetch("/api/events")).json(), rows = new Map(all.findLast(e => e.type === "labels").rows), found = { rows: 0, other: 0 };
      for (let i = 0; i < s.rows; i++) {
        const values = rows.get(s.rowTick[i]);
        if (!values || Number.isNaN(s.truth[2 * i])) continue;
        found.rows++;
        if (Math.abs(values[0] - s.truth[2 * i]) > 1e-3 || Math.abs(values[1] - s.truth[2 * i + 1]) > 1e-3) found.other++;
      }
      return found;
    });
    expect(odd.rows).toBeGreaterThan(2000);
    expect(odd.other).toBe(0);
    await expect(page.locator(".r2").first()).toHaveText(/^R² 0\.\d\d, ± /);
    await expect(page.locator(".plane figcaption")).toContainText("□ target");
    expect(await page.evaluate(() => { const s = globalThis.betz.store; return [s.targetAt(500), s.targetAt(1500), s.trials.slice(0, 3)]; })).toEqual([[200, 100], [-200, 100], [0, 1000, 2000]]);
    // The square has the ink of what is aimed at.
    const square = () => page.evaluate(() => { const c = document.querySelector(".plane canvas"), probe = document.createElement("i"); probe.style.color = "var(--good)"; document.body.append(probe); const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; probe.remove(); let n = 0; for (let i = 0; i < d.length; i += 4) if (Math.abs(d[i] - r) + Math.abs(d[i + 1] - g) + Math.abs(d[i + 2] - b) < 30 && d[i + 3] > 200) n++; return n; });
    await expect.poll(square).toBeGreaterThan(60);
    await page.evaluate(() => { location.hash = "#v=trials&tr=starts,-0.3,0.3,0.05"; });
    await expect(page.locator(".tr-spikes .note")).toContainText(/\d trials of the last minute/);
    expect(faults).toEqual([]);
  });
});

test.describe("misses", () => {
  // With the default deadline of 0.5 ms a busy machine misses so many that there is no time between them.
  test.use({ args: ["--channels", "64", "--slow-every", "1700", "--deadline", "100000"] });
  test("each is listed, and goes to what was around it", async ({ watched: { page } }) => {
    await known(page, 3);
    const listed = page.locator(".misses button");
    await expect(listed.first()).toBeVisible();
    await expect(page.locator(".truth .bad")).toContainText("▲");
    // By the keyboard: the list moves with every miss, and a pointer may find another there.
    await listed.first().press("Enter");
    await expect(page.getByRole("status").first()).toHaveText("paused");
  });

  test("what lay round one is shown when the last minute has it no longer", async ({ watched: { page, faults }, context }) => {
    await known(page, 4);
    const tick = await page.waitForFunction(() => globalThis.betz.store.misses.find(m => m.tick > 1000)?.tick).then(t => t.jsonValue());
    const spikes = () => page.evaluate(t => { const s = globalThis.betz.store; let n = 0; for (let i = 0; i < s.spikes; i++) if (Math.abs(s.tick[i] - t) < 400) n++; return n; }, tick);
    const before = await spikes();
    expect(before).toBeGreaterThan(100);
    // The page forgets, as it does after a minute; the server has kept what lay around.
    await page.evaluate(t => { const s = globalThis.betz.store; s.first = t + 700; s.spikes = 0; }, tick);
    await page.evaluate(t => { location.hash = `#v=live&w=1&t=${(t + 500) / 1000}`; }, tick);
    await page.waitForFunction(() => globalThis.betz.shown !== globalThis.betz.store);
    const kept = await page.evaluate(t => { const s = globalThis.betz.shown; let n = 0; for (let i = 0; i < s.spikes; i++) if (Math.abs(s.tick[i] - t) < 400) n++; return { n, first: s.first, end: s.end }; }, tick);
    expect(kept.n).toBe(before);
    expect(kept.first).toBeLessThanOrEqual(tick - 500);
    expect(kept.end).toBeGreaterThan(tick + 500);
    await expect(page.locator(".raster .note")).toContainText("kept because a deadline was missed");
    await expect.poll(() => ink(page)).toBeGreaterThan(0.01);
    // To what the last minute has, and to the same moment again.
    await page.evaluate(() => { const s = globalThis.betz.store; location.hash = `#v=live&w=1&t=${s.end / 1000}`; });
    await page.waitForFunction(() => globalThis.betz.shown === globalThis.betz.store);
    await page.evaluate(t => { const s = globalThis.betz.store; s.first = t + 700; s.spikes = 0; location.hash = `#v=live&w=1&t=${(t + 500) / 1000}`; }, tick);
    await page.waitForFunction(() => globalThis.betz.shown !== globalThis.betz.store);
    // Where there was no miss nothing was kept, and that is said. What is kept ends with a whole frame: a view that begins there still has spikes.
    const empty = await page.evaluate(async t => {
      const { moments } = await (await fetch("/api/misses")).json(), { first, end } = globalThis.betz.shown;
      for (let at = t + 690; at > 60; at -= 20) if (!moments.some(m => m.from <= at && at < m.to) && (at + 10 <= first || at - 10 >= end)) return at;
      return null;
    }, tick);
    expect(empty).not.toBeNull();
    await page.evaluate(t => { location.hash = `#v=live&w=0.02&t=${(t + 10) / 1000}`; }, empty);
    await expect(page.locator(".raster .note")).toContainText("this time is no longer stored");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => globalThis.betz.shown === globalThis.betz.store);
    await expect(page.getByRole("status").first()).toHaveText(/live|behind/);
    // A page that comes later knows of them, too, and the key leads from one to the next.
    const other = await context.newPage();
    await other.goto(page.url());
    await known(other, 1);
    await other.waitForFunction(t => globalThis.betz.store.misses.some(m => m.tick === t), tick);
    await other.close();
    expect(faults).toEqual([]);
  });
});

test("what is decoded is the largest panel; latency opens to its histogram; the band says model, margin and trend", async ({ watched: { page, faults } }) => {
  await known(page, 4);
  const area = name => page.locator(`.panel.${name}`).evaluate(e => e.clientWidth * e.clientHeight);
  for (const size of [{ width: 1440, height: 900 }, { width: 1920, height: 1080 }, { width: 390, height: 844 }]) {
    await page.setViewportSize(size);
    const outputs = await area("outputs");
    for (const other of ["raster", "latency", "timeline"]) expect(outputs, `${other} at ${size.width}`).toBeGreaterThan(await area(other));
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBe(0);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  const band = page.locator(".truth");
  for (const words of ["model", "masked", "R²", "margin", "wall time"]) await expect(band).toContainText(words);
  await expect(page.locator(".histogram")).toHaveCount(0);
  await page.getByRole("button", { name: "histogram" }).click();
  await expect(page.locator(".histogram")).toBeVisible();
  await expect.poll(() => page.evaluate(() => { const c = document.querySelector(".histogram"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 3; i < d.length; i += 4) if (d[i] > 0) n++; return n; })).toBeGreaterThan(500);
  expect(await findings(page)).toEqual([]);
  await page.getByRole("button", { name: "less" }).click();
  await expect(page.locator(".histogram")).toHaveCount(0);
  expect(faults.filter(f => !f.includes("willReadFrequently"))).toEqual([]);
});

test("a hole is hatched and said", async ({ watched: { page } }) => {
  await known(page, 6);
  await page.keyboard.press("Space");
  await expect(page.getByRole("status").first()).toHaveText("paused");
  const before = await ink(page);
  await page.evaluate(() => { const s = globalThis.betz.store; s.holes = [{ from: s.first, to: s.end, fillable: false }]; s.version++; });
  await expect(page.locator(".raster .note")).toContainText("not shown");
  await expect.poll(() => ink(page)).toBeGreaterThan(before + 0.03);
});

test("without a token there is nothing", async ({ page, rig }) => {
  const answer = await page.goto(`http://127.0.0.1:${rig.port}/`);
  expect(answer.status()).toBe(401);
  expect(await page.content()).toContain("expected the token");
});

test("without motion it sweeps", async ({ page, rig }) => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.goto(rig.url);
  await known(page, 2);
  await expect.poll(() => ink(page)).toBeGreaterThan(0.01);
});

test("a channel that is picked is described: intervals, autocorrelogram, rate, tuning, weights by filter", async ({ watched: { page, faults } }) => {
  await known(page, 6);
  await page.evaluate(() => { location.hash = "#v=channels"; });
  await expect(page.locator(".inspector")).toHaveCount(0);
  await page.locator(".panel.table tbody tr").nth(3).getByRole("button").click();
  const panel = page.locator(".inspector");
  await expect(panel.getByRole("heading")).toHaveText("ch3");
  await expect(panel.locator("figure")).toHaveCount(4);
  await expect(panel.locator("figcaption")).toContainText([/^intervals/, "autocorrelogram", "rate", "tuning to the true (vx, vy)"]);
  await expect(panel.locator("tbody tr").first()).toContainText("τ");
  // The number of spikes is that of a plain loop over what the page has.
  await page.keyboard.press("Space");
  await expect.poll(() => page.evaluate(() => {
    const s = globalThis.betz.store, note = document.querySelector(".inspector .note").textContent, [n, from, to] = /^([\d,]+) spikes · 0:([\d.]+) to 0:([\d.]+)/.exec(note).slice(1).map(v => Number(v.replace(",", "")));
    let count = 0;
    for (let i = 0; i < s.spikes; i++) { const t = s.seconds_(s.tick[i]); if (s.channel[i] === 3 && t >= from && t < to) count++; }
    // Times in the note are rounded to a tenth of a second.
    return Math.abs(count - n) <= 6 && n > 50;
  })).toBe(true);
  expect(await findings(page)).toEqual([]);
  await panel.getByRole("button", { name: "close" }).click();
  await expect(panel).toHaveCount(0);
  expect(faults).toEqual([]);
});

test.describe("misses of a session that has ended", () => {
  test.use({ args: ["--channels", "64", "--slow-every", "1700", "--seconds", "9", "--stay"] });
  test("an incident is shown half a second around it, with a line, the next and a file", async ({ watched: { page, faults } }) => {
    // The session has ended, so nothing moves: neither a busy machine's misses nor steps that reach the page late.
    await expect(page.getByRole("status").first()).toHaveText("session stopped");
    await page.reload();
    await page.locator(".misses button").first().press("Enter");
    const bar = page.locator(".incident"), tick = async () => { const [minutes, seconds] = (await bar.locator("b").textContent()).split(":"); return Math.round((Number(minutes) * 60 + Number(seconds)) * 1000); };
    await expect(bar).toContainText("deadline missed: the step took");
    await expect.poll(() => page.evaluate(() => location.hash)).toContain("w=1");
    // A busy machine misses more deadlines than it is asked to: go back to one with half a second of data on both sides.
    const end = await page.evaluate(() => globalThis.betz.store.end);
    while (await tick() > end - 600 || !(await bar.textContent()).includes("deadline missed")) {
      const before = await bar.textContent();
      await page.keyboard.press("p");
      await expect(bar).not.toHaveText(before);
    }
    // The line stands at the missed step: in the middle of the window.
    await expect.poll(() => page.locator(".hand .at").evaluate(e => Math.abs((e.getBoundingClientRect().left - e.parentElement.getBoundingClientRect().left) / e.parentElement.getBoundingClientRect().width - 0.5))).toBeLessThan(0.01);
    const here = await tick();
    await expect.poll(() => page.evaluate(() => Number(new URLSearchParams(location.hash.slice(1)).get("t")))).toBeCloseTo(here / 1000 + 0.5, 2);
    const words = await bar.textContent(), number = text => Number(/([\d,]+) of/.exec(text)[1].replace(/,/g, ""));
    expect(await page.evaluate(() => globalThis.betz.store.misses.map(m => m.tick))).toContain(here);
    await page.keyboard.press("p");
    await expect.poll(async () => number(await bar.textContent())).toBe(number(words) - 1);
    expect(await tick()).toBeLessThan(here);
    await bar.getByRole("button", { name: "next" }).click();
    await expect(bar).toHaveText(words);
    expect(await tick()).toBe(here);
    expect(await findings(page)).toEqual([]);
    await bar.getByRole("button", { name: "export" }).click();
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "snapshot, HTML" }).click();
    const file = await saved, text = readFileSync(await file.path(), "utf8");
    expect(file.suggestedFilename()).toMatch(/\.html$/);
    expect(text).toContain("deadline missed: the step took");
    expect(text).toMatch(/<svg .*<\/svg>/s);
    expect(text).not.toMatch(/<script|src=|href="http|token/);
    expect(faults).toEqual([]);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await expect(bar).toBeHidden();
  });
});
