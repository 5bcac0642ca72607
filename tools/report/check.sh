#!/bin/sh
# Makes a small report page with bin/generate and tries it in headless Chromium (CHROMIUM, default /usr/bin/chromium).
# playwright-core, which drives it, is fetched once into build/page.
set -eu
cd "$(dirname "$0")/../.."

out=build/page
model=models/needle-qwen2
mkdir -p "$out"
for tool in node npm "${CHROMIUM:-/usr/bin/chromium}"; do
	command -v "$tool" >/dev/null || { echo "page: $tool not found: install it, or name Chromium in CHROMIUM" >&2; exit 1; }
done
[ -d "$out/node_modules/playwright-core" ] || npm install --silent --no-save --prefix "$out" playwright-core@1.65.1

rm -f "$out/results.jsonl"
bin/generate evaluate --device cpu --tasks access_2 --length 300 --samples 4 --budget 16,32,64 --parents contiguous \
	-o "$out/results.jsonl" "$model" >/dev/null
bin/generate compare --device cpu --length 600 --codes 4 --budget 64 --seeds 3 --report "$out/page.html" \
	--results "$out/results.jsonl" "$model" >/dev/null
cp tools/report/screenshot.mjs "$out/"
node "$out/screenshot.mjs" "$out/page.html" "$out/page"
