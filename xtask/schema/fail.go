package main

import (
	"fmt"
	"os"
)

// fail stops the program: the table is either complete and understood or not written at all.
func fail(format string, args ...any) string {
	fmt.Fprintf(os.Stderr, "schema: "+format+"\n", args...)
	os.Exit(1)
	return ""
}

func must(err error) {
	if err != nil {
		fail("%v", err)
	}
}
