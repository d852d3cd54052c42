package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Writers of each resource, and objects of each that they create, change and delete.
const (
	writers = 3
	names   = 40
)

// watch keeps a cache of each resource while objects are written without end. Lines of its input:
// "state" says how much was written, "settle" ends the writing and compares every cache with a list.
func watch(ctx context.Context, config *rest.Config, args []string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	// Says when a server's streamed lists are not good enough, and plain ones are fetched instead.
	logging := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(logging)
	if err := logging.Set("v", "4"); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
	informers := map[schema.GroupVersionResource]cache.SharedIndexInformer{}
	var events atomic.Int64
	for _, arg := range args {
		resource, _ := schema.ParseResourceArg(arg)
		if resource == nil {
			return fmt.Errorf("%q is no RESOURCE.VERSION.GROUP", arg)
		}
		informer := factory.ForResource(*resource).Informer()
		count := func(any) { events.Add(1) }
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: count, UpdateFunc: func(_, after any) { count(after) }, DeleteFunc: count,
		}); err != nil {
			return err
		}
		informers[*resource] = informer
	}
	factory.Start(ctx.Done())
	for resource, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the cache of %s never synced", resource)
		}
	}
	fmt.Println("synced")

	load := &load{client: client, failures: map[string]int{}}
	writing, stop := context.WithCancel(ctx)
	defer stop()
	var done sync.WaitGroup
	for resource := range informers {
		if !writable(resource) {
			continue
		}
		for writer := range writers {
			done.Add(1)
			go func() {
				defer done.Done()
				load.run(writing, resource, writer)
			}()
		}
	}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		switch commands.Text() {
		case "state":
			fmt.Printf("state: %d writes, %d events\n", load.writes.Load(), events.Load())
		case "settle":
			stop()
			done.Wait()
			for resource, informer := range informers {
				if err := compare(ctx, client, resource, informer); err != nil {
					return err
				}
			}
			fmt.Printf("settled: %d writes, %d events, failures %v\n", load.writes.Load(), events.Load(), load.failures)
			return nil
		}
	}
	return commands.Err()
}

// writable says whether this program knows how to write such objects; others are watched only.
func writable(resource schema.GroupVersionResource) bool {
	return resource.Resource == "configmaps" || resource.Resource == "widgets"
}

type load struct {
	client   dynamic.Interface
	writes   atomic.Int64
	lock     sync.Mutex
	failures map[string]int
}

// run creates, changes and deletes, whatever comes of it: a server that is down is tried again.
func (l *load) run(ctx context.Context, resource schema.GroupVersionResource, writer int) {
	objects := l.client.Resource(resource).Namespace(namespace)
	random := rand.New(rand.NewPCG(uint64(writer), 7))
	for round := 0; ctx.Err() == nil; round++ {
		name := fmt.Sprintf("load-%d-%d", writer, random.IntN(names))
		var err error
		switch random.IntN(4) {
		case 0:
			err = objects.Delete(ctx, name, metav1.DeleteOptions{})
		case 1:
			patch := fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, round)
			_, err = objects.Patch(ctx, name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
		default:
			_, err = objects.Create(ctx, object(resource, name, round), metav1.CreateOptions{})
		}
		if err == nil {
			l.writes.Add(1)
			continue
		}
		l.lock.Lock()
		l.failures[kind(err)]++
		l.lock.Unlock()
		if kind(err) == "unreachable" {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func object(resource schema.GroupVersionResource, name string, round int) *unstructured.Unstructured {
	content := map[string]any{"metadata": map[string]any{"name": name}}
	if resource.Resource == "configmaps" {
		content["kind"] = "ConfigMap"
		content["data"] = map[string]any{"round": fmt.Sprint(round)}
	} else {
		content["kind"] = "Widget"
		content["spec"] = map[string]any{"size": int64(round)}
	}
	content["apiVersion"] = resource.GroupVersion().String()
	return &unstructured.Unstructured{Object: content}
}

// kind names an error in a word.
func kind(err error) string {
	text := err.Error()
	for word, part := range map[string]string{"exists": "already exists", "missing": "not found"} {
		if strings.Contains(text, part) {
			return word
		}
	}
	return "unreachable"
}

// compare waits until a cache is what a fresh list says, name by name, and fails with what differs.
func compare(
	ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, informer cache.SharedIndexInformer,
) error {
	var differences []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		list, err := client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			differences = []string{err.Error()}
			continue
		}
		stored, cached := map[string]string{}, map[string]string{}
		for _, item := range list.Items {
			stored[item.GetName()] = identity(&item)
		}
		for _, item := range informer.GetStore().List() {
			item := item.(*unstructured.Unstructured)
			cached[item.GetName()] = identity(item)
		}
		if differences = differ(stored, cached); len(differences) == 0 {
			fmt.Printf("equal: %d %s\n", len(stored), resource.Resource)
			return nil
		}
	}
	return fmt.Errorf("the cache of %s is not the list:\n%s", resource, strings.Join(differences, "\n"))
}

func identity(item *unstructured.Unstructured) string {
	return fmt.Sprintf("uid %s at %s", item.GetUID(), item.GetResourceVersion())
}

func differ(stored, cached map[string]string) []string {
	var found []string
	for name, identity := range stored {
		if cached[name] != identity {
			found = append(found, fmt.Sprintf("%s: stored %s, cached %q", name, identity, cached[name]))
		}
	}
	for name, identity := range cached {
		if _, there := stored[name]; !there {
			found = append(found, fmt.Sprintf("%s: cached %s, not stored", name, identity))
		}
	}
	sort.Strings(found)
	return found
}
