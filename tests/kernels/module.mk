# tests/kernels: the conformance program, with instructions emulated that the CPU may lack:
# AVX-512 by SIMDe when it is there, AVX-VNNI on any CPU with AVX2

KERNEL_TEST_BIN = $(BUILD)/tests/kernels/conform
KERNEL_TEST_OBJ = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/kernels/*.c) kernels/cuda/pack.c)

ifeq ($(shell uname -m),x86_64)
KERNEL_EMU_OBJ = $(BUILD)/kernels/emu/avx2_vnni.o
ifneq ($(wildcard /usr/include/simde/x86/avx512.h),)
KERNEL_EMU_OBJ += $(patsubst kernels/cpu/%.c,$(BUILD)/kernels/emu/%.o,$(wildcard kernels/cpu/avx512*.c))
endif
endif

$(BUILD)/kernels/emu/%.o: kernels/cpu/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ENGINE) $(CFLAGS_ENGINE) -O1 $(KERNEL_DEBUG) -DVLLM_KERNELS_EMU -mavx2 -mfma -mf16c -Wno-psabi \
		-MMD -MP -c -o $@ $<

$(KERNEL_TEST_BIN): $(KERNEL_TEST_OBJ) $(KERNEL_EMU_OBJ) $(LIB)
	$(CC) $(CFLAGS_ENGINE) -o $@ $^ $(LDLIBS_ENGINE)

-include $(KERNEL_TEST_OBJ:.o=.d) $(KERNEL_EMU_OBJ:.o=.d)
