package main

import (
	"context"
	"flag"
	"os"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Follows the changes of a replay, and starts many informers at once: as peers/ours/src/watch.rs and start.rs.

func init() {
	subcommands["watch"] = benchWatch
	subcommands["start"] = benchStart
}

func benchWatch() {
	flags := flag.NewFlagSet("watch", flag.ExitOnError)
	var options options
	options.add(flags)
	changes := flags.Int("changes", 0, "how many come after the first state")
	flags.Parse(os.Args[2:])
	client := options.client()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	late := make([]int64, 0, *changes)
	last := make(chan struct{})
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) {
			version := object.(*corev1.Pod).ResourceVersion
			if version == lastVersion {
				close(last)
				return
			}
			sent, err := strconv.ParseInt(version, 10, 64)
			check(err)
			late = append(late, time.Now().UnixMicro()-sent)
		},
	})
	check(err)
	factory.Start(ctx.Done())
	waitFor(registration.HasSynced)
	wall, cpu := time.Now(), cpuSeconds()
	<-last
	seconds, cpuUsed := time.Since(wall).Seconds(), cpuSeconds()-cpu
	report("changes a second", float64(*changes)/seconds, "1/s")
	report("cpu a change", cpuUsed/float64(*changes)*1e6, "µs")
	slices.Sort(late)
	for _, quantile := range []struct {
		name string
		part float64
	}{{"late, median", 0.5}, {"late, 99 of 100", 0.99}, {"late, 999 of 1000", 0.999}} {
		report(quantile.name, float64(late[int(float64(len(late)-1)*quantile.part)])/1e3, "ms")
	}
	reportBytes("peak", processStatus("VmHWM"))
	reportStore(informer.GetStore())
}

func benchStart() {
	flags := flag.NewFlagSet("start", flag.ExitOnError)
	var options options
	options.add(flags)
	namespaces := flags.Int("namespaces", 50, "how many informers, one each")
	flags.Parse(os.Args[2:])
	client := options.client()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	wall, cpu := time.Now(), cpuSeconds()
	var started []cache.SharedIndexInformer
	for number := range *namespaces {
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespaceName(number)))
		started = append(started, factory.Core().V1().Pods().Informer())
		factory.Start(ctx.Done())
	}
	objects := 0
	for _, informer := range started {
		waitFor(informer.HasSynced)
		objects += len(informer.GetStore().ListKeys())
	}
	reportSeconds("wall", time.Since(wall).Seconds())
	reportSeconds("cpu", cpuSeconds()-cpu)
	reportBytes("peak", processStatus("VmHWM"))
	report("objects", float64(objects), "objects")
}
