# tests/gpu, bench/gpu.cu: programs that need a GPU, by nvcc into $(BUILD)/gpu; and against the emulation
# into $(BUILD)/emu, which shows that they and their harness (scripts/check_gpu.sh) work.  With BARE=1 none of the
# engine's libraries is needed (Makefile).

GPU_PROGRAMS = $(patsubst tests/gpu/%.cu,gpu_%,$(wildcard tests/gpu/*.cu)) $(patsubst bench/%.cu,bench_%,$(wildcard bench/*.cu))
GPU_SRC = $(if $(filter bench_%,$(1)),bench/$(patsubst bench_%,%,$(1)).cu,tests/gpu/$(patsubst gpu_%,%,$(1)).cu)
GPU_BIN = $(GPU_TEST_BIN) $(addprefix $(BUILD)/gpu/,$(GPU_PROGRAMS))
GPU_EMU_BIN = $(addprefix $(EMU_DIR)/,$(GPU_PROGRAMS))

define gpu_program
$(BUILD)/gpu/$(1): $(call GPU_SRC,$(1)) $(wildcard tests/emu/*.h) $(CUDA_OBJ) $(CUDA_C_OBJ) $(EMU_REF_OBJ)
	@mkdir -p $$(@D)
	$(NVCC) $(CUDA_GENCODE) -std=c++17 -O3 -fmad=false -Werror all-warnings -Ikernels -Isrc -I. -D_GNU_SOURCE \
		-o $$@ $$< $(CUDA_OBJ) $(filter %pack.c.o,$(CUDA_C_OBJ)) $(EMU_REF_OBJ) $(CUDA_RPATH) -lpthread -ldl

$(EMU_DIR)/$(1).program.o: $(call GPU_SRC,$(1))
	@mkdir -p $$(@D)
	$(CXX) $(CPPFLAGS_ENGINE) $(CXXFLAGS_EMU) -MMD -MP -c -o $$@ $$<

$(EMU_DIR)/$(1): $(EMU_DIR)/$(1).program.o $(EMU_CU_OBJ) $(EMU_OBJ) $(EMU_REF_OBJ)
	$(CXX) -pthread -o $$@ $$^ -lm -ldl
endef
$(foreach p,$(GPU_PROGRAMS),$(eval $(call gpu_program,$p)))

# Whole models and the core on the library.
GPU_MODELS = $(addprefix $(BUILD)/gpu/,test_models test_encoders test_engine)

$(GPU_MODELS): $(BUILD)/gpu/%: tests/emu/%.c $(LIB) $(if $(BARE),$(BARE_OBJ)) | $(CUDA_LIB) $(FIXTURES)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ENGINE) $(CFLAGS_ENGINE) -DDEVICE_LIB='"$(abspath $(CUDA_LIB))"' -MMD -MP -o $@ $< $(LIB) $(LDLIBS_ENGINE)

-include $(GPU_MODELS:=.d)

gpu-programs: $(GPU_BIN) $(GPU_MODELS)

# The tests of the emulation are only compiled, to PTX.  Where a template of the host calls a function of the device nvcc
# is silent, and exit() takes its place.
GPU_TEST_OBJ = $(addsuffix .check.o,$(GPU_TEST_BIN))

$(GPU_TEST_OBJ): $(BUILD)/gpu/%.check.o: tests/emu/%.cu
	@mkdir -p $(@D)
	$(NVCC) -gencode arch=compute_80,code=compute_80 -std=c++17 -O1 -fmad=false -Werror all-warnings -Ikernels -Isrc -I. -D_GNU_SOURCE -DK_OP_FLOAT \
		-MMD -MP -MF $(@:.o=.d) -c -o $@ $<
	@if nm -u $@ | grep -qw exit; then echo "$<: the host calls a function of the device"; rm -f $@; exit 1; fi

-include $(GPU_TEST_OBJ:.o=.d)

# does all of check-gpu compile?
GPU_ONLY = $(addprefix $(BUILD)/gpu/,$(GPU_PROGRAMS)) $(GPU_TEST_OBJ)

gpu-only: $(if $(NVCC),$(GPU_ONLY))
	@echo '$(if $(NVCC),gpu_only: $(words $(GPU_ONLY)) passed$(comma) 0 failed$(comma) 0 skipped,gpu_only: 0 passed$(comma) 0 failed$(comma) $(words $(GPU_ONLY)) skipped)'

gpu-programs-emu: $(GPU_EMU_BIN) $(EMU_BARE) $(addprefix $(EMU_DIR)/,test_norm test_table)

-include $(GPU_EMU_BIN:=.program.d)

.PHONY: gpu-programs gpu-only gpu-programs-emu
