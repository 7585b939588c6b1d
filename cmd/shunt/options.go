package main

import (
	"log/slog"
	"path/filepath"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
	"github.com/shunt-sql/shunt/proxy"
	"github.com/shunt-sql/shunt/proxy/schema"
	"github.com/shunt-sql/shunt/proxy/shard"
	"github.com/shunt-sql/shunt/proxy/spool"
	"github.com/shunt-sql/shunt/storage"
)

// cursors has their rows beside the store, whose guard knows the disk's room; where the store
// isn't on this disk nobody does.
func cursors(cfg *config.Config, kept store) spool.Options {
	o := spool.Options{Dir: filepath.Join(cfg.DataDir, "cursors"), MaxBytes: cfg.CursorMaxBytes}
	if local, ok := kept.(*storage.Store); ok {
		o.Room = local.Room
	}
	return o
}

func limits(cfg *config.Config, log *slog.Logger) proxy.Limits {
	return proxy.Limits{Connections: withinFiles(cfg.MaxConnections, cfg, log), Prepared: cfg.MaxPreparedStatements, Packet: cfg.MaxAllowedPacket, SessionBytes: cfg.SessionMaxBytes, SessionsBytes: cfg.SessionsMaxBytes}
}

// statementLog is nil where none is wanted.
func statementLog(cfg *config.Config) *proxy.StatementLog {
	return (*proxy.StatementLog)(cfg.StatementLog)
}

func users(cfg *config.Config) map[string]proxy.User {
	out := map[string]proxy.User{}
	for _, u := range cfg.Users {
		out[u.Name] = proxy.User{
			Credential: u.Credential, Schemas: u.Schemas, ReadOnly: u.ReadOnly, RequireTLS: u.RequireTLS,
			MaxConnections: u.MaxConnections, MaxRate: u.MaxRate, MaxShardConnections: u.MaxShardConnections, ReadFromReplicas: u.ReadFromReplicas,
			FastVirtualColumns: u.FastVirtualColumns, FastIndexReads: u.FastIndexReads,
		}
	}
	return out
}

func placements(cfg *config.Config) schema.Placements {
	convert := func(t config.Table) schema.TablePlacement {
		return schema.TablePlacement{Placement: t.Placement, ShardKey: t.ShardKey, Shard: t.Shard, UniqueByShard: t.UniqueByShard}
	}
	out := schema.Placements{}
	for _, s := range cfg.Schemas {
		sp := schema.SchemaPlacement{Default: convert(s.Default), Tables: map[string]schema.TablePlacement{}}
		for _, t := range s.Tables {
			sp.Tables[t.Name] = convert(t)
		}
		out[s.Name] = sp
	}
	return out
}

func shardConfig(sh config.Shard) shard.Config {
	return shard.Config{Name: sh.Name, Addr: sh.Addr, User: sh.User, Password: sh.Password, TLS: sh.TLS.Client(), Target: &shard.Target{}}
}
