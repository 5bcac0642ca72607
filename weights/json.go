package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Decoding into Go maps and structs would keep the last of two equal keys and
// match field names in any case. These few functions walk the tokens instead.

// document walks the object that is all of dec's text. Its errors say where.
func document(dec *json.Decoder, value func(key string) error) error {
	err := object(dec, value)
	if err == nil {
		if _, err = dec.Token(); err == io.EOF {
			return nil
		}
		err = errors.New("text after the closing brace")
	}
	return fmt.Errorf("%w (near byte %d of the JSON)", err, dec.InputOffset())
}

// object walks one object. value is called after each key and must read that
// key's value. A key that comes twice is an error.
func object(dec *json.Decoder, value func(key string) error) error {
	if err := expect(dec, '{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for dec.More() {
		key, err := word(dec)
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("the key %s comes twice", quoted(key))
		}
		seen[key] = true
		if err := value(key); err != nil {
			return fmt.Errorf("%s: %w", quoted(key), err)
		}
	}
	_, err := next(dec) // the closing brace, or what More has stopped at
	return err
}

// naturals reads an array of whole numbers below 2⁶²: sums of two cannot
// overflow an int.
func naturals(dec *json.Decoder) ([]int, error) {
	if err := expect(dec, '['); err != nil {
		return nil, err
	}
	numbers := []int{}
	for dec.More() {
		token, err := next(dec)
		if err != nil {
			return nil, err
		}
		number, ok := token.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%s is not a number", shown(token))
		}
		n, err := strconv.ParseUint(number.String(), 10, 62)
		if err != nil {
			return nil, fmt.Errorf("%s is not a whole number from 0 to 2^62-1", shown(number))
		}
		numbers = append(numbers, int(n))
	}
	_, err := next(dec)
	return numbers, err
}

// word reads a string.
func word(dec *json.Decoder) (string, error) {
	token, err := next(dec)
	if err != nil {
		return "", err
	}
	s, ok := token.(string)
	if !ok {
		return "", fmt.Errorf("%s is not a string", shown(token))
	}
	return s, nil
}

// expect reads an opening bracket.
func expect(dec *json.Decoder, bracket json.Delim) error {
	token, err := next(dec)
	if err != nil {
		return err
	}
	if token != bracket {
		return fmt.Errorf("%s stands where %v should", shown(token), bracket)
	}
	return nil
}

// next reads a token where the text must not end.
func next(dec *json.Decoder) (json.Token, error) {
	token, err := dec.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return token, err
}
