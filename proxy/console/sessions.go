package console

import (
	"strconv"
	"time"
)

var sessionsPage = &page{
	path: "/sessions", title: "Sessions", menu: "Sessions", every: 2 * time.Second, data: sessions,
	body: `
<h1>Sessions</h1>
<p class="lead">Clients of all members. A session with a transaction open keeps connections and locks on its shards.</p>
{{template "table" .Data}}
`,
}

const showSessions = "SHOW FULL PROCESSLIST"

func sessions(v *visit) (any, error) {
	return v.table("Sessions", showSessions, "Nobody is connected.",
		column{of: "Id", label: "Id"}, column{of: "User", label: "User"}, column{of: "Host", label: "Host"}, column{of: "db", label: "Schema"},
		column{of: "Command", label: "Command"}, column{of: "Time", label: "Seconds", number: true}, column{of: "State", label: "State", as: state},
		column{of: "Info", label: "Statement", as: func(value string, _ func(string) string) cell {
			return cell{Text: short(300, value), Code: value != "", Class: "wide"}
		}},
		column{of: "Id", label: "End", as: func(id string, at func(string) string) cell {
			c := cell{Links: []link{{"/sessions/kill?id=" + id, "KILL " + id}}}
			if at("Command") != "Sleep" {
				c.Links = append([]link{{"/sessions/kill?query=1&id=" + id, "KILL QUERY " + id}}, c.Links...)
			}
			return c
		}}), nil
}

// killPage asks before it ends something.
var killPage = &page{
	path: "/sessions/kill", title: "End a session", data: killSession, posts: true,
	body: `
<h1>{{if .Data.Query}}End a statement{{else}}End a session{{end}}</h1>
{{if .Data.Done}}<p class="done" role="status">Done.</p>{{template "sql" .Data.SQL}}
{{else}}
{{with .Data.Failed}}<p class="alert" role="alert">{{.}}</p>{{end}}
<form class="card" method="post" action="/sessions/kill">
<p>{{if .Data.Query}}Its statement ends with an error; the session goes on.{{else}}Its connection is closed. What its transaction has changed is rolled back.{{end}} This is executed:</p>
{{template "sql" .Data.SQL}}
{{with .Data.Session}}{{template "table" .}}{{end}}
<input type="hidden" name="form" value="{{.Form}}"><input type="hidden" name="id" value="{{.Data.ID}}">{{if .Data.Query}}<input type="hidden" name="query" value="1">{{end}}
<button class="danger">{{.Data.SQL}}</button> <a class="button" href="/sessions">Cancel</a>
</form>{{end}}
<p><a href="/sessions">Back to the sessions</a></p>
`,
}

func killSession(v *visit) (any, error) {
	id, err := strconv.ParseUint(v.r.FormValue("id"), 10, 32)
	if err != nil || id == 0 {
		return nil, errNotFound("No session has this number.")
	}
	query := v.r.FormValue("query") != ""
	sql := "KILL "
	if query {
		sql += "QUERY "
	}
	sql += strconv.FormatUint(id, 10)
	data := map[string]any{"SQL": sql, "ID": id, "Query": query, "Done": false, "Failed": "", "Session": nil}
	if v.r.Method == "POST" {
		if _, err := v.execute(sql); err != nil {
			data["Failed"] = err.Error()
		} else {
			data["Done"] = true
		}
		return data, nil
	}
	a, err := v.execute(showSessions)
	if err != nil {
		return nil, err
	}
	for _, r := range a.Rows {
		if a.at(r, "Id") == strconv.FormatUint(id, 10) {
			a.Rows = [][]any{r}
			data["Session"] = a.table("The session", "", "", column{of: "Id", label: "Id"}, column{of: "User", label: "User"}, column{of: "Host", label: "Host"}, column{of: "Command", label: "Command"},
				column{of: "Time", label: "Seconds", number: true}, column{of: "State", label: "State", as: state}, column{of: "Info", label: "Statement", as: code})
			return data, nil
		}
	}
	data["Failed"] = "No session has this number any more."
	return data, nil
}
