// Command client-go runs parts of client-go by themselves, so that benchmarks can put figures beside ours.
// Each subcommand prints lines of "figure <tab> value <tab> unit".
package main

import (
	"fmt"
	"os"
)

var subcommands = map[string]func(){
	"workqueue": benchWorkqueue,
}

func main() {
	if len(os.Args) == 2 {
		if run, known := subcommands[os.Args[1]]; known {
			run()
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: client-go SUBCOMMAND, one of:")
	for name := range subcommands {
		fmt.Fprintln(os.Stderr, "  "+name)
	}
	os.Exit(2)
}

func report(figure string, value float64, unit string) {
	fmt.Printf("%s\t%.2f\t%s\n", figure, value, unit)
}
