package main

import (
	"os"
	"path/filepath"
	"testing"
)

// hub makes a cache as huggingface_hub does: blobs, snapshots of links, refs.
func hub(t *testing.T, dir, commit string, refs ...string) {
	t.Helper()
	base := filepath.Join(dir, "models--Qwen--Tiny")
	snapshot := filepath.Join(base, "snapshots", commit)
	for _, name := range []string{"config.json", "model.safetensors"} {
		blob := filepath.Join(base, "blobs", commit+"-"+name)
		write(t, blob, read(t, filepath.Join(tiny+"qwen2_tied_gqa", name)))
		if err := os.MkdirAll(snapshot, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..", "..", "blobs", commit+"-"+name), filepath.Join(snapshot, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, ref := range refs {
		write(t, filepath.Join(base, "refs", ref), commit)
	}
}

func TestHubCache(t *testing.T) {
	const first, second = "0123456789abcdef0123456789abcdef01234567", "89abcdef0123456789abcdef0123456789abcdef"
	dir := t.TempDir()
	hub(t, dir+"/hub", first, "main")
	hub(t, dir+"/hub", second, "v2", "refs/pr/1")
	t.Setenv("HF_HUB_CACHE", "")
	t.Setenv("HF_HOME", dir)
	base := dir + "/hub/models--Qwen--Tiny/snapshots/"
	for revision, want := range map[string]string{"main": first, "v2": second, "refs/pr/1": second, first: first, second: second} {
		if got, err := resolveModel("Qwen/Tiny", revision); err != nil || got != base+want {
			t.Errorf("revision %s: %s, %v; want %s", revision, got, err, want)
		}
	}
	for _, args := range [][]string{{"Qwen/Tiny"}, {"-m", "Qwen/Tiny", "--revision", "v2"}, {"Qwen/Tiny", "--revision", second}} {
		if got := asObject(t, "", append(args, "--prompt-ids", "1,2", "-n", "1")...); got.PromptTokens != 2 {
			t.Errorf("%v: %+v", args, got)
		}
	}
	for _, c := range []struct{ name, revision, want string }{
		{"Qwen/Tiny", "v3", "Qwen/Tiny (revision v3) is neither a folder nor in the cache DIR/hub: download it with `hf download Qwen/Tiny --revision v3`"},
		{"Qwen/Large", "main", "Qwen/Large (revision main) is neither a folder nor in the cache DIR/hub: download it with `hf download Qwen/Large`"},
		{"Tiny", "main", "Tiny: no such folder"},
		{"./Qwen", "main", "./Qwen: no such folder"},
		{"../Qwen/Tiny", "main", "../Qwen/Tiny: no such folder"},
		{"Qwen/../Tiny", "main", "Qwen/../Tiny: no such folder"},
		{"Qwen/..", "main", "Qwen/..: no such folder"},
		{"/Qwen/Tiny", "main", "/Qwen/Tiny: no such folder"},
		{"Qwen/", "main", "Qwen/: no such folder"},
	} {
		refused(t, generate(t, "", c.name, "--revision", c.revision, "--prompt-ids", "1"), 1, dir, c.want)
	}
	ref := dir + "/hub/models--Qwen--Tiny/refs/odd"
	if err := os.Symlink("/dev/zero", ref); err != nil {
		t.Fatal(err)
	}
	refused(t, generate(t, "", "Qwen/Tiny", "--revision", "odd", "--prompt-ids", "1"), 1, ref, "Qwen/Tiny: DIR is not a regular file: download it again")
	// A snapshot whose file was never fetched.
	if err := os.Remove(dir + "/hub/models--Qwen--Tiny/blobs/" + first + "-model.safetensors"); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/hub/models--Qwen--Tiny/blobs/"+first+"-model.safetensors.incomplete", "")
	refused(t, generate(t, "", "Qwen/Tiny", "--prompt-ids", "1"), 1, dir, "weights: DIR/hub/models--Qwen--Tiny/snapshots/"+first+"/model.safetensors is a link to ../../blobs/"+first+
		"-model.safetensors, which is missing; a download was not finished ("+first+"-model.safetensors.incomplete): download it again")
}

// The order of huggingface_hub: HF_HUB_CACHE, HF_HOME/hub,
// XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub.
func TestHubCacheFolder(t *testing.T) {
	t.Setenv("HOME", "/home/x")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HF_HOME", "")
	t.Setenv("HF_HUB_CACHE", "")
	for _, c := range []struct{ variable, value, want string }{
		{"HOME", "/home/y", "/home/y/.cache/huggingface/hub"},
		{"XDG_CACHE_HOME", "/xdg", "/xdg/huggingface/hub"},
		{"HF_HOME", "/hf", "/hf/hub"},
		{"HF_HUB_CACHE", "/cache", "/cache"},
	} {
		t.Setenv(c.variable, c.value)
		if got := hubCache(); got != c.want {
			t.Errorf("%s=%s: %s, want %s", c.variable, c.value, got, c.want)
		}
	}
}
