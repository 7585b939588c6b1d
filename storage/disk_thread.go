package storage

import "runtime"

// diskThread does what waits for the disk on a thread of its own. What a thread has asked
// io_uring for (proxy/wire) is done when that thread can be woken, which one that
// waits for the disk can't be. Counter-example: all clients that it was about to serve would
// wait for the fsync of one client's write.
type diskThread chan func()

func startDiskThread() diskThread {
	d := make(diskThread)
	go func() {
		runtime.LockOSThread()
		// A thread that ended would take with it who wanted to die with the parent: for
		// Linux, the parent is the thread (PR_SET_PDEATHSIG).
		defer runtime.UnlockOSThread()
		for f := range d {
			f()
		}
	}()
	return d
}

func (d diskThread) do(f func() error) (err error) {
	done := make(chan struct{})
	d <- func() {
		defer close(done)
		err = f()
	}
	<-done
	return err
}

func (d diskThread) stop() { close(d) }
