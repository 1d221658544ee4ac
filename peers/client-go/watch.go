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

// Receives changes of pods, and starts many informers concurrently, as peers/ours/src/watch.rs and start.rs do.

func init() {
	subcommands["watch"] = benchWatch
	subcommands["start"] = benchStart
}

func benchWatch() {
	flags := flag.NewFlagSet("watch", flag.ExitOnError)
	var options options
	options.add(flags)
	changes := flags.Int("changes", 0, "number of changes to receive after the initial list")
	label := flags.Bool("label", false, "read the time of a change from the label sent instead of the resourceVersion")
	var objects objects
	objects.add(flags)
	flags.Parse(os.Args[2:])

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	informer := objects.informer(options.config())
	late := make([]int64, 0, *changes)
	last := make(chan struct{})
	var wall time.Time
	var cpu float64
	ended := false
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) {
			if ended {
				return
			}
			if wall.IsZero() {
				wall, cpu = time.Now(), cpuSeconds()
			}
			version := object.(*corev1.Pod).ResourceVersion
			if *label {
				version = object.(*corev1.Pod).Labels[sentLabel]
			}
			if version == lastVersion || len(late)+1 == *changes {
				ended = true
				close(last)
				return
			}
			sent, err := strconv.ParseInt(version, 10, 64)
			check(err)
			late = append(late, time.Now().UnixMicro()-sent)
		},
	})
	check(err)
	go informer.Run(ctx.Done())
	waitFor(registration.HasSynced)
	report("waiting", 1, "changes")
	<-last
	seconds, cpuUsed := time.Since(wall).Seconds(), cpuSeconds()-cpu
	report("changes per second", float64(*changes)/seconds, "1/s")
	report("cpu per change", cpuUsed/float64(*changes)*1e6, "µs")
	slices.Sort(late)
	for _, quantile := range []struct {
		name string
		part float64
	}{{"lag p50", 0.5}, {"lag p99", 0.99}, {"lag p99.9", 0.999}} {
		report(quantile.name, float64(late[int(float64(len(late)-1)*quantile.part)])/1e3, "ms")
	}
	reportBytes("peak", processStatus("VmHWM"))
	reportStore(informer.GetStore())
}

func benchStart() {
	flags := flag.NewFlagSet("start", flag.ExitOnError)
	var options options
	options.add(flags)
	namespaces := flags.Int("namespaces", 50, "number of namespaces, with one informer each")
	strip := flags.Bool("strip", false, "drop managedFields before objects are stored")
	flags.Parse(os.Args[2:])
	client := options.client()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	wall, cpu := time.Now(), cpuSeconds()
	var started []cache.SharedIndexInformer
	for number := range *namespaces {
		settings := []informers.SharedInformerOption{informers.WithNamespace(namespaceName(number))}
		if *strip {
			settings = append(settings, informers.WithTransform(stripManagedFields))
		}
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, settings...)
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
