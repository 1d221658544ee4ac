// Command schema writes the table of Kubernetes messages that the Rust crate kube-wire reads its types from, and test
// vectors for kinds that the module k8s.io/api ships none for. Everything comes from reflection over the Go types that
// kube-apiserver itself uses: struct tags say names, numbers and patch strategies, the schemas of server-side apply say
// how lists and maps merge. What it does not understand stops it; it never guesses.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

func main() {
	vectors := flag.String("vectors", "", "write test vectors into this directory instead of printing the table")
	flag.Parse()

	if *vectors != "" {
		must(writeVectors(*vectors))
		return
	}
	out := bufio.NewWriter(os.Stdout)
	printTable(out, kubernetesVersion(), walkAll(newScheme()))
	must(out.Flush())
}

// kubernetesVersion is the Kubernetes release that the linked k8s.io/api belongs to: v0.36.3 of it is part of 1.36.3.
func kubernetesVersion() string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, dep := range info.Deps {
			if version, found := strings.CutPrefix(dep.Version, "v0."); dep.Path == "k8s.io/api" && found {
				return "1." + version
			}
		}
	}
	return fail("cannot tell the version of k8s.io/api from the build information")
}

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
