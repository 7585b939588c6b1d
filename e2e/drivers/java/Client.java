import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.*;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;

/** Runs the script (../script.txt) by MariaDB Connector/J. */
public class Client {
    static final String NOT_OFFERED = "not offered";
    static final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    Connection c, second;
    PreparedStatement statement;

    static String env(String name) { return System.getenv("DRIVER_" + name); }

    static Connection dial(List<String> options) throws SQLException {
        String schema = options.contains("noschema") ? "" : env("SCHEMA");
        Properties p = new Properties();
        p.setProperty("user", env("USER"));
        p.setProperty("password", options.contains("wrong") ? "wrong" : env("PASSWORD"));
        p.setProperty("allowPublicKeyRetrieval", "true");
        p.setProperty("allowMultiQueries", "true");
        p.setProperty("allowLocalInfile", "true");
        // MySQL 9 takes the driver's binary dates for malformed packets.
        p.setProperty("useServerPrepStmts", String.valueOf(env("FLAVOUR").equals("mariadb")));
        // COM_STMT_BULK_EXECUTE is MariaDB's alone, and Shunt doesn't offer it.
        p.setProperty("useBulkStmts", "false");
        p.setProperty("connectionAttributes", "program_name:the driver matrix");
        if (options.contains("compress")) p.setProperty("useCompression", "true");
        if (options.contains("tls")) {
            p.setProperty("useSsl", "true");
            p.setProperty("serverSslCert", env("CA"));
            p.setProperty("disableSslHostnameVerification", "true");
        }
        return DriverManager.getConnection("jdbc:mariadb://" + env("HOST") + ":" + env("PORT") + "/" + schema, p);
    }

    static String show(Object v) {
        if (v == null) return "NULL";
        if (v instanceof byte[] b) return "byte[] " + HexFormat.of().formatHex(b);
        if (v instanceof Blob b) {
            try {
                return "Blob " + HexFormat.of().formatHex(b.getBytes(1, (int) b.length()));
            } catch (SQLException e) {
                return e.toString();
            }
        }
        return v.getClass().getSimpleName() + " " + v;
    }

    static void set(PreparedStatement st, int i, String text) throws SQLException {
        String[] parts = text.split(":", 2);
        String v = parts.length > 1 ? parts[1] : "";
        switch (parts[0]) {
            case "null" -> st.setNull(i, Types.NULL);
            case "int" -> st.setLong(i, Long.parseLong(v));
            case "uint" -> st.setObject(i, new BigInteger(v));
            case "dec" -> st.setBigDecimal(i, new BigDecimal(v));
            case "num" -> st.setDouble(i, Double.parseDouble(v));
            case "bool" -> st.setBoolean(i, v.equals("1"));
            case "hex" -> st.setBytes(i, HexFormat.of().parseHex(v));
            case "date" -> st.setDate(i, java.sql.Date.valueOf(v));
            case "datetime" -> st.setTimestamp(i, Timestamp.valueOf(v));
            case "time" -> st.setObject(i, java.time.LocalTime.parse(v));
            default -> st.setString(i, v);
        }
    }

    static void setAll(PreparedStatement st, List<String> parameters) throws SQLException {
        for (int i = 0; i < parameters.size(); i++) set(st, i + 1, parameters.get(i));
    }

    static void rows(ResultSet r) throws SQLException {
        ResultSetMetaData m = r.getMetaData();
        for (int i = 1; i <= m.getColumnCount(); i++) {
            out.println("column " + String.join(" ", m.getColumnLabel(i), m.getColumnName(i), m.getTableName(i), m.getCatalogName(i), m.getColumnTypeName(i),
                    m.getColumnClassName(i), "type " + m.getColumnType(i), "size " + m.getPrecision(i) + "," + m.getScale(i) + "," + m.getColumnDisplaySize(i),
                    "nullable " + m.isNullable(i), "signed " + m.isSigned(i)));
        }
        int n = 0;
        while (r.next()) {
            n++;
            List<String> row = new ArrayList<>();
            for (int i = 1; i <= m.getColumnCount(); i++) row.add(show(r.getObject(i)));
            out.println("row " + String.join(" | ", row));
        }
        out.println(n + " rows");
    }

    // Of information_schema: what Shunt puts together from several shards has the
    // types of its copies there.
    static void texts(ResultSet r) throws SQLException {
        ResultSetMetaData m = r.getMetaData();
        while (r.next()) {
            List<String> row = new ArrayList<>();
            for (int i = 1; i <= m.getColumnCount(); i++) row.add(m.getColumnLabel(i) + " " + r.getString(i));
            out.println("row " + String.join(" | ", row));
        }
    }

    static void warnings(Statement st) throws SQLException {
        for (SQLWarning w = st.getWarnings(); w != null; w = w.getNextWarning()) {
            out.println("warning " + w.getErrorCode() + " " + w.getSQLState() + " " + w.getMessage());
        }
    }

    static void answers(Statement st, boolean isRows) throws SQLException {
        while (true) {
            if (isRows) {
                try (ResultSet r = st.getResultSet()) {
                    rows(r);
                }
            } else {
                int n = st.getUpdateCount();
                if (n == -1) break;
                out.print("affected " + n + " ids");
                try (ResultSet r = st.getGeneratedKeys()) {
                    while (r.next()) out.print(" " + r.getLong(1));
                }
                out.println();
            }
            isRows = st.getMoreResults();
        }
        warnings(st);
    }

    static void run(Connection c, String sql) throws SQLException {
        try (Statement st = c.createStatement()) {
            answers(st, st.execute(sql, Statement.RETURN_GENERATED_KEYS));
        }
    }

    String operation(String name, List<String> a) throws SQLException {
        switch (name) {
            case "connect" -> {
                if (c != null) c.close();
                c = null;
                c = dial(a);
            }
            case "query", "multi", "load" -> run(c, a.get(0));
            case "other" -> {
                if (second == null) second = dial(List.of());
                run(second, a.get(0));
            }
            case "prepared" -> {
                if (statement != null) statement.close();
                statement = null;
                statement = c.prepareStatement(a.get(0), Statement.RETURN_GENERATED_KEYS);
                setAll(statement, a.subList(1, a.size()));
                answers(statement, statement.execute());
            }
            case "again" -> {
                setAll(statement, a);
                answers(statement, statement.execute());
            }
            case "batch" -> {
                try (PreparedStatement st = c.prepareStatement(a.get(0))) {
                    List<String> row = new ArrayList<>();
                    for (String p : a.subList(1, a.size())) {
                        if (!p.equals(";")) {
                            row.add(p);
                            continue;
                        }
                        setAll(st, row);
                        st.addBatch();
                        row.clear();
                    }
                    setAll(st, row);
                    st.addBatch();
                    out.println("counts " + Arrays.toString(st.executeBatch()));
                }
            }
            case "stream" -> {
                try (Statement st = c.createStatement()) {
                    st.setFetchSize(1); // this driver's way to read row by row
                    rows(st.executeQuery(a.get(0)));
                }
            }
            case "cursor" -> {
                return NOT_OFFERED; // a fetch size streams; the driver opens no cursor
            }
            case "begin" -> c.setAutoCommit(false);
            case "commit" -> {
                c.commit();
                c.setAutoCommit(true);
            }
            case "rollback" -> {
                c.rollback();
                c.setAutoCommit(true);
            }
            case "large" -> {
                byte[] b = new byte[Integer.parseInt(a.get(0))];
                for (int i = 0; i < b.length; i++) b[i] = (byte) i;
                try (PreparedStatement st = c.prepareStatement("REPLACE INTO blobs VALUES (1, ?)")) {
                    st.setBytes(1, b);
                    out.println("affected " + st.executeUpdate());
                }
                try (PreparedStatement st = c.prepareStatement("SELECT b, LENGTH(b) FROM blobs WHERE id = ?")) {
                    st.setInt(1, 1);
                    ResultSet r = st.executeQuery();
                    r.next();
                    byte[] got = r.getBytes(1);
                    out.println(got.length + " bytes, " + r.getLong(2) + ", " + (Arrays.equals(got, b) ? "equal" : "DIFFERENT"));
                }
            }
            case "use" -> c.setCatalog(a.get(0));
            case "ping" -> out.println(c.isValid(5));
            case "reset", "change" -> {
                return NOT_OFFERED;
            }
            case "close" -> {
                DatabaseMetaData m = c.getMetaData();
                out.println(m.getDatabaseProductName() + " " + m.getDatabaseMajorVersion());
                try (ResultSet r = m.getTables(env("SCHEMA"), null, "%", null)) {
                    texts(r);
                }
                try (ResultSet r = m.getColumns(env("SCHEMA"), null, "items", "%")) {
                    texts(r);
                }
                try (ResultSet r = m.getPrimaryKeys(env("SCHEMA"), null, "items")) {
                    texts(r);
                }
                c.close();
                if (second != null) second.close();
            }
            default -> throw new IllegalArgumentException(name);
        }
        return null;
    }

    public static void main(String[] arguments) throws Exception {
        Client client = new Client();
        for (String line : Files.readAllLines(Path.of(env("SCRIPT")))) {
            List<String> parts = Arrays.asList(line.split("\t", -1));
            out.println("> " + parts.get(0));
            try {
                String said = client.operation(parts.get(1), parts.subList(2, parts.size()));
                if (said != null) out.println(said);
            } catch (SQLException e) {
                // The port and the connection's number differ.
                out.println("error " + e.getErrorCode() + " " + e.getSQLState() + " " + String.valueOf(e.getMessage()).replaceAll("\\((conn|port)=\\d+\\) ?", ""));
            }
        }
    }
}
