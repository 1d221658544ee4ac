// The API server as Kubernetes ships it, on a leash (see package leash).
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	"kube-informer/conformance/leash"
)

func main() {
	leash.Hold()
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
