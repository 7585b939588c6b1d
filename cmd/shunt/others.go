package main

import (
	"context"
	"time"

	"github.com/shunt-sql/shunt/cluster"
)

// others are the other members, asked through the store. Members have no way to each other: their
// addresses are for people, and HTTP may be off, on loopback, or behind another token.
type others struct{ cluster *cluster.Shared }

// othersTime bounds how long others are asked, whatever hangs.
const othersTime = 4 * time.Second

// Ask is proxy.Others'.
func (o others) Ask(ctx context.Context, question []byte) (answers [][]byte, silent []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, othersTime)
	defer cancel()
	members, err := o.cluster.Members(ctx)
	if err != nil && len(members) == 0 {
		return nil, nil, err
	}
	var names []string
	at := map[string]string{}
	for _, m := range members {
		if m.Member != o.cluster.Self() {
			names, at[m.Member] = append(names, m.Member), m.Addr
		}
	}
	if len(names) == 0 {
		return nil, nil, nil
	}
	asked, err := o.cluster.Ask(ctx, question, names...)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range names {
		if a, ok := asked.Answers[m]; ok {
			answers = append(answers, a)
		} else if !o.cluster.Gone(ctx, m) {
			silent = append(silent, m+" at "+at[m])
		}
	}
	return answers, silent, nil
}

// AskOf is proxy.Others'.
func (o others) AskOf(ctx context.Context, connection uint32, question []byte) (answer []byte, silent string, untouched bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, othersTime)
	defer cancel()
	m, err := o.cluster.MemberOf(ctx, connection)
	if err != nil || m == "" || m == o.cluster.Self() || o.cluster.Gone(ctx, m) {
		return nil, "", false, err
	}
	asked, err := o.cluster.Ask(ctx, question, m)
	if err != nil {
		return nil, "", false, err
	}
	if a, ok := asked.Answers[m]; ok {
		return a, "", false, nil
	}
	if o.cluster.Gone(ctx, m) {
		return nil, "", false, nil
	}
	return nil, m, asked.Untouched, nil
}
