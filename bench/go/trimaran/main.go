// kube-scheduler with one more plugin, Trimaran's TargetLoadPacking.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme" // reads the arguments of the plugin
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/targetloadpacking"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(targetloadpacking.Name, targetloadpacking.New))))
}
