# vlmsh -- a terminal workbench for vision-language models.
#
#   make            build ./vlmsh                 make test     tests on the CPU and an emulated GPU
#   make run        install what is missing,      make bench    measurements (results: docs/speed.md)
#                   build, open the shell         make fuzz     libFuzzer on every reader of files
#   make lint       clang-format, clang-tidy,     make install  PREFIX=/usr/local
#                   cppcheck                      make clean
#   make real       fetch a small real model      make test-real     compare its answers with transformers
#   make demo       retrain the demo model        make screenshots   the documents' pictures of the screen
#   make checkup    the pages of docs/checkup/
#
#   make cuda       the library for NVIDIA GPUs (needs nvcc of CUDA 12 or 13); for sm_90, CUDA_ARCH=80
#                   for others, `make cuda-all` for all supported ones
#   make test-isas  tests whose numbers can differ, under each instruction set below the CPU's best
#   make test-gpu   compare the GPU with the CPU      make bench-gpu  measure it
#                   (SANITIZER=memcheck: under                        (PEERS=PYTHON: beside
#                   compute-sanitizer)                                transformers)
#   make gpu-bundle test-gpu and bench-gpu, built, for a machine without compilers
#   make test-ptx   test-gpu without a GPU: the host runs and checks the PTX of the kernels
#
# Variables: SAN=1 builds and tests with ASan + UBSan (in build/san), SAN=thread builds with TSan (in build/tsan;
# `make test-threads` tests with it), WERROR=1 makes warnings errors,
# FUZZ_SECONDS (default 600) is the time of each fuzzer, FUZZ_SEED (default 0) its random seed.

# --- dependencies and their purpose ----------------------------------------------------------------
# libcjson-dev      JSON          libpcre2-dev      split patterns of tokenizers (\p{L}, look-ahead)
# libutf8proc-dev   Unicode NFC   libstb-dev        PNG and BMP pictures (stb_image)
# libjpeg-dev       JPEG pictures: libjpeg-turbo, which Pillow decodes with
# libwebp-dev       WebP pictures libgif-dev        films (animated GIF)
# libsqlite3-dev    sessions      libreadline-dev   line editing
# libncurses-dev    terminfo      libmd-dev         SHA-256 of pictures and weights
# libcairo2-dev     figures       fonts-dejavu-core their font, which no other package guarantees
# libfontconfig-dev substitutes for plot.font
# libsnappy-dev     parquet files (Snappy)           libzstd-dev  parquet files (zstd)
# libzip-dev        pictures in ZIP archives
# xz-utils          unpacks the demo model           libcmocka-dev unit tests
PACKAGES = gcc make xz-utils libcjson-dev libpcre2-dev libutf8proc-dev libstb-dev libjpeg-dev libwebp-dev \
           libgif-dev libsqlite3-dev libreadline-dev libncurses-dev libmd-dev libcairo2-dev libsnappy-dev libzstd-dev \
           libzip-dev libfontconfig-dev fonts-dejavu-core
TEST_PACKAGES = $(PACKAGES) g++ libcmocka-dev tmux jq python3 openmpi-bin
LINT_PACKAGES = clang-format clang-tidy cppcheck python3
FUZZ_PACKAGES = clang libclang-rt-dev python3
REAL_PACKAGES = python3 python3-pip
BUNDLE_PACKAGES = $(TEST_PACKAGES) patchelf

ifeq ($(origin CC),default)
CC      := gcc
endif
PREFIX  ?= /usr/local
SAN     ?= 0
WERROR  ?= $(if $(CI),1,0)
VERSION := 0.1.0
# Targets that install packages and then build use all cores, unless -j is given.
JOBS     = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))
# V=1 shows whole command lines.
say = $(if $(filter 1,$(V)),,@printf '  %-5s %s\n' $(1) $@;)

B := build/$(if $(filter 1,$(SAN)),san,$(if $(filter thread,$(SAN)),tsan,opt))

WARN   := -Wall -Wextra -Wshadow -Wno-unused-parameter $(if $(filter 1,$(WERROR)),-Werror)
# Under the sanitizers, -g1 (line numbers only) halves linking time.
COMMON := -std=c17 -D_GNU_SOURCE -DVERSION='"$(VERSION)"' -I. $(if $(filter 0,$(SAN)),-g,-g1) $(WARN) -fopenmp -pthread -MMD -MP
ifeq ($(SAN),1)
COMMON += -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
else ifeq ($(SAN),thread)
COMMON += -O1 -fno-omit-frame-pointer -fsanitize=thread
endif
# Test scripts start the program thousands of times. Under ASan a quarter of a start would be the relocation of the
# descriptions of its global variables, which a program at a fixed address does not need.
LINK          := $(CC) $(COMMON) $(if $(filter 1,$(SAN)),-no-pie)
CFLAGS_CORE   := $(COMMON) $(if $(filter 0,$(SAN)),-O2)
# GCC 13 and newer omit some FMA instructions in sums, depending on their position; a row's result
# would then depend on how many rows are computed with it. (clang has no such option and does not
# need one.)
FMA_ALWAYS    := $(if $(findstring clang,$(shell $(CC) --version 2>/dev/null)),,--param=avoid-fma-max-bits=0)
# Kernels define their summation order themselves (kernels/vec.h); a*b+c may be one instruction.
CFLAGS_KERNEL := $(COMMON) $(if $(filter 0,$(SAN)),-O3) -fno-math-errno -fno-trapping-math \
                 -ffp-contract=fast $(FMA_ALWAYS)
LIBS := -ldl -ljpeg -lgif -lwebpdemux -lwebp -lcairo -lfontconfig -lcjson -lpcre2-8 -lutf8proc -lsqlite3 -lreadline -lncursesw -lmd -lsnappy -lzstd -lzip -lm

# --- instruction sets: each kernel file is compiled once for each (kernels/isa.h) -------------------
ISA_FLAGS_base   := -Wno-psabi
ISA_FLAGS_avx2   := -mavx2 -mfma -mf16c
ISA_FLAGS_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx2 -mfma -mf16c \
                    -mprefer-vector-width=512
ISA_FLAGS_amx    := $(ISA_FLAGS_avx512) -mavx512bf16 -mamx-tile -mamx-bf16 -mprfchw
ISAS := base $(if $(filter x86_64,$(shell uname -m)),avx2 avx512 amx)

# Kernel files that are compiled only once:
PLAIN     := kernels/cpu.c kernels/blocks.c kernels/blocks_pack.c
KERNELS   := $(filter-out $(PLAIN),$(wildcard kernels/*.c))
CORE      := $(wildcard core/*.c core/*/*.c core/*/*/*.c)
SHELL_SRC := $(filter-out tui/main.c,$(wildcard sessions/*.c commands/*.c tui/*.c))

# (SAN=thread does not cover the kernels: `make test-threads` builds the ordinary ones first.)
KERNEL_OBJ := $(PLAIN:%.c=$(B)/%.o) $(foreach i,$(ISAS),$(KERNELS:%.c=$(B)/%.$(i).o))
KERNEL_OBJ := $(KERNEL_OBJ:build/tsan/%=build/opt/%)
CORE_OBJ   := $(CORE:%.c=$(B)/%.o)
SHELL_OBJ  := $(SHELL_SRC:%.c=$(B)/%.o)

TOYS        := tests/toys/toys.c tests/toys/layers.c
UNIT_TESTS  := $(wildcard tests/kernels/*.c tests/core/*/*.c tests/core/model/families/*.c tests/sessions/*.c tests/commands/*.c tests/tui/*.c tests/cuda/*.c) $(TOYS)
UNIT_BIN    := $(UNIT_TESTS:%.c=$(B)/%)
SCRIPT_TESTS := $(wildcard tests/commands/*.sh tests/tui/*.sh tests/docs/*.sh)
# SAN=1 leaves out tests that find nothing under sanitizers: command scripts whose code other tests
# cover (each takes minutes), documents, killed processes, comparisons of GPU kernels (which are
# compiled without sanitizers), forecasts, and bitwise comparisons of code that other tests run.
ifeq ($(SAN),1)
SCRIPT_TESTS := $(filter-out tests/docs/% $(addprefix tests/commands/,answers.sh checkup.sh context.sh faithful.sh gguf.sh gguf_methods.sh killed.sh ranks_faults.sh ranks_sweep.sh stages.sh sweep.sh),$(SCRIPT_TESTS))
UNIT_BIN     := $(filter-out $(addprefix $(B)/tests/cuda/,attention ops blocks few_rows fused fused_back fused_experts steps) $(addprefix $(B)/tests/core/,train/plan talk/lookahead methods/toggles),$(UNIT_BIN))
endif
# The ordinary build and SAN=1 both use these.
CUDA_HOST_LIBRARY := build/host/cuda_host/libvlmsh_cuda.so
NCCL_HOST_LIBRARY := build/host/nccl_host/libnccl.so.2
BENCHES     := $(wildcard tests/bench/*.c)
BENCH_BIN   := $(BENCHES:%.c=$(B)/%)
# `make test` compiles the benchmarks too, so that they keep building.
BENCH_OBJ   := $(patsubst %.c,$(B)/%.o,$(BENCHES) $(wildcard tests/bench/gpu/*.c))
FUZZERS     := $(wildcard tests/fuzz/*.c)

.PHONY: test-readers test-cluster test-screen-walk all run test check check-fast test-isas check-isas test-threads check-threads test-allocations check-allocations check-gpu measure-gpu gpu-bundle pack-gpu-bundle goldens bench cuda cuda-all cuda-check test-gpu test-ptx bench-gpu demo checkup screenshots fuzz fuzz-run real test-real lint lint-run lint-fast rooms words lines size man format install uninstall clean deps-run deps-test deps-lint deps-fuzz deps-real deps-bundle deps-ci
.PRECIOUS: $(B)/%.o
all: vlmsh

ifneq ($(SAN),0)
vlmsh: $(B)/vlmsh
else
vlmsh: $(B)/vlmsh
	@cp $< $@.tmp && mv $@.tmp $@
endif

$(B)/vlmsh: $(B)/tui/main.o $(B)/libshell.a $(B)/libvlmsh.a
	$(call say,LINK) $(LINK) -o $@ $^ $(LIBS)
$(B)/libvlmsh.a: $(CORE_OBJ) $(KERNEL_OBJ)
	@rm -f $@; ar rcs $@ $^
$(B)/libshell.a: $(SHELL_OBJ)
	@rm -f $@; ar rcs $@ $^

$(PLAIN:%.c=$(B)/%.o): $(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC) $(CC) $(CFLAGS_KERNEL) $(if $(filter avx2,$(ISAS)),-DHAVE_AVX) -c -o $@ $<
define ISA_RULE
$(B)/kernels/%.$(1).o: kernels/%.c
	@mkdir -p $$(@D)
	$$(call say,CC) $$(CC) $$(CFLAGS_KERNEL) -DISA=$(1) -DISA_$(1)=1 $$(ISA_FLAGS_$(1)) -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call ISA_RULE,$(i))))
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC) $(CC) $(CFLAGS_CORE) $(TEST_MAIN) -c -o $@ $<
$(B)/tests/%: $(B)/tests/%.o $(B)/tests/lists.o $(B)/libshell.a $(B)/libvlmsh.a
	$(call say,LINK) $(LINK) -o $@ $^ $(LIBS) -lcmocka

# The unit tests of a folder are one program, FOLDER/tests; a hard link per test selects it by name (tests/room.sh).
# resume.c includes the sources that it tests, so it cannot share a program with others that use them.
ROOM_BIN    := $(filter-out $(B)/tests/sessions/resume,$(UNIT_BIN))
# Toys: one example of each extensible kind, linked only with the tests of that folder.
TOY_OBJ     := $(patsubst %.c,$(B)/%.o,$(filter-out $(TOYS),$(wildcard tests/toys/*.c)))
$(ROOM_BIN:%=%.o): TEST_MAIN = -Dmain=$(*F)_main
# $(1): the folder in $(B), $(2): its tests there, $(3): their sources
define TEST_ROOM
$(2): $(1)/tests
	@ln -f $$< $$@
$(1)/tests.c: tests/room.sh $(3)
	@mkdir -p $$(@D)
	@tests/room.sh $(3) >$$@
$(1)/tests.o: $(1)/tests.c
	@$$(CC) $$(CFLAGS_CORE) -c -o $$@ $$<
$(1)/tests: $(1)/tests.o $(2:%=%.o) $(if $(filter %/toys,$(1)),$(TOY_OBJ)) $(B)/tests/lists.o $(B)/libshell.a $(B)/libvlmsh.a
	$$(call say,LINK) $$(LINK) -o $$@ $$^ $$(LIBS) -lcmocka
endef
tests_in = $(foreach t,$(ROOM_BIN),$(if $(filter $(1),$(dir $(t))),$(t)))
$(foreach d,$(sort $(dir $(ROOM_BIN))),$(eval $(call TEST_ROOM,$(d:%/=%),$(call tests_in,$(d)),$(patsubst $(B)/%,%.c,$(call tests_in,$(d))))))

# --- packages: installed only if missing, after a message --------------------------------------------
deps-run:  ; @tools/packages.sh $(PACKAGES)
deps-test: ; @tools/packages.sh $(TEST_PACKAGES)
deps-lint: ; @tools/packages.sh $(PACKAGES) $(LINT_PACKAGES)
deps-real: ; @tools/packages.sh $(REAL_PACKAGES)
deps-bundle: ; @tools/packages.sh $(BUNDLE_PACKAGES)
deps-fuzz: ; @tools/packages.sh $(PACKAGES) $(FUZZ_PACKAGES)
deps-ci:   ; @tools/packages.sh $(sort $(TEST_PACKAGES) $(LINT_PACKAGES))

run: deps-run
	@$(MAKE) --no-print-directory $(JOBS) vlmsh
	./vlmsh

# tests/cuda_ptx/: its own tests, the kernels' PTX, and the tests that run it.
NVCC_HERE   := $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
NVCC_OF     := $(if $(NVCC_HERE),$(shell $(NVCC_HERE) --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p'))
NVCC        := $(if $(filter-out 7.% 8.% 9.% 10.% 11.%,$(NVCC_OF)),$(NVCC_HERE))
NO_NVCC     := $(if $(NVCC_HERE),nvcc $(NVCC_OF) ($(NVCC_HERE)) is too old,nvcc is not here)
PTX         := $(if $(NVCC),$(patsubst kernels/%.cu,build/ptx/%.ptx,$(wildcard kernels/*.cu)))
PTX_CHECKS  := build/host/cuda_ptx/checks
PTX_TESTS   := $(if $(filter 1,$(SAN)),,$(PTX_CHECKS) tests/cuda_ptx/kernels.sh)

# Large reference files are compressed in the repository. Weights are unpacked beside their config.json.
# Those of the demo are unpacked when the program is built.
PACKED      := $(wildcard tests/goldens/*/*.xz tests/goldens/*/*/*.xz)
DEMO        := $(patsubst %.xz,%,$(wildcard demo/*/*.xz demo/*/*/*.xz))
WEIGHTS     := $(patsubst %.xz,%,$(wildcard tests/goldens/*/model*.xz)) $(DEMO)
UNPACKED    := $(WEIGHTS) $(patsubst tests/goldens/%.xz,build/goldens/%,$(filter-out $(WEIGHTS:%=%.xz),$(PACKED)))
$(B)/vlmsh: | $(DEMO)
goldens: $(UNPACKED)
unpack       = @mkdir -p $(@D) && xz -dc $< >$@.part && mv $@.part $@
build/goldens/%: tests/goldens/%.xz
	$(unpack)
$(WEIGHTS): %: %.xz
	$(unpack)

# --- tests -------------------------------------------------------------------------------------------
test: deps-test
	@$(MAKE) --no-print-directory $(JOBS) check SAN=$(SAN)
check: $(B)/vlmsh goldens $(UNIT_BIN) $(CUDA_HOST_LIBRARY) $(NCCL_HOST_LIBRARY) $(if $(filter 1,$(SAN)),,cuda-check $(PTX_CHECKS) $(PTX) $(BENCH_OBJ))
	@VLMSH=$(B)/vlmsh tools/man.sh --check
	@VLMSH="$(CURDIR)/$(B)/vlmsh" VLMSH_CUDA="$(CURDIR)/$(CUDA_HOST_LIBRARY)" \
	  tests/run.sh $(UNIT_BIN) $(SCRIPT_TESTS) $(PTX_TESTS)

# Tests that take under a minute on two cores: the unit tests except slow ones and those of GPU kernels, a
# conversation, and the links of the documents.
FAST_TESTS := $(filter-out $(B)/tests/cuda/% $(addprefix $(B)/tests/,$(filter-out %.sh,$(file <tests/slow))),$(UNIT_BIN)) \
              tests/commands/turns.sh tests/docs/links.sh
check-fast: $(B)/vlmsh goldens $(filter $(B)/%,$(FAST_TESTS))
	@VLMSH="$(CURDIR)/$(B)/vlmsh" tests/run.sh $(FAST_TESTS)

# Runs the tests whose numbers depend on the instruction set under each set below the CPU's best (`make
# test` uses the best). Leaves out tests that try all sets themselves, forecasts, and long comparisons
# with wide tolerances.
# ISA_TESTS=all: runs all tests, and under the best one too.
ISA_ROOMS := methods model model/families engine probes talk eval jobs train adapter
ISA_TESTS := $(filter-out $(addprefix $(B)/tests/core/,talk/lookahead model/families/goldens model/linear_rows model/gram model/attend \
               train/plan model/families/downsample model/families/limits),$(filter $(foreach r,$(ISA_ROOMS),$(patsubst %.c,$(B)/%,$(wildcard tests/core/$(r)/*.c))),$(UNIT_BIN))) \
             $(addprefix $(B)/tests/sessions/,replay resume) $(addprefix tests/commands/,arithmetic.sh eval.sh turns.sh weights.sh)
ISA_RUN    = $(if $(filter all,$(ISA_TESTS)),$(UNIT_BIN) $(SCRIPT_TESTS) $(PTX_TESTS),$(ISA_TESTS))
test-isas: deps-test
	@$(MAKE) --no-print-directory $(JOBS) check-isas
check-isas: $(B)/vlmsh goldens $(filter $(B)/%,$(ISA_RUN)) $(CUDA_HOST_LIBRARY) $(NCCL_HOST_LIBRARY)
	@sets=$$(tools/isas.sh $(B)/vlmsh $(filter all,$(ISA_TESTS))) && for isa in $$sets; do echo "VLMSH_ISA=$$isa" && VLMSH_ISA=$$isa \
	  VLMSH="$(CURDIR)/$(B)/vlmsh" VLMSH_CUDA="$(CURDIR)/$(CUDA_HOST_LIBRARY)" tests/run.sh $(ISA_RUN) || exit 1; done

# Tests the shell, its worker and its jobs under ThreadSanitizer. Only one thread computes, because TSan does not
# know OpenMP's barriers. Tests whose signals interrupt a blocking call are left out: TSan delays signals.
THREAD_TESTS := $(addprefix tests/commands/,turns.sh session.sh) $(addprefix tests/tui/,drafts.sh events.sh frictions.sh maps.sh toggles.sh waits.sh) \
                $(addprefix $(B)/tests/sessions/,jobs manage replay store)
test-threads: deps-test
	@$(MAKE) --no-print-directory $(JOBS) vlmsh
	@$(MAKE) --no-print-directory $(JOBS) check-threads SAN=thread
check-threads: $(B)/vlmsh goldens $(filter $(B)/%,$(THREAD_TESTS))
	@OMP_NUM_THREADS=1 TSAN_OPTIONS=halt_on_error=1 VLMSH="$(CURDIR)/$(B)/vlmsh" tests/run.sh $(THREAD_TESTS)

# Runs the fuzz targets on a few files each while one allocation fails: each of the first ALLOCATIONS in turn.
ALLOCATIONS ?= 2000
READERS     := $(FUZZERS:tests/fuzz/%.c=%)
$(READERS:%=$(B)/tests/fuzz/%.o): TEST_MAIN = -DLLVMFuzzerTestOneInput=$(*F)_reader \
    -DLLVMFuzzerInitialize=$(*F)_initialize -Dabort=give_up
$(B)/tests/allocations/main.o: TEST_MAIN = -DREADERS='$(foreach r,$(READERS),X($(r)))'
$(B)/tests/allocations/main.o: $(B)/tests/allocations/readers
$(B)/tests/allocations/readers: FORCE
	@mkdir -p $(@D); echo $(READERS) | cmp -s - $@ || echo $(READERS) >$@
FORCE:
$(B)/tests/allocations/main: $(B)/tests/allocations/main.o $(READERS:%=$(B)/tests/fuzz/%.o) $(B)/tests/lists.o $(B)/libshell.a $(B)/libvlmsh.a
	$(call say,LINK) $(LINK) -o $@ $^ $(LIBS)
test-allocations: deps-test
	@$(MAKE) --no-print-directory $(JOBS) check-allocations
check-allocations: $(B)/tests/allocations/main goldens
	@tests/allocations/run.sh $< $(ALLOCATIONS) $(READERS)
# Runs the fuzz targets once on each file of the fuzzers' corpora, under ASan + UBSan. Needs no clang.
test-readers: deps-test
	@$(MAKE) --no-print-directory $(JOBS) check-allocations SAN=1 ALLOCATIONS=0

# Ten thousand random steps on each kind of terminal take about an hour. WALK_SEED=N repeats a seed
# that failed.
test-screen-walk: vlmsh
	@VLMSH="$(CURDIR)/vlmsh" WALK_STEPS=$${WALK_STEPS:-10000} WALK_SEED=$${WALK_SEED:-random} bash tests/tui/walk.sh

# Jobs on two hosts (network namespaces) and through a real Slurm. Needs root, slurm-wlm and munge; takes a
# quarter of an hour.
test-cluster: vlmsh
	@VLMSH="$(CURDIR)/vlmsh" bash tests/cluster/slurm.sh
	@VLMSH="$(CURDIR)/vlmsh" bash tests/cluster/disk.sh
	@VLMSH="$(CURDIR)/vlmsh" bash tests/cluster/memory.sh
	@VLMSH="$(CURDIR)/vlmsh" bash tests/cluster/kills.sh

bench: vlmsh $(UNPACKED) $(BENCH_BIN)
	@tests/bench/run.sh $(B)

# --- GPUs: a separate library, which the program opens at run time (core/engine/device.h) -------------------
# kernels/*.cu are compiled twice: by nvcc for GPUs, and by g++ with tests/cuda_host/ for tests on any
# machine. `make test` does both where nvcc is found.
CUDA_ARCH   ?= 90
CUDA_SRC    := $(wildcard kernels/*.cu)
CUDA_OBJ     = $(CUDA_SRC:kernels/%.cu=build/cuda/$(1)/%.o)
CUDA_CXX    := -std=c++20 -DVERSION='"$(VERSION)"' -I.
CUDA_WARN   := -Wall,-Wextra,-Wno-unused-parameter,-Wno-missing-field-initializers
comma       := ,
CUDA_SETS   := $(CUDA_ARCH) all
# `all`: the architectures of the list that this nvcc supports (100 from CUDA 12.8), and PTX of the newest for
# future GPUs.
CUDA_KNOWN  := $(if $(NVCC),$(shell $(NVCC) --list-gpu-arch))
CUDA_ALL    := $(patsubst compute_%,%,$(filter $(addprefix compute_,80 89 90 100),$(CUDA_KNOWN)))
CUDA_CODE    = $(if $(filter all,$(1)),\
  $(foreach a,$(CUDA_ALL),-gencode arch=compute_$(a)$(comma)code=sm_$(a)) \
  -gencode arch=compute_$(lastword $(CUDA_ALL))$(comma)code=compute_$(lastword $(CUDA_ALL)),\
  -gencode arch=compute_$(1)$(comma)code=sm_$(1))

cuda: build/cuda/libvlmsh_cuda.so
build/cuda/libvlmsh_cuda.so: build/cuda/$(CUDA_ARCH)/libvlmsh_cuda.so
	@cp $< $@
cuda-all: build/cuda/all/libvlmsh_cuda.so
	@cp $< build/cuda/libvlmsh_cuda.so
# Without nvcc, `make cuda` names the missing package, and the tests print one line.
ifeq ($(NVCC),)
build/cuda/%/libvlmsh_cuda.so:
	@echo '$(NO_NVCC): install the CUDA toolkit, 12 or 13, or put its bin folder into PATH' >&2; exit 1
cuda-check:
	@echo '$(NO_NVCC): the kernels for GPUs are compiled for the host only'
else
cuda-check: build/cuda/$(CUDA_ARCH)/libvlmsh_cuda.so
define CUDA_RULE
build/cuda/$(1)/%.o: kernels/%.cu
	@mkdir -p $$(@D)
	$$(call say,NVCC) $$(NVCC) $$(CUDA_CXX) -O3 -lineinfo $(call CUDA_CODE,$(1)) $$(if $$(filter 1,$$(WERROR)),-Werror all-warnings) \
	  -Xcompiler -fPIC,-fvisibility=hidden,$$(CUDA_WARN) -MD -MP -c -o $$@ $$<
build/cuda/$(1)/libvlmsh_cuda.so: $(call CUDA_OBJ,$(1))
	$$(call say,NVCC) $$(NVCC) -shared -o $$@ $$^ -lcublasLt
endef
$(foreach s,$(CUDA_SETS),$(eval $(call CUDA_RULE,$(s))))
endif

# The kernels compiled for the host.
CUDA_HOST_OBJ := $(CUDA_SRC:%.cu=build/host/cuda_host/%.o) \
                 $(patsubst tests/%.cpp,build/host/%.o,$(wildcard tests/cuda_host/*.cpp tests/cuda_ptx/*.cpp))
CUDA_HOST_CXX := g++ -x c++ $(CUDA_CXX) -Itests/cuda_host -O2 -g -fPIC -fvisibility=hidden -MMD -MP \
                 $(subst $(comma), ,$(CUDA_WARN)) $(if $(filter 1,$(WERROR)),-Werror)
build/host/cuda_host/kernels/%.o: kernels/%.cu
	@mkdir -p $(@D)
	$(call say,CXX) $(CUDA_HOST_CXX) -c -o $@ $<
build/host/cuda_host/%.o: tests/cuda_host/%.cpp
	@mkdir -p $(@D)
	$(call say,CXX) $(CUDA_HOST_CXX) -c -o $@ $<
build/host/cuda_ptx/%.o: tests/cuda_ptx/%.cpp
	@mkdir -p $(@D)
	$(call say,CXX) $(CUDA_HOST_CXX) -O3 -c -o $@ $<
$(CUDA_HOST_LIBRARY): $(CUDA_HOST_OBJ)
	$(call say,LINK) g++ -shared -Wl,-z,defs -o $@ $^
$(NCCL_HOST_LIBRARY): tests/nccl_host/nccl.c
	@mkdir -p $(@D)
	$(call say,LINK) $(CC) -std=c17 -D_GNU_SOURCE -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) -O2 -g -fPIC -fvisibility=hidden -shared -o $@ $< -lrt
$(PTX_CHECKS): $(filter-out build/host/cuda_host/kernels/%,$(CUDA_HOST_OBJ)) build/host/cuda_ptx/test/checks.o
	$(call say,LINK) g++ -o $@ $^
build/ptx/%.ptx: kernels/%.cu
	@mkdir -p $(@D)
	$(call say,NVCC) $(NVCC) $(CUDA_CXX) -O3 -lineinfo -ptx -arch=compute_90 -MD -MP -MF $(@:.ptx=.d) -o $@ $<

GPU_PROGRAMS := $(patsubst %.c,$(B)/%,$(wildcard tests/cuda/*.c))
# Tests of the emulated GPU only: `make test` runs the program, `make test-ptx` the scripts too.
GPU_PLAYED   := $(B)/tests/cuda/limits tests/cuda/dry.sh tests/cuda/launches.sh
# SANITIZER=memcheck, racecheck, initcheck or synccheck: the suites that run every kernel on small
# shapes, under that tool of compute-sanitizer, which makes them ten to a hundred times slower.
SANITIZER   ?=
# The CPU's suites that tests/cuda/*.sh run if a GPU's memory cannot be read directly.
GPU_SUITES  := $(addprefix $(B)/tests/,$(addprefix core/model/families/,goldens latent mistral3 moonvit) core/methods/norm_align core/methods/ffn_approx core/methods/calibration core/talk/lookahead \
                 $(addprefix core/probes/,attention calibrations contribution kl layers live norms))
GPU_TESTS    = $(filter-out $(GPU_PLAYED),$(GPU_PROGRAMS) $(if $(SANITIZER),,$(wildcard tests/cuda/*.sh)))
test-gpu: deps-test
	@$(MAKE) --no-print-directory $(JOBS) check-gpu
check-gpu: cuda $(B)/vlmsh $(UNPACKED) $(GPU_PROGRAMS) $(if $(SANITIZER),,$(GPU_SUITES))
	@if tools/gpu.sh; then VLMSH="$(CURDIR)/$(B)/vlmsh" VLMSH_CUDA="$(CURDIR)/build/cuda/libvlmsh_cuda.so" TEST_JOBS=1 \
	  TEST_UNDER="$(if $(SANITIZER),tools/sanitize.sh $(SANITIZER))" $(if $(SANITIZER),TEST_TIMEOUT=7200) tests/run.sh $(GPU_TESTS); fi
# Runs the GPU tests on the host, which executes the kernels' PTX (tests/cuda_ptx/); `make test`
# covers most of it.
test-ptx: $(B)/vlmsh $(UNPACKED) $(CUDA_HOST_LIBRARY) $(PTX_CHECKS) $(PTX) $(GPU_PROGRAMS) $(UNIT_BIN)
	@$(if $(NVCC),VLMSH="$(CURDIR)/$(B)/vlmsh" VLMSH_CUDA="$(CURDIR)/$(CUDA_HOST_LIBRARY)" TEST_PTX=all \
	  TEST_TIMEOUT=7200 tests/run.sh $(PTX_CHECKS) tests/cuda_ptx/kernels.sh,\
	  echo '$(NO_NVCC): what it makes of the kernels is not run')
# Runs all parts of tests/bench/gpu/run.sh, or those that GPU_PARTS names.
GPU_PARTS   ?=
GPU_BENCHES := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/gpu/*.c))
bench-gpu: deps-test
	@$(MAKE) --no-print-directory $(JOBS) measure-gpu
measure-gpu: cuda $(B)/vlmsh $(GPU_BENCHES)
	@if tools/gpu.sh; then VLMSH_CUDA="$(CURDIR)/build/cuda/libvlmsh_cuda.so" \
	  tests/bench/gpu/run.sh $(B) $(GPU_PARTS); fi

# Packs the GPU tests and benchmarks for a machine without compilers, as build/gpu-bundle.tar.xz
# (tools/gpu_bundle.sh).
gpu-bundle: deps-bundle
	@$(MAKE) --no-print-directory $(JOBS) pack-gpu-bundle
pack-gpu-bundle: cuda vlmsh $(UNPACKED) $(GPU_PROGRAMS) $(GPU_SUITES) $(GPU_BENCHES)
	@tools/gpu_bundle.sh build/gpu-bundle.tar.xz $(B)/vlmsh $(GPU_PROGRAMS) $(GPU_SUITES) $(GPU_BENCHES)

# --- docs/checkup/: the check-ups of two small models (`make real` first) -----------------------------
CHECKUP_WORK := build/checkup
checkup: vlmsh
	@mkdir -p $(CHECKUP_WORK)
	./vlmsh new --encoder demo/model --decoder $(REAL) --merge 4 --seed 1 $(CHECKUP_WORK)/seeing-model --once
	./vlmsh checkup demo/model --again --out $(CHECKUP_WORK)/demo
	./vlmsh checkup $(CHECKUP_WORK)/seeing-model --adapter demo/seeing/adapter --again --out $(CHECKUP_WORK)/seeing
	for m in demo seeing; do for e in md html; do cp $(CHECKUP_WORK)/$$m/checkup.$$e docs/checkup/$$m.$$e; done; done

# --- the demo model: about two hours; resumes after an interruption -----------------------
DEMO_WORK ?= /var/tmp/vlmsh-demo
demo: vlmsh
	@mkdir -p $(DEMO_WORK)
	./vlmsh --db $(DEMO_WORK)/jobs.db -f demo/make.vlmsh -D WORK=$(DEMO_WORK)
	@rm -rf demo/model && mkdir demo/model
	find $(DEMO_WORK)/stage2 -maxdepth 1 -type f ! -name training.json -exec cp -t demo/model {} +
	@rm -rf demo/pictures && mkdir demo/pictures
	for i in 0 1 2 3 4 5 6 7; do cp $(DEMO_WORK)/show/pictures/00000$$i.png demo/pictures/scene-$$i.png; done
	./vlmsh --db $(DEMO_WORK)/jobs.db -f demo/methods.vlmsh -D WORK=$(DEMO_WORK)
	@mkdir -p demo/model/methods/adapter
	cp $(DEMO_WORK)/ffn.safetensors demo/model/methods
	cp $(DEMO_WORK)/adapter/extra.safetensors $(DEMO_WORK)/adapter/training.json demo/model/methods/adapter
	xz -9ek demo/model/model.safetensors

# --- the screens of the documents, as text and as pictures ---------------------------------------------
DEMO_MODEL ?= demo/model
FONT ?= /usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf
$(B)/tools/shot: $(B)/tools/shot.o $(B)/libshell.a $(B)/libvlmsh.a
	$(call say,LINK) $(LINK) -o $@ $^ $(LIBS)
screenshots: vlmsh $(B)/tools/shot
	@tools/packages.sh tmux fonts-dejavu-core
	tools/screenshots.sh ./vlmsh $(B)/tools/shot $(FONT) $(DEMO_MODEL) demo/screens

# --- a real model, for chats and for comparing with transformers (tests/real) -----------------------------
REAL := build/smollm2.gguf
real: $(REAL)
$(REAL):
	@$(MAKE) --no-print-directory deps-real
	@tools/real.sh $@
test-real: vlmsh $(REAL)
	@python3 tests/real/ask.py ./vlmsh $(REAL)

# --- fuzzing: libFuzzer needs clang; everything is compiled again with its coverage -------------------
FUZZ_SECONDS ?= 600
FUZZ_SEED ?= 0
FUZZ_FLAGS := -std=c17 -D_GNU_SOURCE -DVERSION='"$(VERSION)"' -I. -gline-tables-only -O1 -w -pthread -MMD -MP \
              -fsanitize=address,undefined -fno-sanitize-recover=undefined
FUZZ_BIN := $(FUZZERS:tests/fuzz/%.c=build/fuzz/bin/%)
FUZZ_OBJ := $(patsubst %.c,build/fuzz/%.o,$(CORE) $(KERNELS) $(PLAIN) $(SHELL_SRC))
fuzz: deps-fuzz
	@$(MAKE) --no-print-directory $(JOBS) fuzz-run
fuzz-run: $(FUZZ_BIN) goldens
	@tests/fuzz/run.sh $(FUZZ_SECONDS) $(FUZZ_SEED) $(FUZZ_BIN)
build/fuzz/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CLANG) clang $(FUZZ_FLAGS) $(if $(filter $(KERNELS),$<),-DISA=base -DISA_base=1) -fsanitize=fuzzer-no-link -c -o $@ $<
build/fuzz/libfuzz.a: $(FUZZ_OBJ)
	@rm -f $@; ar rcs $@ $^
build/fuzz/bin/%: tests/fuzz/%.c tests/lists.c build/fuzz/libfuzz.a
	@mkdir -p $(@D)
	$(call say,CLANG) clang $(FUZZ_FLAGS) -fsanitize=fuzzer -o $@ $(filter %.c,$^) build/fuzz/libfuzz.a $(LIBS) -lgomp

# --- lint --------------------------------------------------------------------------------------------
FOLDERS := kernels core sessions commands tui tests tools
C_FILES  = $(shell find $(FOLDERS) -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp')
# clang-tidy skips the tests: it does not know that cmocka's assertions end them.
TIDY     = $(patsubst %.c,build/lint/%.ok,$(filter-out tests/%,$(filter %.c,$(C_FILES))))
lint: deps-lint
	@$(MAKE) --no-print-directory $(JOBS) lint-run
lint-run: lint-fast rooms $(TIDY)
# Rooms of core/ depend on each other in one direction; commands/ and tui/ see its public headers only.
rooms: $(B)/vlmsh
	@tools/rooms.sh $(B)/libvlmsh.a
lint-fast: size words
	@echo '  clang-format, cppcheck'
	@clang-format --dry-run -Werror $(C_FILES)
	@# NULL, a pointer to void, may end a list of variadic texts (C17 7.16.1.1).
	@cppcheck --quiet --error-exitcode=1 --std=c11 --language=c -I. -D_GNU_SOURCE -DISA=base \
	  --enable=warning,performance,portability --inline-suppr --library=tools/cppcheck.xml \
	  --suppress=varFuncNullUB \
	  -i tests/cuda_host -i tests/cuda_ptx $(FOLDERS)
# Finds words and constructions that readers stumbled over, in comments, messages and documents.
words:
	@python3 tools/words.py $(filter-out tests/real/% core/eval/sample_text.c,$(C_FILES)) \
	  $(wildcard docs/*.md tools/*.sh tests/*/*.sh) .ci/run README.md CONTRIBUTING.md Makefile vlmsh.1
lines:
	@tools/lines.sh
# Limits the size of a clone, because weights and pictures grow unnoticed.
size:
	@if [ -e .git ]; then git ls-files -z | du -cbL --files0-from=- | tail -1 | awk '$$1 > 38 * 2^20 { \
	  print "tracked files: " $$1 " bytes, more than 38 MiB"; exit 1 }'; fi
# clang-tidy takes minutes, so it checks only files changed since its last run, or all of them if a header changed.
# It explores TIDY_STEPS steps of a function's paths instead of 225000: with 50000, the longest searches take a
# quarter of the time. CI explores 10000.
TIDY_STEPS ?= 50000
build/lint/%.ok: %.c .clang-tidy $(filter %.h,$(C_FILES))
	@mkdir -p $(@D)
	$(call say,TIDY) clang-tidy --quiet $< -- -std=c17 -D_GNU_SOURCE -DVERSION='""' -I. -fopenmp \
	  -Xclang -analyzer-config -Xclang max-nodes=$(TIDY_STEPS) $(if $(filter $(KERNELS),$<),-DISA=base -DISA_base=1) >$@.log 2>&1 || { cat $@.log; exit 1; }
	@touch $@
man: vlmsh
	tools/man.sh
format:
	clang-format -i $(C_FILES)

SHARE := $(DESTDIR)$(PREFIX)/share/vlmsh
# Where each shell looks for completions, below PREFIX/share; the shell's name comes first.
COMPLETIONS := bash-completion/completions/vlmsh zsh/site-functions/_vlmsh fish/vendor_completions.d/vlmsh.fish
install: vlmsh
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 $(SHARE)/demo/model/methods/adapter $(SHARE)/demo/pictures
	install -m 755 vlmsh $(DESTDIR)$(PREFIX)/bin/vlmsh
	if [ -e build/cuda/libvlmsh_cuda.so ]; then install -D -m 755 build/cuda/libvlmsh_cuda.so \
	  $(DESTDIR)$(PREFIX)/lib/vlmsh/libvlmsh_cuda.so; fi
	install -m 644 vlmsh.1 $(DESTDIR)$(PREFIX)/share/man/man1/vlmsh.1
	for s in $(COMPLETIONS); do install -d $(DESTDIR)$(PREFIX)/share/$${s%/*} && \
	  ./vlmsh help --completion $${s%%[-/]*} >$(DESTDIR)$(PREFIX)/share/$$s || exit 1; done
	cd demo/model && find . -type f ! -name '*.xz' -exec install -m 644 {} $(abspath $(SHARE))/demo/model/{} \;
	install -m 644 demo/pictures/* $(SHARE)/demo/pictures
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/vlmsh $(DESTDIR)$(PREFIX)/share/man/man1/vlmsh.1 \
	  $(DESTDIR)$(PREFIX)/lib/vlmsh/libvlmsh_cuda.so $(COMPLETIONS:%=$(DESTDIR)$(PREFIX)/share/%)
	rm -rf $(SHARE)
clean:
	rm -rf build vlmsh $(WEIGHTS)

-include $(shell find build -name '*.d' 2>/dev/null)
