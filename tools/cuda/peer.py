#!/usr/bin/env python3
"""Times PyTorch on this GPU, to be set beside Blitzen. Needs torch, and for whole models transformers.

peer.py serve
    Dense attention of one token on request, a line of JSON each way. It is the --peer of
    generate bench --attention-op, which measures both in the same run.
peer.py attention [--rows N,…] [--heads Q/K] [--dim D] [--mode graph|events]
    The same by itself: JSONL.
peer.py model [--prompt N,…] [--tokens N] [--cache dynamic,static] CONFIG_DIR…
    Whole models of transformers with random weights, bfloat16, batch 1: JSONL. A static cache is compiled, which takes
    up to a minute for each model before anything is timed.
peer.py ratios OURS.jsonl THEIRS.jsonl
    Whole models side by side: Markdown. OURS is of generate bench -o jsonl.

Attention is scaled_dot_product_attention with native grouped-query attention, its backend forced. Mode graph: a CUDA
graph over layers with data of their own, which no cache holds together. Mode events: calls one by one between CUDA
events, 512 MiB read and written before each, outside of its time (SANTA++, appendix E). TF32 is off.
"""

import argparse
import json
import statistics
import sys
import time
import warnings

PAST = 256e6  # bytes that pass any cache
EVICT = 512 << 20
BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION"}


def device():
    """torch, ready to be timed."""
    warnings.filterwarnings("ignore")
    import torch

    if not torch.cuda.is_available():
        sys.exit("peer.py: PyTorch finds no GPU")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return torch


class Attention:
    """Dense attention of one query token over cache rows."""

    def __init__(self, torch, ask):
        self.torch = torch
        self.backend = getattr(torch.nn.attention.SDPBackend, BACKENDS[ask["backend"]])
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "f32": torch.float32}[ask["dtype"]]
        heads, keys, rows = ask["heads"], ask["key_heads"], ask["rows"]
        self.gqa = heads != keys
        each = keys * rows * (ask["key_dim"] + ask["value_dim"]) * dtype.itemsize
        self.layers = min(64, max(2, -(-int(PAST) // each))) if ask["mode"] == "graph" else 1
        make = lambda *shape: [torch.randn(*shape, dtype=dtype, device="cuda") for _ in range(self.layers)]
        self.q = make(1, heads, 1, ask["key_dim"])
        self.k = make(1, keys, rows, ask["key_dim"])
        self.v = make(1, keys, rows, ask["value_dim"])

    def call(self, layer):
        return self.torch.nn.functional.scaled_dot_product_attention(self.q[layer], self.k[layer], self.v[layer], enable_gqa=self.gqa)

    def graph(self, warm, observations):
        """Microseconds a call in each of some replays."""
        torch, stream = self.torch, self.torch.cuda.Stream()
        rounds = max(1, 64 // self.layers)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for layer in range(self.layers):
                self.call(layer)
            stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                for _ in range(rounds):
                    for layer in range(self.layers):
                        self.call(layer)
            for _ in range(max(1, warm)):
                graph.replay()
            laps = Laps(torch, observations)
            for i in range(observations):
                laps.time(i, graph.replay)
            stream.synchronize()
        return [us / (rounds * self.layers) for us in laps.microseconds()]

    def events(self, warm, observations):
        """Microseconds of each observation."""
        evict = self.torch.zeros(EVICT // 4, dtype=self.torch.int32, device="cuda")
        laps = Laps(self.torch, observations)
        for i in range(warm + observations):
            evict.add_(1)
            if i < warm:
                self.call(0)
            else:
                laps.time(i - warm, lambda: self.call(0))
        self.torch.cuda.synchronize()
        return laps.microseconds()

    def measure(self, ask):
        with self.torch.no_grad(), self.torch.nn.attention.sdpa_kernel([self.backend]):
            return getattr(self, ask["mode"])(ask["warm"], ask["observations"])


class Laps:
    """Pairs of events."""

    def __init__(self, torch, n):
        self.marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(n)]

    def time(self, i, run):
        self.marks[i][0].record()
        run()
        self.marks[i][1].record()

    def microseconds(self):
        return [1e3 * a.elapsed_time(b) for a, b in self.marks]


def answer(torch, ask):
    try:
        us = Attention(torch, ask).measure(ask)
        return {"us": us}
    except (RuntimeError, KeyError) as e:
        torch.cuda.synchronize()
        return {"error": str(e).splitlines()[0][:200]}
    finally:
        torch.cuda.empty_cache()


def serve(_):
    torch = device()
    print(json.dumps({"peer": "PyTorch " + torch.__version__.split("+")[0], "backends": list(BACKENDS)}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(torch, json.loads(line))), flush=True)


def numbers(text):
    return [int(n) for n in text.split(",")]


def attention(args):
    torch = device()
    heads, keys = numbers(args.heads.replace("/", ","))
    for rows in numbers(args.rows):
        for backend in BACKENDS:
            ask = {"backend": backend, "mode": args.mode, "dtype": args.dtype, "heads": heads, "key_heads": keys, "key_dim": args.dim,
                   "value_dim": args.dim, "rows": rows, "warm": args.warm, "observations": args.observations}
            got = answer(torch, ask)
            if "us" in got:
                us = got.pop("us")
                got = {"us": statistics.median(us), "bytes": 2 * keys * rows * args.dim * (4 if args.dtype == "f32" else 2)}
            print(json.dumps({"peer": "PyTorch " + torch.__version__, "device": torch.cuda.get_device_name(), **ask, **got}), flush=True)


# Whole models.


def build(torch, folder):
    """A model of transformers with random weights, and its configuration."""
    import transformers

    transformers.logging.set_verbosity_error()
    config = transformers.AutoConfig.from_pretrained(folder)
    config.max_position_embeddings = max(config.max_position_embeddings, 1 << 18)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.bfloat16)
    model.eval()
    return model, config


def prefill(torch, model, ids, cache, chunk=8192):
    """The next token, with the prompt in the cache."""
    for at in range(0, ids.shape[1], chunk):
        piece = ids[:, at:at + chunk]
        where = torch.arange(at, at + piece.shape[1], device="cuda")
        out = model(piece, past_key_values=cache, use_cache=True, cache_position=where, position_ids=where[None], logits_to_keep=1)
    return out.logits[:, -1:].argmax(-1)


def timed(torch, run):
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = run()
    torch.cuda.synchronize()
    return time.perf_counter() - start, result


def model_row(torch, model, config, kind, prompt, tokens):
    """Times one prompt and the tokens after it."""
    import transformers

    ids = torch.randint(0, config.vocab_size, (1, prompt), device="cuda")
    room = prompt + tokens + 8

    def fresh():
        if kind == "static":
            return transformers.StaticCache(config=config, max_cache_len=room)
        return transformers.DynamicCache(config=config)

    cache = fresh()
    prefill(torch, model, ids, cache)  # warm up
    del cache
    cache = fresh()
    seconds, token = timed(torch, lambda: prefill(torch, model, ids, cache))
    step = model.forward
    if kind == "static":
        step = torch.compile(model.forward, mode="reduce-overhead", fullgraph=False)
    at = torch.tensor([prompt], device="cuda")
    times = []
    torch.backends.cuda.enable_cudnn_sdp(False)  # plans anew, on the CPU, for every length
    for _ in range(tokens):
        torch.compiler.cudagraph_mark_step_begin()
        took, out = timed(torch, lambda: step(token.clone(), past_key_values=cache, use_cache=True, cache_position=at, position_ids=at[None]))
        token = out.logits[:, -1:].argmax(-1).clone()
        at = at + 1
        times.append(took)
    torch.backends.cuda.enable_cudnn_sdp(True)
    return {"prefill_tokens_per_s": prompt / seconds, "ms_per_token": 1e3 * statistics.median(times)}


def models(args):
    torch = device()
    import transformers

    peer = "transformers %s, PyTorch %s" % (transformers.__version__, torch.__version__.split("+")[0])
    for folder in args.folders:
        model, config = build(torch, folder)
        for kind in args.cache.split(","):
            for prompt in numbers(args.prompt):
                row = {"peer": peer, "model": folder, "cache": kind, "n_prompt": prompt, "n_gen": args.tokens}
                try:
                    with torch.no_grad():
                        row.update(model_row(torch, model, config, kind, prompt, args.tokens))
                except Exception as e:  # a version that lacks something: the others still count
                    row["error"] = str(e).splitlines()[0][:300] if str(e) else type(e).__name__
                print(json.dumps(row), flush=True)
                torch.cuda.empty_cache()
        del model
        torch.cuda.empty_cache()


def ratios(args):
    read = lambda name: [json.loads(line) for line in open(name) if line.startswith("{")]
    ours, theirs = read(args.ours), read(args.theirs)
    print("| model | prompt | | Blitzen | transformers | cache | Blitzen is faster by |\n|---|---|---|---|---|---|---|")
    for t in theirs:
        if "error" in t:
            print("| %s | %d | | | %s | %s | |" % (t["model"], t["n_prompt"], t["error"], t["cache"]))
            continue
        of = [r for r in ours if r.get("model") == t["model"] and r.get("attention") == "dense" and "unit" in r]
        for r in of:
            if r["n_prompt"] == t["n_prompt"] and r["n_depth"] == 0:
                print("| %s | %d | prefill, tokens/s | %.0f | %.0f | %s | %.2f× |" % (
                    t["model"], t["n_prompt"], r["mean"], t["prefill_tokens_per_s"], t["cache"], r["mean"] / t["prefill_tokens_per_s"]))
            if r["n_gen"] and r["n_depth"] == t["n_prompt"]:
                print("| %s | %d | decode, ms a token | %.2f | %.2f | %s | %.2f× |" % (
                    t["model"], t["n_prompt"], r["ms_per_token"], t["ms_per_token"], t["cache"], t["ms_per_token"] / r["ms_per_token"]))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(required=True)
    sub.add_parser("serve").set_defaults(run=serve)
    a = sub.add_parser("attention")
    a.add_argument("--rows", default="32768")
    a.add_argument("--heads", default="28/4")
    a.add_argument("--dim", type=int, default=128)
    a.add_argument("--dtype", default="bf16", choices=["bf16", "fp16", "f32"])
    a.add_argument("--mode", default="graph", choices=["graph", "events"])
    a.add_argument("--warm", type=int, default=3)
    a.add_argument("--observations", type=int, default=40)
    a.set_defaults(run=attention)
    m = sub.add_parser("model")
    m.add_argument("folders", nargs="+", metavar="CONFIG_DIR")
    m.add_argument("--prompt", default="4096,32704")
    m.add_argument("--tokens", type=int, default=24)
    m.add_argument("--cache", default="dynamic,static")
    m.set_defaults(run=models)
    r = sub.add_parser("ratios")
    r.add_argument("ours")
    r.add_argument("theirs")
    r.set_defaults(run=ratios)
    args = p.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
