package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const metaPackage = "k8s.io/apimachinery/pkg/apis/meta/v1"

// table is everything that gets printed.
type table struct {
	kinds    []kind
	messages []*message // sorted by name
}

// message is one protobuf message.
type message struct {
	name     string
	goType   reflect.Type
	shape    string // empty: an object of its fields
	typeMeta bool   // the Go type embeds TypeMeta: JSON has apiVersion and kind, protobuf has them in the envelope
	atomic   bool   // server-side apply owns it as a whole, wherever it stands
	fields   []*field
}

// field is one field of a message.
type field struct {
	number    int
	name      string // empty: inlined
	ty        string // bool, int32, …, or "message"
	message   *message
	list      bool
	isMap     bool
	pointer   bool
	omitEmpty bool
	omitZero  bool
	patch     string // patchStrategy tag
	mergeKey  string // patchMergeKey tag
	apply     string // what differs from the default of server-side apply
}

type walker struct {
	messages map[reflect.Type]*message
}

// walkAll reflects over all kinds of the scheme and everything they are made of. How server-side apply treats them is
// added by addApply.
func walkAll(scheme *runtime.Scheme) table {
	w := walker{messages: map[reflect.Type]*message{}}
	kinds := kindsOf(scheme)
	for _, k := range kinds {
		w.message(k.goType)
	}
	// No built-in kind has a Duration, but component configurations and custom types do.
	w.message(reflect.TypeFor[metav1.Duration]())

	t := table{kinds: kinds}
	for _, m := range w.messages {
		t.messages = append(t.messages, m)
		checkNames(m)
	}
	sort.Slice(t.messages, func(i, j int) bool { return t.messages[i].name < t.messages[j].name })
	for i := 1; i < len(t.messages); i++ {
		if t.messages[i-1].name == t.messages[i].name {
			fail("two Go types are called %s", t.messages[i].name)
		}
	}
	return t
}

// message walks a Go type that is a message, once.
func (w *walker) message(t reflect.Type) *message {
	if m, ok := w.messages[t]; ok {
		return m
	}
	m := &message{name: protoName(t), goType: t}
	w.messages[t] = m
	if w.special(m) {
		return m
	}
	if marshalsJSON(t) {
		fail("%v has its own JSON form, which is unknown here: give it a shape", t)
	}
	if t.Kind() != reflect.Struct {
		fail("%v is a message but not a struct", t)
	}
	for i := range t.NumField() {
		w.field(m, t.Field(i))
	}
	sort.Slice(m.fields, func(i, j int) bool { return m.fields[i].number < m.fields[j].number })
	return m
}

func (w *walker) field(m *message, goField reflect.StructField) {
	where := m.name + "." + goField.Name
	jsonName, jsonOptions := splitTag(goField.Tag.Get("json"))
	protobuf, hasProtobuf := goField.Tag.Lookup("protobuf")
	if !goField.IsExported() {
		if hasProtobuf {
			fail("%s is not exported but has a protobuf tag", where)
		}
		return
	}
	if goField.Anonymous && goField.Type.Name() == "TypeMeta" && goField.Type.PkgPath() == metaPackage {
		if hasProtobuf || jsonName != "" {
			fail("%s: TypeMeta is expected to be inlined in JSON and absent from protobuf", where)
		}
		m.typeMeta = true
		return
	}
	number := protobufNumber(where, protobuf)
	if jsonName == "-" && number == 0 {
		return // only in memory
	}
	if jsonName == "-" || number == 0 {
		fail("%s exists in only one of JSON (%q) and protobuf (%q)", where, goField.Tag.Get("json"), protobuf)
	}

	f := &field{number: number, name: jsonName}
	for _, option := range jsonOptions {
		switch option {
		case "omitempty":
			f.omitEmpty = true
		case "omitzero":
			f.omitZero = true
		case "inline": // says nothing to encoding/json: embedding without a name does
		default:
			fail("%s: unknown JSON option %q", where, option)
		}
	}
	w.fieldType(f, where, goField.Type)
	if f.name == "" {
		if goField.Anonymous && goField.Type.Kind() == reflect.Struct && f.message != nil && f.message.shape == "" {
			if f.omitEmpty || f.omitZero {
				fail("%s is inlined, nothing to omit", where)
			}
		} else {
			fail("%s has no JSON name", where)
		}
	}
	f.patch, f.mergeKey = goField.Tag.Get("patchStrategy"), goField.Tag.Get("patchMergeKey")
	m.fields = append(m.fields, f)
}

// fieldType says what a Go type is on the wire. The wire type in the tag is no help: "bytes" stands for anything.
func (w *walker) fieldType(f *field, where string, t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		f.pointer = true
		t = t.Elem()
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t.Kind() == reflect.Pointer {
			fail("%s: pointer to %v", where, t)
		}
	}
	switch {
	case isMessage(t):
		// A named list of strings is a message that can be absent: nil.
		f.pointer = f.pointer || t.Kind() == reflect.Slice
	case t.Kind() == reflect.Map:
		if t.Key().Kind() != reflect.String {
			fail("%s: map with keys of type %v", where, t.Key())
		}
		f.isMap = true
		t = t.Elem()
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		f.list = true
		t = t.Elem()
	}
	f.ty, f.message = w.scalar(where, t)
}

func (w *walker) scalar(where string, t reflect.Type) (string, *message) {
	if isMessage(t) {
		return "message", w.message(t)
	}
	if marshalsJSON(t) {
		fail("%s: %v has its own JSON form", where, t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return "bool", nil
	case reflect.Int32:
		return "int32", nil
	case reflect.Int64:
		return "int64", nil
	case reflect.Uint32:
		return "uint32", nil
	case reflect.Uint64:
		return "uint64", nil
	case reflect.Float32:
		return "float", nil
	case reflect.Float64:
		return "double", nil
	case reflect.String:
		return "string", nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes", nil
		}
	}
	return fail("%s: no wire type for %v", where, t), nil
}

// isMessage: the generated code gives messages a Marshal method; plain named strings and maps have none.
func isMessage(t reflect.Type) bool {
	_, ok := reflect.New(t).Interface().(interface{ Marshal() ([]byte, error) })
	return ok
}

func marshalsJSON(t reflect.Type) bool {
	_, ok := reflect.New(t).Interface().(json.Marshaler)
	return ok
}

// protoName is the name of a message as generated.proto has it: the package path with dots.
func protoName(t reflect.Type) string {
	path := strings.NewReplacer("/", ".", "-", "_").Replace(t.PkgPath())
	return path + "." + t.Name()
}

// protobufNumber reads the field number from a tag such as "bytes,2,opt,name=spec", or 0 without a number.
func protobufNumber(where, tag string) int {
	if tag == "" || tag == "-" {
		return 0
	}
	parts := strings.Split(tag, ",")
	if len(parts) < 2 {
		fail("%s: protobuf tag %q", where, tag)
	}
	number, err := strconv.Atoi(parts[1])
	must(err)
	return number
}

func splitTag(tag string) (string, []string) {
	parts := strings.Split(tag, ",")
	return parts[0], slices.DeleteFunc(parts[1:], func(option string) bool { return option == "" })
}

// checkNames: readers rely on JSON names that are unique, those of inlined messages included.
func checkNames(m *message) {
	seen := map[string]bool{}
	var add func(*message)
	add = func(inner *message) {
		for _, f := range inner.fields {
			switch {
			case f.name == "":
				add(f.message)
			case seen[f.name]:
				fail("%s has two fields called %s in JSON", m.name, f.name)
			}
			seen[f.name] = true
		}
	}
	add(m)
}

// protobufName reads the name from a tag such as "bytes,1,opt,name=raw".
func protobufName(where, tag string) string {
	for _, part := range strings.Split(tag, ",") {
		if name, ok := strings.CutPrefix(part, "name="); ok {
			return name
		}
	}
	return fail("%s: no name in the protobuf tag %q", where, tag)
}
