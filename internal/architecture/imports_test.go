// Package architecture tests who may import whom; docs/design.md says why.
package architecture

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// allowed lists, for a folder and what lies below it, the folders of this
// module that its code (not its tests) may import. "*" is everything. The
// longest matching entry counts.
var allowed = map[string][]string{
	"cmd":                    {"*"},
	"decode":                 {"model", "attention", "attention/dense", "attention/record", "kvcache", "sample", "device"},
	"eval":                   {"attention"},
	"eval/comparison":        {"decode", "model", "attention", "attention/record", "eval/divergence", "kvcache", "device"},
	"eval/divergence":        {},
	"eval/diagnostics":       {"eval", "decode", "attention", "attention/dense", "attention/santapp", "attention/centroid", "kvcache", "teams", "device"},
	"eval/ruler":             {"eval"},
	"model":                  {"model", "model/rope", "attention", "kvcache", "weights", "device"},
	"attention":              {"attention", "attention/dense", "attention/sampled", "teams", "kvcache", "device"},
	"attention/uniform":      {"attention", "attention/sampled", "attention/santapp", "kvcache", "device"},
	"attention/oracle":       {"attention", "attention/sampled", "attention/santapp", "kvcache", "device"},
	"teams":                  {"teams/kmeans", "device"},
	"kvcache":                {"device"},
	"weights":                {"device"},
	"host":                   {"device", "host/kernels"},
	"cuda":                   {"device", "cuda/driver"},
	"device":                 {},
	"device/devicetest":      {"device"},
	"tokenizer":              {},
	"sample":                 {"device"},
	"internal/golden":        {},
	"internal/modeltest":     {"*"},
	"internal/attentiontest": {"*"},
	"bench":                  {"decode", "attention", "attention/dense", "attention/santapp", "kvcache", "device"},
	"report":                 {},
}

// only names the folder that alone may import a module.
var only = map[string]string{
	"github.com/daulet/tokenizers": "tokenizer",
	"github.com/gomlx/":            "host",
	"github.com/spf13/":            "cmd",
}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "blitzen/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		fields := strings.Fields(line)
		from := strings.TrimPrefix(fields[0], "blitzen/")
		for _, to := range fields[1:] {
			if own, ok := strings.CutPrefix(to, "blitzen/"); ok && !may(from, own) {
				t.Errorf("%s must not import %s", from, own)
			}
			for module, folder := range only {
				if strings.HasPrefix(to, module) && !within(from, folder) {
					t.Errorf("%s must not import %s: only %s may", from, to, folder)
				}
			}
		}
	}
}

// may reports whether folder from may import folder to.
func may(from, to string) bool {
	best, known := "", false
	for folder := range allowed {
		if within(from, folder) && len(folder) >= len(best) {
			best, known = folder, true
		}
	}
	list := allowed[best]
	return known && (slices.Contains(list, "*") || slices.Contains(list, to))
}

func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

func TestRulesCanFail(t *testing.T) {
	for _, bad := range [][2]string{{"host", "cuda"}, {"model/qwen2", "attention/dense"}, {"attention/santapp", "model"}, {"new/folder", "device"}} {
		if may(bad[0], bad[1]) {
			t.Errorf("%s may import %s", bad[0], bad[1])
		}
	}
}
