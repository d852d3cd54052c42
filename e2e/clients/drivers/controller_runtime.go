package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "example.com/gizmo"

// gizmos is a controller: each gizmo gets a config map that says its size, a status and a finalizer.
type gizmos struct{ client.Client }

func (r gizmos) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gizmo)
	if err := r.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !object.GetDeletionTimestamp().IsZero() {
		before := object.DeepCopy()
		controllerutil.RemoveFinalizer(object, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Patch(ctx, object, client.MergeFrom(before)))
	}
	before := object.DeepCopy()
	if controllerutil.AddFinalizer(object, finalizer) {
		optimistic := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Patch(ctx, object, optimistic); err != nil {
			return ctrl.Result{}, err
		}
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: object.GetName(), Namespace: object.GetNamespace()}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, owned, func() error {
		owned.Data = map[string]string{"size": fmt.Sprint(number(object, "spec", "size"))}
		return controllerutil.SetControllerReference(object, owned, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	if number(object, "status", "observedGeneration") == object.GetGeneration() {
		return ctrl.Result{}, nil
	}
	before = object.DeepCopy()
	_ = unstructured.SetNestedField(object.Object, object.GetGeneration(), "status", "observedGeneration")
	return ctrl.Result{}, r.Status().Patch(ctx, object, client.MergeFrom(before))
}

// controllerRuntime installs the definition as tests of controllers do, and runs a manager with a controller.
func controllerRuntime(ctx context.Context, config *rest.Config) error {
	ctrl.SetLogger(zap.New())
	_, wanted, err := definition()
	if err != nil {
		return err
	}
	if err := step("definitions of tests", func() error {
		_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{
			CRDs: []*apiextensionsv1.CustomResourceDefinition{wanted}, MaxTime: deadline, PollInterval: 50 * time.Millisecond,
		})
		return err
	}); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "gizmos.example.com", LeaderElectionNamespace: namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	watched := &unstructured.Unstructured{}
	watched.SetGroupVersionKind(gizmo)
	owner := handler.EnqueueRequestForOwner(manager.GetScheme(), manager.GetRESTMapper(), watched, handler.OnlyControllerOwner())
	err = ctrl.NewControllerManagedBy(manager).Named("gizmos").For(watched).
		Watches(&corev1.ConfigMap{}, owner).Complete(gizmos{manager.GetClient()})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	// A client without a cache, as whoever uses the controller has.
	direct, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err == nil {
		err = parts(
			"a controller reconciles", func() error { return reconciles(ctx, direct) },
			"a controller repairs what it owns", func() error { return repairs(ctx, direct) },
			"apply and lists", func() error { return appliesAndLists(ctx, direct) },
			"finalizers and garbage collection", func() error { return ends(ctx, direct) },
		)
	}
	stop()
	return errors.Join(err, <-ended)
}

func reconciles(ctx context.Context, direct client.Client) error {
	if err := direct.Create(ctx, newGizmo("reconciled", 3, map[string]string{"of": "test"})); err != nil {
		return err
	}
	object := newGizmo("reconciled", 0, nil)
	if err := until(ctx, func() (bool, error) {
		err := direct.Get(ctx, client.ObjectKeyFromObject(object), object)
		return number(object, "status", "observedGeneration") == object.GetGeneration(), err
	}); err != nil {
		return fmt.Errorf("%w: %v", err, object)
	}
	return expect("finalizers", len(object.GetFinalizers()), 1)
}

func repairs(ctx context.Context, direct client.Client) error {
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "reconciled", Namespace: namespace}}
	if err := direct.Get(ctx, client.ObjectKeyFromObject(owned), owned); err != nil {
		return err
	}
	before := owned.DeepCopy()
	owned.Data["size"] = "wrong"
	if err := direct.Patch(ctx, owned, client.StrategicMergeFrom(before)); err != nil {
		return err
	}
	if err := until(ctx, func() (bool, error) {
		err := direct.Get(ctx, client.ObjectKeyFromObject(owned), owned)
		return owned.Data["size"] == "3", err
	}); err != nil {
		return err
	}
	if err := direct.Delete(ctx, owned); err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		err := direct.Get(ctx, client.ObjectKeyFromObject(owned), owned)
		return err == nil, client.IgnoreNotFound(err)
	})
}

func appliesAndLists(ctx context.Context, direct client.Client) error {
	wanted := newGizmo("applied", 4, map[string]string{"of": "test"})
	configuration := client.ApplyConfigurationFromUnstructured(wanted)
	if err := direct.Apply(ctx, configuration, client.FieldOwner("driver"), client.ForceOwnership); err != nil {
		return err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gizmo.GroupVersion().WithKind("GizmoList"))
	err := direct.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"of": "test"})
	if err := errors.Join(err, expect("listed", len(list.Items), 2)); err != nil {
		return err
	}
	dry := newGizmo("dry", 1, nil)
	if err := direct.Create(ctx, dry, client.DryRunAll); err != nil {
		return err
	}
	if err := direct.Get(ctx, client.ObjectKeyFromObject(dry), dry); !apierrors.IsNotFound(err) {
		return fmt.Errorf("what was created to see whether it could be: %v", err)
	}
	return nil
}

func ends(ctx context.Context, direct client.Client) error {
	object := newGizmo("reconciled", 0, nil)
	if err := direct.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "reconciled", Namespace: namespace}}
	for _, gone := range []client.Object{object, owned} {
		if err := until(ctx, func() (bool, error) {
			err := direct.Get(ctx, client.ObjectKeyFromObject(gone), gone)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}); err != nil {
			return err
		}
	}
	return nil
}

// until asks again and again, until it is so.
func until(ctx context.Context, is func() (bool, error)) error {
	condition := func(context.Context) (bool, error) { return is() }
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, condition)
}
