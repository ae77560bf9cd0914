# What makes a bug harder to use: for the programs (Makefile) and the module (src/pg/module.mk).  scripts/hardening.sh looks
# whether the built files have it.  Not in builds with a sanitizer, whose own checks need the plain calls.
#
#	HARDEN_CFLAGS	canaries, probed stacks, checked calls of libc, marked targets of jumps
#	HARDEN_LDFLAGS	relocated tables that can't be written, no stack that can be executed

harden_has = $(shell echo 'int x;' | $(CC) -Werror $(1) -x c -c -o /dev/null - >/dev/null 2>&1 && echo $(1))
# 3 where libc and compiler know it: libc's header warns where it takes 3 for 2
HARDEN_FORTIFY := $(shell echo '\#include <features.h>' | $(CC) -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -Werror -E - >/dev/null 2>&1 && echo 3 || echo 2)
# x86-64, aarch64
HARDEN_JUMPS := $(or $(call harden_has,-fcf-protection=full),$(call harden_has,-mbranch-protection=standard))
HARDEN_FORTIFY_FLAGS := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(HARDEN_FORTIFY)
HARDEN_CFLAGS := -fstack-protector-strong $(call harden_has,-fstack-clash-protection) $(HARDEN_JUMPS) $(HARDEN_FORTIFY_FLAGS)
HARDEN_LDFLAGS := -Wl,-z,relro,-z,now,-z,noexecstack
