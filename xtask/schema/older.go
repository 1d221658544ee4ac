//go:build !older

package main

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed releases.txt
var releasesText string

// olderFiles are the sources that the program for an earlier release is compiled from. None of them needs an API that
// only later releases have.
var olderFiles = []string{"fail.go", "main_older.go", "print.go", "scheme.go", "shapes.go", "walk.go"}

// readReleases returns the supported releases, oldest first. The last one is the release of go.mod.
func readReleases() []string {
	return strings.Fields(releasesText)
}

// moduleVersion is the version of the modules k8s.io/api, k8s.io/apimachinery, … that belong to a release.
func moduleVersion(release string) string {
	return strings.Replace(release, "v1.", "v0.", 1)
}

// olderTable prints the table of an earlier release, by a program that is compiled with its modules. One program cannot
// hold two versions of a module.
func olderTable(release string) string {
	dir, err := os.MkdirTemp("", "kube-schema-")
	must(err)
	defer os.RemoveAll(dir)
	for _, name := range olderFiles {
		content, err := os.ReadFile(name)
		must(err)
		must(os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
	goMod := "module older\n\ngo 1.26.0\n\nrequire (\n"
	for _, module := range []string{"api", "apiextensions-apiserver", "apimachinery", "client-go", "kube-aggregator"} {
		goMod += "\tk8s.io/" + module + " " + moduleVersion(release) + "\n"
	}
	must(os.WriteFile(filepath.Join(dir, "go.mod"), []byte(goMod+")\n"), 0o644))
	runGo(dir, "mod", "tidy")
	return runGo(dir, "run", "-tags", "older", ".", strings.TrimPrefix(release, "v"))
}

// runGo runs go in a directory and returns its output.
func runGo(dir string, args ...string) string {
	command := exec.Command("go", args...)
	command.Dir = dir
	var complaints strings.Builder
	command.Stderr = &complaints
	printed, err := command.Output()
	if err != nil {
		fail("go %s: %v\n%s", strings.Join(args, " "), err, complaints.String())
	}
	return string(printed)
}
