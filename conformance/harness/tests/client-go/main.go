// Drives client-go against the server: typed, dynamic and metadata informers, a controller with a work queue, leader
// election. Whether lists are streamed is client-go's own switch, KUBE_FEATURE_WatchListClient; the encoding is a flag.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
)

var (
	kubeconfig  = flag.String("kubeconfig", "", "the kubeconfig `file`")
	contentType = flag.String("content-type", "application/json", "content type of the typed client")
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

func main() {
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	check("config", err)
	config.QPS, config.Burst = -1, -1
	typed := rest.CopyConfig(config)
	typed.ContentType = *contentType
	typed.AcceptContentTypes = *contentType + ",application/json"
	client := kubernetes.NewForConfigOrDie(typed)
	namespace := fmt.Sprintf("go-%d", os.Getpid())
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	check("create namespace", err)

	writes(ctx, client, namespace)
	controller(ctx, client, namespace)
	otherInformers(ctx, config, client, namespace)
	election(ctx, client, namespace)

	check("delete namespace", client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
	until(ctx, "namespace is gone", func() bool {
		_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	fmt.Println("ok")
}

func check(what string, err error) {
	if err != nil {
		fmt.Printf("%s: %v\n", what, err)
		os.Exit(1)
	}
}

func until(ctx context.Context, what string, done func() bool) {
	check(what, wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) { return done(), nil }))
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "go"}}, Data: map[string]string{"k": "1"}}
}

func writes(ctx context.Context, client kubernetes.Interface, namespace string) {
	maps := client.CoreV1().ConfigMaps(namespace)
	created, err := maps.Create(ctx, configMap("w"), metav1.CreateOptions{})
	check("create", err)
	if _, err = maps.Create(ctx, configMap("w"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		check("second create", fmt.Errorf("want AlreadyExists, got %v", err))
	}
	stale := created.DeepCopy()
	created.Data["k"] = "2"
	_, err = maps.Update(ctx, created, metav1.UpdateOptions{})
	check("update", err)
	stale.Data["k"] = "3"
	if _, err = maps.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		check("stale update", fmt.Errorf("want Conflict, got %v", err))
	}
	check("retry on conflict", retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := maps.Get(ctx, "w", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Data["k"] = "4"
		_, err = maps.Update(ctx, current, metav1.UpdateOptions{})
		return err
	}))
	_, err = maps.Patch(ctx, "w", types.StrategicMergePatchType, []byte(`{"data":{"l":"5"}}`), metav1.PatchOptions{})
	check("strategic merge patch", err)
	_, err = maps.Patch(ctx, "w", types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"w"},"data":{"m":"6"}}`), metav1.PatchOptions{FieldManager: "go"})
	check("apply", err)
	final, err := maps.Get(ctx, "w", metav1.GetOptions{})
	check("get", err)
	if final.Data["k"] != "4" || final.Data["l"] != "5" || final.Data["m"] != "6" {
		check("final state", fmt.Errorf("%v", final.Data))
	}
	zero := int64(0)
	check("delete", maps.Delete(ctx, "w", metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &final.UID}}))
	if _, err = maps.Get(ctx, "w", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		check("get after delete", fmt.Errorf("want NotFound, got %v", err))
	}
	check("delete collection", maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=go"}))
}

// A controller that copies every config map labelled app=go into a secret.
func controller(ctx context.Context, client kubernetes.Interface, namespace string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	maps := factory.Core().V1().ConfigMaps()
	pods := factory.Core().V1().Pods().Lister()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	enqueue := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	_, err := maps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
		DeleteFunc: enqueue,
	})
	check("handler", err)
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			check("sync", fmt.Errorf("%v", kind))
		}
	}
	go func() {
		for {
			key, quit := queue.Get()
			if quit {
				return
			}
			reconcile(ctx, client, maps.Lister().ConfigMaps(namespace).Get, key)
			queue.Forget(key)
			queue.Done(key)
		}
	}()
	defer queue.ShutDown()
	for at := range 20 {
		_, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, configMap(fmt.Sprintf("c-%d", at)), metav1.CreateOptions{})
		check("create", err)
	}
	secrets := func() int {
		list, err := client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{Limit: 7})
		check("list", err)
		count := len(list.Items)
		for list.Continue != "" {
			list, err = client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{Limit: 7, Continue: list.Continue})
			check("next page", err)
			count += len(list.Items)
		}
		return count
	}
	until(ctx, "secrets are made", func() bool { return secrets() == 20 })
	check("delete collection", client.CoreV1().ConfigMaps(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=go"}))
	until(ctx, "secrets are gone", func() bool { return secrets() == 0 })
	list, err := pods.List(labels.Everything())
	check("list pods", err)
	if len(list) != 0 {
		check("pods", fmt.Errorf("%d", len(list)))
	}
}

func reconcile(ctx context.Context, client kubernetes.Interface, get func(string) (*corev1.ConfigMap, error), key string) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	check("key", err)
	secrets := client.CoreV1().Secrets(namespace)
	if object, err := get(name); err == nil {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"k": []byte(object.Data["k"])}}
		if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			check("create secret", err)
		}
	} else if err := secrets.Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		check("delete secret", err)
	}
}

// Dynamic and metadata informers see what the typed client writes.
func otherInformers(ctx context.Context, config *rest.Config, client kubernetes.Interface, namespace string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	replicas := int32(3)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		},
	}
	_, err := client.AppsV1().Deployments(namespace).Create(ctx, deployment, metav1.CreateOptions{})
	check("create deployment", err)
	dynamicFactory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0, namespace, nil)
	whole := dynamicFactory.ForResource(deployments)
	whole.Informer()
	metadataFactory := metadatainformer.NewFilteredSharedInformerFactory(metadata.NewForConfigOrDie(config), 0, namespace, nil)
	partial := metadataFactory.ForResource(deployments)
	partial.Informer()
	dynamicFactory.Start(ctx.Done())
	metadataFactory.Start(ctx.Done())
	dynamicFactory.WaitForCacheSync(ctx.Done())
	metadataFactory.WaitForCacheSync(ctx.Done())

	scale, err := client.AppsV1().Deployments(namespace).GetScale(ctx, "d", metav1.GetOptions{})
	check("get scale", err)
	scale.Spec.Replicas = 5
	_, err = client.AppsV1().Deployments(namespace).UpdateScale(ctx, "d", scale, metav1.UpdateOptions{})
	check("update scale", err)
	until(ctx, "informers see the change", func() bool {
		object, err := whole.Lister().ByNamespace(namespace).Get("d")
		if err != nil {
			return false
		}
		found, _, _ := unstructured.NestedInt64(object.(*unstructured.Unstructured).Object, "spec", "replicas")
		meta, err := partial.Lister().ByNamespace(namespace).Get("d")
		return err == nil && found == 5 && meta.(*metav1.PartialObjectMetadata).Generation == 2
	})
}

func election(ctx context.Context, client kubernetes.Interface, namespace string) {
	for _, identity := range []string{"one", "two"} {
		ctx, cancel := context.WithCancel(ctx)
		led := false
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "leader", Namespace: namespace},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true, LeaseDuration: time.Second, RenewDeadline: 500 * time.Millisecond, RetryPeriod: 50 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { led = true; cancel() }, OnStoppedLeading: func() {}},
		})
		cancel()
		if !led {
			check("election", fmt.Errorf("%s never led", identity))
		}
	}
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, "leader", metav1.GetOptions{})
	check("get lease", err)
	if *lease.Spec.LeaseTransitions != 1 {
		check("transitions", fmt.Errorf("%d", *lease.Spec.LeaseTransitions))
	}
}
