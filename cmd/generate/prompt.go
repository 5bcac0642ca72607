package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"blitzen/tokenizer"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// promptFlags say what the model is asked.
type promptFlags struct {
	prompt, file string
	ids          []string // lists, one after another
	system       string
	raw          bool
	template     string
	prefill      string // the given beginning of the answer
}

func (p *promptFlags) register(f *pflag.FlagSet) {
	f.StringVarP(&p.prompt, "prompt", "p", "", "the prompt as `TEXT`; - reads stdin, as does no prompt at all")
	f.StringVarP(&p.file, "file", "f", "", "read the prompt from `FILE`, byte for byte; - is stdin")
	f.StringArrayVar(&p.ids, "prompt-ids", nil, "token `IDS` in place of a text: 1,2,3 or @FILE")
	p.registerTemplate(f)
}

// registerTemplate is for commands that make the prompts themselves.
func (p *promptFlags) registerTemplate(f *pflag.FlagSet) {
	f.StringVar(&p.system, "system-prompt", "", "system message `TEXT`, placed by the chat template")
	f.BoolVar(&p.raw, "raw", false, "the prompt is all the model reads: no chat template")
	f.StringVar(&p.template, "chat-template", "", "Jinja `FILE` to use in place of the checkpoint's chat template")
}

// given is a prompt as the user gave it: ids, or text if they are nil.
type given struct {
	ids  []int32
	text string
}

// asked reports whether the command line names a prompt; stdin is not looked at.
func (p *promptFlags) asked(f *pflag.FlagSet) bool {
	return slices.ContainsFunc([]string{"prompt", "file", "prompt-ids"}, f.Changed)
}

// read takes the prompt from the one place that was named, before anything
// costly is done.
func (p *promptFlags) read(cmd *cobra.Command) (given, error) {
	if err := p.check(); err != nil {
		return given{}, err
	}
	if cmd.Flags().Changed("prompt-ids") {
		if cmd.Flags().Changed("prompt") || cmd.Flags().Changed("file") {
			return given{}, usagef("--prompt-ids and a text both give a prompt: use one")
		}
		if idle := typed(cmd.Flags(), one("system-prompt", "chat-template")); idle != "" {
			return given{}, usagef("--prompt-ids are all that the model reads: leave out %s", idle)
		}
		ids, err := parseIDs("--prompt-ids", p.ids)
		return given{ids: ids}, err
	}
	text, err := p.text(cmd)
	if err == nil && text == "" {
		err = usagef("the prompt is empty: give -p TEXT, -f FILE or text on stdin")
	}
	return given{text: text}, err
}

// check refuses flags that contradict each other.
func (p *promptFlags) check() error {
	if p.raw && p.template != "" {
		return usagef("--raw and --chat-template contradict each other")
	}
	return nil
}

// text is -p, -f or stdin.
func (p *promptFlags) text(cmd *cobra.Command) (string, error) {
	f := cmd.Flags()
	switch {
	case f.Changed("prompt") && f.Changed("file"):
		return "", usagef("--prompt and --file both give a text: use one")
	case f.Changed("file") && p.file != "-":
		data, err := readFile(p.file, mostText)
		if err != nil {
			return "", usagef("--file: %v", err)
		}
		return string(data), nil
	case f.Changed("prompt") && p.prompt != "-":
		return p.prompt, nil
	case !f.Changed("prompt") && !f.Changed("file") && isTerminal(cmd.InOrStdin()):
		return "", usagef("nothing to read: give -p TEXT, -f FILE or text on stdin; %s", seeHelp(cmd))
	}
	data, err := readUpTo(cmd.InOrStdin(), mostText)
	if err != nil {
		return "", fmt.Errorf("stdin: %w", err)
	}
	return string(data), nil
}

// encode turns a prompt into ids of the model. how says what was done, for -v.
func (p *promptFlags) encode(cmd *cobra.Command, o *opened, g given) (ids []int32, how string, err error) {
	if g.ids != nil {
		for i, id := range g.ids {
			if int(id) >= o.Config.Vocab {
				return nil, "", usagef("--prompt-ids: id %d, at place %d, is not below the model's vocabulary of %d", id, i, o.Config.Vocab)
			}
		}
		return g.ids, "ids as given", nil
	}
	if o.Tokenizer == nil {
		return nil, "", usagef("%s has no tokenizer.json: give --prompt-ids", o.Name)
	}
	if err := atMost(o.Tokenizer, g.text, o.Config.MaxPositions); err != nil {
		return nil, "", err
	}
	ids, how, err = p.encodeText(cmd.Flags(), o.Tokenizer, o.Name, g.text)
	if err == nil && len(ids) == 0 {
		err = usagef("the prompt is empty: its text has no tokens")
	}
	if err == nil {
		p.noteRaw(cmd.ErrOrStderr(), cmd.Flags(), o, ids)
	}
	return ids, how, err
}

// atMost refuses a text that must have more tokens than the model's limit before it
// is split, which would take many times its memory.
func atMost(tok *tokenizer.Tokenizer, text string, limit int) error {
	if least, why := tok.Fewest(text); least > limit {
		return usagef("the prompt has at least %d tokens (%s), and the limit, the model's, is %d: shorten it", least, why, limit)
	}
	return nil
}

func (p *promptFlags) encodeText(f *pflag.FlagSet, tok *tokenizer.Tokenizer, name, text string) (ids []int32, how string, err error) {
	template, how, err := p.chooseTemplate(tok, name)
	if err != nil {
		return nil, "", err
	}
	if template == "" {
		if f.Changed("system-prompt") {
			return nil, "", usagef("--system-prompt needs a chat template, but %s", how)
		}
		ids, err = tok.Encode(text+p.prefill, tokenizer.EncodeOptions{AddSpecial: true})
		return ids, how, asPrompt(err)
	}
	var messages []tokenizer.Message
	if f.Changed("system-prompt") {
		messages = append(messages, tokenizer.Message{Role: "system", Content: p.system})
	}
	messages = append(messages, tokenizer.Message{Role: "user", Content: text})
	ids, err = tok.EncodeChat(messages, tokenizer.ChatOptions{
		Template: template, TemplatePath: p.template, AddGenerationPrompt: true, Prefill: p.prefill})
	return ids, how, asPrompt(withAdvice(err))
}

// withAdvice adds what to do about a template that leaves out a message.
func withAdvice(err error) error {
	var unused *tokenizer.UnusedError
	if !errors.As(err, &unused) {
		return err
	}
	if unused.Role == "system" {
		return fmt.Errorf("%w: leave out --system-prompt, or give another template by --chat-template FILE", err)
	}
	return fmt.Errorf("%w: give another template by --chat-template FILE, or --raw for none", err)
}

func asPrompt(err error) error {
	if err == nil {
		return nil
	}
	return usagef("the prompt: %w", err)
}

// baseModel matches names of models that were not trained on chats; some ship a
// template all the same.
var baseModel = regexp.MustCompile(`(?i)(Qwen2\.5-[0-9.]+B|DeepSeek-V2-Lite)$`)

// isBase reports whether a model is of those, by its name.
func isBase(name string) bool { return baseModel.MatchString(filepath.Base(filepath.Clean(name))) }

// chooseTemplate decides between raw text ("") and a chat template.
func (p *promptFlags) chooseTemplate(tok *tokenizer.Tokenizer, name string) (template, how string, err error) {
	switch {
	case p.template != "":
		text, err := readTemplate(p.template)
		return text, "chat template of " + p.template, err
	case p.raw:
		return "", "the text is raw (--raw)", nil
	case tok.Template() == "":
		// Render tells a template that is missing from one that cannot be used.
		if _, err := tok.Render(nil, tokenizer.ChatOptions{}); !errors.Is(err, tokenizer.ErrNoTemplate) {
			return "", "", err
		}
		return "", "the text is raw (the checkpoint has no chat template)", nil
	case isBase(name):
		return "", "the text is raw (" + filepath.Base(name) + " is a base model; --chat-template uses a template)", nil
	}
	return tok.Template(), "chat template of the checkpoint", nil
}

// readTemplate reads a template of the user's. A pipe is refused, since to open
// one waits for its writer.
func readTemplate(path string) (string, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", usagef("--chat-template: %s is not a regular file", path)
	}
	data, err := readFile(path, mostText)
	if err == nil && len(data) == 0 {
		err = fmt.Errorf("%s is empty", path)
	}
	if err != nil {
		return "", usagef("--chat-template: %v", err)
	}
	return string(data), nil
}

// parseIDs reads the ids of lists, one after another; flag names them in errors.
func parseIDs(flag string, lists []string) (ids []int32, err error) {
	for _, list := range lists {
		if ids, err = parseList(flag, list, ids); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// parseList appends to ids those of 1,2,3 or of the file that @FILE names: separated
// by commas or white space, in brackets or not, or a JSON object of generate or
// tokenize; flag names them in errors.
func parseList(flag, s string, ids []int32) ([]int32, error) {
	if path, ok := strings.CutPrefix(s, "@"); ok {
		data, err := readFile(path, mostText)
		if err != nil {
			return nil, usagef("%s: %v", flag, err)
		}
		flag, s = flag+": "+path, string(data)
	}
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "{") {
		var err error
		if s, err = idsOfObject(s); err != nil {
			return nil, usagef("%s: %v", flag, err)
		}
	}
	return readIDs(flag, strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), ids)
}

// readIDs appends ids with commas or white space between them; flag names them in
// errors.
func readIDs(flag, s string, ids []int32) ([]int32, error) {
	if strings.TrimSpace(s) == "" {
		return nil, usagef("%s: there are no ids: give 1,2,3 or @FILE", flag)
	}
	for part := range strings.SplitSeq(s, ",") {
		words := strings.FieldsFunc(part, func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) })
		if len(words) == 0 {
			return nil, usagef("%s: there is no id at place %d, only a comma: take the comma out, or give the id", flag, len(ids))
		}
		for _, word := range words {
			id, err := strconv.ParseInt(word, 10, 32)
			if err != nil || id < 0 {
				return nil, usagef("%s: %q, at place %d, is not a token id: want 0 to %d", flag, word, len(ids), math.MaxInt32)
			}
			ids = append(ids, int32(id))
		}
	}
	return ids, nil
}

// idsOfObject is the list in an object that tokenize --json (ids) or generate
// --json (token_ids) printed.
func idsOfObject(s string) (string, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s), &object); err != nil {
		return "", fmt.Errorf("not a JSON object: %w", err)
	}
	for _, key := range []string{"ids", "token_ids"} {
		if list, ok := object[key]; ok {
			return string(list), nil
		}
	}
	return "", errors.New(`the JSON object has neither "ids" nor "token_ids"`)
}
