/*
 * sigbus_guard.c
 *	  Read mapped files that another process may truncate at the same time.
 *
 * Touching a page after a file's new end raises SIGBUS.  The handler maps a page of zeros instead of the
 * missing one, notes the damage and returns.  The reader goes on with zeros, in whichever thread it runs
 * and whichever locks it holds; load_read_guard() reports the error when fn has finished.  So a guarded
 * function may allocate, lock, and run the thread pool; nothing is unwound.
 *
 * A SIGBUS doesn't show every change (the rest of the last page, a file overwritten in place):
 * load_read_guard() finds these afterwards by the file's size and modification time.
 *
 * The handler is process-wide.  A table of the guarded Files tells it which addresses belong to the
 * loader; for a SIGBUS elsewhere it restores the previous disposition, and the fault happens again.
 * Slots are atomic because the handler reads them in any thread.  The kernel kills a process whose
 * thread has SIGBUS blocked when the fault happens, so threads that block signals must not block SIGBUS.
 *
 * Tested by tests/unit/loader/test_load_files.c with files truncated after the open.
 */
#include "loader/model_files_internal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_GUARDS 64

static _Atomic(Files *) guarded[MAX_GUARDS];
static pthread_mutex_t guard_lock = PTHREAD_MUTEX_INITIALIZER;
static int	n_guards;			/* under guard_lock */
static struct sigaction old_action; /* valid while n_guards > 0 */
static _Atomic uintptr_t page_size;

/* Async-signal-safe: loads and system calls only (mmap as a bare system call, so that no sanitizer takes
 * it for a write by this thread). */
static void
on_sigbus(int sig, siginfo_t *si, void *uc)
{
	int			save_errno = errno;
	uintptr_t	addr = (uintptr_t) si->si_addr;
	uintptr_t	page = atomic_load(&page_size);

	(void) uc;
	for (int g = 0; g < MAX_GUARDS; g++)
	{
		Files	   *f = atomic_load(&guarded[g]);

		for (int i = 0; f != NULL && i < f->n_maps; i++)
		{
			uintptr_t	base = (uintptr_t) f->maps[i].base;

			if (base == 0 || addr < base || addr - base >= f->maps[i].len)
				continue;
			if (syscall(SYS_mmap, addr & ~(page - 1), page, PROT_READ,
						MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == -1)
				break;
			atomic_store(&f->damaged, i);
			errno = save_errno;
			return;
		}
	}
	/* the address isn't ours: restore the previous disposition and let the fault happen again */
	sigaction(sig, &old_action, NULL);
	errno = save_errno;
}

static int
guard_enter(Files *f, Err *e)
{
	struct sigaction sa;
	int			slot = -1;

	pthread_mutex_lock(&guard_lock);
	for (int g = 0; g < MAX_GUARDS && slot < 0; g++)
		if (atomic_load(&guarded[g]) == NULL)
			slot = g;
	if (slot >= 0)
	{
		atomic_store(&guarded[slot], f);
		if (n_guards++ == 0)
		{
			atomic_store(&page_size, (uintptr_t) sysconf(_SC_PAGESIZE));
			memset(&sa, 0, sizeof(sa));
			sa.sa_sigaction = on_sigbus;
			sa.sa_flags = SA_SIGINFO | SA_RESTART;
			sigemptyset(&sa.sa_mask);
			sigaction(SIGBUS, &sa, &old_action);
		}
	}
	pthread_mutex_unlock(&guard_lock);
	if (slot < 0)
		err_set(e, ERR_INTERNAL, "too many models are being read at the same time");
	return slot;
}

static void
guard_leave(int slot)
{
	pthread_mutex_lock(&guard_lock);
	atomic_store(&guarded[slot], NULL);
	if (--n_guards == 0)
		sigaction(SIGBUS, &old_action, NULL);
	pthread_mutex_unlock(&guard_lock);
}

bool
files_unchanged(const Files *f, Err *e)
{
	int			bad = atomic_load(&f->damaged);

	if (bad >= 0)
		return err_set(e, ERR_IO, "could not read file \"%s\": it was truncated while in use",
					   f->maps[bad].path);
	for (int i = 0; i < f->n_maps; i++)
	{
		const FileMap *m = &f->maps[i];
		struct stat st;

		if (fstat(m->fd, &st) != 0)
			return err_set(e, ERR_IO, "could not stat file \"%s\": %m", m->path);
		if ((size_t) st.st_size != m->len || st.st_mtim.tv_sec != m->mtime.tv_sec ||
			st.st_mtim.tv_nsec != m->mtime.tv_nsec)
			return err_set(e, ERR_IO, "could not read file \"%s\": it was changed while in use",
						   m->path);
	}
	return true;
}

bool
load_read_guard(const Files *cf, void (*fn) (void *arg), void *arg, Err *e)
{
	Files	   *f = (Files *) cf;	/* only `damaged` is written */
	int			slot = guard_enter(f, e);
	sigset_t	bus;
	sigset_t	old;

	if (slot < 0)
		return false;
	/* a SIGBUS that is blocked kills the process */
	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &bus, &old);
	fn(arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	guard_leave(slot);
	return files_unchanged(f, e);
}
