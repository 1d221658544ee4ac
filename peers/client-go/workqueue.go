package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
)

// What crates/workqueue/benches does, figure by figure.

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
	// First, while the heap holds nothing but the keys.
	_, _, bytes := delayed(keys)
	report("memory a pending item", bytes, "bytes")
	for _, workers := range []int{1, 2, 8} {
		rate := best(50, func() float64 { return cycle(keys[:few], workers) })
		report(fmt.Sprintf("add+get+done, %d workers", workers), rate/1e6, "M/s")
	}
	for _, workers := range []int{1, 2, 8} {
		rate := best(5, func() float64 { return burst(keys, workers) })
		report(fmt.Sprintf("1M added, then %d workers", workers), rate/1e6, "M/s")
	}
	report("add_after, up to 1M pending", best(5, func() float64 { adding, _, _ := delayed(keys); return adding })/1e6, "M/s")
	report("get of 1M that became due", best(5, func() float64 { _, getting, _ := delayed(keys); return getting })/1e6, "M/s")
}

// Each worker adds a key, takes whichever is next and finishes it, over and over.
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
		running.Go(func() {
			for {
				taken, end := queue.Get()
				if end {
					return
				}
				queue.Done(taken)
			}
		})
	}
	running.Wait()
	return rate(keys, started)
}

// All keys are put off for up to ten minutes, then the clock is moved on and they are taken. Adding counts until the
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

// The best of several runs: the one least disturbed by the rest of the machine.
func best(runs int, run func() float64) float64 {
	most := 0.0
	for range runs {
		most = max(most, run())
	}
	return most
}

func rate(keys []string, started time.Time) float64 {
	return float64(len(keys)) / time.Since(started).Seconds()
}
