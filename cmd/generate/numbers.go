package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// errNotDecimal is what is amiss with 0x20, 0o17, 0b11 and 1_000.
var errNotDecimal = errors.New("want a decimal number, without 0x, 0o, 0b or _")

// decimalValue is a flag's number, which pflag alone would read as Go source: 010
// as 8.
type decimalValue struct{ pflag.Value }

// Set takes a decimal number, as lists do; zeros before it mean nothing.
func (d decimalValue) Set(s string) error {
	err := d.Value.Set(withoutZeros(s))
	if !errors.Is(err, strconv.ErrSyntax) && strings.ContainsAny(s, "_xXoObB") {
		return errNotDecimal
	}
	return err
}

// withoutZeros leaves out zeros that digits follow.
func withoutZeros(s string) string {
	sign := s[:len(s)-len(strings.TrimLeft(s, "+-"))]
	digits := strings.TrimLeft(s[len(sign):], "0")
	if digits == "" || digits[0] < '0' || digits[0] > '9' {
		return s
	}
	return sign + digits
}

// readDecimal makes a flag that is a number decimal.
func readDecimal(f *pflag.Flag) {
	switch f.Value.Type() {
	case "int", "uint64", "float64":
		f.Value = decimalValue{f.Value}
	}
}
