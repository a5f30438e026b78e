<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'wordpress');
define('DB_PASSWORD', 'word');
define('DB_HOST', getenv('WORDPRESS_DB_HOST'));
define('WP_CONTENT_DIR', '/usr/share/wordpress/wp-content');
