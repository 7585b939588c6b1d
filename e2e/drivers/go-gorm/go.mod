module github.com/shunt-sql/shunt/e2e/drivers/go-gorm

go 1.26.2

require (
	github.com/go-sql-driver/mysql v1.8.1
	gorm.io/driver/mysql v1.6.0
	gorm.io/gorm v1.31.1
)

require (
	filippo.io/edwards25519 v1.1.0 // indirect
	github.com/jinzhu/inflection v1.0.0 // indirect
	github.com/jinzhu/now v1.1.5 // indirect
	golang.org/x/text v0.20.0 // indirect
)
