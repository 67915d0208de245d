// A network that grows, on the page. The server's network is complete: what says that it grows is put into its answers.
import { expect, shown as test } from "./rig.mjs";

/** Marks network 0 as one that grows, with another version at each question while `versions` lasts; returns what the page asked for. */
async function grows(page, versions) {
  const asked = { changes: [], edges: new Set() };
  let version = 1;
  await page.route("**/api/networks", async route => {
    const answer = await route.fetch(), body = await answer.json();
    body.networks[0].live = true;
    await route.fulfill({ response: answer, json: body });
  });
  await page.route(/\/api\/network\/0(\?since=\d+)?$/, async route => {
    const since = Number(new URL(route.request().url()).searchParams.get("since") ?? 0);
    if (since === version && version === versions) { await route.fulfill({ json: null }); return; }
    if (since === version) version++;
    const answer = await route.fetch(), body = await answer.json();
    body.live = { version, rows: 1000 * version, lost: 3, total: 40 + version, skipped: 2, ended: false, changes: true, sample_seconds: body.window_seconds / body.window, threshold: 0.3 };
    await route.fulfill({ response: answer, json: body });
  });
  await page.route("**/api/network/0/change", async route => {
    asked.changes.push(JSON.parse(route.request().postData()));
    if (asked.changes.length === 1) await route.fulfill({ json: {} }); else await route.fulfill({ status: 409, body: "threshold of pearson: expected 0 to 1, got 7" });
  });
  page.on("request", r => { const at = new URL(r.url()); if (at.pathname.endsWith("/network/0/edges")) asked.edges.add(at.searchParams.get("version")); });
  await page.evaluate(() => { location.hash = "#v=networks"; });
  await page.waitForFunction(() => globalThis.betzNet?.net.first.value?.info.live);
  return asked;
}
const at = page => page.evaluate(() => { const n = globalThis.betzNet.net, l = n.first.value; return [n.windowOf(l) - l.info.windows, l.info.live.version, n.edgesOf(l) !== null]; });

test("the newest window is followed, an earlier one stays, and windows come with their edges", async ({ looked: { page, faults } }) => {
  const asked = await grows(page, 4);
  // The recording beside it has a moment, which is looked at first.
  await page.getByRole("button", { name: "follow the newest" }).click();
  await expect.poll(() => at(page)).toEqual([-1, 4, true]);
  expect([...asked.edges]).toContain("4");
  await expect(page.locator(".growth")).toContainText("live: 44 windows of 4,000 rows, 3 lost, 2 skipped");
  await page.getByRole("button", { name: "Previous window" }).click();
  await expect.poll(() => at(page)).toEqual([-2, 4, true]);
  await page.getByRole("button", { name: "follow the newest" }).click();
  await expect.poll(() => at(page)).toEqual([-1, 4, true]);
  await expect(page.getByRole("button", { name: "follow the newest" })).toHaveCount(0);
  expect(faults).toEqual([]);
});

test("window and threshold change, and a refusal is told", async ({ looked: { page } }) => {
  const asked = await grows(page, 2);
  const step = await page.evaluate(() => { const l = globalThis.betzNet.net.first.value.info; return l.window_seconds / l.window; });
  const form = page.locator(".growth form");
  await form.getByLabel("window, s").fill(String(40 * step));
  await form.getByLabel("least size").fill("0.5");
  await form.getByRole("button", { name: "apply" }).click();
  await expect.poll(() => asked.changes).toEqual([{ window: 40, threshold: 0.5 }]);
  await form.getByLabel("least size").fill("7");
  await form.getByRole("button", { name: "apply" }).click();
  await expect(page.getByRole("alert")).toHaveText("threshold of pearson: expected 0 to 1, got 7");
});
