// The program for an earlier release: the table of its types, without how server-side apply treats them. Compiled from
// a copy of some of these files, with that release's modules (olderTable).

//go:build older

package main

import "os"

func main() {
	printTable(os.Stdout, os.Args[1], walkAll(newScheme()))
}
