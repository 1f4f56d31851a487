-- WordPress: its installer, and dbDelta's upgrades with plugins' tables.
CREATE TABLE wp_posts (
	ID bigint(20) unsigned NOT NULL auto_increment,
	post_author bigint(20) unsigned NOT NULL default '0',
	post_date datetime NOT NULL default '2000-01-01 00:00:00',
	post_content longtext NOT NULL,
	post_title text NOT NULL,
	post_status varchar(20) NOT NULL default 'publish',
	menu_order int(11) NOT NULL default '0',
	PRIMARY KEY  (ID),
	KEY type_status_date (post_status,post_date,ID),
	KEY post_author (post_author)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;

CREATE TABLE wp_options (
	option_id bigint(20) unsigned NOT NULL auto_increment,
	option_name varchar(191) NOT NULL default '',
	option_value longtext NOT NULL,
	autoload varchar(20) NOT NULL default 'yes',
	PRIMARY KEY  (option_id),
	UNIQUE KEY option_name (option_name)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;

INSERT INTO wp_posts (post_content, post_title) VALUES ('<p>Hello \'world\'</p>', 'Hello'), ('', '');

INSERT INTO `wp_options` (`option_name`, `option_value`, `autoload`) VALUES ('siteurl', 'http://x', 'yes') ON DUPLICATE KEY UPDATE `option_name` = VALUES(`option_name`);

-- then

ALTER TABLE wp_posts ADD COLUMN post_excerpt text NOT NULL;

ALTER TABLE wp_posts ADD COLUMN `ping_status` varchar(20) NOT NULL default 'open';

ALTER TABLE wp_posts CHANGE COLUMN `post_status` post_status varchar(40) NOT NULL default 'publish';

ALTER TABLE wp_posts CHANGE COLUMN `menu_order` menu_order bigint(20) NOT NULL default '0';

ALTER TABLE wp_posts ALTER COLUMN `ping_status` SET DEFAULT 'closed';

ALTER TABLE wp_posts ADD KEY `post_name` (`post_title`(191));

ALTER TABLE wp_posts ADD INDEX post_parent (menu_order);

ALTER TABLE wp_options DROP INDEX `option_name`;

ALTER TABLE wp_options ADD UNIQUE KEY `option_name` (`option_name`);

ALTER TABLE wp_options CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;

UPDATE `wp_options` SET `option_value` = 'a:1:{i:0;s:1:\"x\";}' WHERE `option_name` = 'siteurl';

CREATE TABLE wp_actions (
	action_id bigint(20) unsigned NOT NULL auto_increment,
	hook varchar(191) NOT NULL,
	priority tinyint unsigned NOT NULL default '10',
	scheduled_date_gmt datetime NULL default '2000-01-01 00:00:00',
	args varchar(191),
	extended_args varchar(8000) DEFAULT NULL,
	PRIMARY KEY  (action_id),
	KEY hook (hook(191))
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;

CREATE TABLE wp_termmeta (
  meta_id bigint(20) unsigned NOT NULL auto_increment,
  term_id bigint(20) unsigned NOT NULL default '0',
  meta_key varchar(255) default NULL,
  meta_value longtext,
  PRIMARY KEY  (meta_id),
  KEY term_id (term_id),
  KEY meta_key (meta_key(191))
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;

INSERT INTO `wp_termmeta` (`term_id`, `meta_key`, `meta_value`) VALUES (1, 'k', 'v');

SET SESSION sql_mode = '';
ALTER TABLE wp_posts ADD COLUMN post_modified datetime NOT NULL default '0000-00-00 00:00:00';
INSERT INTO wp_posts (post_content, post_title, post_excerpt) VALUES ('x', 'zero', '');

ALTER TABLE wp_termmeta DROP COLUMN meta_value;

ALTER TABLE wp_termmeta ADD meta_value longtext AFTER meta_key, ADD KEY both_keys (term_id, meta_key(10));

TRUNCATE TABLE wp_termmeta;

DELETE FROM `wp_options` WHERE `option_name` = '_transient_doing_cron';

DROP TABLE IF EXISTS wp_termmeta;
