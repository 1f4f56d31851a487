-- Hibernate's schema tool (hbm2ddl) in the dialects of MySQL 5 to 8 and MariaDB.
create table customer (id bigint not null auto_increment, name varchar(255), credit decimal(19,2), primary key (id)) engine=InnoDB;

create table orders (id bigint not null, version integer not null, placed datetime(6), customer_id bigint, primary key (id)) engine=InnoDB;

create table hibernate_sequence (next_val bigint) engine=InnoDB;

insert into hibernate_sequence values ( 1 );
insert into customer (credit, name) values (12.34, 'Ada'), (null, null);
insert into orders (customer_id, placed, version, id) values (1, '2024-03-04 05:06:07.89', 0, 1);

-- then

alter table orders add constraint FK624gtjin3po807j3vix093tlf foreign key (customer_id) references customer (id);

update hibernate_sequence set next_val= 51 where next_val=1;

create table orders_SEQ (next_val bigint) engine=InnoDB;

insert into orders_SEQ values ( 1 );

alter table customer add column vip bit not null;

alter table customer add column rank_no integer not null, add column joined date, add column wakes time(6);

alter table customer add column grade enum ('BRONZE','GOLD','SILVER');

alter table customer add column score float(53), add column ratio float(23), add column photo longblob, add column notes tinytext, add column letter char(1);

update customer set vip = b'1', grade = 'GOLD', score = 1.5, ratio = 0.1, photo = x'01', letter = 'x';

alter table customer add column token binary(16), add column bits varbinary(255), add column attributes json;

alter table customer modify column name varchar(1000);

alter table customer modify column grade enum ('BRONZE','GOLD','SILVER','TIN');

alter table customer add constraint UK_name unique (rank_no, id);

alter table customer drop index UK_name;

create index IDX_customer_joined on customer (joined);

create table customer_emails (customer_id bigint not null, email varchar(255)) engine=InnoDB;

insert into customer_emails (customer_id, email) values (1, 'a@x'), (1, 'a@x');

alter table customer_emails add constraint FKabc foreign key (customer_id) references customer (id);

create table customer_AUD (id bigint not null, REV integer not null, REVTYPE tinyint, name varchar(255), primary key (REV, id)) engine=InnoDB;

insert into customer_AUD values (1, 1, 0, 'Ada');

create table REVINFO (REV integer not null auto_increment, REVTSTMP bigint, primary key (REV)) engine=InnoDB;

create table item (kind varchar(31) not null, id binary(16) not null, weight double precision check (weight>=0), counted tinyint check (counted between 0 and 9), primary key (id)) engine=InnoDB comment='things';

insert into item values ('small', x'000102030405060708090a0b0c0d0e0f', 1.5, 3);

alter table orders drop foreign key FK624gtjin3po807j3vix093tlf;

drop table if exists orders_SEQ;

drop table if exists customer_emails;
