package main

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// protoField is a field as a .proto file declares it.
type protoField struct {
	ty          string // scalar or full name of a message
	list, isMap bool
}

// The .proto files are generated from the same Go types, but by another program: what reflection found has to agree
// with them, message for message and number for number.
func TestTheTableAgreesWithTheProtoFiles(t *testing.T) {
	declared := declaredMessages(t)
	compared := 0
	for _, m := range walkAll(newScheme()).messages {
		fields, ok := declared[m.name]
		if !ok {
			t.Errorf("%s is in no .proto file", m.name)
			continue
		}
		for _, f := range m.fields {
			want, ok := fields[f.number]
			if !ok {
				t.Errorf("%s has no field %d in its .proto file", m.name, f.number)
				continue
			}
			got := protoField{ty: f.ty, list: f.list, isMap: f.isMap}
			if f.message != nil {
				got.ty = f.message.name
			}
			if got != want {
				t.Errorf("%s field %d is %+v, its .proto file has %+v", m.name, f.number, got, want)
			}
			delete(fields, f.number)
			compared++
		}
		for number := range fields {
			t.Errorf("%s lacks field %d", m.name, number)
		}
	}
	if compared < 4000 {
		t.Errorf("compared only %d fields", compared)
	}
}

var (
	protoPackage = regexp.MustCompile(`^package (\S+);`)
	protoMessage = regexp.MustCompile(`^message (\S+) \{`)
	protoLine    = regexp.MustCompile(`^  (?:(optional|repeated) (\S+)|map<string, (\S+)>) \S+ = (\d+)`)
)

// declaredMessages reads all generated.proto files of the Kubernetes modules: message → number → field.
func declaredMessages(t *testing.T) map[string]map[int]protoField {
	t.Helper()
	messages := map[string]map[int]protoField{}
	for _, module := range []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator"} {
		dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			t.Fatal(err)
		}
		err = filepath.WalkDir(strings.TrimSpace(string(dir)), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Name() == "generated.proto" {
				readProto(t, path, messages)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return messages
}

func readProto(t *testing.T, path string, messages map[string]map[int]protoField) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var pkg string
	var fields map[int]protoField
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if match := protoPackage.FindStringSubmatch(line); match != nil {
			pkg = match[1]
		} else if match := protoMessage.FindStringSubmatch(line); match != nil {
			fields = map[int]protoField{}
			messages[pkg+"."+match[1]] = fields
		} else if match := protoLine.FindStringSubmatch(line); match != nil {
			number, err := strconv.Atoi(match[4])
			if err != nil {
				t.Fatal(err)
			}
			fields[number] = protoField{protoType(pkg, match[2]+match[3]), match[1] == "repeated", match[1] == ""}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func protoType(pkg, ty string) string {
	switch ty {
	case "bool", "int32", "int64", "uint32", "uint64", "float", "double", "string", "bytes":
		return ty
	}
	if absolute, ok := strings.CutPrefix(ty, "."); ok {
		return absolute
	}
	return pkg + "." + ty
}
