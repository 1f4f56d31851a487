-- gh-ost: an online change of a table by way of _gho and _ghc tables, and its cut-over.
CREATE TABLE parcel (id INT UNSIGNED NOT NULL AUTO_INCREMENT, weight INT NOT NULL, note VARCHAR(20), PRIMARY KEY (id)) ENGINE=InnoDB;

INSERT INTO parcel (weight, note) VALUES (1, 'a'), (2, 'b'), (3, NULL);

-- then

drop /* gh-ost */ table if exists `{database}`.`_parcel_gho`;

drop /* gh-ost */ table if exists `{database}`.`_parcel_del`;

create /* gh-ost */ table `{database}`.`_parcel_ghc` (
			id bigint unsigned auto_increment,
			last_update timestamp not null DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
			hint varchar(64) charset ascii not null,
			value varchar(4096) charset ascii not null,
			primary key(id),
			unique key hint_uidx(hint)
		) auto_increment=256 comment='gh-ost-table-migration';

create /* gh-ost */ table `{database}`.`_parcel_gho` like `{database}`.`parcel`;

alter /* gh-ost */ table `{database}`.`_parcel_gho` ADD COLUMN fragile TINYINT NOT NULL DEFAULT 0, MODIFY note VARCHAR(40);

insert /* gh-ost */ into `{database}`.`_parcel_ghc` (id, hint, value) values (NULLIF(1, 0), 'state', 'GhostTableMigrated') on duplicate key update last_update=NOW(), value=VALUES(value);

insert /* gh-ost `{database}`.`parcel` */ ignore into `{database}`.`_parcel_gho` (`id`, `weight`, `note`) (select `id`, `weight`, `note` from `{database}`.`parcel` force index (`PRIMARY`) where (((`id` > 0) or ((`id` = 0))) and ((`id` < 9))) lock in share mode);

UPDATE parcel SET weight = weight + 1;

replace /* gh-ost `{database}`.`_parcel_gho` */ into `{database}`.`_parcel_gho` (`id`, `weight`, `note`) select id, weight, note from parcel;

create /* gh-ost */ table `{database}`.`_parcel_del` (id int auto_increment primary key) engine=InnoDB comment='ghost-cut-over-sentry';

drop /* gh-ost */ table if exists `{database}`.`_parcel_del`;

rename /* gh-ost */ table `{database}`.`parcel` to `{database}`.`_parcel_del`, `{database}`.`_parcel_gho` to `{database}`.`parcel`;

INSERT INTO parcel (weight, note, fragile) VALUES (9, 'after', 1);

drop /* gh-ost */ table if exists `{database}`.`_parcel_ghc`;

drop /* gh-ost */ table if exists `{database}`.`_parcel_del`;

alter /* gh-ost */ table parcel engine=innodb;

-- instant
ALTER /* gh-ost */ TABLE `{database}`.`parcel` ADD COLUMN city VARCHAR(30);

UPDATE parcel SET city = 'Bern';
