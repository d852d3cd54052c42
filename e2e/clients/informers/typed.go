package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
)

// typed uses typed clients, whose requests are protobuf and whose answers may be either.
func typed(ctx context.Context, config *rest.Config, _ []string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	steps := []struct {
		name string
		run  func(context.Context, kubernetes.Interface) error
	}{
		{"config maps", configMaps}, {"secrets", secrets}, {"patches", patches},
		{"retry on conflict", conflicts},
	}
	for _, step := range steps {
		if err := step.run(ctx, client); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Println("ok:", step.name)
	}
	return nil
}

func configMaps(ctx context.Context, client kubernetes.Interface) error {
	maps := client.CoreV1().ConfigMaps(namespace)
	wanted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "typed", Labels: map[string]string{"of": "typed"}},
		Data:       map[string]string{"key": "value"},
		BinaryData: map[string][]byte{"bytes": {0, 1, 255}},
	}
	created, err := maps.Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err := maps.Create(ctx, wanted, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a second create answers %v", err)
	}
	created.Data["key"] = "changed"
	updated, err := maps.Update(ctx, created, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if updated.Data["key"] != "changed" || string(updated.BinaryData["bytes"]) != "\x00\x01\xff" {
		return fmt.Errorf("what was written is not what is read: %v", updated)
	}
	if updated.ResourceVersion == created.ResourceVersion || updated.UID != created.UID {
		return fmt.Errorf("an update went from %v to %v", created.ObjectMeta, updated.ObjectMeta)
	}
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "of=typed"})
	if err != nil {
		return err
	}
	if len(list.Items) != 1 || list.Items[0].Name != "typed" {
		return fmt.Errorf("the list has %d items", len(list.Items))
	}
	wrong := types.UID("another")
	err = maps.Delete(ctx, "typed", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}})
	if !apierrors.IsConflict(err) {
		return fmt.Errorf("a delete of another UID answers %v", err)
	}
	if err := maps.Delete(ctx, "typed", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if _, err := maps.Get(ctx, "typed", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("a deleted object answers %v", err)
	}
	return nil
}

func secrets(ctx context.Context, client kubernetes.Interface) error {
	all := client.CoreV1().Secrets(namespace)
	wanted := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "typed"},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{"token": []byte("from Go")},
		StringData: map[string]string{"more": "text"},
	}
	if _, err := all.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
		return err
	}
	read, err := all.Get(ctx, "typed", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if string(read.Data["token"]) != "from Go" || string(read.Data["more"]) != "text" {
		return fmt.Errorf("the secret has other keys: %d", len(read.Data))
	}
	return all.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=typed"})
}

func patches(ctx context.Context, client kubernetes.Interface) error {
	maps := client.CoreV1().ConfigMaps(namespace)
	wanted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "patched"}, Data: map[string]string{"a": "1"}}
	if _, err := maps.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
		return err
	}
	for kind, patch := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"add","path":"/data/json","value":"yes"}]`,
		types.MergePatchType:          `{"data":{"merge":"yes"}}`,
		types.StrategicMergePatchType: `{"data":{"strategic":"yes"}}`,
	} {
		if _, err := maps.Patch(ctx, "patched", kind, []byte(patch), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	read, err := maps.Get(ctx, "patched", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(read.Data) != 4 {
		return fmt.Errorf("after three patches: %v", read.Data)
	}
	return maps.Delete(ctx, "patched", metav1.DeleteOptions{})
}

// apply lets two managers share an object by server-side apply.
func apply(ctx context.Context, config *rest.Config, _ []string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(namespace)
	of := func(data map[string]string) *applycorev1.ConfigMapApplyConfiguration {
		return applycorev1.ConfigMap("applied", namespace).WithData(data)
	}
	first := metav1.ApplyOptions{FieldManager: "first"}
	if _, err := maps.Apply(ctx, of(map[string]string{"a": "1", "b": "2"}), first); err != nil {
		return err
	}
	second := metav1.ApplyOptions{FieldManager: "second"}
	_, err = maps.Apply(ctx, of(map[string]string{"a": "9"}), second)
	if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		return fmt.Errorf("another manager's value for the same field answers %v", err)
	}
	second.Force = true
	if _, err := maps.Apply(ctx, of(map[string]string{"a": "9"}), second); err != nil {
		return err
	}
	applied, err := maps.Apply(ctx, of(map[string]string{}), first)
	if err != nil {
		return err
	}
	if len(applied.Data) != 1 || applied.Data["a"] != "9" {
		return fmt.Errorf("a manager that says nothing more leaves %v", applied.Data)
	}
	extracted, err := applycorev1.ExtractConfigMap(applied, "second")
	if err != nil {
		return err
	}
	if extracted.Data["a"] != "9" {
		return fmt.Errorf("the second manager's part is %v", extracted.Data)
	}
	fmt.Println("ok: server-side apply")
	return maps.Delete(ctx, "applied", metav1.DeleteOptions{})
}

func conflicts(ctx context.Context, client kubernetes.Interface) error {
	maps := client.CoreV1().ConfigMaps(namespace)
	wanted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "counted"}, Data: map[string]string{"n": ""}}
	if _, err := maps.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
		return err
	}
	failures := make(chan error)
	const counters, rounds = 4, 10
	backoff := retry.DefaultBackoff
	backoff.Steps = 100
	for range counters {
		go func() {
			var failed error
			for range rounds {
				err := retry.RetryOnConflict(backoff, func() error {
					read, err := maps.Get(ctx, "counted", metav1.GetOptions{})
					if err != nil {
						return err
					}
					read.Data["n"] += "x"
					_, err = maps.Update(ctx, read, metav1.UpdateOptions{})
					return err
				})
				failed = errors.Join(failed, err)
			}
			failures <- failed
		}()
	}
	var failed error
	for range counters {
		failed = errors.Join(failed, <-failures)
	}
	if failed != nil {
		return failed
	}
	read, err := maps.Get(ctx, "counted", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(read.Data["n"]) != counters*rounds {
		return fmt.Errorf("%d of %d changes are there", len(read.Data["n"]), counters*rounds)
	}
	return maps.Delete(ctx, "counted", metav1.DeleteOptions{})
}

// elect lets two candidates compete for a Lease: one leads, the other takes over when it lets go.
func elect(ctx context.Context, config *rest.Config, _ []string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	leading := make(chan string, 2)
	var leaders atomic.Int32
	candidate := func(ctx context.Context, identity string) {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Name: "elected", Namespace: namespace},
				Client:     client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
			},
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 200 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					if leaders.Add(1) != 1 {
						leading <- "two at a time"
					}
					leading <- identity
					<-ctx.Done()
				},
				OnStoppedLeading: func() {},
			},
		})
	}
	first, letGo := context.WithCancel(ctx)
	defer letGo()
	go candidate(first, "first")
	if leader := <-leading; leader != "first" {
		return fmt.Errorf("%q leads, alone as first is", leader)
	}
	go candidate(ctx, "second")
	leaders.Add(-1) // From here on the second may lead, also before the first is told that it does not.
	letGo()
	select {
	case leader := <-leading:
		if leader != "second" {
			return fmt.Errorf("after first let go: %s", leader)
		}
	case <-ctx.Done():
		return fmt.Errorf("nobody leads after first let go")
	}
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, "elected", metav1.GetOptions{})
	if err != nil {
		return err
	}
	fmt.Printf("ok: %s leads after %d transitions\n", *lease.Spec.HolderIdentity, *lease.Spec.LeaseTransitions)
	return nil
}

// discover maps each resource to its kind and back, from discovery.
func discover(_ context.Context, config *rest.Config, args []string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	for _, arg := range args {
		resource, _ := schema.ParseResourceArg(arg)
		if resource == nil {
			return fmt.Errorf("%q is no RESOURCE.VERSION.GROUP", arg)
		}
		kind, err := mapper.KindFor(*resource)
		if err != nil {
			return err
		}
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return err
		}
		if mapping.Resource != *resource {
			return fmt.Errorf("%s is %s, which is %s", resource, kind, mapping.Resource)
		}
		scope := "cluster"
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			scope = "namespace"
		}
		fmt.Printf("ok: %s is %s in a %s\n", arg, kind.Kind, scope)
	}
	return nil
}
