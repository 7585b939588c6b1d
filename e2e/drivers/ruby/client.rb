# Runs the script (../script.txt) by mysql2.
require 'mysql2'

$stdout.set_encoding('UTF-8')
NOT_OFFERED = 'not offered'

def out(line) = puts(line)

def parameter(text)
  kind, value = text.split(':', 2)
  case kind
  when 'null' then nil
  when 'int', 'uint' then value.to_i
  when 'num' then value.to_f
  when 'dec' then BigDecimal(value)
  when 'bool' then value == '1'
  when 'hex' then [value].pack('H*')
  when 'date' then Date.parse(value)
  when 'datetime'
    date, time = value.split
    h, m, s = time.split(':')
    Time.utc(*date.split('-').map(&:to_i), h.to_i, m.to_i, s.to_r)
  else value
  end
end

class Client
  def dial(*options)
    settings = {
      host: ENV['DRIVER_HOST'], port: ENV['DRIVER_PORT'].to_i, username: ENV['DRIVER_USER'],
      password: options.include?('wrong') ? 'wrong' : ENV['DRIVER_PASSWORD'], encoding: 'utf8mb4',
      flags: ['MULTI_STATEMENTS'], local_infile: true, database_timezone: :utc, application_timezone: :utc, cast_booleans: false,
      connect_attrs: { program_name: 'the driver matrix' }
    }
    settings[:database] = ENV['DRIVER_SCHEMA'] unless options.include?('noschema')
    settings[:flags] += ['COMPRESS'] if options.include?('compress')
    settings[:sslca] = ENV['DRIVER_CA'] if options.include?('tls')
    Mysql2::Client.new(settings)
  end

  def connect(*options)
    forget
    @c&.close
    @c = nil
    @c = dial(*options)
    nil
  end

  def forget
    @statement&.close
    @statement = nil
  end

  def result(rows)
    rows.fields.zip(rows.respond_to?(:field_types) ? rows.field_types : []) { |name, type| out("column #{name} #{type}") }
    n = 0
    rows.each(as: :array) do |row|
      n += 1
      out('row ' + row.map { |v| "#{v.class} #{v.is_a?(BigDecimal) ? v.to_s('F') : v.is_a?(Time) ? v.strftime('%F %T.%6N %z') : v.inspect}" }.join(' | '))
    end
    out("#{n} rows")
  end

  def answer(client, rows)
    if rows
      result(rows)
    else
      out("affected #{client.affected_rows} id #{client.last_id}")
    end
    out("warnings #{client.warning_count} info #{client.query_info_string.inspect}")
  end

  def query(sql) = answer(@c, @c.query(sql))
  alias load query

  def other(sql)
    @second ||= dial
    answer(@second, @second.query(sql))
  end

  def prepared(sql, *p)
    forget
    @statement = @c.prepare(sql)
    again(*p)
  end

  def again(*p)
    rows = @statement.execute(*p.map { |x| parameter(x) })
    if rows
      result(rows)
    else
      out("affected #{@statement.affected_rows} id #{@statement.last_id}")
    end
  end

  def batch(sql, *p)
    st = @c.prepare(sql)
    p.slice_when { |a, _| a == ';' }.each do |row|
      st.execute(*(row - [';']).map { |x| parameter(x) })
      out("affected #{st.affected_rows} id #{st.last_id}")
    end
    st.close
  end

  def multi(sql)
    rows = @c.query(sql)
    loop do
      rows ? result(rows) : out("affected #{@c.affected_rows}")
      break unless @c.next_result

      rows = @c.store_result
    end
  ensure
    @c.abandon_results!
  end

  def stream(sql) = result(@c.query(sql, stream: true, cache_rows: false))

  def cursor(*) = NOT_OFFERED
  def reset = NOT_OFFERED
  def change = NOT_OFFERED
  def begin = query('BEGIN')
  def commit = query('COMMIT')
  def rollback = query('ROLLBACK')

  def large(size)
    b = ((0..255).to_a.pack('C*') * (size.to_i / 256 + 1))[0, size.to_i]
    st = @c.prepare('REPLACE INTO blobs VALUES (1, ?)')
    st.execute(b)
    out("affected #{st.affected_rows}")
    st.close
    row = @c.query('SELECT b, LENGTH(b) AS n FROM blobs WHERE id = 1').first
    out("#{row['b'].bytesize} bytes, #{row['n']}, #{row['b'] == b ? 'equal' : 'DIFFERENT'}")
  end

  def use(schema) = @c.select_db(schema) && nil
  def ping = out(@c.ping)

  def close
    @c.close
    @second&.close
  end
end

# The library closes a statement when it is collected, in the middle of rows too,
# and throws away the rest of these.
GC.disable
client = Client.new
File.foreach(ENV['DRIVER_SCRIPT'], encoding: 'UTF-8') do |line|
  number, operation, *arguments = line.chomp.split("\t")
  out("> #{number}")
  begin
    said = client.send(operation, *arguments)
    out(said) if said == NOT_OFFERED
  rescue Mysql2::Error => e
    out("error #{e.error_number} #{e.sql_state} #{e.message}")
  end
  $stdout.flush
end
