<?php
// What the tests add to the settings that MediaWiki's installer writes.
$wgMainCacheType = CACHE_DB; // the table objectcache: more statements, and other kinds
$wgParserCacheType = CACHE_DB;
$wgSessionCacheType = CACHE_DB;
$wgMainWANCache = CACHE_NONE; // it refreshes values by chance
$wgJobRunRate = 0; // the script runs them
$wgShowExceptionDetails = true;
$wgShowDBErrorBacktrace = true;
$wgDebugLogGroups = ['exception' => getenv('APP_DIR') . '/errors.log']; // a failed test shows it
$wgEnableUploads = false;
$wgRateLimits = [];
$wgPasswordAttemptThrottle = [];
$wgUseInstantCommons = false;
$wgAuthenticationTokenVersion = null;
$wgGroupPermissions['*']['createaccount'] = true;
