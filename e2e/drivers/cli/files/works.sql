-- A dump as people's own are: tables of many kinds, spread or on one shard.
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;

DROP TABLE IF EXISTS `workers`;
CREATE TABLE `workers` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `name` varchar(191) NOT NULL DEFAULT '',
  `nick` varchar(60) CHARACTER SET latin1 COLLATE latin1_german1_ci DEFAULT NULL,
  `born` date NOT NULL DEFAULT '0000-00-00',
  `seen` datetime NOT NULL DEFAULT '0000-00-00 00:00:00',
  `changed` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  `sex` enum('f','m','x') DEFAULT 'x' COMMENT 'as they say; it''s "theirs"',
  `can` set('read','write','count') NOT NULL DEFAULT 'read,write',
  `pay` decimal(12,2) unsigned DEFAULT NULL,
  `share` double(8,3) DEFAULT NULL,
  `small` tinyint(1) NOT NULL DEFAULT '1',
  `label` varchar(120) GENERATED ALWAYS AS (concat(`name`,' <',`sex`,'>')) VIRTUAL,
  `initial` char(1) GENERATED ALWAYS AS (left(`name`,1)) STORED,
  `cv` mediumtext,
  `photo` mediumblob,
  PRIMARY KEY (`id`),
  KEY `by_name` (`name`(20)),
  KEY `by_initial` (`initial`,`born`),
  KEY `by_cv` (`cv`(50)),
  FULLTEXT KEY `words` (`cv`)
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci COMMENT='who works here';

LOCK TABLES `workers` WRITE;
/*!40000 ALTER TABLE `workers` DISABLE KEYS */;
INSERT INTO `workers` (`id`, `name`, `nick`, `born`, `seen`, `changed`, `sex`, `can`, `pay`, `share`, `small`, `cv`, `photo`) VALUES (1,'Ada','Äda','1815-12-10','2024-02-29 23:59:59','2024-01-01 00:00:00','f','read,count',1234.50,0.125,1,'engines and notes',_binary '\0\'\"\\\n\r\Z'),(2,'O\'Neil',NULL,'0000-00-00','0000-00-00 00:00:00','2024-01-02 00:00:00',NULL,'',NULL,NULL,0,NULL,NULL),(3,'名前','x','2000-02-30','2001-00-00 00:00:00','2024-01-03 00:00:00','m','read,write,count',0.00,-1.500,1,'','');
INSERT INTO `workers` (`id`, `name`, `born`, `changed`) VALUES (0,'Zero','1970-01-01','2024-01-04 00:00:00'),(6,'Six','1966-06-06','2024-01-05 00:00:00');
/*!40000 ALTER TABLE `workers` ENABLE KEYS */;
UNLOCK TABLES;

DROP TABLE IF EXISTS `pages`;
CREATE TABLE `pages` (`title` varchar(191) NOT NULL, `rank` int NOT NULL DEFAULT '0', `text` text, PRIMARY KEY (`title`(191)), KEY `rank` (`rank`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
INSERT INTO `pages` VALUES ('a',3,'one'),('b',1,'two'),('c',2,'three\nlines'),('Öl',0,NULL);

DROP TABLE IF EXISTS `salaries`;
CREATE TABLE `salaries` (
  `worker` int unsigned NOT NULL,
  `since` date NOT NULL,
  `amount` int NOT NULL,
  PRIMARY KEY (`worker`,`since`)
) ENGINE=InnoDB
/*!50100 PARTITION BY RANGE (year(since))
(PARTITION p1990 VALUES LESS THAN (1990) ENGINE = InnoDB,
 PARTITION p2000 VALUES LESS THAN (2000) ENGINE = InnoDB,
 PARTITION later VALUES LESS THAN MAXVALUE ENGINE = InnoDB) */;
INSERT INTO `salaries` VALUES (1,'1985-01-01',100),(1,'1995-01-01',200),(2,'1999-12-31',300),(3,'2020-06-01',400),(6,'1989-12-31',500);

DROP TABLE IF EXISTS `places`;
CREATE TABLE `places` (`id` int NOT NULL, `name` varchar(30) DEFAULT NULL, `at` point NOT NULL, `doc` json DEFAULT NULL, PRIMARY KEY (`id`), SPATIAL KEY `at` (`at`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
INSERT INTO `places` VALUES (1,'home',ST_GeomFromText('POINT(1 2)'),'{"a": [1, 2]}'),(2,'work',ST_GeomFromText('POINT(3 4)'),NULL),(3,'else',ST_GeomFromText('POINT(-5.5 6)'),'[]');

DROP TABLE IF EXISTS `log`;
CREATE TABLE `log` (`id` bigint NOT NULL AUTO_INCREMENT, `at` datetime DEFAULT NULL, `what` varchar(40) NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
INSERT INTO `log` VALUES (1,NULL,'begun');

/*!50003 SET @saved_sql_mode       = @@sql_mode */;
/*!50003 SET sql_mode              = 'NO_ENGINE_SUBSTITUTION' */;
DELIMITER ;;
/*!50003 CREATE*/ /*!50003 TRIGGER `trim_pages` BEFORE INSERT ON `pages` FOR EACH ROW BEGIN
  IF NEW.rank < 0 THEN
    SET NEW.rank = 0; -- never below; the first
  END IF;
END */;;
CREATE FUNCTION `years`(`from` DATE, `to` DATE) RETURNS int DETERMINISTIC NO SQL
BEGIN
  DECLARE n INT DEFAULT TIMESTAMPDIFF(YEAR, `from`, `to`);
  RETURN IFNULL(n, -1);
END;;
CREATE PROCEDURE `add_up`(IN a INT, IN b INT) COMMENT 'a sum'
BEGIN
  SELECT a + b AS total;
END;;
/*!50106 CREATE*/ /*!50106 EVENT `nightly` ON SCHEDULE EVERY 1 DAY STARTS '2038-01-01 00:00:00' ON COMPLETION NOT PRESERVE DISABLE DO SELECT 1 */;;
DELIMITER ;
/*!50003 SET sql_mode              = @saved_sql_mode */;

CREATE VIEW `names` AS SELECT `id`, CONCAT(`name`, _utf8mb4' (', IFNULL(`nick`, ''), _utf8mb4')') AS `both` FROM `workers`;
CREATE VIEW `paid` AS SELECT `worker`, MAX(`amount`) AS `most`, COUNT(*) AS `n` FROM `salaries` GROUP BY `worker`;
CREATE OR REPLACE VIEW `named_pay` AS SELECT `n`.`both` AS `both`, `p`.`most` AS `most` FROM `names` `n` JOIN `paid` `p` ON `p`.`worker` = `n`.`id`;

/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;
/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;
