# SPDX-License-Identifier: BSD-2-Clause
# outbox-relay: one makefile for everything; `make help` lists what it can do.

# --- what to build, and how -------------------------------------------------------------------------------------------

PREFIX  ?= /usr/local
DESTDIR ?=
CFLAGS  ?= -O2 -g
SAN     ?=
FAULTS  ?=
WERROR  ?=
V       ?=
FUZZ_SECONDS ?= 20
MINUTES ?= 10
SEED    ?=

comma := ,
empty :=
space := $(empty) $(empty)

# Each kind of build has a folder of its own: release, address-undefined, thread, release-faults, release-clang...
variant := $(if $(SAN),$(subst $(comma),-,$(SAN)),release)$(if $(FAULTS),-faults)$(if $(findstring clang,$(CC)),-clang)
B       := build/$(variant)
Q       := $(if $(V),,@)

# Known to gcc 12 and clang 14 alike, then what only one of them knows.
warnings := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings \
  -Wcast-qual -Wcast-align -Wvla -Wundef -Wformat=2 -Wswitch-enum -Wimplicit-fallthrough -Wdouble-promotion -Wnull-dereference \
  -Wpointer-arith -Wredundant-decls -Wunused-macros
warnings += $(if $(findstring clang,$(CC)),-Wunreachable-code-aggressive -Wassign-enum -Wno-gnu-statement-expression,-Wlogical-op -Wduplicated-cond -Wduplicated-branches)
warnings += $(if $(WERROR),-Werror)

# Asked once and only when something is compiled, so that `make deps all` works where pkg-config comes with deps. Headers of libraries
# are not ours to warn about, hence -isystem.
libs       := libpq rdkafka libuv libmicrohttpd jansson
have_systemd = $(eval have_systemd := $(shell pkg-config --exists libsystemd 2>/dev/null && echo libsystemd))$(have_systemd)
lib_cflags = $(eval lib_cflags := $(subst -I/,-isystem /,$(shell pkg-config --cflags $(libs) $(have_systemd))) \
  $(if $(have_systemd),-DHAVE_SYSTEMD))$(lib_cflags)
lib_libs   = $(eval lib_libs := $(shell pkg-config --libs $(libs) $(have_systemd)))$(lib_libs)
# What only the services of the demo need.
demo_libs  = $(eval demo_libs := $(shell pkg-config --libs libcurl hiredis libcrypto) -lm)$(demo_libs)

# Fortify only works on optimised code, and hides errors from the sanitisers.
fortify  := $(if $(SAN),,$(if $(filter -O1 -O2 -O3 -Os,$(CFLAGS)),-D_FORTIFY_SOURCE=2))
sanitise := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
c_flags   = -std=c17 -D_GNU_SOURCE -I. -I$(B) $(warnings) -fPIE -fstack-protector-strong $(fortify) $(sanitise) \
  $(if $(FAULTS),-DFAULTS) $(lib_cflags) -pthread $(CFLAGS) $(CPPFLAGS)
ld_flags  = -pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -pthread $(sanitise) $(CFLAGS) $(LDFLAGS)
test_flags = -DTEST_BUILD_FOLDER='"$(CURDIR)/$(B)"' -DTEST_SOURCE_FOLDER='"$(CURDIR)"'

# --- sources: whatever lies in these folders --------------------------------------------------------------------------

core_src  := $(wildcard relay/core/*.c)
relay_src := $(core_src) $(wildcard relay/edge/*.c relay/app/*.c)
main_src  := $(wildcard relay/main.c)
lib_src   := $(wildcard tests/lib/*.c tests/lib/proxy/*.c)
sim_src   := $(wildcard tests/sim/*.c)
explore_src := $(wildcard tests/explore/*.c)
schema    := $(sort $(wildcard schema/*.sql))
fuzz_src  := $(wildcard tests/fuzz/*.c)
# The services of the demo: a folder each, of which tests use all but the main.c.
service_main := $(wildcard producer-demo/*/main.c)
service_src  := $(filter-out $(service_main),$(wildcard producer-demo/*/*.c))
embedded     := $(sort $(wildcard producer-demo/*/*.sql producer-demo/*/*.json))
# Programs of one file each.
demo_src  := $(wildcard producer-demo/*.c)
tool_src  := $(wildcard tests/lib/bin/*.c)
bench_src := $(wildcard tests/bench/*.c)

objects    = $(patsubst %.c,$(B)/obj/%.o,$(1))
# my_tool.c becomes my-tool
program    = $(foreach s,$(1),$(B)/$(subst _,-,$(basename $(notdir $(s)))))

relay    := $(if $(main_src),$(B)/outbox-relay)
tools    := $(call program,$(tool_src))
services := $(foreach s,$(service_main),$(B)/$(subst _,-,$(notdir $(patsubst %/,%,$(dir $(s))))))
demos    := $(call program,$(demo_src)) $(services)
benches  := $(call program,$(bench_src))
suites   := $(foreach s,unit edge crash demo,$(if $(wildcard tests/$(s)/*.c),$(s)))
programs := $(foreach s,$(suites),$(B)/test-$(s))
sim      := $(if $(sim_src),$(B)/sim)
explore  := $(if $(explore_src),$(B)/explore)
quick    := $(call objects,$(wildcard tests/mutate/*.c))
# Not sanitised: a mutant must be caught by the oracle, not by a crash.
mutants  := $(if $(SAN),,$(if $(sim_src),$(if $(wildcard tests/sim/mutants),$(shell sed -e 's/\#.*//' -e '/^ *$$/d' -e 's/ .*//' tests/sim/mutants))))
mutant_sims := $(foreach m,$(mutants),build/mutant-$(m)/sim)
explore_mutants := $(if $(SAN),,$(if $(explore_src),$(shell sed -e 's/\#.*//' -e '/^ *$$/d' -e 's/ .*//' tests/explore/mutants)))
mutant_explores := $(foreach m,$(explore_mutants),build/mutant-$(m)/explore)
fuzzers  := $(foreach f,$(fuzz_src),build/fuzz/$(subst _,-,$(basename $(notdir $(f)))))
formatted := $(sort $(shell find relay producer-demo tests -name '*.[ch]' 2>/dev/null))

# What `make test` runs, and what it needs for it. An argument of tests/totals.sh each.
planted  := $(B)/planted-tests
scripts  := $(wildcard tests/parts_test.sh tests/layers_test.sh tests/style_test.sh tests/named_tests.sh) $(if $(main_src),$(if $(wildcard README.md),$(wildcard tests/settings.sh)))
run_unit := $(if $(filter unit,$(suites)),$(B)/test-unit) 'tests/harness_test.sh $(planted)' $(scripts)
for_unit := $(if $(filter unit,$(suites)),$(B)/test-unit) $(planted) $(relay)
run_sim  := $(sim) '$(sim) --outage --seeds 20' $(if $(mutants),$(wildcard tests/sim/mutants.sh))
run_explore := $(explore) $(if $(explore_mutants),tests/explore/mutants.sh)
run_edge := $(if $(filter edge,$(suites)),'tests/parts.sh 2 $(B)/test-edge')
crash    := $(if $(filter crash,$(suites)),$(B)/test-crash)
# Names of tests say where they run.
run_e2e  := $(if $(crash),'tests/parts.sh 1 $(crash) e2e_')
# These mostly wait, so several run at once.
CRASH_PARTS ?= 3
# The services of the demo. Most tests start several of them, for which a busy machine takes its time.
run_demo := $(if $(filter demo,$(suites)),'env TEST_SLOW=3 tests/parts.sh 2 $(B)/test-demo demo_')
run_crash := $(if $(crash),'tests/parts.sh $(CRASH_PARTS) $(crash) crash_')
run_long := $(if $(crash),'$(crash) long_')
# Ten minutes without a broker: for who has half an hour.
run_outage = $(shell [ '$(MINUTES)' -ge 30 ] && echo "'$(crash) outage_'")
for_sim  := $(sim) $(mutant_sims)

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all everything help test test-unit test-sim test-explore explore explore-mutants mutate test-edge test-e2e test-demo test-panel schemathesis faulty check check-long mutants-real release-check demo demo-table bench bench-unique layers lint format format-check install uninstall clean deps \
  fuzz FORCE

all: $(relay) $(demos) ## build/release/outbox-relay and the programs of the demo (default)

everything: all faulty $(tools) $(programs) $(for_sim) $(explore) $(quick) $(benches) ## all, and the programs of tests and benchmarks, without running them

help: ## this list
	@echo 'make [TARGET] [SAN=address,undefined|thread] [FAULTS=1] [WERROR=1] [V=1] [CC=...] [CFLAGS=...] [PREFIX=...] [DESTDIR=...]'
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*## \(.*\)/  \1@\2/p' Makefile | awk -F@ '{ printf "%-16s%s\n", $$1, $$2 }'

# --- build ------------------------------------------------------------------------------------------------------------

# With `make deps all`, nothing is compiled before the packages are there.
early := $(if $(filter deps,$(MAKECMDGOALS)),deps)

# Changes when the flags do, so that everything is compiled anew.
$(B)/flags: FORCE | $(early)
	@mkdir -p $(B)
	@printf '%s\n' '$(CC) $(subst ','\'',$(c_flags) $(ld_flags) $(lib_libs))' | cmp -s - $@ || \
	  printf '%s\n' '$(CC) $(subst ','\'',$(c_flags) $(ld_flags) $(lib_libs))' > $@

$(B)/obj/relay/%.o: relay/%.c $(B)/flags
	@mkdir -p $(@D)
	@echo '  CC    $<'
	$(Q)$(CC) $(c_flags) -MMD -MP -c $< -o $@

$(B)/obj/producer-demo/%.o: producer-demo/%.c $(B)/flags
	@mkdir -p $(@D)
	@echo '  CC    $<'
	$(Q)$(CC) $(c_flags) -MMD -MP -c $< -o $@

$(B)/obj/tests/%.o: tests/%.c $(B)/flags
	@mkdir -p $(@D)
	@echo '  CC    $<'
	$(Q)$(CC) $(c_flags) $(test_flags) -MMD -MP -c $< -o $@

# schema/*.sql as bytes, in the order of their names; declared in relay/edge/schema.h. Each ends with a zero that is not counted.
$(B)/schema.c: schema/embed.sh $(schema) relay/edge/schema.h | $(B)/flags
	@echo '  GEN   $@'
	$(Q)sh schema/embed.sh $(schema) > $@

# Schemas of the demo's services and the like, the same way; declared in producer-demo/lib/embedded.h.
$(B)/embedded.c: producer-demo/embed.sh $(embedded) producer-demo/lib/embedded.h | $(B)/flags
	@echo '  GEN   $@'
	$(Q)sh producer-demo/embed.sh $(embedded) > $@

$(B)/obj/embedded.o: $(B)/embedded.c $(B)/flags
	@mkdir -p $(@D)
	@echo '  CC    $<'
	$(Q)$(CC) $(c_flags) -MMD -MP -c $< -o $@

$(B)/obj/schema.o: $(B)/schema.c $(B)/flags
	@mkdir -p $(@D)
	@echo '  CC    $<'
	$(Q)$(CC) $(c_flags) -MMD -MP -c $< -o $@

# A program takes out of an archive only what it uses, so a test of one module does not wait for the others.
$(B)/librelay.a: $(call objects,$(relay_src)) $(B)/obj/schema.o
	@echo '  AR    $@'
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/libcore.a: $(call objects,$(core_src)) $(B)/flags
	@echo '  AR    $@'
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)

$(B)/libdemo.a: $(call objects,$(service_src)) $(B)/obj/embedded.o $(B)/flags
	@echo '  AR    $@'
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)

$(B)/libtests.a: $(call objects,$(lib_src)) $(B)/flags
	@echo '  AR    $@'
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)

link = @echo '  LINK  $@'; $(if $(V),set -x;) $(CC) $(filter %.o,$^) $(filter %.a,$^) $(ld_flags) $(link_libs) $(lib_libs) -o $@

$(B)/outbox-relay: $(call objects,$(main_src)) $(B)/librelay.a
	$(link)

$(B)/sim: $(call objects,$(sim_src)) $(B)/libcore.a
	$(link)

$(B)/explore: $(call objects,$(explore_src)) $(B)/libcore.a
	$(link)

define suite_rule
$$(B)/test-$(1): $(call objects,$(wildcard tests/$(1)/*.c)) $(if $(filter demo,$(1)),$$(B)/libdemo.a) $$(B)/libtests.a $$(B)/librelay.a
	$$(link)
endef
$(foreach s,$(suites),$(eval $(call suite_rule,$(s))))

define service_rule
$$(B)/$(subst _,-,$(notdir $(patsubst %/,%,$(dir $(1))))): $(call objects,$(1)) $$(B)/libdemo.a
	$$(link)
endef
$(foreach s,$(service_main),$(eval $(call service_rule,$(s))))
$(services) $(B)/test-demo $(B)/payments: link_libs = $(demo_libs)
$(B)/payments: $(B)/libdemo.a

define program_rule
$(call program,$(1)): $(call objects,$(1)) $(2)
	$$(link)
endef
$(foreach s,$(demo_src) $(bench_src),$(eval $(call program_rule,$(s))))
$(foreach s,$(tool_src),$(eval $(call program_rule,$(s),$(B)/libtests.a)))

# The real core with one rule of it broken: every line of tests/sim/mutants names a mutant and the check that must catch it. Only files
# that know the mutant are compiled anew; they may warn about what it left unused.
mutable := $(sim_src) $(core_src)
define mutant_build
	@mkdir -p $(@D)
	@echo '  MUTANT $* ($(@F))'
	$(Q)if grep -qw MUTANT_$* $(filter %.h,$^); then changed='$(1)' same=; \
	else changed=$$(grep -lw MUTANT_$* $(1)) same=$$(grep -Lw MUTANT_$* $(1) | sed 's|^|$(B)/obj/|; s|c$$|o|'); fi; \
	[ -n "$$changed" ] || { echo 'No file knows MUTANT_$*.'; exit 1; }; \
	$(CC) $(c_flags) -w -DMUTANT_$* $$changed $$same $(2) $(ld_flags) $(3) -o $@
endef
build/mutant-%/sim: $(call objects,$(mutable)) $(wildcard tests/sim/*.h relay/core/*.h)
	$(call mutant_build,$(mutable))

mutable_explore := $(explore_src) $(core_src)
build/mutant-%/explore: $(call objects,$(mutable_explore)) $(wildcard tests/explore/*.h relay/core/*.h)
	$(call mutant_build,$(mutable_explore))

# The whole relay with one rule of it broken, for tests/crash/test_mutant*.c: the line of the matrix that must catch it does.
relay_mutants := MARK_BEFORE_REPORT NO_COLD_START MARKS_BY_ID LEASE_LOCAL_CLOCK SESSION_ADVISORY_LOCK
mutant_relays := $(if $(SAN),,$(foreach m,$(relay_mutants),build/mutant-$(m)/outbox-relay))
mutable_relay := $(relay_src) $(main_src)
build/mutant-%/outbox-relay: $(call objects,$(mutable_relay)) $(B)/obj/schema.o $(wildcard relay/*/*.h)
	$(call mutant_build,$(mutable_relay),$(B)/obj/schema.o,$(lib_libs))

# The same of the order service, for tests/demo/test_service_kill.c.
service_mutants := KEY_ALONE EVENT_ID_NEW
mutant_services := $(if $(SAN),,$(foreach m,$(service_mutants),build/mutant-$(m)/order-service))
mutable_service := $(wildcard producer-demo/order_service/*.c)
build/mutant-%/order-service: $(call objects,$(mutable_service)) $(B)/libdemo.a $(wildcard producer-demo/*/*.h)
	$(call mutant_build,$(mutable_service),$(B)/libdemo.a,$(demo_libs) $(lib_libs))

# libFuzzer; each fuzzer may use every module of the relay.
fuzz_cc := clang -std=c17 -D_GNU_SOURCE -I. -Ibuild/fuzz -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all
build/fuzz/obj/%.o: %.c | $(early)
	@mkdir -p $(@D)
	@echo '  FUZZ  $<'
	$(Q)$(fuzz_cc) -fsanitize=fuzzer-no-link $(lib_cflags) -MMD -MP -c $< -o $@

build/fuzz/obj/schema.o: $(B)/schema.c | $(early)
	@mkdir -p $(@D)
	$(Q)$(fuzz_cc) -fsanitize=fuzzer-no-link -c $< -o $@

build/fuzz/librelay.a: $(patsubst %.c,build/fuzz/obj/%.o,$(relay_src)) build/fuzz/obj/schema.o
	$(Q)rm -f $@ && ar rcs $@ $^

# What can be fuzzed of the fault proxy: all but its sockets.
proxy_parsers := $(filter-out %/connection.c %/flow.c %/listener.c %/command.c,$(wildcard tests/lib/proxy/*.c))
build/fuzz/libproxy.a: $(patsubst %.c,build/fuzz/obj/%.o,$(proxy_parsers))
	$(Q)rm -f $@ && ar rcs $@ $^

define fuzz_rule
build/fuzz/$(subst _,-,$(basename $(notdir $(1)))): build/fuzz/obj/$(1:.c=.o) build/fuzz/librelay.a build/fuzz/libproxy.a
	@echo '  LINK  $$@'
	$$(Q)$$(fuzz_cc) -fsanitize=fuzzer $$^ $$(lib_libs) -pthread -o $$@
endef
$(foreach s,$(fuzz_src),$(eval $(call fuzz_rule,$(s))))

-include $(wildcard $(B)/obj/*.d $(B)/obj/*/*.d $(B)/obj/*/*/*.d $(B)/obj/*/*/*/*.d build/fuzz/obj/*/*.d build/fuzz/obj/*/*/*.d)

# --- tests ------------------------------------------------------------------------------------------------------------

# Not OUTBOX_RELAY_...: to a relay that would be a setting, and an unknown one.
export TEST_RELAY_BINARY ?= $(CURDIR)/$(B)/outbox-relay
# The same, built with fault points.
faulty_variant := $(if $(SAN),$(subst $(comma),-,$(SAN)),release)-faults$(if $(findstring clang,$(CC)),-clang)
export TEST_FAULTS_BINARY ?= $(CURDIR)/build/$(faulty_variant)/outbox-relay

test: all $(tools) $(programs) $(mutant_services) $(for_sim) $(explore) $(mutant_explores) ## unit tests, simulator and mutants, edges and end to end against real PostgreSQL and Kafka
	@tests/totals.sh $(run_unit) $(run_sim) $(run_explore) $(run_edge) $(run_e2e) $(run_demo)

test-unit: $(for_unit) ## the modules, without any service
	@tests/totals.sh $(run_unit)

test-sim: $(for_sim) ## the real core in simulated time, and its mutants
	@tests/totals.sh $(run_sim)

test-explore: $(explore) $(mutant_explores) ## the real core twice, all interleavings of a small world; and its mutants
	@tests/totals.sh $(run_explore)

explore: $(explore) ## the same with every play that there is: minutes, and a few GB
	@tests/totals.sh '$(explore) all'

explore-mutants: $(mutant_explores) ## the shortest way to what each broken rule breaks
	@TRACES=1 tests/totals.sh tests/explore/mutants.sh

mutate: $(B)/test-unit $(sim) $(explore) $(quick) ## break relay/core in SAMPLE (100, all) places chosen by SEED: 85 of 100 must be noticed
	@BUILD=$(B) tests/totals.sh tests/mutate/mutate.sh

test-edge: all $(tools) $(if $(filter edge,$(suites)),$(B)/test-edge) ## each edge against its real peer
	@tests/totals.sh $(run_edge)

test-e2e: all $(tools) $(crash) ## whole relays, stopped and killed under load, judged by the oracle
	@tests/totals.sh $(run_e2e)

test-demo: all faulty $(tools) $(mutant_services) $(if $(filter demo,$(suites)),$(B)/test-demo) ## the services of the demo: the HTTP API, keys, consumers, kills
	@tests/totals.sh $(run_demo)

# EXAMPLES=n, SEED=n: tests/schemathesis/run.sh.
export EXAMPLES
schemathesis: all $(tools) $(if $(filter demo,$(suites)),$(B)/test-demo) build/schemathesis/venv/ready ## requests made up from the API's description: 200 an operation, nothing found
	@tests/totals.sh 'tests/schemathesis/suite.sh $(B)/test-demo'

build/schemathesis/venv/ready: tests/schemathesis/requirements.txt | $(early)
	@rm -rf $(@D)
	@echo '  VENV  $(@D)'
	$(Q)python3 -m venv $(@D) && $(@D)/bin/pip install -q --disable-pip-version-check -r $< && touch $@

# The relay that the crash tests' fault points are for.
faulty: | $(early)
	@$(MAKE) --no-print-directory FAULTS=1 build/$(faulty_variant)/outbox-relay

# Proofs and, when a test fails, what it left behind.
export TEST_EVIDENCE_FOLDER ?= $(CURDIR)/build/evidence
new_evidence = @rm -rf $(TEST_EVIDENCE_FOLDER) && mkdir -p $(TEST_EVIDENCE_FOLDER)
with_evidence := TEST_EVIDENCE=$(TEST_EVIDENCE_FOLDER)/faults

check: all faulty $(tools) $(crash) ## crash injection: kills, cuts, pauses and failovers, each judged by the oracle; 18 minutes at most
	$(new_evidence)
	@$(with_evidence) tests/totals.sh $(run_crash) 'tests/crash/evidence.sh $(TEST_EVIDENCE_FOLDER)/faults 100'

check-long: all faulty $(tools) $(crash) ## random mixed faults for MINUTES (10); SEED=n repeats the choices of a run
	$(new_evidence)
	@TEST_MINUTES=$(MINUTES) TEST_SEED=$(SEED) $(with_evidence) tests/totals.sh '$(crash) storm_' $(run_outage)

release-check: all faulty $(tools) $(crash) $(explore) $(mutant_relays) ## what is too long for check, and a long storm: before a release, some hours
	$(new_evidence)
	@TEST_MINUTES=$(MINUTES) TEST_SEED=$(SEED) $(with_evidence) tests/totals.sh $(run_long) '$(crash) outage_' '$(crash) storm_' '$(crash) mutant_' '$(explore) all' \
	  'tests/crash/evidence.sh $(TEST_EVIDENCE_FOLDER)/faults 500'

mutants-real: all $(tools) $(crash) $(mutant_relays) ## relays with one rule broken, on real services: each is caught by its line of the matrix
	@tests/totals.sh '$(crash) mutant_'

fuzz: $(fuzzers) ## run each fuzzer for FUZZ_SECONDS (20)
	@for f in $(fuzzers); do \
	  mkdir -p $$f.corpus && echo "  RUN   $$f" && \
	  $$f -max_total_time=$(FUZZ_SECONDS) -timeout=5 -print_final_stats=1 -artifact_prefix=$$f. $$f.corpus 2> $$f.log || { tail -40 $$f.log; exit 1; }; \
	  grep -E 'number_of_executed_units' $$f.log; \
	done

demo: all $(tools) ## the chain of services and its page; without a terminal half a minute of it, with kills; REAL=1: all ways, WAYS="none unique": some
	@BUILD=$(B) producer-demo/demo.sh

test-panel: all $(tools) ## the demo's page in a real Chromium, every button looked up in PostgreSQL and Kafka; pictures in build/panel
	@BUILD=$(B) tests/totals.sh '/usr/bin/python3 tests/panel/run.py'

demo-table: all $(tools) ## what each way to deal with duplicates makes of one scripted scenario, on a real Kafka; SEED=n, WAYS="..."
	@BUILD=$(B) SEED=$(SEED) producer-demo/demo_table.sh

bench: all $(tools) $(benches) ## drain and latency against a real Kafka, beside a textbook relay and CONTENDER=path
	@BUILD=$(B) tests/bench/bench.sh

bench-unique: all $(tools) $(benches) ## what the way unique of payment-consumer costs beside none, against a real Kafka
	@BUILD=$(B) tests/bench/unique.sh

# --- rules of the house -----------------------------------------------------------------------------------------------

layers: $(call objects,$(core_src)) ## who may include whom (relay/layers), and which symbols the core may need
	@awk -f tests/layers.awk relay/layers $(sort $(shell find relay -name '*.[ch]'))
	@tests/symbols.sh $(call objects,$(core_src))
	@echo 'layers: fine'

lint: ## cppcheck, and the sizes and habits of tests/style.sh
	@status=0; tests/style.sh $(formatted) || status=1; \
	cppcheck --quiet --std=c11 --language=c -j 2 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	  --suppress=missingIncludeSystem --suppress=unknownMacro --library=tests/cppcheck.cfg \
	  -D_GNU_SOURCE -DTEST_BUILD_FOLDER='"b"' -DTEST_SOURCE_FOLDER='"s"' -I. $(filter %.c,$(formatted)) || status=1; exit $$status
	@echo 'lint: fine'

format: ## clang-format everything in place
	@clang-format -i $(formatted)

format-check: ## fail if clang-format would change anything
	@clang-format --dry-run -Werror $(formatted)
	@echo 'format: fine'

# --- install ----------------------------------------------------------------------------------------------------------

install: $(relay) ## into $(DESTDIR)$(PREFIX)/bin
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(B)/outbox-relay $(DESTDIR)$(PREFIX)/bin/outbox-relay

uninstall: ## what install put there
	rm -f $(DESTDIR)$(PREFIX)/bin/outbox-relay

clean: ## remove build/
	rm -rf build

deps: ## install what is missing: Debian packages (sudo unless root), Kafka into the user's cache folder
	@tests/deps.sh
