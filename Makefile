# index_table: global secondary indexes for partitioned PostgreSQL.
#
#   make                build against the server of PG_CONFIG
#   make install        install into that server
#   make test           every suite on a throw-away server (installs what is missing)
#   make test PG_SOURCE=DIR  on a server built with assertions from PostgreSQL's source tree
#   make matrix         every suite on PostgreSQL 15, 17, 18 and 19, in chroots (root; see test/matrix)
#   make demo           the tour (KEEP=1 leaves its server running, MOVIES=FILE loads films)
#   make demo SHARDS=4  the tour of index tables over partitions on other servers
#   make lint           format and structure checks
#   make bench          speed against native PostgreSQL: tables and pictures in bench_results/
#   make DEBUG=-g1      less debugging information than the server has: compiles faster
#   make dist           index_table-VERSION.zip (PGXN) and .tar.gz of what is committed

EXTENSION  = index_table
EXTVERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" index_table.control)
MODULE_big = index_table
SOURCES    = $(wildcard src/*.cpp src/*/*.cpp)
OBJS       = $(SOURCES:.cpp=.o)
PCH        = src/pg.h.gch
INSTALL_SQL = $(EXTENSION)--$(EXTVERSION).sql
DATA       = $(wildcard src/sql/upgrade/*.sql)
DATA_built = $(INSTALL_SQL)
EXTRA_CLEAN = $(SOURCES:.cpp=.d) $(SOURCES:.cpp=.bc) $(PCH) $(PCH:.gch=.d)

PG_CXXFLAGS = -std=gnu++20 -fno-exceptions -fno-rtti -fno-threadsafe-statics \
	-fvisibility=hidden -fvisibility-inlines-hidden \
	'-DPGDLLEXPORT=__attribute__((visibility("default")))' \
	-Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers \
	-isystem $(shell $(PG_CONFIG) --includedir-server 2>/dev/null) \
	-isystem $(shell $(PG_CONFIG) --includedir 2>/dev/null) -Isrc
PG_CXXFLAGS += $(DEBUG)
ifneq ($(FAULTS),)
PG_CXXFLAGS += -DINDEX_TABLE_FAULTS # see src/core/fault.h
endif
SHLIB_LINK  = -L$(shell $(PG_CONFIG) --libdir 2>/dev/null) -lpq

REGRESS        = $(shell cat sql/schedule)
REGRESS_OPTS   = --inputdir=.
ISOLATION      = $(shell cat test/specs/schedule)
ISOLATION_OPTS = --inputdir=test
TAP_TESTS      = 1
PROVE_TESTS    = test/t/*.pl

PG_CONFIG ?= pg_config
PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))
ifneq ($(PGXS),) # else there is nothing to build with yet: test/run installs it
include $(PGXS)

COMPILE.cxx.bc += $(PG_CXXFLAGS)
ifeq ($(wildcard $(CLANG)),)
override with_llvm := no
endif
# PostgreSQL's headers are compiled once, not 200 times. g++ and clang++ look for src/pg.h.gch when they are
# told to include src/pg.h, and read the header itself where that is of no use.
$(OBJS) $(PCH): CXXFLAGS += -MMD -MP
$(OBJS): private CXXFLAGS += -include src/pg.h # else it includes itself, as it was: clang++ refuses that
$(OBJS): $(PCH)
$(PCH): src/pg.h Makefile
	rm -f $@
	$(COMPILE.cpp) -x c++-header -o $@ $<
-include $(SOURCES:.cpp=.d) $(PCH:.gch=.d)
endif

$(INSTALL_SQL): $(sort $(wildcard src/sql/*.sql))
	cat $^ > $@

.PHONY: demo test matrix lint bench soak dist
demo test bench:
	@test/run $@
matrix lint:
	@test/$@
soak:
	@SUITE=tap TESTS=130_soak SOAK_MINUTES=$(or $(MINUTES),30) TEST_MINUTES=$$(($(or $(MINUTES),30) + 15)) test/run test
dist:
	git archive --prefix=$(EXTENSION)-$(EXTVERSION)/ -o $(EXTENSION)-$(EXTVERSION).zip HEAD
	git archive --prefix=$(EXTENSION)-$(EXTVERSION)/ -o $(EXTENSION)-$(EXTVERSION).tar.gz HEAD
