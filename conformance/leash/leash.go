// Package leash ties a server's life to whoever started it, without signals, process groups or pid files:
// the starter keeps the write end of the server's standard input open, and the kernel closes it however the
// starter ends. A server started by hand is not on a leash unless it asks for one.
package leash

import (
	"io"
	"os"
)

// Env is the variable that puts a program on the leash when it is set to "stdin".
const Env = "KUBE_INFORMER_LEASH"

// Hold ends this program as soon as standard input is at its end, if the environment asks for that.
// It ends hard, without any clean-up: whoever held the leash is gone, and nobody will look at the remains.
func Hold() {
	if os.Getenv(Env) != "stdin" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}
