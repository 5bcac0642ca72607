package main

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"blitzen/attention"
	"blitzen/attention/santapp"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/host"
	"blitzen/internal/modeltest"
	"blitzen/kvcache"
	"blitzen/sample"
)

const configs = "../../testdata/configs/"

func counted(t *testing.T, dir string, dummy bool) *loaded {
	t.Helper()
	l, err := openModel(dir, dummy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// Bytes of weights and of a cache row in BF16, as their publishers state them.
func TestPublishedSizes(t *testing.T) {
	for name, want := range map[string]struct{ parameters, row int64 }{
		"qwen2.5-0.5b":     {494_032_768, 12_288},
		"qwen2.5-7b":       {7_615_616_512, 57_344},
		"deepseek-v2-lite": {15_706_484_224, 31_104},
	} {
		l := counted(t, configs+name, true)
		n, err := l.count(device.BF16, 512, 4096, 0)
		if err != nil {
			t.Fatal(err)
		}
		slots := int64(4 * l.Layers * l.specs[0].KVHeads)
		if n.weights != 2*want.parameters || n.row != want.row+slots {
			t.Errorf("%s: %d parameters, %d bytes a row; want %d, %d and %d for slots", name, n.weights/2, n.row, want.parameters, want.row, slots)
		}
	}
}

// What is counted is what the CPU device then holds.
func TestNeedIsExact(t *testing.T) {
	for i, name := range []string{"qwen2_tied_gqa", "dsv2_lite", "qwen2_untied_mha", "dsv2_group"} {
		l := counted(t, tiny+name, false)
		l.int8 = i >= 2
		dev, err := host.New(host.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l.Device = dev
		n, err := l.need(spaceOf(dev), 100, 300, attentionFlags{name: "dense"})
		if err != nil {
			t.Fatal(err)
		}
		if l.Model, err = l.plan.load(dev, l.Checkpoint, l.options(n.rows)); err != nil {
			t.Fatal(err)
		}
		s, err := decode.New(dev, l.Model, decode.Options{Capacity: 300, Sampling: sample.Greedy()})
		if err != nil {
			t.Fatal(err)
		}
		if used := dev.Memory().Used; used != n.total()-n.workspace || n.rows != 100 {
			t.Errorf("%s: %d bytes in use, counted %+v", name, used, n)
		}
		s.Close()
	}
}

// What a method keeps beside the cache is at most what is counted for it, and a
// few kibibytes that do not grow with the prompt.
func TestMethodsKeepWhatIsCounted(t *testing.T) {
	const rows, few = 600, 64 << 10
	for _, name := range []string{"qwen2_tied_gqa", "dsv2_lite"} {
		l := counted(t, tiny+name, false)
		dev, err := host.New(host.Options{})
		modeltest.Check(t, err)
		l.Device = dev
		l.Model, err = l.plan.load(dev, l.Checkpoint, l.options(256))
		modeltest.Check(t, err)
		ids := make([]int32, rows)
		for i := range ids {
			ids[i] = int32(i*i) % int32(l.Vocab)
		}
		s, err := decode.New(dev, l.Model, decode.Options{Capacity: rows, Sampling: sample.Greedy(), Probes: santapp.Probes})
		modeltest.Check(t, err)
		defer s.Close()
		modeltest.Check(t, s.Prefill(context.Background(), ids, nil))
		before := dev.Memory().Used
		for _, method := range strings.Split(attentionNames, ", ") {
			for _, parents := range []string{"contiguous", "kmeans", "probe"} {
				a := attentionFlags{name: method, budget: 16, parents: parents, parentSize: 16, representatives: 4, block: 4, draw: "independent", cluster: "latent", reps: repsF8}
				if parents == "kmeans" {
					a.reps = repsCache
				}
				build, err := a.method("--attention")
				modeltest.Check(t, err)
				modeltest.Check(t, s.Build(func(c *kvcache.Cache) (attention.Backend, error) { return build(context.Background(), l, c, 0, nil) }))
				if kept, most := dev.Memory().Used-before, a.rowBytes(l.specs, l.Heads, dev.DType())*rows+few; kept > most {
					t.Errorf("%s, %s, %s: %d bytes, counted %d", name, method, parents, kept, most)
				}
			}
		}
	}
}

// V2-Lite, 29 GiB in bfloat16, fits a card of 24 GiB with its whole context.
func TestInt8Fits(t *testing.T) {
	l := counted(t, configs+"deepseek-v2-lite", true)
	s := aGPU
	s.free, s.total = 23<<30, 24<<30
	n, err := l.need(s, 0, 32768)
	if err != nil || n.fits(s) {
		t.Fatalf("%v, %+v fits", err, n)
	}
	if refused := n.refusal(s).Error(); !strings.HasSuffix(refused, "not one token fits; --quantize int8 halves the weights") {
		t.Error(refused)
	}
	l.int8 = true
	if n, err = l.need(s, 0, l.MaxPositions); err != nil || !n.fits(s) || n.weights > 15<<30 {
		t.Errorf("%v, %+v does not fit", err, n)
	}
	if refused := n.refusal(s).Error(); !strings.Contains(refused, ": int8 weights 15") || strings.Contains(refused, "--quantize") {
		t.Error(refused)
	}
}

func TestNeedChoosesRows(t *testing.T) {
	l := counted(t, configs+"qwen2.5-7b", true)
	for _, c := range []struct {
		free, total    int64 // GiB
		chunk, context int
		want           int
	}{
		{141, 141, 0, 32768, 4096}, {141, 141, 0, 700, 700}, {141, 141, 8192, 32768, 8192}, {141, 141, 1, 32768, 1},
		{23, 24, 0, 32768, 4096}, {15, 16, 0, 8192, rowsMin}, {0, 0, 0, 32768, 4096},
	} {
		s := aGPU
		s.free, s.total = c.free<<30, c.total<<30
		n, err := l.need(s, c.chunk, c.context)
		if err != nil || n.rows != c.want {
			t.Errorf("%+v: %v, %d rows", c, err, n.rows)
		}
	}
}

func TestRefusal(t *testing.T) {
	const mib = 1 << 20
	n := need{weights: 100 * mib, scratch: 10 * mib, rows: 64, session: mib, row: mib / 16, context: 1024, workspace: 5 * mib, limit: 4096}
	s := space{name: "cuda:0 Card", free: 150 * mib, total: 200 * mib}
	if n.fits(s) || !n.fits(space{}) || n.longest(s) != 34*16 {
		t.Errorf("fits: %v, at most %d tokens", n.fits(s), n.longest(s))
	}
	const want = "the model does not fit on cuda:0 Card: weights 100.0 MiB, cache 65.0 MiB for 1024 tokens, scratch 10.0 MiB for 64 tokens at once, " +
		"workspace 5.0 MiB: 180.0 MiB in all, but 150.0 MiB of 200.0 MiB are free: at most 544 tokens of context fit; --quantize int8 halves the weights"
	if got := n.refusal(s).Error(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	n.context = n.longest(s)
	if !n.fits(s) {
		t.Error("what is said to fit does not")
	}
	n.context++
	if n.fits(s) {
		t.Error("more fits than is said to")
	}
	s.free = 50 * mib
	if got := n.refusal(s).Error(); !strings.HasSuffix(got, ": not one token fits") {
		t.Error(got)
	}
	s.free = 1 << 50
	if got := n.longest(s); got != n.limit {
		t.Errorf("%d tokens, the model's limit is %d", got, n.limit)
	}
}

// Counting takes no memory for made-up weights, and sizes that no machine has
// are refused.
func TestNeedOfDummy(t *testing.T) {
	dir := t.TempDir()
	const config = `{"architectures": ["Qwen2ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1e4, "tie_word_embeddings": true,
		"num_attention_heads": 1024, "max_position_embeddings": 2147483647, "hidden_size": 4194304, "vocab_size": VOCAB, "intermediate_size": 1, "num_hidden_layers": LAYERS}`
	for _, c := range []struct{ vocab, layers, want string }{
		{"1000000", "1", ""}, // q_proj alone takes 32 TiB
		{"16777216", "1", "qwen2: weights: tensor model.embed_tokens.weight cannot have the shape [16777216 4194304]: check the sizes in config.json"},
		{"1000000", "100", " TiB in all, too many: check the sizes in config.json"},
	} {
		write(t, dir+"/config.json", strings.NewReplacer("VOCAB", c.vocab, "LAYERS", c.layers).Replace(config))
		before := allocated()
		o := generate(t, "", "inspect", dir, "--load-format", "dummy")
		if took := allocated() - before; took > 64<<20 { // flags, goroutines and the meter's tensors
			t.Errorf("%v: %d bytes", c, took)
		}
		if o.code == 0 != (c.want == "") || !strings.Contains(o.errors, c.want) {
			t.Errorf("%v: exit code %d: %s%s", c, o.code, o.out, o.errors)
		}
	}
}

// A network that nobody has is refused by its numbers, not after making them up.
func TestNeedOfManyExperts(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/config.json", read(t, configs+"deepseek-v2-lite/config.json"))
	setField(t, dir, "num_hidden_layers", 10_000)
	setField(t, dir, "n_routed_experts", 65_536)
	o := generate(t, "", "inspect", dir, "--load-format", "dummy")
	refused(t, o, 1, dir, "deepseekv2: DIR/config.json: n_routed_experts is 65536 in each of 10000 layers; at most 65536 experts in all are supported")
}

// allocated is the bytes that the heap has ever given out.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// A context that the model does not have is refused before it is multiplied.
func TestNeedRefusesContext(t *testing.T) {
	m := tiny + "qwen2_tied_gqa"
	for _, context := range []string{"32769", "9223372036854775807"} {
		o := generate(t, "", "inspect", m, "-c", context)
		if want := "generate: -c " + context + ": the model's limit is 32768 tokens: give less"; o.code != 2 || !strings.HasPrefix(o.errors, want) {
			t.Errorf("exit code %d: %s\nwant 2: %s", o.code, o.errors, want)
		}
	}
	dir := checkpoint(t, "qwen2_tied_gqa")
	setField(t, dir, "max_position_embeddings", 1000)
	if out := answer(t, "", "inspect", dir).out; !strings.Contains(out, "for 1000 tokens") {
		t.Errorf("a model of 1000 tokens:\n%s", out)
	}
	// What is asked for is never cut, and nothing is printed before it is refused.
	o := generate(t, "", "inspect", dir, "-c", "4096")
	refused(t, o, 2, dir, "-c 4096: the model's limit is 1000 tokens: give less")
}

// Made-up weights need config.json alone, and are the same every time.
func TestDummyWeights(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"qwen2_tied_gqa", "dsv2_lite"} {
		config, err := os.ReadFile(tiny + name + "/config.json")
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir+"/config.json", string(config))
		args := []string{dir, "--load-format", "dummy", "--prompt-ids", "1,2,3", "-n", "6", "--ignore-eos", "--seed", "1", "--temperature", "5"}
		one, two := asObject(t, "", args...), asObject(t, "", args...)
		if len(one.TokenIDs) != 6 || !slices.Equal(one.TokenIDs, two.TokenIDs) {
			t.Errorf("%s: tokens %v, then %v", name, one.TokenIDs, two.TokenIDs)
		}
		if got := answer(t, "", "inspect", dir, "--load-format", "dummy").out; !strings.Contains(got, "fingerprint    dummy, seed 0\n") {
			t.Errorf("inspect:\n%s", got)
		}
		refused(t, generate(t, "", dir, "--prompt-ids", "1"), 1, dir, "weights: DIR has neither model.safetensors nor model.safetensors.index.json: download the model's weights")
	}
}

// A page keeps the scores of every layer for every prompt token.
func TestNeedOfPage(t *testing.T) {
	l := counted(t, tiny+"qwen2_tied_gqa", false)
	plain, watched := attentionFlags{name: "dense"}, attentionFlags{name: "dense", watched: true}
	got := watched.rowBytes(l.specs, l.Heads, device.F32) - plain.rowBytes(l.specs, l.Heads, device.F32)
	if want := int64(4 * l.Layers * l.Heads); got != want {
		t.Errorf("%d bytes a token, want %d", got, want)
	}
}
