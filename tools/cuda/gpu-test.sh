#!/bin/sh
# Runs the tests of package cuda on a machine with a GPU and no Go, from the repository's root:
#
#	go test -c -ldflags '-s -w' -o build/gpu/cuda.test ./cuda    # here
#	tools/cuda/gpu-test.sh [pattern of benchmarks]               # there
#
# Logs and the compiled kernels go to $OUT (default build/gpu/out); unpack kernels.tar in build/gpu before the next
# run and carry it along: compiling them all takes a minute.
set -eu
cd "$(dirname "$0")/../.."

root=$PWD
out=${OUT:-$root/build/gpu/out}
mkdir -p "$out" build/gpu/cache
export REQUIRE_CUDA=1 XDG_CACHE_HOME="$root/build/gpu/cache"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || true

cd cuda
code=0
start=$(date +%s)
timeout 400 ../build/gpu/cuda.test -test.skip '^Test(Compile.*|CheckedSuite)$' -test.v >"$out/test.log" 2>&1 || code=$?
grep -E '^\s*--- FAIL' "$out/test.log" | head -n 60 || true
grep -E -A 3 'FAIL: .*/' "$out/test.log" | grep -v -E '^--|--- ' | cut -c 1-400 | sort | uniq -c | sort -rn | head -n 40 || true
echo "tests: exit $code, $(grep -c -E '^ *--- PASS' "$out/test.log") passed, $(grep -c -E '^ *--- FAIL' "$out/test.log") failed, $(grep -c -E '^ *--- SKIP' "$out/test.log") skipped, $(($(date +%s) - start)) s"
if [ $# -gt 0 ]; then
	timeout 150 ../build/gpu/cuda.test -test.run '^$' -test.bench "$1" -test.benchtime 30x >"$out/bench.log" 2>&1 || echo "benchmarks: exit $?"
	grep -E '^Benchmark|FAIL|panic|bench_test' "$out/bench.log" || true
fi
tar -C "$root/build/gpu" -cf "$out/kernels.tar" cache
exit $code
