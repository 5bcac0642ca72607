package eval

import "testing"

func TestScoreExact(t *testing.T) {
	row := Row{Scorer: ScorerExact, Outputs: []string{"The access code of amber-lake is 123456."}}
	for prediction, want := range map[string]bool{
		"The access code of amber-lake is 123456.":          true,
		" \nThe access code of amber-lake is 123456.\n":     true,
		"The access code of amber-lake is 123456":           false,
		"The access code of amber-lake is 1234567.":         false,
		"the access code of amber-lake is 123456.":          false,
		"The access code of amber-lake is 123456. It is so": false,
		"": false,
	} {
		if got, err := Score(prediction, row); err != nil || (got == 1) != want {
			t.Errorf("%q scores %v, error %v", prediction, got, err)
		}
	}
	for prediction, outputs := range map[string][]string{"": nil, "a": {"a", "b"}} {
		if got, err := Score(prediction, Row{Scorer: ScorerExact, Outputs: outputs}); err != nil || got != 0 {
			t.Errorf("%q with the references %q scores %v, error %v", prediction, outputs, got, err)
		}
	}
}
