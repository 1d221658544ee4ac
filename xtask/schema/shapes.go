package main

import (
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// shapes are the messages whose JSON is not an object of their fields. Their fields are given here where the Go struct
// does not show them (a Time is marshalled as another message, Timestamp); otherwise the tags are read.
var shapes = map[reflect.Type]struct {
	name   string
	fields []*field
}{
	reflect.TypeFor[metav1.Time]():        {"Time", []*field{{number: 1, name: "seconds", ty: "int64"}, {number: 2, name: "nanos", ty: "int32"}}},
	reflect.TypeFor[metav1.MicroTime]():   {"MicroTime", []*field{{number: 1, name: "seconds", ty: "int64"}, {number: 2, name: "nanos", ty: "int32"}}},
	reflect.TypeFor[metav1.Duration]():    {"Duration", []*field{{number: 1, name: "duration", ty: "int64"}}},
	reflect.TypeFor[resource.Quantity]():  {"Quantity", []*field{{number: 1, name: "string", ty: "string"}}},
	reflect.TypeFor[intstr.IntOrString](): {"IntOrString", nil},

	reflect.TypeFor[runtime.RawExtension]():      {"RawJson", nil},
	reflect.TypeFor[metav1.FieldsV1]():           {"RawJson", []*field{{number: 1, name: "raw", ty: "bytes"}}},
	reflect.TypeFor[apiextensionsv1.JSON]():      {"RawJson", nil},
	reflect.TypeFor[apiextensionsv1beta1.JSON](): {"RawJson", nil},

	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():             {"SchemaOrBool", nil},
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():            {"SchemaOrArray", nil},
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray]():      {"SchemaOrStrings", nil},
	reflect.TypeFor[apiextensionsv1beta1.JSONSchemaPropsOrBool]():        {"SchemaOrBool", nil},
	reflect.TypeFor[apiextensionsv1beta1.JSONSchemaPropsOrArray]():       {"SchemaOrArray", nil},
	reflect.TypeFor[apiextensionsv1beta1.JSONSchemaPropsOrStringArray](): {"SchemaOrStrings", nil},
}

// stringListFields are those of a named list of strings. The generator of .proto files makes a message of each such type,
// because protobuf has no list of lists and no map to lists.
var stringListFields = []*field{{number: 1, name: "items", ty: "string", list: true}}

// special fills in a message that has a shape of its own. Its fields carry the names of the protobuf definition.
func (w *walker) special(m *message) bool {
	if m.goType.Kind() == reflect.Slice && m.goType.Elem().Kind() == reflect.String {
		m.shape, m.fields = "StringList", stringListFields
		return true
	}
	shape, ok := shapes[m.goType]
	if !ok {
		return false
	}
	m.shape = shape.name
	m.fields = shape.fields
	if m.fields != nil {
		return true
	}
	for i := range m.goType.NumField() {
		goField := m.goType.Field(i)
		where := m.name + "." + goField.Name
		tag := goField.Tag.Get("protobuf")
		number := protobufNumber(where, tag)
		if number == 0 {
			continue // RawExtension.Object: only in memory
		}
		f := &field{number: number, name: protobufName(where, tag)}
		w.fieldType(f, where, goField.Type)
		m.fields = append(m.fields, f)
	}
	return true
}
