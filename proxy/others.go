package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shunt-sql/shunt/mysqlerr"
)

// Others are the other members, who have clients of their own.
type Others interface {
	// Ask asks all of them. Those who don't answer in time are named.
	Ask(ctx context.Context, question []byte) (answers [][]byte, silent []string, err error)
	// AskOf asks the one whose client has a connection. There is no answer where none has; else
	// silent names the one who didn't answer. Untouched: it does nothing, either.
	AskOf(ctx context.Context, connection uint32, question []byte) (answer []byte, silent string, untouched bool, err error)
}

// question is what members ask each other. One that a member doesn't know, of a later version, it
// answers with an error.
type question struct {
	Kill *killQuestion `json:",omitempty"`
	List *listQuestion `json:",omitempty"`
	// LockThread asks for the client whose locks by name are on that connection of the shard for these.
	LockThread uint32 `json:",omitempty"`
}

// killQuestion is a KILL. By is the user who may kill his own only; nil: anybody's.
type killQuestion struct {
	ID        uint64
	QueryOnly bool
	By        *string
}

// listQuestion asks for the clients.
type listQuestion struct{ By *string }

// reply answers a question. Code 0: it was done.
type reply struct {
	Code      uint16        `json:",omitempty"`
	State     string        `json:",omitempty"`
	Message   string        `json:",omitempty"`
	Processes []toldProcess `json:",omitempty"`
	LockOwner uint32        `json:",omitempty"`
}

// toldProcess is a process of another member. Clocks differ, so it tells how long it has been
// doing this.
type toldProcess struct {
	ID                          uint32
	User, Host, Command, Schema string
	Info                        []byte // which may be no text
	For                         time.Duration
	Open                        bool `json:",omitempty"`
}

// maxInfo bounds what is told of a statement. All of them have to fit in one packet.
const (
	maxInfo  = 64 << 10
	maxInfos = 4 << 20
)

// Answer answers another member's question.
func (p *Proxy) Answer(ctx context.Context, asked []byte) []byte {
	var q question
	var r reply
	err := json.Unmarshal(asked, &q)
	switch {
	case err != nil:
	case q.Kill != nil:
		if found, killed := p.killOwn(ctx, q.Kill); killed != nil {
			err = killed
		} else if !found {
			err = noThread(q.Kill.ID)
		}
	case q.List != nil:
		r.Processes = toldProcesses(ofUser(p.processes(), q.List.By))
	case q.LockThread != 0:
		r.LockOwner = p.lockOwner(q.LockThread)
	default:
		err = mysqlerr.New(mysqlerr.NotSupportedYet, "a member that is asked by one of another version doesn't know the question: let all have the same version")
	}
	if err != nil {
		e := coded(err)
		r = reply{Code: e.Code, State: e.State, Message: e.Message}
	}
	answer, err := json.Marshal(r)
	if err != nil { // of these types none fails
		return []byte("{}")
	}
	return answer
}

// toldProcesses are processes as they are told to another member.
func toldProcesses(list []process) []toldProcess {
	out := make([]toldProcess, len(list))
	room := maxInfos
	for i, p := range list {
		info := []byte(p.info)
		info = info[:min(len(info), maxInfo)]
		if room -= len(info); room < 0 {
			info = info[:min(len(info), 100)]
		}
		out[i] = toldProcess{p.id, p.user, p.host, p.command, p.schema, info, time.Since(p.since), p.open}
	}
	return out
}

// ofUser are those that a user may see.
func ofUser(list []process, by *string) []process {
	if by == nil {
		return list
	}
	return slices.DeleteFunc(list, func(p process) bool { return p.user != *by })
}

// only is the user who may kill and see his own only; nil: he may kill and see all.
func (s *session) only() *string {
	if s.rights().limited() {
		return &s.client.User
	}
	return nil
}

// othersProcesses are the processes of other members. Who doesn't tell is in s.unheard.
func (s *session) othersProcesses(ctx context.Context) []process {
	s.unheard = nil
	others := s.proxy.opts.Others
	if others == nil {
		return nil
	}
	q, err := json.Marshal(question{List: &listQuestion{s.only()}})
	if err != nil {
		return nil
	}
	answers, silent, err := others.Ask(ctx, q)
	if err != nil {
		s.unheard = append(s.unheard, fmt.Sprintf("Other members can't be asked (%v): their clients are missing here", err))
	}
	for _, m := range silent {
		s.unheard = append(s.unheard, fmt.Sprintf("Member %s doesn't answer: its clients are missing here; see SHOW MEMBERS", m))
	}
	var list []process
	for _, a := range answers {
		var r reply
		if err := json.Unmarshal(a, &r); err != nil || r.Code != 0 {
			s.unheard = append(s.unheard, "A member's answer: "+cmp.Or(r.Message, "it can't be read")+"; its clients are missing here")
			continue
		}
		for _, x := range r.Processes {
			list = append(list, process{
				id: x.ID, user: x.User, host: x.Host, command: x.Command, schema: x.Schema, info: string(x.Info), since: time.Now().Add(-x.For), open: x.Open,
			})
		}
	}
	return list
}

// lockOwnerElsewhere is lockOwner of other members, 0 also where one doesn't answer.
func (s *session) lockOwnerElsewhere(ctx context.Context, thread uint32) uint32 {
	if s.proxy.opts.Others == nil {
		return 0
	}
	q, err := json.Marshal(question{LockThread: thread})
	if err != nil {
		return 0
	}
	answers, _, _ := s.proxy.opts.Others.Ask(ctx, q) // without one it is told by its number on the shard
	for _, a := range answers {
		var r reply
		if json.Unmarshal(a, &r) == nil && r.LockOwner != 0 {
			return r.LockOwner
		}
	}
	return 0
}

// unheardWarnings name who wasn't heard of.
func (s *session) unheardWarnings() (warnings [][][]byte) {
	for _, m := range s.unheard {
		warnings = append(warnings, condition("Warning", mysqlerr.ShardDown, m))
	}
	return warnings
}

func noThread(id uint64) error {
	return mysqlerr.Newf(mysqlerr.NoSuchThread, "Unknown thread id: %d", id)
}

// killElsewhere ends what a client of another member does: a balancer puts the connection over which
// a driver cancels a statement on any member.
func (s *session) killElsewhere(ctx context.Context, k *killQuestion) error {
	others := s.proxy.opts.Others
	if others == nil || k.ID > math.MaxUint32 {
		return noThread(k.ID)
	}
	q, err := json.Marshal(question{Kill: k})
	if err != nil {
		return err
	}
	answer, silent, untouched, err := others.AskOf(ctx, uint32(k.ID), q)
	var r reply
	switch {
	case err != nil:
		return mysqlerr.Newf(mysqlerr.ShardDown, "Unable to connect to other members: %d is no connection of this one, and others can't be asked (%v); try again", k.ID, err)
	case silent != "" && untouched:
		return mysqlerr.Newf(mysqlerr.ShardDown, "Unable to connect to member %s, whose connection %d is: nothing was killed; see SHOW MEMBERS, and try again", silent, k.ID)
	case silent != "":
		return mysqlerr.Newf(mysqlerr.ShardLost, "Member %s, whose connection %d is, hasn't answered: it may be killed or not; look, then try again", silent, k.ID)
	case answer == nil:
		return noThread(k.ID)
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return fmt.Errorf("read another member's answer: %w", err)
	}
	if r.Code != 0 {
		return mysqlerr.Error{Code: r.Code, State: r.State, Message: strings.Clone(r.Message)}
	}
	return nil
}
