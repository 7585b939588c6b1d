package wire

// What a client with SESSION_TRACK is told of its session.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_ok_packet.html
const (
	TrackVariable = 0 // name and value of a system variable
	TrackSchema   = 1 // the current schema
	// TrackState: something of the session has changed. AppendState makes it.
	TrackState            = 2
	TrackTransaction      = 4 // the statements that begin one like it
	TrackTransactionState = 5 // eight letters
)

// AppendChange appends a change that is told as texts.
func AppendChange(dst []byte, kind byte, texts ...string) []byte {
	var data []byte
	for _, t := range texts {
		data = AppendLenBytes(data, t)
	}
	return AppendLenBytes(append(dst, kind), data)
}

// AppendState appends that something of the session has changed. It is the one
// change whose data is no text with a length.
func AppendState(dst []byte) []byte { return append(dst, TrackState, 1, '1') }
