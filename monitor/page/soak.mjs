// A session under the hammer: node soak.mjs [MINUTES]. Runs `betz run --simulate --page` (BETZ_PROGRAM: its path) with one
// page that stays open, one that is reloaded in another view, and one that is closed and opened again, every ten seconds
// in turn. Prints a line per minute. Fails if steps never reached the open page, if its heap grows, or if the server's
// memory grows by more than the frames that it keeps around missed deadlines (up to 64 MiB).
import { readFileSync } from "node:fs";
import { loadavg } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "@playwright/test";
import { run } from "./e2e/rig.mjs";

const minutes = Number(process.argv[2] ?? 60);
if (!(minutes >= 2)) { console.error(`expected at least 2 minutes, got ${process.argv[2]}`); process.exit(2); }
const VIEWS = ["live", "channels", "networks", "model", "trials"], TURN_MS = 10_000, FILL_MINUTES = 2, GROWTH = 0.1;
const program = process.env.BETZ_PROGRAM ?? join(dirname(fileURLToPath(import.meta.url)), "../../target/debug/betz");
// One arena of glibc that gives freed memory back: what is read is then what the program holds.
Object.assign(process.env, { MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "131072", MALLOC_MMAP_THRESHOLD_: "131072" });
const rig = await run(program, ["run", "--simulate", "--page", "--no-open", "--set", "outputs.deadline=\"20 ms\""]);
const browser = await chromium.launch({ executablePath: process.env.BETZ_CHROMIUM ?? "/usr/bin/chromium", args: ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"] });
const faults = [], open = async () => {
  const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
  page.on("pageerror", e => faults.push(e.message));
  await page.goto(rig.url);
  return page;
};
const close = page => page.context().close();
const stays = await open(), reloads = await open(), session = await stays.context().newCDPSession(stays);
let comes = await open(), turn = 0;

/** Memory in MB and counts at this moment. */
async function reading() {
  for (let k = 0; k < 3; k++) await session.send("HeapProfiler.collectGarbage");
  const { usedSize, backingStorageSize } = await session.send("Runtime.getHeapUsage");
  const status = readFileSync(`/proc/${rig.pid}/status`, "utf8");
  const metrics = await stays.evaluate(() => fetch("/metrics").then(r => r.text())), metric = name => Number(new RegExp(`^${name} (\\d+)`, "m").exec(metrics)[1]) / 2 ** 20;
  const counted = await stays.evaluate(() => { const { store, link } = globalThis.betz; return { steps: store.counters?.steps ?? 0, misses: store.counters?.misses ?? 0, notShown: store.counters?.notShown ?? 0, skipped: link?.skipped ?? 0 }; });
  // Without pages of the program's file, which come and go with what else the machine runs.
  const resident = Number(/RssAnon:\s+(\d+)/.exec(status)[1]) / 1024, kept = metric("betz_monitor_history_bytes") + metric("betz_monitor_moments_bytes");
  return { heap: (usedSize + backingStorageSize) / 2 ** 20, resident, kept, besides: resident - kept, ...counted };
}

const all = [], began = Date.now();
await stays.waitForFunction(() => globalThis.betz?.store?.counters);
for (let minute = 1; minute <= minutes; minute++) {
  while (Date.now() - began < minute * 60_000) {
    turn++;
    await reloads.evaluate(v => { location.hash = `v=${v}`; }, VIEWS[turn % VIEWS.length]);
    await reloads.reload();
    await close(comes);
    comes = await open();
    await new Promise(done => setTimeout(done, TURN_MS));
  }
  const now = await reading();
  all.push(now);
  console.log(`${String(minute).padStart(3)} min  heap ${now.heap.toFixed(1)} MB  server ${now.resident.toFixed(1)} MB, of which frames ${now.kept.toFixed(1)}  ${now.steps} steps  ${now.misses} misses  ${now.notShown} not shown  ${now.skipped} skipped  ${turn} turns  load ${loadavg()[0].toFixed(1)}`);
}
const kept = all.slice(FILL_MINUTES), range = key => [Math.min(...kept.map(r => r[key])), Math.max(...kept.map(r => r[key]))], last = all.at(-1);
const words = key => range(key).map(v => v.toFixed(1)).join(" to ");
console.log(`after ${FILL_MINUTES} minutes: heap ${words("heap")} MB, server ${words("resident")} MB, without the frames that it keeps ${words("besides")} MB; ${last.misses} misses of ${last.steps} steps, ${last.notShown} not shown, ${last.skipped} skipped; ${turn} reloads and new pages; ${faults.length} errors ${faults.slice(0, 3).join("; ")}`);
const grows = key => kept.length > 1 && kept.at(-1)[key] > kept[0][key] * (1 + GROWTH);
if (grows("heap") || grows("besides") || last.notShown > 0 || faults.length > 0) process.exitCode = 1;
await browser.close();
await rig.stop();
process.exit();
