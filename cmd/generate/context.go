package main

import (
	"blitzen/model"
)

// contextSize is the rows that a generation needs: the prompt and what may
// follow, at most the user's limit and the model's. A prompt is never cut.
func contextSize(prompt, maxTokens, asked int, cfg model.Config) (int, error) {
	limit := cfg.MaxPositions
	if asked > limit {
		return 0, usagef("-c %d: the model's limit is %d tokens%s", asked, limit, stretch(asked, cfg))
	}
	if asked > 0 {
		limit = asked
	}
	if prompt > limit {
		return 0, usagef("the prompt has %d tokens and up to %d are to follow, but the limit is %d (%s): shorten the prompt%s",
			prompt, maxTokens, limit, whose(asked), stretch(prompt, cfg))
	}
	return min(prompt+maxTokens, limit), nil
}

func whose(asked int) string {
	if asked > 0 {
		return "-c"
	}
	return "max_position_embeddings of config.json"
}

// stretch tells users of Qwen2.5 how its model card extends the context.
func stretch(tokens int, cfg model.Config) string {
	if cfg.Architecture != "Qwen2ForCausalLM" || tokens > 4*cfg.MaxPositions || tokens <= cfg.MaxPositions {
		return ""
	}
	return `, or add "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768} to config.json if the model was made for it`
}
