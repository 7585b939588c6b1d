CREATE TABLE users (id BIGINT NOT NULL AUTO_INCREMENT, email VARCHAR(100) NOT NULL, country CHAR(2) NOT NULL, name VARCHAR(80) NOT NULL, seen DATETIME, PRIMARY KEY (id), UNIQUE KEY (email)); -- rows 1000000 id=1000000 email=1000000 country=100
CREATE TABLE orders (id BIGINT NOT NULL AUTO_INCREMENT, user_id BIGINT NOT NULL, code VARCHAR(20) NOT NULL, status VARCHAR(10) NOT NULL, total DECIMAL(10,2), PRIMARY KEY (id)); -- rows 8000000 id=8000000 user_id=800000 code=6000000 status=4
CREATE TABLE order_items (user_id BIGINT NOT NULL, order_id BIGINT NOT NULL, line INT NOT NULL, product_id BIGINT NOT NULL, qty INT, PRIMARY KEY (order_id, line)); -- rows 30000000 order_id=8000000 user_id=800000 product_id=50000
CREATE TABLE countries (code CHAR(2) NOT NULL, name VARCHAR(50), PRIMARY KEY (code)); -- rows 200 code=200
CREATE TABLE products (id BIGINT NOT NULL AUTO_INCREMENT, sku VARCHAR(30) NOT NULL, price DECIMAL(10,2), stock INT, PRIMARY KEY (id), UNIQUE KEY (sku)); -- rows 2000000 id=2000000 sku=2000000
CREATE TABLE reviews (id BIGINT NOT NULL AUTO_INCREMENT, user_id BIGINT NOT NULL, product_id BIGINT NOT NULL, stars INT, PRIMARY KEY (id)); -- rows 4000000 id=4000000 user_id=700000 product_id=900000
CREATE TABLE sessions (token CHAR(32) NOT NULL, user_id BIGINT NOT NULL, last_seen BIGINT NOT NULL, PRIMARY KEY (token)); -- rows 500000 token=500000 user_id=400000 last_seen=490000
CREATE TABLE notes (what VARCHAR(100), at DATETIME); -- rows 100
CREATE TABLE people (id BIGINT NOT NULL, family VARCHAR(40) NOT NULL, given VARCHAR(40) NOT NULL, PRIMARY KEY (id)); -- rows 3000000 id=3000000 family=4000 given=5000
-- foreign orders(user_id) users(id)
-- foreign reviews(user_id) users(id)
-- foreign reviews(product_id) products(id)
