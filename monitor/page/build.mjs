// Sources to dist/: the same bytes from the same sources. Plain text, so that git keeps differences.
import { build, context } from "esbuild";
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

process.chdir(dirname(fileURLToPath(import.meta.url)));
/** Of what the first view loads; of what another view loads besides. */
const BUDGET = { first: 73_000, more: 70_000, minified: 340_000 };
const options = {
  absWorkingDir: process.cwd(),
  entryPoints: { app: "src/app.tsx", more: "src/more.ts" }, outdir: "dist", bundle: true, minify: true, format: "esm", target: "es2022",
  // What both scripts need is a third; there is but one such, so its name says enough.
  splitting: true, chunkNames: "shared",
  // Calls of a function, whose arguments are the children: two thousand bytes fewer than objects with their list.
  tsconfigRaw: { compilerOptions: { target: "es2022", jsx: "react", jsxFactory: "jsxElement", jsxFragmentFactory: "jsxFragment" } }, inject: ["src/jsx.ts"], legalComments: "eof", logLevel: "warning", charset: "utf8",
};
// The packages carry their licences in files, not in comments that a minifier keeps.
const NOTICE = "/*! Preact and @preact/signals, MIT licence, Copyright (c) 2015-present Jason Miller and the Preact team */\n";

rmSync("dist", { recursive: true, force: true });
mkdirSync("dist");
copyFileSync("src/index.html", "dist/index.html");
// A script that others do not import: it runs before they are there.
const begin = { ...options, entryPoints: { begin: "src/begin.ts" }, format: "iife", splitting: false, inject: [] };
if (process.argv.includes("--watch")) {
  await (await context({ ...begin, sourcemap: "inline" })).watch();
  await (await context({ ...options, sourcemap: "inline" })).watch();
} else {
  await build(options);
  await build(begin);
  writeFileSync("dist/app.js", readFileSync("dist/app.js", "utf8").trimEnd() + "\n" + NOTICE);
  let minified = 0;
  const sum = { first: 0, more: 0 };
  for (const [name, when] of [["index.html", "first"], ["begin.js", "first"], ["app.js", "first"], ["shared.js", "first"], ["app.css", "first"], ["more.js", "more"]]) {
    const bytes = readFileSync(`dist/${name}`), small = gzipSync(bytes, { level: 9 }).length;
    minified += bytes.length; sum[when] += small;
    console.log(`${name.padEnd(12)} ${String(bytes.length).padStart(7)}  ${String(small).padStart(6)} compressed`);
  }
  console.log(`${"all".padEnd(12)} ${String(minified).padStart(7)}  ${String(sum.first).padStart(6)} compressed at first, ${sum.more} with the views of more.js`);
  if (minified > BUDGET.minified || sum.first > BUDGET.first || sum.more > BUDGET.more) {
    console.error(`over the budget of ${BUDGET.minified} bytes, ${BUDGET.first} compressed at first, ${BUDGET.more} for more`);
    process.exit(1);
  }
}
