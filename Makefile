# Brigade: library, program, tests.
#
#   make mnist     install what is missing, build, train the pipelined digit network
#   make check     install what is missing, build, run every test
#
#   make           library and program into $(BUILD)
#   make install   PREFIX=/usr/local DESTDIR=
#   make format    clang-format every source; format-check only looks
#   make pictures  draw docs/schedules/*.svg anew
#
# Variables: CC, BUILD (folder), SANITIZE=address,undefined|thread, OPT (optimisation flags), ARGS (for `make mnist`).

CC ?= gcc
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
OPT ?= -O3 -g
SANITIZE ?=
ARGS ?=

VERSION := $(shell cat VERSION)
SOVERSION := 0
# What the library was made from: cached plans are those of one build.
BUILD_ID := $(shell cat Makefile $(sort $(wildcard include/brigade/*.h src/*/*.[ch] src/kernels/*/*.[ch])) | cksum | tr ' ' '-')

PACKAGES := hwloc jansson yaml-0.1 zlib libpng libcurl
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes
# Float results must not depend on what a compiler chooses to contract: fused multiply-adds are written out.
CFLAGS_ALL = -std=c11 -D_POSIX_C_SOURCE=200809L $(OPT) $(WARNINGS) -ffp-contract=off -fno-math-errno -fPIC -fvisibility=hidden -pthread \
	-Iinclude -Isrc -DBGI_VERSION='"$(VERSION)"' -DBGI_SHARE='"$(PREFIX)/share/brigade"' $(PACKAGE_CFLAGS) $(CFLAGS)
LDLIBS_ALL = $(PACKAGE_LIBS) -lm -pthread $(LDLIBS)
ifneq ($(SANITIZE),)
CFLAGS_ALL += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=undefined
LDFLAGS_ALL += -fsanitize=$(SANITIZE)
endif
LDFLAGS_ALL += $(LDFLAGS)

# Targets that must work before the dependencies are installed do not ask pkg-config.
ifeq ($(filter mnist check check-all deps clean format format-check,$(MAKECMDGOALS)),)
PACKAGE_CFLAGS := $(shell pkg-config --cflags $(PACKAGES))
PACKAGE_LIBS := $(shell pkg-config --libs $(PACKAGES))
endif

LIBRARY_SOURCES := $(filter-out src/cli/%,$(wildcard src/*/*.c src/kernels/*/*.c))
CLI_SOURCES := $(wildcard src/cli/*.c)
SUPPORT_SOURCES := $(wildcard tests/support/*.c)
TEST_SOURCES := $(wildcard tests/*/test_*.c)
FUZZ_SOURCES := $(wildcard tests/fuzz/fuzz_*.c)
BENCH_SOURCES := $(wildcard bench/*.c)
EXAMPLE_SOURCES := $(wildcard examples/*.c)

LIBRARY_OBJECTS := $(LIBRARY_SOURCES:%.c=$(BUILD)/%.o)
# What `brigade gpt` trains on when nobody gives it a text.
TEXT_SOURCES := README.md CHANGELOG.md $(wildcard docs/*.md) include/brigade.h $(wildcard include/brigade/*.h)
CLI_OBJECTS := $(CLI_SOURCES:%.c=$(BUILD)/%.o) $(BUILD)/gen/gpt_own_text.o
SUPPORT_OBJECTS := $(SUPPORT_SOURCES:%.c=$(BUILD)/%.o)
TESTS := $(TEST_SOURCES:%.c=$(BUILD)/%)
BENCHES := $(BENCH_SOURCES:%.c=$(BUILD)/%)
EXAMPLES := $(EXAMPLE_SOURCES:%.c=$(BUILD)/%)
REPLAYS := $(FUZZ_SOURCES:tests/fuzz/fuzz_%.c=$(BUILD)/tests/fuzz/replay_%)
FUZZERS := $(FUZZ_SOURCES:tests/fuzz/%.c=$(BUILD)/fuzz/%)

STATIC := $(BUILD)/libbrigade.a
SHARED := $(BUILD)/libbrigade.so.$(SOVERSION)
PROGRAM := $(BUILD)/brigade

.PHONY: always all mnist check check-all tests benches deps install uninstall clean format format-check fuzz bench-mnist bench-gpt pictures
.DELETE_ON_ERROR:
.SECONDARY:

all: $(STATIC) $(SHARED) $(PROGRAM)

# ---- the two commands ----

mnist: deps
	@$(MAKE) --no-print-directory -s all
	$(PROGRAM) mnist $(ARGS)

check: deps
	@$(MAKE) --no-print-directory -s all tests
	@tests/run.sh $(BUILD)

check-all: deps
	@$(MAKE) --no-print-directory -s all tests
	@BRIGADE_TEST_ALL=1 tests/run.sh $(BUILD)

deps:
	@tools/dependencies.sh

tests: all $(TESTS) $(REPLAYS) $(EXAMPLES)
benches: all $(BENCHES)

# The digit network beside PyTorch (needs a python3 with torch); see the script's head.
bench-mnist: all
	@bench/mnist.sh $(BUILD)

# GPT-2's training step beside PyTorch and oneDNN's products.
bench-gpt: benches
	@bench/gpt.sh $(BUILD)

# The pictures of the documents; tests/cli/test_schedule.sh holds them against the program.
pictures: all
	@tools/draw_schedules.sh $(PROGRAM) docs/schedules

# ---- objects: one rule for each instruction set a file is written for ----

ARCH := $(shell uname -m)
ifeq ($(ARCH),x86_64)
AVX512_FLAGS := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512
AVX2_FLAGS := -mavx2 -mfma -mf16c
endif

$(BUILD)/%_avx512.o: %_avx512.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(AVX512_FLAGS) -MMD -MP -c $< -o $@

$(BUILD)/%_avx2.o: %_avx2.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(AVX2_FLAGS) -MMD -MP -c $< -o $@

$(BUILD)/gen/gpt_own_text.c: $(TEXT_SOURCES) tools/pack_text.sh
	@mkdir -p $(@D)
	@tools/pack_text.sh gpt_own_text $(TEXT_SOURCES) > $@

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

$(SHARED): $(LIBRARY_OBJECTS)
	$(CC) -shared -Wl,-soname,libbrigade.so.$(SOVERSION) $(LDFLAGS_ALL) $^ -o $@ $(LDLIBS_ALL)
	@ln -sf libbrigade.so.$(SOVERSION) $(BUILD)/libbrigade.so

$(PROGRAM): $(CLI_OBJECTS) $(STATIC)
	$(CC) $(LDFLAGS_ALL) $^ -o $@ $(LDLIBS_ALL)

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(SUPPORT_OBJECTS) $(STATIC)
	$(CC) $(LDFLAGS_ALL) $^ -o $@ -lcmocka $(LDLIBS_ALL)

# Fuzz targets: with libFuzzer (needs clang), and as programs that replay inputs.
$(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o $(STATIC)
	$(CC) $(LDFLAGS_ALL) $^ -o $@ $(LDLIBS_ALL)

fuzz:
	@$(MAKE) --no-print-directory -s CC=clang SANITIZE=fuzzer-no-link,address,undefined OPT="-O1 -g" $(FUZZERS)

$(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/%.o $(STATIC)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -fsanitize=fuzzer,address,undefined $^ -o $@ $(LDLIBS_ALL)

$(BUILD)/bench/%: $(BUILD)/bench/%.o $(STATIC)
	$(CC) $(LDFLAGS_ALL) $^ -o $@ $(LDLIBS_ALL)

$(BUILD)/examples/%: $(BUILD)/examples/%.o $(STATIC)
	$(CC) $(LDFLAGS_ALL) $^ -o $@ $(LDLIBS_ALL)

# ---- install ----

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include/brigade
	install -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/brigade
	install -d $(DESTDIR)$(PREFIX)/share/brigade/presets/gpt
	install -m 644 share/presets/*.* $(DESTDIR)$(PREFIX)/share/brigade/presets/
	install -m 644 share/presets/gpt/* $(DESTDIR)$(PREFIX)/share/brigade/presets/gpt/
	install -m 644 $(STATIC) $(DESTDIR)$(PREFIX)/lib/
	install -m 755 $(SHARED) $(DESTDIR)$(PREFIX)/lib/
	ln -sf libbrigade.so.$(SOVERSION) $(DESTDIR)$(PREFIX)/lib/libbrigade.so
	install -m 644 include/brigade.h $(DESTDIR)$(PREFIX)/include/
	install -m 644 include/brigade/*.h $(DESTDIR)$(PREFIX)/include/brigade/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' tools/brigade.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/brigade.pc

uninstall:
	rm -rf $(DESTDIR)$(PREFIX)/bin/brigade $(DESTDIR)$(PREFIX)/share/brigade $(DESTDIR)$(PREFIX)/lib/libbrigade.* \
		$(DESTDIR)$(PREFIX)/lib/pkgconfig/brigade.pc $(DESTDIR)$(PREFIX)/include/brigade $(DESTDIR)$(PREFIX)/include/brigade.h

FORMATTED := $(wildcard include/*.h include/brigade/*.h src/*/*.[ch] src/kernels/*/*.[ch] tests/*/*.[ch] bench/*.[ch] bench/*/*.[ch] examples/*.c)
format:
	@clang-format -i $(FORMATTED)

format-check:
	@clang-format --dry-run -Werror $(FORMATTED)

clean:
	rm -rf $(BUILD)

-include $(LIBRARY_OBJECTS:.o=.d) $(CLI_OBJECTS:.o=.d) $(SUPPORT_OBJECTS:.o=.d) $(TESTS:=.d) $(BENCHES:=.d) $(EXAMPLES:=.d)
-include $(FUZZ_SOURCES:%.c=$(BUILD)/%.d)
