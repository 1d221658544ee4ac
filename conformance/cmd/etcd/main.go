// A single etcd member, in the version that this module's Kubernetes requires. It listens on a Unix socket in its own
// directory, so it needs no port and has the same address after a restart. Two commands:
//
//	etcd serve DIRECTORY            serve until the leash is dropped (see package leash) or a signal arrives
//	etcd compact DIRECTORY [REV]    compact the history up to REV, or up to now, as kube-apiserver does
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"kube-informer/conformance/leash"
)

// The key with the compacted revision. kube-apiserver watches it and drops its own history.
const compactRevKey = "compact_rev_key"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		leash.Hold()
		return serve(args[1])
	case len(args) == 2 && args[0] == "compact":
		return compact(args[1], 0)
	case len(args) == 3 && args[0] == "compact":
		revision, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil {
			return fmt.Errorf("revision %q: %w", args[2], err)
		}
		return compact(args[1], revision)
	}
	return fmt.Errorf("usage: etcd serve DIRECTORY | etcd compact DIRECTORY [REVISION]")
}

// serve stores its data in DIRECTORY/data without fsync: the data must survive the end of this process, not of the
// machine, and tests start many of these.
func serve(directory string) error {
	client, peer := socket(directory, "client"), socket(directory, "peer")
	for _, stale := range []url.URL{client, peer} {
		if err := os.Remove(stale.Path); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	config, err := configure(directory, client, peer)
	if err != nil {
		return err
	}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM)
	select {
	case <-asked:
		return nil
	case err := <-server.Err():
		return err
	}
}

// configure goes through a file (JSON is valid YAML), because its names are the same in etcd 3.5 and 3.6, and those of
// the struct's fields are not. The advertised addresses stay the default: it has no peers, and clients are configured
// with the socket.
func configure(directory string, client, peer url.URL) (*embed.Config, error) {
	text, err := json.Marshal(map[string]any{
		"name":                "default",
		"data-dir":            filepath.Join(directory, "data"),
		"listen-client-urls":  client.String(),
		"listen-peer-urls":    peer.String(),
		"unsafe-no-fsync":     true,
		"log-level":           "error",
		"quota-backend-bytes": int64(8 << 30),
	})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(directory, "config.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	return embed.ConfigFromFile(path)
}

// compact writes the revision to compactRevKey first, as kube-apiserver's own compactor does. Otherwise the watch cache
// would still serve revisions that etcd has compacted.
func compact(directory string, revision int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	endpoint := socket(directory, "client")
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint.String()}, DialTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()

	if revision == 0 {
		now, err := client.Get(ctx, compactRevKey)
		if err != nil {
			return err
		}
		revision = now.Header.Revision
	}
	if _, err := client.Put(ctx, compactRevKey, strconv.FormatInt(revision, 10)); err != nil {
		return err
	}
	if _, err := client.Compact(ctx, revision, clientv3.WithCompactPhysical()); err != nil {
		return fmt.Errorf("compact at %d: %w", revision, err)
	}
	fmt.Println(revision)
	return nil
}

func socket(directory, name string) url.URL {
	return url.URL{Scheme: "unix", Path: filepath.Join(directory, name+".sock")}
}
