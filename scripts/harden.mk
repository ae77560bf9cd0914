# Compiler and linker options that make a bug harder to exploit, for the programs (Makefile) and the module
# (src/pg/module.mk).  scripts/hardening.sh checks that the built files have them.  Sanitizer builds do
# without: their own checks need the plain calls.
#
#	HARDEN_CFLAGS	stack canaries, stack probes, checked libc calls, marked jump targets
#	HARDEN_LDFLAGS	read-only relocation tables, a stack that can't be executed

harden_has = $(shell echo 'int x;' | $(CC) -Werror $(1) -x c -c -o /dev/null - >/dev/null 2>&1 && echo $(1))
# Use level 3 if libc and the compiler know it; libc's header warns if it falls back to 2.
HARDEN_FORTIFY := $(shell echo '\#include <features.h>' | $(CC) -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -Werror -E - >/dev/null 2>&1 && echo 3 || echo 2)
# x86-64, or aarch64
HARDEN_JUMPS := $(or $(call harden_has,-fcf-protection=full),$(call harden_has,-mbranch-protection=standard))
HARDEN_FORTIFY_FLAGS := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(HARDEN_FORTIFY)
HARDEN_CFLAGS := -fstack-protector-strong $(call harden_has,-fstack-clash-protection) $(HARDEN_JUMPS) $(HARDEN_FORTIFY_FLAGS)
HARDEN_LDFLAGS := -Wl,-z,relro,-z,now,-z,noexecstack
