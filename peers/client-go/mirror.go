package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Mirrors the config maps of a namespace for tests that compare clients. Every state that a handler receives is printed
// as "seen <tab> name <tab> uid <tab> resourceVersion". For each line on standard input it prints the content of the
// store, as lines that begin with "held", and a line "end".

func init() {
	subcommands["mirror"] = mirror
}

func mirror() {
	flags := flag.NewFlagSet("mirror", flag.ExitOnError)
	var options options
	options.add(flags)
	namespace := flags.String("namespace", "default", "the namespace of the config maps")
	flags.Parse(os.Args[2:])
	client := options.client()

	var printing sync.Mutex
	output := bufio.NewWriter(os.Stdout)
	say := func(what string, object any) {
		printing.Lock()
		defer printing.Unlock()
		if configMap, known := object.(*corev1.ConfigMap); known {
			fmt.Fprintf(output, "%s\t%s\t%s\t%s\n", what, configMap.Name, configMap.UID, configMap.ResourceVersion)
		}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(*namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { say("seen", object) },
		UpdateFunc: func(_, object any) { say("seen", object) },
	})
	check(err)
	factory.Start(context.Background().Done())
	asked := bufio.NewScanner(os.Stdin)
	for asked.Scan() {
		for _, object := range informer.GetStore().List() {
			say("held", object)
		}
		printing.Lock()
		fmt.Fprintln(output, "end")
		check(output.Flush())
		printing.Unlock()
	}
}
