# Brigade: library, program, tests.
#
#   make mnist     install what is missing, build, train the pipelined digit network
#   make check     install what is missing, build, run every test
#
#   make           library and program into $(BUILD)
#   make MINIMAL=1 the core without companions; links only libc, libm and threads
#   make install   PREFIX=/usr/local LIBDIR=$(PREFIX)/lib DESTDIR= PYTHONDIR=(where this python3 looks for packages)
#   make deb       Debian packages, in $(BUILD)/deb; check-deb installs them into a fresh Debian system and uses them there
#   make man       the manual pages, $(BUILD)/man
#   make reference every function, type and constant as HTML, $(BUILD)/reference
#   make site      documents, reference, pictures and a sample report as pages that need no server, $(BUILD)/site
#   make since     record the release of new symbols of the headers in abi/since.txt
#   make tables    update the tables of options in the documents
#   make bindings  update the tables of the headers for Python and bg_struct_bytes
#   make abi       list changes of the binary interface since the baseline; abi-baseline makes it the baseline
#   make format    clang-format every source; format-check only checks
#   make pictures  redraw docs/schedules/*.svg
#
# Variables: CC, BUILD (folder), SANITIZE=address,undefined|thread, OPT (optimization flags), ARGS (for `make mnist`).

CC ?= gcc
MINIMAL ?=
BUILD ?= $(if $(MINIMAL),build-minimal,build)
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
DESTDIR ?=
# Debian's python3 searches /usr/lib/python3/dist-packages, and below /usr/local a folder of its version.
PYTHONDIR ?= $(PREFIX)/lib/$(if $(filter /usr,$(PREFIX)),python3,$(or $(shell /usr/bin/python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])' 2>/dev/null),python3))/dist-packages
OPT ?= -O2 -g
SANITIZE ?=
ARGS ?=

VERSION := $(shell cat VERSION)
SOVERSION := 1
# The first release with this SONAME, which is the version of the library's symbols.
SYMBOL_VERSION := BRIGADE_0.2
# Identifies the sources of the library: cached plans are valid for one build.
BUILD_ID := $(shell cat Makefile $(sort $(wildcard include/brigade/*.h src/*/*.[ch] src/*/*.def src/kernels/*/*.[ch])) | cksum | tr ' ' '-')

# Rooms of the core (tests/rooms.txt), which need no package; the other rooms are companions.
CORE_ROOMS := core kernels device transport graph ops nn transform schedule options plan runtime
PACKAGES := hwloc jansson yaml-0.1 zlib libpng libprotobuf-c
# Only the headers of these are needed, because src/data/mnist_download.c loads the library at run time.
LOADED_PACKAGES := libcurl
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes
# Float results must not depend on a compiler's choice of contractions, so fused multiply-adds are written out.
CFLAGS_ALL = -std=c11 -D_POSIX_C_SOURCE=200809L $(OPT) $(WARNINGS) -ffp-contract=off -fno-math-errno -fPIC -fvisibility=hidden -pthread \
	-Iinclude -Isrc -I$(BUILD)/gen -DBGI_VERSION='"$(VERSION)"' -DBGI_SHARE='"$(PREFIX)/share/brigade"' -DBGI_LIBRARIES='"$(LIBDIR)"' -DBGI_MPI='"$(MPIS)"' $(PACKAGE_CFLAGS) $(CFLAGS)
LDLIBS_ALL = $(PACKAGE_LIBS) -lm -pthread $(if $(MINIMAL),,-ldl) $(LDLIBS)
# Tables for stack unwinding are a tenth of the library, and only sanitizers read them; debuggers use -g.
ifeq ($(SANITIZE),)
CFLAGS_ALL += -fno-asynchronous-unwind-tables -fno-unwind-tables
else
CFLAGS_ALL += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=undefined
# In sanitizer builds Brigade verifies the result of each pass.
CFLAGS_ALL += -DBGI_VERIFY_PASSES
LDFLAGS_ALL += -fsanitize=$(SANITIZE)
endif
LDFLAGS_ALL += $(LDFLAGS)
# Hundreds of test programs contain the library. They keep the names of functions but no other debug information, which
# would take gigabytes; `make TEST_LDFLAGS= tests` links it in. A sanitizer makes the library many times larger, so test
# programs then share one library that exports all symbols.
ifeq ($(SANITIZE),)
TEST_LIBRARY = $(STATIC)
TEST_LDFLAGS ?= -Wl,--strip-debug
else
TEST_LIBRARY = $(BUILD)/libbrigade_tests.so
TEST_LDFLAGS ?= -Wl,-rpath,'$$ORIGIN/../..'
CFLAGS_ALL += -fvisibility=default
endif

# The commands of the README build with all processors, unless make is told how many jobs to run.
JOBS = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1))

# Targets that must work before the dependencies are installed do not ask pkg-config.
ifeq ($(MINIMAL)$(filter mnist check check-all deps clean format format-check,$(MAKECMDGOALS)),)
PACKAGE_CFLAGS := $(shell pkg-config --cflags $(PACKAGES) $(LOADED_PACKAGES))
PACKAGE_LIBS := $(shell pkg-config --libs $(PACKAGES))
endif

LIBRARY_SOURCES := $(filter-out src/cli/% src/mpi/%,$(wildcard src/*/*.c src/kernels/*/*.c))
ifneq ($(MINIMAL),)
LIBRARY_SOURCES := $(filter $(CORE_ROOMS:%=src/%/%),$(LIBRARY_SOURCES))
endif
CLI_SOURCES := $(wildcard src/cli/*.c)
SUPPORT_SOURCES := $(wildcard tests/support/*.c)
# Tests that BRIGADE_TEST_EXCLUDE leaves out (tests/run.sh) are not built either.
to_run = $(shell printf '%s\n' $(1) | grep -v -E -- "$${BRIGADE_TEST_EXCLUDE:-^$$}")
TEST_SOURCES := $(patsubst %,tests/%.c,$(call to_run,$(patsubst tests/%.c,%,$(wildcard tests/*/test_*.c))))
FUZZ_SOURCES := $(wildcard tests/fuzz/fuzz_*.c)
BENCH_SOURCES := $(filter-out bench/mpi_%,$(wildcard bench/*.c))
EXAMPLE_SOURCES := $(filter-out examples/mpi_%,$(wildcard examples/*.c examples/tutorial/*.c))

# Public headers, except those of the companions for MPI, whose functions are in separate libraries. The core has those
# of core.h.
LIBRARY_HEADERS := $(filter-out %/mpi.h,$(wildcard include/brigade/*.h))
ifneq ($(MINIMAL),)
LIBRARY_HEADERS := include/brigade/core.h $(shell sed -n 's|^.include <\(brigade/.*\)>|include/\1|p' include/brigade/core.h)
endif
LIBRARY_OBJECTS := $(LIBRARY_SOURCES:%.c=$(BUILD)/%.o)
# The messages of ONNX files in C, which protobuf-c generates from src/onnx/format.proto.
FORMAT := $(BUILD)/gen/onnx/format.pb-c
ifeq ($(MINIMAL),)
LIBRARY_OBJECTS += $(FORMAT).o $(BUILD)/gen/report_page.o
endif
# The text that `brigade gpt` trains on by default.
TEXT_SOURCES := README.md CHANGELOG.md $(wildcard docs/*.md) include/brigade.h $(wildcard include/brigade/*.h)
CLI_OBJECTS := $(CLI_SOURCES:%.c=$(BUILD)/%.o) $(BUILD)/gen/gpt_own_text.o
SUPPORT_OBJECTS := $(SUPPORT_SOURCES:%.c=$(BUILD)/%.o)
COPIED_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/copied/test_%,$(wildcard tests/copied/*.c)))
RANKS_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/ranks/test_%,$(wildcard tests/ranks/*.c)))
TESTS := $(TEST_SOURCES:%.c=$(BUILD)/%)
BENCHES := $(BENCH_SOURCES:%.c=$(BUILD)/%)
EXAMPLES := $(EXAMPLE_SOURCES:%.c=$(BUILD)/%)
REPLAYS := $(FUZZ_SOURCES:tests/fuzz/fuzz_%.c=$(BUILD)/tests/fuzz/replay_%)
FUZZERS := $(FUZZ_SOURCES:tests/fuzz/%.c=$(BUILD)/fuzz/%)

# Tests preload it into the program; not with sanitizers, which replace the allocator.
PRELOADS := $(if $(SANITIZE),,$(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/preload/*.c)))

STATIC := $(BUILD)/libbrigade.a
SHARED := $(BUILD)/libbrigade.so.$(SOVERSION)
PROGRAM := $(BUILD)/brigade
MPIS := $(foreach mpi,openmpi mpich,$(if $(shell command -v mpicc.$(mpi) 2>/dev/null),$(mpi)))
MPI_LIBRARIES := $(MPIS:%=$(BUILD)/libbrigade_mpi_%.so)
# Examples for each MPI, in C and, if that MPI has a Fortran compiler, in Fortran. They are not built with sanitizers,
# whose runtime belongs to $(CC), not to mpicc.
FORTRAN_MPIS := $(foreach mpi,$(MPIS),$(if $(shell command -v mpif90.$(mpi) 2>/dev/null),$(mpi)))
MPI_EXAMPLES := $(if $(SANITIZE),,$(MPIS:%=$(BUILD)/examples/mpi_surrogate_c.%) $(FORTRAN_MPIS:%=$(BUILD)/examples/mpi_surrogate_f90.%))

# Makes the tables of docs/ops.md.
OPS_PAGE := $(BUILD)/tests/ops/index_page
MPI_PROBES := $(if $(SANITIZE),,$(MPIS:%=$(BUILD)/tests/cli/mpi_late.%))
MPI_BENCHES := $(if $(SANITIZE),,$(foreach mpi,$(MPIS),$(BUILD)/bench/mpi_allreduce.$(mpi) $(BUILD)/bench/mpi_training.$(mpi) $(BUILD)/bench/mpi_memory.$(mpi) $(BUILD)/bench/mpi_predict.$(mpi)))

.PHONY: always all mnist check check-all check-hosts check-ranks check-valgrind check-aarch64 check-speed tests benches examples deps install uninstall clean format format-check fuzz bench-deps bench-mnist bench-gpt bench-ops bench-resnet bench-models bench-onnx bench-serve bench-generate bench-mpi bench-mpi-memory bench-checkpoint bench-all pictures man reference site since tables bindings abi abi-baseline
.PHONY: deb check-deb
.DELETE_ON_ERROR:
.SECONDARY:

# Without companions there is no program, so an example shows that the core works.
all: $(STATIC) $(SHARED) $(if $(MINIMAL),$(BUILD)/examples/core_digits,$(PROGRAM) $(MPI_LIBRARIES))

# ---- the two commands ----

# The program looks for MNIST in $BRIGADE_DATA and data. If both are missing, `make mnist` passes the folder that
# tools/find_data.sh finds, so the printed command shows it.
MNIST_DATA = $(if $(BRIGADE_DATA),,$(addprefix --data-dir ,$(filter-out data,$(shell tools/find_data.sh))))

mnist: deps
	@$(MAKE) --no-print-directory -s $(JOBS) all
	$(PROGRAM) mnist $(if $(MNIST_DATA),$(MNIST_DATA) )$(ARGS)

check: deps
	@$(MAKE) --no-print-directory -s $(JOBS) all tests
	@tests/run.sh $(BUILD)

check-all: deps
	@$(MAKE) --no-print-directory -s $(JOBS) all tests
	@BRIGADE_TEST_ALL=1 tests/run.sh $(BUILD)

# Ranks on several hosts, which are network namespaces; needs root.
check-hosts: all $(BUILD)/tests/hosts/relay
	@BRIGADE_BUILD=$(BUILD) tests/hosts/run.sh

check-ranks: all
	@BRIGADE_BUILD=$(BUILD) tests/ranks/matrix.sh

check-valgrind: all
	@tools/valgrind_ranks.sh $(BUILD)

# Compares the instructions of each kernel family with the recorded numbers.
check-speed: $(BUILD)/bench/ops
	@tools/count_instructions.sh $(BUILD)

check-aarch64:
	@tools/check_aarch64.sh

deps:
	@tools/dependencies.sh

tests: all $(TESTS) $(OPS_PAGE) $(if $(call to_run,fuzz/test_corpus),$(REPLAYS)) examples $(PRELOADS) $(MPI_PROBES)
examples: all $(EXAMPLES) $(MPI_EXAMPLES)
benches: all $(BENCHES) $(MPI_BENCHES)

# PyTorch, with which the benches compare.
bench-deps:
	@tools/dependencies.sh bench

# Compares the digit network with PyTorch; see the script's head.
bench-mnist: all bench-deps
	@bench/mnist.sh $(BUILD)

# Compares GPT-2's training step with PyTorch and oneDNN's products.
bench-gpt: benches bench-deps
	@bench/gpt.sh $(BUILD)

# Compares forward and backward of every op with PyTorch.
bench-ops: benches bench-deps
	@bench/ops.sh $(BUILD)

# Compares residual networks with PyTorch.
bench-resnet: benches bench-deps
	@bench/resnet.sh $(BUILD)

# Compares a U-Net, an LSTM, a masked language model and a decoder with PyTorch.
bench-models: benches bench-deps
	@bench/models.sh $(BUILD)

# Compares an exported ResNet-18: training with the same network from the library's layers, inference with OpenCV and
# onnxruntime-web.
bench-onnx: benches bench-deps
	@bench/onnx.sh $(BUILD)

# Compares calls of small models with PyTorch, and measures serving from several threads.
bench-serve: benches bench-deps
	@bench/serve.sh $(BUILD)

# Compares GPT-2's generation with weights of float32, 8 and 4 bits with the speed of memory.
bench-generate: $(BUILD)/bench/generate
	@$(BUILD)/bench/generate

# Compares a checkpoint with the disk's own speed, in the folder DIR.
bench-checkpoint: benches
	@$(BUILD)/bench/checkpoint $${DIR:-.}

# All comparisons with peers.
bench-all: bench-ops bench-resnet bench-models bench-onnx bench-serve bench-mnist bench-gpt

# Compares sums over ranks with MPI_Allreduce, and training of ranks with one process and the simulator.
bench-mpi: all $(MPI_BENCHES)
	@bench/mpi.sh $(BUILD)

# Measures the memory of ranks at the start, and over 10,000 updates.
bench-mpi-memory: all $(MPI_BENCHES)
	@bench/mpi_memory.sh $(BUILD)

# The pictures of the documents; tests/cli/test_schedule.sh compares them with the program's output.
pictures: all
	@tools/draw_schedules.sh $(PROGRAM) docs/schedules

# The manual pages: those of commands from the program's help, those of the library from its headers if Python exists.
PYTHON3 := $(shell command -v python3 2>/dev/null)
man: $(BUILD)/man/man1/brigade.1 $(if $(PYTHON3),$(BUILD)/man/man3/brigade_base.3)
$(BUILD)/man/man1/brigade.1: $(PROGRAM) tools/make_man.sh
	@rm -rf $(@D)
	@tools/make_man.sh $(PROGRAM) $(@D)

# Manual pages of functions, types and constants, from the headers.
REFERENCE := tools/make_reference.py tools/header_docs.py abi/since.txt $(wildcard include/brigade/*.h examples/*.[ch])
$(BUILD)/man/man3/brigade_base.3: $(REFERENCE)
	@rm -rf $(@D)
	@tools/make_reference.py man $(@D)

# The reference as HTML.
reference: $(BUILD)/reference/index.html
$(BUILD)/reference/index.html: $(REFERENCE)
	@rm -rf $(@D)
	@tools/make_reference.py html $(@D)
	@echo $@

# Documents, reference, pictures and a sample report as pages that need no server (Debian: cmark-gfm).
site: $(PROGRAM)
	@tools/make_site.py $(PROGRAM) $(BUILD)/site
	@tools/make_site.py --check $(BUILD)/site
	@echo $(BUILD)/site/index.html

# The release of each new symbol of the headers; tests/style/test_reference.sh compares the list with them.
since:
	@tools/make_reference.py since

# Tables of the documents that come from the tables of options; tests/cli/test_options.sh compares them with the program.
tables: all $(OPS_PAGE)
	@tools/update_tables.sh $(PROGRAM) docs/*.md
	@$(OPS_PAGE) docs/ops.md >$(BUILD)/ops.md && cat $(BUILD)/ops.md >docs/ops.md

# tests/languages/test_python.sh compares these files with the headers.
bindings:
	@tools/make_bindings.py structs >src/bindings/structs.def
	@tools/make_bindings.py python >python/brigade/_abi.py

# Compares the binary interface with that of the last release (abigail-tools); see docs/architecture.md.
abi: $(SHARED)
	@tools/abi.sh check $(SHARED)
abi-baseline: $(SHARED)
	@tools/abi.sh write $(SHARED)

# ---- objects: one rule for each instruction set that files are written for ----

# Files for an instruction set vectorize loops whose length is known only at run time. -O3 would do this too, but its
# copies of loops make the library half as large again without making it faster (clang vectorizes by default).
SPEED_FLAGS := $(if $(filter -O2,$(OPT)),$(if $(findstring clang,$(CC)),,-ftree-vectorize -fvect-cost-model=dynamic))
ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
ifeq ($(ARCH),x86_64)
AVX512_FLAGS := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512
BF16_FLAGS := -mavx512bf16
AMX_FLAGS := -mamx-tile -mamx-bf16
AVX2_FLAGS := -mavx2 -mfma -mf16c
endif

# The sources of all instruction sets are the same, so undefined behavior is checked only in the portable build. clang
# takes minutes for each of the others.
ifneq ($(findstring undefined,$(SANITIZE)),)
AVX512_FLAGS += -fno-sanitize=undefined
AVX2_FLAGS += -fno-sanitize=undefined
endif

$(BUILD)/%_avx512bf16.o: %_avx512bf16.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(SPEED_FLAGS) $(AVX512_FLAGS) $(BF16_FLAGS) -MMD -MP -c $< -o $@

$(BUILD)/%_amx.o: %_amx.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(SPEED_FLAGS) $(AVX512_FLAGS) $(AMX_FLAGS) -MMD -MP -c $< -o $@

$(BUILD)/%_avx512.o: %_avx512.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(SPEED_FLAGS) $(AVX512_FLAGS) -MMD -MP -c $< -o $@

$(BUILD)/%_avx2.o: %_avx2.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(SPEED_FLAGS) $(AVX2_FLAGS) -MMD -MP -c $< -o $@

# On x86-64 the portable kernels serve processors without AVX2 and comparisons in tests, so they are optimized for size.
$(BUILD)/src/kernels/cpu/variant_portable.o: CFLAGS_ALL += $(if $(filter x86_64,$(ARCH)),$(if $(SPEED_FLAGS),-Os),$(SPEED_FLAGS))
# These are optimized for size: graphs, plans, ops, layers, options and passes, which run once, when a graph or a plan is
# made; schedules, except for searches; commands, which run once at the start; what the runtime does before and after a run;
# and plain kernels of families whose fast kernels support everything except float64.
OFTEN_PLAIN := compare cumulative elementwise embedding index reduce reshape softmax
SELDOM_PLAIN := $(filter-out $(OFTEN_PLAIN:%=$(BUILD)/src/kernels/%/reference.o),$(patsubst %.c,$(BUILD)/%.o,$(wildcard src/kernels/*/reference.c)))
SEARCHES := exhaustive greedy improve search simulate
SELDOM_PLANNED := $(filter-out $(SEARCHES:%=$(BUILD)/src/schedule/%.o),$(filter $(BUILD)/src/schedule/%,$(LIBRARY_OBJECTS)))
SELDOM_RUN := agree layout memmap memmap_index own_plan placement publication publish rank_index rank_outputs rank_parts rank_report rank_trace rank_weights reader reading report session settle taken weights
$(filter $(BUILD)/src/ops/% $(BUILD)/src/graph/% $(BUILD)/src/plan/% $(BUILD)/src/nn/% $(BUILD)/src/options/% $(BUILD)/src/transform/%,$(LIBRARY_OBJECTS)) $(CLI_OBJECTS) $(SELDOM_PLAIN) $(SELDOM_RUN:%=$(BUILD)/src/runtime/%.o) $(SELDOM_PLANNED): \
	CFLAGS_ALL += $(if $(SPEED_FLAGS),-Os)
# Fuzzers search paths through readers, not through kernels, which are much slower when each branch is counted.
ifneq ($(findstring fuzzer,$(SANITIZE)),)
$(filter $(BUILD)/src/kernels/%,$(LIBRARY_OBJECTS)): CFLAGS_ALL += -fno-sanitize=fuzzer-no-link
endif
# The page of reports, with its styles and script, is one array in the library.
$(BUILD)/gen/report_page.c: src/profile/report.html src/profile/report.css src/profile/report.js tools/pack_page.sh tools/pack_text.sh
	@mkdir -p $(@D)
	@tools/pack_page.sh src/profile/report $(@D)/report_page.html
	@tools/pack_text.sh bgi_report_page $(@D)/report_page.html > $@

$(BUILD)/gen/gpt_own_text.c: $(TEXT_SOURCES) tools/pack_text.sh
	@mkdir -p $(@D)
	@tools/pack_text.sh gpt_own_text $(TEXT_SOURCES) > $@

# One call makes both files.
$(FORMAT).h: $(FORMAT).c
	@test -f $@
$(FORMAT).c: src/onnx/format.proto
	@mkdir -p $(BUILD)/gen
	@protoc-c --proto_path=src --c_out=$(BUILD)/gen onnx/format.proto
$(filter $(BUILD)/src/onnx/%,$(LIBRARY_OBJECTS)) $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/onnx/*.c tests/fuzz/fuzz_onnx*.c)): $(FORMAT).h

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c
	$(CC) $(CFLAGS_ALL) -c $< -o $@

$(BUILD)/src/plan/cache_key.o: CFLAGS_ALL += -DBGI_BUILD_ID='"$(BUILD_ID)"'
$(BUILD)/src/plan/cache_key.o: $(BUILD)/build_id
$(BUILD)/build_id: always
	@mkdir -p $(@D)
	@echo '$(BUILD_ID)' | cmp -s - $@ || echo '$(BUILD_ID)' >$@

$(BUILD)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -Itests -MMD -MP -c $< -o $@

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

$(STATIC): $(LIBRARY_OBJECTS)
	@rm -f $@
	$(AR) rcs $@ $^

$(SHARED): $(LIBRARY_OBJECTS) $(BUILD)/gen/symbols.map
	$(CC) -shared -Wl,-soname,libbrigade.so.$(SOVERSION) -Wl,--version-script=$(BUILD)/gen/symbols.map $(LDFLAGS_ALL) $(LIBRARY_OBJECTS) -o $@ $(LDLIBS_ALL)
	@ln -sf libbrigade.so.$(SOVERSION) $(BUILD)/libbrigade.so

$(BUILD)/gen/symbols.map: $(LIBRARY_HEADERS) tools/symbols.sh Makefile
	@mkdir -p $(@D)
	@tools/symbols.sh $(SYMBOL_VERSION) $(LIBRARY_HEADERS) >$@
$(BUILD)/gen/mpi_symbols.map: include/brigade/mpi.h tools/symbols.sh Makefile
	@mkdir -p $(@D)
	@tools/symbols.sh $(SYMBOL_VERSION) include/brigade/mpi.h >$@

$(PROGRAM): $(CLI_OBJECTS) $(STATIC)
	$(CC) $(LDFLAGS_ALL) $^ -o $@ $(LDLIBS_ALL)

# A library for each installed MPI; the program loads the one whose launcher started it.
$(BUILD)/libbrigade_mpi_%.so: src/mpi/mpi.c $(BUILD)/gen/mpi_symbols.map include/brigade/mpi.h include/brigade/transport.h include/brigade/base.h
	@mkdir -p $(@D)
	mpicc.$* -std=c11 -D_POSIX_C_SOURCE=200809L $(OPT) $(WARNINGS) -fPIC -fvisibility=hidden -shared -Wl,-soname,libbrigade_mpi_$*.so -Wl,--version-script=$(BUILD)/gen/mpi_symbols.map -Iinclude $(CFLAGS) $(LDFLAGS) $< -o $@ -pthread

# Sessions of these tests get another device and another transport (tests/copied/wrap.c).
$(BUILD)/tests/copied/test_%: $(BUILD)/tests/copied/test_%.o $(COPIED_OBJECTS) $(SUPPORT_OBJECTS) $(STATIC)
	$(CC) $(LDFLAGS_ALL) $(TEST_LDFLAGS) -Wl,--wrap=bgi_engine_create $^ -o $@ -lcmocka $(LDLIBS_ALL)

# These tests run in several processes (tests/ranks/wrap.c). One of them replaces a rank's information about its host.
$(BUILD)/tests/ranks/test_agree: MORE_WRAPS := ,--wrap=bgi_cpu_isa,--wrap=bgi_build_id
$(BUILD)/tests/ranks/test_%: $(BUILD)/tests/ranks/test_%.o $(RANKS_OBJECTS) $(SUPPORT_OBJECTS) $(STATIC)
	$(CC) $(LDFLAGS_ALL) $(TEST_LDFLAGS) -Wl,--wrap=main,--wrap=bg_plan_create_training,--wrap=bg_plan_create_inference$(MORE_WRAPS) $^ -o $@ -lcmocka $(LDLIBS_ALL)

$(BUILD)/libbrigade_tests.so: $(LIBRARY_OBJECTS)
	$(CC) -shared $(LDFLAGS_ALL) $^ -o $@ $(LDLIBS_ALL)

# Tests of a build with MINIMAL=1 link the other rooms that they need from an archive.
TEST_SUPPORT := $(SUPPORT_OBJECTS)
ifneq ($(MINIMAL),)
$(BUILD)/libtests.a: $(SUPPORT_OBJECTS) $(patsubst %.c,$(BUILD)/%.o,src/data/digits.c src/data/digit_strokes.c src/config/run_options.c $(wildcard src/models/*.c))
	@rm -f $@
	$(AR) rcs $@ $^
TEST_SUPPORT := $(BUILD)/libtests.a
endif

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(TEST_SUPPORT) $(TEST_LIBRARY)
	$(CC) $(LDFLAGS_ALL) $(TEST_LDFLAGS) $^ -o $@ -lcmocka $(LDLIBS_ALL)

$(BUILD)/tests/preload/%.o: CFLAGS_ALL += -fvisibility=default
$(BUILD)/tests/preload/%.so: $(BUILD)/tests/preload/%.o
	$(CC) -shared $(LDFLAGS_ALL) $^ -o $@ $(LDLIBS)

# Fuzz targets: with libFuzzer (needs clang), and as programs that replay inputs.
$(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o $(TEST_LIBRARY)
	$(CC) $(LDFLAGS_ALL) $(TEST_LDFLAGS) $^ -o $@ $(LDLIBS_ALL)

fuzz:
	@$(MAKE) --no-print-directory -s CC=clang SANITIZE=fuzzer-no-link,address,undefined OPT="-O1 -g" $(FUZZERS)

$(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/%.o $(STATIC)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -fsanitize=fuzzer,address,undefined $^ -o $@ $(LDLIBS_ALL)

$(BUILD)/bench/%: $(BUILD)/bench/%.o $(STATIC)
	$(CC) $(LDFLAGS_ALL) $^ -o $@ $(LDLIBS_ALL)

$(BUILD)/examples/%: $(BUILD)/examples/%.o $(STATIC)
	$(CC) $(LDFLAGS_ALL) $^ -o $@ $(LDLIBS_ALL)

MPI_EXAMPLE_LIBRARIES = $(STATIC) -L$(BUILD) -l:libbrigade_mpi_$*.so -Wl,-rpath,'$$ORIGIN/..' $(LDLIBS_ALL)
$(BUILD)/examples/mpi_surrogate_c.%: examples/mpi_surrogate.c include/brigade/mpi.h $(STATIC) $(BUILD)/libbrigade_mpi_%.so
	@mkdir -p $(@D)
	mpicc.$* -std=c11 -D_POSIX_C_SOURCE=200809L $(OPT) $(WARNINGS) -Iinclude $(CFLAGS) $< -o $@ $(LDFLAGS) $(MPI_EXAMPLE_LIBRARIES)

$(BUILD)/tests/cli/mpi_late.%: tests/cli/mpi_late.c include/brigade/mpi.h $(STATIC) $(BUILD)/libbrigade_mpi_%.so
	@mkdir -p $(@D)
	mpicc.$* -std=c11 -D_POSIX_C_SOURCE=200809L $(OPT) $(WARNINGS) -Iinclude $(CFLAGS) $< -o $@ $(LDFLAGS) $(STATIC) -L$(BUILD) -l:libbrigade_mpi_$*.so -Wl,-rpath,'$$ORIGIN/../..' $(LDLIBS_ALL)

define mpi_bench
$(BUILD)/bench/$(1).%: bench/$(1).c include/brigade/mpi.h $(STATIC) $(BUILD)/libbrigade_mpi_%.so
	@mkdir -p $$(@D)
	mpicc.$$* -std=c11 -D_POSIX_C_SOURCE=200809L $(OPT) $(WARNINGS) -Iinclude -Isrc $(CFLAGS) $$< -o $$@ $(LDFLAGS) $$(MPI_EXAMPLE_LIBRARIES)
endef
$(foreach bench,mpi_allreduce mpi_training mpi_memory mpi_predict,$(eval $(call mpi_bench,$(bench))))

# The compiler writes brigade.mod, which differs between compilers.
$(BUILD)/examples/mpi_surrogate_f90.%: examples/mpi_surrogate.f90 include/brigade/brigade.f90 $(STATIC) $(BUILD)/libbrigade_mpi_%.so
	@mkdir -p $(BUILD)/examples/fortran.$*
	mpif90.$* -std=f2018 $(OPT) -Wall -Wextra -J $(BUILD)/examples/fortran.$* include/brigade/brigade.f90 $< -o $@ $(LDFLAGS) $(MPI_EXAMPLE_LIBRARIES)

# ---- install ----

# Installs files of $(1), with their folders, below $(2).
install_tree = cd $(1) && find . -type f -exec install -D -m 644 '{}' '$(abspath $(DESTDIR)$(2))/{}' ';'
# Installs a package file with the values of this installation.
# Paths of the system stay absolute; others are relative to the package file, so that the installation can be moved.
install_filled = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@PCPREFIX@|$(if $(filter /usr,$(PREFIX)),$(PREFIX),$${pcfiledir}/@UP@)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@SOVERSION@|$(SOVERSION)|' \
	-e 's|@PACKAGES@|$(if $(MINIMAL),,$(PACKAGES))|' -e 's|@LIBS@|$(strip $(PACKAGE_LIBS) -lm -pthread $(if $(MINIMAL),,-ldl))|' \
	-e "s|@UP@|$$(realpath -m --relative-to=$(LIBDIR)/pkgconfig $(PREFIX))|" \
	-e "s|@ROOT@|$$(realpath -m --relative-to=$(LIBDIR)/cmake/brigade $(PREFIX))|" -e "s|@LIB@|$$(realpath -m --relative-to=$(PREFIX) $(LIBDIR))|" \
	$(1) >$(DESTDIR)$(2)
DOC := $(PREFIX)/share/doc/brigade
# Files that users copy, with their notes.
INSTALLED_EXAMPLES := $(wildcard examples/*.c examples/*.cpp examples/*.py examples/*.h examples/*.f90 examples/README.md)

install: all $(if $(MINIMAL),,man)
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(LIBDIR)/cmake/brigade $(DESTDIR)$(PREFIX)/include/brigade $(DESTDIR)$(DOC)/examples
ifeq ($(MINIMAL),)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/brigade
	install -m 644 $(BUILD)/man/man1/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	$(call install_tree,share/presets,$(PREFIX)/share/brigade/presets)
	install -D -m 644 share/completions/brigade.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/brigade
	install -D -m 644 share/completions/_brigade $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_brigade
	install -D -m 644 share/completions/brigade.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/brigade.fish
	install -d $(DESTDIR)$(PYTHONDIR)/brigade
	install -m 644 $(wildcard python/brigade/*.py) $(DESTDIR)$(PYTHONDIR)/brigade/
endif
	install -d $(DESTDIR)$(PREFIX)/share/man/man3
	$(if $(MINIMAL),,$(if $(PYTHON3),install -m 644 $(BUILD)/man/man3/*.3 $(DESTDIR)$(PREFIX)/share/man/man3/))
	$(call install_filled,tools/brigade.3.in,$(PREFIX)/share/man/man3/brigade.3)
	install -m 644 $(STATIC) $(DESTDIR)$(LIBDIR)/
	install -m 755 $(SHARED) $(if $(MINIMAL),,$(MPI_LIBRARIES)) $(DESTDIR)$(LIBDIR)/
	ln -sf libbrigade.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/libbrigade.so
	install -m 644 include/brigade.h $(DESTDIR)$(PREFIX)/include/
	install -m 644 include/brigade/*.h $(wildcard include/brigade/*.hpp) include/brigade/*.f90 $(DESTDIR)$(PREFIX)/include/brigade/
	$(call install_filled,tools/brigade.pc.in,$(LIBDIR)/pkgconfig/brigade.pc)
	$(call install_filled,tools/brigade-config.cmake.in,$(LIBDIR)/cmake/brigade/brigade-config.cmake)
	$(call install_filled,tools/brigade-config-version.cmake.in,$(LIBDIR)/cmake/brigade/brigade-config-version.cmake)
	install -m 644 README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE $(DESTDIR)$(DOC)/
	$(call install_tree,docs,$(DOC)/docs)
	install -m 644 $(INSTALLED_EXAMPLES) $(DESTDIR)$(DOC)/examples/
	$(call install_tree,examples/tutorial,$(DOC)/examples/tutorial)

uninstall:
	rm -rf $(DESTDIR)$(PREFIX)/bin/brigade $(DESTDIR)$(PREFIX)/share/man/man1/brigade.1 $(DESTDIR)$(PREFIX)/share/man/man1/brigade-*.1 $(DESTDIR)$(PREFIX)/share/man/man3/brigade.3 \
		$(DESTDIR)$(PREFIX)/share/man/man3/brigade_*.3 $(DESTDIR)$(PREFIX)/share/man/man3/bg_*.3 $(DESTDIR)$(PREFIX)/share/man/man3/BG_*.3 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/brigade $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_brigade \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/brigade.fish \
		$(DESTDIR)$(PREFIX)/share/brigade $(DESTDIR)$(DOC) $(DESTDIR)$(LIBDIR)/libbrigade.a $(DESTDIR)$(LIBDIR)/libbrigade.so* \
		$(DESTDIR)$(LIBDIR)/libbrigade_mpi_openmpi.so $(DESTDIR)$(LIBDIR)/libbrigade_mpi_mpich.so $(DESTDIR)$(LIBDIR)/cmake/brigade \
		$(DESTDIR)$(LIBDIR)/pkgconfig/brigade.pc $(DESTDIR)$(PYTHONDIR)/brigade $(DESTDIR)$(PREFIX)/include/brigade $(DESTDIR)$(PREFIX)/include/brigade.h

# Debian packages (Debian: dpkg-dev).
deb: all man
	@MAKEFLAGS= BUILD=$(BUILD) tools/make_deb.sh $(BUILD)/deb

# Installs and uses the packages in a fresh Debian system (needs root, network and Debian's debootstrap).
check-deb: deb
	@tests/packages/fresh_root.sh $(BUILD)/deb

FORMATTED := $(wildcard include/*.h include/brigade/*.h include/brigade/*.hpp examples/*.cpp tests/*/*.cpp src/*/*.[ch] src/kernels/*/*.[ch] tests/*/*.[ch] bench/*.[ch] bench/*/*.[ch] examples/*.[ch] examples/tutorial/*.c)
format:
	@clang-format -i $(FORMATTED)

format-check:
	@clang-format --dry-run -Werror $(FORMATTED)

clean:
	rm -rf $(BUILD)

-include $(LIBRARY_OBJECTS:.o=.d) $(CLI_OBJECTS:.o=.d) $(SUPPORT_OBJECTS:.o=.d) $(TESTS:=.d) $(OPS_PAGE).d $(BENCHES:=.d) $(EXAMPLES:=.d)
-include $(FUZZ_SOURCES:%.c=$(BUILD)/%.d) $(COPIED_OBJECTS:.o=.d) $(RANKS_OBJECTS:.o=.d)
