package template

import (
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// have passes on a value of which a field or slice is taken: an undefined one has none.
func have(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) != 1 || args[0].IsUndefined() {
		return jinja.Undefined(), errors.New("an undefined value has no fields and items: mend the template")
	}
	return args[0], nil
}

// item is a value's item at an index or key, undefined where it has none.
func item(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) != 2 {
		return jinja.Undefined(), errors.New("an index is not one value")
	}
	v, err := have(args[:1], nil)
	key := asNumber(args[1])
	switch {
	case err != nil:
	case v.IsDict() && key.IsString():
		v, _ = v.AsDict().Get(key.AsString())
	case v.IsDict() && key.IsInt():
		if _, ok := v.AsDict().Get(strconv.FormatInt(key.AsInt(), 10)); ok {
			err = errors.New("keys that are whole numbers are not supported: mend the template")
		}
		v = jinja.Undefined()
	case v.IsList() && key.IsInt():
		v = at(v.AsList().Items, key.AsInt())
	case v.IsString() && key.IsInt():
		v = character(v.AsString(), key.AsInt())
	default:
		v = jinja.Undefined()
	}
	return v, err
}

// at is the item at an index, counted from the end if it is negative.
func at(items []jinja.Value, index int64) jinja.Value {
	if index < 0 {
		index += int64(len(items))
	}
	if index < 0 || index >= int64(len(items)) {
		return jinja.Undefined()
	}
	return items[index]
}

// character is at for a text.
func character(text string, index int64) jinja.Value {
	if index < 0 {
		index += int64(utf8.RuneCountInString(text))
	}
	for _, r := range text {
		if index == 0 {
			return jinja.NewString(string(r))
		}
		index--
	}
	return jinja.Undefined()
}
