<?php
// WordPress's configuration for the tests; the web server's environment says where the database is.
define('DB_NAME', getenv('APP_DB_NAME'));
define('DB_USER', getenv('APP_DB_USER'));
define('DB_PASSWORD', getenv('APP_DB_PASSWORD'));
define('DB_HOST', getenv('APP_DB_HOST'));
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
foreach (['AUTH_KEY', 'SECURE_AUTH_KEY', 'LOGGED_IN_KEY', 'NONCE_KEY', 'AUTH_SALT', 'SECURE_AUTH_SALT', 'LOGGED_IN_SALT', 'NONCE_SALT'] as $key) {
	define($key, 'the same on both sides: ' . $key);
}
define('WP_HOME', getenv('APP_URL'));
define('WP_SITEURL', getenv('APP_URL'));
define('WP_DEBUG', true);
define('WP_DEBUG_DISPLAY', false);
define('DISABLE_WP_CRON', true); // it would run beside the script, at other moments on each side
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('EMPTY_TRASH_DAYS', 30);
$table_prefix = 'wp_';
define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
