//go:build !older

package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// printed is a table as printTable writes it, taken apart to be united with others.
type printed struct {
	heading  []string          // the version and the comment
	kinds    map[string]string // "kind apps/v1 Deployment" → message
	messages map[string]*printedMessage
}

type printedMessage struct {
	heading string
	fields  map[int]string // by number, the whole line
}

func parseTable(text string) printed {
	t := printed{kinds: map[string]string{}, messages: map[string]*printedMessage{}}
	blocks := strings.Split(strings.TrimSuffix(text, "\n"), "\n\n")
	for _, line := range strings.Split(blocks[0], "\n") {
		if words := strings.Fields(line); words[0] == "kind" {
			t.kinds[strings.Join(words[:3], " ")] = words[3]
		} else {
			t.heading = append(t.heading, line)
		}
	}
	for _, block := range blocks[1:] {
		lines := strings.Split(block, "\n")
		m := &printedMessage{heading: lines[0], fields: map[int]string{}}
		for _, line := range lines[1:] {
			number, err := strconv.Atoi(strings.Fields(line)[0])
			must(err)
			m.fields[number] = line
		}
		t.messages[strings.Fields(lines[0])[1]] = m
	}
	return t
}

// add takes over the kinds, messages and fields that only an earlier release has. Kubernetes never gives a number or a
// name to another field; a release that did could not be read with one table, so that stops the program.
func (t printed) add(earlier printed, release string) {
	for kind, message := range earlier.kinds {
		if known, ok := t.kinds[kind]; ok && known != message {
			fail("%s is %s in %s and %s later", kind, message, release, known)
		}
		t.kinds[kind] = message
	}
	for name, theirs := range earlier.messages {
		ours, ok := t.messages[name]
		if !ok {
			t.messages[name] = theirs
			continue
		}
		ours.add(theirs, name+" of "+release)
	}
}

func (m *printedMessage) add(earlier *printedMessage, where string) {
	names := map[string]int{}
	for number, line := range m.fields {
		if name := strings.Fields(line)[1]; name != "-" {
			names[name] = number
		}
	}
	for number, line := range earlier.fields {
		words := strings.Fields(line)
		if known, ok := m.fields[number]; ok {
			if now := strings.Fields(known); now[1] != words[1] || wireType(now[2]) != wireType(words[2]) {
				fail("%s: field %q became %q", where, line, known)
			}
		} else if other, taken := names[words[1]]; taken {
			fail("%s: field %q has the number %d later", where, line, other)
		} else {
			m.fields[number] = absentByDefault(words)
		}
	}
}

// absentByDefault is the line of a field that only earlier releases have. Objects of later ones never have it: it is
// omitted when nothing is set, even if the Go type of the earlier release did not omit it.
func absentByDefault(words []string) string {
	single := !strings.HasPrefix(words[2], "[]") && !strings.HasPrefix(words[2], "{}")
	if single && words[1] != "-" && !strings.HasPrefix(words[2], "*") {
		words[2] = "*" + words[2]
	}
	if !slices.Contains(words, "omitempty") {
		words = slices.Insert(words, 3, "omitempty")
	}
	return strings.Join(words, " ")
}

// wireType is a type without its pointer, which JSON and protobuf do not show.
func wireType(word string) string {
	return strings.TrimPrefix(word, "*")
}

func (t printed) String() string {
	var out strings.Builder
	fmt.Fprintln(&out, strings.Join(t.heading, "\n"))
	for _, kind := range slices.SortedFunc(maps.Keys(t.kinds), compareKinds) {
		fmt.Fprintln(&out, kind, t.kinds[kind])
	}
	for _, name := range slices.Sorted(maps.Keys(t.messages)) {
		m := t.messages[name]
		fmt.Fprintf(&out, "\n%s\n", m.heading)
		for _, number := range slices.Sorted(maps.Keys(m.fields)) {
			fmt.Fprintln(&out, m.fields[number])
		}
	}
	return out.String()
}

// compareKinds orders by apiVersion, then kind: word by word, for a space sorts before a slash.
func compareKinds(a, b string) int {
	return slices.Compare(strings.Fields(a), strings.Fields(b))
}
