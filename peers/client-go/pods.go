package main

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Fills a server with running pods like those of a cluster: two containers, owned by a ReplicaSet, scheduled, with a
// status and the managed fields of two writers. A ReplicaSet has ten pods. Container ids and digests are random, so
// that they compress like real ones.

func init() {
	subcommands["pods"] = fillWithPods
	subcommands["change"] = changePods
}

func fillWithPods() {
	flags := flag.NewFlagSet("pods", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the kubeconfig `file`")
	count := flags.Int("count", 10_000, "number of pods")
	namespaces := flags.Int("namespaces", 50, "number of namespaces")
	workers := flags.Int("workers", 16, "number of concurrent requests")
	seed := flags.Uint64("seed", 1, "seed of the random ids")
	flags.Parse(os.Args[2:])

	client := unlimited(*kubeconfig)
	ctx := context.Background()
	for number := range *namespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceName(number)}}
		_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			check(err)
		}
	}

	began := time.Now()
	inParallel(*workers, *count, func(int) {}, func(number int) {
		random, owner := rand.New(rand.NewPCG(*seed, uint64(number))), rand.New(rand.NewPCG(^*seed, uint64(number/10)))
		check(createPod(ctx, client, random, owner, number, namespaceName(number/10%*namespaces)))
	})
	fmt.Fprintf(os.Stderr, "%d pods in %.1f s\n", *count, time.Since(began).Seconds())
}

// Changes labels of the server's pods at a rate. The value of a label is the time of the write; the last one is marked.
func changePods() {
	flags := flag.NewFlagSet("change", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the kubeconfig `file`")
	changes := flags.Int("changes", 5_000, "number of changes")
	rate := flags.Int("rate", 500, "changes per second")
	workers := flags.Int("workers", 16, "number of concurrent requests")
	flags.Parse(os.Args[2:])
	client := unlimited(*kubeconfig)
	ctx := context.Background()
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	check(err)
	change := func(number int, sent string) {
		pod := &pods.Items[number%len(pods.Items)]
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, sentLabel, sent)
		_, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		check(err)
	}
	began := time.Now()
	due := func(number int) {
		time.Sleep(time.Until(began.Add(time.Duration(number) * time.Second / time.Duration(*rate))))
	}
	inParallel(*workers, *changes-1, due, func(number int) {
		change(number, strconv.FormatInt(time.Now().UnixMicro(), 10))
	})
	// The pod of the first change. Its label has changed since.
	change(0, lastVersion)
	report("writes per second", float64(*changes)/time.Since(began).Seconds(), "1/s")
}

// inParallel calls do for each number below count, on several goroutines. before is called first, in order.
func inParallel(workers, count int, before, do func(number int)) {
	numbers := make(chan int)
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for number := range numbers {
				do(number)
			}
		})
	}
	for number := range count {
		before(number)
		numbers <- number
	}
	close(numbers)
	working.Wait()
}

// unlimited returns a client without a rate limit.
func unlimited(kubeconfig string) kubernetes.Interface {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	check(err)
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	check(err)
	return client
}

func createPod(ctx context.Context, client kubernetes.Interface, random, owner *rand.Rand, number int, namespace string) error {
	pods := client.CoreV1().Pods(namespace)
	created, err := pods.Create(ctx, podSpec(owner, number), metav1.CreateOptions{FieldManager: "kube-controller-manager"})
	if err != nil {
		return fmt.Errorf("create pod %d: %w", number, err)
	}
	created.Status = podStatus(random, number, created)
	if _, err = pods.UpdateStatus(ctx, created, metav1.UpdateOptions{FieldManager: "kubelet"}); err != nil {
		return fmt.Errorf("update status of pod %d: %w", number, err)
	}
	return nil
}

// The parts that all pods of a ReplicaSet share come from the owner's random numbers.
func podSpec(owner *rand.Rand, number int) *corev1.Pod {
	app := fmt.Sprintf("app-%d", number/10)
	hash := hexadecimal(owner, 5)
	isController, grace := true, int64(30)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%s-%d", app, hash, number),
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "pod-template-hash": hash,
				"tier": []string{"frontend", "backend", "batch"}[number/10%3],
			},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "checksum/config": hexadecimal(owner, 32)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-" + hash, UID: uid(owner),
				Controller: &isController, BlockOwnerDeletion: &isController,
			}},
		},
		Spec: corev1.PodSpec{
			NodeName:                      fmt.Sprintf("node-%d", number%500),
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{container("main", "http", 8080), container("sidecar", "metrics", 15090)},
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"},
				{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute"},
			},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app}},
			}}},
		},
	}
}

func container(name, portName string, port int32) corev1.Container {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(port)},
	}}
	return corev1.Container{
		Name: name, Image: "registry.example.com/shop/" + name + ":v1.4.2",
		Args:  []string{"--config=/etc/shop/config.yaml", "--listen=:" + strconv.Itoa(int(port))},
		Ports: []corev1.ContainerPort{{Name: portName, ContainerPort: port}},
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "LOG_LEVEL", Value: "info"},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")},
		},
		LivenessProbe: probe, ReadinessProbe: probe,
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/shop", ReadOnly: true}},
	}
}

func podStatus(random *rand.Rand, number int, pod *corev1.Pod) corev1.PodStatus {
	began := metav1.NewTime(time.Unix(1_760_000_000+int64(number), 0))
	address := fmt.Sprintf("10.%d.%d.%d", 1+number>>16, number>>8&255, number&255)
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: fmt.Sprintf("192.168.%d.%d", number%500/250, number%250),
		PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, StartTime: &began, QOSClass: corev1.PodQOSBurstable,
	}
	for _, kind := range []corev1.PodConditionType{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: "True", LastTransitionTime: began})
	}
	started := true
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true, Started: &started,
			ImageID:     "registry.example.com/shop/" + container.Name + "@sha256:" + hexadecimal(random, 32),
			ContainerID: "containerd://" + hexadecimal(random, 32),
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}},
		})
	}
	return status
}

func namespaceName(number int) string {
	return fmt.Sprintf("team-%d", number)
}

func hexadecimal(random *rand.Rand, bytes int) string {
	buffer := make([]byte, bytes)
	for index := range buffer {
		buffer[index] = byte(random.Uint32())
	}
	return hex.EncodeToString(buffer)
}

func uid(random *rand.Rand) types.UID {
	text := hexadecimal(random, 16)
	return types.UID(fmt.Sprintf("%s-%s-%s-%s-%s", text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
}
