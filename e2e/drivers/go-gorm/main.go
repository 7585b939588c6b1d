// Migrations, create, read, update, delete, associations and transactions by
// GORM. It prints what it gets, to be compared between two servers.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Author struct {
	ID        uint64 `gorm:"primaryKey"`
	Email     string `gorm:"size:80;index"`
	Name      string `gorm:"size:80"`
	Born      *time.Time
	Paid      float64 `gorm:"type:decimal(10,2)"`
	Tags      []byte
	Books     []Book
	CreatedAt time.Time
	DeletedAt gorm.DeletedAt `gorm:"index"`
}

type Book struct {
	ID       uint64 `gorm:"primaryKey"`
	AuthorID uint64 `gorm:"index"`
	Title    string `gorm:"size:100;not null"`
	Pages    int    `gorm:"default:10"`
}

// AuthorWithCity is the table's next version.
type AuthorWithCity struct {
	Author
	City string `gorm:"size:40;default:'none';index"`
}

func (AuthorWithCity) TableName() string { return "authors" }

func main() {
	config := driver.NewConfig()
	config.Net, config.Addr = "tcp", os.Getenv("DRIVER_HOST")+":"+os.Getenv("DRIVER_PORT")
	config.User, config.Passwd, config.DBName = os.Getenv("DRIVER_USER"), os.Getenv("DRIVER_PASSWORD"), os.Getenv("DRIVER_SCHEMA")
	config.ParseTime, config.Loc = true, time.UTC
	config.Params = map[string]string{"charset": "utf8mb4"}
	now := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	db, err := gorm.Open(mysql.New(mysql.Config{DSNConfig: config}), &gorm.Config{
		Logger: logger.Discard, NowFunc: func() time.Time { return now },
		// Foreign keys between shards can't be checked.
		DisableForeignKeyConstraintWhenMigrating: true,
	})
	check(err)
	check(db.AutoMigrate(&Author{}, &Book{}))
	check(db.AutoMigrate(&Author{}, &Book{})) // finds nothing to do
	m := db.Migrator()
	fmt.Println("tables", m.HasTable("authors"), m.HasTable("nothing"), m.HasColumn(&Author{}, "name"), m.HasIndex(&Author{}, "idx_authors_email"), m.CurrentDatabase() == os.Getenv("DRIVER_SCHEMA"))

	born := time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC)
	ada := Author{Email: "ada@x", Name: "Ada 🐬", Born: &born, Paid: 12.5, Tags: []byte{0, 255, 39}, Books: []Book{{Title: "One"}, {Title: "Two", Pages: 20}}}
	show("create with association", db.Create(&ada))
	fmt.Println(ada.ID, ada.Books[0].ID, ada.Books[1].ID, ada.Books[0].AuthorID)
	many := []Author{{Email: "b@x", Name: "B"}, {Email: "c@x", Name: "C", Paid: 3}, {Email: "d@x", Name: "D", Paid: 1}, {Email: "e@x", Name: "E", Paid: 2}}
	show("create many", db.Create(&many))
	for _, a := range many {
		fmt.Println(a.ID, a.Email)
	}
	show("in batches", db.CreateInBatches([]Book{{AuthorID: 2, Title: "Three"}, {AuthorID: 3, Title: "Four"}, {AuthorID: 3, Title: "Five"}}, 2))

	var a Author
	show("first by email", db.Where("email = ?", "ada@x").First(&a))
	fmt.Printf("%d %s %s %v %v %.2f %x %v\n", a.ID, a.Email, a.Name, a.Born, a.CreatedAt, a.Paid, a.Tags, a.DeletedAt)
	show("none", db.Where("email = ?", "nobody").First(&Author{}))
	var all []Author
	show("preload", db.Preload("Books", func(tx *gorm.DB) *gorm.DB { return tx.Order("id") }).Order("id").Find(&all))
	for _, a := range all {
		fmt.Print(a.ID, " ", a.Name, ":")
		for _, b := range a.Books {
			fmt.Print(" ", b.ID, " ", b.Title, " ", b.Pages)
		}
		fmt.Println()
	}
	var joined []struct {
		Name  string
		Title string
	}
	show("join", db.Model(&Book{}).Select("authors.name, books.title").Joins("JOIN authors ON authors.id = books.author_id").Order("books.id").Scan(&joined))
	fmt.Println(joined)
	var counts []struct {
		AuthorID uint64
		N        int64
		Pages    float64
	}
	show("group", db.Model(&Book{}).Select("author_id, COUNT(*) AS n, AVG(pages) AS pages").Group("author_id").Having("COUNT(*) > ?", 0).Order("author_id").Scan(&counts))
	fmt.Println(counts)
	var n int64
	show("count", db.Model(&Author{}).Where("paid > ?", 1).Count(&n))
	fmt.Println(n)
	var page []Author
	show("page", db.Order("paid DESC, id").Limit(2).Offset(1).Find(&page))
	for _, a := range page {
		fmt.Println(a.ID, a.Paid)
	}
	var names []string
	show("pluck", db.Model(&Author{}).Where("id IN ?", []int{1, 3, 5, 99}).Order("name").Pluck("name", &names))
	fmt.Println(names)
	show("subquery", db.Where("id IN (?)", db.Model(&Book{}).Select("author_id").Where("pages > ?", 15)).Order("id").Find(&all))
	fmt.Println(len(all), all[0].Name)

	show("update", db.Model(&a).Update("name", "Ada L."))
	show("updates", db.Model(&Author{}).Where("paid < ?", 3).Updates(map[string]any{"name": gorm.Expr("CONCAT(name, ?)", "!"), "paid": 7}))
	show("save", db.Save(&Author{ID: 50, Email: "new@x", Name: "by save"}))
	show("upsert", db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Author{ID: 50, Email: "newer@x", Name: "by upsert"}))
	show("do nothing", db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Author{ID: 50, Email: "never@x"}))
	show("duplicate", db.Create(&Author{ID: 50}))
	show("soft delete", db.Delete(&Author{}, 50))
	show("gone", db.First(&Author{}, 50))
	show("unscoped", db.Unscoped().First(&Author{}, 50))
	show("delete", db.Unscoped().Where("email = ?", "newer@x").Delete(&Author{}))
	show("first or create", db.Where(Author{Email: "foc@x"}).Attrs(Author{Name: "made"}).FirstOrCreate(&Author{}))
	show("first or create", db.Where(Author{Email: "foc@x"}).Attrs(Author{Name: "again"}).FirstOrCreate(&Author{}))

	failed := db.Transaction(func(tx *gorm.DB) error {
		check(tx.Create(&Author{Email: "rolled@x"}).Error)
		check(tx.Create(&Book{AuthorID: 1, Title: "Rolled"}).Error)
		return errors.New("back")
	})
	fmt.Println("rolled back:", failed)
	check(db.Transaction(func(tx *gorm.DB) error {
		check(tx.Create(&Author{Email: "kept@x"}).Error)
		inner := tx.Transaction(func(tx *gorm.DB) error { // a savepoint
			check(tx.Create(&Author{Email: "inner@x"}).Error)
			return errors.New("inner back")
		})
		fmt.Println("savepoint:", inner)
		var locked Author
		show("lock", tx.Clauses(clause.Locking{Strength: "UPDATE"}).Where("id = ?", 1).First(&locked))
		return tx.Model(&locked).Update("paid", 99).Error
	}))
	show("emails", db.Model(&Author{}).Order("id").Pluck("email", &names))
	fmt.Println(names)

	check(db.AutoMigrate(&AuthorWithCity{}))
	fmt.Println("migrated", m.HasColumn(&AuthorWithCity{}, "city"), m.HasIndex(&AuthorWithCity{}, "idx_authors_city"))
	var cities []string
	show("new column", db.Model(&AuthorWithCity{}).Distinct().Pluck("city", &cities))
	fmt.Println(cities)
	check(m.RenameColumn(&AuthorWithCity{}, "city", "town"))
	check(m.DropColumn(&AuthorWithCity{}, "town"))
	types, err := m.ColumnTypes(&Author{})
	check(err)
	for _, t := range types {
		nullable, _ := t.Nullable()
		key, _ := t.PrimaryKey()
		auto, _ := t.AutoIncrement()
		value, has := t.DefaultValue()
		fmt.Println(t.Name(), t.DatabaseTypeName(), nullable, key, auto, value, has)
	}
	rows, err := db.Model(&Author{}).Order("id").Rows()
	check(err)
	for rows.Next() {
		var a Author
		check(db.ScanRows(rows, &a))
		fmt.Print(a.ID, " ")
	}
	check(rows.Close())
	fmt.Println()
	show("timeout", db.WithContext(expired()).Exec("SELECT SLEEP(1)"))
	check(m.DropTable(&Book{}, &Author{}))
	fmt.Println("dropped", m.HasTable("authors"))
}

func expired() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 0)
	cancel()
	return ctx
}

func show(what string, tx *gorm.DB) {
	fmt.Println(what, "rows", tx.RowsAffected, "error", tx.Error)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
