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
	commit, err := commitOf(filepath.Join(base, "refs", revision), revision)
	if err != nil {
		return "", fmt.Errorf("%s: %w: download it again", name, err)
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

// commitOf is the commit that a ref of the cache names; without the ref, revision may
// be one.
func commitOf(ref, revision string) (string, error) {
	info, err := os.Stat(ref)
	if err != nil {
		return revision, nil
	}
	if !info.Mode().IsRegular() { // to read a pipe or a device may never end
		return "", fmt.Errorf("%s is not a regular file", ref)
	}
	const most = 1 << 10 // bytes; a commit has 40
	data, err := readFile(ref, most)
	return strings.TrimSpace(string(data)), err
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
