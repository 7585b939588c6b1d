package console

import "time"

var maintenancePage = &page{
	path: "/maintenance", title: "Maintenance", menu: "Maintenance", every: 2 * time.Second, data: maintenance,
	body: `
<h1>Maintenance</h1>
<p class="lead">Jobs scan tables on shards, and build virtual indexes. Where a shard's binary log is followed, writes need none.</p>
{{template "table" .Data.Jobs}}
<section><h2>Followers</h2>{{template "table" .Data.Logs}}</section>
<section><h2>Figures</h2>{{template "table" .Data.Figures}}</section>
`,
}

func maintenance(v *visit) (any, error) {
	logs := v.table("Binary logs", showShards, "", column{of: "Name", label: "Shard"}, column{of: "Role", label: "Role"}, column{of: "Binary_log", label: "Binary log"})
	return map[string]any{
		"Jobs": v.table("Maintenance jobs", "SHOW MAINTENANCE JOBS", "There is none: all is done.",
			column{of: "Id", label: "Id"}, column{of: "Type", label: "Type"},
			column{of: "Table", label: "Table", as: func(value string, at func(string) string) cell { return cell{Text: at("Schema") + "." + value} }},
			column{of: "Shards", label: "Shards"}, column{of: "Indexes", label: "Indexes"}, column{of: "State", label: "State", as: state}, column{of: "Progress", label: "Progress", number: true},
			column{of: "Attempts", label: "Attempts", number: true}, column{of: "Not_before", label: "Not before"}, column{of: "Claimed_by", label: "By"}, column{of: "Error", label: "Error", as: failure}),
		"Logs": logs,
		"Figures": v.figures().table("Figures of maintenance", "", "shunt_follow_seconds", "shunt_jobs_done_total", "shunt_job_seconds", "shunt_index_changes_total", "shunt_scan_rows_total",
			"shunt_audits_total", "shunt_background_dropped_total", "shunt_removals_held_back_total", "shunt_store_bytes", "shunt_store_free_bytes", "shunt_store_writable", "shunt_store_up"),
	}, nil
}
