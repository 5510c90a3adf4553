// The same work as bench/runtime_peer.py, done with controller-runtime as its documentation shows it.
//
// Usage: controller_runtime cache|latency|idle NAMESPACE COUNT
// Prints one JSON line when its cache is filled, and one with all latencies when it is ended.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const changedAt = "bench/changed-at"

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(mode, namespace string) error {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	ours := labels.SelectorFromSet(labels.Set{"bench": "yes"})
	all, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:                metrics.Options{BindAddress: "127.0.0.1:0"},
		HealthProbeBindAddress: "127.0.0.1:0",
		Cache: cache.Options{
			DefaultNamespaces:    map[string]cache.Config{namespace: {}},
			DefaultLabelSelector: ours,
			// What every operator with many objects sets.
			DefaultTransform: cache.TransformStripManagedFields(),
		},
	})
	if err != nil {
		return err
	}
	reconciler := &reconciler{client: all.GetClient()}
	var kind client.Object = &corev1.Pod{}
	if mode != "cache" {
		kind = &corev1.ConfigMap{}
		if err := ctrl.NewControllerManagedBy(all).For(kind).Complete(reconciler); err != nil {
			return err
		}
	}
	if err := all.Add(manager.RunnableFunc(func(ctx context.Context) error { return tell(ctx, all, kind) })); err != nil {
		return err
	}
	if err := all.Start(ctrl.SetupSignalHandler()); err != nil {
		return err
	}
	return say(map[string]any{"latencies_ms": reconciler.latencies})
}

// tell says when the cache is filled.
func tell(ctx context.Context, all ctrl.Manager, kind client.Object) error {
	started := time.Now()
	if _, err := all.GetCache().GetInformer(ctx, kind); err != nil {
		return err
	}
	if !all.GetCache().WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	return say(map[string]any{"pid": os.Getpid(), "sync_s": time.Since(started).Seconds()})
}

type reconciler struct {
	client    client.Client
	lock      sync.Mutex
	latencies []float64
}

var begun = time.Now().UnixNano()

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	now := time.Now().UnixNano()
	var found corev1.ConfigMap
	if err := r.client.Get(ctx, request.NamespacedName, &found); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// Changes from before this program was there say nothing about it.
	if changed, err := strconv.ParseInt(found.Annotations[changedAt], 10, 64); err == nil && changed > begun {
		r.lock.Lock()
		defer r.lock.Unlock()
		r.latencies = append(r.latencies, float64(now-changed)/1e6)
	}
	return ctrl.Result{}, nil
}

func say(line any) error {
	return json.NewEncoder(os.Stdout).Encode(line)
}
