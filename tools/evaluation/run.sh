#!/bin/sh
# The tables of docs/evaluation.md, made anew: prompts are answered by processes side by side, joined, and printed as
# Markdown. From the repository's root, after make build:
#
#	tools/evaluation/run.sh access-4096 access-8192    needle-qwen2, access codes, every method
#	tools/evaluation/run.sh latent                     needle-dsv2, access codes
#	tools/evaluation/run.sh rows-4096 rows-8192        needle-qwen2, RULER's rows: how far from exact attention
#	tools/evaluation/run.sh rows-latent rows-latent-8192    the same of needle-dsv2
#	tools/evaluation/run.sh routing                    needle-qwen2: what sampling goes by
#
# GENERATE names the program (bin/generate), DEVICE says where it computes ("--device cuda --dtype f32"), SHARDS how many
# processes share a part (8), RESULTS the folder of answers (build/evaluation): what was ended goes on there. --only-print as the
# first argument answers nothing and prints what the folder has.
set -eu
cd "$(dirname "$0")/../.."

generate=${GENERATE:-bin/generate}
device=${DEVICE:-"--device cuda --dtype f32"}
shards=${SHARDS:-8}
results=${RESULTS:-build/evaluation}
answer=yes
if [ "${1-}" = --only-print ]; then
	answer=no
	shift
fi

# side_by_side NAME FLAGS...: all shards of a run, into $results/NAME.*.jsonl
side_by_side() {
	name=$1
	shift
	printf '\n`generate evaluate %s`\n' "$*"
	[ $answer = yes ] || return 0
	jobs=
	i=0
	while [ $i -lt "$shards" ]; do
		$generate evaluate $device -t 1 "$@" --shard "$i/$shards" -o "$results/$name.$i.jsonl" >/dev/null 2>"$results/$name.$i.log" &
		jobs="$jobs $i:$!"
		i=$((i + 1))
	done
	failed=0
	for job in $jobs; do
		wait "${job#*:}" || {
			echo "run.sh: $name, shard ${job%:*} of $shards: $(tail -n 1 "$results/$name.${job%:*}.log")" >&2
			failed=1
		}
	done
	return $failed
}

tables() { GENERATE=$generate python3 -B tools/evaluation/tables.py "$@"; }

access() {
	codes="models/needle-qwen2 --tasks access_few,access_dense --samples 50 --length $1 --task-seed 7 --budget 128,256,512,1024"
	side_by_side "access-$1-keys" $codes --attention dense,santa,centroid --block 4,16
	for parents in kmeans contiguous; do
		side_by_side "access-$1-$parents" $codes --attention santapp,uniform,oracle --parents $parents
	done
	side_by_side "access-$1-probe" $codes --attention santapp --parents probe
	tables answers --pairs oracle:santapp,santapp:uniform "$results/access-$1"-*.jsonl
}

latent() {
	side_by_side latent models/needle-dsv2 --tasks access_few --samples 48 --length 4096 --task-seed 7 \
		--attention dense,santapp --cluster latent,row --parents kmeans,contiguous --budget 128,256,512,1024
	tables answers "$results"/latent.*.jsonl
}

# rows NAME MODEL LENGTH TASKS
rows() {
	side_by_side "$1" "$2" --tasks "$4" --samples 20 --length "$3" -n 32 \
		--attention dense,santapp --parents kmeans,contiguous --budget 256,1024 --divergence
	tables divergence "$results/$1".*.jsonl
}

made=niah_single_1,niah_multikey_2,niah_multikey_3,vt,fwe,niah_multivalue_noise,niah_multiquery_noise

routing() {
	for task in access_few niah_single_1; do
		set -- models/needle-qwen2 --tasks $task --length 8192 --samples 12 -n 12 --parents kmeans,contiguous --variants
		printf '\n`generate diagnose %s`\n\n' "$*"
		[ $answer = no ] || $generate diagnose $device "$@" >"$results/routing.$task.md" 2>"$results/routing.$task.log"
		cat "$results/routing.$task.md"
	done
}

if [ $# -eq 0 ]; then
	set -- access-4096 access-8192 latent rows-4096 rows-8192 rows-latent rows-latent-8192 routing
fi
mkdir -p "$results"
for part in "$@"; do
	case $part in
	access-*) access "${part#access-}" ;;
	latent | routing) "$part" ;;
	rows-4096) rows $part models/needle-qwen2 4096 $made ;;
	rows-8192) rows $part models/needle-qwen2 8192 cwe ;; # too few words below
	rows-latent) rows $part models/needle-dsv2 4096 $made ;;
	rows-latent-8192) rows $part models/needle-dsv2 8192 cwe ;;
	*)
		echo "run.sh: $part: want access-LENGTH, latent, rows-4096, rows-8192, rows-latent, rows-latent-8192 or routing" >&2
		exit 2
		;;
	esac
done
