package eval

import "testing"

func TestExactAnswer(t *testing.T) {
	row := Row{Outputs: []string{"The access code of amber-lake is 123456."}}
	for prediction, want := range map[string]bool{
		"The access code of amber-lake is 123456.":          true,
		" \nThe access code of amber-lake is 123456.\n":     true,
		"The access code of amber-lake is 123456":           false,
		"The access code of amber-lake is 1234567.":         false,
		"the access code of amber-lake is 123456.":          false,
		"The access code of amber-lake is 123456. It is so": false,
		"": false,
	} {
		if got := ExactAnswer(prediction, row); got != want {
			t.Errorf("ExactAnswer(%q) = %v", prediction, got)
		}
	}
	if ExactAnswer("", Row{}) || ExactAnswer("a", Row{Outputs: []string{"a", "b"}}) {
		t.Error("a row without one sole reference has an exact answer")
	}
}
