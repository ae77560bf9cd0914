/*
 * fuzz_kvtier.c
 *	  A file of the offload tier: edits of a valid one.  It is refused, or its bytes are the valid one's,
 *	  since no edit here makes the checksum right.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "core/offload/tier_file.h"

#define BYTES 1000
#define HEX (2 * KVFILE_KEY)

static char dir[] = "/tmp/vllm_fuzz_kvtier_XXXXXX";
static const unsigned char id[KVFILE_KEY] = {1, 2, 3};
static const unsigned char key[KVFILE_KEY] = {4, 5, 6};
static unsigned char block[BYTES];
static char folder[128];
static char path[256];
static int	model = -1;

static void
clean_up(void)
{
	unlink(path);
	rmdir(folder);
	rmdir(dir);
}

static void
set_up(void)
{
	Err			e;
	int			top;

	for (int i = 0; i < BYTES; i++)
		block[i] = (unsigned char) (i * 7);
	if (mkdtemp(dir) == NULL || (top = kvfile_open_dir(dir, &e)) < 0 ||
		kvfile_open_model(top, id, BYTES, true, &model) != 0 ||
		kvfile_write(model, id, key, block, BYTES) != 0)
		exit(2);
	close(top);
	snprintf(folder, sizeof(folder), "%s/010203%0*d-%d", dir, HEX - 6, 0, BYTES);
	snprintf(path, sizeof(path), "%s/040506%0*d", folder, HEX - 6, 0);
	atexit(clean_up);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char got[BYTES];
	int			why;

	if (model < 0)
		set_up();
	fuzz_write(path, data, size);
	if (chmod(path, 0600) != 0)
		exit(2);
	why = kvfile_read(model, id, key, got, BYTES);
	if (why == 0 && memcmp(got, block, BYTES) != 0)
		abort();
	return 0;
}

size_t
fuzz_count(void)
{
	return 1;
}

void
fuzz_seed(size_t i, Buf *b)
{
	(void) i;
	if (model < 0)
		set_up();
	if (kvfile_write(model, id, key, block, BYTES) != 0)
		exit(2);
	*b = fuzz_read(path);
}

void
fuzz_change(Buf *b, unsigned *seed)
{
	fuzz_bytes(b, 256, seed);
}

FUZZ_MAIN("fuzz_kvtier", 20000)
