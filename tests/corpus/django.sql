-- Django: the schema editor of its MySQL backend.
CREATE TABLE `django_migrations` (`id` bigint AUTO_INCREMENT NOT NULL PRIMARY KEY, `app` varchar(255) NOT NULL, `name` varchar(255) NOT NULL, `applied` datetime(6) NOT NULL);

CREATE TABLE `library_book` (`id` bigint AUTO_INCREMENT NOT NULL PRIMARY KEY, `title` varchar(200) NOT NULL, `isbn` varchar(13) NOT NULL UNIQUE, `pages` integer UNSIGNED NOT NULL, `price` numeric(6, 2) NULL, `added` datetime(6) NOT NULL);

CREATE TABLE `library_author` (`id` integer AUTO_INCREMENT NOT NULL PRIMARY KEY, `name` varchar(100) NOT NULL, `born` date NULL);

INSERT INTO `library_book` (`title`, `isbn`, `pages`, `price`, `added`) VALUES ('One', '1', 100, '9.99', '2024-01-01 00:00:00.000001'), ('Two', '2', 200, NULL, '2024-01-02 00:00:00');

INSERT INTO `library_author` (`name`) VALUES ('A'), ('B');

-- then

ALTER TABLE `library_book` ADD COLUMN `author_id` integer NULL, ADD CONSTRAINT `library_book_author_id_5f2a1c_fk` FOREIGN KEY (`author_id`) REFERENCES `library_author`(`id`);

UPDATE `library_book` SET `author_id` = 1 WHERE `library_book`.`id` = 1;

ALTER TABLE `library_book` ADD COLUMN `in_print` bool DEFAULT b'1' NOT NULL;

ALTER TABLE `library_book` ALTER COLUMN `in_print` DROP DEFAULT;

ALTER TABLE `library_book` ADD COLUMN `language` varchar(10) DEFAULT 'en' NOT NULL;
ALTER TABLE `library_book` ALTER COLUMN `language` DROP DEFAULT;

ALTER TABLE `library_book` ADD COLUMN `weight` double precision NULL;

ALTER TABLE `library_book` ADD COLUMN `summary` longtext NOT NULL;

ALTER TABLE `library_book` ADD COLUMN `lasts` bigint NULL, ADD COLUMN `uid` char(32) NULL, ADD COLUMN `file` longblob NULL, ADD COLUMN `ip` char(39) NULL;

ALTER TABLE `library_book` ADD COLUMN `data` json NULL CHECK (JSON_VALID(`data`));

UPDATE `library_book` SET `data` = '{"k": 1}', `weight` = 0.1, `file` = x'00ff', `uid` = LPAD(`id`, 32, '0');

ALTER TABLE `library_book` MODIFY `title` varchar(300) NOT NULL;

ALTER TABLE `library_book` MODIFY `price` numeric(8, 2) NULL;

ALTER TABLE `library_book` MODIFY `pages` bigint UNSIGNED NOT NULL;

UPDATE `library_book` SET `price` = '0' WHERE `price` IS NULL;
ALTER TABLE `library_book` MODIFY `price` numeric(8, 2) NOT NULL;

ALTER TABLE `library_book` CHANGE `added` `created` datetime(6) NOT NULL;

-- only: mysql-8 mysql-9 mariadb
ALTER TABLE `library_book` RENAME COLUMN `lasts` TO `loan_time`;

CREATE INDEX `library_boo_title_3a1f_idx` ON `library_book` (`title`);

CREATE INDEX `library_boo_pages_77aa_idx` ON `library_book` (`pages` DESC, `title`);

ALTER TABLE `library_book` RENAME INDEX `library_boo_title_3a1f_idx` TO `book_title_idx`;

-- only: mysql-8 mysql-9
CREATE INDEX `book_lower_idx` ON `library_book` ((LOWER(`title`)), (`pages` * 2));

DROP INDEX `book_title_idx` ON `library_book`;

ALTER TABLE `library_book` ADD CONSTRAINT `library_book_author_title_uniq` UNIQUE (`author_id`, `title`);

ALTER TABLE `library_book` DROP INDEX `isbn`;

-- only: mysql-8 mysql-9 mariadb
ALTER TABLE `library_book` ADD CONSTRAINT `pages_positive` CHECK (`pages` > 0);

-- only: mysql-8 mysql-9
ALTER TABLE `library_book` DROP CHECK `pages_positive`;

-- only: mariadb
ALTER TABLE `library_book` DROP CONSTRAINT IF EXISTS `pages_positive`;

ALTER TABLE `library_book` ADD COLUMN `double_pages` bigint GENERATED ALWAYS AS (`pages` * 2) STORED;

CREATE TABLE `library_book_tags` (`id` bigint AUTO_INCREMENT NOT NULL PRIMARY KEY, `book_id` bigint NOT NULL, `tag_id` integer NOT NULL);

ALTER TABLE `library_book_tags` ADD CONSTRAINT `library_book_tags_book_id_fk_library_book_id` FOREIGN KEY (`book_id`) REFERENCES `library_book` (`id`);

ALTER TABLE `library_book` COMMENT = 'books', ALGORITHM=INPLACE;

ALTER TABLE `library_book` DROP FOREIGN KEY `library_book_author_id_5f2a1c_fk`;

ALTER TABLE `library_book` MODIFY `author_id` bigint NULL;

ALTER TABLE `library_author` MODIFY `id` bigint AUTO_INCREMENT NOT NULL;

ALTER TABLE `library_book` DROP COLUMN `weight`;

RENAME TABLE `library_author` TO `library_writer`;

ALTER TABLE `library_book_tags` DROP FOREIGN KEY `library_book_tags_book_id_fk_library_book_id`;

DROP TABLE `library_book_tags` CASCADE;

SET FOREIGN_KEY_CHECKS = 0;
TRUNCATE `library_writer`;
SET FOREIGN_KEY_CHECKS = 1;

DELETE FROM `library_book`;
ALTER TABLE `library_book` AUTO_INCREMENT = 1;

INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('library', '0001_initial', '2024-01-01 00:00:00');
