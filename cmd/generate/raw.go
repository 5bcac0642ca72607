package main

import (
	"fmt"
	"io"
	"slices"

	"blitzen/tokenizer"

	"github.com/spf13/pflag"
)

// turnEnds end an answer of a chat. Base models may know them, too, but their
// texts end with another token.
var turnEnds = []string{"<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>"}

// speakers begin what one side of a chat says.
var speakers = []string{"<｜User｜>", "<｜Assistant｜>", "<|User|>", "<|Assistant|>", "<|user|>", "<|assistant|>"}

// chatToken is a token by which a model with the given end tokens is one for
// chats, "" if there is none.
func chatToken(tok *tokenizer.Tokenizer, eos []int32) string {
	for _, id := range eos {
		if piece, _ := tok.Piece(id); slices.Contains(turnEnds, piece) {
			return piece
		}
	}
	for _, piece := range speakers {
		if _, ok := tok.IDOf(piece); ok {
			return piece
		}
	}
	return ""
}

// noteRaw says that a model for chats has lost its template, so that its answers
// will be poor. ids are those of the text, or nil for a task's: with such
// tokens in it the text is a chat already.
func (p *promptFlags) noteRaw(w io.Writer, f *pflag.FlagSet, o *opened, ids []int32) {
	if f.Lookup("raw") == nil || p.raw || p.template != "" || isBase(o.Name) {
		return
	}
	if template, _, err := p.chooseTemplate(o.Tokenizer, o.Name); template != "" || err != nil {
		return
	}
	token := chatToken(o.Tokenizer, o.EOS)
	if id, ok := o.Tokenizer.IDOf(token); ok && !slices.Contains(ids, id) {
		fmt.Fprintf(w, "%s: neither tokenizer_config.json nor chat_template.jinja has a chat template, though the token %q is for chats: "+
			"text is read raw, which such a model does not answer well: download the file again, give --chat-template FILE, or --raw where raw is meant\n", o.Dir, token)
	}
}
