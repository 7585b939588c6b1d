package wire

import (
	"encoding/binary"
	"slices"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/shunt-sql/shunt/mysqlerr"
)

// ParamType is a parameter's type as COM_STMT_EXECUTE declares it.
type ParamType struct {
	Type     byte // mysql.MYSQL_TYPE_...
	Unsigned bool
}

// Param is a parameter's value of COM_STMT_EXECUTE.
type Param struct {
	Type     byte // mysql.MYSQL_TYPE_...
	Unsigned bool
	Null     bool
	// Long: the value came by COM_STMT_SEND_LONG_DATA.
	Long bool
	// Data is the value's bytes as they are on the wire, without a length in
	// front: little-endian integers and floats, the text of strings and
	// decimals, the packed fields of temporals. It points into the payload
	// that was decoded.
	Data []byte
}

// WantedAttribute is one of a statement that is looked for: Value is its value, if that is a string.
type WantedAttribute struct{ Name, Value string }

// executeHead is the length of statement id, flags and iteration count.
const executeHead = 4 + 1 + 4

const unsignedFlag = 0x80

// errExecute is what servers answer to a payload that they can't read.
func errExecute() error {
	return new(Error(mysqlerr.New(mysqlerr.WrongArguments, "Incorrect arguments to mysqld_stmt_execute")))
}

// ExecuteHeader returns the statement id and flags (cursor type) of a
// COM_STMT_EXECUTE payload (without the command byte).
func ExecuteHeader(payload []byte) (stmtID uint32, flags byte, ok bool) {
	if len(payload) < executeHead {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint32(payload), payload[4], true
}

// DecodeExecute decodes the parameters of a COM_STMT_EXECUTE payload (without
// the command byte) for a statement of nparams parameters. previous are the
// types that the last execution declared; they hold where this one declares
// none, and the types returned are to be kept for the next. longData are the
// values sent by COM_STMT_SEND_LONG_DATA, by parameter number: they are not in
// the payload, and count even where it says NULL. Bytes after the last value
// are ignored, as servers do.
//
// named: the client has CLIENT_QUERY_ATTRIBUTES. Parameters have names then, and
// those behind the statement's own are attributes of this execution, which are
// left out, but for one that is wanted, if any. The types are of all.
//
// room is used again for the parameters, and previous is given back where the types are
// the same. A malformed payload is an *Error 1210.
func DecodeExecute(room []Param, payload []byte, nparams int, previous []ParamType, longData map[int][]byte, named bool, wanted *WantedAttribute) ([]Param, []ParamType, error) {
	if len(payload) < executeHead {
		return nil, nil, errExecute()
	}
	p, all := payload[executeHead:], nparams
	// Oracle's Connector/Python doesn't say that the number is there. Counter-example: read
	// as the NULLs, the number of one parameter made it NULL.
	if named && (nparams > 0 || payload[4]&ParameterCount != 0) {
		var ok bool
		if all, p, ok = takeCount(p); !ok || all < nparams {
			return nil, nil, errExecute()
		}
	}
	if all == 0 {
		return nil, nil, nil
	}
	params, types, _, ok := takeParams(room, p, all, previous, longData, named, wanted)
	if !ok {
		return nil, nil, errExecute()
	}
	return params[:nparams], types, nil
}

// ParameterCount is the flag of a COM_STMT_EXECUTE that says how many parameters
// it has, attributes among them. Where the statement has any, the number is there
// without it.
const ParameterCount = 8

// takeCount cuts off a number of parameters.
func takeCount(p []byte) (n int, rest []byte, ok bool) {
	count, rest, ok := TakeLenInt(p)
	const most = 1<<16 - 1 // of a statement's parameters
	return int(min(count, most+1)), rest, ok && count <= most
}

// QueryText cuts a query's attributes off the payload of a COM_QUERY, as clients
// with CLIENT_QUERY_ATTRIBUTES send it, and notes one that is wanted, if any. A malformed payload
// is an *Error 1835.
func QueryText(payload []byte, wanted *WantedAttribute) ([]byte, error) {
	if len(payload) > 2 && payload[0] == 0 && payload[1] == 1 {
		return payload[2:], nil
	}
	malformed := new(Error(mysqlerr.New(mysqlerr.MalformedPacket, "Malformed communication packet.")))
	n, p, ok := takeCount(payload)
	if !ok {
		return nil, malformed
	}
	sets, p, ok := TakeLenInt(p)
	if !ok || sets != 1 {
		return nil, malformed
	}
	if n > 0 {
		if _, _, p, ok = takeParams(nil, p, n, nil, nil, true, wanted); !ok {
			return nil, malformed
		}
	}
	return p, nil
}

// WithoutNUL cuts off the byte 0 with which some clients (mysqlslap) end a
// statement: servers take it for the end.
func WithoutNUL(text []byte) []byte {
	end := len(text)
	for end > 0 && (text[end-1] == ';' || text[end-1] == ' ' || '\t' <= text[end-1] && text[end-1] <= '\r') {
		end--
	}
	if end > 0 && text[end-1] == 0 {
		return text[:end-1]
	}
	return text
}

// takeParams cuts off the NULLs, types, names and values of n parameters.
func takeParams(room []Param, p []byte, n int, previous []ParamType, longData map[int][]byte, named bool, wanted *WantedAttribute) (params []Param, types []ParamType, rest []byte, ok bool) {
	bitmap := (n + 7) / 8
	if len(p) < bitmap+1 {
		return nil, nil, nil, false
	}
	nulls, declared, p := p[:bitmap], p[bitmap] != 0, p[bitmap+1:]
	at := -1
	types = previous
	if declared {
		if len(p) < 2*n {
			return nil, nil, nil, false
		}
		if len(types) != n {
			types = make([]ParamType, n)
		}
		for i := range n {
			if len(p) < 2 {
				return nil, nil, nil, false
			}
			if t := (ParamType{Type: p[0], Unsigned: p[1]&unsignedFlag != 0}); t != types[i] {
				if len(previous) == n && &types[0] == &previous[0] {
					types = slices.Clone(previous)
				}
				types[i] = t
			}
			p = p[2:]
			if named {
				var name []byte
				if name, p, ok = TakeLenBytes(p); !ok {
					return nil, nil, nil, false
				}
				if wanted != nil && string(name) == wanted.Name {
					at = i
				}
			}
		}
	}
	if len(types) != n {
		// Some clients declare no types where all values are NULL.
		for i := range n {
			if nulls[i/8]&(1<<(i%8)) == 0 {
				return nil, nil, nil, false
			}
		}
		types = slices.Repeat([]ParamType{{Type: mysql.MYSQL_TYPE_NULL}}, n)
	}
	if params = room; cap(params) < n || cap(params) > 4*n+16 {
		params = make([]Param, n)
	}
	params = params[:n]
	for i := range params {
		t := types[i]
		v := Param{Type: t.Type, Unsigned: t.Unsigned}
		shape, ok := shapeOf(t.Type)
		if !ok {
			return nil, nil, nil, false
		}
		long, isLong := longData[i]
		switch {
		case isLong:
			if shape != shapeString {
				v.Type = mysql.MYSQL_TYPE_VAR_STRING
			}
			v.Long, v.Data = true, long
		case nulls[i/8]&(1<<(i%8)) != 0 || shape == shapeNull:
			v.Null = true
		default:
			if v.Data, p, ok = takeValue(p, shape); !ok {
				return nil, nil, nil, false
			}
		}
		params[i] = v
	}
	if at >= 0 && !params[at].Null {
		if shape, _ := shapeOf(params[at].Type); shape == shapeString {
			wanted.Value = string(params[at].Data)
		}
	}
	return params, types, p, true
}

// shape is how a value lies on the wire: a fixed number of bytes, or
type shape int8

const (
	shapeNull   shape = 0
	shapeString shape = -1 // a length-encoded string
	shapeDate   shape = -2 // a length byte: 0, 4, 7 or 11
	shapeTime   shape = -3 // a length byte: 0, 8 or 12
)

func shapeOf(typ byte) (shape, bool) {
	if n, fixed := FixedWidth(typ); fixed {
		return shape(n), true
	}
	switch typ {
	case mysql.MYSQL_TYPE_DATE, mysql.MYSQL_TYPE_NEWDATE, mysql.MYSQL_TYPE_DATETIME, mysql.MYSQL_TYPE_TIMESTAMP:
		return shapeDate, true
	case mysql.MYSQL_TYPE_TIME:
		return shapeTime, true
	case mysql.MYSQL_TYPE_DECIMAL, mysql.MYSQL_TYPE_NEWDECIMAL,
		mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_STRING,
		mysql.MYSQL_TYPE_ENUM, mysql.MYSQL_TYPE_SET, mysql.MYSQL_TYPE_JSON,
		mysql.MYSQL_TYPE_TINY_BLOB, mysql.MYSQL_TYPE_MEDIUM_BLOB, mysql.MYSQL_TYPE_LONG_BLOB, mysql.MYSQL_TYPE_BLOB,
		mysql.MYSQL_TYPE_BIT, mysql.MYSQL_TYPE_GEOMETRY, mysql.MYSQL_TYPE_VECTOR:
		return shapeString, true
	}
	return 0, false
}

func takeValue(p []byte, s shape) (v, rest []byte, ok bool) {
	var n int
	switch s {
	case shapeString:
		return TakeLenBytes(p)
	case shapeDate, shapeTime:
		if len(p) == 0 {
			return nil, p, false
		}
		n, p = int(p[0]), p[1:]
		if s == shapeDate && n != 0 && n != 4 && n != 7 && n != 11 ||
			s == shapeTime && n != 0 && n != 8 && n != 12 {
			return nil, p, false
		}
	default:
		n = int(s)
	}
	if len(p) < n {
		return nil, p, false
	}
	return p[:n:n], p[n:], true
}

// EncodeExecute returns a COM_STMT_EXECUTE payload (without the command byte)
// that sends params, with their types, to a server's statement. Values go as
// they came; those that came as long data go with the others, so that a shard
// needs no COM_STMT_SEND_LONG_DATA.
// REQUIRES: each Data has the form that its Type asks for.
func EncodeExecute(stmtID uint32, flags byte, params []Param) []byte {
	size := executeHead + 1 + len(params)*3
	for i := range params {
		size += len(params[i].Data) + 9
	}
	return AppendExecute(make([]byte, 0, size), stmtID, flags, params)
}

// AppendExecute is EncodeExecute appending to dst.
func AppendExecute(dst []byte, stmtID uint32, flags byte, params []Param) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, stmtID)
	dst = append(dst, flags, 1, 0, 0, 0)
	if len(params) == 0 {
		return dst
	}
	nulls := len(dst)
	for range (len(params) + 7) / 8 {
		dst = append(dst, 0)
	}
	dst = append(dst, 1)
	for i := range params {
		flag := byte(0)
		if params[i].Unsigned {
			flag = unsignedFlag
		}
		dst = append(dst, params[i].Type, flag)
		if params[i].Null {
			dst[nulls+i/8] |= 1 << (i % 8)
		}
	}
	for i := range params {
		v := &params[i]
		if v.Null {
			continue
		}
		switch s, _ := shapeOf(v.Type); s {
		case shapeString:
			dst = AppendLenBytes(dst, v.Data)
		case shapeDate, shapeTime:
			dst = append(append(dst, byte(len(v.Data))), v.Data...)
		default:
			dst = append(dst, v.Data...)
		}
	}
	return dst
}
