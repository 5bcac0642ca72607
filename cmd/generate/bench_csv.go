package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// csv writes a column for every JSON field, numbers of a list in one cell. A list
// of objects has a column for every field of the first, the second and so on:
// faster_than_1_method. Cells are empty where JSON has no such field.
func (t table[R]) csv(w io.Writer) error {
	rows := make([]reflect.Value, len(t.rows))
	for i, r := range t.rows {
		rows[i] = reflect.Indirect(reflect.ValueOf(r))
	}
	row := reflect.TypeFor[R]()
	if row.Kind() == reflect.Pointer {
		row = row.Elem()
	}
	columns := objectColumns("", row, rows)
	out := csv.NewWriter(w)
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.name
	}
	out.Write(line)
	for r := range rows {
		for i, c := range columns {
			line[i] = c.cells[r]
		}
		out.Write(line)
	}
	out.Flush()
	return out.Error()
}

// csvColumn is a column of CSV with a cell for every row.
type csvColumn struct {
	name  string
	cells []string
}

// objectColumns are those of the JSON fields of a struct, whose names follow
// prefix. A row that lacks the struct, or leaves a field out of JSON, has the zero
// [reflect.Value].
func objectColumns(prefix string, object reflect.Type, rows []reflect.Value) (columns []csvColumn) {
	for _, f := range reflect.VisibleFields(object) {
		if f.Anonymous { // its own fields are visible, too
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		values := eachRow(rows, func(r reflect.Value) reflect.Value {
			v := r.FieldByIndex(f.Index)
			if options == "omitempty" && v.IsZero() {
				return reflect.Value{}
			}
			return v
		})
		columns = append(columns, valueColumns(prefix+name, f.Type, values)...)
	}
	return columns
}

// valueColumns are those of one field: one, or those of the objects in it.
func valueColumns(name string, kind reflect.Type, rows []reflect.Value) (columns []csvColumn) {
	switch {
	case kind.Kind() == reflect.Struct:
		return objectColumns(name+"_", kind, rows)
	case kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Struct:
		for i := range longest(rows) {
			objects := eachRow(rows, func(list reflect.Value) reflect.Value {
				if i >= list.Len() {
					return reflect.Value{}
				}
				return list.Index(i)
			})
			columns = append(columns, objectColumns(fmt.Sprintf("%s_%d_", name, i+1), kind.Elem(), objects)...)
		}
		return columns
	}
	cells := make([]string, len(rows))
	for i, v := range rows {
		cells[i] = csvCell(v)
	}
	return []csvColumn{{name, cells}}
}

// eachRow is what pick makes of every row that there is.
func eachRow(rows []reflect.Value, pick func(reflect.Value) reflect.Value) []reflect.Value {
	picked := slices.Clone(rows)
	for i, r := range rows {
		if r.IsValid() {
			picked[i] = pick(r)
		}
	}
	return picked
}

// longest is the length of the longest list.
func longest(lists []reflect.Value) (n int) {
	for _, l := range lists {
		if l.IsValid() {
			n = max(n, l.Len())
		}
	}
	return n
}

// csvCell is a value as text, the elements of a list with spaces between; "" for none.
func csvCell(v reflect.Value) string {
	switch {
	case !v.IsValid():
		return ""
	case v.Kind() == reflect.Slice:
		text := fmt.Sprint(v)
		return text[1 : len(text)-1] // without brackets
	}
	return fmt.Sprint(v)
}
