// Sources to dist/: the same bytes from the same sources. Plain text, so that git keeps differences.
import { build, context } from "esbuild";
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

process.chdir(dirname(fileURLToPath(import.meta.url)));
const BUDGET = { minified: 200_000, compressed: 70_000 };
const options = {
  absWorkingDir: process.cwd(),
  entryPoints: { app: "src/app.tsx" }, outdir: "dist", bundle: true, minify: true, format: "esm", target: "es2022",
  jsx: "automatic", jsxImportSource: "preact", legalComments: "eof", logLevel: "warning", charset: "utf8",
};
// The packages carry their licences in files, not in comments that a minifier keeps.
const NOTICE = "/*! uPlot, MIT licence, Copyright (c) 2022 Leon Sorokin */\n/*! Preact and @preact/signals, MIT licence, Copyright (c) 2015-present Jason Miller and the Preact team */\n";

rmSync("dist", { recursive: true, force: true });
mkdirSync("dist");
copyFileSync("src/index.html", "dist/index.html");
if (process.argv.includes("--watch")) {
  await (await context({ ...options, sourcemap: "inline" })).watch();
} else {
  await build(options);
  writeFileSync("dist/app.js", readFileSync("dist/app.js", "utf8").trimEnd() + "\n" + NOTICE);
  let minified = 0, compressed = 0;
  for (const name of ["index.html", "app.js", "app.css"]) {
    const bytes = readFileSync(`dist/${name}`), small = gzipSync(bytes, { level: 9 }).length;
    minified += bytes.length; compressed += small;
    console.log(`${name.padEnd(12)} ${String(bytes.length).padStart(7)}  ${String(small).padStart(6)} compressed`);
  }
  console.log(`${"all".padEnd(12)} ${String(minified).padStart(7)}  ${String(compressed).padStart(6)} compressed`);
  if (minified > BUDGET.minified || compressed > BUDGET.compressed) {
    console.error(`over the budget of ${BUDGET.minified} bytes, ${BUDGET.compressed} compressed`);
    process.exit(1);
  }
}
