#!/usr/bin/env bash
# Builds the runtime for a browser, and a page that steps a decoder with it: target/wasm/try.html, one file that needs no server.
# Where Node is, the models of the runtime's tests are stepped: the estimates have the bits of every other system.
#
# Rust's standard library is built from source, by Debian's rustc-web, cargo-web and rust-web-src; lld links (installed if
# they are missing and this is root).
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)

have() { [ -x /usr/bin/rustc ] && [ -x /usr/bin/cargo ] && [ -d /usr/lib/rustlib/src/rust/library ] && command -v wasm-ld >/dev/null; }
if ! have && [ "$(id -u)" = 0 ]; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends rustc-web cargo-web rust-web-src lld >/dev/null || true
fi
have || { echo "wasm: skipped: needs rustc-web, cargo-web, rust-web-src and lld"; exit 0; }

target=wasm32-unknown-unknown
RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_INCREMENTAL=0 CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld \
    /usr/bin/cargo build --quiet --locked --release -Zbuild-std=std,panic_abort --target "$target" \
    --target-dir "$root/target/portable"
wasm=$root/target/portable/$target/release/betz_wasm.wasm
out=$root/target/wasm
mkdir -p "$out"
python3 - page.html decoder.js "$wasm" reach.betz >"$out/try.html" <<'PYTHON'
import base64, pathlib, sys

page, script, wasm, model = (pathlib.Path(name) for name in sys.argv[1:])
text = page.read_text()
for mark, value in [
    ("/* decoder.js */", script.read_text().replace("export class", "class")),
    ("/* wasm */", base64.b64encode(wasm.read_bytes()).decode()),
    ("/* model */", base64.b64encode(model.read_bytes()).decode()),
]:
    if text.count(mark) != 1:
        sys.exit(f"{page}: expected one {mark}, got {text.count(mark)}")
    text = text.replace(mark, value)
print(text, end="")
PYTHON
if command -v node >/dev/null; then
    node check.mjs "$wasm"
else
    echo "wasm: not stepped: no Node"
fi
echo "wasm: $(stat -c %s "$wasm") bytes; $out/try.html"
