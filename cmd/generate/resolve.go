package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mainRevision is the branch that is meant unless another is named.
const mainRevision = "main"

// resolveModel finds the folder of a model: a folder as it is, or org/name in
// the Hugging Face cache. Nothing is downloaded.
func resolveModel(name, revision string) (string, error) {
	if name == "" {
		return "", usagef("the name of the model is empty: want a folder, or org/name in the Hugging Face cache")
	}
	if info, err := os.Stat(name); err == nil {
		if !info.IsDir() {
			return "", usagef("%s is a file: give the folder that holds config.json and *.safetensors", name)
		}
		return name, nil
	}
	org, repo, ok := strings.Cut(name, "/")
	if !ok || org == "" || repo == "" || strings.ContainsAny(repo, "/\\") || strings.HasPrefix(name, ".") || strings.Contains(name, "..") {
		return "", fmt.Errorf("%s: no such folder", name)
	}
	if info, err := os.Stat(org); err == nil && info.IsDir() {
		return "", fmt.Errorf("%s: no such folder in %s", name, org)
	}
	hub := hubCache()
	base := filepath.Join(hub, "models--"+org+"--"+repo)
	commit := revision
	if ref, err := os.ReadFile(filepath.Join(base, "refs", revision)); err == nil {
		commit = strings.TrimSpace(string(ref))
	}
	if commit == "" || commit == "." || commit == ".." || strings.ContainsAny(commit, "/\\") {
		return "", fmt.Errorf("%s: revision %q is %q in the cache %s, no commit: download it again", name, revision, commit, hub)
	}
	dir := filepath.Join(base, "snapshots", commit)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		download := "hf download " + name
		if revision != mainRevision {
			download += " --revision " + revision
		}
		return "", fmt.Errorf("%s (revision %s) is neither a folder nor in the cache %s: download it with `%s`", name, revision, hub, download)
	}
	return dir, nil
}

// hubCache is where huggingface_hub keeps downloads, by its own order of
// precedence.
func hubCache() string {
	if dir := os.Getenv("HF_HUB_CACHE"); dir != "" {
		return dir
	}
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return filepath.Join(dir, "hub")
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(cache, "huggingface", "hub")
}
