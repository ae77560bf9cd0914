/*
 * file_harness.h
 *	  A fuzz target of model files: an input is the number of a fixture and edits of it (fuzz_model.h).
 *
 * The includer defines the fixtures, `patterns`, and fuzz_file(), which processes one; FUZZ_MAIN() gives
 * its name and its rounds.
 */
#ifndef VLLM_TESTS_FUZZ_FILE_HARNESS_H
#define VLLM_TESTS_FUZZ_FILE_HARNESS_H

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const glob_t *g = fuzz_files(patterns);

	fuzz_file(g->gl_pathv[fuzz_fixture(data, size) % g->gl_pathc], data, size);
	return 0;
}

size_t
fuzz_count(void)
{
	return fuzz_files(patterns)->gl_pathc;
}

void
fuzz_seed(size_t i, Buf *b)
{
	fuzz_edit_seed(i, b);
}

void
fuzz_change(Buf *b, unsigned *seed)
{
	fuzz_edit_change(b, seed);
}

#endif
