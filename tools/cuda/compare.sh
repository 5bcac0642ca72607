#!/bin/sh
# Blitzen beside PyTorch and transformers on this GPU, in one call: Markdown on stdout. From the repository's root, after
# make build, with a python3 that has torch (and transformers, for whole models):
#
#	tools/cuda/compare.sh              everything, some minutes
#	tools/cuda/compare.sh attention    attention of one token: SANTA++, dense, PyTorch's flash and cuDNN
#	tools/cuda/compare.sh paper        the same by the protocol of the paper's appendix E
#	tools/cuda/compare.sh stages       SANTA++ stage by stage
#	tools/cuda/compare.sh models       whole models with random weights
#
# GENERATE names the program (bin/generate), PYTHON the interpreter (python3), CONFIGS the folders of whole models, CACHE
# the caches of transformers (dynamic,static: the latter compiles for up to a minute a model).
set -eu
cd "$(dirname "$0")/../.."

generate=${GENERATE:-bin/generate}
python=${PYTHON:-python3}
peer="$python tools/cuda/peer.py"
configs=${CONFIGS:-"testdata/configs/qwen2.5-0.5b testdata/configs/qwen2.5-7b testdata/configs/deepseek-v2-lite"}
prompts=4096,32704

op() {
	printf '\n`generate bench --attention-op %s`\n\n' "$*"
	$generate bench --device cuda --attention-op "$@"
}

attention() {
	op --rows 8192,32768,131072 --drawn 31,64,128,512 --peer "$peer serve" models/needle-qwen2
	op --rows 32768,131072 --drawn 32 models/needle-dsv2 # for which PyTorch has no fast attention
}

paper() { op --protocol paper --peer "$peer serve" models/needle-qwen2; }

stages() { op --stages models/needle-qwen2; }

models() {
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	for config in $configs; do
		$generate bench --device cuda --load-format dummy -p $prompts -n 64 -r 2 --attention dense -o jsonl "$config" >>"$work/ours"
	done
	$peer model --prompt $prompts --cache "${CACHE:-dynamic,static}" $configs >"$work/theirs"
	printf '\n`generate bench` and `peer.py model`, %s\n\n' "$(sed -n 's/.*"peer": "\([^"]*\)".*/\1/p' "$work/theirs" | head -n 1)"
	$peer ratios "$work/ours" "$work/theirs"
}

if [ $# -eq 0 ]; then
	set -- attention paper stages models
fi
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || true
date -u +%Y-%m-%d
for part in "$@"; do
	case $part in
	attention | paper | stages | models) "$part" ;;
	*)
		echo "compare.sh: $part: want attention, paper, stages or models" >&2
		exit 2
		;;
	esac
done
