# Migrations, create, read, update, delete and transactions by ActiveRecord. It
# prints what it gets, to be compared between two servers.
require 'logger'
require 'bigdecimal'
require 'active_record'

$stdout.set_encoding('UTF-8')
$stdout.sync = true
ActiveRecord::Base.establish_connection(
  adapter: 'mysql2', host: ENV['DRIVER_HOST'], port: ENV['DRIVER_PORT'].to_i, username: ENV['DRIVER_USER'],
  password: ENV['DRIVER_PASSWORD'], database: ENV['DRIVER_SCHEMA'], encoding: 'utf8mb4', prepared_statements: ENV['DRIVER_PREPARED'] == '1'
)
ActiveRecord::Migration.verbose = false

class CreateBooks < ActiveRecord::Migration[6.1]
  def change
    create_table :authors do |t|
      t.string :email, limit: 80, index: true
      t.string :name, limit: 80, null: false, default: 'nobody'
      t.decimal :paid, precision: 10, scale: 2
      t.json :extra
      t.binary :raw
      t.boolean :active, default: true
      t.datetime :seen, precision: 6
    end
    create_table :books do |t|
      t.references :author
      t.string :title, limit: 100
    end
  end
end

class ChangeAuthors < ActiveRecord::Migration[6.1]
  def change
    add_column :authors, :city, :string, limit: 40, default: 'none'
    add_index :authors, :city
    rename_column :authors, :seen, :last_seen
  end
end

class Author < ActiveRecord::Base
  has_many :books, -> { order(:id) }
  validates :email, length: { maximum: 80 }
end

class Book < ActiveRecord::Base
  belongs_to :author, optional: true
end

def failing(what)
  p [what, yield]
rescue ActiveRecord::StatementInvalid => e
  p [what, e.class, e.message]
end

def migrator(*versions)
  list = versions.map { |name, version| ActiveRecord::MigrationProxy.new(name, version, nil, nil).tap { |m| m.define_singleton_method(:migration) { Object.const_get(name).new(name, version) } } }
  ActiveRecord::Migrator.new(:up, list, ActiveRecord::SchemaMigration)
end

migrator(['CreateBooks', 1]).migrate
connection = ActiveRecord::Base.connection
p connection.tables.sort, connection.columns(:authors).map { |c| [c.name, c.sql_type, c.null, c.default] }
p connection.indexes(:authors).map { |i| [i.name, i.columns, i.unique] }, connection.primary_key(:authors)

ada = Author.create!(email: 'ada@x', name: 'Ada 🐬', paid: 12.5, extra: '{"a": [1, null, "ü"]}', raw: (0..255).to_a.pack('C*'), seen: Time.utc(2024, 2, 29, 12, 0, 0, 123_456))
p ada.id, ada.books.create!(title: 'One').id, ada.books.create!(title: 'Two').id
%w[b c d e].each_with_index { |c, i| Author.create!(email: "#{c}@x", paid: i) }
a = Author.find_by(email: 'ada@x')
p a.name, a.paid, a.extra, a.raw.bytesize, a.active, a.seen.strftime('%F %T.%6N')
p Author.where('paid > ?', 1).order(:id).pluck(:email), Author.where(id: [1, 2, 77]).order(:email).ids, Author.find_by(email: 'nobody')
p Author.includes(:books).order(:id).map { |x| [x.id, x.books.map(&:title)] }
p Author.joins(:books).order('books.id').pluck(:name, :title), Author.left_joins(:books).where(books: { id: nil }).order(:id).ids
p Book.group(:author_id).count, Author.sum(:paid), Author.average(:paid), Author.maximum(:email), Author.count, Author.distinct.count(:name)
p Author.order(paid: :desc, id: :asc).limit(2).offset(1).ids, Author.exists?(email: 'b@x'), Author.exists?(email: 'z@x')
p Author.where(id: Book.select(:author_id)).ids, Author.order(:id).find_each(batch_size: 2).map(&:id)
p a.update!(name: 'Ada L.'), Author.where('paid < 3').update_all("name = CONCAT(name, '!')"), Author.find(5).destroy.id, Author.where(email: 'd@x').delete_all
p Author.increment_counter(:paid, 2), Author.find(2).paid
Author.insert_all([{ email: 'm@x', name: 'M' }, { email: 'n@x', name: 'N' }])
Author.upsert_all([{ id: 1, email: 'up@x', name: 'by upsert' }, { id: 60, email: 'new@x', name: 'new' }])
p Author.order(:id).pluck(:id, :email, :name)
failing('duplicate') { Author.create!(id: 1) }
failing('no table') { connection.select_all('SELECT * FROM nothing') }
failing('too long') { connection.execute("INSERT INTO authors (email) VALUES (REPEAT('x', 100))") }
Author.transaction do
  Author.create!(email: 'rolled@x')
  raise ActiveRecord::Rollback
end
Author.transaction(isolation: :read_committed) do
  Author.create!(email: 'kept@x')
  Author.transaction(requires_new: true) do
    Author.create!(email: 'inner@x')
    raise ActiveRecord::Rollback
  end
  p Author.lock.find(1).name
end
p Author.order(:id).pluck(:email)

migrator(['CreateBooks', 1], ['ChangeAuthors', 2]).migrate
Author.reset_column_information
p Author.column_names, Author.distinct.pluck(:city), connection.index_exists?(:authors, :city), ActiveRecord::SchemaMigration.pluck(:version).sort
connection.drop_table(:books)
connection.drop_table(:authors)
p connection.tables.sort
