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
	m.registerName(f)
	f.StringVar(&m.device, "device", "cpu", "run the model on `DEVICE`: cpu")
	f.IntVarP(&m.threads, "threads", "t", 0, "use `N` CPU threads (default: all)")
}

// registerName is for commands that run nothing.
func (m *modelFlags) registerName(f *pflag.FlagSet) {
	f.StringVarP(&m.model, "model", "m", "", "`MODEL` as a flag instead of the argument")
	f.StringVar(&m.revision, "revision", mainRevision, "branch, tag or commit `NAME` in the Hugging Face cache")
}

// source is a model's name as the user gave it and the folder it stands for.
type source struct{ name, dir string }

// find locates the model that the command line names.
func (m *modelFlags) find(args []string) (source, error) {
	name := m.model
	switch {
	case len(args) == 1 && name != "":
		return source{}, usagef("the model is given twice: %s and --model %s", args[0], name)
	case len(args) == 1:
		name = args[0]
	case name == "":
		return source{}, usagef("no MODEL: name a folder with config.json and *.safetensors, or org/name in the Hugging Face cache")
	}
	dir, err := resolveModel(name, m.revision)
	return source{name, dir}, err
}

// opened is everything a command needs to run a model.
type opened struct {
	*loaded
	Name      string               // as the user gave it
	Tokenizer *tokenizer.Tokenizer // nil if the folder has none
	EOS       []int32              // all end tokens there are
}

// open is find and load.
func (m *modelFlags) open(args []string) (*opened, error) {
	src, err := m.find(args)
	if err != nil {
		return nil, err
	}
	return m.load(src)
}

func (m *modelFlags) load(src source) (*opened, error) {
	dev, err := m.openDevice()
	if err != nil {
		return nil, err
	}
	o := &opened{Name: src.name}
	if o.Tokenizer, err = openTokenizer(src.dir); err == nil {
		o.loaded, err = loadModel(dev, src.dir)
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
