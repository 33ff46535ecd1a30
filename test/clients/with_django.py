"""Django's ORM over psycopg2: see 052_clients.pl for the tables. It looks nothing up before it sends ON CONFLICT, and
believes its models: the tables are made elsewhere (managed = False). The directory that is the first argument has the
application that docs/clients.md shows, with models and migrations."""

import os
import sys
import warnings

import django
from django.conf import settings

from checks import IS_NATIVE, check, equal, finish, race, raises

print("#", "Django", django.get_version(), flush=True)
database = {
    "ENGINE": "django.db.backends.postgresql",
    "HOST": os.environ["PGHOST"],
    "PORT": os.environ["PGPORT"],
    "USER": os.environ["PGUSER"],
    "NAME": os.environ["PGDATABASE"],
}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    sys.path.insert(0, sys.argv[1])
    for package in "shop", "shop/migrations":
        open(os.path.join(sys.argv[1], package, "__init__.py"), "a").close()
    settings.configure(
        DATABASES={"default": database},
        INSTALLED_APPS=["shop"],
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()

from django.core.exceptions import ValidationError  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, OperationalError, connection, models, transaction  # noqa: E402
from django.db.models import F  # noqa: E402
from shop.models import Invoice  # noqa: E402


class Customer(models.Model):
    customer_id = models.BigAutoField(primary_key=True)
    email = models.TextField(unique=True)
    name = models.TextField(null=True)
    n = models.IntegerField(default=0)

    class Meta:
        app_label = "clients"
        managed = False
        db_table = "customers"


objects = Customer.objects
HAS_UPSERT = django.VERSION >= (4, 1)


def names(prefix):
    return list(objects.filter(email__startswith=prefix).order_by("email").values_list("email", "name", "n"))


def closing(function):
    """What a thread does, with a connection of its own."""

    def run(thread):
        try:
            return function(thread)
        finally:
            connection.close()

    return run


objects.all().delete()


@check("get_or_create")
def _():
    first, is_new = objects.get_or_create(email="get1", defaults={"name": "first"})
    equal(is_new, True)
    second, is_new = objects.get_or_create(email="get1", defaults={"name": "second"})
    equal((second.pk, second.name, is_new), (first.pk, "first", False))


@check("update_or_create")
def _():
    first, is_new = objects.update_or_create(email="update1", defaults={"name": "first"})
    equal(is_new, True)
    second, is_new = objects.update_or_create(email="update1", defaults={"name": "second"})
    equal((second.pk, is_new), (first.pk, False))
    equal(names("update1"), [("update1", "second", 0)])


@check("a duplicate is an IntegrityError, in a savepoint")
def _():
    with transaction.atomic():
        objects.create(email="savepoint1", name="first")

        def twice():
            with transaction.atomic():
                objects.create(email="savepoint1", name="second")

        raises(IntegrityError, "23505", twice)
        objects.create(email="savepoint2", name="third")
    equal(names("savepoint"), [("savepoint1", "first", 0), ("savepoint2", "third", 0)])


@check("validate_unique finds a duplicate")
def _():
    objects.create(email="valid")
    try:
        Customer(email="valid", name="name").full_clean()
    except ValidationError as error:
        equal(list(error.message_dict), ["email"])
        return
    raise AssertionError("it did not")


@check("bulk_create(ignore_conflicts)")
def _():
    objects.bulk_create([Customer(email=f"ignore{i:03}", name="old") for i in range(0, 300, 2)])
    objects.bulk_create([Customer(email=f"ignore{i:03}", name="new") for i in range(300)], ignore_conflicts=True)
    equal(names("ignore"), [(f"ignore{i:03}", "new" if i % 2 else "old", 0) for i in range(300)])


@check("bulk_create(update_conflicts)")
def _():
    if not HAS_UPSERT:
        return "is of Django 4.1"

    def upsert(name, n, **options):
        made = [Customer(email=f"upsert{i:03}", name=name, n=n) for i in range(0, 300, 2 - n)]
        return objects.bulk_create(
            made, update_conflicts=True, unique_fields=["email"], update_fields=["name"], **options
        )

    upsert("old", 0)
    ids = dict(objects.filter(email__startswith="upsert").values_list("email", "pk"))
    made = upsert("new", 1, batch_size=70)
    equal(names("upsert"), [(f"upsert{i:03}", "new", i % 2) for i in range(300)])
    if django.VERSION >= (5, 0):
        for customer in made:
            equal(customer.pk, ids.get(customer.email, customer.pk))
            equal(customer.pk, objects.get(email=customer.email).pk)


@check("ON CONFLICT in SQL")
def _():
    # What there is before bulk_create(update_conflicts), and what that cannot do.
    sql = """INSERT INTO customers (email, name, n) VALUES (%s, %s, 1)
             ON CONFLICT (email) DO UPDATE SET name = excluded.name, n = customers.n + 1 RETURNING *"""
    first = objects.raw(sql, ["raw", "first"])[0]
    second = objects.raw(sql, ["raw", "second"])[0]
    equal((first.name, first.n), ("first", 1))
    equal((second.pk, second.name, second.n), (first.pk, "second", 2))
    with connection.cursor() as cursor:
        cursor.executemany(sql, [(f"rawmany{i % 5}", "name") for i in range(15)])
    equal(names("rawmany"), [(f"rawmany{i}", "name", 3) for i in range(5)])


@check("savepoints: what is rolled back has not happened")
def _():
    with transaction.atomic():
        objects.update_or_create(email="nested1", defaults={"name": "first"})
        savepoint = transaction.savepoint()
        objects.update_or_create(email="nested1", defaults={"name": "second"})
        objects.bulk_create([Customer(email=f"nested{i}", name="second") for i in (1, 2)], ignore_conflicts=True)
        transaction.savepoint_rollback(savepoint)
        equal(names("nested"), [("nested1", "first", 0)])
        objects.bulk_create([Customer(email=f"nested{i}", name="third") for i in (1, 2)], ignore_conflicts=True)
    equal(names("nested"), [("nested1", "first", 0), ("nested2", "third", 0)])


@check("get_or_create, in threads that race")
def _():
    @closing
    def run(thread):
        return sum(objects.get_or_create(email=f"race{i:02}", defaults={"name": "made"})[1] for i in range(30))

    equal(sum(race(6, run)), 30)
    equal(names("race"), [(f"race{i:02}", "made", 0) for i in range(30)])


@check("update_or_create, in threads that race")
def _():
    @closing
    def run(thread):
        made = 0
        for i in range(30):
            made += objects.update_or_create(email=f"count{i % 10}", defaults={"name": "name", "n": F("n") + 1})[1]
        return made

    # The value for a new row cannot ask for that of an old one.
    for i in range(10):
        objects.create(email=f"count{i}")
    equal(sum(race(6, run)), 0)
    equal(names("count"), [(f"count{i}", "name", 18) for i in range(10)])

    @closing
    def make(thread):
        return sum(objects.update_or_create(email=f"made{i:02}", defaults={"name": "name"})[1] for i in range(30))

    equal(sum(race(6, make)), 30)


@check("bulk_create(ignore_conflicts), in threads that race")
def _():
    @closing
    def run(thread):
        for _ in range(5):
            objects.bulk_create([Customer(email=f"bulk{i:02}", name="name") for i in range(50)], ignore_conflicts=True)

    race(6, run)
    equal(names("bulk"), [(f"bulk{i:02}", "name", 0) for i in range(50)])


@check("upserts that count, in threads that race")
def _():
    sql = "INSERT INTO customers (email, n) VALUES (%s, 1) ON CONFLICT (email) DO UPDATE SET n = customers.n + 1"

    @closing
    def run(thread):
        for i in range(40):
            with connection.cursor() as cursor:
                cursor.execute(sql, [f"upcount{(i + thread) % 5}"])

    race(6, run)
    equal(names("upcount"), [(f"upcount{i}", None, 48) for i in range(5)])


@check("iterator(): a server-side cursor, and changes meanwhile")
def _():
    objects.bulk_create([Customer(email=f"cursor{i:03}", name="old") for i in range(500)])
    ordered = objects.filter(email__gte="cursor000", email__lte="cursor499").order_by("email")

    def read():
        seen = []
        for customer in ordered.iterator(chunk_size=50):
            seen.append((customer.email, customer.name))
            if len(seen) == 100:
                ordered.update(name="new")
                objects.bulk_create([Customer(email=f"cursor{i:03}", name="newer") for i in range(500)], ignore_conflicts=True)
        return seen

    # Outside of a transaction it is WITH HOLD, inside it is not.
    equal(read(), [(f"cursor{i:03}", "old") for i in range(500)])
    with transaction.atomic():
        equal(read(), [(f"cursor{i:03}", "new") for i in range(500)])


@check("in_bulk, by the key")
def _():
    objects.bulk_create([Customer(email=f"inbulk{i}") for i in range(5)])
    found = objects.in_bulk([f"inbulk{i}" for i in range(7)], field_name="email")
    equal(sorted(found), [f"inbulk{i}" for i in range(5)])


@check("select_for_update, by the key")
def _():
    objects.create(email="locked")
    with transaction.atomic():
        objects.select_for_update().get(email="locked")

        @closing
        def lock(thread):
            def at_once():
                with transaction.atomic():
                    objects.select_for_update(nowait=True).get(email="locked")

            raises(OperationalError, "55P03", at_once)

        race(1, lock)


def invoice_tables():
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relname LIKE 'invoices_by%' AND relkind = 'r' ORDER BY 1")
        return [name for name, in cursor.fetchall()]


@check("migrations: forwards, backwards, forwards, and none is missing")
def _():
    if IS_NATIVE:
        return "is of index tables"
    call_command("migrate", "shop", verbosity=0)
    equal(invoice_tables(), ["invoices_by_customer", "invoices_by_number"])
    try:
        call_command("makemigrations", "shop", check_changes=True, dry_run=True, verbosity=0)
    except SystemExit:
        raise AssertionError("makemigrations finds what to do")
    call_command("migrate", "shop", "0001", verbosity=0)
    equal(invoice_tables(), ["invoices_by_number"])
    call_command("migrate", "shop", "zero", verbosity=0)
    equal(invoice_tables(), [])
    call_command("migrate", "shop", verbosity=0)


@check("a model of a migrated table: uniqueness, get_or_create, look-ups")
def _():
    if IS_NATIVE:
        return "is of index tables"
    Invoice.objects.create(invoice_id=1, number="A1", customer="ann")
    raises(IntegrityError, "23505", lambda: Invoice.objects.create(invoice_id=2, number="A1"))
    try:
        Invoice(invoice_id=2, number="A1", customer="bob").full_clean()
    except ValidationError as error:
        equal(list(error.message_dict), ["number"])
    else:
        raise AssertionError("it is valid")
    equal(Invoice.objects.get_or_create(number="A1", defaults={"invoice_id": 2})[1], False)
    equal(Invoice.objects.get_or_create(number="A2", defaults={"invoice_id": 2, "customer": "ann"})[1], True)
    equal(list(Invoice.objects.filter(customer="ann").order_by("number").values_list("number", flat=True)), ["A1", "A2"])


finish()
