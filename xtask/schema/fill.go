package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// mode is how much of an object is filled.
type mode int

const (
	zero  mode = iota // nothing: shows the fields that JSON never omits
	full              // everything, except recursion
	mixed             // random, including edge cases
)

// mixedDepthMax bounds objects of recursive types (JSONSchemaProps).
const mixedDepthMax = 12

type filler struct {
	mode    mode
	chance  *rand.Rand
	within  map[reflect.Type]int
	counter int
}

func newFiller(mode mode, name string) *filler {
	return &filler{mode: mode, chance: seeded(name), within: map[reflect.Type]int{}}
}

func (f *filler) object(object runtime.Object) {
	if f.mode != zero {
		f.fill(reflect.ValueOf(object).Elem(), 0)
	}
}

func (f *filler) fill(v reflect.Value, depth int) {
	t := v.Type()
	if f.special(v, depth) {
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		if f.wants(t.Elem(), depth) {
			v.Set(reflect.New(t.Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Struct:
		f.within[t]++
		for i := range t.NumField() {
			if field := t.Field(i); field.IsExported() && field.Tag.Get("json") != "-" {
				f.fill(v.Field(i), depth+1)
			}
		}
		f.within[t]--
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(f.text()))
			return
		}
		for range f.count(t.Elem(), depth) {
			element := reflect.New(t.Elem()).Elem()
			f.fill(element, depth+1)
			v.Set(reflect.Append(v, element))
		}
	case reflect.Map:
		count := f.count(t.Elem(), depth)
		if count > 0 {
			v.Set(reflect.MakeMap(t))
		}
		for range count {
			element := reflect.New(t.Elem()).Elem()
			f.fill(element, depth+1)
			v.SetMapIndex(reflect.ValueOf(f.text()).Convert(t.Key()), element)
		}
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(f.mode == full || f.chance.IntN(2) == 0)
	case reflect.Int32:
		v.SetInt(pick[int64](f, 1, 0, -1, 600, math.MaxInt32, math.MinInt32))
	case reflect.Int64:
		v.SetInt(pick[int64](f, 1, 0, -1, 600, math.MaxInt64, math.MinInt64))
	case reflect.Float64:
		v.SetFloat(pick[float64](f, 0.5, 0, -1.25, 3, 1e21, 1e-7, math.MaxFloat64))
	default:
		fail("cannot fill a %v", t)
	}
}

// wants reports whether a pointer gets a value: in a full object every pointer, except those that would recurse without end.
func (f *filler) wants(t reflect.Type, depth int) bool {
	if f.mode == full {
		return f.within[t] == 0
	}
	return depth < mixedDepthMax && f.chance.IntN(2+f.within[t]*4) == 0
}

func (f *filler) count(t reflect.Type, depth int) int {
	switch {
	case f.mode == full && f.within[t] == 0:
		return 2
	case f.mode == full || depth >= mixedDepthMax || f.within[t] > 1:
		return 0
	default:
		return f.chance.IntN(3)
	}
}

// text returns distinct strings, in mixed objects also unusual ones. None is longer than the value of a label.
func (f *filler) text() string {
	f.counter++
	text := fmt.Sprintf("text-%d", f.counter)
	if f.mode == full {
		return text
	}
	return pick(f, text, "", text+" \"quoted\" \\ <&> \u2028", "naïve–日本–😀"+text, "line\nline\t"+text, "true", "null", "1.0")
}

// special fills types whose JSON differs from their struct.
func (f *filler) special(v reflect.Value, depth int) bool {
	switch value := v.Addr().Interface().(type) {
	case *metav1.TypeMeta: // of parts: protobuf does not carry it
	case *metav1.Time:
		*value = metav1.Time{Time: f.time().Truncate(time.Second)}
	case *metav1.MicroTime:
		*value = metav1.MicroTime{Time: f.time().Truncate(time.Microsecond)}
	case *resource.Quantity:
		*value = resource.MustParse(pick(f, "100m", "0", "1Gi", "1500m", "1e3", "12E", "-5", "0.5", "2147483648", "1n"))
	case *intstr.IntOrString:
		*value = pick(f, intstr.FromString("http"), intstr.FromInt32(0), intstr.FromInt32(-8080), intstr.FromString("25%"), intstr.FromString(""))
	case *runtime.RawExtension:
		if raw := f.raw(); strings.HasPrefix(raw, "{") { // JSON null means absent
			value.Raw = []byte(raw)
		}
	case *metav1.FieldsV1:
		value.SetRawString(pick(f, `{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`, `{}`))
	case *apiextensionsv1.JSON:
		value.Raw = []byte(f.raw())
	case *apiextensionsv1beta1.JSON:
		value.Raw = []byte(f.raw())
	case *apiextensionsv1.JSONSchemaPropsOrArray, *apiextensionsv1beta1.JSONSchemaPropsOrArray,
		*apiextensionsv1.JSONSchemaPropsOrStringArray, *apiextensionsv1beta1.JSONSchemaPropsOrStringArray,
		*apiextensionsv1.JSONSchemaPropsOrBool, *apiextensionsv1beta1.JSONSchemaPropsOrBool:
		f.either(v, depth)
	default:
		return false
	}
	return true
}

// either sets one of the two fields of a JSONSchemaPropsOr…
func (f *filler) either(v reflect.Value, depth int) {
	schema := v.FieldByName("Schema")
	if f.within[schema.Type().Elem()] < 3 && pick(f, true, false) {
		schema.Set(reflect.New(schema.Type().Elem()))
		f.fill(schema.Elem(), depth+1)
		return
	}
	for _, name := range []string{"Allows", "JSONSchemas", "Property"} {
		if other := v.FieldByName(name); other.IsValid() {
			f.fill(other, depth+1)
		}
	}
}

// raw returns JSON text with sorted keys.
func (f *filler) raw() string {
	return pick(f, `{"apiVersion":"example.com/v1","kind":"Widget","spec":{"list":[1,"two",{}],"none":null,"on":true,"ratio":0.5,"size":1}}`,
		`{}`, `[]`, `"text"`, `0`, `-1.5`, `true`, `{"a":{"b":[[],[{}]]}}`)
}

func (f *filler) time() time.Time {
	return pick(f, time.Date(2026, 7, 4, 12, 30, 59, 123456789, time.UTC), time.Time{}, time.Unix(0, 0), time.Unix(-1, 0),
		time.Date(2000, 2, 29, 0, 0, 0, 1000, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC))
}

// pick returns the first value in a full object and a random one in a mixed object.
func pick[T any](f *filler, values ...T) T {
	if f.mode == full {
		return values[0]
	}
	return values[f.chance.IntN(len(values))]
}
