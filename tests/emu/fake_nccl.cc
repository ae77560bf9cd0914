/*
 * fake_nccl.cc
 *	  A libnccl.so.2 for tests of kernels/cuda/nccl.cu: ranks are processes whose emulated devices
 *	  exchange data through shared memory.
 *
 * An id names a memory file of the process that made it.  A collective runs in the stream's order
 * (cemu_call()): it continues when all ranks have reached theirs, and checks that these are the same.
 * Like the real library it waits for ranks that never come until it is aborted, and reports "in
 * progress" before it reports anything else.
 *
 * NCCL_FAKE, which is passed on like any variable NCCL_* of the real library, selects an error:
 * "version", "init:RANK", or "call:RANK:NUMBER", an error found later.
 */
#include "cuda/nccl_api.h"

#include <atomic>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API extern "C" __attribute__((visibility("default")))
#define RANKS 16
#define SLOT ((size_t) 16 << 20)

enum { SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6 };	/* ncclResult_t */

enum Kind { GATHER, SUM, BROADCAST, SEND, RECV };

/* A rank's description of its call, so that others can compare it with theirs. */
struct Said
{
	int			kind;
	int			root;
	size_t		bytes;
};

struct Shared
{
	std::atomic<int> came[RANKS];
	std::atomic<uint64_t> wrote[RANKS]; /* collectives for which the rank's part has been written, */
	std::atomic<uint64_t> read[RANKS];	/* and which it has read completely */
	std::atomic<uint64_t> sent[RANKS][RANKS];	/* [from][to] */
	std::atomic<uint64_t> taken[RANKS][RANKS];
	Said		said[RANKS];
};

struct NcclAny
{
	/* followed by [size][size] slots: from, to; a collective uses the slot to itself */
	Shared	   *shared;
	size_t		mapped;
	int			rank;
	int			size;
	uint64_t	calls;			/* collectives requested */
	uint64_t	done;
	uint64_t	under_way;		/* calls that were reported as in progress */
	int			error;			/* an error found later */
	bool		aborted;
	int			waiting;		/* calls queued in streams */
};

struct Call
{
	NcclComm	c;
	Said		said;
	int			peer;
	const void *from;
	void	   *to;
	bool		wrote;
};

static bool
fault(const char *what, int rank, uint64_t number)
{
	const char *wanted = getenv("NCCL_FAKE");
	char		this_one[64];

	if (strcmp(what, "version") == 0)
		snprintf(this_one, sizeof(this_one), "%s", what);
	else if (strcmp(what, "init") == 0)
		snprintf(this_one, sizeof(this_one), "%s:%d", what, rank);
	else
		snprintf(this_one, sizeof(this_one), "%s:%d:%llu", what, rank, (unsigned long long) number);
	return wanted != NULL && strcmp(wanted, this_one) == 0;
}

/* ---- the emulation's functions, found at run time, because this library isn't linked with it ---- */

typedef void (*CallFn) (void *stream, int (*go) (void *arg), void *arg);

static int
look_in(struct dl_phdr_info *info, size_t, void *to)
{
	void	   *lib = dlopen(info->dlpi_name[0] != '\0' ? info->dlpi_name : NULL, RTLD_NOLOAD | RTLD_LAZY);
	void	   *fn = lib != NULL ? dlsym(lib, "cemu_call") : NULL;

	if (lib != NULL)
		dlclose(lib);
	*(void **) to = fn;
	return fn != NULL;
}

static CallFn
emulation(void)
{
	static void *fn;

	if (fn == NULL)
		dl_iterate_phdr(look_in, &fn);
	return (CallFn) fn;
}

/* ---- communicators ---- */

API int
ncclGetVersion(int *version)
{
	*version = fault("version", 0, 0) ? 21703 : 22809;
	return NCCL_OK;
}

API const char *
ncclGetErrorString(int result)
{
	return result == SYSTEM_ERROR ? "unhandled system error" : result == REMOTE_ERROR ? "remote process exited" : "invalid usage";
}

API int
ncclGetUniqueId(NcclId *id)
{
	int			fd = memfd_create("fake nccl", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, sizeof(Shared) + RANKS * RANKS * SLOT) != 0)
		return SYSTEM_ERROR;
	memset(id, 0, sizeof(*id));
	snprintf(id->bytes, sizeof(id->bytes), "/proc/%d/fd/%d", (int) getpid(), fd);
	return NCCL_OK;
}

API int
ncclCommInitRankConfig(NcclComm *comm, int ranks, NcclId id, int rank, NcclConfig *config)
{
	int			fd;
	NcclComm	c;

	if (config->size != sizeof(*config) || config->magic != (unsigned) NCCL_MAGIC || config->blocking != 0 || rank < 0 || rank >= ranks ||
		ranks > RANKS || emulation() == NULL)
		return INVALID_ARGUMENT;
	if (fault("init", rank, 0) || (fd = open(id.bytes, O_RDWR | O_CLOEXEC)) < 0)
		return SYSTEM_ERROR;
	c = (NcclComm) calloc(1, sizeof(*c));
	c->rank = rank;
	c->size = ranks;
	c->mapped = sizeof(Shared) + (size_t) ranks * (size_t) ranks * SLOT;
	c->shared = (Shared *) mmap(NULL, c->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (c->shared == MAP_FAILED)
		return SYSTEM_ERROR;
	/* two ranks with the same number are an error of the caller */
	c->error = c->shared->came[rank]++ > 0 ? INVALID_USAGE : 0;
	*comm = c;
	return NCCL_UNDER_WAY;
}

API int
ncclCommGetAsyncError(NcclComm c, int *error)
{
	*error = c->error;
	for (int r = 0; r < c->size && *error == NCCL_OK; r++)
		if (c->shared->came[r] == 0)
			*error = NCCL_UNDER_WAY;
	if (*error == NCCL_OK && c->under_way < c->calls)
	{
		c->under_way = c->calls;
		*error = NCCL_UNDER_WAY;
	}
	return NCCL_OK;
}

static void
drop(NcclComm c)
{
	if (!c->aborted || c->waiting > 0)
		return;
	munmap(c->shared, c->mapped);
	free(c);
}

API int
ncclCommAbort(NcclComm c)
{
	c->aborted = true;
	drop(c);
	return NCCL_OK;
}

/* ---- calls ---- */

static uint8_t *
slot(NcclComm c, int from, int to)
{
	return (uint8_t *) (c->shared + 1) + ((size_t) from * (size_t) c->size + (size_t) to) * SLOT;
}

static bool
all_at(const NcclComm c, const std::atomic<uint64_t> *of, uint64_t least)
{
	bool		ok = true;

	for (int r = 0; r < c->size; r++)
		ok = ok && of[r] >= least;
	return ok;
}

static void
add_up(NcclComm c, float *to, size_t n)
{
	/* not the order of ranks: a caller that needs their order must add itself */
	for (size_t i = 0; i < n; i++)
	{
		float		sum = ((const float *) slot(c, c->size - 1, c->size - 1))[i];

		for (int r = c->size - 2; r >= 0; r--)
			sum += ((const float *) slot(c, r, r))[i];
		to[i] = sum;
	}
}

/* Returns 1 when it is done. */
static int
collective(Call *l)
{
	NcclComm	c = l->c;
	Shared	   *s = c->shared;

	if (!l->wrote)
	{
		if (!all_at(c, s->read, c->done))
			return 0;
		memcpy(slot(c, c->rank, c->rank), l->from, l->said.kind == BROADCAST && l->said.root != c->rank ? 0 : l->said.bytes);
		s->said[c->rank] = l->said;
		s->wrote[c->rank] = c->done + 1;
		l->wrote = true;
	}
	if (!all_at(c, s->wrote, c->done + 1))
		return 0;
	for (int r = 0; r < c->size; r++)
	{
		if (memcmp(&s->said[r], &l->said, sizeof(Said)) != 0)
			c->error = INVALID_USAGE;
		else if (l->said.kind == GATHER)
			memcpy((uint8_t *) l->to + (size_t) r * l->said.bytes, slot(c, r, r), l->said.bytes);
		else if (l->said.kind == BROADCAST && r == l->said.root)
			memcpy(l->to, slot(c, r, r), l->said.bytes);
	}
	if (l->said.kind == SUM)
		add_up(c, (float *) l->to, l->said.bytes / sizeof(float));
	s->read[c->rank] = ++c->done;
	return 1;
}

static int
pair(Call *l)
{
	NcclComm	c = l->c;
	bool		sends = l->said.kind == SEND;
	int			from = sends ? c->rank : l->peer;
	int			to = sends ? l->peer : c->rank;
	std::atomic<uint64_t> *sent = &c->shared->sent[from][to];
	std::atomic<uint64_t> *taken = &c->shared->taken[from][to];

	/* one at a time */
	if ((*sent == *taken) != sends)
		return 0;
	if (sends)
		memcpy(slot(c, from, to), l->from, l->said.bytes);
	else
		memcpy(l->to, slot(c, from, to), l->said.bytes);
	++*(sends ? sent : taken);
	return 1;
}

static int
go(void *arg)
{
	Call	   *l = (Call *) arg;
	NcclComm	c = l->c;

	if (!c->aborted && !(l->said.kind >= SEND ? pair(l) : collective(l)))
		return 0;
	c->waiting--;
	drop(c);
	free(l);
	return 1;
}

static int
ask(NcclComm c, cudaStream_t stream, Said said, int peer, const void *from, void *to)
{
	Call	   *l;

	if (c->under_way < c->calls || said.bytes > SLOT)
		return INVALID_USAGE;
	if (fault("call", c->rank, c->calls++))
		c->error = REMOTE_ERROR;
	l = (Call *) calloc(1, sizeof(*l));
	*l = Call{c, said, peer, from, to, false};
	c->waiting++;
	emulation()(stream, go, l);
	return NCCL_UNDER_WAY;
}

static size_t
size_of(size_t n, int type)
{
	return type == NCCL_FLOATS ? n * sizeof(float) : n;
}

API int
ncclAllGather(const void *from, void *to, size_t n, int type, NcclComm c, cudaStream_t stream)
{
	return ask(c, stream, Said{GATHER, 0, size_of(n, type)}, 0, from, to);
}

API int
ncclAllReduce(const void *from, void *to, size_t n, int type, int op, NcclComm c, cudaStream_t stream)
{
	return op != NCCL_SUM || type != NCCL_FLOATS ? INVALID_ARGUMENT : ask(c, stream, Said{SUM, 0, size_of(n, type)}, 0, from, to);
}

API int
ncclBroadcast(const void *from, void *to, size_t n, int type, int root, NcclComm c, cudaStream_t stream)
{
	return ask(c, stream, Said{BROADCAST, root, size_of(n, type)}, 0, from, to);
}

API int
ncclSend(const void *from, size_t n, int type, int to, NcclComm c, cudaStream_t stream)
{
	return ask(c, stream, Said{SEND, 0, size_of(n, type)}, to, from, NULL);
}

API int
ncclRecv(void *to, size_t n, int type, int from, NcclComm c, cudaStream_t stream)
{
	return ask(c, stream, Said{RECV, 0, size_of(n, type)}, from, NULL, to);
}
