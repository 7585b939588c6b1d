package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/shunt-sql/shunt/planner/catalog"
	"github.com/shunt-sql/shunt/proxy/shard"
)

// object is what a CREATE statement makes.
type object struct{ kind, schema, name string }

func (o object) quoted() string {
	if o.kind == "DATABASE" {
		return catalog.QuoteName(o.schema)
	}
	return catalog.QuoteTable(o.schema, o.name)
}

func (o object) String() string {
	return strings.TrimSuffix(strings.ToLower(o.kind)+" "+o.schema+"."+o.name, ".")
}

// userObjects is where information_schema lists objects of a kind: their schema and name.
var userObjects = map[string]string{
	"DATABASE":  "SELECT SCHEMA_NAME, '' FROM information_schema.SCHEMATA WHERE SCHEMA_NAME",
	"TABLE":     "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE NOT LIKE '%VIEW' AND TABLE_TYPE <> 'SEQUENCE' AND TABLE_SCHEMA",
	"SEQUENCE":  "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'SEQUENCE' AND TABLE_SCHEMA", // of MariaDB
	"VIEW":      "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'VIEW' AND TABLE_SCHEMA",
	"FUNCTION":  "SELECT ROUTINE_SCHEMA, ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_TYPE = 'FUNCTION' AND ROUTINE_SCHEMA",
	"PROCEDURE": "SELECT ROUTINE_SCHEMA, ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_TYPE = 'PROCEDURE' AND ROUTINE_SCHEMA",
	"TRIGGER":   "SELECT TRIGGER_SCHEMA, TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA",
	"EVENT":     "SELECT EVENT_SCHEMA, EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA",
}

// listed are a server's objects of a kind, in the order of their making.
func listed(ctx context.Context, conn *shard.Conn, kind string) ([]object, error) {
	order := " ORDER BY 1, 2"
	if kind == "TRIGGER" {
		order = " ORDER BY TRIGGER_SCHEMA, EVENT_OBJECT_TABLE, ACTION_ORDER"
	}
	res, err := conn.Query(ctx, userObjects[kind]+" NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys', '"+strings.Join(catalog.OwnSchemas, "', '")+"')"+order)
	if err != nil {
		return nil, fmt.Errorf("list what the server has: %w", err)
	}
	var out []object
	for _, row := range res.Rows {
		out = append(out, object{kind, string(row[0]), string(row[1])})
	}
	return out, nil
}

// wanted are the objects of a kind that the new shard is to have: those that all shards that answer
// have, without tables that are on one shard.
func (j *newcomer) wanted(ctx context.Context, kind string) ([]object, error) {
	c := j.p.opts.Directory.Catalog()
	objects, err := listed(ctx, j.from, kind)
	if err != nil {
		return nil, err
	}
	if kind == "TABLE" {
		return slices.DeleteFunc(objects, func(o object) bool {
			t := c.Table(o.schema, o.name)
			return t == nil || t.Placement == catalog.Single && len(c.Shards) > 1
		}), nil
	}
	for _, s := range c.Shards {
		if s == j.source {
			continue
		}
		conn, err := j.p.pool(s.ID).Dial(ctx)
		if err != nil {
			continue // it may have less
		}
		theirs, err := listed(ctx, conn, kind)
		_ = conn.Close()
		if err != nil {
			return nil, err
		}
		objects = slices.DeleteFunc(objects, func(o object) bool { return !slices.Contains(theirs, o) })
	}
	return objects, nil
}

// definition is the statement that makes an object, with what it has to be made under.
type definition struct {
	sql, mode, zone string
	// charset and collation are the client's that a program's texts were read by.
	charset, collation string
}

// counted is where a table's counter stands.
var countedFrom = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

func define(ctx context.Context, conn *shard.Conn, o object) (d definition, err error) {
	res, err := conn.Query(ctx, "SHOW CREATE "+o.kind+" "+o.quoted())
	if err != nil {
		return d, fmt.Errorf("read %s: %w", o, err)
	}
	if len(res.Rows) != 1 {
		return d, fmt.Errorf("read %s: %d rows", o, len(res.Rows))
	}
	for i, name := range res.Columns {
		value := string(res.Rows[0][i])
		switch {
		case strings.HasPrefix(name, "Create ") || name == "SQL Original Statement":
			d.sql = value
		case name == "sql_mode":
			d.mode = value
		case name == "time_zone":
			d.zone = value
		case name == "character_set_client":
			d.charset = value
		case name == "collation_connection":
			d.collation = value
		}
	}
	if d.sql == "" {
		return d, fmt.Errorf("%s: the shards' account may not see how it is made", o)
	}
	if o.kind == "TABLE" {
		d.sql = countedFrom.ReplaceAllString(d.sql, "")
	}
	return d, nil
}

// make makes an object on the new shard.
func (j *newcomer) make(ctx context.Context, o object, d definition) error {
	statements := []string{"SET sql_mode = '" + cmp.Or(d.mode, "NO_AUTO_VALUE_ON_ZERO") + "'"}
	if d.mode == "" && o.kind != "TABLE" && o.kind != "VIEW" && o.kind != "DATABASE" {
		statements[0] = "SET sql_mode = ''"
	}
	if d.charset != "" {
		statements = append(statements, "SET character_set_client = "+d.charset, "SET collation_connection = "+d.collation)
	}
	if d.zone != "" {
		statements = append(statements, "SET time_zone = '"+d.zone+"'")
	}
	if o.kind != "DATABASE" {
		statements = append(statements, "USE "+catalog.QuoteName(o.schema))
	}
	err := execAll(ctx, j.to, append(statements, d.sql))
	if again := execAll(ctx, j.to, setUp); err == nil {
		err = again
	}
	if err != nil {
		return fmt.Errorf("make %s: %w", o, err)
	}
	j.made[o] = d.sql
	return nil
}

// fits refuses what is there already and is otherwise than on the first shard.
func (j *newcomer) fits(ctx context.Context) error {
	for _, kind := range []string{"TABLE", "VIEW", "FUNCTION", "PROCEDURE", "TRIGGER", "EVENT"} {
		there, err := listed(ctx, j.to, kind)
		if err != nil {
			return err
		}
		wanted, err := j.wanted(ctx, kind)
		if err != nil {
			return err
		}
		for _, o := range there {
			if kind == "TABLE" && j.alone(j.p.opts.Directory.Catalog().Table(o.schema, o.name)) {
				continue
			}
			if !slices.Contains(wanted, o) {
				return fmt.Errorf("it has %s, which the other shards lack: drop it there", o)
			}
			ours, err := define(ctx, j.from, o)
			if err != nil {
				return err
			}
			theirs, err := define(ctx, j.to, o)
			if err != nil {
				return err
			}
			if ours != theirs {
				return fmt.Errorf("its %s is otherwise than on %s: drop it there, it is made anew", o, j.source.Name)
			}
		}
	}
	return nil
}

// structure is step 2. REQUIRES: what the new shard has is ours.
func (j *newcomer) structure(ctx context.Context) error {
	j.say("making tables")
	for _, kind := range []string{"TRIGGER", "EVENT"} {
		there, err := listed(ctx, j.to, kind)
		if err != nil {
			return err
		}
		if err := j.drop(ctx, there); err != nil {
			return err
		}
	}
	for _, kind := range []string{"DATABASE", "FUNCTION", "PROCEDURE", "TABLE", "VIEW"} {
		if err := j.alike(ctx, kind); err != nil {
			return err
		}
	}
	return nil
}

// drop drops what isn't as it is to be. What has rows stays, but for copies.
func (j *newcomer) drop(ctx context.Context, objects []object) error {
	c := j.p.opts.Directory.Catalog()
	for _, o := range objects {
		if t := c.Table(o.schema, o.name); o.kind == "TABLE" && (t == nil || !isReference(t)) {
			if j.alone(t) {
				continue
			}
			res, err := j.to.Query(ctx, "SELECT 1 FROM "+o.quoted()+" LIMIT 1")
			if err == nil && len(res.Rows) > 0 {
				err = errors.New("it has rows, and is otherwise than on " + j.source.Name)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", o, err)
			}
		}
		if _, err := j.to.Exec(ctx, "DROP "+o.kind+" "+o.quoted()); err != nil {
			return fmt.Errorf("drop %s: %w", o, err)
		}
		delete(j.made, o)
	}
	return nil
}

// alike has the new shard have the objects of a kind that it is to have, and no others.
func (j *newcomer) alike(ctx context.Context, kind string) error {
	wanted, err := j.wanted(ctx, kind)
	if err != nil {
		return err
	}
	there, err := listed(ctx, j.to, kind)
	if err != nil {
		return err
	}
	if kind != "DATABASE" { // another one may be none of Shunt's business
		extra := slices.DeleteFunc(slices.Clone(there), func(o object) bool { return slices.Contains(wanted, o) })
		if err := j.drop(ctx, extra); err != nil {
			return err
		}
	}
	for len(wanted) > 0 {
		var failed []object
		var why error
		for _, o := range wanted {
			d, err := define(ctx, j.from, o)
			if err != nil {
				return err
			}
			if slices.Contains(there, o) && j.made[o] != d.sql {
				theirs, err := define(ctx, j.to, o)
				if err != nil {
					return err
				}
				if d == theirs {
					continue
				}
				if kind == "DATABASE" {
					theirs.sql = strings.Replace(d.sql, "CREATE DATABASE", "ALTER DATABASE", 1)
					if _, err := j.to.Exec(ctx, theirs.sql); err != nil {
						return fmt.Errorf("make %s: %w", o, err)
					}
					continue
				}
				if err := j.drop(ctx, []object{o}); err != nil {
					return err
				}
			} else if j.made[o] == d.sql {
				continue
			}
			if err := j.make(ctx, o, d); err != nil {
				failed, why = append(failed, o), err
			}
		}
		if len(failed) == len(wanted) {
			return why
		}
		wanted = failed // views that read views
	}
	return nil
}

// programs makes triggers and events.
func (j *newcomer) programs(ctx context.Context) error {
	for _, kind := range []string{"TRIGGER", "EVENT"} {
		wanted, err := j.wanted(ctx, kind)
		if err != nil {
			return err
		}
		for _, o := range wanted {
			d, err := define(ctx, j.from, o)
			if err != nil {
				return err
			}
			if err := j.make(ctx, o, d); err != nil {
				return err
			}
		}
	}
	return nil
}

func byName(a, b *catalog.Table) int {
	return cmp.Or(strings.Compare(a.Schema, b.Schema), strings.Compare(a.Name, b.Name))
}
