package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"blitzen/decode"
	"blitzen/device"
	"blitzen/tokenizer"
	"blitzen/weights"

	"github.com/spf13/pflag"
)

// modelFlags say which model runs where.
type modelFlags struct {
	deviceFlags
	model      string
	revision   string
	loadFormat string
	quantize   string
	chunk      int
}

func (m *modelFlags) register(f *pflag.FlagSet) {
	m.registerName(f)
	m.registerFormat(f)
	m.deviceFlags.register(f)
	f.IntVar(&m.chunk, "prefill-chunk", 0, "read a prompt at most `N` tokens at once (default: by the device's memory)")
}

// registerName is for commands that run nothing.
func (m *modelFlags) registerName(f *pflag.FlagSet) {
	f.StringVarP(&m.model, "model", "m", "", "`MODEL` as a flag instead of the argument")
	f.StringVar(&m.revision, "revision", mainRevision, "branch, tag or commit `NAME` in the Hugging Face cache")
}

func (m *modelFlags) registerFormat(f *pflag.FlagSet) {
	f.StringVar(&m.loadFormat, "load-format", "auto", "`FORMAT` of the weights: dummy makes them up, from config.json alone")
	f.StringVar(&m.quantize, "quantize", quantizeNone, "keep weights of products as `TYPE`: none (as they are), int8")
}

// The values of --quantize.
const quantizeNone, quantizeInt8 = "none", "int8"

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

// checkFormat refuses an unknown --load-format or --quantize.
func (m *modelFlags) checkFormat() error {
	if m.loadFormat != "auto" && m.loadFormat != "dummy" {
		return usagef("--load-format %q: want auto or dummy", m.loadFormat)
	}
	if m.quantize != quantizeNone && m.quantize != quantizeInt8 {
		return usagef("--quantize %q: want none or int8", m.quantize)
	}
	return nil
}

// check refuses flags before anything is opened.
func (m *modelFlags) check() error {
	if err := m.checkFormat(); err != nil {
		return err
	}
	if m.chunk < 0 {
		return usagef("--prefill-chunk %d: want at least 1, or 0 to choose by the device's memory", m.chunk)
	}
	return m.deviceFlags.check()
}

// opened is everything a command needs to run a model.
type opened struct {
	*loaded
	Name      string               // as the user gave it
	Tokenizer *tokenizer.Tokenizer // nil if the folder has none
	EOS       []int32              // all end tokens there are
	Chosen    string               // what --device auto chose and why, "" where the user chose
	chunk     int                  // --prefill-chunk
}

// open finds a model and opens all but its weights, which load reads.
func (m *modelFlags) open(args []string) (*opened, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	src, err := m.find(args)
	if err != nil {
		return nil, err
	}
	return m.openSource(src)
}

// openModel reads configuration and headers as the flags say.
func (m *modelFlags) openModel(dir string) (*loaded, error) {
	l, err := openModel(dir, m.loadFormat == "dummy")
	if err == nil {
		l.int8 = m.quantize == quantizeInt8
	}
	return l, err
}

func (m *modelFlags) openSource(src source) (*opened, error) {
	o := &opened{Name: src.name, chunk: m.chunk}
	var err error
	if o.Tokenizer, err = openTokenizer(src.dir); err != nil {
		return nil, err
	}
	if o.loaded, err = m.openModel(src.dir); err == nil {
		o.Device, o.Chosen, err = m.deviceFlags.open()
	}
	if err != nil {
		o.Close()
		return nil, err
	}
	if o.Tokenizer != nil && o.Tokenizer.VocabSize() > o.Config.Vocab {
		o.Close()
		return nil, fmt.Errorf("%s: tokenizer.json has %d ids, the model %d (vocab_size): take both from one download", src.dir, o.Tokenizer.VocabSize(), o.Config.Vocab)
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

// load reads the weights for sessions of up to context tokens with any of the
// methods, if that fits on the device.
func (o *opened) load(context int, attention ...attentionFlags) error {
	s := spaceOf(o.Device)
	n, err := o.need(s, o.chunk, context, attention...)
	if err != nil {
		return err
	}
	if !n.fits(s) {
		return n.refusal(s)
	}
	for _, a := range attention {
		o.lastQueries = max(o.lastQueries, a.probes())
	}
	o.Model, err = o.plan.load(o.Device, o.Checkpoint, o.options(n.rows))
	return err
}

// session opens a session for any of the methods that load was told of.
func (o *opened) session(opts decode.Options) (*decode.Session, error) {
	opts.Probes = o.lastQueries
	return decode.New(o.Device, o.Model, opts)
}

// openTokenizer is nil for a folder without tokenizer.json.
func openTokenizer(dir string) (*tokenizer.Tokenizer, error) {
	if _, err := os.Lstat(filepath.Join(dir, "tokenizer.json")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return tokenizer.Open(dir)
}

// title names the model as it runs: --quantize is part of it.
func (o *opened) title() string {
	if o.int8 {
		return o.Name + " (int8)"
	}
	return o.Name
}

// needTokenizer is for commands that read or write text.
func (o *opened) needTokenizer() error {
	if o.Tokenizer == nil {
		return fmt.Errorf("%s has no tokenizer.json: download it with the checkpoint", o.Dir)
	}
	return nil
}

// end closes what is open. To an error about numbers that are not finite it adds the tensor that holds some.
func (o *opened) end(err *error) {
	if ck, ok := o.Checkpoint.(*weights.Checkpoint); ok && errors.Is(*err, device.ErrNotFinite) {
		if bad := ck.NotFinite(); bad != nil {
			*err = fmt.Errorf("%w; %w", *err, bad)
		}
	}
	o.Close()
}

func (o *opened) Close() {
	if o.Tokenizer != nil {
		o.Tokenizer.Close()
	}
	if o.loaded != nil {
		o.loaded.Close()
	}
}
