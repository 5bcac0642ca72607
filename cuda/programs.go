package cuda

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"blitzen/cuda/driver"
)

//go:embed kernels/*.cu kernels/*.cuh
var sources embed.FS

// program is a kernel file with its macros set.
type program struct {
	file string       // without .cu
	defs string       // " -DDST=bf16 …"
	args reflect.Type // the Go twin of its struct Args
}

func (p program) key() string { return p.file + p.defs }

// text is the file, followed by a check that Args is its Go twin byte for byte.
func (p program) text() (string, error) {
	src, err := sources.ReadFile("kernels/" + p.file + ".cu")
	if err != nil {
		return "", err
	}
	var s strings.Builder
	s.Write(src)
	fmt.Fprintf(&s, "\nstatic_assert(sizeof(Args) == %d, \"size\");\n", p.args.Size())
	for i := range p.args.NumField() {
		f := p.args.Field(i)
		if f.Name != "_" {
			fmt.Fprintf(&s, "static_assert(__INTADDR__(&((Args*)0)->%s) == %d, \"%s\");\n", f.Name, f.Offset, f.Name)
		}
	}
	return s.String(), nil
}

// headers are the files that kernels include.
func headers() (map[string]string, error) {
	names, err := fs.Glob(sources, "kernels/*.cuh")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, name := range names {
		text, err := sources.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found[path.Base(name)] = string(text)
	}
	return found, nil
}

// target is what is compiled for, and with what.
type target struct {
	arch     string // sm_90: machine code; compute_90: PTX, which the driver compiles
	compiler string // version of NVRTC
	headers  map[string]string
}

// newTarget picks the architecture for a card. libnvrtc must be open.
func newTarget(capability int) (target, error) {
	version, err := driver.CompilerVersion()
	if err != nil {
		return target{}, err
	}
	archs, err := driver.CompilerArchs()
	if err != nil {
		return target{}, err
	}
	h, err := headers()
	t := target{compiler: version, headers: h}
	if slices.Contains(archs, capability) {
		t.arch = fmt.Sprintf("sm_%d", capability)
		return t, err
	}
	// A card newer than the compiler: the driver goes the rest of the way.
	for _, a := range archs {
		if a < capability {
			t.arch = fmt.Sprintf("compute_%d", a)
		}
	}
	if t.arch == "" {
		return t, fmt.Errorf("libnvrtc %s compiles for none of this card's architectures (%v, the card is %d): install another version", version, archs, capability)
	}
	return t, err
}

// source is a program ready for the compiler, with the headers that it needs.
func (t target) source(p program) (driver.Source, error) {
	text, err := p.text()
	s := driver.Source{Name: p.file + ".cu", Text: text, Headers: map[string]string{}}
	t.include(s.Headers, text)
	arch := t.arch
	if s.Headers["hopper.cuh"] != "" {
		arch += "a" // instructions of this generation alone
	}
	s.Options = append([]string{"--gpu-architecture=" + arch, "--std=c++17", "--generate-line-info", "--ptxas-options=-v"}, strings.Fields(p.defs)...)
	return s, err
}

var includes = regexp.MustCompile(`(?m)^#include "(.+)"`)

// include adds the headers that a text names, and theirs.
func (t target) include(found map[string]string, text string) {
	for _, m := range includes.FindAllStringSubmatch(text, -1) {
		if header, ok := t.headers[m[1]]; ok && found[m[1]] == "" {
			found[m[1]] = header
			t.include(found, header)
		}
	}
}

// programs compiles and loads kernels, at the latest when they are first used.
type programs struct {
	target  target
	cache   cache
	bounds  *bounds // judges addresses, or nil
	modules map[string]*module
}

type module struct {
	code      driver.Module
	functions map[string]driver.Function
	sites     []string // what checks look at
	own       []region // arrays of the program
}

func newPrograms(t target, c cache) *programs {
	return &programs{target: t, cache: c, modules: map[string]*module{}}
}

// function is a kernel of a program.
func (ps *programs) function(p program, kernel string) (*module, driver.Function, error) {
	m := ps.modules[p.key()]
	if m == nil {
		if err := ps.ready(map[string]program{p.key(): p}); err != nil {
			return nil, driver.Function{}, err
		}
		m = ps.modules[p.key()]
	}
	f, ok := m.functions[kernel]
	if !ok {
		var err error
		if f, err = m.code.Function(kernel); err != nil {
			return m, f, fmt.Errorf("%s%s has no kernel %s: %w", p.file, p.defs, kernel, err)
		}
		m.functions[kernel] = f
	}
	return m, f, nil
}

// ready compiles programs side by side and loads them. Those that are loaded
// already stay.
func (ps *programs) ready(wanted map[string]program) error {
	var missing []program
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if ps.modules[key] == nil {
			missing = append(missing, wanted[key])
		}
	}
	done, err := ps.compileAll(missing)
	if err != nil {
		return err
	}
	for i, p := range missing {
		code, err := driver.Load(done[i].image)
		m := &module{code: code, functions: map[string]driver.Function{}}
		if err == nil && ps.bounds != nil {
			err = m.check(done[i].log, ps.bounds)
		}
		if err != nil {
			return fmt.Errorf("%s%s: %w", p.file, p.defs, err)
		}
		ps.modules[p.key()] = m
	}
	return nil
}

// compiled is what the compiler made of a program.
type compiled struct {
	image []byte
	log   string
}

// compileAll compiles programs side by side; the result is that of each, or the first error.
func (ps *programs) compileAll(wanted []program) ([]compiled, error) {
	done, errs := make([]compiled, len(wanted)), make([]error, len(wanted))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(wanted)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(wanted); i = int(next.Add(1)) - 1 {
				done[i].image, done[i].log, errs[i] = ps.compile(wanted[i])
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return done, nil
}

// compile takes a program from the cache or compiles it.
func (ps *programs) compile(p program) (image []byte, log string, err error) {
	src, err := ps.target.source(p)
	if err != nil {
		return nil, "", err
	}
	compile := driver.Compile
	if ps.bounds != nil {
		src, compile = ps.target.checkedSource(src), compileChecked
	}
	key := cacheKey(src, ps.target.compiler)
	if image, log, ok := ps.cache.load(key); ok {
		return image, log, nil
	}
	if image, log, err = compile(src); err != nil {
		return nil, log, fmt.Errorf("%w\nmacros:%s", err, p.defs)
	}
	ps.cache.store(key, image, log)
	return image, log, nil
}

func (ps *programs) close() (err error) {
	for _, m := range ps.modules {
		if e := m.code.Unload(); err == nil {
			err = e
		}
	}
	return err
}
