-- Laravel: the MySQL grammar of its schema builder.
create table `migrations` (`id` int unsigned not null auto_increment primary key, `migration` varchar(255) not null, `batch` int not null) default character set utf8mb4 collate 'utf8mb4_unicode_ci';

create table `users` (`id` bigint unsigned not null auto_increment primary key, `name` varchar(255) not null, `email` varchar(255) not null, `email_verified_at` timestamp null, `password` varchar(255) not null, `remember_token` varchar(100) null, `created_at` timestamp null, `updated_at` timestamp null) default character set utf8mb4 collate 'utf8mb4_unicode_ci';

alter table `users` add unique `users_email_unique`(`email`);

insert into `users` (`name`, `email`, `password`, `created_at`) values ('Ann', 'ann@example.org', 'p', '2024-01-02 03:04:05'), ('Bo', 'bo@example.org', 'q', null);

-- then

create table `posts` (`id` bigint unsigned not null auto_increment primary key, `user_id` bigint unsigned not null, `title` varchar(120) not null, `body` text null, `state` enum('draft', 'public') not null default 'draft', `meta` json null, `rating` decimal(3, 1) not null default '0', `views` int unsigned not null default '0', `created_at` timestamp null, `updated_at` timestamp null, `deleted_at` timestamp null) default character set utf8mb4 collate 'utf8mb4_unicode_ci' engine = InnoDB;

alter table `posts` add constraint `posts_user_id_foreign` foreign key (`user_id`) references `users` (`id`) on delete cascade on update restrict;

insert into `posts` (`user_id`, `title`, `meta`) values (1, 'Hello', '{"tags": ["a"]}'), (2, 'World', null);

alter table `users` add `phone` varchar(30) null after `email`;

alter table `users` add `is_admin` tinyint(1) not null default '0' after `phone`, add `settings` json null comment 'user''s own', add `last_ip` varchar(45) null;

update `users` set `phone` = '+49 1', `settings` = '{"dark": true}', `is_admin` = 1 where `id` = 1;

alter table `users` modify `phone` varchar(60) null;

alter table `users` change `name` `full_name` varchar(255) not null;

-- only: mysql-8 mysql-9 mariadb
alter table `users` rename column `last_ip` to `ip`;

alter table `posts` add index `posts_state_created_at_index`(`state`, `created_at`);

alter table `posts` add fulltext `posts_body_fulltext`(`body`);

alter table `posts` rename index `posts_state_created_at_index` to `posts_state_index`;

alter table `posts` drop index `posts_state_index`;

alter table `posts` add `uuid` char(36) not null default '' first, add `slug` varchar(255) character set ascii collate 'ascii_bin' null, add `published_on` date null, add `at` time(3) null, add `y` year null;

alter table `posts` add `title_lower` varchar(120) as (lower(`title`)), add `title_length` int as (char_length(`title`)) stored;

update `posts` set `title` = concat(`title`, '!');

alter table `posts` modify `state` enum('draft', 'public', 'archived') not null default 'draft';

alter table `posts` modify `views` bigint unsigned not null default '0', modify `rating` double null;

alter table `posts` drop `title_lower`, drop `title_length`;

alter table `posts` drop foreign key `posts_user_id_foreign`;

alter table `posts` comment = 'all that was written';

alter table `posts` add `position` geometry null;

alter table `posts` auto_increment = 1000;

insert into `posts` (`user_id`, `title`, `position`) values (1, 'Third', ST_GeomFromText('POINT(1 2)'));

alter table `users` add `created_ms` timestamp(3) not null default CURRENT_TIMESTAMP(3), add `changed` timestamp not null default CURRENT_TIMESTAMP on update CURRENT_TIMESTAMP;

create table `jobs` (`id` bigint unsigned not null auto_increment primary key, `queue` varchar(255) not null, `payload` longtext not null, `attempts` tinyint unsigned not null, `reserved_at` int unsigned null, `available_at` int unsigned not null, `created_at` int unsigned not null) default character set utf8mb4 collate 'utf8mb4_unicode_ci';

create table `password_reset_tokens` (`email` varchar(255) not null, `token` varchar(255) not null, `created_at` timestamp null, primary key (`email`)) default character set utf8mb4 collate 'utf8mb4_unicode_ci';

insert into `migrations` (`migration`, `batch`) values ('2024_01_01_000000_create_users_table', 1);

rename table `posts` to `articles`;

alter table `users` drop `remember_token`, drop `settings`;

truncate table `jobs`;

SET FOREIGN_KEY_CHECKS=0;
drop table `articles`,`jobs`;
SET FOREIGN_KEY_CHECKS=1;

drop table if exists `password_reset_tokens`;
