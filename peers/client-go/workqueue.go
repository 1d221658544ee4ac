package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
)

// The same figures as crates/workqueue/benches.

const (
	many = 1_000_000
	few  = 100_000
)

func init() { subcommands["workqueue"] = benchWorkqueue }

func benchWorkqueue() {
	keys := make([]string, many)
	for number := range keys {
		keys[number] = fmt.Sprintf("namespace-%d/name-%d", number%100, number)
	}
	// Measured first, while the heap has only the keys.
	reportIfWanted("memory per pending item", "bytes", func() float64 { _, _, bytes := delayed(keys); return bytes })
	for _, workers := range []int{1, 2, 8} {
		reportIfWanted(fmt.Sprintf("add+get+done, %d workers", workers), "M/s", func() float64 {
			return best(50, func() float64 { return cycle(keys[:few], workers) })
		})
	}
	for _, workers := range []int{1, 2, 8} {
		reportIfWanted(fmt.Sprintf("one producer, %d workers", workers), "M/s", func() float64 {
			return best(50, func() float64 { return fed(keys[:few], workers) })
		})
	}
	for _, workers := range []int{1, 2, 8} {
		reportIfWanted(fmt.Sprintf("1M queued, %d workers", workers), "M/s", func() float64 {
			return best(3, func() float64 { return burst(keys, workers) })
		})
	}
	reportIfWanted("add_after, up to 1M pending", "M/s", func() float64 {
		return best(3, func() float64 { adding, _, _ := delayed(keys); return adding })
	})
	reportIfWanted("get of 1M due keys", "M/s", func() float64 {
		return best(3, func() float64 { _, getting, _ := delayed(keys); return getting })
	})
}

// Measures and prints a figure if its name contains the program's argument.
func reportIfWanted(figure, unit string, measure func() float64) {
	if len(os.Args) < 3 || strings.Contains(figure, os.Args[2]) {
		report(figure, measure(), unit)
	}
}

// Each worker adds a key, takes the next one and finishes it, in a loop.
func cycle(keys []string, workers int) float64 {
	queue := workqueue.NewTyped[string]()
	started := time.Now()
	var running sync.WaitGroup
	share := len(keys) / workers
	for worker := range workers {
		running.Go(func() {
			for _, key := range keys[worker*share : (worker+1)*share] {
				queue.Add(key)
				taken, _ := queue.Get()
				queue.Done(taken)
			}
		})
	}
	running.Wait()
	return rate(keys, started)
}

// One goroutine adds the keys, while the workers take and finish them.
func fed(keys []string, workers int) float64 {
	queue := workqueue.NewTyped[string]()
	started := time.Now()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { workUntilTheEnd(queue) })
	}
	running.Go(func() {
		for _, key := range keys {
			queue.Add(key)
		}
		queue.ShutDown()
	})
	running.Wait()
	return rate(keys, started)
}

// All keys are added, then the workers take and finish them: a deep queue.
func burst(keys []string, workers int) float64 {
	queue := workqueue.NewTyped[string]()
	started := time.Now()
	for _, key := range keys {
		queue.Add(key)
	}
	queue.ShutDown()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { workUntilTheEnd(queue) })
	}
	running.Wait()
	return rate(keys, started)
}

func workUntilTheEnd(queue *workqueue.Typed[string]) {
	for {
		taken, end := queue.Get()
		if end {
			return
		}
		queue.Done(taken)
	}
}

// All keys are delayed by up to ten minutes, then the clock is advanced and they are taken. Adding counts until the
// last key has arrived in the heap, which a goroutine of the queue feeds.
func delayed(keys []string) (adding, getting, bytes float64) {
	before := heap()
	clock := testingclock.NewFakeClock(time.Now())
	queue := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Clock: clock})
	state := uint64(1)
	started := time.Now()
	for _, key := range keys {
		state = state*6364136223846793005 + 1442695040888963407
		queue.AddAfter(key, time.Duration(1+(state>>11)%600_000_000_000))
	}
	adding = rate(keys, started)
	bytes = float64(int64(heap())-int64(before)) / many
	clock.Step(11 * time.Minute)
	started = time.Now()
	for range keys {
		taken, _ := queue.Get()
		queue.Done(taken)
	}
	getting = rate(keys, started)
	queue.ShutDown()
	return
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// The best of several runs: the least disturbed one.
func best(runs int, run func() float64) float64 {
	most := 0.0
	for range runs {
		most = max(most, run())
	}
	return most
}

// Millions per second.
func rate(keys []string, started time.Time) float64 {
	return float64(len(keys)) / time.Since(started).Seconds() / 1e6
}
