#!/usr/bin/env python3
"""Turns data sets that you have into rows for `generate evaluate --tasks FILE.jsonl`. Nothing is downloaded.

    convert.py essays PaulGrahamEssays.json --tasks niah_single_2,niah_multivalue --model MODEL --length 32768 > rows.jsonl
    convert.py squad dev-v2.0.json --model MODEL --length 32768 > qa_1.jsonl
    convert.py hotpotqa hotpot_dev_distractor_v1.json --model MODEL --length 32768 > qa_2.jsonl
    convert.py helmet-rag nq-dev-multikilt_1000_k220_dep6.jsonl --task nq --demos nq-train-demo.jsonl > nq.jsonl
    convert.py longbench-v2 data.json > longbench_v2.jsonl

Python 3.9 or later, without packages.
"""

import argparse
import json
import sys

import essays
import helmet
import longbench
import qa
from rows import Counter, write


def arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    sized = argparse.ArgumentParser(add_help=False)
    sized.add_argument("--model", required=True, help="the folder whose tokenizer counts")
    sized.add_argument("--generate", default="bin/generate", help="the program that counts tokens (default: bin/generate)")
    sized.add_argument("--length", type=int, required=True, help="the most tokens of a prompt and its answer, without a chat template")
    sized.add_argument("--seed", type=int, default=42)
    samples = argparse.ArgumentParser(add_help=False)
    samples.add_argument("file")
    samples.add_argument("--samples", type=int, default=0, help="rows of each task (default: 500 that are made, or all of the file)")
    command = commands.add_parser("essays", parents=[samples, sized], help="RULER's needles in essays")
    command.add_argument("--tasks", default=",".join(essays.TASKS), help="default: all five")
    commands.add_parser("squad", parents=[samples, sized], help="RULER's qa_1")
    commands.add_parser("hotpotqa", parents=[samples, sized], help="RULER's qa_2")
    command = commands.add_parser("helmet-rag", parents=[samples], help="HELMET's RAG files")
    command.add_argument("--task", required=True, help="nq, triviaqa, popqa or hotpotqa")
    command.add_argument("--demos", help="the file of solved examples")
    command.add_argument("--shots", type=int, default=2, help="solved examples in a prompt, with --demos")
    commands.add_parser("longbench-v2", parents=[samples], help="LongBench v2")
    return parser.parse_args(argv)


def rows(args):
    if args.command == "helmet-rag":
        return helmet.convert(args.task, args.file, args.demos, args.shots, args.samples)
    if args.command == "longbench-v2":
        return longbench.convert(args.file, args.samples)
    count, samples = Counter(args.generate, args.model), args.samples or 500
    if args.command == "essays":
        tasks = args.tasks.split(",")
        for task in tasks:
            if task not in essays.TASKS:
                raise ValueError(f"--tasks {task}: want some of {', '.join(essays.TASKS)}")
        return essays.convert(args.file, tasks, count, args.length, samples, args.seed)
    return qa.convert({"squad": "qa_1", "hotpotqa": "qa_2"}[args.command], args.file, count, args.length, samples, args.seed)


def main(argv):
    args = arguments(argv)
    try:
        write(rows(args), sys.stdout)
    except (OSError, ValueError, KeyError, json.JSONDecodeError) as error:
        sys.exit(f"convert.py: {args.file}: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
