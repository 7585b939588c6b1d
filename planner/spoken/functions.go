package spoken

import (
	"strings"

	"github.com/shunt-sql/shunt/planner/text"
)

// RefusedFunction names functions whose answer depends on the server
// connection, which changes from statement to statement.
func RefusedFunction(name string) *text.Error {
	switch strings.ToLower(name) {
	case "get_lock", "release_lock", "release_all_locks", "is_free_lock":
		return text.NotSupported("%s() is only supported in a SELECT or DO without tables, unions, subqueries or hints: take the lock by a statement of its own", strings.ToUpper(name))
	case "is_used_lock":
		return text.NotSupported("IS_USED_LOCK() is only supported of a constant name, in a statement that takes and releases no lock: SET @name = ... first, and ask for @name")
	case "mysql_query_attribute_string":
		return text.NotSupported("MYSQL_QUERY_ATTRIBUTE_STRING() is not supported, since shards aren't sent query attributes: give the value in the text or as a parameter")
	case "row_count", "found_rows": // where they aren't the session's: see Text.ForSession
		return text.NotSupported("%s() is not supported here: shard connections are pooled; use the count that the client library reports", strings.ToUpper(name))
	}
	return nil
}

// functions are the servers' own, of MySQL and MariaDB, with what is to be known of each behind a colon:
//
//	t  its value is the statement's time: ClockFunction
//	v  its value may differ from shard to shard: VolatileFunction
//	u  a binary log of statements isn't safe with it: Text.Marks
//	a  its value is not asked for beforehand: NeverAsked
//	s  it has the same value in every session: SameForAll
//	x  a gather refuses it: IsBuiltin
var functions = func() map[string]string {
	traits := map[string]string{}
	for f := range strings.FieldsSeq(functionTable) {
		name, of, _ := strings.Cut(f, ":")
		traits[name] = of
	}
	return traits
}()

const functionTable = `
	abs:s acos add_months adddate addtime aes_decrypt aes_encrypt any_value area asbinary ascii:s asin astext aswkb aswkt atan atan2 avg benchmark:a
	bin:s bin_to_uuid binary:s binlog_gtid_pos:xv bit_and bit_count bit_length:s bit_or bit_xor boundary buffer cast:s ceil:s ceiling:s centroid
	char:s char_length:s character_length:s charset chr coalesce:s coercibility collation column_add column_check column_create column_delete
	column_exists column_get column_json column_list compress concat:s concat_ws:s connection_id:va contains conv:s convert:s convert_tz convexhull
	cos cot count crc32:s crc32c crosses cume_dist curdate:tv current_date:tv current_role:va current_time:tv current_timestamp:tv current_user:va
	curtime:tv database:v date date_add:s date_format date_sub datediff day:s dayname dayofmonth:s dayofweek dayofyear:s decode decode_histogram
	decode_oracle degrees dense_rank des_decrypt des_encrypt dimension disjoint distance div:s elt:s encode encrypt:vu endpoint envelope equals exp
	export_set extract extractvalue field:s find_in_set:s first_value floor:s format format_bytes format_pico_time found_rows:xua from_base64
	from_days from_unixtime geomcollection geometrycollection get_format get_lock:xua glength greatest:s group_concat grouping gtid_subset
	gtid_subtract hex:s hour icu_version if:s ifnull:s ilike in:s inet6_aton inet6_ntoa inet_aton inet_ntoa insert:s instr:s intersects interval
	is_free_lock:xu is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 is_used_lock:xu is_uuid isnull json_array:s json_array_append json_array_insert
	json_array_intersect json_arrayagg json_compact json_contains:s json_contains_path json_depth json_detailed json_equals json_exists
	json_extract:s json_insert json_keys json_length:s json_loose json_merge json_merge_patch json_merge_preserve json_normalize json_object:s
	json_object_filter_keys json_object_to_array json_objectagg json_overlaps json_pretty json_query json_quote:s json_remove json_replace
	json_schema_valid json_schema_validation_report json_search json_set json_storage_free json_storage_size json_sum_crc32 json_type:s
	json_unquote:s json_valid:s json_value:s kdf lag last_day last_insert_id:v last_value lastval:xv lcase:s lead least:s left:s length:s lengthb
	linestring ln load_file:vua localtime:tv localtimestamp:tv locate:s log log10 log2 lower:s lpad:s ltrim:s make_set makedate maketime
	master_gtid_wait:xu master_pos_wait:xu max mbrcontains mbrcoveredby mbrcovers mbrdisjoint mbrequal mbrequals mbrintersects mbroverlaps mbrtouches
	mbrwithin md5:s median microsecond mid:s min minute mod:s month:s monthname months_between multilinestring multipoint multipolygon
	natural_sort_key nextval:xv now:tv nth_value ntile nullif:s nvl nvl2 oct:s octet_length:s old_password ord:s overlaps password percent_rank
	percentile_cont percentile_disc period_add period_diff pi point polygon position:s pow power quarter:s quote radians rand:vu random_bytes:vu rank
	regexp_instr regexp_like regexp_replace regexp_substr release_all_locks:xu release_lock:xua repeat:s replace:s reverse:s right:s round:s
	row_count:xua row_number rownum:v rpad:s rtrim:s schema:v sec_to_time second session_user:vua setval:xv sformat sha:s sha1:s sha2:s sign:s sin
	sleep:vua soundex source_pos_wait:xu space:s sqrt srid startpoint statement_digest statement_digest_text std stddev stddev_pop stddev_samp
	str_to_date strcmp:s string_to_vector subdate substr:s substring:s substring_index:s subtime sum sys_guid:v sysdate:vua system_user:vua tan time
	time_format time_to_sec timediff timestamp timestampadd timestampdiff to_base64 to_char to_date to_days:s to_number to_seconds to_vector touches
	trim:s trunc truncate:s ucase:s uncompress uncompressed_length unhex:s unix_timestamp:tv updatexml upper:s user:vua utc_date:tv utc_time:tv
	utc_timestamp:tv uuid:vu uuid_short:vu uuid_to_bin uuid_v4:v uuid_v7:v validate_password_strength:a values:a var_pop var_samp variance
	vec_distance vec_distance_cosine vec_distance_euclidean vec_fromtext vec_totext vector_dim vector_distance vector_to_string version:vu week
	weekday weekofyear weight_string wsrep_last_seen_gtid:xv wsrep_last_written_gtid:xv wsrep_sync_wait_upto_gtid:xu xor:s year:s yearweek
`

func functionHas(name, trait string) bool {
	return strings.Contains(functions[strings.ToLower(name)], trait)
}

// ClockFunction names those whose value is the statement's time, which Shunt can
// make the same on all shards (Bound.SameTime). SYSDATE() goes its own way.
func ClockFunction(name string) bool { return functionHas(name, "t") }

// VolatileFunction names functions whose value may differ from shard to shard. A builtin
// that isn't one is a function of its arguments alone.
func VolatileFunction(name string) bool { return functionHas(name, "v") }

// SameForAll names functions that have the same value in every session: no clock, time zone, locale,
// account or variable is in them.
func SameForAll(name string) bool { return functionHas(name, "s") }

// NeverAsked names words of an expression whose value is not asked for beforehand.
func NeverAsked(name string) bool { return functionHas(name, "a") || queryWord[name] }

var queryWord = wordSet(`select table with default next previous`)

// IsBuiltin knows the servers' own functions. One that is missing in the table is refused
// in a gather: a stored function has the same form, and would read the tables of one shard.
func IsBuiltin(name string) bool {
	traits, known := functions[name]
	return known && !strings.Contains(traits, "x") || strings.HasPrefix(name, "st_")
}
