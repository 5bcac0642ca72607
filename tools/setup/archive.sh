#!/bin/sh
# Builds build/lib/libtokenizers.a, the Rust half of github.com/daulet/tokenizers, from crates.io sources.
# It is built again only when the module version, the compiler or this script changes.
set -eu
cd "$(dirname "$0")/../.."

module=github.com/daulet/tokenizers
source=$(go list -m -f '{{.Dir}}' $module)
stamp="$(go list -m -f '{{.Version}}' $module) $(rustc --version) $(cksum <tools/setup/archive.sh)"
out=build/lib/libtokenizers.a
if [ -f $out ] && [ "$(cat $out.stamp 2>/dev/null)" = "$stamp" ]; then
	exit 0
fi

echo "setup: building $out (two to three minutes, once)" >&2
# Link-time optimisation over one unit drops what is never called: 15 MB instead of 50.
CARGO_TARGET_DIR=build/cargo \
	CARGO_PROFILE_RELEASE_LTO=fat \
	CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
	CARGO_PROFILE_RELEASE_PANIC=abort \
	CARGO_PROFILE_RELEASE_STRIP=debuginfo \
	cargo build --release --locked --manifest-path "$source/Cargo.toml"
mkdir -p build/lib
# Renamed into place, so that an interrupted copy is never taken for an archive.
cp build/cargo/release/libtokenizers.a $out.new
mv $out.new $out
echo "$stamp" >$out.stamp
