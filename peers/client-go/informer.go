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

// An informer over all namespaces with an empty handler: its first state, and what may follow. The same as
// peers/ours/src/informer.rs, figure by figure. The handler of ours may decode each object; here that is done on arrival.

func init() {
	subcommands["informer"] = benchInformer
}

// How long memory may settle.
const settle = time.Second

// The last change, of a replay or of pods that are written.
const lastVersion = "9000000000000000"

// Says when a change was sent.
const sentLabel = "sent"

type options struct {
	kubeconfig string
	json       bool
	streaming  bool
}

func (options *options) add(flags *flag.FlagSet) {
	flags.StringVar(&options.kubeconfig, "kubeconfig", "", "the kubeconfig `file`")
	flags.BoolVar(&options.json, "json", false, "ask for JSON instead of protobuf")
	flags.BoolVar(&options.streaming, "watch-list", true, "ask for the initial state as a watch, instead of a list")
}

func (options *options) client() kubernetes.Interface {
	client, err := kubernetes.NewForConfig(options.config())
	check(err)
	return client
}

func (options *options) config() *rest.Config {
	// client-go reads its feature gates from the environment when they are first asked for.
	check(os.Setenv("KUBE_FEATURE_WatchListClient", strconv.FormatBool(options.streaming)))
	config, err := clientcmd.BuildConfigFromFlags("", options.kubeconfig)
	check(err)
	config.QPS = -1
	// Both are said: when nothing is, a typed client asks for protobuf.
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
	reads := flags.Bool("reads", false, "measure reads, too")
	idle := flags.Int("idle", 0, "measure so many `seconds` of nothing, too")
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
	// Resident memory after garbage is collected and freed.
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

// waitFor looks often: cache.WaitForCacheSync looks ten times a second, which is too coarse for a clock.
func waitFor(done func() bool) {
	for !done() {
		time.Sleep(time.Millisecond)
	}
}
