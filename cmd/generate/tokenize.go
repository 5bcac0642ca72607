package main

import (
	"fmt"

	"blitzen/tokenizer"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// tokenizeFlags are those of generate tokenize.
type tokenizeFlags struct {
	modelFlags
	promptFlags
	ids     []string // lists, one after another
	special bool
	json    bool
}

func newTokenizeCommand() *cobra.Command {
	t := &tokenizeFlags{}
	cmd := newCommand("tokenize [flags] MODEL", "Print the token ids of a text, or the text of ids", t.run)
	addFlags(cmd, "Text or ids", func(f *pflag.FlagSet) {
		f.StringVarP(&t.promptFlags.prompt, "prompt", "p", "", "`TEXT` to split; - reads stdin, as does no text at all")
		f.StringVarP(&t.file, "file", "f", "", "read the text from `FILE`, byte for byte; - is stdin")
		f.BoolVar(&t.special, "add-special-tokens", false, "add the tokens that begin or end a sequence")
		f.StringArrayVar(&t.ids, "ids", nil, "token `IDS` to turn into text: 1,2,3 or @FILE")
	})
	addFlags(cmd, "Output", func(f *pflag.FlagSet) {
		f.BoolVar(&t.json, "json", false, "print one JSON object: ids with their pieces, or with their text")
	})
	addFlags(cmd, "Model", t.registerName)
	return cmd
}

func (t *tokenizeFlags) run(cmd *cobra.Command, args []string) error {
	f := cmd.Flags()
	if f.Changed("ids") && (f.Changed("prompt") || f.Changed("file")) {
		return usagef("--ids and a text both say what to read: use one")
	}
	if f.Changed("ids") && onCommandLine(f, "add-special-tokens") {
		return usagef("--add-special-tokens means nothing with --ids, which are all that there is")
	}
	src, err := t.find(args)
	if err != nil {
		return err
	}
	tok, err := tokenizer.Open(src.dir)
	if err != nil {
		return err
	}
	defer tok.Close()
	if f.Changed("ids") {
		return t.decode(cmd, tok)
	}
	text, err := t.text(cmd)
	if err != nil {
		return err
	}
	ids, err := tok.Encode(text, tokenizer.EncodeOptions{AddSpecial: t.special})
	if err != nil {
		return asUsage(err)
	}
	return t.print(cmd, tok, ids)
}

func (t *tokenizeFlags) print(cmd *cobra.Command, tok *tokenizer.Tokenizer, ids []int32) error {
	out := cmd.OutOrStdout()
	object := struct {
		IDs    []int32  `json:"ids"`
		Pieces []string `json:"pieces"`
	}{append([]int32{}, ids...), []string{}}
	for _, id := range ids {
		piece, _ := tok.Piece(id)
		object.Pieces = append(object.Pieces, piece)
	}
	if t.json {
		return printJSON(out, object)
	}
	for i, id := range ids {
		if _, err := fmt.Fprintf(out, "%6d  %q\n", id, object.Pieces[i]); err != nil {
			return err
		}
	}
	return nil
}

// decode prints the text of ids, control tokens included.
func (t *tokenizeFlags) decode(cmd *cobra.Command, tok *tokenizer.Tokenizer) error {
	ids, err := parseIDs("--ids", t.ids)
	if err != nil {
		return err
	}
	text, err := tok.Decode(ids, false)
	if err != nil {
		return usagef("--ids: %w", err)
	}
	if !t.json {
		_, err = fmt.Fprintln(exact(cmd.OutOrStdout()), text)
		return err
	}
	return printJSON(cmd.OutOrStdout(), map[string]any{"ids": ids, "text": text})
}
