//go:build tools

// Package tools pins etcd: its version and checksums are in go.mod and go.sum.
package tools

import _ "go.etcd.io/etcd/server/v3"
