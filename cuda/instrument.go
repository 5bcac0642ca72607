package cuda

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// instrumented is a program in PTX whose accesses to global memory are checked
// (kernels/bounds.cuh).
type instrumented struct {
	text    string
	sites   []string // what access i is: "tokens.cu:17 reads 4 bytes"
	globals []string // arrays of the program's own in global memory
}

// instrument puts bounds_check before every access to global memory, which then
// goes where that says. What it cannot judge is an error, so that no access goes
// unchecked. The function is copied to each place: a call would take registers
// that products on the tensor cores are under way in. ptx is compiled with line
// information, which is used up, and with bounds.cuh.
func instrument(ptx string) (instrumented, error) {
	code, lines, ok := strings.Cut(ptx, "\n\t.file\t")
	if !ok {
		return instrumented{}, fmt.Errorf("bounds: the compiler's PTX has no line information")
	}
	in := &instrumenter{files: filesOf("\n\t.file\t" + lines)}
	for line := range strings.Lines(code) {
		if err := in.line(line); err != nil {
			return instrumented{}, err
		}
	}
	return instrumented{in.text.String(), in.sites, in.globals}, nil
}

type instrumenter struct {
	text    strings.Builder
	sites   []string
	globals []string
	files   map[string]string
	inside  bool     // the function that checks
	check   []string // its lines
	here    place
}

// place is a line of a source file and how it came there: "teams_ptx.cuh:26, from
// teams_any.cuh:83".
type place struct{ at, name string }

var fileLine = regexp.MustCompile(`\.file\s+(\d+) "(.*)"`)

func filesOf(lines string) map[string]string {
	files := map[string]string{}
	for _, m := range fileLine.FindAllStringSubmatch(lines, -1) {
		files[m[1]] = filepath.Base(m[2])
	}
	return files
}

var globalArray = regexp.MustCompile(`^\.global .*?(\w+)(\[\d*\])?( =|;)`)

// line passes a line on. Between statements the compiler ends lines; inline
// assembly may have several on one.
func (in *instrumenter) line(line string) error {
	trimmed := strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(trimmed, ".loc\t"):
		in.locate(trimmed)
		return nil
	case strings.Contains(line, ".func") && strings.Contains(line, "bounds_check("):
		in.inside = true
		return nil
	case in.inside:
		in.inside = line != "}\n"
		if len(in.check) > 0 || line == "{\n" { // behind the parameters
			in.check = append(in.check, line)
		}
		return nil
	case globalArray.MatchString(line):
		in.globals = append(in.globals, globalArray.FindStringSubmatch(line)[1])
		line = ".visible " + line
	}
	if !strings.Contains(line, "[") || strings.HasPrefix(trimmed, "//") {
		in.text.WriteString(line)
		return nil
	}
	for part := range strings.SplitAfterSeq(line, ";") {
		if err := in.statement(part); err != nil {
			return err
		}
	}
	return nil
}

var position = regexp.MustCompile(`^\.loc\s+(\d+) (\d+) (\d+)(?:.*inlined_at (\d+) (\d+) (\d+))?`)

// locate reads a .loc. Functions inside functions come one after the other, each
// naming the one before.
func (in *instrumenter) locate(line string) {
	m := position.FindStringSubmatch(line)
	if m == nil || m[2] == "0" { // no line of its own
		return
	}
	name := in.files[m[1]] + ":" + m[2]
	if m[4] != "" {
		if from := strings.Join(m[4:7], " "); in.here.at == from {
			name += " from " + in.here.name
		} else {
			name += " from " + in.files[m[4]] + ":" + m[5]
		}
	}
	in.here = place{strings.Join(m[1:4], " "), name}
}

var memory = regexp.MustCompile(`^([\s{]*)(@(!?)([%\w]+)\s+)?([a-z][\w.:]*)(\s+.*?)\[([%\w$]+)(?:\+(-?\d+))?\](.*)$`)

// instruction is how one with an address begins; directives begin with a dot.
var instruction = regexp.MustCompile(`^[\s{]*(@\S+\s+)?[a-z][^\[]*\s[^\[]*\[`)

// passed are instructions on other memory than global, on addresses that the
// host judges (tensor maps), or without effect.
var passed = regexp.MustCompile(`^(ld|st|atom|red)\.(volatile\.)?(shared|local|param|const)\b|^(ld|st)matrix\.|^(cp\.async\.)?mbarrier\.|^st\.async\.|^cp\.async\.bulk\.(tensor|prefetch)\.|^prefetch\.|^mapa\.`)

var checkable = regexp.MustCompile(`^(ld|st|atom|red)(?:\.[\w:]+)*?(\.v(\d))?\.[busf](8|16|32|64|128)$`)

// statement passes on one statement, and checks it.
func (in *instrumenter) statement(s string) error {
	m := memory.FindStringSubmatch(strings.TrimRight(s, "\n"))
	if m == nil && instruction.MatchString(s) {
		return fmt.Errorf("bounds: %s: cannot read the address of %s", in.here.name, strings.TrimSpace(s))
	}
	if m == nil || passed.MatchString(m[5]) {
		in.text.WriteString(s)
		return nil
	}
	a := access{lead: m[1], guard: m[2], not: m[3] != "", predicate: m[4], op: m[5], before: m[2] + m[5] + m[6], base: m[7], offset: m[8], after: m[9]}
	if err := a.classify(); err != nil {
		return fmt.Errorf("bounds: %s: %w", in.here.name, err)
	}
	if len(in.check) == 0 {
		return fmt.Errorf("bounds: %s comes before the function that checks", in.here.name)
	}
	in.write(a)
	in.sites = append(in.sites, in.here.name+" "+a.verb+" "+a.bytes+" bytes")
	return nil
}

// access is an instruction that reads or writes global memory.
type access struct {
	lead, guard, before, after string // of the statement, around the address
	not                        bool
	predicate, op              string
	base, offset               string // the address: a register or a name, and bytes
	verb, bytes                string // bytes: a number or a register
}

var copied = regexp.MustCompile(`^cp\.async\.(ca|cg|bulk)\.shared(::\w+)?\.global`)

var copyTail = regexp.MustCompile(`^(.*\], *)\[([%\w$]+)(?:\+(-?\d+))?\](, *([%\w]+)(?:, *([%\w]+))?.*)$`)

// classify finds out what an instruction does and to how many bytes.
func (a *access) classify() error {
	if copied.MatchString(a.op) { // the second address is of global memory
		m := copyTail.FindStringSubmatch("]" + a.after)
		if m == nil {
			return fmt.Errorf("cannot read the operands of %s", a.op)
		}
		offset := a.offset
		if offset != "" {
			offset = "+" + offset
		}
		a.before += "[" + a.base + offset + m[1]
		a.base, a.offset, a.after, a.verb, a.bytes = m[2], m[3], m[4], "reads", m[5]
		if m[6] != "" {
			a.bytes = m[6]
		}
		return nil
	}
	m := checkable.FindStringSubmatch(a.op)
	if m == nil {
		return fmt.Errorf("%s is not known to the checks of addresses: teach instrument.go", a.op)
	}
	bits, err := strconv.Atoi(m[4])
	if err != nil {
		return err
	}
	many := 1
	if m[3] != "" {
		many = int(m[3][0] - '0')
	}
	a.verb = map[string]string{"ld": "reads", "st": "writes", "atom": "changes", "red": "changes"}[m[1]]
	a.bytes = strconv.Itoa(many * bits / 8)
	return nil
}

// write has the address judged, under the statement's own condition, and then
// the statement.
func (in *instrumenter) write(a access) {
	offset := a.offset
	if offset == "" {
		offset = "0"
	}
	in.printf("%s{ .reg .b64 bounds_at, bounds_base; .reg .b32 bounds_n;\n", a.lead)
	in.printf("mov.b64 bounds_base, %s; add.s64 bounds_at, bounds_base, %s; mov.b32 bounds_n, %s;\n", a.base, offset, a.bytes)
	if a.predicate != "" {
		chosen := "bounds_n, 0"
		if a.not {
			chosen = "0, bounds_n"
		}
		in.printf("selp.b32 bounds_n, %s, %s;\n", chosen, a.predicate)
	}
	site := strconv.Itoa(len(in.sites))
	renamed := strings.NewReplacer(
		"ld.param.u64", "mov.b64", "ld.param.u32", "mov.b32", "[bounds_check_param_0]", "bounds_at", "[bounds_check_param_1]", "bounds_n",
		"[bounds_check_param_2]", site, "st.param.b64 \t[func_retval0+0]", "mov.b64 bounds_at", "$L__BB", "$L__bounds"+site+"_", "\tret;\n", "")
	for _, line := range in.check {
		renamed.WriteString(&in.text, line)
	}
	in.printf("%s[bounds_at]%s }\n", a.before, a.after)
}

func (in *instrumenter) printf(format string, args ...any) { fmt.Fprintf(&in.text, format, args...) }
