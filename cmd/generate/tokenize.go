package main

import (
	"encoding/json"
	"fmt"

	"blitzen/tokenizer"

	"github.com/spf13/cobra"
)

// tokenizeFlags are those of generate tokenize.
type tokenizeFlags struct {
	modelFlags
	promptFlags
	ids     string
	special bool
	json    bool
}

func newTokenizeCommand() *cobra.Command {
	t := &tokenizeFlags{}
	cmd := newCommand("tokenize [flags] MODEL", "Print the token ids of a text, or the text of ids", cobra.MaximumNArgs(1), t.run)
	f := cmd.Flags()
	f.StringVarP(&t.promptFlags.prompt, "prompt", "p", "", "the text; - reads stdin")
	f.StringVarP(&t.file, "file", "f", "", "file that holds the text")
	f.StringVar(&t.ids, "ids", "", "decode these ids instead: 1,2,3 or @FILE")
	f.BoolVar(&t.special, "add-special-tokens", false, "add the tokens that begin or end a sequence")
	f.BoolVar(&t.json, "json", false, "print {\"ids\": […], \"pieces\": […]}")
	f.StringVarP(&t.model, "model", "m", "", "model folder or org/name in the Hugging Face cache, instead of the argument")
	f.StringVar(&t.revision, "revision", "main", "branch, tag or commit in the Hugging Face cache")
	f.SetNormalizeFunc(aliases)
	return cmd
}

func (t *tokenizeFlags) run(cmd *cobra.Command, args []string) error {
	name, err := t.argument(args)
	if err != nil {
		return err
	}
	dir, err := resolveModel(name, t.revision)
	if err != nil {
		return err
	}
	tok, err := tokenizer.Open(dir)
	if err != nil {
		return err
	}
	defer tok.Close()
	if cmd.Flags().Changed("ids") {
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
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(object)
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
	ids, err := parseIDs(t.ids)
	if err != nil {
		return err
	}
	text, err := tok.Decode(ids, false)
	if err != nil {
		return asUsage(err)
	}
	if !t.json {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
		return err
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"ids": ids, "text": text})
}
