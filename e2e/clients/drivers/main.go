// Command drivers drives an API server with the libraries that Go programs use, and says each thing that went well.
//
//	drivers client-go            typed, dynamic and discovery clients
//	drivers controller-runtime   a manager with a controller, its cache and its leader election
//	drivers helm                 the life of a release: install, upgrade, roll back, uninstall
//
// The server is the one of KUBECONFIG, the definition of the objects is in the file that DEFINITION names.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

const (
	namespace = "default"
	deadline  = time.Minute
)

var gizmo = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gizmo"}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	drivers := map[string]func(context.Context, *rest.Config) error{
		"client-go": clientGo, "controller-runtime": controllerRuntime, "helm": helm,
	}
	if len(args) != 1 || drivers[args[0]] == nil {
		return fmt.Errorf("say what to drive the server with: client-go, controller-runtime or helm")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	// Off: how fast a server answers is not this client's to decide.
	config.QPS = -1
	return drivers[args[0]](ctx, config)
}

// step runs a part and says that it went well.
func step(name string, part func() error) error {
	if err := part(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Println("ok:", name)
	return nil
}

// parts runs each part under its name, until one fails.
func parts(named ...any) error {
	for at := 0; at < len(named); at += 2 {
		if err := step(named[at].(string), named[at+1].(func() error)); err != nil {
			return err
		}
	}
	return nil
}

// definition reads the definition of the objects.
func definition() ([]byte, *apiextensionsv1.CustomResourceDefinition, error) {
	text, err := os.ReadFile(os.Getenv("DEFINITION"))
	if err != nil {
		return nil, nil, err
	}
	read := &apiextensionsv1.CustomResourceDefinition{}
	return text, read, yaml.UnmarshalStrict(text, read)
}

// newGizmo is a gizmo that is not created yet.
func newGizmo(name string, size int64, labels map[string]string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": size}}}
	made.SetGroupVersionKind(gizmo)
	made.SetNamespace(namespace)
	made.SetName(name)
	made.SetLabels(labels)
	return made
}

// expect is an error unless what is so is what ought to be.
func expect[T comparable](what string, found, wanted T) error {
	if found != wanted {
		return fmt.Errorf("%s is %v, not %v", what, found, wanted)
	}
	return nil
}

// number is a whole number within an object, or -1.
func number(object *unstructured.Unstructured, path ...string) int64 {
	found, is, err := unstructured.NestedInt64(object.Object, path...)
	if err != nil || !is {
		return -1
	}
	return found
}
