CREATE TABLE warehouse (w_id INT NOT NULL, w_name VARCHAR(10), w_street_1 VARCHAR(20), w_city VARCHAR(20), w_state CHAR(2), w_zip CHAR(9), w_tax DECIMAL(4,4), w_ytd DECIMAL(12,2), PRIMARY KEY (w_id)); -- rows 100
CREATE TABLE district (d_w_id INT NOT NULL, d_id INT NOT NULL, d_name VARCHAR(10), d_street_1 VARCHAR(20), d_city VARCHAR(20), d_state CHAR(2), d_zip CHAR(9), d_tax DECIMAL(4,4), d_ytd DECIMAL(12,2), d_next_o_id INT, PRIMARY KEY (d_w_id, d_id)); -- rows 1000 d_w_id=100 d_id=10
CREATE TABLE customer (c_w_id INT NOT NULL, c_d_id INT NOT NULL, c_id INT NOT NULL, c_first VARCHAR(16), c_middle CHAR(2), c_last VARCHAR(16), c_since DATETIME, c_credit CHAR(2), c_discount DECIMAL(4,4), c_balance DECIMAL(12,2), c_data VARCHAR(500), PRIMARY KEY (c_w_id, c_d_id, c_id)); -- rows 3000000 c_w_id=100 c_d_id=10 c_id=3000
CREATE TABLE history (h_c_id INT NOT NULL, h_c_d_id INT NOT NULL, h_c_w_id INT NOT NULL, h_d_id INT NOT NULL, h_w_id INT NOT NULL, h_date DATETIME, h_amount DECIMAL(6,2), h_data VARCHAR(24)); -- rows 3000000 h_c_id=3000
CREATE TABLE new_order (no_w_id INT NOT NULL, no_d_id INT NOT NULL, no_o_id INT NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id)); -- rows 900000 no_w_id=100 no_d_id=10
CREATE TABLE orders (o_w_id INT NOT NULL, o_d_id INT NOT NULL, o_id INT NOT NULL, o_c_id INT, o_carrier_id INT, o_ol_cnt INT, o_all_local INT, o_entry_d DATETIME, PRIMARY KEY (o_w_id, o_d_id, o_id)); -- rows 3000000 o_w_id=100 o_d_id=10 o_id=3000 o_c_id=3000
CREATE TABLE order_line (ol_w_id INT NOT NULL, ol_d_id INT NOT NULL, ol_o_id INT NOT NULL, ol_number INT NOT NULL, ol_i_id INT, ol_supply_w_id INT, ol_delivery_d DATETIME, ol_quantity INT, ol_amount DECIMAL(6,2), ol_dist_info CHAR(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)); -- rows 30000000 ol_w_id=100 ol_d_id=10 ol_o_id=3000
CREATE TABLE item (i_id INT NOT NULL, i_im_id INT, i_name VARCHAR(24), i_price DECIMAL(5,2), i_data VARCHAR(50), PRIMARY KEY (i_id)); -- rows 100000 i_id=100000
CREATE TABLE stock (s_w_id INT NOT NULL, s_i_id INT NOT NULL, s_quantity INT, s_dist_01 CHAR(24), s_ytd INT, s_order_cnt INT, s_remote_cnt INT, s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id)); -- rows 10000000 s_w_id=100 s_i_id=100000
-- foreign district(d_w_id) warehouse(w_id)
-- foreign customer(c_w_id,c_d_id) district(d_w_id,d_id)
-- foreign history(h_c_w_id,h_c_d_id,h_c_id) customer(c_w_id,c_d_id,c_id)
-- foreign history(h_w_id,h_d_id) district(d_w_id,d_id)
-- foreign new_order(no_w_id,no_d_id,no_o_id) orders(o_w_id,o_d_id,o_id)
-- foreign orders(o_w_id,o_d_id,o_c_id) customer(c_w_id,c_d_id,c_id)
-- foreign order_line(ol_w_id,ol_d_id,ol_o_id) orders(o_w_id,o_d_id,o_id)
-- foreign stock(s_w_id) warehouse(w_id)
-- foreign stock(s_i_id) item(i_id)
