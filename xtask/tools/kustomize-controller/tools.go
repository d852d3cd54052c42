//go:build tools

// Package tools pins Flux's kustomize-controller: its version and checksums are in go.mod and go.sum.
package tools

import _ "github.com/fluxcd/kustomize-controller"
