module windlass.dev/sourceignore

go 1.26.0

require github.com/fluxcd/pkg/sourceignore v0.18.0

require (
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)
