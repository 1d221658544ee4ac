package main

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// writeVectors fills a directory with pairs of files, NAME.json and NAME.pb, that Go holds to be the same object:
// in DIR/module those that the module k8s.io/api is tested with (every kind of it, every field set), in DIR/made
// objects of all kinds in several states of being filled, the same ones on each run.
func writeVectors(dir string) error {
	if err := copyTestdata(filepath.Join(dir, "module")); err != nil {
		return err
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

// write brings the object into a state that both encodings can hold, nil and empty lists and the like being one in
// protobuf, and writes it in both.
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

func copyTestdata(to string) error {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		return fmt.Errorf("go list -m k8s.io/api: %w", err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	from := os.DirFS(filepath.Join(strings.TrimSpace(string(module)), "testdata", "HEAD"))
	names, err := fs.Glob(from, "*.[jp]*") // .json and .pb, not .yaml
	if err != nil {
		return err
	}
	for _, name := range names {
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// seeded is a generator that depends on nothing but the vector's name: adding a kind leaves the others as they are.
func seeded(name string) *rand.Rand {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	return rand.New(rand.NewPCG(hash.Sum64(), 1))
}
