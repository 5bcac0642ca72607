package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"blitzen/tokenizer"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// promptFlags say what the model is asked.
type promptFlags struct {
	prompt, file, ids string
	system            string
	raw               bool
	template          string
}

func (p *promptFlags) register(f *pflag.FlagSet) {
	f.StringVarP(&p.prompt, "prompt", "p", "", "the prompt; - reads stdin")
	f.StringVarP(&p.file, "file", "f", "", "file that holds the prompt, read byte for byte")
	f.StringVar(&p.ids, "prompt-ids", "", "token ids instead of text: 1,2,3 or @FILE")
	f.StringVar(&p.system, "system-prompt", "", "system message of the chat template")
	f.BoolVar(&p.raw, "raw", false, "use the prompt as it is, without the chat template")
	f.StringVar(&p.template, "chat-template", "", "file with a Jinja chat template to use instead of the checkpoint's")
}

// text is the prompt from the one place that was named.
func (p *promptFlags) text(cmd *cobra.Command) (string, error) {
	f := cmd.Flags()
	switch {
	case f.Changed("prompt") && f.Changed("file"):
		return "", usagef("--prompt and --file both give a prompt: use one")
	case f.Changed("file"):
		data, err := os.ReadFile(p.file)
		if err != nil {
			return "", usagef("--file: %v", err)
		}
		return string(data), nil
	case f.Changed("prompt") && p.prompt != "-":
		return p.prompt, nil
	case !f.Changed("prompt") && isTerminal(cmd.InOrStdin()):
		return "", usagef("no prompt: give -p TEXT, -f FILE, --prompt-ids or text on stdin")
	}
	data, err := io.ReadAll(cmd.InOrStdin())
	if err != nil {
		return "", fmt.Errorf("stdin: %w", err)
	}
	return string(data), nil
}

// encode turns the flags into ids. how says what was done, for -v.
func (p *promptFlags) encode(cmd *cobra.Command, tok *tokenizer.Tokenizer, name string) (ids []int32, how string, err error) {
	if cmd.Flags().Changed("prompt-ids") {
		if cmd.Flags().Changed("prompt") || cmd.Flags().Changed("file") {
			return nil, "", usagef("--prompt-ids and a text both give a prompt: use one")
		}
		ids, err = parseIDs(p.ids)
		return ids, "ids as given", err
	}
	text, err := p.text(cmd)
	if err != nil {
		return nil, "", err
	}
	if tok == nil {
		return nil, "", usagef("%s has no tokenizer.json: give --prompt-ids", name)
	}
	if text == "" {
		return nil, "", usagef("the prompt is empty")
	}
	return p.encodeText(cmd.Flags(), tok, name, text)
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
		ids, err = tok.Encode(text, tokenizer.EncodeOptions{AddSpecial: true})
		return ids, how, asUsage(err)
	}
	var messages []tokenizer.Message
	if f.Changed("system-prompt") {
		messages = append(messages, tokenizer.Message{Role: "system", Content: p.system})
	}
	messages = append(messages, tokenizer.Message{Role: "user", Content: text})
	ids, err = tok.EncodeChat(messages, tokenizer.ChatOptions{Template: template, AddGenerationPrompt: true})
	return ids, how, asUsage(err)
}

// baseModel matches names of models that were not trained on chats; some ship a
// template all the same.
var baseModel = regexp.MustCompile(`(?i)(Qwen2\.5-[0-9.]+B|DeepSeek-V2-Lite)$`)

// chooseTemplate decides between raw text ("") and a chat template.
func (p *promptFlags) chooseTemplate(tok *tokenizer.Tokenizer, name string) (template, how string, err error) {
	if p.template != "" {
		if p.raw {
			return "", "", usagef("--raw and --chat-template contradict each other")
		}
		data, err := os.ReadFile(p.template)
		if err != nil {
			return "", "", usagef("--chat-template: %v", err)
		}
		return string(data), "chat template of " + p.template, nil
	}
	switch {
	case p.raw:
		return "", "the text is raw (--raw)", nil
	case tok.Template() == "":
		return "", "the text is raw (the checkpoint has no chat template)", nil
	case baseModel.MatchString(filepath.Base(filepath.Clean(name))):
		return "", "the text is raw (" + filepath.Base(name) + " is a base model; --chat-template uses a template)", nil
	}
	return tok.Template(), "chat template of the checkpoint", nil
}

// parseIDs reads 1,2,3 or the file that @FILE names, separated by commas or
// white space.
func parseIDs(s string) ([]int32, error) {
	if path, ok := strings.CutPrefix(s, "@"); ok {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, usagef("--prompt-ids: %v", err)
		}
		s = string(data)
	}
	s = strings.Trim(strings.TrimSpace(s), "[]")
	var ids []int32
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }) {
		id, err := strconv.ParseInt(word, 10, 32)
		if err != nil || id < 0 {
			return nil, usagef("--prompt-ids: %q is not a token id", word)
		}
		ids = append(ids, int32(id))
	}
	if len(ids) == 0 {
		return nil, usagef("--prompt-ids: no ids")
	}
	return ids, nil
}

// asUsage marks an error about the user's text.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
