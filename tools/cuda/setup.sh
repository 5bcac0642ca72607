#!/bin/sh
# Puts NVIDIA's run-time compiler and assembler (pinned in requirements.txt, from PyPI) into build/nvrtc, where the tests
# of package cuda look for them: they compile every kernel without a GPU. Does nothing when they are there.
set -eu
cd "$(dirname "$0")/../.."

pins=tools/cuda/requirements.txt
out=build/nvrtc
if cmp -s $pins $out/requirements.txt; then
	exit 0
fi
python3 -m pip --version >/dev/null 2>&1 || {
	echo "setup: python3 with pip not found: install it (Debian: apt-get install python3-pip) for the tests that compile GPU kernels" >&2
	exit 1
}
echo "setup: fetching the CUDA run-time compiler and assembler into $out (130 MB, once)" >&2
rm -rf $out.new
# Wheels of the machine's own architecture; nothing is run or installed outside build/.
PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore \
	python3 -m pip install --quiet --no-deps --no-compile --only-binary=:all: --target $out.new -r $pins
cp $pins $out.new/requirements.txt
rm -rf $out
mv $out.new $out
