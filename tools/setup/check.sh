#!/bin/sh
# Says which build tools are missing and what to install. It installs nothing.
set -u
cd "$(dirname "$0")/../.." || exit 1

failed=0
miss() {
	printf 'setup: %s\n' "$1" >&2
	failed=1
}

# atleast HAVE WANT: is version HAVE at least WANT?
atleast() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

want=$(sed -n 's/^go //p' go.mod)
if ! command -v go >/dev/null; then
	miss "go not found: install Go $want or newer (go.dev/dl) and put its bin folder in PATH"
elif ! have=$(go env GOVERSION) || ! atleast "${have#go}" "$want"; then
	miss "Go ${have:-?} is too old: install Go $want or newer (go.dev/dl)"
fi

# The lock file of the Rust half has format 4, which cargo reads since 1.78.
if ! command -v cargo >/dev/null; then
	miss "cargo not found: install Rust 1.78 or newer (rustup.rs, or your system's rust package) and put ~/.cargo/bin in PATH"
else
	have=$(cargo --version | cut -d' ' -f2)
	atleast "$have" 1.78 || miss "cargo $have is too old: install Rust 1.78 or newer (rustup update)"
fi

cc=$(go env CC 2>/dev/null || echo cc)
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
if ! command -v "${cc%% *}" >/dev/null; then
	miss "C compiler $cc not found: install gcc or clang (Debian: apt-get install gcc g++)"
elif ! echo 'int main(void) { return 0; }' | $cc -x c -o "$probe/a" - -lstdc++ -ldl -lm 2>"$probe/log"; then
	miss "$cc cannot link with libstdc++: install the C++ library (Debian: apt-get install g++): $(tail -n 1 "$probe/log")"
fi
exit $failed
