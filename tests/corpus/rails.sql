-- Ruby on Rails: ActiveRecord's migrations with its MySQL adapters.
CREATE TABLE `schema_migrations` (`version` varchar(255) NOT NULL PRIMARY KEY);

CREATE TABLE `ar_internal_metadata` (`key` varchar(255) NOT NULL PRIMARY KEY, `value` varchar(255), `created_at` datetime(6) NOT NULL, `updated_at` datetime(6) NOT NULL);

CREATE TABLE `products` (`id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, `title` varchar(255), `price` decimal(8,2) DEFAULT 0.0, `description` text, `created_at` datetime(6) NOT NULL, `updated_at` datetime(6) NOT NULL);

INSERT INTO `products` (`title`, `price`, `description`, `created_at`, `updated_at`) VALUES ('Tea', 3.5, NULL, '2024-05-06 07:08:09.123456', '2024-05-06 07:08:09.123456'), ('Rum', 20, 'dark', NOW(6), NOW(6));

-- then

CREATE TABLE `reviews` (`id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, `product_id` bigint NOT NULL, `stars` tinyint DEFAULT 5 NOT NULL, `body` mediumtext, `created_at` datetime(6) NOT NULL, INDEX `index_reviews_on_product_id` (`product_id`), CONSTRAINT `fk_rails_bedd9094d4` FOREIGN KEY (`product_id`) REFERENCES `products` (`id`));

INSERT INTO `reviews` (`product_id`, `body`, `created_at`) VALUES (1, 'good', NOW(6));

ALTER TABLE `products` ADD `stock` int DEFAULT 0 NOT NULL;

ALTER TABLE `products` ADD COLUMN `sku` varchar(40) /*application='shop'*/;

ALTER TABLE `products` ADD `taxed` tinyint(1) DEFAULT TRUE, ADD `weight` float(24), ADD `blob_data` blob(65535), ADD `options` json;

UPDATE `products` SET `products`.`stock` = 5, `products`.`weight` = 1.25, `products`.`sku` = 'T-1' WHERE `products`.`id` = 1;

ALTER TABLE `products` CHANGE `title` `name` varchar(255) DEFAULT NULL;

ALTER TABLE `products` CHANGE `price` `price` decimal(10,4) DEFAULT '0.0' NOT NULL;

ALTER TABLE `products` CHANGE `stock` `stock` bigint DEFAULT 0 NOT NULL COMMENT 'on hand';

ALTER TABLE `products` MODIFY `sku` varchar(80) COLLATE `utf8mb4_bin`;

ALTER TABLE `products` ALTER COLUMN `stock` SET DEFAULT 7;

ALTER TABLE `products` ALTER `taxed` DROP DEFAULT;

-- only: mysql-8 mysql-9 mariadb
ALTER TABLE `products` RENAME COLUMN `blob_data` TO `picture`;

CREATE INDEX `index_products_on_name` ON `products` (`name`(20));

CREATE UNIQUE INDEX `index_products_on_sku` USING btree ON `products` (`sku`) COMMENT 'one each';

ALTER TABLE `products` RENAME INDEX `index_products_on_name` TO `index_products_name`;

DROP INDEX `index_products_name` ON `products`;

-- only: mysql
CREATE INDEX `index_products_on_price` ON `products` (`price`, `stock`) ALGORITHM = INPLACE;

ALTER TABLE `products` ADD `full_label` varchar(255) GENERATED ALWAYS AS (concat(`name`, ' ', `sku`)) VIRTUAL;

ALTER TABLE `products` ADD `name_size` int AS (length(`name`)) STORED;

ALTER TABLE `products` DROP COLUMN `full_label`, DROP COLUMN `name_size`;

ALTER TABLE `reviews` DROP FOREIGN KEY `fk_rails_bedd9094d4`;

ALTER TABLE `reviews` ADD CONSTRAINT `fk_rails_1234` FOREIGN KEY (`product_id`) REFERENCES `products` (`id`) ON DELETE CASCADE;

ALTER TABLE `products` ADD CONSTRAINT `chk_rails_price` CHECK (price >= 0);

-- only: mysql-8 mysql-9
ALTER TABLE `products` DROP CHECK `chk_rails_price`;

-- only: mariadb
ALTER TABLE `products` DROP CONSTRAINT `chk_rails_price`;

CREATE TABLE `categories_products` (`category_id` bigint NOT NULL, `product_id` bigint NOT NULL) CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

INSERT INTO `categories_products` VALUES (1, 1), (1, 2);

RENAME TABLE `reviews` TO `opinions`;

ALTER TABLE `opinions` RENAME INDEX `index_reviews_on_product_id` TO `index_opinions_on_product_id`;

ALTER TABLE `products` COMMENT 'what we sell';

ALTER TABLE `products` DROP COLUMN `taxed`, DROP COLUMN `weight`;

INSERT INTO `schema_migrations` (version) VALUES ('20240506070809');

INSERT INTO `ar_internal_metadata` (`key`, `value`, `created_at`, `updated_at`) VALUES ('environment', 'production', '2024-05-06 07:08:09', '2024-05-06 07:08:09');

DROP TABLE `categories_products` CASCADE;

DROP TABLE IF EXISTS `opinions`;
