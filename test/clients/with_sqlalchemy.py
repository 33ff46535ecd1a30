"""SQLAlchemy, Core and ORM, over psycopg2: see 052_clients.pl for the tables. It looks nothing up before it sends
ON CONFLICT: neither the target nor the constraint need be there for it. The directory that is the first argument has
what docs/clients.md shows of Alembic."""

import os
import sys
import types

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects.postgresql import insert

from checks import IS_NATIVE, check, equal, finish, race, raises

print("#", "SQLAlchemy", sa.__version__, flush=True)
url = sa.engine.URL.create(
    "postgresql+psycopg2",
    username=os.environ["PGUSER"],
    database=os.environ["PGDATABASE"],
    query={"host": os.environ["PGHOST"], "port": os.environ["PGPORT"]},
)
engine = sa.create_engine(url, future=True, pool_size=8)
Base = orm.declarative_base()


class Customer(Base):
    __tablename__ = "customers"
    customer_id = sa.Column(sa.BigInteger, primary_key=True, server_default=sa.FetchedValue())
    email = sa.Column(sa.Text, nullable=False, unique=True)
    name = sa.Column(sa.Text)
    n = sa.Column(sa.Integer, nullable=False, server_default=sa.FetchedValue())
    updated_at = sa.Column(sa.DateTime(timezone=True))


class Handle(Base):
    __tablename__ = "handles"
    handle_id = sa.Column(sa.BigInteger, primary_key=True, server_default=sa.FetchedValue())
    handle = sa.Column(sa.Text, nullable=False)
    deleted_at = sa.Column(sa.DateTime(timezone=True))


customers = Customer.__table__
handles = Handle.__table__


def counting(**values):
    """The upsert that most checks are about: it counts in n."""
    statement = insert(customers)
    if values:
        statement = statement.values(**values)
    return statement.on_conflict_do_update(
        index_elements=["email"], set_={"name": statement.excluded.name, "n": customers.c.n + 1}
    )


def names(prefix):
    chosen = sa.select(customers.c.email, customers.c.name, customers.c.n).where(customers.c.email.like(prefix + "%"))
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(chosen.order_by(customers.c.email))]


with engine.begin() as connection:
    connection.execute(sa.delete(customers))
    connection.execute(sa.delete(handles))


@check("on_conflict_do_nothing, with index_elements")
def _():
    with engine.begin() as connection:
        statement = insert(customers).values(email="ignore1", name="first")
        ignoring = statement.on_conflict_do_nothing(index_elements=["email"])
        equal(connection.execute(ignoring).rowcount, 1)
        equal(connection.execute(ignoring).rowcount, 0)
        equal(connection.execute(ignoring.returning(customers.c.n)).all(), [])
    equal(names("ignore1"), [("ignore1", "first", 0)])


@check("on_conflict_do_nothing, with a constraint")
def _():
    with engine.begin() as connection:
        statement = insert(customers).values(email="ignore2", name="first")
        ignoring = statement.on_conflict_do_nothing(constraint="customers_by_email_key")
        equal(connection.execute(ignoring).rowcount, 1)
        equal(connection.execute(ignoring).rowcount, 0)


@check("on_conflict_do_nothing, without a target")
def _():
    with engine.begin() as connection:
        ignoring = insert(customers).values(email="ignore3").on_conflict_do_nothing()
        equal(connection.execute(ignoring).rowcount, 1)
        equal(connection.execute(ignoring).rowcount, 0)


@check("on_conflict_do_nothing: another key is an error")
def _():
    with engine.begin() as connection:
        used = connection.execute(insert(customers).values(email="ignore4").returning(customers.c.customer_id)).scalar()

    def twice():
        with engine.begin() as connection:
            statement = insert(customers).values(customer_id=used, email="ignore5")
            connection.execute(statement.on_conflict_do_nothing(index_elements=["email"]))

    raises(sa.exc.IntegrityError, "23505", twice)


@check("on_conflict_do_update")
def _():
    with engine.begin() as connection:
        returning = [customers.c.customer_id, customers.c.name, customers.c.n]
        first = connection.execute(counting(email="update1", name="first").returning(*returning)).one()
        second = connection.execute(counting(email="update1", name="second").returning(*returning)).one()
        equal((first.name, first.n), ("first", 0))
        equal((second.customer_id, second.name, second.n), (first.customer_id, "second", 1))
        equal(connection.execute(counting(email="update1", name="third")).rowcount, 1)
    equal(names("update1"), [("update1", "third", 2)])


@check("on_conflict_do_update, with a constraint")
def _():
    with engine.begin() as connection:
        statement = insert(customers).values(email="update2", name="first")
        updating = statement.on_conflict_do_update(constraint="customers_by_email_key", set_={"name": "second"})
        connection.execute(updating)
        equal(connection.execute(updating.returning(customers.c.name)).scalar(), "second")


@check("on_conflict_do_update, with where")
def _():
    with engine.begin() as connection:
        statement = insert(customers).values(email="update3", name="first")
        updating = statement.on_conflict_do_update(
            index_elements=[customers.c.email], set_={"n": customers.c.n + 1}, where=customers.c.n < 2
        ).returning(customers.c.n)
        equal([connection.execute(updating).scalar() for _ in range(5)], [0, 1, 2, None, None])


@check("on_conflict_do_update, with an expression and a predicate")
def _():
    def updating(handle):
        return insert(handles).values(handle=handle).on_conflict_do_update(
            index_elements=[sa.text("lower(handle)")],
            index_where=handles.c.deleted_at.is_(None),
            set_={"handle": handle},
        ).returning(handles.c.handle_id)

    with engine.begin() as connection:
        first = connection.execute(updating("sqlalchemy")).scalar()
        equal(connection.execute(updating("SQLAlchemy")).scalar(), first)
        connection.execute(sa.update(handles).where(handles.c.handle_id == first).values(deleted_at=sa.func.now()))
        equal(connection.execute(updating("SQLALCHEMY")).scalar() != first, True)
        found = sa.select(handles.c.handle).where(sa.func.lower(handles.c.handle) == "sqlalchemy").order_by("handle_id")
        equal(connection.execute(found).scalars().all(), ["SQLAlchemy", "SQLALCHEMY"])


@check("many rows in one statement: RETURNING in their order")
def _():
    with engine.begin() as connection:
        connection.execute(insert(customers).values([{"email": f"rows{i:02}", "name": "old"} for i in range(0, 20, 2)]))
        statement = insert(customers).values([{"email": f"rows{i:02}", "name": "new"} for i in range(19, -1, -1)])
        updating = statement.on_conflict_do_update(
            index_elements=["email"], set_={"name": statement.excluded.name, "n": customers.c.n + 1}
        ).returning(customers.c.email, customers.c.n)
        returned = [tuple(row) for row in connection.execute(updating)]
        equal(returned, [(f"rows{i:02}", (i + 1) % 2) for i in range(19, -1, -1)])
    equal(names("rows"), [(f"rows{i:02}", "new", (i + 1) % 2) for i in range(20)])


@check("many rows, one of them twice")
def _():
    def twice():
        with engine.begin() as connection:
            statement = insert(customers).values([{"email": "twice", "name": "a"}, {"email": "twice", "name": "b"}])
            connection.execute(statement.on_conflict_do_update(index_elements=["email"], set_={"n": 1}))

    raises(sa.exc.ProgrammingError, "21000", twice)
    equal(names("twice"), [])


@check("executemany")
def _():
    with engine.begin() as connection:
        for name in "first", "second":
            connection.execute(counting(), [{"email": f"many{i:04}", "name": name} for i in range(2500)])
    equal(names("many"), [(f"many{i:04}", "second", 1) for i in range(2500)])


@check("executemany with RETURNING")
def _():
    if int(sa.__version__.split(".")[0]) < 2:
        return "insertmanyvalues is of SQLAlchemy 2"
    with engine.begin() as connection:
        for name in "first", "second":
            result = connection.execute(
                counting().returning(customers.c.email, customers.c.n),
                [{"email": f"insertmany{i:04}", "name": name} for i in range(2500)],
            )
            equal(len(result.all()), 2500)
    equal(names("insertmany"), [(f"insertmany{i:04}", "second", 1) for i in range(2500)])


@check("INSERT … SELECT")
def _():
    with engine.begin() as connection:
        connection.execute(insert(customers).values([{"email": f"source{i}", "name": "source"} for i in range(10)]))
        connection.execute(insert(customers).values([{"email": f"target{i}", "name": "old"} for i in range(5)]))
        chosen = sa.select(sa.func.replace(customers.c.email, "source", "target"), customers.c.name)
        statement = insert(customers).from_select(["email", "name"], chosen.where(customers.c.email.like("source%")))
        updating = statement.on_conflict_do_update(
            index_elements=["email"], set_={"name": statement.excluded.name, "n": customers.c.n + 1}
        )
        equal(connection.execute(updating).rowcount, 10)
    equal(names("target"), [(f"target{i}", "source", 1 if i < 5 else 0) for i in range(10)])


@check("in a CTE")
def _():
    with engine.begin() as connection:
        for n in 0, 1:
            upserted = counting(email="cte", name="name").returning(customers.c.n).cte("upserted")
            equal(connection.execute(sa.select(upserted.c.n)).all(), [(n,)])


@check("ORM: objects from RETURNING")
def _():
    with orm.Session(engine, future=True) as session, session.begin():
        mine = Customer(email="orm", name="first")
        session.add(mine)
        session.flush()
        statement = counting(email="orm", name="second").returning(Customer)
        options = {"populate_existing": True}
        found = session.execute(sa.select(Customer).from_statement(statement).execution_options(**options)).scalars().one()
        equal(found is mine, True)
        equal((mine.name, mine.n), ("second", 1))


@check("ORM: a duplicate is an IntegrityError, in a savepoint")
def _():
    with orm.Session(engine, future=True) as session, session.begin():
        session.add(Customer(email="savepoint1", name="first"))
        session.flush()

        def twice():
            with session.begin_nested():
                session.add(Customer(email="savepoint1", name="second"))

        raises(sa.exc.IntegrityError, "23505", twice)
        session.add(Customer(email="savepoint2", name="third"))
    equal(names("savepoint"), [("savepoint1", "first", 0), ("savepoint2", "third", 0)])


@check("savepoints: what is rolled back has not happened")
def _():
    with engine.begin() as connection:
        connection.execute(counting(email="nested1", name="first"))
        savepoint = connection.begin_nested()
        connection.execute(counting(email="nested1", name="second"))
        connection.execute(counting(email="nested2", name="second"))
        savepoint.rollback()
        with connection.begin_nested():
            connection.execute(counting(email="nested1", name="third"))
            connection.execute(counting(email="nested2", name="third"))
    equal(names("nested"), [("nested1", "third", 1), ("nested2", "third", 0)])


@check("get or create, in threads that race")
def _():
    def get_or_create(session, email):
        chosen = sa.select(Customer).where(Customer.email == email)
        found = session.execute(chosen).scalars().one_or_none()
        if found:
            return found, False
        try:
            with session.begin_nested():
                created = Customer(email=email, name="made")
                session.add(created)
            return created, True
        except sa.exc.IntegrityError:
            return session.execute(chosen).scalars().one(), False

    def run(thread):
        made = 0
        for i in range(30):
            with orm.Session(engine, future=True) as session, session.begin():
                customer, is_new = get_or_create(session, f"race{i:02}")
                equal(customer.email, f"race{i:02}")
                made += is_new
        return made

    equal(sum(race(6, run)), 30)
    equal(names("race"), [(f"race{i:02}", "made", 0) for i in range(30)])


@check("upserts that count, in threads that race")
def _():
    def run(thread):
        for i in range(40):
            with engine.begin() as connection:
                connection.execute(counting(email=f"count{(i + thread) % 5}", name="name"))

    race(6, run)
    equal(names("count"), [(f"count{i}", "name", 47) for i in range(5)])


@check("upserts of many rows, in threads that race")
def _():
    def run(thread):
        for _ in range(10):
            with engine.begin() as connection:
                connection.execute(counting(), [{"email": f"bulkrace{i:02}", "name": "name"} for i in range(50)])

    race(6, run)
    equal(names("bulkrace"), [(f"bulkrace{i:02}", "name", 59) for i in range(50)])


@check("REPEATABLE READ: a row that came meanwhile is a serialization failure")
def _():
    def upsert():
        with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection, connection.begin():
            connection.execute(sa.select(sa.func.count()).select_from(customers))
            with engine.begin() as other:
                other.execute(counting(email="repeatable", name="other"))
            connection.execute(counting(email="repeatable", name="mine"))

    raises(sa.exc.OperationalError, "40001", upsert)
    equal(names("repeatable"), [("repeatable", "other", 0)])


@check("a server-side cursor, and upserts meanwhile")
def _():
    with engine.begin() as connection:
        connection.execute(counting(), [{"email": f"cursor{i:03}", "name": "old"} for i in range(500)])
    with engine.begin() as connection:
        chosen = sa.select(customers.c.email, customers.c.name).where(customers.c.email.between("cursor000", "cursor499"))
        chosen = chosen.order_by("email").execution_options(stream_results=True, max_row_buffer=50)
        seen = []
        for row in connection.execute(chosen):
            seen.append(tuple(row))
            if len(seen) == 100:
                connection.execute(counting(), [{"email": f"cursor{i:03}", "name": "new"} for i in range(500)])
    equal(seen, [(f"cursor{i:03}", "old") for i in range(500)])
    equal(names("cursor")[499], ("cursor499", "new", 1))


@check("reflection")
def _():
    inspector = sa.inspect(engine)
    found = [c["name"] for c in inspector.get_unique_constraints("customers")]
    equal(found, ["customers_by_email_key"] if IS_NATIVE else [])
    equal("customers_by_email" in inspector.get_table_names(), not IS_NATIVE)


# --- Alembic --------------------------------------------------------------------------

try:
    import alembic.autogenerate
    import alembic.command
    import alembic.config
    import alembic.migration
except ImportError:
    alembic = None


# What env.py imports.
models = types.ModuleType("models")
models.Base = orm.declarative_base()
models.engine = engine
sys.modules["models"] = models


class Invoice(models.Base):
    __tablename__ = "invoices"
    invoice_id = sa.Column(sa.BigInteger, primary_key=True, autoincrement=False)
    number = sa.Column(sa.Text, nullable=False)
    customer = sa.Column(sa.Text)


def invoice_tables():
    return [name for name in sorted(sa.inspect(engine).get_table_names()) if name.startswith("invoices_by")]


def left_out():
    if IS_NATIVE:
        return "is of index tables"
    return None if alembic else "is of Alembic, which is not installed"


@check("migrations: up, down, up, and autogenerate finds nothing")
def _():
    if left_out():
        return left_out()
    config = alembic.config.Config()
    config.set_main_option("script_location", os.path.join(sys.argv[1], "alembic"))
    alembic.command.upgrade(config, "head")
    equal(invoice_tables(), ["invoices_by_customer", "invoices_by_number"])
    def differences():
        found = []

        def look(context, revision, directives):
            found.extend(directives[0].upgrade_ops.as_diffs())
            directives[:] = []

        alembic.command.revision(config, autogenerate=True, process_revision_directives=look)
        # The tables of the other checks are not this model's.
        return [diff[0] for diff in found if diff[0] != "remove_table" or diff[1].name not in ("customers", "handles")]

    equal(differences(), [])
    wider = sa.MetaData()
    Invoice.__table__.to_metadata(wider).append_column(sa.Column("note", sa.Text))
    models.Base.metadata, before = wider, models.Base.metadata
    equal(differences(), ["add_column"])
    models.Base.metadata = before
    alembic.command.downgrade(config, "0001")
    equal(invoice_tables(), ["invoices_by_number"])
    alembic.command.downgrade(config, "base")
    equal(invoice_tables(), [])
    alembic.command.upgrade(config, "head")


@check("a model of a migrated table: uniqueness, upserts, look-ups")
def _():
    if left_out():
        return left_out()
    with orm.Session(engine, future=True) as session, session.begin():
        session.add(Invoice(invoice_id=1, number="A1", customer="ann"))
        session.flush()

        def twice():
            with session.begin_nested():
                session.add(Invoice(invoice_id=2, number="A1"))

        raises(sa.exc.IntegrityError, "23505", twice)
        upsert = insert(Invoice).values([{"invoice_id": i, "number": f"A{i}", "customer": "bob"} for i in (1, 2)])
        session.execute(upsert.on_conflict_do_update(index_elements=["number"], set_={"customer": "bob"}))
        chosen = sa.select(Invoice.number).where(Invoice.customer == "bob").order_by("number")
        equal(session.execute(chosen).scalars().all(), ["A1", "A2"])


finish()
