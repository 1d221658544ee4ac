package main

import (
	"context"
	"flag"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// An informer over all namespaces with an empty handler: its initial list, then the work that options request. It
// prints the same figures as peers/ours/src/informer.rs. Our handler may decode each object; client-go decodes on
// arrival.

func init() {
	subcommands["informer"] = benchInformer
}

// How long memory may take to settle.
const settle = time.Second

// The resourceVersion, or label, that marks the last change.
const lastVersion = "9000000000000000"

// The label with the time at which a change was sent.
const sentLabel = "sent"

type options struct {
	kubeconfig string
	json       bool
	streaming  bool
}

func (options *options) add(flags *flag.FlagSet) {
	flags.StringVar(&options.kubeconfig, "kubeconfig", "", "the kubeconfig `file`")
	flags.BoolVar(&options.json, "json", false, "request JSON instead of protobuf")
	flags.BoolVar(&options.streaming, "watch-list", true, "request the initial list as a watch-list")
}

func (options *options) client() kubernetes.Interface {
	client, err := kubernetes.NewForConfig(options.config())
	check(err)
	return client
}

func (options *options) config() *rest.Config {
	// client-go reads its feature gates from the environment at their first use.
	check(os.Setenv("KUBE_FEATURE_WatchListClient", strconv.FormatBool(options.streaming)))
	config, err := clientcmd.BuildConfigFromFlags("", options.kubeconfig)
	check(err)
	config.QPS = -1
	// Both are set, because a typed client requests protobuf by default.
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf"
	if options.json {
		config.AcceptContentTypes = "application/json"
	}
	return config
}

func benchInformer() {
	flags := flag.NewFlagSet("informer", flag.ExitOnError)
	var options options
	options.add(flags)
	reads := flags.Bool("reads", false, "also measure reads")
	idle := flags.Int("idle", 0, "also measure this many idle `seconds`")
	relist := flags.Bool("relist", false, "also measure a relist, which another process triggers")
	var objects objects
	objects.add(flags)
	flags.Parse(os.Args[2:])
	config := options.config()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	wall, cpu := time.Now(), cpuSeconds()
	informer := objects.informer(config)
	if *reads {
		check(informer.AddIndexers(cache.Indexers{"node": func(pod any) ([]string, error) {
			return []string{pod.(*corev1.Pod).Spec.NodeName}, nil
		}}))
	}
	updated := make(chan struct{}, 1)
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(any, any) {
			select {
			case updated <- struct{}{}:
			default:
			}
		},
	})
	check(err)
	go informer.Run(ctx.Done())
	waitFor(registration.HasSynced)
	reportSeconds("wall", time.Since(wall).Seconds())
	reportSeconds("cpu", cpuSeconds()-cpu)
	reportBytes("peak", processStatus("VmHWM"))
	time.Sleep(settle)
	reportBytes("steady as it is", processStatus("VmRSS"))
	// Resident memory after a garbage collection that returns memory to the system.
	debug.FreeOSMemory()
	reportBytes("steady", processStatus("VmRSS"))
	reportStore(informer.GetStore())
	if *reads {
		benchReads(informer.GetIndexer())
	}
	if *idle > 0 {
		cpu := cpuSeconds()
		time.Sleep(time.Duration(*idle) * time.Second)
		report("idle cpu", (cpuSeconds()-cpu)*60_000/float64(*idle), "ms/min")
	}
	if *relist {
		forgetPeak()
		cpu := cpuSeconds()
		report("waiting", 1, "relist")
		<-updated
		reportSeconds("relist cpu", cpuSeconds()-cpu)
		reportBytes("relist peak", processStatus("VmHWM"))
		time.Sleep(settle)
		debug.FreeOSMemory()
		reportBytes("relist steady", processStatus("VmRSS"))
	}
}

// waitFor polls often: cache.WaitForCacheSync polls ten times per second, which is too coarse for a measurement.
func waitFor(done func() bool) {
	for !done() {
		time.Sleep(time.Millisecond)
	}
}
