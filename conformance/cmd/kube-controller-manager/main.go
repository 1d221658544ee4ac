// The controller manager as Kubernetes ships it, on a leash (see package leash). Tests enable only the
// controllers that they need, with --controllers.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"kube-informer/conformance/leash"
)

func main() {
	leash.Hold()
	os.Exit(cli.Run(app.NewControllerManagerCommand()))
}
