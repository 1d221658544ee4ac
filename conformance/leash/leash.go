// Package leash ends a server when the process that started it ends, without signals, process groups or pid files.
// The parent keeps the write end of the server's standard input open, and the kernel closes it however the parent
// ends. A server that is started by hand is on a leash only if the environment asks for it.
package leash

import (
	"io"
	"os"
)

// Env is the variable that puts a program on the leash when it is set to "stdin".
const Env = "KUBE_INFORMER_LEASH"

// Hold exits this program at the end of its standard input, if the environment asks for that. It exits without
// clean-up, because the parent that would use the data is gone.
func Hold() {
	if os.Getenv(Env) != "stdin" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}
