// Command schema writes the table of Kubernetes messages that the Rust crate kube-wire reads its types from, and test
// vectors for kinds that the module k8s.io/api ships none for. Everything comes from reflection over the Go types that
// kube-apiserver itself uses: struct tags say names, numbers and patch strategies, the schemas of server-side apply say
// how lists and maps merge. It fails on anything that it does not understand, and never guesses.
//
// The table is the union of all releases in releases.txt: a kind or a field that a later release dropped is still sent by
// servers of the earlier one. See union.go.

//go:build !older

package main

import (
	"bytes"
	"flag"
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
	releases := readReleases()
	if newest := releases[len(releases)-1]; newest != "v"+kubernetesVersion() {
		fail("go.mod has the modules of %s, releases.txt ends with %s", kubernetesVersion(), newest)
	}
	scheme := newScheme()
	t := walkAll(scheme)
	addApply(scheme, t)
	var own bytes.Buffer
	printTable(&own, kubernetesVersion(), t)

	union := parseTable(own.String())
	for i := len(releases) - 2; i >= 0; i-- { // the newest of those that know a field describes it
		union.add(parseTable(olderTable(releases[i])), releases[i])
	}
	_, err := os.Stdout.WriteString(union.String())
	must(err)
}

// kubernetesVersion is the Kubernetes release that the linked k8s.io/api belongs to: v0.37.1 of it is part of 1.37.1.
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
