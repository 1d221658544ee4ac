package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/applyconfigurations"
	aggregatoropenapi "k8s.io/kube-aggregator/pkg/generated/openapi"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// addApply adds to each field how server-side apply treats it.
//
// Two sources: client-go's apply configurations for the types of k8s.io/api; for apimachinery, apiextensions and
// apiregistration the OpenAPI definitions that their modules carry, converted by the function that the server uses.
// Types that neither has (lists, reviews, options) are never applied and keep the default: lists are atomic, maps and
// structs granular.
func addApply(scheme *runtime.Scheme, t table) {
	a := applier{api: clientSchema(scheme), others: openAPISchema(), done: map[*message]bool{}}
	for _, m := range t.messages {
		if def, s := a.find(m); def != nil {
			m.atomic = def.Map != nil && def.Map.ElementRelationship == schema.Atomic
			if m.shape == "" {
				a.fields(s, def.Map, m)
			}
		}
	}
	// After all messages know whether they are atomic.
	for _, m := range t.messages {
		for _, f := range m.fields {
			if f.apply == "" && f.message != nil && f.message.atomic && !f.list && !f.isMap && f.name != "" {
				f.apply = "atomic"
			}
		}
	}
}

type applier struct {
	api, others *schema.Schema
	done        map[*message]bool
}

// find returns the schema's definition of a message, or nil.
func (a *applier) find(m *message) (*schema.TypeDef, *schema.Schema) {
	s := a.others
	if strings.HasPrefix(m.goType.PkgPath(), "k8s.io/api/") {
		s = a.api
	}
	def, ok := s.FindNamedType(modelName(m.goType))
	if !ok {
		return nil, nil
	}
	return &def, s
}

// fields fills in the fields of a message from the definition of the struct that they appear in, which for an inlined
// message is the one that holds it.
func (a *applier) fields(s *schema.Schema, def *schema.Map, m *message) {
	for _, f := range m.fields {
		if f.name == "" {
			a.fields(s, def, f.message)
			continue
		}
		where := m.name + "." + f.name
		member, ok := def.FindField(f.name)
		if !ok {
			fail("%s is not in the schema of server-side apply", where)
		}
		apply := fieldApply(s, where, f, member.Type)
		if a.done[m] && f.apply != apply {
			fail("%s is applied as %q and as %q", where, f.apply, apply)
		}
		f.apply = apply
	}
	a.done[m] = true
}

// fieldApply says in a word how a field is applied, empty for the default.
func fieldApply(s *schema.Schema, where string, f *field, ref schema.TypeRef) string {
	atom, ok := s.Resolve(ref)
	if !ok {
		fail("%s: server-side apply has no type for it", where)
	}
	switch {
	case f.list:
		if atom.List == nil {
			fail("%s is no list in server-side apply", where)
		}
		checkElement(where, atom.List.ElementType)
		return listApply(s, where, atom.List)
	case f.isMap:
		if atom.Map == nil {
			fail("%s is no map in server-side apply", where)
		}
		checkElement(where, atom.Map.ElementType)
		return mapApply(atom.Map.ElementRelationship)
	case f.message != nil && ref.ElementRelationship != nil:
		// PersistentVolumeSpec.claimRef is granular although ObjectReference is atomic: said in any case.
		if *ref.ElementRelationship == schema.Separable {
			return "granular"
		}
		return mapApply(*ref.ElementRelationship)
	default:
		return "" // a scalar, or as the message says
	}
}

func listApply(s *schema.Schema, where string, list *schema.List) string {
	switch {
	case list.ElementRelationship == schema.Atomic:
		return ""
	case list.ElementRelationship != schema.Associative:
		return fail("%s: list is %q", where, list.ElementRelationship)
	case len(list.Keys) == 0:
		return "set"
	}
	element, ok := s.Resolve(list.ElementType)
	if !ok || element.Map == nil {
		fail("%s: elements of an associative list are no structs", where)
	}
	var keys []string
	for _, key := range list.Keys {
		member, ok := element.Map.FindField(key)
		if !ok {
			fail("%s: elements have no key %s", where, key)
		}
		if member.Default != nil {
			value, err := json.Marshal(member.Default)
			must(err)
			if strings.ContainsAny(string(value), " ,()") {
				fail("%s: default %s needs a better table format", where, value)
			}
			key += "=" + string(value)
		}
		keys = append(keys, key)
	}
	return fmt.Sprintf("map(%s)", strings.Join(keys, ","))
}

func mapApply(relationship schema.ElementRelationship) string {
	if relationship == schema.Atomic {
		return "atomic"
	}
	return ""
}

// checkElement: whether an element is atomic is said by its message; a reference that says otherwise has no place in
// the table.
func checkElement(where string, ref schema.TypeRef) {
	if ref.ElementRelationship != nil {
		fail("%s: elements override how their type is applied", where)
	}
}

// clientSchema is the schema inside client-go's apply configurations: any object of them leads to the whole.
func clientSchema(scheme *runtime.Scheme) *schema.Schema {
	pod := &corev1.Pod{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	typed, err := applyconfigurations.NewTypeConverter(scheme).ObjectToTyped(pod)
	must(err)
	return typed.Schema()
}

// openAPISchema is made from the OpenAPI definitions in the modules apiextensions-apiserver and kube-aggregator.
func openAPISchema() *schema.Schema {
	ref := func(path string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + path) }
	models := map[string]*spec.Schema{}
	for _, definitions := range []map[string]common.OpenAPIDefinition{
		apiextensionsopenapi.GetOpenAPIDefinitions(ref),
		aggregatoropenapi.GetOpenAPIDefinitions(ref),
	} {
		for name, definition := range definitions {
			models[name] = &definition.Schema
		}
	}
	s, err := schemaconv.ToSchemaFromOpenAPI(models, false)
	must(err)
	return s
}

func modelName(t reflect.Type) string {
	if named, ok := reflect.New(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	return t.PkgPath() + "." + t.Name()
}
