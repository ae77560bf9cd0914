/*
 * devices.c
 *	  Devices other than the CPUs.
 *
 * The process opens the device library at most once and never closes it, because its threads and the
 * driver's keep running.  While there is no library, or a broken one, each lookup tries again, so that
 * an administrator can install it while the engine runs.  The loader's message about a library contains
 * file names, so it goes to the log and not into the error of a call.
 *
 * Tested by tests/unit/runtime/test_devices.c and tests/t/101_device.pl with libraries that report given
 * devices (tests/plugins/devices.c).
 */
#include "runtime/devices.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/alloc.h"
#include "hostdev.h"
#include "pool.h"
#include "ipc/control_protocol.h"
#include "ipc/wire.h"

typedef enum DevicesFound
{
	NOT_LOOKED, MISSING, BROKEN, OTHER_ABI, FOUND
} DevicesFound;

typedef const KDeviceOps *(*OpsFn) (uint32_t abi);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static DevicesFound found;
static const KDeviceOps *ops;	/* valid if FOUND */
static KDevInfo infos[WIRE_MAX_DEVICES];
/* written once, after all the other data, so that readers never wait for the driver */
static atomic_int n_devices;
static char no_device[128];		/* FOUND, but the library has no device: why */

/* Parse "cuda:N", which must end there or at a comma; -1 if it is something else. */
static int
cuda_number(const char *s, const char **end)
{
	int			n = strncmp(s, "cuda:", 5) == 0 ? (int) strspn(s + 5, "0123456789") : 0;

	*end = s + 5 + n;
	return n < 1 || n > 3 || (**end != '\0' && **end != ',') ? -1 : atoi(s + 5);
}

bool
devices_parse(const char *name, int rank, int *ordinal, int *listed)
{
	const char *at = name;
	const char *end;
	int			n;

	*listed = 0;
	*ordinal = -2;
	if (strcmp(name, "auto") == 0 || strcmp(name, "cpu") == 0 || kdevice_of_cpus(name) != NULL)
		return true;
	*ordinal = -1;
	if (strcmp(name, "cuda") == 0)
		return true;
	while ((n = cuda_number(at, &end)) >= 0)
	{
		if ((*listed)++ == rank)
			*ordinal = n;
		if (*end == '\0')
			return true;
		at = end + 1;
	}
	return false;
}

bool
devices_variant(const char *name, KVariant *out)
{
	*out = strcmp(name, "wgmma") == 0 ? KVARIANT_WGMMA : strcmp(name, "mma") == 0 ? KVARIANT_MMA :
		KVARIANT_AUTO;
	return *out != KVARIANT_AUTO || strcmp(name, "auto") == 0;
}

/* Return the library's path in the directory of the engine's program. */
static void
default_path(char *buf, size_t size)
{
	char		exe[PATH_MAX];
	ssize_t		n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char	   *slash;

	exe[n > 0 ? n : 0] = '\0';
	slash = strrchr(exe, '/');
	snprintf(buf, size, "%.*s%s", slash != NULL ? (int) (slash - exe) + 1 : 0, exe, DEVICES_LIBRARY);
}

static DevicesFound
open_library(const char *path)
{
	void	   *lib;
	OpsFn		get;

	if (access(path, F_OK) != 0)
		return MISSING;
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (lib == NULL)
	{
		log_line('W', "could not load %s: %s", path, dlerror());
		return BROKEN;
	}
	get = (OpsFn) dlsym(lib, "vllm_pg_device_ops");
	ops = get != NULL ? get(KDEVICE_ABI) : NULL;
	if (ops != NULL && ops->abi == KDEVICE_ABI)
		return FOUND;
	ops = NULL;
	log_line('W', get == NULL ? "%s is not a device library" : "%s is of another version than this engine",
			 path);
	dlclose(lib);
	return get == NULL ? BROKEN : OTHER_ABI;
}

/*
 * A device that is open for a model.  They are in a list, so that the engine can report how much of a
 * device's memory models have.
 */
typedef struct Opened
{
	Dev			dev;
	int			ordinal;		/* -1: the CPUs, acting as a device */
	DevLife		life;
	struct Opened *next;
} Opened;

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static Opened *opened;

static void
info_of(int i, KDevInfo *out)
{
	memset(out, 0, sizeof(*out));
	if (!ops->info(i, out))
	{
		out->usable = false;
		snprintf(out->why, sizeof(out->why), "the driver gives no reason");
	}
	out->ordinal = i;
}

static void
log_devices(int n)
{
	for (int i = 0; i < n; i++)
	{
		const KDevInfo *d = &infos[i];

		info_of(i, &infos[i]);
		log_line('I', "device cuda:%d: %s, compute capability %d.%d, %llu MB%s%s", i, d->name, d->cc / 10,
				 d->cc % 10, (unsigned long long) (d->total >> 20), d->usable ? "" : ", can't be used: ",
				 d->usable ? "" : d->why);
	}
}

/*
 * Look for the library at vllm.device_library or beside the engine, unless it has been found before, and
 * log the result and the devices.
 */
static void
devices_find(const char *library)
{
	char		path[PATH_MAX + sizeof(DEVICES_LIBRARY)];
	int			n;

	pthread_mutex_lock(&lock);
	if (found != FOUND)
	{
		snprintf(path, sizeof(path), "%s", library);
		if (library[0] == '\0')
			default_path(path, sizeof(path));
		found = open_library(path);
		if (found == FOUND)
		{
			n = ops->count(no_device, sizeof(no_device));
			n = n < 0 ? 0 : n > WIRE_MAX_DEVICES ? WIRE_MAX_DEVICES : n;
			log_devices(n);
			atomic_store(&n_devices, n);
		}
	}
	pthread_mutex_unlock(&lock);
}

int
devices_n(void)
{
	return atomic_load(&n_devices);
}

void
devices_info(int i, KDevInfo *out)
{
	ALWAYS(i >= 0 && i < WIRE_MAX_DEVICES);
	*out = infos[i];
}

bool
devices_memory(int i, uint64_t *free_bytes, uint64_t *held)
{
	unsigned long long latest = 0;

	*free_bytes = *held = 0;
	pthread_mutex_lock(&list_lock);
	for (Opened *o = opened; o != NULL; o = o->next)
	{
		unsigned long long sequence = atomic_load(&o->life.sequence);

		if (o->ordinal != i)
			continue;
		*held += atomic_load(&o->life.held);
		if (sequence <= latest)
			continue;
		latest = sequence;
		*free_bytes = atomic_load(&o->life.free);
	}
	pthread_mutex_unlock(&list_lock);
	return latest > 0;
}

/* Add the list "cpu, cuda:0 (NVIDIA H200), ..." to the error's detail. */
static bool
list_devices(int n, Err *e)
{
	char		text[sizeof(e->detail) - 32] = "cpu";
	size_t		at = 3;
	KDevInfo	d;

	for (int i = 0; i < n && at < sizeof(text); i++)
	{
		devices_info(i, &d);
		at += (size_t) snprintf(text + at, sizeof(text) - at, ", cuda:%d (%s)", i, d.name);
	}
	return err_detail(e, "There are the devices %s.", text);
}

static const char *
state_of(DevicesFound how)
{
	return how == OTHER_ABI ? "is of another version than the engine" : how == BROKEN ? "can't be loaded" :
		"is not installed";
}

static bool
no_library(const char *want, DevicesFound how, Err *e)
{
	err_set(e, ERR_UNSUPPORTED, "device \"%s\" needs the library " DEVICES_LIBRARY ", which %s", want,
			state_of(how));
	if (how == BROKEN)
		err_detail(e, "See the server log.");
	return err_hint(e, "Build it with \"make cuda\" and install it beside the engine, or set vllm.device to "
					   "auto or cpu.");
}

/*
 * Return the rank-th usable device with its facts in *d, and set *found to the number of usable devices.
 * Returns -1 if there are too few; then *d has the facts of device 0, which say why it is not usable.
 */
static int
usable(int n, int rank, int *found, KDevInfo *d)
{
	int			which = -1;

	*found = 0;
	for (int i = 0; i < n; i++)
	{
		devices_info(i, d);
		if (d->usable && (*found)++ == rank)
			which = i;
	}
	devices_info(which >= 0 ? which : 0, d);
	return which;
}

/* Return true if the usable devices from `from` on, one per rank, are of the same kinds as the first ones. */
static bool
alike(int n, int from, int ranks)
{
	for (int r = 0; r < ranks; r++)
	{
		KDevInfo	a;
		KDevInfo	b;
		int			found;

		(void) usable(n, r, &found, &a);
		(void) usable(n, from + r, &found, &b);
		if (strcmp(a.name, b.name) != 0)
			return false;
	}
	return true;
}

/*
 * Return the usable device of a rank of a replica.  Each replica gets its own devices while there are
 * enough; then replicas share devices in turn.  A replica only gets devices of the same kinds as the
 * first replica's, because other kinds give other bits: either all its ranks have such devices, or the
 * replica shares.
 */
static int
of_replica(int n, int replica, int rank, int ranks, int *found, KDevInfo *d)
{
	int			first = usable(n, rank, found, d);
	int			groups = 0;
	int			from = 0;

	for (int at = 0; at + ranks <= *found; at += ranks)
		groups += alike(n, at, ranks);
	if (groups < 2)
		return first;
	for (int left = replica % groups; left > 0; left -= alike(n, from, ranks))
		from += ranks;
	return usable(n, from + rank, found, d);
}

/* Setting auto: choose the rank's usable device, else the CPUs with the reason in c->why. */
static bool
choose_any(DeviceChoice *c, DevicesFound how, int n, int replica, int rank, int ranks)
{
	KDevInfo	d;
	int			found;

	if (how != FOUND)
		snprintf(c->why, sizeof(c->why), "the library " DEVICES_LIBRARY " %s", state_of(how));
	else if (n == 0)
		snprintf(c->why, sizeof(c->why), "there is no CUDA device: %s", no_device);
	else
	{
		c->ordinal = of_replica(n, replica, rank, ranks, &found, &d);
		if (found >= ranks)
		{
			c->ops = ops;
			c->memory = d.total;
			c->if_it_can = true;
			snprintf(c->name, sizeof(c->name), "\"cuda:%d\" (%s)", c->ordinal, d.name);
		}
		else if (found > 0)
			snprintf(c->why, sizeof(c->why), "%d ranks need as many CUDA devices, and %d can be used", ranks,
					 found);
		else
			snprintf(c->why, sizeof(c->why), "device \"cuda:%d\" (%s) can't be used: %s", 0, d.name, d.why);
	}
	return true;
}

/*
 * Setting cuda: choose the rank's usable device.  Returns -1 with *e set if there are too few; if no
 * device is usable at all, returns one that is not, for the caller's error.
 */
static int
choose_cuda(int n, int replica, int rank, int ranks, KDevInfo *d, Err *e)
{
	int			found;
	int			which = of_replica(n, replica, rank, ranks, &found, d);

	if (found == 0 || found >= ranks)
		return which >= 0 ? which : 0;
	err_set(e, ERR_INVALID, "%d ranks need as many devices, and %d can be used", ranks, found);
	err_hint(e, "Use fewer ranks, or list the devices in vllm.device, which may repeat a device: "
				"'cuda:0,cuda:0'.");
	return -1;
}

bool
devices_choose(const Settings *s, int replica, int rank, int ranks, DeviceChoice *out, Err *e)
{
	bool		any = strcmp(s->device, "auto") == 0;
	int			ordinal;
	int			listed;
	int			n;
	DevicesFound how;
	KDevInfo	d;

	*out = (DeviceChoice) {.ops = NULL};
	if (!devices_parse(s->device, rank, &ordinal, &listed))
		return err_set(e, ERR_INVALID, "unknown device \"%.32s\"", s->device);
	if (listed >= (replica + 1) * ranks)
		(void) devices_parse(s->device, replica * ranks + rank, &ordinal, &listed);
	if (ordinal == -2 && !any)
	{
		out->ops = kdevice_of_cpus(s->device);
		snprintf(out->name, sizeof(out->name), "\"%.60s\"", s->device);
		return true;
	}
	devices_find(s->device_library);
	pthread_mutex_lock(&lock);
	how = found;
	pthread_mutex_unlock(&lock);
	n = devices_n();
	if (any)
		return choose_any(out, how, n, replica, rank, ranks);
	if (how != FOUND)
		return no_library(s->device, how, e);
	if (listed > 0 && listed < ranks)
		return err_set(e, ERR_INVALID, "%d ranks need as many devices, and vllm.device names %d", ranks,
					   listed);
	if (n == 0)
	{
		err_set(e, ERR_UNSUPPORTED, "device \"%s\" can't be used: there is no CUDA device: %s", s->device,
				no_device);
		return err_hint(e, "Check that the driver is loaded, and check vllm.cuda_visible_devices; or set "
						   "vllm.device to auto or cpu. A driver that is loaded later is found after "
						   "llm_engine_restart().");
	}
	if (ordinal >= n)
	{
		err_set(e, ERR_INVALID, "unknown device \"cuda:%d\"", ordinal);
		return list_devices(n, e);
	}
	if (ordinal >= 0)
		devices_info(ordinal, &d);
	else if ((ordinal = choose_cuda(n, replica, rank, ranks, &d, e)) < 0)
		return false;
	if (!d.usable)
		return err_set(e, ERR_UNSUPPORTED, "device \"cuda:%d\" (%s) can't be used: %s", ordinal, d.name,
					   d.why);
	out->ops = ops;
	out->ordinal = ordinal;
	out->memory = d.total;
	snprintf(out->name, sizeof(out->name), "\"cuda:%d\" (%s)", ordinal, d.name);
	return true;
}

/* ---- an open device ---- */

static void
log_text(char level, const char *text)
{
	log_line(level, "%s", text);
}

/* Return the op table of a device and set *type to the operands' type; NULL if the device has none. */
static const Kernels *
kernels_for(const KDeviceOps *of, KDevice *d, KType weights, KType *type)
{
	static const KType types[] = {KT_BF16, KT_F16, KT_F32};
	const Kernels *k;

	*type = weights == KT_F32 || weights == KT_F16 ? weights : KT_BF16;
	if ((k = of->kernels(d, *type)) != NULL)
		return k;
	for (size_t i = *type == KT_F16 ? 2 : 1; i < sizeof(types) / sizeof(types[0]) && *type != KT_F32; i++)
	{
		*type = types[i];
		if ((k = of->kernels(d, *type)) != NULL)
			return k;
	}
	return NULL;
}

/* Close the device: the last reference to it is gone. */
static void
end(const Dev *dev)
{
	Opened	  **at = &opened;
	Opened	   *n;

	ALWAYS(atomic_load(&dev->life->refs) == 0);
	pthread_mutex_lock(&list_lock);
	while (&(*at)->dev != dev)
		at = &(*at)->next;
	n = *at;
	*at = n->next;
	pthread_mutex_unlock(&list_lock);
	dev->ops->close(dev->d);
	mem_free(n);
}

bool
devices_open(const DeviceChoice *c, const KDevOpen *o, KType weights, Dev **out, Err *e)
{
	static const KHost host = {.abi = KDEVICE_ABI, .log = log_text, .pool_device = kpool_device,
							   .pool_threads = kpool_nthreads};
	char		why[256] = "";
	KType		type = KT_F32;
	Opened	   *n;

	*out = NULL;
	if (c->ops == NULL)
		return true;
	n = mem_zalloc(sizeof(*n));
	n->ordinal = c->memory > 0 ? c->ordinal : -1;
	n->dev = (Dev) {.ops = c->ops, .memory = c->memory, .life = &n->life};
	n->life.refs = 1;
	n->life.end = end;
	n->dev.d = c->ops->open(c->ordinal, &host, o, why, sizeof(why));
	if (n->dev.d == NULL)
	{
		mem_free(n);
		err_set(e, ERR_UNSUPPORTED, "could not open device %s: %s", c->name, why);
		return o->variant != KVARIANT_AUTO ? err_hint(e, "Or set vllm.cuda_kernels to auto.") : false;
	}
	pthread_mutex_lock(&list_lock);
	n->next = opened;
	opened = n;
	pthread_mutex_unlock(&list_lock);
	n->dev.k = kernels_for(c->ops, n->dev.d, weights, &type);
	if (n->dev.k == NULL)
	{
		devices_close(&n->dev);
		return err_set(e, ERR_UNSUPPORTED, "device %s has no ops for operands of %s", c->name,
					   ktype_name(weights));
	}
	log_line('I', "the model is computed on device %s, with operands of %s%s", c->name, ktype_name(type),
			 o->variant == KVARIANT_WGMMA ? " and kernels of wgmma" : "");
	*out = &n->dev;
	return true;
}

void
devices_close(Dev *dev)
{
	if (dev != NULL)
		dev_unref(dev);
}

const Kernels *
devices_sizes(const DeviceChoice *c, const Kernels *cpus)
{
	const Kernels *k = c->memory > 0 ? c->ops->kernels(NULL, KT_BF16) : NULL;

	return k != NULL ? k : cpus;
}

/*
 * Hash the mapped parts of the library that nobody writes to: its code, the devices' code, and
 * constants.  The file itself may have been replaced since.
 */
static int
add_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	bool		ours = false;

	(void) size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		ours = ours || (info->dlpi_phdr[i].p_type == PT_LOAD && (uintptr_t) ops - info->dlpi_addr -
						info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz);
	for (int i = 0; ours && i < info->dlpi_phnum; i++)
	{
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_R) != 0 && (p->p_flags & PF_W) == 0)
			blake2_add(arg, (const void *) (info->dlpi_addr + p->p_vaddr), p->p_filesz);
	}
	return ours;
}

void
devices_hash(const DeviceChoice *c, const KDevOpen *o, Blake2 *b)
{
	static unsigned char sum[BLAKE2_BYTES];
	static bool known;
	KDevInfo	d;
	int32_t		how[4];

	if (c->memory == 0)
		return;
	pthread_mutex_lock(&lock);
	if (!known)
	{
		Blake2		lib;

		blake2_begin(&lib, NULL, 0);
		dl_iterate_phdr(add_library, &lib);
		blake2_end(&lib, sum);
		known = true;
	}
	pthread_mutex_unlock(&lock);
	devices_info(c->ordinal, &d);
	how[0] = d.cc;
	how[1] = (int32_t) o->variant;
	how[2] = o->invariant;
	how[3] = o->fp8_x;
	blake2_add(b, sum, sizeof(sum));
	blake2_add(b, d.name, strlen(d.name) + 1);
	blake2_add(b, d.driver, strlen(d.driver) + 1);
	blake2_add(b, how, sizeof(how));
}

void
devices_log_why(const DeviceChoice *c)
{
	static char logged[sizeof(c->why)];

	pthread_mutex_lock(&lock);
	if (strcmp(logged, c->why) != 0)
	{
		snprintf(logged, sizeof(logged), "%s", c->why);
		if (logged[0] != '\0')
			log_line('I', "the model is computed on the CPUs: %s", logged);
	}
	pthread_mutex_unlock(&lock);
}

void
devices_lost(const char *why)
{
	log_line('P', "%s", why);
	_exit(ENGINE_EXIT_FATAL);
}
