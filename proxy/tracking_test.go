package proxy

import (
	"slices"
	"testing"
)

func TestTracked(t *testing.T) {
	t.Parallel()
	byDefault := []string{"autocommit", "character_set_client", "character_set_connection", "character_set_results", "time_zone"}
	for _, tc := range []struct {
		set, value string
		mariaDB    bool
		variables  []string
		all        bool
		schema     bool
		state      bool
		refused    bool

		transaction transactionInfo
	}{
		{set: "wait_timeout", value: "5", variables: byDefault, schema: true},
		{set: "session_track_system_variables", value: " Sql_Mode ,, wait_timeout", variables: []string{"sql_mode", "wait_timeout"}, schema: true},
		{set: "session_track_system_variables", value: "", schema: true},
		{set: "session_track_system_variables", value: "NULL", schema: true},
		{set: "session_track_system_variables", value: "DEFAULT", variables: byDefault, schema: true},
		{set: "session_track_system_variables", value: "*", variables: []string{"*"}, all: true, schema: true},
		{set: "session_track_system_variables", value: "a,*", variables: []string{"*", "a"}, schema: true},
		{set: "session_track_system_variables", value: "a,*", mariaDB: true, variables: []string{"*", "a"}, all: true, schema: true},
		{set: "session_track_schema", value: "off", variables: byDefault},
		{set: "session_track_schema", value: "default", variables: byDefault, schema: true},
		{set: "session_track_schema", value: "5", variables: byDefault, schema: true}, // a server refuses it
		{set: "session_track_state_change", value: "1", variables: byDefault, schema: true, state: true},
		{set: "session_track_state_change", value: "DEFAULT", variables: byDefault, schema: true},
		{set: "session_track_gtids", value: "OFF", variables: byDefault, schema: true},
		{set: "session_track_gtids", value: "all_gtids", variables: byDefault, schema: true, refused: true},
		{set: "session_track_gtids", value: "own_gtid", mariaDB: true, variables: byDefault, schema: true}, // unknown to its servers
		{set: "session_track_transaction_info", value: "off", variables: byDefault, schema: true},
		{set: "session_track_transaction_info", value: "state", variables: byDefault, schema: true, transaction: infoState},
		{set: "session_track_transaction_info", value: "2", mariaDB: true, variables: byDefault, schema: true, transaction: infoCharacteristics},
		{set: "session_track_transaction_info", value: "default", variables: byDefault, schema: true},
	} {
		got := trackedByDefault()
		err := got.assign(tc.set, tc.value, tc.mariaDB)
		var names []string
		for name := range got.variables {
			names = append(names, name)
		}
		slices.Sort(names)
		if (err != nil) != tc.refused || !slices.Equal(names, tc.variables) || got.all != tc.all || got.schema != tc.schema || got.state != tc.state || got.transaction != tc.transaction {
			t.Errorf("SET %s = '%s': %v %+v", tc.set, tc.value, err, got)
		}
	}
	all := tracked{all: true}
	if as, ok := all.wants("sql_mode"); !ok || as != "sql_mode" {
		t.Error("* wants all")
	}
	named := tracked{variables: trackedNames("Sql_Mode")}
	if as, ok := named.wants("sql_mode"); !ok || as != "Sql_Mode" {
		t.Errorf("told as %q", as)
	}
}
