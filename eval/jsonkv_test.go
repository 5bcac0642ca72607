package eval

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func kvTokens(text, prefix string) (int, error) { return tokens(text + prefix) }

func TestJSONKV(t *testing.T) {
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	rapid.Check(t, func(t *rapid.T) {
		kv := JSONKV{Tokens: rapid.IntRange(700, 3000).Draw(t, "tokens"), Seed: rapid.Uint64().Draw(t, "seed")}
		i := rapid.IntRange(0, 1000).Draw(t, "row")
		row, err := kv.Row(i, kvTokens)
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := kvTokens(row.Input, row.AnswerPrefix); n+kvAnswer != row.Length || row.Length > kv.Tokens {
			t.Errorf("%d tokens, the row says %d of %d", n, row.Length, kv.Tokens)
		}
		object, rest, _ := strings.Cut(strings.TrimPrefix(row.Input, "JSON data:\n"), "\n\nExtract")
		var pairs map[string]string
		if err := json.Unmarshal([]byte(object), &pairs); err != nil {
			t.Fatal(err)
		}
		for key, value := range pairs {
			if !uuid.MatchString(key) || !uuid.MatchString(value) {
				t.Errorf("pair %s: %s", key, value)
			}
		}
		asked := rest[strings.LastIndex(rest, "Key: ")+5:]
		if len(row.Outputs) != 1 || pairs[asked] != row.Outputs[0] || strings.Count(row.Input, row.Outputs[0]) != 1 {
			t.Errorf("key %s is %q, the reference %q", asked, pairs[asked], row.Outputs)
		}
		for _, example := range strings.Split(rest, "Key: ")[1 : 1+kvExamples] {
			key, value, _ := strings.Cut(strings.TrimSpace(example), "\nCorresponding value: ")
			if key == asked || pairs[key] != value {
				t.Errorf("example %q", example)
			}
		}
		longer := kvObject{seed: kv.Seed, row: i}
		if n, _ := kvTokens(longer.text(len(pairs)+1), kvPrefix); n+kvAnswer <= kv.Tokens {
			t.Errorf("%d pairs, and one more has %d tokens of %d", len(pairs), n+kvAnswer, kv.Tokens)
		}
		if again, err := kv.Row(i, kvTokens); err != nil || again.Input != row.Input {
			t.Errorf("the same row again differs (error %v)", err)
		}
	})
}

func TestJSONKVRefuses(t *testing.T) {
	broken := errors.New("broken tokenizer")
	for want, row := range map[string]func() (Row, error){
		"row -1":                     func() (Row, error) { return JSONKV{Tokens: 900}.Row(-1, kvTokens) },
		"an object of 3 pairs takes": func() (Row, error) { return JSONKV{Tokens: 200}.Row(0, kvTokens) },
		"counting tokens: broken tokenizer": func() (Row, error) {
			return JSONKV{Tokens: 900}.Row(0, func(string, string) (int, error) { return 0, broken })
		},
	} {
		if _, err := row(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}
