package main

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
)

const (
	configMapTemplate = `
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-config}
data: {size: "{{ .Values.size }}", served: "{{ .Capabilities.APIVersions.Has "example.com/v1/Gizmo" }}"}
`
	gizmoTemplate = `
apiVersion: example.com/v1
kind: Gizmo
metadata: {name: {{ .Release.Name }}-gizmo}
spec: {size: {{ .Values.size }}}
`
	hookTemplate = `
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-hook, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
`
	// Where `helm list` and the others look for what was installed.
	releases = "owner=helm,name=driven"
)

// helm lives through a release: a chart with a definition, an object of it, a config map and a hook.
func helm(ctx context.Context, config *rest.Config) error {
	text, _, err := definition()
	if err != nil {
		return err
	}
	file := func(name, data string) *common.File { return &common.File{Name: name, Data: []byte(data)} }
	chart := &chart.Chart{
		Metadata: &chart.Metadata{APIVersion: "v2", Name: "driven", Version: "1.0.0"},
		Templates: []*common.File{
			file("templates/config.yaml", configMapTemplate), file("templates/gizmo.yaml", gizmoTemplate),
			file("templates/hook.yaml", hookTemplate),
		},
		Files:  []*common.File{file("crds/gizmos.yaml", string(text))},
		Values: map[string]any{"size": 1},
	}
	settings := cli.New()
	settings.SetNamespace(namespace)
	actions := action.NewConfiguration()
	if err := actions.Init(settings.RESTClientGetter(), namespace, "secrets"); err != nil {
		return err
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	unknown, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := typed.CoreV1().ConfigMaps(namespace)
	gizmos := unknown.Resource(gizmo.GroupVersion().WithResource("gizmos")).Namespace(namespace)
	// What is there has this size, and so many revisions are remembered.
	has := func(size int64, revisions int) error {
		config, err := maps.Get(ctx, "driven-config", metav1.GetOptions{})
		if err := errors.Join(err, expect("the config map's size", config.Data["size"], fmt.Sprint(size))); err != nil {
			return err
		}
		made, err := gizmos.Get(ctx, "driven-gizmo", metav1.GetOptions{})
		if err := errors.Join(err, sizeOf(made, size)); err != nil {
			return err
		}
		kept, err := typed.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: releases})
		if err := errors.Join(err, expect("revisions in secrets", len(kept.Items), revisions)); err != nil {
			return err
		}
		history, err := action.NewHistory(actions).Run("driven")
		return errors.Join(err, expect("revisions", len(history), revisions))
	}
	return parts(
		"install", func() error {
			install := action.NewInstall(actions)
			install.ReleaseName, install.Namespace, install.Timeout = "driven", namespace, deadline
			install.WaitStrategy = kube.StatusWatcherStrategy
			_, err := install.RunWithContext(ctx, chart, nil)
			if err != nil {
				return err
			}
			return has(1, 1)
		},
		"upgrade", func() error {
			upgrade := action.NewUpgrade(actions)
			upgrade.Namespace, upgrade.Timeout, upgrade.WaitStrategy = namespace, deadline, kube.StatusWatcherStrategy
			_, err := upgrade.RunWithContext(ctx, "driven", chart, map[string]any{"size": 2})
			if err != nil {
				return err
			}
			return has(2, 2)
		},
		"rollback", func() error {
			back := action.NewRollback(actions)
			back.Version, back.Timeout, back.WaitStrategy = 1, deadline, kube.StatusWatcherStrategy
			if err := back.Run("driven"); err != nil {
				return err
			}
			return has(1, 3)
		},
		"list", func() error {
			found, err := action.NewList(actions).Run()
			return errors.Join(err, expect("releases", len(found), 1))
		},
		"uninstall", func() error {
			remove := action.NewUninstall(actions)
			remove.Timeout, remove.WaitStrategy = deadline, kube.StatusWatcherStrategy
			if _, err := remove.Run("driven"); err != nil {
				return err
			}
			if _, err := maps.Get(ctx, "driven-config", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the config map after it: %v", err)
			}
			_, err := gizmos.Get(ctx, "driven-gizmo", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("the gizmo after it: %v", err)
			}
			kept, err := typed.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: releases})
			return errors.Join(err, expect("revisions in secrets", len(kept.Items), 0))
		},
	)
}
