package mysqlerr

// The numbers of errors.
const (
	// An AUTO_INCREMENT column has no number left. Do: Alter the column to a larger type.
	AutoincOutOfRange = 167  // HA_ERR_AUTOINC_ERANGE of MariaDB
	DBCreateExists    = 1007 // ER_DB_CREATE_EXISTS
	DBDropExists      = 1008 // ER_DB_DROP_EXISTS
	RecordChanged     = 1020 // ER_CHECKREAD
	// A shard's disk is full, or data_dir's. The text says which one, and whether
	// anything was changed. Do: Free disk space.
	DiskFull    = 1021 // ER_DISK_FULL
	DupKey      = 1022 // ER_DUP_KEY
	ErrorOnRead = 1024 // ER_ERROR_ON_READ
	// Shards' answers that have to be held in memory to be merged are too large. Do: Add a LIMIT, or sort
	// by the columns that are grouped by.
	OutOfSortMemory = 1038 // ER_OUT_OF_SORTMEMORY
	// Shunt has max_connections clients, or all of a shard's connections stay in use: the text says which.
	// Do: Raise max_connections or shard_connections, or have clients hold fewer transactions, temporary
	// tables and locks.
	TooManyConnections = 1040 // ER_CON_COUNT_ERROR
	// The connection doesn't begin as MySQL's protocol does, asks for TLS that isn't configured, or lacks
	// the PROXY header that its address owes. Do: Check the client, `tls` and `proxy_protocol`.
	HandshakeError = 1043 // ER_HANDSHAKE_ERROR
	// The user may not name this schema (`schemas` of the user), or the schema is Shunt's own. Do: Log in
	// as another user.
	DBAccessDenied = 1044 // ER_DBACCESS_DENIED_ERROR
	// The name or the password is wrong. Do: Check `users`; each further try from the address waits
	// longer.
	AccessDenied = 1045 // ER_ACCESS_DENIED_ERROR
	// A name without a schema, and no schema is chosen. Do: USE a schema, or write its name.
	NoDB = 1046 // ER_NO_DB_ERROR
	// A command of the protocol that Shunt doesn't know, or a malformed one.
	UnknownCommand = 1047 // ER_UNKNOWN_COM_ERROR
	BadNull        = 1048 // ER_BAD_NULL_ERROR
	// No shard that was asked has a schema of this name.
	BadDB       = 1049 // ER_BAD_DB_ERROR
	TableExists = 1050 // ER_TABLE_EXISTS_ERROR
	// DROP of a table that isn't there; with IF EXISTS a note.
	BadTable = 1051 // ER_BAD_TABLE_ERROR
	NonUniq  = 1052 // ER_NON_UNIQ_ERROR
	// Shunt ends. Do: Connect again.
	ServerShutdown = 1053 // ER_SERVER_SHUTDOWN
	// An INSERT or an ALTER names a column that the table lacks.
	BadField            = 1054 // ER_BAD_FIELD_ERROR
	WrongFieldWithGroup = 1055 // ER_WRONG_FIELD_WITH_GROUP
	// The table has a column of a new virtual column's name. Do: Choose another name.
	DupFieldName = 1060 // ER_DUP_FIELDNAME
	// A virtual index of this name is there. Do: Choose another name.
	DupKeyName = 1061 // ER_DUP_KEYNAME
	// A row with this value of a unique key is there, maybe on another shard.
	DupEntry = 1062 // ER_DUP_ENTRY
	// Shunt can't read the statement, and it needs to. Do: If a server takes the statement, send it to a
	// shard with the hint `/* shunt: shard=NAME */`.
	ParseError = 1064 // ER_PARSE_ERROR
	// The statement is empty.
	EmptyQuery = 1065 // ER_EMPTY_QUERY
	// LOCK TABLES names an alias twice.
	NonUniqTable       = 1066 // ER_NONUNIQ_TABLE
	MultiplePrimaryKey = 1068 // ER_MULTIPLE_PRI_KEY
	TooLongKey         = 1071 // ER_TOO_LONG_KEY
	// A virtual index names a column that the table lacks.
	KeyColumnDoesNotExist = 1072 // ER_KEY_COLUMN_DOES_NOT_EXITS
	// LOAD DATA separates fields by what no server takes.
	WrongFieldTerminators = 1083 // ER_WRONG_FIELD_TERMINATORS
	CantDropFieldOrKey    = 1091 // ER_CANT_DROP_FIELD_OR_KEY
	// A statement reads the table that it changes, as servers refuse too. Do: Read from a derived table.
	UpdateTableUsed = 1093 // ER_UPDATE_TABLE_USED
	// KILL of a connection that isn't there.
	NoSuchThread = 1094 // ER_NO_SUCH_THREAD
	// KILL of another user's connection.
	KillDenied = 1095 // ER_KILL_DENIED_ERROR
	// A table that LOCK TABLES didn't name. Do: Lock the table too, or UNLOCK TABLES.
	TableNotLocked = 1100 // ER_TABLE_NOT_LOCKED
	// A gather would copy more rows than gather_max_rows, or RETURNING answers too much. The text names
	// the table. Do: Narrow the conditions, or raise gather_max_rows.
	TooBigSelect = 1104 // ER_TOO_BIG_SELECT
	// What has no error of its own in MySQL: DDL that some shards did and others didn't, a row that can't
	// be copied, an unknown shard in a hint. Do: The text says what to do.
	UnknownError = 1105 // ER_UNKNOWN_ERROR
	// A multi-table DELETE names a table that it doesn't read.
	UnknownTable = 1109 // ER_UNKNOWN_TABLE
	// LOAD DATA, or INSERT through a view, names a column twice.
	FieldSpecifiedTwice = 1110 // ER_FIELD_SPECIFIED_TWICE
	InvalidGroupFuncUse = 1111 // ER_INVALID_GROUP_FUNC_USE
	// The rows of open cursors and kept results take more than cursor_max_bytes. Do: Close cursors, or
	// raise cursor_max_bytes.
	TableFull = 1114 // ER_RECORD_FILE_FULL
	// SET names a character set that the shards don't know.
	UnknownCharacterSet = 1115 // ER_UNKNOWN_CHARACTER_SET
	// A join of more tables than servers take.
	TooManyTables = 1116 // ER_TOO_MANY_TABLES
	// Many log-ins from this address have failed. Do: Wait a while.
	HostIsBlocked = 1129 // ER_HOST_IS_BLOCKED
	// A row of an INSERT has more or fewer values than columns.
	WrongValueCountOnRow    = 1136 // ER_WRONG_VALUE_COUNT_ON_ROW
	CantReopenTable         = 1137 // ER_CANT_REOPEN_TABLE
	MixOfGroupFuncAndFields = 1140 // ER_MIX_OF_GROUP_FUNC_AND_FIELDS
	// The user may not do this with the table (`schemas`, `read_only`). Do: Log in as another user.
	TableAccessDenied = 1142 // ER_TABLEACCESS_DENIED_ERROR
	// No shard that was asked has a table of this name, or the temporary table was lost with a
	// connection. Do: Make the temporary table again.
	NoSuchTable        = 1146 // ER_NO_SUCH_TABLE
	AbortingConnection = 1152 // ER_ABORTING_CONNECTION
	// A statement or a packet is larger than max_allowed_packet, or than 64 MiB. Do: Send it in parts.
	NetPacketTooLarge = 1153 // ER_NET_PACKET_TOO_LARGE
	// Packets come out of order. Do: Check the client.
	NetPacketsOutOfOrder = 1156 // ER_NET_PACKETS_OUT_OF_ORDER
	// A compressed packet can't be read. Do: Check the client.
	NetUncompressError = 1157 // ER_NET_UNCOMPRESS_ERROR
	NetReadError       = 1158 // ER_NET_READ_ERROR
	// The client hasn't sent the rest of a packet in time.
	NetReadInterrupted  = 1159 // ER_NET_READ_INTERRUPTED
	NetErrorOnWrite     = 1160 // ER_NET_ERROR_ON_WRITE
	NetWriteInterrupted = 1161 // ER_NET_WRITE_INTERRUPTED
	// SELECT ... INTO answers several rows. Do: Add LIMIT 1.
	TooManyRows = 1172 // ER_TOO_MANY_ROWS
	// A DELETE from several tables under sql_safe_updates, whose conditions compare no key's column of one
	// of them. Do: Name the rows by a key, or SET sql_safe_updates = 0.
	UpdateWithoutKeyInSafeMode = 1175 // ER_UPDATE_WITHOUT_KEY_IN_SAFE_MODE
	// The table has no virtual index of this name. Do: SHOW VIRTUAL INDEXES lists those that are there.
	KeyDoesNotExist = 1176 // ER_KEY_DOES_NOT_EXITS
	// A COMMIT has failed on a shard, or the transaction was rolled back there. The text names the shards
	// that committed. Do: ROLLBACK, and try again if no shard committed; else mend the rest.
	ErrorDuringCommit     = 1180 // ER_ERROR_DURING_COMMIT
	NewAbortingConnection = 1184 // ER_NEW_ABORTING_CONNECTION
	// A statement that may not run in a transaction or with table locks. Do: COMMIT or UNLOCK TABLES
	// first.
	LockOrActiveTransaction = 1192 // ER_LOCK_OR_ACTIVE_TRANSACTION
	TooManyUserConnections  = 1203 // ER_TOO_MANY_USER_CONNECTIONS
	// A lock wasn't had in time: a row's, a table's, the turn of DDL, a transaction that stays open. Do:
	// Try again; SHOW PROCESSLIST shows who has it.
	LockWaitTimeout = 1205 // ER_LOCK_WAIT_TIMEOUT
	LockTableFull   = 1206 // ER_LOCK_TABLE_FULL
	// A prepared statement got the wrong number of values, or malformed ones.
	WrongArguments = 1210 // ER_WRONG_ARGUMENTS
	// Transactions wait for each other in a circle, over shards too. This one was rolled back. Do: Try the
	// transaction again.
	LockDeadlock = 1213 // ER_LOCK_DEADLOCK
	// As 1452 to a user who may not see the other table.
	NoReferencedRow = 1216 // ER_NO_REFERENCED_ROW
	// As 1451 to a user who may not see the other table.
	RowIsReferenced = 1217 // ER_ROW_IS_REFERENCED
	// SELECT ... INTO has another number of variables than of columns.
	WrongNumberOfColumns = 1222 // ER_WRONG_NUMBER_OF_COLUMNS_IN_SELECT
	// This session has FLUSH TABLES WITH READ LOCK. Do: UNLOCK TABLES first.
	CantUpdateWithReadLock = 1223 // ER_CANT_UPDATE_WITH_READLOCK
	// A limit of the user: `max_connections`, `max_queries_per_second` or `max_shard_connections`. Do:
	// Send less at a time, or raise the limit.
	UserLimitReached = 1226 // ER_USER_LIMIT_REACHED
	// The user lacks a privilege for this. Do: Log in as another user.
	SpecificAccessDenied = 1227 // ER_SPECIFIC_ACCESS_DENIED_ERROR
	// SET gives a variable a value that it can't have.
	WrongValueForVar = 1231 // ER_WRONG_VALUE_FOR_VAR
	// SET gives a variable a value of another type.
	WrongTypeForVar = 1232 // ER_WRONG_TYPE_FOR_VAR
	// Shunt can't do this over several shards yet. The text says what, and the way out; [sql.md](sql.md)
	// has what it can. Do: Follow the text.
	NotSupportedYet = 1235 // ER_NOT_SUPPORTED_YET
	// SET or a subquery has several columns where one is expected.
	OperandColumns = 1241 // ER_OPERAND_COLUMNS
	// A subquery answers several rows where one is expected.
	SubqueryManyRows = 1242 // ER_SUBQUERY_NO_1_ROW
	// EXECUTE of what isn't prepared on this connection. Do: Prepare it again.
	UnknownStmtHandler = 1243 // ER_UNKNOWN_STMT_HANDLER
	// The client is older than MySQL 4.1. Do: Use a newer client.
	NotSupportedAuthMode = 1251 // ER_NOT_SUPPORTED_AUTH_MODE
	ZlibDataError        = 1259 // ER_ZLIB_Z_DATA_ERROR
	CutValueGroupConcat  = 1260 // ER_CUT_VALUE_GROUP_CONCAT
	// A warning of LOAD DATA: a line has too few fields. With REPLACE in a strict mode an error.
	WarnTooFewRecords = 1261 // ER_WARN_TOO_FEW_RECORDS
	// A warning of LOAD DATA: a line has too many fields. With REPLACE in a strict mode an error.
	WarnTooManyRecords = 1262 // ER_WARN_TOO_MANY_RECORDS
	WarnDataOutOfRange = 1264 // ER_WARN_DATA_OUT_OF_RANGE
	WarnDataTruncated  = 1265 // WARN_DATA_TRUNCATED
	// SET names a collation that the shards don't know.
	UnknownCollation = 1273 // ER_UNKNOWN_COLLATION
	// A warning: what was used is deprecated, as servers say.
	WarnDeprecatedSyntax = 1287 // ER_WARN_DEPRECATED_SYNTAX
	// The user may only read, or the store of virtual indexes can't be written to. The text says which,
	// and nothing was changed. Do: Log in as another user; or see the log, mend the cause and restart
	// Shunt.
	OptionPreventsStatement = 1290 // ER_OPTION_PREVENTS_STATEMENT
	// A warning: a number that is set to a variable was cut to the variable's range.
	TruncatedWrongValue = 1292 // ER_TRUNCATED_WRONG_VALUE
	// A statement that can't be prepared. Do: Send it as text.
	UnsupportedPS               = 1295 // ER_UNSUPPORTED_PS
	InvalidCharacterString      = 1300 // ER_INVALID_CHARACTER_STRING
	WarnAllowedPacketOverflowed = 1301 // ER_WARN_ALLOWED_PACKET_OVERFLOWED
	SPAlreadyExists             = 1304 // ER_SP_ALREADY_EXISTS
	// There is no such procedure, function or savepoint.
	SPDoesNotExist = 1305 // ER_SP_DOES_NOT_EXIST
	// KILL QUERY, or the client has gone.
	QueryInterrupted = 1317 // ER_QUERY_INTERRUPTED
	// A warning: SELECT ... INTO has found no row.
	SPFetchNoData = 1329 // ER_SP_FETCH_NO_DATA
	// A write names a column that a view computes. Do: Write to the view's table.
	NonUpdatableColumn   = 1348 // ER_NONUPDATEABLE_COLUMN
	ViewInvalid          = 1356 // ER_VIEW_INVALID
	TriggerAlreadyExists = 1359 // ER_TRG_ALREADY_EXISTS
	TriggerDoesNotExist  = 1360 // ER_TRG_DOES_NOT_EXIST
	NoDefaultForField    = 1364 // ER_NO_DEFAULT_FOR_FIELD
	DivisionByZero       = 1365 // ER_DIVISION_BY_ZERO
	// A warning: '' was given for an AUTO_INCREMENT column, and counted.
	TruncatedWrongValueForField = 1366 // ER_TRUNCATED_WRONG_VALUE_FOR_FIELD
	IllegalValueForType         = 1367 // ER_ILLEGAL_VALUE_FOR_TYPE
	ProcAccessDenied            = 1370 // ER_PROCACCESS_DENIED_ERROR
	DataTooLong                 = 1406 // ER_DATA_TOO_LONG
	WrongValueForType           = 1411 // ER_WRONG_VALUE_FOR_TYPE
	// Shards disagree about a table's columns: an ALTER TABLE is under way or has failed on some. Do: Try
	// again; SHOW SHARDS says what has failed.
	TableDefChanged = 1412 // ER_TABLE_DEF_CHANGED
	// A fetch from a statement that has no open cursor.
	StmtHasNoOpenCursor = 1421 // ER_STMT_HAS_NO_OPEN_CURSOR
	// A shard, the shared store or another member can't be reached. The text names it. Do: See SHOW SHARDS
	// or SHOW MEMBERS. Nothing was done there; as the error of COMMIT: all was rolled back.
	ShardDown = 1429 // ER_CONNECT_TO_FOREIGN_DATA_SOURCE
	// The connection to a shard or to the server of a shared store was lost while the statement ran, or another
	// member hasn't told whether a KILL was done. The text names it. Do: What was to be done there may be done or not:
	// look, then try again.
	ShardLost                = 1430 // ER_QUERY_ON_FOREIGN_DATA_SOURCE
	DatetimeFunctionOverflow = 1441 // ER_DATETIME_FUNCTION_OVERFLOW
	RowIsReferenced2         = 1451 // ER_ROW_IS_REFERENCED_2
	NoReferencedRow2         = 1452 // ER_NO_REFERENCED_ROW_2
	// The connection has max_prepared_statements prepared. Do: Close some, or raise
	// max_prepared_statements.
	MaxPreparedStmtCountReached = 1461 // ER_MAX_PREPARED_STMT_COUNT_REACHED
	// MySQL: an AUTO_INCREMENT column has no number left. Do: Alter the column to a larger type.
	AutoincReadFailed = 1467 // ER_AUTOINC_READ_FAILED
	// MariaDB: INSERT into a column that a view computes. Do: Write to the view's table.
	NonInsertableTable       = 1471 // ER_NON_INSERTABLE_TABLE
	RangeNotIncreasing       = 1493 // ER_RANGE_NOT_INCREASING_ERROR
	DropPartitionNonExistent = 1507 // ER_DROP_PARTITION_NON_EXISTENT
	SameNamePartition        = 1517 // ER_SAME_NAME_PARTITION
	WrongValue               = 1525 // ER_WRONG_VALUE
	NoPartitionForGivenValue = 1526 // ER_NO_PARTITION_FOR_GIVEN_VALUE
	// CREATE EVENT by the name of one that is on another shard. Do: DROP EVENT it first, or take another name.
	EventAlreadyExists = 1537 // ER_EVENT_ALREADY_EXISTS
	EventDoesNotExist  = 1539 // ER_EVENT_DOES_NOT_EXIST
	// SET TRANSACTION in a transaction. Do: COMMIT first.
	CantChangeTxCharacteristics       = 1568 // ER_CANT_CHANGE_TX_CHARACTERISTICS
	EventsDBError                     = 1577 // ER_EVENTS_DB_ERROR
	DupEntryWithKeyName               = 1586 // ER_DUP_ENTRY_WITH_KEY_NAME
	NeedReprepare                     = 1615 // ER_NEED_REPREPARE
	SignalException                   = 1644 // ER_SIGNAL_EXCEPTION
	WarnDeprecatedSyntaxNoReplacement = 1681 // ER_WARN_DEPRECATED_SYNTAX_NO_REPLACEMENT
	// A sum of the shards' answers is out of its type's range.
	DataOutOfRange    = 1690 // ER_DATA_OUT_OF_RANGE
	TruncateIllegalFK = 1701 // ER_TRUNCATE_ILLEGAL_FK
	// A write in a transaction that may only read.
	CantExecuteInReadOnlyTransaction = 1792 // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
	FKDupName                        = 1826 // ER_FK_DUP_NAME
	FKColumnCannotChangeChild        = 1833 // ER_FK_COLUMN_CANNOT_CHANGE_CHILD
	// A packet can't be read. Do: Check the client.
	MalformedPacket  = 1835 // ER_MALFORMED_PACKET
	ReadOnlyMode     = 1836 // ER_READ_ONLY_MODE
	ConnectionKilled = 1927 // ER_CONNECTION_KILLED of MariaDB
	BadBase64Data    = 1958 // ER_BAD_BASE64_DATA of MariaDB
	// The statement took longer than query_timeout or max_statement_time.
	StatementTimeout            = 1969 // ER_STATEMENT_TIMEOUT of MariaDB
	InvalidArgumentForLogarithm = 3020 // ER_INVALID_ARGUMENT_FOR_LOGARITHM
	// MySQL: the statement took longer than query_timeout or max_execution_time.
	QueryTimeout = 3024 // ER_QUERY_TIMEOUT
	// The name of a lock begins as those of Shunt itself. Do: Choose another name.
	UserLockWrongName       = 3057 // ER_USER_LOCK_WRONG_NAME
	AccountHasBeenLocked    = 3118 // ER_ACCOUNT_HAS_BEEN_LOCKED
	InvalidJSONText         = 3140 // ER_INVALID_JSON_TEXT
	InvalidJSONValueForCast = 3156 // ER_INVALID_JSON_VALUE_FOR_CAST
	// The user or Shunt asks for TLS (`require_tls`). Do: Connect with TLS.
	SecureTransportRequired = 3159 // ER_SECURE_TRANSPORT_REQUIRED
	ServerIsntAvailable     = 3168 // ER_SERVER_ISNT_AVAILABLE
	SessionWasKilled        = 3169 // ER_SESSION_WAS_KILLED
	// What this connection, or all, keep between statements takes more than session_max_bytes or
	// sessions_max_bytes. Do: Close prepared statements, drop variables, or raise the limit.
	CapacityExceeded = 3170 // ER_CAPACITY_EXCEEDED
	// SET resultset_metadata = NONE by a client that hasn't said that it knows this.
	ClientDoesNotSupport          = 3640 // ER_CLIENT_DOES_NOT_SUPPORT
	FKCannotDropParent            = 3730 // ER_FK_CANNOT_DROP_PARENT
	TempTablePreventsBinlogFormat = 3745 // ER_TEMP_TABLE_PREVENTS_SWITCH_SESSION_BINLOG_FORMAT
	CheckConstraintViolated       = 3819 // ER_CHECK_CONSTRAINT_VIOLATED
	CheckConstraintNotFound       = 3821 // ER_CHECK_CONSTRAINT_NOT_FOUND
	CheckConstraintDupName        = 3822 // ER_CHECK_CONSTRAINT_DUP_NAME
	CannotConvertString           = 3854 // ER_CANNOT_CONVERT_STRING
	ConstraintNotFound            = 3940 // ER_CONSTRAINT_NOT_FOUND
	// LOAD DATA LOCAL is off, at the client or in Shunt's configuration. Do: Allow it at the client.
	ClientLocalFilesDisabled = 3948 // ER_CLIENT_LOCAL_FILES_DISABLED
	ConstraintFailed         = 4025 // ER_CONSTRAINT_FAILED of MariaDB
	// MySQL: the connection was idle for wait_timeout. Do: Connect again.
	ClientInteractionTimeout = 4031 // ER_CLIENT_INTERACTION_TIMEOUT
	// NEXTVAL or SETVAL of a table.
	NotSequence = 4089 // ER_NOT_SEQUENCE of MariaDB
	// There is no such sequence.
	UnknownSequence = 4091 // ER_UNKNOWN_SEQUENCES of MariaDB
	// DROP VIEW of what isn't there.
	UnknownView                 = 4092 // ER_UNKNOWN_VIEW of MariaDB
	MariaDBAccountHasBeenLocked = 4151 // ER_ACCOUNT_HAS_BEEN_LOCKED of MariaDB
	TemporalFunctionOverflow    = 6527 // ER_TEMPORAL_FUNCTION_OVERFLOW
)

// states has the SQLSTATEs that aren't HY000.
var states = map[uint16]string{
	AutoincOutOfRange:                "22003",
	DupKey:                           "23000",
	OutOfSortMemory:                  "HY001",
	TooManyConnections:               "08004",
	HandshakeError:                   "08S01",
	DBAccessDenied:                   "42000",
	AccessDenied:                     "28000",
	NoDB:                             "3D000",
	UnknownCommand:                   "08S01",
	BadNull:                          "23000",
	BadDB:                            "42000",
	TableExists:                      "42S01",
	BadTable:                         "42S02",
	NonUniq:                          "23000",
	ServerShutdown:                   "08S01",
	BadField:                         "42S22",
	WrongFieldWithGroup:              "42000",
	DupFieldName:                     "42S21",
	DupKeyName:                       "42000",
	DupEntry:                         "23000",
	ParseError:                       "42000",
	EmptyQuery:                       "42000",
	NonUniqTable:                     "42000",
	MultiplePrimaryKey:               "42000",
	TooLongKey:                       "42000",
	KeyColumnDoesNotExist:            "42000",
	WrongFieldTerminators:            "42000",
	CantDropFieldOrKey:               "42000",
	TooBigSelect:                     "42000",
	UnknownTable:                     "42S02",
	FieldSpecifiedTwice:              "42000",
	UnknownCharacterSet:              "42000",
	WrongValueCountOnRow:             "21S01",
	MixOfGroupFuncAndFields:          "42000",
	TableAccessDenied:                "42000",
	NoSuchTable:                      "42S02",
	AbortingConnection:               "08S01",
	NetPacketTooLarge:                "08S01",
	NetPacketsOutOfOrder:             "08S01",
	NetUncompressError:               "08S01",
	NetReadError:                     "08S01",
	NetReadInterrupted:               "08S01",
	NetErrorOnWrite:                  "08S01",
	NetWriteInterrupted:              "08S01",
	TooManyRows:                      "42000",
	KeyDoesNotExist:                  "42000",
	NewAbortingConnection:            "08S01",
	TooManyUserConnections:           "42000",
	LockDeadlock:                     "40001",
	NoReferencedRow:                  "23000",
	RowIsReferenced:                  "23000",
	WrongNumberOfColumns:             "21000",
	UserLimitReached:                 "42000",
	SpecificAccessDenied:             "42000",
	WrongValueForVar:                 "42000",
	WrongTypeForVar:                  "42000",
	NotSupportedYet:                  "42000",
	OperandColumns:                   "21000",
	SubqueryManyRows:                 "21000",
	NotSupportedAuthMode:             "08004",
	WarnTooFewRecords:                "01000",
	WarnTooManyRecords:               "01000",
	WarnDataOutOfRange:               "22003",
	WarnDataTruncated:                "01000",
	TruncatedWrongValue:              "22007",
	SPAlreadyExists:                  "42000",
	SPDoesNotExist:                   "42000",
	QueryInterrupted:                 "70100",
	SPFetchNoData:                    "02000",
	DivisionByZero:                   "22012",
	IllegalValueForType:              "22007",
	ProcAccessDenied:                 "42000",
	DataTooLong:                      "22001",
	DatetimeFunctionOverflow:         "22008",
	RowIsReferenced2:                 "23000",
	NoReferencedRow2:                 "23000",
	MaxPreparedStmtCountReached:      "42000",
	CantChangeTxCharacteristics:      "25001",
	DupEntryWithKeyName:              "23000",
	DataOutOfRange:                   "22003",
	TruncateIllegalFK:                "42000",
	CantExecuteInReadOnlyTransaction: "25006",
	ConnectionKilled:                 "70100",
	StatementTimeout:                 "70100",
	InvalidArgumentForLogarithm:      "2201E",
	UserLockWrongName:                "42000",
	InvalidJSONText:                  "22032",
	InvalidJSONValueForCast:          "22018",
	ClientLocalFilesDisabled:         "42000",
	ConstraintFailed:                 "23000",
	NotSequence:                      "42S02",
	UnknownSequence:                  "42S02",
	UnknownView:                      "42S02",
	TemporalFunctionOverflow:         "22008",
}
