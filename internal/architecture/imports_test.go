// Package architecture tests who may import whom; docs/design.md says why.
package architecture

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
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
	"eval/diagnostics":       {"eval", "decode", "attention", "attention/record", "attention/santapp", "attention/centroid", "kvcache", "teams", "device"},
	"eval/ruler":             {"eval"},
	"model":                  {"model", "model/rope", "attention", "kvcache", "weights", "device"},
	"attention":              {"attention", "attention/dense", "attention/sampled", "teams", "kvcache", "device"},
	"attention/uniform":      {"attention", "attention/sampled", "attention/santapp", "kvcache", "device"},
	"attention/oracle":       {"attention", "attention/sampled", "attention/santapp", "kvcache", "device"},
	"teams":                  {"teams/kmeans", "device"},
	"kvcache":                {"device"},
	"weights":                {"device", "internal/excerpt"},
	"host":                   {"device", "host/kernels"},
	"cuda":                   {"device", "cuda/driver"},
	"device":                 {},
	"device/devicetest":      {"device"},
	"tokenizer":              {"tokenizer/template", "internal/excerpt"},
	"tokenizer/template":     {"internal/excerpt"},
	"sample":                 {"device"},
	"internal/excerpt":       {},
	"internal/golden":        {},
	"internal/modeltest":     {"*"},
	"internal/attentiontest": {"*"},
	"bench":                  {"decode", "attention", "attention/record", "attention/sampled", "attention/santapp", "kvcache", "device"},
	"report":                 {},
}

// only names the folder that alone may import a module.
var only = map[string]string{
	"github.com/daulet/tokenizers": "tokenizer",
	"github.com/ardanlabs/jinja":   "tokenizer",
	"github.com/gomlx/":            "host",
	"github.com/spf13/":            "cmd",
}

func TestImports(t *testing.T) {
	seen := 0
	for from, imports := range folders(t) {
		for _, to := range imports {
			seen++
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
	if seen == 0 {
		t.Error("no imports found")
	}
}

// folders is what the code of each folder imports, on any system. The files are
// read here, not by the go command, so that go test runs again when they change.
func folders(t *testing.T) map[string][]string {
	const root = "../.."
	imports := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := entry.Name(); {
		case entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "build" || name == "testdata"):
			return fs.SkipDir
		case filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		for _, spec := range file.Imports {
			imports[folder] = append(imports[folder], strings.Trim(spec.Path.Value, `"`))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
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
