// Package control decides what the agent of a node does. It is a state machine
// without input and output: it is told what is known (the machine, the kubelet's
// configuration, pods, usage, what the runtime says, what the control groups hold) and
// returns [Actions], which the caller carries out and reports back.
//
//	c.SetMachine(...), c.SetPods(...), ...   // what is known, in any order, any time
//	c.Observe(view)                          // what the kernel holds
//	actions := c.Decide(now)
//	c.Applied(actions.Carry(apply))
//
// # What is enforced
//
// Package nodeplan says what each tier, pod and container should have. The groups that
// exist are found by the ids of containers, which come from pods' statuses and, earlier,
// from the runtime. Groups that belong to no known container (sandboxes, pods that the
// API server does not know) are kept to the shared CPUs; their bandwidth is left alone.
// So is that of a pod whose resize is under way: its limit is the kubelet's to change,
// and at that moment the API does not say which of the two limits is in force.
//
// # Order
//
// Tiers and pods are widened first, then containers move in the order of
// [nodeplan.Steps], then pods are narrowed, then bandwidth follows. A container that could
// not be moved keeps its CPUs, and its pod does: nobody is given these in the same round
// when either side is to have them for itself.
//
// A pod's group has the shared CPUs and its containers', no others: what the runtime creates
// in it without asking, as sandboxes always and containers when the agent does not answer in
// time, has the CPUs of the pod's group.
//
// # Quota, period and burst
//
// They follow the plan, with three exceptions. While the kubelet resizes a pod, its quota is
// left alone, and only what the kernel would refuse the new one for is taken back: burst above
// it, and a raise. With [OwnerOther], a group of which somebody else has changed
// one of the three is theirs until it ends or its limit changes; of what is found at the
// start, what neither the kubelet nor an agent would have set is theirs as well. And quota may
// be raised for a while: the caller tells what it sees each tenth of a second or so,
//
//	for each of c.RaisedGroups(): c.See(group, settings)
//	changes, write := c.Raise(tick)
//	if write: Decide, Carry, Applied, as in a round
//
// and package burst decides. What it decided is part of the next plan, whatever that is made
// for, so that a round does not undo it and the pod's group has room for it. All writes of a
// container's bandwidth, also of others, are counted and charged at the next tick.
//
// # Words
//
// What annotations and labels say about bandwidth ("words") is within the ceilings of the
// configuration, and is adopted by the plan when the budgets of the pod's groups ([burst.Budget])
// pay for the writes; each write fills the kernel's bucket. Until then the words adopted before
// hold. The caller tells the usage that this depends on:
//
//	for each of c.Waiting(): c.Used(group, usage)
//	actions := c.Decide(now)
//
// At the start, and after a resize, what the groups hold counts as adopted.
//
// # Holding
//
// While something is not known without which any change could take CPUs from a
// running container (the pods have not been listed since the start, the kubelet has
// never been asked), nothing is changed: what an earlier agent has set stays in force.
//
// # Core sets after a restart
//
// The core sets in force are what the containers' groups hold, so they are read from
// there, and nothing of them is kept in a file.
//
// # Foreign writes
//
// What a group holds after a round is remembered. A setting that is different in the
// next observation was changed by somebody else; when the plan wants it back it is
// reported. The kernel's own part (version 1 takes offline CPUs out of every group) is
// no foreign write.
package control
