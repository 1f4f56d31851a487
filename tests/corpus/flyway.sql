-- Flyway: its history table, and migrations as people write them by hand.
CREATE TABLE `{database}`.`flyway_schema_history` (
    `installed_rank` INT NOT NULL,
    `version` VARCHAR(50),
    `description` VARCHAR(200) NOT NULL,
    `type` VARCHAR(20) NOT NULL,
    `script` VARCHAR(1000) NOT NULL,
    `checksum` INT,
    `installed_by` VARCHAR(100) NOT NULL,
    `installed_on` TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL,
    `execution_time` INT NOT NULL,
    `success` BOOL NOT NULL,
    CONSTRAINT PRIMARY KEY (`installed_rank`)
) ENGINE=InnoDB;

CREATE INDEX `flyway_schema_history_s_idx` ON `{database}`.`flyway_schema_history` (`success`);

create table employee (
  id int not null auto_increment, # the number on the badge
  first_name nvarchar(40), last_name national varchar(40) not null,
  salary dec(10, 2) default 0, hired date,
  primary key (id));

insert into employee (first_name, last_name, salary) values ('Al', 'Bo', 10), (null, 'Cy', 20.5);

-- then

alter table employee add column middle_name varchar(20) after first_name;

alter table employee add (city varchar(40), zip char(5) default '00000', born date);

alter table `{database}`.employee modify column zip varchar(10);

alter table employee modify last_name varchar(80) character set utf8mb4 not null;

alter table employee change column city town varchar(60);

alter table employee alter zip set default '11111', alter column salary drop default;

alter table employee add column boss int references employee (id), add column unit int;

alter table employee add index (unit), add unique key (last_name, first_name), add key born_key using btree (born);

alter table employee add column v real, add column w long, add column x long varbinary, add column y int4, add column z character varying(12);

alter table employee add column aa middleint, add column ab int1 unsigned, add column ac float4, add column ad float8, add column ae fixed(6,3), add column af numeric, add column ag bool;

update employee set v = 1.5, w = 'w', x = x'00', y = 4, ae = 1.25, ag = true where id = 1;

alter table employee add column ah varchar(20) binary, add column ai char byte, add column aj text(100), add column ak blob(300), add column al char(4) ascii, add column am varchar(9) charset latin1 collate latin1_german1_ci;

-- only: mysql-8 mysql-9
alter table employee add column an point srid 4326, add column ao int default (1 + 1);


alter table employee drop column ah, drop ai;

alter table employee drop column aj, add column aj int first;

alter table employee rename as staff;

alter table staff rename to employee, add column renamed_at timestamp null;

alter table employee rename employee;

alter table employee order by last_name;

alter table employee convert to character set utf8mb4 collate utf8mb4_unicode_ci;

alter table employee engine innodb, row_format = compact, stats_persistent=1, max_rows 1000, avg_row_length=100, checksum 1;

-- only: mariadb
alter ignore table anchor comment '';

alter table employee add constraint salary_positive check (salary >= 0);

-- only: mysql-8 mysql-9 mariadb
create table employee_copy as select * from employee;

create table employee_like like employee;

insert into employee_like select * from employee;

-- only: mysql-8 mysql-9 mariadb
create table numbers (n int primary key, s varchar(9)) select 1 as n, 'one' as s union all select 2, 'two';

-- only: mysql-8 mysql-9 mariadb
replace into numbers values (1, 'ONE');

-- only: mysql-8 mysql-9 mariadb
drop table employee_copy, employee_like restrict;

truncate employee;

insert into `{database}`.`flyway_schema_history` (`installed_rank`, `version`, `description`, `type`, `script`, `checksum`, `installed_by`, `execution_time`, `success`) values (1, '1', 'base', 'SQL', 'V1__base.sql', -123, 'root', 5, 1);

rename table flyway_schema_history to flyway_old, employee to worker;
