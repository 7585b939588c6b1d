-- An application's schema with all that holds between its tables: for one shard.
-- only: single
SET FOREIGN_KEY_CHECKS = 0;
CREATE TABLE `orders` (`id` INT NOT NULL AUTO_INCREMENT, `customer_id` INT NOT NULL, `ordered` DATETIME NOT NULL, `state` VARCHAR(10) NOT NULL DEFAULT 'new', PRIMARY KEY (`id`), KEY `customer` (`customer_id`), CONSTRAINT `of_customer` FOREIGN KEY (`customer_id`) REFERENCES `customers` (`id`) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE `customers` (`id` INT NOT NULL AUTO_INCREMENT, `name` VARCHAR(40) NOT NULL, `parent` INT DEFAULT NULL, `balance` DECIMAL(10,2) NOT NULL DEFAULT '0.00', PRIMARY KEY (`id`), UNIQUE KEY `name` (`name`), CONSTRAINT `parents` FOREIGN KEY (`parent`) REFERENCES `customers` (`id`) ON DELETE SET NULL, CONSTRAINT `positive` CHECK (`balance` > -1000));
CREATE TABLE `lines` (`order_id` INT NOT NULL, `n` TINYINT NOT NULL, `what` VARCHAR(20), `price` DECIMAL(8,2) NOT NULL, PRIMARY KEY (`order_id`, `n`), CONSTRAINT `of_order` FOREIGN KEY (`order_id`) REFERENCES `orders` (`id`) ON DELETE CASCADE);
CREATE TABLE `history` (`id` INT NOT NULL AUTO_INCREMENT PRIMARY KEY, `what` VARCHAR(60) NOT NULL, `n` INT NOT NULL DEFAULT '0');
CREATE TABLE `totals` (`customer_id` INT NOT NULL PRIMARY KEY, `total` DECIMAL(12,2) NOT NULL DEFAULT '0.00');
SET FOREIGN_KEY_CHECKS = 1;

DELIMITER $$
CREATE PROCEDURE `note`(IN `text` VARCHAR(60), IN `n` INT)
BEGIN
  INSERT INTO `history` (`what`, `n`) VALUES (`text`, `n`);
END$$
CREATE PROCEDURE `note_twice`(IN `text` VARCHAR(60))
BEGIN
  CALL `note`(`text`, 1);
  CALL `note`(`text`, 2);
END$$
CREATE FUNCTION `spent`(`of` INT) RETURNS DECIMAL(12,2) READS SQL DATA
BEGIN
  DECLARE `sum` DECIMAL(12,2);
  SELECT SUM(l.`price`) INTO `sum` FROM `lines` l JOIN `orders` o ON o.`id` = l.`order_id` WHERE o.`customer_id` = `of`;
  RETURN IFNULL(`sum`, 0);
END$$
CREATE TRIGGER `line_added` AFTER INSERT ON `lines` FOR EACH ROW
BEGIN
  INSERT INTO `totals` SELECT o.`customer_id`, NEW.`price` FROM `orders` o WHERE o.`id` = NEW.`order_id`
    ON DUPLICATE KEY UPDATE `total` = `total` + NEW.`price`;
  CALL `note_twice`(CONCAT('line ', NEW.`n`));
END$$
CREATE TRIGGER `line_gone` AFTER DELETE ON `lines` FOR EACH ROW
  UPDATE `totals` SET `total` = `total` - OLD.`price` WHERE `customer_id` = (SELECT `customer_id` FROM `orders` WHERE `id` = OLD.`order_id`)$$
CREATE EVENT `clean` ON SCHEDULE EVERY 1 YEAR STARTS '2038-01-01 00:00:00' DISABLE DO DELETE FROM `history` WHERE `n` > 100$$
DELIMITER ;

CREATE VIEW `customer_list` AS SELECT c.`id`, CONCAT(c.`name`, _utf8mb4' of ', IFNULL(p.`name`, _utf8mb4'none')) AS `who`, `spent`(c.`id`) AS `spent` FROM `customers` c LEFT JOIN `customers` p ON p.`id` = c.`parent`;
CREATE VIEW `big_customers` AS SELECT * FROM `customer_list` WHERE `spent` > 10;

INSERT INTO `customers` (`id`, `name`, `parent`) VALUES (1, 'Ann', NULL), (2, 'Bob', 1), (3, 'Cid', 1);
INSERT INTO `orders` (`id`, `customer_id`, `ordered`) VALUES (1, 1, '2024-01-01 00:00:00'), (2, 2, '2024-01-02 00:00:00'), (3, 2, '2024-01-03 00:00:00');
INSERT INTO `lines` VALUES (1, 1, 'pen', 1.50), (2, 1, 'ink', 12.25), (2, 2, 'pad', 3.00), (3, 1, 'cup', 4.00);
CALL `note_twice`('by hand');
DELETE FROM `lines` WHERE `order_id` = 3;
UPDATE `customers` SET `id` = 9 WHERE `id` = 2;
DELETE FROM `customers` WHERE `id` = 1;
