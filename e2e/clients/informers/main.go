// Command informers speaks to an API server as Go programs do, with client-go, and says what it saw.
//
//	informers watch  RESOURCE.VERSION.GROUP...   caches under a write load, compared with lists when told to
//	informers typed                              typed clients, which speak protobuf
//	informers apply                              server-side apply by two managers
//	informers elect                              leader election over a Lease
//	informers discover RESOURCE.VERSION.GROUP... discovery and the REST mapper
//
// The server is the one of KUBECONFIG.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

const namespace = "default"

func main() {
	klog.LogToStderr(true)
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("say what to do: watch, typed, apply, elect or discover")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	// Off: how fast a server answers is not this client's to decide.
	config.QPS = -1
	commands := map[string]func(context.Context, *rest.Config, []string) error{
		"watch": watch, "typed": typed, "apply": apply, "elect": elect, "discover": discover,
	}
	command, known := commands[args[0]]
	if !known {
		return fmt.Errorf("unknown command %q", args[0])
	}
	return command(ctx, config, args[1:])
}
