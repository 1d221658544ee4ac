package main

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// writeVectors fills a directory with pairs of files, NAME.json and NAME.pb, that Go holds to be the same object:
// in DIR/1.37, DIR/1.36, … those that the module k8s.io/api of each supported release is tested with (every kind of it,
// every field set), except those that a later release has with identical bytes; in DIR/made objects of all kinds in several
// states of being filled, the same ones on each run.
func writeVectors(dir string) error {
	releases := readReleases()
	slices.Reverse(releases)
	later := map[string]bool{}
	for _, release := range releases {
		if err := copyTestdata(release, filepath.Join(dir, minor(release)), later); err != nil {
			return err
		}
	}
	made := filepath.Join(dir, "made")
	if err := os.MkdirAll(made, 0o755); err != nil {
		return err
	}
	scheme := newScheme()
	codecs := codecs{
		json: json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{}),
		pb:   protobuf.NewSerializer(scheme, scheme),
	}
	for _, k := range kindsOf(scheme) {
		apiVersion := k.apiVersion
		if apiVersion == anyVersion {
			apiVersion = "v1"
		}
		gvk := schema.FromAPIVersionAndKind(apiVersion, k.kind)
		for variant, mode := range variants(k) {
			name := vectorName(gvk, variant)
			object, err := scheme.New(gvk)
			if err != nil {
				return err
			}
			newFiller(mode, name).object(object)
			if err := codecs.write(filepath.Join(made, name), gvk, object); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// variants: kinds that the module's own test data does not cover get more.
func variants(k kind) map[string]mode {
	variants := map[string]mode{"full": full, "zero": zero}
	count := 2
	if !strings.HasPrefix(k.goType.PkgPath(), "k8s.io/api/") {
		count = 8
	}
	for i := range count {
		variants[fmt.Sprintf("mixed-%d", i+1)] = mixed
	}
	return variants
}

func vectorName(gvk schema.GroupVersionKind, variant string) string {
	group := gvk.Group
	if group == "" {
		group = "core"
	}
	return strings.Join([]string{group, gvk.Version, gvk.Kind, variant}, ".")
}

type codecs struct {
	json, pb runtime.Serializer
}

// write normalises the object to a state that both encodings can represent (protobuf does not distinguish nil from empty
// lists), and writes it in both.
func (c codecs) write(path string, gvk schema.GroupVersionKind, object runtime.Object) error {
	object.GetObjectKind().SetGroupVersionKind(gvk)
	var asJSON, asPB []byte
	for range 4 {
		before := asJSON
		var err error
		if object, asJSON, err = through(c.json, gvk, object); err != nil {
			return err
		}
		if object, asPB, err = through(c.pb, gvk, object); err != nil {
			return err
		}
		if bytes.Equal(before, asJSON) {
			if err := os.WriteFile(path+".json", asJSON, 0o644); err != nil {
				return err
			}
			return os.WriteFile(path+".pb", asPB, 0o644)
		}
	}
	return fmt.Errorf("JSON and protobuf never agree")
}

func through(codec runtime.Serializer, gvk schema.GroupVersionKind, object runtime.Object) (runtime.Object, []byte, error) {
	var encoded bytes.Buffer
	if err := codec.Encode(object, &encoded); err != nil {
		return nil, nil, err
	}
	decoded, _, err := codec.Decode(encoded.Bytes(), &gvk, nil)
	if err != nil {
		return nil, nil, err
	}
	decoded.GetObjectKind().SetGroupVersionKind(gvk)
	return decoded, encoded.Bytes(), nil
}

// minor is the minor version of a release: 1.36 of v1.36.3.
func minor(release string) string {
	version := strings.TrimPrefix(release, "v")
	return version[:strings.LastIndex(version, ".")]
}

// copyTestdata copies the test data of one release's k8s.io/api, which need not be the linked one: what is not in later
// already, which it is added to.
func copyTestdata(release, to string, later map[string]bool) error {
	described := runGo(".", "mod", "download", "-json", "k8s.io/api@"+moduleVersion(release))
	var module struct{ Dir string }
	if err := stdjson.Unmarshal([]byte(described), &module); err != nil {
		return fmt.Errorf("go mod download k8s.io/api@%s: %w", moduleVersion(release), err)
	}
	from := os.DirFS(filepath.Join(module.Dir, "testdata", "HEAD"))
	names, err := fs.Glob(from, "*.pb")
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("k8s.io/api@%s has no test data", moduleVersion(release))
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		if err := copyPair(from, strings.TrimSuffix(name, ".pb"), to, later); err != nil {
			return err
		}
	}
	return nil
}

func copyPair(from fs.FS, name, to string, later map[string]bool) error {
	pb, err := fs.ReadFile(from, name+".pb")
	if err != nil {
		return err
	}
	json, err := fs.ReadFile(from, name+".json")
	if err != nil {
		return err
	}
	content := name + string(pb) + string(json)
	if later[content] {
		return nil
	}
	later[content] = true
	if err := os.WriteFile(filepath.Join(to, name+".pb"), pb, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, name+".json"), json, 0o644)
}

// seeded returns a generator that depends only on the name of the vector, so adding a kind does not change the others.
func seeded(name string) *rand.Rand {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	return rand.New(rand.NewPCG(hash.Sum64(), 1))
}
