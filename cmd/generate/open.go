package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"blitzen/device"
	"blitzen/host"
	"blitzen/tokenizer"

	"github.com/spf13/pflag"
)

// modelFlags say which model runs where.
type modelFlags struct {
	model    string
	revision string
	device   string
	threads  int
}

func (m *modelFlags) register(f *pflag.FlagSet) {
	f.StringVarP(&m.model, "model", "m", "", "model folder or org/name in the Hugging Face cache, instead of the argument")
	f.StringVar(&m.revision, "revision", "main", "branch, tag or commit in the Hugging Face cache")
	f.StringVar(&m.device, "device", "cpu", "where to run: cpu")
	f.IntVarP(&m.threads, "threads", "t", 0, "CPU threads (default: all)")
}

// argument is the model's name from the command line.
func (m *modelFlags) argument(args []string) (string, error) {
	switch {
	case len(args) == 1 && m.model != "":
		return "", usagef("the model is given twice: %s and --model %s", args[0], m.model)
	case len(args) == 1:
		return args[0], nil
	case m.model != "":
		return m.model, nil
	}
	return "", usagef("no model: generate [flags] MODEL, a folder with config.json and *.safetensors")
}

// opened is everything a command needs to run a model.
type opened struct {
	*loaded
	Name      string               // as the user gave it
	Tokenizer *tokenizer.Tokenizer // nil if the folder has none
	EOS       []int32              // all end tokens there are
}

func (m *modelFlags) open(args []string) (*opened, error) {
	name, err := m.argument(args)
	if err != nil {
		return nil, err
	}
	dir, err := resolveModel(name, m.revision)
	if err != nil {
		return nil, err
	}
	dev, err := m.openDevice()
	if err != nil {
		return nil, err
	}
	o := &opened{Name: name}
	if o.Tokenizer, err = openTokenizer(dir); err == nil {
		o.loaded, err = loadModel(dev, dir)
	}
	if err != nil {
		if o.Tokenizer != nil {
			o.Tokenizer.Close()
		}
		dev.Close()
		return nil, err
	}
	o.EOS = slices.Clone(o.loaded.EOS)
	if o.Tokenizer != nil {
		if id, ok := o.Tokenizer.EOS(); ok {
			o.EOS = append(o.EOS, id)
		}
	}
	slices.Sort(o.EOS)
	o.EOS = slices.Compact(o.EOS)
	return o, nil
}

func (m *modelFlags) openDevice() (device.Device, error) {
	if m.device != "cpu" {
		return nil, usagef("--device %q: this build runs on \"cpu\"", m.device)
	}
	if m.threads < 0 {
		return nil, usagef("--threads %d: want 0 (all) or more", m.threads)
	}
	return host.New(host.Options{Threads: m.threads})
}

// openTokenizer is nil for a folder without tokenizer.json.
func openTokenizer(dir string) (*tokenizer.Tokenizer, error) {
	if _, err := os.Stat(filepath.Join(dir, "tokenizer.json")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return tokenizer.Open(dir)
}

// needTokenizer is for commands that read or write text.
func (o *opened) needTokenizer() error {
	if o.Tokenizer == nil {
		return fmt.Errorf("%s has no tokenizer.json: download it with the checkpoint", o.Dir)
	}
	return nil
}

func (o *opened) Close() {
	if o.Tokenizer != nil {
		o.Tokenizer.Close()
	}
	o.loaded.Close()
	o.Device.Close()
}
