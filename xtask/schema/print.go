package main

import (
	"fmt"
	"io"
	"strings"
)

// printTable writes the table as sorted text: a line per kind, a block per message, a line per field. So a new Kubernetes
// version is a diff. Only differences from the defaults are written. crates/wire/src/schema/parse.rs reads the table and
// documents its grammar.
func printTable(out io.Writer, version string, t table) {
	fmt.Fprintf(out, "kubernetes %s\n", version)
	fmt.Fprintf(out, "# The messages of Kubernetes' built-in kinds. Made by `cargo xtask schema`; not to be edited.\n")
	for _, k := range t.kinds {
		fmt.Fprintf(out, "kind %s %s %s\n", k.apiVersion, k.kind, protoName(k.goType))
	}
	for _, m := range t.messages {
		printMessage(out, m)
	}
}

func printMessage(out io.Writer, m *message) {
	words := []string{"message", m.name}
	if m.shape != "" {
		words = append(words, m.shape)
	}
	if m.typeMeta {
		words = append(words, "typemeta")
	}
	if m.atomic {
		words = append(words, "atomic")
	}
	fmt.Fprintf(out, "\n%s\n", strings.Join(words, " "))
	for _, f := range m.fields {
		fmt.Fprintln(out, strings.Join(fieldWords(m, f), " "))
	}
}

func fieldWords(m *message, f *field) []string {
	name := f.name
	if name == "" {
		name = "-" // inlined
	}
	ty := f.ty
	if f.message != nil {
		ty = messageRef(m.name, f.message.name)
	}
	switch {
	case f.list:
		ty = "[]" + ty
	case f.isMap:
		ty = "{}" + ty
	case f.pointer:
		ty = "*" + ty
	}
	words := []string{fmt.Sprint(f.number), name, ty}
	if f.omitEmpty {
		words = append(words, "omitempty")
	}
	if f.omitZero {
		words = append(words, "omitzero")
	}
	if f.patch != "" {
		words = append(words, "patch="+f.patch)
	}
	if f.mergeKey != "" {
		words = append(words, "key="+f.mergeKey)
	}
	if f.apply != "" {
		words = append(words, f.apply)
	}
	return words
}

// messageRef names a message from within another: a neighbour in the same package without the package.
func messageRef(from, to string) string {
	pkg := from[:strings.LastIndex(from, ".")+1]
	if short, ok := strings.CutPrefix(to, pkg); ok && !strings.Contains(short, ".") {
		return "." + short
	}
	return to
}
