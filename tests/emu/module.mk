# tests/emu: CUDA kernels on the CPU (kernels/emu).  The .cu files are compiled with -fsanitize=thread, so
# that the compiler puts a call before every memory access.  They are linked without its library: cemu_mem.c
# has these functions.

EMU_DIR = $(BUILD)/emu
EMU_OBJ = $(patsubst kernels/emu/%,$(EMU_DIR)/%.o,$(wildcard kernels/emu/*.c kernels/emu/*.S))
# wgmma and bulk copies are included: cemu_async.c emulates both
EMU_CU_OBJ = $(patsubst kernels/cuda/%.cu,$(EMU_DIR)/%.cu.o,$(wildcard kernels/cuda/*.cu kernels/cuda/*/*.cu)) \
	$(patsubst %.c,$(BUILD)/%.o,$(wildcard kernels/cuda/*.c))
# the CPU kernels that the tests compare with
EMU_REF_OBJ = $(patsubst %,$(BUILD)/kernels/%.o,convert quants pool ref/ref ref/ref2 route) $(BUILD)/src/model/layers/pooler.o
EMU_TEST_BIN = $(patsubst tests/emu/%.cu,$(EMU_DIR)/%,$(wildcard tests/emu/test_*.cu))
CXXFLAGS_EMU = -std=c++17 -O1 $(DEBUG_INFO) -Wall -Wextra -Werror -Wno-unknown-pragmas -fno-exceptions -fno-rtti \
	-ffp-contract=off -fno-math-errno -fno-tree-vectorize -fno-tree-sra -fsanitize=thread -x c++

$(EMU_DIR)/%.c.o: kernels/emu/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ENGINE) $(CFLAGS_ENGINE) -fno-sanitize=all -O3 -MMD -MP -c -o $@ $<

$(EMU_DIR)/%.S.o: kernels/emu/%.S
	@mkdir -p $(@D)
	$(CC) -c -o $@ $<

$(EMU_DIR)/%.cu.o: kernels/cuda/%.cu
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS_ENGINE) $(CXXFLAGS_EMU) -MMD -MP -c -o $@ $<

# the tests call the reference kernels, whose operands are floats
$(EMU_DIR)/%.test.o: tests/emu/%.cu
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS_ENGINE) -DK_OP_FLOAT $(CXXFLAGS_EMU) -MMD -MP -c -o $@ $<

$(EMU_TEST_BIN): $(EMU_DIR)/%: $(EMU_DIR)/%.test.o $(EMU_CU_OBJ) $(EMU_OBJ) $(EMU_REF_OBJ)
	$(CXX) -pthread -o $@ $(filter %.o %.a,$^) $(EMU_LIBS) -lm -ldl

# the engine's own sampler, in C, to compare with
$(EMU_DIR)/test_sample: $(EMU_DIR)/smp_ref.o $(LIB)
$(EMU_DIR)/test_sample: EMU_LIBS = $(LDLIBS_ENGINE)

$(EMU_DIR)/smp_ref.o: tests/emu/smp_ref.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ENGINE) $(CFLAGS_ENGINE) -MMD -MP -c -o $@ $<

# Fake libraries for tests.  They are built without the emulation's call before each access, and use the
# program's emulation.
EMU_FAKES = $(EMU_DIR)/libcublaslt_emu.so $(EMU_DIR)/libnccl_emu.so

$(EMU_DIR)/libcublaslt_emu.so: tests/emu/fake_blaslt.cc
$(EMU_DIR)/libnccl_emu.so: tests/emu/fake_nccl.cc
$(EMU_FAKES):
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS_ENGINE) $(filter-out -fsanitize=thread,$(CXXFLAGS_EMU)) -O2 -fPIC -shared -MMD -MP -o $@ $<

-include $(EMU_FAKES:.so=.d)

$(EMU_DIR)/test_blaslt: $(EMU_DIR)/libcublaslt_emu.so
$(EMU_DIR)/test_nccl: $(EMU_DIR)/libnccl_emu.so
$(EMU_DIR)/test_blaslt $(EMU_DIR)/test_nccl: EMU_LIBS = -rdynamic -Wl,-rpath,'$$ORIGIN'

.PRECIOUS: $(EMU_DIR)/%.test.o

# The emulated kernels as a library with the interface of the real one (kernels/device.h), for engines and
# whole models.  It does not look for races or wrong accesses.  Its only device has capability 9.0 and
# 512 MB.
EMU_LIB = $(EMU_DIR)/vllm_pg_cuda.so
EMU_LIB_FLAGS = -O2 $(DEBUG_INFO) -fPIC -fvisibility=hidden -ftls-model=initial-exec -DCEMU_FAST
EMU_LIB_OBJ = $(patsubst $(EMU_DIR)/%.o,$(EMU_DIR)/lib/%.o,$(EMU_OBJ) $(filter %.cu.o,$(EMU_CU_OBJ)))

$(EMU_DIR)/lib/%.c.o: kernels/emu/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ENGINE) $(CFLAGS_ENGINE) -fno-sanitize=all $(EMU_LIB_FLAGS) -O3 -MMD -MP -c -o $@ $<

$(EMU_DIR)/lib/%.S.o: kernels/emu/%.S
	@mkdir -p $(@D)
	$(CC) -c -o $@ $<

$(EMU_DIR)/lib/%.cu.o: kernels/cuda/%.cu
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS_ENGINE) $(filter-out -fsanitize=%,$(CXXFLAGS_EMU)) $(EMU_LIB_FLAGS) -MMD -MP -c -o $@ $<

$(EMU_LIB): $(EMU_LIB_OBJ) $(CUDA_C_OBJ)
	$(CXX) -shared -pthread -o $@.new $^ -Wl,--exclude-libs,ALL,-z,defs -lm -ldl
	mv -f $@.new $@

# tests of whole models and the core with that library; these programs contain the engine's side
EMU_MODELS = $(addprefix $(EMU_DIR)/,test_models test_encoders test_engine test_drafts)

$(EMU_MODELS): $(EMU_DIR)/%: tests/emu/%.c $(LIB) $(EMU_LIB) | $(FIXTURES)
	$(CC) $(CPPFLAGS_ENGINE) $(CFLAGS_ENGINE) -DDEVICE_LIB='"$(EMU_LIB)"' -MMD -MP -o $@ $< $(LIB) $(LDLIBS_ENGINE)

# the same without the engine's libraries, as check-gpu builds them where these are missing
EMU_BARE = $(addprefix $(EMU_DIR)/,bare_models bare_encoders bare_engine)

$(EMU_BARE): $(EMU_DIR)/bare_%: tests/emu/test_%.c $(LIB) $(BARE_OBJ) $(EMU_LIB) | $(FIXTURES)
	$(CC) $(CPPFLAGS_ENGINE) $(CFLAGS_ENGINE) -DDEVICE_LIB='"$(EMU_LIB)"' -MMD -MP -o $@ $< $(LIB) $(BARE_OBJ) $(BARE_LIBS)

emu-lib: $(if $(filter x86_64,$(shell uname -m)),$(EMU_LIB) $(EMU_DIR)/libnccl_emu.so)

emu-tests: $(if $(filter x86_64,$(shell uname -m)),$(EMU_TEST_BIN) $(EMU_MODELS))

# Compile the code of common.cuh and mma.cuh that the tests' kernels use, for each GPU generation for which
# it differs.
EMU_SM = 75 80 90 100

emu-nvcc:
ifeq ($(NVCC),)
	@printf 'skipped $(words $(EMU_SM)): no nvcc\nemu-nvcc: 0 passed, 0 failed, $(words $(EMU_SM)) skipped\n'
else
	@mkdir -p $(EMU_DIR)
	$(NVCC) $(foreach s,$(EMU_SM),-gencode arch=compute_$s,code=sm_$s) -std=c++17 -O1 -fmad=false -Werror all-warnings \
		-Ikernels -c -o $(EMU_DIR)/seam.nvcc.o tests/emu/seam.cu
	@echo 'emu-nvcc: $(words $(EMU_SM)) passed, 0 failed, 0 skipped'
endif

# The same tests on a GPU: they show that the emulation does what the device does.
GPU_TEST_BIN = $(patsubst %,$(BUILD)/gpu/%,$(filter-out test_faults,$(patsubst tests/emu/%.cu,%,$(wildcard tests/emu/test_*.cu))))

$(GPU_TEST_BIN): $(BUILD)/gpu/%: tests/emu/%.cu $(wildcard tests/emu/*.h tests/emu/*.cuh) $(CUDA_OBJ) $(CUDA_C_OBJ) $(EMU_REF_OBJ)
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_GENCODE) -std=c++17 -O3 -fmad=false -Werror all-warnings -Ikernels -Isrc -I. -D_GNU_SOURCE -DK_OP_FLOAT \
		-o $@ $< $(CUDA_OBJ) $(filter %pack.c.o,$(CUDA_C_OBJ)) $(EMU_REF_OBJ) $(CUDA_RPATH) -lpthread -ldl

gpu-tests: $(GPU_TEST_BIN)

-include $(EMU_LIB_OBJ:.o=.d) $(EMU_OBJ:.o=.d) $(EMU_REF_OBJ:.o=.d) $(EMU_CU_OBJ:.o=.d) $(EMU_TEST_BIN:=.test.d) $(EMU_MODELS:=.d) $(EMU_BARE:=.d) $(EMU_DIR)/smp_ref.d

.PHONY: emu-tests emu-lib emu-nvcc gpu-tests
