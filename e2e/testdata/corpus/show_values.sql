-- include: shop
-- Values that are the session's at Shunt.
SET wait_timeout = 86601, sql_select_limit = 86602, autocommit = 0;
SELECT @@autocommit;
SELECT @@session.autocommit, @@LOCAL.autocommit + 1, id FROM users WHERE id = 3;
SELECT @@global.autocommit;
-- params: []
SELECT @@session.autocommit;
SHOW VARIABLES LIKE 'autocommit';
SHOW SESSION VARIABLES WHERE Value IN ('86601', '86602');
SHOW VARIABLES WHERE `Value` = 86601 AND Variable_name LIKE 'wait%';
SHOW VARIABLES WHERE Variable_name IN ('autocommit', 'wait_timeout') AND value <> 'x' -- a comment
;
SHOW VARIABLES WHERE (Variable_name = 'autocommit') AND Value = 'off';
SHOW LOCAL VARIABLES WHERE Variable_name = 'autocommit' AND Value = 'ON';
SHOW GLOBAL VARIABLES WHERE Variable_name = 'wait_timeout' AND Value = 86601;
SHOW GLOBAL VARIABLES WHERE Variable_name LIKE 'sql\_select\_l%';
SHOW VARIABLES WHERE Variable_name LIKE 'wait\_%' OR Variable_name = 'autocommit' OR 1 = 0;
SHOW VARIABLES WHERE nosuch = 1;
SHOW VARIABLES WHERE Value AND Variable_name LIKE 'auto\\_inc%';
SHOW VARIABLES WHERE;
SHOW STATUS WHERE Variable_name = 'Ssl_cipher' AND Value = '';
-- params: ["wait_timeout"]
SHOW VARIABLES WHERE Variable_name = ?;
-- params: ["wait%", 86601]
SHOW VARIABLES WHERE Variable_name LIKE ? AND Value = ?;
SET wait_timeout = DEFAULT, sql_select_limit = DEFAULT, autocommit = 1;
