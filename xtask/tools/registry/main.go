// A registry for tests: the CNCF's distribution, with what tests use of it and without the clouds' storage, so that a
// first build is short. Its version and checksums are in go.mod and go.sum.
package main

import (
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

func main() {
	// It prints its own errors, and ends with them.
	_ = registry.RootCmd.Execute()
}
