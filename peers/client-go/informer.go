package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// The first synchronisation of a pods informer over all namespaces with an empty handler: what it costs, as one
// line of JSON. The peers' programs print the same names.

func init() {
	subcommands["informer"] = benchInformer
}

type syncCost struct {
	Client    string  `json:"client"`
	Encoding  string  `json:"encoding"`
	Streaming bool    `json:"streaming"`
	Objects   int     `json:"objects"`
	Wall      float64 `json:"wall_seconds"`
	CPU       float64 `json:"cpu_seconds"`
	Resident  int64   `json:"resident_bytes"`
	Peak      int64   `json:"resident_peak_bytes"`
	// What is resident once the garbage of the synchronisation is collected and given back.
	AfterGC int64 `json:"resident_after_gc_bytes"`
}

func benchInformer() {
	flags := flag.NewFlagSet("informer", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the kubeconfig `file`")
	asJSON := flags.Bool("json", false, "ask for JSON instead of protobuf")
	streaming := flags.Bool("watch-list", true, "ask for the initial state as a watch, instead of a list")
	flags.Parse(os.Args[2:])

	// client-go reads its feature gates from the environment when they are first asked for.
	check(os.Setenv("KUBE_FEATURE_WatchListClient", strconv.FormatBool(*streaming)))
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	check(err)
	config.QPS = -1
	cost := syncCost{Client: "client-go " + moduleVersion("k8s.io/client-go"), Encoding: "protobuf", Streaming: *streaming}
	// Both are said: when nothing is, a typed client asks for protobuf.
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf"
	if *asJSON {
		cost.Encoding = "json"
		config.AcceptContentTypes = "application/json"
	}
	client, err := kubernetes.NewForConfig(config)
	check(err)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	wall, cpu := time.Now(), cpuSeconds()
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}})
	check(err)
	factory.Start(ctx.Done())
	for !registration.HasSynced() { // cache.WaitForCacheSync looks ten times a second: too coarse for a clock.
		time.Sleep(time.Millisecond)
	}
	cost.Wall, cost.CPU = time.Since(wall).Seconds(), cpuSeconds()-cpu
	cost.Resident, cost.Peak = processStatus("VmRSS"), processStatus("VmHWM")
	debug.FreeOSMemory()
	cost.AfterGC = processStatus("VmRSS")
	cost.Objects = len(informer.GetStore().ListKeys())
	check(json.NewEncoder(os.Stdout).Encode(cost))
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// processStatus reads a figure in kB of /proc/self/status, in bytes.
func processStatus(name string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	check(err)
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			kilobytes, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			check(err)
			return kilobytes << 10
		}
	}
	check(fmt.Errorf("no %s in /proc/self/status", name))
	return 0
}

// moduleVersion is the version of a module that this program was built with.
func moduleVersion(path string) string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return "(unknown)"
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
}
