# PostgreSQL with index_table:
#
#   docker build --build-arg PG_MAJOR=17 -t index_table .
#   docker run -e POSTGRES_PASSWORD=secret -p 5432:5432 index_table
#
# then CREATE EXTENSION index_table in a database; the library is loaded. test/matrix carries out these
# steps without docker (SUITE=image), and knows no more instructions than are used here.
ARG PG_MAJOR=17

FROM postgres:${PG_MAJOR} AS build
ARG PG_MAJOR
RUN apt-get update && \
    apt-get install -y --no-install-recommends g++ make libpq-dev postgresql-server-dev-${PG_MAJOR}
COPY . /src
WORKDIR /src
RUN make clean PG_CONFIG=/usr/lib/postgresql/${PG_MAJOR}/bin/pg_config && \
    make -j "$(nproc)" PG_CONFIG=/usr/lib/postgresql/${PG_MAJOR}/bin/pg_config with_llvm=no
RUN make install DESTDIR=/installed PG_CONFIG=/usr/lib/postgresql/${PG_MAJOR}/bin/pg_config with_llvm=no

FROM postgres:${PG_MAJOR}
COPY --from=build /installed/ /
CMD ["postgres", "-c", "shared_preload_libraries=index_table"]
