package e2e

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestCountedLater: phpMyAdmin's dumps make a table, fill it, and then give it its keys and
// AUTO_INCREMENT. Sessions that insert without an id meanwhile fail, or get one by which the
// row is found.
func TestCountedLater(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: id}"}})
		c := p.conn()
		mustExec(t, c, "SET SQL_MODE = 'NO_AUTO_VALUE_ON_ZERO,STRICT_TRANS_TABLES'")
		mustExec(t, c, "START TRANSACTION")
		mustExec(t, c, "CREATE TABLE `users` (`id` int NOT NULL, `name` varchar(20) NOT NULL, `n` int NOT NULL DEFAULT 0) ENGINE=InnoDB")
		mustExec(t, c, "INSERT INTO `users` (`id`, `name`) VALUES (0, 'zero'), (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (41, 'e')")
		p.createIndex(p.db(), "idx_name", "users (name)")

		stop := make(chan struct{})
		var inserting sync.WaitGroup
		var mu sync.Mutex
		made := map[string]int64{}
		for n := range 4 {
			inserting.Go(func() {
				for k := 0; ; k++ {
					select {
					case <-stop:
						return
					default:
					}
					name := fmt.Sprintf("s%d-%d", n, k)
					statement := []string{"INSERT INTO users (name) VALUES ('%s')", "INSERT INTO users (id, name) VALUES (NULL, '%s')", "INSERT INTO users (id, name) VALUES (DEFAULT, '%s')"}[k%3]
					r, err := p.db().ExecContext(t.Context(), fmt.Sprintf(statement, name))
					var e *mysql.MySQLError
					switch {
					case errors.As(err, &e) && (e.Number == 1364 || e.Number == 1048):
						continue
					case err != nil:
						t.Errorf("%s: %v", name, err)
						return
					}
					id, _ := r.LastInsertId()
					mu.Lock()
					made[name] = id
					mu.Unlock()
				}
			})
		}
		enough := func(n int) {
			t.Helper()
			eventually(t, "rows", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(made) >= n
			})
		}
		mustExec(t, c, "ALTER TABLE `users` ADD PRIMARY KEY (`id`)")
		mustExec(t, c, "ALTER TABLE `users` MODIFY `id` int NOT NULL AUTO_INCREMENT, AUTO_INCREMENT=42")
		enough(50)
		close(stop)
		inserting.Wait()
		mustExec(t, c, "COMMIT")

		ids := map[int64]bool{}
		for name, id := range made {
			if id < 42 || ids[id] {
				t.Errorf("%s has id %d", name, id)
			}
			ids[id] = true
			want(t, p.db(), fmt.Sprintf("SELECT name FROM users WHERE id = %d", id), "name", name)
			want(t, p.db(), fmt.Sprintf("SELECT id FROM users WHERE name = '%s'", name), "id", fmt.Sprint(id))
		}
		want(t, p.db(), "SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS d FROM users", "n d", fmt.Sprintf("%d %[1]d", 6+len(made)))
		want(t, p.db(), "SELECT name FROM users WHERE id = 0", "name", "zero")
		for i := range p.servers {
			for _, r := range mustRows(t, p.shard(i), "SHOW CREATE TABLE users") {
				if !strings.Contains(fmt.Sprint(r), "AUTO_INCREMENT") {
					t.Errorf("shard %d: %v", i, r)
				}
			}
		}
	})
}

// TestOtherColumnCountedLater: so may a column that isn't the shard key, if its rows have values.
func TestOtherColumnCountedLater(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"orders: {shard_key: user_id}", "kinds: {placement: reference}"}})
		c := p.conn()
		mustExec(t, c, "SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')")
		for _, table := range []string{"orders", "kinds"} {
			insert := func() {
				t.Helper()
				for user := range 8 {
					mustExec(t, c, fmt.Sprintf("INSERT INTO %s (user_id) VALUES (%d)", table, user))
				}
			}
			mustExec(t, c, "CREATE TABLE "+table+" (user_id INT NOT NULL, id INT, KEY (user_id))")
			insert()
			failsWith(t, c, "ALTER TABLE "+table+" ADD COLUMN n INT AUTO_INCREMENT UNIQUE", 1235, "count from 1")
			failsWith(t, c, "ALTER TABLE "+table+" MODIFY id INT NOT NULL AUTO_INCREMENT UNIQUE", 1235, "fill it")
			mustExec(t, c, "UPDATE "+table+" SET id = user_id * 10")
			mustExec(t, c, "ALTER TABLE "+table+" MODIFY id INT NOT NULL")
			mustExec(t, c, "ALTER TABLE "+table+" MODIFY id INT NOT NULL AUTO_INCREMENT UNIQUE")
			insert()
			want(t, c, "SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS d, MAX(id) AS m FROM "+table, "n d m", "16 16 78")
		}
		for i := range p.servers {
			want(t, p.shard(i), "SELECT SUM(user_id * id) AS s FROM kinds", "s", "3528")
		}
	})
}

// TestCountedLaterFails: a table whose ALTER fails is as it was.
func TestCountedLaterFails(t *testing.T) {
	oneFlavour(t, func(t *testing.T, f *flavour) {
		p := start(t, f, setup{tables: []string{"users: {shard_key: id}"}})
		c := p.conn()
		mustExec(t, c, "CREATE TABLE users (id INT NOT NULL, name VARCHAR(20))")
		failsWith(t, c, "ALTER TABLE users MODIFY id INT NOT NULL AUTO_INCREMENT", 1075, "") // empty, but without a key
		open := p.conn()
		mustExec(t, open, "INSERT INTO users VALUES (1, 'first')")
		failsWith(t, c, "ALTER TABLE users MODIFY id INT NOT NULL AUTO_INCREMENT", 1235, "NO_AUTO_VALUE_ON_ZERO")
		mustExec(t, c, "SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')")
		failsWith(t, c, "ALTER TABLE users MODIFY id INT NOT NULL AUTO_INCREMENT", 1075, "")
		failsWith(t, c, "INSERT INTO users (name) VALUES ('a')", 1364, "id")

		mustExec(t, open, "BEGIN")
		mustExec(t, open, "UPDATE users SET name = 'changed' WHERE id = 1")
		altered := make(chan error, 1)
		go func() {
			_, err := c.ExecContext(t.Context(), "ALTER TABLE users MODIFY id INT NOT NULL AUTO_INCREMENT PRIMARY KEY")
			altered <- err
		}()
		eventually(t, "ids are counted", func() bool {
			_, err := p.db().ExecContext(t.Context(), "INSERT INTO users (name) VALUES ('counted')")
			return err == nil
		})
		mustExec(t, open, "INSERT INTO users (name) VALUES ('also')")
		mustExec(t, open, "COMMIT")
		if err := <-altered; err != nil {
			t.Error(err)
		}
		want(t, p.db(), "SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS d FROM users", "n d", "3 3")
	})
}
