# vllm_pg: build, install, demo, tests.
#
#	make demo			build, start a private cluster under demo/, run the first query
#	make check			build and run what is needed before a commit; make check-full, check-nightly more
#	make install		into the PostgreSQL that PG_CONFIG names
#	make release		what that installs, without installing it: RELEASE=1, under build/release
#	make deb			Debian packages of it, under build/deb (scripts/deb.sh)
#
#	make check-gpu		what needs a GPU (scripts/check_gpu.sh)
#	make cuda			build vllm_pg_cuda.so, where there is nvcc (kernels/cuda/module.mk)
#
# Artefacts: vllm_pg.so (PGXS, src/pg/module.mk), vllm_pg_engine (plain C11, here) and, when
# libpq and GnuTLS are there, vllm_pg_http; when libcurl is there, vllm_pg_remote.  Objects live under build/; SAN=address,undefined or SAN=thread makes
# a sanitized build beside the plain one; FUZZ=1 CC=clang makes libFuzzer targets (scripts/fuzz.sh); COV=1 counts lines
# (scripts/coverage.py).

PG_CONFIG ?= $(firstword $(wildcard /usr/lib/postgresql/15/bin/pg_config) pg_config)
CC ?= gcc
SAN ?=
FUZZ ?=
BARE ?=
COV ?=
# 1: what is installed, without ASSERTs (src/base/assert.h); all other builds have them
RELEASE ?= $(if $(SAN)$(FUZZ)$(BARE)$(COV),,$(if $(filter install release,$(MAKECMDGOALS)),1))
BUILD ?= build/$(if $(FUZZ),fuzz,$(if $(SAN),san-$(subst $(comma),-,$(SAN)),$(if $(BARE),bare,$(if $(COV),cov,$(if $(RELEASE),release,engine)))))
comma := ,

# The one place of the version is the extension's control file; scripts/version.py checks what can't read it from there.
EXTVERSION := $(shell sed -n "s/^default_version = '\(.*\)'$$/\1/p" vllm_pg.control)

include scripts/harden.mk
HARDEN = $(if $(SAN)$(FUZZ)$(COV),,yes)

# WIRE_CHECKED=1: messages between backends and programs have checksums (src/ipc/wire.h); in sanitizers' builds they always have
WIRE_CHECKED ?= $(if $(SAN),1)
CPPFLAGS_ENGINE = -D_GNU_SOURCE -I. -Isrc -Ikernels $(if $(WIRE_CHECKED),-DWIRE_CHECKED=$(WIRE_CHECKED)) \
	-DVLLM_ASSERT=$(if $(RELEASE),0,1)
# what a debugger gets of the build; the suite takes -g1, lines without variables, which compiles a quarter faster
DEBUG_INFO ?= -g
# sanitizers' reports need lines, no variables: with both it takes twice the time to compile; at -O1 gcc warns of
# uninitialized values that are none
CFLAGS_ENGINE = -std=c11 $(if $(SAN),-O1 -g1 -Wno-maybe-uninitialized,$(if $(FUZZ),-O1 -g1,$(if $(COV),-O1 -g1 -Wno-maybe-uninitialized -Wno-format-truncation --coverage,-O2 $(DEBUG_INFO)))) -pthread -Wall -Wextra -Werror -ffp-contract=off -fno-math-errno \
	$(if $(HARDEN),-fPIE $(HARDEN_CFLAGS)) \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
# of the programs
LDFLAGS_ENGINE = $(if $(HARDEN),-pie $(HARDEN_LDFLAGS))
FUZZ_SAN = address,undefined,float-cast-overflow
ifneq ($(FUZZ),)
# a pointer that is null plus zero is harmless, and clang finds it in every empty buffer
CFLAGS_ENGINE += -DFUZZ_LIBFUZZER -fsanitize=fuzzer-no-link,$(FUZZ_SAN) -fno-sanitize=pointer-overflow \
	-fno-sanitize-recover=all -fno-omit-frame-pointer
endif
# The kernels' templates are a lot of code to compile.  Sanitizers make it several times
# more, so their builds optimize less; debuggers get no values of locals that registers hold.
KERNEL_DEBUG = $(if $(findstring clang,$(CC)),,-fno-var-tracking-assignments)
KERNEL_OPT = $(if $(SAN)$(FUZZ),-O1,-O3) $(KERNEL_DEBUG)
LDLIBS_ENGINE = -lutf8proc -lpcre2-8 -lm -lpthread -ldl

# BARE=1: what stands in for libraries that aren't there, for the programs of check-gpu alone (tests/bare)
BARE_OBJ = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/bare/*.c))
BARE_LIBS = -lm -lpthread -ldl
$(BARE_OBJ): CPPFLAGS_ENGINE += -Itests/bare
ifneq ($(BARE),)
CPPFLAGS_ENGINE += -Itests/bare
LDLIBS_ENGINE = $(BARE_OBJ) $(BARE_LIBS)
endif

# every .c below these folders
sources = $(sort $(shell find $(1) -name '*.c'))
ENGINE_SRC := $(call sources,$(addprefix src/,base ipc ipc_server quant text tokenizer template grammar parsers loader \
	model runtime core backend server))
KERNEL_SRC = $(wildcard kernels/*.c kernels/ref/*.c kernels/cpu/*.c)
# files of the HTTP server that need no library: for its unit tests
HTTP_PURE = $(patsubst %,src/httpd/%.c,http_error httpd_settings httpd_syscalls router) \
	$(patsubst %,src/httpd/conn/%.c,body_memory client_shares key_guard request_head)
# of the remote program everything but what talks to libcurl: for its unit tests
REMOTE_PURE := $(filter-out src/remote/main.c src/remote/http/%,$(call sources,src/remote))
LIB_OBJ = $(patsubst %.c,$(BUILD)/%.o,$(filter-out src/server/main.c,$(ENGINE_SRC)) $(KERNEL_SRC) $(HTTP_PURE) $(REMOTE_PURE))
ENGINE = $(BUILD)/vllm_pg_engine
LIB = $(BUILD)/libengine.a

all: engine http remote module

release: all

engine: $(ENGINE)

# ---- the HTTP server, if its libraries are installed ----

PQ_CONFIG = $(or $(shell command -v pg_config),$(PG_CONFIG))
HTTP_CPPFLAGS = -I$(shell $(PQ_CONFIG) --includedir)
HTTP_LIBS = -L$(shell $(PQ_CONFIG) --libdir) -lpq -lgnutls -lpthread
HAVE_HTTP := $(shell printf '\043include <libpq-fe.h>\n\043include <gnutls/crypto.h>\n' | \
	$(CC) $(HTTP_CPPFLAGS) -E - >/dev/null 2>&1 && echo yes)
HTTP_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(call sources,src/httpd) \
	$(patsubst %,src/base/%.c,alloc buf err json/json_reader json/json_scan json/json_writer log sandbox/landlock sandbox/seccomp) \
	$(patsubst %,src/ipc/%.c,beam_fields traceparent))
HTTP = $(if $(HAVE_HTTP),$(BUILD)/vllm_pg_http)

http: $(HTTP)

$(BUILD)/vllm_pg_http: $(HTTP_OBJ)
	$(CC) $(CFLAGS_ENGINE) $(LDFLAGS_ENGINE) -o $@ $^ $(HTTP_LIBS)

$(BUILD)/src/httpd/%.o: CPPFLAGS_ENGINE += $(HTTP_CPPFLAGS)
-include $(HTTP_OBJ:.o=.d)

# ---- the remote program, which asks endpoints, where libcurl is ----

HAVE_CURL := $(shell printf '\043include <curl/curl.h>\n' | $(CC) -E - >/dev/null 2>&1 && echo yes)
REMOTE_OBJ = $(patsubst %.c,$(BUILD)/%.o,src/remote/main.c $(wildcard src/remote/http/*.c))
REMOTE = $(if $(HAVE_CURL),$(BUILD)/vllm_pg_remote)

remote: $(REMOTE)

$(BUILD)/vllm_pg_remote: $(REMOTE_OBJ) $(LIB)
	$(CC) $(CFLAGS_ENGINE) $(LDFLAGS_ENGINE) -o $@ $^ -lcurl $(LDLIBS_ENGINE)

-include $(REMOTE_OBJ:.o=.d)

$(ENGINE): $(BUILD)/src/server/main.o $(LIB)
	$(CC) $(CFLAGS_ENGINE) $(LDFLAGS_ENGINE) -o $@ $^ $(LDLIBS_ENGINE)

$(LIB): $(LIB_OBJ)
	rm -f $@ && ar rcs $@ $^

# Kernels that other builds take from the plain one, as each of these files takes up to a minute to compile.  A release
# takes all: they hold no ASSERT, so the objects are the same.  Fuzz targets run the reference implementation, and
# sanitizers watch that and the portable one; with FULL=1 whatever this machine's CPU can run.  All kernels run between
# guard pages in tests/unit/kernels/test_moat.c.
CPU_FLAGS := $(if $(SAN),$(shell grep -m 1 ^flags /proc/cpuinfo))
LINKED_KERNELS = $(if $(FUZZ)$(RELEASE),$(basename $(notdir $(wildcard kernels/cpu/*.c)))) \
	$(if $(SAN),$(if $(and $(FULL),$(filter avx512f,$(CPU_FLAGS))),,avx512 avx512_vnni avx512_bf16) \
	$(if $(and $(FULL),$(filter avx_vnni,$(CPU_FLAGS))),,avx2_vnni) $(if $(and $(FULL),$(filter avx2,$(CPU_FLAGS))),,avx2))

ifneq ($(strip $(LINKED_KERNELS)),)
PLAIN_KERNELS = $(patsubst %,build/engine/kernels/cpu/%.o,$(LINKED_KERNELS))
PLAIN_CC = $(if $(shell command -v gcc),$(subst clang,gcc,$(CC)),$(CC))

$(patsubst %,$(BUILD)/kernels/cpu/%.o,$(LINKED_KERNELS)): $(BUILD)/kernels/cpu/%.o: build/engine/kernels/cpu/%.o
	@mkdir -p $(@D)
	cp $< $@

# its own dependencies say whether one is out of date; one that isn't keeps its time
$(PLAIN_KERNELS): plain-kernels
	@:

plain-kernels:
	@$(MAKE) --no-print-directory SAN= FUZZ= COV= BARE= FULL= RELEASE= BUILD=build/engine CC="$(PLAIN_CC)" $(PLAIN_KERNELS)

.PHONY: plain-kernels
endif

$(BUILD)/kernels/%.o: kernels/%.c scripts/harden.mk
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ENGINE) $(CFLAGS_ENGINE) $(KERNEL_OPT) $(if $(COV),-fno-profile-arcs -fno-test-coverage) -MMD -MP -c -o $@ $<

# arithmetic over whole models, which the compiler shall inline and vectorize
$(BUILD)/src/quant/%.o: CFLAGS_ENGINE += $(KERNEL_OPT)

$(BUILD)/%.o: %.c scripts/harden.mk
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ENGINE) $(CFLAGS_ENGINE) -MMD -MP -c -o $@ $<

-include $(LIB_OBJ:.o=.d) $(BUILD)/src/server/main.d

# the files that tell the version
$(BUILD)/src/server/main.o $(BUILD)/src/remote/main.o: CPPFLAGS_ENGINE += -DVLLM_PG_VERSION='"$(EXTVERSION)"'
$(BUILD)/src/server/main.o $(BUILD)/src/remote/main.o: vllm_pg.control

# ---- the PostgreSQL module, one build folder a major version ----

PG_MAJOR = $(shell $(PG_CONFIG) --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
MODULE_DIR = build/$(if $(RELEASE),release/)pg$(PG_MAJOR)$(if $(SAN),-san-$(subst $(comma),-,$(SAN)))

module:
	@mkdir -p $(MODULE_DIR)
	$(MAKE) --no-print-directory -C $(MODULE_DIR) -f $(CURDIR)/src/pg/module.mk \
		PG_CONFIG=$(PG_CONFIG) TOP=$(CURDIR) EXTVERSION=$(EXTVERSION) SAN=$(SAN) RELEASE=$(RELEASE) WIRE_CHECKED=$(WIRE_CHECKED) with_llvm=no

install: all
	PG_CONFIG=$(PG_CONFIG) MODULE=$(MODULE_DIR)/vllm_pg.so ENGINE=$(ENGINE) HTTP=$(HTTP) REMOTE=$(REMOTE) CUDA=$(wildcard vllm_pg_cuda.so) \
		DESTDIR=$(DESTDIR) scripts/install.sh

# for PG_CONFIG's server
deb:
	@PG_CONFIG=$(PG_CONFIG) scripts/deb.sh

# lint, install, upgrade and remove them in a root of their own; as root
check-deb:
	@PG_CONFIG=$(PG_CONFIG) tests/deb.sh

# ---- a newcomer's two commands ----

demo:
	@scripts/deps.sh build
	@scripts/demo.sh start

demo-stop:
	@scripts/demo.sh stop

# three tiers (scripts/check.sh): before a commit; before a merge, what CI runs; everything, for hours
check:
	@scripts/deps.sh check
	@scripts/check.sh check

check-full:
	@scripts/deps.sh check
	@scripts/check.sh full

check-nightly:
	@scripts/deps.sh check
	@scripts/check.sh nightly

check-pg16 check-pg18:
	@scripts/deps.sh check
	@scripts/check.sh $(patsubst check-%,%,$@)

# what needs a GPU
check-gpu:
	@scripts/check_gpu.sh

# parts of check
check-unit check-kernels check-emu check-cuda check-golden check-san check-regress check-tap lint:
	@scripts/check.sh $(patsubst check-%,%,$@)

# ---- the suite's C programs ----

TEST_SRC = $(filter-out $(if $(HAVE_CURL),,tests/unit/remote/http/test_remote_http.c),$(wildcard tests/unit/*/test_*.c tests/unit/*/*/test_*.c tests/golden/*.c))
FUZZ_SRC = $(wildcard tests/fuzz/fuzz_*.c)
TEST_BIN = $(patsubst %.c,$(BUILD)/%,$(TEST_SRC))
FUZZ_BIN = $(patsubst %.c,$(BUILD)/%,$(FUZZ_SRC))
BENCH_BIN = $(patsubst %.c,$(BUILD)/%,$(wildcard bench/*.c))
# most of their time is spent in the library: to compile them with less optimization takes half as long
TEST_OPT = $(if $(FUZZ)$(COV),,$(if $(SAN),-O0,-O1) -Wno-maybe-uninitialized -Wno-format-truncation)

$(TEST_BIN) $(FUZZ_BIN) $(BENCH_BIN): $(BUILD)/%: %.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ENGINE) $(CFLAGS_ENGINE) $(if $(filter tests/%,$<),$(TEST_OPT)) -MMD -MP -o $@ $< $(LIB) $(LDLIBS_ENGINE) \
		$(if $(FUZZ),-fsanitize=fuzzer)

# Tests of the core once more, whose cores have a device (tests/unit/on_device.h).
DEVICE_TEST_BIN = $(patsubst %,$(BUILD)/tests/unit/core/%_device,test_core test_embeds kv/test_windows kv/test_kvscales \
	multi/test_answers multi/test_beam multi/test_pooled multi/test_pooled_model offload/test_offload sample/test_constraint \
	spec/test_spec spec/test_spec_draft)
TEST_BIN += $(DEVICE_TEST_BIN)

$(DEVICE_TEST_BIN): $(BUILD)/tests/unit/%_device: tests/unit/%.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ENGINE) $(CFLAGS_ENGINE) $(TEST_OPT) -include tests/unit/on_device.h -MMD -MP -o $@ $< $(LIB) $(LDLIBS_ENGINE)

# what talks to libcurl is in no library
REMOTE_HTTP_OBJ = $(filter-out %/main.o,$(REMOTE_OBJ))
$(BUILD)/tests/unit/remote/http/test_remote_http: LDLIBS_ENGINE := $(REMOTE_HTTP_OBJ) $(LIB) -lcurl $(LDLIBS_ENGINE)
$(BUILD)/tests/unit/remote/http/test_remote_http: $(REMOTE_HTTP_OBJ)

# texts of the extension's, without a server
$(BUILD)/tests/unit/pg/catalog/test_secret_mask: CPPFLAGS_ENGINE += -Itests/unit/pg/pgshim
$(BUILD)/tests/unit/pg/catalog/test_secret_mask: src/pg/catalog/secret_mask.c src/pg/catalog/secret_name.c

# whose ranks are short of memory at times
$(BUILD)/tests/unit/core/ranks/test_ranks: LDLIBS_ENGINE += -Wl,--wrap=mem_try_aligned,--wrap=sysmem_available

# Example logits processors: a library that knows no header of ours but the public one.
PROCESSORS = $(BUILD)/tests/plugins/processors.so
processors: $(PROCESSORS)

$(PROCESSORS): tests/plugins/processors.c src/core/sample/vllm_logits_processor.h
	@mkdir -p $(@D)
	$(CC) -std=c99 -pedantic -O1 -g -Wall -Wextra -Werror -fPIC -shared -Isrc/core/sample -o $@ $< -lm

# Libraries of devices that aren't there.
DEVICE_LIBS = $(patsubst %,$(BUILD)/tests/plugins/%.so,devices devices_other)
device-libs: $(DEVICE_LIBS)

$(DEVICE_LIBS): tests/plugins/devices.c kernels/device.h kernels/kernels.h
	@mkdir -p $(@D)
	$(CC) -std=c11 -O1 -g -Wall -Wextra -Werror -fPIC -shared -Ikernels $(if $(findstring other,$@),-DOTHER_ABI) -o $@ $<

$(BUILD)/tests/unit/remote/test_remote_program: | $(REMOTE)
$(BUILD)/tests/unit/runtime/test_devices: | $(DEVICE_LIBS)
$(addprefix $(BUILD)/tests/unit/core/,sample/test_plugins spec/test_spec spec/test_spec_device sample/test_sample_core): | $(PROCESSORS)

# The models that tests read, out of their archives.
FIXTURES = $(patsubst tests/%.tar.xz,build/%.done,$(wildcard tests/fixtures/*.tar.xz))

fixtures: $(FIXTURES)

build/fixtures/%.done: tests/fixtures/%.tar.xz
	python3 tests/golden/fixtures.py unpack $*

$(TEST_BIN) $(FUZZ_BIN): | $(FIXTURES)

-include tests/kernels/module.mk
-include kernels/cuda/module.mk
-include tests/emu/module.mk
-include tests/gpu/module.mk
-include $(TEST_BIN:=.d) $(FUZZ_BIN:=.d) $(BENCH_BIN:=.d)

tests: $(ENGINE) $(TEST_BIN) $(KERNEL_TEST_BIN)

# their names, for scripts/check.sh
list-tests:
	@echo $(patsubst $(BUILD)/tests/%,%,$(TEST_BIN) $(KERNEL_TEST_BIN))

fuzz-programs: $(FUZZ_BIN)

fuzz-builds: fuzz-programs
	@scripts/fuzz.sh -b

fuzz:
	@scripts/check.sh fuzz

# ---- benchmarks ----

bench-programs: $(BENCH_BIN)

bench: all
	@bench/run.sh

clean:
	rm -rf build vllm_pg_cuda.so

.PHONY: all release engine http remote module processors device-libs install deb check-deb demo demo-stop check check-full check-nightly check-pg16 check-pg18 check-unit \
	check-kernels check-emu check-cuda check-gpu check-golden check-san check-regress check-tap lint tests list-tests fixtures fuzz fuzz-programs fuzz-builds bench bench-programs clean
