#!/bin/sh
# Looks for accesses out of bounds, races and reads of what nobody wrote in every kernel, on a machine with a GPU and no
# Go, from the repository's root:
#
#	go test -c -ldflags '-s -w' -o build/gpu/cuda.test ./cuda                             # here
#	tools/cuda/sanitize.sh [bounds|memcheck|racecheck|initcheck|synccheck] [cases]        # there
#
# bounds: kernels compiled with checks of their own, no tool; the others are tools of NVIDIA's compute-sanitizer, which
# $SANITIZER names (else the one in the path or the toolkit; that of CUDA 13.0 does not follow bar.arrive, the wheel
# nvidia-cuda-sanitizer-api 13.5 does). cases is a pattern of case names (default: all; for the last three tools all but the
# rules on draws, which launch a kernel thousands of times). $PARTS processes side by side take the cases of a type in turns
# (the GPU runs one at a time, so many do not help), for at most $LIMIT seconds. Logs are in $OUT, compiled kernels stay in
# build/gpu/cache for the next run. Names in $OUT, $BINARY and $SANITIZER are relative to the repository's root.
#
# Left out, since the tools cannot know better: races of moe's kernel up, whose warps wait for a word in shared memory, with
# fences on both sides; uninitialised reads of attend_merge, which asks for parts before it knows how many there are and
# drops those that are not.
set -eu
cd "$(dirname "$0")/../.."

tool=${1:-bounds}
cases=${2:-}
root=$PWD
from_root() { case $1 in /*) echo "$1" ;; *) echo "$root/$1" ;; esac }
out=$(from_root "${OUT:-build/gpu/out}")
binary=$(from_root "${BINARY:-build/gpu/cuda.test}")
parts=${PARTS:-4}
limit=${LIMIT:-300}
mkdir -p "$out" build/gpu/cache
rm -f "$out/$tool"-*.log # of an earlier run in more parts
[ -x "$binary" ] || { echo "$binary is missing: go test -c -o build/gpu/cuda.test ./cuda where Go is, or name it by BINARY" >&2; exit 1; }
export REQUIRE_CUDA=1 XDG_CACHE_HOME="${XDG_CACHE_HOME:-$root/build/gpu/cache}"

with=
skip=
case $tool in
bounds) suites='^TestCheckedSuite$/^F32$ ^TestCheckedSuite$/^BF16$' ;;
memcheck) suites='^TestSuite$/^F32_sync$ ^TestSuite$/^BF16_sync$' ;;
*)
	suites='^TestSuite$/^BF16_eager$'
	skip="-test.skip //^draws\$"
	;;
esac
if [ "$tool" != bounds ]; then
	with=${SANITIZER:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)}
	case $with in */*) with=$(from_root "$with") ;; esac
	command -v "$with" >/dev/null || { echo "$with is missing: name compute-sanitizer by SANITIZER" >&2; exit 1; }
	with="$with --tool $tool --error-exitcode 9 --print-limit 20 --show-backtrace no"
fi
case $tool in # tools cannot count a block's barriers where shared memory is sized at launch; no kernel has more than 64
racecheck) with="$with --num-cuda-barriers 64 --kernel-name-exclude kernel_name=up" ;;
synccheck) with="$with --num-cuda-barriers 64" ;;
initcheck) with="$with --kernel-name-exclude kernel_name=attend_merge" ;;
esac

cd cuda
start=$(date +%s)
for suite in $suites; do
	name=$tool-$(echo "$suite" | tr -dc 'A-Z0-9')
	for part in $(seq "$parts"); do
		(
			code=0
			# shellcheck disable=SC2086
			BLITZEN_TEST_PART=$part/$parts timeout -s INT -k 5 "$limit" $with "$binary" -test.v -test.run "$suite/$cases" $skip >"$out/$name-$part.log" 2>&1 || code=$?
			echo "exit $code" >>"$out/$name-$part.log"
		) &
	done
done
if [ "$tool" = bounds ]; then
	timeout "$limit" "$binary" -test.v -test.run '^TestOverrunIsNamed$' >"$out/bounds-planted.log" 2>&1 || echo "exit $?" >>"$out/bounds-planted.log"
fi
wait

cat "$out/$tool"-*.log >"$out/$tool.log"
grep -h -E '^ +--- FAIL' "$out/$tool.log" | head -n 40 || true
grep -h -A 6 -E '_test.go:|suite.go:' "$out/$tool.log" | grep -v -E '^ *---|^=== |^--' | cut -c 1-400 | head -n 60 || true
grep -h -A 4 -E '^=+ (Invalid|Error|Warning|Uninit|Barrier|Race|Program hit|Target)' "$out/$tool.log" | cut -c 1-240 | sort | uniq -c | sort -rn | head -n 60 || true
grep -h 'ERROR SUMMARY' "$out/$tool.log" | sort | uniq -c || true
failed=$(grep -c -E '^exit [1-9]' "$out/$tool.log" || true)
begun=$(grep -c -E '^=== RUN +Test(Checked)?Suite/[^/]+/' "$out/$tool.log" || true)
echo "$tool: $begun cases begun, $(grep -c -E '^ {8}--- PASS' "$out/$tool.log") passed, $(grep -c -E '^ {8}--- FAIL' "$out/$tool.log") failed, $failed processes failed, $(($(date +%s) - start)) s"
[ "$begun" != 0 ] || echo "no case was begun: none has a name like \"$cases\", or the logs say why not" >&2
[ "$failed" = 0 ] && [ "$begun" != 0 ]
