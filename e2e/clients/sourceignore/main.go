// Reads cases from standard input, a JSON object a line: patterns, paths and whether each is a directory.
// Answers a line for each case: for every path 1 if Flux's own sourceignore leaves it out, 0 if not.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/fluxcd/pkg/sourceignore"
	"github.com/fluxcd/pkg/sourceignore/gitignore"
)

type file struct {
	Directory string `json:"directory"`
	Text      string `json:"text"`
}

type path struct {
	Path      string `json:"path"`
	Directory bool   `json:"directory"`
}

type testCase struct {
	Files []file `json:"files"`
	Paths []path `json:"paths"`
}

func main() {
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<24)
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	for input.Scan() {
		var c testCase
		if err := json.Unmarshal(input.Bytes(), &c); err != nil {
			log.Fatal(err)
		}
		var patterns []gitignore.Pattern
		for _, f := range c.Files {
			var domain []string
			if f.Directory != "" {
				domain = strings.Split(f.Directory, "/")
			}
			patterns = append(patterns, sourceignore.ReadPatterns(strings.NewReader(f.Text), domain)...)
		}
		matcher := sourceignore.NewDefaultMatcher(patterns, nil)
		if len(patterns) > 0 {
			matcher = sourceignore.NewMatcher(append(sourceignore.VCSPatterns(nil), patterns...))
		}
		for _, p := range c.Paths {
			if matcher.Match(strings.Split(p.Path, "/"), p.Directory) {
				fmt.Fprint(output, "1")
			} else {
				fmt.Fprint(output, "0")
			}
		}
		fmt.Fprintln(output)
	}
}
