package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/client-go/tools/cache"
)

// The same reads as peers/ours/src/reads.rs. client-go decodes objects on arrival, so a value costs as much as a get.

const nodes = 500

func benchReads(indexer cache.Indexer) {
	keys := indexer.ListKeys()
	slices.Sort(keys)
	spread := make([]string, len(keys))
	for number := range keys {
		spread[number] = keys[number*7_919%len(keys)]
	}
	found := 0
	get := nanoseconds(5, len(spread), func() {
		for _, key := range spread {
			if object, exists, _ := indexer.GetByKey(key); exists && object != nil {
				found++
			}
		}
	})
	for _, figure := range []string{"get", "get and decode, cold", "get and decode, hot"} {
		report(figure, get, "ns")
	}
	values := make([]string, nodes)
	for number := range values {
		values[number] = fmt.Sprintf("node-%d", number)
	}
	found = 0
	byIndex := nanoseconds(5, nodes, func() {
		for _, value := range values {
			objects, err := indexer.ByIndex("node", value)
			check(err)
			found += len(objects)
		}
	})
	report("objects per node", float64(found)/5/nodes, "objects")
	report("by index", byIndex, "ns")
	list := nanoseconds(5, len(keys), func() { found += len(indexer.List()) })
	report("list per object", list, "ns")
	report("list and decode per object", list, "ns")
}

// nanoseconds per operation, in the best of several rounds.
func nanoseconds(rounds, operations int, round func()) float64 {
	best := math.Inf(1)
	for range rounds {
		began := time.Now()
		round()
		best = min(best, float64(time.Since(began).Nanoseconds())/float64(operations))
	}
	return best
}
