# kernels/cuda: vllm_pg_cuda.so, the GPU's op table.  It is built only if nvcc is found.
#
# nvcc compiles a .cu file for each compute capability of CUDA_SM, and to PTX of the last one for later GPUs.
# A file named *_sm90.cu (wgmma, TMA) is compiled for sm_90a only; the host chooses it at run time.  Warnings
# and register spills are errors.  The compiler fuses a product and a sum only where the source calls fmaf(),
# as g++ does for tests/emu.  kernels/cuda/resources.txt records the resources that ptxas reports for each kernel.

CUDA_HOME ?= /usr/local/cuda
NVCC ?= $(or $(shell command -v nvcc),$(wildcard $(CUDA_HOME)/bin/nvcc))
CUDA_SM ?= 75 80 90a 100
CUDA_DIR ?= build/cuda
CUDA_LIB ?= vllm_pg_cuda.so
CUDA_OBJ = $(patsubst kernels/cuda/%.cu,$(CUDA_DIR)/%.o,$(wildcard kernels/cuda/*.cu kernels/cuda/*/*.cu))
# the host's plain C: packing, and the CPU kernels' files that it calls
CUDA_C_OBJ = $(patsubst kernels/%.c,$(CUDA_DIR)/%.c.o,$(wildcard kernels/cuda/*.c) kernels/convert.c kernels/quants.c)
CUDA_GENCODE = $(foreach s,$(CUDA_SM),-gencode arch=compute_$s,code=sm_$s) \
	$(if $(filter 100,$(CUDA_SM)),-gencode arch=compute_100$(comma)code=compute_100)
NVCCFLAGS = -std=c++17 -O3 --fmad=false -lineinfo -Werror all-warnings -Xptxas -v,-warn-spills,-Werror \
	-Xcompiler -fPIC,-fstack-protector-strong,-Wall,-Wextra,-Werror,-fvisibility=hidden,-ffp-contract=off -D_GNU_SOURCE -I. -Ikernels

cuda-nvcc:
	@echo $(NVCC)

cuda: $(if $(NVCC),$(CUDA_LIB))
	@$(if $(NVCC),true,echo 'cuda: skipped, nvcc is missing')

# the library, or a program with its objects, may open the toolkit's libraries at run time: search its folders
CUDA_RPATH = $(foreach d,lib64 lib,-Xlinker -rpath,$(abspath $(dir $(lastword $(NVCC)))../$d))

$(CUDA_LIB): $(CUDA_OBJ) $(CUDA_C_OBJ)
	$(NVCC) -shared -cudart static -o $@.new $^ -Xlinker --exclude-libs,ALL,-z,defs,-z,relro,-z,now,-z,noexecstack $(CUDA_RPATH) -ldl
	mv -f $@.new $@

$(CUDA_DIR)/%_sm90.o: CUDA_GENCODE = -gencode arch=compute_90a,code=sm_90a

# capability 8.9 has instructions for products of FP8 by FP8; all other files' code for 8.0 runs there, too
$(CUDA_DIR)/mm/mm_fp8_a8.o: CUDA_GENCODE += $(if $(filter 80,$(CUDA_SM)),-gencode arch=compute_89$(comma)code=sm_89)

# rebuild all if the capabilities, the flags or the toolkit change
CUDA_STAMP = $(CUDA_DIR)/flags

$(CUDA_STAMP): cuda-stamp
	@mkdir -p $(@D)
	@{ echo '$(NVCC) $(CUDA_SM) $(NVCCFLAGS)'; $(NVCC) --version; } >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(CUDA_DIR)/%.o: kernels/cuda/%.cu $(CUDA_STAMP)
	@mkdir -p $(@D)
	@echo '$(NVCC) $(CUDA_GENCODE) $<'
	@$(NVCC) $(CUDA_GENCODE) $(NVCCFLAGS) -MMD -MP -MF $(@:.o=.d) -c -o $@ $< >$(@:.o=.log) 2>&1 || \
		{ grep -v '^ptxas info\|bytes stack frame, 0 bytes spill' $(@:.o=.log); rm -f $@; exit 1; }

$(CUDA_DIR)/%.c.o: kernels/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ENGINE) $(CFLAGS_ENGINE) $(KERNEL_OPT) -fPIC -fvisibility=hidden -MMD -MP -c -o $@ $<

cuda-objects: $(if $(NVCC),$(CUDA_OBJ) $(CUDA_C_OBJ))

# cuda-check (check.sh's part `cuda`) compares registers, spills and shared memory with kernels/cuda/resources.txt;
# cuda-resources writes that file
cuda-check cuda-resources: cuda
ifeq ($(NVCC),)
	@printf 'skipped 1: no nvcc\ncuda: 0 passed, 0 failed, 1 skipped\n'
else
	@echo '#include <cublasLt.h>' >$(CUDA_DIR)/blaslt.h.cu; $(NVCC) -E $(CUDA_DIR)/blaslt.h.cu >$(CUDA_DIR)/blaslt.h.log 2>&1 || \
		echo 'skipped 1: no cublasLt.h that blaslt_api.h could be compared with'
	@scripts/cuda_resources.py $(if $(filter cuda-resources,$@),--write) $(patsubst %.o,%.log,$(CUDA_OBJ))
endif

-include $(CUDA_OBJ:.o=.d) $(CUDA_C_OBJ:.o=.d)

.PHONY: cuda cuda-nvcc cuda-objects cuda-check cuda-resources cuda-stamp
