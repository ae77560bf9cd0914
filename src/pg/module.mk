# module.mk: vllm_pg.so, built by PGXS in a folder of its own (see the top Makefile).
#
# Flat objects and VPATH, so that one tree serves several major versions at once.
# The engine is not linked in: no thread, no model code in a PostgreSQL process.

vpath %.c $(TOP)/src/pg $(TOP)/bgworker $(TOP)/src/wire

SRCS = $(wildcard $(TOP)/src/pg/*.c $(TOP)/bgworker/*.c $(TOP)/src/wire/*.c)
MODULE_big = vllm_pg
OBJS = $(notdir $(SRCS:.c=.o))
PG_CPPFLAGS = -I$(TOP) -I$(TOP)/src -D_GNU_SOURCE
# vecmath.c: the same bits with and without FMA
PG_CFLAGS = -Wall -Werror -ffp-contract=off -MMD -MP

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)
-include $(OBJS:.o=.d)
