package main

import (
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// Measures CPU, memory and the content of a store, and prints figures, as peers/ours/src/measure.rs does.

// report prints one figure as "figure <tab> value <tab> unit".
func report(figure string, value float64, unit string) {
	fmt.Printf("%s\t%.2f\t%s\n", figure, value, unit)
}

func reportSeconds(figure string, seconds float64) {
	fmt.Printf("%s\t%.6f\ts\n", figure, seconds)
}

func reportBytes(figure string, bytes int64) {
	fmt.Printf("%s\t%d\tB\n", figure, bytes)
}

// reportStore prints the number of objects of a store, and a checksum that does not depend on their order.
func reportStore(store cache.Store) {
	objects := store.List()
	sum := uint64(0)
	for _, object := range objects {
		object, err := meta.Accessor(object)
		check(err)
		hash := fnv.New64a()
		fmt.Fprintf(hash, "%s/%s %s %s", object.GetNamespace(), object.GetName(), object.GetUID(), object.GetResourceVersion())
		sum += hash.Sum64()
	}
	fmt.Printf("objects\t%d\tobjects\nchecksum\t%016x\ttext\n", len(objects), sum)
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// processStatus reads a figure of /proc/self/status and converts it from kB to bytes.
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

// forgetPeak resets the peak of resident memory.
func forgetPeak() {
	check(os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
}
