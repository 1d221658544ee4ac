package main

import (
	"reflect"
	"sort"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
)

// kind is one apiVersion and kind, and the message that holds it.
type kind struct {
	apiVersion, kind string
	goType           reflect.Type
}

// anyVersion stands in for the apiVersion of kinds that exist in every group (DeleteOptions, WatchEvent, …).
const anyVersion = "*"

// newScheme registers all built-in kinds: those of client-go and the groups that it lacks.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientscheme.AddToScheme,
		admissionv1.AddToScheme,
		admissionv1beta1.AddToScheme,
		apidiscoveryv2.AddToScheme,
		apidiscoveryv2beta1.AddToScheme,
		imagepolicyv1alpha1.AddToScheme,
		apiextensionsv1.AddToScheme,
		apiextensionsv1beta1.AddToScheme,
		apiregistrationv1.AddToScheme,
		apiregistrationv1beta1.AddToScheme,
		metav1.AddMetaToScheme,
		metav1beta1.AddMetaToScheme,
	} {
		must(add(scheme))
	}
	return scheme
}

// kindsOf lists the scheme's kinds that have a protobuf form, sorted.
func kindsOf(scheme *runtime.Scheme) []kind {
	versions := map[string]int{} // by kind, of types in meta/v1
	for gvk, goType := range scheme.AllKnownTypes() {
		if goType.PkgPath() == metaPackage {
			versions[gvk.Kind]++
		}
	}
	var kinds []kind
	seen := map[kind]bool{}
	for gvk, goType := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || !isMessage(goType) {
			continue
		}
		k := kind{gvk.GroupVersion().String(), gvk.Kind, goType}
		if goType.PkgPath() == metaPackage && versions[gvk.Kind] > 10 {
			k.apiVersion = anyVersion
		}
		if !seen[k] {
			seen[k] = true
			kinds = append(kinds, k)
		}
	}
	sort.Slice(kinds, func(i, j int) bool {
		a, b := kinds[i], kinds[j]
		if a.apiVersion != b.apiVersion {
			return a.apiVersion < b.apiVersion
		}
		return a.kind < b.kind
	})
	return kinds
}
