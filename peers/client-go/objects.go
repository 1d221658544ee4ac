package main

import (
	"flag"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// objects selects the objects of an informer, and how much of them it keeps.
type objects struct {
	load     string
	metadata bool
	strip    bool
}

func (objects *objects) add(flags *flag.FlagSet) {
	flags.StringVar(&objects.load, "objects", "pods", "the load: pods, varied-pods, secrets or widgets")
	flags.BoolVar(&objects.metadata, "metadata", false, "request metadata only")
	flags.BoolVar(&objects.strip, "strip", false, "drop managedFields before objects are stored")
}

// informer returns an informer that is not running yet. Custom resources have no generated type, so they use the
// dynamic informer.
func (objects *objects) informer(config *rest.Config) cache.SharedIndexInformer {
	resource := objects.resource()
	var informer cache.SharedIndexInformer
	switch {
	case objects.metadata:
		client, err := metadata.NewForConfig(config)
		check(err)
		informer = metadatainformer.NewSharedInformerFactory(client, 0).ForResource(resource).Informer()
	case objects.load == "widgets":
		client, err := dynamic.NewForConfig(config)
		check(err)
		informer = dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(resource).Informer()
	default:
		client, err := kubernetes.NewForConfig(config)
		check(err)
		generic, err := informers.NewSharedInformerFactory(client, 0).ForResource(resource)
		check(err)
		informer = generic.Informer()
	}
	if objects.strip {
		check(informer.SetTransform(stripManagedFields))
	}
	return informer
}

func (objects *objects) resource() schema.GroupVersionResource {
	switch objects.load {
	case "pods", "varied-pods":
		return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	case "secrets":
		return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	case "widgets":
		return schema.GroupVersionResource{Group: "bench.example.com", Version: "v1", Resource: "widgets"}
	}
	check(fmt.Errorf("unknown load %q", objects.load))
	return schema.GroupVersionResource{}
}

// stripManagedFields is the transform that client-go's users set to save memory.
func stripManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
