// Command client-go runs parts of client-go, so that benchmarks can compare its figures with ours. Each subcommand is
// in its own file, which adds it to the table.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
)

var subcommands = map[string]func(){}

func main() {
	if len(os.Args) >= 2 {
		if run, known := subcommands[os.Args[1]]; known {
			run()
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: client-go SUBCOMMAND [FLAGS], one of:")
	for _, name := range slices.Sorted(maps.Keys(subcommands)) {
		fmt.Fprintln(os.Stderr, "  "+name)
	}
	os.Exit(2)
}
