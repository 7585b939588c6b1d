"""Create, read, update, delete, transactions and migrations by SQLAlchemy's ORM and
Alembic. It prints
what it gets, to be compared between two servers."""
import datetime
import decimal
import os

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import (JSON, Boolean, Column, DateTime, Integer, LargeBinary, MetaData, Numeric, String, Table, create_engine, event, func,
                        inspect, select, text)
from sqlalchemy.dialects.mysql import BIGINT, insert
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session, declarative_base, foreign, relationship, selectinload, joinedload

env = os.environ
engine = create_engine(
    "mysql+%s://%s:%s@%s:%s/%s?charset=utf8mb4" % ("pymysql", env["DRIVER_USER"], env["DRIVER_PASSWORD"], env["DRIVER_HOST"], env["DRIVER_PORT"], env["DRIVER_SCHEMA"]),
    pool_size=2, pool_pre_ping=True, isolation_level="REPEATABLE READ")
Base = declarative_base()


class Author(Base):
    __tablename__ = "authors"
    id = Column(BIGINT(unsigned=True), primary_key=True, autoincrement=True)
    email = Column(String(80), index=True)
    name = Column(String(80), nullable=False, default="nobody")
    paid = Column(Numeric(10, 2))
    seen = Column(DateTime)
    extra = Column(JSON)
    raw = Column(LargeBinary)
    active = Column(Boolean, server_default=text("1"))
    # No foreign key: between shards it can't be checked.
    books = relationship("Book", primaryjoin=lambda: Author.id == foreign(Book.author_id), order_by=lambda: Book.id, back_populates="author")


class Book(Base):
    __tablename__ = "books"
    id = Column(Integer, primary_key=True)
    author_id = Column(BIGINT(unsigned=True), index=True)
    title = Column(String(100))
    author = relationship("Author", primaryjoin=lambda: foreign(Book.author_id) == Author.id, back_populates="books")


def failing(what, f):
    try:
        print(what, f())
    except DBAPIError as e:
        print(what, type(e).__name__, e.orig.args)


Base.metadata.create_all(engine)
Base.metadata.create_all(engine)  # finds them
found = inspect(engine)
print(found.get_table_names())
for c in found.get_columns("authors"):
    print(c["name"], c["type"], c["nullable"], c["default"], c.get("autoincrement"))
print(found.get_indexes("authors"), found.get_pk_constraint("authors"))

with Session(engine) as s:
    ada = Author(email="ada@x", name="Ada 🐬", paid=decimal.Decimal("12.50"), seen=datetime.datetime(2024, 2, 29, 12), extra={"a": [1, None, "ü"]}, raw=bytes(range(256)),
                 books=[Book(title="One"), Book(title="Two")])
    s.add(ada)
    s.add_all([Author(email="%s@x" % c, paid=i) for i, c in enumerate("bcdef")])
    s.commit()
    print(ada.id, [b.id for b in ada.books], [b.author_id for b in ada.books])

with Session(engine) as s:
    a = s.execute(select(Author).where(Author.email == "ada@x")).scalar_one()
    print(a.id, a.name, a.paid, a.seen, a.extra, a.raw == bytes(range(256)), a.active)
    print(s.get(Author, 3).email, s.get(Author, 99))
    for options in (selectinload(Author.books), joinedload(Author.books)):
        for a in s.execute(select(Author).options(options).order_by(Author.id)).unique().scalars():
            print(a.id, [b.title for b in a.books])
        s.expire_all()
    print(s.execute(select(Author.name, Book.title).join(Author.books).order_by(Book.id)).all())
    print(s.execute(select(Book.author_id, func.count()).group_by(Book.author_id).having(func.count() > 1)).all())
    print(s.execute(select(func.sum(Author.paid), func.avg(Author.paid), func.max(Author.email))).one())
    print(s.execute(select(Author.id).order_by(Author.paid.desc(), Author.id).limit(2).offset(1)).scalars().all())
    print(s.execute(select(Author.email).where(Author.id.in_([1, 2, 77])).order_by(Author.email)).scalars().all())
    print(s.execute(select(Author.id).where(select(Book.id).where(Book.author_id == Author.id).exists())).scalars().all())
    print(s.query(Author).filter(Author.paid > 1).count())

with Session(engine) as s:
    s.get(Author, 1).name = "Ada L."
    s.get(Author, 2).paid = decimal.Decimal("7.25")
    s.commit()
    print(s.query(Author).filter(Author.paid < 3).update({"name": func.concat(Author.name, "!")}, synchronize_session=False))
    s.delete(s.get(Author, 6))
    s.commit()
    print(s.query(Author.id, Author.name, Author.paid).order_by(Author.id).all())
    with_savepoint = s.begin_nested()
    s.add(Author(email="inner@x"))
    s.flush()
    with_savepoint.rollback()
    s.add(Author(email="kept@x"))
    s.commit()
    s.add(Author(email="rolled@x"))
    s.flush()
    s.rollback()
    print(s.query(Author.email).order_by(Author.id).all())
    print(s.execute(select(Author.name).where(Author.id == 1).with_for_update()).all())
    s.rollback()

with engine.begin() as c:
    print(c.execute(insert(Author).values(id=1, name="up").on_duplicate_key_update(name="by upsert")).rowcount)
    print(c.execute(Author.__table__.insert(), [{"id": 50, "email": "m@x"}, {"id": 51, "email": "n@x"}]).rowcount)
    print(c.execute(text("UPDATE authors SET paid = :p WHERE id = :i"), {"p": 3, "i": 50}).rowcount)
    print(c.execute(text("SELECT name FROM authors WHERE id = 1")).all())
failing("duplicate", lambda: engine.execute(Author.__table__.insert().values(id=1, name="again")))
failing("no table", lambda: engine.execute(text("SELECT * FROM nothing")))
with engine.connect().execution_options(stream_results=True) as c:
    print([r[0] for r in c.execute(select(Author.id).order_by(Author.id))])

# Migrations by Alembic: what it would generate from the tables that it finds, what
# it executes, and the version that it keeps.


def different(connection):
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return sorted(str([d[0], getattr(d[-1], "name", "")]) for d in compare_metadata(context, Base.metadata) if isinstance(d, tuple))


with engine.begin() as c:
    print("generated", different(c))
    context = MigrationContext.configure(c)
    op = Operations(context)
    context._ensure_version_table()
    op.execute("INSERT INTO alembic_version VALUES ('one')")
    print("version", context.get_current_revision())
    op.add_column("authors", Column("city", String(40), server_default="none"))
    op.create_index("by_city", "authors", ["city"])
    op.create_table("tags", Column("id", Integer, primary_key=True), Column("label", String(20), nullable=False, unique=True))
    op.bulk_insert(Table("tags", MetaData(), autoload_with=c), [{"id": i, "label": "t%d" % i} for i in range(1, 6)])
    op.alter_column("tags", "label", existing_type=String(20), new_column_name="name", type_=String(30), existing_nullable=False)
    op.execute("UPDATE alembic_version SET version_num = 'two' WHERE version_num = 'one'")
    print("version", context.get_current_revision())
    print("generated", different(c))
    print(c.execute(text("SELECT id, name FROM tags ORDER BY id")).all())
    op.drop_table("tags")
    op.drop_table("alembic_version")
reflected = Table("authors", MetaData(), autoload_with=engine)
print([c.name for c in reflected.columns], sorted(i.name for i in reflected.indexes))
with engine.begin() as c:
    print(c.execute(select(reflected.c.city).distinct()).all())
Base.metadata.drop_all(engine)
print(inspect(engine).get_table_names())
