package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/kube-openapi/pkg/util/proto"
)

// clientGo uses typed, dynamic, metadata, scale and discovery clients.
func clientGo(ctx context.Context, config *rest.Config) error {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	unknown, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	gizmos := unknown.Resource(gizmo.GroupVersion().WithResource("gizmos")).Namespace(namespace)
	return parts(
		"definition in protobuf", func() error { return define(ctx, config) },
		"discovery", func() error { return discover(typed.Discovery()) },
		"create, get and list with selectors", func() error { return lists(ctx, config, gizmos) },
		"watch", func() error { return watches(ctx, gizmos) },
		"patches of each kind", func() error { return patches(ctx, typed, gizmos) },
		"apply", func() error { return applies(ctx, gizmos) },
		"status", func() error { return status(ctx, gizmos) },
		"scale", func() error { return scales(ctx, config, typed.Discovery()) },
		"delete", func() error { return deletes(ctx, gizmos) },
	)
}

// define creates the definition as generated clients of today do, in protobuf, and changes it so.
func define(ctx context.Context, config *rest.Config) error {
	binary := rest.CopyConfig(config)
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := apiextensions.NewForConfig(binary)
	if err != nil {
		return err
	}
	_, wanted, err := definition()
	if err != nil {
		return err
	}
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	// What the client sends says nothing of what it leaves out, so it is compared with what JSON of it would be.
	wanted.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = ""
	created, err := definitions.Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	sent, _ := json.Marshal(wanted.Spec.Versions)
	kept, _ := json.Marshal(created.Spec.Versions)
	if err := expect("what was created", string(kept), string(sent)); err != nil {
		return err
	}
	events, err := definitions.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + created.Name})
	if err != nil {
		return err
	}
	defer events.Stop()
	for !established(created.Status.Conditions) {
		event, is := <-events.ResultChan()
		if !is {
			return errors.New("the watch ended before it was established")
		}
		created, is = event.Object.(*apiextensionsv1.CustomResourceDefinition)
		if !is {
			return fmt.Errorf("the watch told of %v", event)
		}
	}
	read, err := definitions.Get(ctx, created.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	read.Spec.Names.Categories = []string{"all"}
	_, err = definitions.Update(ctx, read, metav1.UpdateOptions{})
	return err
}

// discover finds the kinds, and what they look like in both forms of OpenAPI.
func discover(client discovery.DiscoveryInterface) error {
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	mapping, err := mapper.RESTMapping(gizmo.GroupKind(), gizmo.Version)
	if err != nil {
		return err
	}
	if err := expect("the resource", mapping.Resource.Resource, "gizmos"); err != nil {
		return err
	}
	if _, _, err := client.ServerGroupsAndResources(); err != nil {
		return err
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	for _, path := range []string{"api/v1", "apis/example.com/v1"} {
		if paths[path] == nil {
			return fmt.Errorf("OpenAPI v3 has no %s", path)
		}
		if _, err := paths[path].Schema("application/json"); err != nil {
			return err
		}
	}
	second, err := client.OpenAPISchema()
	if err != nil {
		return err
	}
	models, err := proto.NewOpenAPIData(second)
	if err != nil {
		return err
	}
	for _, name := range []string{"com.example.v1.Gizmo", "io.k8s.api.core.v1.ConfigMap"} {
		if models.LookupModel(name) == nil {
			return fmt.Errorf("OpenAPI v2 has no %s among %v", name, models.ListModels())
		}
	}
	version, err := client.ServerVersion()
	if err != nil {
		return err
	}
	return expect("the major version", version.Major, "1")
}

func lists(ctx context.Context, config *rest.Config, gizmos dynamic.ResourceInterface) error {
	for index := range int64(7) {
		labels := map[string]string{"parity": []string{"even", "odd"}[index%2]}
		made, err := gizmos.Create(ctx, newGizmo(fmt.Sprintf("g-%d", index), index, labels), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		colour, _, _ := unstructured.NestedString(made.Object, "spec", "colour")
		if err := expect("the default", colour, "grey"); err != nil {
			return err
		}
	}
	read, err := gizmos.Get(ctx, "g-3", metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = gizmos.Create(ctx, newGizmo("g-bad", -1, nil), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("a gizmo of size -1: %v", err)
	}
	if _, err = gizmos.Get(ctx, "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("one that is not there: %v", err)
	}
	selected := func(options metav1.ListOptions) (int, error) {
		found, pages := 0, 0
		for {
			list, err := gizmos.List(ctx, options)
			if err != nil {
				return 0, err
			}
			found += len(list.Items)
			pages++
			if options.Continue = list.GetContinue(); options.Continue == "" {
				return found, nil
			}
		}
	}
	for selector, wanted := range map[string]int{
		"parity=odd": 3, "parity!=odd": 4, "parity in (odd,even)": 7, "!parity": 0, "parity,parity notin (even)": 3,
	} {
		found, err := selected(metav1.ListOptions{LabelSelector: selector, Limit: 2})
		if err := errors.Join(err, expect(selector, found, wanted)); err != nil {
			return err
		}
	}
	found, err := selected(metav1.ListOptions{FieldSelector: "metadata.name=g-3"})
	if err := errors.Join(err, expect("of the name", found, 1)); err != nil {
		return err
	}
	parts, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	resource := gizmo.GroupVersion().WithResource("gizmos")
	heads, err := parts.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err := errors.Join(err, expect("heads", len(heads.Items), 7)); err != nil {
		return err
	}
	return expect("the size", number(read, "spec", "size"), 3)
}

func watches(ctx context.Context, gizmos dynamic.ResourceInterface) error {
	list, err := gizmos.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	events, err := gizmos.Watch(ctx, metav1.ListOptions{
		ResourceVersion: list.GetResourceVersion(), LabelSelector: "seen=yes",
	})
	if err != nil {
		return err
	}
	defer events.Stop()
	if _, err := gizmos.Create(ctx, newGizmo("unseen", 0, nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	made, err := gizmos.Create(ctx, newGizmo("seen", 0, map[string]string{"seen": "yes"}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_ = unstructured.SetNestedField(made.Object, int64(5), "spec", "size")
	if made, err = gizmos.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	made.SetLabels(nil)
	if _, err = gizmos.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	for _, wanted := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		event, is := <-events.ResultChan()
		if !is {
			return fmt.Errorf("the watch ended before %s", wanted)
		}
		if err := expect("an event", event.Type, wanted); err != nil {
			return err
		}
		object := event.Object.(*unstructured.Unstructured)
		if err := expect("its object", object.GetName(), "seen"); err != nil {
			return err
		}
	}
	return nil
}

func patches(ctx context.Context, typed kubernetes.Interface, gizmos dynamic.ResourceInterface) error {
	merged, err := gizmos.Patch(ctx, "seen", types.MergePatchType,
		[]byte(`{"spec":{"size":6,"parts":["a","b"]}}`), metav1.PatchOptions{})
	if err := errors.Join(err, sizeOf(merged, 6)); err != nil {
		return err
	}
	edited, err := gizmos.Patch(ctx, "seen", types.JSONPatchType,
		[]byte(`[{"op":"test","path":"/spec/size","value":6},{"op":"replace","path":"/spec/size","value":7},
			{"op":"add","path":"/spec/parts/-","value":"c"}]`), metav1.PatchOptions{})
	if err := errors.Join(err, sizeOf(edited, 7)); err != nil {
		return err
	}
	named, _, _ := unstructured.NestedStringSlice(edited.Object, "spec", "parts")
	if err := expect("parts", len(named), 3); err != nil {
		return err
	}
	_, err = gizmos.Patch(ctx, "seen", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
	if !apierrors.IsUnsupportedMediaType(err) {
		return fmt.Errorf("a strategic merge patch of a custom resource: %v", err)
	}
	maps := typed.CoreV1().ConfigMaps(namespace)
	wanted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "patched"}, Data: map[string]string{"a": "1"}}
	if _, err := maps.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
		return err
	}
	patched, err := maps.Patch(ctx, "patched", types.StrategicMergePatchType,
		[]byte(`{"metadata":{"finalizers":["example.com/a"]},"data":{"a":null,"b":""}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if _, is := patched.Data["b"]; !is || len(patched.Data) != 1 || len(patched.Finalizers) != 1 {
		return fmt.Errorf("after the patch: %v", patched)
	}
	_, err = maps.Patch(ctx, "patched", types.StrategicMergePatchType,
		[]byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/a"]}}`), metav1.PatchOptions{})
	return err
}

func applies(ctx context.Context, gizmos dynamic.ResourceInterface) error {
	by := func(manager string, size int64, force bool) (*unstructured.Unstructured, error) {
		wanted := newGizmo("applied", size, nil)
		return gizmos.Apply(ctx, "applied", wanted, metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	first, err := by("first", 1, false)
	if err := errors.Join(err, sizeOf(first, 1)); err != nil {
		return err
	}
	if _, err := by("second", 2, false); !apierrors.IsConflict(err) {
		return fmt.Errorf("another's field: %v", err)
	}
	second, err := by("second", 2, true)
	return errors.Join(err, sizeOf(second, 2))
}

func status(ctx context.Context, gizmos dynamic.ResourceInterface) error {
	read, err := gizmos.Get(ctx, "applied", metav1.GetOptions{})
	if err != nil {
		return err
	}
	_ = unstructured.SetNestedField(read.Object, "ready", "status", "phase")
	_ = unstructured.SetNestedField(read.Object, int64(99), "spec", "size")
	told, err := gizmos.UpdateStatus(ctx, read, metav1.UpdateOptions{})
	if err := errors.Join(err, sizeOf(told, 2)); err != nil {
		return err
	}
	phase, _, _ := unstructured.NestedString(told.Object, "status", "phase")
	if err := expect("the phase", phase, "ready"); err != nil {
		return err
	}
	stale := read.DeepCopy()
	if _, err := gizmos.UpdateStatus(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("a status over a newer one: %v", err)
	}
	patched, err := gizmos.Patch(ctx, "applied", types.MergePatchType,
		[]byte(`{"status":{"phase":"gone"}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	return expect("the generation", patched.GetGeneration(), read.GetGeneration())
}

func scales(ctx context.Context, config *rest.Config, client discovery.DiscoveryInterface) error {
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return err
	}
	kinds := scale.NewDiscoveryScaleKindResolver(client)
	scaler, err := scale.NewForConfig(config, restmapper.NewDiscoveryRESTMapper(groups), dynamic.LegacyAPIPathResolverFunc, kinds)
	if err != nil {
		return err
	}
	resource := schema.GroupResource{Group: gizmo.Group, Resource: "gizmos"}
	read, err := scaler.Scales(namespace).Get(ctx, resource, "applied", metav1.GetOptions{})
	if err != nil {
		return err
	}
	read.Spec.Replicas = 5
	told, err := scaler.Scales(namespace).Update(ctx, resource, read, metav1.UpdateOptions{})
	if err := errors.Join(err, expect("replicas", told.Spec.Replicas, 5)); err != nil {
		return err
	}
	told.Spec.Replicas = -1
	if _, err = scaler.Scales(namespace).Update(ctx, resource, told, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		return fmt.Errorf("%v replicas: %v", autoscalingv1.ScaleSpec{Replicas: -1}, err)
	}
	return nil
}

func deletes(ctx context.Context, gizmos dynamic.ResourceInterface) error {
	read, err := gizmos.Get(ctx, "applied", metav1.GetOptions{})
	if err != nil {
		return err
	}
	other := types.UID("another")
	wrong := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}
	if err := gizmos.Delete(ctx, "applied", wrong); !apierrors.IsConflict(err) {
		return fmt.Errorf("the delete of another's uid: %v", err)
	}
	uid, policy := read.GetUID(), metav1.DeletePropagationForeground
	right := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &policy}
	if err := gizmos.Delete(ctx, "applied", right); err != nil {
		return err
	}
	err = gizmos.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "parity=odd"})
	if err != nil {
		return err
	}
	list, err := gizmos.List(ctx, metav1.ListOptions{LabelSelector: "parity"})
	return errors.Join(err, expect("left", len(list.Items), 4))
}

func sizeOf(object *unstructured.Unstructured, wanted int64) error {
	if object == nil {
		return nil
	}
	return expect("the size", number(object, "spec", "size"), wanted)
}

func established(conditions []apiextensionsv1.CustomResourceDefinitionCondition) bool {
	for _, condition := range conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}
