package main

import (
	"strings"
	"testing"
)

const laterTable = `kubernetes 1.37.1
# comment
kind apps/v1 A p.A
kind v1 B p.B

message p.A typemeta
1 name string
3 kept []string omitempty

message p.B typemeta
`

func TestTheUnionKeepsWhatOnlyEarlierReleasesHave(t *testing.T) {
	union := parseTable(laterTable)
	union.add(parseTable(`kubernetes 1.36.3
# comment
kind apps/v1 A p.A
kind apps/v1alpha1 A p.alpha.A

message p.A typemeta
1 name string omitempty
2 dropped .C
4 gone {}string
5 marked *string omitempty

message p.C
1 x int32
`), "v1.36.3")
	want := `kubernetes 1.37.1
# comment
kind apps/v1 A p.A
kind apps/v1alpha1 A p.alpha.A
kind v1 B p.B

message p.A typemeta
1 name string
2 dropped *.C omitempty
3 kept []string omitempty
4 gone {}string omitempty
5 marked *string omitempty

message p.B typemeta

message p.C
1 x int32
`
	if got := union.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestATableIsTheSameAfterItWasTakenApart(t *testing.T) {
	var printed strings.Builder
	printTable(&printed, kubernetesVersion(), walkAll(newScheme()))
	if got := parseTable(printed.String()).String(); got != printed.String() {
		t.Error("the table changed")
	}
}
