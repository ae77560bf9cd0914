# module.mk: vllm_pg.so, built by PGXS in a folder of its own (see the top Makefile).
#
# Flat objects and VPATH, so that one tree serves several major versions at once.
# The engine is not linked in: no thread, no model code in a PostgreSQL process.

SRCS := $(sort $(shell find $(TOP)/src/pg $(TOP)/src/ipc -name '*.c'))
vpath %.c $(sort $(dir $(SRCS)))

MODULE_big = vllm_pg
OBJS = $(notdir $(SRCS:.c=.o))
PG_CPPFLAGS = -I$(TOP) -I$(TOP)/src -D_GNU_SOURCE $(if $(WIRE_CHECKED),-DWIRE_CHECKED=$(WIRE_CHECKED)) \
	-DVLLM_ASSERT=$(if $(RELEASE),0,1)
# vector_math.c: the same bits with and without FMA
PG_CFLAGS = -Wall -Werror -ffp-contract=off -MMD -MP $(DEBUG_INFO) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)

# a sanitized module needs the sanitizer's library in the server (scripts/fuzz_sql)
SHLIB_LINK += $(if $(SAN),-fsanitize=$(SAN))

include $(TOP)/scripts/harden.mk
PG_CFLAGS += $(filter-out $(HARDEN_FORTIFY_FLAGS),$(HARDEN_CFLAGS))
PG_LDFLAGS = $(HARDEN_LDFLAGS)

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)
# the server's own build may ask for less of it; libc checks nothing where nothing is optimized
override CPPFLAGS := $(filter-out -D_FORTIFY_SOURCE=%,$(CPPFLAGS)) $(if $(findstring -O0,$(CFLAGS)),,$(HARDEN_FORTIFY_FLAGS))
$(OBJS): $(TOP)/scripts/harden.mk
# llm_version()
control.o: override CPPFLAGS += -DVLLM_PG_VERSION='"$(EXTVERSION)"'
control.o: $(TOP)/vllm_pg.control
-include $(OBJS:.o=.d)
