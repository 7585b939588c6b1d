package storage

// jobKind is how the queue treats the jobs of a type.
type jobKind struct {
	typ string
	// perShard: a job is for one (table, shard); Enqueue splits what is for several.
	// Others are one for all shards.
	perShard bool
	// perIndex: a job is for one index. Others are one for the table.
	perIndex bool
	// runsAs is the type by which jobs exclude each other, where it isn't their own.
	runsAs string
	// overflow is the type that a job of more than maxJobKeys keys becomes: a scan is
	// cheaper then. Jobs of types without it have no keys.
	overflow string
	// makesRoom: such jobs are made on a full disk, too.
	makesRoom bool
}

// jobKinds are all. What they do is in the indexer's table of the same name.
var jobKinds = [...]jobKind{
	{typ: MaintainIndex, perShard: true},
	{typ: VerifyKeys, perShard: true, overflow: MaintainIndex},
	{typ: Reconcile, perShard: true, runsAs: MaintainIndex},
	{typ: BuildIndex, perIndex: true},
	{typ: DropIndexJob, makesRoom: true},
}

// JobTypes are the types of the jobs that the queue knows.
func JobTypes() []string {
	types := make([]string, len(jobKinds))
	for i, k := range jobKinds {
		types[i] = k.typ
	}
	return types
}

// otherJobs are of a type that an older or newer version made.
var otherJobs jobKind

func kindOf(typ string) *jobKind {
	for i := range jobKinds {
		if jobKinds[i].typ == typ {
			return &jobKinds[i]
		}
	}
	return &otherJobs
}
