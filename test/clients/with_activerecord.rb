# ActiveRecord over pg: see 052_clients.pl for the tables, and docs/clients.md for the files in the directory that is the
# first argument: an initializer, and migrations. ActiveRecord looks a unique index up in the catalog before it sends ON CONFLICT with a target.
require "active_record"

IS_NATIVE = ENV["PGDATABASE"] == "native"
VERSION = ActiveRecord.version
STDOUT.sync = true
puts "# ActiveRecord #{VERSION}, Ruby #{RUBY_VERSION}"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: ENV["PGHOST"], port: ENV["PGPORT"], username: ENV["PGUSER"], database: ENV["PGDATABASE"], pool: 8
)

class Customer < ActiveRecord::Base
  self.primary_key = "customer_id"
end

class Handle < ActiveRecord::Base
  self.primary_key = "handle_id"
end

# --- Checks ------------------------------------------------------------------------------

$failed = false

# Runs a block. It fails by raising, and where it gives a string, that is why something is left out.
def check(title)
  reason = yield
  puts reason.is_a?(String) ? "skip #{title}: #{reason}" : "ok #{title}"
rescue StandardError => error
  $failed = true
  lines = error.backtrace.map { |place| place[/\A#{Regexp.escape(__FILE__)}:(\d+)/, 1].to_i }
  line = lines.find { |l| l > HELPERS }
  puts "not ok #{title}: line #{line}: #{error.class}: #{error.message.split.join(' ')[0, 600]}"
end

# Of arrays it says where they begin to differ.
def equal(is, should_be)
  return true if is == should_be

  is, should_be = is.zip(should_be).find { |a, b| a != b } if is.is_a?(Array) && is.size == should_be.size
  raise "#{is.inspect[0, 200]} where #{should_be.inspect[0, 200]} should be"
end

def raises(kind, pattern = nil)
  yield
rescue kind => error
  raise "#{error.message} is not #{pattern}" unless pattern.nil? || error.message =~ pattern

  true
else
  raise "no #{kind}"
end

# Runs the block in threads that start together, each with a connection of its own, and gives their results.
def race(number)
  ready = Queue.new
  start = Queue.new
  threads = Array.new(number) do |i|
    Thread.new do
      Thread.current.report_on_exception = false
      ActiveRecord::Base.connection_pool.with_connection do
        ready << i
        start.pop
        yield i
      end
    end
  end
  number.times { ready.pop }
  number.times { start << nil }
  threads.map(&:value)
end

def names(prefix)
  Customer.where("email LIKE ?", "#{prefix}%").order(:email).pluck(:email, :name, :n)
end

def numbered(prefix, number, **others)
  Array.new(number) { |i| { email: format("#{prefix}%03d", i), **others } }
end

def query(sql, *values)
  Customer.connection.exec_query(Customer.sanitize_sql([sql, *values]))
end

HELPERS = __LINE__

Customer.delete_all
Handle.delete_all

# --- Without the initializer ---------------------------------------------------------------

check("insert and insert_all, without unique_by") do
  equal(Customer.insert({ email: "insert1", name: "first" }).rows.size, 1)
  equal(Customer.insert({ email: "insert1", name: "second" }).rows.size, 0)
  Customer.insert_all(numbered("insertall", 50, name: "old"))
  equal(Customer.insert_all(numbered("insertall", 100, name: "new")).rows.size, 50)
  equal(names("insertall").map { |_, name, _| name }, ["old"] * 50 + ["new"] * 50)
end

check("insert_all! raises RecordNotUnique") do
  raises(ActiveRecord::RecordNotUnique) { Customer.insert_all!(numbered("insertall", 1)) }
end

check("upsert without unique_by is one by the primary key") do
  id = Customer.create!(email: "primary1", name: "first").id
  Customer.upsert({ customer_id: id, email: "primary1", name: "second" })
  equal(names("primary"), [["primary1", "second", 0]])
  raises(ActiveRecord::RecordNotUnique) { Customer.upsert({ customer_id: id + 1_000_000, email: "primary1" }) }
end

check("unique_by without the initializer") do
  upsert = -> { Customer.upsert({ email: "uniqueby", name: "first" }, unique_by: :email) }
  # It asks the table's own indexes, and the primary key, whatever the model says that is.
  IS_NATIVE ? upsert.call : raises(ArgumentError, /No unique index found for email/, &upsert)
  upsert = -> { Customer.upsert({ email: "uniqueby", name: "first" }, unique_by: :customers_by_email_key) }
  IS_NATIVE ? upsert.call : raises(ArgumentError, /No unique index found for customers_by_email_key/, &upsert)
end

check("ON CONFLICT in SQL: find_by_sql") do
  sql = <<~SQL
    INSERT INTO customers (email, name, n) VALUES (:email, :name, 1)
    ON CONFLICT (email) DO UPDATE SET name = excluded.name, n = customers.n + 1 RETURNING *
  SQL
  first = Customer.find_by_sql([sql, { email: "sql1", name: "first" }]).first
  second = Customer.find_by_sql([sql, { email: "sql1", name: "second" }]).first
  equal([second.id, second.name, second.n], [first.id, "second", 2])
end

check("ON CONFLICT in SQL, with bind parameters") do
  sql = "INSERT INTO customers (email, name) VALUES ($1, $2) ON CONFLICT (email) DO UPDATE SET n = customers.n + 1 RETURNING n"
  text = ActiveRecord::Type::Text.new
  counts = Array.new(10) do
    binds = { "email" => "binds1", "name" => "name" }.map { |k, v| ActiveRecord::Relation::QueryAttribute.new(k, v, text) }
    Customer.connection.exec_query(sql, "Upsert", binds, prepare: true).rows.first.first
  end
  equal(counts, (0..9).to_a)
end

# --- With the initializer --------------------------------------------------------------------

load File.join(ARGV.fetch(0), "config/initializers/index_table.rb") unless IS_NATIVE
Customer.connection.schema_cache.clear!
Handle.connection.schema_cache.clear!

check("insert and insert_all, unique_by") do
  equal(Customer.insert({ email: "by1", name: "first" }, unique_by: :email).rows.size, 1)
  equal(Customer.insert({ email: "by1", name: "second" }, unique_by: :email).rows.size, 0)
  Customer.insert_all(numbered("byall", 50, name: "old"), unique_by: :email)
  equal(Customer.insert_all(numbered("byall", 100, name: "new"), unique_by: :customers_by_email_key).rows.size, 50)
  used = Customer.find_by!(email: "by1").id
  raises(ActiveRecord::RecordNotUnique) { Customer.insert({ customer_id: used, email: "by2" }, unique_by: :email) }
end

check("upsert, unique_by") do
  first = Customer.upsert({ email: "upsert1", name: "first" }, unique_by: :email).rows.first
  second = Customer.upsert({ email: "upsert1", name: "second" }, unique_by: :email, returning: %i[customer_id name]).rows.first
  equal(second, first + ["second"])
end

check("upsert, unique_by: timestamps are touched where something changes") do
  Customer.upsert({ email: "touch1", name: "first", updated_at: "2020-01-01" }, unique_by: :email)
  Customer.upsert({ email: "touch1", name: "first" }, unique_by: :email)
  equal(Customer.find_by!(email: "touch1").updated_at.year, 2020)
  Customer.upsert({ email: "touch1", name: "second" }, unique_by: :email)
  equal(Customer.find_by!(email: "touch1").updated_at.year > 2020, true)
end

check("upsert_all, unique_by: RETURNING in the order of the rows") do
  Customer.insert_all(numbered("many", 100, name: "old").select.with_index { |_, i| i.even? })
  rows = numbered("many", 100, name: "new", n: 1).reverse
  result = Customer.upsert_all(rows, unique_by: :email, returning: %i[email n])
  equal(result.rows, rows.map { |row| [row[:email], 1] })
  equal(names("many"), rows.reverse.map { |row| [row[:email], "new", 1] })
end

check("upsert_all, unique_by: the same row twice") do
  raises(ActiveRecord::StatementInvalid, /CardinalityViolation/) do
    Customer.upsert_all([{ email: "twice", name: "a" }, { email: "twice", name: "b" }], unique_by: :email)
  end
  equal(names("twice"), [])
end

check("upsert, unique_by an expression with a predicate, by its name") do
  first = Handle.upsert({ handle: "rails" }, unique_by: :handles_by_handle_key).rows
  equal(Handle.upsert({ handle: "Rails" }, unique_by: :handles_by_handle_key).rows, first)
  equal(Handle.where("lower(handle) = 'rails'").pluck(:handle), ["Rails"])
  Handle.update_all(deleted_at: Time.now)
  equal(Handle.upsert({ handle: "RAILS" }, unique_by: :handles_by_handle_key).rows == first, false)
end

check("upsert_all: on_duplicate, update_only, record_timestamps") do
  next "is of Rails 7" if VERSION < Gem::Version.new("7.0")

  counting = Arel.sql("n = customers.n + 1")
  3.times { Customer.upsert_all(numbered("dup", 5, name: "name"), unique_by: :email, on_duplicate: counting) }
  equal(names("dup"), numbered("dup", 5).map { |row| [row[:email], "name", 2] })
  Customer.upsert_all(numbered("dup", 5, name: "new", n: 9), unique_by: :email, update_only: :name, record_timestamps: false)
  equal(names("dup"), numbered("dup", 5).map { |row| [row[:email], "new", 2] })
end

# --- Rows one by one, transactions, cursors ------------------------------------------------------

check("find_or_create_by, create_or_find_by") do
  first = Customer.find_or_create_by!(email: "find1") { |c| c.name = "first" }
  equal(Customer.find_or_create_by!(email: "find1").id, first.id)
  equal(Customer.create_or_find_by!(email: "find1").id, first.id)
  equal(Customer.create_or_find_by!(email: "find2") { |c| c.name = "second" }.name, "second")
end

check("savepoints: transaction(requires_new: true)") do
  Customer.transaction do
    Customer.create!(email: "nested1", name: "first")
    raises(ActiveRecord::RecordNotUnique) do
      Customer.transaction(requires_new: true) { Customer.create!(email: "nested1", name: "second") }
    end
    Customer.transaction(requires_new: true) do
      Customer.upsert({ email: "nested1", name: "third" }, unique_by: :email)
      Customer.upsert({ email: "nested2", name: "third" }, unique_by: :email)
      raise ActiveRecord::Rollback
    end
    Customer.transaction(requires_new: true) { Customer.upsert({ email: "nested3", name: "fourth" }, unique_by: :email) }
  end
  equal(names("nested"), [["nested1", "first", 0], ["nested3", "fourth", 0]])
end

check("create_or_find_by, in threads that race") do
  race(6) { 30.times { |i| equal(Customer.create_or_find_by!(email: format("race%03d", i)).new_record?, false) } }
  equal(names("race"), numbered("race", 30).map { |row| [row[:email], nil, 0] })
end

check("find_or_create_by, in threads that race") do
  race(6) do
    30.times do |i|
      Customer.find_or_create_by!(email: format("findrace%03d", i))
    rescue ActiveRecord::RecordNotUnique
      retry
    end
  end
  equal(names("findrace"), numbered("findrace", 30).map { |row| [row[:email], nil, 0] })
end

check("upsert_all, unique_by, in threads that race") do
  race(6) { 10.times { Customer.upsert_all(numbered("bulk", 50, name: "name"), unique_by: :email) } }
  equal(names("bulk"), numbered("bulk", 50).map { |row| [row[:email], "name", 0] })
end

check("upserts that count, in threads that race") do
  sql = "INSERT INTO customers (email, n) VALUES (?, 1) ON CONFLICT (email) DO UPDATE SET n = customers.n + 1"
  race(6) { |thread| 40.times { |i| query(sql, format("count%03d", (i + thread) % 5)) } }
  equal(names("count"), numbered("count", 5).map { |row| [row[:email], nil, 48] })
end

check("find_each, in_batches, and upserts meanwhile") do
  Customer.insert_all(numbered("each", 300, name: "old"))
  seen = []
  Customer.where("email LIKE 'each%'").find_each(batch_size: 50) do |customer|
    seen << customer.email
    Customer.upsert({ email: customer.email, name: "new" }, unique_by: :email)
  end
  equal(seen.sort, numbered("each", 300).map { |row| row[:email] })
  Customer.where("email LIKE 'each%'").in_batches(of: 70) { |batch| batch.update_all("n = n + 1") }
  equal(names("each"), numbered("each", 300).map { |row| [row[:email], "new", 1] })
end

check("a cursor, and upserts meanwhile") do
  Customer.insert_all(numbered("cursor", 300, name: "old"))
  seen = []
  Customer.transaction do
    chosen = Customer.where(email: "cursor000".."cursor299").order(:email).select(:email, :name).to_sql
    query("DECLARE c CURSOR FOR #{chosen}")
    while (rows = query("FETCH 50 FROM c").rows).any?
      seen.concat(rows)
      Customer.upsert_all(numbered("cursor", 300, name: "new"), unique_by: :email)
    end
  end
  equal(seen, numbered("cursor", 300).map { |row| [row[:email], "old"] })
end

check("with_lock, and lock!, by the key") do
  Customer.create!(email: "locked")
  Customer.transaction do
    Customer.lock.find_by!(email: "locked")
    race(1) { raises(ActiveRecord::LockWaitTimeout) { Customer.lock("FOR UPDATE NOWAIT").find_by!(email: "locked") } }
  end
  Customer.find_by!(email: "locked").with_lock { query("UPDATE customers SET n = n + 1 WHERE email = 'locked'") }
  equal(names("locked"), [["locked", nil, 1]])
end

check("REPEATABLE READ: a row that came meanwhile is a serialization failure") do
  sql = "INSERT INTO customers (email, name) VALUES ('repeatable', ?) ON CONFLICT (email) DO UPDATE SET name = excluded.name"
  raises(ActiveRecord::SerializationFailure) do
    Customer.transaction(isolation: :repeatable_read) do
      Customer.count
      race(1) { query(sql, "other") }
      query(sql, "mine")
    end
  end
  equal(names("repeatable"), [["repeatable", "other", 0]])
end

# --- Migrations ------------------------------------------------------------------------------------

class Invoice < ActiveRecord::Base
  self.primary_key = "invoice_id"
  validates :number, uniqueness: true
end

def migrate(direction, *steps)
  ActiveRecord::Migration.verbose = false
  migrations = [File.join(ARGV.fetch(0), "db/migrate")]
  migrations << ActiveRecord::SchemaMigration if VERSION < Gem::Version.new("7.1")
  ActiveRecord::MigrationContext.new(*migrations).public_send(direction, *steps)
  Invoice.connection.schema_cache.clear!
  Invoice.reset_column_information
end

def invoice_tables
  query("SELECT relname FROM pg_class WHERE relname LIKE ? AND relkind = 'r' ORDER BY 1", "invoices_by%").rows.flatten
end

check("migrations: up, down, up") do
  next "is of index tables" if IS_NATIVE

  migrate(:up)
  equal(invoice_tables, %w[invoices_by_customer invoices_by_number])
  migrate(:rollback, 2)
  equal(invoice_tables, [])
  migrate(:up)
  equal(invoice_tables, %w[invoices_by_customer invoices_by_number])
end

check("a model of a migrated table: uniqueness, upserts, look-ups") do
  next "is of index tables" if IS_NATIVE

  Invoice.create!(number: "A1", customer: "ann")
  equal(Invoice.new(number: "A1").valid?, false)
  raises(ActiveRecord::RecordNotUnique) { Invoice.new(number: "A1").save!(validate: false) }
  Invoice.upsert_all([{ number: "A1", customer: "bob" }, { number: "A2", customer: "bob" }], unique_by: :number)
  equal(Invoice.where(customer: "bob").order(:number).pluck(:number), %w[A1 A2])
  equal(Invoice.find_or_create_by!(number: "A2").customer, "bob")
end

exit($failed ? 1 : 0)
