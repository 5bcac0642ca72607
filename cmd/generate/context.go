package main

import (
	"fmt"

	"blitzen/model"
)

// contextSize is the rows that a generation needs: the prompt and what may
// follow, at most asked (-c; 0 if it was not given) and the model's limit. A
// prompt is never cut. An answer's room is cut to what the limit leaves, unless
// the user named a length (strict).
func contextSize(prompt, maxTokens, asked int, strict bool, cfg model.Config) (int, error) {
	limit, whose := cfg.MaxPositions, "the model's, from config.json"
	if asked > limit {
		return 0, usagef("-c %d: the model's limit is %d tokens: give less%s", asked, limit, stretch(asked, cfg))
	}
	if asked > 0 {
		limit, whose = asked, "-c"
	}
	switch {
	case prompt > limit:
		return 0, usagef("the prompt has %d tokens and up to %d are to follow, but the limit is %d (%s): shorten the prompt%s",
			prompt, maxTokens, limit, whose, stretch(prompt, cfg))
	case strict && maxTokens > max(limit-prompt, 1):
		return 0, usagef("the prompt has %d tokens and up to %d are to follow, but the limit is %d (%s): shorten the prompt or give -n %d%s",
			prompt, maxTokens, limit, whose, max(limit-prompt, 1), stretch(prompt+maxTokens, cfg))
	}
	// The last token needs no row; a prompt that fills the limit still gets one.
	return min(prompt+min(maxTokens, limit), max(limit-1, prompt)), nil
}

// withinLimit refuses a context (-c) above the model's limit.
func withinLimit(context int, cfg model.Config) error {
	if context > cfg.MaxPositions {
		return usagef("-c %d: the model's limit is %d tokens: give less%s", context, cfg.MaxPositions, stretch(context, cfg))
	}
	return nil
}

// Context of Qwen2.5 as published, and how far its model card stretches it.
const (
	qwenPositions = 32768
	qwenFactor    = 4
)

// stretch tells users of Qwen2.5 how its model card extends the context.
func stretch(tokens int, cfg model.Config) string {
	if cfg.Architecture != "Qwen2ForCausalLM" || cfg.MaxPositions != qwenPositions || tokens <= qwenPositions || tokens > qwenFactor*qwenPositions {
		return ""
	}
	return fmt.Sprintf(`, or set "rope_scaling": {"type": "yarn", "factor": %d.0, "original_max_position_embeddings": %d} to config.json if the model was made for it`,
		qwenFactor, qwenPositions)
}
